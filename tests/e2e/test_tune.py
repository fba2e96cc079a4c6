"""`kerneltrack tune`: from a sample to a spec file with which a job does as well as it says."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from kerneltrack.learners import RidgeSpec
from pipelines.cli.main import main
from pipelines.files.tune import PICTURE, SPEC, TRIALS
from tests.e2e.jobs import COLUMNS, labelled_table, record_of, track, write
from transforms.read.columns import ColumnOptions
from transforms.read.look import look_at_files
from transforms.read.stretches import first_rows_of


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("tune") / "in.parquet", labelled_table(900))


@pytest.fixture(scope="module")
def tuned(source: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("tuned") / "out"
    assert main(["tune", source, *COLUMNS, "--output", str(output)]) == 0
    return output


def rows_of(output: Path) -> list[dict[str, str]]:
    with (output / TRIALS).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_job_with_the_spec_scores_as_the_trial_did(
    source: str, tuned: Path, tmp_path: Path
) -> None:
    (best,) = [row for row in rows_of(tuned) if row["chosen"] == "True"]
    assert int(best["rows"]) == 900
    track(source, *COLUMNS, "--spec", str(tuned / SPEC), "--output", str(tmp_path / "out"))
    counts = record_of(tmp_path / "out")["counts"]
    assert counts["scored"] == int(best["scored"])
    assert counts["accuracy"] == pytest.approx(float(best["score"]), abs=1e-6)
    reported = yaml.safe_load((tuned / SPEC).read_text("utf-8"))
    learner = record_of(tmp_path / "out")["learner"]
    assert reported["learner"].items() <= learner.items()


def test_the_page_shows_every_trial(tuned: Path) -> None:
    page = (tuned / PICTURE).read_text("utf-8")
    trials = rows_of(tuned)
    assert len(trials) >= 15 and trials[0]["settings"]
    for trial in trials:
        assert f"<td>{trial['settings']}" in page
    drawn = sum(row["rows"] == trials[0]["rows"] for row in trials)
    assert page.count("<circle") == drawn > 1
    assert page.count("(chosen)") == 1 and "http" not in page


def test_what_it_says(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["tune", source, *COLUMNS, "--sample", "300", "--output", str(tmp_path / "out")]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "300 rows of 3 devices tried"
    assert re.match(r"  settings +accuracy +± +µs a row +bytes$", lines[1])
    assert lines[2] == "on 300 rows:"
    assert any(line.startswith("accuracy: share of labels") for line in lines)
    assert sum(line.startswith("* ") for line in lines) == 1
    assert lines[-1] == str(tmp_path / "out" / SPEC)
    assert main(arguments) == 2
    assert "is there already: --overwrite replaces it" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0


def test_real_labels_are_targets(tmp_path: Path) -> None:
    source = write(tmp_path / "in.parquet", labelled_table(300, "float64"))
    assert main(["tune", source, *COLUMNS, "--output", str(tmp_path / "out")]) == 0
    reported = yaml.safe_load((tmp_path / "out" / SPEC).read_text("utf-8"))
    assert reported["learner"]["task"] == "regression"
    assert all(float(row["score"]) < 0 for row in rows_of(tmp_path / "out"))


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--sample", "0"), "--sample = 0: must be"),
        (("--seconds", "0"), "--seconds = 0.0: must be"),
        (("--seconds", "nan"), "--seconds = nan: must be"),
        (("--missing", "hold"), "--missing = 'hold': must be fail or drop"),
        (("--label", "nothing"), "--label = 'nothing': must be a column"),
    ],
)
def test_mistakes_are_one_line(
    source: str,
    flags: tuple[str, ...],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["tune", source, *COLUMNS, *flags, "--output", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert not (tmp_path / "out" / SPEC).exists()


def test_an_input_without_labels_or_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = labelled_table(60)
    bare = table.set_column(table.column_names.index("label"), "label", pa.nulls(60, pa.string()))
    for name, rows, says, code in (
        ("bare", bare, "no row of the 60 has a label", 3),
        ("empty", table.slice(0, 0), "holds no row to try settings on", 2),
    ):
        source = write(tmp_path / f"{name}.parquet", rows)
        output = str(tmp_path / name)
        assert main(["tune", source, *COLUMNS, "--output", output]) == code
        assert says in capsys.readouterr().err
    source = write(tmp_path / "unlabelled.parquet", table.drop(["label"]))
    flags = ("--model-id", "model_id", "--time", "time")
    assert main(["tune", source, *flags, "--output", str(tmp_path / "x")]) == 2
    assert "--label = None: must be a column" in capsys.readouterr().err


def test_rows_are_in_the_order_that_a_job_learns_them_in(tmp_path: Path) -> None:
    """By time, rows of equal time by their sequence; the last batch is cut."""
    count = 12
    table = pa.table(
        {
            "id": ["b", "a"] * (count // 2),
            "t": [count - at // 4 for at in range(count)],
            "n": [-at for at in range(count)],
            "x": [float(at) for at in range(count)],
            "y": ["p" if at % 3 else "q" for at in range(count)],
        }
    )
    source = write(tmp_path / "in.parquet", table)
    options = ColumnOptions(model_id="id", time="t", sequence="n", label="y")
    looked = look_at_files(source, options)
    found = first_rows_of(looked.infos, looked.columns, count - 1, RidgeSpec())
    assert (found.read, found.failed) == (count - 1, 0)
    rows = {name: model.rows[:, 0].tolist() for name, model in found.models.items()}
    assert rows == {"b": [10, 8, 6, 4, 2, 0], "a": [9, 7, 5, 3, 1]}
    labels = {name: model.labels.tolist() for name, model in found.models.items()}
    assert labels == {
        name: ["p" if value % 3 else "q" for value in values] for name, values in rows.items()
    }
