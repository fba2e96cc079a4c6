"""`kerneltrack score`: rows projected and predicted under snapshots, and nothing learned."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kerneltrack import codec
from kerneltrack.learners import RidgeSpec
from kerneltrack.registry import get_learner
from kerneltrack.trackers import OKFEB, OKFEBSpec
from pipelines.cli.main import main
from pipelines.files.score import NO_REFERENCE
from tests.e2e.jobs import (
    COLUMNS,
    SMALL,
    array_of,
    failures_of,
    files_under,
    labelled_table,
    matrix,
    nanoseconds,
    record_of,
    snapshots_of,
    table_of,
    track,
    write,
)
from transforms.write.schemas import scores_schema

SPEC = OKFEBSpec(rank=4, budget=7, warmup=50)
LEARNERS = {"string": RidgeSpec(), "float64": RidgeSpec(task="regression")}
FEATURES = ("--inputs", "features")
FLAGS = {
    "string": ("--learner", "ridge", *FEATURES),
    "float64": ("--learner", "ridge", *FEATURES, "--learner-task", "regression"),
    "none": (),
}
IDS = ("--model-id", "model_id", "--time", "time")


class Trained:
    """A run over half of the rows, and a file of the other half to be scored."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        table = labelled_table(900, "string" if kind == "none" else kind)
        self.head, self.tail = table.slice(0, 450), table.slice(450)
        self.run = folder / "run"
        every = ("--snapshot-every", "3")
        head = write(folder / "head.parquet", self.head)
        track(head, *COLUMNS, *SMALL, *FLAGS[kind], *every, "--output", str(self.run))
        self.snapshots = str(self.run / "snapshots")
        self.rows = write(folder / "tail.parquet", self.tail)

    def state(self, model: str) -> tuple[Any, Any]:
        """The final states of a model's tracker and learner, None without a learner."""
        stem = model.replace("/", "%2F")
        found = snapshots_of(self.run)
        tracker = codec.decode(found[f"{stem}.safetensors"]).state
        name = f"{stem}@learner.safetensors"
        return tracker, codec.decode_learner(found[name]).state if name in found else None


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trained]:
    return {kind: Trained(tmp_path_factory.mktemp("trained"), kind) for kind in FLAGS}


def score(*arguments: str) -> None:
    assert main(["score", *arguments]) == 0


def scores_of(output: Path) -> pa.Table:
    """All scored rows, in the order of the file."""
    return table_of(output, "scores").sort_by("row")


def assert_projected(scores: pa.Table, of: Trained, rows: pa.Table) -> None:
    """Hold features against the core: each row under its model's final state, learning nothing."""
    names = np.array(rows.column("model_id").to_pylist())
    assert scores.column("model_id").to_pylist() == names.tolist()
    for name in set(names.tolist()):
        here = np.flatnonzero(names == name)
        state, _ = of.state(name)
        expected = OKFEB().project(SPEC, state, matrix(rows)[here])
        for column in ("loss", "novelty", "z"):
            found = np.ascontiguousarray(array_of(scores, column)[here])
            wanted = np.ascontiguousarray(getattr(expected, column))
            assert (found.view(np.int64) == wanted.view(np.int64)).all(), (name, column)


def assert_predicted(scores: pa.Table, of: Trained, rows: pa.Table, spec: RidgeSpec) -> None:
    names = np.array(rows.column("model_id").to_pylist())
    learner = get_learner("ridge")
    labels = rows.column("label").to_pylist()
    for name in set(names.tolist()):
        here = np.flatnonzero(names == name)
        part = scores.take(pa.array(here))
        tracker, state = of.state(name)
        z = OKFEB().project(SPEC, tracker, matrix(rows)[here]).z
        assert z is not None
        output_text = learner.predict(spec, state, z)
        known = [labels[row] for row in here]
        if output_text.code is None:
            assert output_text.value is not None
            assert part.column("prediction").to_pylist() == output_text.value.tolist()
            assert part.column("error").to_pylist() == [
                None if label is None else abs(label - value)
                for label, value in zip(known, output_text.value.tolist(), strict=True)
            ]
            continue
        assert part.column("prediction").to_pylist() == output_text.names
        assert output_text.score is not None and output_text.margin is not None
        assert part.column("score").to_pylist() == output_text.score.tolist()
        assert part.column("margin").to_pylist() == output_text.margin.tolist()
        assert part.column("correct").to_pylist() == [
            None if label is None else label == guess
            for label, guess in zip(known, output_text.names, strict=True)
        ]


