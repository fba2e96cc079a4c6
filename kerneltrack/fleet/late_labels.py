"""Learners of many models whose labels come late: a row is predicted, later learned from.

Predictions and late learning alternate: before row j is predicted, the rows whose wait ends with
it are learned from. Both go through the learners' own row loop in one call, as rows in the order
in which they are due: once with its label when it is learned from, once without any when it is
predicted.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.fleet.learn import (
    go_together,
    joined_columns,
    labels_of,
    predictions_at,
)
from kerneltrack.learners import LearnerSpec, LearnerState, Predictions
from kerneltrack.learners.common.base import ABSOLUTE, CORRECT, SCORED, SQUARED
from kerneltrack.learners.common.block import update_block
from kerneltrack.learners.common.board import Board, Line, count_each, scored_rows
from kerneltrack.learners.common.guesses import guess_each
from kerneltrack.learners.common.kept_classes import MISSING, names_of
from kerneltrack.learners.common.label_sets import no_sets
from kerneltrack.learners.common.labels import coded
from kerneltrack.learners.common.prequential import MAX_FEATURE
from kerneltrack.registry import get_learner

LabelArray: TypeAlias = npt.NDArray[Any]
"""(n,) classes, None where missing, or targets, NaN where missing."""


class LateRows(NamedTuple):
    """Rows of a model: w that wait, and n new ones, at least one, behind them.

    Attributes:
        inputs: (w + n, width) what the learner is told of them.
        due: (n,) how many of the w + n rows are settled before each new one.
        labels: Labels of the first due[-1] rows.
    """

    inputs: FloatArray
    due: IntArray
    labels: LabelArray


class SettledRows(NamedTuple):
    """Rows of a model whose labels are known now, as far as they ever will be.

    Attributes:
        inputs: (n, width) what the learner was told of them.
        clock: (n,) times, ns, never going back.
        predictions: What it said of them.
        labels: Their labels.
        codes: (n,) of classes, their codes as they were learned from, below 0 without one.
    """

    inputs: FloatArray
    clock: IntArray
    predictions: Predictions
    labels: LabelArray
    codes: IntArray


def predict_late(
    spec: LearnerSpec, states: Sequence[LearnerState], rows: Sequence[LateRows]
) -> tuple[list[LearnerState], list[Predictions], list[IntArray]]:
    """Predict new rows of m models, and learn from those whose wait ends with each before it.

    Args:
        spec: The learners'.
        states: Of the models, at least one; not written to.
        rows: Those of each.

    Returns:
        The states, nothing scored yet; the predictions of each model's n new rows; the codes of the
        labels that it learned from.

    Raises:
        ConfigError: for a learner of another width than the inputs.
    """
    learner = get_learner(spec.learner)
    inputs, labels, asked, taught = zip(*map(_steps, rows), strict=True)
    for state, own in zip(states, inputs, strict=True):
        width = learner.width(spec, state)
        if own.shape[1] != width:
            raise ConfigError("features", own.shape, f"of shape (n, {width})")
    whole = np.concatenate(inputs)
    names, values = labels_of(spec, list(itertools.chain(*labels)), len(whole))
    fit = np.all(np.abs(whole) <= MAX_FEATURE, axis=1)
    values = np.where(fit, values, MISSING if spec.classifies else np.nan)
    stops = np.cumsum([len(own) for own in inputs])
    starts = np.concatenate([[0], stops[:-1]])
    updated, predictions, block = update_block(spec, states, whole, (names, values), starts, stops)
    after = []
    for state, now in zip(states, updated, strict=True):
        # Where a row is learned from, the loop has predicted it once more: that is not its score.
        counts, sums = now.counts.copy(), now.sums.copy()
        counts[[SCORED, CORRECT]] = state.counts[[SCORED, CORRECT]]
        sums[[SQUARED, ABSOLUTE]] = state.sums[[SQUARED, ABSOLUTE]]
        after.append(now._replace(counts=counts, sums=sums))
    each = zip(after, starts.tolist(), asked, strict=True)
    given = [
        _predictions_of(state, predictions_at(predictions, first + at)) for state, first, at in each
    ]
    codes = [block.codes[first + at] for first, at in zip(starts.tolist(), taught, strict=True)]
    return after, given, codes


def _steps(rows: LateRows) -> tuple[FloatArray, list[Any], IntArray, IntArray]:
    """Return a model's rows as its loop takes them, labels, which are predicted, which learned."""
    learned, count = len(rows.labels), len(rows.due)
    steps = np.empty(learned + count, np.int64)
    predict_at = np.arange(count) + rows.due
    learn_at = np.arange(learned) + np.searchsorted(rows.due, np.arange(learned), side="right")
    steps[predict_at] = len(rows.inputs) - count + np.arange(count)
    steps[learn_at] = np.arange(learned)
    given = np.full(len(steps), None, object)
    given[learn_at] = rows.labels
    return rows.inputs[steps], given.tolist(), predict_at, learn_at


