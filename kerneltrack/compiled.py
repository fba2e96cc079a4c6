"""How the numerics are compiled: one decorator, so that every loop keeps the same promises."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

_F = TypeVar("_F", bound=Callable[..., Any])

PACKAGE = Path(__file__).parent
_CONFIG: Any = numba.config
_IMPORT = re.compile(
    r"^from kerneltrack(?:\.([\w.]+))? import ([\w, ]+|\([^)]*\))"
    r"|^import kerneltrack\.([\w.]+)",
    re.M,
)


@lru_cache
def _imports(module: str) -> frozenset[str]:
    """Return the package's modules that one of them imports; a module is named by its path."""
    found = set()
    for base, names, whole in _IMPORT.findall((PACKAGE / module).read_text(encoding="utf-8")):
        parts = [whole or base, *(f"{base}.{name}" for name in re.findall(r"\w+", names))]
        for part in parts:
            path = part.strip(".").replace(".", "/")
            for name in (f"{path}.py", f"{path}/__init__.py"):
                if (PACKAGE / name).is_file():
                    found.add(name)
    return frozenset(found)


@lru_cache
def source_digest(module: str) -> str:
    """Return a hash of a module's source and of all that it imports from the package.

    Args:
        module: Its path in the package, `learners/linear/ridge.py`.
    """
    reached, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += _imports(name)
    digest = hashlib.sha256()
    for name in sorted(reached):
        digest.update(name.encode() + b"\0" + (PACKAGE / name).read_bytes())
    return digest.hexdigest()[:16]


def _cache_folder(module: str) -> str:
    """Return where a module's loops are kept, a folder for each state of what they are made of.

    A loop holds a copy of the steps that it calls from other modules, and Numba compares the
    loop's own file only: without this an edited step would go on running as it was.
    """
    name = f"kerneltrack-{source_digest(module)}"
    if _CONFIG.CACHE_DIR:
        return os.path.join(_CONFIG.CACHE_DIR, name)
    if os.access(PACKAGE, os.W_OK):
        return str(PACKAGE / "__pycache__" / name)
    return str(Path.home() / ".cache" / name)


def compiled(function: _F) -> _F:
    """Compile a numeric function with Numba, cached on disk.

    In `NUMBA_CACHE_DIR` if that is set, else beside the package, else in the user's cache.

    The result is a function of its arguments alone: one thread, and every operation is rounded
    as it is written. With "fast math" it would also depend on how often a step was compiled into
    others, in this process or in the one that filled the cache, and on where arrays lie in memory.
    What that would buy is in `sums`: sums in vector registers and fused multiplications.

    Python's other threads go on meanwhile: a worker decodes, encodes and runs other models.
    """
    before = _CONFIG.CACHE_DIR
    _CONFIG.CACHE_DIR = _cache_folder(_module_of(function))
    try:
        jit = numba.njit(cache=True, nogil=True, error_model="numpy")
        return cast(_F, jit(function))
    finally:
        _CONFIG.CACHE_DIR = before


def _module_of(function: Callable[..., Any]) -> str:
    return str(Path(inspect.getfile(function)).relative_to(PACKAGE))


def inlined(function: _F) -> _F:
    """Compile a step of a row loop into its caller.

    A state of many arrays is some hundred machine words: passing it costs more than many a step.
    """
    jit = numba.njit(forceinline=True, error_model="numpy")
    return cast(_F, jit(function))
