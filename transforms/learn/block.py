"""The learners of many models at once, for features of which all are there with their labels.

What Python costs for each model is paid once a block: predictions and metrics are one chunk each of
all models (`kerneltrack.learners.common.block`). What came of a model is what `LearnFn` says of it,
bit for bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.codec import Parts
from kerneltrack.learners.common.block import learn_block
from kerneltrack.learners.common.board import close_window, total_line
from kerneltrack.learners.common.prequential import MAX_FEATURE
from kerneltrack.learners.common.spec import BOTH, FEATURES, LearnerSpec
from kerneltrack.registry import get_learner
from transforms.chunks import Chunk
from transforms.learn.learner import begin, snapshot_parts
from transforms.learn.metrics import metrics_chunk
from transforms.learn.predictions import prediction_arrays
from transforms.learn.step import SLICE_ROWS, LearnFn, count_learned
from transforms.learn.turns import NarrowFn, inputs_of
from transforms.read.kinds import codes_of, encode
from transforms.read.label_values import no_labels, to_column

IntArray = npt.NDArray[np.int64]


class LearnedModels(NamedTuple):
    """What came of m models.

    Attributes:
        done: (m,) which models this is of; the others must go by themselves.
        predictions: Of the rows of those that are done.
        metrics: Their lines.
        lines: (m + 1,) where each one's begin in `metrics`.
        states: Their snapshots.
    """

    done: npt.NDArray[np.bool_]
    predictions: pa.RecordBatch
    metrics: pa.RecordBatch
    lines: list[int]
    states: list[Parts]

    def metrics_of(self, place: int) -> pa.RecordBatch:
        """Return the lines of the model at a place."""
        start, stop = self.lines[place : place + 2]
        return self.metrics.slice(start, stop - start)


def takes_blocks(fn: LearnFn) -> bool:
    """Check whether a job's learners can go by blocks: labels come with rows, all is told last."""
    plan = fn.plan
    return fn.begins_anew and (plan.late, plan.every) == (None, None)


def bytes_of(spec: LearnerSpec, channels: int, rank: int) -> int:
    """Return the bytes of a learner's state that has met no class.

    Args:
        spec: Its spec.
        channels: Of the rows.
        rank: How many features the tracker makes of them.
    """
    own = rank if spec.inputs == FEATURES else channels
    width = own + rank if spec.inputs == BOTH else own
    learner = get_learner(spec.learner)
    arrays = learner.arrays(learner.begin(spec, width, own))
    return sum(array.nbytes for array in arrays.values())


def learn_models(
    steps: tuple[NarrowFn, LearnFn],
    keys: Sequence[str],
    features: pa.RecordBatch,
    starts: IntArray,
    stops: IntArray,
) -> LearnedModels | None:
    """Let the learners of models begin and take all of their features.

    Args:
        steps: The learner's.
        keys: The models.
        features: Their features, a model's one after the other, labels among them.
        starts: (m,) place of each model's first row.
        stops: (m,) place after its last.

    Returns:
        What came of them; None if all must go by themselves.

    Raises:
        ConfigError: as `NarrowFn` does.
    """
    narrow, fn = steps
    spec = fn.plan.spec
    rows = narrow.narrow(Chunk(features))
    inputs, channels = inputs_of(rows)
    valid = np.logical_and.reduceat(np.all(np.abs(inputs) <= MAX_FEATURE, axis=1), starts)
    # Predictions of a model of more rows are cut into chunks.
    done = valid & (stops - starts <= SLICE_ROWS)
    if not done.any():
        return None
    if not done.all():
        where = np.flatnonzero(np.repeat(done, stops - starts))
        rows, inputs = rows.take(where), inputs[where]
        lengths = (stops - starts)[done]
        stops = np.cumsum(lengths)
        starts = stops - lengths
    times = rows.column("time") if rows.has("time") else None
    clock = np.zeros(len(rows), np.int64) if times is None else times
    label = rows.batch.column("label") if rows.has("label") else None
    if label is None:
        label = to_column(no_labels(spec, len(rows)))
    numbers, window = _as_numbers(label), fn.plan.window
    learned = learn_block(spec, inputs, channels, clock, numbers, starts, stops, window=window)
    columns = {name: rows.batch.column(name) for name in ("index", "time") if rows.has(name)}
    columns |= prediction_arrays(learned.said, label)
    names = [key for key, well in zip(keys, done.tolist(), strict=True) if well]
    last = [None] * len(names) if times is None else times[stops - 1].tolist()
    anew = begin(spec)
    told, states = [], []
    for place, (key, count, time) in enumerate(
        zip(names, (stops - starts).tolist(), last, strict=True)
    ):
        state, board = learned.states[place], learned.boards[place]
        now = anew._replace(state=state, board=board, rows=count, time=time)
        count_learned(spec, anew, now)
        states.append(snapshot_parts(spec, key, now))
        _, closed = close_window(board)
        told.append((state, [*learned.lines[place], *closed, total_line(board)]))
    predictions = pa.RecordBatch.from_pydict(columns)
    ends = [0, *itertools.accumulate(len(lines) for _, lines in told)]
    return LearnedModels(done, predictions, metrics_chunk(spec, told).batch, ends, states)


def _as_numbers(labels: pa.Array) -> tuple[list[str], npt.NDArray[Any]]:
    """Return labels as names and places among them, -1 without one; targets as they are."""
    if pa.types.is_floating(labels.type):
        return [], labels.to_numpy(zero_copy_only=False)
    encoded = encode(labels)
    names = encoded.dictionary.to_pylist()
    places = codes_of(encoded)
    return names, np.where(places == len(names), -1, places)
