"""Columns: the user's options held against files, times of every kind, and the start-up text."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.limits import TIME_LIMIT
from transforms.read.columns import ColumnOptions, Columns, resolve
from transforms.read.formats import FileInfo, FormatOptions, inspect
from transforms.read.parse import parse
from transforms.read.times import to_nanoseconds


def info(path: str = "a.parquet", text: bool = False, **kinds: pa.DataType) -> FileInfo:
    name = "csv" if text else "parquet"
    return FileInfo(path, name, pa.schema(list(kinds.items())), None, (), text=text)


F32, F64, I64, STR = pa.float32(), pa.float64(), pa.int64(), pa.string()
SENSOR = {
    "id": STR,
    "t": pa.timestamp("ms"),
    "seq": I64,
    "ax": F32,
    "note": STR,
    "v": pa.list_(F32, 2),
    "act": STR,
}


def roles(columns: Columns) -> tuple[str | None, str | None, str | None, str | None]:
    return columns.model_id, columns.time, columns.sequence, columns.label


def test_the_rest_of_the_numbers_are_features() -> None:
    options = ColumnOptions(model_id="id", time="t", sequence="seq", label="act")
    columns = resolve([info(**SENSOR)], options)
    assert roles(columns) == ("id", "t", "seq", "act")
    assert columns.channels == ("ax", "v[0]", "v[1]")
    assert (columns.width, columns.dtype, columns.label_type) == (3, "float32", STR)
    assert columns.left_out == (("note", "not numbers (string)"),)
    assert columns.describe().splitlines() == [
        "device:   id",
        "time:     t",
        "sequence: seq",
        "label:    act (string)",
        "channels: 3 as float32: ax, v[0], v[1]",
        "missing:  rows with a missing value go to the failures",
        "left out: note: not numbers (string)",
    ]
    assert pickle.loads(pickle.dumps(columns)) == columns


def test_an_id_and_a_target_that_slip_in_are_shown() -> None:
    columns = resolve([info(subject=I64, x=F64, target=F64)], ColumnOptions())
    assert roles(columns) == (None, None, None, None)
    assert columns.describe().splitlines() == [
        "device:   none (one device, called 'all')",
        "time:     none (file and row number are the order)",
        "sequence: none (file and row number decide)",
        "label:    none",
        "channels: 3 as float64: subject, x, target",
        "missing:  rows with a missing value go to the failures",
    ]


def test_features_by_name_and_pattern() -> None:
    kinds = dict.fromkeys(["b1", "a2", "b2", "a1", "c", "d?"], F64)
    columns = resolve([info(**kinds)], ColumnOptions(features=["c", "a*", "d?"], exclude=["a2"]))
    assert columns.channels == ("c", "a1", "d?")
    assert columns.left_out == (
        ("b1", "not in --features"),
        ("a2", "excluded"),
        ("b2", "not in --features"),
    )
    assert resolve([info(**kinds)], ColumnOptions(exclude=["?[12]"])).channels == ("c", "d?")


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (pa.bool_(), "float32"),
        (pa.int8(), "float32"),
        (pa.uint16(), "float32"),
        (pa.float16(), "float32"),
        (pa.list_(pa.uint8(), 4), "float32"),
        (pa.dictionary(pa.int8(), F32), "float32"),
        (pa.int32(), "float64"),
        (pa.uint64(), "float64"),
        (F64, "float64"),
        (pa.decimal128(5, 2), "float64"),
        (pa.list_(F64, 4), "float64"),
    ],
)
def test_float32_only_if_every_feature_is_exact(kind: pa.DataType, dtype: str) -> None:
    assert resolve([info(a=F32, b=kind)], ColumnOptions()).dtype == dtype
    assert resolve([info(a=F32, b=F32), info("b", a=F32, b=F32)], ColumnOptions()).dtype == (
        "float32"
    )
    assert resolve([info(a=F32), info("b", a=F64)], ColumnOptions()).dtype == "float64"


def test_text_is_parsed_as_what_it_is_for() -> None:
    kinds = {"id": I64, "t": I64, "n": I64, "x": I64, "flag": pa.bool_(), "y": pa.null()}
    options = ColumnOptions(
        model_id="id", time="t", time_unit="ms", sequence="n", features=["x", "flag", "y"]
    )
    columns = resolve([info(text=True, **kinds)], options)
    assert columns.requests == {
        "id": STR,
        "t": STR,
        "n": I64,
        "x": F64,
        "flag": pa.bool_(),
        "y": F64,
    }
    seconds = ColumnOptions(time="t", features=["x"])
    assert resolve([info(text=True, **kinds)], seconds).requests["t"] == STR
    mixed = [info(text=True, t=I64, x=I64), info("b", text=True, t=STR, x=F64)]
    assert resolve(mixed, ColumnOptions(time="t")).requests == {"t": STR, "x": F64}


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ([I64], I64),
        ([pa.bool_()], I64),
        ([pa.uint8(), I64], I64),
        ([I64, F32], F64),
        ([I64, STR], STR),
        ([pa.null(), I64], I64),
        ([pa.null()], STR),
        ([pa.dictionary(pa.int8(), STR)], STR),
    ],
)
def test_label_types(kinds: list[pa.DataType], expected: pa.DataType) -> None:
    infos = [info(f"{i}", x=F64, y=kind) for i, kind in enumerate(kinds) if kind != pa.null()]
    infos += [info("t", text=True, x=F64, y=kind) for kind in kinds if kind == pa.null()]
    assert resolve(infos, ColumnOptions(label="y")).label_type == expected
    assert resolve(infos, ColumnOptions(label="y", label_type="string")).label_type == STR


@pytest.mark.parametrize(
    ("kinds", "options", "request_type", "label_type"),
    [
        ([pa.bool_()], {}, pa.bool_(), I64),
        ([pa.bool_(), I64], {}, pa.bool_(), I64),
        ([pa.null(), pa.bool_()], {}, pa.bool_(), I64),
        ([pa.bool_()], {"label_type": "float64"}, pa.bool_(), F64),
        ([pa.bool_()], {"label_type": "string"}, STR, STR),
        ([pa.bool_(), STR], {}, STR, STR),
    ],
)
def test_true_and_false_in_text_are_labels(
    kinds: list[pa.DataType],
    options: dict[str, Any],
    request_type: pa.DataType,
    label_type: pa.DataType,
) -> None:
    infos = [info(f"{i}", text=True, x=F64, y=kind) for i, kind in enumerate(kinds)]
    columns = resolve(infos, ColumnOptions(label="y", **options))
    assert (columns.requests["y"], columns.label_type) == (request_type, label_type)


def test_true_and_false_are_read_alike_from_text_and_from_types(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,True\n2,false\n3,\n4,TRUE\n5,0\n6,maybe\n")
    typed = pa.table({"x": np.arange(1.0, 6.0), "y": [True, False, None, True, False]})
    pq.write_table(typed, tmp_path / "a.parquet")
    for kind, expected in ((None, [1, 0, None, 1, 0]), ("float64", [1.0, 0.0, None, 1.0, 0.0])):
        for name in ("a.csv", "a.parquet"):
            found = inspect(str(tmp_path / name))
            if found.text:
                # The look at the whole small file sees a word; that at the first rows would not.
                found = dataclasses.replace(
                    found, schema=pa.schema([("x", F64), ("y", pa.bool_())])
                )
            columns = resolve([found], ColumnOptions(label="y", label_type=kind))
            (piece,) = found.pieces
            rows = piece.first(columns.requests, 100)
            assert rows is not None
            good, failures = parse(rows, 0, columns)
            assert good.label is not None and good.label.to_pylist() == expected
            reasons = failures.batch.column("reason").to_pylist()
            assert reasons == (["y = 'maybe': neither true nor false"] if found.text else [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_id": "ID"}, r"model_id = 'ID': must be a column \(did you mean 'id'\?\) of a.par"),
        ({"time": "zzz"}, "time = 'zzz': must be a column: id, t, seq, ax, note, v, act of a.par"),
        ({"label": "akt"}, r"label = 'akt': must be a column \(did you mean 'act'\?\)"),
        ({"features": ["ay"]}, r"features = 'ay': must be a column \(did you mean 'ax'\?\)"),
        ({"features": ["w*"]}, r"features = 'w\*': must be a column: id, t, seq"),
        ({"exclude": ["vv"]}, "exclude = 'vv': must be a column"),
        (
            {"features": ["note"]},
            "features = 'note': must be a column of numbers; in a.parq",
        ),
        ({"features": ["t"], "time": "t"}, "features = 't': must be no column with another"),
        ({"model_id": "ax"}, "model_id = 'ax': must be a column of texts or whole numbers; in a"),
        ({"time": "v"}, "time = 'v': must be a column of times, numbers or texts; in a.parquet"),
        ({"sequence": "note"}, "sequence = 'note': must be a column of whole numbers; in a.par"),
        ({"label": "v"}, "label = 'v': must be a column of texts or numbers; in a.parquet"),
        ({"model_id": "id", "label": "id"}, "model_id = 'id': must be another column than label"),
        ({"exclude": ["ax", "v", "seq"]}, "features = None: must be a choice that leaves a column"),
    ],
)
def test_wrong_columns(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve([info(**SENSOR)], ColumnOptions(**options))


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"time_unit": "min"}, "time_unit"),
        ({"time_zone": "Mars/Olympus"}, "time_zone"),
        ({"time_ambiguous": "raise"}, "time_ambiguous"),
        ({"time_nonexistent": "infer"}, "time_nonexistent"),
        ({"time_format": "%Q"}, "time_format"),
        ({"time_format": "Y-m-d"}, "time_format"),
        ({"label_type": "int"}, "label_type"),
        ({"missing": "ignore"}, "missing"),
        ({"features": "ax"}, "features"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ColumnOptions(**options)
    assert caught.value.field == field


def test_files_that_disagree() -> None:
    with pytest.raises(DataError, match=r"b: no column 'y', which a.parquet has"):
        resolve([info(x=F64, y=F64), info("b", x=F64)], ColumnOptions())
    with pytest.raises(DataError, match=r"b: no column 't', which a.parquet has"):
        resolve([info(x=F64, t=I64), info("b", x=F64)], ColumnOptions(time="t"))
    with pytest.raises(ConfigError, match=r"features = 'x': .* in b it is string"):
        resolve([info(x=F64), info("b", x=STR)], ColumnOptions())
    with pytest.raises(DataError, match=r"b: column 'x' is .* unlike in a.parquet"):
        resolve([info(x=pa.list_(F64, 2)), info("b", x=pa.list_(F64, 3))], ColumnOptions())
    columns = resolve([info(x=F64), info("b", z=F64, x=F64)], ColumnOptions())
    assert columns.left_out == (("z", "not in a.parquet"),)
    # A text file whose first block says nothing, or something else, about a column goes along.
    files = [info(x=F64), info("b", text=True, x=pa.null()), info("c", text=True, x=STR)]
    assert resolve(files, ColumnOptions()).requests == {"x": F64}


def test_sparse_text_is_as_wide_as_its_widest_file(tmp_path: Path) -> None:
    infos = []
    for name, text in (("a.libsvm", "1 2:1\n"), ("b.libsvm", "1 5:1\n")):
        (tmp_path / name).write_text(text)
        infos.append(inspect(str(tmp_path / name)))
    columns = resolve(infos, ColumnOptions())
    assert columns.channels == ("x[0]", "x[1]", "x[2]", "x[3]", "x[4]")
    assert columns.requests == {"label": F64, "x": pa.list_(F64, 5)}
    assert columns.label == "label"
    unlabelled = resolve(infos, ColumnOptions(label=""))
    assert (unlabelled.label, unlabelled.channels) == (None, ("label", *columns.channels))


def test_pamap2_needs_no_option(tmp_path: Path) -> None:
    path = tmp_path / "subject101.dat"
    path.write_text(" ".join(["1"] * 54) + "\n")
    columns = resolve([inspect(str(path))], ColumnOptions())
    assert roles(columns) == (None, "time", None, "activity_id")
    assert columns.width == 54 - 3 - 3 * 4
    assert dict(columns.left_out)["heart_rate"] == "measured at 9 Hz, missing in most rows"
    assert (
        "heart_rate"
        in resolve([inspect(str(path))], ColumnOptions(features=["heart_rate"])).channels
    )


def test_channels_with_a_missing_value_are_dropped(tmp_path: Path) -> None:
    vectors = [[1.0, 2.0, 3.0], [1.0, float("nan"), 3.0], [1.0, 2.0, 3.0]]
    first = pa.table(
        {
            "a": [1.0, 2.0, 3.0],
            "b": [1.0, None, 3.0],
            "v": pa.array(vectors, pa.list_(F64, 3)),
            "n": pa.array([1, 2, 3]),
        }
    )
    pq.write_table(first, tmp_path / "1.parquet")
    second = first.set_column(3, "n", pa.array([1, None, 3])).set_column(
        1, "b", pa.array([1.0, 2.0, 3.0])
    )
    pq.write_table(second, tmp_path / "2.parquet")
    infos = [inspect(str(tmp_path / f"{i}.parquet")) for i in (1, 2)]
    columns = resolve(infos, ColumnOptions(missing="drop"))
    assert columns.channels == ("a", "v[0]", "v[2]")
    assert columns.left_out == tuple((name, "has missing values") for name in ("b", "v[1]", "n"))
    assert list(columns.requests) == ["a", "v"]
    assert "left out: b, v[1], n: has missing values" in columns.describe()
    with pytest.raises(ConfigError, match="missing = 'drop': must be 'fail' or 'hold'"):
        resolve(infos, ColumnOptions(missing="drop", features=["b", "n"]))


def test_real_channels_with_a_missing_value(data_file: Callable[[str], Path]) -> None:
    path = str(data_file("pamap2_fragment.parquet"))
    columns = resolve([inspect(path)], ColumnOptions(time="timestamp", missing="drop"))
    table = pq.read_table(path)
    whole = [
        name
        for name in table.column_names
        if name != "timestamp" and np.isfinite(table[name].to_numpy()).all()
    ]
    assert columns.channels == tuple(whole)


# Times -----------------------------------------------------------------------------------------

S = 1_000_000_000


def convert(values: pa.Array, **options: Any) -> list[int | None]:
    numbers, bad, _ = to_nanoseconds(values, **options)
    assert numbers.dtype == np.int64
    assert (numbers[bad] == 0).all()
    return [None if gone else int(n) for n, gone in zip(numbers, bad, strict=True)]


@pytest.mark.parametrize(
    ("values", "unit", "expected"),
    [
        (pa.array([0, 1, -1, None]), "s", [0, S, -S, None]),
        (pa.array([1_500_000_000_123]), "ms", [1_500_000_000_123_000_000]),
        (pa.array([TIME_LIMIT, TIME_LIMIT + 1, -(2**63)]), "ns", [TIME_LIMIT, None, None]),
        (pa.array([TIME_LIMIT // S + 1, 2**62]), "s", [None, None]),
        (pa.array([2**64 - 1, 5], pa.uint64()), "us", [None, 5000]),
        (pa.array([7], pa.int8()), "us", [7000]),
        (pa.array([0.1, 8.38, 1e300, float("nan"), float("inf"), None]), "s",
         [100_000_000, 8_380_000_000, None, None, None, None]),
        (pa.array([0.5], F32), "ms", [500_000]),
        (pa.array([decimal.Decimal("1.25")]), "s", [1_250_000_000]),
        (pa.array([1, None], pa.timestamp("us")), "s", [1000, None]),
        (pa.array([2**62], pa.timestamp("s")), "s", [None]),
        (pa.array([3], pa.timestamp("ms", "Asia/Tokyo")), "s", [3_000_000]),
        (pa.array([datetime.date(1970, 1, 2), None]), "s", [86_400 * S, None]),
        (pa.array([5], pa.duration("ms")), "s", [5_000_000]),
        (pa.array([1, None, 1]).dictionary_encode(), "s", [S, None, S]),
        (pa.array([], F64), "s", []),
        (pa.array([], STR), "s", []),
    ],
)  # fmt: skip
def test_times_of_every_kind(values: pa.Array, unit: str, expected: list[int | None]) -> None:
    assert convert(values, unit=unit) == expected


def test_iso_texts() -> None:
    texts = [
        "1970-01-01",
        "1970-01-01T00:00:01",
        " 1970-01-01 00:00:01.000000001 ",
        "1970-01-01T00:00:01Z",
        "1970-01-01T01:00:01+01:00",
        "1970-01-01T00:00:01.5-0100",
        "1970-01-01 01:00+01",
        "1970-02-30",
        "1970-01-01T25:00:00",
        "1600-01-01",
        "yesterday",
        "",
        None,
        "1970-01-01T00:00:01.0000000001",
    ]
    expected = [0, S, S + 1, S, S, 3601 * S + S // 2, 0, *[None] * 7]
    assert convert(pa.array(texts)) == expected
    assert convert(pa.array(texts, pa.large_string())) == expected
    assert convert(pa.array(texts).dictionary_encode()) == expected
    assert convert(pa.array([b"\xff", b"1970-01-01"])) == [None, 0]


def test_texts_of_numbers() -> None:
    texts = pa.array(["2", " -1.5 ", "1e2", "1970-01-01", "1700000000123456789", "9" * 19, "nan"])
    expected = [2_000, -1_500, 100_000, 0, None, None, None]
    assert convert(texts, unit="us") == expected
    assert convert(texts, unit="ns")[4] == 1_700_000_000_123_456_789
    assert convert(pa.array(["2"]), unit="ns", time_format="%d.%m.%Y") == [None]


def test_whole_numbers_are_exact_as_floats_too() -> None:
    milliseconds = [1_500_000_000_123, -1_500_000_000_123]
    expected = [1_500_000_000_123_000_000, -1_500_000_000_123_000_000]
    assert convert(pa.array(milliseconds), unit="ms") == expected
    assert convert(pa.array(milliseconds, F64), unit="ms") == expected


def test_zones_are_for_times_that_do_not_say_theirs() -> None:
    zone = "Europe/Berlin"
    texts = pa.array(["2021-07-01T12:00:00", "2021-07-01T12:00:00Z", "2021-01-01T12:00:00"])
    noon, winter = 1_625_140_800 * S, 1_609_502_400 * S
    expected = [noon - 7200 * S, noon, winter - 3600 * S]
    assert convert(texts, zone=zone) == expected
    assert convert(pa.array([noon // S], pa.timestamp("s")), zone=zone) == [noon - 7200 * S]
    assert convert(pa.array([noon // S], pa.timestamp("s", "UTC")), zone=zone) == [noon]
    # Numbers count from 1970 UTC whatever the zone.
    assert convert(pa.array([noon // S]), zone=zone) == [noon]


@pytest.mark.parametrize(
    ("time_format", "text", "expected"),
    [
        ("%d.%m.%Y %H:%M:%S", "02.01.1970 00:00:01", 86_401 * S),
        ("%Y/%m/%d %H:%M:%S.%f", "1970/01/01 00:00:01.5", S + S // 2),
        ("%Y/%m/%d %H:%M:%S.%f", "1970/01/01 00:00:01.123456789", S + 123_456_789),
        ("%d %b %Y %I:%M %p", "02 Jan 1970 01:00 AM", 90_000 * S),
        ("%Y-%m-%dT%H:%M:%S%z", "1970-01-01T01:00:00+0100", 0),
        ("%Y", "2300", None),
        ("%d %b %Y", "02 Jan 2300", None),
        ("%d %b %Y", "02 Jan 0001", None),
        ("%Y-%m-%d", "1970-02-30", None),
        ("%Y-%m-%d", "1970-1-2", 86_400 * S),
        ("[%H:%M] %d*%m*%Y", "[01:00] 02*01*1970", 90_000 * S),
        ("%H %d.%m.%Y", "01 02.01.1970", 90_000 * S),
        ("%Y-%m-%d", "oops", None),
        ("%Y/%m/%d %H:%M:%S.%f", "1970/01/01 00:00:01", None),
    ],
)
def test_formats(time_format: str, text: str, expected: int | None) -> None:
    values = pa.array([text, None, text])
    assert convert(values, time_format=time_format) == [expected, None, expected]


@given(st.lists(st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2250, 1, 1))))
def test_iso_texts_as_python_reads_them(moments: list[datetime.datetime]) -> None:
    epoch = datetime.datetime(1970, 1, 1)
    expected = [(m - epoch) // datetime.timedelta(microseconds=1) * 1000 for m in moments]
    assert convert(pa.array([m.isoformat() for m in moments], STR)) == expected
    assert convert(pa.array([f"{m.isoformat(' ')}Z" for m in moments], STR)) == expected
    texts = pa.array([m.strftime("%d|%m|") + m.isoformat()[:4] for m in moments], STR)
    days = [(datetime.datetime(m.year, m.month, m.day) - epoch).days * 86_400 * S for m in moments]
    assert convert(texts, time_format="%d|%m|%Y") == days


def test_csv_types_follow_the_options(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,x,y\n1,2,3\n")
    info = inspect(str(path), FormatOptions())
    columns = resolve([info], ColumnOptions(model_id="id", label="y"))
    assert columns.requests == {"id": STR, "x": F64, "y": I64}
    assert columns.dtype == "float64"
