"""A local cluster for tests, driven by the command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pipelines.cluster import records
from pipelines.cluster.folder import Folder, load
from pipelines.cluster.java import find_java
from pipelines.cluster.records import Process
from pipelines.cluster.settings import PORTS, is_free
from pipelines.cluster.status import ANSWERS, facts
from pipelines.flink.client import Flink
from pipelines.live.in_cluster import jobs_of
from tests.e2e.jobs import command, run_process

PATIENCE = 240.0
POLL = 0.2
FIRST_PORT, PORTS_EACH, PROCESSES = 20_000, 50, 200
"""Ports of clusters: below those that systems take for outgoing connections."""

PARTS = frozenset({"kafka", "jobmanager", "taskmanager", "jobserver", "expansion"})

BROKER = "kafka"
"""The one part that the local engine and its tools talk to."""

# The command `up`, of a cluster that has no other part.
UP_BROKER_ALONE = f"""
from pipelines.cli.main import main
from pipelines.cluster import up
up.PARTS = tuple(part for part in up.PARTS if part.name == {BROKER!r})
raise SystemExit(main())
"""

T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None], tell: Callable[[], str] = str) -> T:
    """Look until there is something to see; if it never comes, say what `tell` has to tell."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        seen = look()
        if seen:
            return seen
        time.sleep(POLL)
    pytest.fail(f"waited in vain for {what}\n{tell()}")


def make_topics(
    client: Mapping[str, Any],
    *names: str,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
) -> AdminClient:
    """Topics that the broker knows, too: the controller, which made them, does so sooner."""
    admin = AdminClient(dict(client))
    new = [NewTopic(name, num_partitions=partitions, config=dict(config or {})) for name in names]
    for made in admin.create_topics(new).values():
        made.result(60)
    wait_for("topics", lambda: set(names) <= set(admin.list_topics(timeout=60).topics))
    return admin


@dataclass(frozen=True)
class LocalCluster:
    """A cluster in a folder of its own, driven by the command."""

    folder: Path

    def __call__(
        self, *arguments: str, changes: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return run_process(self.command(*arguments), changes=changes)

    def command(self, *arguments: str) -> list[str]:
        action, *rest = arguments
        return command("cluster", action, "--folder", str(self.folder), *rest)

    def status(self) -> dict[str, Any]:
        """Return what `status --json` prints."""
        folder = Folder(self.folder)
        return facts(folder, load(folder), jobs_of)

    def kill_taskmanager(self) -> tuple[int, dict[str, Any]]:
        """Kill Flink's TaskManager and wait until another one answers; its process, the status.

        A status at once could still be the dead one's: a process takes a while to end.
        """
        dead = self.status()["parts"]["taskmanager"]["pid"]
        os.kill(dead, signal.SIGKILL)

        def another() -> dict[str, Any] | None:
            status = self.status()
            reborn = status["parts"]["taskmanager"]
            return status if reborn["state"] == ANSWERS and reborn["pid"] != dead else None

        return dead, wait_for("a new TaskManager", another)

    def processes(self) -> list[Process]:
        return records.read_all(self.folder / "run")

    @property
    def flink(self) -> Flink:
        cluster = load(Folder(self.folder))
        assert cluster is not None
        return Flink(cluster.settings.address("flink"))

    def ask_flink(self, path: str) -> Any:
        return self.flink.ask(path)


def own_ports() -> Iterator[int]:
    """Free ports, of numbers that only this process's tests take.

    Another cluster could take the usual one of a part that is down for a while.
    """
    return filter(is_free, count(FIRST_PORT + os.getpid() % PROCESSES * PORTS_EACH))


def ports_beside(flags: Sequence[str]) -> list[str]:
    """Flags for the ports that are not given."""
    given = {flag.partition("=")[0] for flag in flags}
    names = (name for name in PORTS if name not in given)
    chosen = zip(names, own_ports(), strict=False)
    return [flag for name, port in chosen for flag in ("--port", f"{name}={port}")]


@contextmanager
def running(folder: Path, *flags: str, broker_alone: bool = False) -> Iterator[LocalCluster]:
    """Run a cluster, started where there is no Maven; once it is down nothing of it is left."""
    cluster = LocalCluster(folder)
    bare = {"PATH": "/nonexistent", "JAVA_HOME": str(find_java().home)}
    up = cluster.command("up", *flags, *ports_beside(flags))
    if broker_alone:
        up = [sys.executable, "-c", UP_BROKER_ALONE, *up[up.index("cluster") :]]
    try:
        started = run_process(up, changes=bare)
        assert started.returncode == 0, started.stdout + started.stderr
        yield cluster
        take_down(cluster, {BROKER} if broker_alone else PARTS)
    finally:
        cluster("down")


def take_down(cluster: LocalCluster, parts: Set[str] = PARTS) -> None:
    """Take a running cluster down, and see that nothing of it runs any more."""
    status, processes = cluster.status(), cluster.processes()
    assert {process.name for process in processes} >= {*parts, "supervisor"}
    done = cluster("down")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("stopped: supervisor, ")
    assert [process for process in processes if process.alive] == []
    assert [p for p in status["ports"].values() if not is_free(p["port"])] == []
    assert cluster.processes() == []
    assert re.search(r": stopped \(", cluster("status").stdout)


def left_in(folder: Path) -> list[str]:
    """Command lines of processes, whoever's, that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found
