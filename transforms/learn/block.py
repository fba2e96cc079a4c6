"""Rows of many models through their learners at once.

What Python costs for each model is paid once a block (`kerneltrack.fleet.learn`). What comes of a
model is what its rows alone give, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.fleet.learn import learn_each
from kerneltrack.learners import LearnerState
from kerneltrack.learners.common.board import Line
from transforms.chunks import Chunk
from transforms.learn.learner import Learning
from transforms.learn.plan import Plan
from transforms.learn.predictions import prediction_arrays
from transforms.read.kinds import codes_of, encode
from transforms.read.label_values import no_labels, to_column


class LearnedRows(NamedTuple):
    """What came of the rows of m models.

    Attributes:
        after: What each one's learner has come to.
        predictions: Of all rows.
        closed: Of each model its learner's state, and the windows that were closed.
    """

    after: list[Learning]
    predictions: pa.RecordBatch
    closed: list[tuple[LearnerState, list[Line]]]


def part_of(rows: Chunk, starts: IntArray, stops: IntArray) -> tuple[Chunk, IntArray, IntArray]:
    """Return some stretches of rows, each of one at least, and where each begins and ends then."""
    lengths = stops - starts
    ends = np.cumsum(lengths)
    first, last = int(starts[0]), int(stops[-1])
    if last - first == ends[-1]:
        part = rows if len(rows) == ends[-1] else rows.slice(first, last)
    else:
        part = rows.take(np.arange(ends[-1]) + np.repeat(starts - ends + lengths, lengths))
    return part, ends - lengths, ends


def learn_rows(
    plan: Plan,
    before: Sequence[Learning],
    rows: Chunk,
    inputs: FloatArray,
    clock: IntArray,
    starts: IntArray,
    stops: IntArray,
) -> LearnedRows:
    """Let the learners of m models predict, score and learn rows; see `learn_each`.

    Args:
        plan: What is done with every model's rows.
        before: What each model's learner has come to.
        rows: Narrow rows; a model's, its next, follow one another.
        inputs: What learners are told of them.
        clock: (n,) the greatest time of each row's model up to it; zeros without times.
        starts: (m,) place of each model's first row; the first one's is 0.
        stops: (m,) place after its last: the next one's first.
    """
    label = rows.batch.column("label") if rows.has("label") else None
    if label is None:
        label = to_column(no_labels(plan.spec, len(rows)))
    learners = [(now.state, now.board) for now in before]
    numbers = _as_numbers(label)
    learned = learn_each(
        plan.spec, learners, inputs, clock, numbers, starts, stops, window=plan.window
    )
    columns = {name: rows.batch.column(name) for name in ("index", "time") if rows.has(name)}
    columns |= prediction_arrays(learned.predictions, label)
    last = clock[stops - 1].tolist() if rows.has("time") else [None] * len(before)
    after = [
        now.after(state, board, now.rows + length, time)
        for now, state, board, length, time in zip(
            before, learned.states, learned.boards, (stops - starts).tolist(), last, strict=True
        )
    ]
    closed = list(zip(learned.states, learned.lines, strict=True))
    return LearnedRows(after, pa.RecordBatch.from_pydict(columns), closed)


def _as_numbers(labels: pa.Array) -> tuple[list[str], npt.NDArray[Any]]:
    """Return labels as names and places among them, -1 without one; targets as they are."""
    if pa.types.is_floating(labels.type):
        return [], labels.to_numpy(zero_copy_only=False)
    encoded = encode(labels)
    names = encoded.dictionary.to_pylist()
    places = codes_of(encoded)
    return names, np.where(places == len(names), -1, places)
