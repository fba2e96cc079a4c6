"""The live job on a real Flink, from a real Kafka: the bytes of the file job, through crashes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.stream_status import counters
from tests.e2e.clusters import PATIENCE, LocalCluster, wait_for
from tests.e2e.hostile_live import assert_undisturbed
from tests.e2e.jobs import command, environment, run_process
from tests.e2e.live import Live, Recording, assert_same_bits, record

ROWS = 1500
HOSTILE = 2000
FEATURES = ("loss", "novelty", "informative", "initial", "evicted", "z", "label")
PREDICTIONS = ("prediction", "score", "margin", "label", "correct")
PARTITIONS = 6
"""More than there are models: some stay empty."""


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
    live.send(some, 50)
    with live.running(f"--parallelism={parallelism}"):
        live.send(others, 1)
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

        def restarts() -> int:
            found = cluster.ask_flink(f"/jobs/{job}/metrics?get=numRestarts")
            return int(found[0]["value"]) if found else 0

        def kill(victim: str, portion: Path) -> None:
            # Rows have been read since the last kill, and are in a checkpoint.
            wait_for("rows", lambda: counters(cluster.flink, job)["rows_tracked"] > 0)
            before, seen = checkpoints(), restarts()
            wait_for("a newer checkpoint", lambda: checkpoints() > before + 1)
            status, sent = cluster.status(), sum(live.sizes(live.topic))
            sending = command(*live.replay(portion, 5, "--speed", "1"))
            with subprocess.Popen(sending, env=environment()) as feed:
                wait_for("its first rows", lambda: sum(live.sizes(live.topic)) > sent)
                if victim == "worker":
                    killed = status["workers"]
                else:
                    killed = [status["parts"]["taskmanager"]["pid"]]
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)
                assert feed.wait(PATIENCE) == 0
            wait_for("a restart", lambda: restarts() > seen)

        first, *others = recording.portions
        live.send(first, 5)
        for victim, portion in zip(("worker", "taskmanager", "worker"), others, strict=True):
            kill(victim, portion)
        assert_same_as_file_job(live, recording, tmp_path)
        assert cluster.ask_flink(f"/jobs/{job}")["state"] == "RUNNING"


def test_a_stopped_job_goes_on_where_it_was(
    cluster: LocalCluster, recording: Recording, tmp_path: Path
) -> None:
    live = Live(cluster, "resumed", "json")
    live.make_topic(PARTITIONS)
    first, *others = recording.portions
    live.send(first, 5)
    job = live.start()
    wait_for("rows", lambda: counters(cluster.flink, job)["rows_tracked"] > 0)
    # Rows wait in the buffer, and more come while it stops.
    live.send(others[0], 5)
    assert main(["stop", *live.place, "--savepoint"]) == 0
    refused = run_process(live.stream("--rank", "5", "--resume", "latest"))
    assert (refused.returncode, refused.stdout) == (2, "")
    line = r"kerneltrack: tracker\.rank = 5: must be 4, as in file:///\S+/savepoint-\S+\n"
    assert re.fullmatch(line, refused.stderr)
    with live.running("--resume", "latest", "--parallelism=2"):
        for portion in others[1:]:
            live.send(portion, 5)
        assert_same_as_file_job(live, recording, tmp_path)


@pytest.mark.parametrize(
    ("form", "by_record"), [("json", False), ("arrow", False), ("avro", False), ("json", True)]
)
def test_hostile_messages_are_dead_letters_and_disturb_nothing(
    form: str, by_record: bool, cluster: LocalCluster, tmp_path: Path
) -> None:
    assert_undisturbed(cluster, form, HOSTILE, by_record, tmp_path)
