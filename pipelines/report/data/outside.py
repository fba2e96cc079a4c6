"""Rows whose times lie far from all others: how many, of which models, from when to when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kerneltrack.arrays import IntArray
from pipelines.report.data.columns import times_of
from pipelines.report.data.groups import Groups
from pipelines.report.data.time_axis import TimeAxis, between
from pipelines.report.text import natural

MOST_NAMED = 10
"""Models that the page names, those with most rows outside."""


@dataclass(frozen=True)
class OutsideModel:
    """A model with rows outside of the axis.

    Attributes:
        model: Its ID.
        rows: How many.
        when: From when to when, or the only time.
    """

    model: str
    rows: int
    when: str


@dataclass(frozen=True)
class Outside:
    """All rows outside of the axis.

    Attributes:
        rows: How many.
        models: How many models have some.
        shown: From when to when the axis is.
        named: Those with most of them.
    """

    rows: int
    models: int
    shown: str
    named: Sequence[OutsideModel]


class OutsideRows:
    """Rows outside of an axis, counted batch by batch."""

    def __init__(self, axis: TimeAxis | None) -> None:
        """Start without rows; without an axis, or with one that holds all, none is looked at."""
        self._axis = None if axis is None or axis.is_whole else axis
        self._found = Groups({}, {"time": np.int64})

    def add(self, batch: pa.RecordBatch, model: IntArray) -> None:
        """Add a batch of features; `model` has the number of each row's model."""
        if self._axis is None:
            return
        times = times_of(batch.column("time"))
        kept = np.flatnonzero(~self._axis.holds(times))
        self._found.add(model[kept], {"time": times[kept]})

    def outside(self, models: Sequence[str]) -> Outside | None:
        """Return what was found, of models by their numbers; None if all rows are on the axis."""
        rows = self._found.rows
        if self._axis is None or not rows.any():
            return None
        codes = np.flatnonzero(rows).tolist()
        codes.sort(key=lambda code: (-rows[code], natural(models[code])))
        low, high = self._found.low["time"], self._found.high["time"]
        named = [
            OutsideModel(models[code], int(rows[code]), between(int(low[code]), int(high[code])))
            for code in codes[:MOST_NAMED]
        ]
        shown = between(self._axis.first, self._axis.last)
        return Outside(int(rows.sum()), len(codes), shown, named)
