"""Parquet: row groups, tiny ones merged, streamed in batches."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kerneltrack.errors import DataError
from transforms.read.format_options import FormatOptions
from transforms.read.formats.base import (
    PIECE_BYTES,
    PIECE_ROWS,
    FileInfo,
    Piece,
    PieceRows,
    batch_rows,
    check_names,
)
from transforms.read.formats.files import open_file, reading
from transforms.read.kinds import is_text

_BUFFER = 1 << 16
_ARROW_TYPES = b"ARROW:schema"


@dataclass(frozen=True)
class ParquetPiece(Piece):
    """Row groups first..last of a Parquet file.

    Attributes:
        first_group: Number of the first row group.
        last_group: Number of the last one.
    """

    first_group: int
    last_group: int

    def read_stored(self, columns: Mapping[str, pa.DataType]) -> Iterator[PieceRows]:
        """Stream the named columns; texts come dictionary-encoded, which is how they are kept."""
        row = self.first_row
        for batch in self._batches(columns, batch_rows(columns)):
            yield PieceRows(batch, np.arange(row, row + batch.num_rows))
            row += batch.num_rows
        if row != self.first_row + (self.rows or 0):
            raise DataError(self.path, f"{self.rows} rows promised, not found", f"row {row}")

    def first_stored(self, columns: Mapping[str, pa.DataType], most: int) -> PieceRows | None:
        """Return at most so many of the first rows; of the piece only what they need is read."""
        for batch in self._batches(columns, most, ahead=False):
            return PieceRows(batch, np.arange(self.first_row, self.first_row + batch.num_rows))
        return None

    def _batches(
        self, columns: Mapping[str, pa.DataType], size: int, ahead: bool = True
    ) -> Iterator[pa.RecordBatch]:
        row = self.first_row
        with open_file(self.path) as handle:
            with reading(self.path):
                metadata = pq.read_metadata(handle)
                schema = metadata.schema.to_arrow_schema()
                groups = range(self.first_group, self.last_group + 1)
                gaps = _with_gaps(metadata, groups, columns)
                if gaps:
                    metadata = _without_arrow_types(metadata)
                all_bytes = sum(metadata.row_group(i).total_byte_size for i in groups)
                file = pq.ParquetFile(
                    handle,
                    metadata=metadata,
                    read_dictionary=[name for name in columns if is_text(schema.field(name).type)],
                    buffer_size=0 if ahead else _BUFFER,
                    # Twice as fast, but all of the piece's bytes are then held at once.
                    pre_buffer=ahead and all_bytes <= 2 * PIECE_BYTES,
                )
                batches = file.iter_batches(
                    batch_size=size, row_groups=groups, columns=list(columns)
                )
            while True:
                with reading(self.path, f"after row {row}"):
                    batch = next(batches, None)
                    if batch is None:
                        break
                    if gaps:
                        batch = self._in_types_of(schema, batch, row)
                yield batch
                row += batch.num_rows

    def _in_types_of(self, schema: pa.Schema, batch: pa.RecordBatch, row: int) -> pa.RecordBatch:
        """Return a batch that was read without Arrow's types in them; `row`: number of its first.

        Texts stay as they are kept: dictionary-encoded.
        """
        columns = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            kind = schema.field(name).type
            if pa.types.is_fixed_size_list(kind):
                lengths = column.value_lengths().fill_null(kind.list_size).to_numpy()
                for place in np.flatnonzero(lengths != kind.list_size)[:1].tolist():
                    reason = f"a list of {lengths[place]} values, where all have {kind.list_size}"
                    raise DataError(self.path, reason, f"column {name!r}, row {row + place}")
                columns.append(_fixed(column, kind))
            else:
                columns.append(column if is_text(kind) else column.cast(kind))
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _with_gaps(
    metadata: pq.FileMetaData, groups: Iterable[int], columns: Mapping[str, pa.DataType]
) -> bool:
    """Check whether columns of fixed-size lists may have rows without a list.

    Arrow refuses these: it looks for the numbers that such a row has not.
    """
    lists = [f"{name}." for name, kind in columns.items() if pa.types.is_fixed_size_list(kind)]
    if not lists:
        return False
    paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    places = [i for i, path in enumerate(paths) if path.startswith(tuple(lists))]
    for group in groups:
        for place in places:
            found = metadata.row_group(group).column(place).statistics
            if found is None or not found.has_null_count or found.null_count:
                return True
    return False


def _without_arrow_types(metadata: pq.FileMetaData) -> pq.FileMetaData:
    """Return a footer whose note of Arrow's types has another name, so that Parquet's own count.

    Lists of a fixed size are lists of any size then.
    """
    footer = io.BytesIO()
    metadata.write_metadata_file(footer)
    # The note comes after all names of columns.
    before, note, after = footer.getvalue().rpartition(_ARROW_TYPES)
    return pq.read_metadata(io.BytesIO(before + b"-" * len(note) + after))


def _fixed(lists: pa.ListArray, kind: pa.DataType) -> pa.FixedSizeListArray:
    """Return lists, each null or as long as the others, as those of a fixed size."""
    missing = lists.is_null().to_numpy(zero_copy_only=False)
    there = pa.FixedSizeListArray.from_arrays(lists.flatten().cast(kind.value_type), kind.list_size)
    return there.take(pa.array(np.cumsum(~missing) - 1, mask=missing))


def inspect_parquet(path: str, options: FormatOptions) -> FileInfo:
    """Read a Parquet file's footer.

    Raises:
        DataError: if it has none.
    """
    del options
    with open_file(path) as handle, reading(path):
        file = pq.ParquetFile(handle)
        metadata, schema = file.metadata, file.schema_arrow
        check_names(path, schema.names)
        sizes = [
            (metadata.row_group(i).num_rows, metadata.row_group(i).total_byte_size)
            for i in range(metadata.num_row_groups)
        ]
    pieces = []
    first_group, first_row, rows, size = 0, 0, 0, 0
    for group, (group_rows, group_bytes) in enumerate(sizes):
        rows, size = rows + group_rows, size + group_bytes
        if rows >= PIECE_ROWS or size >= PIECE_BYTES or group == len(sizes) - 1:
            pieces.append(ParquetPiece(path, first_row, rows, first_group, group))
            first_group, first_row, rows, size = group + 1, first_row + rows, 0, 0
    total = sum(group_rows for group_rows, _ in sizes)
    return FileInfo(path, "parquet", schema.remove_metadata(), total, tuple(pieces))
