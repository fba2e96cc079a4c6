"""Flop counts as the docstrings of trackers and learners print them: "Flops a row: 3BD + 2B²r."."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

POWERS = {"": 1, "²": 2, "³": 3}
TERM = re.compile(r"(\d*)((?:[A-Za-z][²³]?)+)(?:/(\w+))?")


def flops_of(part: Any, sizes: Mapping[str, float]) -> float:
    """Return the flops of a row that is learned from, by a tracker or a learner.

    Args:
        part: The tracker or learner; the count is read from its module's docstring.
        sizes: What the letters in it stand for.

    Raises:
        ValueError: if the docstring has no count.
    """
    module = sys.modules[type(part).__module__]
    text = " ".join(str(module.__doc__).split())
    found = re.search(r"Flops a [^:]*: ([^,;.]+)", text)
    if found is None:
        raise ValueError(f"{module.__name__}: no flops in the docstring")
    return sum(_value(term, sizes) for term in found[1].split(" + "))


def _value(term: str, sizes: Mapping[str, float]) -> float:
    parts = TERM.fullmatch(term)
    if parts is None:
        raise ValueError(f"{term!r} is no term")
    value = float(parts[1] or 1)
    for letter, power in re.findall(r"([A-Za-z])([²³]?)", parts[2]):
        value *= sizes[letter] ** POWERS[power]
    below = parts[3]
    if below is not None:
        value /= float(below) if below.isdigit() else sizes[below]
    return value
