"""Fleets on data frames: the same results as the file job's, and each other's snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kerneltrack as kt
from pipelines.cli.main import main

START = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
COUNT, HALF = 1500, 900
FLAGS = ("--model-id", "pump", "--time", "time", "--label", "mode")
SETTINGS = ("--rank", "5", "--budget", "9", "--learner", "ridge", "--reference", "first")


def rows_of(pumps: int = 4) -> pa.Table:
    """Rows of pumps, shuffled: two channels, one that says the mode, and a fault of pump 2."""
    rng = np.random.default_rng(7)
    time = np.tile(START + np.arange(COUNT) * SECOND, pumps)
    mode = rng.integers(0, 2, size=(pumps, COUNT))
    x = rng.normal(size=(pumps, COUNT, 3))
    x[..., 0] += 2 * mode
    x[2, 1200:, 1] += 6
    x[1, 5, 2] = np.nan
    table = pa.table(
        {
            "pump": np.repeat([f"pump {number}" for number in range(pumps)], COUNT),
            "time": pa.array(time).cast(pa.timestamp("ns", tz="UTC")),
            "flow": x[..., 0].ravel(),
            "heat": x[..., 1].ravel(),
            "oil": x[..., 2].ravel(),
            "mode": np.where(mode.ravel() == 1, "high", "low"),
        }
    )
    return table.take(rng.permutation(len(table)))


def until(table: pa.Table, half: bool) -> pa.Table:
    early = np.asarray(table["time"].cast(pa.int64())) < START + HALF * SECOND
    return table.filter(pa.array(early if half else ~early))


def track(folder: Path, table: pa.Table, *flags: str) -> Path:
    source = folder.with_suffix(".parquet")
    pq.write_table(table, source)
    assert main(["track", str(source), "--output", str(folder), *FLAGS, *flags]) == 0
    return folder


def read(folder: Path, part: str) -> pa.Table:
    return pq.read_table(folder / part).sort_by([("model_id", "ascending"), ("index", "ascending")])


def second_half(lines: pa.Table) -> pa.Table:
    return lines.filter(pa.array(np.asarray(lines["time"].cast("int64")) >= START + HALF * SECOND))


def same(frame: pa.Table, job: Path) -> None:
    """The frame's rows are the job's, bit for bit."""
    taken = frame.filter(pa.compute.is_valid(frame["index"]))
    taken = taken.sort_by([("pump", "ascending"), ("index", "ascending")])
    features, predictions = read(job, "features"), read(job, "predictions")
    assert taken["pump"].to_pylist() == features["model_id"].to_pylist()
    scores = ("ref_loss", "ref_distance", "ref_score", "ref_settled", "p")
    for name in ("loss", "novelty", *scores, "informative"):
        theirs = np.asarray(features[name].to_numpy())
        np.testing.assert_array_equal(np.asarray(taken[name].to_numpy()), theirs, err_msg=name)
    z = np.stack([np.asarray(taken[f"z{at}"].to_numpy()) for at in range(5)], axis=1)
    np.testing.assert_array_equal(z, np.stack(features["z"].to_numpy()))
    assert taken["prediction"].to_pylist() == predictions["prediction"].to_pylist()
    assert taken["correct"].to_pylist() == predictions["correct"].to_pylist()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job over all rows."""
    return track(tmp_path_factory.mktemp("fleet") / "all", rows_of(), *SETTINGS)


@pytest.fixture(scope="module")
def first_half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return track(tmp_path_factory.mktemp("fleet") / "half", until(rows_of(), True), *SETTINGS)


def fleet() -> kt.Fleet:
    return kt.Fleet(rank=5, budget=9, learner="ridge")


def update(some: kt.Fleet, table: pa.Table) -> Any:
    return some.update(table, model_id="pump", time="time", label="mode")


@pytest.mark.parametrize(
    ("task", "label", "columns"),
    [("classification", "mode", ["set"]), ("regression", "oil", ["lower", "upper"])],
)
def test_sets_and_intervals_are_the_jobs(
    task: str, label: str, columns: list[str], tmp_path: Path
) -> None:
    table = rows_of()
    if task == "regression":
        table = table.drop_columns("mode")
    flags = ("--learner-task", task, "--intervals", ".8", "--label", label)
    found = track(tmp_path / "out", table, "--rank", "5", "--learner", "ridge", *flags)
    spec = kt.RidgeSpec(task=task, intervals=0.8)
    some: Any = kt.Fleet(rank=5, learner=spec)
    rows = some.update(table, model_id="pump", time="time", label=label)
    taken = rows.filter(pa.compute.is_valid(rows["index"]))
    taken = taken.sort_by([("pump", "ascending"), ("index", "ascending")])
    predictions = read(found, "predictions")
    for column in columns:
        ours, theirs = (each[column].to_pandas().tolist() for each in (taken, predictions))
        assert list(map(str, ours)) == list(map(str, theirs))
        assert len(set(map(str, theirs))) > 2


