"""LIBSVM's sparse text: `label index:value index:value ...`, indexes rising.

The tokens of a block are made into two delimited texts, one of labels and one of index:value
pairs, which Arrow parses; positions say which line a token came from. Rows come out dense.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import DataError, shorten
from transforms.read.format_options import MAX_WIDTH, FormatOptions
from transforms.read.formats.base import FileInfo, PieceRows, Suggested
from transforms.read.formats.delimited import collapse_blanks
from transforms.read.formats.fields import Dialect, parse_fields
from transforms.read.formats.lines import Lines, TextPiece, read_lines

LABEL, MATRIX = "label", "x"
"""The two columns of every LIBSVM file."""

_SPACE, _NEWLINE, _HASH = (ord(mark) for mark in " \n#")
_LABELS = Dialect(names=(LABEL,), delimiter=":", quote="", null_values=())
_PAIRS = Dialect(names=("index", "value"), delimiter=":", quote="", null_values=())
_PAIR_TYPES = {"index": pa.int64(), "value": pa.float64()}


@dataclass(frozen=True)
class LibsvmPiece(TextPiece):
    """A whole LIBSVM file.

    Attributes:
        zero_based: Whether indexes begin at 0.
    """

    zero_based: bool

    def rows_of(self, lines: Lines, row: int, columns: Mapping[str, pa.DataType]) -> PieceRows:
        """Parse rows; the matrix is as wide as the wanted type of column x says."""
        width = columns[MATRIX].list_size if MATRIX in columns else None
        tokens = _Tokens.of(lines, self.zero_based, width)
        good = np.flatnonzero(~tokens.is_bad)
        arrays = [_column(name, tokens, good, width) for name in columns]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
        bad = [(row + i, tokens.bad[i]) for i in sorted(tokens.bad)]
        return PieceRows(batch, good + row, bad)

    def blocks(self) -> Iterator[Lines]:
        """Stream the data lines: tokens divided by one space, no comments, no blank lines."""
        for lines in read_lines(self.path):
            tidy = _tidy(lines)
            if len(tidy):
                yield tidy


@dataclass(frozen=True)
class _Tokens:
    """Parsed tokens of some lines.

    Attributes:
        labels: float64, one a line; NaN for a bad line.
        line: int64, the line of each pair.
        index: int64, each pair's index from 0.
        value: float64, each pair's value.
        bad: Reason of each bad line.
        is_bad: bool, one a line.
    """

    labels: npt.NDArray[np.float64]
    line: npt.NDArray[np.int64]
    index: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]
    bad: dict[int, str]
    is_bad: npt.NDArray[np.bool_]

    @staticmethod
    def of(lines: Lines, zero_based: bool, width: int | None) -> _Tokens:
        """Parse lines and check that indexes rise within 0..width-1 (None: any width)."""
        bad: dict[int, str] = {}
        labels, pairs, line_of_pair = _split_tokens(lines)
        parsed = _whole(parse_fields(labels, _LABELS, {LABEL: pa.float64()}))
        bad.update((at, _label_reason(labels.text(at))) for at, _ in parsed.bad)
        label = np.full(len(lines), np.nan)
        label[parsed.row] = _floats(parsed.batch.column(0))
        parsed = _whole(parse_fields(pairs, _PAIRS, _PAIR_TYPES))
        for at, _ in parsed.bad:
            bad.setdefault(int(line_of_pair[at]), f"{shorten(pairs.text(at))}: not index:value")
        line, value = line_of_pair[parsed.row], _floats(parsed.batch.column(1))
        # An empty index or value parses as null: `3:` and `:1` are no pairs.
        null = np.isnan(value) | (_null_mask(parsed.batch.column(0)))
        index = parsed.batch.column(0).fill_null(-1).to_numpy() - (0 if zero_based else 1)
        for i in np.flatnonzero(null).tolist():
            text = pairs.text(int(parsed.row[i]))
            if text.startswith(b":") or text.endswith(b":"):
                bad.setdefault(int(line[i]), f"{shorten(text)}: not index:value")
        _check_hexadecimal(pairs, line_of_pair, bad)
        _check_order(line, index, 0 if zero_based else 1, width, bad)
        is_bad = np.zeros(len(lines), dtype=bool)
        is_bad[list(bad)] = True
        return _Tokens(label, line, index, value, bad, is_bad)


def inspect_libsvm(path: str, options: FormatOptions) -> FileInfo:
    """Look at a LIBSVM file; without a declared width, scan it for the largest index.

    Raises:
        DataError: if it has no rows, or none has a feature.
    """
    piece = LibsvmPiece(path, 0, None, options.zero_based)
    width, rows = (options.width, None) if options.width else _scan(piece)
    schema = pa.schema([(LABEL, pa.float64()), (MATRIX, pa.list_(pa.float64(), width))])
    suggested = Suggested(label=LABEL)
    return FileInfo(path, "libsvm", schema, rows, (piece,), text=True, suggested=suggested)


def _scan(piece: LibsvmPiece) -> tuple[int, int]:
    """Return the largest index from 1 on, and the number of rows."""
    width = rows = 0
    for lines in piece.blocks():
        tokens = _Tokens.of(lines, piece.zero_based, None)
        index = tokens.index[~tokens.is_bad[tokens.line]]
        width = max(width, int(index.max(initial=-1)) + 1)
        rows += len(lines)
    if not width:
        raise DataError(piece.path, "no row of index:value pairs")
    if width > MAX_WIDTH:
        reason = f"largest index is {width}, over {MAX_WIDTH}; declare the width"
        raise DataError(piece.path, reason)
    return width, rows


def _whole(rows: PieceRows) -> PieceRows:
    """Return the rows of which every cell can be read; the others are bad."""
    if not rows.unread:
        return rows
    keep = np.ones(len(rows.row), dtype=bool)
    keep[[place for place, _ in rows.unread]] = False
    bad = [(int(rows.row[place]), reason) for place, reason in rows.unread]
    return PieceRows(rows.batch.filter(pa.array(keep)), rows.row[keep], sorted([*rows.bad, *bad]))


def _tidy(lines: Lines) -> Lines:
    """Cut comments, make every run of blanks one space, drop blanks at the ends, blank lines."""
    data = lines.bytes_array()
    if b"#" in lines.data:
        line_of = np.repeat(np.arange(len(lines)), np.diff(lines.ends, prepend=-1))
        hashes = np.flatnonzero(data == _HASH)
        first = np.full(len(lines), len(data))
        np.minimum.at(first, line_of[hashes], hashes)
        data = data[(np.arange(len(data)) < first[line_of]) | (data == _NEWLINE)]
    return collapse_blanks(Lines.of(data.tobytes())).without_blank()


def _split_tokens(lines: Lines) -> tuple[Lines, Lines, npt.NDArray[np.int64]]:
    """Cut tidy lines into a text of labels, a text of pairs, and each pair's line."""
    data = lines.bytes_array()
    separators = np.flatnonzero((data == _SPACE) | (data == _NEWLINE))
    ends_line = data[separators] == _NEWLINE
    is_label = np.empty(len(separators), dtype=bool)
    is_label[:1] = True
    is_label[1:] = ends_line[:-1]
    line = np.cumsum(is_label) - 1
    tokens = Lines(_with_newlines(data, separators), separators)
    return tokens.select(is_label), tokens.select(~is_label), line[~is_label]


