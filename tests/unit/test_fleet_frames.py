"""Fleets on frames as people bring them: what is taken, what is named, what holds between calls."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
import re
import threading
import warnings
from collections.abc import Callable
from datetime import timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneltrack as kt
from kerneltrack.frames.table import choose_columns, frame_of, like_of, make_frame, read_rows
from tests.parts import examples, lanes

COUNT = 560
X = np.random.default_rng(21).normal(size=(2 * COUNT, 2))
MODE = X[:, 0] > 0


def table() -> pd.DataFrame:
    """Two pumps, a row a minute."""
    return pd.DataFrame(
        {
            "pump": np.repeat(["a", "b"], COUNT),
            "when": np.tile(pd.date_range("2026-03-01", periods=COUNT, freq="min"), 2),
            "flow": X[:, 0],
            "heat": X[:, 1],
        }
    )


def fleet(**more: Any) -> kt.Fleet:
    return kt.Fleet(rank=4, budget=8, **more)


def update(some: kt.Fleet, rows: Any, **more: Any) -> Any:
    return some.update(rows, **{"model_id": "pump", "time": "when", **more})


EXPECTED = update(fleet(), table())


def same(found: pd.DataFrame, expected: pd.DataFrame = EXPECTED) -> None:
    for name in ("index", "loss", "p", "z0"):
        np.testing.assert_array_equal(found[name].to_numpy(), expected[name].to_numpy())


def decimals(values: Any) -> list[Decimal]:
    return [Decimal(repr(value)) for value in values.tolist()]


FORMS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "objects": lambda t: t.assign(flow=t.flow.astype(object)),
    "decimals": lambda t: t.assign(flow=decimals(t.flow)),
    "sparse": lambda t: t.assign(flow=pd.arrays.SparseArray(t.flow)),
    "nullable": lambda t: t.assign(flow=t.flow.astype("Float64")),
    "pyarrow": lambda t: t.convert_dtypes(dtype_backend="pyarrow"),
    "object times": lambda t: t.assign(when=t.when.dt.to_pydatetime().astype(object)),
    "periods": lambda t: t.assign(when=t.when.dt.to_period("min")),
    "index of both": lambda t: t.set_index(["pump", "when"]),
    "index of times": lambda t: t.set_index("when"),
}


@pytest.mark.filterwarnings("ignore:The behavior of DatetimeProperties:FutureWarning")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_numbers_and_times_is_taken(form: str) -> None:
    some = fleet()
    same(update(some, FORMS[form](table())))
    assert some.columns is not None
    assert some.columns.features == ("flow", "heat")


def test_texts_are_taken_where_they_are_named_and_told_of_where_not() -> None:
    rows = table()
    rows["flow"] = rows["flow"].map(repr)
    same(update(fleet(), rows, features=["flow", "heat"]))
    with pytest.warns(UserWarning, match="left out, though they hold numbers: 'flow'"):
        update(fleet(), rows)
    for other in (X[:, 0] + 1j, pd.to_timedelta(np.arange(2 * COUNT), unit="s")):
        with pytest.warns(UserWarning, match="left out, though they hold numbers: 'more'"):
            update(fleet(), table().assign(more=other))


@pytest.mark.parametrize("texts", [True, False])
def test_a_text_that_is_no_number_refuses_its_row_alone(texts: bool) -> None:
    rows = table()
    rows["flow"] = rows["flow"].map(repr) if texts else rows["flow"].astype(object)
    rows.loc[7, "flow"] = "1_000"
    some = fleet()
    with pytest.warns(UserWarning, match="1 of 1,120 rows are refused .*: 1: column 'flow' is '1_"):
        out = update(some, rows, features=["flow", "heat"])
    reason = "column 'flow' is '1_000': not a number"
    assert out["reason"].dropna().to_dict() == {7: reason}
    same(out.drop(index=7), update(fleet(), table().drop(index=7)))
    assert "1,119 rows, 1 refused" in repr(some)
    # So it does in a frame after one of numbers.
    later = fleet()
    update(later, table()[COUNT:])
    assert update(later, rows[:COUNT])["reason"].dropna().to_dict() == {7: reason}
    with pytest.raises(kt.ConfigError, match="column 'flow' = 'bad': must be readable; it is not"):
        update(fleet(), rows.assign(flow="bad"), features=["flow", "heat"])


def test_a_target_that_is_no_number_refuses_its_row_alone() -> None:
    rows = table().assign(y=[*map(repr, X[:-1, 0].tolist()), "bad"])
    out = update(fleet(learner=kt.RidgeSpec(task="regression")), rows, label="y")
    assert out["reason"].dropna().tolist() == ["column 'y' is 'bad': not a number"]
    assert out["error"].notna().sum() == 2 * COUNT - 3


@pytest.mark.parametrize("kind", [float, "Float64", "float32", object])
def test_numbers_with_fractions_are_no_classes(kind: Any) -> None:
    rows = table().assign(y=pd.Series(np.floor(X[:, 0])).astype(kind))
    update(fleet(learner="auto"), rows, label="y")
    rows.loc[3, "y"] = 0.5
    message = r"column 'y' = 0\.5: must be a class.*AutoSpec\(task='regression'\)"
    with pytest.raises(kt.ConfigError, match=message):
        update(fleet(learner="auto"), rows, label="y")
    update(fleet(learner="auto"), rows.assign(y=rows["y"].astype(str)), label="y")
    some = fleet(learner=kt.AutoSpec(task="regression"))
    assert update(some, rows, label="y")["prediction"].notna().any()


def test_a_mode_is_a_column_of_names_or_whole_numbers() -> None:
    rows = table().assign(state=np.where(MODE, "run", "idle"))

    def by(mode: str) -> kt.Fleet:
        return fleet(reference=kt.ReferenceSpec(learning="auto", mode=mode))

    with pytest.raises(kt.ConfigError, match="mode = 'stata': must be a column of the frame: pump"):
        update(by("stata"), rows)
    with pytest.raises(kt.ConfigError, match="mode = 'state': must be among the features: flow"):
        update(by("state"), rows, features=["flow", "heat"])
    with pytest.raises(kt.ConfigError, match=r"mode = 'flow': must be .* whole numbers; it holds "):
        update(by("flow"), rows)
    for name, states in (("state", rows["state"]), ("on", MODE.astype(float))):
        some = by(name)
        update(some, rows.assign(**{name: states}))
        assert len(some) == 2


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_times_have_a_zone_in_all_calls_or_in_none(kind: str, tmp_path: Path) -> None:
    made: Any = {"pandas": lambda t: t, "polars": pl.from_pandas, "arrow": pa.Table.from_pandas}
    bare = table()
    zoned = bare.assign(when=bare["when"].dt.tz_localize("Europe/Berlin"))
    for first, second, message in (
        (zoned, bare, "'datetimes without a zone': must be datetimes with a zone, as in earlier"),
        (bare, zoned, "'datetimes with a zone': must be datetimes without a zone, as in earlier"),
    ):
        some, folder = fleet(), tmp_path / message[11:20]
        update(some, made[kind](first[:500]))
        some.save(folder)
        for one in (some, kt.Fleet.load(folder)):
            for act in (one.update, one.score):
                with pytest.raises(kt.ConfigError, match=f"column 'when' = {message}"):
                    act(made[kind](second[500:]))
            one.update(made[kind](first[500:]))


def test_refused_rows_are_told_of_once_a_call() -> None:
    rows, some = table(), fleet(learner="ridge")
    rows["y"] = MODE
    rows.loc[:9, "flow"] = np.nan
    rows.loc[20:24, "heat"] = np.inf
    rows.loc[30:31, "pump"] = None
    rows.loc[[40, 41], "when"] = pd.NaT
    message = (
        r"19 of 1,120 rows are refused \(column 'reason'\): 10: column 'flow' is missing; "
        r"5: column 'heat' is infinite; 2: the .*; 2: other reasons$"
    )
    with pytest.warns(UserWarning, match=message) as caught:
        update(some, rows, label="y")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert repr(some).startswith("<Fleet: 2 devices, 1,101 rows, 19 refused, ")
    for act in (some.score, some.predict):
        with pytest.warns(UserWarning, match="1 of 1 rows are refused .*: 1: no such model"):
            act(table()[:1].assign(pump="c"))
    assert "19 refused" in repr(some)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        update(fleet(), table()[:9], wait=True)


@pytest.mark.parametrize("value", [None, pd.NA, np.nan, Decimal("NaN")])
def test_missing_numbers_among_objects_are_missing(value: Any) -> None:
    rows = table()
    rows["flow"] = rows["flow"].astype(object)
    rows.loc[3, "flow"] = value
    out = update(fleet(), rows)
    assert out["reason"][out["reason"].notna()].tolist() == ["column 'flow' is missing"]


def test_an_index_of_times() -> None:
    rows = table().query("pump == 'a'").drop(columns="pump").set_index("when")
    expected = EXPECTED[:COUNT]
    bare = rows.rename_axis(None)
    for form in (rows, bare):
        some = fleet()
        out = some.update(form[:500], time=True)
        assert "when" not in out.columns
        assert out.index.equals(form.index[:500])
        same(pd.concat([out, some.update(form[500:])]), expected)
        assert some.update(form[:9])["reason"].nunique() == 1
    with pytest.warns(UserWarning, match="not by the index of times: time=True takes that"):
        fleet().update(bare)
    for other in (pl.from_pandas(bare), table()):
        with pytest.raises(kt.ConfigError, match="time = True"):
            fleet().update(other, time=True)


@pytest.mark.parametrize("each", lanes(12, 1))
def test_pandas_times_of_every_zone_are_read_and_come_back(each: int) -> None:
    utc = pd.date_range("2026-10-24T22:00", periods=9, freq="h", tz="UTC")
    offset = timedelta(hours=-5)
    others = "dateutil/America/New_York", timezone(offset), timezone(offset, "a [b]")
    # These two are no places.
    zones = sorted(available_timezones() - {"Factory", "localtime"})
    for zone in (*zones[::each], *others):
        times = utc.tz_convert(zone)
        rows = pd.DataFrame({"when": times, "flow": 1.0})
        for form in (rows, rows.set_index("when")):
            found = frame_of(form, "when")
            columns = choose_columns(found.frame, None, "when", None, None)
            read = read_rows(found.frame, columns)
            assert read.time is not None
            np.testing.assert_array_equal(read.time, utc.as_unit("ns").asi8)
            made = {"when": found.frame["when"], "new": read.time.view("M8[ns]")}
            back = make_frame(like_of(found, "when"), made)
            assert back["when"].dtype == times.dtype
            assert back["when"].tolist() == back["new"].tolist() == times.tolist()
            assert back["new"].dt.tz == times.tz


@pytest.mark.parametrize("zone", ["America/New_York", "Etc/GMT+5"])
def test_a_fleet_takes_times_of_every_zone(zone: str) -> None:
    rows = table()
    rows["when"] = rows["when"].dt.tz_localize("UTC").dt.tz_convert(zone)
    some = fleet()
    out = update(some, rows)
    same(out.drop(columns="when"), EXPECTED.drop(columns="when"))
    assert out["when"].equals(rows["when"])
    assert str(some.episodes["start"].dt.tz) == zone


def test_pictures_name_the_zone_of_their_times(tmp_path: Path) -> None:
    rows = table()
    rows.loc[rows.index[-48:], "heat"] += 9
    new_york = rows["when"].dt.tz_localize("America/New_York")
    seconds = rows["when"].to_numpy().astype("M8[s]").astype(np.int64)
    for times, shown in (
        (new_york, "2026-03-01 00:00:00 America/New_York<"),
        (rows["when"], "2026-03-01 00:00:00<"),
        (seconds, "2026-03-01 00:00:00 UTC<"),
    ):
        some = fleet(reference=kt.ReferenceSpec(rows=256))
        update(some, rows.assign(when=times))
        start = some.episodes["start"].iloc[0]
        for picture in (some.plot(), some.plot("b")):
            assert shown in picture.svg
            assert f"since {start:%Y-%m-%d %H:%M:%S}" in picture.svg
    some = fleet(reference=kt.ReferenceSpec(rows=256))
    update(some, pl.from_pandas(rows.assign(when=new_york)))
    assert f"since {some.episodes['start'][0]:%Y-%m-%d %H:%M:%S} America" in some.plot("b").svg
    some.save(tmp_path / "kept")
    loaded = kt.Fleet.load(tmp_path / "kept").plot("b").svg
    assert loaded.count(" America/New_York<") == some.plot("b").svg.count(" America/New_York<")


def test_a_setting_that_is_none_is_named_as_it_was_given() -> None:
    message = r"ranks = 10: must be left out: it is no setting of okfeb \(did you mean 'rank'\?\)"
    with pytest.raises(kt.ConfigError, match=message):
        kt.Fleet(ranks=10)
    for features, message in (
        (["flow", "when"], "'when': must be a channel; time='when' names it already"),
        (["flow", "flow"], "'flow': must be named once; it is there several times"),
    ):
        with pytest.raises(kt.ConfigError, match=f"features = {message}"):
            update(fleet(), table(), features=features)


def test_names_of_columns_become_texts() -> None:
    rows = table().set_axis(["pump", "when", 0, ("heat", "max")], axis=1)
    some = fleet()
    same(update(some, rows))
    assert some.columns is not None
    assert some.columns.features == ("0", "heat.max")
    levels = [("pump", ""), ("when", ""), ("x", "flow"), ("x", "heat")]
    several = table().set_axis(pd.MultiIndex.from_tuples(levels), axis=1)
    same(update(fleet(), several, model_id=("pump", ""), time=("when", "")))


@pytest.mark.parametrize(
    "rows",
    [
        table().set_axis(["pump", "when", "flow", "flow"], axis=1),
        pa.table([["a"], [1], [1.0], [2.0]], names=["pump", "when", "flow", "flow"]),
    ],
)
def test_a_name_that_stands_twice_is_refused(rows: Any) -> None:
    with pytest.raises(kt.ConfigError, match="'flow': must be named once each"):
        update(fleet(), rows)


# Labels.

MISSING = [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN"), ""]
ONES = [True, np.bool_(True), 1, 1.0, np.int8(1), np.float32(1), Decimal("1.0"), "1"]


@settings(max_examples=examples(40))
@given(st.lists(st.sampled_from([*MISSING, *ONES, False, 0, "0"]), min_size=12, max_size=12))
def test_labels_of_all_types_are_the_same_classes(labels: list[Any]) -> None:
    rows = table()[:12]
    expected = [
        None
        if any(label is one for one in MISSING)
        else "1"
        if any(label is one for one in ONES)
        else "0"
        for label in labels
    ]
    found = update(
        fleet(learner="ridge"), rows.assign(y=pd.Series(labels, dtype=object)), label="y"
    )
    plain = update(fleet(learner="ridge"), rows.assign(y=expected), label="y")
    assert found["reason"].isna().all()
    assert found["correct"].tolist() == plain["correct"].tolist()


BOOLS = [None if place % 7 == 0 else bool(one) for place, one in enumerate(MODE)]
LABELS: dict[str, Callable[[], Any]] = {
    "objects": lambda: np.array(BOOLS, dtype=object),
    "nullable": lambda: pd.array(BOOLS, dtype="boolean"),
    "nullable integers": lambda: pd.array(
        [None if one is None else int(one) for one in BOOLS], dtype="Int64"
    ),
    "floats": lambda: [np.nan if one is None else float(one) for one in BOOLS],
    "categories": lambda: pd.Categorical(BOOLS),
    "texts": lambda: [None if one is None else str(int(one)) for one in BOOLS],
}


@pytest.mark.parametrize("kind", LABELS)
def test_missing_labels_of_every_dtype_are_missing(kind: str) -> None:
    rows = table().assign(y=LABELS[kind]())
    some = fleet(learner="ridge")
    out = update(some, rows, label="y")
    assert set(out["prediction"].dropna()) == {"0", "1"}
    assert out["correct"].isna().sum() == sum(one is None for one in BOOLS) + 2
    frame = pl.DataFrame({**table().to_dict("list"), "y": BOOLS})
    other = update(fleet(learner="ridge"), frame, label="y")
    assert (
        other["prediction"].to_list()
        == out["prediction"].where(out["prediction"].notna(), None).tolist()
    )


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "object"])
def test_missing_targets_are_missing(dtype: str) -> None:
    targets = pd.array([None if place % 7 == 0 else place for place in range(2 * COUNT)], dtype)
    some = fleet(learner=kt.RidgeSpec(task="regression"))
    out = update(some, table().assign(y=targets), label="y")
    # The first of each model has no prediction yet.
    missing = {*range(0, 2 * COUNT, 7), 1, COUNT + 1}
    assert set(np.flatnonzero(out["error"].isna())) == missing
    assert out["reason"].isna().all()


def test_labels_that_are_none_refuse_their_rows() -> None:
    labels = MODE.astype(float)
    labels[5] = np.inf
    out = update(fleet(learner="ridge"), table().assign(y=labels), label="y")
    assert out["reason"].dropna().tolist() == ["column 'y' is inf: not finite"]
    objects = np.array([*MODE[:-1].tolist(), [1]], dtype=object)
    out = update(fleet(learner="ridge"), table().assign(y=objects), label="y")
    assert out["reason"].dropna().tolist() == ["column 'y' is [1]: not a text or a number"]


# What holds between calls.


def in_milliseconds() -> pd.DataFrame:
    rows = table()
    return rows.assign(when=rows["when"].to_numpy().astype("M8[ms]").astype(np.int64))


def test_units_and_columns_of_the_first_call_hold(tmp_path: Path) -> None:
    rows = in_milliseconds()
    first, last = rows.groupby("pump").head(520), rows.groupby("pump").tail(COUNT - 520)
    some = fleet()
    update(some, first, time_unit="ms")
    some.save(tmp_path / "kept")
    for one in (
        copy.deepcopy(some),
        pickle.loads(pickle.dumps(some)),
        kt.Fleet.load(tmp_path / "kept"),
    ):
        same(one.update(last), EXPECTED.loc[last.index])
        for wrong in (
            {"time_unit": "s"},
            {"model_id": "when"},
            {"time": "flow"},
            {"features": ["flow"]},
        ):
            with pytest.raises(kt.ConfigError, match=next(iter(wrong))):
                one.update(last, **wrong)
        with pytest.raises(kt.ConfigError, match="model_id = 'pump': must be a column"):
            one.update(last.drop(columns="pump"))


def test_waiting_holds(tmp_path: Path) -> None:
    rows = table()
    some = fleet()
    update(some, rows[:3], wait=True)
    some.update(rows[3:100])
    assert (len(some), len(some._arrivals.waiting)) == (0, 1)
    some.update(rows[100:600])
    some.save(tmp_path / "kept")
    other = kt.Fleet.load(tmp_path / "kept")
    for one in (some, other):
        with pytest.raises(kt.ConfigError, match="wait = False: must be True, as in the first"):
            one.update(rows[-40:], wait=False)
    out = other.update(rows[-40:].assign(pump="c"))
    assert set(out["reason"]) == {"waits for the warm-up of 500 rows"}
    hasty = fleet()
    update(hasty, rows[:100])
    with pytest.raises(kt.ConfigError, match="wait = True: must be False, as in the first call"):
        hasty.update(rows[100:], wait=True)


@pytest.mark.parametrize("zone", [None, "America/New_York", timezone(timedelta(hours=-5))])
@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_episodes_are_a_frame_of_the_same_kind_after_a_load(
    kind: str, zone: Any, tmp_path: Path
) -> None:
    rows = table()
    rows.loc[rows.index[-60:], "heat"] += 9
    if kind != "pandas" and not isinstance(zone, str):
        zone = None
    if zone is not None:
        rows["when"] = rows["when"].dt.tz_localize(zone)
    made: Any = {"pandas": lambda t: t, "polars": pl.from_pandas, "arrow": pa.Table.from_pandas}
    some = fleet(reference=kt.ReferenceSpec(rows=256))
    update(some, made[kind](rows))
    some.save(tmp_path / "kept")
    found, expected = kt.Fleet.load(tmp_path / "kept").episodes, some.episodes
    assert type(found) is type(expected)
    assert len(expected) == 1
    if isinstance(zone, timezone):
        found["start"] = found["start"].dt.tz_convert(zone)
    assert pa.table(found)["start"].equals(pa.table(expected)["start"])


@pytest.mark.parametrize(
    ("factor", "message"),
    [(1000, "'ms' if when begins at 2026-03-01 00:00:00"), (10**6, "'us'"), (10**9, "'ns'")],
)
def test_times_in_another_unit_are_refused(factor: int, message: str) -> None:
    rows = table()
    rows["when"] = rows["when"].to_numpy().astype("M8[s]").astype(np.int64) * factor
    with pytest.raises(kt.ConfigError, match=f"time_unit = None: must be given: {message}"):
        update(fleet(), rows)
    # They may well be what they say.
    out = update(fleet(), rows, time_unit="s")
    assert (out["reason"] is not None) == (factor > 0)


def test_dates_as_numbers_are_refused() -> None:
    days = pd.date_range("2024-01-01", periods=COUNT).strftime("%Y%m%d").astype(int)
    with pytest.raises(kt.ConfigError, match="column 'when' = 20240101: must be datetimes"):
        update(fleet(), table().assign(when=np.tile(days, 2)))
    update(fleet(), table().assign(when=np.tile(days, 2)), time_unit="s")


def test_a_jobs_zone_holds(tmp_path: Path) -> None:
    some = fleet()
    update(some, table())
    some.save(tmp_path / "kept")
    place = tmp_path / "kept" / "columns.json"
    about = json.loads(place.read_text())
    place.write_text(json.dumps({**about, "time_zone": "Europe/Berlin", "zoned": None}))
    other, rows = kt.Fleet.load(tmp_path / "kept"), table()
    with pytest.raises(kt.ConfigError, match="the job read them in Europe/Berlin"):
        other.update(rows)
    rows["when"] = rows["when"].dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")
    assert other.score(rows)["loss"].notna().all()
    place.write_text(json.dumps({**about, "version": 2}))
    with pytest.raises(kt.DataError, match="version 2: this code reads 5"):
        kt.Fleet.load(tmp_path / "kept")


# Texts that are numbers.


def as_texts(rows: pd.DataFrame) -> pd.DataFrame:
    """Heat with a unit and marks, flow plain, and a valve of two words."""
    heat = [f"{value:+,.17f} °C" for value in (1e4 * rows["heat"]).tolist()]
    return rows.assign(heat=heat, valve=np.where(MODE, "OPEN", "SHUT"))


WAYS: dict[str, Any] = {
    "words": {"valve": ("SHUT", "OPEN")},
    "units": {"heat": "°C"},
    "thousands": ",",
}


@pytest.mark.parametrize("saved", [False, True])
def test_words_units_and_marks_hold_from_the_first_call_on(saved: bool, tmp_path: Path) -> None:
    numbers = table().assign(valve=MODE)
    rows = as_texts(numbers)
    numbers["heat"] = [float(t[:-3].replace(",", "")) for t in rows["heat"].tolist()]
    expected = update(fleet(), numbers)
    some, half = fleet(), rows["when"] < rows["when"][COUNT // 2 + 250]
    first = update(some, rows[half], **WAYS)
    if saved:
        some.save(tmp_path / "kept")
        some = kt.Fleet.load(tmp_path / "kept")
    same(
        pd.concat([first, update(some, rows[~half])]), pd.concat([expected[half], expected[~half]])
    )


def test_a_later_frame_may_hold_numbers() -> None:
    some, rows = fleet(), table().assign(valve=MODE)
    half = rows["when"] < rows["when"][COUNT // 2 + 250]
    update(some, as_texts(rows)[half], **WAYS)
    assert update(some, rows[~half])["reason"].isna().all()


def test_a_text_of_another_kind_refuses_its_row() -> None:
    rows = as_texts(table())
    rows.loc[7, "valve"], rows.loc[9, "heat"], rows.loc[11, "heat"] = "stuck", "20 °F", None
    found = update(fleet(), rows, **WAYS)
    assert found["reason"].dropna().to_dict() == {
        7: "column 'valve' is 'stuck': neither 'SHUT' nor 'OPEN'",
        9: "column 'heat' is '20 °F': not a number in °C",
        11: "column 'heat' is missing",
    }


@pytest.mark.parametrize(
    ("ways", "message"),
    [
        ({"words": {"valve": ("off", "on")}}, "column 'valve' = 'OPEN': must be readable; it is"),
        ({"units": {"oil": "bar"}}, "units = 'oil': must be a channel: flow"),
        ({"words": {"pump": ("a", "b")}}, "words = 'pump': must be a channel: flow"),
        ({"words": {"valve": "SHUT"}}, "words = {'valve': 'SHUT'}: must be two words"),
        ({"thousands": ".."}, "thousands = '..': must be one ASCII character"),
    ],
)
def test_ways_of_texts_that_fit_no_column(ways: dict[str, Any], message: str) -> None:
    some = fleet()
    with pytest.raises(kt.ConfigError) as found:
        update(some, as_texts(table()), **ways)
    assert str(found.value).startswith(message)
    assert some.columns is None


def test_other_ways_of_texts_later_are_refused() -> None:
    some, rows = fleet(), as_texts(table())
    update(some, rows, **WAYS)
    for name, value in (
        ("words", {}),
        ("units", {"heat": "K"}),
        ("thousands", ""),
        ("decimal", "_"),
    ):
        with pytest.raises(kt.ConfigError, match=f"^{name} = .*, as in the first call"):
            update(some, rows, **{name: value})


def test_texts_that_are_left_out_are_named_with_what_takes_them() -> None:
    rows = as_texts(table()).assign(
        **{
            "oil": [f"{value:.2f}".replace(".", ",") for value in X[:, 0].tolist()],
            "lever": np.where(MODE, "On", "Off"),
            "version": "1.2.4",
            "address": "7 Main Street",
            "day": "2026-03-01",
        }
    )
    with pytest.warns(UserWarning) as found:
        update(fleet(), rows)
    assert [str(each.message).partition("; ")[2] for each in found] == [
        "units={'heat': '°C'}, thousands=',' takes it",
        "features=[..., 'oil'], decimal=',' takes it",
        "words={'lever': ('Off', 'On')} takes it",
    ]


def test_metrics_of_words_and_units() -> None:
    rows = as_texts(table())
    long = rows.melt(["pump", "when"], var_name="name", value_name="text")
    long["text"] = long["text"].astype(str)
    some = fleet()
    found = update(some, long, metric="name", value="text", **WAYS)
    wide = update(fleet(), rows, features=["flow", "heat", "valve"], **WAYS)
    assert some.columns is not None and some.columns.features == ("flow", "heat", "valve")
    same(found, wide)


# Rows that come again.


@settings(max_examples=examples(25))
@given(st.lists(st.integers(1, COUNT), max_size=5), st.booleans(), st.integers(1, 4))
def test_a_row_that_comes_again_is_not_learned_again(
    cuts: list[int], wait: bool, equal: int
) -> None:
    rows = table()[:COUNT].drop(columns="pump")
    # Several rows may share a time.
    rows["when"] = rows["when"].to_numpy()[np.arange(COUNT) // equal * equal]
    once, often = fleet(reference=None), fleet(reference=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        once.update(rows[:510], time="when", wait=wait)
        often.update(rows[:510], time="when", wait=wait)
        expected = once.update(rows[510:])
        parts = [510, *sorted(cut for cut in cuts if cut > 510), COUNT]
        found = []
        for begin, end in itertools.pairwise(parts):
            # All rows so far, and the next.
            found.append(often.update(rows[:end])[begin:][["index", "loss", "z0"]])
    out = pd.concat(found)
    same(out[["index", "loss", "z0"]].assign(p=0), expected[["index", "loss", "z0"]].assign(p=0))
    assert re.sub(r" [\d,]+ refused,", "", repr(often)) == repr(once)


def test_rows_that_wait_are_not_taken_twice() -> None:
    rows = table()[:COUNT]
    some = fleet()
    update(some, rows[:100], wait=True)
    again = some.update(rows[:200])
    assert again["reason"].value_counts().to_dict() == {
        "waits for the warm-up already": 100,
        "waits for the warm-up of 500 rows": 100,
    }
    assert some.update(rows)["index"].dropna().tolist() == list(range(200, COUNT))


def test_after_a_load_rows_of_the_newest_time_are_refused(tmp_path: Path) -> None:
    some = fleet()
    update(some, table())
    some.save(tmp_path / "kept")
    out = kt.Fleet.load(tmp_path / "kept").update(table())
    assert out["reason"].isna().sum() == 0
    assert "of the newest time of the snapshot" in out["reason"].iloc[-1]


# What a first frame is warned of.


def machines(**more: Any) -> pd.DataFrame:
    return table().drop(columns="pump").assign(**more)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (machines(), "560 of them have the time of another"),
        (table().drop(columns="when"), "'pump' has 2 values, one after the other"),
        (
            pd.concat(
                [machines()[:COUNT], machines()[COUNT:].assign(when=table().when + pd.Timedelta(7))]
            ),
            "their times start over",
        ),
    ],
)
def test_rows_of_several_machines_without_ids_are_warned_of(rows: Any, message: str) -> None:
    time = "when" if "when" in rows else None
    some = fleet()
    with pytest.warns(UserWarning, match=f"all rows are of one model, but .*{message}.*model_id="):
        some.update(rows, time=time)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".* rows are refused")
        some.update(rows)


def test_a_single_machine_is_not_warned_of() -> None:
    rows = machines()[:COUNT].assign(mode=np.where(MODE[:COUNT], "auto", "manual"), note=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fleet().update(rows, time="when")
        fleet().update(rows.sample(frac=1.0, random_state=1), time="when")
        update(fleet(), table())


# Misuse.


@pytest.mark.parametrize(
    "make",
    [
        lambda: kt.Fleet(5),  # type: ignore[arg-type]
        lambda: kt.Fleet(kt.RidgeSpec()),  # type: ignore[arg-type]
        lambda: kt.Fleet(learner=kt.OKFEBSpec()),  # type: ignore[arg-type]
        lambda: kt.Fleet(reference=True),  # type: ignore[arg-type]
        lambda: update(fleet(), table(), model_id=["pump"]),
        lambda: update(fleet(), table(), time=False),
        lambda: update(fleet(), table(), features=5),
        lambda: update(fleet(), table(), features=[["flow"]]),
        lambda: update(fleet(), table(), time_unit=["s"]),
        lambda: update(fleet(), table().groupby("pump")),
        lambda: update(fleet(), pl.Series([1.0])),
        lambda: update(fleet(), pl.from_pandas(table()).lazy()),
        lambda: update(fleet(), table().assign(when=table().when.astype(str))),
        lambda: fleet().plot("x"),
        lambda: fleet().save(5),  # type: ignore[arg-type]
        lambda: kt.Fleet.load(None),  # type: ignore[arg-type]
        lambda: kt.Tracker(None),  # type: ignore[arg-type]
    ],
)
def test_misuse_is_a_config_error(make: Callable[[], Any]) -> None:
    with pytest.raises(kt.ConfigError):
        make()


@pytest.mark.parametrize("row", [None, "x", 5, ["a", "b"], {"a": 1}, [10**400, 1], [1, 2, 3]])
def test_a_row_that_is_none_is_a_config_error(row: Any) -> None:
    tracker = kt.Tracker(rank=2, budget=4, warmup=5)
    with pytest.raises(kt.ConfigError, match="row"):
        kt.Tracker(rank=2, budget=4, warmup=5).learn(5 if row == [1, 2, 3] else row)
    for values in X[:20]:
        tracker.learn(values)
    for call in (tracker.learn, tracker.look):
        with pytest.raises(kt.ConfigError, match="row"):
            call(row)
    assert tracker.rows == 20


# Threads.


def in_threads(work: Callable[[int], None]) -> None:
    failed: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_threads_share_a_fleet() -> None:
    some = fleet(reference=None)
    rows = table()[["pump", "flow", "heat"]]
    some.update(rows, model_id="pump")

    def work(_: int) -> None:
        for at in range(0, 160, 8):
            some.update(rows[at : at + 8])

    in_threads(work)
    assert repr(some).startswith(f"<Fleet: 2 devices, {2 * COUNT + 4 * 160:,} rows")


def test_threads_share_a_tracker() -> None:
    tracker = kt.Tracker(rank=4, budget=8, warmup=50)
    seen: list[int] = []

    def work(number: int) -> None:
        for row in X[number::4]:
            output_text = tracker.learn(row)
            if output_text is not None:
                seen.append(output_text.index)
                assert 0.0 <= output_text.loss <= 1.0 + 1e-9

    in_threads(work)
    assert tracker.rows == len(X)
    assert sorted(seen) == list(range(50, len(X)))


def test_the_last_frame_is_not_kept() -> None:
    some = fleet()
    update(some, table())
    assert len(pickle.dumps(some)) < 300_000
    assert isinstance(some.episodes, pd.DataFrame)
