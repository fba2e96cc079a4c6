"""What goes along with trackers, declared once: its beginning, its columns, its part of snapshots.

What rows do to a companion, and what comes of that, is in `run`. Whatever else knows companions
goes through `COMPANIONS`: models that begin, stand side by side, are written to snapshots and go on
from them. A companion's columns of m models are fields of `Models`, its value of one model fields
of `Model`; both go by name here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.fleet.forward_fill import LastValues
from kerneltrack.fleet.windows import OpenWindows
from kerneltrack.limits import TIME_LIMIT, check_given, check_whole, copies_like, whole
from kerneltrack.monitor import drift, reference
from kerneltrack.monitor.drift import DriftState
from kerneltrack.monitor.drift import block as detectors
from kerneltrack.monitor.reference import paces as references
from kerneltrack.snapshots.references import check_reference
from kerneltrack.trackers.common.block import Block

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]
Fields: TypeAlias = dict[str, Any]
"""Values of fields by name."""
Asking: TypeAlias = Any
"""A `Work` that asks for the companion."""
Side: TypeAlias = Any
"""`Models` that have it."""

NO_ROWS: npt.NDArray[np.int64] = np.zeros(0, np.int64)
"""Times of no rows."""


class FirstRows(NamedTuple):
    """What m models begin with.

    Attributes:
        keys: Their IDs.
        block: The trackers' states.
        rows: (n, D), finite.
        starts: (m,) place of each one's first row.
        stops: (m,) place after the last of its first rows, at least one.
    """

    keys: Sequence[str]
    block: Block[Any]
    rows: npt.NDArray[np.float64]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Companion:
    """Something that goes along with the trackers of m models; one model is m = 1.

    Attributes:
        name: Its field of `Model`, and its part of a snapshot.
        asked_by: Attribute of `Work` that is None without it.
        settings: Attribute of `Work` that a snapshot's header has as well: with other settings the
            companion begins anew. "" if it goes on whatever they are.
        begin: Returns the columns of models that begin.
        join: Returns those of m `Model`s, copied, of rows of D channels.
        one: Returns the value of the model at a place, its arrays those of the columns.
        columns: Returns those arrays of snapshots that all models have, (m, ...) by name.
        own: Returns the other arrays of one model's snapshot.
        read: Returns the values of models by their trackers' states and the arrays of their
            snapshots, which are another's or not (see `codec.decode`). Raises ConfigError or
            ValueError if one of them is damaged.
        size: Bytes of a model's value, for rows of D channels, if they are worth counting.
    """

    name: str
    asked_by: str
    settings: str = ""
    begin: Callable[[Asking, FirstRows], Fields]
    join: Callable[[Asking, int, Sequence[Any]], Fields]
    one: Callable[[Side, int], Fields]
    columns: Callable[[Side], Arrays] = lambda models: {}
    own: Callable[[Side, int], Arrays] = lambda models, place: {}
    read: Callable[[Asking, Sequence[Any], Sequence[Arrays], bool], list[Fields]]
    size: Callable[[Asking, int], int] = lambda work, width: 0

    def __reduce__(self) -> str:
        """Return the name of its declaration: pickled by that."""
        return self.name.upper()


def _one_by_one(
    read: Callable[[Asking, Any, Arrays], Fields],
) -> Callable[[Asking, Sequence[Any], Sequence[Arrays], bool], list[Fields]]:
    """Return a companion's `read`, by what reads one model's."""
    return lambda work, states, arrays, given: [
        read(work, state, each) for state, each in zip(states, arrays, strict=True)
    ]


def _stacked(part: str, arrays: Sequence[Arrays]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of m models by name, (m, ...).

    Raises:
        ConfigError: if they are not the same ones of all.
        ValueError: if they have several shapes.
    """
    if any(each.keys() != arrays[0].keys() for each in arrays):
        raise ConfigError(part, "other arrays", "the same ones of all")
    if len(arrays) == 1:
        return {name: array[np.newaxis] for name, array in arrays[0].items()}
    return {name: np.stack([each[name] for each in arrays]) for name in arrays[0]}


def _join_held(work: Asking, width: int, known: Sequence[Any]) -> Fields:
    values, times = LastValues.none(len(known), width)
    filled = np.array([model.last_values is not None for model in known])
    for place in np.flatnonzero(filled).tolist():
        values[place], times[place] = known[place].last_values
    return {"last_values": LastValues(values, times), "filled": filled}


def _one_held(models: Side, place: int) -> Fields:
    last = LastValues(*(column[place] for column in models.last_values))
    return {"last_values": last if models.filled[place] else None}


def _read_held(work: Asking, state: Any, arrays: Arrays) -> Fields:
    last = LastValues(**copies_like("held", arrays, LastValues.layout(len(state.shift))))
    check_whole("held.times", last.times, -TIME_LIMIT, TIME_LIMIT)
    return {"last_values": last}


HELD = Companion(
    name="held",
    asked_by="hold",
    begin=lambda work, first: {
        "last_values": LastValues.none(len(first.keys), first.block.width),
        "filled": np.zeros(len(first.keys), np.bool_),
    },
    join=_join_held,
    one=_one_held,
    own=lambda models, place: (
        _one_held(models, place)["last_values"]._asdict() if models.filled[place] else {}
    ),
    read=_one_by_one(_read_held),
)
"""What each channel showed last."""

