"""The models of a bundle together: the common case of the keyed step, without a call for each.

What a bundle brings to many models, a row or a few each, goes through them as one block: their rows
are put in order together, their states lie side by side, and what comes out is one chunk, cut by
model. What is rare is left to the way of one model, a block of one: one that is new, begins, has
expired or was reset; rows that are late or too far ahead.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.fleet.events import next_of
from kerneltrack.fleet.model import NEVER, Work
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.run import run_models
from kerneltrack.monitor.reference import block as references
from kerneltrack.state_size import state_bytes
from kerneltrack.time_units import nanoseconds
from transforms.chunks import Chunk, pieces
from transforms.metrics import count
from transforms.track.clock import (
    Clock,
    comes_again,
    flush,
    may_release,
    progress,
    reach_of,
)
from transforms.track.emit import Output, Ran, emit
from transforms.track.keyed_fn import MOST_BYTES
from transforms.track.log import ModelLog, Waiting
from transforms.track.merge import merge_where
from transforms.track.order import KEEP, MERGE, Order
from transforms.track.packed import Packed, PackedBundle, checked, fits, unpack
from transforms.track.refusals import Refusals
from transforms.track.totals import count_totals

IntArray = npt.NDArray[np.int64]

MOST_ROWS = 65_536
"""Rows of a block at most, its last model's left out."""
MOST_OF_ONE = 16_384
"""Rows of one model in a block at most."""


@dataclasses.dataclass
class Visit:
    """What a bundle brings a model.

    Attributes:
        key: The model's ID.
        log: Its log.
        chunks: Rows that have come, in the order in which they came.
        flush: Whether rows that wait are taken although no newer ones have come.
    """

    key: str
    log: ModelLog
    chunks: list[Chunk] = dataclasses.field(default_factory=list)
    flush: bool = False


class _ReadyVisit(NamedTuple):
    """A visit whose rows were admitted, some of them ready.

    Attributes:
        visit: The visit.
        clock: The clock after them.
        until: Rows before this time, ns, are ready.
        chunks: These, and others if they are to be put in order with them.
        oldest: Least time of rows that stay where they are in the log, not among the chunks; None
            if all are among them and what is left is written anew.
    """

    visit: Visit
    clock: Clock
    until: int
    chunks: list[Chunk]
    oldest: int | None

    @classmethod
    def of(cls, order: Order, visit: Visit, clock: Clock) -> _ReadyVisit:
        """Look at what waits, and what came."""
        until, log = int(progress(order, clock)), visit.log
        if order.max_disorder > 0 and not visit.flush and log.leaves:
            return cls(visit, clock, until, *log.before(until, visit.chunks))
        return cls(visit, clock, until, [*log.waiting(), *visit.chunks], None)


class _TakenVisit(NamedTuple):
    """Rows of a block, each model's one after the other.

    Attributes:
        rows: The rows.
        owner: (n,) place of each one's model.
    """

    rows: Chunk
    owner: IntArray

    def of(self, keep: npt.NDArray[np.bool_]) -> _TakenVisit:
        """Return the rows that are to be kept."""
        if keep.all():
            return self
        return _TakenVisit(self.rows.take(np.flatnonzero(keep)), self.owner[keep])

    def of_models(self, keep: npt.NDArray[np.bool_]) -> _TakenVisit:
        """Return the rows of the models, (m,), that are to be kept; others take their places."""
        part = self.of(keep[self.owner])
        return _TakenVisit(part.rows, (np.cumsum(keep) - 1)[part.owner])

    def starts(self, models: int) -> IntArray:
        """Return where each model's rows begin, and the end, (models + 1,)."""
        found: IntArray = np.searchsorted(self.owner, np.arange(models + 1))
        return found


def run_together(
    refusals: Refusals, visits: Sequence[Visit]
) -> Generator[Output, None, list[Visit]]:
    """Run what came for models, and write it into their logs, not yet into the runner's state.

    Args:
        refusals: Says why rows are refused: of what is done with rows, and how they are put in
            order.
        visits: What came; no two are of one model.

    Yields:
        What comes of the rows, of each model its own.

    Returns:
        The visits that must go one by one; their logs are as they were.

    Raises:
        DataError: for a state that is damaged.
    """
    work, order = refusals.work, refusals.order
    one_by_one: list[Visit] = []
    ready: list[_ReadyVisit] = []
    for visit in visits:
        clock = _admitted(order, visit)
        releases = clock is not None and may_release(order, clock, work.rows_to_start)
        if clock is None or (releases and not clock.started):
            one_by_one.append(visit)
        elif releases:
            each = _ReadyVisit.of(order, visit, clock)
            if each.chunks:
                ready.append(each)
            else:
                one_by_one.append(visit)
        elif not visit.flush:
            for chunk in visit.chunks:
                visit.log.add(chunk)
            visit.log.put_clock(clock)
    for part in _blocks_of(work, ready):
        one_by_one += yield from _run_block(refusals, part)
    return one_by_one


