"""Ordered rows on their way through their models, some at a time: what comes of each part."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import IntArray
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.results import Results
from kerneltrack.fleet.run import run_models
from kerneltrack.registry import get_tracker
from transforms.chunks import Chunk
from transforms.metrics import CALLS, MODELS_CALLED, count

SLICE_ROWS = 16_384
"""Rows of one model in a call at most, in the keyed step."""


class Ran(NamedTuple):
    """Rows that went through m models.

    Attributes:
        models: The models after them.
        rows: The rows; a model's follow one another.
        starts: (m,) place of each model's first row.
        stops: (m,) place after its last: the next one's first.
        found: What came of them.
    """

    models: Models
    rows: Chunk
    starts: IntArray
    stops: IntArray
    found: Results


class _Counts(NamedTuple):
    """What `KernelTracker.counters` looks at in a state."""

    counts: IntArray


def run_slices(
    models: Models,
    rows: Chunk,
    edges: IntArray,
    until: Sequence[float],
    size: int | None = None,
) -> Iterator[Ran]:
    """Run ordered rows through their models; count what became of these, and trackers' calls.

    Args:
        models: m models; they become what they are after the rows.
        rows: The rows; a model's follow one another.
        edges: (m + 1,) where each model's rows begin, and the end.
        until: (m,) as of `run_models`.
        size: Rows that run at a time, at most; None: `SLICE_ROWS` of one model, all of several.

    Yields:
        What came of each part, one at least; nothing depends on where they are cut.
    """
    many, before = len(rows), models.block.column("counts").copy()
    size = size or (SLICE_ROWS if len(models) == 1 else max(many, 1))
    for start in range(0, max(many, 1), size):
        stop = min(start + size, many)
        part = rows if stop - start == many else rows.slice(start, stop)
        own = np.clip(edges, start, stop) - start
        last = until if stop == many else [-math.inf] * len(models)
        times = part.column("time") if part.has("time") else None
        found = run_models(models, part.column("x"), times, own[:-1], own[1:], last)
        count(CALLS, found.calls)
        count(MODELS_CALLED, found.models_called)
        yield Ran(models, part, own[:-1], own[1:], found)
    tracker = get_tracker(models.work.spec.tracker)
    earlier, later = (
        tracker.counters(_Counts(counts.sum(axis=0)))
        for counts in (before, models.block.column("counts"))
    )
    for name, total in later.items():
        count(name, total - earlier[name])
