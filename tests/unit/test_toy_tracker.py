"""A tracker is its folder, its row loop and a line of the registry: one is added to a copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kerneltrack.native.binding import CHOICE, builds_here

HERE = Path(__file__).parents[2]
PATCH = HERE / "tests" / "data" / "toy_tracker.patch"
OWN = (
    *("kerneltrack/trackers/changes/", "kerneltrack/native/changes.c"),
    *("kerneltrack/registry.py", "CMakeLists.txt", "tests/golden/", "docs/"),
)
"""Where a new tracker may leave traces."""
HERE_FIRST = """
import sys
sys.meta_path = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
sys.path.insert(0, ".")
"""
"""The tree it runs in, not the one that is installed."""
RUN = f"""{HERE_FIRST}
from pipelines.cli.main import main
import kerneltrack.trackers.changes
sys.exit(main(sys.argv[1:]))
"""
NAMES = f"""{HERE_FIRST}
import runpy
runpy.run_module("tests.frozen_names", run_name="__main__")
"""


@pytest.mark.nightly
def test_a_job_runs_with_it(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for part in ("kerneltrack", "transforms", "pipelines", "tests", "docs", "CMakeLists.txt"):
        whole = (HERE / part).is_dir()
        (shutil.copytree if whole else shutil.copy2)(HERE / part, _made(copy) / part)
    for path in (copy / "kerneltrack" / "native").glob("libkerneltrack-*"):
        path.unlink()
    before = _texts(copy)
    _run(copy, "git", "apply", "-C1", str(PATCH))
    after = _texts(copy)
    touched = {path for path in before | after if before.get(path) != after.get(path)}
    assert {"kerneltrack/registry.py", "kerneltrack/native/changes.c"} < touched
    assert [path for path in sorted(touched) if not path.startswith(OWN)] == []
    name = builds_here()[0]
    _run(copy, "cmake", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Release")
    _run(copy, "cmake", "--build", "build", "--target", name, "--parallel", "2")
    job = ["track", str(HERE / "samples" / "watch.parquet"), "--model-id", "model_id"]
    job += ["--time", "time", "--label", "label", "--tracker", "changes", "--rank", "6"]
    job += ["--learner", "ridge", "--drift", "--reference", "first", "--snapshot-every", "100"]
    _run(copy, sys.executable, "-c", RUN, *job, "--workers", "1", "--output", "out")
    rows = pq.read_metadata(HERE / "samples" / "watch.parquet").num_rows
    for part in ("features", "predictions"):
        found = sum(pq.read_metadata(path).num_rows for path in (copy / "out" / part).iterdir())
        assert found == rows
    _run(copy, sys.executable, "-c", NAMES)
    assert _texts(copy / "tests" / "golden") == {
        path.removeprefix("tests/golden/"): text
        for path, text in after.items()
        if path.startswith("tests/golden/")
    }


def _texts(folder: Path) -> dict[str, bytes]:
    """Return the files in a folder by their path, without what Python keeps beside them."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _run(folder: Path, *command: str) -> None:
    place = str(Path(sys.executable).parent)
    path = os.pathsep.join([place, os.environ["PATH"]])
    # One build was made: that which every processor runs.
    environment = {**os.environ, "PATH": path, CHOICE: builds_here()[0]}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