OPEN = Companion(
    name="open",
    asked_by="windows",
    settings="measure",
    begin=lambda work, first: {"open": [OpenWindows.none(first.block.width)] * len(first.keys)},
    join=lambda work, width, known: {
        "open": [model.open or OpenWindows.none(width) for model in known]
    },
    one=lambda models, place: {"open": models.open[place]},
    own=lambda models, place: models.open[place]._asdict(),
    read=_one_by_one(
        lambda work, state, arrays: {
            "open": OpenWindows.from_arrays(arrays, work.measure, len(state.shift), state.n)
        }
    ),
)
"""Windows of event time that are open."""


def _moving(work: Asking, windows: Sequence[Any], times: Sequence[Any]) -> Fields:
    return {"moving": work.window.pack(work.spec, windows), "moving_times": [*times]}


def _begin_moving(work: Asking, first: FirstRows) -> Fields:
    windows = [work.window.init(work.spec, state) for state in first.block.states()]
    return _moving(work, windows, [NO_ROWS for _ in windows])


def _read_moving(work: Asking, state: Any, arrays: Arrays) -> Fields:
    rest = dict(arrays)
    stamps = {"times": rest.pop("times")}
    times = copies_like("moving", stamps, {"times": whole(0)}, ("times",))["times"]
    check_whole("moving.times", times, -TIME_LIMIT, TIME_LIMIT)
    return {"moving": work.window.from_arrays(work.spec, state, rest), "moving_times": times}


MOVING = Companion(
    name="moving",
    asked_by="window",
    settings="measure",
    begin=_begin_moving,
    join=lambda work, width, known: _moving(
        work, [model.moving for model in known], [model.moving_times for model in known]
    ),
    one=lambda models, place: {
        "moving": models.moving.state(place),
        "moving_times": models.moving_times[place],
    },
    columns=lambda models: dict(models.moving.columns),
    own=lambda models, place: {"times": models.moving_times[place]},
    read=_one_by_one(_read_moving),
)
"""The moving window of rows, and the times of these."""


def _read_drift(
    work: Asking, states: Sequence[Any], arrays: Sequence[Arrays], given: bool
) -> list[Fields]:
    found = drift.from_arrays(work.drift, _stacked("drift", arrays), (len(arrays),))
    if given:
        check_given("drift.counts", found.counts)
    return [{"drift": DriftState(*each)} for each in zip(*found, strict=True)]


DRIFT = Companion(
    name="drift",
    asked_by="drift",
    settings="drift",
    begin=lambda work, first: {"drift": detectors.begin_each(work.drift, len(first.keys))},
    join=lambda work, width, known: {
        "drift": detectors.joined_states(work.drift, [model.drift for model in known])
    },
    one=lambda models, place: {"drift": detectors.state_at(models.work.drift, models.drift, place)},
    columns=lambda models: detectors.columns_of(models.work.drift, models.drift)._asdict(),
    read=_read_drift,
    size=lambda work, width: detectors.places_of(work.drift).size,
)
"""The drift detector."""


def _references(work: Asking, width: int, states: Sequence[Any], origin: list[str]) -> Fields:
    columns = references.joined_states(work.reference, width, states)
    referred = np.array([state is not None for state in states])
    return {"reference": columns, "referred": referred, "origin": origin}


def _begin_references(work: Asking, first: FirstRows) -> Fields:
    if work.given is None:
        made = references.begin(work.reference, first.rows, first.starts, first.stops)
        referred = np.ones(len(first.keys), np.bool_)
        return {"reference": made, "referred": referred, "origin": [""] * len(referred)}
    given = [work.given.of(key) for key in first.keys]
    states = [None if each is None else each.state for each in given]
    origin = ["" if each is None else each.origin for each in given]
    return _references(work, first.block.width, states, origin)


def _columns_of_references(models: Side) -> Arrays:
    if not models.referred.all():
        return {}
    spec, blocks = models.work.reference, models.reference
    return references.stored_columns(spec, models.width, blocks)


def _own_reference(models: Side, place: int) -> Arrays:
    state = None if models.referred.all() else models.reference_of(place)
    return {} if state is None else reference.arrays(state)


def _read_references(
    work: Asking, states: Sequence[Any], arrays: Sequence[Arrays], given: bool
) -> list[Fields]:
    of_all = _stacked("reference", arrays)
    found = reference.from_arrays(work.reference, of_all, (len(arrays),))
    if given:
        check_reference(found)
    return [{"reference": state} for state in references.one_by_one(found)]


REFERENCE = Companion(
    name="reference",
    asked_by="reference",
    settings="reference",
    begin=_begin_references,
    join=lambda work, width, known: _references(
        work, width, [model.reference for model in known], [model.origin for model in known]
    ),
    one=lambda models, place: {
        "reference": models.reference_of(place),
        "origin": models.origin[place],
    },
    columns=_columns_of_references,
    own=_own_reference,
    read=_read_references,
    size=lambda work, width: references.bytes_of(work.reference, width),
)
"""What rows are held against."""

COMPANIONS = (HELD, OPEN, MOVING, DRIFT, REFERENCE)
"""All that may go along with a tracker."""
