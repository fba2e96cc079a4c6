"""A second reference in jobs: found by the first look, handed on, turned off, scored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipelines.cli.main import main
from tests.e2e.jobs import features_of, lines_of, record_of, snapshots_of, write
from tests.unit.test_reference_paces import rows_of

IDS = ("--model-id", "device", "--time", "time")
FLAGS = (
    *("--reference", "auto", "--reference-rows", "256", "--reference-memory", "1024 rows"),
    *("--reference-false-alarms", "50", "--reference-season", "none"),
)
NAMES, ROWS, HEAD = ("d0", "d1"), 9000, 4000


def table(step: int, first: int = 0, last: int = ROWS) -> pa.Table:
    """Rows of two devices in order of time, one each so many seconds."""
    at = np.arange(first, last)
    tables = []
    for place, name in enumerate(NAMES):
        rows = rows_of(place + 1)[0][at]
        times = pa.array(1_772_409_600 * 10**9 + at * step * 10**9, pa.timestamp("ns", "UTC"))
        columns = {f"x{k}": rows[:, k] for k in range(3)}
        tables.append(pa.table({"device": [name] * len(at), "time": times, **columns}))
    return pa.concat_tables(tables).sort_by("time")


def track(rows: pa.Table, output: Path, *flags: str) -> str | None:
    """Run a job; the second reference's span in its record."""
    path = write(output.with_suffix(".parquet"), rows)
    assert main(["track", path, *IDS, "--output", str(output), *FLAGS, *flags]) == 0
    span: str | None = record_of(output)["reference"].get("also_every")
    return span


def test_rows_each_minute_have_two_and_a_warm_start_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track(table(60), tmp_path / "all") == "5 minutes"
    said = capsys.readouterr().out
    assert "one each 60 s, and the first of each 5 minutes by a second reference" in said
    assert track(table(60), tmp_path / "named", "--reference-also-every", "5 minutes")
    assert "second reference" not in capsys.readouterr().out
    assert snapshots_of(tmp_path / "named") == snapshots_of(tmp_path / "all")

    assert track(table(60, 0, HEAD), tmp_path / "one") == "5 minutes"
    warm = ("--warm-start", str(tmp_path / "one" / "snapshots"))
    # So few rows would not tell how often they come.
    assert track(table(60, HEAD, HEAD + 8), tmp_path / "few", *warm) == "5 minutes"
    assert track(table(60, HEAD), tmp_path / "two", *warm) == "5 minutes"
    assert snapshots_of(tmp_path / "two") == snapshots_of(tmp_path / "all")
    assert lines_of(tmp_path / "all", "episodes")


def test_all_rows_alone_judge_where_flags_say_so_or_rows_come_seldom(tmp_path: Path) -> None:
    assert track(table(60), tmp_path / "two") == "5 minutes"
    assert track(table(60), tmp_path / "none", "--reference-also-every", "none") is None
    assert track(table(60), tmp_path / "every", "--reference-every", "3 minutes") is None
    assert track(table(120), tmp_path / "seldom") is None
    assert track(table(5), tmp_path / "often") is None
    columns = ["device" if name == "model_id" else name for name in ("model_id", "p", "ref_score")]
    both, alone = (
        features_of(tmp_path / name).sort_by([("model_id", "ascending"), ("time", "ascending")])
        for name in ("two", "none")
    )
    assert columns and both.select(["p", "ref_score"]) == alone.select(["p", "ref_score"])
    assert lines_of(tmp_path / "two", "episodes") != lines_of(tmp_path / "none", "episodes")


def test_new_rows_are_scored_and_judged_by_both(tmp_path: Path) -> None:
    good, rest = tmp_path / "good", table(60, 6900)
    assert track(table(60, 0, 6900), good) == "5 minutes"
    path = write(tmp_path / "rest.parquet", rest)
    flags = ("--snapshots", str(good / "snapshots"), "--output", str(tmp_path / "scored"))
    assert main(["score", path, *IDS, *flags]) == 0
    given = ("--reference", str(good / "snapshots"))
    assert main(["track", path, *IDS, "--output", str(tmp_path / "given"), *given]) == 0
    assert record_of(tmp_path / "given")["reference"]["also_every"] == "5 minutes"
    for output in ("scored", "given"):
        found = lines_of(tmp_path / output, "episodes")
        assert set(found) == set(NAMES)
