"""JSON lines: an object a line, as `kerneltrack read-output`, pandas and most clouds write them.

A key that a line does not have is missing, as null is. Keys of nested objects are joined by dots,
`payload.temp`. Lists of numbers that have one length are columns of fixed-size lists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from kerneltrack.errors import DataError, shorten
from transforms.read.format_options import FormatOptions
from transforms.read.formats.base import FileInfo, Piece, Rows, batch_rows
from transforms.read.formats.fields import MEANING, number_pattern
from transforms.read.formats.lines import Lines, first_block, read_lines

_TYPING_LINES = 5_000
"""Columns are those of this many lines at most, of the first block."""

_REAL = re.compile(number_pattern())
_WHOLE = re.compile(r"[ \t]*[+-]?[0-9]+[ \t]*$")
_MOST_LEVELS = 4
_MOST_COLUMNS = 10_000
_INT64 = range(-(2**63), 2**63)

_HEAD = 1_000
_PROMETHEUS = re.compile(rb'\{\s*"status"\s*:\s*"\w+"\s*,\s*"data"\s*:\s*\{\s*"resultType"')
_PROMETHEUS_JQ = (
    "'.data.result[] | .metric as $m | (.values // [.value])[] | "
    "$m + {time: .[0], value: .[1] | tonumber}'"
)

Record = dict[str, Any]
Unread = dict[int, str]


@dataclass(frozen=True)
class JsonLinesPiece(Piece):
    """A whole file of JSON lines.

    Attributes:
        encoding: The text's encoding.
        paths: The keys that lead to each column that is in a nested object.
    """

    encoding: str
    paths: tuple[tuple[str, tuple[str, ...]], ...]

    def read_stored(self, columns: Mapping[str, pa.DataType]) -> Iterator[Rows]:
        """Stream the named columns, converted to the given types."""
        row, step = self.first_row, batch_rows(columns)
        for lines in self.blocks():
            for start in range(0, len(lines), step):
                part = lines.slice(start, start + step)
                yield self._rows(part, row, columns)
                row += len(part)

    def first_stored(self, columns: Mapping[str, pa.DataType], most: int) -> Rows | None:
        """Return at most so many of the first rows: no more lines than these are parsed."""
        for lines in self.blocks():
            return self._rows(lines.slice(0, most), self.first_row, columns)
        return None

    def blocks(self) -> Iterator[Lines]:
        """Stream the lines that are not blank."""
        for block in read_lines(self.path, self.encoding):
            lines = block.without_blank()
            if len(lines):
                yield lines

    def _rows(self, lines: Lines, row: int, columns: Mapping[str, pa.DataType]) -> Rows:
        records, good, bad = _records_of(lines)
        paths, unread = dict(self.paths), Unread()
        arrays = [
            _column(name, _values(records, name, paths.get(name)), kind, unread)
            for name, kind in columns.items()
        ]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
        return Rows(
            batch, good + row, [(row + at, why) for at, why in bad.items()], sorted(unread.items())
        )


def inspect_json_lines(path: str, options: FormatOptions) -> FileInfo:
    """Look at the first block of JSON lines: names and types of the columns.

    A column is taken for numbers if more than half of its values are.

    Raises:
        DataError: if the first line is no object.
    """
    _refuse_other_json(path, first_block(path, options.encoding).lstrip()[:_HEAD])
    piece = JsonLinesPiece(path, 0, None, options.encoding, ())
    lines = next(piece.blocks(), None)
    if lines is None:
        raise DataError(path, "has no line")
    records, _, bad = _records_of(lines.slice(0, _TYPING_LINES))
    if 0 in bad:
        how = "an object a line is read, as jq -c . FILE writes them"
        raise DataError(path, f"{bad[0]}: {how}", "line 1")
    if len(lines) == 1:
        _refuse_tables(path, records[0])
    found = _leaves(path, records)
    schema = pa.schema([(name, _guess(leaf.values)) for name, leaf in found.items()])
    paths = tuple((name, leaf.keys) for name, leaf in found.items() if len(leaf.keys) > 1)
    piece = JsonLinesPiece(path, 0, None, options.encoding, paths)
    return FileInfo(path, "jsonl", schema, None, (piece,), text=True, sparse=True)


def _refuse_other_json(path: str, head: bytes) -> None:
    """Refuse a file that begins as other JSON does, and say how it can be made JSON lines.

    Raises:
        DataError: for an array, or an answer of Prometheus.
    """
    if head.startswith(b"["):
        reason = "an array of records: an object a line is read, as jq -c '.[]' FILE writes them"
        raise DataError(path, f"{reason} (in pandas to_json with orient='records', lines=True)")
    if _PROMETHEUS.match(head) is not None:
        reason = "an answer of Prometheus: an object a line is read, as"
        raise DataError(path, f"{reason} jq -c {_PROMETHEUS_JQ} FILE writes them")


def _refuse_tables(path: str, only: Record) -> None:
    """Refuse the only object of a file if it is a whole table, not a row.

    Raises:
        DataError: saying how it can be made JSON lines.
    """
    for key, value in only.items():
        if type(value) is list and value and type(value[0]) is dict:
            jq = f"jq -c '.{key}[]' FILE" if key.isidentifier() else "jq"
            reason = f"all rows are in the list {shorten(key)}: an object a line is read, as {jq}"
            raise DataError(path, f"{reason} writes them")
    columns = list(only.values())
    if len(columns) > 1 and all(
        type(each) is dict and each.keys() == columns[0].keys() for each in columns
    ):
        reason = "an object of columns: an object a line is read"
        raise DataError(path, f"{reason} (in pandas to_json with orient='records', lines=True)")


def _records_of(lines: Lines) -> tuple[list[Record], Any, dict[int, str]]:
    """Return the objects of lines, the place of each, and the reason of each line that is none."""
    texts = lines.data.split(b"\n")[:-1]
    try:
        found = list(map(_DECODER.decode, texts))
    # Its own errors, Unicode's and recursion's: the lines are then taken one by one.
    except Exception:
        found = [_decoded(text) for text in texts]
    bad = {at: _why_no_record(each) for at, each in enumerate(found) if type(each) is not dict}
    good = np.array([at for at in range(len(found)) if at not in bad], dtype=np.int64)
    records = [each for each in found if type(each) is dict] if bad else found
    return records, good, bad


_DECODER = msgspec.json.Decoder()


class _NoJson(str):
    """Why a line is no JSON."""


def _decoded(text: bytes) -> Any:
    """Read a line as `json.loads` does, which knows NaN; msgspec is faster."""
    try:
        return _DECODER.decode(text)
    except Exception:
        try:
            return json.loads(text.decode("utf-8"))
        # ValueError of text that is no JSON, or no UTF-8; nesting without end.
        except (ValueError, RecursionError):
            return _NoJson(f"{shorten(text)}: not JSON")


def _why_no_record(value: Any) -> str:
    return str(value) if isinstance(value, _NoJson) else f"{shorten(value)}: not an object"


class _Leaf:
    """What the first lines hold in one place."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self.values: list[Any] = []


