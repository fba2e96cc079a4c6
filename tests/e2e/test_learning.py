"""Learners in the file job: what is predicted, scored and learned is the core's, row by row."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from kerneltrack import codec
from kerneltrack.in_memory import learn_all, run_all
from kerneltrack.learners import AutoSpec, LearnerSpec, RidgeSpec
from kerneltrack.learners.common.inputs import inputs_of
from kerneltrack.registry import LEARNERS, get_learner
from kerneltrack.trackers import OKFEBSpec
from pipelines.cli.main import main
from tests.e2e.jobs import (
    CHANNELS,
    CLASSES,
    COLUMNS,
    SMALL,
    array_of,
    failures_of,
    features_of,
    files_under,
    index_of,
    labelled_table,
    learned_from,
    lines_of,
    models_of,
    record_of,
    snapshots_of,
    table_of,
    track,
    write,
)
from tests.e2e.test_track_files import assert_is_the_cores
from tests.oracles.learner_cases import same_state
from tests.oracles.prequential import core_alone
from tests.oracles.streams import state_bytes
from tests.stream.learning import FeatureTable
from transforms.outputs import FOLDERS
from transforms.write.schemas import predictions_schema

SPEC = OKFEBSpec(rank=4, budget=7, warmup=50)
ROWS = 900
WINDOW = 5
TASKS = {
    "string": RidgeSpec(inputs="features"),
    "int64": RidgeSpec(inputs="features", ridge=0.5, forgetting=1.0),
    "float64": RidgeSpec(inputs="features", task="regression"),
}
RIDGE = ("--learner", "ridge", "--inputs", "features")
FLAGS = {
    "string": RIDGE,
    "int64": (*RIDGE, "--learner-ridge", "0.5", "--learner-forgetting", "1"),
    "float64": (*RIDGE, "--learner-task", "regression"),
}


def by_name(model: FeatureTable, spec: LearnerSpec) -> FeatureTable:
    """The rows with their labels as learners take them: classes are names."""
    if not spec.classifies:
        return model
    names = [None if label is None else str(label) for label in model.label]
    return FeatureTable(model.time, model.z, names)


class Run:
    """A finished run, and what the core makes of each of its models."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind, self.spec = kind, TASKS[kind]
        self.table = labelled_table(ROWS, kind)
        self.output = folder / "out"
        source = write(folder / "in.parquet", self.table)
        flags = (*COLUMNS, *SMALL, *FLAGS[kind], "--metrics-window", str(WINDOW))
        track(source, *flags, "--output", str(self.output))
        self.models = {
            name: by_name(learned_from(rows, SPEC), self.spec)
            for name, rows in models_of(self.table).items()
        }


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    return {kind: Run(tmp_path_factory.mktemp("learning"), kind) for kind in TASKS}


@pytest.fixture(params=list(TASKS))
def run(request: pytest.FixtureRequest, runs: dict[str, Run]) -> Run:
    return runs[request.param]


@pytest.fixture
def classes(runs: dict[str, Run]) -> Run:
    return runs["string"]


def test_the_predictions_are_the_cores(run: Run) -> None:
    found = lines_of(run.output, "predictions")
    assert list(found) == list(run.models)
    for name, model in run.models.items():
        state, records = core_alone(run.spec, model)
        assert found[name] == records
        snapshot = codec.decode_learner(
            (run.output / "snapshots" / index_of(run.output)["models"][name][0]["learner"])
            .read_bytes()
        )  # fmt: skip
        assert snapshot.spec == run.spec
        same_state(snapshot.state, state)
    schema = table_of(run.output, "predictions").schema
    assert schema.equals(predictions_schema(run.spec, has_time=True))


def test_learning_changes_no_feature(run: Run) -> None:
    assert_is_the_cores(features_of(run.output), run.table, SPEC, CHANNELS)
    assert failures_of(run.output) == []


def test_the_record_says_what_was_learned(run: Run) -> None:
    record = record_of(run.output)
    assert record["learner"] == {**run.spec.to_dict(), "digest": run.spec.digest()}
    assert record["metrics_window"] == WINDOW
    lines = [line for model in lines_of(run.output, "predictions").values() for line in model]
    name = "correct" if run.spec.classifies else "error"
    scored = [line[name] for line in lines if line[name] is not None]
    counts = record["counts"]
    assert (counts["predicted"], counts["scored"]) == (ROWS, len(scored))
    assert 0.7 * ROWS < len(scored) < 0.9 * ROWS
    assert (counts["rows_in"], counts["rows_out"], counts["rows_failed"]) == (ROWS, ROWS, 0)
    if run.spec.classifies:
        assert counts["correct"] == sum(scored)
        assert counts["accuracy"] == pytest.approx(sum(scored) / len(scored), abs=1e-6)
        assert counts["accuracy"] > 0.5
    else:
        assert counts["rmse"] == pytest.approx(
            (sum(error**2 for error in scored) / len(scored)) ** 0.5, rel=1e-12
        )
    assert not {"windows", "alerts", "labels_in", "models_resumed"} & set(counts)


