"""When things go wrong: full disks, signals, hostile rows. Nothing half-written, nothing lost."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack import codec
from tests.e2e.jobs import (
    COLUMNS,
    PLACES,
    SMALL,
    array_of,
    assert_same_features,
    command,
    environment,
    failures_of,
    features_of,
    files_under,
    record_of,
    run_process,
    sensor_table,
    track,
    write,
)

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

    def mount(size: int) -> Path:
        options = f"remount,size={size}" if os.path.ismount(place) else f"size={size}"
        made = run_process(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)])
        if made.returncode != 0:
            pytest.skip("no right to mount a file system")
        return place

    yield mount
    if os.path.ismount(place):
        run_process(["umount", "--lazy", str(place)])


@pytest.mark.parametrize("full_at", ["features", "record", "report"])
def test_a_full_disk_ends_the_job_with_a_clear_line(
    full_at: str, finished: Path, small_disk: Callable[[int], Path]
) -> None:
    out = finished / "out"
    data = sum(pages(out / n) for n in files_under(out) if n.endswith((".parquet", "safetensors")))
    index, run = pages(out / "snapshots" / "index.json"), pages(out / "run.json")
    size = {"features": data // 2, "record": data + index, "report": data + index + 2 * run + 9000}
    disk = small_disk(size[full_at])
    arguments = ["track", str(finished / "in.parquet"), *COLUMNS, *SMALL]
    arguments += ["--output", str(disk / "out")]
    failed = run_process(command(*arguments))
    assert failed.returncode == 1
    (line,) = failed.stderr.splitlines()
    assert line.startswith("kerneltrack: the disk is full: "), line
    assert "--overwrite" in line
    assert str(disk / "out") in line
    assert_no_half_file(disk / "out")
    left = files_under(disk / "out")
    assert "report.html" not in left
    assert ("run.json" in left) == (full_at == "report")
    assert [path for path in (disk / "out").rglob("*") if "temp" in path.name] == []
    small_disk(16 << 20)
    done = run_process(command(*arguments, "--overwrite"))
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


def start_and_stop(arguments: list[str], number: int) -> subprocess.CompletedProcess[str]:
    """Start a job and send it a signal once rows have been tracked."""
    process = subprocess.Popen(
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
    process.send_signal(number)
    _, rest = process.communicate(timeout=60)
    return subprocess.CompletedProcess(arguments, process.returncode, "", rest)


def test_an_interrupted_job_is_run_again(tmp_path: Path) -> None:
    """Stopped by Ctrl-C, then killed, then left to finish: as if nothing had happened."""
    source = write(tmp_path / "in.parquet", sensor_table(60_000, models=3))
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

    refused = run_process(command(*arguments))
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    done = run_process(command(*arguments, "--overwrite"))
    assert (done.returncode, done.stderr) == (0, "")
    assert_no_half_file(tmp_path / "out")
    track(*flags, "--output", str(tmp_path / "undisturbed"))
    assert files_under(tmp_path / "out") == files_under(tmp_path / "undisturbed")
    assert_same_features(features_of(tmp_path / "out"), features_of(tmp_path / "undisturbed"))


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
        (None if row in {7, 11, 13} else "m", "in.csv", row) for row in (7, 9, 11, 13, 15, 17, 19)
    ]
    said = {row[2]: row[3] for row in failures}
    for row, words in {
        7: "abc",
        9: "2024-13-01",
        11: "no model id",
        13: "3",
        15: "inf",
        17: "-1e+308",
        19: "missing",
    }.items():
        assert words in said[row], said[row]
    assert record_of(tmp_path / "out")["counts"]["rows_failed"] == 7
    assert array_of(features_of(tmp_path / "out"), "row").tolist() == sorted(
        set(range(40)) - set(said)
    )


@dataclass(frozen=True)
class Hostile:
    """Rows of every kind that goes wrong, and which of them are good all the same."""

    model_id: list[str | None]
    time: list[str]
    x: list[list[str]]
    good: npt.NDArray[np.bool_]

    def csv(self, only_good: bool) -> str:
        lines = ["model_id,time,x0,x1,x2"]
        for i, (model_id, time, x) in enumerate(zip(self.model_id, self.time, self.x, strict=True)):
            if self.good[i] or not only_good:
                lines.append(",".join([model_id or "", time, *x]))
        return "\n".join(lines) + "\n"

    def parquet(self, only_good: bool) -> pa.Table:
        """The same as typed columns; rows of a wrong width are rows with a missing value."""
        keep = np.flatnonzero(self.good | (not only_good))
        rows = [([*self.x[i], "nan", "nan", "nan"])[:3] for i in keep]
        x = np.array([[_number(value) for value in row] for row in rows]).reshape(-1, 3)
        return pa.table(
            {
                "model_id": pa.array([self.model_id[i] for i in keep], pa.string()),
                "time": pa.array([_number(self.time[i]) for i in keep], pa.float64()),
                **{f"x{c}": x[:, c] for c in range(3)},
            }
        )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


FINE = ("plain", "repeated", "zero", "outlier", "constant", "tiny")
BAD = (
    *("nan", "inf", "-inf", "1e308", "text", "missing", "narrow", "wide"),
    *("no time", "bad time", "far time", "no model"),
)
SPOILT = {
    "nan": "nan",
    "inf": "inf",
    "-inf": "-inf",
    "1e308": "-1e308",
    "text": "no number",
    "missing": "",
}
WRONG_TIMES = {"no time": "", "bad time": "yesterday", "far time": "1e300"}


def hostile_rows(count: int, share_bad: float, seed: int) -> Hostile:
    rng = np.random.default_rng(seed)
    bad = rng.random(count) < share_bad
    models = [f"m{i}" for i in range(rng.integers(1, 6))]
    rows = Hostile([], [], [], ~bad)
    previous = ["0.0", "0.0", "0.0"]
    for i in range(count):
        model: str | None = models[rng.integers(len(models))]
        kind = str(rng.choice(BAD if bad[i] else FINE))
        x = [repr(float(value)) for value in rng.normal(size=3)]
        # Equal times are among them; file and row order those.
        time = repr(float(rng.integers(0, count) / 4))
        if kind == "repeated":
            x = previous
        elif kind == "zero":
            x = ["0.0", "-0.0", "0.0"]
        elif kind == "outlier":
            x[rng.integers(3)] = repr(float(rng.choice([1e9, -1e30, 9e99])))
        elif kind == "tiny":
            x = [repr(float(value) * 1e-300) for value in rng.normal(size=3)]
        elif kind == "constant":
            model, x = "constant", ["7.25", "-3.0", "1e-5"]
        elif kind in SPOILT:
            x[rng.integers(3)] = SPOILT[kind]
        elif kind == "narrow":
            x = x[:2]
        elif kind == "wide":
            x = [*x, "1.5"]
        elif kind == "no model":
            model = None
        else:
            time = WRONG_TIMES.get(kind, time)
        previous = x if not bad[i] else previous
        rows.model_id.append(model)
        rows.time.append(time)
        rows.x.append(x)
    if rng.random() < 0.5:
        # A model of bad rows only has no features at all.
        rows.model_id[0], rows.x[0], rows.good[0] = "only bad", ["nan", "1.0", "2.0"], False
    return rows


def put(path: Path, rows: Hostile, only_good: bool) -> str:
    if path.suffix == ".csv":
        path.write_text(rows.csv(only_good), encoding="utf-8")
    else:
        pq.write_table(rows.parquet(only_good), path, row_group_size=701)
    return str(path)


@settings(max_examples=6)
@given(
    st.sampled_from(["csv", "parquet"]),
    st.floats(0.01, 0.6),
    st.sampled_from([(), ("--clip", "5"), ("--kernel", "linear"), ("--no-standardise",)]),
    st.integers(0, 2**32),
)
def test_hostile_rows_crash_nothing_and_lose_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    ending: str,
    share_bad: float,
    flags: tuple[str, ...],
    seed: int,
) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    rows = hostile_rows(17_000, share_bad, seed)
    if ending == "parquet":
        # A table has no fourth column to be too wide in: those rows are good ones there.
        rows.good[[i for i, x in enumerate(rows.x) if len(x) > 3]] = True
    given_flags = ("--model-id", "model_id", "--time", "time", *SMALL, *flags)
    with_bad = put(folder / f"all.{ending}", rows, only_good=False)
    track(with_bad, *given_flags, "--output", str(folder / "all"))
    without = put(folder / f"good.{ending}", rows, only_good=True)
    track(without, *given_flags, "--output", str(folder / "good"))

    features, failures = features_of(folder / "all"), failures_of(folder / "all")
    done, lost = array_of(features, "row").tolist(), [row[2] for row in failures]
    assert sorted([*done, *lost]) == list(range(17_000))
    refused = np.setdiff1d(lost, np.flatnonzero(~rows.good))
    # The linear kernel's value of an outlier with itself may be too large to compute with.
    assert not len(refused) or "linear" in flags
    counts = record_of(folder / "all")["counts"]
    assert (counts["rows_in"], counts["rows_out"]) == (17_000, len(done))
    assert (counts["rows_failed"], counts["rows_late"]) == (len(lost), 0)

    assert_same_features(features, features_of(folder / "good"), ignore=PLACES)
    for path in (folder / "good" / "snapshots").iterdir():
        assert (folder / "all" / "snapshots" / path.name).read_bytes() == path.read_bytes()
    loss, novelty = array_of(features, "loss"), array_of(features, "novelty")
    assert np.isfinite(array_of(features, "z")).all()
    assert ((novelty >= 0) & (novelty <= 1)).all()
    assert np.isfinite(loss).all()
    assert (loss >= 0).all()
    if "linear" not in flags:
        assert (loss <= 1).all()
    shutil.rmtree(folder)


LIBSVM_LINES = [
    ("+1 1:0.5 3:1e9", True),
    ("-1", True),
    ("+1 1:0 2:0 3:0 4:0", True),
    ("1 4:nan", False),
    ("1 4:inf", False),
    ("1 2:1e308", False),
    ("1 9:1", False),
    ("1 2:", False),
    ("1 x:2", False),
    ("one 1:2", None),
    ("1 0:3", False),
    ("1 -1:3", False),
]


@settings(max_examples=3)
@given(st.integers(0, 2**32))
def test_hostile_sparse_text(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = tmp_path_factory.mktemp("sparse")
    rng = np.random.default_rng(seed)
    usable = [entry for entry in LIBSVM_LINES if entry[1] is not None]
    chosen: list[tuple[str, Any]] = []
    for _ in range(2000):
        x = " ".join(f"{i + 1}:{value!r}" for i, value in enumerate(rng.normal(size=4).tolist()))
        chosen.append(usable[rng.integers(len(usable))] if rng.random() < 0.3 else (f"1 {x}", True))
    for name, lines in (("all", chosen), ("good", [entry for entry in chosen if entry[1]])):
        (folder / f"{name}.libsvm").write_text("".join(f"{line}\n" for line, _ in lines))
        path = str(folder / f"{name}.libsvm")
        track(path, "--width", "4", *SMALL, "--output", str(folder / name))
    lost = [row[2] for row in failures_of(folder / "all")]
    assert lost == [i for i, (_, good) in enumerate(chosen) if not good]
    assert_same_features(features_of(folder / "all"), features_of(folder / "good"), ignore=PLACES)
    shutil.rmtree(folder)
