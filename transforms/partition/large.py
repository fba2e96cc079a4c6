"""Partitions larger than memory: models in groups that fit, a model that does not by sorted runs.

What is kept of the rows is where they lie. Models whose rows fit are read some at a time. Of a
larger model each stretch of rows in a file is sorted by itself, a run, in memory or on the same
disk; the runs are then merged block by block (Knuth, The Art of Computer Programming, volume 3,
section 5.4), so that a block of each is all that is in memory.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from transforms.chunks import Chunk
from transforms.partition.shuffle import MODEL, Spread, sort_rows
from transforms.read.files import is_sorted
from transforms.track.sorted_rows import SortedRows

LEAST_BLOCK = 256
"""Rows of a run that are read at once, at least."""

Key = tuple[int, ...]
OneLarge = tuple[str, Iterator[Chunk]]
"""A model and its rows, some at a time."""


class RowSpan(NamedTuple):
    """Rows of one model in a file.

    Attributes:
        path: The file.
        batch: Number of the record batch.
        start: The first row.
        stop: Past the last row.
        size: Bytes of the rows.
    """

    path: str
    batch: int
    start: int
    stop: int
    size: int

    def read(self) -> pa.RecordBatch:
        """Return the rows; they stay on disk until they are looked at."""
        reader = pa.ipc.open_file(pa.memory_map(self.path))
        return reader.get_batch(self.batch).slice(self.start, self.stop - self.start)


def size_of(spreads: Sequence[Spread], slots: set[int]) -> int:
    """Return how many bytes the rows of some slots have."""
    return sum(
        spread.size * sum(rows for slot, rows in pairs if slot in slots) // max(sum(spread.rows), 1)
        for spread in spreads
        for pairs in [list(zip(spread.slots, spread.rows, strict=True))]
    )


def parts_of(
    spreads: Sequence[Spread], slots: set[int], keys: Sequence[str], most: int, scratch: str
) -> Iterator[SortedRows | OneLarge]:
    """Return models in order of their names, their rows sorted.

    Args:
        spreads: The files.
        slots: The slots whose models are wanted.
        keys: Columns that a model's rows are sorted by, the last one first.
        most: Bytes of rows in memory, about. Sorting takes up to three times as much.
        scratch: Beginning of the paths of files for runs; they are removed.

    Yields:
        As many models as fit; or one that is larger and its rows in order, some at a time.
    """
    spans = _spans_of(spreads, slots)
    group: list[str] = []
    size = 0
    for name in sorted(spans):
        own = sum(span.size for span in spans[name])
        if group and size + own > most:
            yield _read_group(group, spans, keys)
            group, size = [], 0
        if own > most:
            yield name, _merged(spans[name], keys, most, scratch)
            continue
        group.append(name)
        size += own
    if group:
        yield _read_group(group, spans, keys)


def _spans_of(spreads: Sequence[Spread], slots: set[int]) -> dict[str, list[RowSpan]]:
    """Return where the rows of each model lie; in a batch they lie by model."""
    spans: dict[str, list[RowSpan]] = {}
    for spread in spreads:
        reader = pa.ipc.open_file(pa.memory_map(spread.path))
        for place, slot in enumerate(spread.slots):
            if slot not in slots:
                continue
            batch = reader.get_batch(place)
            coded = batch.column(MODEL).dictionary_encode()
            codes = coded.indices.to_numpy()
            edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
            for start, stop in itertools.pairwise(edges):
                name = coded.dictionary[int(codes[start])].as_py()
                size = batch.nbytes * (stop - start) // len(codes)
                spans.setdefault(name, []).append(RowSpan(spread.path, place, start, stop, size))
    return spans


def _read_group(
    names: Sequence[str], spans: dict[str, list[RowSpan]], keys: Sequence[str]
) -> SortedRows:
    batches = [span.read() for name in names for span in spans[name]]
    return sort_rows(pa.Table.from_batches(batches), keys)


def _merged(
    spans: Sequence[RowSpan], keys: Sequence[str], most: int, scratch: str
) -> Iterator[Chunk]:
    """Sort a model's rows run by run and merge them; runs on disk are removed at the end."""
    runs: list[_SortedRun] = []
    written: list[str] = []
    try:
        for span in _cut(spans, most):
            body = span.read().drop_columns([MODEL])
            sort_by = [name for name in keys if name in body.schema.names]
            columns = [body.column(name).to_numpy() for name in sort_by]
            if not is_sorted(np.zeros(len(body), np.int32), columns, None):
                path = f"{scratch}-run-{len(runs):06d}"
                written.append(path)
                _write(path, body.take(pa.array(np.lexsort(columns))))
                span = RowSpan(path, 0, 0, len(body), span.size)  # noqa: PLW2901 - it lies there now
            runs.append(_SortedRun(span, sort_by))
        rows = sum(span.stop - span.start for span in spans)
        a_row = max(sum(span.size for span in spans) // max(rows, 1), 1)
        # Half of it for blocks, half for what is put in order of them.
        block = max(LEAST_BLOCK, most // (2 * a_row * max(len(runs), 1)))
        yield from _merge(runs, block)
    finally:
        for path in written:
            if os.path.exists(path):
                os.remove(path)


def _cut(spans: Sequence[RowSpan], most: int) -> Iterator[RowSpan]:
    """Cut stretches that are too long to be sorted in memory."""
    for span in spans:
        parts = -(-span.size // most)
        edges = np.linspace(span.start, span.stop, max(parts, 1) + 1).astype(int).tolist()
        for start, stop in itertools.pairwise(edges):
            if stop > start:
                size = span.size * (stop - start) // (span.stop - span.start)
                yield span._replace(start=start, stop=stop, size=size)


def _write(path: str, body: pa.RecordBatch) -> None:
    with pa.OSFile(path, "wb") as handle, pa.ipc.new_file(handle, body.schema) as writer:
        writer.write_batch(body)


class _SortedRun:
    """Sorted rows of which a block is in memory."""

    def __init__(self, span: RowSpan, sort_by: Sequence[str]) -> None:
        self._span = span
        self.sort_by = sort_by
        self._at = span.start
        self._keys: list[npt.NDArray[Any]] = []
        self.block: pa.RecordBatch | None = None

    def fill(self, rows: int) -> bool:
        """Read the next block if there is none in memory; return whether there is one."""
        if self.block is None and self._at < self._span.stop:
            stop = min(self._at + rows, self._span.stop)
            part = self._span._replace(start=self._at, stop=stop).read()
            self._at = stop
            names = [name for name in part.schema.names if name != MODEL]
            # Copied, so that pages of the file that were read are not held.
            self._hold(part.select(names).take(pa.array(np.arange(len(part)))))
        return self.block is not None

    def _hold(self, block: pa.RecordBatch | None) -> None:
        self.block = block
        self._keys = [] if block is None else [block.column(n).to_numpy() for n in self.sort_by]

    @property
    def ended(self) -> bool:
        """Whether no rows follow the block."""
        return self._at >= self._span.stop

    def last(self) -> Key:
        """Return what the block's last row is sorted by, the first column first."""
        return self._key(-1)

    def _key(self, place: int) -> Key:
        return tuple(int(column[place]) for column in reversed(self._keys))

    def take(self, until: Key | None) -> pa.RecordBatch | None:
        """Take the block's rows up to and with this key out; None: all of them."""
        block = self.block
        if block is None:
            return None
        low, high = (len(block), len(block)) if until is None else (0, len(block))
        while low < high and until is not None:
            middle = (low + high) // 2
            if self._key(middle) <= until:
                low = middle + 1
            else:
                high = middle
        self._hold(block.slice(low) if low < len(block) else None)
        return block.slice(0, low)


def _merge(runs: Sequence[_SortedRun], block: int) -> Iterator[Chunk]:
    """Return the rows of all runs in order.

    Up to the least of the last keys of what is in memory, of runs that go on, all rows are there.
    """
    while True:
        here = [run for run in runs if run.fill(block)]
        if not here:
            return
        open_ends = [run.last() for run in here if not run.ended]
        until = min(open_ends) if open_ends else None
        parts = [part for run in here if (part := run.take(until)) is not None and len(part)]
        yield Chunk(_in_order(parts, here[0]))


def _in_order(parts: Sequence[pa.RecordBatch], run: _SortedRun) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    whole = pa.concat_batches(parts)
    return whole.take(pa.array(np.lexsort([whole.column(n).to_numpy() for n in run.sort_by])))
