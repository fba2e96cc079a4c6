"""Columns that nothing reads, and that may say a row's device or its time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.files.first_look import look_at
from transforms.read.columns import ColumnOptions, resolve
from transforms.read.formats import FormatOptions, inspect

DEVICE = (
    "{0}: left out, but looks like a device's ID; so all rows count as one device's "
    "(--model-id {0}, or --exclude {0})"
)
TIME = (
    "{0}: left out, but looks like a time; so rows count in the order of the file "
    "(--time {0}, or --exclude {0})"
)
CSV = "when,{},a,b\nx,m1,1,2\ny,m1,2,2.5\nz,m3,2,2\nz,m2,3,1\n"


def look(path: Path, **columns: Any) -> list[str]:
    info = inspect(str(path), FormatOptions())
    return look_at([info], resolve([info], ColumnOptions(**columns))).warnings


def csv(folder: Path, header: str) -> Path:
    path = folder / "rows.csv"
    path.write_text(CSV.format(header), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["device", "Machine", "pump_id", "sensorId", "serial no", "ID"])
def test_a_column_that_names_devices_is_told_of(name: str, tmp_path: Path) -> None:
    (line,) = look(csv(tmp_path, name))
    quoted = f"'{name}'" if " " in name else name
    assert line == DEVICE.replace("{0}:", f"{name}:").format(quoted)


@pytest.mark.parametrize("name", ["paid", "valid", "state", "note", "runtime", "candidate"])
def test_other_texts_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not look(csv(tmp_path, name))


@pytest.mark.parametrize("name", ["time", "event_time", "Timestamp", "createdTime", "date", "ts"])
def test_a_column_that_is_named_like_a_time_is_told_of(name: str, tmp_path: Path) -> None:
    assert look(csv(tmp_path, name)) == [TIME.format(name)]


def test_a_column_of_times_is_told_of_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    moments = pa.array([1, 2, 3], pa.timestamp("s"))
    pq.write_table(pa.table({"when": moments, "a": [1.0, 2.5, 2.0], "b": [2.0, 1.0, 3.5]}), path)
    assert look(path) == [TIME.format("when")]
    assert not look(path, time="when")


@pytest.mark.parametrize(
    "columns", [{"model_id": "device"}, {"exclude": ("device",)}], ids=["named", "excluded"]
)
def test_what_is_named_or_excluded_is_not_told_of(columns: dict[str, Any], tmp_path: Path) -> None:
    assert not look(csv(tmp_path, "device"), **columns)


def test_features_that_are_named_leave_out_devices_of_numbers_too(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("device,a,b\n1,1,2\n2,3,4.5\n", encoding="utf-8")
    assert look(path, features=("a", "b")) == [DEVICE.format("device")]
