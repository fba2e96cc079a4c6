"""Models that ran together and lie abreast until one is asked for: clocks, rows, states in columns.

Where the same models have rows in one bundle after another, as those of a partition of a local job
do, taking each of them apart and putting it together again costs many times what its rows do. So
they stay as they ran: what is ripe is found by one comparison, and what came is joined to what
waits in one go. A model's log is told what has become of it only when someone looks at it.

A visit that is not plain (late rows, others that are ahead, a first one, a command, silence) is
none of these: its model steps out, and goes the way of `visits`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.fleet.clock import NO_TIME
from kerneltrack.fleet.model import NEVER, Work
from kerneltrack.registry import get_tracker
from kerneltrack.state_size import state_bytes
from transforms.chunks import IN_ORDER, Chunk
from transforms.keyed.timers import set_within, wall_clock
from transforms.read.files import is_sorted
from transforms.records import Records
from transforms.track.clock import Clock, without_duplicates
from transforms.track.emit import Output, emit
from transforms.track.keyed_fn import MOST_BYTES, BundleRows, Timers
from transforms.track.log import MemoryLog, ModelLog, Waiting, Watch
from transforms.track.order import Order
from transforms.track.packed import Packed, PackedBundle, fit_each
from transforms.track.refusals import Refusals
from transforms.track.slices import run_slices

LEAST_MODELS = 64
"""Models that lie abreast, at least: fewer are run as fast one by one."""
MOST_WAITING = 256
"""Rows of a model that wait, at most."""
MOST_ROWS = 65_536
"""Rows that wait, of all of them, at most, as they come together."""
ROOM = MOST_ROWS // MOST_WAITING
"""Models for which there is room, however many of their rows wait."""
PART = 8
"""Others join them once they are one in so many of those that have rows in a bundle."""
VISITED = 16
"""One in so many must have rows in a bundle, or those that have lie abreast no longer."""
LEFT = 4
"""One in so many must be there still, or none lies abreast any longer."""
FAR = 1 << 61
"""Times, ns, less than this from 1970 can be subtracted."""


def may_lie_abreast(work: Work, order: Order) -> bool:
    """Check whether nothing is done with rows that asks for a model by itself at each visit."""
    each = (work.reference, work.measure, work.periods, work.feedback, work.quiet, work.every)
    grows: bool = get_tracker(work.spec.tracker).grows
    return 0 < order.wait < FAR and not grows and all(part is None for part in each)


class Abreast:
    """Models side by side, and where each of them is.

    Args:
        refusals: As of `run_visits`.
        keys: The models.
        logs: Their logs, in memory, of models that `_may_join` found.
        schema: Columns of the rows.

    Attributes:
        schema: Columns of the rows.
    """

    def __init__(
        self, refusals: Refusals, keys: Sequence[str], logs: Sequence[ModelLog], schema: pa.Schema
    ) -> None:
        self._refusals, self._order = refusals, refusals.order
        self._keys = list(keys)
        self._logs: list[ModelLog | None] = list(logs)
        self._there = len(keys)
        self._clocks: list[Clock] = [cast(Clock, log.clock) for log in logs]
        lines = [
            (clock.newest, clock.oldest, clock.waiting, clock.flushed, clock.reach)
            for clock in self._clocks
        ]
        newest, oldest, waiting, flushed, reach = zip(*lines, strict=True)
        self._newest, self._oldest = np.array(newest, np.int64), np.array(oldest, np.int64)
        self._waiting = np.array(waiting, np.int64)
        self._floor = np.array([NO_TIME if at is None else at for at in flushed], np.int64)
        self._reach = np.maximum(np.array(reach, np.int64), self._order.longest_step)
        watches = np.array([log.watch for log in logs], np.float64)
        self._seen, self._idle, self._silent = watches.T.copy()
        heads = [cast(Packed, log.packed) for log in logs]
        self._packed = PackedBundle(refusals.work, self._keys, heads, heads[0].width)
        self._ran = np.array([head.ran for head in heads], np.int64)
        parts = [log.waiting() for log in logs]
        rows = [chunk for own in parts for chunk in own]
        self._rest = Chunk.concat(rows) if rows else None
        self.schema = schema
        counts = [sum(map(len, own)) for own in parts]
        self._owner: IntArray = np.repeat(np.arange(len(keys)), counts)
        self._starts: IntArray | None = None
        self._packed.let_go()
        for place, log in enumerate(logs):
            log.lie_abreast(self, place)

    def __len__(self) -> int:
        """Return how many models there are, those that stepped out left out."""
        return self._there

    def look(self, place: int, log: ModelLog) -> None:
        """Let a model's log be what has become of it."""
        if self._starts is None:
            self._starts = np.searchsorted(self._owner, np.arange(len(self._keys) + 1))
        start, stop = self._starts[place : place + 2].tolist()
        rest = None
        if self._rest is not None and stop > start:
            rest = Waiting.of(Chunk(None, self._rest.records, (start, stop)))
        packed = self._packed.one(place, int(self._ran[place]))
        log.become(self._clock(place), packed, rest, self._watch(place))

    def _clock(self, place: int) -> Clock:
        own = self._newest[place], self._oldest[place], self._waiting[place]
        newest, oldest, waiting = (int(each) for each in own)
        return self._clocks[place].with_waiting(newest, oldest, waiting)

    def _watch(self, place: int) -> Watch:
        return Watch(*(float(each[place]) for each in (self._seen, self._idle, self._silent)))

    def step_out(self, place: int) -> None:
        """Let a model be here no longer; the others step out too once they are few."""
        self._there -= 1
        if not self._logs:
            return
        self._logs[place] = None
        if LEFT * self._there < len(self._logs):
            left, self._logs = self._logs, []
            for log in left:
                if log is not None:
                    log.step_out()

    # ---- a bundle ----

    def plain(self, places: IntArray, came: _Came) -> npt.NDArray[np.bool_]:
        """Return which visits, (k,), have no row that is late or ahead, or may be."""
        newest, until = self._newest[places], self._until()[places]
        good = (came.last < FAR) & (came.last - newest <= self._reach[places])
        good &= came.first >= np.maximum(until, -FAR)
        long = came.last - came.first > self._order.wait
        if long.any():
            good &= ~long | came.ascending()
        return good

    def _until(self) -> IntArray:
        found: IntArray = np.maximum(self._newest - self._order.wait, self._floor)
        return found

    def run(self, places: IntArray, came: _Came) -> Iterator[Output]:
        """Run what is ripe once rows have come.

        Args:
            places: (k,) the models that they are of, all of them `plain`.
            came: The rows.
        """
        order, counts = self._order, came.counts
        self._newest[places] = np.maximum(self._newest[places], came.last)
        self._waiting[places] += counts
        owner = np.repeat(places, counts)
        rows = came.rows
        if self._rest is not None:
            rows, owner = Chunk.concat([self._rest, rows]), np.concatenate([self._owner, owner])
        sort = np.argsort(_small(owner), kind="stable")
        keys = [rows.column(name) for name in IN_ORDER if rows.has(name)]
        if not is_sorted(owner, keys, sort):
            sort = np.lexsort([*keys, owner])
        until = self._until()
        ripe = (keys[-1] < until[owner])[sort]
        taken, left = sort[ripe], sort[~ripe]
        released, of = rows.take(taken), owner[taken]
        ran = np.bincount(of, minlength=len(until))
        self._waiting -= ran
        self._ran = np.where(ran > 0, until, self._ran)
        self._rest = rows.take(left) if len(left) else None
        self._owner, self._starts = owner[left], None
        self._oldest[:] = NEVER
        times, at = keys[-1][left], self._owner
        first = np.flatnonzero(np.diff(at, prepend=-1))
        self._oldest[at[first]] = times[first]
        if not len(taken):
            return
        released, of = without_duplicates(order, released, of)
        edges = np.searchsorted(of, np.arange(len(until) + 1))
        for part in run_slices(self._packed.models, released, edges, until.tolist()):
            yield from emit(self._refusals, part)

    def watch(
        self,
        places: IntArray,
        timers: Sequence[Timers],
        idle_flush: float | None,
        expire_after: float | None,
    ) -> None:
        """Note that models have shown themselves, and set the timers that are not set already."""
        if idle_flush is None and expire_after is None:
            return
        now = wall_clock()
        self._seen[places] = now
        if idle_flush is not None:
            for at in _unset(self._idle[places], now, idle_flush):
                if self._waiting[places[at]]:
                    due = float(self._idle[places[at]])
                    self._idle[places[at]] = set_within(timers[at].idle, due, now, idle_flush)
        if expire_after is not None:
            for at in _unset(self._silent[places], now, expire_after):
                due = float(self._silent[places[at]])
                self._silent[places[at]] = set_within(timers[at].silent, due, now, expire_after)


