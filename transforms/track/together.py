"""The models of a bundle together: the common case of the keyed step, without a call for each.

What a bundle brings to many models, a row or a few each, goes through their trackers as one block:
their rows are put in order together, their states lie side by side, and what comes out is one
chunk. So do their references. The row loops are the same, and so are the bits. What is rare is
left to the way of one model: one that is new, begins, has expired or was reset, or whose snapshot
is due; rows that are late, too far ahead or refused.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from apache_beam import pvalue

from kerneltrack.fleet.model import NEVER, Model, Work
from kerneltrack.learners.common.inputs import own_inputs
from kerneltrack.monitor.drift import Alerts, DriftSpec
from kerneltrack.monitor.drift import block as detectors
from kerneltrack.monitor.reference import block as references
from kerneltrack.trackers.common.features import Features
from kerneltrack.trackers.common.places import Places, side_by_side
from kerneltrack.trackers.common.scaling import Scaling
from kerneltrack.trackers.common.state import N
from kerneltrack.trackers.okfeb import block
from kerneltrack.trackers.okfeb.block import places_of
from transforms.chunks import Chunk, pieces
from transforms.keyed.bundles import MOST_BYTES
from transforms.metrics import count, count_lags, count_losses
from transforms.track.clock import (
    Clock,
    flush,
    may_release,
    nanoseconds,
    progress,
    reach_of,
)
from transforms.track.features import alerts_of, feature_chunk, tell_alerts, tell_episodes
from transforms.track.held_rows import HeldRows
from transforms.track.log import ModelLog, Waiting
from transforms.track.merge import MergedRows, merge_where
from transforms.track.order import KEEP, MERGE, Order
from transforms.track.packed import TRACKERS, Packed, checked, pack, unpack
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


Output: TypeAlias = tuple[str, Chunk] | pvalue.TaggedOutput[str, tuple[str, Chunk]]
Decode: TypeAlias = Callable[[str, bytes], Model]


class _Ready(NamedTuple):
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
    def of(cls, order: Order, visit: Visit, clock: Clock) -> _Ready:
        """Look at what waits, and what came."""
        until, log = int(progress(order, clock)), visit.log
        if order.max_disorder > 0 and not visit.flush and log.leaves:
            return cls(visit, clock, until, *log.before(until, visit.chunks))
        return cls(visit, clock, until, [*log.waiting(), *visit.chunks], None)


class _Taken(NamedTuple):
    """Rows of a block, each model's one after the other.

    Attributes:
        rows: The rows.
        owner: (n,) place of each one's model.
    """

    rows: Chunk
    owner: IntArray

    def of(self, keep: npt.NDArray[np.bool_]) -> _Taken:
        """Return the rows that are to be kept."""
        if keep.all():
            return self
        return _Taken(self.rows.take(np.flatnonzero(keep)), self.owner[keep])

    def starts(self, models: int) -> IntArray:
        """Return where each model's rows begin, and the end, (models + 1,)."""
        found: IntArray = np.searchsorted(self.owner, np.arange(models + 1))
        return found


def goes_together(work: Work, order: Order) -> bool:
    """Check whether models of a job can go through the step together.

    They can where a reference and a drift detector at most work along with the tracker, and rows
    are taken by the models' clocks.
    """
    beside = (work.hold, work.measure)
    return (
        work.spec.tracker in TRACKERS
        and not work.frozen
        and not order.waits_for_end
        and order.duplicates in (KEEP, MERGE)
        and all(part is None for part in beside)
    )


def run_together(
    work: Work, order: Order, visits: Sequence[Visit], decode: Decode
) -> Generator[Output, None, list[Visit]]:
    """Run what came for models, and write it into their logs, not yet into the runner's state.

    Args:
        work: What is done with rows.
        order: How they are put in order.
        visits: What came; no two are of one model.
        decode: Makes a model of its ID and bytes.

    Yields:
        Features, of each model its own.

    Returns:
        The visits that must go one by one; their logs are as they were.

    Raises:
        DataError: for a state that is damaged.
    """
    alone: list[Visit] = []
    ready: list[_Ready] = []
    for visit in visits:
        clock = _admitted(order, visit)
        if clock is not None and _is_due(work, order, clock):
            clock = None
        releases = clock is not None and may_release(order, clock, work.rows_to_start)
        if clock is None or (releases and not clock.started):
            alone.append(visit)
        elif releases:
            each = _Ready.of(order, visit, clock)
            if each.chunks:
                ready.append(each)
            else:
                alone.append(visit)
        elif not visit.flush:
            for chunk in visit.chunks:
                visit.log.add(chunk)
            visit.log.put_clock(clock)
    for part in _blocks_of(work, ready):
        alone += yield from _run_block(work, order, part, decode)
    return alone


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


