"""Text files as blocks of whole lines, found by array operations instead of a loop over lines."""

from __future__ import annotations

import codecs
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import DataError
from transforms.read.formats.base import Piece, PieceRows, batch_rows
from transforms.read.formats.files import decompressed, open_file, reading
from transforms.read.formats.signatures import no_text

BLOCK_BYTES = 4 << 20
"""Text is read and parsed in blocks of this size."""

MAX_LINE_BYTES = 64 << 20
"""A longer line ends the reading: memory must stay bounded."""

_NEWLINE = 10
_ASCII_END = 0x80
_UTF8_NAMES = ("utf-8", "ascii")
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encoding by its byte order mark, which no text in UTF-8 begins with; that of UTF-32 first, which
begins with that of UTF-16."""
_HEAD, _LEAST = 1_000, 100


@dataclass(frozen=True)
class Lines:
    """Some lines of a text, each ended by a line feed.

    Attributes:
        data: The bytes.
        ends: int64, position of each line's last byte, its line feed.
    """

    data: bytes
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.ends)

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Return the position of each line's first byte."""
        starts = np.empty_like(self.ends)
        starts[:1] = 0
        starts[1:] = self.ends[:-1] + 1
        return starts

    def bytes_array(self) -> npt.NDArray[np.uint8]:
        """Return the bytes as an array, without copying."""
        return np.frombuffer(self.data, dtype=np.uint8)

    def text(self, index: int) -> bytes:
        """Return one line without its line feed."""
        start = int(self.ends[index - 1]) + 1 if index else 0
        return self.data[start : int(self.ends[index])]

    def select(self, keep: npt.NDArray[np.bool_]) -> Lines:
        """Return the lines for which `keep` is true."""
        if keep.all():
            return self
        lengths = np.diff(self.ends, prepend=-1)
        data = self.bytes_array()[np.repeat(keep, lengths)].tobytes()
        return Lines(data, np.cumsum(lengths[keep]) - 1)

    def slice(self, start: int, stop: int) -> Lines:
        """Return lines start..stop, as far as there are any."""
        stop = min(stop, len(self))
        if start >= stop:
            return Lines(b"", np.empty(0, dtype=np.int64))
        first = int(self.ends[start - 1]) + 1 if start else 0
        ends = self.ends[start:stop]
        return Lines(self.data[first : int(ends[-1]) + 1], ends - first)

    def join(self, other: Lines) -> Lines:
        """Return these lines and then the others."""
        ends = np.concatenate([self.ends, other.ends + len(self.data)])
        return Lines(self.data + other.data, ends)

    def ascii(self) -> Lines:
        """Return the lines with a question mark for every byte that is not ASCII."""
        data = self.bytes_array()
        if not (data >= _ASCII_END).any():
            return self
        return Lines(np.where(data < _ASCII_END, data, np.uint8(ord("?"))).tobytes(), self.ends)

    def counts(self, byte: int) -> npt.NDArray[np.int64]:
        """Return how often a byte occurs in each line."""
        positions = np.flatnonzero(self.bytes_array() == byte)
        return np.diff(np.searchsorted(positions, self.ends), prepend=0)

    def first_bytes(self) -> npt.NDArray[np.uint8]:
        """Return the first byte of each line; a blank one's is its line feed."""
        return self.bytes_array()[self.starts]

    def is_blank(self) -> npt.NDArray[np.bool_]:
        """Return which lines are empty."""
        return np.equal(self.ends, self.starts)

    def without_blank(self, comment: bytes = b"") -> Lines:
        """Drop empty lines and, if a prefix is given, those that begin with it."""
        starts, data = self.starts, self.bytes_array()
        keep = self.ends > starts
        if comment:
            is_comment = self.ends - starts >= len(comment)
            for offset, byte in enumerate(comment):
                # A line shorter than the prefix looks at bytes of the next one; its length has
                # ruled it out already. Only the text's end must not be passed.
                at = np.minimum(starts + offset, len(data) - 1)
                is_comment &= data[at] == byte
            keep &= ~is_comment
        return self.select(keep)

    @staticmethod
    def of(data: bytes, quote: int | None = None) -> Lines:
        """Find the complete lines of a text; what follows the last line feed is left out.

        Args:
            data: The text.
            quote: Quote character between whose pairs line feeds do not end a line.
        """
        array = np.frombuffer(data, dtype=np.uint8)
        ends = np.flatnonzero(array == _NEWLINE)
        if quote is not None and len(ends):
            quotes = np.flatnonzero(array == quote)
            ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
        size = int(ends[-1]) + 1 if len(ends) else 0
        return Lines(data[:size], ends)