def _unset(due: FloatArray, now: float, span: float) -> list[int]:
    """Return the places of timers that are not to fire within the span."""
    places: list[int] = np.flatnonzero((due <= now) | (due > now + span)).tolist()
    return places


class _Came:
    """Rows of a bundle, a part of one table for each model.

    Attributes:
        rows: All of them, or those of some models.
        counts: (k,) rows of each model.
        first: (k,) least time of each.
        last: (k,) greatest.
    """

    def __init__(self, rows: Chunk, counts: IntArray, first: IntArray, last: IntArray) -> None:
        self.rows, self.counts, self.first, self.last = rows, counts, first, last

    @classmethod
    def of(cls, chunks: Sequence[Chunk]) -> _Came:
        """Join parts of one table."""
        spans = np.array([chunk.span() for chunk in chunks], np.int64)
        parts = [cast("tuple[Records, int, int]", chunk.part) for chunk in chunks]
        table, edges = parts[0][0], np.array([part[1:] for part in parts])
        starts, counts = edges[:, 0], edges[:, 1] - edges[:, 0]
        if (starts[1:] == edges[:-1, 1]).all():
            rows = Chunk(None, table, (int(starts[0]), int(edges[-1, 1])))
        else:
            ends = np.cumsum(counts)
            rows = Chunk(
                None, table.take(np.arange(ends[-1]) + np.repeat(starts - ends + counts, counts))
            )
        return cls(rows, counts, spans[:, 0], spans[:, 1])

    def some(self, keep: npt.NDArray[np.bool_]) -> _Came:
        """Return the rows of some models."""
        rows = self.rows.take(np.flatnonzero(np.repeat(keep, self.counts)))
        return _Came(rows, self.counts[keep], self.first[keep], self.last[keep])

    def ascending(self) -> npt.NDArray[np.bool_]:
        """Return which models' rows are of one source, in its order, and of ascending times."""
        times, source, row = (self.rows.column(name) for name in ("time", "source", "row"))
        owner = np.repeat(np.arange(len(self.counts)), self.counts)
        bad = (times[1:] < times[:-1]) | (row[1:] <= row[:-1]) | (source[1:] != source[:-1])
        found = np.ones(len(self.counts), np.bool_)
        found[owner[1:][bad & (owner[1:] == owner[:-1])]] = False
        return found


