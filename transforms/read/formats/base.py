"""What every file format gives: a look at launch, pieces, and streamed record batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import DataError

BATCH_ROWS = 65_536
"""Most rows of one record batch."""

BATCH_BYTES = 32 << 20
"""Most bytes of one record batch; wide rows make shorter batches."""

PIECE_ROWS = 1_000_000
"""Row groups and row ranges are merged up to this many rows, or `PIECE_BYTES`, into a piece."""

PIECE_BYTES = 256 << 20


@dataclass(frozen=True)
class Rows:
    """Some rows of a piece.

    Attributes:
        batch: Rows that could be read, at most `BATCH_ROWS`.
        row: int64, each row's number in its file (same length as the batch).
        bad: Rows that could not be read: number in the file, and reason.
        unread: Rows of the batch with a value that could not be read, which is null: place in the
            batch, and reason.
    """

    batch: pa.RecordBatch
    row: npt.NDArray[np.int64]
    bad: Sequence[tuple[int, str]] = ()
    unread: Sequence[tuple[int, str]] = ()

    def slice(self, most: int) -> Rows:
        """Return the first rows, at most so many that could be read and as many that could not."""
        unread = [(place, reason) for place, reason in self.unread if place < most]
        return Rows(self.batch.slice(0, most), self.row[:most], self.bad[:most], unread)


@dataclass(frozen=True)
class Piece(ABC):
    """A part of a file that can be read by itself, on any worker.

    Attributes:
        path: The file.
        first_row: Number in the file of the piece's first row.
        rows: Number of rows, None if that is known only after reading.
    """

    path: str
    first_row: int
    rows: int | None

    @abstractmethod
    def read(self, columns: Mapping[str, pa.DataType]) -> Iterator[Rows]:
        """Stream the named columns.

        Args:
            columns: Wanted columns. Text is parsed as the given type; files that know their
                types give their own.

        Yields:
            Rows in the file's order, each row once.

        Raises:
            DataError: if the file cannot be read at all.
        """

    def first(self, columns: Mapping[str, pa.DataType], most: int) -> Rows | None:
        """Return at most so many of the first rows, None if there is none; arguments as `read`."""
        for rows in self.read(columns):
            if rows.batch.num_rows or rows.bad:
                return rows.slice(most)
        return None


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
    """

    path: str
    format: str
    schema: pa.Schema
    rows: int | None
    pieces: tuple[Piece, ...]
    text: bool = False
    suggested: Suggested = field(default_factory=Suggested)
    decimals: Mapping[str, str] = field(default_factory=dict)


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
