"""Long tables: what a row of metric and value is read as."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from pipelines.files.first_look import look_at
from tests.parts import examples
from transforms.chunks import Chunk
from transforms.read.column_options import ColumnOptions
from transforms.read.files import split
from transforms.read.format_options import FormatOptions
from transforms.read.look import Input, look_at_files
from transforms.read.numbers import Numbers, values_of
from transforms.read.parse import parsed_of
from transforms.track.merge import merge_times

LONG = ColumnOptions(model_id="device", time="time", metric="metric", value="value")
Cell = tuple[str, int, str, float]


def written(folder: Path, cells: Sequence[Sequence[Any]], name: str = "long.csv") -> str:
    with (folder / name).open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle, lineterminator="\n").writerows(
            [("device", "time", "metric", "value"), *cells]
        )
    return str(folder / name)


def looked(paths: str | list[str], options: ColumnOptions = LONG, **formats: Any) -> Input:
    return look_at_files(paths, options, FormatOptions(**formats))


def tables_of(found: Input) -> dict[str, Chunk]:
    """Each device's rows as a job comes to them: parts from everywhere in order, then merged."""
    parts: dict[str, list[Chunk]] = defaultdict(list)
    for good, bad in parsed_of(found.infos, found.columns):
        assert bad.batch.num_rows == 0, bad.batch.to_pylist()
        for key, chunk in split([good], found.columns):
            parts[key].append(chunk)
    return {key: merge_times(Chunk.concat(own).in_order()) for key, own in parts.items()}


def failures_in(found: Input) -> list[tuple[str | None, int, str]]:
    return [
        (line["model_id"], line["row"], line["reason"])
        for _, bad in parsed_of(found.infos, found.columns)
        for line in bad.batch.to_pylist()
    ]


@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 999),
    devices=st.integers(1, 3),
    metrics=st.integers(1, 4),
    times=st.integers(1, 12),
    order=st.sampled_from(["time", "device", "metric", "shuffled"]),
    files=st.sampled_from(["one", "each", "pieces"]),
    block=st.sampled_from([64, 1 << 20]),
)
def test_a_long_table_is_the_wide_one(  # noqa: PLR0917 - one for each thing that varies
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    devices: int,
    metrics: int,
    times: int,
    order: str,
    files: str,
    block: int,
) -> None:
    folder, rng = tmp_path_factory.mktemp("long"), np.random.default_rng(seed)
    x = rng.normal(size=(devices, times, metrics))
    x[rng.random(x.shape) < 0.2] = math.nan
    cells: list[Cell] = [
        (f"d{d}", t, f"m{m}", float(x[d, t, m]))
        for t in range(times)
        for d in range(devices)
        for m in range(metrics)
        if not math.isnan(x[d, t, m]) or rng.random() < 0.5
    ]
    keys = {"time": 1, "device": 0, "metric": 2}
    assume(any(not math.isnan(value) for *_, value in cells))
    if order == "shuffled":
        cells = [cells[at] for at in rng.permutation(len(cells))]
    else:
        cells.sort(key=lambda cell: cell[keys[order]])
    named = [(d, t, m, "" if math.isnan(v) else repr(v)) for d, t, m, v in cells]
    groups: dict[int, list[Any]] = defaultdict(list)
    for at, cell in enumerate(named):
        groups[0 if files == "one" else int(cell[0][1:]) if files == "each" else at % 3].append(
            cell
        )
    paths = [written(folder, own, f"{number}.csv") for number, own in sorted(groups.items())]
    options = ColumnOptions(
        model_id="device", time="time", metric="metric", value="value",
        features=[f"m{m}" for m in range(metrics) if any(c[2] == f"m{m}" for c in cells)] or None,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transforms.read.formats.lines.BLOCK_BYTES", block)
        found = tables_of(looked(paths, options))
    expected: dict[str, dict[int, list[float]]] = defaultdict(dict)
    names = list(options.features or ())
    for device, time, metric, value in cells:
        row = expected[device].setdefault(time, [math.nan] * len(names))
        row[names.index(metric)] = value
    assert sorted(found) == sorted(expected)
    for device, rows in expected.items():
        chunk = found[device]
        assert chunk.column("time").tolist() == [t * 10**9 for t in sorted(rows)]
        want = np.array([rows[t] for t in sorted(rows)])
        assert (chunk.column("x").view(np.int64) == want.view(np.int64)).all()


def test_channels_are_the_metrics_with_numbers_in_the_order_of_their_names(tmp_path: Path) -> None:
    cells = [("a", t, m, v) for t in (1, 2) for m, v in (("x", 1), ("mode", "heat"), ("b", 2.5))]
    found = looked(written(tmp_path, [*cells, ("a", 3, "gone", "")]))
    assert found.columns.channels == ("b", "x")
    assert found.columns.left_out == (
        ("gone", "no values"),
        ("mode", "no numbers, but such as 'heat'"),
    )
    assert "metric:   metric, its value in value; rows of one time become one" in found.describe()


def test_named_features_give_the_order_and_leave_the_others_out(tmp_path: Path) -> None:
    cells = [("a", t, m, t) for t in (1, 2) for m in ("x", "y1", "y2", "z")]
    path = written(tmp_path, cells)
    options = ColumnOptions(
        model_id="device", time="time", metric="metric", value="value", features=["z", "y*"]
    )
    found = looked(path, options)
    assert found.columns.channels == ("z", "y1", "y2")
    assert found.columns.left_out == (("x", "not in --features"),)
    (good, _), *_ = parsed_of(found.infos, found.columns)
    assert (good.merged.rows, good.merged.unnamed, good.x.tolist()) == (4, 2, [[1] * 3, [2] * 3])


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"value": None}, "value = None: must be the column of values"),
        ({"metric": None}, "metric = None: must be the column of metrics"),
        ({"missing": "drop"}, "fail or hold with a long table"),
        ({"time": None}, "time = None"),
        ({"features": ["tmp"]}, "features = 'tmp': must be a metric: 'temp'"),
        ({"exclude": ["tmp"]}, "exclude = 'tmp': must be a metric: 'temp'"),
        ({"exclude": ["temp"]}, r"a metric with numbers: 'temp \(excluded\)'"),
        ({"metric": "unit"}, "metric = 'unit'"),
        ({"metric": "value"}, "another column than"),
    ],
)
def test_bad_flags_are_named(tmp_path: Path, changed: dict[str, Any], wrong: str) -> None:
    path = written(tmp_path, [("a", 1, "temp", 2.0)])
    given: dict[str, Any] = {
        **{"model_id": "device", "time": "time", "metric": "metric", "value": "value"},
        **changed,
    }
    with pytest.raises(ConfigError, match=wrong):
        looked(path, ColumnOptions(**given))


