"""The local cluster: Flink, Kafka and Beam's servers, started, used, hurt and stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from pipelines.cluster.configure import TASKMANAGER_ID
from pipelines.cluster.folder import Folder, load
from pipelines.cluster.identity import identity
from pipelines.cluster.java import find_java
from pipelines.cluster.parts import kafka_format
from pipelines.cluster.resolve import Jars
from pipelines.cluster.settings import CLASSES
from pipelines.cluster.versions import versions
from tests.e2e.clusters import (
    PARTS,
    PATIENCE,
    POLL,
    LocalCluster,
    left_in,
    make_topics,
    ports_beside,
    running,
    wait_for,
)
from tests.e2e.jobs import ROOT, environment, run_process

KEYS = 3


@pytest.fixture(scope="module")
def own(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A running cluster of its own: its TaskManager is hurt, and a job runs until the end."""
    with running(tmp_path_factory.mktemp("cluster") / "its folder") as cluster:
        yield cluster


def listening(pids: set[int]) -> set[str]:
    """Addresses, as the kernel writes them, at which processes take connections."""
    inodes = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            # A running process closes files while they are listed.
            with suppress(FileNotFoundError):
                inodes |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(handle)))
    rows = [
        line.split()
        for family in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{family}").read_text().splitlines()[1:]
    ]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes}


def test_all_parts_answer(cluster: LocalCluster) -> None:
    status = json.loads(cluster("status", "--json").stdout)
    assert status["running"]
    assert {name: part["state"] for name, part in status["parts"].items()} == dict.fromkeys(
        (*PARTS, "supervisor"), "answers"
    )
    assert status["versions"] == {**versions(), "java": str(find_java().version)}
    assert status["slots"] == {"all": 4, "free": 4}
    assert [name for name, port in status["ports"].items() if not port["open"]] == []
    assert all(part["uptime"] > 0 for part in status["parts"].values())
    shown = cluster("status")
    assert shown.returncode == 0
    assert all(f"{name} " in shown.stdout for name in PARTS)


def test_up_again_changes_nothing(cluster: LocalCluster) -> None:
    before = cluster.processes()
    again = cluster("up")
    assert (again.returncode, again.stdout.splitlines()[0]) == (0, "runs already")
    other = cluster("up", "--slots", "2")
    assert (other.returncode, other.stdout) == (1, "")
    assert re.fullmatch(r"kerneltrack: a cluster runs in .* already: .*\n", other.stderr)
    assert cluster.processes() == before


def test_a_kafka_id_that_begins_like_a_flag_is_taken(cluster: LocalCluster) -> None:
    known = load(Folder(cluster.folder))
    assert known is not None
    strange = "-aaaaaaaaaaaaaaaaaaaaQ"
    done = run_process(kafka_format(known, strange))
    # The store is another broker's already: that is as far as it gets.
    assert f"Invalid cluster.id in: {known.folder / 'kafka'}" in done.stderr
    assert strange in done.stderr


def test_topics_are_not_made_by_misspelling(cluster: LocalCluster) -> None:
    reports: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        reports.append(error.name())

    at_once = {"topic.metadata.propagation.max.ms": 0}
    brokers = cluster.status()["brokers"]
    producer = confluent_kafka.Producer({"bootstrap.servers": brokers, **at_once})
    producer.produce("nowhere", b"x", on_delivery=delivered)
    assert producer.flush(60) == 0
    assert reports == ["UNKNOWN_TOPIC_OR_PART"]


def send(brokers: str, topic: str, numbers: range) -> None:
    """Message n: key n mod KEYS, with so many words and one more."""
    producer = confluent_kafka.Producer({"bootstrap.servers": brokers})
    for n in numbers:
        producer.produce(
            topic, " ".join(["word"] * (n % KEYS + 1)).encode(), f"k{n % KEYS}".encode()
        )
    assert producer.flush(60) == 0


