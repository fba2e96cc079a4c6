"""The converter of other services' input: archives, and what it refuses."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "from_services.py"


def convert(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *arguments, "--output", "rows.parquet"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_an_archive_of_variables_is_one_device(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "variables.zip", "w") as archive:
        archive.writestr("in/heat.csv", "timestamp,value\n2026-03-01T00:05:00Z,60\n")
        archive.writestr("in/flow.csv", "timestamp,value\n2026-03-01T00:00:00Z,5\n")
    done = convert(tmp_path, "azure", "variables.zip", "--device", "pump-1")
    assert done.stdout == "2 rows of pump-1: flow, heat\n", done.stderr
    rows = pq.read_table(tmp_path / "rows.parquet").to_pydict()
    assert (rows["device"], rows["flow"], rows["heat"]) == (["pump-1"] * 2, [5, None], [None, 60])


@pytest.mark.parametrize(
    ("files", "labels", "wrong"),
    [
        ({"a.csv": "t,x\n2026/1/2 0:00,1\n", "b.csv": "t,x\n2026/1/2 0:00,2\n"}, "", "sensor x"),
        ({"a.csv": "t,x\n2026/1/2 0:00,1\n2026/1/2 0:00,2\n"}, "", "two rows of the time"),
        ({"a.csv": "t,x\nyesterday,1\n"}, "", "a.csv"),
        ({"a.csv": "t\n2026/1/2 0:00\n"}, "", "must have a column of times and one of values"),
        ({"a.csv": "t,x\n2026/1/2 0:00,1\n"}, "1/3/2026,1/2/2026\n", "line 1: ends before"),
        ({"a.csv": "t,x\n2026/1/2 0:00,1\n"}, "13/1/2026,14/1/2026\n", "labels.csv"),
    ],
)
def test_what_is_unclear_is_refused_by_its_file(
    files: dict[str, str],
    labels: str,
    wrong: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "assets" / "pump-1"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    (tmp_path / "labels.csv").write_text(labels or "1/2/2026,1/3/2026\n")
    flags = ["--labels", "labels.csv", "--quiet", "quiet.csv", "--output", "rows.parquet"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(PROGRAM), "lookout", "assets", *flags])
    with pytest.raises(SystemExit, match=re.escape(wrong)):
        runpy.run_path(str(PROGRAM), run_name="__main__")
