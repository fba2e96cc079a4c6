"""Models whose rows are all there, block by block: `Steps` without what Python costs for each.

A block is the rows of consecutive models. They go through `kerneltrack.fleet` together, become one
chunk of features, and their states are columns. A single model is a block of one; one with more
rows than a block has goes part by part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from kerneltrack.errors import DataError
from kerneltrack.fleet.begin import begin_each
from kerneltrack.fleet.conditions import whole_rows
from kerneltrack.fleet.forward_fill import LastValues, hold_each
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.states import States, states_of
from kerneltrack.state_size import state_bytes
from transforms.chunks import Chunk
from transforms.failures import Failures, unreadable
from transforms.learn.learners import Last, LearnedModels, Learners, bytes_of
from transforms.outputs import FAILURES, FEATURES, SNAPSHOTS
from transforms.partition.steps import Started, Steps
from transforms.track.admission import Admitted, Refused, admit_all, admit_some
from transforms.track.clock import Clock
from transforms.track.emit import (
    Output,
    emit_events,
    emit_refused,
    failures,
    features_of,
    tell_unreferenced,
)
from transforms.track.order import MERGE
from transforms.track.slices import run_slices
from transforms.track.sorted_rows import SortedRows
from transforms.track.step import TrackFn

BLOCK_ROWS = 65_536
"""Rows of a block at most."""
BLOCK_BYTES = 1 << 27
"""Bytes of a block's states at most (128 MiB), unless it has only one."""


class Block(NamedTuple):
    """What came of a block.

    Attributes:
        names: Its models, in order.
        states: States of those that have one, in order; None where nothing was made of any, or more
            comes of them.
        places: Of each model its place in `states`; None without.
        lengths: Features of each model.
        features: These, one model's after the other; None without any.
        emitted: What some tell of besides, by name: failures, episodes, alerts, windows.
        snapshots: Those at boundaries, by name, with the last of its parts.
        learned: What came of the learners; None without.
        learners: Their last snapshots, by place in `names`; None of a model that has none. Empty
            where more comes.
        last: Whether nothing more comes of its models.
    """

    names: Sequence[str]
    states: States | None
    places: Sequence[int | None]
    lengths: Sequence[int]
    features: pa.RecordBatch | None
    emitted: dict[str, list[Output]]
    snapshots: dict[str, list[bytes]]
    learned: LearnedModels | None = None
    learners: Sequence[Last | None] = ()
    last: bool = True

    @property
    def plain(self) -> bool:
        """Whether each model has one state, the last, and there is no learner."""
        return self.learned is None and not self.snapshots and None not in self.places

    @property
    def main(self) -> Iterator[tuple[str, Sequence[int], pa.RecordBatch]]:
        """Return the outputs that most have rows of, how many each has, and these."""
        parts = [(FEATURES, self.lengths, self.features)]
        if self.learned is not None:
            parts += [(part, *lines) for part, lines in self.learned.main.items()]
        return ((part, many, batch) for part, many, batch in parts if batch is not None)

    def states_of(self, model: int) -> Iterator[bytes]:
        """Return a model's snapshots."""
        yield from self.snapshots.get(self.names[model], ())
        place = self.places[model]
        if self.states is not None and place is not None:
            yield self.states.encoded(place)
        state = self.learners[model] if self.learners else None
        if state is not None:
            yield state.parts.to_bytes()


def blocks_of(rows: SortedRows, size: int) -> Iterator[range]:
    """Cut models into blocks, as ranges of their places; a large one is a block of its own.

    Args:
        rows: The models' rows.
        size: Bytes of a model's state.
    """
    most, first, edges = BLOCK_BYTES // size, 0, rows.edges.tolist()
    for place in range(1, len(rows.names)):
        if place - first >= most or edges[place + 1] - edges[first] > BLOCK_ROWS:
            yield range(first, place)
            first = place
    yield range(first, len(rows.names))