def test_the_folder_of_a_run_with_a_learner(run: Run) -> None:
    index = index_of(run.output)
    assert (index["tracker"], index["learner"]) == (SPEC.to_dict(), run.spec.to_dict())
    for name, (entry,) in index["models"].items():
        stem = name.replace("/", "%2F")
        files = [f"{stem}.safetensors", f"{stem}@learner.safetensors"]
        assert [entry["tracker"], entry["learner"]] == files
        sizes = [(run.output / "snapshots" / file).stat().st_size for file in files]
        assert [entry["tracker_bytes"], entry["learner_bytes"]] == sizes
        times = run.models[name].time
        assert times is not None
        assert (entry["rows"], entry["time"]) == (300, int(times[-1]))
    names = {Path(name).parts[0] for name in files_under(run.output)}
    parts = {"features", "failures", "snapshots", "predictions", "metrics", "neighbours"}
    assert names == {*parts, "run.json", "report.html"}


def test_what_a_learning_run_prints(
    classes: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(classes.output.parent / "in.parquet")
    track(source, *COLUMNS, *SMALL, *FLAGS["string"], "--output", str(tmp_path / "out"))
    printed = capsys.readouterr()
    assert printed.err == ""
    counts = record_of(classes.output)["counts"]
    *_, rows, calls, scored, times, report = printed.out.splitlines()
    assert calls.startswith("tracked in ")
    assert times.startswith("times: ")
    assert re.match(r"900 rows in: 900 features of 3 devices, 0 failed; ", rows)
    assert scored == (
        f"{counts['scored']} predictions met a label: {100 * counts['accuracy']:.1f}% correct "
        f"(commonest label {100 * counts['accuracy_commonest']:.1f}%, "
        f"last label {100 * counts['accuracy_last']:.1f}%, "
        f"ridge on the rows {100 * counts['accuracy_rows']:.1f}%); "
        f"log loss {counts['log_loss']:.3f}, Brier score {counts['brier']:.3f}"
    )
    last = [lines[-1] for lines in lines_of(classes.output, "metrics").values()]
    rows_scored = sum(line["scored"] for line in last)
    for name in ("log_loss", "brier", "accuracy_commonest", "accuracy_last", "accuracy_rows"):
        mean = sum(line["scored"] * line[name] for line in last) / rows_scored
        assert counts[name] == pytest.approx(mean, abs=1e-6)
    assert report.startswith("report: ")
    assert snapshots_of(tmp_path / "out").keys() == snapshots_of(classes.output).keys()
    # Without --metrics-window there is a line for all rows and no other.
    totals = lines_of(tmp_path / "out", "metrics")
    assert totals == {
        name: lines[-1:] for name, lines in lines_of(classes.output, "metrics").items()
    }


def test_a_run_without_these_flags_writes_none_of_it_and_removes_what_is_there(
    tmp_path: Path,
) -> None:
    source = write(tmp_path / "in.parquet", labelled_table(300))
    output = tmp_path / "out"
    for part in FOLDERS:
        (output / part).mkdir(parents=True)
        (output / part / "part-00000-of-00001.parquet").write_text("of an earlier run")
    (output / "mine.txt").write_text("kept")
    track(source, *COLUMNS, *SMALL, "--neighbours", "0", "--output", str(output), "--overwrite")
    assert sorted(path.name for path in output.iterdir()) == sorted(
        ["features", "failures", "snapshots", "mine.txt", "run.json", "report.html"]
    )
    record = record_of(output)
    assert (record["learner"], record["drift"], record["measure"]) == (None, None, None)
    assert not {"predicted", "scored", "windows", "alerts"} & set(record["counts"])


def test_a_section_of_the_spec_file_is_as_good_as_flags(classes: Run, tmp_path: Path) -> None:
    """With a flag over it; a section without a name is of the learner that is the default."""
    source = str(classes.output.parent / "in.parquet")
    same = "  inputs: features\n  ridge: 1e-1\n  forgetting: 0.95\n"
    specs = {"named": "learner:\n  learner: ridge\n" + same, "unnamed": "learner:\n" + same}
    tracker = "rank: 4\nbudget: 7\nwarmup: 50\n"
    for name, section in specs.items():
        (tmp_path / f"{name}.yaml").write_text(tracker + section)
        flags = ("--spec", str(tmp_path / f"{name}.yaml"), "--learner-forgetting", "0.999")
        track(source, *COLUMNS, *flags, "--output", str(tmp_path / name))
        assert snapshots_of(tmp_path / name).keys() == snapshots_of(classes.output).keys()
    assert lines_of(tmp_path / "named", "predictions") == lines_of(classes.output, "predictions")
    spec = AutoSpec(inputs="features", ridge=0.1, forgetting=0.999)
    assert record_of(tmp_path / "unnamed")["learner"] == {**spec.to_dict(), "digest": spec.digest()}


@pytest.mark.parametrize(
    ("flags", "spec"),
    [
        ((), RidgeSpec(inputs="both")),
        (("--inputs", "rows"), RidgeSpec(inputs="rows")),
        (("--learner", "auto"), AutoSpec()),
        (("--learner", "auto", "--inputs", "both"), AutoSpec(inputs="both")),
        (("--learner", "auto", "--learner-effort", "low"), AutoSpec(effort="low")),
    ],
)
def test_a_learner_is_told_the_row_beside_its_features(
    flags: tuple[str, ...], spec: LearnerSpec, tmp_path: Path
) -> None:
    """By default what is best for it; the row is standardised as the tracker has it."""
    table = labelled_table(300, models=1)
    source = write(tmp_path / "in.parquet", table)
    asked = (*COLUMNS, *SMALL, "--learner", "ridge", *flags)
    track(source, *asked, "--output", str(tmp_path / "out"))
    assert record_of(tmp_path / "out")["learner"] == {**spec.to_dict(), "digest": spec.digest()}
    model = learned_from(table, SPEC)
    state = codec.decode(snapshots_of(tmp_path / "out")["m%2F0.safetensors"]).state
    rows = np.column_stack([array_of(table, name) for name in CHANNELS])
    inputs, channels = inputs_of(spec, model.z, SPEC, state, rows)
    learner = get_learner(spec.learner)
    names = [None if label is None else str(label) for label in model.label]
    begun = learner.begin(spec, inputs.shape[1], channels)
    expected, output_text = learner.update(spec, begun, inputs, names)
    lines = lines_of(tmp_path / "out", "predictions")["m/0"]
    assert [line["prediction"] for line in lines] == output_text.names
    found = codec.decode_learner(snapshots_of(tmp_path / "out")["m%2F0@learner.safetensors"])
    same_state(found.state, expected)


def test_classes_without_room_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = labelled_table(300, models=2)
    source = write(tmp_path / "in.parquet", table)
    asked = (*COLUMNS, *SMALL, *RIDGE, "--learner-max-classes", "2")
    track(source, *asked, "--output", str(tmp_path / "out"))
    late = CLASSES["string"][2]
    many = table.column("label").to_pylist().count(late)
    found = record_of(tmp_path / "out")["unkept_classes"]
    assert found == {"max_classes": 2, "labels": many, "classes": 1, "rows": {late: many}}
    output_text = capsys.readouterr().out
    assert f"warning:  {many} labels are of classes that their model had no room for" in output_text
    assert f"(--learner-max-classes): {late}\n" in output_text
    track(source, *COLUMNS, *SMALL, *RIDGE, "--output", str(tmp_path / "all"))
    assert "unkept_classes" not in record_of(tmp_path / "all")
    assert "no room" not in capsys.readouterr().out


def test_costs_and_weights_are_flags(tmp_path: Path) -> None:
    table = labelled_table(300, models=1)
    source = write(tmp_path / "in.parquet", table)
    label, prediction = CLASSES["string"][:2]
    costs = tmp_path / "costs.csv"
    costs.write_text(f"true,predicted,cost\n{label},{prediction},20\n", encoding="utf-8")
    asked = (*COLUMNS, *SMALL, *RIDGE, "--inputs", "features")
    weighed = (*asked, "--class-weight", "root", "--costs", str(costs))
    track(source, *weighed, "--output", str(tmp_path / "out"))
    spec = RidgeSpec(class_weight="root", costs=((label, prediction, 20.0),))
    assert record_of(tmp_path / "out")["learner"]["costs"] == [[label, prediction, 20.0]]
    model = learned_from(table, SPEC)
    names = [None if label is None else str(label) for label in model.label]
    _, output_text = learn_all(spec, model.z, names)
    lines = lines_of(tmp_path / "out", "predictions")["m/0"]
    assert [line["prediction"] for line in lines] == output_text.names
    assert output_text.names != learn_all(RidgeSpec(), model.z, names)[1].names


def test_sets_of_classes_are_a_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = labelled_table(300, models=2)
    source = write(tmp_path / "in.parquet", table)
    asked = (*COLUMNS, *SMALL, *RIDGE, "--intervals", ".8")
    track(source, *asked, "--output", str(tmp_path / "out"))
    spec = RidgeSpec(inputs="features", intervals=0.8)
    found, rows = lines_of(tmp_path / "out", "predictions"), []
    for name, own in models_of(table).items():
        _, records = core_alone(spec, by_name(learned_from(own, SPEC), spec))
        assert found[name] == records
        rows += [row for row in records if row["correct"] is not None]
    held = sum(row["label"] in row["set"] for row in rows) / len(rows)
    size = sum(len(row["set"]) for row in rows) / len(rows)
    output_text = capsys.readouterr().out
    assert (
        f"{held:.1%} of the labels lie in their sets of {size:.2f} classes on the average"
        in output_text
    )
    learned = record_of(tmp_path / "out")["counts"]
    assert "coverage" in str(learned)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert f"{100 * held:.1f} % of the labels lie in their sets, of {size:.2f} classes" in page


@pytest.mark.parametrize("inputs", ["rows", "both"])
def test_a_learner_gets_rows_as_a_moving_scale_had_them(inputs: str, tmp_path: Path) -> None:
    table = labelled_table(300, models=1)
    source = write(tmp_path / "in.parquet", table)
    moving = ("--standardise", "moving", "--scale-window", "60")
    asked = (*COLUMNS, *SMALL, *moving, "--learner", "ridge", "--inputs", inputs)
    track(source, *asked, "--output", str(tmp_path / "out"))
    tracker = dataclasses.replace(SPEC, standardise="moving", scale_window=60)
    assert record_of(tmp_path / "out")["spec"]["standardise"] == "moving"
    rows = np.column_stack([array_of(table, name) for name in CHANNELS])
    state, features = run_all(tracker, rows, ("x",))
    found = codec.decode(snapshots_of(tmp_path / "out")["m%2F0.safetensors"])
    assert state_bytes(found.state) == state_bytes(state)
    spec = RidgeSpec(inputs=inputs)
    assert features.z is not None
    given, channels = inputs_of(spec, features.z, tracker, state, rows, features.x)
    names = [None if label is None else str(label) for label in array_of(table, "label")]
    learner = get_learner("ridge")
    _, output_text = learner.update(
        spec, learner.begin(spec, given.shape[1], channels), given, names
    )
    lines = lines_of(tmp_path / "out", "predictions")["m/0"]
    assert [line["prediction"] for line in lines] == output_text.names


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "ridge"])
def test_every_learner_is_a_flag(name: str, tmp_path: Path) -> None:
    table = labelled_table(240, models=1)
    source = write(tmp_path / "in.parquet", table)
    asked = (*COLUMNS, *SMALL, "--learner", name, "--inputs", "features")
    track(source, *asked, "--output", str(tmp_path / "out"))
    spec: LearnerSpec = get_learner(name).spec_type(inputs="features")
    assert record_of(tmp_path / "out")["learner"] == {**spec.to_dict(), "digest": spec.digest()}
    _, records = core_alone(spec, learned_from(table, SPEC))
    assert lines_of(tmp_path / "out", "predictions") == {"m/0": records}


def test_an_input_without_rows_has_nothing_to_predict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "in.parquet", labelled_table(10).slice(0, 0))
    asked = (*FLAGS["string"], "--window", "2", "--drift", "--metrics-window", "2")
    arguments = ["track", source, *COLUMNS, *SMALL, *asked, "--output", str(tmp_path / "out")]
    assert main(arguments) == 0
    assert "no prediction met a label" in capsys.readouterr().out.splitlines()
    counts = record_of(tmp_path / "out")["counts"]
    assert counts.keys() >= {"predicted", "scored", "windows", "alerts"}
    assert set(counts.values()) == {0}
    for part in ("predictions", "metrics", "mismatch", "alerts"):
        assert table_of(tmp_path / "out", part).num_rows == 0
