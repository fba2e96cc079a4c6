"""What may be wrong with a fleet's first frame, for a person to look at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import narwhals as nw
import numpy as np

from kerneltrack.frames.pandas_frames import is_real
from kerneltrack.frames.table import FrameColumns, TableRows, is_text, number_of_text
from kerneltrack.missing import is_missing
from kerneltrack.number_texts import FOREIGN_PAIRS, PAIRS, number_pattern

_MARKS = ((".", ""), (",", ""), (".", ","), (",", "."), (".", " "), (",", " "), (".", "'"))
"""Decimal marks and marks between thousands that numbers may have, the likelier first."""
_NO_UNIT = re.compile(r"^[0-9.,:/-]|.{9}")
_LOOKED_AT = 1000
"""First rows of a text column that are looked at."""
_MOST_EQUAL = 0.01
"""Share of rows at the time of another that a single machine may have."""


def doubts(frame: Any, columns: FrameColumns, rows: TableRows) -> Iterator[str]:
    """Return what to look at: columns of numbers left out, and rows of several machines."""
    others = [name for name in frame.columns if name not in (*columns.named, *columns.features)]
    numbers = [name for name in others if _holds_numbers(frame.get_column(name))]
    if numbers:
        shown = ", ".join(map(repr, numbers))
        yield f"left out, though they hold numbers: {shown}; name the channels by features="
    for name in others:
        if name not in numbers and is_text(frame.get_column(name).dtype):
            yield from _other_texts(name, _first_texts(frame.get_column(name)))
    if columns.model_id is None:
        signs = [*_signs_of_times(rows), *_signs_of_texts(frame, others, numbers)]
        if signs:
            yield (
                f"all rows are of one model, but {' and '.join(signs)}: "
                "name the column of the device by model_id="
            )


def _first_texts(column: Any) -> list[str]:
    values = column.head(_LOOKED_AT).to_list()
    return [str(value) for value in values if not is_missing(value) and value != ""]


def _other_texts(name: str, texts: list[str]) -> Iterator[str]:
    """Return how texts that are left out would be numbers: by words, a unit, or their marks."""
    words = {text.strip() for text in texts}
    for pair in (*PAIRS, *FOREIGN_PAIRS):
        if {word.lower() for word in words} == set(pair) and len(words) == 2:
            zero, one = sorted(words, key=lambda word: pair.index(word.lower()))
            shown = f"{{{name!r}: ({zero!r}, {one!r})}}"
            yield f"left out, though it has two words: {name!r}; words={shown} takes it"
            return
    for decimal, thousands in _MARKS:
        number = number_pattern(decimal, thousands).removesuffix(r"[ \t]*$")
        found = [re.match(number, text) for text in texts]
        units = {text[m.end() :].strip() for m, text in zip(found, texts, strict=True) if m}
        if not texts or not all(found) or len(units) != 1:
            continue
        (unit,) = units
        if _NO_UNIT.search(unit):
            continue
        given = [
            *([f"units={{{name!r}: {unit!r}}}"] if unit else [f"features=[..., {name!r}]"]),
            *([f"decimal={decimal!r}"] if decimal != "." else []),
            *([f"thousands={thousands!r}"] if thousands else []),
        ]
        yield f"left out, though it holds numbers: {name!r}; {', '.join(given)} takes it"
        return


def _holds_numbers(column: Any) -> bool:
    kind = column.dtype
    if is_text(kind) or kind == nw.Object:
        values = [v for v in column.head(_LOOKED_AT).to_list() if not is_missing(v) and v != ""]
        numbers = sum(is_real(v) or number_of_text(v) is not None for v in values)
        return bool(values) and 2 * numbers >= len(values)
    if kind == nw.Duration:
        return True
    native = str(getattr(column.to_native(), "dtype", ""))
    return native.startswith("complex")


def _signs_of_times(rows: TableRows) -> Iterator[str]:
    if rows.time is None or rows.late is None:
        return
    times = rows.time[~rows.late]
    equal = len(times) - len(np.unique(times))
    if equal > _MOST_EQUAL * len(times):
        yield f"{equal:,} of them have the time of another"
    elif 0 < int((np.diff(times) < 0).sum()) <= _MOST_EQUAL * len(times):
        yield "their times start over"


def _signs_of_texts(frame: Any, others: list[str], numbers: list[str]) -> Iterator[str]:
    """Return columns that look like ids: a few texts, each in rows that follow one another."""
    for name in others:
        column = frame.get_column(name)
        if name in numbers or not is_text(column.dtype) or len(column) < 2:
            continue
        _, codes = np.unique(
            np.array([str(value) for value in column.to_list()]), return_inverse=True
        )
        runs, many = int((np.diff(codes) != 0).sum()) + 1, int(codes.max()) + 1
        if 1 < many == runs and 2 * many <= len(codes):
            yield f"{name!r} has {many:,} values, one after the other"
