"""The process that looks after a cluster: when it starts a dead TaskManager again."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from pipelines.cluster import supervisor
from pipelines.cluster.folder import Cluster, Folder
from pipelines.cluster.identity import identity
from pipelines.cluster.java import Java
from pipelines.cluster.parts import ClusterPart
from pipelines.cluster.records import Process
from pipelines.cluster.resolve import Jars
from pipelines.cluster.settings import ClusterSettings


def record(folder: Folder, name: str, *, alive: bool) -> None:
    """Write down this process, or one that is gone."""
    pid = os.getpid()
    process = Process(name, pid, (identity(pid) or "") if alive else "another", 0.0)
    (folder.run / f"{name}.json").write_text(json.dumps(asdict(process)), encoding="utf-8")


@pytest.mark.parametrize("is_led", [True, False])
def test_a_dead_taskmanager_starts_again_while_its_jobmanager_runs(
    is_led: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def start(cluster: Cluster, part: ClusterPart, restarts: int) -> int:
        started.append((part.name, restarts))
        record(cluster.folder, part.name, alive=True)
        return os.getpid()

    monkeypatch.setattr(supervisor, "start", start)
    monkeypatch.setattr(supervisor, "_reap", lambda: None)
    folder = Folder(tmp_path)
    folder.make_parts()
    java, jars = Java(tmp_path, 17), Jars(tmp_path)
    of = supervisor.Supervisor(Cluster(folder, ClusterSettings({}, {}), java, jars, {}))
    record(folder, "jobmanager", alive=is_led)
    record(folder, "taskmanager", alive=False)
    of.look()
    assert started == ([("taskmanager", 1)] if is_led else [])
    # As soon as there is one again.
    record(folder, "jobmanager", alive=True)
    of.look()
    assert started == [("taskmanager", 1)]
