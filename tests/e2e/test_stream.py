"""The live job on a real Flink, from a real Kafka: the bytes of the file job, through crashes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import confluent_kafka
import numpy as np
import pyarrow as pa
import pytest

from kerneltrack.trackers import OKFEBSpec, run_all
from pipelines.cli import main
from pipelines.stream_status import counters
from tests.e2e.clusters import PATIENCE, LocalCluster, wait_for
from tests.e2e.hostile import Keyed, good_rows, hostile_messages
from tests.e2e.jobs import command, environment, run_process
from tests.e2e.live import CHANNELS, Live, Recording, assert_same_bits, record

ROWS = 1500
HOSTILE = 4000
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


def test_hostile_messages_are_dead_letters_and_disturb_nothing(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    live = Live(cluster, "hostile", "json")
    live.make_topic(1)
    good = [json.dumps(rows).encode() for rows in good_rows(400, CHANNELS)]
    bad = hostile_messages(HOSTILE, "json", CHANNELS, good[0])
    row = json.loads(good[0])[0]
    for span in (-86_400, 10 * 365 * 86_400):
        # Late, and too far ahead: what only the keyed step can tell.
        wrong = json.dumps({**row, "time": row["time"] + span * 10**9}).encode()
        bad += [(key, wrong) for key in (b"m0", b"m1")] * 50
    producer = confluent_kafka.Producer(live.client)

    def send(messages: list[Keyed]) -> None:
        for key, value in messages:
            producer.produce(live.topic, value, key)
            producer.poll(0)
        assert producer.flush(60) == 0

    with live.running() as job:
        keyed: list[Keyed] = [(b"m%d" % (at % 2), value) for at, value in enumerate(good)]
        send(keyed[:100])
        wait_for("rows", lambda: counters(cluster.flink, job)["rows_tracked"] > 0)
        workers = cluster.status()["workers"]
        mixed = keyed[100:] + bad
        order = np.random.default_rng(3).permutation(len(bad)) + len(keyed) - 100
        # Good messages stay in their order, bad ones come anywhere between.
        places = np.sort(np.random.default_rng(4).choice(len(mixed), len(bad), replace=False))
        sequence = iter(keyed[100:])
        chosen = dict(zip(places.tolist(), order.tolist(), strict=True))
        send([mixed[chosen[at]] if at in chosen else next(sequence) for at in range(len(mixed))])
        letters = f"{live.topic}-out-dead-letters"
        wait_for("the dead letters", lambda: sum(live.sizes(letters)) >= len(bad))
        # One second of rows of each model waits for newer ones.
        found = live.read("", 400 * 5 - 2 * 50, tmp_path)
        assert cluster.status()["workers"] == workers
        restarts = cluster.ask_flink(f"/jobs/{job}/metrics?get=numRestarts")
        assert restarts[0]["value"] == "0"
        assert sum(live.sizes(letters)) == len(bad)
    assert found.num_rows >= 400 * 5 - 2 * 50
    for name in ("m0", "m1"):
        model = found.filter(pa.compute.equal(found.column("model_id"), name))
        rows = [json.loads(value or b"") for key, value in keyed if key == name.encode()]
        x = np.array([[row[field] for field in CHANNELS] for rows_ in rows for row in rows_])
        _, features = run_all(OKFEBSpec(rank=4, budget=7, warmup=50), x)
        count = model.num_rows
        assert model.column("index").to_pylist() == list(range(count))
        assert model.column("loss").to_pylist() == features.loss[:count].tolist()
        assert features.z is not None
        assert np.array_equal(np.array(model.column("z").to_pylist()), features.z[:count])