def run_blocks(steps: Steps, rows: SortedRows, labels: Mapping[str, Chunk]) -> Iterator[Block]:
    """Run the models of a partition, with delayed labels by model, block by block."""
    narrow = rows.rows.has("channel")
    anew = steps.order.waits_for_end and steps.track.begins_anew
    merged = steps.order.duplicates == MERGE and (narrow or anew)
    if merged:
        rows = rows.merged(len(steps.track.work.channels))
    width = rows.rows.slice(0, 1).column("x").shape[1]
    for places in blocks_of(rows, _bytes_of(steps, width)):
        yield from run_block(steps, rows.part(places), merged, labels)


def _bytes_of(steps: Steps, width: int) -> int:
    """Return the bytes of a model's states, about."""
    work = steps.track.work
    size = state_bytes(work.spec, width)
    size += sum(each.size(work, width) for each in work.companions)
    if steps.track.plan is not None:
        size += bytes_of(steps.track.plan.spec, width, work.spec.rank)
    return size


class _ReadyModels(NamedTuple):
    """Models of a block that have begun, and their rows.

    Attributes:
        models: The models.
        which: (m,) their places in the block.
        rows: Theirs, one model's after the other.
        edges: (m + 1,) place of each one's first row, and the end.
    """

    models: Models
    which: IntArray
    rows: Chunk
    edges: IntArray


def run_block(
    steps: Steps, block: SortedRows, merged: bool, labels: Mapping[str, Chunk]
) -> Iterator[Block]:
    """Run a block of models, `merged` as of `admit_all`, with delayed labels by model.

    Yields:
        What came of it; of one model with more rows than a block has, what came of each part.
    """
    made = steps.start(block.names, labels)
    refusals, clocks = steps.track.refusals, [clock for clock, _ in made.known]
    yield from _run_parts(steps, made, block.names, [admit_all(refusals, block, clocks, merged)])


def run_large(
    steps: Steps, key: str, rows: Iterable[Chunk], labels: Mapping[str, Chunk]
) -> Iterator[Block]:
    """Run a model of whose rows, sorted by time, only some are in memory; see `run_block`."""
    made = steps.start([key], labels)
    clock, model = made.known[0] if made.known else (Clock(), None)
    begun = model is not None or bool(made.broken)
    size = _part_rows(steps)
    parts = admit_some(steps.track.refusals, key, rows, clock, begun, size)
    yield from _run_parts(steps, made, [key], parts)


def _part_rows(steps: Steps) -> int:
    """Return how many rows of a model run at a time."""
    plan = steps.track.plan
    # Rows that wait for labels are copied for each part that learners take.
    return BLOCK_ROWS if plan is None else max(BLOCK_ROWS, plan.rows_at_once)


def _run_parts(
    steps: Steps, made: Started, names: Sequence[str], parts: Iterable[Admitted]
) -> Iterator[Block]:
    """Run the rows of models that count, part by part; return what came of each."""
    early: dict[str, list[bytes]] = {}
    for part in _track(steps.track, names, parts, made, _part_rows(steps)):
        came = part if made.learners is None else _learn(steps.track, made.learners, part)
        for name, data in came.snapshots.items():
            early.setdefault(name, []).extend(data)
        yield came._replace(snapshots=early if came.last else {})


def _learn(fn: TrackFn, learners: Learners, tracked: Block) -> Block:
    """Let learners take the features of a block, or of a part of one."""
    if tracked.features is not None:
        which = np.flatnonzero(tracked.lengths)
        lengths = np.array(tracked.lengths)[which]
        ends = np.cumsum(lengths)
        learners.take(fn.narrow(Chunk(tracked.features)), which, ends - lengths, ends)
    last = learners.end() if tracked.last else ()
    learned = learners.came()
    for place, lost in learned.failures.items():
        emitted = tracked.emitted.setdefault(tracked.names[place], [])
        emitted += [TaggedOutput(FAILURES, Failures(batch)) for batch in lost]
    for place, data in learned.snapshots.items():
        tracked.snapshots.setdefault(tracked.names[place], []).extend(data)
    return tracked._replace(learned=learned, learners=last)


