"""`kerneltrack cluster down`: stop what was started, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.cluster import records
from pipelines.cluster.errors import ClusterError
from pipelines.cluster.folder import Folder
from pipelines.cluster.parts import PARTS
from pipelines.cluster.records import Process
from pipelines.cluster.supervisor import NAME as SUPERVISOR

GRACE = 10.0


def alive(folder: Folder) -> dict[str, Process]:
    """Return those of a cluster's parts that run, and its supervisor, by name."""
    written = [records.read(folder.run, name) for name in (*(p.name for p in PARTS), SUPERVISOR)]
    return {process.name: process for process in written if process is not None and process.alive}


def take_down(folder: Folder, names: Sequence[str] | None = None) -> list[Process]:
    """Stop a cluster's processes, or those of some names, and their workers.

    The supervisor goes first, so that it starts nothing again, and Kafka last, so that clients can
    say goodbye.

    Returns:
        Those that were stopped.

    Raises:
        ClusterError: if some would not end.
    """
    run = folder.run
    known = [p for p in records.read_all(run) if names is None or p.name in names]
    groups = ([SUPERVISOR], [part.name for part in PARTS if part.name != "kafka"], ["kafka"])
    stopped: list[Process] = []
    for group in groups:
        stopped += _stop(folder, [process for process in known if process.name in group])
    if names is None or "taskmanager" in names:
        # A TaskManager that ends in peace ends its workers; one that was killed does not.
        stopped += _stop(folder, records.read_all(run, "worker-"))
    return stopped


def _stop(folder: Folder, processes: Sequence[Process]) -> list[Process]:
    running = [process for process in processes if process.alive]
    stubborn = records.stop(running, GRACE)
    records.forget(folder.run, [p for p in processes if p not in stubborn])
    if stubborn:
        names = ", ".join(f"{process.name} (process {process.pid})" for process in stubborn)
        raise ClusterError(f"cannot be stopped: {names}")
    return running
