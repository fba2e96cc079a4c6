"""The two tasks of a job by partition: a piece of the input by slot, some slots through the steps.

Each is a function of plain values, run in whatever process; it gives a manifest: what it wrote and
counted, nothing that grows with its rows. A task that runs again overwrites what it wrote, and only
the manifest of the run that ended counts.
"""

from __future__ import annotations

import itertools
import os
import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kerneltrack import codec
from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.snapshots.header import PackedState, packed_state
from kerneltrack.snapshots.packed import slot_of
from transforms.chunks import Chunk, Failures
from transforms.metrics import UNREFERENCED, Counts, counting
from transforms.outputs import FAILURES, FEATURES, METRICS, PREDICTIONS
from transforms.partition.blocks import (
    Block,
    BlockStates,
    rows_of_blocks,
    run_blocks,
    takes_blocks,
)
from transforms.partition.large import each_model, size_of
from transforms.partition.learn_block import LearnedModels
from transforms.partition.outputs import TaskFiles, TaskStates, Written
from transforms.partition.shuffle import (
    SortedRows,
    Spread,
    read_slots,
    sort_rows,
    spread_piece,
)
from transforms.partition.steps import Rows, State, Steps
from transforms.read.columns import Columns
from transforms.read.formats import Piece
from transforms.track.merge import spread_across, spread_times

_KILOBYTES = 1 << 20 if sys.platform == "darwin" else 1 << 10
"""What the system counts memory in, in a MB."""
MOST_NAMES = 1000
"""Models that a manifest names, of those that have something to be told."""


@dataclass(frozen=True)
class Shared:
    """What all tasks of a job are told.

    Attributes:
        output: The run's folder.
        schemas: Of each output but the snapshots.
        sources: Path of each source number.
        slots: How many slots models are hashed into.
        steps: What is done with a model's rows.
        before: Snapshots that the job began from; models without rows since are taken over.
        float32: Whether the trackers' snapshots are written in single precision.
        most_bytes: Bytes of a task's rows that are sorted in memory; of more than that, models
            are read in groups, and one that is larger is merged from sorted runs.
    """

    output: str
    schemas: Mapping[str, pa.Schema]
    sources: tuple[str, ...]
    slots: int
    steps: Steps
    before: SnapshotFolder | None
    float32: bool
    most_bytes: int


class SpreadTask(NamedTuple):
    """A piece that is to be written by slot; fields as of `spread_piece`."""

    name: str
    path: str
    source: int
    piece: Piece
    columns: Columns
    counted_as: str


class TrackTask(NamedTuple):
    """Slots whose models are to be run.

    Attributes:
        name: The task's.
        slots: The slots.
        rows: The input's rows by slot.
        labels: Delayed labels by slot.
    """

    name: str
    slots: tuple[int, ...]
    rows: tuple[Spread, ...]
    labels: tuple[Spread, ...] = ()


class Manifest(NamedTuple):
    """What a task wrote and counted.

    Attributes:
        files: What it wrote.
        counts: By name of the counter.
        unreferenced: Models that were held against nothing, the first of them.
        spread: Of a piece: where its rows are.
        seconds: Of processors.
        peak: Most memory that the process had so far, MB.
    """

    files: list[Written]
    counts: dict[str, int]
    unreferenced: list[str]
    spread: Spread | None = None
    seconds: float = 0.0
    peak: float = 0.0


def run_task(shared: Shared, task: SpreadTask | TrackTask) -> Manifest:
    """Run a task.

    Raises:
        DataError: if an input or a snapshot cannot be read.
        OSError: if an output cannot be written.
    """
    begun = time.process_time()
    with counting() as counts:
        if isinstance(task, SpreadTask):
            found = _spread(shared, task, counts)
        else:
            found = _track(shared, task, counts)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KILOBYTES
    return found._replace(seconds=time.process_time() - begun, peak=peak)


def _manifest(files: list[Written], counts: Counts, spread: Spread | None = None) -> Manifest:
    names = sorted(counts.models.get(UNREFERENCED, ()))[:MOST_NAMES]
    return Manifest(files, dict(counts.totals), names, spread)


def _spread(shared: Shared, task: SpreadTask, counts: Counts) -> Manifest:
    refused: TaskFiles | None = None
    spread: Spread | None = None
    found = spread_piece(
        task.path, task.source, task.piece, task.columns, shared.slots, task.counted_as
    )
    for item in found:
        if isinstance(item, Failures):
            if refused is None:
                only = {FAILURES: shared.schemas[FAILURES]}
                refused = TaskFiles(shared.output, task.name, only, shared.sources)
            refused.add("", Rows(FAILURES, item.batch))
        else:
            spread = item
    return _manifest([] if refused is None else refused.close(), counts, spread)


def _track(shared: Shared, task: TrackTask, counts: Counts) -> Manifest:
    with (
        TaskFiles(shared.output, task.name, shared.schemas, shared.sources) as files,
        TaskStates(shared.output, task.name, shared.float32) as states,
    ):
        fits = size_of(task.rows, set(task.slots)) <= shared.most_bytes
        if fits and shared.before is None and not task.labels and takes_blocks(shared.steps):
            _track_blocks(shared, task, files, states)
        else:
            for key, own, labels in _models(shared, task, fits):
                snapshots = _run_one(shared, key, own, labels, files)
                states.add([*snapshots, *_taken_over(shared.before, key, snapshots)])
        return _manifest([*files.close(), states.close(task.slots)], counts)


def _track_blocks(shared: Shared, task: TrackTask, files: TaskFiles, states: TaskStates) -> None:
    table = read_slots(task.rows, set(task.slots))
    if table is None:
        return
    rows = rows_of_blocks(shared.steps, sort_rows(table, shared.steps.keys))
    del table
    for block in run_blocks(shared.steps, rows):
        _write_block(shared, rows, block, files, states)


