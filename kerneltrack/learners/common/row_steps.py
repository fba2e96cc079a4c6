"""What the learners' compiled row loops share: the arrays they work on and their steps."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from kerneltrack.compiled import inlined
from kerneltrack.learners.common.base import (
    ABSOLUTE,
    CORRECT,
    SCORED,
    SQUARED,
    UNUSABLE,
    FloatArray,
    IntArray,
)
from kerneltrack.learners.common.labels import MISSING, UNUSABLE_LABEL, Coded
from kerneltrack.learners.common.prequential import Mode
from kerneltrack.learners.common.prequential import Predicted as Outputs
from kerneltrack.sums import dot, fused


class Totals(Protocol):
    """The arrays that every learner's loop counts in, as `LearnerState` documents them."""

    @property
    def sums(self) -> FloatArray:
        """Errors of the rows scored."""
        ...

    @property
    def counts(self) -> IntArray:
        """Rows, by what became of them."""
        ...


class Arrays(NamedTuple):
    """A linear state's arrays, see `LinearState`, with room for the call's classes."""

    weights: FloatArray
    memory: FloatArray
    sums: FloatArray
    counts: IntArray


@inlined
def load_row(row: FloatArray, x: FloatArray) -> None:
    """Copy a row's features; x may have one place more, the bias, which stays."""
    for j in range(row.shape[0]):
        x[j] = row[j]


@inlined
def decision_values(weights: FloatArray, known: int, x: FloatArray, values: FloatArray) -> None:
    """Write w_c·x of the first `known` classes. Cost O(Cp)."""
    for c in range(known):
        values[c] = dot(weights[c], x, x.shape[0])


@inlined
def mark(
    regression: bool, sums: FloatArray, counts: IntArray, labels: Coded, out: Outputs, n: int
) -> None:
    """Compare row n's prediction with its label, if both are there."""
    code = labels.codes[n]
    if regression:
        if code >= 0 and not np.isnan(out.value[n]):
            error = min(abs(labels.targets[n] - out.value[n]), 1e150)
            out.scored[n] = True
            out.error[n] = error
            counts[SCORED] += 1
            sums[SQUARED] += error * error
            sums[ABSOLUTE] += error
    elif code != MISSING and out.code[n] >= 0:
        hit = out.code[n] == code
        out.scored[n] = True
        out.correct[n] = hit
        counts[SCORED] += 1
        counts[CORRECT] += hit


@inlined
def report(
    mode: Mode, state: Totals, values: FloatArray, known: int, labels: Coded, out: Outputs, n: int
) -> None:
    """Fill in row n's prediction from the decision values, and score it."""
    if known > 0:
        if mode.regression:
            out.value[n] = values[0]
        else:
            best = 0
            for c in range(1, known):
                if values[c] > values[best]:
                    best = c
            second = -np.inf
            for c in range(known):
                if c != best and values[c] > second:
                    second = values[c]
            out.code[n] = best
            out.score[n] = values[best]
            out.margin[n] = values[best] - second if known > 1 else 0.0
    mark(mode.regression, state.sums, state.counts, labels, out, n)


@inlined
def is_learnable(mode: Mode, state: Totals, code: int) -> bool:
    """Check whether the row is to be learned from; a label that cannot be used is counted."""
    if mode.learn and code == UNUSABLE_LABEL:
        state.counts[UNUSABLE] += 1
    return mode.learn and code >= 0


@inlined
def decayed_step(step_size: float, decay_rows: float, learned: int) -> float:
    """Return η/√(1 + t/d) at the t-th labelled row, η where d = 0."""
    if decay_rows > 0.0:
        return float(step_size / np.sqrt(1.0 + learned / decay_rows))
    return step_size


@inlined
def shrink_all(weights: FloatArray, known: int, amount: float) -> None:
    """Multiply the weights of the first `known` classes by 1 - amount, never by less than 0."""
    if amount > 0.0:
        keep = max(1.0 - amount, 0.0)
        for c in range(known):
            for j in range(weights.shape[1]):
                weights[c, j] *= keep


@inlined
def add_to(target: FloatArray, factor: float, x: FloatArray) -> None:
    """Add factor·x to the target."""
    for j in range(x.shape[0]):
        target[j] = fused(factor, x[j], target[j])


@inlined
def softmax(values: FloatArray, known: int, out: FloatArray) -> None:
    """Write the probabilities of the first `known` >= 1 classes."""
    largest = values[0]
    for c in range(1, known):
        largest = max(largest, values[c])
    total = 0.0
    for c in range(known):
        out[c] = np.exp(values[c] - largest)
        total += out[c]
    scale = 1.0 / total
    for c in range(known):
        out[c] *= scale


@inlined
def rival_of(values: FloatArray, known: int, code: int) -> int:
    """Return the best of the first `known` classes but one, -1 if there is no other."""
    rival = -1
    for c in range(known):
        if c != code and (rival < 0 or values[c] > values[rival]):
            rival = c
    return rival


@inlined
def descent(
    regression: bool, logistic: bool, values: FloatArray, known: int, code: int, target: float
) -> None:
    """Turn a row's decision values s into -∂ℓ/∂s_c of its loss.

    The losses: (y - s)²/2 in regression; -log of the label's probability; Crammer and Singer's
    multi-class hinge.
    """
    if regression:
        values[0] = target - values[0]
    elif logistic:
        softmax(values, known, values)
        for c in range(known):
            values[c] = (1.0 if c == code else 0.0) - values[c]
    else:
        rival = rival_of(values, known, code)
        wrong = rival >= 0 and 1.0 + values[rival] - values[code] > 0.0
        for c in range(known):
            values[c] = 0.0
        if wrong:
            values[code] = 1.0
            values[rival] = -1.0
