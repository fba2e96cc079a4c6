"""The models of a bundle together: the common case of the keyed step, without a call for each.

What a bundle brings to many models, a row or a few each, goes through their trackers as one block:
their rows are put in order together, their states lie side by side, and what comes out is one
chunk. The row loop is the same, and so are the bits. What is rare is left to the way of one model:
one that is new, begins, has expired or was reset, rows that are late, too far ahead or refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.learners.common.inputs import own_inputs
from kerneltrack.registry import get_tracker
from kerneltrack.trackers.okfeb import block
from kerneltrack.trackers.okfeb.block import Places, places_of
from transforms.chunks import Chunk, pieces
from transforms.metrics import count, count_lags, count_losses
from transforms.track.clock import NEVER, Clock, flush, may_release, nanoseconds, progress
from transforms.track.features import feature_chunk
from transforms.track.log import ModelLog, Packed, Waiting
from transforms.track.model import Model, Work
from transforms.track.order import KEEP, Order

IntArray = npt.NDArray[np.int64]

MOST_ROWS = 65_536
"""Rows of a block at most, its last model's left out."""
MOST_OF_ONE = 16_384
"""Rows of one model in a block at most."""
MOST_BYTES = 64 << 20
"""Bytes of a block's states at most, unless it has only one."""
TRACKERS = ("okfeb",)


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


Output: TypeAlias = tuple[str, Chunk]
Decode: TypeAlias = Callable[[str, bytes], Model]


class _Ready(NamedTuple):
    """A visit whose rows were admitted, some of them ready; the clock after them."""

    visit: Visit
    clock: Clock


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

    They can where nothing works along with the tracker, and rows are taken by the models' clocks.
    """
    beside = (work.hold, work.measure, work.drift, work.reference, work.every)
    return (
        work.spec.tracker in TRACKERS
        and not work.frozen
        and not order.waits_for_end
        and order.duplicates == KEEP
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
        releases = clock is not None and may_release(order, clock, work.rows_to_start)
        if clock is None or (releases and not clock.started):
            alone.append(visit)
        elif releases:
            ready.append(_Ready(visit, clock))
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
    if clock is None or clock.newest is None or clock.due != NEVER:
        return None
    if log.spilled or (clock.started and not log.has_model):
        return None
    reach = nanoseconds(order.max_jump)
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


def _blocks_of(work: Work, ready: Sequence[_Ready]) -> Iterator[list[_Ready]]:
    """Cut visits into blocks."""
    if not ready:
        return
    spec: Any = work.spec
    first = ready[0].visit
    like, *_ = first.chunks or first.log.waiting()
    most = MOST_BYTES // places_of(spec, like.schema.field("x").type.list_size).size
    part: list[_Ready] = []
    rows = 0
    for each in ready:
        if part and (rows >= MOST_ROWS or len(part) >= most):
            yield part
            part, rows = [], 0
        part.append(each)
        rows += each.clock.waiting
    if part:
        yield part


def _run_block(
    work: Work, order: Order, ready: list[_Ready], decode: Decode
) -> Generator[Output, None, list[Visit]]:
    """Run the rows of a block that are ready."""
    spec: Any = work.spec
    models = len(ready)
    waiting = _gathered(order, ready)
    if waiting is None:
        return [each.visit for each in ready]
    released, rest = _released(order, ready, waiting)
    matrix = np.ascontiguousarray(released.rows.column("x"), dtype=np.float64)
    places = places_of(spec, matrix.shape[1])
    packed = [_packed(work, each.visit, places, decode) for each in ready]
    starts = released.starts(models)
    lengths = np.diff(starts)
    good = np.array([part is not None for part in packed])
    good &= (lengths > 0) & (lengths <= MOST_OF_ONE)
    good[released.owner[~np.isfinite(matrix).all(axis=1)]] = False
    if not good.any():
        return [each.visit for each in ready]
    chosen = np.flatnonzero(good)
    blocks = _side_by_side([packed[place] for place in chosen.tolist()], places)
    counts = places.column(blocks, "counts")
    before = counts.copy()
    features = block.go_on(
        spec, blocks, matrix, starts[:-1][chosen], starts[1:][chosen], work.extras
    )
    # Rows between those of good models keep what room was made with: not valid.
    fine = good.copy()
    fine[released.owner[~features.valid]] = False
    well = fine[chosen]
    done = np.flatnonzero(fine)
    if len(done):
        heads = [part for place in done.tolist() if (part := packed[place]) is not None]
        where = np.flatnonzero(fine[released.owner])
        shift = np.zeros(models, np.int64)
        shift[done] = [part.before for part in heads]
        features.index[...] += shift[released.owner]
        _count(work, before[well], counts[well])
        count("rows_tracked", len(where))
        count_losses(features.loss[where])
        count_lags(released.rows.column("time")[where])
        own = None
        if work.own:
            owner = np.searchsorted(chosen, released.owner[where])
            scales = (places.column(blocks, name)[owner] for name in ("shift", "scale"))
            own = own_inputs(spec, _Scales(*scales), matrix[where])
        batch = feature_chunk(released.rows, features, where, own=own).batch
        _write(ready, done, heads, blocks[well], released, rest)
        start = 0
        for place in done.tolist():
            length = int(lengths[place])
            yield ready[place].visit.key, Chunk(batch.slice(start, length))
            start += length
    return [each.visit for each, ran in zip(ready, fine.tolist(), strict=True) if not ran]


def _gathered(order: Order, ready: Sequence[_Ready]) -> _Taken | None:
    """Return all rows of a block in order, None if their columns differ."""
    chunks = [[*each.visit.log.waiting(), *each.visit.chunks] for each in ready]
    schema = chunks[0][0].schema
    schemas = [part.schema for parts in chunks for part in parts]
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
    until = np.array([int(progress(order, each.clock)) for each in ready])
    taken = waiting.rows.column("time") < until[waiting.owner]
    return waiting.of(taken), waiting.of(~taken)


def _packed(work: Work, visit: Visit, places: Places, decode: Decode) -> Packed | None:
    """Return a visit's model as a block, None if it has states of another size."""
    packed, name = visit.log.packed, f"state of model {visit.key!r}"
    if packed is None:
        model = decode(visit.key, visit.log.model or b"")
        packed = Packed(model.before, model.time, model.until, block.pack(model.state), True)
    elif not packed.known:
        packed = packed._replace(body=block.pack(state_of(work, packed, name)), known=True)
    return packed if len(packed.body) == places.size else None


