"""What all tests share: the data sets' folder and hypothesis's settings."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.parts import IN_CI, missing

ROOT = Path(__file__).resolve().parents[1]

# No deadline: the first call of a compiled loop compiles it. In CI the same examples every time.
hypothesis.settings.register_profile(
    "kerneltrack", deadline=None, derandomize=IN_CI, print_blob=True
)
hypothesis.settings.load_profile("kerneltrack")


class Turns(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a file's tests to one process, so that what they prepare is prepared once.

    Those that share a cluster go to one process, whatever their file.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return shared_by(file) or file


@lru_cache
def shared_by(file: str) -> str | None:
    """Say what a file's tests share with those of others, by its path in the project."""
    text = (ROOT / file).read_text(encoding="utf-8") if file.startswith("tests/e2e/") else ""
    if not re.search(r"from tests\.e2e\.(clusters|live) import", text):
        return None
    if not re.search(r"\bjars\b", text):
        return "the cluster"
    # Commands as users give them: while a part is down, another cluster could take its port.
    return None if "ports_beside(" in text or "running(" in text else "the usual ports"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Say how many processes run tests: one more than processors, as live tests mostly wait."""
    return (os.cpu_count() or 1) + 1


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Turns:
    """Say which process runs what; in the order of the files, clusters among the first."""
    config.option.loadscopereorder = False
    return Turns(config, log)


@pytest.fixture(scope="session")
def data_file() -> Callable[[str], Path]:
    """Where a real data set lies: `data_file("motionsense.parquet")`.

    The folder is `KERNELTRACK_DATA`, by default `../shared/data` beside the project. A set that is
    not there skips the test, in CI it fails it.
    """
    folder = Path(os.environ.get("KERNELTRACK_DATA", ROOT.parent / "shared" / "data"))

    def find(name: str) -> Path:
        path = folder / name
        if not path.exists():
            missing(f"no data set {path}: set KERNELTRACK_DATA to the folder that holds {name}")
        return path

    return find


@pytest.fixture(scope="session")
def sample() -> Path:
    """The real recording that the project ships."""
    return ROOT / "samples" / "watch.parquet"
