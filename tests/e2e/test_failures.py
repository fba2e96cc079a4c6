"""When things go wrong: full disks, signals, hostile rows. Nothing half-written, nothing lost."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kerneltrack import codec
from pipelines.cli.main import main
from tests.e2e.disks import mount, unmount
from tests.e2e.jobs import (
    COLUMNS,
    SMALL,
    array_of,
    assert_same_features,
    command,
    environment,
    failures_of,
    features_of,
    files_under,
    record_of,
    sensor_table,
    track,
    write,
)
from tests.e2e.warm import Warm, run_warm
from tests.parts import lanes

PAGE = 4096


def assert_no_half_file(output: Path) -> None:
    """Whatever bears a final name is complete and can be read; nothing else is left."""
    for name in files_under(output):
        path = output / name
        if name.endswith(".parquet"):
            pq.read_table(path)
        elif name.endswith(".safetensors"):
            codec.decode(path.read_bytes())
        elif name.endswith(".json"):
            json.loads(path.read_text(encoding="utf-8"))
        else:
            assert name == "report.html", name
            assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run in `out` of `in.parquet` beside it."""
    folder = tmp_path_factory.mktemp("finished")
    source = write(folder / "in.parquet", sensor_table(4000))
    track(source, *COLUMNS, *SMALL, "--output", str(folder / "out"))
    return folder


