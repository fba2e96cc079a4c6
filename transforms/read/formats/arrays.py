"""NumPy's `.npy` and `.npz`: a matrix is one column of fixed-size lists."""

from __future__ import annotations

import io
import math
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import DataError, shorten
from transforms.read.format_options import MAX_WIDTH, FormatOptions
from transforms.read.formats.base import (
    PIECE_BYTES,
    PIECE_ROWS,
    FileInfo,
    Piece,
    PieceRows,
    Suggested,
    batch_rows,
    check_names,
)
from transforms.read.formats.files import open_file, reading

MATRIX = "x"
"""Column name of a plain `.npy` array."""

_NATIVE_KINDS = "biufSUM"
_HEADER_BYTES = 16 << 10
"""NumPy reads headers of up to 10,000 characters; what a file says of its length is not trusted."""
_COPY_BYTES = 4 << 20
_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@dataclass(frozen=True)
class _Header:
    """Shape and type of an array in a file, and where its numbers begin."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def width(self) -> int:
        return math.prod(self.shape[1:])

    @property
    def size(self) -> int:
        return self.rows * self.width * self.dtype.itemsize


@dataclass(frozen=True)
class NpyPiece(Piece):
    """A range of rows of an `.npy` file."""

    def read_stored(self, columns: Mapping[str, pa.DataType]) -> Iterator[PieceRows]:
        """Stream the rows."""
        step, stop = batch_rows(columns), self.first_row + (self.rows or 0)
        with open_file(self.path) as handle:
            header = _read_header(self.path, handle)
            for row in range(self.first_row, stop, step):
                count = min(step, stop - row)
                with reading(self.path, f"row {row}"):
                    values = _read_at(handle, header, row, count)
                batch = _to_batch(values, header, columns)
                yield PieceRows(batch, np.arange(row, row + count))


@dataclass(frozen=True)
class NpzPiece(Piece):
    """All rows of an `.npz` file: compressed members can only be read from their beginning."""

    def read_stored(self, columns: Mapping[str, pa.DataType]) -> Iterator[PieceRows]:
        """Stream the rows of all wanted arrays side by side."""
        step, rows = batch_rows(columns), self.rows or 0
        with ExitStack() as stack:
            handle = stack.enter_context(open_file(self.path))
            with reading(self.path):
                archive = stack.enter_context(zipfile.ZipFile(handle))
            streams = {name: _Member(self.path, archive, name, stack) for name in columns}
            for row in range(0, rows, step):
                count = min(step, rows - row)
                with reading(self.path, f"row {row}"):
                    arrays = [_to_arrow(stream.take(count)) for stream in streams.values()]
                batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
                yield PieceRows(batch, np.arange(row, row + count))


def inspect_npy(path: str, options: FormatOptions) -> FileInfo:
    """Read an `.npy` header: a structured array has its fields for columns, another one x.

    Raises:
        DataError: if it is no `.npy` file, holds objects, or is cut off.
    """
    del options
    with open_file(path) as handle:
        header = _read_header(path, handle)
        with reading(path):
            size = handle.seek(0, 2) - header.offset
    if size < header.size:
        raise DataError(path, f"cut off: {size} of {header.size} bytes", "after the header")
    with reading(path):
        schema = pa.schema(_fields(path, MATRIX, header))
    row_bytes = max(1, header.width * header.dtype.itemsize)
    step = max(1, min(PIECE_ROWS, PIECE_BYTES // row_bytes))
    pieces = tuple(
        NpyPiece(path, row, min(step, header.rows - row)) for row in range(0, header.rows, step)
    )
    return FileInfo(path, "npy", schema, header.rows, pieces)


def inspect_npz(path: str, options: FormatOptions) -> FileInfo:
    """Read the headers of an `.npz` file's arrays.

    Raises:
        DataError: if it is no `.npz` file, an array is not there, holds objects, is cut off or
            has another length than the first.
    """
    with ExitStack() as stack:
        handle = stack.enter_context(open_file(path))
        with reading(path):
            archive = stack.enter_context(zipfile.ZipFile(handle))
        there = [info[: -len(".npy")] for info in archive.namelist() if info.endswith(".npy")]
        if not there:
            raise DataError(path, "no array in it")
        check_names(path, there)
        chosen = options.arrays or (["X", *(["y"] if "y" in there else [])])
        given = options.arrays is not None or "X" in there
        names = list(chosen) if given else there
        for name in names:
            if name not in there:
                raise DataError(path, f"no array {name!r}, only {', '.join(there)}")
        headers = {name: _Member(path, archive, name, stack).header for name in names}
    rows = headers[names[0]].rows
    if not given:
        headers = {name: header for name, header in headers.items() if header.rows == rows}
    fields = []
    for name, header in headers.items():
        if header.rows != rows:
            raise DataError(path, f"{header.rows} rows instead of {rows}", f"array {name!r}")
        if header.dtype.names:
            raise DataError(path, "structured arrays are read from .npy only", f"array {name!r}")
        fields += _fields(path, name, header)
    suggested = Suggested(label="y" if options.arrays is None and "y" in headers else None)
    piece = NpzPiece(path, 0, rows)
    return FileInfo(path, "npz", pa.schema(fields), rows, (piece,), suggested=suggested)


class _Member:
    """An array in an `.npz` file, read from its beginning on."""

    def __init__(self, path: str, archive: zipfile.ZipFile, name: str, stack: ExitStack) -> None:
        with reading(path, f"array {name!r}"):
            info = archive.getinfo(name + ".npy")
            self._stream = stack.enter_context(archive.open(info))
            self.header = _read_header(path, self._stream)
        if info.file_size < self.header.size:
            raise DataError(path, "cut off", f"array {name!r}")
        self._stack = stack
        self._copy: IO[bytes] | None = None
        self._next = 0

    def take(self, count: int) -> npt.NDArray[Any]:
        """Return the next rows."""
        if not self.header.fortran:
            rows = _read_rows(self._stream, self.header, count)
            return rows if len(self.header.shape) > 1 else rows[:, 0]
        # Rows of a column-major array lie apart, and a compressed member is read from its beginning
        # only; unpacked it may be larger than memory.
        if self._copy is None:
            self._copy = self._stack.enter_context(tempfile.TemporaryFile())
            left = self.header.size
            while left and (data := self._stream.read(min(left, _COPY_BYTES))):
                left -= self._copy.write(data)
        row, self._next = self._next, self._next + count
        return _read_at(self._copy, replace(self.header, offset=0), row, count)


def _read_header(path: str, handle: IO[bytes]) -> _Header:
    with reading(path):
        begin = io.BytesIO(handle.read(_HEADER_BYTES))
        version = np.lib.format.read_magic(begin)
        if version not in _READERS:
            raise DataError(path, f".npy version {version[0]}.{version[1]} is not known")
        shape, fortran, dtype = _READERS[version](begin)
        offset = handle.seek(begin.tell())
    if not shape:
        raise DataError(path, "a single number instead of an array")
    # NumPy takes True and -5 for sizes.
    if any(type(size) is not int or size < 0 for size in shape):
        raise DataError(path, f"shape {shorten(shape)}: sizes are whole numbers from 0 on")
    if not dtype.itemsize:
        raise DataError(path, f"values of type {dtype}, which has no bytes")
    # For one axis both orders are the same.
    header = _Header(shape, fortran and len(shape) > 1, dtype, offset)
    if header.width > MAX_WIDTH:
        raise DataError(path, f"rows of {shorten(header.width)} numbers: at most {MAX_WIDTH}")
    return header


def _read_rows(handle: IO[bytes], header: _Header, count: int) -> npt.NDArray[Any]:
    """Read the next rows of a row-major array."""
    size = count * header.width * header.dtype.itemsize
    data = handle.read(size)
    if len(data) != size:
        raise ValueError(f"{len(data)} of {size} bytes")
    return np.frombuffer(data, dtype=header.dtype).reshape(count, header.width)


def _read_at(handle: IO[bytes], header: _Header, row: int, count: int) -> npt.NDArray[Any]:
    """Read rows from any position of a seekable file."""
    item = header.dtype.itemsize
    if not header.fortran:
        handle.seek(header.offset + row * header.width * item)
        return _read_rows(handle, header, count)
    columns = np.empty((header.width, count), dtype=header.dtype)
    single = _Header((header.rows,), False, header.dtype, header.offset)
    for column in range(header.width):
        handle.seek(header.offset + (column * header.rows + row) * item)
        columns[column] = _read_rows(handle, single, count)[:, 0]
    # The axes after the first run the other way round in a column-major file.
    shape = (*reversed(header.shape[1:]), count)
    rows = columns.reshape(shape).transpose().reshape(count, -1)
    return cast("npt.NDArray[Any]", rows)


def _fields(path: str, name: str, header: _Header) -> list[tuple[str, pa.DataType]]:
    """Return the columns that an array makes."""
    if header.dtype.names:
        if len(header.shape) > 1:
            raise DataError(path, f"a structured array of {len(header.shape)} axes instead of 1")
        return [
            (field, _arrow_type(path, field, header.dtype[field])) for field in header.dtype.names
        ]
    kind = _arrow_type(path, name, header.dtype)
    if len(header.shape) == 1:
        return [(name, kind)]
    if not header.width:
        raise DataError(path, "rows without a number", f"array {name!r}")
    return [(name, pa.list_(kind, header.width))]


def _arrow_type(path: str, name: str, dtype: np.dtype[Any]) -> pa.DataType:
    if dtype.kind not in _NATIVE_KINDS or dtype.subdtype is not None:
        raise DataError(path, f"values of type {dtype} cannot be read", f"column {name!r}")
    with reading(path, f"column {name!r}"):
        return _to_arrow(np.empty((0, 1), dtype=dtype)).type.value_type


def _to_batch(
    values: npt.NDArray[Any], header: _Header, columns: Mapping[str, pa.DataType]
) -> pa.RecordBatch:
    """Turn rows into the wanted columns."""
    if values.dtype.names:
        arrays = [_to_arrow(values[name][:, 0]) for name in columns]
    else:
        arrays = [_to_arrow(values if len(header.shape) > 1 else values[:, 0])]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _to_arrow(values: npt.NDArray[Any]) -> pa.Array:
    """Turn a vector into a column, a matrix into one of fixed-size lists."""
    flat = np.ascontiguousarray(values).reshape(-1)
    flat = flat.astype(flat.dtype.newbyteorder("="), copy=False)
    array = pa.array(flat)
    if values.ndim == 1:
        return array
    return pa.FixedSizeListArray.from_arrays(array, values.shape[1])
