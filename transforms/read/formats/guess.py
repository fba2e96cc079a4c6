"""What the texts of a column are, by a look at some of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.number_texts import number_pattern
from transforms.read.formats.fields import WHOLE, Dialect
from transforms.read.formats.head import MARKS

MOST_WORDS = 3
"""Different texts of a column that are kept to be shown."""

_MOST_TEXTS = 1_000
_BOOL = "^(true|True|TRUE|false|False|FALSE)$"
_MARKS = (("", "."), ("", ","), (",", "."), (".", ","), (" ", "."), (" ", ","), ("'", "."))
"""Marks between thousands and of decimals that are tried, in this order."""

_UNIT = re.compile(
    # Letters and signs, with exponents: m3/h, kg/m^3, Deg C, %.
    r"(?![\d_:.,;+-])[^\W\d_]*[°%‰µμΩ$€£\"'/·²³^]*[^\W_]{0,8}"
    r"(?:[/·*^][^\W_]{1,8}| [^\W\d_]{1,8}){0,3}[°%\"'²³]?"
)
_NO_UNITS = {"am", "pm", "a.m", "p.m", "st", "nd", "rd", "th", "x"}
_MOST_UNIT = 16


@dataclass(frozen=True)
class Guess:
    """What a column is taken for.

    Attributes:
        kind: null, bool, int64, float64 or string.
        decimal: Of texts that would be numbers with other marks: the decimal mark, else "".
        thousands: And that between thousands.
        unit: The unit that stands after each number of a column of texts, "" for none.
        words: The first different texts of a column that is none of numbers.
    """

    kind: pa.DataType
    decimal: str = ""
    thousands: str = ""
    unit: str = ""
    words: tuple[str, ...] = ()


def guess(values: pa.BinaryArray, dialect: Dialect) -> Guess:
    """Guess what a column is.

    It is one of numbers if more than half of its values are, those not counted that are missing
    or look like marks of missing values (`head.MARKS`).
    """
    nulls = pa.array([text.encode() for text in ("", *dialect.null_values)], pa.binary())
    values = values.filter(pc.invert(pc.is_in(values, value_set=nulls)))
    if not len(values):
        return Guess(pa.null())
    if pc.all(pc.match_substring_regex(values, _BOOL)).as_py():
        return Guess(pa.bool_())
    numeric = pc.match_substring_regex(values, number_pattern(dialect.decimal, dialect.thousands))
    numbers = pc.sum(numeric).as_py()
    others = values.filter(pc.invert(numeric))
    counts = _texts(others)
    real = numbers + sum(n for text, n in counts.items() if text.lower() not in MARKS)
    if not real:
        return Guess(pa.null())
    if 2 * numbers > real:
        whole = not dialect.thousands and pc.all(
            pc.match_substring_regex(values.filter(numeric), WHOLE)
        )
        return Guess(pa.int64() if whole and whole.as_py() else pa.float64())
    texts = [text for text in counts if text.lower() not in MARKS]
    own = dialect.decimal, dialect.thousands
    unit = unit_of(texts, *own) if not numbers else ""
    thousands, decimal = ("", "") if unit else marks_of(texts, *own)
    return Guess(pa.string(), decimal, thousands, unit, tuple(texts[:MOST_WORDS]))


def _texts(values: pa.BinaryArray) -> dict[str, int]:
    """Return the different texts, without blanks around them, and how often each comes."""
    found: dict[str, int] = {}
    for each in pc.value_counts(values)[:_MOST_TEXTS].to_pylist():
        text = each["values"].decode("utf-8", "replace").strip()
        found[text] = found.get(text, 0) + each["counts"]
    return found


def unit_of(texts: Sequence[str], decimal: str, thousands: str) -> str:
    """Return the unit that stands after each of the numbers, "" if there is none or another.

    Args:
        texts: Different texts.
        decimal: The decimal mark of the numbers.
        thousands: The mark between their thousands, "" for none.
    """
    pattern = number_pattern(decimal, thousands).removesuffix("$")
    number = re.compile(pattern)
    units = set()
    for text in texts:
        found = number.match(text.replace("\u00a0", " ").replace("\u202f", " "))
        units.add(text.replace("\u00a0", " ")[found.end() :].strip() if found else "")
        if len(units) > 1:
            return ""
    unit = units.pop() if units else ""
    if not unit or unit[0].isdigit() or len(unit) > _MOST_UNIT or _UNIT.fullmatch(unit) is None:
        return ""
    return "" if unit.lower().strip(".") in _NO_UNITS else unit


def marks_of(texts: Sequence[str], decimal: str, thousands: str) -> tuple[str, str]:
    """Return the marks of thousands and decimals under which most texts are numbers.

    Args:
        texts: Different texts.
        decimal: The decimal mark under which most are not.
        thousands: The mark between thousands then, "" for none.

    Returns:
        ("", "") if there are no such marks.
    """
    for other in _MARKS:
        if other == (thousands, decimal):
            continue
        pattern = re.compile(number_pattern(other[1], other[0]))
        plain = [text.replace("\u00a0", " ").replace("\u202f", " ") for text in texts]
        if 2 * sum(pattern.match(text) is not None for text in plain) > len(texts):
            return other
    return "", ""
