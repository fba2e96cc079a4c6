"""What tests need and may not find (in CI all of it must be there), and what they go through."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest
from _pytest.mark import ParameterSet
from hypothesis import strategies
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

IN_CI = bool(os.environ.get("CI"))
ALL_EXAMPLES = bool(os.environ.get("ALL_EXAMPLES"))
"""Whether properties are shown all their examples: as each night, drawn anew."""


def missing(reason: str) -> NoReturn:
    """Fail in CI, where all tools must be there; skip elsewhere."""
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


def program(name: str, package: str) -> str:
    """Find a program, beside Python or on the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        missing(f"there is no {name}: install {package}")
    return found


def module(name: str, package: str) -> Any:
    """Import a module that only these tests need."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing(f"there is no module {name}: install {package}")


def examples(all_of_them: int, least: int = 2) -> int:
    """Return how many examples a property is shown: with each change a tenth, but so many.

    The simplest comes first, the others are drawn. They are always the same with each change, so
    that more of them show what code does that has changed, and not what others would.
    """
    return all_of_them if ALL_EXAMPLES else min(all_of_them, max(least, all_of_them // 10))


def cuts(most: int, many: int = 30) -> SearchStrategy[list[int]]:
    """Draw how many rows come at a time, up to `most`, again and again in these up to `many` parts.

    With each change the last part has all of `most`: else the simplest example, which is always
    shown, is a visit for each row of a life, and takes as long as all others.
    """
    drawn = strategies.lists(strategies.integers(1, most), min_size=1, max_size=many)
    return drawn if ALL_EXAMPLES else drawn.map(lambda found: [*found, most])


def lanes(usual: Any, *others: Any) -> list[Any]:
    """Return settings of which the usual one runs with each change, the others each night."""
    return [usual, *(pytest.param(other, marks=pytest.mark.nightly) for other in others)]


def in_turn(settings: Iterable[Any], turn: int, of: int = 3) -> list[Any]:
    """Return settings of which one in so many runs with each change, from a place on, in turn.

    What goes through all of them in one way, and is seen in each of them elsewhere.
    """
    params, number = [], -turn
    for one in settings:
        param = one if isinstance(one, ParameterSet) else pytest.param(one)
        if not any(mark.name == "nightly" for mark in param.marks):
            marks = [*param.marks, pytest.mark.nightly] if number % of else param.marks
            param = pytest.param(*param.values, marks=marks, id=param.id)
            number += 1
        params.append(param)
    return params


def some(things: Iterable[T], turn: int = 0, of: int = 3) -> list[T]:
    """Return all of them; with each change one in so many, from a place on."""
    found = list(things)
    return found if ALL_EXAMPLES else found[turn % of :: of]


def crossed(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """Return all pairs of two settings, most of them for the nightly lane.

    With each change each of the second runs with one of the first in turn, every other time with
    the usual one, which comes first.
    """
    usual, *others = first
    pairs = []
    for place, two in enumerate(second):
        chosen = usual if place % 2 else others[place // 2 % len(others)]
        for one in (usual, *others):
            marks = () if one == chosen else (pytest.mark.nightly,)
            pairs.append(pytest.param(one, two, marks=marks))
    return pairs
