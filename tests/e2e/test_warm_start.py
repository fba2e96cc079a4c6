"""A job that begins from another's snapshots gives what one uninterrupted job gives.

Where a job may be cut, and what goes on from there, is held by `tests/stream/test_boundaries.py`
and `tests/stream/test_learn_warm.py`; here it goes through files and flags.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kerneltrack import codec
from pipelines.cli.main import main
from tests.e2e.jobs import (
    COLUMNS,
    SMALL,
    array_of,
    assert_same_features,
    between,
    failures_of,
    features_of,
    files_under,
    index_of,
    labelled_table,
    lines_of,
    models_of,
    nanoseconds,
    record_of,
    snapshots_of,
    track,
    write,
)
from tests.e2e.test_labels import label_table
from tests.stream.running import exact

ROWS = 1200
EVERY = 6
ASKED = (
    *("--learner", "ridge", "--metrics-window", "5"),
    *("--drift", "--drift-block", "4", "--drift-settle", "20"),
    *("--drift-memory", "60", "--drift-threshold", "1.5"),
    *("--window", "4", "--window-period", "1.5", "--moving-window", "20"),
    *("--snapshot-every", str(EVERY)),
)


class Whole:
    """An uninterrupted run over all rows, and its parts before and from a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        table = labelled_table(ROWS)
        x = table.column("x1").to_numpy().copy()
        x[np.random.default_rng(0).random(ROWS) < 0.02] = np.nan
        self.table = table.set_column(3, "x1", pa.array(x))
        self.source = write(folder / "in.parquet", self.table)
        self.output = folder / "whole"
        track(self.source, *COLUMNS, *SMALL, *ASKED, "--output", str(self.output))

    def rows(self, start: int | None, stop: int | None, name: str) -> str:
        return write(self.folder / f"{name}.parquet", between(self.table, start, stop))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return Whole(tmp_path_factory.mktemp("warm"))


def seen(output: Path, part: str) -> dict[str, list[dict[str, Any]]]:
    return {name: exact(lines) for name, lines in lines_of(output, part).items()}


def assert_goes_on(first: Path | None, second: Path, whole: Path, rows: dict[str, int]) -> None:
    """Hold a second job against the uninterrupted one from each model's row on, bit for bit."""
    ours, features = features_of(second), features_of(whole)
    names = np.array(features.column("model_id").to_pylist())
    kept = array_of(features, "index") >= np.array([rows[name] for name in names])
    assert_same_features(ours, features.filter(pa.array(kept)), ignore=("source", "row"))
    for part in ("predictions", "alerts"):
        found, expected = seen(second, part), seen(whole, part)
        for name, row in rows.items():
            later = [line for line in expected.get(name, []) if line["index"] >= row]
            assert found.get(name, []) == later, (part, name)
    for name, row in rows.items():
        done = [] if first is None else [line for line in seen(first, "mismatch")[name]]
        lines = seen(second, "mismatch")[name]
        moving = [line for line in lines if line["kind"] == "moving"]
        expected_lines = seen(whole, "mismatch")[name]
        assert moving == [
            line for line in expected_lines if line["kind"] == "moving" and line["index"] >= row
        ]
        # What the first job closed for want of rows is given whole by the second.
        closed = [line for line in done if line["kind"] != "moving" and line["complete"]]
        measured = closed + [line for line in lines if line["kind"] != "moving"]
        wanted = [line for line in expected_lines if line["kind"] != "moving"]
        assert measured == (wanted if first is not None else wanted[-len(measured) :])
        assert len(measured) > 3


def assert_same_ends(second: Path, whole: Path) -> None:
    """The same final states, and the same boundaries since, as files."""
    ours, theirs = snapshots_of(second), snapshots_of(whole)
    finals = [name for name in theirs if about_is_final(theirs[name], name)]
    assert len(finals) == 6
    assert set(finals) <= set(ours)
    for name in set(ours) - {"index.json"}:
        assert ours[name] == theirs[name], name
    for model, entries in index_of(second)["models"].items():
        expected = index_of(whole)["models"][model]
        assert entries == expected[len(expected) - len(entries) :]


def about_is_final(data: bytes, name: str) -> bool:
    return name != "index.json" and codec.read_header(data)["about"]["final"]


