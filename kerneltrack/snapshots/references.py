"""References that snapshots hold, for models that are held against those of another time or device.

What a folder of snapshots of a known good time says of a model, its rows of today are held against.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack import codec
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.limits import (
    TIME_LIMIT,
    check_finite,
    check_given,
    check_not_negative,
    check_whole,
)
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import ReferenceSpec, ReferenceState
from kerneltrack.monitor.reference.joint import check_joint_given
from kerneltrack.monitor.reference.paces import one_by_one
from kerneltrack.paths import whole
from kerneltrack.snapshots.files import ENDING, read_whole
from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.snapshots.header import read_about
from kerneltrack.specs import spec_from_dict

_MAKES_ONE = "holds no reference: `kerneltrack track --reference first` writes snapshots with one"
_FINITE = (
    *("shift", "memory", "mean", "scatter", "whitener", "scores", "calibration", "measured"),
    *("peaks", "blame", "sides", "stuck", "reals"),
)
"""A reference's reals: all but those of rows, which are none where it begins anew."""


class Given(NamedTuple):
    """A model's reference from a snapshot.

    Attributes:
        state: The reference, its evidence begun anew.
        origin: Hash of the snapshot's bytes.
    """

    state: ReferenceState
    origin: str


class GivenReferences:
    """The references of a folder of snapshots, or of one of its files.

    A model takes that of the snapshot of its own ID, the newest; without one that of the only
    model, where folder or file hold just one. A reference whose stretch was not complete counts as
    none. Picklable; a snapshot is read where its model begins.

    Args:
        place: A run's `snapshots` folder, or a .safetensors file.

    Raises:
        DataError: if it cannot be read, or holds no reference.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self._folder = None if place.endswith(ENDING) else SnapshotFolder(place)
        self._last: tuple[str, Given | None] | None = None
        if self._folder is not None:
            spec, models = self._folder.reference_spec, self._folder.models
            self._only = next(iter(models)) if len(models) == 1 else None
        else:
            snapshot = codec.decode(read_whole(place), place)
            found = reference_of(snapshot, place)
            spec = None if found is None else found[0]
            self._only = read_about(snapshot.header, place).model_id
        if spec is None:
            raise DataError(place, _MAKES_ONE)
        self.spec = spec

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was read last; workers look from where they are, not from here."""
        return {**self.__dict__, "place": whole(self.place), "_last": None}

    def digest(self) -> str:
        """Return a hash of what is there: the folder's index, or the file."""
        if self._folder is None:
            return _hash(read_whole(self.place))
        return self._folder.digest()

    def check(self, spec: ReferenceSpec) -> None:
        """Refuse settings that are not those of the references.

        Raises:
            ConfigError: naming the first that differs and its value there.
        """
        now = spec.to_dict()
        for name, value in self.spec.to_dict().items():
            if now[name] != value:
                before = "none" if value is None else repr(value)
                raise ConfigError(name, now[name], f"{before}, as in {self.place}")

    def check_width(self, width: int) -> None:
        """Refuse rows of other channels than the models have, as far as their number tells.

        Raises:
            ConfigError: naming both numbers.
            DataError: if the first model's snapshot cannot be read.
        """
        if self._folder is not None:
            self._folder.check_width(width)
            return
        known = len(codec.decode(read_whole(self.place), self.place).state.shift)
        if known != width:
            raise ConfigError("number of features", width, f"{known}, as in {self.place}")

    def of(self, model_id: str) -> Given | None:
        """Return the reference that a model of this ID is held against, None if there is none.

        Raises:
            DataError: if its snapshot cannot be read, or is damaged.
        """
        if self._folder is None:
            place: str | None = self.place
        else:
            place = self._folder.place(model_id, codec.TRACKER)
            if place is None and self._only is not None:
                model_id = self._only
                place = self._folder.place(model_id, codec.TRACKER)
        if place is None:
            return None
        if self._last is None or self._last[0] != place:
            self._last = place, self._read(place, model_id)
        return self._last[1]

    def _read(self, path: str, model_id: str) -> Given | None:
        if self._folder is None:
            data = read_whole(path)
        else:
            data = self._folder.state(model_id, codec.TRACKER) or b""
        found = reference_of(codec.decode(data, path), path)
        if found is None or found[0] != self.spec or not reference.ready(found[1]):
            return None
        return Given(reference.restarted(found[1]), _hash(data))


