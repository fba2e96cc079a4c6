"""Rows on their way from the files to their partitions: Arrow files on a local disk.

Each piece of the input becomes one Arrow IPC file. In it the rows lie by slot, a hash of the model
id, one record batch a slot each time that enough rows are gathered; within a slot by model. A
partition is some of the slots: whoever reads it maps the files and takes its own batches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.arrays import IntArray
from kerneltrack.snapshots.packed import slot_of
from transforms.chunks import Chunk
from transforms.failures import Failures
from transforms.metrics import count
from transforms.read.columns import Columns
from transforms.read.files import (
    GATHER_BYTES,
    GATHER_ROWS,
    batch_of,
    is_sorted,
    join_models,
    join_parts,
)
from transforms.read.formats import Piece
from transforms.read.parse import ParsedRows, parse
from transforms.track.sorted_rows import SortedRows

MODEL = "model"
UNFINISHED = ".unfinished"


class Spread(NamedTuple):
    """A piece's rows by slot, on disk.

    Attributes:
        path: The file; "" if the piece has no good rows.
        slots: Slot of each of its record batches.
        rows: Rows of each.
        size: Bytes of the file.
    """

    path: str
    slots: list[int]
    rows: list[int]
    size: int


def spread_piece(
    path: str, source: int, piece: Piece, columns: Columns, slots: int, counted_as: str
) -> Iterator[Failures | Spread]:
    """Write a piece's rows into a file by slot.

    Args:
        path: The file; it bears this name once it is complete.
        source: Number of the piece's file.
        piece: The piece.
        columns: What its columns are.
        slots: How many slots there are.
        counted_as: What the counters call the rows; see `ReadChunks`.

    Yields:
        Rows that were refused; at the end what was written.

    Raises:
        DataError: if the piece cannot be read.
        OSError: if the file cannot be written.
    """
    writer = _SlotWriter(path + UNFINISHED, columns, slots)
    try:
        gathered: list[ParsedRows] = []
        for rows in piece.read(columns.requests):
            parsed, failures = parse(rows, source, columns)
            count(f"{counted_as}_read", rows.batch.num_rows + len(rows.bad))
            parsed.add_to_counters(counted_as)
            if failures.batch.num_rows:
                count(f"{counted_as}_failed", failures.batch.num_rows)
                yield failures
            if len(parsed):
                gathered.append(parsed)
            if (
                sum(map(len, gathered)) >= GATHER_ROWS
                or sum(part.nbytes for part in gathered) >= GATHER_BYTES
            ):
                writer.add(gathered)
                gathered = []
        writer.add(gathered)
    finally:
        writer.close()
    if writer.slots:
        os.replace(path + UNFINISHED, path)
    yield Spread(
        path if writer.slots else "",
        writer.slots,
        writer.rows,
        os.path.getsize(path) if writer.slots else 0,
    )


class _SlotWriter:
    """An Arrow IPC file of record batches by slot."""

    def __init__(self, path: str, columns: Columns, slots: int) -> None:
        self._path = path
        self._columns = columns
        self._count = slots
        self._handle: Any = None
        self._writer: Any = None
        self.slots: list[int] = []
        self.rows: list[int] = []

    def add(self, gathered: Sequence[ParsedRows]) -> None:
        """Write rows, those of each slot as one batch, in the order of their models' names."""
        if not gathered:
            return
        models, model = join_models(gathered)
        slots = np.array([slot_of(name, self._count) for name in models], np.int64)
        ranked = sorted(range(len(models)), key=lambda place: (slots[place], models[place]))
        rank = np.empty(len(models), np.int32)
        rank[ranked] = np.arange(len(models))
        ranks = rank[model]
        order = None if (ranks[1:] >= ranks[:-1]).all() else stable_order(ranks)
        ranks = ranks if order is None else ranks[order]
        time = None if self._columns.time is None else join_parts([p.time for p in gathered])
        sequence = None
        if self._columns.sequence is not None:
            sequence = join_parts([p.sequence for p in gathered])
        body = batch_of(gathered, self._columns, time, sequence, order)
        names = pa.array([models[place] for place in ranked], pa.string()).take(pa.array(ranks))
        batch = pa.RecordBatch.from_arrays(
            [*body.columns, names], names=[*body.schema.names, MODEL]
        )
        of_rows = slots[ranked][ranks]
        starts = np.flatnonzero(np.diff(of_rows, prepend=-1))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(ranks)], strict=True):
            self._write(batch.slice(start, stop - start))
            self.slots.append(int(of_rows[start]))
            self.rows.append(stop - start)

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._handle = pa.OSFile(self._path, "wb")
            self._writer = pa.ipc.new_file(self._handle, batch.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
        finally:
            if self._handle is not None:
                self._handle.close()


def stable_order(codes: npt.NDArray[Any]) -> IntArray:
    """Return the order of small whole numbers, equal ones as they stand."""
    # A stable sort of 16-bit numbers is a radix sort, several times as fast.
    small = codes.astype(np.uint16) if len(codes) and codes.max() < 2**16 else codes
    return np.argsort(small, kind="stable")


def read_slots(spreads: Sequence[Spread], slots: set[int]) -> pa.Table | None:
    """Return the rows of some slots, None if there are none."""
    batches = []
    for spread in spreads:
        places = [place for place, slot in enumerate(spread.slots) if slot in slots]
        if places:
            reader = pa.ipc.open_file(pa.memory_map(spread.path))
            batches += [reader.get_batch(place) for place in places]
    return pa.Table.from_batches(batches) if batches else None


def sort_rows(table: pa.Table, keys: Sequence[str]) -> SortedRows:
    """Sort rows by model.

    Args:
        table: The rows, one at least, with the column `model`.
        keys: Columns that a model's rows are sorted by, the last one first; those that are not
            there are left out.
    """
    coded = table.column(MODEL).combine_chunks().dictionary_encode()
    names = coded.dictionary.to_pylist()
    ranked = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(names), np.int32)
    rank[ranked] = np.arange(len(names))
    model = rank[coded.indices.to_numpy()]
    del coded
    (body,) = table.drop_columns([MODEL]).combine_chunks().to_batches()
    sort_by = [body.column(name).to_numpy() for name in keys if name in body.schema.names]
    order = None if (model[1:] >= model[:-1]).all() else stable_order(model)
    if not is_sorted(model, sort_by, order):
        order = np.lexsort((*sort_by, model))
    if order is not None:
        model = model[order]
        body = body.take(pa.array(order))
    starts = np.flatnonzero(np.diff(model, prepend=-1))
    present = [names[ranked[place]] for place in model[starts].tolist()]
    return SortedRows(present, np.append(starts, len(model)), Chunk(body))
