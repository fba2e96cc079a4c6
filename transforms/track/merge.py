"""Rows of one time as one row: of each channel the last value that one of them gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kerneltrack.arrays import BoolArray, IntArray
from transforms.chunks import Chunk, matrix_column
from transforms.read.merged import Merged


class MergedRows(NamedTuple):
    """Rows, some of them merged.

    Attributes:
        rows: What came of them, g rows.
        parts: (g,) how many rows each was made of.
        replaced: (g,) values that one of a later part took the place of.
    """

    rows: Chunk
    parts: IntArray
    replaced: IntArray

    def add_to_counters(self, kept: BoolArray | None = None) -> None:
        """Add to the job's counters what came of the rows, or of those that are `kept`, (g,)."""
        parts = self.parts if kept is None else self.parts[kept]
        replaced = self.replaced if kept is None else self.replaced[kept]
        Merged(int(parts.sum()) - len(parts), int(replaced.sum())).add_to_counters()


def merge_times(rows: Chunk) -> Chunk:
    """Merge rows of one model, in order of (time, sequence, source, row), that share a time.

    The merged row has the place of its first row and, of each channel and of the label, the last
    value that is given; one that no row gives is missing. Merging some rows that follow one another
    first gives the same bits. Cost O(n), and O(nD) of the rows that are merged.
    """
    if not rows.has("time"):
        return rows
    times = rows.column("time")
    if (times[1:] != times[:-1]).all():
        return rows
    merged = merge_where(rows, np.r_[True, times[1:] != times[:-1]])
    merged.add_to_counters()
    return merged.rows


def merge_where(rows: Chunk, new: BoolArray) -> MergedRows:
    """Merge each row with those before it, back to the last one that is `new`, (n,)."""
    starts = np.flatnonzero(new)
    parts = np.diff(starts, append=len(new))
    replaced = np.zeros(len(starts), dtype=np.int64)
    if len(starts) == len(new):
        return MergedRows(rows, parts, replaced)
    batch, x = rows.batch, rows.column("x")
    several = parts > 1
    inside = np.repeat(several, parts)
    own = x[inside]
    begins = np.cumsum(parts[several]) - parts[several]
    given = ~np.isnan(own)
    places = np.where(given, np.arange(len(own))[:, None], -1)
    last = np.maximum.reduceat(places, begins, axis=0)
    found = x[starts]
    found[several] = np.where(last < 0, np.nan, own[last, np.arange(x.shape[1])])
    values = np.add.reduceat(given.sum(axis=1), begins)
    replaced[several] = values - (last >= 0).sum(axis=1)
    columns: dict[str, Any] = {"x": matrix_column(found)}
    if rows.has("label"):
        columns["label"] = _last_given(batch.column("label"), starts)
    taken = pa.array(starts)
    arrays = [
        columns[name] if name in columns else batch.column(name).take(taken)
        for name in batch.schema.names
    ]
    whole = pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
    return MergedRows(Chunk(whole), parts, replaced)


def spread_where(rows: Chunk, new: BoolArray, width: int) -> MergedRows:
    """Merge rows of one value each, of the column `channel`, into rows of all D channels."""
    starts = np.flatnonzero(new)
    batch, value = rows.batch, rows.column("x")[:, 0]
    owner, channel = np.cumsum(new) - 1, rows.column("channel")
    given = np.flatnonzero(~np.isnan(value))
    x = np.full((len(starts), width), np.nan, dtype=value.dtype)
    # Of equal places NumPy keeps what is assigned last.
    x[owner[given], channel[given]] = value[given]
    there = np.bincount(owner[given], minlength=len(starts))
    columns: dict[str, Any] = {
        name: batch.column(name).take(pa.array(starts))
        for name in batch.schema.names
        if name not in ("channel", "x", "label")
    }
    columns["x"] = matrix_column(x)
    if rows.has("label"):
        columns["label"] = _last_given(batch.column("label"), starts)
    whole = Chunk(pa.RecordBatch.from_pydict(columns))
    parts = np.diff(starts, append=len(new))
    return MergedRows(whole, parts, there - (~np.isnan(x)).sum(axis=1))


def spread_across(chunks: Iterable[Chunk], width: int) -> Iterator[Chunk]:
    """Merge rows of one value each that are in order over all chunks."""
    waiting: Chunk | None = None
    for chunk in chunks:
        if not len(chunk):
            continue
        rows = chunk if waiting is None else Chunk.concat([waiting, chunk])
        times = rows.column("time")
        last = int(np.searchsorted(times, times[-1]))
        if last:
            yield spread_times(rows.slice(0, last), width)
        waiting = rows.slice(last, len(rows))
    if waiting is not None:
        yield spread_times(waiting, width)


def spread_times(rows: Chunk, width: int) -> Chunk:
    """Merge rows of one value each, of one model and in order, that share a time."""
    times = rows.column("time")
    merged = spread_where(rows, np.r_[True, times[1:] != times[:-1]], width)
    merged.add_to_counters()
    return merged.rows


def _last_given(labels: pa.Array, starts: IntArray) -> pa.Array:
    there = labels.is_valid().to_numpy(zero_copy_only=False)
    places = np.maximum.reduceat(np.where(there, np.arange(len(there)), -1), starts)
    return labels.take(pa.array(places, mask=places < 0))


def merge_across(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Merge rows that are in order over all chunks: those of one time may be in several."""
    last: Chunk | None = None
    for chunk in chunks:
        if not len(chunk):
            continue
        rows = merge_times(chunk if last is None else Chunk.concat([last, chunk]))
        if len(rows) > 1:
            yield rows.slice(0, len(rows) - 1)
        last = rows.slice(len(rows) - 1, len(rows))
    if last is not None:
        yield last
