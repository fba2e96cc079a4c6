"""What a bundle brings to models: taken in by their clocks, and run as blocks of models.

Rows are put in order together, the states lie side by side, and what comes out is one chunk, cut by
model: a model costs no call of its own. One model is a block of one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import IntArray
from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.clock import NO_TIME
from kerneltrack.fleet.events import next_of
from kerneltrack.fleet.model import NEVER, Work
from kerneltrack.monitor.reference import paces as references
from kerneltrack.state_size import state_bytes
from kerneltrack.trackers.common.loop import matrix_of
from transforms.chunks import IN_ORDER, Chunk, no_rows, pieces
from transforms.read.files import is_sorted
from transforms.track.arrival import Visit, clock_after, take_in
from transforms.track.clock import (
    Clock,
    flush,
    may_release,
    progress,
    still_waiting,
    without_duplicates,
)
from transforms.track.devices import tell_new
from transforms.track.emit import Output, emit
from transforms.track.keyed_fn import MOST_BYTES
from transforms.track.log import Waiting
from transforms.track.order import Order
from transforms.track.packed import Packed, PackedBundle, checked, fit_each, pack, unpack
from transforms.track.periods import tell_periods
from transforms.track.refusals import Refusals
from transforms.track.slices import SLICE_ROWS, run_slices

MOST_ROWS = 65_536
"""Rows of a block at most, its last model's left out."""


class _ReadyVisit(NamedTuple):
    """A visit whose rows were admitted, some of them ready.

    Attributes:
        visit: The visit.
        clock: The clock after them.
        until: Rows before this time, ns, are ready.
        chunks: These, and others if they are to be put in order with them.
        oldest: Least time of rows that stay where they are in the log, not among the chunks; None
            if all are among them and what is left is written anew.
        rows: How many rows the chunks have.
    """

    visit: Visit
    clock: Clock
    until: int
    chunks: list[Chunk]
    oldest: int | None
    rows: int

    @classmethod
    def of(cls, order: Order, visit: Visit, clock: Clock, past: float) -> _ReadyVisit:
        """Look at what waits, and what came; `past`: the clock's progress."""
        log, until = visit.log, NO_TIME if past == -math.inf else int(past)
        stays = log.leaves and log.has_model and not log.spilled
        oldest = None
        if order.max_disorder > 0 and not visit.flush and stays:
            chunks, oldest = log.before(until, visit.chunks)
        else:
            chunks = [*log.drain(), *visit.chunks]
        if not chunks:
            # A window ends, or a snapshot is due.
            chunks = [visit.chunks[0].slice(0, 0) if visit.chunks else no_rows(log.width)]
        return cls(visit, clock, until, chunks, oldest, sum(map(len, chunks)))

    @property
    def width(self) -> int:
        """Channels of the rows."""
        width: int = self.chunks[0].schema.field("x").type.list_size
        return width


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


def run_visits(refusals: Refusals, visits: Iterable[Visit]) -> Iterator[Output]:
    """Run what came for models, and write it into their logs, not yet into the runner's state.

    Args:
        refusals: Says why rows are refused: of what is done with rows, and how they are put in
            order.
        visits: What came; no two are of one model.

    Yields:
        What comes of the rows, of each model its own.

    Raises:
        DataError: for a state that is damaged.
    """
    work, order = refusals.work, refusals.order
    block, rows_to_start = _Block(work), work.rows_to_start
    for visit in visits:
        clock = clock_after(order, visit)
        if clock is None:
            clock = yield from take_in(refusals, visit)
        if visit.flush:
            clock = flush(clock)
        past = progress(order, clock)
        if may_release(order, clock, past, rows_to_start):
            each = _ReadyVisit.of(order, visit, clock, past)
            if not block.take(each):
                yield from _run_block(refusals, block.ready)
                block = _Block(work)
                block.take(each)
        elif not visit.flush:
            for chunk in visit.chunks:
                visit.log.add(chunk)
            visit.log.put_clock(clock)
    if block.ready:
        yield from _run_block(refusals, block.ready)


class _Block:
    """Visits whose rows run together: those of the same columns, as many as there is memory for.

    One with more rows than a slice has is a block of its own.
    """

    def __init__(self, work: Work) -> None:
        self.ready: list[_ReadyVisit] = []
        self._work = work
        self._least, self._rows, self._size = 0, 0, 0

    def take(self, each: _ReadyVisit) -> bool:
        """Take a visit, if it may go with those that are there."""
        schema = each.chunks[0].schema
        if not self.ready:
            self._schema = schema
            self._least = state_bytes(self._work.spec, each.width)
            if self._work.reference is not None:
                self._least += references.bytes_of(self._work.reference, each.width)
        elif self._rows >= MOST_ROWS or each.rows > SLICE_ROWS:
            return False
        elif schema is not self._schema and schema != self._schema:
            return False
        size = self._size + max(self._least, each.visit.log.model_bytes)
        if self.ready and size > MOST_BYTES:
            return False
        self.ready.append(each)
        self._rows += each.rows if each.rows <= SLICE_ROWS else MOST_ROWS
        self._size = size
        return True


