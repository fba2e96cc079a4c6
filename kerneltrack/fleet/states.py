"""Models as snapshots, many at once: what `model.encode` writes of each, in columns."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy.typing as npt

from kerneltrack import codec
from kerneltrack.fleet.models import Models, time_of
from kerneltrack.monitor import reference
from kerneltrack.monitor.drift import block as detectors
from kerneltrack.monitor.reference import block as references
from kerneltrack.snapshots.header import About
from kerneltrack.trackers.common.block import FixedBlock

Columns: TypeAlias = dict[str, npt.NDArray[Any]]


class States(NamedTuple):
    """Models at the end of their rows.

    Attributes:
        names: The models, in order.
        rows: Index of each one's next row.
        times: Time of each one's newest row, ns; None without times.
        headers: What the snapshots' headers hold.
        columns: Arrays of the trackers' states by name, (m, ...); of each its own if they grow.
        beside: Those of what works along with them, named as `codec` has them, of all of them.
        own: Of each those that others do not have, or of other lengths; empty if there are none.
    """

    names: list[str]
    rows: list[int]
    times: list[int | None]
    headers: list[str]
    columns: Columns | list[Columns]
    beside: Columns
    own: list[Columns]

    def arrays(self, place: int) -> Columns:
        """Return the arrays of one tracker's state."""
        if isinstance(self.columns, list):
            return self.columns[place]
        return {name: column[place] for name, column in self.columns.items()}

    def arrays_beside(self, place: int) -> Columns:
        """Return the arrays of what works along with one."""
        shared = {name: column[place] for name, column in self.beside.items()}
        return {**shared, **self.own[place]} if self.own else shared

    def encoded(self, place: int) -> bytes:
        """Return one as the bytes that `model.encode` writes."""
        arrays = {**self.arrays(place), **self.arrays_beside(place)}
        return codec.to_bytes(arrays, self.headers[place])


def states_of(models: Models) -> States:
    """Return models as they are at the end of the input."""
    rows = (models.before + models.seen).tolist()
    times = [time_of(time) for time in models.time]
    block = models.block
    columns: Columns | list[Columns]
    if isinstance(block, FixedBlock):
        columns = dict(block.columns)
    else:
        columns = [state._asdict() for state in block.states()]
    return States(
        list(models.keys),
        rows,
        times,
        _headers(models, rows, times),
        columns,
        _beside(models),
        _own_of_each(models),
    )


def _beside(models: Models) -> Columns:
    """Return the arrays of what works along with all models, by the codec's names."""
    work = models.work
    found: Columns = {}
    if work.drift is not None and models.drift is not None:
        found |= _named("drift", detectors.columns_of(work.drift, models.drift)._asdict())
    if models.moving is not None:
        found |= _named("moving", dict(models.moving.columns))
    if work.reference is not None and models.reference is not None and models.referred.all():
        columns = references.columns_of(work.reference, models.width, models.reference)
        found |= _named("reference", reference.storable(columns))
    return found


def _own_of_each(models: Models) -> list[Columns]:
    """Return the arrays that only one of the models has each; none if none has any."""
    shared = models.held is None and models.open is None and models.moving is None
    if shared and (models.reference is None or models.referred.all()):
        return []
    return [_own(models, place) for place in range(len(models))]


def _own(models: Models, place: int) -> Columns:
    """Return the arrays that only one of the models has, or of another length than others."""
    found: Columns = {}
    if models.held is not None and models.filled[place]:
        held = models.held
        found |= _named("held", {"values": held.values[place], "times": held.times[place]})
    if models.open is not None:
        found |= _named("open", models.open[place]._asdict())
    if models.moving is not None:
        found |= _named("moving", {"times": models.moving_times[place]})
    if models.reference is not None and not models.referred.all():
        state = models.reference_of(place)
        if state is not None:
            found |= _named("reference", reference.arrays(state))
    return found


def _named(part: str, arrays: Columns) -> Columns:
    return {f"{codec.BESIDE}{part}.{name}": array for name, array in arrays.items()}


def _headers(models: Models, rows: list[int], times: list[int | None]) -> list[str]:
    """Return the headers, as `codec` writes what `model.encode` says of a model."""
    work = models.work
    until = [time_of(time) for time in models.until]
    origins = models.origin if work.reference is not None else [""] * len(models)
    known = zip(models.keys, rows, times, until, models.before.tolist(), strict=True)
    return [
        codec.tracker_header(work.spec, work.writer.tracker(About(*about), True, origin))
        for about, origin in zip(known, origins, strict=True)
    ]
