"""Fleets on data frames of every kind: what comes in, what goes out, what is refused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import kerneltrack as kt
from kerneltrack.monitor import ReferenceSpec

PUMPS, COUNT = 3, 700
BEGIN = datetime(2026, 3, 1)


def columns() -> dict[str, Any]:
    rng = np.random.default_rng(11)
    x = rng.normal(size=(PUMPS, COUNT, 2))
    x[1, 600:, 1] += 8
    times = [BEGIN + timedelta(seconds=second) for second in range(COUNT)]
    return {
        "pump": np.repeat(["a", "b", "c"], COUNT).tolist(),
        "when": times * PUMPS,
        "flow": x[..., 0].ravel(),
        "heat": x[..., 1].ravel(),
        "mode": np.where(x[..., 0].ravel() > 0, "high", "low").tolist(),
    }


KINDS: dict[str, Any] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "batch": pa.RecordBatch.from_pydict,
}


def made(kind: str, values: dict[str, Any] | None = None) -> Any:
    return KINDS[kind](columns() if values is None else values)


def fleet(**settings: Any) -> kt.Fleet:
    return kt.Fleet(rank=4, budget=8, learner="ridge", **settings)


def update(some: kt.Fleet, rows: Any, **more: Any) -> Any:
    return some.update(rows, model_id="pump", time="when", label="mode", **more)


def column(frame: Any, name: str) -> Any:
    values = frame[name]
    return values.to_pylist() if hasattr(values, "to_pylist") else values.to_list()


@pytest.mark.parametrize("kind", KINDS)
def test_frames_come_back_as_they_came(kind: str) -> None:
    some = fleet()
    rows = made(kind)
    out = update(some, rows)
    expected = pa.Table if kind == "batch" else type(rows)
    assert type(out) is expected
    assert type(some.episodes) is expected
    assert column(out, "pump") == columns()["pump"]
    assert column(out, "index") == list(range(COUNT)) * PUMPS
    assert column(out, "reason") == [None] * (PUMPS * COUNT)
    assert set(column(out, "prediction")) == {None, "high", "low"}
    names = list(out.column_names if hasattr(out, "column_names") else out.columns)
    assert names == [
        *("pump", "when", "index", "loss", "novelty"),
        *("ref_loss", "ref_distance", "ref_score", "ref_settled", "p"),
        *("informative", "z0", "z1", "z2", "z3"),
        *("prediction", "score", "margin", "correct", "reason"),
    ]
    assert [
        (line, state, channels[:4])
        for line, state, channels in zip(
            column(some.episodes, "pump"),
            column(some.episodes, "state"),
            column(some.episodes, "channels"),
            strict=True,
        )
    ] == [("b", "open", "heat")]
    since = column(some.episodes, "start")[0]
    assert abs((pd.Timestamp(since) - pd.Timestamp(BEGIN)).total_seconds() - 600) < 10


@pytest.mark.parametrize("kind", ["polars", "arrow", "batch"])
def test_every_kind_gives_the_same(kind: str) -> None:
    first, other = update(fleet(), made("pandas")), update(fleet(), made(kind))
    for name in ("loss", "novelty", "p", "z0", "z3", "score"):
        np.testing.assert_array_equal(np.array(column(other, name)), np.array(column(first, name)))
    assert column(other, "prediction") == column(first, "prediction")


@pytest.mark.parametrize("kind", KINDS)
def test_times_come_back_in_their_zone(kind: str) -> None:
    values = columns()
    zone = "Europe/Berlin"
    frame = pl.DataFrame(values).with_columns(pl.col("when").dt.replace_time_zone(zone))
    made_of: dict[str, Callable[[], Any]] = {
        "pandas": frame.to_pandas,
        "polars": lambda: frame,
        "arrow": frame.to_arrow,
        "batch": lambda: frame.to_arrow().combine_chunks().to_batches()[0],
    }
    rows = made_of[kind]()
    some = fleet(reference="first")
    out = update(some, rows)
    for found, name in ((out, "when"), (some.episodes, "start")):
        times = column(found, name)
        assert times
        assert {time.utcoffset() for time in times} == {timedelta(hours=1)}
    assert column(out, "when") == column(rows, "when")
    (start,) = column(some.episodes, "start")
    assert abs(start.replace(tzinfo=None) - BEGIN - timedelta(seconds=600)) < timedelta(seconds=20)


def test_pandas_keeps_its_index() -> None:
    rows = made("pandas").sample(frac=1.0, random_state=1)
    rows.index = [f"row {number}" for number in rows.index]
    out = update(fleet(), rows)
    assert out.index.tolist() == rows.index.tolist()
    ordered = out.sort_values(["pump", "when"])["loss"].to_numpy()
    np.testing.assert_array_equal(ordered, update(fleet(), made("pandas"))["loss"].to_numpy())


@pytest.mark.parametrize("cuts", [(10,), (333, 1000), (1, 2, 1500)])
def test_waiting_fleets_do_not_depend_on_the_cut(cuts: tuple[int, ...], tmp_path: Path) -> None:
    rows = made("polars").sort("when", "pump")
    whole, parts = fleet(), fleet()
    update(whole, rows, wait=True)
    edges = [0, *cuts, len(rows)]
    for begin, end in itertools.pairwise(edges):
        update(parts, rows[begin:end], wait=True)
    whole.save(tmp_path / "whole")
    parts.save(tmp_path / "parts")
    files = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert len(files) == 2 * PUMPS + 2
    for name in files:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()


def test_a_row_that_waits_says_so_and_is_learned_later() -> None:
    rows = made("polars").filter(pl.col("pump") == "a")
    some = fleet()
    first = update(some, rows[:499], wait=True)
    assert set(first["reason"]) == {"waits for the warm-up of 500 rows"}
    assert first["index"].null_count() == 499
    assert (len(some), repr(some)) == (
        0,
        "<Fleet: 0 devices, 0 rows, 1 waiting to begin, 0 off, tracker okfeb>",
    )
    last = update(some, rows[499:], wait=True)
    assert last["index"].to_list() == list(range(499, COUNT))
    np.testing.assert_array_equal(last["loss"], update(fleet(), rows)["loss"][499:])


def test_rows_that_cannot_be_taken_have_a_reason() -> None:
    values = columns()
    values["flow"][3], values["pump"][5], values["when"][7] = np.nan, None, None
    some = fleet()
    out = update(some, made("polars", values))
    reasons = {place: reason for place, reason in enumerate(out["reason"]) if reason is not None}
    assert reasons == {
        3: "column 'flow' is missing",
        5: "the model id is missing",
        7: "the time is missing, or too far from 1970",
    }
    assert out["index"].null_count() == 3
    again = update(some, made("polars"))
    assert again["reason"].value_counts(sort=True).rows() == [
        ("of a time that the model had learned from before, until 2026-03-01", PUMPS * (COUNT - 1)),
        ("the model has learned this row of its newest time already", PUMPS),
    ]


def test_models_without_ids_and_times() -> None:
    rows = made("polars").filter(pl.col("pump") == "b").select("flow", "heat")
    some = kt.Fleet(rank=4, budget=8)
    out = some.update(rows)
    assert (list(some), out.columns[0], len(out)) == ([""], "index", COUNT)
    assert some.episodes["model_id"].to_list() == [""]
    assert "start" not in some.episodes.columns


def test_targets() -> None:
    values = columns()
    values["mode"] = 2 * values["flow"] + 1
    some = kt.Fleet(rank=4, budget=8, learner=kt.RidgeSpec(task="regression"))
    out = update(some, made("polars", values))
    assert out["error"].median() < 0.5 * np.std(values["mode"])
    assert some.accuracy == pytest.approx(np.sqrt((out["error"][1:].drop_nans() ** 2).mean()))
    assert "RMSE" in repr(some)


def test_a_spec_of_a_learner_is_given_what_a_job_gives_it() -> None:
    by_name, by_spec = fleet(), kt.Fleet(rank=4, budget=8, learner=kt.RidgeSpec())
    assert by_spec.learner == by_name.learner == kt.RidgeSpec(inputs="both")
    table = made("polars")
    assert update(by_spec, table).equals(update(by_name, table))
    chosen = kt.RidgeSpec(inputs="features")
    assert kt.Fleet(rank=4, budget=8, learner=chosen).learner == chosen
    assert kt.Fleet("rows", warmup=20, learner=kt.RidgeSpec()).learner == chosen


def test_numbers_as_ids_labels_and_times() -> None:
    values = columns()
    values["pump"] = np.repeat([1, 2, 3], COUNT)
    values["when"] = np.tile(np.arange(COUNT) * 1000, PUMPS)
    values["mode"] = (values["flow"] > 0).astype(float)
    some = fleet()
    out = update(some, made("polars", values), time_unit="ms")
    assert (list(some), set(out["prediction"])) == (["1", "2", "3"], {None, "0", "1"})
    np.testing.assert_array_equal(out["loss"], update(fleet(), made("polars"))["loss"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"model_id": "pmp"}, "model_id = 'pmp'"),
        ({"time": "flowing"}, "time = 'flowing'"),
        ({"features": ["flow", "oil"]}, "features = 'oil'"),
        ({"features": ["flow", "mode"]}, "column 'mode'"),
        ({"features": ["flow", "flow"]}, "features = 'flow'"),
        ({"time": "mode"}, "column 'mode'"),
        ({"model_id": "heat"}, "column 'heat'"),
        ({"label": "mode"}, "label = 'mode'"),
        ({"time_unit": "h", "time": "flow"}, "time_unit = 'h'"),
    ],
)
def test_errors_name_columns(call: dict[str, Any], message: str) -> None:
    some = kt.Fleet(rank=4)
    with pytest.raises(kt.ConfigError, match=message):
        some.update(made("pandas"), **call)
    assert (len(some), some.columns) == (0, None)


def test_errors_of_later_calls() -> None:
    some = fleet()
    update(some, made("polars"))
    with pytest.raises(kt.ConfigError, match=r"'heat'.*column"):
        some.update(made("polars").drop("heat"))
    with pytest.raises(kt.ConfigError, match="the channels that the models have"):
        some.update(made("polars"), features=["heat", "flow"])
    with pytest.raises(kt.ConfigError, match="a data frame"):
        some.update([[1.0, 2.0]])
    with pytest.raises(kt.ConfigError, match="Fleet\\(learner='ridge'\\)"):
        kt.Fleet().predict(made("polars"))
    with pytest.raises(kt.ConfigError, match="call update"):
        fleet().score(made("polars"))


def test_settings_are_checked() -> None:
    with pytest.raises(kt.ConfigError, match="budget"):
        kt.Fleet(rank=10, budget=3)
    with pytest.raises(kt.ConfigError, match="rnk"):
        kt.Fleet(rnk=10)
    with pytest.raises(kt.ConfigError, match="left out where `tracker` is a spec"):
        kt.Fleet(kt.OKFEBSpec(), rank=3)
    some = kt.Fleet(reference=ReferenceSpec(per="30 days"))
    with pytest.raises(kt.ConfigError, match="time = None"):
        some.update(made("polars").select("flow", "heat"))


def test_causes_are_channels_by_name() -> None:
    rows = made("polars").drop("mode")
    for name, place in {"flow": 0, "heat": 1}.items():
        some = kt.Fleet(reference=ReferenceSpec(learning="auto", causes=[name]))
        some.update(rows, model_id="pump", time="when")
        assert some.reference is not None
        assert some.reference.to_dict()["causes"] == [place]
    wrong = kt.Fleet(reference=ReferenceSpec(learning="auto", causes=["weather"]))
    with pytest.raises(kt.ConfigError, match=r"causes = 'weather'.*flow, heat"):
        wrong.update(rows, model_id="pump", time="when")


def test_scores_and_predictions_learn_nothing() -> None:
    some = fleet()
    rows = made("polars")
    update(some, rows)
    before = some.score(rows.tail(50))
    assert some.predict(rows.tail(50)) == before["prediction"].to_list()
    assert before.equals(some.score(rows.tail(50)), null_equal=True)
    unknown = rows.tail(1).with_columns(pump=pl.lit("z"))
    assert some.score(unknown)["reason"].to_list() == ["no such model"]
    assert some.score(rows.tail(50).drop("mode"))["loss"].equals(before["loss"])


def test_saved_fleets_are_loaded_with_their_columns(tmp_path: Path) -> None:
    some = fleet()
    rows = made("polars")
    update(some, rows)
    some.save(tmp_path / "kept")
    with pytest.raises(kt.ConfigError, match="empty"):
        some.save(tmp_path / "kept")
    other = kt.Fleet.load(tmp_path / "kept")
    assert (other.columns, repr(other)) == (some.columns, repr(some))
    assert other.score(rows.tail(20)).equals(some.score(rows.tail(20)))
    (tmp_path / "kept" / "columns.json").write_text("[]")
    with pytest.raises(kt.DataError, match=r"columns\.json"):
        kt.Fleet.load(tmp_path / "kept")
    with pytest.raises(kt.DataError):
        kt.Fleet.load(tmp_path / "nowhere")


def test_what_notebooks_show(tmp_path: Path) -> None:
    values = columns()
    values["pump"] = ["<b>" if name == "b" else name for name in values["pump"]]
    some = fleet()
    update(some, made("polars", values))
    assert repr(some).startswith("<Fleet: 3 devices, 2,100 rows, 1 off, 92.6% correct")
    page = some._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b></td>" not in page
    assert re.search(r"<td>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", page)
    ElementTree.fromstring(f"<div>{page}</div>")
    picture = some.plot()
    picture.save(tmp_path / "fleet.svg")
    tree = ElementTree.parse(tmp_path / "fleet.svg")
    texts = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:2] == ["1 of 3 devices have episodes", "<b>"]
    assert picture._repr_svg_() == picture.svg
    ElementTree.fromstring(kt.Fleet().plot().svg)
    with pytest.raises(kt.ConfigError, match=r"path = '.*fleet.png': must be a name that ends in"):
        picture.save(tmp_path / "fleet.png")
    assert list(some.episodes.columns)[:4] == ["pump", "start", "kind", "channels"]


def test_one_device_is_drawn_by_its_channels() -> None:
    some = fleet()
    update(some, made("polars"))
    tree = ElementTree.fromstring(some.plot("b").svg)
    texts = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert some.columns is not None
    assert texts[: 1 + len(some.columns.features)] == ["b: 1 episode", *some.columns.features]
    titles = [element.text or "" for element in tree.iter("{http://www.w3.org/2000/svg}title")]
    assert titles and all("open, since" in title for title in titles)
    quiet = ElementTree.fromstring(some.plot("a").svg)
    assert "a: 0 episodes" in [each.text for each in quiet.iter()]
    with pytest.raises(
        kt.ConfigError, match="model_id = 'z': must be one of the fleet's 3 devices"
    ):
        some.plot("z")


def test_misuse_is_an_error_when_a_fleet_is_made() -> None:
    with pytest.raises(kt.ConfigError, match="reference = 'jan/snapshots': must be one of first,"):
        kt.Fleet(reference="jan/snapshots")
    with pytest.raises(kt.ConfigError, match=r"learner_task = .*learner=kt.AutoSpec\(task="):
        kt.Fleet(learner="auto", learner_task="regression")
    with pytest.raises(
        kt.ConfigError, match=r"reference_rows = .*reference=kt.ReferenceSpec\(rows="
    ):
        kt.Fleet(reference_rows=1024)
    spec = kt.ReferenceSpec(learning="auto", memory="7 days")
    assert kt.Fleet(reference=spec, learner=kt.AutoSpec()).reference == spec


@pytest.mark.parametrize("kind", KINDS)
def test_sets_of_classes_are_a_column_of_lists(kind: str) -> None:
    some = kt.Fleet(rank=4, budget=8, learner=kt.RidgeSpec(intervals=0.8))
    out = update(some, made(kind))
    sets, labels = column(out, "set"), columns()["mode"]
    # A device's first row comes before any label.
    assert [place for place, each in enumerate(sets) if each is None] == [0, COUNT, 2 * COUNT]
    assert {len(each) for each in sets if each is not None} > {1}
    held = [label in (each or ()) for label, each in zip(labels, sets, strict=True)]
    assert np.mean(held) == pytest.approx(0.8, abs=0.05)
