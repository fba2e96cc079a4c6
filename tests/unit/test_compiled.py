"""Compiled loops are kept, and never outlive the sources that they were made from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
from kerneltrack.kernels import _gram, gram, make_kernel
print(gram(make_kernel("gaussian"), [[0.0]], [[1.0]])[0, 0], sum(_gram.stats.cache_hits.values()))
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


def test_a_step_that_is_edited_in_another_module_is_compiled_anew(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "kerneltrack", tmp_path / "kerneltrack", ignore=shutil.ignore_patterns("__pycache__")
    )
    cache = tmp_path / "cache"
    first, hits = run(tmp_path, cache)
    assert hits == 0
    assert run(tmp_path, cache) == (first, 1)
    # Another module than the one that holds the loop: any edit of the numerics counts.
    path = tmp_path / "kerneltrack" / "linalg.py"
    path.write_text(path.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    assert run(tmp_path, cache) == (first, 0)