def _is_due(work: Work, order: Order, clock: Clock) -> bool:
    """Check whether a snapshot may be due before the rows that are ready, or between them."""
    if work.every is None or not clock.started:
        return False
    # Without a boundary ahead one was written while no rows came: the next rows say where it is.
    return clock.due == NEVER or clock.due <= progress(order, clock)


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


def _blocks_of(work: Work, ready: Sequence[_Ready]) -> Iterator[list[_Ready]]:
    """Cut visits into blocks."""
    if not ready:
        return
    spec: Any = work.spec
    width = ready[0].chunks[0].schema.field("x").type.list_size
    size = places_of(spec, width).size
    if work.reference is not None:
        size += references.bytes_of(work.reference, width)
    if work.drift is not None:
        size += detectors.places_of(work.drift).size
    most = MOST_BYTES // size
    part: list[_Ready] = []
    rows = 0
    for each in ready:
        if part and (rows >= MOST_ROWS or len(part) >= most):
            yield part
            part, rows = [], 0
        part.append(each)
        rows += sum(map(len, each.chunks))
    if part:
        yield part


def _run_block(
    work: Work, order: Order, ready: list[_Ready], decode: Decode
) -> Generator[Output, None, list[Visit]]:
    """Run the rows of a block that are ready."""
    waiting = _gathered(order, ready)
    if waiting is None:
        return [each.visit for each in ready]
    released, rest = _released(order, ready, waiting)
    taken, merged = np.diff(released.starts(len(ready))), None
    if order.duplicates == MERGE and len(released.owner):
        released, merged = _merged(released)
    run = _run_models(work, ready, released, decode)
    if run is None:
        return [each.visit for each in ready]
    fine = np.zeros(len(ready), np.bool_)
    fine[run.chosen[run.fine]] = True
    if fine.any():
        if merged is not None:
            merged.add_to_counters(fine[released.owner])
        yield from _features(work, ready, released, run)
        _write(ready, run, released, rest, taken)
        yield from _alerts(ready, released, run)
        if run.held is not None:
            yield from _episodes(ready, run, run.held)
    return list(itertools.compress((each.visit for each in ready), (~fine).tolist()))


class WatchedRows(NamedTuple):
    """What the drift detectors of m models say of their rows.

    Attributes:
        blocks: (m, bytes) the detectors' states after the rows.
        alerts: Those that were raised, by the place of their model, rows by their places in it.
        starts: (m,) place of each model's first row.
    """

    blocks: npt.NDArray[np.uint8]
    alerts: dict[int, Alerts]
    starts: IntArray

    @classmethod
    def of(
        cls,
        spec: DriftSpec,
        heads: Sequence[Packed],
        losses: npt.NDArray[np.float64],
        fine: npt.NDArray[np.bool_],
        starts: IntArray,
        stops: IntArray,
    ) -> WatchedRows:
        """Run the losses of those models whose rows were all fine."""
        blocks = side_by_side([head.drift for head in heads], detectors.places_of(spec).size)
        # Of others nothing is kept.
        ends = np.where(fine, stops, starts)
        return cls(blocks, detectors.watch_each(spec, blocks, losses, starts, ends), starts)


