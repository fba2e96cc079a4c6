"""Kernel mismatch of windows and drift alerts in the file job: the core's, from flags to files.

Windows of all kinds, thinned and in any order of arrival, are in `tests/stream/test_windows.py`.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kerneltrack.monitor.drift import DriftSpec
from tests.e2e.jobs import (
    COLUMNS,
    SMALL,
    files_under,
    labelled_table,
    record_of,
    table_of,
    track,
    write,
)
from tests.stream.running import SECOND
from transforms.write.schemas import MISMATCH_SCHEMA, alerts_schema

ROWS = 900
MOVING = 25
DRIFT = DriftSpec(block=4, settle=20, memory=60, threshold=1.5)
DRIFT_FLAGS = (
    *("--drift", "--drift-block", "4", "--drift-settle", "20"),
    *("--drift-memory", "60", "--drift-threshold", "1.5"),
)
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
    lines, alerts = table_of(run, "mismatch"), table_of(run, "alerts")
    assert record["counts"]["windows"] == lines.num_rows
    assert set(lines.column("kind").to_pylist()) == {"sliding", "moving"}
    assert record["counts"]["alerts"] == alerts.num_rows >= 3
    assert lines.schema.equals(MISMATCH_SCHEMA)
    assert alerts.schema.equals(alerts_schema(has_time=True))
    assert not {"predicted", "scored"} & set(record["counts"])
    names = {Path(name).parts[0] for name in files_under(run)}
    assert not {"predictions", "metrics", "scores"} & names


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
