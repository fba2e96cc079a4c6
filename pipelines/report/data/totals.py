"""First pass of the report over the features: totals of every model, of every label, of all."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from pipelines.report.data.columns import array_of, model_numbers, times_of
from pipelines.report.data.groups import Groups
from pipelines.report.data.labels import LabelCodes
from pipelines.report.data.time_axis import RowTimes

FATES = ("censored", "evicted", "dropped")
"""Counts kept of rows: left the subspace as it was; evicted a stored row, itself included;
was itself what it evicted."""

# A batch's sum of n equal values is off by n/2 roundings of 2^-53 at the most: 2^-36 for 2^18 rows.
_ROUNDING = 2.0**-35


class Moments:
    """Count, mean and sum of squared deviations of a growing number of groups.

    Batches are merged by Chan, Golub and LeVeque's formula (1979), which does not cancel when the
    spread is small against the mean.
    """

    def __init__(self) -> None:
        self.n: IntArray = np.zeros(0, dtype=np.int64)
        self.mean: FloatArray = np.zeros(0)
        self._squares: FloatArray = np.zeros(0)

    def add(self, group: IntArray, values: FloatArray, size: int) -> None:
        """Add values.

        Args:
            group: Each value's group, shape (n,).
            values: Shape (n,).
            size: How many groups there are by now.

        Cost: O(n + size).
        """
        more = (0, size - len(self.n))
        before, mean = np.pad(self.n, more), np.pad(self.mean, more)
        n = np.bincount(group, minlength=size)
        total = before + n
        # Losses near the largest number overflow their squares: the spread is then infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            own = np.where(n > 0, np.bincount(group, values, size) / np.maximum(n, 1), mean)
            squares = np.bincount(group, (values - own[group]) ** 2, size)
            share = n / np.maximum(total, 1)
            self._squares = np.pad(self._squares, more) + squares
            self._squares += (own - mean) ** 2 * before * share
            self.mean = mean + (own - mean) * share
        self.n = total

    def together(self) -> tuple[int, float, float]:
        """Return count, mean and standard deviation of all groups; 0 without values."""
        n = int(self.n.sum())
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float((self.n * self.mean).sum()) / max(n, 1)
            squares = self._squares + self.n * (self.mean - mean) ** 2
        return n, mean, float(_deviation(squares.sum(), n, mean))

    def sd(self) -> FloatArray:
        """Return each group's standard deviation (of n, not n - 1; 0 without values)."""
        return _deviation(self._squares, self.n, self.mean)


def _deviation(squares: FloatArray, n: IntArray | int, mean: FloatArray | float) -> FloatArray:
    """Equal values leave a spread of rounding errors, which counts as 0."""
    sd = np.sqrt(squares / np.maximum(n, 1))
    return np.where(sd > _ROUNDING * np.abs(mean), sd, 0.0)


class Totals:
    """What one pass over the features finds; arrays are indexed by a model's number.

    Attributes:
        models: Numbers of the models.
        labels: Codes of the labels.
        counts: Rows of each model, those of its rows that have each of the `FATES`, and the range
            of its row indexes.
        loss: Moments of each model's loss; rows marked `initial`, which the tracker starts from,
            are left out.
        by_label: The same of each label, at its code + 1; at 0 of the rows without one.
        times: Times of all rows, if there are any.
    """

    def __init__(self) -> None:
        self.models: dict[str, int] = {}
        self.labels = LabelCodes()
        self.counts = Groups(dict.fromkeys(FATES, np.int64), {"index": np.int64})
        self.loss = Moments()
        self.by_label = Moments()
        self.times = RowTimes()

    @property
    def length(self) -> IntArray:
        """Each model's greatest row index + 1."""
        return self.counts.high["index"] + 1

    def means(self) -> FloatArray:
        """Return each model's mean loss, NaN where every row is initial."""
        return np.where(self.loss.n > 0, self.loss.mean, np.nan)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch of features with the columns of `columns_for_totals`."""
        model = model_numbers(batch, self.models)
        self.counts.add(model, {"index": array_of(batch, "index"), **fates_of(batch)})
        if "time" in batch.schema.names:
            self.times.add(times_of(batch.column("time")))
        kept = ~array_of(batch, "initial")
        loss = array_of(batch, "loss")[kept]
        self.loss.add(model[kept], loss, len(self.models))
        if "label" in batch.schema.names:
            label = self.labels.encode(batch.column("label"))[kept] + 1
            self.by_label.add(label, loss, len(self.labels.names()) + 1)


def columns_for_totals(names: Iterable[str]) -> list[str]:
    """Return which of the features' columns the first pass reads."""
    wanted = ["model_id", "index", "time", "loss", "informative", "evicted", "initial", "label"]
    have = set(names)
    return [name for name in wanted if name in have]


def add_up(batches: Iterable[pa.RecordBatch]) -> Totals:
    """Go once over the features.

    Cost: O(rows) time; memory of one batch and O(models + labels).
    """
    totals = Totals()
    for batch in batches:
        totals.add(batch)
    return totals


def fates_of(batch: pa.RecordBatch) -> dict[str, BoolArray]:
    """Return which rows have each of the `FATES`."""
    evicted = pc.fill_null(batch.column("evicted"), -1).to_numpy(zero_copy_only=False)
    flags = ~array_of(batch, "informative"), evicted >= 0, evicted == array_of(batch, "index")
    return dict(zip(FATES, flags, strict=True))
