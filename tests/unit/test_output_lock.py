"""One output, one job: who comes second is told who is there; a dead job holds nothing."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kerneltrack.errors import ConfigError, DataError
from pipelines.output_lock import LOCK, locked_file, locked_folder

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ["kerneltrack", "track", "a b.csv"]
HOLDER = """
import os, sys, time
from pipelines.output_lock import locked_folder
with locked_folder(sys.argv[1], "--output", ["kerneltrack", "score"]):
    # Of a forked process the child speaks: it has then done what it does first of all.
    if len(sys.argv) == 2 or os.fork() == 0:
        print(os.getpid(), flush=True)
    time.sleep(600)
"""


@contextmanager
def holder(folder: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that holds a folder, and the number that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), *more],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_it_is_there_while_it_is_held(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "out"
    with locked_folder(str(folder), "--output", COMMAND):
        assert os.listdir(folder) == [LOCK]
        about = json.loads((folder / LOCK).read_text())
        assert about.pop("since").endswith("Z")
        assert about == {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "command": shlex.join(COMMAND),
        }
    assert os.listdir(folder) == []
    with locked_folder(str(folder), "--output", COMMAND):
        pass


def test_who_comes_second_is_told_who_is_there(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, _):
        with (
            pytest.raises(ConfigError) as caught,
            locked_folder(str(tmp_path), "--output", COMMAND),
        ):
            pass
        assert re.fullmatch(
            rf"--output = '{tmp_path}': must be one that no other job writes: process "
            rf"{process.pid} on {re.escape(socket.gethostname())}, since "
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \(kerneltrack score\), does",
            str(caught.value),
        )
        # By whatever name the folder goes.
        (tmp_path / "link").symlink_to(tmp_path)
        with (
            pytest.raises(ConfigError, match=f"process {process.pid}"),
            locked_folder(f"{tmp_path}/link", "--output", COMMAND),
        ):
            pass
        assert (tmp_path / LOCK).exists()


def test_a_killed_job_holds_nothing(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, _):
        process.kill()
        process.wait()
    assert os.listdir(tmp_path) == [LOCK]
    with locked_folder(str(tmp_path), "--output", COMMAND):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    assert os.listdir(tmp_path) == []


def test_what_a_killed_job_has_forked_holds_nothing(tmp_path: Path) -> None:
    with holder(tmp_path, "forked") as (process, child):
        process.kill()
        process.wait()
        os.kill(child, 0)
        with locked_folder(str(tmp_path), "--output", COMMAND):
            os.kill(child, signal.SIGKILL)


def test_a_job_that_fails_lets_go(tmp_path: Path) -> None:
    def fail() -> None:
        with locked_folder(str(tmp_path), "--output", COMMAND):
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            fail()
        assert os.listdir(tmp_path) == []


def test_a_lock_that_was_let_go_meanwhile_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening and locking, its holder may remove it, and a third job make another."""
    flock, path = fcntl.flock, tmp_path / LOCK
    opened = []

    def late(handle: int, how: int) -> None:
        opened.append(os.fstat(handle).st_ino)
        if len(opened) == 1:
            path.rename(tmp_path / "gone")
            path.touch()
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with locked_folder(str(tmp_path), "--output", COMMAND):
        assert opened[1:] == [path.stat().st_ino]
        assert opened[0] == (tmp_path / "gone").stat().st_ino


@pytest.mark.parametrize(
    ("held", "shown"),
    [
        (b"", "another does"),
        (b"not JSON", "another does"),
        (b"[" * 5000, "another does"),
        (b'{"pid": 1}', "another does"),
        (
            json.dumps({"pid": 1, "host": "\x1b[2J", "since": "x" * 999, "command": "\n"}).encode(),
            r"process 1 on \x1b[2J, since " + "x" * 120 + r" (\n), does",
        ),
    ],
)
def test_what_a_lock_says_is_shown_as_plain_text(held: bytes, shown: str, tmp_path: Path) -> None:
    handle = os.open(tmp_path / LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.write(handle, held)
    with (
        pytest.raises(ConfigError) as caught,
        locked_folder(str(tmp_path), "--output", COMMAND),
    ):
        pass
    os.close(handle)
    assert caught.value.allowed == f"one that no other job writes: {shown}"


def test_no_other_file_is_taken_for_a_lock(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / LOCK).symlink_to(tmp_path / "precious")
    with (
        pytest.raises(DataError, match="cannot be written: "),
        locked_folder(str(tmp_path), "--output", COMMAND),
    ):
        pass
    assert (tmp_path / "precious").read_text() == "precious"
    (tmp_path / LOCK).unlink()
    os.mkfifo(tmp_path / LOCK)
    with (
        pytest.raises(DataError, match="is not a regular file"),
        locked_folder(str(tmp_path), "--output", COMMAND),
    ):
        pass


def test_a_file_is_held_by_a_lock_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "new" / "landmarks.json"
    with locked_file(str(target), "--output", COMMAND):
        assert os.listdir(tmp_path / "new") == [".landmarks.json.lock"]
        with (
            pytest.raises(ConfigError, match=f"process {os.getpid()}"),
            locked_file(str(target), "--output", COMMAND),
        ):
            pass
        with locked_file(str(tmp_path / "new" / "other.json"), "--output", COMMAND):
            pass
    assert os.listdir(tmp_path / "new") == []


def test_where_there_are_no_locks_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked_folder(str(tmp_path), "--output", COMMAND):
        pass
    output_text = f"lock:     none (No locks available); let no other job write into {tmp_path}\n"
    assert capsys.readouterr().out == output_text


def test_object_stores_are_not_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for held in (locked_folder, locked_file):
        entered: Any = held("gs://bucket/out", "--output", COMMAND)
        with entered:
            assert os.listdir(tmp_path) == []