def _with_newlines(data: npt.NDArray[np.uint8], separators: npt.NDArray[np.int64]) -> bytes:
    data = data.copy()
    data[separators] = _NEWLINE
    return data.tobytes()


def _check_hexadecimal(pairs: Lines, line: npt.NDArray[np.int64], bad: dict[int, str]) -> None:
    """Add lines with an index such as 0x1F, which Arrow reads, to the bad ones."""
    for mark in b"xX":
        if bytes([mark]) in pairs.data:
            for at in np.flatnonzero(pairs.counts(mark)).tolist():
                bad.setdefault(int(line[at]), f"{shorten(pairs.text(at))}: not index:value")


def _check_order(
    line: npt.NDArray[np.int64],
    index: npt.NDArray[np.int64],
    first: int,
    width: int | None,
    bad: dict[int, str],
) -> None:
    """Add lines whose indexes are outside 0..width-1 or do not rise to the bad ones."""
    outside = index < 0
    if width is not None:
        outside |= index >= width
    for at in np.flatnonzero(outside):
        number = int(index[at]) + first
        allowed = f"{first} or more" if width is None else f"{first}..{width - 1 + first}"
        bad.setdefault(int(line[at]), f"index = {number}: must be {allowed}")
    falls = np.flatnonzero((line[1:] == line[:-1]) & (index[1:] <= index[:-1]))
    for at in falls:
        number, before = int(index[at + 1]) + first, int(index[at]) + first
        bad.setdefault(int(line[at]), f"index = {number}: after index {before}, must rise")


def _column(name: str, tokens: _Tokens, good: npt.NDArray[np.int64], width: int | None) -> pa.Array:
    """Build a column of the good lines."""
    if name == LABEL:
        return pa.array(tokens.labels[good])
    rank = np.cumsum(~tokens.is_bad) - 1
    keep = ~tokens.is_bad[tokens.line]
    dense = np.zeros((len(good), width or 0))
    dense[rank[tokens.line[keep]], tokens.index[keep]] = tokens.value[keep]
    return pa.FixedSizeListArray.from_arrays(pa.array(dense.reshape(-1)), width)


def _floats(values: pa.Array) -> npt.NDArray[np.float64]:
    result: npt.NDArray[np.float64] = values.to_numpy(zero_copy_only=False)
    return result


def _null_mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    result: npt.NDArray[np.bool_] = values.is_null().to_numpy(zero_copy_only=False)
    return result


def _label_reason(text: bytes) -> str:
    return f"{LABEL} = {shorten(text)}: not a number"
