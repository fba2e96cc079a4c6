"""Parquet: row groups, tiny ones merged, streamed in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    Rows,
    batch_rows,
    check_names,
)
from transforms.read.formats.files import open_file, reading
from transforms.read.kinds import is_text

_BUFFER = 1 << 16


@dataclass(frozen=True)
class ParquetPiece(Piece):
    """Row groups first..last of a Parquet file.

    Attributes:
        first_group: Number of the first row group.
        last_group: Number of the last one.
    """

    first_group: int
    last_group: int

    def read(self, columns: Mapping[str, pa.DataType]) -> Iterator[Rows]:
        """Stream the named columns; texts come dictionary-encoded, which is how they are kept."""
        row = self.first_row
        for batch in self._batches(columns, batch_rows(columns)):
            yield Rows(batch, np.arange(row, row + batch.num_rows))
            row += batch.num_rows
        if row != self.first_row + (self.rows or 0):
            raise DataError(self.path, f"{self.rows} rows promised, not found", f"row {row}")

    def first(self, columns: Mapping[str, pa.DataType], most: int) -> Rows | None:
        """Return at most so many of the first rows; of the piece only what they need is read."""
        for batch in self._batches(columns, most, ahead=False):
            return Rows(batch, np.arange(self.first_row, self.first_row + batch.num_rows))
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
                held = sum(metadata.row_group(i).total_byte_size for i in groups)
                file = pq.ParquetFile(
                    handle,
                    metadata=metadata,
                    read_dictionary=[name for name in columns if is_text(schema.field(name).type)],
                    buffer_size=0 if ahead else _BUFFER,
                    # Twice as fast, but all of the piece's bytes are then held at once.
                    pre_buffer=ahead and held <= 2 * PIECE_BYTES,
                )
                batches = file.iter_batches(
                    batch_size=size, row_groups=groups, columns=list(columns)
                )
            while True:
                with reading(self.path, f"after row {row}"):
                    batch = next(batches, None)
                if batch is None:
                    break
                yield batch
                row += batch.num_rows


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
