"""How the numerics are compiled: one decorator, so that every loop keeps the same promises."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

_F = TypeVar("_F", bound=Callable[..., Any])

FASTMATH = frozenset({"contract", "reassoc", "nsz", "arcp"})
"""LLVM may fuse and reorder sums, but must not assume that NaN and infinity do not exist:
the full set would delete the very checks that keep bad rows out."""

PACKAGE = Path(__file__).parent
_CONFIG: Any = numba.config


def _digest() -> str:
    """Return a hash of the package's sources."""
    found = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        found.update(str(path.relative_to(PACKAGE)).encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _cache_folder() -> str:
    """Return where compiled loops are kept, a folder for each state of the sources.

    A loop holds a copy of the steps that it calls from other modules, and Numba compares the
    loop's own file only: without this an edited step would go on running as it was.
    """
    name = f"kerneltrack-{_digest()}"
    if _CONFIG.CACHE_DIR:
        return os.path.join(_CONFIG.CACHE_DIR, name)
    if os.access(PACKAGE, os.W_OK):
        return str(PACKAGE / "__pycache__" / name)
    return str(Path.home() / ".cache" / name)


CACHE_FOLDER = _cache_folder()
"""`NUMBA_CACHE_DIR` if it is set, else beside the package, else the user's cache."""


def compiled(function: _F) -> _F:
    """Compile a numeric function with Numba, cached on disk in `CACHE_FOLDER`.

    The result is a function of its arguments alone on one CPU type: one thread, and the loops'
    reductions depend on their lengths, never on how rows were cut into calls. For that a sum has
    a loop of its own: one that also stores to another array may run in scalar or in vector order,
    as the arrays happen to lie in memory.
    """
    before = _CONFIG.CACHE_DIR
    _CONFIG.CACHE_DIR = CACHE_FOLDER
    try:
        jit = numba.njit(cache=True, fastmath=set(FASTMATH), error_model="numpy")
        return cast(_F, jit(function))
    finally:
        _CONFIG.CACHE_DIR = before


def inlined(function: _F) -> _F:
    """Compile a step of a row loop into its caller.

    A state of many arrays is some hundred machine words: passing it costs more than many a step.
    """
    jit = numba.njit(forceinline=True, fastmath=set(FASTMATH), error_model="numpy")
    return cast(_F, jit(function))
