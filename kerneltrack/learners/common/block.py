"""Many models of a learner at once; what a call costs in Python is paid once a block.

The rows of m models follow one another. Their labels become numbers together, each model's classes
in the order in which they first appear; their outputs are one set of arrays, and metrics are
counted in one pass. The row loops are those of a single model, called once for each, and so are the
bits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.learners.common.base import Predictions
from kerneltrack.learners.common.board import Board, Line, count_each, scored_rows
from kerneltrack.learners.common.guesses import guess_each
from kerneltrack.learners.common.label_sets import BITS, flags_of, sets_of
from kerneltrack.learners.common.labels import CodedBlock, coded_each, coded_targets
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.registry import get_learner


class LearnedBlock(NamedTuple):
    """What came of a block of m models and n rows.

    Attributes:
        states: The learners' states after the rows.
        predictions: Of the rows; classes are numbered by their places in the names of all labels.
        boards: Each model's metrics.
        lines: Of each model, the windows that rows after them have closed.
    """

    states: list[Any]
    predictions: Predictions
    boards: list[Board]
    lines: list[list[Line]]


def learn_block(
    spec: LearnerSpec,
    learners: Sequence[tuple[Any, Board]],
    inputs: FloatArray,
    clock: IntArray,
    labels: tuple[Sequence[str], npt.NDArray[Any]],
    starts: IntArray,
    stops: IntArray,
    *,
    window: int | None = None,
) -> LearnedBlock:
    """Let models predict, score and learn their rows.

    Args:
        spec: The spec.
        learners: Each model's state and metrics before its rows, not written to; all states of one
            width, all guesses of one `form`.
        inputs: (n, w), finite, `MAX_FEATURE` at most; a model's rows, at least one, follow one
            another.
        clock: (n,) times, ns, never going back within a model.
        labels: Names, each once, and each row's place in them, below 0 without one; of targets no
            names and (n,) targets, NaN without one.
        starts: (m,) place of each model's first row; the first one's is 0.
        stops: (m,) place after its last: the next one's first.
        window: Length of the metrics' windows, ns; None: only the total is kept.

    Returns:
        States, predictions and metrics, bit for bit those of each model by itself.
    """
    states, boards = [state for state, _ in learners], [board for _, board in learners]
    after, predictions, block = update_block(spec, states, inputs, labels, starts, stops)
    numbers = block.codes if spec.classifies else labels[1]
    before = [board.guesses for board in boards]
    guesses, guessed = guess_each(spec, before, inputs, numbers, starts, stops)
    marks = scored_rows(spec, clock, predictions, numbers, guessed)
    counted = count_each(boards, marks, starts, stops, window)
    if predictions.code is not None:
        code = _named(predictions.code, block, starts, stops)
        members = None
        if predictions.members is not None:
            members = _sets_named(predictions.members, block, starts, stops)
        predictions = dataclasses.replace(
            predictions, classes=tuple(block.names), code=code, members=members
        )
    boards = [
        board._replace(guesses=known) for (board, _), known in zip(counted, guesses, strict=True)
    ]
    return LearnedBlock(after, predictions, boards, [lines for _, lines in counted])


def update_block(
    spec: LearnerSpec,
    states: Sequence[Any],
    inputs: FloatArray,
    labels: tuple[Sequence[str], npt.NDArray[Any]],
    starts: IntArray,
    stops: IntArray,
) -> tuple[list[Any], Predictions, CodedBlock]:
    """Let models go through their rows, without metrics; arguments as of `learn_block`.

    Returns:
        The states; the predictions, by each model's own codes for life; the labels as numbers.
    """
    names, values = labels
    if spec.classifies:
        block = coded_each(spec, states, names, values, starts, stops)
    else:
        coded = coded_targets(values, np.ones(len(values), np.bool_))
        none, ends = np.zeros(0, np.int64), np.zeros(len(starts) + 1, np.int64)
        block = CodedBlock(coded, [], none, ends, coded.codes, {})
    after, predictions = get_learner(spec.learner).update_each(
        spec, states, inputs, block, starts, stops
    )
    return after, predictions, block


def _named(codes: IntArray, block: CodedBlock, starts: IntArray, stops: IntArray) -> IntArray:
    """Return models' own codes as places in the names of all, -1 as it is."""
    if not len(block.order):
        return codes
    first = np.repeat(block.ends[:-1], stops - starts)
    places: IntArray = np.where(codes < 0, -1, block.order[np.maximum(first + codes, 0)])
    return places


def _sets_named(
    members: IntArray, block: CodedBlock, starts: IntArray, stops: IntArray
) -> IntArray:
    """Return sets of models' own codes as sets of places in the names of all."""
    first = np.repeat(block.ends[:-1], stops - starts)
    rows, codes = np.nonzero(flags_of(members, members.shape[1] * BITS))
    flags = np.zeros((len(members), len(block.names)), np.bool_)
    flags[rows, block.order[first[rows] + codes]] = True
    return sets_of(flags)
