"""Second pass of the report, for the models that its table shows: a line of numbers each."""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa

from pipelines.report.data.totals import Floats, Ints, array_of

SPARK_BINS = 32
"""Points of the table's small curves."""

_OCTAVES = 40
_PER_OCTAVE_BITS = 6
_LOWEST = (1023 - _OCTAVES) << _PER_OCTAVE_BITS
_BUCKETS = 2 * _OCTAVES << _PER_OCTAVE_BITS


class _Means:
    """Sums and counts of groups."""

    def __init__(self, groups: int) -> None:
        self._sum = np.zeros(groups)
        self._count = np.zeros(groups, dtype=np.int64)

    def add(self, group: Ints, values: Floats) -> None:
        np.add.at(self._sum, group, values)
        np.add.at(self._count, group, 1)

    def values(self) -> Floats:
        return np.where(self._count > 0, self._sum / np.maximum(self._count, 1), np.nan)


class ShownModels:
    """Last-half mean, 95 % quantile and a small curve of the loss of some models.

    Quantiles come from counts in buckets, 64 to a doubling between 2^-40 and 2^40: each is within
    1 % of the exact one, whatever the order of the rows, in 20 kB a model.

    Args:
        lengths: Each model's greatest row index + 1, shape (models,).
    """

    def __init__(self, lengths: Ints) -> None:
        """Allocate; see the class."""
        count = len(lengths)
        self._lengths = lengths
        self._half = _Means(count)
        self._spark = _Means(count * SPARK_BINS)
        self._buckets = np.zeros(count * _BUCKETS, dtype=np.int32)
        self._least = np.full(count, np.inf)
        self._most = np.full(count, -np.inf)

    def add(self, batch: pa.RecordBatch, slot: Ints) -> None:
        """Add a batch of features; `slot` gives each row's model here, -1 for none of them."""
        keep = (slot >= 0) & ~array_of(batch, "initial")
        slot = slot[keep]
        loss = array_of(batch, "loss")[keep].astype(np.float64)
        index = array_of(batch, "index")[keep]
        late = 2 * index >= self._lengths[slot]
        self._half.add(slot[late], loss[late])
        part = index * SPARK_BINS // self._lengths[slot]
        self._spark.add(slot * SPARK_BINS + part, loss)
        np.add.at(self._buckets, slot * _BUCKETS + _bucket(loss), 1)
        np.minimum.at(self._least, slot, loss)
        np.maximum.at(self._most, slot, loss)

    def last_half(self) -> Floats:
        """Return the mean loss of each model's rows from the middle on, NaN without any."""
        return self._half.values()

    def sparks(self) -> Floats:
        """Return the mean loss in equal parts of each model's rows, shape (models, SPARK_BINS)."""
        return self._spark.values().reshape(-1, SPARK_BINS)

    def quantile(self, share: float) -> Floats:
        """Return each model's loss that `share` of its rows do not exceed, NaN without rows."""
        total = np.cumsum(self._buckets.reshape(-1, _BUCKETS), axis=1)
        rank = np.maximum(np.ceil(share * total[:, -1]), 1)
        bucket = np.argmax(total >= rank[:, None], axis=1)
        value = np.clip(_middle(bucket), self._least, self._most)
        return np.where(total[:, -1] > 0, value, np.nan)


def _bucket(loss: Floats) -> Ints:
    """Return a loss's bucket: its exponent and the leading bits of its significand."""
    bits = np.maximum(loss, 0.0).view(np.int64) >> (52 - _PER_OCTAVE_BITS)
    return cast(Ints, np.clip(bits - _LOWEST, 0, _BUCKETS - 1))


def _middle(bucket: Ints) -> Floats:
    bits = (bucket.astype(np.int64) + _LOWEST) << (52 - _PER_OCTAVE_BITS)
    half = np.int64(1) << (51 - _PER_OCTAVE_BITS)
    return (bits + half).view(np.float64)
