"""The command line, run as a user runs it: what it prints, and how it ends."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kerneltrack
from kerneltrack import codec
from pipelines.files.progress import StatusLine
from tests.e2e.jobs import (
    COLUMNS,
    SMALL,
    assert_same_features,
    command,
    failures_of,
    features_of,
    files_under,
    lines_of,
    record_of,
    run_process,
    sensor_table,
    track,
    write,
)
from tests.parts import missing
from transforms.metrics import TALLY


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs, good and bad, and a finished run in `out`."""
    folder = tmp_path_factory.mktemp("cli")
    table = sensor_table(600)
    write(folder / "in.parquet", table)
    (folder / "cut.parquet").write_bytes((folder / "in.parquet").read_bytes()[:2000])
    (folder / "not.yaml").write_text("rank: [")
    (folder / "list.yaml").write_text("- rank\n")
    (folder / "wrong.yaml").write_text("rnak: 5\n")
    (folder / "big.yaml").write_text("rank: 5000\n")
    (folder / "text.parquet").write_text("a,b\n1,2\n")
    (folder / "labels.csv").write_text("model_id,index,label\nm/0,3,walk\n")
    (folder / "drift.yaml").write_text("drift: [1]\n")
    (folder / "learner.yaml").write_text("learner:\n  rigde: 1\n")
    (folder / "nolearner.yaml").write_text("learner: winnow\n")
    (folder / "empty.csv").write_text("")
    german = [f"31.01.2024 10:00:0{i};{i},5;{i},25;0,{i};{i % 2}" for i in range(1, 10)]
    (folder / "german.csv").write_text("\n".join(["Zeit;a;b;c;n", *german]) + "\n")
    rows = "".join(f"{i % 97},{i % 89}\n" for i in range(900_000))
    packed = gzip.compress(b"a,b\n" + rows.encode(), 1, mtime=0)
    (folder / "cut.csv.gz").write_bytes(packed[:300])
    (folder / "late-cut.csv.gz").write_bytes(packed[:-500])
    source = str(folder / "in.parquet")
    track(source, *COLUMNS, *SMALL, "--output", str(folder / "out"))
    return folder


