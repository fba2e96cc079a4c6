"""The names that others depend on: those that packages offer, and all that are frozen.

Each is there, none is imported before it is asked for, and none changes by the way.
"""

from __future__ import annotations

import difflib
import importlib
import subprocess
import sys

import pytest

from tests import frozen_names

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


def test_no_frozen_name_changes_by_the_way() -> None:
    """Columns, flags, steps, states, counters, files: `python -m tests.frozen_names`."""
    known = frozen_names.FILE.read_text(encoding="utf-8")
    found = frozen_names.written()
    lines = difflib.unified_diff(known.splitlines(), found.splitlines(), "frozen", "code", n=0)
    output_text = "\n".join(line for line in lines if not line.startswith("@@"))
    assert found == known, (
        f"{output_text}\nusers and states depend on these: where they are meant to change, "
        "`python -m tests.frozen_names` writes them anew, and CHANGELOG.md says so"
    )
