"""The look at the first rows: what it refuses, what it warns of, and what it leaves alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.time_units import UNITS
from pipelines.files.first_look import look_and_warn, look_at
from transforms.read.column_options import with_mode
from transforms.read.columns import ColumnOptions, resolve
from transforms.read.formats import FormatOptions, inspect

N = 400
NOISE = np.random.default_rng(3).normal(size=N)
MOMENTS = [datetime(2024, 3, 1) + timedelta(hours=7 * i, microseconds=1000 * i) for i in range(N)]


def look(
    path: Path,
    columns: dict[str, Any],
    formats: dict[str, Any] | None = None,
    named: Sequence[str] = (),
) -> list[str]:
    info = inspect(str(path), FormatOptions(**(formats or {})))
    return look_at([info], resolve([info], ColumnOptions(**columns)), named).warnings


def csv(path: Path, names: str, *columns: Any, mark: str = ",") -> Path:
    lines = [mark.join(map(str, row)) for row in zip(*columns, strict=True)]
    path.write_text("\n".join([names, *lines]) + "\n", encoding="utf-8")
    return path


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    ("form", "suggested"),
    [
        ("%d.%m.%Y %H:%M:%S", "--time-format '%d.%m.%Y %H:%M:%S'"),
        ("%d.%m.%y %H:%M", "--time-format '%d.%m.%y %H:%M'"),
        ("%d.%m.%Y, %H:%M:%S", "--time-format '%d.%m.%Y, %H:%M:%S'"),
        ("%d/%m/%Y %H:%M:%S", "--time-format '%d/%m/%Y %H:%M:%S'"),
        ("%m/%d/%Y %I:%M:%S %p", "--time-format '%m/%d/%Y %I:%M:%S %p'"),
        ("%m/%d/%Y", "--time-format %m/%d/%Y"),
        ("%Y/%m/%d %H:%M:%S.%f", "--time-format '%Y/%m/%d %H:%M:%S.%f'"),
        ("%Y.%m.%d %H:%M:%S,%f", "--time-format '%Y.%m.%d %H:%M:%S,%f'"),
        ("%d-%b-%y %H:%M:%S", "--time-format '%d-%b-%y %H:%M:%S'"),
        ("%b %d %Y %I:%M%p", "--time-format '%b %d %Y %I:%M%p'"),
        ("%a, %d %b %Y %H:%M:%S GMT", "--time-format '%a, %d %b %Y %H:%M:%S %Z'"),
        ("%a %b %d %H:%M:%S CET %Y", "--time-format '%a %b %d %H:%M:%S %Z %Y'"),
        ("%Y%m%d %H%M%S", "--time-format '%Y%m%d %H%M%S'"),
        ("%d %b %Y %H:%M:%S", "--time-format '%d %b %Y %H:%M:%S'"),
        ("%d.%m.%Y %H:%M:%S +0100", "--time-format '%d.%m.%Y %H:%M:%S %z'"),
        ("%a %b %d %H:%M:%S %Y", "--time-format '%a %b %d %H:%M:%S %Y'"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_times_of_a_usual_format_name_it(
    form: str, suggested: str, ending: str, tmp_path: Path
) -> None:
    texts = [moment.strftime(form) for moment in MOMENTS]
    if ending == "csv":
        path = csv(tmp_path / "a.csv", "t|x", texts, NOISE, mark="|")
    else:
        path = parquet(tmp_path / "a.parquet", t=texts, x=NOISE)
    formats = {"delimiter": "|"}
    with pytest.raises(DataError) as caught:
        look(path, {"time": "t"}, formats)
    output_text = f"{path}: the times of t, such as {texts[0]!r}, are not ISO 8601: try {suggested}"
    assert str(caught.value) == output_text
    # What is suggested does read them.
    form = suggested.removeprefix("--time-format ").strip("'")
    assert look(path, {"time": "t", "time_format": form}, formats) == []


def test_a_day_or_a_month_is_asked_for(tmp_path: Path) -> None:
    texts = [f"{1 + i % 12:02d}/03/2024 10:00" for i in range(N)]
    path = parquet(tmp_path / "a.parquet", t=texts, x=NOISE)
    with pytest.raises(DataError) as caught:
        look(path, {"time": "t"})
    assert str(caught.value) == (
        f"{path}: the times of t, such as '01/03/2024 10:00', are not ISO 8601: try --time-format "
        "'%d/%m/%Y %H:%M' or --time-format '%m/%d/%Y %H:%M' (no day is above 12: which is meant?)"
    )
    with pytest.raises(DataError, match=r"are not '%Y/%m/%d': try --time-format '%d/%m/%Y %H:%M'"):
        look(path, {"time": "t", "time_format": "%Y/%m/%d"})


def counted(unit: str) -> list[Any]:
    """The moments in a unit."""
    since = [moment - datetime(1970, 1, 1) for moment in MOMENTS]
    known = UNITS[unit]
    if known.nanoseconds >= 10**9:
        each = timedelta(microseconds=known.nanoseconds // 1000)
        return [
            round((span + timedelta(microseconds=known.shift // 1000)) / each + known.epoch, 9)
            for span in since
        ]
    return [
        span // timedelta(microseconds=1) * 1000 // known.nanoseconds + known.epoch
        for span in since
    ]


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit not in ("s", "excel1904")])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_numbers_of_another_unit_name_it(unit: str, ending: str, tmp_path: Path) -> None:
    if ending == "csv":
        path = csv(tmp_path / "a.csv", "t,x", counted(unit), NOISE)
    else:
        path = parquet(tmp_path / "a.parquet", t=counted(unit), x=NOISE)
    with pytest.raises(DataError, match=rf"--time-unit {unit} \(2024-03-01 00:00:00\)"):
        look(path, {"time": "t"})
    assert look(path, {"time": "t", "time_unit": unit}) == []
    if unit in ("excel", "matlab", "julian", "labview", "ntp"):
        with pytest.raises(DataError, match=r"or --time-unit s if that is right$"):
            look(path, {"time": "t"})
        assert look(path, {"time": "t", "time_unit": "s"}) == []


@pytest.mark.parametrize("form", ["%Y%m%d", "%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S"])
@pytest.mark.parametrize("kind", ["csv", "int", "float", "text"])
def test_digits_of_a_calendar_name_its_format(form: str, kind: str, tmp_path: Path) -> None:
    texts = [moment.strftime(form) for moment in MOMENTS]
    values = {
        "csv": texts,
        "int": [int(text) for text in texts],
        "float": [float(text) for text in texts],
        "text": texts,
    }[kind]
    if kind == "csv":
        path = csv(tmp_path / "a.csv", "t,x", values, NOISE)
    else:
        path = parquet(tmp_path / "a.parquet", t=values, x=NOISE)
    with pytest.raises(DataError, match=rf"try --time-format {form} \(2024-03-01 00:00:00\)"):
        look(path, {"time": "t"})
    assert look(path, {"time": "t", "time_format": form}) == []


@pytest.mark.parametrize(
    "times",
    [
        range(N),
        np.arange(N) / 50 + 8.38,
        np.arange(N) * 60 - 5000,
        1_700_000_000 + np.arange(N),
        1_700_000_000.25 + np.arange(N),
        [0, *(1_700_000_000 + np.arange(1, N))],
    ],
)
def test_seconds_are_taken_for_seconds(times: Any, tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "t,x", times, NOISE)
    assert look(path, {"time": "t"}) == []


def test_seconds_of_a_far_year_are_asked_for(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "t,x", 5_000_000_000 + np.arange(N), NOISE)
    with pytest.raises(DataError, match=r"2128-06-11 08:53:20 in seconds since 1970: try --time-u"):
        look(path, {"time": "t"})
    assert look(path, {"time": "t", "time_unit": "s"}) == []


def test_times_written_in_two_ways_are_named(tmp_path: Path) -> None:
    texts = [moment.isoformat() + ("Z" if at % 2 else "") for at, moment in enumerate(MOMENTS)]
    path = parquet(tmp_path / "a.parquet", t=texts, x=NOISE)
    output_text = (
        "t: some times name their zone, others do not: these are taken for UTC (--time-zone)"
    )
    assert look(path, {"time": "t"}) == [output_text]
    assert look(path, {"time": "t", "time_zone": "Asia/Tokyo"}) == []
    texts = [moment.isoformat() for moment in MOMENTS]
    texts[5] = "1700000000"
    path = parquet(tmp_path / "b.parquet", t=texts, x=NOISE)
    assert look(path, {"time": "t"}) == [
        "t: numbers, such as '1700000000', among other times: they are read as seconds since 1970"
    ]


@pytest.mark.parametrize(
    ("form", "minutes", "asks"),
    [
        ("%Y-%m-%dT%I:%M", 2, True),
        ("%Y-%m-%dT%H:%M", 2, False),
        ("%Y-%m-%dT%I:%M", 0, False),
    ],
)
def test_a_clock_of_twelve_hours_is_asked_for(
    form: str, minutes: int, asks: bool, tmp_path: Path
) -> None:
    begin = datetime(2026, 3, 1, 9)
    texts = [(begin + timedelta(minutes=minutes * row)).strftime(form) for row in range(300)]
    path = parquet(tmp_path / "a.parquet", t=texts, x=np.arange(300) % 7 + 0.5)
    output_text = look(path, {"time": "t"})
    assert [line for line in output_text if "clock of 12 hours" in line] == output_text[: int(asks)]


def test_a_job_without_a_time_that_can_be_read_ends(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", t=["soon"] * N, x=NOISE)
    with pytest.raises(DataError) as caught:
        look(path, {"time": "t"})
    assert str(caught.value) == (
        f"{path}: the times of t, such as 'soon', cannot be read: no time in the years 1685 to "
        "2255 (--time-format and --time-unit say how they are written)"
    )
    zoned = [f"{moment} IST" for moment in MOMENTS]
    path = parquet(tmp_path / "b.parquet", t=zoned, x=NOISE)
    with pytest.raises(
        DataError, match=r"read: IST is no time zone, or several \(--time-zone says"
    ):
        look(path, {"time": "t"})
    assert look(path, {"time": "t", "time_zone": "Asia/Kolkata"}) == []


def test_days_that_python_has_no_date_for_end_it(tmp_path: Path) -> None:
    days = pa.array([2**31 - 1] * N, pa.int32()).cast(pa.date32())
    with pytest.raises(DataError, match="2147483647"):
        look(parquet(tmp_path / "a.parquet", a=NOISE, t=days), {"time": "t"})


def test_local_times_that_come_twice_are_no_other_format(tmp_path: Path) -> None:
    texts = [f"2024-10-27 02:{i % 60:02d}:00" for i in range(N)]
    path = parquet(tmp_path / "a.parquet", t=texts, x=NOISE)
    assert look(path, {"time": "t", "time_zone": "Europe/Berlin"}) == []


def test_some_bad_times_are_left_to_the_failures(tmp_path: Path) -> None:
    texts = [moment.isoformat() for moment in MOMENTS]
    texts[: N // 2] = [moment.strftime("%d.%m.%Y %H:%M") for moment in MOMENTS[: N // 2]]
    assert look(parquet(tmp_path / "a.parquet", t=texts, x=NOISE), {"time": "t"}) == [
        "t: 200 of the first 400 rows have a time that cannot be read, such as '01.03.2024 00:00': "
        "is it written in more than one way?"
    ]
    some = [moment.isoformat() for moment in MOMENTS]
    some[7:9] = ["", ""]
    assert look(parquet(tmp_path / "c.parquet", t=some, x=NOISE), {"time": "t"}) == [
        "t: missing in 2 of the first 400 rows"
    ]
    assert look(parquet(tmp_path / "d.parquet", t=[""] * N, x=NOISE), {"time": "t"}) == [
        "t: none of the first 400 rows has a time"
    ]
    # Rows without a time say nothing of the format.
    rare: list[str | None] = [None, *(["02.03.2024 10:00", None, ""] * 133)]
    with pytest.raises(DataError, match=r"such as '02.03.2024 10:00'.*try --time-format '%d.%m.%Y"):
        look(parquet(tmp_path / "b.parquet", t=rare, x=NOISE), {"time": "t"})


@pytest.mark.parametrize("features", [["x", "state"], ["*"]])
def test_a_text_column_named_as_a_feature_is_refused(features: list[str], tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "x,state", NOISE, ["walk", "run", "sit", "walk"] * (N // 4))
    with pytest.raises(ConfigError) as caught:
        look(path, {"features": features})
    assert str(caught.value) == (
        "--features = 'state': must be a column of numbers: in the first rows of "
        f"{path} it holds texts such as 'walk' (leave it out, or is it the --label?)"
    )


def test_a_column_of_mostly_texts_is_left_to_the_failures(tmp_path: Path) -> None:
    values = ["-"] * N
    values[3] = "5"
    path = csv(tmp_path / "a.csv", "x,rate", NOISE, values)
    assert look(path, {"features": ["x", "rate"]}) == []


def test_decimal_commas_are_told(tmp_path: Path) -> None:
    commas = [f"{value:.3f}".replace(".", ",") for value in NOISE]
    path = csv(tmp_path / "a.csv", "x;y z;n", commas, commas, range(5, 5 + N), mark=";")
    formats = {"delimiter": ";"}
    assert look(path, {}, formats) == [
        "x, y z: left out, but numbers with the decimal mark ',' (--decimal ,)",
        GOES.replace("c", "n", 1).removesuffix("c)") + "n)",
    ]
    with pytest.raises(ConfigError, match=r"^--features = 'x': .*such as '1?.*' \(try --decimal ,"):
        look(path, {"features": ["x"]}, formats)
    with pytest.raises(ConfigError, match=r"^decimal = '\.': must be ',' to read numbers in x of "):
        look(path, {"exclude": ["n"]}, formats)
    assert look(path, {"exclude": ["n"]}, {**formats, "decimal": ","}) == []


def steps(*values: float, times: int) -> npt.NDArray[np.float64]:
    return np.resize(np.repeat(values, times), N)


BOTH = "(--time, --sequence or --exclude c)"
CLASS = "(--model-id, --label or --exclude c)"
GOES = (
    "c: goes only one way in the first 400 rows, like a counter, an index or a time, but taken as "
    f"a channel {BOTH}"
)
BLOCKS = (
    f"c: small whole numbers in long blocks, like a class or an id, but taken as a channel {CLASS}"
)
CONSTANT = "c: the same value in the first 400 rows, but taken as a channel (--exclude c)"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (np.arange(N), GOES),
        (np.arange(N)[::-1] * 3, GOES),
        (np.arange(N) // 30, GOES),
        (1_700_000_000 + np.arange(N) / 50, GOES),
        (np.sqrt(np.arange(N)), GOES),
        # A measurement that rises but now and then stays, and one that turns once.
        (np.floor(np.arange(N) / 7) / 3, None),
        (np.abs(np.arange(N) - 300), None),
        (np.sort(NOISE.round(2)), None),
        (NOISE, None),
        (NOISE.round(), None),
        (steps(1, 3, 2, 0, times=40), BLOCKS),
        (steps(True, False, times=100), BLOCKS),
        (steps(1, 3, 2, 0, times=2), None),
        # A slow heart rate, and signed steps.
        (steps(71, 72, 71, 70, times=40), None),
        (steps(1, -1, times=40), None),
        (np.full(N, 7.5), CONSTANT),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_that_may_be_no_feature(
    values: npt.NDArray[Any], says: str | None, ending: str, tmp_path: Path
) -> None:
    if ending == "csv":
        path = csv(tmp_path / "a.csv", "x,c", NOISE, values.tolist())
    else:
        path = parquet(tmp_path / "a.parquet", x=NOISE, c=values)
    assert look(path, {}) == ([] if says is None else [says])
    # Whoever names it means it.
    assert look(path, {"features": ["x", "c"]}) == []
    assert look(path, {"exclude": ["c"]}) == []


def test_a_counter_of_each_model_is_seen_where_they_interleave(tmp_path: Path) -> None:
    models, order = np.arange(N) % 3, np.arange(N) // 3
    path = parquet(tmp_path / "a.parquet", m=models, x=NOISE, c=order * 10 - models)
    assert look(path, {}) == []
    (line,) = look(path, {"model_id": "m", "time": "x"})
    assert line == GOES.replace("--time, ", "")


@pytest.mark.parametrize(
    ("names", "flagged"),
    [
        ("id,x", "id"),
        ("x,ID,activityID,subject_id,humid,grid", "ID, activityID, subject_id"),
        (
            "Target,x,label,class,the class,classes,outcome",
            "Target, label, class, the class, outcome",
        ),
        ("f0,f1,y", "y"),
        (
            "device,unit_number,Machine No,serial,device_temp,sensor,engine,units,user_load",
            "device, unit_number, Machine No, serial",
        ),
        ("x,y,z", ""),
        ("y,z", ""),
        ("ax,ay,az", ""),
    ],
)
def test_names_of_ids_and_targets(names: str, flagged: str, tmp_path: Path) -> None:
    count = len(names.split(","))
    path = csv(tmp_path / "a.csv", names, *[NOISE] * count)
    lines = look(path, {})
    if not flagged:
        assert lines == []
        return
    taken = "channels" if "," in flagged else "a channel"
    excluded = " ".join(f"'{name}'" if " " in name else name for name in flagged.split(", "))
    assert lines == [
        f"{flagged}: named like an id or a target, but taken as {taken} "
        f"(--model-id, --label or --exclude {excluded})"
    ]


def test_each_column_gets_one_line_and_lines_are_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = {f"k{i}": np.ones(N) for i in range(20)}
    path = parquet(tmp_path / "a.parquet", id=np.arange(N), n=np.arange(N), x=NOISE, **many)
    info = inspect(str(path))
    warnings = look_and_warn([info], resolve([info], ColumnOptions())).warnings
    assert [line.partition(":")[0] for line in warnings] == [
        "id",
        "n",
        ", ".join(f"k{i}" for i in range(12)) + " and 8 more",
    ]
    assert capsys.readouterr().out == "".join(f"warning:  {line}\n" for line in warnings)


def test_of_few_rows_only_names_tell(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", id=[1, 2, 3], n=[1, 2, 3], k=[1, 1, 1])
    assert [line.partition(":")[0] for line in look(path, {})] == ["id"]


def test_without_rows_nothing_is_said(tmp_path: Path) -> None:
    path = parquet(
        tmp_path / "a.parquet", x=pa.array([], pa.float64()), t=pa.array([], pa.string())
    )
    assert look(path, {"time": "t"}) == []
    path = tmp_path / "a.csv"
    path.write_text("t,x\n")
    assert look(path, {"time": "t", "features": ["x"]}) == []
    with pytest.raises(ConfigError, match=r"features = None: must be named: no row says which"):
        look(path, {})


def test_the_first_file_with_rows_is_looked_at(tmp_path: Path) -> None:
    empty = inspect(str(parquet(tmp_path / "a.parquet", c=pa.array([], pa.int64()))))
    full = inspect(str(parquet(tmp_path / "b.parquet", c=np.arange(N))))
    columns = resolve([empty, full], ColumnOptions())
    assert look_at([empty, full], columns).warnings[1:] == [GOES]


def test_no_more_than_the_first_rows_count(tmp_path: Path) -> None:
    values = np.concatenate([np.ones(20_000), np.random.default_rng(1).normal(size=500)])
    for path in (
        parquet(tmp_path / "a.parquet", c=values),
        csv(tmp_path / "a.csv", "c,e", values, values),
    ):
        (line,) = look(path, {})
        assert re.search(r"the same value in the first 20,000 rows", line), line
        assert look(path, {}, named=["c", "e"]) == []


def test_one_value_is_said_of_as_many_rows_of_each_device(tmp_path: Path) -> None:
    """A file in the order of time: its first rows are a night, in which machines stand still."""
    for devices, told in ((30, False), (10, True)):
        count = 20_000
        path = parquet(
            tmp_path / f"{devices}.parquet",
            device=np.resize([f"m{n}" for n in range(devices)], count + 1),
            still=np.append(np.zeros(count), 1.0),
            x=np.random.default_rng(2).normal(size=count + 1),
        )
        lines = look(path, {"model_id": "device"})
        said = ["the same value in the first 20,000 rows" in line for line in lines]
        assert said == [True] * told


def test_the_column_of_modes_is_none_that_was_taken_by_mistake(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", x=NOISE, state=["off"] * N)
    options = with_mode(ColumnOptions(), "state")
    columns = resolve([inspect(str(path))], options)
    assert look_at([inspect(str(path))], columns).warnings == []
    assert columns.modes == ("state",)
    lines = columns.describe().splitlines()
    assert "channels: 1 as float64: x" in lines
    assert "mode:     state: each value names a mode" in lines


def test_drop_that_leaves_little_is_warned_of(tmp_path: Path) -> None:
    holes = {f"x{i}": [None if at == i else 1.0 * at for at in range(N)] for i in range(4)}
    path = parquet(tmp_path / "a.parquet", **holes, **{"y1": NOISE, "y2": NOISE, "y3": NOISE})
    (line,) = look(path, {"missing": "drop"})
    assert line.startswith("--missing drop leaves 3 of 7 channels")
    assert "(x0, x1, x2, x3)" in line
    assert look(path, {"missing": "drop", "exclude": ("x3",)}) == []


ALIKE = "are models of their own"
ROUNDED = "is a number as spreadsheets round it"


@pytest.mark.parametrize(
    ("ids", "wanted"),
    [
        (["n1", "n1 "], ["id: 'n1' and 'n1 ' differ", ALIKE]),
        (["Pump", "pump"], [ALIKE]),
        (["007", "7", "07"], ["'007' and '7' (and 1 more) differ", ALIKE]),
        (["caf\u00e9", "cafe\u0301"], [ALIKE]),
        (["a\u00a0b", "a b"], [ALIKE]),
        (["8.01E+14", "8.02E+14"], ["id: '8.01E+14' " + ROUNDED]),
        (["0", "00"], [ALIKE]),
        (["n1", "n2", "10", "100", "1e5", "E+14", "0", "O", "l", "1"], []),
    ],
)
def test_ids_that_hardly_differ_or_were_rounded(
    ids: list[str], wanted: list[str], tmp_path: Path
) -> None:
    for ending in ("csv", "parquet"):
        path, column = tmp_path / f"a.{ending}", np.resize(ids, N).tolist()
        if ending == "csv":
            csv(path, "id,x", column, NOISE)
        else:
            parquet(path, id=column, x=NOISE)
        output_text = [line for line in look(path, {"model_id": "id"}) if line.startswith("id: ")]
        assert len(output_text) == bool(wanted)
        assert all(text in output_text[0] for text in wanted)


@pytest.mark.parametrize(
    "lines",
    [
        ["id,note,x", *(f'a,"ok\nsecond line",{at}' for at in range(30))],
        ['id,"note,\nin words",x', *(f"a,b,{at}" for at in range(30))],
        ["id,note,x", *(["a,b,1"] * 8 + ['a,"c\nd",2']) * 3],
    ],
)
def test_fields_with_line_ends_ask_for_their_flag(lines: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^multiline = False: must be True for .*a\.csv: fields"):
        look(path, {"model_id": "id"})
    look(path, {"model_id": "id"}, {"multiline": True})


def test_quotes_inside_fields_are_no_line_ends(tmp_path: Path) -> None:
    lines = ["id,size,x", *(f'a,5" pipe,{at % 7}' for at in range(30)), 'a,"open,3', "a,b,4"]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    look(path, {"model_id": "id"})
