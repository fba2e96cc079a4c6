"""Models of a live job that fall silent and come back, on a real Flink, through a crash."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.e2e.clusters import LocalCluster, wait_for
from tests.e2e.live import Live, record
from tests.e2e.test_stream import assert_same_as_file_job

ROWS = 600
MODELS = 4
LEAST = 5000
"""Bytes of a model's state, at least."""
STEPS = 2
"""Tracker and learner."""


def test_silent_models_leave_the_state_and_come_back(
    cluster: LocalCluster, sample: Path, tmp_path: Path
) -> None:
    recording = record(sample, tmp_path / "rows", ROWS)
    live = Live(cluster, "expired", "json")
    live.make_topic(2)
    folder = tmp_path / "snapshots"

    def state(job: str) -> int:
        """Bytes of the newest checkpoint, 0 before the first."""
        newest = cluster.ask_flink(f"/jobs/{job}/checkpoints")["latest"]["completed"] or {}
        return int(newest.get("state_size", 0))

    def files() -> set[Path]:
        return set(folder.glob("idle/*.idle"))

    flags = ("--expire-after", "4", "--snapshots", str(folder), "--checkpointing_interval=500")
    with live.running(*flags) as job:
        empty = wait_for("a checkpoint", lambda: state(job))
        for portion in recording.portions:
            before = files()
            live.send(portion, 5)
            wait_for("the models' state", lambda: state(job) > empty + MODELS * LEAST)
            wait_for("the models to expire", lambda: state(job) < empty + MODELS * LEAST / 2)
            assert len(files() - before) >= MODELS * STEPS
            if not before:
                for pid in cluster.status()["workers"]:
                    os.kill(pid, signal.SIGKILL)
        assert_same_as_file_job(live, recording, tmp_path)
    # The states that went out are snapshots like others.
    assert len(list(folder.glob("*@*.safetensors"))) >= MODELS * STEPS
