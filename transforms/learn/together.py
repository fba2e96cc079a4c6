"""The learners of a bundle's models together: the common case of the keyed step.

What a bundle brings to many models, a row or a few each, goes through their learners as one block,
and what comes out is one chunk. What is rare is left to the way of one model: one whose rows do not
follow one another, or are of another form than the others'; one that has rows or labels that wait,
or whose snapshot is due.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.learners.common.guesses import in_order
from kerneltrack.registry import get_learner
from transforms.chunks import Chunk
from transforms.learn.block import LearnedRows, learn_rows, nothing_waits, rows_of
from transforms.learn.learner import Learning, opened
from transforms.learn.metrics import metrics_chunk
from transforms.learn.predictions import SLICE_ROWS
from transforms.learn.run import Plan
from transforms.learn.totals import count_learned
from transforms.learn.turns import first_index, inputs_of

IntArray = npt.NDArray[np.int64]


class Visit(NamedTuple):
    """What a bundle brings a model.

    Attributes:
        now: What the model's learner has come to.
        chunks: Narrow rows, in the order in which they came.
    """

    now: Learning
    chunks: list[Chunk]


class Learned(NamedTuple):
    """What came of a visit.

    Attributes:
        place: Of the visit.
        after: What the learner has come to.
        predictions: Of its rows.
        metrics: Windows that were closed; None without any.
    """

    place: int
    after: Learning
    predictions: Chunk
    metrics: Chunk | None


def run_together(plan: Plan, visits: Sequence[Visit]) -> Iterator[Learned]:
    """Run what came for models, all that can go together.

    Args:
        plan: What is done with every model's rows: `goes_together`.
        visits: What came, at least one; no two are of one model.

    Yields:
        What came of those that went; the others must go one by one.
    """
    schema = visits[0].chunks[0].schema
    if not {"index", "z"} <= set(schema.names):
        return
    chosen = [
        place
        for place, visit in enumerate(visits)
        if _follows(visit) and all(part.schema == schema for part in visit.chunks)
    ]
    if not chosen:
        return
    rows = Chunk.concat([part for place in chosen for part in visits[place].chunks])
    inputs, channels = inputs_of(rows)
    lengths = np.array([sum(map(len, visits[place].chunks)) for place in chosen])
    stops = np.cumsum(lengths)
    starts = stops - lengths
    before = [opened(plan.spec, visits[place].now, inputs.shape[1], channels) for place in chosen]
    fit = lengths <= SLICE_ROWS
    fit &= np.array([_fits(plan, now, inputs.shape[1], channels) for now in before])
    if plan.every is not None:
        fit &= ~_passes_boundary(plan.every, before, rows, starts, stops)
    if not fit.any():
        return
    rows, inputs, starts, stops = rows_of(fit, rows, inputs, lengths)
    chosen = list(itertools.compress(chosen, fit.tolist()))
    before = list(itertools.compress(before, fit.tolist()))
    learned = learn_rows(plan, before, rows, inputs, starts, stops)
    count_learned(
        plan.spec, zip((visits[place].now for place in chosen), learned.after, strict=True)
    )
    predictions, metrics = Chunk(learned.predictions), _metrics(plan, learned)
    spans = itertools.pairwise([0, *stops.tolist()])
    for place, after, span, lines in zip(chosen, learned.after, spans, metrics, strict=True):
        yield Learned(place, after, predictions.slice(*span), lines)


def _follows(visit: Visit) -> bool:
    """Check whether rows are a model's next ones, and nothing waits for any."""
    now = visit.now
    if now.early is not None or not nothing_waits(now):
        return False
    row = now.rows
    for chunk in visit.chunks:
        if not len(chunk) or first_index(chunk) != row:
            return False
        row += len(chunk)
    return True


def _fits(plan: Plan, now: Learning, width: int, channels: int) -> bool:
    """Check whether a learner takes rows of this form, and its guesses know its classes."""
    known = now.board.guesses
    if now.state is None or known is None:
        return False
    classes = len(now.state.classes) if plan.spec.classifies else 0
    wide = get_learner(plan.spec.learner).width(plan.spec, now.state)
    return wide == width and in_order(known, channels, classes)


def _passes_boundary(
    every: int, before: Sequence[Learning], rows: Chunk, starts: IntArray, stops: IntArray
) -> npt.NDArray[np.bool_]:
    """Return which models have a boundary between their rows, where a snapshot is due."""
    times = rows.column("time")
    newest = np.maximum.reduceat(times, starts)
    earlier = [
        first if now.time is None else now.time
        for now, first in zip(before, times[starts].tolist(), strict=True)
    ]
    passes: npt.NDArray[np.bool_] = newest // every > np.array(earlier) // every
    return passes


def _metrics(plan: Plan, learned: LearnedRows) -> list[Chunk | None]:
    """Return the lines of each model, None where it has none."""
    if not any(lines for _, lines in learned.told):
        return [None] * len(learned.told)
    chunk, many = metrics_chunk(plan.spec, learned.told), [len(lines) for _, lines in learned.told]
    spans = itertools.pairwise(itertools.accumulate([0, *many]))
    return [chunk.slice(start, stop) if stop > start else None for start, stop in spans]
