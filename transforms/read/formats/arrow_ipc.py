"""Arrow IPC files and streams, Feather version 2 among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.errors import DataError
from transforms.read.format_options import FormatOptions
from transforms.read.formats.base import FileInfo, Piece, PieceRows, batch_rows, check_names
from transforms.read.formats.files import open_file, reading
from transforms.read.formats.signatures import FEATHER1

_FILE_MAGIC, _FEATHER1_MAGIC = b"ARROW1", b"FEA1"


@dataclass(frozen=True)
class ArrowPiece(Piece):
    """A whole Arrow file or stream.

    A batch's length stands before its bytes, not in the footer: whoever wants to number the rows
    of a later batch has to read those before it.

    Attributes:
        stream: Whether it is a stream; else it is a file with a footer.
    """

    stream: bool

    def read_stored(self, columns: Mapping[str, pa.DataType]) -> Iterator[PieceRows]:
        """Stream the named columns; every batch is validated in full first."""
        row, step = self.first_row, batch_rows(columns)
        with open_file(self.path) as handle:
            for batch in _batches(self.path, handle, self.stream, list(columns)):
                for start in range(0, batch.num_rows, step):
                    part = batch.slice(start, step)
                    yield PieceRows(part, np.arange(row, row + part.num_rows))
                    row += part.num_rows


def inspect_arrow(path: str, options: FormatOptions) -> FileInfo:
    """Read the schema of an Arrow file or stream.

    Raises:
        DataError: if it is neither.
    """
    del options
    with open_file(path) as handle:
        with reading(path):
            magic = handle.read(len(_FILE_MAGIC))
            handle.seek(0)
        if magic.startswith(_FEATHER1_MAGIC):
            raise DataError(path, FEATHER1.reason())
        stream = magic != _FILE_MAGIC
        with reading(path):
            schema = _open(handle, stream).schema
            check_names(path, schema.names)
    piece = ArrowPiece(path, 0, None, stream)
    return FileInfo(path, "arrow", schema.remove_metadata(), None, (piece,))


def _open(
    handle: IO[bytes], stream: bool, fields: list[int] | None = None
) -> pa.RecordBatchReader | pa.RecordBatchFileReader:
    options = pa.ipc.IpcReadOptions(included_fields=fields)
    source = pa.PythonFile(handle, mode="r")
    opener = pa.ipc.open_stream if stream else pa.ipc.open_file
    return opener(source, options=options)


def _batches(
    path: str, handle: IO[bytes], stream: bool, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    with reading(path):
        names = _open(handle, stream).schema.names
        handle.seek(0)
        reader = _open(handle, stream, sorted(names.index(name) for name in columns))
        count = None if stream else reader.num_record_batches
    number = 0
    while count is None or number < count:
        with reading(path, f"record batch {number}"):
            if count is None:
                batch = next(iter(reader), None)
                if batch is None:
                    return
            else:
                batch = reader.get_batch(number)
            for array in batch.columns:
                validate(array)
            checked = pa.RecordBatch.from_arrays(
                [_without_views(batch.column(name)) for name in columns], names=columns
            )
        yield checked
        number += 1


def _without_views(array: pa.Array) -> pa.Array:
    """Turn string views, which few functions of Arrow take, into strings."""
    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array


def validate(array: pa.Array) -> None:
    """Check an array from unknown bytes in full, as far as a later crash goes.

    Texts are checked as bytes: a text that is not UTF-8 spoils its own row, not the file.

    Raises:
        pa.ArrowInvalid: if the array is damaged.
    """
    if pa.types.is_dictionary(array.type):
        array.validate()
        array.indices.validate(full=True)
        validate(array.dictionary)
        bounds = pc.min_max(array.indices).as_py()
        low, high = bounds["min"], bounds["max"]
        if low is not None and not 0 <= low <= high < len(array.dictionary):
            raise pa.ArrowInvalid("dictionary index out of range")
    elif pa.types.is_string(array.type):
        array.validate()
        array.view(pa.binary()).validate(full=True)
    elif pa.types.is_large_string(array.type):
        array.validate()
        array.view(pa.large_binary()).validate(full=True)
    else:
        array.validate(full=True)
