"""The learners of a block of models: all of their features.

Predictions and metrics are one chunk each of all models. What came of a model is what `LearnFn`
says of it, bit for bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.codec import Parts
from kerneltrack.learners.common.board import close_window, total_line
from kerneltrack.learners.common.spec import BOTH, FEATURES, LearnerSpec
from kerneltrack.registry import get_learner
from transforms.chunks import Chunk
from transforms.learn.block import goes_together, learn_rows, nothing_waits, rows_of
from transforms.learn.learner import begin, opened, snapshot_parts
from transforms.learn.metrics import metrics_chunk
from transforms.learn.predictions import SLICE_ROWS
from transforms.learn.step import LearnFn
from transforms.learn.totals import count_learned
from transforms.learn.turns import NarrowFn, inputs_of

IntArray = npt.NDArray[np.int64]


class LearnedModel(NamedTuple):
    """What came of a model: its predictions, its lines of metrics, its last snapshot."""

    predictions: pa.RecordBatch
    metrics: pa.RecordBatch
    state: Parts


class LearnedModels(NamedTuple):
    """What came of m models.

    Attributes:
        done: (m,) which models this is of; the others must go by themselves.
        lengths: (m,) rows of each.
        predictions: Of the rows of those that are done.
        metrics: Their lines.
        lines: (m + 1,) where each one's begin in `metrics`.
        states: Their snapshots.
    """

    done: npt.NDArray[np.bool_]
    lengths: list[int]
    predictions: pa.RecordBatch
    metrics: pa.RecordBatch
    lines: list[int]
    states: list[Parts]

    def each(self) -> Iterator[LearnedModel | None]:
        """Return what came of each model, None of those that must go by themselves."""
        at = place = 0
        for well, length in zip(self.done.tolist(), self.lengths, strict=True):
            if not well:
                yield None
                continue
            start, stop = self.lines[place : place + 2]
            yield LearnedModel(
                self.predictions.slice(at, length),
                self.metrics.slice(start, stop - start),
                self.states[place],
            )
            at += length
            place += 1


def takes_blocks(fn: LearnFn) -> bool:
    """Check whether a file job's learners can go by blocks: all is told last."""
    return goes_together(fn.plan) and fn.plan.every is None


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


def learn_models(
    steps: tuple[NarrowFn, LearnFn],
    keys: Sequence[str],
    features: pa.RecordBatch,
    starts: IntArray,
    stops: IntArray,
) -> LearnedModels | None:
    """Let the learners of models begin, or go on, and take all of their features.

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
    plan = fn.plan
    rows = narrow.narrow(Chunk(features))
    inputs, channels = inputs_of(rows)
    lengths = (stops - starts).tolist()
    if fn.begins_anew:
        before = [begin(plan.spec)] * len(keys)
    else:
        before = [fn.resumed(key) for key in keys]
    index = rows.column("index")[starts].tolist()
    done = np.array(
        [
            now.rows == first and length <= SLICE_ROWS and nothing_waits(now)
            for now, first, length in zip(before, index, lengths, strict=True)
        ]
    )
    if not done.any():
        return None
    rows, inputs, starts, stops = rows_of(done, rows, inputs, stops - starts)
    names = [key for key, well in zip(keys, done.tolist(), strict=True) if well]
    before = [now for now, well in zip(before, done.tolist(), strict=True) if well]
    width = inputs.shape[1]
    if fn.begins_anew:
        begun = [opened(plan.spec, before[0], width, channels)] * len(before)
    else:
        begun = [opened(plan.spec, now, width, channels) for now in before]
    learned = learn_rows(plan, begun, rows, inputs, starts, stops)
    count_learned(plan.spec, zip(before, learned.after, strict=True))
    told, states = [], []
    for key, now, (state, closed) in zip(names, learned.after, learned.told, strict=True):
        states.append(snapshot_parts(plan.spec, key, now))
        _, last = close_window(now.board)
        told.append((state, [*closed, *last, total_line(now.board)]))
    ends = [0, *itertools.accumulate(len(lines) for _, lines in told)]
    metrics = metrics_chunk(plan.spec, told).batch
    return LearnedModels(done, lengths, learned.predictions, metrics, ends, states)