# What the user types after `kerneltrack`, and what the one line must say.
MISTAKES = {
    "an unknown flag": ("track in.parquet --output x --rnak 5", r"--rnak: did you mean --rank\?"),
    "an unknown flag of Beam": (
        "track in.parquet --output x --runer=DirectRunner",
        r"--runer: did you mean --runner\?",
    ),
    "a flag of another command": (
        "track in.parquet --output x --drop-overlap",
        r"unknown flag --drop-overlap",
    ),
    "a misspelt flag of two words": (
        "track in.parquet --output x --reference-row=300",
        r"--reference-row: did you mean --reference-rows\?",
    ),
    "no output": ("track in.parquet", r"required: --output"),
    "an unknown command": ("trak in.parquet", r"'trak'.*track"),
    "a value out of range": (
        "track in.parquet --output x --rank 0",
        r"--rank = 0: must be an integer from 1 to 1000",
    ),
    "a value of another kind": (
        "track in.parquet --output x --rank many",
        r"--rank = 'many': must be an integer",
    ),
    "a budget below the rank": (
        "track in.parquet --output x --rank 8 --budget 5",
        r"--budget = 5: must be at least the rank \(8\)",
    ),
    "a state that no job could carry": (
        "track in.parquet --output x --rank 1000 --budget 10000",
        r"--budget = 10000: must be at most 7\d{3}: a model's state would take 9\d\d MiB, of 512",
    ),
    "a choice that is none": (
        "track in.parquet --output x --kernel gausian",
        r"--kernel = 'gausian': must be one of gaussian",
    ),
    "a flag of another tracker": (
        "track in.parquet --output x --tracker okfe --budget 9",
        r"--budget = '9': must be left out for okfe",
    ),
    "a field that no spec has": (
        "track in.parquet --output x --spec wrong.yaml",
        r"--spec = 'rnak': must be a field of okfeb \(did you mean 'rank'\?\)",
    ),
    "a spec out of range": (
        "track in.parquet --output x --spec big.yaml",
        r": rank = 5000: must be",
    ),
    "a spec that is no YAML": (
        "track in.parquet --output x --spec not.yaml",
        r"not.yaml: not YAML",
    ),
    "a spec of something else": (
        "track in.parquet --output x --spec list.yaml",
        r"list.yaml: must hold fields and values",
    ),
    "a spec that is not there": ("track in.parquet --output x --spec no.yaml", r"no.yaml: cannot"),
    "a negative time": (
        "track in.parquet --output x --max-disorder -1",
        r"--max-disorder = -1.0: must be a number >= 0",
    ),
    "a file that is not there": ("track no.parquet --output x", r"no.parquet: no such file"),
    "a folder": ("track . --output x", r"files of different endings: .*; name those of one"),
    "a column that is not there": (
        "track in.parquet --output x --time tmie",
        r"--time = 'tmie': must be a column \(did you mean 'time'\?\) of in.parquet",
    ),
    "a Parquet file that is cut off": ("track cut.parquet --output x", r"cut.parquet: cannot be"),
    "a text called Parquet": ("track text.parquet --output x", r"text.parquet: cannot be read"),
    "a text file without anything": ("track empty.csv --output x", r"empty.csv"),
    "gzip that is cut off at once": ("track cut.csv.gz --output x", r"cut.csv.gz.*cut off"),
    "gzip that is cut off far in": (
        "track late-cut.csv.gz --output x",
        r"late-cut.csv.gz, after line [0-9]{3,}: the compressed data is cut off",
    ),
    "an output that is a file": ("track in.parquet --output in.parquet", r"in.parquet"),
    "an output that holds the input": (
        "track out/features/part-00000-of-00001.parquet --output out --overwrite",
        r"--output = 'out'",
    ),
    "results that are there": (
        "track in.parquet --output out",
        r"--output = 'out': must be a folder without features.*or pass --overwrite",
    ),
    "a snapshot that is none": ("inspect in.parquet", r"in.parquet: not a kerneltrack snapshot"),
    "a folder and no model of it": ("inspect .", r"FILE = '\.': must be a file, or with --model"),
    "a snapshot that is not there": ("inspect no.safetensors", r"no.safetensors: cannot be read"),
    "a word that no flag takes": (
        "track in.parquet --output x --model-id model_id dev",
        r"'dev' was not understood: --model-id takes one value \(inputs stand together: in.parqu",
    ),
    "inputs apart": (
        "track in.parquet --output x in.parquet",
        r"'in.parquet' was not understood: --output takes one value",
    ),
    "semicolons": (
        "track german.csv --output x",
        r"--delimiter = ',': must be ';' for german.csv: .* \(try --delimiter ';'\)",
    ),
    "decimal commas": (
        "track german.csv --output x --delimiter ; --exclude n",
        r"--decimal = '\.': must be ',' to read numbers in a of german.csv \(try --decimal ','\)",
    ),
    "days first": (
        "track german.csv --output x --delimiter ; --decimal , --time Zeit",
        r"german.csv: the times of Zeit, such as '31.01.2024 10:00:01', are not ISO 8601: try "
        r"--time-format '%d.%m.%Y %H:%M:%S'$",
    ),
    "a text as a feature": (
        "track german.csv --output x --delimiter ; --decimal , --features a Zeit",
        r"--features = 'Zeit': must be a column of numbers: .* '31.01.2024 10:00:01' \(leave it",
    ),
    "days first where rows are scored": (
        "score german.csv --snapshots out/snapshots --output x --delimiter ; --decimal , "
        "--time Zeit --model-id n",
        r"try --time-format '%d.%m.%Y %H:%M:%S'$",
    ),
    "no number of failures": (
        "track in.parquet --output x --max-failures few",
        r"--max-failures = 'few': must be a number of rows, or a share of all rows",
    ),
    "a report of nothing": ("report nothing", r"nothing.*run.json"),
}
IN_A_PROCESS = (
    "an unknown flag of Beam",
    "a column that is not there",
    "gzip that is cut off far in",
)


