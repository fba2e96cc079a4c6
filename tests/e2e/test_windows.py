"""Kernel mismatch of windows and drift alerts in the file job: the core's, from flags to files.

Windows of all kinds, thinned and in any order of arrival, are in `tests/stream/test_windows.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import SlidingWindows

from kerneltrack.in_memory import run_all
from kerneltrack.monitor import drift
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.moving import MovingWindow
from kerneltrack.trackers import OKFEB, OKFEBSpec
from tests.e2e.jobs import (
    CHANNELS,
    COLUMNS,
    SMALL,
    files_under,
    labelled_table,
    lines_of,
    matrix,
    models_of,
    nanoseconds,
    record_of,
    table_of,
    track,
    write,
)
from tests.stream.running import SECOND, Rows, exact
from tests.stream.test_windows import assert_bounds, windows_by_hand
from transforms.write.schemas import MISMATCH_SCHEMA, alerts_schema

SPEC = OKFEBSpec(rank=4, budget=7, warmup=50)
ROWS = 900
MOVING = 25
DRIFT = DriftSpec(block=4, settle=20, memory=60, threshold=1.5)
DRIFT_FLAGS = (
    *("--drift", "--drift-block", "4", "--drift-settle", "20"),
    *("--drift-memory", "60", "--drift-threshold", "1.5"),
)
WINDOWS = SlidingWindows(4, 1.5, 1)
WINDOW_FLAGS = ("--window", "4", "--window-period", "1.5", "--window-offset", "1")
MOST_ROWS = 900


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return labelled_table(ROWS)


@pytest.fixture(scope="module")
def source(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("windows") / "in.parquet", table)


@pytest.fixture(scope="module")
def run(source: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run with windows, a moving window and alerts."""
    output = tmp_path_factory.mktemp("run") / "out"
    asked = ("--window-rows", str(MOST_ROWS), "--moving-window", str(MOVING), "--confidence", "0.9")
    track(source, *COLUMNS, *SMALL, *WINDOW_FLAGS, *asked, *DRIFT_FLAGS, "--output", str(output))
    return output


def rows_of(model: pa.Table) -> Rows:
    count = model.num_rows
    return Rows(
        nanoseconds(model), matrix(model, CHANNELS), np.zeros(count, np.int32), np.arange(count)
    )


def test_windows_of_event_time_are_measured(run: Path, table: pa.Table) -> None:
    found = lines_of(run, "mismatch")
    assert list(found) == ["m/0", "m/1", "m/2"]
    for name, model in models_of(table).items():
        expected = windows_by_hand(rows_of(model), WINDOWS, SPEC)
        lines = [line for line in found[name] if line["kind"] == "sliding"]
        assert exact({n: line[n] for n in expected[0].line} for line in lines) == exact(
            part.line for part in expected
        )
        for line, part in zip(lines, expected, strict=True):
            assert_bounds(line, part.found.kappa, SPEC, confidence=0.9)
        assert [line["complete"] for line in lines].count(False) == 2
    assert table_of(run, "mismatch").schema.equals(MISMATCH_SCHEMA)


def test_the_moving_window_is_measured_after_every_row(run: Path, table: pa.Table) -> None:
    moving = MovingWindow(MOVING)
    for name, model in models_of(table).items():
        rows, times = matrix(model, CHANNELS), nanoseconds(model)
        state = OKFEB().init(SPEC, rows[:50])
        *_, measured = moving.update(SPEC, state, moving.init(SPEC, state), rows)
        lines = [line for line in lines_of(run, "mismatch")[name] if line["kind"] == "moving"]
        assert exact(
            {n: line[n] for n in ("index", "mismatch", "residual", "start", "end", "rows", "n")}
            for line in lines
        ) == exact(
            {
                "index": row,
                "mismatch": float(measured.value[row]),
                "residual": float(measured.residual[row]),
                "start": int(times[row - MOVING + 1]),
                "end": int(times[row]),
                "rows": MOVING,
                "n": MOVING,
            }
            for row in range(MOVING - 1, len(rows))
        )
        for line in lines:
            assert line["complete"] is True
            assert_bounds(line, 1.0, SPEC, confidence=0.9)


def test_alerts_are_the_cores(run: Path, table: pa.Table) -> None:
    found = lines_of(run, "alerts")
    total = 0
    for name, model in models_of(table).items():
        _, features = run_all(SPEC, matrix(model, CHANNELS))
        _, alerts = drift.update(DRIFT, drift.init(DRIFT), features.loss, features.index)
        times = nanoseconds(model)
        assert exact(found.get(name, [])) == exact(
            {
                "index": int(row),
                "time": int(times[row]),
                "before": float(before),
                "after": float(after),
            }
            for row, before, after in zip(alerts.index, alerts.before, alerts.after, strict=True)
        )
        total += len(alerts.index)
    assert total >= 3
    assert record_of(run)["counts"]["alerts"] == total
    assert table_of(run, "alerts").schema.equals(alerts_schema(has_time=True))


def test_the_record_says_what_was_measured(run: Path) -> None:
    record = record_of(run)
    assert record["drift"] == DRIFT.to_dict()
    assert record["measure"] == {
        "moving": MOVING,
        "most_rows": MOST_ROWS,
        "size": 4 * SECOND,
        "period": 1.5 * SECOND,
        "offset": SECOND,
    }
    assert record["counts"]["windows"] == table_of(run, "mismatch").num_rows
    assert not {"predicted", "scored"} & set(record["counts"])
    names = {Path(name).parts[0] for name in files_under(run)}
    assert not {"predictions", "metrics", "scores"} & names


def test_rows_without_times_have_a_moving_window(tmp_path: Path) -> None:
    table = labelled_table(120, models=1)
    source = write(tmp_path / "in.parquet", table)
    flags = ("--model-id", "model_id", "--exclude", "time", *SMALL, "--moving-window", "10")
    track(source, *flags, *DRIFT_FLAGS, "--output", str(tmp_path / "out"))
    lines = lines_of(tmp_path / "out", "mismatch")["m/0"]
    assert [line["index"] for line in lines] == list(range(9, 120))
    assert {(line["start"], line["end"]) for line in lines} == {(None, None)}
    assert table_of(tmp_path / "out", "alerts").schema.equals(alerts_schema(has_time=False))


def test_drift_may_be_a_name_in_the_spec_file_or_a_section(tmp_path: Path) -> None:
    """And any of its flags asks for it."""
    source = write(tmp_path / "in.parquet", labelled_table(60, models=1))
    (tmp_path / "name.yaml").write_text("drift: page_hinkley\n")
    (tmp_path / "section.yaml").write_text("drift:\n  block: 10\n")
    for flags in (
        ("--drift",),
        ("--drift-block", "10"),
        ("--spec", str(tmp_path / "name.yaml")),
        ("--spec", str(tmp_path / "section.yaml")),
    ):
        track(source, *COLUMNS, *SMALL, *flags, "--output", str(tmp_path / "out"), "--overwrite")
        assert record_of(tmp_path / "out")["drift"] == DriftSpec().to_dict()
