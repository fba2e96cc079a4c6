"""Workers have a working directory of their own: paths that were typed relative still hold."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest

from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.snapshots.references import GivenReferences
from pipelines.cli.main import main
from pipelines.files import track
from pipelines.files.record import run_pipeline

REFERENCE = ("--reference-rows", "256")
SPECS = ("--rank", "2", "--budget", "5", "--warmup", "20")
COLUMNS = ("--model-id", "m", "--time", "t", "--features", "a", "b", "c")


def write_rows(path: str, start: int, rows: int) -> None:
    """Two models' rows in turn, a second apart."""
    rng = np.random.default_rng(start)
    lines = ["m,t,a,b,c"]
    for at in range(start, start + rows):
        a, b, c = rng.normal(size=3)
        lines.append(f"m{at % 2},{1_600_000_000 + at},{a},{b},{a + b + 0.1 * c}")
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Snapshots with a reference; the working directory is where they lie."""
    monkeypatch.chdir(tmp_path)
    write_rows("history.csv", 0, 700)
    flags = (*COLUMNS, *SPECS, "--reference", "first", *REFERENCE)
    assert main(["track", "history.csv", *flags, "--output", "history"]) == 0
    return "history/snapshots"


def test_what_goes_to_workers_is_found_from_elsewhere(
    history: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, given = SnapshotFolder(history), GivenReferences(history)
    one = GivenReferences(str(before.place("m1", "tracker")))
    sent: list[Any] = [pickle.dumps(each) for each in (before, given, one)]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    folder, references, single = map(pickle.loads, sent)
    state = folder.state("m0", "tracker")
    assert state == (tmp_path / str(before.place("m0", "tracker"))).read_bytes()
    assert references.of("m1").origin == single.of("m1").origin
    # What is said to who typed it is as typed.
    assert (before.folder, given.place) == (history, history)


def test_a_job_on_a_runner_reads_and_writes_where_it_was_told(
    history: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows("rows.csv", 700, 100)
    flags = ("track", "rows.csv", *COLUMNS, "--warm-start", history, "--reference", history)
    assert main([*flags, "--output", "here"]) == 0
    run, elsewhere = run_pipeline, tmp_path / "elsewhere"
    elsewhere.mkdir()

    def run_elsewhere(pipeline: Any, *sets: str) -> Any:
        described = pipeline.to_runner_api()
        sent = beam.Pipeline.from_runner_api(described, pipeline.runner, pipeline.options)
        os.chdir(elsewhere)
        try:
            return run(sent, *sets)
        finally:
            os.chdir(tmp_path)

    monkeypatch.setattr(track, "run_pipeline", run_elsewhere)
    assert main([*flags, "--output", "there", "--runner=DirectRunner"]) == 0
    assert list(elsewhere.iterdir()) == []
    order = [("model_id", "ascending"), ("index", "ascending")]
    here, there = (pq.read_table(f"{name}/features").sort_by(order) for name in ("here", "there"))
    assert there.equals(here)
    assert there["source"].to_pylist() == ["rows.csv"] * 100
