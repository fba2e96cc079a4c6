"""What all tests share: the data sets' folder and hypothesis's settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parents[1]
IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}

# No deadline: the first call of a compiled loop compiles it. In CI the same examples every time.
hypothesis.settings.register_profile(
    "kerneltrack", deadline=None, derandomize=IN_CI, print_blob=True
)
hypothesis.settings.load_profile("kerneltrack")


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
            reason = f"no data set {path}: set KERNELTRACK_DATA to the folder that holds {name}"
            if IN_CI:
                pytest.fail(reason)
            pytest.skip(reason)
        return path

    return find


@pytest.fixture(scope="session")
def sample() -> Path:
    """The real recording that the project ships."""
    return ROOT / "samples" / "watch.parquet"
