"""The learners of models: features as trackers made them, in as many calls as these come in.

Files and streams go this way. Each call is one for all models. Where snapshots are due between a
model's rows, these are cut there, and the k-th piece of every model runs in round k. A single model
is the case of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from kerneltrack.arrays import IntArray
from kerneltrack.codec import SnapshotParts
from kerneltrack.errors import DataError
from kerneltrack.fleet.clock import NO_TIME, clock_of_each
from kerneltrack.learners import LearnerState
from kerneltrack.learners.common.base import CARRIED
from kerneltrack.learners.common.board import Line
from kerneltrack.learners.common.spec import BOTH, FEATURES, LearnerSpec
from kerneltrack.registry import get_learner
from transforms.chunks import Chunk
from transforms.failures import Failures
from transforms.learn.block import learn_rows, part_of
from transforms.learn.delayed_labels import Lost, arrive, left_over
from transforms.learn.inputs import inputs_of
from transforms.learn.late_labels import LateLabels
from transforms.learn.learner import (
    Learning,
    begin,
    decode,
    encode_snapshot,
    opened,
    snapshot_parts,
)
from transforms.learn.metrics import metrics_chunk
from transforms.learn.plan import Plan
from transforms.learn.predictions import SLICE_ROWS
from transforms.learn.run import Outcome, advance_late, boundaries, end_metrics, settle_each
from transforms.learn.waiting import FeatureRows, none_waiting, prediction_chunk
from transforms.metrics import count
from transforms.outputs import LOST_LABELS, METRICS, PREDICTIONS, SCORED, SNAPSHOTS
from transforms.read.label_values import label_values, no_labels

_COUNTED = ("scored", "correct", "learned", "unusable")


class Last(NamedTuple):
    """The last snapshot of a model's learner.

    Attributes:
        parts: What it holds.
        rows: Index of the next row.
        time: Greatest time so far, ns; None without times.
    """

    parts: SnapshotParts
    rows: int
    time: int | None


class LearnedModels(NamedTuple):
    """What came of m models since it was last asked for.

    Attributes:
        main: By name of the output, the lines of each model, (m,), and these, one model's after
            the other.
        snapshots: Those at boundaries, by model.
        failures: Labels that no row takes, by model.
    """

    main: Mapping[str, tuple[list[int], pa.RecordBatch]]
    snapshots: Mapping[int, list[bytes]]
    failures: Mapping[int, list[pa.RecordBatch]]


def bytes_of(spec: LearnerSpec, channels: int, rank: int) -> int:
    """Return the bytes of a learner's state that has met no class.

    Args:
        spec: Its spec.
        channels: Of the rows.
        rank: How many features the tracker makes of them.
    """
    own = rank if spec.input_kind == FEATURES else channels
    width = own + rank if spec.input_kind == BOTH else own
    learner = get_learner(spec.learner)
    arrays = learner.arrays(learner.begin(spec, width, own))
    return sum(array.nbytes for array in arrays.values())


class Learners:
    """The learners of m models, as they go on.

    Args:
        plan: What is done with their rows.
        keys: The models.
        now: What each learner has come to.
        touched: Whether any rows or labels have come to them before.
    """

    def __init__(
        self, plan: Plan, keys: Sequence[str], now: Sequence[Learning], touched: bool = False
    ) -> None:
        """Let the learners go on from there."""
        self._plan, self.keys = plan, keys
        self.now = list(now)
        self._before = list(now)
        self._touched = np.full(len(keys), touched)
        self._said: dict[str, list[tuple[pa.RecordBatch, IntArray]]] = {}
        self._outcomes: dict[int, Outcome] = {}
        self._lines: list[tuple[int, LearnerState, list[Line]]] = []

    def arrive(self, place: int, labels: Chunk) -> None:
        """Let delayed labels of a model wait for its rows.

        Args:
            place: The model's.
            labels: Labels, as `narrow_labels` gives them.
        """
        late, now = self._plan.late, self.now[place]
        if late is None:
            return
        most = None if self._plan.bounded else late.most_rows
        pending, lost, again = arrive(self._plan.spec, now.pending, [labels], now.open_rows, most)
        count("labels_again", again)
        self._outcome(place).lost.append(lost)
        self.now[place] = now._replace(pending=pending)
        self._touched[place] = True

    def begin_anew(self, place: int, known: bytes | None) -> None:
        """Let a learner begin anew where it is, or with what a snapshot had learned.

        What it had to say is said.
        """
        spec, now = self._plan.spec, self.now[place]
        if now.state is not None:
            self._settle([place])
            end_metrics(self.now[place], self._outcome(place))
            self._draw(place, self._outcome(place))
        after = begin(spec, now.rows)._replace(time=now.time)
        if known is not None:
            state = decode(spec, known, f"learner of model {self.keys[place]!r}").state
            after = after._replace(state=state)
            if state is not None:
                after = after._replace(waiting=none_waiting(spec, state, now.rows))
        self.now[place] = after
        self._touched[place] = True

    def _outcome(self, place: int) -> Outcome:
        return self._outcomes.setdefault(place, Outcome())

    def take(self, rows: Chunk, which: IntArray, starts: IntArray, stops: IntArray) -> None:
        """Let learners take features of their models, the next ones.

        Args:
            rows: Narrow features, labels among them; a model's follow one another, and models do
                without a gap.
            which: (k,) places of the models.
            starts: (k,) place of each one's first row; the first one's is 0.
            stops: (k,) place after its last, one row at least.

        Raises:
            DataError: if rows before these are missing.
        """
        rows, which, starts, stops = self._unlearned(rows, which, starts, stops)
        if not len(which):
            return
        width, channels = _width(rows)
        places, spec = which.tolist(), self._plan.spec
        made: dict[int, Learning] = {}
        for place in places:
            now = self.now[place]
            # Most have not begun, and are one object.
            if id(now) not in made:
                made[id(now)] = opened(spec, now, width, channels)
            self.now[place] = made[id(now)]
        self._touched[which] = True
        if self._plan.late is None:
            self._settle([place for place in places if self._waits(place)])
        for turn, (alive, begins, ends) in enumerate(self._rounds(rows, which, starts, stops)):
            if turn:
                for place in which[alive].tolist():
                    self._write(place)
            some = np.flatnonzero(ends > begins)
            if len(some):
                part, *spans = part_of(rows, begins[some], ends[some])
                self._run(part, which[alive[some]], *spans)

    def _unlearned(
        self, rows: Chunk, which: IntArray, starts: IntArray, stops: IntArray
    ) -> tuple[Chunk, IntArray, IntArray, IntArray]:
        """Leave out rows that snapshots have seen."""
        first = rows.column("index")[starts]
        again = np.array([self.now[place].rows for place in which.tolist()]) - first
        if not again.any():
            return rows, which, starts, stops
        if (again < 0).any():
            place = int(np.argmax(again < 0))
            model = int(which[place])
            raise gap(self.keys[model], self.now[model].rows, int(first[place]))
        again = np.minimum(again, stops - starts)
        count("rows_again", int(again.sum()))
        some = np.flatnonzero(stops - starts > again)
        part, starts, stops = part_of(rows, (starts + again)[some], stops[some])
        return part, which[some], starts, stops

    def _waits(self, place: int) -> bool:
        waiting = self.now[place].waiting
        return waiting is not None and len(waiting) > 0

    def _settle(self, places: list[int]) -> None:
        """Settle the rows of models that wait."""
        outcomes = [self._outcome(place) for place in places]
        settled = settle_each(self._plan, [self.now[place] for place in places], outcomes)
        for place, now in zip(places, settled, strict=True):
            self.now[place] = now
        self._gather(places)

    def _rounds(
        self, rows: Chunk, which: IntArray, starts: IntArray, stops: IntArray
    ) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Return which of the models have a piece in each round, and where it begins and ends.

        But for the first round, a snapshot of each is due before its piece.
        """
        cuts: list[IntArray] = []
        if self._plan.every is not None:
            clocks = np.split(self._clock(rows, which, starts, stops), stops[:-1])
            spans = starts.tolist(), stops.tolist(), clocks
            for place, start, stop, clock in zip(which.tolist(), *spans, strict=True):
                known = boundaries(self._plan.every, self.now[place], clock)
                cuts.append(np.array([start, *(start + cut for cut in known), stop]))
        if not any(len(own) > 2 for own in cuts):
            yield np.arange(len(which)), starts, stops
            return
        many = np.array([len(own) - 1 for own in cuts])
        for turn in range(int(many.max())):
            alive = np.flatnonzero(many > turn)
            begins, ends = (
                np.array([cuts[place][turn + at] for place in alive.tolist()]) for at in (0, 1)
            )
            yield alive, begins, ends

    def _clock(self, rows: Chunk, which: IntArray, starts: IntArray, stops: IntArray) -> IntArray:
        """Return the greatest time of each row's model up to it, (n,); zeros without times."""
        if not rows.has("time"):
            return np.zeros(len(rows), np.int64)
        times = [self.now[place].time for place in which.tolist()]
        before = np.array([NO_TIME if time is None else time for time in times], np.int64)
        return clock_of_each(rows.column("time"), before, starts, stops)

    def _write(self, place: int) -> None:
        """Write a snapshot of a model at a boundary."""
        data = encode_snapshot(self._plan.spec, self.keys[place], self.now[place])
        self._outcome(place).snapshots.append(data)

    def _run(self, rows: Chunk, which: IntArray, starts: IntArray, stops: IntArray) -> None:
        """Run rows that no snapshot divides."""
        places, plan = which.tolist(), self._plan
        now = [self.now[place] for place in places]
        if plan.late is not None:
            self._run_late(plan.late, rows, which, starts, stops)
            return
        clock = self._clock(rows, which, starts, stops)
        learned = learn_rows(plan, now, rows, inputs_of(rows)[0], clock, starts, stops)
        self._say(PREDICTIONS, learned.predictions, np.repeat(which, stops - starts))
        for place, after, (_, lines) in zip(places, learned.after, learned.closed, strict=True):
            self.now[place] = after
            if lines:
                self._outcome(place).lines += lines

    def _run_late(
        self, late: LateLabels, rows: Chunk, which: IntArray, starts: IntArray, stops: IntArray
    ) -> None:
        places, plan = which.tolist(), self._plan
        times = rows.column("time") if rows.has("time") else None
        inputs, _ = inputs_of(rows)
        if rows.has("label"):
            labels = label_values(rows.batch.column("label"))
        else:
            labels = no_labels(plan.spec, len(rows))
        clocks = np.split(self._clock(rows, which, starts, stops), stops[:-1])
        spans = starts.tolist(), stops.tolist(), clocks
        given = [
            FeatureRows(
                self.now[place].rows,
                None if times is None else times[start:stop],
                clock,
                inputs[start:stop],
                labels[start:stop],
            )
            for place, start, stop, clock in zip(places, *spans, strict=True)
        ]
        outcomes = [self._outcome(place) for place in places]
        before = [self.now[place] for place in places]
        after = advance_late(plan, late, before, given, outcomes)
        for place, now in zip(places, after, strict=True):
            self.now[place] = now
        self._gather(places)

    def _gather(self, places: list[int]) -> None:
        """Put predictions to the others: once they are settled, or at once and then again."""
        settled = SCORED if self._plan.at_once else PREDICTIONS
        for place in places:
            outcome = self._outcomes[place]
            for predicted in outcome.predicted if self._plan.at_once else ():
                self._say(PREDICTIONS, prediction_chunk(predicted, None).batch, place)
            for predicted, label in outcome.settled:
                self._say(settled, prediction_chunk(predicted, label).batch, place)
            outcome.settled, outcome.predicted = [], []

    def _say(self, part: str, batch: pa.RecordBatch, owner: int | IntArray) -> None:
        owners = np.full(len(batch), owner) if isinstance(owner, int) else owner
        self._said.setdefault(part, []).append((batch, owners))

    def end(self) -> list[Last | None]:
        """Settle what waits: no more rows come.

        Returns:
            The last snapshot of each model, with the rows that wait; None of one that has none.
        """
        spec = self._plan.spec
        last: list[Last | None] = [None] * len(self.keys)
        ended = []
        for place in np.flatnonzero(self._touched).tolist():
            now = self.now[place]
            if now.state is None:
                self._outcome(place).lost.append(left_over(now.pending, now.open_rows))
                continue
            last[place] = Last(snapshot_parts(spec, self.keys[place], now), now.rows, now.time)
            ended.append(place)
        waits = [place for place in ended if self._waits(place) or self.now[place].pending]
        self._settle(waits)
        for place in ended:
            self.now[place] = end_metrics(self.now[place], self._outcome(place))
        return last

    def came(self) -> LearnedModels:
        """Return what came since this was last called, and count it."""
        spec, many = self._plan.spec, len(self.keys)
        _count_learned(spec, zip(self._before, self.now, strict=True))
        self._before = list(self.now)
        main = {part: _joined(chunks, many) for part, chunks in self._said.items()}
        for place, outcome in self._outcomes.items():
            self._draw(place, outcome)
        if self._lines:
            closed = sorted(self._lines, key=lambda line: line[0])
            owners = np.repeat([place for place, *_ in closed], [len(own) for *_, own in closed])
            lengths: list[int] = np.bincount(owners, minlength=many).tolist()
            main[METRICS] = lengths, metrics_chunk(spec, [own[1:] for own in closed]).batch
        snapshots = {place: known.snapshots for place, known in self._outcomes.items()}
        failures = {
            place: [_failures(self.keys[place], lost) for lost in known.lost if lost.row]
            for place, known in self._outcomes.items()
        }
        self._said, self._outcomes, self._lines = {}, {}, []
        return LearnedModels(
            main,
            {place: data for place, data in snapshots.items() if data},
            {place: batches for place, batches in failures.items() if batches},
        )

    def _draw(self, place: int, outcome: Outcome) -> None:
        """Put a model's lines of metrics to the others."""
        state = self.now[place].state
        if outcome.lines and state is not None:
            self._lines.append((place, state, outcome.lines))
        outcome.lines = []