class _Run(NamedTuple):
    """Models that went through their row loops.

    Attributes:
        chosen: (m,) their places among those that are ready.
        fine: (m,) which of them went well; what came of others does not count.
        heads: The models before their rows.
        places: Where the arrays of a tracker's state lie.
        blocks: (m, bytes) the trackers' states after the rows.
        before: (m, ...) the trackers' counts before them.
        matrix: (n, D) all rows that are ready.
        features: Of these rows.
        held: What the models' references say of them, if there are any.
        watched: What their drift detectors say of them, if there are any.
    """

    chosen: IntArray
    fine: npt.NDArray[np.bool_]
    heads: list[Packed]
    places: Places
    blocks: npt.NDArray[np.uint8]
    before: IntArray
    matrix: npt.NDArray[np.float64]
    features: Features
    held: HeldRows | None
    watched: WatchedRows | None

    @property
    def done(self) -> list[int]:
        """Return which of the m models went well."""
        return np.flatnonzero(self.fine).tolist()

    @property
    def firsts(self) -> IntArray:
        """Return the index of each model's first row, (m,)."""
        firsts: IntArray = self.before[:, N] + np.array([head.before for head in self.heads])
        return firsts


def _run_models(work: Work, ready: list[_Ready], released: _Taken, decode: Decode) -> _Run | None:
    """Run the models' rows that can go together; None if none can."""
    spec: Any = work.spec
    matrix = np.ascontiguousarray(released.rows.column("x"), dtype=np.float64)
    packed = _packed(work, ready, matrix.shape[1], decode)
    starts = released.starts(len(ready))
    lengths = np.diff(starts)
    good = np.array([part is not None for part in packed])
    good &= (lengths > 0) & (lengths <= MOST_OF_ONE)
    good[released.owner[~np.isfinite(matrix).all(axis=1)]] = False
    if not good.any():
        return None
    chosen = np.flatnonzero(good)
    heads = [part for place in chosen.tolist() if (part := packed[place]) is not None]
    places = places_of(spec, matrix.shape[1])
    blocks = side_by_side([head.body for head in heads], places.size)
    before = places.column(blocks, "counts").copy()
    firsts, stops = starts[:-1][chosen], starts[1:][chosen]
    features = block.go_on(spec, blocks, matrix, firsts, stops, work.asked)
    # Rows between those of good models keep what room was made with: not valid.
    refused = np.zeros(len(ready), np.bool_)
    refused[released.owner[~features.valid]] = True
    fine, held = ~refused[chosen], None
    if work.reference is not None:
        times = np.ascontiguousarray(released.rows.column("time"))
        held = HeldRows(work, heads, matrix, firsts, stops, times)
        fine &= held.done
    watched = None
    if work.drift is not None:
        watched = WatchedRows.of(work.drift, heads, features.loss, fine, firsts, stops)
    return _Run(chosen, fine, heads, places, blocks, before, matrix, features, held, watched)


def _features(
    work: Work, ready: list[_Ready], released: _Taken, run: _Run
) -> Iterator[tuple[str, Chunk]]:
    """Return the features of each model that went well."""
    done, features = run.done, run.features
    place_of = np.full(len(ready), -1)
    place_of[run.chosen[done]] = done
    owner = place_of[released.owner]
    where = np.flatnonzero(owner >= 0)
    owner = owner[where]
    features.index[where] += np.array([head.before for head in run.heads])[owner]
    after = run.places.column(run.blocks, "counts")[done]
    count_totals(work.spec, run.before[done], after)
    count("rows_tracked", len(where))
    count_losses(features.loss[where])
    count_lags(released.rows.column("time")[where])
    own = None
    if work.own:
        scales = (run.places.column(run.blocks, name)[owner] for name in ("shift", "scale"))
        scaled = None if features.x is None else features.x[where]
        own = own_inputs(work.spec, Scaling(*scales), run.matrix[where], scaled)
    scores = None if run.held is None else run.held.scores.at(where)
    chunk = feature_chunk(released.rows, features, where, run.held is not None, scores, own)
    starts = np.searchsorted(owner, [*done, len(run.chosen)]).tolist()
    for place, (start, stop) in zip(done, itertools.pairwise(starts), strict=True):
        yield ready[run.chosen[place]].visit.key, chunk.slice(start, stop)


def _alerts(ready: list[_Ready], released: _Taken, run: _Run) -> Iterator[Output]:
    """Return the alerts of models that went well."""
    if run.watched is None:
        return
    firsts = run.firsts
    for place, told in run.watched.alerts.items():
        times = released.rows.column("time")[run.watched.starts[place] + told.position].tolist()
        alerts = alerts_of(told, int(firsts[place]), times)
        yield tell_alerts(ready[run.chosen[place]].visit.key, alerts)