def state_of(work: Work, packed: Packed, name: str) -> Any:
    """Return the tracker's state of a block, after a look at its values.

    Raises:
        DataError: if it is damaged; `name` says what it is of.
    """
    spec: Any = work.spec
    try:
        arrays = block.unpack(spec, block.width_of(spec, len(packed.body)), packed.body)
        return get_tracker(spec.tracker).from_arrays(spec, arrays)
    except (ConfigError, ValueError) as error:
        raise DataError(name, f"damaged state: {error}") from error


def model_of(work: Work, packed: Packed, name: str) -> Model:
    """Return the model of a block; as `state_of`."""
    state = state_of(work, packed, name)
    return Model(state, packed.time, packed.until, before=packed.before)


def _side_by_side(packed: Sequence[Packed | None], places: Places) -> npt.NDArray[np.uint8]:
    """Return copies of the models' blocks, (m, bytes), to be written to."""
    room = bytearray().join(part.body for part in packed if part is not None)
    return np.frombuffer(room, np.uint8).reshape(len(packed), places.size)


def _write(
    ready: Sequence[_Ready],
    done: IntArray,
    heads: Sequence[Packed],
    blocks: npt.NDArray[np.uint8],
    released: _Taken,
    rest: _Taken,
) -> None:
    """Write what became of models into their logs."""
    starts, rest_starts = released.starts(len(ready)), rest.starts(len(ready)).tolist()
    left_over = pieces(rest.rows.batch, rest_starts[1:])
    begun = starts[:-1][np.diff(starts) > 0]
    newest_of = np.zeros(len(ready), np.int64)
    newest_of[released.owner[begun]] = np.maximum.reduceat(released.rows.column("time"), begun)
    rest_times = rest.rows.column("time")
    times = newest_of[done].tolist()
    for place, packed, body, last in zip(done.tolist(), heads, blocks, times, strict=True):
        visit, clock = ready[place]
        newest = last if packed.time is None else max(packed.time, last)
        start, stop = rest_starts[place], rest_starts[place + 1]
        left, oldest = None, NEVER
        if stop > start:
            left = Waiting(left_over[place])
            oldest = int(rest_times[start])
        visit.log.release(Packed(packed.before, newest, newest, body.tobytes(), True), left)
        visit.log.put_clock(clock._replace(waiting=stop - start, oldest=oldest))


def _count(work: Work, before: IntArray, after: IntArray) -> None:
    """Count what became of models of these counts, (m, ...)."""
    tracker = get_tracker(work.spec.tracker)
    earlier = tracker.counters(_Counts(before.sum(axis=0)))
    for name, total in tracker.counters(_Counts(after.sum(axis=0))).items():
        count(name, total - earlier[name])


class _Counts(NamedTuple):
    """What `KernelTracker.counters` looks at in a state."""

    counts: IntArray


class _Scales(NamedTuple):
    """What `own_inputs` looks at in a state: that of each row's model, (n, D)."""

    shift: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]
