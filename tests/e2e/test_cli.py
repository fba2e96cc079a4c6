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
from pipelines.progress import StatusLine
from tests.e2e.jobs import (
    COLUMNS,
    SMALL,
    assert_same_features,
    command,
    features_of,
    files_under,
    run_process,
    sensor_table,
    track,
    write,
)
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
    (folder / "empty.csv").write_text("")
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
    "no output": ("track in.parquet", r"required: --output"),
    "an unknown command": ("trak in.parquet", r"'trak'.*track"),
    "a value out of range": (
        "track in.parquet --output x --rank 0",
        r"rank = 0: must be an integer from 1 to 1000",
    ),
    "a value of another kind": (
        "track in.parquet --output x --rank many",
        r"--rank = 'many': must be an integer",
    ),
    "a budget below the rank": (
        "track in.parquet --output x --rank 8 --budget 5",
        r"budget = 5: must be at least the rank \(8\)",
    ),
    "a choice that is none": (
        "track in.parquet --output x --kernel gausian",
        r"kernel = 'gausian': must be one of gaussian",
    ),
    "a flag of another tracker": (
        "track in.parquet --output x --tracker okfe --budget 9",
        r"--budget = '9': must be left out for okfe",
    ),
    "a field that no spec has": (
        "track in.parquet --output x --spec wrong.yaml",
        r"spec = 'rnak': must be a field of okfeb \(did you mean 'rank'\?\)",
    ),
    "a spec out of range": ("track in.parquet --output x --spec big.yaml", r"rank = 5000: must be"),
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
        r"max_disorder = -1.0: must be a number of seconds >= 0",
    ),
    "a file that is not there": ("track no.parquet --output x", r"no.parquet: no such file"),
    "a folder": ("track . --output x", r"is a folder; name its files"),
    "a column that is not there": (
        "track in.parquet --output x --time tmie",
        r"time = 'tmie': must be a column \(did you mean 'time'\?\) of in.parquet",
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
    "a snapshot that is not there": ("inspect no.safetensors", r"no.safetensors: cannot be read"),
    "a report of nothing": ("report nothing", r"nothing.*run.json"),
}
IN_A_PROCESS = (
    "an unknown flag",
    "an unknown flag of Beam",
    "a field that no spec has",
    "a file that is not there",
    "a column that is not there",
    "a Parquet file that is cut off",
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


def run_main(arguments: list[str]) -> int:
    from pipelines.cli import main  # noqa: PLC0415 - a process of its own imports it itself

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
    for name in ("track", "report", "inspect"):
        assert re.search(rf"^ +{name} +[A-Z]", listed, re.M), name
    with pytest.raises(SystemExit) as ended:
        run_main(["track", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for flag in (
        *("--output", "--overwrite", "--spec", "--rank", "--budget", "--kernel", "--gamma"),
        *("--ridge", "--forgetting", "--rule", "--step", "--censor", "--seed", "--tracker"),
        *("--model-id", "--time", "--sequence", "--label", "--features", "--missing"),
        *("--max-disorder", "--max-jump", "--hold-for", "--float32", "--extras", "--width"),
    ):
        assert re.search(rf"^ +{flag}\b", text, re.M), flag
    assert max(map(len, text.splitlines())) <= 200
    assert "Budget" in listed or "budget" in listed


def test_the_version() -> None:
    done = run_process(command("--version"))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{kerneltrack.__version__}\n", "")


def test_the_installed_command_is_the_same() -> None:
    installed = Path(sys.executable).parent / "kerneltrack"
    if not installed.exists():
        reason = "kerneltrack is not installed beside this Python"
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail(reason)
        pytest.skip(reason)
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
        "model id: model_id",
        "time:     time",
        "sequence: none (file and row number decide)",
        "label:    none",
        "features: 3 as float64: x0, x1, x2",
        "missing:  rows with a missing feature go to the failures",
    ]
    assert "left out: label: no numbers (string)" in lines
    assert re.fullmatch(
        r"600 rows in: 600 features of 3 models, 0 failed; [0-9.]+ s, [0-9,]+ rows/s", lines[-2]
    )
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


def test_a_snapshot_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(folder / "out" / "snapshots" / "m%2F0.safetensors")
    assert run_main(["inspect", path]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{path}: format version 1, ")
    for line in ("  model_id: m/0", "  rows: 200", "  rank: 4", "  budget: 7", "  evicted: 193"):
        assert line in text.splitlines(), line
    assert re.search(r"^  support: 8 x 3 float64, largest \|value\| [0-9.]+$", text, re.M)
    assert run_main(["inspect", path, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["about"]["model_id"], facts["about"]["rows"]) == ("m/0", 200)
    assert (facts["version"], facts["spec"]["rank"], facts["spec"]["warmup"]) == (1, 4, 50)
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


COUNT_COMPILATIONS = """
import sys
from numba.core import event
from pipelines.cli import main
with event.install_recorder("numba:compile") as recorder:
    returned = main(sys.argv[1:])
names = sorted({str(found[1].data["dispatcher"]) for found in recorder.buffer})
sys.stderr.write(f"{len(recorder.buffer)} compilations {' '.join(names)}\\n")
sys.exit(returned)
"""


def test_a_warm_job_compiles_nothing(folder: Path, tmp_path: Path) -> None:
    """The module's own runs have filled the cache for these flags."""
    arguments = ["track", "in.parquet", *COLUMNS, *SMALL, "--output", str(tmp_path / "out")]
    done = run_process([sys.executable, "-c", COUNT_COMPILATIONS, *arguments], cwd=folder)
    assert (done.returncode, done.stderr.strip()) == (0, "0 compilations")


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