def test_too_many_metrics_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, [("a", 1, f"m{number}", 1) for number in range(5_000)])
    with pytest.raises(ConfigError, match="at most 4,096 different names"):
        looked(path)


def test_a_value_that_is_none_fails_by_itself_with_its_device_and_metric(tmp_path: Path) -> None:
    cells = [
        *(("a", 1, "temp", "20.5"), ("a", 1, "door", "open"), ("a", 2, "temp", "1e300")),
        *(("a", 2, "door", "1"), ("a", 2, "", "3"), ("", 2, "temp", "3"), ("a", 3, "temp", "inf")),
        *(("a", 3, "door", "true"), ("a", 4, "door", "0"), ("a", 4, "temp", "n/a")),
    ]
    found = looked(written(tmp_path, cells))
    assert failures_in(found) == [
        ("a", 1, "door = 'open': not a number"),
        ("a", 2, "temp = 1.0000000000000001e+300: magnitude over 1e+100"),
        ("a", 4, "metric = '': no metric"),
        (None, 5, "device = '': no model id (1 to 1024 bytes of UTF-8)"),
        ("a", 6, "temp = inf: not finite"),
    ]
    (good, _), *_ = parsed_of(found.infos, found.columns)
    nan = math.nan
    expected = np.array([[nan, 20.5], [1, nan], [1, nan], [0, nan]])
    assert np.array_equal(good.x, expected, equal_nan=True)


def test_typed_files_are_read_too(tmp_path: Path) -> None:
    table = pa.table(
        {
            "device": pa.array(["a"] * 6).dictionary_encode(),
            "time": pa.array([1, 1, 2, 2, 3, 3], pa.timestamp("s")),
            "metric": pa.array([40001, 40002] * 3),
            "value": pa.array([1.5, 2, 3, None, 5, 6], pa.float32()),
        }
    )
    pq.write_table(table, tmp_path / "long.parquet")
    found = looked(str(tmp_path / "long.parquet"))
    assert (found.columns.channels, found.columns.dtype) == (("40001", "40002"), "float32")
    x = tables_of(found)["a"].column("x")
    assert np.array_equal(x, np.array([[1.5, 2], [3, math.nan], [5, 6]]), equal_nan=True)


