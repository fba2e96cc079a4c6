"""Tasks in processes: each has its result once, whatever becomes of the processes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kerneltrack.errors import DataError
from kerneltrack.snapshots.packed import slot_of
from pipelines.files.partitioned import share_out
from tests.e2e.jobs import environment
from transforms.partition.pool import TaskFailed, TaskRefused, WorkerDied, run_tasks


def square(folder: str, task: int) -> tuple[int, int]:
    """The square, and the process that worked it out."""
    return task * task, os.getpid()


def die_once(folder: str, task: int) -> int:
    """The task; its process dies where it is begun first."""
    mark = Path(folder, str(task))
    if task % 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def die(folder: str, task: int) -> int:
    """Nothing: the process dies."""
    with Path(folder, "begun").open("a") as handle:
        handle.write("x")
    os._exit(7)


def fail(folder: str, task: str) -> None:
    """Nothing: it raises."""
    if task == "ours":
        raise DataError("a.csv", "cannot be read")
    if task == "full":
        raise OSError(errno.ENOSPC, "No space left on device")
    raise ZeroDivisionError(task)


def wait(folder: str, task: int) -> None:
    """Say who waits, and wait."""
    Path(folder, str(os.getpid())).touch()
    time.sleep(600)


def results(function: Any, folder: Path, tasks: list[Any], workers: int = 2) -> list[Any]:
    return list(run_tasks(function, str(folder), tasks, workers))


def test_each_task_has_its_result(tmp_path: Path) -> None:
    found = dict(results(square, tmp_path, list(range(9))))
    assert {task: value for task, (value, _) in found.items()} == {n: n * n for n in range(9)}
    processes = {process for _, process in found.values()}
    assert len(processes) <= 2
    assert os.getpid() not in processes


def test_one_worker_is_this_process(tmp_path: Path) -> None:
    found = results(square, tmp_path, [1, 2], workers=1)
    assert found == [(1, (1, os.getpid())), (2, (4, os.getpid()))]


def test_a_task_whose_process_dies_runs_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = results(die_once, tmp_path, list(range(6)))
    assert sorted(found) == [(task, task) for task in range(6)]
    reported = capsys.readouterr().err.splitlines()
    line = "kerneltrack: a worker process ended by SIGKILL (the machine may be out of memory); "
    assert reported == [line + "its part of the input is run again"] * 3


def test_a_task_whose_process_always_dies_ends_the_job(tmp_path: Path) -> None:
    expected = "a worker process ended with code 7, 3 times with the same part of the input"
    with pytest.raises(WorkerDied, match=expected):
        results(die, tmp_path, [1, 2])
    assert 3 <= len((tmp_path / "begun").read_text()) <= 6


def test_what_a_task_raises_arrives(tmp_path: Path) -> None:
    with pytest.raises(TaskRefused, match=r"^a\.csv: cannot be read$"):
        results(fail, tmp_path, ["ours", "ours"])
    with pytest.raises(OSError, match="No space") as caught:
        results(fail, tmp_path, ["full", "full"])
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(TaskFailed, match="ZeroDivisionError: other"):
        results(fail, tmp_path, ["other", "other"])


def test_processes_end_with_their_parent(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom tests.unit.test_pool import wait\n"
        "from transforms.partition.pool import run_tasks\n"
        "if __name__ == '__main__':\n    list(run_tasks(wait, sys.argv[1], [1, 2], 2))\n"
    )
    script = tmp_path / "parent.py"
    script.write_text(code)
    marks = tmp_path / "marks"
    marks.mkdir()
    parent = subprocess.Popen([sys.executable, script, str(marks)], env=environment())
    try:
        _until(lambda: len(list(marks.iterdir())) == 2)
    finally:
        parent.kill()
        parent.wait()
    workers = [int(mark.name) for mark in marks.iterdir()]
    _until(lambda: not any(map(_is_alive, workers)))


def _is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _until(met: Any, patience: float = 120.0) -> None:
    end = time.monotonic() + patience
    while not met():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_partitions_are_even() -> None:
    """Of 100,000 models of equal size, and of sizes as uneven as two to one."""
    for size in (lambda n: 10, lambda n: 10 + n % 11):
        rows: Counter[int] = Counter()
        for number in range(100_000):
            rows[slot_of(f"device-{number}", 256)] += size(number)
        loads = [sum(rows[slot] for slot in slots) for slots in share_out(rows, 16)]
        assert len(loads) == 16
        assert sum(loads) == sum(rows.values())
        assert max(loads) <= 1.05 * sum(loads) / 16
        assert loads == sorted(loads, reverse=True)


def test_there_is_a_partition_where_there_are_no_rows() -> None:
    assert share_out(Counter(), 8) == [()]