def _leaves(path: str, records: Sequence[Record]) -> dict[str, _Leaf]:
    """Return the values of each column, in the order in which their keys are first seen."""
    found: dict[str, _Leaf] = {}

    def add(record: Record, before: tuple[str, ...]) -> None:
        for key, value in record.items():
            keys = (*before, key)
            if type(value) is dict and len(keys) < _MOST_LEVELS:
                add(value, keys)
                continue
            leaf = found.setdefault(".".join(keys), _Leaf(keys))
            if leaf.keys != keys:
                raise DataError(path, f"two columns are called {'.'.join(keys)!r}")
            leaf.values.append(value)
            if len(found) > _MOST_COLUMNS:
                raise DataError(path, f"objects with more than {_MOST_COLUMNS:,} different keys")

    for record in records:
        add(record, ())
    return found


def _guess(values: Sequence[Any]) -> pa.DataType:
    """Guess a column's type: null, bool, int64, float64, string or a fixed-size list of reals."""
    values = [value for value in values if value is not None]
    if not values:
        return pa.null()
    kinds = set(map(type, values))
    if kinds == {list}:
        return _guess_list(values)
    if kinds == {dict}:
        return pa.struct([])
    if kinds == {bool}:
        return pa.bool_()
    if 2 * sum(type(value) in (int, float, bool) for value in values) <= len(values):
        return pa.string()
    whole = all(type(value) is not int or value in _INT64 for value in values)
    return pa.int64() if whole and float not in kinds else pa.float64()


