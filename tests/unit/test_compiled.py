"""Compiled loops are kept, and never outlive the sources that they were made from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kerneltrack import compiled

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import numpy as np
from kerneltrack.kernels import kernel_row, make_kernel
out = np.zeros(1)
kernel_row(make_kernel("gaussian"), np.zeros((1, 1)), 1, np.ones(1), out)
print(out[0], sum(kernel_row.stats.cache_hits.values()))
"""


def run(folder: Path, cache: Path) -> tuple[float, int]:
    """Run the program against a copy of the package: the kernel's value, loops from the cache."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    value, hits = done.stdout.split()
    return float(value), int(hits)


@pytest.mark.slow
def test_a_step_that_is_edited_in_another_module_is_compiled_anew(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "kerneltrack", tmp_path / "kerneltrack", ignore=shutil.ignore_patterns("__pycache__")
    )
    cache = tmp_path / "cache"
    first, hits = run(tmp_path, cache)
    assert hits == 0
    assert run(tmp_path, cache) == (first, 1)
    # Another module than the one that holds the loop, which imports it: its steps are in the loop.
    edit(tmp_path / "kerneltrack" / "errors.py")
    assert run(tmp_path, cache) == (first, 0)
    assert run(tmp_path, cache) == (first, 1)
    # One that the loop's module knows nothing of.
    edit(tmp_path / "kerneltrack" / "codec.py")
    assert run(tmp_path, cache) == (first, 1)


def edit(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")


def test_a_loops_sources_are_all_modules_that_it_may_take_steps_from() -> None:
    rows = {"kernels.py", "linalg.py", "specs.py", "trackers/okfeb/state.py"}
    assert closure("trackers/okfeb/loop.py") >= rows | {
        "trackers/okfeb/update.py",
        "trackers/okfeb/budget.py",
    }
    assert closure("monitor/moving_loop.py") >= {
        "trackers/okfeb/loop.py",
        "monitor/mismatch.py",
        "monitor/bounds.py",
    }
    assert "codec.py" not in closure("monitor/moving_loop.py")


def closure(module: str) -> set[str]:
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += compiled._imports(name)
    return reached