def _episodes(ready: list[_Ready], run: _Run, held: HeldRows) -> Iterator[Output]:
    """Return the episodes that were opened or closed of models that went well."""
    for place, episodes in held.episodes(run.firsts):
        if run.fine[place]:
            yield tell_episodes(ready[run.chosen[place]].visit.key, episodes, True)


def _gathered(order: Order, ready: Sequence[_Ready]) -> _Taken | None:
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
    return _Taken(rows, owner)


def _released(order: Order, ready: Sequence[_Ready], waiting: _Taken) -> tuple[_Taken, _Taken]:
    """Split rows into those that are ready and the rest."""
    if order.max_disorder == 0:
        none = np.zeros(len(waiting.owner), dtype=np.bool_)
        return waiting, waiting.of(none)
    until = np.array([each.until for each in ready])
    taken = waiting.rows.column("time") < until[waiting.owner]
    return waiting.of(taken), waiting.of(~taken)


def _merged(released: _Taken) -> tuple[_Taken, MergedRows]:
    """Merge the rows of each model and time."""
    times, owner = released.rows.column("time"), released.owner
    new = np.r_[True, (times[1:] != times[:-1]) | (owner[1:] != owner[:-1])]
    merged = merge_where(released.rows, new)
    return _Taken(merged.rows, owner[new]), merged


def _packed(work: Work, ready: Sequence[_Ready], width: int, decode: Decode) -> list[Packed | None]:
    """Return the models as blocks, None in place of those that have other sizes.

    Raises:
        DataError: for a state that is damaged.
    """
    spec: Any = work.spec
    own, kept = places_of(spec, width).size, 0
    if work.reference is not None:
        kept = references.parts_of(work.reference, width).kept.size
    watched = 0 if work.drift is None else detectors.places_of(work.drift).size
    found: list[Packed | None] = []
    for visit, *_ in ready:
        model = visit.log.packed or pack(work, decode(visit.key, visit.log.model or b""))
        fits = (len(model.body), len(model.kept), len(model.drift)) == (own, kept, watched)
        if not (fits or model.known):
            unpack(work, model, f"state of model {visit.key!r}")
        found.append(model if fits else None)
    new = {place: model for place, model in enumerate(found) if model and not model.known}
    for place, sound in zip(new, checked(work, [*new.values()], width), strict=True):
        if sound is None:
            unpack(work, new[place], f"state of model {ready[place].visit.key!r}")
        found[place] = sound
    return found


def _write(
    ready: Sequence[_Ready], run: _Run, released: _Taken, rest: _Taken, taken: IntArray
) -> None:
    """Write what became of models into their logs; `taken`: rows that left them, (m,)."""
    starts, rest_starts = released.starts(len(ready)), rest.starts(len(ready)).tolist()
    ran = np.diff(starts)
    begun = starts[:-1][ran > 0]
    newest_of = np.zeros(len(ready), np.int64)
    newest_of[released.owner[begun]] = np.maximum.reduceat(released.rows.column("time"), begun)
    rest_times = rest.rows.column("time")
    left_over = pieces(rest.rows.batch, rest_starts[1:])
    for model in run.done:
        place = int(run.chosen[model])
        each, head = ready[place], run.heads[model]
        last, log = int(newest_of[place]), each.visit.log
        newest = last if head.time is None else max(head.time, last)
        after = head._replace(time=newest, until=newest, body=run.blocks[model].tobytes())
        changed = False
        if run.held is not None:
            moving, kept, changed = run.held.after(model)
            after = after._replace(moving=moving, kept=kept)
        if run.watched is not None:
            after = after._replace(drift=run.watched.blocks[model].tobytes())
        start, stop, oldest = rest_starts[place], rest_starts[place + 1], each.oldest
        if oldest is not None:
            log.append(after, [Waiting.of(chunk) for chunk in each.visit.chunks], changed)
        elif stop > start:
            oldest = int(rest_times[start])
            left = Waiting(left_over[place], oldest, int(rest_times[stop - 1]))
            log.release(after, left, changed)
        else:
            oldest = NEVER
            log.release(after, None, changed)
        waiting = each.clock.waiting - int(taken[place])
        log.put_clock(each.clock._replace(waiting=waiting, oldest=oldest))