@dataclass(frozen=True)
class TextPiece(Piece):
    """A whole file of text, a line a row."""

    @abstractmethod
    def blocks(self) -> Iterator[Lines]:
        """Stream the lines that are rows, as a block of some at a time."""

    @abstractmethod
    def rows_of(self, lines: Lines, row: int, columns: Mapping[str, pa.DataType]) -> PieceRows:
        """Return lines as rows, the first of which has this number; columns as `read`."""

    def read_stored(self, columns: Mapping[str, pa.DataType]) -> Iterator[PieceRows]:
        """Stream the named columns, as the given types."""
        row, step = self.first_row, batch_rows(columns)
        for lines in self.blocks():
            for start in range(0, len(lines), step):
                part = lines.slice(start, start + step)
                yield self.rows_of(part, row, columns)
                row += len(part)

    def first_stored(self, columns: Mapping[str, pa.DataType], most: int) -> PieceRows | None:
        """Return at most so many of the first rows: no more lines than these are parsed."""
        for lines in self.blocks():
            part = lines.slice(0, min(most, batch_rows(columns)))
            return self.rows_of(part, self.first_row, columns)
        return None


def read_lines(path: str, encoding: str = "utf-8", quote: int | None = None) -> Iterator[Lines]:
    """Stream a text file, decompressed and as UTF-8, in blocks of whole lines.

    Carriage returns, alone or before a line feed, end lines too. Bytes that are not in the
    encoding stay as bytes that are not UTF-8, so that only their own row is refused later.

    Args:
        path: The file; its last ending tells the compression.
        encoding: Python's name of the encoding.
        quote: As for `Lines.of`.

    Yields:
        Lines, at least one.

    Raises:
        DataError: if the file is missing, damaged or cut off, or a line is over 64 MB.
    """
    rest, seen = b"", 0
    for block in _blocks(path, encoding):
        data = rest + block
        lines = Lines.of(data, quote)
        rest = data[len(lines.data) :]
        seen += len(lines)
        if len(lines):
            yield lines
        if len(rest) > MAX_LINE_BYTES:
            raise DataError(path, "longer than 64 MB", f"line {seen + 1}")
    if rest:
        data = rest if rest.endswith(b"\n") else rest + b"\n"
        yield Lines(data, np.array([len(data) - 1], dtype=np.int64))


def first_block(path: str, encoding: str = "utf-8") -> bytes:
    """Return the begin of a text file as `read_lines` reads it, a block at most.

    Raises:
        DataError: if the file is missing, damaged or no text.
    """
    return next(_blocks(path, encoding), b"")


def _blocks(path: str, encoding: str) -> Iterator[bytes]:
    """Stream the text as UTF-8 with line feeds as the only line ends."""
    name = codecs.lookup(encoding).name
    with open_file(path) as raw, _decompressed(raw, path) as handle:
        carried, lines, first, done = b"", 0, True, False
        decoder: codecs.IncrementalDecoder | None = None
        while not done:
            with reading(path, f"after line {lines}"):
                data = handle.read(BLOCK_BYTES)
                done = not data
                if first:
                    name = _encoding_of(path, data, name)
                    if name not in _UTF8_NAMES:
                        decoder = codecs.getincrementaldecoder(name)(errors="surrogateescape")
                if decoder is not None:
                    data = decoder.decode(data, done).encode("utf-8", "surrogateescape")
            if first and data:
                data, first = data.removeprefix(codecs.BOM_UTF8), False
            data = carried + data
            # A carriage return at the block's end may belong to a line feed in the next one.
            carried = b"\r" if data.endswith(b"\r") and not done else b""
            data = data[: len(data) - len(carried)]
            if b"\r" in data:
                data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            lines += data.count(b"\n")
            if data:
                yield data


def _decompressed(raw: IO[bytes], path: str) -> IO[bytes]:
    with reading(path):
        return decompressed(raw, path)


def _encoding_of(path: str, head: bytes, declared: str) -> str:
    """Return a text's encoding: that of its byte order mark, unless another one is said.

    Raises:
        DataError: if the file is no text, or of an encoding that has no such mark.
    """
    if declared not in _UTF8_NAMES:
        return declared
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name
    other = no_text(head)
    if other is not None:
        raise DataError(path, other.reason())
    even, odd = head[:_HEAD:2].count(0), head[1:_HEAD:2].count(0)
    if max(even, odd) >= _LEAST and 9 * min(even, odd) < max(even, odd):
        name = "utf-16-be" if even > odd else "utf-16-le"
        raise DataError(path, f"every other byte is NUL: try --encoding {name}")
    return declared
