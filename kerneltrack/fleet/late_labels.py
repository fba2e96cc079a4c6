"""Learners whose labels come late: rows are predicted, and learned from once their wait is over.

Predictions and late learning alternate: before row j is predicted, the rows whose wait ends with
it are learned from. Both go through the learner's own row loop in one call, as rows in the order
in which they are due: once with its label when it is learned from, once without any when it is
predicted.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kerneltrack.fleet.learn import predictions_at
from kerneltrack.learners import LearnerSpec, LearnerState, Predictions
from kerneltrack.learners.common.base import ABSOLUTE, CORRECT, SCORED, SQUARED
from kerneltrack.registry import get_learner

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
LabelArray: TypeAlias = npt.NDArray[Any]
"""(n,) classes, None where missing, or targets, NaN where missing."""


def predict_late(
    spec: LearnerSpec,
    state: LearnerState,
    inputs: FloatArray,
    waiting: int,
    due: IntArray,
    labels: LabelArray,
) -> tuple[LearnerState, Predictions]:
    """Predict new rows, and learn from those whose wait ends with each before it is predicted.

    Args:
        spec: The learner's.
        state: Not written to.
        inputs: What the learner is told of the w rows that wait, and of n new ones.
        waiting: w.
        due: (n,) how many of the w + n rows are settled before each new one.
        labels: Labels of the first due[-1] rows.

    Returns:
        The state, nothing scored yet, and the predictions of the n new rows.
    """
    learned, count = len(labels), len(due)
    steps = np.empty(learned + count, np.int64)
    predict_at = np.arange(count) + due
    learn_at = np.arange(learned) + np.searchsorted(due, np.arange(learned), side="right")
    steps[predict_at] = waiting + np.arange(count)
    steps[learn_at] = np.arange(learned)
    given: LabelArray = np.full(len(steps), None if spec.classifies else np.nan)
    given[learn_at] = labels
    learner = get_learner(spec.learner)
    after, said = learner.update(spec, state, inputs[steps], _as_given(given))
    # Where a row is learned from, the loop has predicted it once more: that is not its score.
    counts = after.counts.copy()
    counts[[SCORED, CORRECT]] = state.counts[[SCORED, CORRECT]]
    sums = after.sums.copy()
    sums[[SQUARED, ABSOLUTE]] = state.sums[[SQUARED, ABSOLUTE]]
    after = after._replace(counts=counts, sums=sums)
    return after, predictions_at(said, predict_at)


def learn_late(
    spec: LearnerSpec, state: LearnerState, inputs: FloatArray, labels: LabelArray
) -> LearnerState:
    """Learn rows that were predicted before."""
    found: LearnerState = get_learner(spec.learner).learn(spec, state, inputs, _as_given(labels))
    return found


def score_late(
    spec: LearnerSpec, state: LearnerState, said: Predictions, labels: LabelArray
) -> tuple[LearnerState, Predictions]:
    """Compare earlier predictions with the labels that came since."""
    found: tuple[LearnerState, Predictions]
    found = get_learner(spec.learner).score(spec, state, said, _as_given(labels))
    return found


def _as_given(labels: LabelArray) -> Any:
    """Return labels in the form that learners take."""
    return labels.tolist() if labels.dtype == object else labels