def counts(total: int) -> dict[int, tuple[str, int]]:
    """What each message's count is, by its offset."""
    return {n: (f"k{n % KEYS}", (n // KEYS + 1) * (n % KEYS + 1)) for n in range(total)}


@dataclass
class Reader:
    """Reads counts until each message has one; two that differ for a message fail."""

    consumer: confluent_kafka.Consumer
    seen: dict[int, tuple[str, int]]

    def read(self, total: int) -> dict[int, tuple[str, int]]:
        wait_for(f"{total} counts", lambda: self._number() >= total)
        return self.seen

    def _number(self) -> int:
        for message in self.consumer.consume(100, POLL):
            assert message.error() is None
            offset, count = map(int, (message.value() or b"").split())
            value = ((message.key() or b"").decode(), count)
            assert self.seen.setdefault(offset, value) == value
        return len(self.seen)


def submit(cluster: LocalCluster, source: str, target: str) -> str:
    """Start the counting job and return its id."""
    status = cluster.status()
    done = run_process(
        [
            *(sys.executable, str(ROOT / "tests/e2e/cluster_job.py")),
            *("--brokers", status["brokers"], "--topic", source, "--output-topic", target),
            *("--expansion-service", status["expansion_service"]),
            *status["beam_flags"],
            *("--job_name=count", "--parallelism=1"),
            *("--checkpointing_interval=500", "--max_bundle_time_mills=50"),
        ]
    )
    assert done.returncode == 0, done.stderr
    # The job server took it; Flink has it a little later.
    (job,) = wait_for("the job", lambda: cluster.ask_flink("/jobs/overview")["jobs"])
    return str(job["jid"])


def completed(cluster: LocalCluster, job: str) -> int:
    return int(cluster.ask_flink(f"/jobs/{job}/checkpoints")["counts"]["completed"])


def classes(cluster: LocalCluster) -> float:
    """MiB that the classes in the TaskManager take."""
    name = "Status.JVM.Memory.Metaspace.Used"
    path = f"/taskmanagers/{TASKMANAGER_ID}/metrics?get={name}"
    found = wait_for(name, lambda: cluster.ask_flink(path))
    return int(found[0]["value"]) / 2**20


@pytest.mark.nightly
def test_a_job_goes_on_after_its_taskmanager_was_killed(own: LocalCluster) -> None:
    without_job = classes(own)
    brokers = own.status()["brokers"]
    make_topics({"bootstrap.servers": brokers}, "words", "counts")
    send(brokers, "words", range(60))
    job = submit(own, "words", "counts")
    settings = {"bootstrap.servers": brokers, "group.id": "test", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe(["counts"])
    reader = Reader(consumer, {})
    assert reader.read(60) == counts(60)
    so_far = completed(own, job)
    wait_for("a checkpoint", lambda: completed(own, job) > so_far + 1)

    status = own.status()
    assert len(status["workers"]) == 1
    everything = {*status["workers"], *(part["pid"] for part in status["parts"].values())}
    assert listening(everything) == {"0100007F"}, "not on the loopback address alone"
    dead, status = own.kill_taskmanager()
    reborn = status["parts"]["taskmanager"]
    assert reborn["restarts"] == 1

    send(brokers, "words", range(60, 120))
    assert reader.read(120) == counts(120)
    consumer.close()
    wait_for("its metrics", lambda: own.ask_flink("/taskmanagers/metrics"))
    # They are some seconds old.
    wait_for("a job's classes", lambda: classes(own) - without_job > 20)
    assert classes(own) - without_job < CLASSES, "a slot has no room for a job"
    log = own("logs", "supervisor").stdout
    assert f"taskmanager (process {dead}) is dead" in log
    assert f"taskmanager was started again: process {reborn['pid']}" in log


def test_other_parts_are_told_of_and_started_by_up(cluster: LocalCluster) -> None:
    before = {name: part["pid"] for name, part in cluster.status()["parts"].items()}
    os.kill(before["expansion"], signal.SIGKILL)
    wait_for("its end", lambda: identity(before["expansion"]) is None)
    shown = cluster("status")
    assert shown.returncode == 1
    assert re.search(r"^expansion +dead ", shown.stdout, re.M)
    wait_for("word of it", lambda: "expansion (" in cluster("logs", "supervisor").stdout)
    again = cluster("up")
    assert (again.returncode, again.stdout.splitlines()[0]) == (0, "started again: expansion")
    after = {name: part["pid"] for name, part in cluster.status()["parts"].items()}
    assert {name for name in after if after[name] != before[name]} == {"expansion"}


@pytest.mark.parametrize(
    ("flags", "shown", "last"),
    [
        pytest.param(
            ("--flink", "taskmanager.cpu.cores=many"),
            "for key 'taskmanager.cpu.cores'",
            "taskmanager ended before it answered; what was started is stopped again",
            marks=pytest.mark.nightly,
        ),
        (
            ("--kafka", "num.network.threads=many"),
            "Invalid value many for configuration num.network.threads",
            "Kafka's store cannot be made: Invalid value many for configuration "
            "num.network.threads: Not a number of type INT",
        ),
    ],
    ids=("a part", "the broker's store"),
)
def test_a_start_that_fails_is_undone(
    flags: tuple[str, str], shown: str, last: str, jars: Jars, tmp_path: Path
) -> None:
    cluster = LocalCluster(tmp_path / "failing")
    failed = cluster("up", *flags, *ports_beside(flags))
    assert (failed.returncode, failed.stdout) == (1, "")
    assert shown in failed.stderr
    assert failed.stderr.splitlines()[-1] == f"kerneltrack: {last}"
    assert cluster.processes() == []
    assert left_in(cluster.folder) == []


def test_an_interrupted_start_leaves_nothing(jars: Jars, tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "its folder")
    with subprocess.Popen(
        cluster.command("up", *ports_beside(())),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        begun = wait_for("its processes", lambda: len(cluster.processes()) == len(PARTS))
        processes = cluster.processes()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE)
    assert begun
    assert (process.returncode, output, errors) == (130, "", "kerneltrack: interrupted\n")
    assert [process for process in processes if process.alive] == []
    assert left_in(cluster.folder) == []
    wiped = cluster("down", "--wipe")
    assert wiped.stdout.splitlines()[0] == f"nothing ran in {cluster.folder}"
    assert not cluster.folder.exists()


def test_a_folder_of_other_things_is_left_alone(jars: Jars, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    cluster = LocalCluster(tmp_path)
    for action in ("up", "down"):
        refused = cluster(action)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert re.fullmatch(r"kerneltrack: .*no cluster.*\n", refused.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
