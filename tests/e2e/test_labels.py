"""Labels from files of their own: late, early, twice, of rows that never were.

When a row is learned from, whatever comes when, is held by `tests/stream/test_learn_late.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from kerneltrack.learners import LearnerSpec, RidgeSpec
from kerneltrack.trackers import OKFEBSpec
from tests.e2e.jobs import (
    SMALL,
    failures_of,
    labelled_table,
    learned_from,
    lines_of,
    models_of,
    nanoseconds,
    record_of,
    track,
    write,
)
from tests.oracles.prequential import Ruled, by_the_rules, metrics_of, same_metrics
from tests.stream.learning import SECOND, FeatureTable, Late
from transforms.learn.late_labels import LateLabels

SPEC = OKFEBSpec(rank=4, budget=7, warmup=50)
ROWS = 600
LEARNER = ("--learner", "ridge", "--inputs", "features")
BARE = ("--model-id", "model_id", "--time", "time", *SMALL, *LEARNER)
INDEXED = ("--label-index", "index")


class Data:
    """Rows without labels in a file, and what the core makes of each model's."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.table = labelled_table(ROWS, kind, missing=0.3)
        self.bare = write(folder / f"{kind}.parquet", self.table.drop(["label"]))
        self.models = {
            name: learned_from(rows, SPEC, label=False)
            for name, rows in models_of(self.table).items()
        }
        self.labels = label_table(self.table)


def label_table(table: pa.Table) -> pa.Table:
    """A line for each row that has a label: model id, index, time, label."""
    parts = [
        model.select(["model_id", "time", "label"])
        .append_column("index", pa.array(np.arange(model.num_rows)))
        .filter(model.column("label").is_valid())
        for model in models_of(table).values()
    ]
    return pa.concat_tables(parts).combine_chunks()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Data]:
    folder = tmp_path_factory.mktemp("labels")
    return {kind: Data(folder, kind) for kind in ("string", "int64", "float64")}


def write_labels(path: Path, labels: pa.Table) -> str:
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(labels, path)
    else:
        write(path, labels)
    return str(path)


def late_labels(labels: pa.Table, model: str, by: str, text: bool) -> list[Late]:
    """A model's labels in a file that is the job's second source."""
    times = nanoseconds(labels)
    return [
        Late(
            str(line["label"]) if text and line["label"] is not None else line["label"],
            index=line["index"] if by == "index" else None,
            time=int(times[row]) if by == "time" else None,
            source=1,
            row=row,
        )
        for row, line in enumerate(labels.to_pylist())
        if line["model_id"] == model
    ]


def ruled_by(
    data: Data,
    spec: LearnerSpec,
    labels: pa.Table,
    late: LateLabels,
    by: str = "index",
    own: dict[str, FeatureTable] | None = None,
) -> dict[str, Ruled]:
    """What the rule says of each model: all labels have come before the first row."""
    found = {}
    for name, model in data.models.items():
        rows = own[name] if own else model
        come = late_labels(labels, name, by, spec.classifies)
        found[name] = by_the_rules(spec, rows, [come, (0, len(rows))], late, bounded=True)
    return found


def check(output: Path, ruled: dict[str, Ruled], window: int | None = None) -> None:
    """Hold predictions and metrics against the rule, and the labels that were lost."""
    found, metrics = lines_of(output, "predictions"), lines_of(output, "metrics")
    assert list(found) == list(ruled)
    for name, of_model in ruled.items():
        assert found[name] == of_model.records
        size = None if window is None else window * SECOND
        figures = metrics_of(of_model.spec, of_model.records, of_model.clock, size)
        same_metrics(metrics[name], figures)
    lost = sorted(row for of_model in ruled.values() for _, row in of_model.lost)
    assert [row for _, _, row, _ in failures_of(output)] == lost


SECONDS, FEW = ("--label-wait", "1.5"), ("--label-rows", "9")


