"""Texts that are numbers are read in a fleet as jobs read them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from kerneltrack.number_texts import NumberTexts
from transforms.read.numbers import Numbers, values_of

PIECES = st.sampled_from(
    [*"0123456789", *".,' +-eE", "\u00a0", "\u202f", "\t", "123", "on", "off", " bar", "bar", "°C"]
)
TEXTS = st.lists(PIECES, min_size=1, max_size=12).map("".join)
MARKS = st.sampled_from([(".", ""), (",", ""), (".", ","), (",", "."), (".", " "), (".", "'")])


@given(TEXTS, MARKS, st.sampled_from(["", "bar", "°C"]))
@example("1 004,5 bar", (",", " "), "bar")
@example("1\u202f004.5", (".", " "), "")
@example(" -1,004.5e3\t", (".", ","), "")
def test_a_number_is_what_a_job_reads(text: str, marks: tuple[str, str], unit: str) -> None:
    decimal, thousands = marks
    if (decimal, thousands, unit) == (".", "", ""):
        return  # Such columns are read as plain numbers.
    numbers = Numbers(decimal, ("",), thousands, unit)
    (value,), (wrong,) = values_of(pa.array([text]), numbers)
    read = NumberTexts({}, {"x": unit} if unit else {}, thousands, decimal).read("x", text)
    assert wrong == (read is None)
    assert read is None or read == value


@given(st.lists(PIECES, max_size=3).map("".join))
@example(" on ")
@example("\u00a0on")
def test_a_word_is_what_a_job_reads(text: str) -> None:
    (value,), (wrong,) = values_of(pa.array([text]), Numbers(missing=(), words=("off", "on")))
    read = NumberTexts({"x": ("off", "on")}).read("x", text)
    assert wrong == (read is None)
    assert read is None or read == value


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("words", {"words": {"x": "ab"}}),
        ("words", {"words": {"x": ("on", "on ")}}),
        ("words", {"words": {"x": ("a,b", "c")}}),
        ("words", {"words": ["x"]}),
        ("units", {"units": {"x": " "}}),
        ("units", {"units": {"x": 3}}),
        ("units", {"words": {"x": ("off", "on")}, "units": {"x": "bar"}}),
        ("thousands", {"thousands": "."}),
        ("thousands", {"thousands": 5}),
        ("thousands", {"thousands": "1"}),
        ("decimal", {"decimal": ""}),
        ("decimal", {"decimal": "::"}),
    ],
)
def test_settings_that_cannot_be(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{field} = "):
        NumberTexts(**given)
