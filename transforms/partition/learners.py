"""The learners of a file job: all features of many models, in as many calls as these come in.

Each call is one for all models. Where snapshots are due between a model's rows, these are cut
there, and the k-th piece of every model runs in round k. A single model is the case of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.codec import Parts
from kerneltrack.fleet.clock import NO_TIME, clock_of_each
from kerneltrack.learners.common.spec import BOTH, FEATURES, LearnerSpec
from kerneltrack.registry import get_learner
from transforms.chunks import Chunk
from transforms.failures import Failures
from transforms.learn.block import learn_rows, part_of
from transforms.learn.delayed_labels import Lost, arrive, left_over
from transforms.learn.late_labels import LateLabels
from transforms.learn.learner import Learning, begin, encode_snapshot, opened, snapshot_parts
from transforms.learn.metrics import metrics_chunk
from transforms.learn.predictions import SLICE_ROWS
from transforms.learn.run import Outcome, advance_late, boundaries, end_metrics, settle_each
from transforms.learn.step import LearnFn
from transforms.learn.totals import count_learned
from transforms.learn.turns import NarrowFn, gap, inputs_of, narrow_labels
from transforms.learn.waiting import FeatureRows, prediction_chunk
from transforms.metrics import count
from transforms.read.label_values import label_values, no_labels

IntArray = npt.NDArray[np.int64]


class Last(NamedTuple):
    """The last snapshot of a model's learner.

    Attributes:
        parts: What it holds.
        rows: Index of the next row.
        time: Greatest time so far, ns; None without times.
    """

    parts: Parts
    rows: int
    time: int | None


class Learned(NamedTuple):
    """What came of m models since it was last asked for.

    Attributes:
        lengths: (m,) lines of predictions of each.
        predictions: These, one model's after the other; None without any.
        lines: (m,) lines of metrics of each.
        metrics: Likewise.
        snapshots: Those at boundaries, by model.
        failures: Labels that no row takes, by model.
    """

    lengths: list[int]
    predictions: pa.RecordBatch | None
    lines: list[int]
    metrics: pa.RecordBatch | None
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
    """The learners of m models, from the first of a job's rows to the end.

    Args:
        steps: The learner's.
        keys: The models.
        labels: Delayed labels by model, all that there are.

    Raises:
        DataError: as `LearnFn.resumed` does.
    """

    def __init__(
        self, steps: tuple[NarrowFn, LearnFn], keys: Sequence[str], labels: Mapping[str, Chunk]
    ) -> None:
        """Let the learners begin, or go on from snapshots."""
        self._narrow, fn = steps
        self._plan, self._keys = fn.plan, keys
        spec, many = fn.plan.spec, len(keys)
        self._now = [begin(spec)] * many if fn.begins_anew else [fn.resumed(key) for key in keys]
        self._before = list(self._now)
        self._touched = np.zeros(many, np.bool_)
        self._said: list[tuple[pa.RecordBatch, IntArray]] = []
        self._outcomes: dict[int, Outcome] = {}
        if fn.plan.late is not None:
            for place, key in enumerate(keys):
                if key in labels:
                    self._arrive(place, narrow_labels((key, labels[key]), spec)[1])

    @property
    def rows_at_once(self) -> int:
        """Rows of a model that a call should have: all that wait are copied for each."""
        late = self._plan.late
        return SLICE_ROWS if late is None else max(SLICE_ROWS, late.most_rows)

    def _arrive(self, place: int, labels: Chunk) -> None:
        now = self._now[place]
        spec, rows = self._plan.spec, now.open_rows
        pending, lost, again = arrive(spec, now.pending, [labels], rows, None)
        count("labels_again", again)
        self._outcome(place).lost.append(lost)
        self._now[place] = now._replace(pending=pending)
        self._touched[place] = True

    def _outcome(self, place: int) -> Outcome:
        return self._outcomes.setdefault(place, Outcome())

    def take(
        self, features: pa.RecordBatch, which: IntArray, starts: IntArray, stops: IntArray
    ) -> None:
        """Let learners take features of their models, the next ones.

        Args:
            features: Labels among them; a model's follow one another, and models do without a gap.
            which: (k,) places of the models.
            starts: (k,) place of each one's first row; the first one's is 0.
            stops: (k,) place after its last, one row at least.

        Raises:
            ConfigError: as `NarrowFn` does.
            DataError: if rows before these are missing.
        """
        rows = self._narrow.narrow(Chunk(features))
        rows, which, starts, stops = self._unlearned(rows, which, starts, stops)
        if not len(which):
            return
        width, channels = _width(rows)
        places, spec = which.tolist(), self._plan.spec
        made: dict[int, Learning] = {}
        for place in places:
            now = self._now[place]
            # Most have not begun, and are one object.
            if id(now) not in made:
                made[id(now)] = opened(spec, now, width, channels)
            self._now[place] = made[id(now)]
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
        again = np.array([self._now[place].rows for place in which.tolist()]) - first
        if not again.any():
            return rows, which, starts, stops
        if (again < 0).any():
            place = int(np.argmax(again < 0))
            model = int(which[place])
            raise gap(self._keys[model], self._now[model].rows, int(first[place]))
        again = np.minimum(again, stops - starts)
        count("rows_again", int(again.sum()))
        some = np.flatnonzero(stops - starts > again)
        part, starts, stops = part_of(rows, (starts + again)[some], stops[some])
        return part, which[some], starts, stops

    def _waits(self, place: int) -> bool:
        waiting = self._now[place].waiting
        return waiting is not None and len(waiting) > 0

    def _settle(self, places: list[int]) -> None:
        """Settle the rows of models that wait."""
        outcomes = [self._outcome(place) for place in places]
        settled = settle_each(self._plan, [self._now[place] for place in places], outcomes)
        for place, now in zip(places, settled, strict=True):
            self._now[place] = now
        self._gather(places)

    def _rounds(
        self, rows: Chunk, which: IntArray, starts: IntArray, stops: IntArray
    ) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Return which of the models have a piece in each round, and where it begins and ends.

        But for the first round, a snapshot of each is due before its piece.
        """
        cuts: list[IntArray] = []
        if self._plan.every is not None:
            spans = starts.tolist(), stops.tolist(), self._clock(rows, which, starts, stops)
            for place, start, stop, clock in zip(which.tolist(), *spans, strict=True):
                known = boundaries(self._plan.every, self._now[place], clock)
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

    def _clock(
        self, rows: Chunk, which: IntArray, starts: IntArray, stops: IntArray
    ) -> list[IntArray]:
        """Return the greatest time of each model up to its rows; zeros without times."""
        if rows.has("time"):
            times = [self._now[place].time for place in which.tolist()]
            before = np.array([NO_TIME if time is None else time for time in times], np.int64)
            clock = clock_of_each(rows.column("time"), before, starts, stops)
        else:
            clock = np.zeros(len(rows), np.int64)
        return np.split(clock, stops[:-1])

    def _write(self, place: int) -> None:
        """Write a snapshot of a model at a boundary."""
        data = encode_snapshot(self._plan.spec, self._keys[place], self._now[place], final=False)
        self._outcome(place).snapshots.append(data)

    def _run(self, rows: Chunk, which: IntArray, starts: IntArray, stops: IntArray) -> None:
        """Run rows that no snapshot divides."""
        places, plan = which.tolist(), self._plan
        now = [self._now[place] for place in places]
        if plan.late is not None:
            self._run_late(plan.late, rows, which, starts, stops)
            return
        learned = learn_rows(plan, now, rows, inputs_of(rows)[0], starts, stops)
        self._said.append((learned.predictions, np.repeat(which, stops - starts)))
        for place, after, (_, lines) in zip(places, learned.after, learned.told, strict=True):
            self._now[place] = after
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
        spans = starts.tolist(), stops.tolist(), self._clock(rows, which, starts, stops)
        given = [
            FeatureRows(
                self._now[place].rows,
                None if times is None else times[start:stop],
                clock,
                inputs[start:stop],
                labels[start:stop],
            )
            for place, start, stop, clock in zip(places, *spans, strict=True)
        ]
        outcomes = [self._outcome(place) for place in places]
        before = [self._now[place] for place in places]
        after = advance_late(plan, late, before, given, outcomes)
        for place, now in zip(places, after, strict=True):
            self._now[place] = now
        self._gather(places)

    def _gather(self, places: list[int]) -> None:
        """Put predictions that are settled to the others."""
        for place in places:
            outcome = self._outcomes[place]
            for predicted, label in outcome.settled:
                batch = prediction_chunk(predicted, label).batch
                self._said.append((batch, np.full(len(batch), place)))
            outcome.settled, outcome.predicted = [], []

    def end(self) -> list[Last | None]:
        """Settle what waits: no more rows come.

        Returns:
            The last snapshot of each model, with the rows that wait; None of one that has none.
        """
        spec = self._plan.spec
        last: list[Last | None] = [None] * len(self._keys)
        ended = []
        for place in np.flatnonzero(self._touched).tolist():
            now = self._now[place]
            if now.state is None:
                self._outcome(place).lost.append(left_over(now.pending, now.open_rows))
                continue
            last[place] = Last(snapshot_parts(spec, self._keys[place], now), now.rows, now.time)
            ended.append(place)
        waits = [place for place in ended if self._waits(place) or self._now[place].pending]
        self._settle(waits)
        for place in ended:
            self._now[place] = end_metrics(self._now[place], self._outcome(place))
        return last

    def came(self) -> Learned:
        """Return what came since this was last called, and count it."""
        spec, many = self._plan.spec, len(self._keys)
        count_learned(spec, zip(self._before, self._now, strict=True))
        self._before = list(self._now)
        predictions, lengths = _joined(self._said, many)
        told = []
        for place, outcome in sorted(self._outcomes.items()):
            state = self._now[place].state
            if outcome.lines and state is not None:
                told.append((state, outcome.lines))
        lines = [0] * many
        for place, outcome in self._outcomes.items():
            lines[place] = len(outcome.lines)
        metrics = metrics_chunk(spec, told).batch if told else None
        snapshots = {place: known.snapshots for place, known in self._outcomes.items()}
        failures = {
            place: [_failures(self._keys[place], lost) for lost in known.lost if lost.row]
            for place, known in self._outcomes.items()
        }
        self._said, self._outcomes = [], {}
        return Learned(
            lengths,
            predictions,
            lines,
            metrics,
            {place: data for place, data in snapshots.items() if data},
            {place: batches for place, batches in failures.items() if batches},
        )


def _width(rows: Chunk) -> tuple[int, int]:
    """Return how much a learner is told of narrow rows, and how much of it are the rows' own."""
    inputs, channels = inputs_of(rows.slice(0, 1))
    return inputs.shape[1], channels


def _joined(
    said: list[tuple[pa.RecordBatch, IntArray]], many: int
) -> tuple[pa.RecordBatch | None, list[int]]:
    """Return predictions in the order of their models, and how many each model has."""
    if not said:
        return None, [0] * many
    if len(said) == 1:
        batch, owner = said[0]
    else:
        batch = pa.concat_batches([batch for batch, _ in said])
        owner = np.concatenate([owner for _, owner in said])
        if (np.diff(owner) < 0).any():
            order = np.argsort(owner, kind="stable")
            batch = batch.take(pa.array(order))
    return batch, np.bincount(owner, minlength=many).tolist()


def _failures(key: str, lost: Lost) -> pa.RecordBatch:
    count("labels_lost", len(lost.row))
    return Failures.of(key, lost.source, lost.row, lost.reason).batch
