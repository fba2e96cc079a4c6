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


@settings(deadline=None, max_examples=40)
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
    assert found.columns.left_out == (("x", "not among the named features"),)
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


def warned(folder: Path, lines: list[str], **options: Any) -> list[str]:
    path = folder / "rows.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = look_at_files(str(path), ColumnOptions(**options))
    return [text for text in look_at(found.infos, found.columns) if "long table" in text]


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
    (line,) = [t for t in look_at(found.infos, found.columns) if "long table" in t]
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
