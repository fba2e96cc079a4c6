"""First pass of the report over the features: totals of every model, of every label, of all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.report.data.labels import NO_LABEL, LabelCodes

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

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
        """Start without groups."""
        self.n = np.zeros(0, dtype=np.int64)
        self.mean = np.zeros(0)
        self._m2 = np.zeros(0)

    def add(self, groups: Ints, local: Ints, values: Floats) -> None:
        """Add values to groups.

        Args:
            groups: The distinct groups that the batch touches, shape (g,).
            local: Position in `groups` of each row's group, shape (n,).
            values: The rows' values, shape (n,).

        Cost: O(n + g).
        """
        n = np.bincount(local, minlength=len(groups))
        size = int(groups.max(initial=-1)) + 1
        self.n, self.mean, self._m2 = (grown(a, size) for a in (self.n, self.mean, self._m2))
        before = self.n[groups]
        total = np.maximum(before + n, 1)
        # Losses near the largest number overflow their squares: the spread is then infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.bincount(local, values, len(groups)) / np.maximum(n, 1)
            m2 = np.bincount(local, (values - mean[local]) ** 2, len(groups))
            delta = mean - self.mean[groups]
            self.mean[groups] += delta * n / total
            self._m2[groups] += m2 + delta**2 * before * n / total
        self.n[groups] += n

    def sd(self) -> Floats:
        """Return each group's standard deviation (of n, not n - 1; 0 without values).

        Equal values leave a spread of rounding errors, which counts as 0.
        """
        sd = np.sqrt(self._m2 / np.maximum(self.n, 1))
        return np.where(sd > _ROUNDING * np.abs(self.mean), sd, 0.0)


@dataclass
class Totals:
    """What one pass over the features tells; arrays are indexed by a model's code.

    The loss's moments leave out the rows marked `initial`, which the tracker starts from.
    """

    models: dict[str, int] = field(default_factory=dict)
    labels: LabelCodes = field(default_factory=LabelCodes)
    rows: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    length: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    fates: Ints = field(default_factory=lambda: np.zeros((0, len(FATES)), dtype=np.int64))
    by_model: Moments = field(default_factory=Moments)
    by_label: Moments = field(default_factory=Moments)
    overall: Moments = field(default_factory=Moments)
    unlabelled: Moments = field(default_factory=Moments)

    def means(self) -> Floats:
        """Return each model's mean loss, NaN where every row is initial."""
        return np.where(self.by_model.n > 0, self.by_model.mean, np.nan)


def columns_for_totals(names: Iterable[str]) -> list[str]:
    """Return which of the features' columns the first pass reads."""
    wanted = ["model_id", "index", "loss", "informative", "evicted", "initial", "label"]
    have = set(names)
    return [name for name in wanted if name in have]


def add_up(batches: Iterable[pa.RecordBatch]) -> Totals:
    """Go once over the features.

    Cost: O(rows) time; memory of one batch and O(models + labels).
    """
    totals = Totals()
    for batch in batches:
        if batch.num_rows:
            _add_batch(totals, batch)
    return totals


def _add_batch(totals: Totals, batch: pa.RecordBatch) -> None:
    models, local = model_codes(batch, totals.models)
    known = len(totals.models)
    totals.rows = grown(totals.rows, known)
    totals.length = grown(totals.length, known)
    totals.fates = grown(totals.fates, known)
    totals.rows[models] += np.bincount(local, minlength=len(models))
    for k, flags in enumerate(fates_of(batch)):
        totals.fates[models, k] += np.bincount(local[flags], minlength=len(models))
    last = np.full(len(models), -1)
    np.maximum.at(last, local, array_of(batch, "index"))
    totals.length[models] = np.maximum(totals.length[models], last + 1)

    counted = ~array_of(batch, "initial")
    loss = array_of(batch, "loss")[counted]
    totals.by_model.add(models, local[counted], loss)
    totals.overall.add(np.zeros(1, dtype=np.int64), np.zeros(len(loss), dtype=np.int64), loss)
    if batch.schema.get_field_index("label") >= 0:
        _add_labels(totals, totals.labels.encode(batch.column("label"))[counted], loss)


def _add_labels(totals: Totals, codes: Ints, loss: Floats) -> None:
    labelled = codes != NO_LABEL
    totals.by_label.add(np.arange(len(totals.labels.names())), codes[labelled], loss[labelled])
    rest = loss[~labelled]
    totals.unlabelled.add(np.zeros(1, dtype=np.int64), np.zeros(len(rest), dtype=np.int64), rest)


def model_codes(batch: pa.RecordBatch, known: dict[str, int]) -> tuple[Ints, Ints]:
    """Number the batch's models, new ones after the known.

    Returns:
        The distinct codes in the batch, shape (g,), and each row's position among them, shape (n,).
    """
    column = batch.column("model_id")
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    indices = column.indices.to_numpy(zero_copy_only=False)
    counts = np.bincount(indices, minlength=len(column.dictionary))
    used = np.flatnonzero(counts)
    names = column.dictionary.take(pa.array(used)).to_pylist()
    codes = np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)
    place = np.zeros(len(counts), dtype=np.int64)
    place[used] = np.arange(len(used))
    return codes, place[indices]


def fates_of(batch: pa.RecordBatch) -> tuple[npt.NDArray[np.bool_], ...]:
    """Return the rows' flags in the order of `FATES`."""
    evicted = pc.fill_null(batch.column("evicted"), -1).to_numpy(zero_copy_only=False)
    dropped = evicted == array_of(batch, "index")
    return ~array_of(batch, "informative"), evicted >= 0, dropped


def array_of(batch: pa.RecordBatch, name: str) -> npt.NDArray[Any]:
    """Return a column without nulls as a NumPy array."""
    return cast("npt.NDArray[Any]", batch.column(name).to_numpy(zero_copy_only=False))


def grown(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """Return the array with at least `size` rows, the new ones 0."""
    if size <= len(array):
        return array
    longer = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer
