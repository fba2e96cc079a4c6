"""Import large packages in less time."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple

OF_OTHERS = ("bson", "pandas", "pymongo")
"""Packages that Beam and Arrow import where they are there, for data that no command has."""


def import_to_stay(name: str, without: Sequence[str] = ()) -> ModuleType:
    """Import a module, and look for no garbage in what it brings, now or later.

    While Beam is imported a seventh of the time would go into such looks, which find nothing: what
    modules make stays. What is there is kept from later looks too, and a process that is forked
    from this one goes on sharing it.

    Args:
        name: The module.
        without: Packages that it does not find meanwhile; whoever asks later does.
    """
    found = sys.modules.get(name)
    if found is not None:
        return found
    collects = gc.isenabled()
    gc.disable()
    try:
        with _hidden(without):
            return importlib.import_module(name)
    finally:
        gc.freeze()
        if collects:
            gc.enable()


def import_arrow() -> None:
    """Import Arrow without pandas, wherever it was imported first.

    It looks for pandas with its first array, and once more when asked for a frame.
    """
    with _hidden(OF_OTHERS):
        import_to_stay("pyarrow").array([])


class _Hidden(NamedTuple):
    """Finds no module of some names: what is asked of `sys.meta_path`."""

    names: Sequence[str]

    def find_spec(self, name: str, *_: object) -> None:
        """Refuse to find a module.

        Raises:
            ModuleNotFoundError: if it is one of these.
        """
        if name in self.names:
            raise ModuleNotFoundError(f"{name} is of no use here", name=name)


@contextmanager
def _hidden(names: Sequence[str]) -> Iterator[None]:
    """Let nobody find modules meanwhile."""
    finder = _Hidden(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