def _track(
    fn: TrackFn, names: Sequence[str], parts: Iterable[Admitted], made: Started, size: int
) -> Iterator[Block]:
    """Run models through their trackers, so many rows at a time at most."""
    ready: _ReadyModels | None = None
    for admitted in parts:
        refused, last = list(admitted.refused), admitted.last
        if ready is None:
            ready = _new_models(fn, admitted.block, made, refused)
        else:
            ready = ready._replace(rows=admitted.block.rows, edges=admitted.block.edges)
        emitted: list[TaggedOutput[str, Any]] = [
            failures(names[model], rows, reasons, counted_as)
            for model, rows, reasons, counted_as in refused
        ]
        if ready is None:
            places, lengths = [None] * len(names), [0] * len(names)
            yield Block(names, None, places, lengths, None, *_by_name(emitted), last=last)
            continue
        yield from _run_ready(fn, names, ready, emitted, last, size)


def _run_ready(
    fn: TrackFn,
    names: Sequence[str],
    ready: _ReadyModels,
    emitted: list[TaggedOutput[str, Any]],
    last: bool,
    size: int,
) -> Iterator[Block]:
    """Run models that have begun; what was `emitted` before goes with the first of what comes."""
    models, done = ready.models, 0
    until = [np.inf if last else -np.inf] * len(models)
    none: list[int | None] = [None] * len(names)
    for ran in run_slices(models, ready.rows, ready.edges, until, size):
        done += len(ran.rows)
        features, edges = features_of(ran)
        emitted += [*emit_refused(fn.refusals, ran), *emit_events(ran)]
        lengths = np.zeros(len(names), np.int64)
        lengths[ready.which] = np.diff(edges)
        batch = None if features is None else features.batch
        part = Block(names, None, none, lengths.tolist(), batch, *_by_name(emitted), last=False)
        emitted = []
        if not last or done < len(ready.rows):
            yield part
    if last:
        tell_unreferenced(models)
        places = [*none]
        for place, model in enumerate(ready.which.tolist()):
            places[model] = place
        yield part._replace(states=states_of(models), places=places, last=True)


def _by_name(
    outputs: list[TaggedOutput[str, Any]],
) -> tuple[dict[str, list[Output]], dict[str, list[bytes]]]:
    """Return what models tell of, and their snapshots, by name."""
    emitted: dict[str, list[Output]] = {}
    snapshots: dict[str, list[bytes]] = {}
    for output in outputs:
        if output.tag == FAILURES:
            name = output.value.batch.column("model_id")[0].as_py()
            emitted.setdefault(name, []).append(output)
        elif output.tag == SNAPSHOTS:
            snapshots.setdefault(output.value[0], []).append(output.value[1])
        else:
            emitted.setdefault(output.value[0], []).append(output)
    return emitted, snapshots


def _times_of(rows: Chunk) -> IntArray | None:
    return rows.column("time") if rows.has("time") else None


def _new_models(
    fn: TrackFn, block: SortedRows, made: Started, refused: list[Refused]
) -> _ReadyModels | None:
    """Return the models that are there or can begin with their rows; other rows are refused."""
    work, (names, edges, rows) = fn.work, block
    starts, stops = edges[:-1], edges[1:]
    known = [model for _, model in made.known]
    there = np.zeros(len(names), np.bool_)
    if known:
        there[:] = [model is not None for model in known]
    filled = _filled(work, rows, starts, stops)
    usable = whole_rows(work.reference, filled)
    for model in made.broken:
        usable[starts[model] : stops[model]] = False
    many = np.diff(np.concatenate([[0], np.cumsum(usable)])[edges])
    begins = ~there & (many > 0)
    try:
        models = _side_by_side(work, names, filled, usable, (starts, stops), known, begins)
    except DataError:
        lost = _without_reference(work, names, begins)
        if not lost:
            raise
        broken = {**made.broken, **lost}
        return _new_models(fn, block, made._replace(broken=broken), refused)
    for model in np.flatnonzero(~there & (many == 0) & (stops > starts)).tolist():
        own = rows.slice(int(starts[model]), int(stops[model]))
        why = [made.broken[model]] * len(own) if model in made.broken else None
        refused.append(Refused(model, own, why or fn.refusals.unusable(own.column("x"))))
    which = np.flatnonzero(there | begins)
    if models is None:
        return None
    lengths = (stops - starts)[which]
    if len(which) < len(names) and lengths.sum() < len(rows):
        kept = np.zeros(len(names), np.bool_)
        kept[which] = True
        rows = rows.take(np.flatnonzero(np.repeat(kept, stops - starts)))
    return _ReadyModels(models, which, rows, np.concatenate([[0], np.cumsum(lengths)]))


