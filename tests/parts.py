"""What tests need and may not find (in CI all of it must be there), and what they go through."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import pytest

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


def examples(all_of_them: int, least: int = 3) -> int:
    """Return how many examples a property is shown: with each change a sixth, but so many."""
    return all_of_them if ALL_EXAMPLES else min(all_of_them, max(least, all_of_them // 6))


def lanes(usual: Any, *others: Any) -> list[Any]:
    """Return settings of which the usual one runs with each change, the others each night."""
    return [usual, *(pytest.param(other, marks=pytest.mark.nightly) for other in others)]


def crossed(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """Return all pairs of two settings, most of them for the nightly lane.

    With each change runs each of the second with the usual one of the first, which comes first, and
    with one of its others in turn.
    """
    usual, *others = first
    pairs = []
    for place, two in enumerate(second):
        chosen = (usual, others[place % len(others)])
        for one in (usual, *others):
            marks = () if one in chosen else (pytest.mark.nightly,)
            pairs.append(pytest.param(one, two, marks=marks))
    return pairs