def reference_of(
    snapshot: codec.Snapshot, name: str
) -> tuple[ReferenceSpec, ReferenceState] | None:
    """Return the reference that a snapshot holds and its spec, None if it holds none.

    Raises:
        DataError: if it is damaged; `name` is where the snapshot came from.
    """
    return references_of([snapshot], [name])[0]


def references_of(
    snapshots: Sequence[codec.Snapshot], names: Sequence[str]
) -> list[tuple[ReferenceSpec, ReferenceState] | None]:
    """Return `reference_of` of many snapshots: those with the same settings are read together.

    Raises:
        DataError: if one is damaged; `names` are where the snapshots came from.
    """
    parts = [companions_of(snapshot.extras).get("reference") for snapshot in snapshots]
    found: list[tuple[ReferenceSpec, ReferenceState] | None] = [None] * len(parts)
    alike: dict[Any, list[int]] = {}
    for place, (snapshot, arrays) in enumerate(zip(snapshots, parts, strict=True)):
        if arrays is not None:
            settings = json.dumps(snapshot.header["about"].get("reference"))
            forms = tuple((name, array.shape, array.dtype) for name, array in arrays.items())
            alike.setdefault((settings, forms), []).append(place)

    def read(places: list[int]) -> None:
        settings = snapshots[places[0]].header["about"]
        try:
            spec = spec_from_dict(ReferenceSpec, settings["reference"])
            for place, state in zip(places, _states(spec, parts, places), strict=True):
                found[place] = spec, state
        except (ConfigError, KeyError, TypeError, ValueError, AttributeError) as error:
            if len(places) == 1:
                raise DataError(names[places[0]], f"damaged state: {error}") from error
            # One by one the damaged one says what is wrong with it.
            for place in places:
                read([place])

    for places in alike.values():
        read(places)
    return found


def _states(spec: ReferenceSpec, parts: Sequence[Any], places: list[int]) -> list[ReferenceState]:
    """Return the states of those of these arrays, which have the same forms."""
    if len(places) == 1:
        state = reference.from_arrays(spec, parts[places[0]])
        check_reference(state)
        return [state]
    stacked = {name: np.stack([parts[at][name] for at in places]) for name in parts[places[0]]}
    states = reference.from_arrays(spec, stacked, (len(places),))
    check_reference(states)
    return one_by_one(states)


def check_reference(state: ReferenceState) -> None:
    """Hold the numbers of a reference, or the columns of several, against the limits for another's.

    A number that is none would make a reference that finds nothing, without a word.

    Raises:
        ConfigError: naming the one that is beyond them.
    """
    tables = state.tables
    # No episode is open: -1, which `from_arrays` lets pass there alone.
    check_given("reference.counts", np.maximum(tables.counts, 0))
    check_whole("reference.times", tables.times, -TIME_LIMIT, TIME_LIMIT)
    for name in _FINITE:
        check_finite(f"reference.{name}", getattr(tables, name))
    check_not_negative("reference.reals, evidence", tables.reals[..., reference.EVIDENCES])
    check_given("reference.kernel.counts", state.kernel.counts)
    if state.second is not None and state.joint is not None:
        check_reference(state.second)
        check_joint_given(state.joint)


def companions_of(extras: Mapping[str, npt.NDArray[Any]]) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """Return the arrays beside a tracker's by what they are of."""
    parts: dict[str, dict[str, npt.NDArray[Any]]] = {}
    for full, array in extras.items():
        part, _, field = full.partition(".")
        parts.setdefault(part, {})[field] = array
    return parts


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