def run_abreast(
    refusals: Refusals,
    pending: dict[str, BundleRows],
    idle_flush: float | None,
    expire_after: float | None,
) -> Iterator[Output]:
    """Run the plain visits of models that lie abreast, or may; others are left in `pending`."""
    found = _parts_of_one_table(pending)
    if len(found) < LEAST_MODELS:
        return
    schema = found[0].each.chunks[0].schema
    for group, visits in _groups(refusals, found, schema):
        own = visits
        if group.schema is not schema and group.schema != schema:
            continue
        places = np.array([visit.place for visit in own])
        came = _Came.of([visit.each.chunks[0] for visit in own])
        good = group.plain(places, came)
        if not good.all():
            own = list(itertools.compress(own, good.tolist()))
            if not own:
                continue
            places, came = places[good], came.some(good)
        yield from group.run(places, came)
        group.watch(places, [visit.each.timers for visit in own], idle_flush, expire_after)
        for visit in own:
            del pending[visit.key]


class _Visit(NamedTuple):
    """What a bundle brings a model, and the model's log."""

    key: str
    each: BundleRows
    log: ModelLog

    @property
    def place(self) -> int:
        """The model's place among those abreast."""
        return cast("tuple[Abreast, int]", self.log.abreast)[1]


def _parts_of_one_table(pending: Mapping[str, BundleRows]) -> list[_Visit]:
    """Return the visits that bring rows of the same table as the first, and nothing else."""
    found: list[_Visit] = []
    table: Any = None
    for key, each in pending.items():
        log = each.cells.log.log if isinstance(each.cells.log, MemoryLog) else None
        if log is None or each.flush or each.labels or len(each.chunks) != 1:
            continue
        part = each.chunks[0].part
        if part is None or not isinstance(part[0], Records):
            continue
        table = part[0] if table is None else table
        if part[0] is table and "time" in table.form.names:
            found.append(_Visit(key, each, log))
    return found


