"""The stateful step of `TrainLinear`: rows in order of their index through the learner."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import coders, pvalue
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import GlobalWindow
from apache_beam.typehints import with_input_types, with_output_types
from apache_beam.utils.timestamp import Timestamp

from kerneltrack.errors import DataError
from kerneltrack.snapshots.folder import SnapshotFolder
from transforms.chunks import Chunk, ChunkCoder
from transforms.failures import Failures
from transforms.keyed.bundles import MOST_BYTES, HoldingFn
from transforms.keyed.commands import Command, command_of
from transforms.keyed.expiry import Expiry, Kept, is_name, recall
from transforms.keyed.state_cache import measure_entries
from transforms.keyed.state_writes import check_writes
from transforms.keyed.timers import in_time
from transforms.learn.block import goes_together
from transforms.learn.delayed_labels import Lost, arrive, left_over
from transforms.learn.learner import (
    Learning,
    begin,
    decode,
    encode_snapshot,
    last_written,
    opened,
)
from transforms.learn.metrics import metrics_chunk
from transforms.learn.predictions import SLICE_ROWS
from transforms.learn.run import Outcome, Plan, end_metrics, run_rows, settle_rest
from transforms.learn.together import Visit, run_together
from transforms.learn.totals import count_learned
from transforms.learn.turns import first_index, gap, in_turn, inputs_of, turn
from transforms.learn.waiting import FeatureRows, PredictedRows, none_waiting, prediction_chunk
from transforms.metrics import count
from transforms.outputs import FAILURES, METRICS, SCORED, SNAPSHOTS
from transforms.read.label_values import label_values, no_labels

MAX_SPAN = 1e8
"""Longest window and distance of snapshots, s: any time plus it is still an int64 of ns."""


class Cells(NamedTuple):
    """What Beam keeps of a model: its learner, chunks that came early, the timer of the end."""

    learner: Any
    early: Any
    end: Any


class Held(NamedTuple):
    """What a bundle has brought a model so far."""

    cells: Cells
    chunks: list[Chunk]


class LearnFn(HoldingFn[Held]):
    """The stateful step: rows in order of their index through the learner."""

    LEARNER = ReadModifyWriteStateSpec("learner", coders.BytesCoder())
    EARLY = BagStateSpec("early", ChunkCoder())

    def __init__(
        self,
        plan: Plan,
        warm: SnapshotFolder | None,
        bounded: bool,
        expiry: Expiry | None = None,
    ) -> None:
        """Keep the arguments, as of `TrainLinear`."""
        super().__init__()
        self.plan = plan
        self._warm = warm
        self._expiry = expiry
        self._expire_after = None if expiry is None else expiry.after
        self._waits_for_end = bounded and plan.late is not None
        self._at_once = plan.late is not None and not bounded
        self._written = last_written(plan.spec)
        self._together = goes_together(plan)

    @property
    def begins_anew(self) -> bool:
        """Whether no learner goes on from a snapshot."""
        return self._warm is None

    def setup(self) -> None:
        """Prepare the worker that this runs in."""
        measure_entries()
        check_writes()

    def bring(self, element: tuple[str, Chunk], cells: Cells, timestamp: Any) -> Iterator[Any]:
        """Take an element in: until the bundle ends it is held, if that is possible.

        A command finds all that came before it done.
        """
        key, chunk = element
        if self._together and command_of(chunk) is None:
            yield from self.hold(key, self.held.get(key) or Held(cells, []), timestamp, chunk)
        else:
            yield from self.run_held()
            yield from self.take(element, cells)

    def run_visits(self, held: dict[str, Held]) -> Iterator[Any]:
        """Run what is held: together where that is possible, else model by model."""
        part: dict[str, Visit] = {}
        size = 0
        for key, each in held.items():
            data = each.cells.learner.read()
            if is_name(data):
                for chunk in each.chunks:
                    yield from self.take((key, chunk), each.cells)
                continue
            if data is None:
                each.cells.end.set(GlobalWindow().max_timestamp())
            size += len(data or b"")
            if part and size > MOST_BYTES:
                yield from self._run_part(held, part)
                part, size = {}, len(data or b"")
            part[key] = Visit(self._read(key, data), each.chunks)
        if part:
            yield from self._run_part(held, part)

    def _run_part(self, held: Mapping[str, Held], visits: Mapping[str, Visit]) -> Iterator[Any]:
        """Run some of the models that a bundle has visited."""
        keys = [*visits]
        done = set()
        for learned in run_together(self.plan, [*visits.values()]):
            key = keys[learned.place]
            held[key].cells.learner.write(self._written.put(key, learned.after))
            done.add(key)
            yield key, learned.predictions
            if learned.metrics is not None:
                yield pvalue.TaggedOutput(METRICS, (key, learned.metrics))
        for key, visit in visits.items():
            if key not in done:
                cells, (first, *others) = held[key].cells, visit.chunks
                yield from self._go_on(key, first, visit.now, cells)
                for chunk in others:
                    yield from self.take((key, chunk), cells)

    def take(self, element: tuple[str, Chunk], cells: Cells) -> Iterator[Any]:
        """Take rows or labels in, and run the rows whose turn it is."""
        key, chunk = element
        if self._waits_for_end:
            cells.end.set(GlobalWindow().max_timestamp())
            cells.early.add(chunk)
            return
        data = cells.learner.read()
        if data is None or is_name(data):
            # Once: some runners fire a timer for each bundle that set it.
            cells.end.set(GlobalWindow().max_timestamp())
        if is_name(data):
            data = self._wake(key, data, cells.early)
        yield from self._go_on(key, chunk, self._read(key, data), cells)

    def _go_on(self, key: str, chunk: Chunk, now: Learning, cells: Cells) -> Iterator[Any]:
        """Take in what came for a learner that has been read."""
        learner, early, _ = cells
        before, outcome = now, Outcome()
        if not chunk.has("z") and command_of(chunk) is None:
            now = self._take_labels(now, [chunk], outcome)
        elif first_index(chunk) > now.rows:
            early.add(chunk)
            now = _with_early(now, chunk)
        else:
            now = self._run(key, now, chunk, outcome)
            if now.early is not None and now.early <= now.rows:
                # Adding to a bag while reading it would never end.
                chunks = sorted(early.read(), key=turn)
                early.clear()
                now = now._replace(early=None)
                for waiting in chunks:
                    if first_index(waiting) > now.rows:
                        early.add(waiting)
                        now = _with_early(now, waiting)
                    else:
                        now = self._run(key, now, waiting, outcome)
        learner.write(self._written.put(key, now.alone()))
        yield from self._outputs(key, before, now, outcome)

    def _wake(self, key: str, name: bytes, early: Any) -> bytes | None:
        """Take a learner up again that has expired; return its state."""
        kept = recall(self._expiry, key, name)
        for chunk in kept.waiting:
            early.add(chunk)
        return kept.state

    def expire(self, key: str, learner: Any, early: Any) -> Iterator[Any]:
        """Write all that is kept of a learner into a file, and keep the file's name instead."""
        yield from self.run_held()
        data = learner.read()
        if self._expiry is None or data is None or is_name(data):
            return
        kept = Kept(data, waiting=tuple(early.read()))
        learner.write(self._expiry.write(key, kept))
        early.clear()
        now = self._read(key, data)
        if now.state is not None:
            snapshot = encode_snapshot(self.plan.spec, key, now, final=False)
            yield pvalue.TaggedOutput(SNAPSHOTS, (key, snapshot))

    def finish(self, key: str, learner: Any, early: Any) -> Iterator[Any]:
        """Settle all rows when the input has ended."""
        yield from self.run_held()
        # State expires with the window; each access to it costs a millisecond on some runners.
        whole = self._waits_for_end
        before = now = self._read(key, None if whole else learner.read())
        outcome = Outcome()
        if whole:
            chunks = list(early.read())
            if not chunks:
                # The timer has fired before: see `process`.
                return
            early.clear()
            now = self._take_labels(now, [part for part in chunks if not part.has("z")], outcome)
            rows = sorted((part for part in chunks if part.has("z")), key=first_index)
            del chunks
            for part in in_turn(key, now.rows, rows, self._rows_at_once):
                now = self._run(key, now, part, outcome)
                yield from self._outputs(key, before, now, outcome)
                before, outcome = now, Outcome()
        elif now.early is not None:
            raise gap(key, now.rows, now.early)
        yield from self._end(key, before, now, outcome)

    def _end(self, key: str, before: Learning, now: Learning, outcome: Outcome) -> Iterator[Any]:
        """Settle what waits, write the last snapshot."""
        if now.state is None:
            outcome.lost.append(left_over(now.pending, now.open_rows))
        else:
            snapshot = encode_snapshot(self.plan.spec, key, now, final=True)
            yield pvalue.TaggedOutput(SNAPSHOTS, (key, snapshot))
            now = end_metrics(settle_rest(self.plan, now, outcome), outcome)
        yield from self._outputs(key, before, now, outcome)

    @property
    def _rows_at_once(self) -> int:
        """Rows that run in one go at the end: all that wait are copied for each."""
        return max(SLICE_ROWS, self.plan.late.most_rows if self.plan.late else 0)

    def _read(self, key: str, data: bytes | None) -> Learning:
        return self.resumed(key) if data is None else self._written.take(key, data)

    def resumed(self, key: str) -> Learning:
        """Return a learner as it is before the job's first row: new, or from the snapshots.

        Raises:
            DataError: for a snapshot that is damaged, or of another row than the index says.
        """
        spec = self.plan.spec
        if self._warm is None:
            return begin(spec)
        data = self._warm.state(key, "learner")
        rows = self._warm.rows(key)
        if data is None:
            return begin(spec, rows)
        name = f"{self._warm.folder}, learner of model {key!r}"
        now = decode(spec, data, name)
        if now.rows != rows:
            raise DataError(name, f"it has seen {now.rows} rows, the index says {rows}")
        return now

    def _take_labels(self, now: Learning, chunks: Sequence[Chunk], outcome: Outcome) -> Learning:
        late = self.plan.late
        if late is None:
            return now
        most = None if self._waits_for_end else late.most_rows
        pending, lost, again = arrive(self.plan.spec, now.pending, chunks, now.open_rows, most)
        count("labels_again", again)
        outcome.lost.append(lost)
        return now._replace(pending=pending)

    def _run(self, key: str, now: Learning, chunk: Chunk, outcome: Outcome) -> Learning:
        """Run a chunk's rows, those that came before left out; or obey a command."""
        command = command_of(chunk)
        if command is not None:
            came_before = first_index(chunk) < now.rows
            return now if came_before else self._obey(key, command, now, outcome)
        again = min(now.rows - first_index(chunk), len(chunk))
        count("rows_again", again)
        if again == len(chunk):
            return now
        chunk = chunk.slice(again, len(chunk))
        z, channels = inputs_of(chunk)
        now = opened(self.plan.spec, now, z.shape[1], channels)
        time, clock = None, np.zeros(len(chunk), np.int64)
        if chunk.has("time"):
            time = chunk.column("time")
            clock = np.maximum.accumulate(time)
            clock = clock if now.time is None else np.maximum(clock, now.time)
        if chunk.has("label"):
            label = label_values(chunk.batch.column("label"))
        else:
            label = no_labels(self.plan.spec, len(chunk))
        rows = FeatureRows(now.rows, time, clock, z, label)
        return run_rows(self.plan, key, now, rows, outcome)

    def _obey(self, key: str, command: Command, now: Learning, outcome: Outcome) -> Learning:
        """Let the learner begin anew where it is; what it had to say is said."""
        spec = self.plan.spec
        if now.state is not None:
            now = end_metrics(settle_rest(self.plan, now, outcome), outcome)
        after = begin(spec, now.rows)
        if command.learner is not None:
            known = decode(spec, command.learner, f"learner of model {key!r}")
            after = after._replace(state=known.state)
            if known.state is not None:
                after = after._replace(waiting=none_waiting(spec, known.state, now.rows))
        return after._replace(time=now.time, early=now.early)

    def _outputs(
        self, key: str, before: Learning, now: Learning, outcome: Outcome
    ) -> Iterator[Any]:
        """Yield what came of rows, and count it."""
        spec = self.plan.spec
        count_learned(spec, [(before, now)])
        if self._at_once:
            for predicted in outcome.predicted:
                yield from _slices(key, predicted, None)
        for predicted, label in outcome.settled:
            for output in _slices(key, predicted, label):
                yield pvalue.TaggedOutput(SCORED, output) if self._at_once else output
        if outcome.lines and now.state is not None:
            lines = metrics_chunk(spec, [(now.state, outcome.lines)])
            yield pvalue.TaggedOutput(METRICS, (key, lines))
        for snapshot in outcome.snapshots:
            yield pvalue.TaggedOutput(SNAPSHOTS, (key, snapshot))
        for lost in outcome.lost:
            if lost.row:
                yield _failures(key, lost)


