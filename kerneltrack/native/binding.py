"""The compiled row loops: which build is loaded, and how a call reaches it.

The loops are C (the files beside this one), built into shared libraries that know nothing of
Python: one for any processor of an architecture, one for each further set of instructions that
helps. All give the same bits; the best that the processor can run is taken.

A structure crosses as bytes: `packed` lays the fields of a named tuple out in their order, each
number in eight bytes, an array as its address and its lengths. C's declarations (`layouts.h`) are
written from the named tuples by `python -m tests.layouts`, and its compiler checks their sizes.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError

CHOICE = "KERNELTRACK_NATIVE"
"""Environment variable that names the build to load, for tests and comparisons."""
FOLDER = "KERNELTRACK_NATIVE_FOLDER"
"""Environment variable that names another folder of builds: those of `make sanitize`."""

BUILDS = {"x86_64": ("x86_64", "x86_64_v3", "x86_64_v4"), "aarch64": ("aarch64",)}
"""Builds of an architecture, the one that every processor can run first."""
_SAME = {"amd64": "x86_64", "arm64": "aarch64"}
_SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"

NO_MEMORY = -1
_FORMS = ("q", "qq", "qqq", "qqqq")
"""Words of an array: its address and its lengths."""
_EMPTY = ctypes.create_string_buffer(8)
_NOWHERE = ctypes.addressof(_EMPTY)
"""The address of an array that has no numbers."""
_addressof, _from_buffer = ctypes.addressof, ctypes.c_char.from_buffer


def packed(fields: tuple[Any, ...]) -> bytes:
    """Return numbers and arrays as the C structure of the same fields.

    Args:
        fields: Whole numbers, reals, flags and arrays, contiguous by rows; tuples of them are laid
            out in place.

    Raises:
        TypeError: for an array that is not contiguous, or anything else.
    """
    words: list[Any] = []
    if fields and type(fields[0]) is np.ndarray:
        # Most structures are of arrays alone: to pack them is most of what a call costs.
        try:
            for field in fields:
                words.append(_addressof(_from_buffer(field)) if field.size else _NOWHERE)
                words += field.shape
            return _packers(len(words))(*words)
        except (AttributeError, TypeError, ValueError):
            words = []
    if len(fields) == 1 and type(fields[0]) is int:
        return _packers(1)(fields[0])
    form = ["="]
    _add(fields, form, words)
    return struct.pack("".join(form), *words)


@cache
def _packers(count: int) -> Callable[..., bytes]:
    """Return what packs so many whole numbers."""
    return struct.Struct(f"={count}q").pack


def address(array: npt.NDArray[Any]) -> int:
    """Return where an array's numbers lie, by the fastest way that there is for it."""
    if not array.size:
        return _NOWHERE
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        # One that may only be read, or that is not contiguous.
        if not array.flags.c_contiguous:
            raise TypeError("arrays must be contiguous by rows") from None
        return int(array.__array_interface__["data"][0])


def _add(fields: tuple[Any, ...], form: list[str], words: list[Any]) -> None:
    for field in fields:
        if isinstance(field, np.ndarray):
            shape = field.shape
            form.append(_FORMS[len(shape)])
            words.append(address(field))
            words += shape
        elif isinstance(field, tuple):
            _add(field, form, words)
        elif isinstance(field, (float, np.floating)):
            form.append("d")
            words.append(field)
        else:
            form.append("q")
            words.append(int(field))


def laid_out(value: tuple[Any, ...] | np.ndarray[Any, Any] | bytes) -> bytes:
    """Return an argument of `call` as the function gets it."""
    if isinstance(value, bytes):
        return value
    return packed(value if isinstance(value, tuple) else (value,))


def call(name: str, *arguments: tuple[Any, ...] | np.ndarray[Any, Any] | bytes) -> int:
    """Call a function of the library.

    Args:
        name: The function, `kt_` left out.
        arguments: Structures: named tuples, arrays as structures of one field, or what `packed`
            made of them before. What they point to must live until the call returns.

    Returns:
        What the function returns.

    Raises:
        MemoryError: if there was none for its scratch space.
    """
    result = int(_function(name)(*[laid_out(value) for value in arguments]))
    if result == NO_MEMORY:
        raise MemoryError(f"no room for the scratch space of {name}")
    return result


def function(name: str) -> Callable[..., int]:
    """Return a function of the library, of structures as bytes; see `call`."""
    return _function(name)


@cache
def _function(name: str) -> Callable[..., int]:
    function = getattr(library(), f"kt_{name}")
    function.restype = ctypes.c_int64
    return function  # type: ignore[no-any-return]


@cache
def library() -> ctypes.CDLL:
    """Return the library, loaded."""
    return ctypes.CDLL(str(path_of(build())))


def builds_here() -> tuple[str, ...]:
    """Return the builds for this machine's architecture, the one that all can run first."""
    machine = platform.machine().lower()
    return BUILDS.get(_SAME.get(machine, machine), ())


@cache
def build() -> str:
    """Return the name of the build that is loaded: `KERNELTRACK_NATIVE`, else the best.

    Raises:
        ConfigError: for a name of no build.
        ImportError: where there is none for this machine.
    """
    names = builds_here()
    chosen = os.environ.get(CHOICE)
    if chosen is not None:
        if chosen not in names:
            raise ConfigError(CHOICE, chosen, f"one of {', '.join(names)}")
        return chosen
    if not names:
        raise ImportError(f"kerneltrack has no compiled loops for {platform.machine()}")
    level = ctypes.CDLL(str(path_of(names[0]))).kt_processor_level()
    return next(name for name in reversed(names[: level + 1]) if _find(name) is not None)


def path_of(name: str) -> Path:
    """Return the file of a build.

    Raises:
        ImportError: if it was not built.
    """
    found = _find(name)
    if found is None:
        raise ImportError(
            f"the compiled loops ({_file(name)}) are missing: install kerneltrack again"
        )
    return found


def _find(name: str) -> Path | None:
    import kerneltrack.native as package  # noqa: PLC0415 - an editable install has two folders

    other = os.environ.get(FOLDER)
    folders = [other] if other else package.__path__
    places = [Path(folder) / _file(name) for folder in folders]
    return next((place for place in places if place.is_file()), None)


def _file(name: str) -> str:
    return f"libkerneltrack-{name}{_SUFFIX}"