def _admitted(order: Order, visit: Visit) -> Clock | None:
    """Return the clock after a visit's rows, None if they must be looked at one by one."""
    log, clock = visit.log, visit.log.clock
    if clock is None or clock.newest is None or clock.ahead:
        return None
    if log.spilled or (clock.started and not log.has_model):
        return None
    reach = reach_of(order, clock)
    for chunk in visit.chunks:
        span = _span(order, chunk)
        if span is None:
            return None
        first, last = span
        newest = clock.newest or 0
        if last - newest > reach or first < progress(order, clock):
            return None
        if clock.learned is not None and first < clock.learned:
            return None
        clock = clock._replace(
            newest=max(newest, last),
            oldest=min(clock.oldest, first),
            waiting=clock.waiting + len(chunk),
        )
    return flush(clock) if visit.flush else clock


def _span(order: Order, chunk: Chunk) -> tuple[int, int] | None:
    """Return the least and greatest time of a chunk's rows, None if one may be late among them."""
    if not chunk.has("time") or not len(chunk):
        return None
    times = chunk.column("time")
    if len(times) == 1:
        return int(times[0]), int(times[0])
    first, last = int(times.min()), int(times.max())
    if last - first > nanoseconds(order.max_disorder):
        source, row = chunk.column("source"), chunk.column("row")
        if (times[1:] < times[:-1]).any() or (row[1:] <= row[:-1]).any():
            return None
        if (source != source[0]).any():
            return None
    return first, last


def _blocks_of(work: Work, ready: Sequence[_ReadyVisit]) -> Iterator[list[_ReadyVisit]]:
    """Cut visits into blocks."""
    if not ready:
        return
    width = ready[0].chunks[0].schema.field("x").type.list_size
    least = state_bytes(work.spec, width)
    if work.reference is not None:
        least += references.bytes_of(work.reference, width)
    part: list[_ReadyVisit] = []
    rows, size = 0, 0
    for each in ready:
        own = max(least, each.visit.log.model_bytes)
        if part and (rows >= MOST_ROWS or size + own > MOST_BYTES):
            yield part
            part, rows, size = [], 0, 0
        part.append(each)
        rows += sum(map(len, each.chunks))
        size += own
    if part:
        yield part


def _run_block(
    refusals: Refusals, ready: list[_ReadyVisit]
) -> Generator[Output, None, list[Visit]]:
    """Run the rows of a block that are ready."""
    work, order = refusals.work, refusals.order
    waiting = _gathered(order, ready)
    if waiting is None:
        return [each.visit for each in ready]
    width = waiting.rows.schema.field("x").type.list_size
    found = _packed(work, ready, width)
    released, rest = _released(order, ready, waiting)
    many = np.diff(released.starts(len(ready)))
    good = np.array([each is not None for each in found]) & (many <= MOST_OF_ONE)
    one_by_one = list(itertools.compress((each.visit for each in ready), (~good).tolist()))
    if not good.any():
        return one_by_one
    if one_by_one:
        released, rest = released.of_models(good), rest.of_models(good)
        ready = list(itertools.compress(ready, good.tolist()))
        found = list(itertools.compress(found, good.tolist()))
    taken = np.diff(released.starts(len(ready)))
    released = _without_duplicates(order, released)
    heads = [each for each in found if each is not None]
    packed = PackedBundle(work, [each.visit.key for each in ready], heads, width)
    edges = released.starts(len(ready))
    yield from _run(refusals, packed.models, released.rows, edges, [each.until for each in ready])
    _write(work, ready, packed, rest, taken)
    return one_by_one


def _run(
    refusals: Refusals, models: Models, rows: Chunk, edges: IntArray, until: list[int]
) -> Iterator[Output]:
    """Run rows through their models; return what comes of them."""
    starts, stops = edges[:-1], edges[1:]
    before = models.block.column("counts").copy()
    found = run_models(models, rows.column("x"), rows.column("time"), starts, stops, until)
    count_totals(refusals.work.spec, before, models.block.column("counts"))
    yield from emit(refusals, Ran(models, rows, starts, stops, found), lags=True)


