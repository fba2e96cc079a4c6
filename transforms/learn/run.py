"""Rows of models whose labels come late: predicted, settled, scored."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kerneltrack.arrays import IntArray
from kerneltrack.fleet.late_labels import (
    LateRows,
    SettledRows,
    learn_late,
    predict_late,
    score_late,
)
from kerneltrack.learners import LearnerState
from kerneltrack.learners.common.board import Line, close_window, total_line
from transforms.learn.delayed_labels import (
    Lost,
    Pending,
    left_over,
    let_go,
    take_labels,
)
from transforms.learn.late_labels import LateLabels
from transforms.learn.learner import Learning
from transforms.learn.plan import Plan
from transforms.learn.waiting import (
    FeatureRows,
    PredictedRows,
    due_before,
    join_predictions,
)
from transforms.read.label_values import LabelArray, to_column


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


def boundaries(every: int, now: Learning, clock: IntArray) -> list[int]:
    """Return the places of a model's rows, at least one, before which a snapshot is due."""
    before = clock[0] if now.time is None else now.time
    places: list[int] = np.flatnonzero(np.diff(np.concatenate([[before], clock]) // every)).tolist()
    return places


class _Late(NamedTuple):
    """Rows of a model whose labels come late, before they are predicted.

    Attributes:
        whole: Those that wait, and the new ones behind them.
        due: Of each new one, how many of all are settled before it.
        labels: Of those that are.
        pending: Labels that wait, once these have been taken.
    """

    whole: FeatureRows
    due: IntArray
    labels: LabelArray
    pending: Pending


def advance_late(
    plan: Plan,
    late: LateLabels,
    before: Sequence[Learning],
    rows: Sequence[FeatureRows],
    outcomes: Sequence[Outcome],
) -> list[Learning]:
    """Run rows of m models that no snapshot divides, and whose labels come late.

    Args:
        plan: What to do.
        late: How long rows wait.
        before: What the models have come to; not written to.
        rows: Those of each, at least one, the first of them the model's next.
        outcomes: Of each; they take what comes out.

    Returns:
        What the learners have come to.
    """
    spec = plan.spec
    known = [_late(late, now, more) for now, more in zip(before, rows, strict=True)]
    states = [_state_of(now)[0] for now in before]
    steps = [LateRows(own.whole.z, own.due, own.labels) for own in known]
    states, predictions, codes = predict_late(spec, states, steps)
    after, ready = [], []
    each = zip(before, rows, known, states, predictions, codes, outcomes, strict=True)
    for now, more, own, state, now_predicted, now_codes, outcome in each:
        outcome.predicted.append(PredictedRows(more, now_predicted))
        predicted = PredictedRows(
            own.whole, join_predictions(_state_of(now)[1].predictions, now_predicted)
        )
        rest = predicted.part(len(own.labels), len(own.whole))
        oldest = None if rest.rows.time is None else int(rest.rows.time.min())
        pending, lost = let_go(own.pending, rest.rows.first, oldest)
        outcome.lost.append(lost)
        time = None if more.time is None else int(more.clock[-1])
        now = now._replace(state=state, rows=more.first + len(more), time=time)  # noqa: PLW2901
        after.append(now._replace(waiting=rest, pending=pending))
        ready.append((predicted.part(0, len(own.labels)), own.labels, now_codes))
    after = _scored(plan, after, ready, outcomes)
    if plan.window is None:
        return after
    return [
        _closed(now, outcome, int(_state_of(now)[1].rows.clock[0]))
        for now, outcome in zip(after, outcomes, strict=True)
    ]


def _late(late: LateLabels, now: Learning, rows: FeatureRows) -> _Late:
    waiting = _state_of(now)[1]
    whole = waiting.rows.followed_by(rows)
    due = due_before(late, whole.clock, len(waiting))
    ready = whole.part(0, int(due[-1]))
    return _Late(whole, due, *take_labels(now.pending, ready.first, ready.time, ready.label))


def _closed(now: Learning, outcome: Outcome, until: int | None = None) -> Learning:
    board, lines = close_window(now.board, until)
    outcome.lines += lines
    return now._replace(board=board)


def settle_each(
    plan: Plan, before: Sequence[Learning], outcomes: Sequence[Outcome]
) -> list[Learning]:
    """Settle all rows of m models that wait: no more rows or labels are to come.

    Args:
        plan: What to do.
        before: What the models have come to; not written to.
        outcomes: Of each; they take what comes out.

    Returns:
        What the learners have come to.
    """
    spec, after, ready = plan.spec, [], []
    for now, outcome in zip(before, outcomes, strict=True):
        state, waiting = _state_of(now)
        rows, labels = waiting.rows, waiting.rows.label
        codes = np.zeros(0, np.int64)
        if len(waiting) or now.pending:
            labels, pending = take_labels(now.pending, rows.first, rows.time, labels)
            outcome.lost.append(left_over(pending, now.open_rows))
            state, codes = learn_late(spec, state, rows.z, labels)
            none = waiting.part(len(rows), len(rows))
            now = now._replace(state=state, waiting=none, pending=Pending.none(spec))  # noqa: PLW2901
        after.append(now)
        ready.append((waiting, labels, codes))
    return _scored(plan, after, ready, outcomes)


def end_metrics(now: Learning, outcome: Outcome) -> Learning:
    """Close the window that is open, and draw the total."""
    now = _closed(now, outcome)
    outcome.lines.append(total_line(now.board))
    return now


def _state_of(now: Learning) -> tuple[LearnerState, PredictedRows]:
    if now.state is None or now.waiting is None:
        raise ValueError("the learner has no state yet")
    return now.state, now.waiting


def _scored(
    plan: Plan,
    before: Sequence[Learning],
    ready: Sequence[tuple[PredictedRows, LabelArray, IntArray]],
    outcomes: Sequence[Outcome],
) -> list[Learning]:
    """Compare earlier predictions of models with the labels that came since, and give them out."""
    after = list(before)
    some = [place for place, (predicted, *_) in enumerate(ready) if len(predicted)]
    if not some:
        return after
    settled = [
        SettledRows(predicted.rows.z, predicted.rows.clock, predicted.predictions, labels, codes)
        for predicted, labels, codes in (ready[place] for place in some)
    ]
    states = [_state_of(after[place])[0] for place in some]
    boards = [after[place].board for place in some]
    found = score_late(plan.spec, states, boards, settled, plan.window)
    for place, state, predictions, board, lines in zip(some, *found, strict=True):
        (predicted, labels, _), outcome = ready[place], outcomes[place]
        after[place] = after[place]._replace(state=state, board=board)
        outcome.lines += lines
        outcome.settled.append((PredictedRows(predicted.rows, predictions), to_column(labels)))
    return after