@pytest.mark.parametrize(
    ("name", "by", "wait", "late"),
    [
        ("labels.csv", "time", SECONDS, LateLabels(1.5, 10_000)),
        ("labels.parquet", "index", FEW, LateLabels(None, 9)),
    ],
)
def test_labels_that_come_late(
    name: str,
    by: str,
    wait: tuple[str, ...],
    late: LateLabels,
    data: dict[str, Data],
    tmp_path: Path,
) -> None:
    """Each row is learned from when its wait is over, with the features it was predicted from."""
    of = data["string"]
    labels = of.labels.take(pa.array(np.random.default_rng(0).permutation(of.labels.num_rows)))
    path = write_labels(tmp_path / name, labels)
    flags = (*BARE, "--labels", path, *(INDEXED if by == "index" else ()), *wait)
    output = tmp_path / "out"
    track(of.bare, *flags, "--metrics-window", "3", "--output", str(output))
    ruled = ruled_by(of, RidgeSpec(), labels, late, by)
    check(output, ruled, window=3)
    counts = record_of(output)["counts"]
    assert (counts["labels_in"], counts["labels_failed"]) == (labels.num_rows, 0)
    assert (counts["rows_in"], counts["rows_out"], counts["rows_failed"]) == (ROWS, ROWS, 0)
    # Nothing can be said before the first label has been waited for.
    first = lines_of(output, "predictions")["m/0"]
    silent = sum(line["prediction"] is None for line in first)
    # 1.5 s are 25 rows of a model.
    assert silent >= min(late.most_rows, 25)


