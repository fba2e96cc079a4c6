"""Records, a mapping of keys to values each, as columns.

A key that a record does not have is missing, as null is. Keys of nested records are joined by dots,
`payload.temp`. Lists of numbers that have one length are columns of fixed-size lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import DataError, shorten
from kerneltrack.number_texts import number_pattern
from transforms.read.formats.base import PieceRows
from transforms.read.formats.fields import MEANING

_REAL = re.compile(number_pattern())
_WHOLE = re.compile(r"[ \t]*[+-]?[0-9]+[ \t]*$")
_MOST_LEVELS = 4
_MOST_COLUMNS = 10_000
_INT64 = range(-(2**63), 2**63)

TYPING_RECORDS = 5_000
"""Columns are those of this many records at most, the first."""

Record = dict[str, Any]
Unread = dict[int, str]
Paths = tuple[tuple[str, tuple[str, ...]], ...]
"""The keys that lead to each column that is in a nested record."""


def columns_of(path: str, records: Sequence[Record]) -> tuple[pa.Schema, Paths]:
    """Return the columns of records, with guesses of their types, and where the nested ones are.

    A column is taken for numbers if more than half of its values are.

    Raises:
        DataError: if keys cannot be told apart, or are too many.
    """
    found = _leaves(path, records)
    schema = pa.schema([(name, _guess(leaf.values)) for name, leaf in found.items()])
    return schema, tuple((name, leaf.keys) for name, leaf in found.items() if len(leaf.keys) > 1)


def rows_of(
    records: list[Record],
    row: npt.NDArray[np.int64],
    bad: Sequence[tuple[int, str]],
    paths: Paths,
    columns: Mapping[str, pa.DataType],
) -> PieceRows:
    """Return records as rows with the wanted columns, converted to the given types.

    Args:
        records: The records.
        row: Number of each in its file.
        bad: What could not be read: number in the file, and reason.
        paths: As of `columns_of`.
        columns: Wanted columns.
    """
    nested, unread = dict(paths), Unread()
    arrays = [
        _column(name, _values(records, name, nested.get(name)), kind, unread)
        for name, kind in columns.items()
    ]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
    return PieceRows(batch, row, bad, sorted(unread.items()))


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
                raise DataError(path, f"records with more than {_MOST_COLUMNS:,} different keys")

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
    if len(kinds) == 1 and kinds <= _ALONE.keys():
        return _ALONE[kinds.pop()]
    if 2 * sum(type(value) in (int, float, bool, Decimal) for value in values) <= len(values):
        return pa.string()
    whole = all(type(value) is not int or value in _INT64 for value in values)
    return pa.int64() if whole and not kinds & {float, Decimal} else pa.float64()


_ALONE = {bool: pa.bool_(), bytes: pa.binary(), dict: pa.struct([])}


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
    if type(value) not in (int, float, bool, str, Decimal):
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
    if isinstance(value, date | time):
        return value.isoformat()
    if type(value) not in (str, int, float, Decimal, UUID):
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
