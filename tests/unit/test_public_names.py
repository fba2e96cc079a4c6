"""The names that packages offer: each is there, and none is imported before it is asked for."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

HEAVY = {"apache_beam", "numpy", "pyarrow"}
PACKAGES = (
    *("kerneltrack", "kerneltrack.trackers", "kerneltrack.learners", "kerneltrack.monitor"),
    "transforms",
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_that_is_offered_is_there(package: str) -> None:
    module = importlib.import_module(package)
    names = module.__all__
    assert len(names) > 10
    assert [name for name in names if getattr(module, name, None) is None] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_imports_no_heavy_library(package: str) -> None:
    script = f"import sys, {package}; print(*{HEAVY} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "")
