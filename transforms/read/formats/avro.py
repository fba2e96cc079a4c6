"""Avro's object container files: a record a row, by the schema that is in the file.

Times are read as texts in ISO 8601, to the microsecond; those of a local time have no zone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from kerneltrack.errors import DataError
from transforms.read.format_options import FormatOptions
from transforms.read.formats.base import FileInfo, Piece, PieceRows, batch_rows
from transforms.read.formats.files import open_file, parsing
from transforms.read.formats.records import TYPING_RECORDS, Paths, Record, columns_of, rows_of

_MOST_RECORDS = 16_384
"""Records are Python objects, several times as large as a row: fewer of them make a batch."""


@dataclass(frozen=True)
class AvroPiece(Piece):
    """A whole Avro file.

    Attributes:
        paths: Where columns in nested records are.
    """

    paths: Paths

    def read_stored(self, columns: Mapping[str, pa.DataType]) -> Iterator[PieceRows]:
        """Stream the named columns, converted to the given types."""
        yield from self._rows(columns, min(_MOST_RECORDS, batch_rows(columns)))

    def first_stored(self, columns: Mapping[str, pa.DataType], most: int) -> PieceRows | None:
        """Return at most so many of the first rows: no more records than these are read."""
        return next(self._rows(columns, most), None)

    def _rows(self, columns: Mapping[str, pa.DataType], size: int) -> Iterator[PieceRows]:
        row = self.first_row
        with _records_in(self.path) as records:
            while True:
                with parsing(self.path, f"after row {row}"):
                    part = list(itertools.islice(records, size))
                if not part:
                    return
                yield rows_of(part, np.arange(row, row + len(part)), (), self.paths, columns)
                row += len(part)


def inspect_avro(path: str, options: FormatOptions) -> FileInfo:
    """Look at the first records of an Avro file: names and types of the columns.

    Raises:
        DataError: if it is no Avro file, or its schema is not that of a record.
    """
    del options
    with _records_in(path) as records, parsing(path):
        first = list(itertools.islice(records, TYPING_RECORDS))
    schema, paths = columns_of(path, first)
    return FileInfo(path, "avro", schema, None, (AvroPiece(path, 0, None, paths),), text=True)


@contextmanager
def _records_in(path: str) -> Iterator[Iterator[Record]]:
    """Open an Avro file and give its records.

    Raises:
        DataError: as `inspect_avro`.
    """
    with open_file(path) as handle:
        with parsing(path):
            reader: Any = fastavro.reader(handle)
            kind = reader.writer_schema
        if not isinstance(kind, dict) or kind.get("type") != "record":
            raise DataError(path, "its schema is not that of a record")
        yield reader
