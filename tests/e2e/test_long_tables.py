"""Long tables through the jobs: to the bit what the wide table gives, whatever their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main
from pipelines.files import partitioned, workers
from tests.e2e.jobs import (
    CHANNELS,
    SMALL,
    array_of,
    assert_same_features,
    failures_of,
    features_of,
    lines_of,
    matrix,
    record_of,
    sensor_table,
    snapshots_of,
    track,
    write,
)
from tests.report_runs import data_of
from transforms.beam_worker.runners import IN_PROCESS_RUNNER
from transforms.partition import large

ROWS = 1_200
NAMES = ("--model-id", "model_id", "--time", "time", *SMALL)
LONG = (*NAMES, "--metric", "metric", "--value", "value")
RUNNER = (f"--runner={IN_PROCESS_RUNNER}",)
PLACES = ("source", "row")


def wide_table(missing: float = 0.0) -> pa.Table:
    table = sensor_table(ROWS).select(["model_id", "time", *CHANNELS])
    if missing:
        gone = np.random.default_rng(1).random((ROWS, len(CHANNELS))) < missing
        gone[:20] = False
        for at, name in enumerate(CHANNELS):
            values = pa.array(table[name].to_numpy(), mask=gone[:, at])
            table = table.set_column(table.schema.get_field_index(name), name, values)
    return table


def long_table(wide: pa.Table, order: str) -> pa.Table:
    """The same as a row for each value that is there; where none is, rows that say so."""
    parts = [
        pa.table(
            {
                "model_id": wide["model_id"],
                "time": wide["time"],
                "metric": pa.array([name] * len(wide)),
                "value": wide[name],
                "place": np.arange(len(wide)) * len(CHANNELS) + at,
            }
        )
        for at, name in enumerate(CHANNELS)
    ]
    there = np.array([wide[name].is_valid().to_pylist() for name in CHANNELS])
    table = pa.concat_tables(parts).filter(pa.array((there | ~there.any(axis=0)).ravel()))
    if order == "by time":
        table = table.sort_by("place")
    elif order == "shuffled":
        table = table.take(np.random.default_rng(2).permutation(len(table)))
    return table.drop_columns(["place"])


def written(folder: Path, table: pa.Table, files: int) -> list[str]:
    """Write a table as files of CSV or Parquet."""
    edges = np.linspace(0, len(table), files + 1).astype(int)
    paths = []
    for number in range(files):
        part = table.slice(edges[number], edges[number + 1] - edges[number])
        if files > 1:
            pacsv.write_csv(part, folder / f"long-{number}.csv")
            paths.append(str(folder / f"long-{number}.csv"))
        else:
            paths.append(write(folder / "long.parquet", part))
    return paths


@pytest.mark.parametrize(
    ("flags", "missing"),
    [
        ((), 0.0),
        (("--reference", "first", "--reference-rows", "256", "--drift", "--window", "5"), 0.0),
        (("--missing", "hold", "--hold-for", "0.2"), 0.3),
        (("--max-disorder", "100", "--max-jump", "100"), 0.0),
    ],
    ids=["plain", "all", "hold", "disorder"],
)
@pytest.mark.parametrize(
    ("order", "files"), [("by time", 1), ("by metric", 3), ("shuffled", 2)], ids=str
)
def test_it_gives_what_the_wide_table_gives(
    flags: tuple[str, ...], missing: float, order: str, files: int, tmp_path: Path
) -> None:
    wide = wide_table(missing)
    long = long_table(wide, order)
    track(write(tmp_path / "wide.parquet", wide), *NAMES, *flags, "--output", str(tmp_path / "w"))
    paths = written(tmp_path, long, files)
    track(*paths, *LONG, *flags, "--output", str(tmp_path / "l"))
    left, right = tmp_path / "l", tmp_path / "w"
    assert_same_features(features_of(left), features_of(right), PLACES)
    assert snapshots_of(left) == snapshots_of(right)
    for part in ("episodes", "alerts", "mismatch"):
        if (right / part).exists():
            assert lines_of(left, part) == lines_of(right, part)
    counts = record_of(left)["counts"]
    assert counts["rows_in"] == len(long)
    assert counts["rows_merged"] == len(long) - counts["rows_out"] - counts["rows_failed"]
    assert len(failures_of(left)) == len(failures_of(right))


def test_the_report_shows_the_channels_of_the_wide_table(tmp_path: Path) -> None:
    wide = sensor_table(3_000, 1).select(["model_id", "time", *CHANNELS])
    reference = ("--reference", "first", "--reference-rows", "512")
    track(write(tmp_path / "w.parquet", wide), *NAMES, *reference, "--output", str(tmp_path / "w"))
    ((expected,),) = channels_in(tmp_path / "w")
    for order in ("by time", "by metric"):
        output = tmp_path / order
        paths = written(tmp_path, long_table(wide, order), 1)
        track(*paths, *LONG, *reference, "--output", str(output))
        assert channels_in(output) == [[expected]]


def channels_in(output: Path) -> list[list[dict[str, Any]]]:
    """The channels around the episodes, by model, as the report has them."""
    data = data_of((output / "report.html").read_text(encoding="utf-8"))
    found: list[list[dict[str, Any]]] = data["channels"]
    return found


@pytest.mark.parametrize("how", ["runner", "processes", "large"])
def test_on_a_runner_in_processes_and_larger_than_memory(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = written(tmp_path, long_table(wide_table(), "shuffled"), 2)
    track(*paths, *LONG, "--output", str(tmp_path / "plain"))
    if how == "large":
        monkeypatch.setattr(partitioned, "MOST_IN_MEMORY", 4 << 10)
        monkeypatch.setattr(large, "LEAST_BLOCK", 16)
    monkeypatch.setattr(workers, "MOST_ALONE_ROWS", 0)
    more = RUNNER if how == "runner" else ("--workers", "2")
    track(*paths, *LONG, *more, "--output", str(tmp_path / "other"))
    assert features_of(tmp_path / "plain").equals(features_of(tmp_path / "other"))
    assert snapshots_of(tmp_path / "plain") == snapshots_of(tmp_path / "other")
    counts = [record_of(tmp_path / name)["counts"] for name in ("plain", "other")]
    assert counts[0] == counts[1]


def test_rows_that_lack_a_channel_fail_and_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = long_table(wide_table(0.01), "by time")
    track(*written(tmp_path, long, 1), *LONG, "--output", str(tmp_path / "out"))
    gone = [reason for *_, reason in failures_of(tmp_path / "out")]
    assert gone
    assert all(reason.endswith("(--missing hold takes the last one)") for reason in gone)
    assert {reason.partition(":")[0].partition(",")[0] for reason in gone} <= set(CHANNELS)
    text = capsys.readouterr().out
    merged = record_of(tmp_path / "out")["counts"]["rows_merged"]
    assert f"\n{merged:,} merged into another row of their device and time\n" in text


def test_the_last_of_a_value_that_comes_again_is_taken_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = wide_table()
    long = long_table(wide, "by time")
    wrong = long.slice(0, 30).set_column(3, "value", pa.array(np.full(30, 7.0)))
    paths = [
        write(tmp_path / "a.parquet", wrong),
        write(tmp_path / "b.parquet", long),
    ]
    track(*paths, *LONG, "--output", str(tmp_path / "out"))
    track(write(tmp_path / "w.parquet", wide), *NAMES, "--output", str(tmp_path / "w"))
    left, right = features_of(tmp_path / "out"), features_of(tmp_path / "w")
    assert_same_features(left, right, PLACES)
    assert "\nwarning:  30 values came again for the same device" in capsys.readouterr().out


@pytest.mark.parametrize("reference", [(), ("--reference", "first", "--reference-rows", "256")])
def test_scored_they_give_what_the_wide_table_gives(
    reference: tuple[str, ...], tmp_path: Path
) -> None:
    wide = wide_table()
    first, then = wide.slice(0, 900), wide.slice(900)
    track(write(tmp_path / "f.parquet", first), *NAMES, *reference, "--output", str(tmp_path / "f"))
    snapshots = ("--snapshots", str(tmp_path / "f" / "snapshots"))
    paths = written(tmp_path, long_table(then, "shuffled"), 2)
    names = ("--model-id", "model_id", "--time", "time")
    long = ("--metric", "metric", "--value", "value")
    w, o = str(tmp_path / "w"), str(tmp_path / "l")
    path = write(tmp_path / "t.parquet", then)
    assert main(["score", path, *names, *snapshots, "--output", w]) == 0
    assert main(["score", *paths, *names, *long, *snapshots, "--output", o]) == 0
    losses = []
    for folder in (w, o):
        found = pa.concat_tables(
            pq.read_table(path) for path in sorted(Path(folder, "scores").iterdir())
        ).sort_by([("model_id", "ascending"), ("time", "ascending")])
        losses.append(array_of(found, "loss"))
    assert len(losses[0]) == len(then)
    assert (losses[0] == losses[1]).all()


@pytest.mark.parametrize(
    ("flags", "wrong"),
    [
        (("--duplicates", "drop"), "--duplicates = 'drop': must be merge or left out"),
        (("--max-disorder", "0"), "--max-disorder = '0': must be over 0 with --metric"),
        (("--missing", "drop"), "--missing = 'drop'"),
    ],
)
def test_flags_that_do_not_go_with_it_are_refused(
    flags: tuple[str, ...], wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = written(tmp_path, long_table(wide_table(), "by time"), 1)
    assert main(["track", *paths, *LONG, *flags, "--output", str(tmp_path / "out")]) == 2
    assert wrong in capsys.readouterr().err


@pytest.mark.parametrize("job", ["tune", "landmarks"])
def test_jobs_that_take_rows_as_they_stand_refuse_it(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = written(tmp_path, long_table(wide_table(), "by time"), 1)
    names = ("--model-id", "model_id", "--time", "time", "--metric", "metric", "--value", "value")
    assert main([job, *paths, *names, "--output", str(tmp_path / "out")]) == 2
    assert "--metric = 'metric': must be left out" in capsys.readouterr().err


def test_wide_rows_that_have_some_channels_each_are_merged(tmp_path: Path) -> None:
    wide = wide_table()
    parts = []
    for at, name in enumerate(CHANNELS):
        others = [pa.nulls(ROWS, pa.float64()) for _ in CHANNELS]
        others[at] = wide[name]
        named = dict(zip(CHANNELS, others, strict=True))
        parts.append(pa.table({"model_id": wide["model_id"], "time": wide["time"], **named}))
    path = write(tmp_path / "parts.parquet", pa.concat_tables(parts))
    merge = ("--duplicates", "merge")
    track(path, *NAMES, *merge, "--output", str(tmp_path / "l"))
    track(write(tmp_path / "w.parquet", wide), *NAMES, "--output", str(tmp_path / "w"))
    left, right = features_of(tmp_path / "l"), features_of(tmp_path / "w")
    assert_same_features(left, right, PLACES)
    assert (array_of(left, "z") == array_of(right, "z")).all()
    assert len(matrix(wide)) == len(left)


def test_words_and_units_of_metrics_are_settings_that_are_handed_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Home Assistant's history: a switch beside measurements, and later a state of its own."""
    rng = np.random.default_rng(5)
    rows = [(t, round(rng.normal(20, 2), 2), int(rng.integers(2))) for t in range(160)]

    def history(first: int, last: int, *more: str) -> str:
        lines = ["entity_id,state,last_changed"]
        for t, heat, on in rows[first:last]:
            lines += [f"sensor.heat,{heat} °C,{t}", f"binary_sensor.door,{('off', 'on')[on]},{t}"]
        path = tmp_path / f"history-{first}.csv"
        path.write_text("\n".join([*lines, *more]) + "\n", encoding="utf-8")
        return str(path)

    one, two = history(0, 120), history(120, 160, "binary_sensor.door,jammed,159")
    wide = {
        "last_changed": [t for t, *_ in rows],
        "sensor.heat": [heat for _, heat, _ in rows],
        "binary_sensor.door": [float(on) for *_, on in rows],
    }
    path = write(tmp_path / "wide.parquet", pa.table(wide))
    long = ("--metric", "entity_id", "--value", "state", "--time", "last_changed")
    named = ("--features", "sensor.heat", "binary_sensor.door")
    o, w, n, s = (str(tmp_path / name) for name in ("o", "w", "n", "s"))
    track(one, *long, *SMALL, "--output", o)
    text = capsys.readouterr().out
    assert "binary_sensor.door: two words (--features takes it: off is 0, on is 1)" in text
    assert "unit:     sensor.heat: in °C" in text
    track(one, *long, *named, *SMALL, "--output", o, "--overwrite")
    assert "words:    binary_sensor.door: off is 0, on is 1" in capsys.readouterr().out
    found = record_of(Path(o))["columns"]
    assert found["words"] == {"binary_sensor.door": ["off", "on"]}
    assert found["units"] == {"sensor.heat": "°C"}
    track(two, *long, *named, "--warm-start", f"{o}/snapshots", "--output", n)
    assert record_of(Path(n))["columns"]["words"] == found["words"]
    failed = [(device, reason) for device, _, _, reason in failures_of(Path(n))]
    assert failed == [("all", "binary_sensor.door = 'jammed': neither 'off' nor 'on'")]
    track(path, "--time", "last_changed", *named, *SMALL, "--output", w)
    z = [array_of(features_of(Path(folder)), "z") for folder in (o, n, w)]
    assert (np.concatenate(z[:2]) == z[2]).all()
    scored = ("score", two, *long, "--snapshots", f"{o}/snapshots", "--output", s)
    assert main(list(scored)) == 0
    assert record_of(Path(s))["columns"]["words"] == found["words"]
    assert [(device, reason) for device, _, _, reason in failures_of(Path(s))] == failed
