"""Reasons of failures, grouped by kind: the value is left out, whatever it holds."""

from __future__ import annotations

import pyarrow as pa
import pytest

from transforms.reasons import kinds_of


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("ax = nan: missing value", "ax: missing value"),
        (
            "t = '10:20:30': no time in the years 1685 to 2255",
            "t: no time in the years 1685 to 2255",
        ),
        ("x = 'a = b: c': not a number", "x: not a number"),
        ("x = 'line\nend': not a number", "x: not a number"),
        ("v[3] = 1e+300: magnitude over 1e+100", "v[3]: magnitude over 1e+100"),
        (
            "channel 2 = 1e+30: too large once standardised",
            "channel 2: too large once standardised",
        ),
        ("line: 3 fields instead of 4", "line: 3 fields instead of 4"),
        ("late: further behind", "late: further behind"),
        ("no row of this model came", "no row of this model came"),
        ("", ""),
    ],
)
def test_the_value_is_left_out(reason: str, kind: str) -> None:
    assert kinds_of(pa.array([reason])).to_pylist() == [kind]
