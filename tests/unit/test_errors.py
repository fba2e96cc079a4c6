"""Messages: one line, printable and short, whatever they quote."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from kerneltrack.errors import (
    MOST_MESSAGE,
    ConfigError,
    DataError,
    fit,
    path_text,
    printable,
    shorten,
)

NAMES = {
    "a line end": ("a\nb", r"a\nb"),
    "a carriage return": ("a\rb", r"a\rb"),
    "an escape sequence": ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
    "C1 control": ("\x9b2J", r"\x9b2J"),
    "right to left": ("\u202egpj.exe", r"\u202egpj.exe"),
    "an isolate": ("\u2066x\u2069", r"\u2066x\u2069"),
    "a line separator": ("a\u2028b", r"a\u2028b"),
    "a byte that is not UTF-8": ("day\udcff.csv", r"day\xff.csv"),
    "half a pair": ("\ud800", r"\ud800"),
    "nothing to escape": ("é 🦊 \\x1b", "é 🦊 \\x1b"),
}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_printable_is_escaped_once(name: str) -> None:
    text, expected = NAMES[name]
    assert printable(text) == expected
    assert printable(expected) == expected


def test_a_text_keeps_begin_and_end() -> None:
    assert fit("one\n  two \r\n three  four") == "one two three  four"
    assert fit("a" * 50 + "b" * 50, 20) == "a" * 11 + "..." + "b" * 6
    assert fit("a" * 20, 20) == "a" * 20
    # An escape is longer than what it stands for.
    assert fit("\x1b" * 20, 20) == r"\x1b\x1b\x1" + "..." + r"1b\x1b"
    assert len(fit("\n \x1b" * 10**6, 300)) == 300


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x", "'x'"),
        (b"\xff\n", r"'\\xff\n'"),
        ("é" * 38, "'" + "é" * 38 + "'"),
        ("é" * 39, "'" + "é" * 35 + "...'"),
        ("é".encode() * 1000, "'" + "é" * 35 + "...'"),
        ("x" * 10**6, "'" + "x" * 35 + "...'"),
        (3.5, "3.5"),
        (None, "None"),
        (["a", 1], "['a', 1]"),
        (16**99, "an integer of about 120 digits"),
        (-(10**30), str(-(10**30))),
        (list(range(10**5)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1...]"),
    ],
)
def test_a_value_is_shown_in_forty_characters(value: Any, expected: str) -> None:
    assert shorten(value) == expected


def test_a_value_that_holds_itself_many_times_over_costs_nothing() -> None:
    value: Any = "x"
    for _ in range(60):
        value = [value] * 10
    assert shorten(value) == "[[[...], [...], [...], [...], [...],...]"
    itself: list[Any] = []
    itself.append(itself)
    assert str(ConfigError("rank", itself, "a number")) == "rank = [[[...]]]: must be a number"


def test_lists_of_a_flag_are_shown_as_they_were_written() -> None:
    given = {
        "--causes": ("outside",),
        "--columns": ["a", "b"],
        "causes": ("outside",),
        "--none": (),
    }
    shown = ("'outside'", "'a', 'b'", "('outside',)", "()")
    for (field, value), text in zip(given.items(), shown, strict=True):
        assert str(ConfigError(field, value, "known")) == f"{field} = {text}: must be known"
    assert "array([0., 0.])" in str(ConfigError("--x", np.zeros(2), "known"))


def test_the_setting_and_what_is_allowed_stay() -> None:
    error = ConfigError("rank", "9" * 10**6, "an integer from 1 to 1000")
    assert str(error) == f"rank = '{'9' * 95}...': must be an integer from 1 to 1000"
    names = ", ".join(f"column{i}" for i in range(10**4))
    error = ConfigError("time", "t\x1b", f"a column: {names} of in.csv")
    text = str(error)
    assert text.startswith(r"time = 't\x1b': must be a column: column0, column1, ")
    assert text.endswith("column9999 of in.csv") and len(text) < 400
    # The parts are whole, for those who catch it, and for its way between processes.
    assert error.allowed == f"a column: {names} of in.csv"
    assert str(pickle.loads(pickle.dumps(error))) == text


def test_a_file_is_named_however_it_is_called() -> None:
    error = DataError("a\nb\udcff  c.csv", "bad\nbyte \x1b", "line\t3")
    assert str(error) == r"a\nb\xff  c.csv, line 3: bad byte \x1b"
    assert str(DataError("", "no such file")) == "'': no such file"
    error = DataError("x" * 5000 + ".csv", "why " * 5000, "y" * 5000)
    assert len(str(error)) < MOST_MESSAGE
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_paths_are_stored_as_text() -> None:
    assert path_text("a\udcff\udc80.csv") == r"a\xff\x80.csv"
    assert path_text("a\nb\u202e.csv") == "a\nb\u202e.csv"
