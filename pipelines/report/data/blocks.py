"""Second pass of the report, for the few models drawn in full: sums of short blocks of rows.

Every quantity kept adds up (or is a minimum or a maximum), so neither the order of the files nor
the way rows are cut into batches matters, and memory has a bound that no run exceeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.report.data.labels import NO_LABEL, LabelCodes, label_values
from pipelines.report.data.totals import FATES, Floats, Ints, array_of, fates_of

WINDOW = 200
"""Rows of the moving average, as in the figures of the tracker's paper."""

HIGH_NOVELTY = 0.95
"""Novelty is a quantile, so one row in twenty is expected at or above this."""

_MOST_BLOCKS = 2_000_000
_BLOCK_SIZES = (1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100, WINDOW)


@dataclass(frozen=True)
class ModelBlocks:
    """One model's blocks that hold rows, in index order; every array has the shape (n,).

    `fates` has the shape (n, len(FATES)); `time` (ns, first and last of a block, shape (n, 2)),
    `label` and `target` are None where the run has no such column.
    """

    size: int
    index: Ints
    rows: Ints
    loss: Floats
    low: Floats
    high: Floats
    novelty: Floats
    novel: Ints
    fates: Ints
    time: Ints | None
    label: Ints | None
    target: Floats | None


def block_size(length: int, most_blocks: int) -> int:
    """Return how many rows go into a block, so that `length` rows fit into `most_blocks`.

    Up to the window of the moving average it divides the window, which makes the average exact.
    """
    for size in _BLOCK_SIZES:
        if -(-length // size) <= most_blocks:
            return size
    size = WINDOW
    while -(-length // size) > most_blocks:
        size *= 2
    return size


class Blocks:
    """Blocks of several models, filled batch by batch.

    Args:
        lengths: Each model's greatest row index + 1, shape (models,).
        timed: Whether the features have times.
        labels: The labels' codes, or None without a label column.
        most_blocks: Bound on the blocks of all models together (about 70 bytes each).
    """

    def __init__(
        self,
        lengths: Ints,
        *,
        timed: bool,
        labels: LabelCodes | None,
        most_blocks: int = _MOST_BLOCKS,
    ) -> None:
        """Allocate; see the class."""
        share = max(1, most_blocks // max(1, len(lengths)))
        self._size = np.array([block_size(int(n), share) for n in lengths], dtype=np.int64)
        counts = -(-np.asarray(lengths, dtype=np.int64) // self._size)
        self._start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        total = int(self._start[-1])
        self._labels = labels
        self._targets = labels is not None and labels.is_target
        self._rows = np.zeros(total, dtype=np.int32)
        self._loss = np.zeros(total)
        self._low = np.full(total, np.inf)
        self._high = np.full(total, -np.inf)
        self._novelty = np.zeros(total, dtype=np.float32)
        self._novel = np.zeros(total, dtype=np.int32)
        self._fates = np.zeros((total, len(FATES)), dtype=np.int32)
        ends = np.iinfo(np.int64)
        self._time = np.empty((total if timed else 0, 2), dtype=np.int64)
        self._time[:] = ends.max, ends.min
        self._label = np.full(total if labels else 0, NO_LABEL, dtype=np.int32)
        self._target = np.zeros((total if self._targets else 0, 2))
        self._timed = timed

    def add(self, batch: pa.RecordBatch, slot: Ints) -> None:
        """Add a batch of features; `slot` gives each row's model here, -1 for none of them."""
        keep = np.flatnonzero(slot >= 0)
        if len(keep) < len(slot):
            batch, slot = batch.take(pa.array(keep)), slot[keep]
        if not len(slot):
            return
        index: Ints = array_of(batch, "index")
        where = self._start[slot] + index // self._size[slot]
        order: npt.NDArray[Any] | slice = slice(None)
        if np.any(where[1:] < where[:-1]):
            order = np.argsort(where, kind="stable")
            where = where[order]
        first = np.flatnonzero(np.concatenate([[True], where[1:] != where[:-1]]))
        at = where[first]
        self._add_measures(batch, order, first, at)
        if self._timed:
            time = batch.column("time").cast(pa.int64()).to_numpy(zero_copy_only=False)[order]
            self._time[at, 0] = np.minimum(self._time[at, 0], np.minimum.reduceat(time, first))
            self._time[at, 1] = np.maximum(self._time[at, 1], np.maximum.reduceat(time, first))
        if self._labels is not None:
            self._add_labels(batch.column("label"), order, first, at)

    def _add_measures(
        self, batch: pa.RecordBatch, order: npt.NDArray[Any] | slice, first: Ints, at: Ints
    ) -> None:
        loss = array_of(batch, "loss")[order]
        novelty = array_of(batch, "novelty")[order]
        self._rows[at] += np.diff(np.append(first, len(loss))).astype(np.int32)
        self._loss[at] += np.add.reduceat(loss, first)
        self._low[at] = np.minimum(self._low[at], np.minimum.reduceat(loss, first))
        self._high[at] = np.maximum(self._high[at], np.maximum.reduceat(loss, first))
        self._novelty[at] += np.add.reduceat(novelty, first)
        self._novel[at] += np.add.reduceat((novelty >= HIGH_NOVELTY).astype(np.int32), first)
        for k, flags in enumerate(fates_of(batch)):
            self._fates[at, k] += np.add.reduceat(flags[order].astype(np.int32), first)

    def _add_labels(
        self, column: pa.Array, order: npt.NDArray[Any] | slice, first: Ints, at: Ints
    ) -> None:
        if self._targets:
            value = label_values(column)[order]
            known = np.isfinite(value)
            self._target[at, 0] += np.add.reduceat(np.where(known, value, 0.0), first)
            self._target[at, 1] += np.add.reduceat(known.astype(float), first)
        elif self._labels is not None:
            codes = self._labels.encode(column)[order]
            self._label[at] = np.maximum(self._label[at], np.maximum.reduceat(codes, first))

    def of_model(self, slot: int) -> ModelBlocks:
        """Return what was gathered for one model."""
        span = slice(int(self._start[slot]), int(self._start[slot + 1]))
        held = np.flatnonzero(self._rows[span])
        target = None
        if self._targets:
            sums, counts = self._target[span][held].T
            target = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        return ModelBlocks(
            size=int(self._size[slot]),
            index=held * self._size[slot],
            rows=self._rows[span][held].astype(np.int64),
            loss=self._loss[span][held],
            low=self._low[span][held],
            high=self._high[span][held],
            novelty=self._novelty[span][held].astype(np.float64),
            novel=self._novel[span][held].astype(np.int64),
            fates=self._fates[span][held].astype(np.int64),
            time=self._time[span][held] if self._timed else None,
            label=self._classes(span, held),
            target=target,
        )

    def _classes(self, span: slice, held: Ints) -> Ints | None:
        if self._labels is None or self._targets:
            return None
        return self._label[span][held].astype(np.int64)