def test_what_a_run_with_labels_prints_and_records(
    data: dict[str, Data], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = data["string"]
    lines = [*of.labels.to_pylist(), {"model_id": "m/9", "index": 0, "label": "walk"}]
    labels = pa.Table.from_pylist(lines, of.labels.schema).drop(["time"])
    path = write_labels(tmp_path / "labels.csv", labels)
    track(of.bare, *BARE, "--labels", path, *INDEXED, "--output", str(tmp_path / "out"))
    printed = capsys.readouterr().out.splitlines()
    assert "labels:   1 file: label (string), matched by model_id, index" in printed
    assert f"{labels.num_rows} labels in, 1 failed" in printed
    record = record_of(tmp_path / "out")
    assert record["labels"] == {
        "files": [path],
        "column": "label",
        "by": "index",
        "wait": None,
        "most_rows": 1,
    }
    assert record["failures"] == {"no row of this model came": 1}


def csv_of(lines: Sequence[Sequence[Any]], columns: str = "model_id,index,label") -> str:
    return "\n".join([columns, *(",".join(map(str, line)) for line in lines)]) + "\n"


def test_labels_that_no_row_takes_go_to_the_failures(data: dict[str, Data], tmp_path: Path) -> None:
    """Each with its file, its row and why; the rows of the job are all there."""
    of = data["string"]
    lines = [
        ("m/0", 3, "walk"),
        ("m/0", 200, "walk"),
        ("m/0", -1, "walk"),
        ("m/9", 0, "walk"),
        ("m/0", 3, "still"),
        ("m/0", 4, ""),
        ("m/0", "x", "walk"),
        ("", 5, "walk"),
        ("m/1", 7, "still"),
    ]
    (tmp_path / "labels.csv").write_text(csv_of(lines))
    output = tmp_path / "out"
    labels = str(tmp_path / "labels.csv")
    track(of.bare, *BARE, "--labels", labels, *INDEXED, "--output", str(output))
    found = {row: (model, file, reason) for model, file, row, reason in failures_of(output)}
    assert found == {
        1: ("m/0", "labels.csv", "no such row came before the input ended"),
        2: ("m/0", "labels.csv", "no such row"),
        3: ("m/9", "labels.csv", "no row of this model came"),
        4: ("m/0", "labels.csv", "another label of the same row comes first"),
        5: ("m/0", "labels.csv", "the label is missing"),
        6: ("m/0", "labels.csv", "index = 'x': not a whole number"),
        7: (None, "labels.csv", "model_id = '': no model id (1 to 1024 bytes of UTF-8)"),
    }
    learned = {
        (name, line["index"]): line["label"]
        for name, model in lines_of(output, "predictions").items()
        for line in model
        if line["label"] is not None
    }
    assert learned == {("m/0", 3): "walk", ("m/1", 7): "still"}
    counts = record_of(output)["counts"]
    assert (counts["labels_in"], counts["labels_failed"]) == (9, 7)
    assert (counts["rows_in"], counts["rows_out"], counts["rows_failed"]) == (ROWS, ROWS, 0)


def test_several_files_of_labels_and_failing_rows(data: dict[str, Data], tmp_path: Path) -> None:
    """Of two labels of a row the earlier file's is taken; each failure names its own file."""
    of = data["string"]
    x = of.table.column("x1").to_numpy().copy()
    x[6::30] = np.nan
    source = write(
        tmp_path / "in.parquet", of.table.drop(["label"]).set_column(3, "x1", pa.array(x))
    )
    (tmp_path / "b.csv").write_text(csv_of([("m/0", 3, "walk"), ("m/1", 3, "still")]))
    (tmp_path / "a.csv").write_text(csv_of([("m/0", 999, "walk"), ("m/0", 3, "climb")]))
    output = tmp_path / "out"
    track(source, *BARE, "--labels", f"{tmp_path}/*.csv", *INDEXED, "--output", str(output))
    failures = failures_of(output)
    rows = [place for place in range(6, ROWS, 30)]
    assert [row for _, file, row, _ in failures if file == "in.parquet"] == rows
    assert [failure for failure in failures if failure[1] != "in.parquet"] == [
        ("m/0", "a.csv", 0, "no such row came before the input ended"),
        ("m/0", "b.csv", 0, "another label of the same row comes first"),
    ]
    found = lines_of(output, "predictions")
    assert [found[name][3]["label"] for name in ("m/0", "m/1")] == ["climb", "still"]
    counts = record_of(output)["counts"]
    assert [counts[name] for name in ("rows_in", "rows_out", "rows_failed")] == [ROWS, 580, 20]
    assert (counts["labels_in"], counts["labels_failed"]) == (4, 2)


def test_labels_beside_the_rows_go_before_those_of_files(
    data: dict[str, Data], tmp_path: Path
) -> None:
    """And the label's column may have another name in the files of labels."""
    of = data["string"]
    own = of.table.column("label").to_pylist()
    half = pa.array([label if row % 2 else None for row, label in enumerate(own)], pa.string())
    source = write(tmp_path / "in.parquet", of.table.set_column(5, "label", half))
    labels = of.labels.rename_columns(["model_id", "time", "truth", "index"])
    path = write_labels(tmp_path / "labels.csv", labels)
    output = tmp_path / "out"
    flags = ("--label", "label", "--labels", path, "--label-column", "truth", *INDEXED)
    track(source, *BARE, *flags, "--label-rows", "30", "--output", str(output))
    given = models_of(of.table.set_column(5, "label", half))
    models = {name: learned_from(rows, SPEC) for name, rows in given.items()}
    ruled = ruled_by(of, RidgeSpec(), of.labels, LateLabels(None, 30), own=models)
    check(output, ruled)
    assert {failure[3] for failure in failures_of(output)} == {
        "another label of the same row comes first"
    }
    counts = record_of(output)["counts"]
    assert counts["labels_failed"] == sum(label is not None for label in half.to_pylist())


def test_how_the_rows_files_are_read_says_nothing_of_the_labels_files(
    data: dict[str, Data], tmp_path: Path
) -> None:
    """Rows in a CSV file without a header, of which a column is left out; labels in Parquet."""
    of = data["string"]
    table = of.table.drop(["label"])
    options = pyarrow.csv.WriteOptions(include_header=False)
    pyarrow.csv.write_csv(table, tmp_path / "rows.txt", options)
    path = write_labels(tmp_path / "labels.parquet", of.labels)
    names = ("--format", "csv", "--no-header", "--names", *table.schema.names)
    flags = (*BARE, "--labels", path, *INDEXED, "--label-rows", "20")
    track(str(tmp_path / "rows.txt"), *flags, *names, "--output", str(tmp_path / "csv"))
    track(of.bare, *flags, "--output", str(tmp_path / "parquet"))
    assert lines_of(tmp_path / "csv", "predictions") == lines_of(
        tmp_path / "parquet", "predictions"
    )
    left_out = (*flags, "--exclude", "x2")
    track(str(tmp_path / "rows.txt"), *left_out, *names, "--output", str(tmp_path / "fewer"))
    assert record_of(tmp_path / "fewer")["columns"]["features"] == ["x0", "x1"]
    assert record_of(tmp_path / "fewer")["counts"]["labels_failed"] == 0