@settings(deadline=None)
@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_texts_are_the_numbers_that_they_were_written_as(values: list[float]) -> None:
    texts = [f" {value!r}" for value in values]
    for decimal, own in ((".", texts), (",", [text.replace(".", ",") for text in texts])):
        numbers = Numbers(decimal, ("", "-"))
        for extra in ([], ["on", "-", None, "true"]):
            found, wrong = values_of(pa.array([*own, *extra], pa.string()), numbers)
            assert found[: len(values)].view(np.int64).tolist() == (
                np.array(values).view(np.int64).tolist()
            )
            assert not wrong[: len(values)].any()
            if extra:
                assert wrong[len(values) :].tolist() == [True, False, False, False]
                assert str(found[len(values) :].tolist()) == "[nan, nan, nan, 1.0]"


# Values that are texts -------------------------------------------------------------------------


@settings(max_examples=examples(30))
@given(
    seed=st.integers(0, 999),
    times=st.integers(1, 30),
    marks=st.sampled_from([(".", ""), (".", ","), (",", "."), (",", " ")]),
    order=st.sampled_from(["time", "metric", "shuffled"]),
    typed=st.booleans(),
    block=st.sampled_from([64, 1 << 20]),
)
def test_texts_are_read_as_in_the_wide_table(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    times: int,
    marks: tuple[str, str],
    order: str,
    typed: bool,
    block: int,
) -> None:
    folder, rng = tmp_path_factory.mktemp("texts"), np.random.default_rng(seed)
    written_as = str.maketrans({".": marks[0], ",": marks[1]})

    def number() -> str:
        return f"{rng.normal(0, 5000):,.2f}".translate(written_as)

    wide: list[tuple[Any, ...]] = [
        (t, number(), f"{number()} °C", f"{number()}%", ("off", "on")[int(rng.integers(2))])
        for t in range(times)
    ]
    gone = rng.random((times, 4)) < 0.2
    gone[0] = False
    wide = [(t, *("" if g else v for v, g in zip(values, gone[t], strict=True)))
            for t, *values in wide]  # fmt: skip
    names = ["load", "heat", "damp", "door"]
    assume(len({row[4] for row in wide} - {""}) == 2)
    cells = [("a", t, name, v) for t, *vs in wide for name, v in zip(names, vs, strict=True) if v]
    if order == "shuffled":
        cells = [cells[at] for at in rng.permutation(len(cells))]
    elif order == "metric":
        cells.sort(key=lambda cell: cell[2])
    formats = {"decimal": marks[0], "thousands": marks[1], "delimiter": ";"}
    wide_path = folder / "wide.csv"
    with wide_path.open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle, delimiter=";").writerows(
            [("device", "time", *names), *(("a", *row) for row in wide)]
        )
    if typed:
        table = pa.table(dict(zip(LONG_NAMES, map(list, zip(*cells, strict=True)), strict=True)))
        path = str(folder / "long.parquet")
        pq.write_table(table, path)
    else:
        path = str(folder / "long.csv")
        with open(path, "w", newline="", encoding="utf-8") as handle:
            csv.writer(handle, delimiter=";").writerows([LONG_NAMES, *cells])
    options: dict[str, Any] = {"model_id": "device", "time": "time", "features": names}
    wide_options = ColumnOptions(**options, missing="hold")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transforms.read.formats.lines.BLOCK_BYTES", block)
        one = looked(str(wide_path), wide_options, **formats)
        other = looked(path, ColumnOptions(**options, metric="metric", value="value"), **formats)
        rows = dict(zip(*time_and_x(tables_of(one)["a"]), strict=True))
        found = dict(zip(*time_and_x(tables_of(other)["a"]), strict=True))
    assert other.columns.words == one.columns.words == {"door": ("off", "on")}
    assert other.columns.units == one.columns.units == {"heat": "°C", "damp": "%"}
    # A time without any value has no row in the long table.
    assert {t: row for t, row in rows.items() if row.count("nan") < 4} == found


LONG_NAMES = ("device", "time", "metric", "value")


def time_and_x(chunk: Chunk) -> tuple[list[int], list[list[str]]]:
    rows = [[repr(value) for value in row] for row in chunk.column("x").tolist()]
    return chunk.column("time").tolist(), rows