def _without_reference(work: Work, names: Sequence[str], begins: BoolArray) -> dict[int, str]:
    """Return which of the models that begin have a reference that cannot be read, and why."""
    lost: dict[int, str] = {}
    for model in np.flatnonzero(begins).tolist():
        try:
            if work.given is not None:
                work.given.of(names[model])
        except DataError as error:
            lost[model] = unreadable(error)
    return lost


def _filled(work: Work, rows: Chunk, starts: IntArray, stops: IntArray) -> FloatArray:
    """Return the rows, missing values held if that is asked for, as if all models began."""
    x = np.ascontiguousarray(rows.column("x"), dtype=np.float64)
    if work.hold is None:
        return x
    times = _times_of(rows)
    stamps = np.zeros(len(rows), np.int64) if times is None else times
    nothing = LastValues.none(len(starts), x.shape[1])
    return hold_each(x, stamps, starts, stops, nothing, work.hold)[0]


def _side_by_side(
    work: Work,
    names: Sequence[str],
    rows: FloatArray,
    usable: BoolArray,
    spans: tuple[IntArray, IntArray],
    known: Sequence[Model | None],
    begins: BoolArray,
) -> Models | None:
    """Return the models that are known and those that begin, in order; None if there are none."""
    made: list[Model | None] = [None] * len(names)
    new = np.flatnonzero(begins)
    if len(new):
        starts, stops = (places[new] for places in spans)
        first, ends = _first_rows(work, rows, usable, starts, stops)
        keys = [names[place] for place in new.tolist()]
        models = begin_each(work, keys, first, ends[:-1], ends[1:])
        if not known:
            return models
        for place, model in enumerate(new.tolist()):
            made[model] = models.model(place)
    there = [
        (name, own or fresh)
        for name, own, fresh in zip(names, known or made, made, strict=True)
        if own is not None or fresh is not None
    ]
    if not there:
        return None
    return Models.of(work, [name for name, _ in there], [model for _, model in there if model])


def _first_rows(
    work: Work, rows: FloatArray, usable: BoolArray, starts: IntArray, stops: IntArray
) -> tuple[FloatArray, IntArray]:
    """Return the first usable rows of models, as many as one begins with, and where they end."""
    places = np.flatnonzero(usable)
    low = np.searchsorted(places, starts)
    lengths = np.minimum(np.searchsorted(places, stops) - low, work.rows_to_start)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    chosen = places[np.arange(ends[-1]) + np.repeat(low - ends[:-1], lengths)]
    return rows[chosen], ends


def items_of(block: Block) -> Iterator[Output]:
    """Return what came of a block's models, as the step has it."""
    for part, many, rows in block.main:
        at = 0
        for name, length in zip(block.names, many, strict=True):
            own = name, Chunk(rows.slice(at, length))
            if length:
                yield own if part == FEATURES else TaggedOutput(part, own)
            at += length
    for model, name in enumerate(block.names):
        yield from block.emitted.get(name, ())
        yield from (TaggedOutput(SNAPSHOTS, (name, data)) for data in block.states_of(model))
