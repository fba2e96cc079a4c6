"""River's interfaces: features and a detector that learn one row, a dict, at a time.

In the first `warmup` rows nothing is known yet: features and scores are 0. Channels are the names
that these rows have; one that is missing later counts as 0, as absent features do in River, and
names that come up later are ignored.
"""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from river import base

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.registry import parse_spec
from kerneltrack.tracker import Tracker

FloatArray = npt.NDArray[np.float64]

# Before River 0.24 it was somewhere else.
_Detector: Any = (
    base.AnomalyDetector
    if hasattr(base, "AnomalyDetector")
    else importlib.import_module("river.anomaly.base").AnomalyDetector
)


class _Subspace(base.Estimator):
    """What both share: rows in, a tracker that learns them."""

    def __init__(
        self,
        tracker: str = "okfeb",
        rank: int = 10,
        budget: int = 20,
        warmup: int = 500,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.tracker = tracker
        self.rank = rank
        self.budget = budget
        self.warmup = warmup
        self.settings = settings
        values = {"tracker": tracker, "rank": rank, "budget": budget, "warmup": warmup}
        self._model = Tracker(parse_spec({**values, **(settings or {})}))
        self._first: list[dict[Any, float]] = []
        self._names: tuple[Any, ...] = ()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"rank": 4, "budget": 8, "warmup": 20}
        yield {"tracker": "covariance", "rank": 4, "budget": 8, "warmup": 20}

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Learn a row.

        Args:
            x: Numbers by name.

        Raises:
            ConfigError: for a value that is no number.
            DataError: for one that is not finite; nothing is learned of the row then.
        """
        if self._model.started:
            self._model.learn(self._row(x))
            return
        self._first.append({name: _number(name, value) for name, value in x.items()})
        if len(self._first) >= self._model.spec.rows_to_start:
            self._names = tuple(sorted({name for row in self._first for name in row}, key=str))
            for row in self._first:
                self._model.learn(self._row(row))
            self._first = []

    def _row(self, x: Mapping[Any, Any]) -> list[float]:
        return [_number(name, x[name]) if name in x else 0.0 for name in self._names]


def _number(name: Any, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"feature {name!r}", value, "a number") from error
    if not np.isfinite(number):
        raise DataError("row", f"feature {name!r} is {number}")
    return number


class SubspaceFeatures(_Subspace, base.Transformer):
    """Nonlinear features of rows: their coordinates in a kernel subspace that follows them.

    What `kerneltrack.Tracker` learns; `transform_one` projects on the subspace as it is. So
    `SubspaceFeatures() | linear_model.LogisticRegression()` is a nonlinear learner whose memory
    does not grow.

    Args:
        tracker: Name of the tracker.
        rank: Features.
        budget: Rows that it stores at most.
        warmup: First rows, which scale and bandwidth are taken from.
        settings: Further settings of the tracker by name.

    Example:
        >>> from river import linear_model
        >>> model = SubspaceFeatures(rank=5, warmup=100) | linear_model.LogisticRegression()
        >>> right = 0
        >>> for a, b in np.random.default_rng(0).normal(size=(2000, 2)).tolist():
        ...     x, y = {"a": a, "b": b}, a * a + b * b > 1.4
        ...     right += model.predict_one(x) == y
        ...     model.learn_one(x, y)
        >>> right > 1300
        True
    """

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Hashable, Any]:
        """Return the features of a row, z0, z1, ..., without learning it."""
        spec = self._model.spec
        said = self._model.look(self._row(x)) if self._model.started else None
        values = [0.0] * spec.rank if said is None else said.z.tolist()
        return {f"{spec.emit}{place}": value for place, value in enumerate(values)}


class SubspaceDetector(_Subspace, _Detector):  # type: ignore[misc]
    """How badly the subspace of the rows so far explains a row.

    The score is the rank of its fitting error among the last ones, from 0 to 1. It follows the
    stream, so that what lasts becomes usual; `kerneltrack.monitor.ReferenceDetector` holds rows
    against a fixed stretch.

    Args:
        tracker: Name of the tracker.
        rank: Dimension of the subspace.
        budget: Rows that it stores at most.
        warmup: First rows, which scale and bandwidth are taken from.
        settings: Further settings of the tracker by name.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> detector = SubspaceDetector(rank=4, warmup=100)
        >>> for a, b in rng.normal(size=(400, 2)):
        ...     detector.learn_one({"a": a, "b": b})
        >>> detector.score_one({"a": 9.0, "b": -9.0}) > 0.9
        True
    """

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return how odd a row is, from 0 to 1, without learning it; 0 in the warm-up."""
        said = self._model.look(self._row(x)) if self._model.started else None
        return 0.0 if said is None else said.novelty
