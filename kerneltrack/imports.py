"""Import large packages in less time."""

from __future__ import annotations

import gc
import importlib
import sys
from types import ModuleType


def import_to_stay(name: str) -> ModuleType:
    """Import a module, and look for no garbage in what it brings, now or later.

    While Beam is imported a seventh of the time would go into such looks, which find nothing: what
    modules make stays. What is there is kept from later looks too, and a process that is forked
    from this one goes on sharing it.
    """
    if name in sys.modules:
        return sys.modules[name]
    collects = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        if collects:
            gc.enable()
