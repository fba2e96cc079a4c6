"""Lines of delimited fields to typed columns, with bad lines and unreadable cells set apart.

A block of lines is parsed by Arrow in one go. Only if that fails are the block's bad lines and
cells looked for; then all others go through the very same call, so that their values are what
they would be without the bad ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from kerneltrack.errors import shorten
from kerneltrack.number_texts import number_pattern
from transforms.read.format_options import NULL_VALUES
from transforms.read.formats.base import PieceRows
from transforms.read.formats.lines import Lines

_MOST_COLUMNS = 16_384
"""Columns that Arrow converts at a time: each takes 10 kB of its memory, however few its rows."""

_TRUE, _FALSE = ("1", "True", "TRUE", "true"), ("0", "False", "FALSE", "false")
WHOLE = r"^[ \t]*-?([0-9]{1,18}|[1-8][0-9]{18})[ \t]*$"
"""Whole numbers that an int64 holds for sure."""

_UNBALANCED = "line: quotes that do not close"


@dataclass(frozen=True)
class Dialect:
    """How a line is cut into fields.

    Attributes:
        names: Names of all fields of a line.
        delimiter: Character between fields.
        quote: Character around fields that hold a delimiter, "" for none.
        decimal: Decimal mark.
        null_values: Texts of a missing number, beside the empty one.
        multiline: Whether a line may hold line feeds inside quotes.
        thousands: Mark between the thousands of numbers, "" for none.
    """

    names: tuple[str, ...]
    delimiter: str = ","
    quote: str = '"'
    decimal: str = "."
    null_values: tuple[str, ...] = NULL_VALUES
    multiline: bool = False
    thousands: str = ""


def parse_fields(
    lines: Lines, dialect: Dialect, types: Mapping[str, pa.DataType], row: int = 0
) -> PieceRows:
    """Parse lines into columns.

    Args:
        lines: Lines without blank ones.
        dialect: How to cut them.
        types: Wanted columns, each string, int64, float64 or bool.
        row: Number of the first line.

    Returns:
        Every line is either a row of the batch, a cell that cannot be read being null, or bad.
    """
    bad: dict[int, str] = {}
    unread: dict[int, str] = {}
    at = np.arange(len(lines))
    if dialect.quote and dialect.quote.encode() in lines.data:
        unbalanced = _find_unbalanced(lines, dialect)
        bad.update((int(i), _UNBALANCED) for i in np.flatnonzero(unbalanced))
        lines, at = lines.select(~unbalanced), at[~unbalanced]
    try:
        batch = _parse(lines, dialect, types)
    except pa.ArrowInvalid:
        refused = _wrong_fields(lines, dialect)
        bad.update((int(at[i]), reason) for i, reason in refused.items())
        lines, at = _without(lines, at, refused)
        batch, at, unread = _parse_cells(lines, dialect, types, at, bad)
    refused_lines = [(row + place, reason) for place, reason in sorted(bad.items())]
    return PieceRows(batch, at.astype(np.int64) + row, refused_lines, sorted(unread.items()))


def _without(
    lines: Lines, at: npt.NDArray[np.int64], refused: Mapping[int, str]
) -> tuple[Lines, npt.NDArray[np.int64]]:
    keep = np.ones(len(lines), dtype=bool)
    keep[list(refused)] = False
    return lines.select(keep), at[keep]


def _parse(
    lines: Lines,
    dialect: Dialect,
    types: Mapping[str, pa.DataType],
    on_invalid: Callable[[csv.InvalidRow], str] | None = None,
) -> pa.RecordBatch:
    """Parse lines whose quotes close.

    Raises:
        pa.ArrowInvalid: if a value cannot be read, or a line has a wrong number of fields and
            nothing is said about such lines.
    """
    schema = pa.schema(list(types.items()))
    if not len(lines):
        return _empty(schema)
    if len(types) > _MOST_COLUMNS:
        items = list(types.items())
        parts = [
            _parse(lines, dialect, dict(items[start : start + _MOST_COLUMNS]), on_invalid)
            for start in range(0, len(items), _MOST_COLUMNS)
        ]
        return pa.RecordBatch.from_arrays(
            [a for part in parts for a in part.columns], schema=schema
        )
    table = csv.read_csv(
        pa.BufferReader(lines.data),
        csv.ReadOptions(
            use_threads=False, column_names=dialect.names, block_size=len(lines.data) + 1
        ),
        csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            newlines_in_values=dialect.multiline,
            ignore_empty_lines=False,
            invalid_row_handler=on_invalid,
        ),
        csv.ConvertOptions(
            column_types=dict(types),
            include_columns=list(types),
            null_values=["", *dialect.null_values],
            strings_can_be_null=False,
            true_values=_TRUE,
            false_values=_FALSE,
            decimal_point=dialect.decimal,
        ),
    )
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else _empty(schema)


def _wrong_fields(lines: Lines, dialect: Dialect) -> dict[int, str]:
    """Find the lines with a wrong number of fields."""
    found: dict[int, str] = {}

    def on_invalid(row: csv.InvalidRow) -> str:
        reason = f"line: {row.actual_columns} fields instead of {row.expected_columns}"
        found[row.number - 1] = reason
        return "skip"

    # Arrow cannot hand over a line that is not UTF-8.
    _parse(lines.ascii(), dialect, {dialect.names[0]: pa.binary()}, on_invalid)
    return found


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)


def _parse_or_bisect(
    lines: Lines,
    dialect: Dialect,
    types: Mapping[str, pa.DataType],
    at: npt.NDArray[np.int64],
    bad: dict[int, str],
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
    """Parse lines that should be good; halve them as long as Arrow disagrees."""
    try:
        return _parse(lines, dialect, types), at
    except pa.ArrowInvalid as error:
        if len(lines) == 1:
            bad[int(at[0])] = f"line: {shorten(str(error).rpartition(':')[2].strip())}"
            return _empty(pa.schema(list(types.items()))), at[:0]
    middle = len(lines) // 2
    parts = [
        _parse_or_bisect(lines.slice(start, stop), dialect, types, at[start:stop], bad)
        for start, stop in ((0, middle), (middle, len(lines)))
    ]
    return pa.concat_batches([part[0] for part in parts]), np.concatenate([p[1] for p in parts])


def _find_unbalanced(lines: Lines, dialect: Dialect) -> npt.NDArray[np.bool_]:
    """Find lines whose quotes do not close, which would swallow the lines after them.

    Arrow reads a quote in the middle of a field as a character, so parity alone does not tell.
    Each good line is one row; a swallowed line is missing from the count.
    """
    found = np.zeros(len(lines), dtype=bool)
    quoted = np.flatnonzero(lines.counts(ord(dialect.quote)) > 0)
    is_quoted = np.zeros(len(lines), dtype=bool)
    is_quoted[quoted] = True
    only_quoted = lines.select(is_quoted)
    stack = [(0, len(quoted))]
    while stack:
        start, stop = stack.pop()
        if _closes(only_quoted.slice(start, stop), dialect):
            continue
        if stop - start == 1:
            found[quoted[start]] = True
            continue
        middle = (start + stop) // 2
        stack += [(start, middle), (middle, stop)]
    return found


def _closes(lines: Lines, dialect: Dialect) -> bool:
    """Check whether the lines are as many rows, with a last line of empty fields after them."""
    sentinel = (dialect.delimiter * (len(dialect.names) - 1) + "\n").encode()
    lines = lines.join(Lines(sentinel, np.array([len(sentinel) - 1]))).ascii()
    skipped = 0

    def on_invalid(row: csv.InvalidRow) -> str:
        nonlocal skipped
        skipped += 1
        return "skip"

    batch = _parse(lines, dialect, {dialect.names[0]: pa.binary()}, on_invalid)
    return int(batch.num_rows) + skipped == len(lines)


def _parse_cells(
    lines: Lines,
    dialect: Dialect,
    types: Mapping[str, pa.DataType],
    at: npt.NDArray[np.int64],
    bad: dict[int, str],
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64], dict[int, str]]:
    """Parse lines with the right number of fields, of which some cells cannot be read.

    Returns:
        The rows, where cells that cannot be read are null; their positions; and for each row
        with such a cell its number and the first such value.
    """
    raw = _parse(lines, dialect, dict.fromkeys(types, pa.binary()))
    unread: dict[int, str] = {}
    mended: dict[str, pa.Array] = {}
    for name, kind in types.items():
        distinct = raw.column(name).dictionary_encode()
        refused = _refused(distinct.dictionary, kind, dialect)
        if not refused.any():
            continue
        mended[name] = _without_cells(distinct, refused, kind, dialect)
        rows = np.flatnonzero(refused[distinct.indices.to_numpy()])
        values = raw.column(name).take(pa.array(rows)).to_pylist()
        for row, value in zip(rows.tolist(), values, strict=True):
            unread.setdefault(row, f"{name} = {shorten(value)}: {MEANING[kind]}")
    clean = {name: kind for name, kind in types.items() if name not in mended}
    if not clean:
        batch = pa.RecordBatch.from_pydict(mended)
        return batch.select(list(types)), at, unread
    bad_rows: dict[int, str] = {}
    batch, kept = _parse_or_bisect(lines, dialect, clean, np.arange(len(lines)), bad_rows)
    bad.update((int(at[row]), reason) for row, reason in bad_rows.items())
    arrays = {name: array.take(pa.array(kept)) for name, array in mended.items()}
    arrays |= dict(zip(batch.schema.names, batch.columns, strict=True))
    places = {int(row): place for place, row in enumerate(kept.tolist())} if unread else {}
    unread = {places[row]: reason for row, reason in unread.items() if row in places}
    return pa.RecordBatch.from_pydict({name: arrays[name] for name in types}), at[kept], unread


def _without_cells(
    distinct: pa.DictionaryArray,
    refused: npt.NDArray[np.bool_],
    kind: pa.DataType,
    dialect: Dialect,
) -> pa.Array:
    """Read a column, with null for the values that are refused."""
    values = distinct.dictionary
    if kind == pa.string():
        read = pc.if_else(pa.array(refused), pa.scalar(None, pa.binary()), values).cast(kind)
        return read.take(distinct.indices)
    nulls = pa.array([text.encode() for text in ("", *dialect.null_values)], pa.binary())
    empty = pc.or_(pa.array(refused), pc.is_in(values, value_set=nulls))
    # What is left are numbers, which hold neither line feeds nor quotes: a file of one column.
    texts = pc.if_else(empty, pa.scalar(b"", pa.binary()), values).to_pylist()
    lines = Lines.of(b"".join(text + b"\n" for text in texts))
    only = Dialect(("value",), "\x1f", "", dialect.decimal, ())
    return _parse(lines, only, {"value": kind}).column(0).take(distinct.indices)


MEANING = {
    pa.string(): "not UTF-8",
    pa.int64(): "not a whole number",
    pa.float64(): "not a number",
    pa.bool_(): "neither true nor false",
}
"""What is said of a value that is not of a type."""


def _refused(values: pa.BinaryArray, kind: pa.DataType, dialect: Dialect) -> npt.NDArray[np.bool_]:
    """Return which of some distinct values cannot be read as a type."""
    result = np.zeros(len(values), dtype=bool)
    doubtful = ~_surely_reads(values, kind, dialect)
    accepts = _acceptance(kind, dialect)
    for i in np.flatnonzero(doubtful):
        result[i] = not accepts(values[int(i)].as_py())
    return result


def _surely_reads(
    values: pa.BinaryArray, kind: pa.DataType, dialect: Dialect
) -> npt.NDArray[np.bool_]:
    """Return which values are plainly of a type, so that the others can be tried one by one."""
    if kind == pa.int64():
        pattern = WHOLE
    elif kind == pa.float64():
        pattern = number_pattern(dialect.decimal)
    elif kind == pa.string():
        pattern = r"^[ -~]*$"
    else:
        pattern = "^[01]$"
    matched = pc.match_substring_regex(values, pattern)
    result: npt.NDArray[np.bool_] = matched.to_numpy(zero_copy_only=False)
    return result


def _acceptance(kind: pa.DataType, dialect: Dialect) -> Callable[[bytes], bool]:
    nulls = {"", *dialect.null_values}

    def accepts(value: bytes) -> bool:
        try:
            text = value.decode("utf-8")
        except UnicodeDecodeError:
            return False
        if kind == pa.string() or text in nulls:
            return True
        text = text.strip(" \t")
        if kind == pa.bool_():
            return text in _TRUE or text in _FALSE
        if kind == pa.float64() and dialect.decimal != ".":
            if "." in text:
                return False
            text = text.replace(dialect.decimal, ".")
        try:
            pc.cast(pa.array([text], pa.string()), kind)
        except pa.ArrowInvalid:
            return False
        return True

    return accepts


def field_texts(lines: Lines, dialect: Dialect) -> dict[str, pa.BinaryArray]:
    """Return all fields of the lines that have the right number of them, as bytes."""
    if dialect.quote and dialect.quote.encode() in lines.data:
        lines = lines.select(~_find_unbalanced(lines, dialect))
    lines, _ = _without(lines, np.arange(len(lines)), _wrong_fields(lines, dialect))
    batch = _parse(lines, dialect, dict.fromkeys(dialect.names, pa.binary()))
    return {name: batch.column(name) for name in dialect.names}
