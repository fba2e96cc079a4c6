"""Processes that were started, each written down in a file of its own: NAME.json."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from pipelines.cluster.identity import identity

POLL = 0.05
AFTER_KILL = 10.0


@dataclass(frozen=True)
class Process:
    """A process that was started.

    Args:
        name: What it is.
        pid: Its id.
        start: What `identity` said of it.
        since: When it was started, in seconds since 1970.
        restarts: How often it was started again by itself.
    """

    name: str
    pid: int
    start: str
    since: float
    restarts: int = 0

    @property
    def alive(self) -> bool:
        """Whether it runs; another process that got its id does not count."""
        return identity(self.pid) == self.start

    def signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self.alive:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return


def write_own(folder: Path, name: str, restarts: int = 0) -> None:
    """Write down the calling process."""
    pid = os.getpid()
    record = Process(name, pid, identity(pid) or "", time.time(), restarts)
    part = folder / f".{name}.{pid}"
    part.write_text(json.dumps(asdict(record)), encoding="utf-8")
    part.replace(folder / f"{name}.json")


def read(folder: Path, name: str) -> Process | None:
    """Return what is written down of a process."""
    try:
        text = (folder / f"{name}.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return Process(**json.loads(text))


def read_all(folder: Path, prefix: str = "") -> list[Process]:
    """Return all that is written down of names with a prefix, in order of name."""
    names = sorted(path.stem for path in folder.glob(f"{prefix}*.json"))
    return [process for name in names if (process := read(folder, name)) is not None]


def forget(folder: Path, processes: Iterable[Process]) -> None:
    """Remove the records of processes, unless a name has been taken over by another process."""
    for process in processes:
        if read(folder, process.name) == process:
            (folder / f"{process.name}.json").unlink(missing_ok=True)


def stop(processes: Iterable[Process], grace: float) -> list[Process]:
    """End processes: ask, wait, then kill.

    Args:
        processes: Which; one that is gone already, its id perhaps another's, is left alone.
        grace: Seconds from asking to killing.

    Returns:
        Those that would not end.
    """
    left = [process for process in processes if process.alive]
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, AFTER_KILL)):
        for process in left:
            process.signal(number)
        deadline = time.monotonic() + seconds
        while left and time.monotonic() < deadline:
            time.sleep(POLL)
            left = [process for process in left if process.alive]
    return left
