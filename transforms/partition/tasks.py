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
from typing import NamedTuple

import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.monitor.periods.spec import PeriodsSpec
from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.snapshots.header import PackedState, packed_state
from kerneltrack.snapshots.packed import slot_of
from transforms.chunks import Chunk
from transforms.failures import Failures
from transforms.metrics import UNREFERENCED, Counts, counting
from transforms.outputs import FAILURES, PERIODS, SNAPSHOTS
from transforms.partition.blocks import Block, run_blocks, run_large
from transforms.partition.large import OneLarge, parts_of, size_of
from transforms.partition.outputs import TaskFiles, TaskStates, Written
from transforms.partition.shuffle import Spread, read_slots, sort_rows, spread_piece
from transforms.partition.steps import IN_ARRIVAL, Steps, named_alone
from transforms.periods import PeriodRows
from transforms.read.columns import Columns
from transforms.read.formats import Piece
from transforms.track.emit import Output, named_rows
from transforms.track.merge import spread_across
from transforms.track.sorted_rows import SortedRows

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
        periods: What a device's periods are compared with; None: none are written.
    """

    output: str
    schemas: Mapping[str, pa.Schema]
    sources: tuple[str, ...]
    slots: int
    steps: Steps
    before: SnapshotFolder | None
    float32: bool
    most_bytes: int
    periods: PeriodsSpec | None = None


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
    started = time.process_time()
    with counting() as counts:
        if isinstance(task, SpreadTask):
            found = _spread(shared, task, counts)
        else:
            found = _track(shared, task, counts)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KILOBYTES
    return found._replace(seconds=time.process_time() - started, peak=peak)


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
            refused.add(FAILURES, "", item.batch)
        else:
            spread = item
    return _manifest([] if refused is None else refused.close(), counts, spread)


def _track(shared: Shared, task: TrackTask, counts: Counts) -> Manifest:
    with (
        TaskFiles(shared.output, task.name, shared.schemas, shared.sources) as files,
        TaskStates(shared.output, task.name, shared.float32) as states,
    ):
        results = _Results(shared, task, files, states)
        for part in _watched(shared, _parts(shared, task), files):
            if isinstance(part, SortedRows):
                for block in run_blocks(shared.steps, part, results.labels):
                    results.add_block(block)
            else:
                key, rows = part
                results.add_large(key, _wide(rows, len(shared.steps.track.work.channels)))
        results.end()
        return _manifest([*files.close(), states.close(task.slots)], counts)


def _parts(shared: Shared, task: TrackTask) -> Iterator[SortedRows | OneLarge]:
    """Return the rows of a task's models, as many at once as fit, in order of their names."""
    slots, keys = set(task.slots), shared.steps.keys
    if size_of(task.rows, slots) <= shared.most_bytes:
        table = read_slots(task.rows, slots)
        if table is not None:
            yield sort_rows(table, keys)
        return
    scratch = os.path.join(os.path.dirname(task.rows[0].path), task.name)
    yield from parts_of(task.rows, slots, keys, shared.most_bytes, scratch)


def _watched(
    shared: Shared, parts: Iterator[SortedRows | OneLarge], files: TaskFiles
) -> Iterator[SortedRows | OneLarge]:
    """Yield rows of models, and write their periods, if these are asked for."""
    spec, steps = shared.periods, shared.steps
    if spec is None:
        yield from parts
        return
    for part in parts:
        for key, rows in part.each() if isinstance(part, SortedRows) else (part,):
            device = PeriodRows(spec, steps.order, len(steps.track.work.channels))
            if isinstance(rows, Chunk):
                device.add(rows)
            else:
                yield key, _each_watched(rows, device)
            files.add(PERIODS, key, device.batch())
        if isinstance(part, SortedRows):
            yield part


def _each_watched(rows: Iterator[Chunk], device: PeriodRows) -> Iterator[Chunk]:
    for chunk in rows:
        device.add(chunk)
        yield chunk


class _Results:
    """Writes what comes of a task's models, in order of their names.

    Models of which there are only delayed labels, or snapshots that the job began from, have their
    turn among the others.
    """

    def __init__(
        self, shared: Shared, task: TrackTask, files: TaskFiles, states: TaskStates
    ) -> None:
        self._shared, self._files, self._states = shared, files, states
        slots, before = set(task.slots), shared.before
        labels = read_slots(task.labels, slots)
        named = () if labels is None else sort_rows(labels, IN_ARRIVAL).each()
        self.labels = {key: _named(own) for key, own in named}
        named_before = () if before is None else before.models
        known = {name for name in named_before if slot_of(name, shared.slots) in slots}
        self._others = iter(sorted({*self.labels, *known}))
        self._next = next(self._others, None)

    def add_block(self, block: Block) -> None:
        """Write what came of a block."""
        self._until(block.names[0])
        for part, lengths, rows in block.main:
            self._files.add_block(part, block.names, lengths, rows)
        states, whole = block.states, block.plain and self._is_last(block.names)
        if states is not None and whole:
            self._states.add_block(states)
        for model, (name, place) in enumerate(zip(block.names, block.places, strict=True)):
            self._until(name)
            self._written(name, iter(block.emitted.get(name, ())))
            if states is not None and whole:
                continue
            plain = self._shared.before is None and name not in block.snapshots
            if states is not None and place is not None and plain:
                learner = block.learners[model] if block.learners else None
                self._states.add_last(states, place, learner)
            else:
                own = [packed_state(data, name) for data in block.states_of(model)]
                # Without any its snapshot could not be read: its rows are among the failures.
                if own:
                    self._add_states(name, own)

    def add_large(self, key: str, rows: Iterator[Chunk]) -> None:
        """Run a model that has more rows than there is memory for, and write what comes of it."""
        steps = self._shared.steps
        if steps.order.waits_for_end:
            for block in run_large(steps, key, rows, self.labels):
                self.add_block(block)
            return
        self._until(key)
        states = self._written(key, steps.run_stream(key, rows, self.labels.get(key)))
        if states:
            self._add_states(key, states)

    def end(self) -> None:
        """Write the models that are left."""
        self._until(None)

    def _until(self, name: str | None) -> None:
        """Write models without rows that come before one of this name; None: all."""
        while self._next is not None and (name is None or self._next <= name):
            key, self._next = self._next, next(self._others, None)
            if key != name:
                try:
                    came = self._shared.steps.run_without_rows(key, self.labels.get(key))
                    self._add_states(key, self._written(key, came))
                except DataError as error:
                    self._written(key, iter([named_alone(key, error)]))

    def _is_last(self, names: Sequence[str]) -> bool:
        """Check whether no model without rows comes before the last of these."""
        return self._shared.before is None and (self._next is None or self._next > names[-1])

    def _add_states(self, key: str, states: Sequence[PackedState]) -> None:
        self._states.add([*states, *_taken_over(self._shared.before, key, states)])

    def _written(self, key: str, items: Iterator[Output]) -> list[PackedState]:
        """Write what came of a model; its snapshots are returned."""
        snapshots: list[PackedState] = []
        for item in items:
            if isinstance(item, TaggedOutput) and item.tag == SNAPSHOTS:
                snapshots.append(packed_state(item.value[1], key))
                continue
            part, rows = named_rows(item)
            if rows.num_rows:
                self._files.add(part, key, rows)
        return snapshots


def _wide(rows: Iterator[Chunk], width: int) -> Iterator[Chunk]:
    """Return a model's rows with all their channels, if they have a value each."""
    first = next(rows, None)
    whole = itertools.chain([] if first is None else [first], rows)
    narrow = first is not None and first.has("channel")
    return spread_across(whole, width) if narrow else whole


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
