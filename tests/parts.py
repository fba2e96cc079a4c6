"""What tests need and may not find: programs, modules, rights. In CI all of it must be there."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

IN_CI = bool(os.environ.get("CI"))


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