def _groups(
    refusals: Refusals, found: Sequence[_Visit], schema: pa.Schema
) -> list[tuple[Abreast, list[_Visit]]]:
    """Return the visits by the models that theirs lies abreast with, if it does.

    Models come together that have rows in the same bundle, from the same source: whole partitions
    take turns. A group of which few have rows any more is left.
    """
    kept: list[tuple[Abreast, list[_Visit]]] = []
    for visits in _by_source(found):
        groups: dict[int, tuple[Abreast, list[_Visit]]] = {}
        moving: list[_Visit] = []
        for visit in visits:
            known = visit.log.abreast
            if known is None:
                moving.append(visit)
            else:
                groups.setdefault(id(known[0]), (known[0], []))[1].append(visit)
        few = len(groups) > 1 and sum(len(group) for group, _ in groups.values()) <= ROOM
        for number, (group, own) in list(groups.items()):
            if few or VISITED * len(own) < len(group):
                moving += own
                del groups[number]
        kept += groups.values()
        if len(moving) < max(LEAST_MODELS, len(visits) // PART):
            continue
        for visit in moving:
            visit.log.step_out()
        chosen = _may_join(refusals.work, moving, schema)
        if len(chosen) >= LEAST_MODELS:
            keys, logs = [visit.key for visit in chosen], [visit.log for visit in chosen]
            kept.append((Abreast(refusals, keys, logs, schema), chosen))
    return kept


def _by_source(found: Sequence[_Visit]) -> list[list[_Visit]]:
    """Return visits by the source of each one's first row."""
    parts = [cast("tuple[Records, int, int]", visit.each.chunks[0].part) for visit in found]
    sources = parts[0][0].array()["source"][[start for _, start, _ in parts]]
    if (sources == sources[0]).all():
        return [list(found)]
    return [list(itertools.compress(found, sources == source)) for source in np.unique(sources)]


def _may_join(work: Work, visits: Sequence[_Visit], schema: pa.Schema) -> list[_Visit]:
    """Return the visits of models that may lie abreast, as many as there is room for."""
    width = schema.field("x").type.list_size
    rows, most = 0, MOST_BYTES // max(state_bytes(work.spec, width), 1)
    chosen: list[_Visit] = []
    if most < ROOM:
        return chosen
    for visit in visits:
        count = _waiting_few(visit.log, schema)
        if count is not None and len(chosen) < most and rows + count <= MOST_ROWS:
            rows += count
            chosen.append(visit)
    fit = fit_each(work, [visit.log.packed for visit in chosen], width)
    return list(itertools.compress(chosen, fit))


def _waiting_few(log: ModelLog, schema: pa.Schema) -> int | None:
    """Return how many rows wait of a model that runs, has few, and no times in doubt; else None."""
    clock, packed = log.clock, log.packed
    if clock is None or clock.newest is None or clock.ahead or clock.learned is not None:
        return None
    if packed is None or not packed.known or log.spilled or clock.waiting > MOST_WAITING:
        return None
    if not clock.started or clock.due != NEVER or abs(clock.newest) >= FAR:
        return None
    rows = log.waiting()
    for chunk in rows:
        if chunk.records is None or (chunk.schema is not schema and chunk.schema != schema):
            return None
    return sum(map(len, rows))


def _small(owner: IntArray) -> npt.NDArray[np.integer[Any]]:
    """Return numbers that are sorted fast: a stable sort of 16 bits is a radix sort."""
    return owner.astype(np.uint16) if len(owner) and owner.max() < 2**16 else owner
