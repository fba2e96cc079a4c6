"""A detector for Beam's `AnomalyDetection`: rows held against what a key's first rows were like.

Importing this module registers it: `AnomalyDetection(ReferenceDetector(features=[...]))`. Beam
hands rows to a detector as they arrive, keeps no order, and reads and writes the whole model with
each row: for a few keys and rows that come in order. `TrackSubspace(reference=...)` is the way
for fleets: it puts rows in order, finds episodes, and costs some microseconds a row.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.ml.anomaly.base import AnomalyDetector, ThresholdFn
from apache_beam.ml.anomaly.specifiable import Spec, Specifiable, specifiable
from apache_beam.ml.anomaly.thresholds import FixedThreshold

from kerneltrack import codec
from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import ReferenceSpec, ReferenceState
from kerneltrack.specs import spec_from_dict

CUTOFF = 4.0
"""Score above which a row is called odd by default: one normal row in 10,000 is."""
_WAITING = "first_rows"


@specifiable(spec_type="KernelReference")
class ReferenceDetector(AnomalyDetector):
    """How odd a row is compared with a key's first rows: -log₁₀ of the share of normal rows as odd.

    A score of 3 is one normal row in 1,000. Until `rows` rows have come it is NaN, "not ready"; of
    a row with a field that is missing or no number it is None, and nothing is learned of that.
    What the numbers rest on: `kerneltrack.monitor.reference`.

    Between two rows its state travels as bytes in the safetensors format; no object is pickled
    but its arguments.

    Args:
        rows: Rows at a key's start that are taken as normal.
        learning: "first" or "gated": whether rows that are not odd move the reference on.
        lags: Rows that are looked at together; 0: as many as suit the channels.
        rank: Dimension of the kernel subspace.
        budget: Rows that it stores.
        model_id: As of all detectors, like the three that follow.
        features: Fields of the channels; None: all that a key's first row has, which must be
            numbers.
        target: Not used.
        threshold_criterion: By default a score above 4.

    Raises:
        ConfigError: for an argument that is out of range.
    """

    # What `specifiable` keeps.
    init_kwargs: dict[str, Any]

    def __init__(  # noqa: PLR0913 - Beam's four beside ours
        self,
        *,
        rows: int = 512,
        learning: str = "first",
        lags: int = 0,
        rank: int = 10,
        budget: int = 20,
        model_id: str | None = None,
        features: Iterable[str] | None = None,
        target: str | None = None,
        threshold_criterion: ThresholdFn | None = None,
    ) -> None:
        # Beam ends a job at a row without one of the fields: they are taken here instead.
        self._channels = tuple(features or ())
        super().__init__(
            model_id=model_id,
            features=None,
            target=target,
            threshold_criterion=threshold_criterion or FixedThreshold(CUTOFF),
        )
        values = {"rows": rows, "learning": learning, "rank": rank, "budget": budget}
        self._spec = spec_from_dict(ReferenceSpec, {**values, "lags": lags or None})
        self._names: tuple[str, ...] = ()
        self._first: list[FloatArray] = []
        self._state: ReferenceState | None = None
        self._ahead: tuple[FloatArray, ReferenceState] | None = None

    def score_one(self, x: beam.Row) -> float | None:
        """Return how odd a row is; NaN before the reference is complete, None of a bad row."""
        values = self._values(x)
        if values is None:
            return None
        if self._state is None:
            return math.nan
        after, scores, _ = reference.update(self._spec, self._state, values[np.newaxis])
        # The row is learned next, most likely.
        self._ahead = values, after
        p = float(scores.p[0])
        # Among equal rows another one may have p = 0.
        return p if math.isnan(p) else -math.log10(max(p, sys.float_info.min))

    def learn_one(self, x: beam.Row) -> None:
        """Take a row in; a bad one leaves no trace."""
        values = self._values(x)
        if values is None:
            return
        if self._state is None:
            self._first.append(values)
            if len(self._first) == self._spec.rows:
                first = np.stack(self._first)
                state = reference.init(self._spec, first)
                self._state, _, _ = reference.update(self._spec, state, first)
                self._first = []
            return
        ahead, self._ahead = self._ahead, None
        if ahead is not None and np.array_equal(ahead[0], values):
            self._state = ahead[1]
        else:
            self._state, _, _ = reference.update(self._spec, self._state, values[np.newaxis])

    def _values(self, x: beam.Row) -> FloatArray | None:
        """Return a row's channels, None if one is missing or no number.

        Without `features` the first row's fields are the channels, in whatever order later rows
        have them.

        Raises:
            DataError: for a field that the first row did not have, without `features`.
        """
        fields = x._asdict()
        if not self._names:
            self._names = self._channels or tuple(fields)
        if self._channels:
            fields = {name: fields[name] for name in self._channels if name in fields}
        more = [name for name in fields if name not in self._names]
        if more:
            have, want = ", ".join(more), ", ".join(self._names)
            reason = f"has {have} besides the first one's {want}: name the channels by features="
            raise DataError("row", reason)
        try:
            values = np.array([float(fields[name]) for name in self._names])
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        return values if np.isfinite(values).all() else None

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how the detector is made again: its arguments, and its state as bytes."""
        # Beam runs `__init__` late, when a detector is first used.
        begun = "_state" in vars(self)
        return _restored, (self.init_kwargs, self.to_bytes() if begun else b"")

    def to_bytes(self) -> bytes:
        """Return the state, as `from_bytes` takes it."""
        width = len(self._names)
        arrays = {_WAITING: np.array(self._first).reshape(len(self._first), width)}
        if self._state is not None:
            arrays |= reference.arrays(self._state)
        about = {"version": 2, "names": list(self._names), "complete": self._state is not None}
        return codec.to_bytes(arrays, json.dumps(about))

    def from_bytes(self, data: bytes) -> None:
        """Go on from what `to_bytes` gave.

        Raises:
            DataError: for other bytes.
        """
        place = "state of a detector"
        text, arrays = codec.parts_of(data, place)
        try:
            about = json.loads(text)
            self._names = tuple(about["names"])
            self._first = list(arrays.pop(_WAITING))
            if about["complete"]:
                self._state = reference.from_arrays(self._spec, arrays)
        except (ConfigError, KeyError, TypeError, ValueError) as error:
            raise DataError(place, f"damaged: {error}") from error


class _SpecOfOurs(Spec):
    """A spec that brings this module along to a worker, which knows the detector then."""


def _to_spec(detector: Any) -> Spec:
    """Return a detector's spec."""
    plain = Specifiable.to_spec(detector)
    return _SpecOfOurs(plain.type, plain.config)


# `specifiable` has set its own, whose pickle names no module.
_Made: Any = ReferenceDetector
_Made.to_spec = _to_spec


def _restored(arguments: dict[str, Any], data: bytes) -> ReferenceDetector:
    """Return a detector that goes on from its bytes; without any, one that has seen nothing."""
    detector = ReferenceDetector(**arguments)
    if data:
        made: Any = detector
        made.run_original_init()
        detector.from_bytes(data)
    return detector


__all__: Sequence[str] = ("CUTOFF", "ReferenceDetector")