def test_two_words_are_left_out_with_the_flag_and_taken_by_name(tmp_path: Path) -> None:
    words = ("off", "on", "unavailable")
    cells = [("a", t, "temp", t) for t in range(9)] + [
        ("a", t, "door", words[t % 3]) for t in range(9)
    ]
    path = written(tmp_path, cells)
    found = looked(path)
    reason = "two words (--features takes it: off is 0, on is 1)"
    assert (found.columns.channels, found.columns.left_out) == (("temp",), (("door", reason),))
    found = looked(path, named("temp", "door"))
    assert found.columns.words == {"door": ("off", "on")}
    assert "words:    door: off is 0, on is 1 (--words door=off,on)" in found.describe()
    assert set(failures_in(found)) == {
        ("a", 9 + t, "door = 'unavailable': neither 'off' nor 'on'") for t in (2, 5, 8)
    }
    found = looked(path, named("temp", "door"), null_values=("unavailable",))
    assert failures_in(found) == []
    x = tables_of(found)["a"].column("x")
    assert np.array_equal(x[:, 1], [0, 1, math.nan] * 3, equal_nan=True)
    given_words = ColumnOptions(
        model_id="device", time="time", metric="metric", value="value", words=("door=on,off",)
    )
    found = looked(path, given_words, null_values=("unavailable",))
    assert found.columns.channels == ("door", "temp")
    x = tables_of(found)["a"].column("x")
    assert np.array_equal(x[:, 0], [1, 0, math.nan] * 3, equal_nan=True)


def named(*features: str) -> ColumnOptions:
    return ColumnOptions(
        model_id="device", time="time", metric="metric", value="value", features=features
    )