def _width(rows: Chunk) -> tuple[int, int]:
    """Return how much a learner is told of narrow rows, and how much of it are the rows' own."""
    inputs, channels = inputs_of(rows.slice(0, 1))
    return inputs.shape[1], channels


def _joined(
    chunks: list[tuple[pa.RecordBatch, IntArray]], many: int
) -> tuple[list[int], pa.RecordBatch]:
    """Return how many predictions each model has, and these in the order of their models."""
    batch, owner = chunks[0]
    if len(chunks) > 1:
        batch = pa.concat_batches([batch for batch, _ in chunks])
        owner = np.concatenate([owner for _, owner in chunks])
        if (np.diff(owner) < 0).any():
            order = np.argsort(owner, kind="stable")
            batch = batch.take(pa.array(order))
    return np.bincount(owner, minlength=many).tolist(), batch


def _failures(key: str, lost: Lost) -> pa.RecordBatch:
    count("labels_lost", len(lost.row))
    return Failures.of(key, lost.source, lost.row, lost.reason).batch


def gap(key: str, expected: int, found: int) -> DataError:
    """Return the error for features that have not all come."""
    return DataError(
        f"features of model {key!r}",
        f"rows {expected} to {found - 1} never came, row {found} did",
    )


def outputs_of(keys: Sequence[str], learned: LearnedModels) -> Iterator[TaggedOutput[str, Any]]:
    """Return what came of models as outputs of a step."""
    for part, (lengths, batch) in learned.main.items():
        at = 0
        for key, length in zip(keys, lengths, strict=True):
            for start in range(at, at + length, SLICE_ROWS):
                many = min(SLICE_ROWS, at + length - start)
                yield TaggedOutput(part, (key, Chunk(batch.slice(start, many))))
            at += length
    for place, snapshots in learned.snapshots.items():
        for data in snapshots:
            yield TaggedOutput(SNAPSHOTS, (keys[place], data))
    for batches in learned.failures.values():
        for batch in batches:
            yield TaggedOutput(LOST_LABELS, Failures(batch))


def _count_learned(spec: LearnerSpec, changes: Iterable[tuple[Learning, Learning]]) -> None:
    """Count the rows that learners predicted from one state to another, and what came of them."""
    learner, totals = get_learner(spec.learner), Counter[str]()
    for before, now in changes:
        totals["predicted"] += now.rows - before.rows
        for known, sign in ((now, 1), (before, -1)):
            counters = {} if known.state is None else learner.counters(known.state)
            for name, value in counters.items():
                if name in _COUNTED or name.startswith(CARRIED):
                    totals[name] += sign * int(value)
    for name, amount in totals.items():
        count(name, amount)