def _run_block(refusals: Refusals, ready: list[_ReadyVisit]) -> Iterator[Output]:
    """Run the rows of a block that are ready."""
    work, order = refusals.work, refusals.order
    waiting, width = _gathered(order, ready), ready[0].width
    released, rest = _released(order, ready, waiting)
    taken = np.diff(released.starts(len(ready)))
    released = _TakenVisit(*without_duplicates(order, *released))
    found = _packed(work, ready, released, width)
    if None in found:
        yield from _begin(refusals, ready, released, found)
        there = np.array([each is not None for each in found])
        if not there.all():
            _wait_on(ready, released, rest, ~there)
            if not there.any():
                return
            released, rest, taken = released.of_models(there), rest.of_models(there), taken[there]
            ready = list(itertools.compress(ready, there.tolist()))
    heads = [each for each in found if each is not None]
    packed = PackedBundle(work, [each.visit.key for each in ready], heads, width)
    edges, until = released.starts(len(ready)), [each.until for each in ready]
    for ran in run_slices(packed.models, released.rows, edges, until):
        yield from emit(refusals, ran)
    if work.periods is not None:
        for each, (start, stop) in zip(ready, itertools.pairwise(edges.tolist()), strict=True):
            if stop > start:
                own, visit = released.rows.slice(start, stop), each.visit
                yield from tell_periods(work.periods, order, visit.key, visit.log, own)
    _write(work, ready, packed, rest, taken)


def _begin(
    refusals: Refusals,
    ready: Sequence[_ReadyVisit],
    released: _TakenVisit,
    found: list[Packed | None],
) -> Iterator[Output]:
    """Begin the models that are not there, those that have rows enough: they are found then."""
    work, edges = refusals.work, released.starts(len(ready)).tolist()
    for place in (place for place, packed in enumerate(found) if packed is None):
        rows = released.rows.slice(edges[place], edges[place + 1])
        first = refusals.first_of(rows)
        if len(first) >= work.rows_to_start:
            visit, clock, *_ = ready[place]
            model = begin(work, visit.key, first, clock.before)
            yield from tell_new(work, visit.key, model, rows)
            found[place] = pack(work, model)


def _wait_on(
    ready: Sequence[_ReadyVisit],
    released: _TakenVisit,
    rest: _TakenVisit,
    which: npt.NDArray[np.bool_],
) -> None:
    """Let rows wait on of models that cannot begin with them.

    Those of a time that is over are merged, or counted as duplicates, once.
    """
    starts, others = released.starts(len(ready)).tolist(), rest.starts(len(ready)).tolist()
    for place in np.flatnonzero(which).tolist():
        visit, clock, *_ = ready[place]
        parts = (
            released.rows.slice(starts[place], starts[place + 1]),
            rest.rows.slice(others[place], others[place + 1]),
        )
        kept = [part for part in parts if len(part)]
        for part in kept:
            visit.log.add(part)
        before = visit.clock if visit.flush else clock
        visit.log.put_clock(still_waiting(before, Chunk.concat(kept) if kept else None))


def _gathered(order: Order, ready: Sequence[_ReadyVisit]) -> _TakenVisit:
    """Return all rows of a block in order."""
    rows = Chunk.concat([part for each in ready for part in each.chunks])
    owner = np.repeat(np.arange(len(ready)), [each.rows for each in ready])
    if order.max_disorder > 0:
        return _sorted(_TakenVisit(rows, owner), [name for name in IN_ORDER if rows.has(name)])
    return _TakenVisit(rows, owner)


def _sorted(taken: _TakenVisit, names: Sequence[str]) -> _TakenVisit:
    """Return each model's rows sorted by these columns, the last one first."""
    rows, owner = taken
    keys = [rows.column(name) for name in names]
    if is_sorted(owner, keys, None):
        return taken
    return _TakenVisit(rows.take(np.lexsort([*keys, owner])), owner)


def _released(
    order: Order, ready: Sequence[_ReadyVisit], waiting: _TakenVisit
) -> tuple[_TakenVisit, _TakenVisit]:
    """Split rows into those that are ready, in order, and the rest."""
    arrived = order.max_disorder == 0
    if not waiting.rows.has("time") or (arrived and not order.confirms):
        return waiting, waiting.of(np.zeros(len(waiting.owner), dtype=np.bool_))
    until = [each.until for each in ready]
    if arrived:
        # All but those that are ahead of the clock, whatever it has shown.
        newest = [each.clock.newest for each in ready]
        until = [NO_TIME if time is None else time + 1 for time in newest]
    taken = waiting.rows.column("time") < np.array(until)[waiting.owner]
    released = waiting.of(taken)
    # None that waits for no other is out of order, but one may be that was ahead at first.
    return _sorted(released, ["time"]) if arrived else released, waiting.of(~taken)


def _packed(
    work: Work, ready: Sequence[_ReadyVisit], released: _TakenVisit, width: int
) -> list[Packed | None]:
    """Return the models as blocks, None in place of those that have not begun.

    Raises:
        DataError: for a state that is damaged.
        ConfigError: for rows of another width than a model's.
    """
    found = [each.visit.log.packed for each in ready]
    unknown: dict[int, Packed] = {}
    for place, (model, fit) in enumerate(zip(found, fit_each(work, found, width), strict=True)):
        if model is not None and not fit:
            whole = unpack(work, model, f"state of model {ready[place].visit.key!r}")
            matrix_of(released.rows.column("x"), model.width)
            found[place] = pack(work, whole)
        elif model is not None and not model.known:
            unknown[place] = model
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
    times = rest.rows.column("time") if len(rest.rows) else np.zeros(0, np.int64)
    left_over = pieces(rest.rows, starts[1:])
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
        log.put_clock(each.clock.after_run(oldest, each.clock.waiting - gone, due))