def pages(path: Path) -> int:
    return -(-path.stat().st_size // PAGE) * PAGE


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mount a file system of so many bytes, or give one that is mounted another size."""
    place = tmp_path / "disk"
    place.mkdir()

    def sized(size: int) -> Path:
        mount(place, size)
        return place

    yield sized
    unmount(place)


@pytest.mark.parametrize("full_at", lanes("features", "record", "report"))
def test_a_full_disk_ends_the_job_with_a_clear_line(
    full_at: str, finished: Path, small_disk: Callable[[int], Path]
) -> None:
    out = finished / "out"
    data = sum(pages(out / n) for n in files_under(out) if n.endswith((".parquet", "safetensors")))
    index, run = pages(out / "snapshots" / "index.json"), pages(out / "run.json")
    size = {"features": data // 2, "record": data + index, "report": data + index + 2 * run + 9000}
    disk = small_disk(size[full_at] + PAGE)  # The lock takes a page.
    arguments = ["track", str(finished / "in.parquet"), *COLUMNS, *SMALL]
    arguments += ["--output", str(disk / "out")]
    failed = run_warm(command(*arguments))
    assert failed.returncode == 1
    (line,) = failed.stderr.splitlines()
    assert line.startswith("kerneltrack: the disk is full: "), line
    assert "--overwrite" in line
    assert str(disk / "out") in line
    assert_no_half_file(disk / "out")
    left = files_under(disk / "out")
    assert "report.html" not in left
    assert "run.json" not in left
    assert [path for path in (disk / "out").rglob("*") if "temp" in path.name] == []
    small_disk(16 << 20)
    done = run_warm(command(*arguments, "--overwrite"))
    assert (done.returncode, done.stderr) == (0, "")
    assert files_under(disk / "out") == files_under(out)
    assert_same_features(features_of(disk / "out"), features_of(out))


def test_a_file_that_may_grow_no_further(finished: Path, tmp_path: Path) -> None:
    """The same without the right to mount: the system refuses bytes past a limit."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    arguments = ["track", str(finished / "in.parquet"), *COLUMNS, *SMALL]
    failed = subprocess.run(
        command(*arguments, "--output", str(tmp_path / "out")),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=limit,
        check=False,
    )
    assert failed.returncode == 1
    (line,) = failed.stderr.splitlines()
    assert line.startswith("kerneltrack: "), line
    assert_no_half_file(tmp_path / "out")
    assert not (tmp_path / "out" / "run.json").exists()
    track(*arguments[1:], "--output", str(tmp_path / "out"), "--overwrite")
    assert files_under(tmp_path / "out") == files_under(finished / "out")


LONG, LONGER = 80_000, 400_000
"""Rows of jobs that are still at work long after their first rows were read."""


def start(arguments: list[str]) -> subprocess.Popen[str]:
    """Start a job, and return once rows have been tracked."""
    process = Warm(
        command(*arguments, "--progress"),
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    errors = process.stderr
    assert errors is not None
    shown = ""
    while not re.search(r"read, [1-9][0-9,]* of", shown):
        line = errors.readline()
        assert line, shown
        shown += line
    return process


def start_and_stop(arguments: list[str], *numbers: int) -> subprocess.CompletedProcess[str]:
    """Start a job and send it signals, one soon after the other, once rows have been tracked."""
    process = start(arguments)
    for number in numbers:
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.03)
    _, rest = process.communicate(timeout=60)
    return subprocess.CompletedProcess(arguments, process.returncode, "", rest)


def test_an_interrupted_job_is_run_again(tmp_path: Path) -> None:
    """Stopped by Ctrl-C, then killed, then left to finish: as if nothing had happened."""
    source = write(tmp_path / "in.parquet", sensor_table(LONG, models=3))
    flags = [source, *COLUMNS, "--rank", "14", "--budget", "28", "--extras", "s"]
    arguments = ["track", *flags, "--output", str(tmp_path / "out")]
    stopped = start_and_stop(arguments, signal.SIGINT)
    assert stopped.returncode == 130
    last = stopped.stderr.splitlines()[-1]
    assert last.startswith("kerneltrack: interrupted"), stopped.stderr
    assert "--overwrite" in last
    assert "Traceback" not in stopped.stderr
    assert_no_half_file(tmp_path / "out")
    assert list((tmp_path / "out" / "features").glob("*.parquet")) == []

    killed = start_and_stop([*arguments, "--overwrite"], signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    # What is left has no final name: the writer's own temporary files.
    assert not (tmp_path / "out" / "run.json").exists()
    assert list((tmp_path / "out" / "features").glob("*.parquet")) == []
    for path in (tmp_path / "out" / "snapshots").glob("*.safetensors"):
        codec.decode(path.read_bytes())

    refused = run_warm(command(*arguments))
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    done = run_warm(command(*arguments, "--overwrite"))
    assert (done.returncode, done.stderr) == (0, "")
    assert_no_half_file(tmp_path / "out")
    track(*flags, "--output", str(tmp_path / "undisturbed"))
    assert files_under(tmp_path / "out") == files_under(tmp_path / "undisturbed")
    assert_same_features(features_of(tmp_path / "out"), features_of(tmp_path / "undisturbed"))


@pytest.fixture(scope="module")
def long_job(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A job's command line without its output; it takes some seconds."""
    source = tmp_path_factory.mktemp("long") / "in.parquet"
    flags = [*COLUMNS, "--rank", "14", "--budget", "28", "--snapshot-every", "100"]
    return ["track", write(source, sensor_table(LONGER, models=3)), *flags]


@pytest.mark.parametrize(
    ("numbers", "code", "output_text"),
    [
        ([signal.SIGTERM], 143, "ended by SIGTERM"),
        pytest.param([signal.SIGHUP], 129, "ended by SIGHUP", marks=pytest.mark.nightly),
        ([signal.SIGINT] * 5, 130, "interrupted"),
    ],
)
def test_a_job_that_a_signal_ends_leaves_nothing_half_written(
    numbers: list[int], code: int, output_text: str, long_job: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    stopped = start_and_stop([*long_job, "--output", str(out)], *numbers)
    lines = [line for line in stopped.stderr.splitlines() if " rows/s" not in line]
    assert lines == [f"kerneltrack: {output_text}: run the same command with --overwrite"]
    assert stopped.returncode == code
    assert sorted(os.listdir(out)) == ["failures", "features", "snapshots"]
    for name in files_under(out):
        assert name.startswith("snapshots/"), name
    assert [path.name for path in out.rglob("*") if "temp" in path.name] == []
    assert_no_half_file(out)


def test_a_second_job_into_one_folder_is_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "in.parquet", sensor_table(LONG, models=3))
    flags = [source, *COLUMNS, "--rank", "14", "--budget", "28", "--snapshot-every", "100"]
    arguments = ["track", *flags, "--output", str(tmp_path / "out"), "--overwrite"]
    first = start(arguments)
    first.send_signal(signal.SIGSTOP)  # However long the second one takes to begin.
    second = run_warm(command(*arguments))
    first.send_signal(signal.SIGCONT)
    assert second.returncode == 2
    (line,) = second.stderr.splitlines()
    assert line.startswith(
        f"kerneltrack: --output = '{tmp_path}/out': must be one that no other job writes: "
        f"process {first.pid} on "
    )
    first.communicate(timeout=120)
    assert first.returncode == 0
    assert record_of(tmp_path / "out")["counts"]["rows_out"] == LONG
    assert [path.name for path in (tmp_path / "out").iterdir() if path.name.startswith(".")] == []


def test_a_wrong_value_names_file_row_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    good = [f"m,2024-01-01 00:00:{i:02d},{i * 0.37 % 1},{i % 5}" for i in range(40)]
    good[7] = "m,2024-01-01 00:00:07,abc,1"
    good[9] = "m,2024-13-01 00:00:09,0.5,1"
    good[11] = ",2024-01-01 00:00:11,0.5,1"
    good[13] = "m,2024-01-01 00:00:13,0.5"
    good[15] = "m,2024-01-01 00:00:15,inf,1"
    good[17] = "m,2024-01-01 00:00:17,-1e308,1"
    good[19] = "m,2024-01-01 00:00:19,,1"
    path.write_text("\n".join(["model,time,a,b", *good]) + "\n")
    flags = ("--model-id", "model", "--time", "time", *SMALL)
    track(str(path), *flags, "--output", str(tmp_path / "out"))
    failures = failures_of(tmp_path / "out")
    assert [(row[0], row[1], row[2]) for row in failures] == [
        (None if row in {11, 13} else "m", "in.csv", row) for row in (7, 9, 11, 13, 15, 17, 19)
    ]
    output_text = {row[2]: row[3] for row in failures}
    for row, words in {
        7: "abc",
        9: "2024-13-01",
        11: "no model id",
        13: "3",
        15: "inf",
        17: "-1e+308",
        19: "missing",
    }.items():
        assert words in output_text[row], output_text[row]
    assert record_of(tmp_path / "out")["counts"]["rows_failed"] == 7
    assert array_of(features_of(tmp_path / "out"), "row").tolist() == sorted(
        set(range(40)) - set(output_text)
    )


CSV = "m,t,a,b\n"


def reported(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[str], str]:
    """Run a command; returns its exit code, its lines from the totals on, and its error."""
    capsys.readouterr()
    code = main(arguments)
    seen = capsys.readouterr()
    lines = seen.out.splitlines()
    (totals,) = [at for at, line in enumerate(lines) if " rows in: " in line]
    return code, lines[totals:], seen.err


def test_a_job_of_which_all_rows_failed_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"m{i % 2},2024-01-01 00:00:{i:02d},x{i},1" for i in range(30)]
    rows += [f"m0,2024-01-01 00:{i:02d}:00,1,inf" for i in range(20)]
    rows += [f",2024-01-01 00:{i:02d}:00,1,1" for i in range(9)]
    rows += ["m0,2024-01-01,1", "m0,2024-01-01,,1"]
    path, out = tmp_path / "in.csv", tmp_path / "out"
    path.write_text(CSV + "\n".join(rows) + "\n")
    flags = ["--model-id", "m", "--time", "t", "--features", "a", "b", *SMALL]
    code, lines, error = reported(["track", str(path), *flags, "--output", str(out)], capsys)
    assert code == 3
    assert lines[0].startswith("61 rows in: 0 features of 0 devices, 61 failed; ")
    assert lines[1:] == [
        "failed:   30 rows: a: not a number",
        f"          such as {path}, row 0 (m0): a = 'x0'",
        "failed:   20 rows: b: not finite",
        f"          such as {path}, row 30 (m0): b = inf",
        "failed:   9 rows: m: no model id (1 to 1024 bytes of UTF-8)",
        f"          such as {path}, row 50: m = ''",
        "failed:   2 rows: 2 more reasons, in run.json",
        "missing:  1 of 2 channels lack values: a in 1 row",
        "          --missing drop would leave 1 of 2 channels; --missing hold takes a channel's "
        "last value for --hold-for seconds",
        f"report: {out}/report.html",
    ]
    assert error == (
        "kerneltrack: all 61 rows failed, nothing came out; the outputs are complete for a look\n"
    )
    record = record_of(out)
    assert (record["outcome"], record["exit_code"]) == ("all rows failed", 3)
    assert record["failures"] == {
        "a: not a number": 30,
        "b: not finite": 20,
        "m: no model id (1 to 1024 bytes of UTF-8)": 9,
        "a: missing value": 1,
        "line: 3 fields instead of 4": 1,
    }
    assert_no_half_file(out)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.index("Rows that failed") < page.index('id="drawn"')


@pytest.mark.parametrize(("allowed", "code"), [("4", 3), ("5", 0), ("9.9%", 3), ("10%", 0)])
def test_more_failures_than_allowed(
    allowed: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out, scores = tmp_path / "in.csv", tmp_path / "out", tmp_path / "scores"
    rows = [f"m,{i},{i * 0.37 % 1},{'x' if i % 10 == 3 else i % 7}" for i in range(50)]
    path.write_text(CSV + "\n".join(rows) + "\n")
    flags = ["--model-id", "m", "--time", "t", "--max-failures", allowed]
    jobs = {
        out: ["track", str(path), *flags, *SMALL, "--output", str(out)],
        scores: ["score", str(path), *flags, "--output", str(scores)],
    }
    jobs[scores] += ["--snapshots", f"{out}/snapshots"]
    for output, arguments in jobs.items():
        found, lines, error = reported(arguments, capsys)
        assert found == code
        (at,) = [at for at, line in enumerate(lines) if line.startswith("failed:")]
        assert lines[at : at + 2] == [
            "failed:   5 rows: b: not a number "
            "(--null-values x, if that stands for a missing value)",
            f"          such as {path}, row 3 (m): b = 'x'",
        ]
        output_text = f"--max-failures {allowed}: 5 of 50 rows failed (10.00%)"
        whole = f"kerneltrack: {output_text}; the outputs are complete for a look\n"
        assert error == (whole if code else "")
        record = record_of(output)
        assert record["outcome"] == ("too many rows failed" if code else "done")
        assert (record["exit_code"], record["max_failures"]) == (code, allowed)
        assert record["counts"]["rows_out"] == 45
    assert features_of(out).num_rows == 45


def test_labels_of_which_none_is_met(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "in.parquet", sensor_table(200))
    labels, out = tmp_path / "labels.csv", tmp_path / "out"
    labels.write_text("model_id,index,label\n" + "".join(f"no,{i},True\n" for i in range(9)))
    flags = ["--model-id", "model_id", "--time", "time", "--learner", "ridge", *SMALL]
    flags += ["--labels", str(labels), "--label-index", "index"]
    code, lines, error = reported(["track", source, *flags, "--output", str(out)], capsys)
    assert code == 3
    assert lines[1].startswith("tracked in ")
    assert lines[4].startswith("times: ")
    assert [*lines[2:4], *lines[5:7]] == [
        "9 labels in, 9 failed",
        "no prediction met a label",
        "failed:   9 rows: no row of this model came",
        f"          such as {labels}, row 0 (no)",
    ]
    assert error.startswith("kerneltrack: all 9 labels of --labels failed, nothing was learned; ")
    assert record_of(out)["outcome"] == "all labels failed"
    assert record_of(out)["counts"]["rows_out"] == 200


def test_an_input_without_rows_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out"
    path.write_text(CSV)
    flags = ["--features", "a", "b", "--max-failures", "0", *SMALL, "--output", str(out)]
    code, lines, error = reported(["track", str(path), *flags], capsys)
    assert (code, lines[-1], error) == (0, "the input holds no rows", "")
    assert (record_of(out)["outcome"], record_of(out)["exit_code"]) == ("no rows", 0)


def test_warnings_are_told_once_and_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out"
    path.write_text("n,a,target\n" + "".join(f"{i},{i * 0.37 % 1},{i % 3}\n" for i in range(50)))
    assert main(["track", str(path), *SMALL, "--output", str(out)]) == 0
    warnings = [
        "target: named like an id or a target, but taken as a channel "
        "(--model-id, --label or --exclude target)",
        "n: goes only one way in the first 50 rows, like a counter, an index or a time, but taken "
        "as a channel (--time, --sequence or --exclude n)",
    ]
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line.startswith("warning:")] == [
        f"warning:  {text}" for text in warnings
    ]
    assert record_of(out)["warnings"] == warnings
    assert record_of(out)["outcome"] == "done"


def test_landmarks_of_rows_that_all_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.csv"
    path.write_text("a,b\n" + "1,inf\n" * 8 + ",1\n")
    flags = ["--features", "a", "b", "--output", str(tmp_path / "marks.json")]
    assert main(["landmarks", str(path), *flags]) == 3
    assert capsys.readouterr().err == (
        f"kerneltrack: {path}: no good row, all 9 failed: b: not finite (8); a: missing value (1)\n"
    )
