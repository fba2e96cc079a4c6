"""Texts that are read as numbers: units, thousands, two words, marks of missing values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError, DataError
from pipelines.files.first_look import look_at
from transforms.read.column_options import ColumnOptions
from transforms.read.columns import Columns
from transforms.read.formats import FormatOptions
from transforms.read.look import look_at_files
from transforms.read.numbers import Numbers, nulls_of, values_of
from transforms.read.parse import parse
from transforms.read.words import two_words

N = 60
TIMES = [f"2026-03-01T00:{at:02d}:00" for at in range(N)]


def csv(path: Path, delimiter: str = ",", **columns: Any) -> Path:
    rows = zip(*columns.values(), strict=True)
    lines = [delimiter.join(columns), *(delimiter.join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read(
    paths: list[Path], columns: dict[str, Any] | None = None, **formats: Any
) -> tuple[Columns, list[list[float]], list[tuple[str | None, str]]]:
    """What is decided of files, the values of their rows, and the failures with their device."""
    found = look_at_files(
        [str(path) for path in paths], ColumnOptions(**(columns or {})), FormatOptions(**formats)
    )
    values, failures = [], []
    for source, info in enumerate(found.infos):
        for piece in info.pieces:
            for rows in piece.read(found.columns.requests):
                good, failed = parse(rows, source, found.columns)
                values += good.x.tolist()
                ids, reasons = (failed.batch.column(name) for name in ("model_id", "reason"))
                failures += list(zip(ids.to_pylist(), reasons.to_pylist(), strict=True))
    return found.columns, values, failures


def warnings_of(path: Path, columns: dict[str, Any] | None = None, **formats: Any) -> list[str]:
    found = look_at_files(str(path), ColumnOptions(**(columns or {})), FormatOptions(**formats))
    return look_at(found.infos, found.columns).warnings


# Units -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "unit", ["°C", "%", " °C", "\u00a0°C", " m3/h", " kg/m^3", "kW", " Deg C", " µg/m³", " rpm"]
)
def test_a_unit_after_each_number_is_cut_off(unit: str, tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", x=[f"{at / 4}{unit}" for at in range(N)])
    columns, values, failures = read([path])
    assert columns.units == {"x": unit.strip()}
    assert (values, failures) == ([[at / 4] for at in range(N)], [])
    assert f"unit:     x: in {unit.strip()} (--units " in columns.describe()


def test_a_value_in_another_unit_fails_with_its_device(tmp_path: Path) -> None:
    cells = [f"{at}.5 kW" for at in range(20_000)] + ["900 W", "7", "", "8 kW"]
    path = csv(tmp_path / "a.csv", id=["p7"] * len(cells), x=cells)
    _, values, failures = read([path], {"model_id": "id"})
    assert len(values) == 20_001
    assert failures == [
        ("p7", "x = '900 W': not a number in kW"),
        ("p7", "x = '7': not a number in kW"),
        ("p7", "x = nan: missing value"),
    ]


@pytest.mark.parametrize(
    "cells",
    [
        ["1.5 kW", "900 W"],
        ["2026-03-01", "2026-03-01"],
        ["10:30", "10:30"],
        ["5 Mar 2026", "5 Mar 2026"],
        ["1 AM", "2 AM"],
        ["12 pumps of 3", "11 pumps of 3"],
        ["1.2.3", "1.2.3"],
        ["kW", "kW"],
    ],
)
def test_what_is_no_number_in_a_unit_is_left_out(cells: list[str], tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", x=cells * 5, y=range(10))
    columns, _, _ = read([path])
    assert columns.channels == ("y",)


def test_files_of_different_units_are_refused(tmp_path: Path) -> None:
    one = csv(tmp_path / "a.csv", x=["1 kW"] * 3)
    other = csv(tmp_path / "b.csv", x=["1 W"] * 3)
    with pytest.raises(DataError, match=r"column 'x' has W, unlike kW in .*a\.csv"):
        read([one, other])


# Thousands -------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(-1e9, 1e9).map(lambda value: round(value, 2)), min_size=1, max_size=20),
    st.sampled_from([(",", "."), (".", ","), (" ", ","), ("\u00a0", ","), ("'", ".")]),
)
def test_numbers_with_marks_between_the_thousands(
    numbers: list[float], marks: tuple[str, str]
) -> None:
    thousands, decimal = marks
    table = str.maketrans({",": thousands, ".": decimal})
    texts = [f"{number:,.2f}".translate(table) for number in numbers]
    own = Numbers(decimal, ("",), " " if thousands == "\u00a0" else thousands)
    values, wrong = values_of(pa.array(texts), own)
    assert values.tolist() == numbers
    assert not wrong.any()


@pytest.mark.parametrize("text", ["1,00", "1,0000", ",100", "1,,000", "10,00,000", "1,000.5.0"])
def test_marks_elsewhere_are_no_number(text: str) -> None:
    _, wrong = values_of(pa.array([text]), Numbers(thousands=","))
    assert wrong.all()


def test_thousands_name_the_flag_and_are_read_with_it(tmp_path: Path) -> None:
    cells = [f'"1,{at:03d}.5"' for at in range(N)]
    path = csv(tmp_path / "a.csv", x=cells, y=range(N))
    assert any(
        line == "x: left out, but numbers with thousands marked by ',' (--thousands ,)"
        for line in warnings_of(path)
    )
    columns, values, failures = read([path], thousands=",")
    assert columns.channels == ("x", "y")
    assert values == [[1000.5 + at, at] for at in range(N)]
    assert failures == []


# Two words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["on", "off"], ("off", "on")),
        (["ON"], ("OFF", "ON")),
        (["Open", "Closed"], ("Closed", "Open")),
        (["yes"], ("no", "yes")),
        (["IDLE", "HEAT"], ("HEAT", "IDLE")),
        (["IDLE", "HEAT", "COOL"], None),
        (["HEAT"], None),
        (["ja", "nein"], ("nein", "ja")),
        (["Aan", "Uit"], ("Uit", "Aan")),
        (["WAHR", "FALSCH"], ("FALSCH", "WAHR")),
        (["开", "关"], ("关", "开")),
        (["ja"], None),
        (["no"], ("no", "yes")),
        ([], None),
    ],
)
def test_which_word_is_which(texts: list[str], words: tuple[str, str] | None) -> None:
    assert two_words(texts) == words


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_two_words_are_0_and_1_where_they_are_named(ending: str, tmp_path: Path) -> None:
    cells = ["off", "on", "on"] * 5
    path = tmp_path / f"a.{ending}"
    if ending == "csv":
        csv(path, x=range(15), valve=cells)
    else:
        pq.write_table(pa.table({"x": range(15), "valve": cells}), path)
    columns, values, failures = read([path], {"features": ("x", "valve")})
    assert columns.words == {"valve": ("off", "on")}
    assert [row[1] for row in values] == [0.0, 1.0, 1.0] * 5
    assert failures == []
    assert "off is 0, on is 1 (--words valve=off,on)" in columns.describe()
    left, _, _ = read([path])
    (reason,) = [why for name, why in left.left_out if name == "valve"]
    assert reason == "two words (--features takes it: off is 0, on is 1)"
    given, values, _ = read([path], {"words": ("valve=on,off",)})
    assert given.channels == ("x", "valve")
    assert [row[1] for row in values] == [1.0, 0.0, 0.0] * 5


def test_a_third_word_fails_with_its_device(tmp_path: Path) -> None:
    cells = ["off", "on"] * 10_000 + ["stuck", "", "on"]
    path = csv(tmp_path / "a.csv", id=["p1"] * len(cells), valve=cells)
    _, values, failures = read([path], {"model_id": "id", "features": ("valve",)})
    assert len(values) == 20_001
    assert failures == [
        ("p1", "valve = 'stuck': neither 'off' nor 'on'"),
        ("p1", "valve = nan: missing value"),
    ]


def test_words_are_those_of_all_files(tmp_path: Path) -> None:
    one = csv(tmp_path / "a.csv", mode=["IDLE"] * 3)
    other = csv(tmp_path / "b.csv", mode=["HEAT"] * 3)
    columns, values, _ = read([one, other], {"features": ("mode",)})
    assert columns.words == {"mode": ("HEAT", "IDLE")}
    assert values == [[1.0]] * 3 + [[0.0]] * 3


@pytest.mark.parametrize("words", ["valve", "valve=on", "valve=on,on", "valve=a,b,c", "=a,b"])
def test_words_that_are_none(words: str) -> None:
    with pytest.raises(ConfigError, match="COLUMN=ZERO,ONE"):
        ColumnOptions(words=(words,))


def test_words_of_no_column(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="words = 'valve'"):
        read([csv(tmp_path / "a.csv", x=range(3))], {"words": ("valve=off,on",)})


# Missing values --------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["n.a.", "Bad", "I/O Timeout", "unavailable", "No Data"])
def test_marks_of_missing_values_do_not_hide_a_channel(mark: str, tmp_path: Path) -> None:
    """However many there are; only their rows fail."""
    cells = [mark] * 40 + [str(at) for at in range(20)]
    path = csv(tmp_path / "a.csv", x=cells)
    columns, values, failures = read([path])
    assert columns.channels == ("x",)
    assert values == [[at] for at in range(20)]
    assert failures == [("all", f"x = {mark!r}: not a number")] * 40
    _, _, failures = read([path], null_values=(mark,))
    assert failures == [("all", "x = nan: missing value")] * 40


def test_a_channel_that_begins_late_is_one(tmp_path: Path) -> None:
    cells = [""] * 25_000 + ["--"] * 5 + [str(at) for at in range(100)]
    path = csv(tmp_path / "a.csv", y=range(len(cells)), x=cells, gone=[""] * len(cells))
    columns, values, _ = read([path])
    assert columns.channels == ("y", "x")
    assert len(values) == 100
    assert columns.left_out[0][0] == "gone"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_number_that_means_a_missing_value_is_met_however_written(
    ending: str, tmp_path: Path
) -> None:
    if ending == "csv":
        path = tmp_path / "a.csv"
        path.write_text("x;y\n1,5;2\n-200,0;3\n-200;4\n-2e2;5\n6;-200\n")
        formats: dict[str, Any] = {"delimiter": ";", "decimal": ","}
    else:
        path = tmp_path / "a.parquet"
        x, y = [1.5, -200.0, -200.0, -200.0, 6.0], [2, 3, 4, 5, -200]
        pq.write_table(pa.table({"x": x, "y": y}), path)
        formats = {}
    found = look_at_files(str(path), None, FormatOptions(null_values=("-200",), **formats))
    (rows,) = found.infos[0].pieces[0].read(found.columns.requests)
    good, failures = parse(rows, 0, found.columns)
    assert (good.x.tolist(), good.nulls) == ([[1.5, 2.0]], 4)
    assert failures.batch.column("reason").to_pylist() == [
        *["x = nan: missing value"] * 3,
        "y = nan: missing value",
    ]


def test_which_of_the_marks_are_numbers() -> None:
    assert nulls_of(Numbers(",", ("", "NaN", "-200", "-999,5", "Bad"))) == (-200.0, -999.5)


@pytest.mark.parametrize("mark", [-9999, 9999, -999.0, 999.9, 32767, -32768, 65535])
def test_a_number_far_away_that_comes_again_is_warned_of(mark: float, tmp_path: Path) -> None:
    noise = np.random.default_rng(1).normal(20, 2, 2_000)
    noise[[1_200, 1_300, 1_900]] = mark
    path = csv(tmp_path / "a.csv", x=noise.tolist())
    text = f"{mark:.10g}"
    assert any(line.endswith(f"(--null-values {text})") for line in warnings_of(path))
    assert warnings_of(path, null_values=(text,)) == []


@pytest.mark.parametrize("far", [0.0, 500.0, -40.0])
def test_other_numbers_far_away_are_not(far: float, tmp_path: Path) -> None:
    noise = np.random.default_rng(1).normal(20, 2, 2_000)
    noise[[1_200, 1_300, 1_900]] = far
    assert warnings_of(csv(tmp_path / "a.csv", x=noise.tolist())) == []


TEXTS = st.sampled_from(["1.5 kW", "7 kW", "-3e2 kW", "kW", "9 W", "8", "", "NA", "x", " 4 kW "])


@given(st.lists(TEXTS, min_size=1, max_size=30), st.integers(1, 29))
def test_texts_are_read_one_by_one_as_all_at_once(texts: list[str], cut: int) -> None:
    numbers = Numbers(unit="kW")
    values, wrong = values_of(pa.array(texts), numbers)
    parts = [values_of(pa.array(part), numbers) for part in (texts[:cut], texts[cut:]) if part]
    assert repr(np.concatenate([part[0] for part in parts])) == repr(values)
    for text, value, bad in zip(texts, values.tolist(), wrong.tolist(), strict=True):
        number = text.strip().removesuffix("kW").strip()
        if text in ("", "NA"):
            assert math.isnan(value) and not bad
        elif text.strip().endswith("kW") and number:
            assert (value, bad) == (float(number), False)
        else:
            assert bad