def assert_one_line(returned: int, errors: str, says: str) -> None:
    assert returned == 2
    (line,) = errors.splitlines()
    assert line.startswith("kerneltrack: ")
    assert re.search(says, line), line


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_one_line(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed, says = MISTAKES[name]
    monkeypatch.chdir(folder)
    before = files_under(folder / "out")
    try:
        returned = run_main(typed.split())
        assert_one_line(returned, capsys.readouterr().err, says)
        left = files_under(folder / "x") if (folder / "x").exists() else []
        assert left == []
        assert files_under(folder / "out") == before
    finally:
        shutil.rmtree(folder / "x", ignore_errors=True)


IDS = "--model-id model_id --time time"
LEARNS = f"{IDS} --label label --learner ridge"
LABELS = f"{IDS} --learner ridge --labels labels.csv --label-index index"
# What the user types after `kerneltrack track in.parquet`, and what the one line must say.
LEARNING_MISTAKES = {
    "a learner that is none": (f"{IDS} --learner winnow", r"--learner: invalid choice: 'winnow'"),
    "a learner without labels": (
        f"{IDS} --learner ridge",
        r"--learner = 'ridge': must be none without --label or --labels",
    ),
    "a setting of no learner": (
        f"{IDS} --label label --learner-ridge 3",
        r"--learner = 'none': must be one of auto, ridge, .*: --learner-ridge is given",
    ),
    "a setting of another learner": (
        f"{LEARNS} --learner-step-size 1",
        r"--learner-step-size = '1': must be left out for ridge",
    ),
    "a learner's setting out of range": (
        f"{LEARNS} --learner-ridge -3",
        r"--learner-ridge = -3.0: must be a number >",
    ),
    "a task that is none": (
        f"{LEARNS} --learner-task sorting",
        r"--learner-task = 'sorting': must be one of classification, regression",
    ),
    "a task of another learner": (
        f"{IDS} --label label --learner pegasos --learner-task regression",
        r"--learner-task = 'regression': must be classification for pegasos",
    ),
    "words as targets": (
        f"{LEARNS} --learner-task regression",
        r"--label = 'string': must be numbers, for regression",
    ),
    "words as targets in a file of labels": (
        f"{LABELS} --learner-task regression",
        r"--label = 'string': must be numbers, for regression",
    ),
    "a learner's section with a wrong field": (
        f"{IDS} --label label --spec learner.yaml",
        r"spec = 'rigde': must be a field of auto \(did you mean 'ridge'\?\)",
    ),
    "a learner's section that names none": (
        f"{IDS} --label label --spec nolearner.yaml",
        r"learner = 'winnow': must be one of auto, ridge",
    ),
    "a drift section of something else": (
        f"{IDS} --spec drift.yaml",
        r"drift.yaml: drift must hold fields and values",
    ),
    "metrics without a learner": (
        f"{IDS} --metrics-window 5",
        r"--metrics-window = 5.0: must be left out without --learner",
    ),
    "windows of metrics without times": (
        "--model-id model_id --exclude time --label label --learner ridge --metrics-window 5",
        r"--metrics-window = 5.0: must be left out without --time",
    ),
    "windows of metrics without length": (
        f"{LEARNS} --metrics-window 0",
        r"--metrics-window = 0.0: must be a number >= 0.001",
    ),
    "labels without a learner": (
        f"{IDS} --labels labels.csv --learner none",
        r"--labels = 'labels.csv': must be left out without --learner",
    ),
    "labels by no name": (
        "--model-id model_id --exclude time --learner ridge --labels labels.csv",
        r"--labels = 'labels.csv': must be left out without --label-index or --time",
    ),
    "labels that are not there": (
        f"{IDS} --learner ridge --labels no.csv",
        r"no.csv: no such file",
    ),
    "labels without the column of their rows": (
        f"{IDS} --learner ridge --labels labels.csv --label-index nmuber",
        r"--label-index = 'nmuber': must be a column: .* of labels.csv",
    ),
    "labels without the column of labels": (
        f"{LABELS} --label-column truth",
        r"--label-column = 'truth': must be a column: .* of labels.csv",
    ),
    "labels by time without times": (
        f"{IDS} --learner ridge --labels labels.csv",
        r"--time = 'time': must be a column.* of labels.csv",
    ),
    "a wait without labels": (
        f"{LEARNS} --label-wait 5",
        r"--label-wait = '5': must be left out without --labels",
    ),
    "rows that wait without labels": (
        f"{LEARNS} --label-rows 5",
        r"--label-rows = '5': must be left out without --labels",
    ),
    "an index without labels": (
        f"{LEARNS} --label-index index",
        r"--label-index = 'index': must be left out without --labels",
    ),
    "a column of labels without labels": (
        f"{LEARNS} --label-column truth",
        r"--label-column = 'truth': must be left out without --labels",
    ),
    "a wait without times": (
        "--model-id model_id --exclude time --learner ridge --labels labels.csv "
        "--label-index index --label-wait 3",
        r"--label-wait = '3': must be left out without --time",
    ),
    "a negative wait": (f"{LABELS} --label-wait -1", r"--label-wait = -1.0: must be a number >= 0"),
    "no rows that wait": (f"{LABELS} --label-rows 0", r"--label-rows = 0: must be an integer from"),
    "windows without times": (
        "--model-id model_id --exclude time --window 5",
        r"--window = 5.0: must be left out without --time",
    ),
    "windows without length": (f"{IDS} --window 0", r"--window = 0.0: must be seconds from"),
    "a period without windows": (
        f"{IDS} --window-period 5",
        r"--window-period = 5.0: must be left out without --window",
    ),
    "an offset without windows": (
        f"{IDS} --window-offset 5",
        r"--window-offset = 5.0: must be left out without --window",
    ),
    "an offset that is no number": (
        f"{IDS} --window 5 --window-offset nan",
        r"--window-offset = nan: must be a number",
    ),
    "too many windows on a row": (
        f"{IDS} --window 5 --window-period 0.001",
        r"--window-period = 0.001: must be at least size / 1000",
    ),
    "windows of no rows": (
        f"{IDS} --window 5 --window-rows 1",
        r"--window-rows = 1: must be an integer from 2",
    ),
    "rows of no windows": (
        f"{IDS} --window-rows 100",
        r"--window-rows = '100': must be left out without --window or --moving-window",
    ),
    "a confidence in nothing": (
        f"{IDS} --confidence 0.9",
        r"--confidence = '0.9': must be left out without --window or --moving-window",
    ),
    "a confidence above 1": (
        f"{IDS} --moving-window 5 --confidence 95",
        r"--confidence = 95.0: must be a number > 0 and < 1",
    ),
    "a moving window of no rows": (
        f"{IDS} --moving-window 0",
        r"--moving-window = 0: must be an integer from 1 to 2000",
    ),
    "a moving window of a tracker that has none": (
        f"{IDS} --moving-window 5 --tracker okfe",
        r"--moving-window = 5: must be None for the tracker okfe",
    ),
    "a drift setting out of range": (
        f"{IDS} --drift-block 0",
        r"--drift-block = 0: must be an integer from 1 to 1000",
    ),
    "a drift setting that is no number": (
        f"{IDS} --drift-threshold high",
        r"--drift-threshold = 'high': must be a number",
    ),
    "a half-life in seconds without times": (
        "--model-id model_id --exclude time --tracker covariance --halflife-seconds 5",
        r"--time = None: must be the column of event times: the half-life is in seconds",
    ),
    "snapshots without times": (
        "--model-id model_id --exclude time --snapshot-every 5",
        r"--snapshot-every = 5.0: must be left out without --time",
    ),
    "snapshots too often": (
        f"{IDS} --snapshot-every 0",
        r"--snapshot-every = 0.0: must be a number >= 0.001",
    ),
    "a warm start from nowhere": (
        f"{IDS} --warm-start nowhere",
        r"nowhere/index.json: cannot be read",
    ),
    "a runner that is none": (f"{LEARNS} --runner=Flnik", r"Unexpected pipeline runner: Flnik"),
}


@pytest.mark.parametrize("name", LEARNING_MISTAKES)
def test_a_mistake_leaves_an_earlier_run_alone(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed, says = LEARNING_MISTAKES[name]
    monkeypatch.chdir(folder)
    before = {path: (folder / "out" / path).read_bytes() for path in files_under(folder / "out")}
    arguments = ["track", "in.parquet", *typed.split(), "--output", "out", "--overwrite"]
    returned = run_main(arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kerneltrack: ")
    assert re.search(says, line), line
    # What Beam itself refuses is not our input's fault.
    assert returned == (1 if "--runner" in typed else 2)
    after = {path: (folder / "out" / path).read_bytes() for path in files_under(folder / "out")}
    assert after == before


def run_main(arguments: list[str]) -> int:
    from pipelines.cli.main import main  # noqa: PLC0415 - a process of its own imports it itself

    return main(arguments)


@pytest.mark.parametrize("name", IN_A_PROCESS)
def test_a_mistake_gets_one_line_of_a_process(name: str, folder: Path) -> None:
    typed, says = MISTAKES[name]
    try:
        done = run_process(command(*typed.split()), cwd=folder)
    finally:
        shutil.rmtree(folder / "x", ignore_errors=True)
    assert_one_line(done.returncode, done.stderr, says)
    assert "Traceback" not in done.stdout


def test_help_names_every_command_and_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main([]) == 0
    listed = capsys.readouterr().out
    for name in ("track", "score", "report", "inspect"):
        assert re.search(rf"^ +{name} +[A-Z]", listed, re.M), name
    with pytest.raises(SystemExit) as ended:
        run_main(["track", "--help-all"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for flag in (
        *("--output", "--overwrite", "--spec", "--rank", "--budget", "--kernel", "--gamma"),
        *("--ridge", "--forgetting", "--rule", "--step", "--censor", "--seed", "--tracker"),
        *("--model-id", "--time", "--sequence", "--label", "--features", "--missing"),
        *("--max-disorder", "--max-jump", "--hold-for", "--float32", "--extras", "--width"),
        *("--learner", "--learner-task", "--learner-ridge", "--learner-step-size"),
        *("--learner-max-classes", "--learner-bias", "--drift", "--drift-threshold"),
        *("--window", "--window-period", "--window-offset", "--moving-window", "--window-rows"),
        *("--confidence", "--metrics-window", "--labels", "--label-index", "--label-column"),
        *("--label-wait", "--label-rows", "--snapshot-every", "--warm-start"),
    ):
        assert re.search(rf"^ +{flag}\b", text, re.M), flag
    assert max(map(len, text.splitlines())) <= 200


@pytest.mark.parametrize(("name", "lines"), [("track", 62), ("stream", 72)])
def test_help_is_a_screen_and_says_where_the_rest_is(
    name: str, lines: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output_text = []
    for flag in ("--help", "--help-all", "--help"):
        with pytest.raises(SystemExit):
            run_main([name, flag])
        output_text.append(capsys.readouterr().out)
    short, whole, again = output_text
    assert short == again
    assert len(short.splitlines()) <= lines
    flags = re.findall(r"^  (?:-h, )?(--[a-z-]+)", short, re.M)
    assert len(set(flags)) == len(flags) > 10
    assert all(re.search(rf"^  (?:-h, )?{flag}\b", whole, re.M) for flag in flags)
    assert f"kerneltrack {name} --help-all" in short.splitlines()[-1]
    assert len(whole.splitlines()) > 2 * len(short.splitlines())


def test_help_tells_the_learners_settings_apart(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_main(["track", "--help-all"])
    text = " ".join(capsys.readouterr().out.split())
    (ridge,) = re.findall(r"--learner-ridge X (.*?) --learner-", text)
    assert re.fullmatch(
        r"auto: .* default 0\.01\] ridge: .* default 0\.1\] "
        r"logistic, hinge, lms: .* default 0\.0\] pegasos: .* default 0\.0003\] "
        r"polk, bsgd, nolana, fogd: .* default 1e-06\]",
        ridge,
    )
    assert (
        "oana: Number of landmarks m, at least the rank. [1 to 10,000; default 20] dskpca" in text
    )


def test_help_of_scoring(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_main(["score", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for flag in ("--snapshots", "--output", "--overwrite", "--model-id", "--label", "--features"):
        assert re.search(rf"^ +{flag}\b", text, re.M), flag
    assert "--learner" not in text


def test_the_version() -> None:
    done = run_process(command("--version"))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{kerneltrack.__version__}\n", "")


def test_the_installed_command_is_the_same() -> None:
    installed = Path(sys.executable).parent / "kerneltrack"
    if not installed.exists():
        missing("kerneltrack is not installed beside this Python")
    done = run_process([str(installed), "--version"])
    assert (done.returncode, done.stdout) == (0, f"{kerneltrack.__version__}\n")


def test_what_a_run_prints(folder: Path) -> None:
    """The columns at the start, so that a target among the features is seen; the totals after."""
    arguments = ("track", "in.parquet", "--model-id", "model_id", "--time", "time", *SMALL)
    done = run_process(command(*arguments, "--output", "printed"), cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:7] == [
        "input:    1 file, 600 rows",
        "device:   model_id",
        "time:     time",
        "sequence: none (file and row number decide)",
        "label:    none",
        "channels: 3 as float64: x0, x1, x2",
        "missing:  rows with a missing value go to the failures",
    ]
    assert "left out: label: two words (--features takes it: run is 0, walk is 1)" in lines
    assert re.fullmatch(
        r"600 rows in: 600 features of 3 devices, 0 failed; [0-9.]+ s, [0-9,]+ rows/s", lines[-4]
    )
    assert lines[-3] == "tracked in 1 call of 600 rows and 3 devices"
    assert lines[-2] == "times:    2020-09-13 12:26:40 to 2020-09-13 12:26:51 UTC"
    assert lines[-1] == "report: printed/report.html"


def test_a_second_run_needs_leave_to_overwrite(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "out", tmp_path / "out")
    shutil.copy(folder / "in.parquet", tmp_path)
    (tmp_path / "out" / "mine.txt").write_text("kept")
    (tmp_path / "out" / "features" / "older.parquet").write_text("gone")
    before = {name: (tmp_path / "out" / name).read_bytes() for name in files_under(folder / "out")}
    arguments = ["track", "in.parquet", *COLUMNS, *SMALL, "--output", "out"]
    refused = run_process(command(*arguments), cwd=tmp_path)
    assert_one_line(refused.returncode, refused.stderr, "--overwrite")
    assert before == {name: (tmp_path / "out" / name).read_bytes() for name in before}
    done = run_process(command(*arguments, "--overwrite"), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert files_under(tmp_path / "out") == sorted([*before, "mine.txt"])
    ours, theirs = features_of(tmp_path / "out"), features_of(folder / "out")
    assert_same_features(ours, theirs, ignore=["source"])


def offline() -> tuple[list[str], dict[str, str]]:
    """A prefix that runs a command without a network where that is allowed, and dead proxies."""
    dead = "http://127.0.0.1:9"
    changes = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), dead)
    prefix = ["unshare", "--net", "--map-root-user"]
    if shutil.which("unshare") and run_process([*prefix, "true"]).returncode == 0:
        return prefix, changes
    return [], changes


@pytest.mark.nightly
def test_beams_direct_runner_works_offline(folder: Path, tmp_path: Path) -> None:
    prefix, changes = offline()
    # A home without the binary of another runner that an earlier run may have fetched.
    changes["HOME"] = str(tmp_path)
    arguments = ["track", "in.parquet", *COLUMNS, *SMALL, "--runner=DirectRunner"]
    done = run_process(
        [*prefix, *command(*arguments, "--output", str(tmp_path / "out"))],
        cwd=folder,
        changes=changes,
    )
    assert (done.returncode, done.stderr) == (0, "")
    ours, theirs = features_of(tmp_path / "out"), features_of(folder / "out")
    assert_same_features(ours, theirs, ignore=["source"])
    for path in (folder / "out" / "snapshots").iterdir():
        assert (tmp_path / "out" / "snapshots" / path.name).read_bytes() == path.read_bytes()


@pytest.fixture(scope="module")
def learned(folder: Path) -> Path:
    """A finished run with all that may be measured and learned along the way."""
    flags = (*COLUMNS, *SMALL, *ALL_OF_IT)
    track(str(folder / "in.parquet"), *flags, "--output", str(folder / "learned"))
    return folder / "learned"


ALL_OF_IT = (
    *("--learner", "ridge", "--metrics-window", "3", "--snapshot-every", "4"),
    *("--window", "3", "--window-period", "1", "--moving-window", "10"),
    *("--drift", "--drift-block", "4", "--drift-settle", "20"),
    *("--drift-memory", "60", "--drift-threshold", "1.5"),
)


def test_beams_direct_runner_learns_offline(learned: Path, folder: Path, tmp_path: Path) -> None:
    """Snapshots and their index to the byte, and every line of the other files."""
    prefix, changes = offline()
    changes["HOME"] = str(tmp_path)
    labels = ("--labels", "labels.csv", "--label-index", "index", "--label-wait", "1")
    flags = (*COLUMNS, *SMALL, *ALL_OF_IT, *labels)
    output, here = tmp_path / "out", tmp_path / "here"
    done = run_process(
        [*prefix, *command("track", "in.parquet", *flags, "--runner=DirectRunner",
                           "--output", str(output))],
        cwd=folder,
        changes=changes,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    labels = ("--labels", str(folder / "labels.csv"), *labels[2:])
    source = str(folder / "in.parquet")
    track(source, *COLUMNS, *SMALL, *ALL_OF_IT, *labels, "--output", str(here))
    assert files_under(output / "snapshots") == files_under(here / "snapshots")
    for path in sorted((here / "snapshots").iterdir()):
        assert (output / "snapshots" / path.name).read_bytes() == path.read_bytes(), path.name
    assert_same_features(features_of(output), features_of(here), ignore=["source"])
    for part in ("predictions", "metrics", "mismatch", "alerts"):
        assert lines_of(output, part) == lines_of(here, part), part
        assert lines_of(output, part)
    assert failures_of(output) == failures_of(here) != []
    ours, theirs = record_of(output)["counts"], record_of(here)["counts"]
    assert ours == theirs


def test_a_learners_snapshot_is_printed(learned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(learned / "snapshots" / "m%2F0@learner.safetensors")
    assert run_main(["inspect", path]) == 0
    text = capsys.readouterr().out
    assert re.match(
        rf"{re.escape(path)}: format version {codec.VERSION}, [0-9,]+ bytes, learner ridge\n", text
    )
    for line in (
        *("  model_id: m/0", "  rows: 200", "  task: classification", "  forgetting: 0.999"),
        *("  scored: 199", "  learned: 200", "  unusable: 0", "classes:", "  0: walk", "  1: run"),
    ):
        assert line in text.splitlines(), line
    assert re.search(r"^  time: \d+ \(\d{4}-\d\d-\d\dT[\d:.]+Z\)$", text, re.M)
    assert re.search(r"^  weights: 2 x 8 float64, largest \|value\| [0-9.]+$", text, re.M)
    arrays, beside = text.partition("arrays:\n")[2].split("beside:\n")
    assert "board." not in arrays
    assert re.search(r"^  board\.total\.counts: 3 int64, largest \|value\| 200$", beside, re.M)
    assert run_main(["inspect", path, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["kind"], facts["version"], facts["classes"]) == (
        "learner",
        codec.VERSION,
        ["walk", "run"],
    )
    assert facts["spec"]["learner"] == "ridge"
    assert facts["bytes"] == Path(path).stat().st_size
    assert facts["arrays"].keys() == {"weights", "memory", "sums", "counts"}
    assert facts["totals"]["scored"] == 199
    assert isinstance(facts["about"]["time"], int)


def test_what_lies_beside_a_state_is_printed_apart(
    learned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = learned / "snapshots" / "m%2F0.safetensors"
    assert run_main(["inspect", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["kind"] == "tracker"
    assert "classes" not in facts
    assert {name.partition(".")[0] for name in facts["beside"]} == {"drift", "moving", "open"}
    assert "stored" in facts["arrays"]
    assert not [name for name in facts["arrays"] if "." in name]
    assert facts["beside"]["moving.gram"]["shape"] == [10, 10]


def test_a_snapshot_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(folder / "out" / "snapshots" / "m%2F0.safetensors")
    assert run_main(["inspect", path]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{path}: format version {codec.VERSION}, ")
    for line in ("  model_id: m/0", "  rows: 200", "  rank: 4", "  budget: 7", "  evicted: 193"):
        assert line in text.splitlines(), line
    assert re.search(r"^  stored: 3 x 8 float64, largest \|value\| [0-9.]+$", text, re.M)
    assert run_main(["inspect", path, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["about"]["model_id"], facts["about"]["rows"]) == ("m/0", 200)
    assert (facts["version"], facts["spec"]["rank"], facts["spec"]["warmup"]) == (
        codec.VERSION,
        4,
        50,
    )
    assert facts["arrays"]["gram"]["shape"] == [8, 8]
    assert facts["bytes"] == Path(path).stat().st_size
    assert facts["totals"]["informative"] == 200


def test_the_report_is_written_again(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder / "out", tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    (tmp_path / "out" / "report.html").unlink()
    assert run_main(["report", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'out' / 'report.html'}\n"
    again = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert len(again) > 0.9 * len(page)
    assert "m/0" in again


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def tally() -> Iterator[None]:
    """The tally of a job in mid-run."""
    TALLY.clear()
    TALLY.update(rows_read=1500, rows_failed=20, rows_late=30, rows_tracked=950)
    yield
    TALLY.clear()


@pytest.mark.usefixtures("tally")
def test_what_the_status_line_says() -> None:
    line = StatusLine(io.StringIO(), 4000)
    assert line.text(2.0) == ("1,500 rows read, 1,000 of 4,000 done (25 %), 50 failed, 500 rows/s")
    # The number of rows of text files is known once they have been read.
    assert StatusLine(io.StringIO(), None).text(2.0) == (
        "1,500 rows read, 1,000 of 1,500 done (67 %), 50 failed, 500 rows/s"
    )


def test_the_status_line_before_the_first_row() -> None:
    TALLY.clear()
    line = StatusLine(io.StringIO(), None)
    assert line.text(0.0) == "0 rows read, 0 of 0 done, 0 failed, 0 rows/s"


def test_a_terminal_shows_one_line_that_is_written_over() -> None:
    terminal = _Terminal()
    with StatusLine(terminal, 40):
        TALLY.update(rows_read=40, rows_tracked=40)
    shown = terminal.getvalue()
    assert shown.startswith("\r\x1b[K")
    assert shown.endswith("\n")
    assert shown.count("\n") == 1
    assert "40 rows read, 40 of 40 done (100 %), 0 failed" in shown


def test_without_a_terminal_nothing_is_shown() -> None:
    stream = io.StringIO()
    with StatusLine(stream, 40):
        pass
    assert stream.getvalue() == ""


def test_progress_may_be_asked_for_and_switched_off(folder: Path, tmp_path: Path) -> None:
    source = str(folder / "in.parquet")
    flags = ["track", source, *COLUMNS, *SMALL]
    done = run_process(command(*flags, "--progress", "--output", str(tmp_path / "on")))
    last = done.stderr.splitlines()[-1]
    assert last.startswith("600 rows read, 600 of 600 done (100 %), 0 failed, "), done.stderr
    assert os.linesep not in last