def _guess_list(values: Sequence[list[Any]]) -> pa.DataType:
    """Return the type of lists: of a fixed size if they are numbers and as many in each."""
    size = len(values[0])
    fixed = size > 0 and all(len(each) == size for each in values)
    if fixed and all(type(each) in (int, float, type(None)) for each in values[0]):
        return pa.list_(pa.float64(), size)
    return pa.list_(pa.null())


def _values(records: list[Record], name: str, keys: tuple[str, ...] | None) -> list[Any]:
    """Return a column's value in each record; None where it is missing."""
    if keys is None:
        return [record.get(name) for record in records]
    return [_within(record, keys) for record in records]


def _within(record: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        if type(record) is not dict:
            return None
        record = record.get(key)
    return record


def _column(name: str, values: list[Any], kind: pa.DataType, unread: Unread) -> pa.Array:
    """Return values as a column; one that is not of its type is null, and its row unread."""
    # An integer too long for the type, a text that is no UTF-8, a value of another type.
    errors = (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError)
    # Arrow would cut off fractions without a word.
    if set(map(type, values)) <= _NATIVE.get(kind.id, {list, type(None)}):
        try:
            return pa.array(values, kind)
        except errors:
            pass
    convert, why = _CONVERTERS.get(kind.id, (_number, MEANING[pa.float64()]))
    if pa.types.is_fixed_size_list(kind):
        convert, why = _list_of(kind.list_size), f"not a list of {kind.list_size} numbers"
    converted = []
    for at, value in enumerate(values):
        try:
            converted.append(None if value is None else convert(value))
        except errors:
            converted.append(None)
            unread.setdefault(at, f"{name} = {shorten(value)}: {why}")
    return pa.array(converted, kind)


def _number(value: Any) -> float:
    if type(value) is str and _REAL.match(value) is None:
        raise ValueError(value)
    if type(value) not in (int, float, bool, str):
        raise TypeError(value)
    return float(value)


def _whole(value: Any) -> int:
    if type(value) is str and _WHOLE.match(value) is None:
        raise ValueError(value)
    number = int(value)
    if number not in _INT64 or (type(value) is float and number != value):
        raise ValueError(value)
    return number


def _text(value: Any) -> str:
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) not in (str, int, float):
        raise TypeError(value)
    text = str(value)
    text.encode()
    return text


def _truth(value: Any) -> bool:
    if value in (True, False):
        return bool(value)
    raise ValueError(value)


def _list_of(size: int) -> Callable[[Any], list[float | None]]:
    def convert(value: Any) -> list[float | None]:
        if type(value) is not list or len(value) != size:
            raise TypeError(value)
        return [None if each is None else _number(each) for each in value]

    return convert


_CONVERTERS: dict[int, tuple[Callable[[Any], Any], str]] = {
    pa.int64().id: (_whole, MEANING[pa.int64()]),
    pa.string().id: (_text, "not a text"),
    pa.bool_().id: (_truth, MEANING[pa.bool_()]),
}

_NATIVE: dict[int, set[type]] = {
    pa.float64().id: {int, float, type(None)},
    pa.int64().id: {int, type(None)},
    pa.string().id: {str, type(None)},
    pa.bool_().id: {bool, type(None)},
}
"""What values of a type are without conversion; of no other: lists."""