def test_features_predictions_and_snapshots_are_the_jobs(job: Path, tmp_path: Path) -> None:
    some = fleet()
    same(update(some, rows_of()), job)
    some.save(tmp_path / "kept")
    names = sorted(path.name for path in (job / "snapshots").iterdir())
    kept = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert kept == sorted([*names, "columns.json"])
    assert len(names) == 9
    for name in names:
        assert (tmp_path / "kept" / name).read_bytes() == (job / "snapshots" / name).read_bytes()


def test_words_and_units_are_read_as_the_job_reads_them(tmp_path: Path) -> None:
    table = rows_of()
    heat = [f"{value!r} bar" for value in table["heat"].to_pylist()]
    table = table.set_column(3, "heat", pa.array(heat)).drop_columns(["oil"])
    table = table.append_column("valve", table["mode"])
    flags = ("--words", "valve=low,high", "--units", "heat=bar")
    job = track(tmp_path / "job", until(table, True), *SETTINGS, *flags)
    ways: dict[str, Any] = {"words": {"valve": ("low", "high")}, "units": {"heat": "bar"}}
    some, early, late = fleet(), until(table, True), until(table, False)
    names: dict[str, Any] = {"model_id": "pump", "time": "time", "label": "mode"}
    same(some.update(early, **names, **ways), job)
    later = kt.Fleet.load(job).update(late, **names)
    assert later.equals(some.update(late))


def test_episodes_are_the_jobs(job: Path) -> None:
    some = fleet()
    update(some, rows_of())
    lines = pq.read_table(job / "episodes").to_pylist()
    last = {(line["model_id"], line["episode"]): line for line in lines}
    found = some.episodes.to_pylist()
    assert [(line["pump"], line["state"], line["channels"][:4]) for line in found] == [
        ("pump 2", "open", "heat")
    ]
    assert len(last) == len(found)
    for line in found:
        theirs = last[line["pump"], line["episode"]]
        for name in ("state", "kind", "severity", "p", "start_index", "detected_index"):
            assert line[name] == theirs[name]
        assert line["start"].value == theirs["start"].value


def test_a_job_goes_on_from_a_fleets_snapshots(job: Path, tmp_path: Path) -> None:
    some = fleet()
    update(some, until(rows_of(), True))
    some.save(tmp_path / "kept")
    warm = ("--warm-start", str(tmp_path / "kept"), "--learner", "ridge", "--reference", "first")
    second = track(tmp_path / "second", until(rows_of(), False), *warm)
    for part in ("features", "predictions"):
        whole, rest = read(job, part), read(second, part)
        names = [name for name in whole.column_names if name not in ("source", "row")]
        assert rest.select(names).equals(second_half(whole).select(names))
    for path in sorted((job / "snapshots").glob("*.safetensors")):
        assert path.read_bytes() == (second / "snapshots" / path.name).read_bytes()


def test_scores_are_those_of_the_command(first_half: Path, tmp_path: Path) -> None:
    later = until(rows_of(), False)
    pq.write_table(later, tmp_path / "later.parquet")
    flags = ("--snapshots", str(first_half / "snapshots"), *FLAGS)
    out = tmp_path / "scores"
    assert main(["score", str(tmp_path / "later.parquet"), "--output", str(out), *flags]) == 0
    some = kt.Fleet.load(first_half)
    before = repr(some)
    scored = some.score(later).sort_by([("pump", "ascending"), ("index", "ascending")])
    theirs = read(out, "scores")
    for name in ("index", "loss", "novelty", "p"):
        np.testing.assert_array_equal(
            np.asarray(scored[name].to_numpy()), np.asarray(theirs[name].to_numpy())
        )
    assert scored["prediction"].to_pylist() == theirs["prediction"].to_pylist()
    assert repr(some) == before
    assert some.predict(later) == some.score(later)["prediction"].to_pylist()