@pytest.mark.parametrize("kind", LEARNERS)
def test_rows_are_scored_with_labels(
    kind: str, trained: dict[str, Trained], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of, spec = trained[kind], LEARNERS[kind]
    before = snapshots_of(of.run)
    output = tmp_path / "out"
    score(of.rows, *COLUMNS, "--snapshots", of.snapshots, "--output", str(output))
    printed = capsys.readouterr().out.splitlines()
    scores = scores_of(output)
    assert scores.schema.equals(scores_schema(SPEC, spec, of.tail.column("label").type, True))
    assert_projected(scores, of, of.tail)
    assert_predicted(scores, of, of.tail, spec)
    assert scores.column("label").to_pylist() == of.tail.column("label").to_pylist()
    times = scores.column("time").cast(pa.int64()).to_pylist()
    assert times == nanoseconds(of.tail).tolist()
    assert scores.column("row").to_pylist() == list(range(450))
    assert set(scores.column("source").to_pylist()) == {of.rows}
    # Nothing was learned, nowhere.
    assert snapshots_of(of.run) == before
    assert files_under(output) == [
        "failures/part-00000-of-00001.parquet",
        "run.json",
        "scores/part-00000-of-00001.parquet",
    ]
    counts = record_of(output)["counts"]
    scored = 450 - of.tail.column("label").null_count
    assert [counts[name] for name in ("rows_in", "rows_out", "rows_failed")] == [450, 450, 0]
    assert counts["scored"] == scored
    if kind == "string":
        correct = sum(value for value in scores.column("correct").to_pylist() if value is not None)
        assert (counts["correct"], counts["accuracy"]) == (correct, round(correct / scored, 6))
        pairs = zip(
            *(scores.column(name).to_pylist() for name in ("score", "correct")), strict=True
        )
        known = [pair for pair in pairs if pair[1] is not None]
        given = [chance if right else 1.0 - chance for chance, right in known]
        log_loss = -math.fsum(map(math.log, given)) / scored
        brier = math.fsum((1.0 - chance) ** 2 for chance in given) / scored
        assert counts["log_loss"] == pytest.approx(log_loss, abs=1e-6)
        assert counts["brier"] == pytest.approx(brier, abs=1e-6)
        output_text = (
            f"{scored} predictions met a label: {correct / scored:.1%} correct; "
            f"log loss {log_loss:.3f}, Brier score {brier:.3f}"
        )
    else:
        errors = array_of(scores, "error")
        rmse = float(np.sqrt(np.nanmean(errors**2)))
        assert counts["rmse"] == pytest.approx(rmse, rel=1e-12)
        output_text = f"{scored} predictions met a label: root mean squared error {rmse:.4g}"
    assert printed[-4].startswith("450 rows in: 450 scored, 0 failed; ")
    assert printed[-2].startswith("times:    ")
    assert (printed[-3], printed[-1]) == (output_text, NO_REFERENCE)
    record = record_of(output)
    assert (record["snapshots"], record["failures"]) == (of.snapshots, {})
    assert record["inputs"] == [{"path": of.rows, "rows": 450}]


def test_rows_are_scored_without_labels(
    trained: dict[str, Trained], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = trained["string"]
    rows = write(tmp_path / "bare.parquet", of.tail.drop(["label"]))
    with_labels, without = tmp_path / "with", tmp_path / "without"
    score(of.rows, *COLUMNS, "--snapshots", of.snapshots, "--output", str(with_labels))
    score(rows, *IDS, "--snapshots", of.snapshots, "--output", str(without))
    assert "no prediction met a label" in capsys.readouterr().out.splitlines()
    left, right = scores_of(without), scores_of(with_labels)
    assert left.schema.equals(scores_schema(SPEC, RidgeSpec(), None, True))
    for name in ("z", "prediction", "score", "margin"):
        assert left.column(name).equals(right.column(name))
    for name in ("label", "correct"):
        assert left.column(name).null_count == 450
    assert record_of(without)["counts"]["scored"] == 0


def test_snapshots_without_learners_give_features(
    trained: dict[str, Trained], tmp_path: Path
) -> None:
    of = trained["none"]
    output = tmp_path / "out"
    score(of.rows, *COLUMNS, "--snapshots", of.snapshots, "--output", str(output))
    scores = scores_of(output)
    assert scores.schema.equals(scores_schema(SPEC, None, pa.string(), True))
    assert_projected(scores, of, of.tail)
    assert scores.column("label").to_pylist() == of.tail.column("label").to_pylist()
    assert "scored" not in record_of(output)["counts"]


def test_each_row_is_scored_by_itself(trained: dict[str, Trained], tmp_path: Path) -> None:
    """In any order, in any number of files, without times."""
    of = trained["string"]
    output, again = tmp_path / "out", tmp_path / "again"
    score(of.rows, *COLUMNS, "--snapshots", of.snapshots, "--output", str(output))
    order = np.random.default_rng(0).permutation(450)
    shuffled = of.tail.take(pa.array(order)).drop(["time"])
    for part in range(3):
        write(tmp_path / f"{part}.pq", shuffled.slice(part * 150, 150))
    flags = ("--model-id", "model_id", "--label", "label", "--snapshots", of.snapshots)
    score(f"{tmp_path}/*.pq", *flags, "--output", str(again))
    table = table_of(again, "scores")
    files = table.column("source").cast(pa.string())
    place = table.schema.get_field_index("source")
    plain = table.set_column(place, "source", files)
    table = plain.sort_by([("source", "ascending"), ("row", "ascending")])
    assert table_of(again, "scores").schema.equals(
        scores_schema(SPEC, RidgeSpec(), pa.string(), False)
    )
    back = table.take(pa.array(np.argsort(order)))
    for name in ("model_id", "loss", "novelty", "z", "prediction", "margin", "correct"):
        assert back.column(name).to_pylist() == scores_of(output).column(name).to_pylist(), name


def test_unknown_models_and_bad_rows_go_to_the_failures(
    trained: dict[str, Trained], tmp_path: Path
) -> None:
    of = trained["string"]
    names = of.tail.column("model_id").to_pylist()
    names[4], names[7] = "m/9", ""
    x = of.tail.column("x2").to_numpy().copy()
    x[10] = np.inf
    rows = of.tail.set_column(0, "model_id", pa.array(names)).set_column(4, "x2", pa.array(x))
    output = tmp_path / "out"
    source = write(tmp_path / "rows.parquet", rows)
    score(source, *COLUMNS, "--snapshots", of.snapshots, "--output", str(output))
    unknown, nameless, bad = failures_of(output)
    reason = f"no snapshot of this model in {of.snapshots}"
    assert unknown == ("m/9", "rows.parquet", 4, reason)
    assert nameless[:3] == (None, "rows.parquet", 7)
    assert bad[:3] == ("m/1", "rows.parquet", 10)
    assert "inf" in bad[3]
    counts = record_of(output)["counts"]
    assert [counts[name] for name in ("rows_in", "rows_out", "rows_failed")] == [450, 447, 3]
    good = rows.filter(pa.array([row not in {4, 7, 10} for row in range(450)]))
    assert_projected(scores_of(output), of, good)
    assert record_of(output)["failures"][reason] == 1


def test_single_precision_scores_nearly_the_same(
    trained: dict[str, Trained], tmp_path: Path
) -> None:
    of = trained["string"]
    run = tmp_path / "run"
    flags = (*COLUMNS, *SMALL, *FLAGS["string"])
    track(str(of.folder / "head.parquet"), *flags, "--float32", "--output", str(run))
    output, exact = tmp_path / "out", tmp_path / "exact"
    score(of.rows, *COLUMNS, "--snapshots", str(run / "snapshots"), "--output", str(output))
    score(of.rows, *COLUMNS, "--snapshots", of.snapshots, "--output", str(exact))
    left, right = scores_of(output), scores_of(exact)
    np.testing.assert_allclose(array_of(left, "z"), array_of(right, "z"), atol=1e-4)
    same = np.array(left.column("prediction").to_pylist()) == right.column("prediction").to_pylist()
    assert same.mean() > 0.99


def test_the_newest_boundary_that_both_states_have_is_taken(
    trained: dict[str, Trained], tmp_path: Path
) -> None:
    """Features and weights of different times would not fit each other."""
    of = trained["string"]
    folder = tmp_path / "snapshots"
    shutil.copytree(of.snapshots, folder)
    index = json.loads((folder / "index.json").read_text())
    for entries in index["models"].values():
        del entries[-1]["learner"]
    (folder / "index.json").write_text(json.dumps(index))
    output = tmp_path / "out"
    score(of.rows, *COLUMNS, "--snapshots", str(folder), "--output", str(output))
    scores = scores_of(output)
    names = np.array(of.tail.column("model_id").to_pylist())
    for name, entries in index["models"].items():
        here = np.flatnonzero(names == name)
        tracker = codec.decode((folder / entries[-2]["tracker"]).read_bytes()).state
        learner = codec.decode_learner((folder / entries[-2]["learner"]).read_bytes()).state
        features = OKFEB().project(SPEC, tracker, matrix(of.tail)[here])
        assert features.z is not None
        output_text = get_learner("ridge").predict(RidgeSpec(), learner, features.z)
        part = scores.take(pa.array(here))
        assert (array_of(part, "z") == features.z).all()
        assert part.column("margin").to_pylist() == output_text.margin.tolist()  # type: ignore[union-attr]


# What is refused.


def test_a_state_that_is_gone_is_named(
    trained: dict[str, Trained], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = trained["string"]
    folder = tmp_path / "snapshots"
    shutil.copytree(of.snapshots, folder)
    (folder / "m%2F1.safetensors").unlink()
    arguments = ["score", of.rows, *COLUMNS, "--snapshots", str(folder)]
    assert main([*arguments, "--output", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(r"kerneltrack: .*m%2F1\.safetensors: cannot be read", line)
    assert not (tmp_path / "out" / "run.json").exists()


REFUSED = {
    "rows of another width": (
        "tail.parquet --exclude x2 --snapshots run/snapshots",
        "number of features = 2: must be 3, as in the snapshots of run/snapshots",
    ),
    "labels of another kind": (
        "times.parquet --snapshots run/snapshots",
        "label = 'label': must be a column of texts or numbers",
    ),
    "a folder without snapshots": (
        "tail.parquet --snapshots run",
        "run/index.json: cannot be read",
    ),
    "values that would be held": (
        "tail.parquet --missing hold --snapshots run/snapshots",
        "--missing = 'hold': must be fail or drop: every row is scored by itself",
    ),
    "no snapshots": ("tail.parquet", "the following arguments are required: --snapshots"),
    "a flag of training": (
        "tail.parquet --snapshots run/snapshots --lerner ridge",
        "unknown flag --lerner",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_scored_gets_one_line(
    name: str,
    trained: dict[str, Trained],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And leaves the results of an earlier run alone."""
    of = trained["string"]
    typed, says = REFUSED[name]
    monkeypatch.chdir(of.folder)
    write(of.folder / "times.parquet", of.tail.set_column(5, "label", of.tail.column("time")))
    earlier = tmp_path / "out"
    shutil.copytree(of.run, earlier)
    before = {path: (earlier / path).read_bytes() for path in files_under(earlier)}
    flags = [*COLUMNS, "--output", str(earlier), "--overwrite"]
    assert main(["score", *typed.split(), *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kerneltrack: ")
    assert says in line
    assert {path: (earlier / path).read_bytes() for path in files_under(earlier)} == before


def test_scores_are_not_written_among_the_snapshots(
    trained: dict[str, Trained], capsys: pytest.CaptureFixture[str]
) -> None:
    of = trained["string"]
    before = snapshots_of(of.run)
    arguments = ["score", of.rows, *COLUMNS, "--snapshots", of.snapshots]
    assert main([*arguments, "--output", str(of.run)]) == 2
    assert main([*arguments, "--output", str(of.run), "--overwrite"]) == 2
    assert "another folder than that of the input" in capsys.readouterr().err
    assert snapshots_of(of.run) == before


def test_scores_replace_the_results_of_another_run(
    trained: dict[str, Trained], tmp_path: Path
) -> None:
    of = trained["string"]
    shutil.copytree(of.run, tmp_path / "out")
    flags = (*COLUMNS, "--snapshots", of.snapshots, "--output", str(tmp_path / "out"))
    score(of.rows, *flags, "--overwrite")
    assert {Path(name).parts[0] for name in files_under(tmp_path / "out")} == {
        "scores",
        "failures",
        "run.json",
    }
