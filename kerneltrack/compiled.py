"""How the numerics are compiled: one decorator, so that every loop keeps the same promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

_F = TypeVar("_F", bound=Callable[..., Any])

FASTMATH = frozenset({"contract", "reassoc", "nsz", "arcp"})
"""LLVM may fuse and reorder sums, but must not assume that NaN and infinity do not exist:
the full set would delete the very checks that keep bad rows out."""


def compiled(function: _F) -> _F:
    """Compile a numeric function with Numba, cached on disk (folder: `NUMBA_CACHE_DIR`).

    The result is a function of its arguments alone on one CPU type: one thread, and the loops'
    reductions depend on their lengths, never on how rows were cut into calls. For that a sum has
    a loop of its own: one that also stores to another array may run in scalar or in vector order,
    as the arrays happen to lie in memory.
    """
    jit = numba.njit(cache=True, fastmath=set(FASTMATH), error_model="numpy")
    return cast(_F, jit(function))


def inlined(function: _F) -> _F:
    """Compile a step of a row loop into its caller.

    A state of many arrays is some hundred machine words: passing it costs more than many a step.
    """
    jit = numba.njit(forceinline=True, fastmath=set(FASTMATH), error_model="numpy")
    return cast(_F, jit(function))
