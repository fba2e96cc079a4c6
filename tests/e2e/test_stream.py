"""The live job on a real Flink, from a real Kafka: the bytes of the file job, through crashes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.clusters import LocalCluster, jars, running, wait_for
from tests.e2e.jobs import environment
from tests.e2e.live import Live, Recording, assert_same_bits, record

__all__ = ["jars"]

ROWS = 1500
FEATURES = ("loss", "novelty", "informative", "initial", "evicted", "z", "label")
PREDICTIONS = ("prediction", "score", "margin", "label", "correct")
PARTITIONS = 6
"""More than there are models: some stay empty."""


@pytest.fixture(scope="module")
def cluster(jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with running(tmp_path_factory.mktemp("live") / "cluster") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def recording(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record(sample, tmp_path_factory.mktemp("recording") / "rows", ROWS)


def assert_same_as_file_job(live: Live, recording: Recording, folder: Path) -> None:
    rows = recording.features.num_rows
    assert_same_bits(live.read("", rows, folder), recording.features, FEATURES)
    predictions = live.read("-predictions", rows, folder)
    assert_same_bits(predictions, recording.predictions, PREDICTIONS)
    assert sum(live.sizes(f"{live.topic}-out-dead-letters")) == 0


@pytest.mark.parametrize(("form", "parallelism"), [("json", 2), ("arrow", 1)])
def test_a_live_job_gives_the_bytes_of_the_file_job(
    form: str,
    parallelism: int,
    cluster: LocalCluster,
    recording: Recording,
    tmp_path: Path,
) -> None:
    live = Live(cluster, f"same-{form}", form)
    live.make_topic(PARTITIONS)
    some, others = recording.files
    # One half is there before the job, the other comes while it runs.
    subprocess.run(live.replay(some, 50, "--speed", "0"), env=environment(), check=True)
    with live.running(f"--parallelism={parallelism}"):
        subprocess.run(live.replay(others, 1, "--speed", "0"), env=environment(), check=True)
        assert_same_as_file_job(live, recording, tmp_path)
    assert 0 in live.sizes(live.topic)


def test_killed_workers_lose_and_change_nothing(
    cluster: LocalCluster, recording: Recording, tmp_path: Path
) -> None:
    live = Live(cluster, "killed", "json")
    live.make_topic(PARTITIONS)
    with live.running("--checkpointing_interval=500") as job:

        def checkpoints() -> int:
            counts = cluster.ask_flink(f"/jobs/{job}/checkpoints")["counts"]
            return int(counts["completed"])

        feeds = [
            subprocess.Popen(
                live.replay(file, 5, "--speed", "0.6"), env=environment(), stdout=subprocess.DEVNULL
            )
            for file in recording.files
        ]
        try:
            for victim in ("worker", "taskmanager", "worker"):
                before = checkpoints()
                wait_for("a newer checkpoint", lambda seen=before: checkpoints() > seen + 1)
                assert all(feed.poll() is None for feed in feeds), "the input ended too early"
                status = cluster.status()
                killed = (
                    status["workers"]
                    if victim == "worker"
                    else [status["parts"]["taskmanager"]["pid"]]
                )
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)
        finally:
            for feed in feeds:
                assert feed.wait(240) == 0
        assert_same_as_file_job(live, recording, tmp_path)
        assert cluster.ask_flink(f"/jobs/{job}")["state"] == "RUNNING"
