"""`--only-while`: rows are judged while a condition holds; others are tracked, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import kerneltrack as kt
from pipelines.cli.main import main

ROWS = 2400
CHANNELS = ("flow", "heat")
COLUMNS = ("--model-id", "device", "--time", "time")
SMALL = ("--rank", "3", "--budget", "5", "--neighbours", "0", "--workers", "1")
FEATURES = ("--features", *CHANNELS)
DAY = pd.Timestamp("2026-01-02")
CONDITION = 'state == "run" and rpm > 200'


def table(*, long: bool = False) -> pd.DataFrame:
    """Two pumps that stand still every third hour, and are off from row 2,000 on."""
    rng, parts = np.random.default_rng(2), []
    at = np.arange(ROWS)
    runs = (at // 60) % 3 != 0
    for name in ("p1", "p2"):
        values = rng.normal(size=(ROWS, 2))
        values[~runs] = 0.01 * values[~runs] - 9
        values[2000:, 1] += 6 * runs[2000:]
        rows = pd.DataFrame(values, columns=list(CHANNELS))
        rows.insert(0, "device", name)
        rows.insert(1, "time", pd.Timestamp("2026-01-01") + pd.to_timedelta(at, "min"))
        rows["state"] = np.where(runs, "run", "off")
        rows["rpm"] = np.where(at % 60 == 30, 150.0, 900.0)
        # A row may lack what the condition is about.
        rows.loc[at == 1500, "state"] = None
        rows.loc[at == 1501, "rpm"] = np.nan
        parts.append(rows)
    whole = pd.concat(parts)
    return whole.melt(["device", "time"], var_name="name").dropna() if long else whole


def judged() -> Any:
    """Which rows of a pump meet the condition."""
    at = np.arange(ROWS)
    return ((at // 60) % 3 != 0) & (at % 60 != 30) & ~np.isin(at, (1500, 1501))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    table().to_csv(folder / "rows.csv", index=False)
    table().to_parquet(folder / "rows.parquet")
    table(long=True).astype({"value": str}).to_csv(folder / "long.csv", index=False)
    return folder


def track(rows: Path, output: Path, *flags: str) -> int:
    return main(["track", str(rows), *COLUMNS, *SMALL, "--output", str(output), *flags])


def p_of(output: Path) -> Any:
    features = pq.read_table(output / "features").sort_by("index")
    return features["p"].to_numpy(zero_copy_only=False).astype(float).reshape(ROWS, 2)


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "long.csv"])
def test_rows_are_judged_while_the_condition_holds(
    name: str, rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "run"
    long = ("--metric", "name", "--value", "value") if name == "long.csv" else ()
    flags = (*FEATURES, *long, "--reference", "first", "--only-while", CONDITION)
    assert track(rows / name, output, *flags) == 0
    printed = capsys.readouterr().out
    assert "channels: 2 as float64: flow, heat\n" in printed
    assert "condition: state, rpm: only --only-while reads it\n" in printed
    p = p_of(output)
    first = int(np.flatnonzero(judged())[511]) + 1
    assert np.isnan(p[:first]).all()
    assert (np.isfinite(p[first:]) == judged()[first:, np.newaxis]).all()
    lines = pq.read_table(output / "episodes").to_pylist()
    assert {(line["model_id"], line["start_index"]) for line in lines} == {
        ("p1", 2040),
        ("p2", 2040),
    }
    assert json.loads((output / "run.json").read_text())["columns"]["conditions"] == {
        **{"state": True, "rpm": False}
    }
    # The last row does not meet it, but an episode is open.
    assert main(["devices", str(output), "--json"]) == 0
    states = [json.loads(line)["state"] for line in capsys.readouterr().out.splitlines()]
    assert states == ["off", "off"]


def test_a_column_of_numbers_stays_a_channel(rows: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    assert (
        track(rows / "rows.csv", output, "--reference", "first", "--only-while", "rpm > 200") == 0
    )
    record = json.loads((output / "run.json").read_text())
    assert record["columns"]["features"] == ["flow", "heat", "rpm"]
    assert record["reference"]["only_while"] == "channel[2] > 200"


def test_what_does_not_meet_it_changes_no_score(rows: Path, tmp_path: Path) -> None:
    """Rows that pass by are not learned: with other values in them all others say the same."""
    other, flags = tmp_path / "other.parquet", (*FEATURES, "--reference", "first", "--only-while")
    frame = pd.read_parquet(rows / "rows.parquet")
    idle = ~np.tile(judged(), 2) & (np.tile(np.arange(ROWS), 2) > 600)
    frame.loc[idle, list(CHANNELS)] += 100
    frame.to_parquet(other)
    for place, output in ((rows / "rows.parquet", tmp_path / "a"), (other, tmp_path / "b")):
        assert track(place, output, *flags, CONDITION) == 0
    assert np.array_equal(p_of(tmp_path / "a"), p_of(tmp_path / "b"), equal_nan=True)


def test_new_rows_are_scored_while_it_holds(rows: Path, tmp_path: Path) -> None:
    output, scored = tmp_path / "run", tmp_path / "scored"
    flags = (*FEATURES, "--reference", "first", "--only-while", CONDITION)
    assert track(rows / "rows.csv", output, *flags) == 0
    place = ("--snapshots", str(output / "snapshots"), "--output", str(scored))
    assert main(["score", str(rows / "rows.csv"), *COLUMNS, *FEATURES, *place]) == 0
    p = pq.read_table(scored / "scores").sort_by("time")["p"].to_numpy(zero_copy_only=False)
    assert (np.isfinite(p.astype(float)).reshape(ROWS, 2) == judged()[:, np.newaxis]).all()


def test_a_fleet_says_what_the_job_says(rows: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    flags = (*FEATURES, "--reference", "first", "--only-while", CONDITION)
    assert track(rows / "rows.parquet", output, *flags) == 0
    fleet = kt.Fleet(rank=3, budget=5, only_while=CONDITION)
    frame = pd.read_parquet(rows / "rows.parquet")
    names: dict[str, Any] = {"model_id": "device", "time": "time", "features": CHANNELS}
    parts = [fleet.update(frame[frame["time"] < DAY], **names)]
    parts.append(fleet.update(frame[frame["time"] >= DAY]))
    p = pd.concat(parts).sort_values(["index", "device"])["p"].to_numpy(float)
    assert np.array_equal(p.reshape(ROWS, 2), p_of(output), equal_nan=True)
    loaded = kt.Fleet.load(output)
    assert loaded.score(frame)["p"].notna().sum() == 2 * judged().sum()
    with pytest.raises(ValueError, match=r"only_while = 'rmp > 3'.*character 1: rmp is no column"):
        kt.Fleet(only_while="rmp > 3").update(frame, **names)
    with pytest.raises(ValueError, match="left out without a reference"):
        kt.Fleet(only_while="rpm > 3", reference=None)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("rpm > 200 and stat == 'run'", "at character 15: stat is to be a column (did you mean"),
        ("rpm > 200 and time > 3", "at character 15: time has another meaning"),
        ("abs(rpm) > 200", "at character 1: there are no functions, such as abs"),
        ("rpm > ", "at character 6: invalid syntax"),
        ("flow == 'high'", "at character 9: flow holds numbers, and no texts"),
    ],
)
def test_what_is_wrong_is_said_before_the_job(
    condition: str, message: str, rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--reference", "first", "--only-while", condition)
    assert track(rows / "rows.csv", tmp_path / "run", *flags) != 0
    error = capsys.readouterr().err
    assert "--only-while = " in error
    assert f"must be right {message}" in error
    assert not (tmp_path / "run").exists()


def test_a_spec_file_has_it_and_a_job_that_goes_on_needs_it(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, output = tmp_path / "spec.yaml", tmp_path / "run"
    spec.write_text("reference:\n  only_while: >\n    state == 'run'\n    and rpm > 200\n")
    assert track(rows / "rows.csv", output, *FEATURES, "--spec", str(spec)) == 0
    warm = (*FEATURES, "--warm-start", str(output / "snapshots"))
    assert track(rows / "rows.csv", tmp_path / "next", *warm, "--reference", "first") != 0
    assert "--only-while" in capsys.readouterr().err


def test_the_report_and_the_end_of_a_job_say_when_nothing_is_judged(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # p1 stands still at the end, long enough that no episode is open; p2 runs.
    frame = pd.read_parquet(rows / "rows.parquet")
    late = (frame["time"] >= frame["time"].max() - pd.Timedelta("2h")) & (frame["device"] == "p1")
    frame.loc[late, "state"] = "off"
    frame = frame[(frame.index < 1980) | late]
    frame.to_parquet(tmp_path / "rows.parquet")
    output = tmp_path / "run"
    flags = (*FEATURES, "--reference", "first", "--only-while", CONDITION)
    assert track(tmp_path / "rows.parquet", output, *flags) == 0
    idle = 2 * np.count_nonzero(~judged()[:1980]) + late.sum()
    printed = capsys.readouterr().out
    assert f"{idle:,} rows do not meet --only-while: they are tracked, and not judged" in printed
    page = (output / "report.html").read_text()
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    spans, why = data["quiet"][0], {each[2] for each in data["quiet"][0]}
    assert why == {f"not {CONDITION}"}
    assert all(start < end for start, end, _ in spans)
    assert main(["devices", str(output), "--json"]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    assert {line["model_id"]: line["state"] for line in lines} == {"p1": "quiet", "p2": "normal"}


def test_a_job_that_goes_on_says_what_one_job_says(rows: Path, tmp_path: Path) -> None:
    whole, first, rest = tmp_path / "whole", tmp_path / "first", tmp_path / "rest"
    frame = pd.read_parquet(rows / "rows.parquet")
    frame[frame["time"] < DAY].to_parquet(tmp_path / "first.parquet")
    frame[frame["time"] >= DAY].to_parquet(tmp_path / "rest.parquet")
    flags = (*FEATURES, "--reference", "first", "--only-while", CONDITION)
    assert track(rows / "rows.parquet", whole, *flags) == 0
    assert track(tmp_path / "first.parquet", first, *flags) == 0
    warm = ("--warm-start", str(first / "snapshots"))
    assert track(tmp_path / "rest.parquet", rest, *flags, *warm) == 0
    tables = [pq.read_table(output / "features") for output in (first, rest)]
    parts = pd.concat([each.to_pandas() for each in tables]).sort_values(["index", "model_id"])
    wanted = pq.read_table(whole / "features").to_pandas().sort_values(["index", "model_id"])
    for name in ("loss", "p", "ref_distance"):
        assert np.array_equal(parts[name], wanted[name], equal_nan=True), name


def test_references_of_another_run_bring_their_condition(rows: Path, tmp_path: Path) -> None:
    good, output = tmp_path / "good", tmp_path / "run"
    frame = pd.read_parquet(rows / "rows.parquet")
    frame[frame["time"] < DAY].to_parquet(tmp_path / "good.parquet")
    frame[frame["time"] >= DAY].to_parquet(tmp_path / "new.parquet")
    flags = (*FEATURES, "--only-while", CONDITION)
    assert track(tmp_path / "good.parquet", good, *flags, "--reference", "first") == 0
    given = ("--reference", str(good / "snapshots"))
    assert track(tmp_path / "new.parquet", output, *flags, *given) == 0
    p = pq.read_table(output / "features").sort_by("time")["p"].to_numpy(zero_copy_only=False)
    judged_then = judged()[frame["time"].iloc[:ROWS] >= DAY]
    assert (np.isfinite(p.astype(float)).reshape(-1, 2) == judged_then[:, np.newaxis]).all()
    other = (*FEATURES, "--only-while", "rpm > 3", *given)
    assert track(tmp_path / "new.parquet", tmp_path / "other", *other) != 0


def test_without_a_reference_the_column_is_not_seen_either(rows: Path, tmp_path: Path) -> None:
    few, output, scored = tmp_path / "few.parquet", tmp_path / "run", tmp_path / "scored"
    frame = pd.read_parquet(rows / "rows.parquet")
    frame[frame["time"] < DAY - pd.Timedelta("20h")].to_parquet(few)
    assert track(few, output, *FEATURES, "--only-while", CONDITION, "--reference", "first") == 0
    place = ("--snapshots", str(output / "snapshots"), "--output", str(scored))
    assert main(["score", str(few), *COLUMNS, *FEATURES, *place]) == 0
    table = pq.read_table(scored / "scores")
    assert table["p"].null_count == len(table)
    # A name's number would be far from all that was learned.
    assert np.quantile(table["loss"].to_numpy(), 0.9) < 0.99