def _run_one(
    shared: Shared,
    key: str,
    rows: Chunk | Iterator[Chunk] | None,
    labels: Chunk | None,
    files: TaskFiles,
) -> list[PackedState]:
    """Run one model; its snapshots are returned, all else is written."""
    if rows is None and labels is None:
        return []
    return _written(key, shared.steps.run(key, rows, labels), files)


def _write_block(
    shared: Shared, rows: SortedRows, block: Block, files: TaskFiles, states: TaskStates
) -> None:
    """Write what came of a block, and run those of its models that fell back."""
    known = block.states
    if block.features is not None:
        files.add_block(known.names, known.rows, Rows(FEATURES, block.features))
    if shared.steps.learn is None and not block.fell_back:
        states.add_block(known)
        for part, batches in block.told.items():
            for model, batch in batches.items():
                files.add(known.names[model], Rows(part, batch))
        return
    if block.learned is not None:
        _write_learned(known, block.learned, files)
    for each, place, own, learner in block.models():
        key = rows.names[each]
        if place is None:
            chunk = rows.slice(rows.starts[each], rows.stops[each])
            states.add(_run_one(shared, key, chunk, None, files))
            continue
        states.add_block_state(known, place)
        for told in block.told_of(place):
            files.add(key, told)
        if block.learned is not None and learner is not None:
            states.add_learner(known, place, block.learned.states[learner])
        elif own is not None:
            states.add(_written(key, shared.steps.learn_from(key, own), files))


def _write_learned(known: BlockStates, learned: LearnedModels, files: TaskFiles) -> None:
    """Write what learners say of the rows of a block's models."""
    done = np.flatnonzero(learned.done).tolist()
    names = [known.names[place] for place in done]
    lengths = [known.rows[place] for place in done]
    files.add_block(names, lengths, Rows(PREDICTIONS, learned.predictions))
    lines = np.diff(learned.lines).tolist()
    files.add_block(names, lines, Rows(METRICS, learned.metrics))


def _written(key: str, items: Iterator[Rows | State], files: TaskFiles) -> list[PackedState]:
    """Write what came of a model; its snapshots are returned."""
    snapshots: list[PackedState] = []
    for item in items:
        if isinstance(item, State):
            snapshots.append(packed_state(item.data, key))
        elif item.batch.num_rows:
            files.add(key, item)
    return snapshots


def _models(
    shared: Shared, task: TrackTask, fits: bool
) -> Iterator[tuple[str, Chunk | Iterator[Chunk] | None, Chunk | None]]:
    """Return the models of a task in order of their names, with their rows and labels if any.

    Args:
        shared: What is the same for all tasks.
        task: The task.
        fits: Whether all its rows can be in memory.
    """
    slots = set(task.slots)
    rows: Iterator[tuple[str, Any]]
    if fits:
        rows = _each(read_slots(task.rows, slots), shared.steps.keys)
    else:
        scratch = os.path.join(os.path.dirname(task.rows[0].path), task.name)
        rows = each_model(task.rows, slots, shared.steps.keys, shared.most_bytes, scratch)
    labels = _each(read_slots(task.labels, slots), ("row", "source"))
    known = _each_known(shared.before, slots, shared.slots)
    heads = {name: next(source, None) for name, source in (("r", rows), ("l", labels))}
    kept = next(known, None)
    while kept is not None or any(heads.values()):
        here = [head[0] for head in heads.values() if head is not None]
        key = min([*here, *([] if kept is None else [kept])])
        found: dict[str, Any] = {"r": None, "l": None}
        for name, source in (("r", rows), ("l", labels)):
            head = heads[name]
            if head is not None and head[0] == key:
                found[name] = head[1]
                heads[name] = next(source, None)
        if kept == key:
            kept = next(known, None)
        found["r"] = _wide(found["r"], len(shared.steps.track.work.channels))
        yield key, found["r"], None if found["l"] is None else _named(found["l"])


def _wide(rows: Any, width: int) -> Any:
    """Return a model's rows with all their channels, if they have a value each."""
    if isinstance(rows, Chunk):
        return spread_times(rows, width) if rows.has("channel") else rows
    if rows is None:
        return None
    first = next(rows, None)
    whole = itertools.chain([] if first is None else [first], rows)
    narrow = first is not None and first.has("channel")
    return spread_across(whole, width) if narrow else whole


def _each(table: pa.Table | None, keys: Sequence[str]) -> Iterator[tuple[str, Chunk]]:
    return iter(()) if table is None else sort_rows(table, keys).each()


def _each_known(before: SnapshotFolder | None, slots: set[int], count: int) -> Iterator[str]:
    if before is None:
        return iter(())
    return iter(sorted(name for name in before.models if slot_of(name, count) in slots))


def _named(labels: Chunk) -> Chunk:
    """Return labels with the column `index` or `time`, by which they name rows."""
    names = ["index" if name == "sequence" else name for name in labels.batch.schema.names]
    return Chunk(labels.batch.rename_columns(names))


def _taken_over(
    before: SnapshotFolder | None, key: str, own: Sequence[PackedState]
) -> list[PackedState]:
    """Return the states of a model that has not moved since the snapshots the job began from.

    Of a model all of whose rows were refused the tracker's state is there, and not the learner's.
    """
    kept = None if before is None else before.boundary(key)
    if before is None or kept is None:
        return []
    if any(state.rows > kept["rows"] for state in own):
        return []
    there = {state.kind for state in own if state.rows == kept["rows"]}
    found = []
    for kind in (codec.TRACKER, codec.LEARNER):
        data = None if kind in there else before.checked(key, kind)
        if data is not None:
            found.append(packed_state(data, key))
    return found
