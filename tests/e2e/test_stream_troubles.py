"""What deploy/upgrade.md says of troubles: a broker, a topic or a disk goes, and comes back."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pipelines.cli.main import main
from pipelines.cluster.identity import identity
from tests.e2e.clusters import PATIENCE, LocalCluster, wait_for
from tests.e2e.collected import Collected, released
from tests.e2e.disks import filled, mount, unmount
from tests.e2e.jobs import RESULTS, command, environment, run_process
from tests.e2e.live import Live, Recording, assert_same_bits, record
from tests.e2e.warm import Warm

ROWS = 600
PARTITIONS = 2
DISK = 64 << 20
OUTAGE = 30.0
"""Seconds for which the broker is away."""


@dataclass(frozen=True)
class Followed:
    """A job that is followed in a terminal.

    Attributes:
        process: What follows it.
        log: What it says there.
    """

    process: subprocess.Popen[str]
    log: Path

    def says(self, pattern: str, beyond: int = 0) -> re.Match[str]:
        """Wait for a line, after so many characters."""
        seen = re.compile(f"{pattern}.*$", re.M)
        return wait_for(
            pattern, lambda: seen.search(self.log.read_text(), beyond), self.log.read_text
        )


@contextmanager
def followed(live: Live, log: Path, *flags: str) -> Iterator[Followed]:
    with (
        log.open("wb") as output,
        Warm(live.attached(*flags), env=environment(), stdout=output, stderr=output) as process,
    ):
        job = Followed(process, log)
        try:
            job.says("^job .* runs: ")
            yield job
        finally:
            process.kill()


@pytest.fixture(scope="module", autouse=True)
def checkpoints(cluster: LocalCluster) -> Iterator[Path]:
    """The folder of checkpoints, a small disk as long as jobs here run."""
    place = cluster.folder / "checkpoints"
    mount(place, DISK)
    yield place
    unmount(place)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "snapshots"
    place.mkdir()
    mount(place, DISK)
    yield place
    unmount(place)


@pytest.fixture(scope="module")
def recording(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record(sample, tmp_path_factory.mktemp("recording") / "rows", ROWS)


def test_a_missing_output_topic_is_refused(cluster: LocalCluster) -> None:
    live = Live(cluster, "misspelt", "json")
    live.make_topic(1)
    words = [word for word in live.stream() if word != "--create-topics"]
    begun = time.monotonic()
    refused = run_process(words)
    assert (refused.returncode, refused.stdout) == (2, "")
    line = r"kerneltrack: --output-topic = 'misspelt-out': must be a topic of \S+ \(there are: .*\n"
    assert re.fullmatch(line, refused.stderr)
    assert time.monotonic() - begun < PATIENCE


def begun(cluster: LocalCluster, topic: str) -> tuple[Live, Collected]:
    """A topic, and what is to come out of it."""
    live = Live(cluster, topic, "json")
    live.make_topic(PARTITIONS)
    return live, Collected(live.client, f"{topic}-out", "json")


def assert_nothing_lost_or_changed(
    live: Live, collected: Collected, recording: Recording, job: Followed
) -> None:
    """Hold all that comes out against the file job, and stop the job."""
    collected.until(released(recording.portions))
    assert main(["stop", *live.place]) == 0
    assert job.process.wait(PATIENCE) == 0
    assert_same_bits(collected.table, recording.features, (*RESULTS, "label"))
    assert sum(live.sizes(f"{live.topic}-out-dead-letters")) == 0


@pytest.mark.nightly
def test_full_disks_and_a_broker_that_is_away_are_waited_for(
    cluster: LocalCluster, recording: Recording, checkpoints: Path, disk: Path, tmp_path: Path
) -> None:
    """One after the other, of one job, which goes on by itself each time."""
    live, collected = begun(cluster, "waits")
    first, second, third, fourth = recording.portions
    live.send(first, 5)
    flags = ("--snapshots", str(disk), "--snapshot-every", "1")
    with followed(live, tmp_path / "log", *flags) as job:
        collected.until(released([first]))
        with filled(disk):
            live.send(second, 5)
            trouble = job.says(r"^.* (?:is|was) started again: OSError: .*No space left on device")
            assert str(disk) in trouble[0]
        collected.until(released([first, second]))
        sending = command(*live.replay(third, 5, "--speed", "1"))
        with Warm(sending, env=environment()) as feed:
            so_far = len(collected.rows)
            wait_for("more rows", lambda: collected.look() > so_far)
            with stopped_broker(cluster):
                gone = time.monotonic()
                trouble = job.says("^waits-out: .*Local: ")
                wait_for("the end of the outage", lambda: time.monotonic() - gone > OUTAGE)
            assert feed.wait(PATIENCE) == 0
        collected.until(released([first, second, third]))
        wait_for("a checkpoint", lambda: [*checkpoints.glob("*/chk-*/_metadata")])
        with filled(checkpoints):
            live.send(fourth, 5)
            collected.until(released(recording.portions))
            full = rf"^no checkpoint for \d+ s: the disk of {checkpoints} is full$"
            trouble = job.says(full, trouble.end())
        job.says("^the job runs well again", trouble.end())
        assert_nothing_lost_or_changed(live, collected, recording, job)
    assert {path.suffix for path in disk.iterdir()} == {".safetensors"}


@contextmanager
def stopped_broker(cluster: LocalCluster) -> Iterator[None]:
    """Stop Kafka, and start it again."""
    (broker,) = (process for process in cluster.processes() if process.name == "kafka")
    broker.signal(signal.SIGTERM)
    wait_for("its end", lambda: identity(broker.pid) is None)
    yield
    assert cluster("up").stdout.startswith("started again: kafka")


@pytest.mark.nightly
def test_an_output_topic_that_was_deleted_is_made_again(
    cluster: LocalCluster, recording: Recording, tmp_path: Path
) -> None:
    live, collected = begun(cluster, "deleted")
    first, *others = recording.portions
    live.send(first, 5)
    with followed(live, tmp_path / "log") as job:
        collected.until(released([first]))
        admin = AdminClient(live.client)
        for deleted in admin.delete_topics([f"{live.topic}-out"]).values():
            deleted.result(60)
        for portion in others:
            live.send(portion, 5)
        job.says(r"^.* (?:is|was) started again: SendError: \d+ of \d+ messages for deleted-out: ")
        shown = cluster("status").stdout
        assert re.search(r"^job kerneltrack-deleted-.*: \w+, restarts: ", shown, re.M)
        assert main(["stop", *live.place]) == 0
        assert job.process.wait(PATIENCE) == 0
        job.says("^job .* ended: CANCELED, without a savepoint; go on from its last checkpoint")
    # --create-topics makes it again.
    with followed(live, tmp_path / "after.log", "--resume", "latest") as job:
        assert_nothing_lost_or_changed(live, collected, recording, job)
