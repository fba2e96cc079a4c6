"""Models as snapshots, many at once: in columns. One model is m = 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy.typing as npt

from kerneltrack import codec
from kerneltrack.fleet.companions import Arrays
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.models import Models, time_of
from kerneltrack.snapshots.header import About
from kerneltrack.trackers.common.block import Block

Columns: TypeAlias = dict[str, npt.NDArray[Any]]


class States(NamedTuple):
    """Models at the end of their rows.

    Attributes:
        names: The models, in order.
        rows: Index of each one's next row.
        times: Time of each one's newest row, ns; None without times.
        headers: What the snapshots' headers hold.
        block: The trackers' states.
        extras: Those of what works along with them, named as `codec` has them, of all of them.
        own: Of each those that others do not have, or of other lengths; empty if there are none.
    """

    names: list[str]
    rows: list[int]
    times: list[int | None]
    headers: list[str]
    block: Block[Any]
    extras: Columns
    own: list[Columns]

    def arrays(self, place: int) -> Columns:
        """Return the arrays of one tracker's state."""
        arrays: Columns = self.block.state(place)._asdict()
        return arrays

    def more_arrays(self, place: int) -> Columns:
        """Return the arrays of what works along with one."""
        shared = {name: column[place] for name, column in self.extras.items()}
        return {**shared, **self.own[place]} if self.own else shared

    def encoded(self, place: int) -> bytes:
        """Return one as bytes."""
        arrays = {**self.arrays(place), **self.more_arrays(place)}
        return codec.to_bytes(arrays, self.headers[place])


def encode(work: Work, key: str, model: Model, final: bool = False) -> bytes:
    """Write a model as bytes: all of its working state, so that it goes on as if never stopped.

    Args:
        work: What is done with its rows.
        key: Its ID.
        model: Its state.
        final: Whether the input has ended.
    """
    return states_of(Models.of(work, [key], [model]), final).encoded(0)


def states_of(models: Models, final: bool = True) -> States:
    """Return models as they are; `final`: at the end of their input."""
    work = models.work
    rows = (models.before + models.seen).tolist()
    times, until = ([time_of(one) for one in column] for column in (models.time, models.until))
    known = zip(models.keys, rows, times, until, models.before.tolist(), strict=True)
    origins = models.origin or [""] * len(models)
    headers = [
        codec.tracker_header(work.spec, work.writer.tracker(About(*about), final, origin))
        for about, origin in zip(known, origins, strict=True)
    ]
    extras = _named({each.name: each.columns(models) for each in work.companions})
    own = [
        _named({each.name: each.own(models, place) for each in work.companions})
        for place in range(len(models) if work.companions else 0)
    ]
    return States(list(models.keys), rows, times, headers, models.block, extras, own)


def _named(parts: Mapping[str, Arrays]) -> Columns:
    """Return the arrays of companions by the codec's names."""
    return {
        f"{codec.EXTRA}{part}.{name}": array
        for part, arrays in parts.items()
        for name, array in arrays.items()
    }
