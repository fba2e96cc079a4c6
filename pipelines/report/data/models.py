"""Second pass of the report, for the models that its table shows: a line of numbers each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.arrays import FloatArray, IntArray
from pipelines.report.data.choice import codes_of, slots_of
from pipelines.report.data.columns import array_of, mean_of
from pipelines.report.data.groups import Groups
from pipelines.report.data.totals import Totals

SPARK_BINS = 32
"""Points of the table's small curves."""

_OCTAVES = 40
_PER_OCTAVE_BITS = 6
_LOWEST = (1023 - _OCTAVES) << _PER_OCTAVE_BITS
_BUCKETS = 2 * _OCTAVES << _PER_OCTAVE_BITS


class ShownModels:
    """The table of some models, filled batch by batch.

    Quantiles come from counts in buckets, 64 to a doubling between 2^-40 and 2^40: each is within
    1 % of the exact one, whatever the order of the rows, in 20 kB a model.

    Args:
        totals: What the first pass found.
        names: The models.
    """

    def __init__(self, totals: Totals, names: Sequence[str]) -> None:
        self._totals, self._names, count = totals, names, len(names)
        self._slots = slots_of(totals.models, names)
        self._lengths = totals.length[codes_of(totals.models, names)]
        self._half = Groups({"loss": np.float64}, size=count)
        self._spark = Groups({"loss": np.float64}, size=count * SPARK_BINS)
        self._all = Groups({}, {"loss": np.float64}, size=count)
        self._buckets = np.zeros(count * _BUCKETS, dtype=np.int32)

    def add(self, batch: pa.RecordBatch, model: IntArray) -> None:
        """Add a batch of features; `model` has the number of each row's model."""
        slot = self._slots[model]
        keep = (slot >= 0) & ~array_of(batch, "initial")
        slot = slot[keep]
        loss = array_of(batch, "loss")[keep].astype(np.float64)
        index, length = array_of(batch, "index")[keep], self._lengths[slot]
        late = 2 * index >= length
        self._half.add(slot[late], {"loss": loss[late]})
        self._spark.add(slot * SPARK_BINS + index * SPARK_BINS // length, {"loss": loss})
        self._all.add(slot, {"loss": loss})
        np.add.at(self._buckets, slot * _BUCKETS + _bucket(loss), np.int32(1))

    def table(self) -> dict[str, npt.NDArray[Any]]:
        """Return the table's columns; means and quantiles are NaN without rows to measure.

        Ids and numbers of rows; mean and standard deviation of the loss, its mean in the last
        `half` of the rows and what 95 % of them do not exceed (`high`); shares of the rows that
        were censored and evicted, and of those `dropped`; the mean loss in equal parts of the rows
        (`spark`, shape (models, SPARK_BINS)).
        """
        totals, codes = self._totals, codes_of(self._totals.models, self._names)
        rows, fates = totals.counts.rows[codes], totals.counts.sums
        return {
            "id": np.array(self._names, dtype=object),
            "rows": rows,
            "mean": totals.means()[codes],
            "sd": totals.loss.sd()[codes],
            "half": mean_of(self._half.sums["loss"], self._half.rows),
            "high": self.quantile(0.95),
            "censored": fates["censored"][codes] / rows,
            "evicted": fates["evicted"][codes] / rows,
            "dropped": mean_of(fates["dropped"], fates["evicted"])[codes],
            "spark": mean_of(self._spark.sums["loss"], self._spark.rows).reshape(-1, SPARK_BINS),
        }

    def quantile(self, share: float) -> FloatArray:
        """Return each model's loss that `share` of its rows do not exceed, NaN without rows."""
        total = np.cumsum(self._buckets.reshape(-1, _BUCKETS), axis=1)
        rank = np.maximum(np.ceil(share * total[:, -1]), 1)
        bucket = np.argmax(total >= rank[:, None], axis=1)
        value = np.clip(_middle(bucket), self._all.low["loss"], self._all.high["loss"])
        return np.where(total[:, -1] > 0, value, np.nan)


def _bucket(loss: FloatArray) -> IntArray:
    """Return a loss's bucket: its exponent and the leading bits of its significand."""
    bits = np.maximum(loss, 0.0).view(np.int64) >> (52 - _PER_OCTAVE_BITS)
    return cast(IntArray, np.clip(bits - _LOWEST, 0, _BUCKETS - 1))


def _middle(bucket: IntArray) -> FloatArray:
    bits = (bucket.astype(np.int64) + _LOWEST) << (52 - _PER_OCTAVE_BITS)
    half = np.int64(1) << (51 - _PER_OCTAVE_BITS)
    return (bits + half).view(np.float64)
