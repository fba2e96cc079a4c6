"""The process that stays: it starts a dead TaskManager again, and tells of the other parts.

Argument: the cluster's folder.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pipelines.cluster import records
from pipelines.cluster.errors import ClusterError
from pipelines.cluster.folder import Cluster, Folder, load
from pipelines.cluster.interruption import Interruption
from pipelines.cluster.parts import PARTS, recorded, start
from pipelines.cluster.records import Process

NAME = "supervisor"
RESTARTED, LEADER = "taskmanager", "jobmanager"
POLL = 0.5
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
STEADY = 10.0
"""A TaskManager that ran for so many seconds is started again at once."""

_log = logging.getLogger(__name__)


def command(cluster: Cluster) -> list[str]:
    """Return the command line of a cluster's supervisor."""
    return [sys.executable, "-m", "pipelines.cluster.supervisor", str(cluster.folder.root)]


class Supervisor:
    """Looks after a cluster's processes.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._dead: dict[str, Process] = {}
        self._pause = FIRST_PAUSE
        self._not_before = 0.0

    def look(self) -> None:
        """Look once: start a dead TaskManager of a JobManager again, tell of what else died."""
        run = self._cluster.folder.run
        _reap()
        records.forget(run, [p for p in records.read_all(run, "worker-") if not p.alive])
        for part in PARTS:
            process = records.read(run, part.name)
            if process is None:
                continue
            if process.alive:
                self._dead.pop(part.name, None)
                continue
            if self._dead.get(part.name) != process:
                self._dead[part.name] = process
                _log.warning("%s (process %d) is dead", process.name, process.pid)
                if part.name == RESTARTED:
                    self._not_before = time.monotonic() + self._pause_after(process)
            if part.name == RESTARTED and time.monotonic() >= self._not_before and self._is_led():
                self._restart(process)

    def _is_led(self) -> bool:
        """Check whether the JobManager is there.

        Alone a TaskManager ends after minutes. Started again for ever it would go to the JobManager
        of another cluster, once one has the same port, and take the place of that one's own.
        """
        leader = records.read(self._cluster.folder.run, LEADER)
        return leader is not None and leader.alive

    def _pause_after(self, dead: Process) -> float:
        """Return how long to wait: starts lie the further apart, the more of them soon failed."""
        lived = time.time() - dead.since
        if not dead.restarts or lived > STEADY:
            self._pause = FIRST_PAUSE
            return 0.0
        return max(self._pause - lived, 0.0)

    def _restart(self, dead: Process) -> None:
        """Start the TaskManager again, unless a command is at work on the cluster."""
        try:
            with self._cluster.folder.exclusive():
                if records.read(self._cluster.folder.run, dead.name) != dead:
                    return
                # What it leaves behind would hold memory until it notices.
                records.stop(records.read_all(self._cluster.folder.run, "worker-"), 1.0)
                (part,) = (part for part in PARTS if part.name == dead.name)
                pid = start(self._cluster, part, dead.restarts + 1)
                # So that it can be stopped.
                recorded(self._cluster, dead.name, pid)
        except ClusterError:
            return
        _log.warning("%s was started again: process %d", dead.name, pid)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)


def _reap() -> None:
    """Let own children that ended go, so that they leave the process list."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def main(arguments: Sequence[str]) -> None:
    """Look after a cluster until told to stop, or until its folder is gone."""
    (root,) = arguments
    folder = Folder(Path(root))
    logging.basicConfig(
        filename=folder.log(NAME),
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    with Interruption() as interruption:
        try:
            cluster = load(folder)
            if cluster is None:
                return
            supervisor = Supervisor(cluster)
            _log.info("looking after the cluster in %s", folder.root)
            while folder.settings.exists():
                supervisor.look()
                interruption.wait(POLL)
        except KeyboardInterrupt:
            _log.info("asked to stop")


if __name__ == "__main__":
    main(sys.argv[1:])
