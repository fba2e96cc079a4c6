"""`--reference-window` in jobs: shapes that are odd, warm start, scoring, references given."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.trackers import OKFEBSpec
from pipelines.cli.main import main
from tests.e2e.jobs import features_of, lines_of, record_of, snapshots_of, write
from tests.unit.test_reference_windows import BEGIN, PERIOD, beats, turned

IDS = ("--model-id", "device", "--time", "time")
FLAGS = ("--reference", "first", "--reference-rows", "1024", "--reference-window", "auto")
MOVING = (
    *("--reference", "auto", "--reference-memory", "2000 rows", "--reference-season", "none"),
    *("--reference-window", "auto"),
)
ROWS, HEAD, ODD = 4800, 2000, "d1"
NAMES = ("d0", ODD, "d2")


def rows_of(place: int) -> npt.NDArray[np.float64]:
    rows = beats(place + 20, ROWS)
    return turned(rows) if NAMES[place] == ODD else rows


def table(first: int = 0, last: int = ROWS) -> pa.Table:
    """Rows of three devices, one after the other; the second one's shape is odd once."""
    at = np.arange(first, last)
    columns = [
        pa.table(
            {
                "device": [name] * len(at),
                "time": pa.array(at * 10**9, pa.timestamp("ns")),
                "x": rows_of(place)[at, 0],
            }
        )
        for place, name in enumerate(NAMES)
    ]
    return pa.concat_tables(columns)


def track(rows: pa.Table, output: Path, *flags: str) -> int:
    path = write(output.with_suffix(".parquet"), rows)
    return main(["track", path, *IDS, "--output", str(output), *flags])


def column(output: Path, name: str, device: str) -> list[float | None]:
    found = features_of(output)
    values: list[float | None] = found.filter(pa.compute.equal(found["model_id"], device))[
        name
    ].to_pylist()
    return values


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("whole") / "run"
    assert track(table(), output, *FLAGS) == 0
    return output


def test_a_job_finds_the_device_whose_shape_is_odd(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert set(lines_of(whole, "episodes")) == {ODD}
    line = lines_of(whole, "episodes")[ODD][0]
    assert BEGIN - PERIOD <= line["start_index"] <= line["detected_index"] < BEGIN + PERIOD
    assert record_of(whole)["reference"]["window"] == "auto"
    assert main(["inspect", str(whole / "snapshots"), "--model", ODD, "--json"]) == 0
    assert abs(json.loads(capsys.readouterr().out)["totals"]["window_rows"] - PERIOD) <= 2
    assert track(table(), tmp_path / "plain", *FLAGS[:-2]) == 0
    assert lines_of(tmp_path / "plain", "episodes") == {}
    assert "window" not in record_of(tmp_path / "plain")["reference"]


def test_a_moving_reference_has_the_view_and_goes_on_as_one_job_would(tmp_path: Path) -> None:
    for name, rows, *warm in (
        ("all", table()),
        ("one", table(0, HEAD)),
        ("two", table(HEAD), "--warm-start", str(tmp_path / "one" / "snapshots")),
    ):
        assert track(rows, tmp_path / name, *MOVING, *warm) == 0
    assert set(lines_of(tmp_path / "all", "episodes")) == {ODD}
    assert snapshots_of(tmp_path / "two") == snapshots_of(tmp_path / "all")
    rest = write(tmp_path / "rest.parquet", table(HEAD))
    flags = ("--snapshots", str(tmp_path / "two" / "snapshots"), "--output", str(tmp_path / "out"))
    assert main(["score", rest, *IDS, *flags]) == 0


def test_a_jobs_scores_are_the_cores(whole: Path) -> None:
    spec, first = ReferenceSpec(rows=1024, window="auto"), OKFEBSpec().rows_to_start
    for place, name in enumerate(NAMES):
        rows = rows_of(place)
        _, scores, _ = reference.update(spec, reference.init(spec, rows[:first]), rows)
        assert np.array(column(whole, "p", name), float).tobytes() == scores.p.tobytes()


def test_a_warm_start_goes_on_as_one_job_would(whole: Path, tmp_path: Path) -> None:
    assert track(table(0, HEAD), tmp_path / "one", *FLAGS) == 0
    warm = ("--warm-start", str(tmp_path / "one" / "snapshots"))
    assert track(table(HEAD), tmp_path / "two", *FLAGS, *warm) == 0
    assert snapshots_of(tmp_path / "two") == snapshots_of(whole)
    for name in NAMES:
        assert (
            column(tmp_path / "two", "ref_score", name) == column(whole, "ref_score", name)[HEAD:]
        )


def test_scoring_and_given_references_have_the_view(tmp_path: Path) -> None:
    assert track(table(0, HEAD), tmp_path / "good", *FLAGS) == 0
    snapshots = str(tmp_path / "good" / "snapshots")
    rest = write(tmp_path / "rest.parquet", table(HEAD))
    out = tmp_path / "scored"
    assert main(["score", rest, *IDS, "--snapshots", snapshots, "--output", str(out)]) == 0
    assert set(lines_of(out, "episodes")) == {ODD}
    assert track(table(HEAD), tmp_path / "given", "--reference", snapshots) == 0
    assert set(lines_of(tmp_path / "given", "episodes")) == {ODD}
