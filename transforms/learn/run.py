"""A model's rows in order, predicted, scored and learned from: what the keyed step runs."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pyarrow as pa

from kerneltrack.fleet.late_labels import learn_late, predict_late, score_late
from kerneltrack.fleet.learn import labels_of, learn_each
from kerneltrack.learners import LearnerSpec, LearnerState
from kerneltrack.learners.common.board import (
    Line,
    add_rows,
    close_window,
    scored_rows,
    total_line,
)
from kerneltrack.learners.common.guesses import guess
from kerneltrack.learners.common.labels import MISSING
from transforms.learn.delayed_labels import (
    Lost,
    Pending,
    left_over,
    let_go,
    take_labels,
)
from transforms.learn.late_labels import LateLabels
from transforms.learn.learner import Learning, encode_snapshot
from transforms.learn.metrics import coded_labels
from transforms.learn.waiting import (
    FeatureRows,
    PredictedRows,
    due_before,
    join_predictions,
    label_list,
)
from transforms.read.label_values import LabelArray, to_column


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What is done with every model's rows.

    Attributes:
        spec: The learner's spec.
        late: How long rows wait for labels; None: labels come with the rows.
        window: Length of the metrics' windows, ns; None: only the total.
        every: Distance of the boundaries at which snapshots are due, ns; None: only at the end.
    """

    spec: LearnerSpec
    late: LateLabels | None = None
    window: int | None = None
    every: int | None = None


@dataclasses.dataclass
class Outcome:
    """What came of rows.

    Attributes:
        predicted: Rows whose labels are waited for.
        settled: Rows that are scored, with their labels.
        lines: Metrics.
        lost: Labels that no row takes.
        snapshots: The model's bytes at the boundaries that were passed.
    """

    predicted: list[PredictedRows] = dataclasses.field(default_factory=list)
    settled: list[tuple[PredictedRows, pa.Array]] = dataclasses.field(default_factory=list)
    lines: list[Line] = dataclasses.field(default_factory=list)
    lost: list[Lost] = dataclasses.field(default_factory=list)
    snapshots: list[bytes] = dataclasses.field(default_factory=list)


def run_rows(plan: Plan, key: str, now: Learning, rows: FeatureRows, outcome: Outcome) -> Learning:
    """Run rows that follow one another through a model's learner.

    Args:
        plan: What to do.
        key: The model's ID.
        now: What it has come to; not written to.
        rows: At least one, the first of them the model's next.
        outcome: Takes what comes out; the same, in the same order, whatever calls the rows come in.

    Returns:
        What the learner has come to.
    """
    now = _unfinished(plan, now, outcome)
    edges = [0, len(rows)]
    if plan.every is not None:
        before = rows.clock[0] if now.time is None else now.time
        spans = np.concatenate([[before], rows.clock]) // plan.every
        edges = [0, *np.flatnonzero(np.diff(spans)).tolist(), len(rows)]
    for number, (start, stop) in enumerate(itertools.pairwise(edges)):
        if number > 0:
            outcome.snapshots.append(encode_snapshot(plan.spec, key, now, final=False))
        if stop > start:
            now = _advance(plan, now, rows.part(start, stop), outcome)
    return now


def _unfinished(plan: Plan, now: Learning, outcome: Outcome) -> Learning:
    """Settle rows that waited in the job before, if this one does not wait for labels."""
    if plan.late is None and now.waiting is not None and len(now.waiting):
        return settle_rest(plan, now, outcome)
    return now


def _advance(plan: Plan, now: Learning, rows: FeatureRows, outcome: Outcome) -> Learning:
    """Run rows that no snapshot divides."""
    state, waiting = _begun(now)
    spec = plan.spec
    after = now._replace(
        rows=rows.first + len(rows), time=None if rows.time is None else int(rows.clock[-1])
    )
    if plan.late is None:
        spans = np.zeros(1, np.int64), np.array([len(rows)])
        given = labels_of(spec, label_list(rows.label), len(rows))
        begun = [(state, now.board)]
        found = learn_each(spec, begun, rows.z, rows.clock, given, *spans, window=plan.window)
        outcome.lines += found.lines[0]
        outcome.settled.append((PredictedRows(rows, found.said), to_column(rows.label)))
        return now.after(found.states[0], found.boards[0], after.rows, after.time)
    whole = waiting.rows.followed_by(rows)
    due = due_before(plan.late, whole.clock, len(waiting))
    ready = whole.part(0, int(due[-1]))
    labels, pending = take_labels(now.pending, ready.first, ready.time, ready.label)
    state, said = predict_late(spec, state, whole.z, len(waiting), due, labels)
    outcome.predicted.append(PredictedRows(rows, said))
    predicted = PredictedRows(whole, join_predictions(waiting.said, said))
    rest = predicted.part(len(ready), len(whole))
    oldest = None if rest.rows.time is None else int(rest.rows.time.min())
    pending, lost = let_go(pending, rest.rows.first, oldest)
    outcome.lost.append(lost)
    after = after._replace(state=state, waiting=rest, pending=pending)
    after = _scored(plan, after, predicted.part(0, len(ready)), labels, outcome)
    if plan.window is None:
        return after
    board, lines = close_window(after.board, int(rest.rows.clock[0]))
    outcome.lines += lines
    return after._replace(board=board)


def settle_rest(plan: Plan, now: Learning, outcome: Outcome) -> Learning:
    """Settle all rows that wait: no more rows or labels are to come."""
    state, waiting = _begun(now)
    if not len(waiting) and not now.pending:
        return now
    spec, rows = plan.spec, waiting.rows
    labels, pending = take_labels(now.pending, rows.first, rows.time, rows.label)
    outcome.lost.append(left_over(pending, now.open_rows))
    state = learn_late(spec, state, rows.z, labels)
    after = now._replace(
        state=state,
        waiting=waiting.part(len(rows), len(rows)),
        pending=Pending.none(spec),
    )
    return _scored(plan, after, waiting, labels, outcome)


def end_metrics(now: Learning, outcome: Outcome) -> Learning:
    """Close the window that is open, and draw the total."""
    board, lines = close_window(now.board)
    outcome.lines += [*lines, total_line(board)]
    return now._replace(board=board)


def _begun(now: Learning) -> tuple[LearnerState, PredictedRows]:
    if now.state is None or now.waiting is None:
        raise ValueError("the learner has no state yet")
    return now.state, now.waiting


def _scored(
    plan: Plan, now: Learning, predicted: PredictedRows, labels: LabelArray, outcome: Outcome
) -> Learning:
    """Compare earlier predictions with the labels that came since."""
    if not len(predicted):
        return now
    state, said = score_late(plan.spec, _begun(now)[0], predicted.said, labels)
    marked = PredictedRows(predicted.rows, said)
    return _settled(plan, now._replace(state=state), marked, labels, outcome)


def _settled(
    plan: Plan, now: Learning, predicted: PredictedRows, labels: LabelArray, outcome: Outcome
) -> Learning:
    """Count rows that are scored and learned from, and give them out."""
    column = to_column(labels)
    state, _ = _begun(now)
    board = now.board
    # The label of a row that was refused is told to nobody.
    told = coded_labels(plan.spec, state.classes, column)
    told = np.where(predicted.said.valid, told, MISSING if plan.spec.classifies else np.nan)
    known, guessed = guess(plan.spec, board.guesses, predicted.rows.z, told)
    marks = scored_rows(plan.spec, predicted.rows.clock, predicted.said, told, guessed)
    board, lines = add_rows(board._replace(guesses=known), marks, plan.window)
    outcome.lines += lines
    outcome.settled.append((predicted, column))
    return now._replace(board=board)