def _gathered(order: Order, ready: Sequence[_ReadyVisit]) -> _TakenVisit | None:
    """Return all rows of a block in order, None if their columns differ."""
    chunks = [each.chunks for each in ready]
    schemas = [part.schema for parts in chunks for part in parts]
    schema = schemas[0]
    if any(other is not schema and other != schema for other in schemas):
        return None
    rows = Chunk.concat([part for parts in chunks for part in parts])
    lengths = [sum(map(len, parts)) for parts in chunks]
    owner = np.repeat(np.arange(len(ready)), lengths)
    if order.max_disorder > 0:
        names = [name for name in ("row", "source", "sequence", "time") if rows.has(name)]
        sort = np.lexsort([*(rows.column(name) for name in names), owner])
        if (sort[1:] < sort[:-1]).any():
            rows = rows.take(sort)
    return _TakenVisit(rows, owner)


def _released(
    order: Order, ready: Sequence[_ReadyVisit], waiting: _TakenVisit
) -> tuple[_TakenVisit, _TakenVisit]:
    """Split rows into those that are ready and the rest."""
    if order.max_disorder == 0:
        none = np.zeros(len(waiting.owner), dtype=np.bool_)
        return waiting, waiting.of(none)
    until = np.array([each.until for each in ready])
    taken = waiting.rows.column("time") < until[waiting.owner]
    return waiting.of(taken), waiting.of(~taken)


def _without_duplicates(order: Order, released: _TakenVisit) -> _TakenVisit:
    """Return the rows as the order has those of one model and time: all, one, or merged."""
    if order.duplicates == KEEP or not len(released.owner):
        return released
    rows, owner = released
    first = np.r_[True, owner[1:] != owner[:-1]]
    if order.duplicates == MERGE:
        times = rows.column("time")
        new = first | np.r_[True, times[1:] != times[:-1]]
        merged = merge_where(rows, new)
        merged.add_to_counters()
        return _TakenVisit(merged.rows, owner[new])
    again = comes_again(rows) & ~first
    count("rows_duplicate", int(again.sum()))
    return released.of(~again)


def _packed(work: Work, ready: Sequence[_ReadyVisit], width: int) -> list[Packed | None]:
    """Return the models as blocks, None in place of those of rows of another width.

    Raises:
        DataError: for a state that is damaged.
    """
    found: list[Packed | None] = []
    unknown: dict[int, Packed] = {}
    for place, (visit, *_) in enumerate(ready):
        model = visit.log.packed
        if model is None:
            raise ValueError("a model that has not begun")
        fitting = fits(work, model, width)
        if not (fitting or model.known):
            unpack(work, model, f"state of model {visit.key!r}")
        if fitting and not model.known:
            unknown[place] = model
        found.append(model if fitting else None)
    names = [f"state of model {ready[place].visit.key!r}" for place in unknown]
    for place, sound in zip(unknown, checked(work, names, [*unknown.values()], width), strict=True):
        found[place] = sound
    return found


def _write(
    work: Work,
    ready: Sequence[_ReadyVisit],
    packed: PackedBundle,
    rest: _TakenVisit,
    taken: IntArray,
) -> None:
    """Write what became of models into their logs; `taken`: rows that left them, (m,)."""
    models = packed.models
    starts = rest.starts(len(ready)).tolist()
    times = rest.rows.column("time")
    left_over = pieces(rest.rows.batch, starts[1:])
    lines = zip(ready, packed.after([each.until for each in ready]), taken.tolist(), strict=True)
    for place, (each, (after, changed), gone) in enumerate(lines):
        start, stop, log = starts[place], starts[place + 1], each.visit.log
        oldest = each.oldest
        if oldest is not None:
            log.append(after, [Waiting.of(chunk) for chunk in each.visit.chunks], changed)
        elif stop > start:
            oldest = int(times[start])
            left = Waiting(left_over[place], oldest, int(times[stop - 1]))
            log.release(after, left, changed)
        else:
            oldest = NEVER
            log.release(after, None, changed)
        known = None if models.open is None else models.open[place]
        due = next_of(work, known, after.time, after.until)
        waiting = each.clock.waiting - gone
        log.put_clock(each.clock._replace(waiting=waiting, oldest=oldest, due=due))
