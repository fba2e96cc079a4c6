"""How the report puts counts, figures and times, and in which order names stand."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

SECOND = 10**9
MOST_NAMED = 20
"""Devices that a list at the end of a job names."""
_IN_FULL_FROM = 1_000
_IN_FULL_BELOW = 10_000_000


def counted(count: int, noun: str) -> str:
    """Return `1 row`, `2 rows`, `1,000 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def counts_of(counts: Mapping[str, int]) -> list[str]:
    """Return how many there are of each kind; those of which there is none are left out.

    Example:
        >>> counts_of({"off": 1_000, "quiet": 0, "well": 1})
        ['1,000 off', '1 well']
    """
    return [f"{count:,} {kind}" for kind, count in counts.items() if count]


def few(names: Sequence[str], most: int, count: int | None = None) -> str:
    """Return the first of some names, and how many more there are.

    Args:
        names: The names, or the first of them.
        most: Names that are shown.
        count: How many there are in all; None: those that are given.

    Example:
        >>> few(["a", "b", "c"], 2)
        'a, b and 1 more'
    """
    shown = names[:most]
    more = (len(names) if count is None else count) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def and_more(count: int, place: str) -> list[str]:
    """Return the line after a list that names the first `MOST_NAMED` of so many.

    Args:
        count: How many there are in all.
        place: Where the others are: the folder that has all.
    """
    return [f"  and {count - MOST_NAMED:,} more: all in {place}"] if count > MOST_NAMED else []


def percent(part: float, whole: float) -> str:
    """Return a share as a percentage, a dash if there is no whole."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def figure(value: float) -> str:
    """Return a number to three digits, thousands in full, a dash if it is none."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    in_full = _IN_FULL_FROM <= abs(value) < _IN_FULL_BELOW
    return f"{value:,.0f}" if in_full else f"{value:#.3g}".rstrip(".")


def moment(time: int, to: int = 1) -> str:
    """Return a time in ns since 1970 as `2017-07-14 02:40:00.5`, UTC, in whole units of `to` ns."""
    day, _, clock = str(np.datetime64(time // to * to, "ns")).partition("T")
    return f"{day} {clock.rstrip('0').rstrip('.') if '.' in clock else clock}"


def span(nanoseconds: int) -> str:
    """Return how long something is, for people: `90 s`, `1 h 40 min`, `2 d`.

    Up to 99 of the largest unit of which it is a multiple are named so; anything else is rounded
    to the second of its two largest units.
    """
    for unit, size in _UNITS:
        if nanoseconds % size == 0 and nanoseconds < _MOST_OF_A_UNIT * size:
            return f"{nanoseconds // size:,} {unit}"
    return _of_two_units(nanoseconds)


def _of_two_units(nanoseconds: int) -> str:
    at = next((k for k, (_, size) in enumerate(_UNITS) if nanoseconds >= size), len(_UNITS) - 1)
    (unit, size), (finer, part) = _UNITS[at], _UNITS[min(at + 1, len(_UNITS) - 1)]
    whole, rest = divmod((nanoseconds + part // 2) // part * part, size)
    if at and whole * size >= _UNITS[at - 1][1]:
        # Rounded up to the next unit: 59 min 60 s are 1 h.
        return f"1 {_UNITS[at - 1][0]}"
    return f"{whole:,} {unit}" + (f" {rest // part:,} {finer}" if rest else "")


_MOST_OF_A_UNIT = 100
_UNITS = (
    ("d", 86_400 * 10**9),
    ("h", 3_600 * 10**9),
    ("min", 60 * 10**9),
    ("s", 10**9),
    ("ms", 10**6),
    ("µs", 10**3),
    ("ns", 1),
)


def natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key by which `m2` comes before `m10`."""
    parts = re.split(r"([0-9]+)", name)
    numbers = [part.lstrip("0") for part in parts]
    return [
        (0, len(numbers[k]), numbers[k]) if k % 2 else (1, 0, part) for k, part in enumerate(parts)
    ]
