"""A date and a time of day in two columns are one time, however they are stored."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError, DataError
from pipelines.files.first_look import look_at
from tests.parts import examples
from transforms.read.columns import ColumnOptions, Columns, resolve
from transforms.read.formats import FormatOptions, inspect
from transforms.read.formats.base import PieceRows
from transforms.read.look import look_at_files
from transforms.read.parse import parse, parsed_of

EPOCH = datetime(1970, 1, 1)
TIMES = ("Date", "Time")


def ns(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000


def read(path: str, **options: Any) -> tuple[list[int], list[str]]:
    files = look_at_files(path, ColumnOptions(time=TIMES, **options))
    times: list[int] = []
    reasons: list[str] = []
    for good, failed in parsed_of(files.infos, files.columns):
        assert good.time is not None
        times += good.time.tolist()
        reasons += failed.batch.column("reason").to_pylist()
    return times, reasons


def columns_of(dates: pa.Array, clocks: pa.Array, **options: Any) -> list[int | None]:
    """Parse two columns as files that know their types have them."""
    batch = pa.RecordBatch.from_pydict({"Date": dates, "Time": clocks})
    columns = Columns(
        model_id=None,
        time="Date",
        time_of_day="Time",
        sequence=None,
        label=None,
        label_type=None,
        features=(),
        dtype="float64",
        requests={},
        options=ColumnOptions(time=TIMES, **options),
    )
    good, _ = parse(PieceRows(batch, np.arange(len(dates))), 0, columns)
    assert good.time is not None
    found = dict(zip(good.row.tolist(), good.time.tolist(), strict=True))
    return [found.get(row) for row in range(len(dates))]


@settings(max_examples=examples(50))
@given(st.lists(st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)), min_size=1))
def test_any_types_of_the_two_give_the_time(moments: list[datetime]) -> None:
    moments = [moment.replace(microsecond=0) for moment in moments]
    dates, clocks = [m.date() for m in moments], [m.time() for m in moments]
    midnights = [datetime(m.year, m.month, m.day) for m in moments]
    expected = [ns(moment) for moment in moments]
    as_dates = [
        pa.array(dates, pa.date32()),
        pa.array(midnights, pa.timestamp("us")),
        pa.array([str(day) for day in dates]),
        pa.array([f" {day} ".encode() for day in dates], pa.binary()),
        pa.array([str(day) for day in dates]).dictionary_encode(),
    ]
    as_clocks = [
        pa.array(clocks, pa.time32("s")),
        pa.array(clocks, pa.time64("ns")),
        pa.array([str(clock) for clock in clocks]),
    ]
    for day in as_dates:
        for clock in as_clocks:
            assert columns_of(day, clock) == expected
    numbers = [int(f"{day:%Y}".zfill(4) + f"{day:%m%d}") for day in dates]
    short = [int(f"{clock:%H%M%S}") for clock in clocks]
    for number in (pa.array(short), pa.array(short, pa.float64()), pa.array(map(str, short))):
        found = columns_of(pa.array(numbers), number, time_format="%Y%m%d %H%M%S")
        assert found == expected


def test_microseconds_of_a_time_of_day_are_kept() -> None:
    found = columns_of(pa.array([date(2026, 3, 1)]), pa.array([time(1, 2, 3, 4)], pa.time64("us")))
    assert found == [ns(datetime(2026, 3, 1, 1, 2, 3, 4))]


def test_a_missing_half_is_a_missing_time(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = ["Date,Time,x", "2026-03-01,10:00,1", "2026-03-01,,2", ",10:00,3", "x,10:00,4"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    times, reasons = read(str(path))
    assert times == [ns(datetime(2026, 3, 1, 10))]
    assert reasons == [
        "Date Time = null: missing time",
        "Date Time = null: missing time",
        "Date Time = 'x 10:00': no time in the years 1685 to 2255",
    ]


def test_the_format_is_of_both_and_is_proposed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"{1 + i % 28}/3/2026,{i % 24}:00:00,{i}.5" for i in range(60)]
    path.write_text("\n".join(["Date,Time,x", *rows]) + "\n", encoding="utf-8")
    info = inspect(str(path), FormatOptions())
    with pytest.raises(DataError) as caught:
        look_at([info], resolve([info], ColumnOptions(time=TIMES)))
    assert str(caught.value) == (
        f"{path}: the times of Date Time, such as '1/3/2026 0:00:00', are not ISO 8601: "
        "try --time-format '%d/%m/%Y %H:%M:%S'"
    )
    times, reasons = read(str(path), time_format="%d/%m/%Y %H:%M:%S")
    assert reasons == []
    assert times == [ns(datetime(2026, 3, 1 + i % 28, i % 24)) for i in range(60)]


def test_a_local_hour_that_comes_twice_follows_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    clocks = ["01:30", "02:30", "02:30", "03:30"]
    path.write_text("Date,Time,x\n" + "".join(f"2026-10-25,{c},1\n" for c in clocks))
    options: dict[str, Any] = {"time_zone": "Europe/Berlin", "time_ambiguous": "latest"}
    first = ns(datetime(2026, 10, 24, 23, 30))
    hour = 3600 * 10**9
    assert read(str(path), **options)[0] == [
        first,
        first + 2 * hour,
        first + 2 * hour,
        first + 3 * hour,
    ]


def test_a_date_of_the_path_has_a_time_of_day_in_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "Date=2026-03-01"
    folder.mkdir()
    pq.write_table(pa.table({"Time": ["10:00", "10:01"], "x": [1.0, 2.0]}), folder / "a.parquet")
    times, reasons = read(str(folder / "a.parquet"))
    assert (times, reasons) == ([ns(datetime(2026, 3, 1, 10, at)) for at in (0, 1)], [])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"time": ("a", "b", "c")}, "one column, or those of date and time of day"),
        ({"time": ("a", "b"), "time_unit": "ms"}, "have no unit"),
    ],
)
def test_what_two_columns_cannot_be(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        ColumnOptions(**options)


def test_two_columns_that_are_not_there_or_no_times(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"Date": ["2026-03-01"], "Time": [True], "x": [1.0]}), path)
    info = inspect(str(path), FormatOptions())
    with pytest.raises(ConfigError, match="time = 'Time': must be a column of times of day"):
        resolve([info], ColumnOptions(time=TIMES))
    with pytest.raises(ConfigError, match=r"'Hour': must be a column"):
        resolve([info], ColumnOptions(time=("Date", "Hour")))
    with pytest.raises(ConfigError, match="another column than time"):
        resolve([info], ColumnOptions(time=("Date", "Date")))