def learn_fn(timer: str, expire: bool) -> type[LearnFn]:
    """Return the step with its timers under this name (see `timers`).

    Where silent models `expire`, it has one for that, too.
    """
    end_of_input = TimerSpec(timer, TimeDomain.WATERMARK)
    silence = TimerSpec(f"{timer}_silent", TimeDomain.REAL_TIME)

    class _LearnFn(LearnFn):
        """The stateful step of one transform."""

        @with_input_types(tuple[str, Chunk])
        @with_output_types(tuple[str, Chunk])
        def process(
            self,
            element: tuple[str, Chunk],
            learner: Any = beam.DoFn.StateParam(LearnFn.LEARNER),
            early: Any = beam.DoFn.StateParam(LearnFn.EARLY),
            end: Any = beam.DoFn.TimerParam(end_of_input),
            timestamp: Any = beam.DoFn.TimestampParam,
        ) -> Iterator[Any]:
            return self.bring(element, Cells(learner, early, end), timestamp)

        @on_timer(end_of_input)
        def at_end(
            self,
            key: Any = beam.DoFn.KeyParam,
            learner: Any = beam.DoFn.StateParam(LearnFn.LEARNER),
            early: Any = beam.DoFn.StateParam(LearnFn.EARLY),
        ) -> Iterator[Any]:
            return self.finish(key, learner, early)

    class _ExpiringLearnFn(_LearnFn):
        """The same with a timer of the worker's own time."""

        @with_input_types(tuple[str, Chunk])
        @with_output_types(tuple[str, Chunk])
        def process(
            self,
            element: tuple[str, Chunk],
            learner: Any = beam.DoFn.StateParam(LearnFn.LEARNER),
            early: Any = beam.DoFn.StateParam(LearnFn.EARLY),
            end: Any = beam.DoFn.TimerParam(end_of_input),
            timestamp: Any = beam.DoFn.TimestampParam,
            silent: Any = beam.DoFn.TimerParam(silence),
        ) -> Iterator[Any]:
            yield from self.bring(element, Cells(learner, early, end), timestamp)
            if self._expire_after is not None:
                silent.set(Timestamp.of(time.time() + self._expire_after))

        @on_timer(silence)
        def at_silence(
            self,
            key: Any = beam.DoFn.KeyParam,
            learner: Any = beam.DoFn.StateParam(LearnFn.LEARNER),
            early: Any = beam.DoFn.StateParam(LearnFn.EARLY),
            end: Any = beam.DoFn.TimerParam(end_of_input),
            silent: Any = beam.DoFn.TimerParam(silence),
            due: Any = beam.DoFn.TimestampParam,
        ) -> Iterator[Any]:
            if self._expire_after is not None and in_time(silent, due, self._expire_after):
                yield from self.expire(key, learner, early)
                end.clear()

    return _ExpiringLearnFn if expire else _LearnFn


def _with_early(now: Learning, chunk: Chunk) -> Learning:
    first = first_index(chunk)
    return now._replace(early=first if now.early is None else min(now.early, first))


def _slices(
    key: str, predicted: PredictedRows, label: pa.Array | None
) -> Iterator[tuple[str, Chunk]]:
    for start in range(0, len(predicted), SLICE_ROWS):
        stop = min(start + SLICE_ROWS, len(predicted))
        labels = None if label is None else label.slice(start, stop - start)
        yield key, prediction_chunk(predicted.part(start, stop), labels)


def _failures(key: str, lost: Lost) -> pvalue.TaggedOutput[str, Failures]:
    count("labels_lost", len(lost.row))
    return pvalue.TaggedOutput(FAILURES, Failures.of(key, lost.source, lost.row, lost.reason))
