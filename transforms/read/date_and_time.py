"""The column of times: one of the input's, or a date and a time of day joined to one."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from transforms.read.columns import Columns
from transforms.read.kinds import is_number, is_text
from transforms.read.times import as_digits, as_utf8


def time_column(batch: pa.RecordBatch, columns: Columns) -> pa.Array:
    """Return the times of a batch, as `read_times` takes them.

    A date and a time of day, of whatever types, are the texts of both with a blank between:
    columns of dates and of times of day as ISO 8601 writes them, whole numbers with the zeros that
    they have lost (`time_format` says how many digits there are).

    Args:
        batch: With a column of times; or with one of dates, and one of times of day.
        columns: What each column is.
    """
    if columns.time_of_day is None:
        return batch.column(columns.time)
    form = columns.options.time_format
    halves = form.split(" ") if form is not None and form.count(" ") == 1 else (None, None)
    parts = [
        _as_text(batch.column(name), half)
        for name, half in zip((columns.time, columns.time_of_day), halves, strict=True)
    ]
    return pc.binary_join_element_wise(*parts, " ")


_DIGITS = {"Y": 4, "y": 2, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "j": 3}
_MIDNIGHT = r" 00:00:00(\.0+)?$"


def _as_text(values: pa.Array, form: str | None) -> pa.Array:
    """Return dates, or times of day, as texts; null where there are none."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if is_text(values.type):
        texts = as_utf8(values)
    elif is_number(values.type):
        texts = as_digits(values)
    else:
        texts = pc.replace_substring_regex(values.cast(pa.string()), _MIDNIGHT, "")
    texts = pc.utf8_trim_whitespace(texts)
    width = None if form is None else _width(form)
    if width is not None:
        is_short = pc.match_substring_regex(texts, f"^[0-9]{{1,{width}}}$")
        texts = pc.if_else(is_short, pc.utf8_lpad(texts, width, "0"), texts)
    return pc.if_else(pc.equal(texts, ""), None, texts)


def _width(form: str) -> int | None:
    """Return how many digits a format of digits alone has.

    Example:
        >>> _width("%H%M%S"), _width("%H:%M")
        (6, None)
    """
    names = re.findall("%(.)", form)
    if "".join(f"%{name}" for name in names) != form or not set(names) <= set(_DIGITS):
        return None
    return sum(_DIGITS[name] for name in names)