def test_a_word_or_unit_that_comes_later_fails_with_device_and_metric(tmp_path: Path) -> None:
    """The first 20,000 values of each metric tell, wherever they are in the table."""
    cells = [("a", t, "temp", f"{t} kW") for t in range(20_000)]
    cells += [("a", t, "door", ("shut", "ajar")[t % 2]) for t in range(20_000)]
    later = [("b", 1, "door", "stuck"), ("b", 1, "temp", "900 W"), ("b", 2, "temp", "7")]
    found = looked(written(tmp_path, [*cells, *later]), named("door", "temp"))
    assert (found.columns.words, found.columns.units) == (
        {"door": ("ajar", "shut")},
        {"temp": "kW"},
    )
    assert failures_in(found) == [
        ("b", 40_000, "door = 'stuck': neither 'ajar' nor 'shut'"),
        ("b", 40_001, "temp = '900 W': not a number in kW"),
        ("b", 40_002, "temp = '7': not a number in kW"),
    ]


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (("1,004.27", "2,000.5"), "no numbers, but such as '1,004.27' (--thousands ,)"),
        (("4,27", "5,1"), "no numbers, but such as '4,27' (--decimal ,)"),
        (("-7,25",), "no numbers, but such as '-7,25' (--decimal ,)"),
        (("1.004,27",), "no numbers, but such as '1.004,27' (--decimal , --thousands .)"),
        (("1 kW", "900 W"), "no numbers, but such as '1 kW'"),
        (("heat", "cool", "idle"), "no numbers, but such as 'heat'"),
        (("heat", "Bad"), "no numbers, but such as 'heat'"),
        (("Bad", "unavailable"), "no numbers, but such as 'Bad'"),
    ],
)  # fmt: skip
def test_why_a_metric_of_texts_is_left_out(
    texts: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    cells = [("a", t, "x", text) for t, text in enumerate(texts)]
    path = written(tmp_path, [*cells, ("a", 1, "y", 2.0)])
    assert looked(path).columns.left_out == (("x", reason),)
    if "Bad" in texts and "heat" not in texts:
        assert len(failures_in(looked(path, named("x", "y")))) == 2
        return
    with pytest.raises(ConfigError) as caught:
        looked(path, named("x", "y"))
    assert f"features = 'x': must be a metric with numbers; x has {reason}" in str(caught.value)


@pytest.mark.parametrize("before", ["", "1"])
def test_texts_that_begin_late_are_named(before: str, tmp_path: Path) -> None:
    """Missing values are none of those that show how texts are written; numbers are."""
    cells = [("a", t, "x", before or ("" if t % 2 else None)) for t in range(20_010)]
    cells += [("a", t, "x", ("off", "on", "stuck")[t % 3]) for t in range(20_020)]
    found = looked(written(tmp_path, [*cells, ("a", 1, "y", 2.0)]))
    assert found.columns.left_out == (("x", "no numbers, but such as 'off'"),)


def test_marks_of_missing_values_do_not_hide_a_metric(tmp_path: Path) -> None:
    cells = [("a", t, "x", "unavailable" if t % 3 else t) for t in range(30)]
    found = looked(written(tmp_path, cells))
    assert found.columns.channels == ("x",)
    assert {why for *_, why in failures_in(found)} == {"x = 'unavailable': not a number"}
    assert failures_in(looked(written(tmp_path, cells), null_values=("unavailable",))) == []


def test_a_number_that_means_a_missing_value_is_met_and_warned_of(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).normal(20, 2, 200).round(3)
    noise[[20, 130, 190]] = -9999
    path = written(tmp_path, [("a", t, "x", f"{v} °C") for t, v in enumerate(noise)])
    found = looked(path)
    assert any(
        line.endswith("(--null-values -9999)")
        for line in look_at(found.infos, found.columns).warnings
    )
    found = looked(path, null_values=("-9999",))
    assert np.isnan(tables_of(found)["a"].column("x")).sum() == 3
    assert sum(good.nulls for good, _ in parsed_of(found.infos, found.columns)) == 3


@pytest.mark.parametrize("flags", [{"words": ("dor=off,on",)}, {"units": ("tmp=K",)}])
def test_words_and_units_of_no_metric_are_named(flags: dict[str, Any], tmp_path: Path) -> None:
    (name,) = flags
    with pytest.raises(ConfigError, match=f"{name} = .*: must be a metric that may be a channel"):
        looked(written(tmp_path, [("a", 1, "x", 2)]), ColumnOptions(**{**vars(LONG), **flags}))


def warned(folder: Path, lines: list[str], **options: Any) -> list[str]:
    path = folder / "rows.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = look_at_files(str(path), ColumnOptions(**options))
    return [text for text in look_at(found.infos, found.columns).warnings if "long table" in text]


METRICS = ("temp", "press", "flow")


def test_a_long_table_that_is_not_read_as_one_is_warned_of(tmp_path: Path) -> None:
    lines = ["device,time,metric,value"]
    lines += [f"{d},{t},{m},{t}.5" for t in range(9) for d in "ab" for m in METRICS]
    assert warned(tmp_path, lines, model_id="device", time="time") == [
        "a time comes 3 times in a device, each time with another metric: a long table? "
        "(--metric metric --value value makes the metrics the channels)"
    ]
    assert not warned(tmp_path, lines, time="time", metric="metric", value="value")


def test_a_column_of_units_beside_is_no_value(tmp_path: Path) -> None:
    lines = ["tag;stamp;Quality of it;reading"]
    lines += [f"{m};{t};{192 + t % 2};{t}.5" for t in range(9) for m in METRICS]
    path = tmp_path / "pi.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    found = look_at_files(str(path), ColumnOptions(time="stamp"), FormatOptions(delimiter=";"))
    (line,) = [t for t in look_at(found.infos, found.columns).warnings if "long table" in t]
    assert "--metric tag --value reading" in line


def test_a_table_in_the_order_of_its_metrics_is_seen_by_its_names(tmp_path: Path) -> None:
    lines = ["result,table,_time,_value,_field,_measurement,station"]
    lines += [f",0,{t},{t}.5,{m},weather,north" for m in METRICS for t in range(2_000)]
    (line,) = warned(tmp_path, lines, time="_time", model_id="station")
    assert "--metric _field --value _value" in line


def test_metrics_of_times_of_their_own_are_seen_by_their_names(tmp_path: Path) -> None:
    lines = ["entity_id,state,last_changed"]
    lines += [f"sensor.{METRICS[t % 3]},{t}.5,{t}" for t in range(30)]
    (line,) = warned(tmp_path, lines, time="last_changed")
    assert "--metric entity_id --value state" in line


@pytest.mark.parametrize(
    ("header", "text"),
    [("device,time,mode,value", "heat,idle"), ("device,time,mode,a,b", "on,off")],
)
def test_a_wide_table_with_a_text_is_not(tmp_path: Path, header: str, text: str) -> None:
    words, more = text.split(","), ",2" * header.count(",b")
    lines = [header]
    lines += [f"{d},{t},{words[t % 2]},{t}.5{more}" for t in range(30) for d in "ab"]
    assert not warned(tmp_path, lines, model_id="device", time="time")