def _predictions_of(state: LearnerState, predictions: Predictions) -> Predictions:
    """Return one model's predictions, by its own codes, as it would have made them alone."""
    names = names_of(state)
    more: dict[str, Any] = {"classes": names}
    if predictions.members is not None:
        more["members"] = predictions.members[:, : no_sets(0, len(names)).shape[1]]
    return dataclasses.replace(predictions, **more)


def learn_late(
    spec: LearnerSpec, state: LearnerState, inputs: FloatArray, labels: LabelArray
) -> tuple[LearnerState, IntArray]:
    """Learn rows that were predicted before; return the labels' codes, too."""
    learner, given = get_learner(spec.learner), _as_given(labels)
    valid = np.all(np.abs(inputs) <= MAX_FEATURE, axis=1)
    codes = coded(spec, state, given, valid).codes
    return learner.learn(spec, state, inputs, given), codes


def score_late(
    spec: LearnerSpec,
    states: Sequence[LearnerState],
    boards: Sequence[Board],
    settled: Sequence[SettledRows],
    window: int | None,
) -> tuple[list[LearnerState], list[Predictions], list[Board], list[list[Line]]]:
    """Compare earlier predictions of m models with the labels that came since.

    Args:
        spec: The learners'.
        states: Those of the models, once they have learned from the rows.
        boards: Their metrics.
        settled: Rows of each, at least one.
        window: Length of the metrics' windows, ns; None: only the total is kept.

    Returns:
        The states, the predictions with their scores, the metrics, and the windows that were
        closed.
    """
    learner = get_learner(spec.learner)
    scored = [
        learner.score(spec, state, rows.predictions, _as_given(rows.labels))
        for state, rows in zip(states, settled, strict=True)
    ]
    after, predictions = [state for state, _ in scored], [marked for _, marked in scored]
    if go_together(spec, list(zip(after, boards, strict=True))):
        counted = _count(spec, boards, settled, predictions, window)
    else:
        counted = []
        for board, rows, own in zip(boards, settled, predictions, strict=True):
            counted += _count(spec, [board], [rows], [own], window)
    return after, predictions, [board for board, _ in counted], [lines for _, lines in counted]


def _count(
    spec: LearnerSpec,
    boards: Sequence[Board],
    settled: Sequence[SettledRows],
    predictions: Sequence[Predictions],
    window: int | None,
) -> list[tuple[Board, list[Line]]]:
    """Count rows that are scored in the metrics of one model, or of several that go together."""
    inputs = np.concatenate([rows.inputs for rows in settled])
    clock = np.concatenate([rows.clock for rows in settled])
    numbers = np.concatenate(
        [_numbers(spec, own, rows) for own, rows in zip(predictions, settled, strict=True)]
    )
    stops = np.cumsum([len(rows.clock) for rows in settled])
    spans = np.concatenate([[0], stops[:-1]]), stops
    known = [board.guesses for board in boards]
    met, guessed = guess_each(spec, known, inputs, numbers, *spans)
    # Codes are each model's own, as those of the labels.
    marks = scored_rows(spec, clock, joined_columns(predictions), numbers, guessed)
    boards = [board._replace(guesses=own) for board, own in zip(boards, met, strict=True)]
    return count_each(boards, marks, *spans, window)


def _numbers(spec: LearnerSpec, predictions: Predictions, settled: SettledRows) -> npt.NDArray[Any]:
    """Return labels as numbers; those of rows that were refused are told to nobody."""
    if not spec.classifies:
        return np.where(predictions.valid, settled.labels.astype(np.float64), np.nan)
    return np.where(predictions.valid, settled.codes, MISSING)


def _as_given(labels: LabelArray) -> Any:
    """Return labels in the form that learners take."""
    return labels.tolist() if labels.dtype == object else labels
