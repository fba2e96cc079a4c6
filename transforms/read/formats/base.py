"""What every file format gives: a look at launch, pieces, and streamed record batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import DataError, shorten

BATCH_ROWS = 65_536
"""Most rows of one record batch."""

BATCH_BYTES = 32 << 20
"""Most bytes of one record batch; wide rows make shorter batches."""

PIECE_ROWS = 1_000_000
"""Row groups and row ranges are merged up to this many rows, or `PIECE_BYTES`, into a piece."""

PIECE_BYTES = 256 << 20


class NoLine(DataError):
    """A file of text has no line, not even a header, as one that a logger has just opened."""

    def __init__(self, path: str, reason: str = "has no line", position: str | None = None) -> None:
        super().__init__(path, reason, position)


@dataclass(frozen=True)
class PieceRows:
    """Some rows of a piece.

    Attributes:
        batch: Rows that could be read, at most `BATCH_ROWS`.
        row: int64, each row's number in its file (same length as the batch).
        bad: Rows that could not be read: number in the file, and reason.
        unread: Rows of the batch with a value that could not be read, which is null: place in the
            batch, and reason.
        constants: Columns with one text in all rows, also in those that could not be read.
    """

    batch: pa.RecordBatch
    row: npt.NDArray[np.int64]
    bad: Sequence[tuple[int, str]] = ()
    unread: Sequence[tuple[int, str]] = ()
    constants: Mapping[str, str | None] = field(default_factory=dict)

    def slice(self, most: int) -> PieceRows:
        """Return the first rows, at most so many that could be read and as many that could not."""
        unread = [(place, reason) for place, reason in self.unread if place < most]
        return replace(
            self,
            batch=self.batch.slice(0, most),
            row=self.row[:most],
            bad=self.bad[:most],
            unread=unread,
        )


@dataclass(frozen=True)
class Constants:
    """Columns that have one text in all rows of a file, such as the device that its path names.

    Attributes:
        values: Name and text of each; None: missing.
        counted_by: Name and type of a column in the file itself. It is read where only constant
            ones are wanted, to count the rows.
    """

    values: tuple[tuple[str, str | None], ...] = ()
    counted_by: tuple[str, pa.DataType] = ("", pa.null())


@dataclass(frozen=True)
class Piece(ABC):
    """A part of a file that can be read by itself, on any worker.

    Attributes:
        path: The file.
        first_row: Number in the file of the piece's first row.
        rows: Number of rows, None if that is known only after reading.
        constants: Columns that are not in the file, with one value for all of its rows.
    """

    path: str
    first_row: int
    rows: int | None
    constants: Constants = field(default_factory=Constants, kw_only=True)

    @abstractmethod
    def read_stored(self, columns: Mapping[str, pa.DataType]) -> Iterator[PieceRows]:
        """Stream the named columns of the file itself; as `read`."""

    def first_stored(self, columns: Mapping[str, pa.DataType], most: int) -> PieceRows | None:
        """Return the first rows with the named columns of the file itself; as `first`."""
        for rows in self.read_stored(columns):
            if rows.batch.num_rows or rows.bad:
                return rows.slice(most)
        return None

    def read(self, columns: Mapping[str, pa.DataType]) -> Iterator[PieceRows]:
        """Stream the named columns.

        Args:
            columns: Wanted columns. Text is parsed as the given type; files that know their
                types give their own.

        Yields:
            Rows in the file's order, each row once. Constant columns are dictionary-encoded.

        Raises:
            DataError: if the file cannot be read at all, or a constant is not of its type.
        """
        for rows in self.read_stored(self._stored(columns)):
            yield self._with_constants(rows, columns)

    def first(self, columns: Mapping[str, pa.DataType], most: int) -> PieceRows | None:
        """Return at most so many of the first rows, None if there is none; arguments as `read`."""
        rows = self.first_stored(self._stored(columns), most)
        return None if rows is None else self._with_constants(rows, columns)

    def _stored(self, columns: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
        """Return the wanted columns that are in the file, one at least."""
        constant = dict(self.constants.values)
        stored = {name: kind for name, kind in columns.items() if name not in constant}
        return stored or (dict([self.constants.counted_by]) if constant else {})

    def _with_constants(self, rows: PieceRows, columns: Mapping[str, pa.DataType]) -> PieceRows:
        if not self.constants.values:
            return rows
        constant = dict(self.constants.values)
        arrays = [
            self._repeated(name, constant[name], kind, rows.batch.num_rows)
            if name in constant
            else rows.batch.column(name)
            for name, kind in columns.items()
        ]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
        return replace(rows, batch=batch, constants=constant)

    def _repeated(self, name: str, text: str | None, kind: pa.DataType, count: int) -> pa.Array:
        """Return a constant column: a byte a row."""
        if text is None:
            return pa.DictionaryArray.from_arrays(pa.nulls(count, pa.int8()), pa.array([], kind))
        try:
            value = pa.array([text]).cast(kind)
        except pa.ArrowInvalid:
            reason = f"{name} = {shorten(text)} in its path: not of type {kind}"
            raise DataError(self.path, reason) from None
        return pa.DictionaryArray.from_arrays(np.zeros(count, np.int8), value)


@dataclass(frozen=True)
class Suggested:
    """Columns whose meaning the format itself fixes; the user's options come first.

    Attributes:
        time: Name of the time column.
        label: Name of the label column.
        exclude: Columns that are no features unless named, with the reason.
    """

    time: str | None = None
    label: str | None = None
    exclude: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FileInfo:
    """What a look at a file shows.

    Attributes:
        path: The file.
        format: Name of its format.
        schema: Its columns. Types of text are guesses from the first block.
        rows: Number of data rows, None if not known without reading the file.
        pieces: Parts that can be read by themselves, in the file's order.
        text: Whether values are text, so that a column can be read as another type.
        suggested: Columns whose meaning the format fixes.
        decimals: Columns of texts that are numbers with another decimal mark, with that mark.
        decimal: The decimal mark that text is read with.
        constants: Columns that are not in the file, with one text for all of its rows.
        sparse: Whether a row may lack any column, so that others than these can be read, too.
        notes: What was decided by looking at it, for the user to check.
        thousands: Columns of texts that are numbers with marks between the thousands, with their
            decimal mark and this one.
        units: Columns of texts that are numbers, each with the same unit after it.
        words: The first different texts of columns that are no numbers.
    """

    path: str
    format: str
    schema: pa.Schema
    rows: int | None
    pieces: tuple[Piece, ...]
    text: bool = False
    suggested: Suggested = field(default_factory=Suggested)
    decimals: Mapping[str, str] = field(default_factory=dict)
    decimal: str = "."
    constants: Mapping[str, str | None] = field(default_factory=dict)
    sparse: bool = False
    notes: tuple[str, ...] = ()
    thousands: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def is_text(self, name: str) -> bool:
        """Check whether a column's values are text, so that they can be read as another type."""
        return self.text or name in self.constants

    def read(self, columns: Mapping[str, pa.DataType]) -> Iterator[PieceRows]:
        """Stream the rows of all pieces, in order; see `Piece.read`."""
        for piece in self.pieces:
            yield from piece.read(columns)

    def first(self, columns: Mapping[str, pa.DataType], most: int) -> PieceRows | None:
        """Return the first rows of the first piece that has any; see `Piece.first`."""
        found = (piece.first(columns, most) for piece in self.pieces)
        return next((rows for rows in found if rows is not None), None)

    def with_constants(self, values: Mapping[str, str | None], why_no_feature: str) -> FileInfo:
        """Return the file with columns more, each with one text in all of its rows.

        Args:
            values: Texts by name, None: missing. A column of the file itself goes before one of
                the same name.
            why_no_feature: Why they are no features unless named.
        """
        values = {name: text for name, text in values.items() if name not in self.schema.names}
        if not values or not len(self.schema):
            return self
        first = self.schema.field(0)
        constants = Constants(tuple(values.items()), (first.name, first.type))
        fields = [*self.schema, *(pa.field(name, pa.string()) for name in values)]
        exclude = {**self.suggested.exclude, **dict.fromkeys(values, why_no_feature)}
        return replace(
            self,
            schema=pa.schema(fields),
            pieces=tuple(replace(piece, constants=constants) for piece in self.pieces),
            suggested=replace(self.suggested, exclude=exclude),
            constants=values,
        )


def check_names(path: str, names: Sequence[str]) -> None:
    """Refuse a file whose columns share a name.

    Raises:
        DataError: naming the first such column.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(path, f"two columns are called {name!r}")
        seen.add(name)


def batch_rows(columns: Mapping[str, pa.DataType]) -> int:
    """Return how many rows of these columns a batch may have."""
    width = sum(_width(kind) for kind in columns.values())
    return max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, width)))


def _width(kind: pa.DataType) -> int:
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _width(kind.value_type)
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return 16