def test_a_data_set_cut_in_two(
    whole: Whole, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first job ends where it may: between boundaries, with windows that are open."""
    cut = int(nanoseconds(whole.table)[0] + 13.31 * 10**9)
    first, then = tmp_path / "first", tmp_path / "then"
    flags = (*COLUMNS, *SMALL, *ASKED)
    track(whole.rows(None, cut, "head"), *flags, "--output", str(first))
    # The spec is that of the snapshots: no flag names it again.
    rest = whole.rows(cut, None, "tail")
    more = ("--warm-start", str(first / "snapshots"), *COLUMNS, *ASKED)
    track(rest, *more, "--output", str(then))
    rows = {name: entries[-1]["rows"] for name, entries in index_of(first)["models"].items()}
    assert_goes_on(first, then, whole.output, rows)
    assert_same_ends(then, whole.output)
    counts = [record_of(output)["counts"] for output in (first, then, whole.output)]
    for name in ("rows_in", "rows_out", "rows_failed", "predicted", "scored", "correct", "alerts"):
        assert counts[0][name] + counts[1][name] == counts[2][name], name
    assert counts[1]["models_resumed"] == 3
    assert "3 of the devices continued from snapshots" in capsys.readouterr().out.splitlines()
    record = record_of(then)
    assert record["spec"] == record_of(whole.output)["spec"]
    assert record["learner"] == record_of(whole.output)["learner"]
    assert record["warm_start"] == str(first / "snapshots")
    # Totals go on from those of the first job.
    totals = [seen(output, "metrics")["m/0"][-1] for output in (then, whole.output)]
    assert totals[0] == totals[1]


def test_boundaries_are_multiples_of_the_distance(whole: Whole) -> None:
    for name, entries in index_of(whole.output)["models"].items():
        assert len(entries) == 5
        stem = name.replace("/", "%2F")
        for entry in entries[:-1]:
            assert entry["tracker"] == f"{stem}@{entry['rows']}.safetensors"
            assert entry["learner"] == f"{stem}@{entry['rows']}@learner.safetensors"
        assert entries[-1]["tracker"] == f"{stem}.safetensors"
        assert [entry["rows"] for entry in entries] == sorted(entry["rows"] for entry in entries)
    listed = {
        entry[kind]
        for entries in index_of(whole.output)["models"].values()
        for entry in entries
        for kind in ("tracker", "learner")
    }
    assert listed | {"index.json"} == set(snapshots_of(whole.output))


class Late:
    """An uninterrupted run whose labels come 2 s late, in a file of their own."""

    flags = ("--model-id", "model_id", "--time", "time", *SMALL, "--learner", "ridge")
    asked = ("--label-index", "index", "--label-wait", "2")

    def __init__(self, folder: Path, table: pa.Table) -> None:
        self.rows = table.drop(["label"])
        self.labels = label_table(table)
        self.output = folder / "one"
        paths = [write(folder / "rows.pq", self.rows), write(folder / "labels.pq", self.labels)]
        track(
            paths[0], *self.flags, *self.asked, "--labels", paths[1], "--output", str(self.output)
        )


def test_labels_alone_reach_the_rows_of_an_earlier_job(tmp_path: Path) -> None:
    """A model without rows, but for whose rows that wait there are labels now."""
    table = labelled_table(300, models=2, missing=0)
    rows, labels = models_of(table.drop(["label"])), models_of(label_table(table))
    asked = (*Late.flags, "--label-index", "index", "--label-rows", "20", "--labels")
    head = pa.concat_tables([rows["m/0"], rows["m/1"].slice(0, 75)])
    known = pa.concat_tables([labels["m/0"].slice(0, 135), labels["m/1"].slice(0, 75)])
    paths = [write(tmp_path / "head.pq", head), write(tmp_path / "known.pq", known)]
    first, output = tmp_path / "first", tmp_path / "out"
    track(paths[0], *asked, paths[1], "--output", str(first))
    rest, come = rows["m/1"].slice(75), pa.concat_tables([labels["m/0"].slice(135)])
    paths = [write(tmp_path / "rest.pq", rest), write(tmp_path / "come.pq", come)]
    more = ("--warm-start", str(first / "snapshots"))
    track(paths[0], *asked, paths[1], *more, "--output", str(output))
    lines = {line["index"]: line for line in lines_of(output, "predictions")["m/0"]}
    truth = labels["m/0"].column("label").to_pylist()
    assert {row: line["label"] for row, line in lines.items()} == {
        row: truth[row] for row in range(130, 150)
    }
    assert failures_of(output) == []
    index = index_of(output)["models"]["m/0"]
    assert [entry["rows"] for entry in index] == [150]
    ours, theirs = snapshots_of(output), snapshots_of(first)
    assert ours[index[0]["tracker"]] == theirs[index[0]["tracker"]]
    # Both states are there: a third job, or a score, begins from them.
    assert index[0]["learner"] in ours


# Models of the first job, and of the second.


def test_models_without_rows_are_carried_over(whole: Whole, tmp_path: Path) -> None:
    """With both their states; models that are new begin anew."""
    cut = int(nanoseconds(whole.table)[ROWS // 2])
    names = np.array(whole.table.column("model_id").to_pylist())
    flags = (*COLUMNS, *ASKED, "--output")
    old = whole.table.filter(pa.array(names != "m/2"))
    head = write(tmp_path / "head.pq", between(old, None, cut))
    track(head, *SMALL, *flags, str(tmp_path / "first"))
    new = whole.table.filter(pa.array(names == "m/2"))
    then = pa.concat_tables([between(models_of(old)["m/1"], cut, None), new])
    more = ("--warm-start", str(tmp_path / "first" / "snapshots"))
    track(write(tmp_path / "then.pq", then), *more, *flags, str(tmp_path / "second"))
    index = index_of(tmp_path / "second")
    assert list(index["models"]) == ["m/0", "m/1", "m/2"]
    assert index["models"]["m/0"] == index_of(tmp_path / "first")["models"]["m/0"][-1:]
    ours, theirs = snapshots_of(tmp_path / "second"), snapshots_of(tmp_path / "first")
    carried = [name for name in ours if name.startswith("m%2F0")]
    assert carried == ["m%2F0.safetensors", "m%2F0@learner.safetensors"]
    assert all(ours[name] == theirs[name] for name in carried)
    expected = snapshots_of(whole.output)
    for name in ("m%2F1.safetensors", "m%2F1@learner.safetensors", "m%2F2.safetensors"):
        assert ours[name] == expected[name]


@pytest.mark.parametrize("rows", ["old", "bad", "none"])
def test_a_model_all_of_whose_rows_are_refused_keeps_its_learner(
    rows: str, whole: Whole, tmp_path: Path
) -> None:
    table = between(whole.table, None, int(nanoseconds(whole.table)[600]))
    if rows == "bad":
        after = whole.table.slice(900)
        bad = pa.array(np.full(after.num_rows, np.nan))
        table = after.set_column(2, "x0", bad)
    path = write(tmp_path / "rows.pq", table.slice(0, 0) if rows == "none" else table)
    output = tmp_path / "out"
    more = ("--warm-start", str(whole.output / "snapshots"))
    done = main(["track", path, *more, *COLUMNS, *ASKED, "--output", str(output)])
    assert done == (0 if rows == "none" else 3)
    assert features_of(output).num_rows == 0
    for name, entries in index_of(output)["models"].items():
        before = index_of(whole.output)["models"][name][-1]
        assert entries[-1]["rows"] == before["rows"]
        for kind in ("tracker", "learner"):
            assert entries[-1][kind] == before[kind]
        file = before["learner"]
        assert snapshots_of(output)[file] == snapshots_of(whole.output)[file]
        state = codec.decode(snapshots_of(output)[before["tracker"]]).state
        kept = codec.decode(snapshots_of(whole.output)[before["tracker"]]).state
        assert all((a == b).all() for a, b in zip(state, kept, strict=True))
    assert record_of(output)["counts"]["rows_failed"] == {"old": 600, "bad": 300, "none": 0}[rows]


# What a job begins from.


def test_a_second_job_may_do_without_the_learner(whole: Whole, tmp_path: Path) -> None:
    cut = int(nanoseconds(whole.table)[900])
    head, output = tmp_path / "head", tmp_path / "out"
    flags = (*COLUMNS, "--learner", "ridge", "--output")
    track(whole.rows(None, cut, "head"), *SMALL, *flags, str(head))
    tail = models_of(between(whole.table, cut, None))["m/0"].drop(["label"])
    more = ("--model-id", "model_id", "--time", "time", "--learner", "none")
    path = write(tmp_path / "tail.pq", tail)
    track(path, *more, "--warm-start", str(head / "snapshots"), "--output", str(output))
    assert not (output / "predictions").exists()
    index = index_of(output)
    assert index["learner"] is None
    # No learner, of no model: the one that was carried over has none either.
    assert all("learner" not in entry for entries in index["models"].values() for entry in entries)
    assert [name for name in files_under(output / "snapshots") if "learner" in name] == []
    ours = codec.decode(snapshots_of(output)["m%2F0.safetensors"]).state
    theirs = codec.decode(snapshots_of(whole.output)["m%2F0.safetensors"]).state
    assert all((a == b).all() for a, b in zip(ours, theirs, strict=True))


def test_snapshots_in_single_precision_can_be_begun_from(whole: Whole, tmp_path: Path) -> None:
    cut = int(nanoseconds(whole.table)[600])
    head, output = tmp_path / "head", tmp_path / "out"
    flags = (*COLUMNS, *SMALL, *ASKED)
    track(whole.rows(None, cut, "head"), *flags, "--float32", "--output", str(head))
    more = ("--warm-start", str(head / "snapshots"), "--output", str(output))
    track(whole.rows(cut, None, "tail"), *flags, *more)
    ours, theirs = features_of(output), features_of(whole.output)
    kept = np.concatenate(
        [
            array_of(rows, "index") >= index_of(head)["models"][name][-1]["rows"]
            for name, rows in models_of(theirs).items()
        ]
    )
    expected = theirs.filter(pa.array(kept))
    assert array_of(ours, "index").tolist() == array_of(expected, "index").tolist()
    # The first rows' features agree to the digits that single precision has.
    first = [array_of(part, "z")[:20] for part in (ours, expected)]
    np.testing.assert_allclose(first[0], first[1], atol=1e-3)
    assert (first[0] != first[1]).any()
    assert record_of(output)["counts"]["models_resumed"] == 3


# What cannot be begun from.


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with a learner, and its rows."""
    folder = tmp_path_factory.mktemp("small")
    source = write(folder / "in.parquet", labelled_table(240))
    flags = (*COLUMNS, *SMALL, "--learner", "ridge")
    track(source, *flags, "--output", str(folder / "out"))
    return folder


# A job that breaks off leaves it to Python to close its files.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_folder_that_is_not_there_gets_one_line(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # What the readers of the index refuse beyond it: `tests/unit/test_snapshot_index.py`; a state
    # that cannot be read costs its model alone: `test_unreadable_snapshots.py`.
    snapshots = tmp_path / "snapshots"
    arguments = ["track", str(small / "in.parquet"), *COLUMNS, "--warm-start", str(snapshots)]
    assert main([*arguments, "--output", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kerneltrack: ")
    assert "index.json: cannot be read" in line
    left = files_under(tmp_path / "out") if (tmp_path / "out").exists() else []
    assert "run.json" not in left
    assert "snapshots/index.json" not in left


OTHER_SETTINGS = {
    "rank": ("--rank 5", "--rank = 5: must be 4, as in the snapshots of SNAPSHOTS"),
    "kernel": ("--kernel laplacian", "--kernel = 'laplacian': must be 'gaussian', as in the "),
    "tracker": ("--tracker okfe", "--tracker = 'okfe': must be 'okfeb', as in the snapshots"),
    "learner": (
        "--learner lms",
        "--learner = 'lms': must be 'ridge', as in the snapshots of SNAPSHOTS",
    ),
    "ridge": ("--learner-ridge 3", "--learner-ridge = 3.0: must be 0.1, as in the snapshots of"),
    "task": ("--learner-task regression", "--learner-task = 'regression': must be 'classificati"),
    "features": (
        "--exclude x2",
        "number of features = 2: must be 3, as in the snapshots of SNAPSHOTS",
    ),
}


@pytest.mark.parametrize("name", OTHER_SETTINGS)
def test_another_setting_is_named_with_that_of_the_snapshots(
    name: str, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything of a run that is there is removed."""
    flags, says = OTHER_SETTINGS[name]
    output = tmp_path / "out"
    shutil.copytree(small / "out", output)
    before = {path: (output / path).read_bytes() for path in files_under(output)}
    snapshots = str(small / "out" / "snapshots")
    arguments = ["track", str(small / "in.parquet"), *COLUMNS, "--warm-start", snapshots]
    assert main([*arguments, *flags.split(), "--output", str(output), "--overwrite"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kerneltrack: " + says.replace("SNAPSHOTS", snapshots)), line
    assert {path: (output / path).read_bytes() for path in files_under(output)} == before


def test_equal_settings_may_be_said_again(small: Path, tmp_path: Path) -> None:
    snapshots = str(small / "out" / "snapshots")
    (tmp_path / "spec.yaml").write_text(
        "rank: 4\nbudget: 7\nwarmup: 50\nlearner: {learner: ridge, ridge: 0.1}\n"
    )
    flags = (*COLUMNS, "--warm-start", snapshots, "--spec", str(tmp_path / "spec.yaml"))
    track(str(small / "in.parquet"), *flags, "--rank", "4", "--output", str(tmp_path / "out"))
    assert record_of(tmp_path / "out")["counts"]["models_resumed"] == 3


def test_a_run_does_not_overwrite_what_it_begins_from(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(small / "out", tmp_path / "out")
    snapshots = str(tmp_path / "out" / "snapshots")
    arguments = ["track", str(small / "in.parquet"), *COLUMNS, "--warm-start", snapshots]
    assert main([*arguments, "--output", str(tmp_path / "out"), "--overwrite"]) == 2
    assert "another folder than that of the input" in capsys.readouterr().err
    assert snapshots_of(tmp_path / "out") == snapshots_of(small / "out")
