"""The fleet over time: how odd the rows of each model were, and when, as the page's heat map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.arrays import IntArray
from pipelines.report.data.choice import codes_of, slots_of
from pipelines.report.data.columns import array_of, surprise_of, times_of
from pipelines.report.data.groups import Groups
from pipelines.report.data.time_axis import TimeAxis
from pipelines.report.data.totals import Totals
from pipelines.report.text import natural

MOST_MODELS = 240
"""Lines of the map."""
MOST_BINS = 180
"""Parts of the time, or of the rows, that the map spans; no more than a model has rows."""
_FINER = 2
"""More parts that are kept of all of the data than the map has: it begins later."""
STEPS = 10
"""Steps of a cell for one unit of -log₁₀ p."""
NOTHING = 255
"""A cell without a row that has a p."""


@dataclass(frozen=True)
class Heat:
    """The map, which begins where the first model has a reference.

    Attributes:
        models: Names, from top to bottom: the odd ones in their order, then the others.
        cells: (models, bins) the most of -log₁₀ p in a cell, in tenths, 254 at most; 255 where no
            row has a p.
        first: Start of the first bin: ns since 1970, or a row's index without times.
        step: Width of a bin likewise.
        odd: How many of the models are off or unlike the others.
    """

    models: list[str]
    cells: npt.NDArray[np.uint8]
    first: int
    step: int
    odd: int


def models_on_map(totals: Totals, odd: Sequence[str]) -> list[str]:
    """Choose the map's models: the odd ones in their order, and others spread over all.

    Args:
        totals: What the first pass found.
        odd: Models that are off or unlike the others, the worst first.
    """
    first = [name for name in odd if name in totals.models][:MOST_MODELS]
    known = set(first)
    others = sorted((name for name in totals.models if name not in known), key=natural)
    room = min(MOST_MODELS - len(first), len(others))
    return first + [others[place * len(others) // room] for place in range(room)]


class HeatRows:
    """The map, filled batch by batch.

    Args:
        totals: What the first pass found.
        models: The models on it.
        odd: How many of them are off or unlike the others.
        axis: The times that the map shows; None without times.
    """

    def __init__(self, totals: Totals, models: list[str], odd: int, axis: TimeAxis | None) -> None:
        self._models, self._slots, self._odd = models, slots_of(totals.models, models), odd
        self._timed = axis is not None
        lengths = totals.length[codes_of(totals.models, models)]
        longest = int(lengths.max(initial=1))
        self._first, self._last = (0, longest - 1) if axis is None else (axis.first, axis.last)
        width = self._last - self._first + 1
        self._step = -(-width // min(_FINER * MOST_BINS, longest, width))
        self._bins = -(-width // self._step)
        self._cells = Groups({}, {"surprise": np.float64}, size=len(models) * self._bins)

    def add(self, batch: pa.RecordBatch, model: IntArray) -> None:
        """Add a batch of features; `model` has the number of each row's model."""
        slot = self._slots[model]
        compared, surprise = surprise_of(batch)
        places = times_of(batch.column("time")) if self._timed else array_of(batch, "index")
        keep = (slot >= 0) & compared & (places >= self._first) & (places <= self._last)
        place = (places[keep] - self._first) // self._step
        self._cells.add(slot[keep] * self._bins + place, {"surprise": surprise[keep]})

    def heat(self) -> Heat:
        """Return the map, from the first part in which a row has a p."""
        known = (self._cells.rows > 0).reshape(-1, self._bins)
        most = np.where(known, self._cells.high["surprise"].reshape(known.shape), -1.0)
        begin = int(np.argmax(known.any(axis=0)))
        together = -(-(self._bins - begin) // MOST_BINS)
        edges = np.arange(begin, self._bins, together)
        most = np.maximum.reduceat(most, edges, axis=1)
        steps = np.minimum(np.round(STEPS * most), NOTHING - 1)
        cells = np.where(most < 0, NOTHING, steps).astype(np.uint8)
        first, step = self._first + begin * self._step, together * self._step
        return Heat(self._models, cells, first, step, self._odd)
