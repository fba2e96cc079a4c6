"""The commands of deploy/upgrade.md, each run as it stands there, with rows coming in between."""

from __future__ import annotations

import os
import re
import shlex
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main
from pipelines.cluster.identity import identity
from pipelines.cluster.resolve import Jars
from pipelines.flink.counters import counters
from tests.e2e.clusters import LocalCluster, wait_for
from tests.e2e.collected import Collected, Key, released
from tests.e2e.jobs import RESULTS, ROOT, features_of, run_process, track
from tests.e2e.live import COLUMNS, assert_same_bits

RUNBOOK = ROOT / "deploy" / "upgrade.md"
PORTION = 1000


def sections() -> dict[str, str]:
    """The commands under each heading, in order; those before the first one under ""."""
    text = RUNBOOK.read_text(encoding="utf-8")
    parts = re.split(r"^#+ (.*)$", text, flags=re.M)[1:]
    found = {}
    for heading, part in zip(parts[::2], parts[1::2], strict=True):
        blocks = re.findall(r"^```sh\n(.*?)^```$", part, re.M | re.S)
        assert len(blocks) == part.count("```") // 2
        if blocks:
            found[heading] = "".join(blocks)
    return found


class Machine:
    """Where the runbook is followed.

    Args:
        folder: Where its commands are run.
        sample: The recording that they name.

    Attributes:
        steps: Sections done so far.
    """

    def __init__(self, folder: Path, sample: Path) -> None:
        self.steps = 0
        self.folder = folder
        self.cluster = LocalCluster(folder / "live")
        self._sample = sample
        (folder / "samples").mkdir()
        (folder / "samples" / "watch.parquet").symlink_to(sample)
        program = folder / "bin" / "kerneltrack"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pipelines.cli "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def run(self, settings: str, commands: str) -> None:
        """Run commands of the runbook, one a line, each after the settings."""
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        changes = {"PATH": path, "PYTHONPATH": str(ROOT)}
        for line in commands.splitlines():
            script = ["sh", "-c", f"set -eu\n{settings}\n{line}"]
            done = run_process(script, changes=changes, cwd=self.folder)
            assert done.returncode == 0, done.stdout + done.stderr

    def portion(self, number: int) -> Path:
        """Rows of each model: the same number in each portion."""
        path = self.folder / f"portion-{number}.parquet"
        if not path.exists():
            table = pq.read_table(self._sample)
            names = table.column("model_id")
            kept = [
                table.filter(pa.compute.equal(names, name)).slice(number * PORTION, PORTION)
                for name in names.unique().to_pylist()
            ]
            pq.write_table(pa.concat_tables(kept), path)
        return path

    def send(self, number: int) -> None:
        """Send a portion, and wait until the job has tracked some of it."""
        words = [*COLUMNS, "--cluster", str(self.cluster.folder), "--topic", "watch"]
        words += ["--times", "keep", "--speed", "0", "--message-rows", "10"]
        assert main(["replay", str(self.portion(number)), *words]) == 0
        # Counters begin at 0 whenever a job does.
        wait_for("rows", lambda: counters(self.cluster.flink, self.job())["rows_tracked"] > 0)

    @property
    def client(self) -> dict[str, str]:
        return {"bootstrap.servers": self.cluster.status()["brokers"]}

    def job(self) -> str:
        return running_job(self.cluster)


def running_job(cluster: LocalCluster) -> str:
    """Return the job that is running; one that starts anew is waited for."""
    (job,) = wait_for(
        "a running job",
        lambda: [job for job in cluster.flink.jobs() if job["state"] == "RUNNING"],
    )
    return str(job["jid"])


def lose_jobmanager(cluster: LocalCluster) -> None:
    """Kill it, once there is a checkpoint of its job."""
    folder = cluster.folder / "checkpoints" / running_job(cluster)
    wait_for("a checkpoint", lambda: [*folder.glob("chk-*/_metadata")])
    (lost,) = (process for process in cluster.processes() if process.name == "jobmanager")
    lost.signal(signal.SIGKILL)
    wait_for("its end", lambda: identity(lost.pid) is None)
    assert re.search(r"^jobmanager +dead ", cluster("status").stdout, re.M)


pytestmark = pytest.mark.nightly

SECTIONS = sections()
SETTINGS, *STEPS, READING = SECTIONS


@pytest.fixture(scope="module")
def machine(
    jars: Jars, sample: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("runbook"), sample)
    yield machine
    machine.cluster("down")


@pytest.mark.parametrize("heading", STEPS)
def test_the_commands_do_what_they_say(heading: str, machine: Machine) -> None:
    """One after the other: each goes on where the last one stopped."""
    assert STEPS.index(heading) == machine.steps
    if heading == "The JobManager is gone":
        lose_jobmanager(machine.cluster)
    machine.run(SECTIONS[SETTINGS], SECTIONS[heading])
    machine.send(machine.steps)
    machine.steps += 1


def test_all_is_there(machine: Machine, tmp_path: Path) -> None:
    assert machine.steps == len(STEPS)
    portions = [machine.portion(number) for number in range(len(STEPS))]
    wanted = released(portions)
    collected = Collected(machine.client, "features", "json")
    collected.until(wanted)
    machine.run(SECTIONS[SETTINGS], SECTIONS[READING])
    track(*map(str, portions), *COLUMNS, "--output", str(tmp_path / "out"))
    expected = sorted_rows(features_of(tmp_path / "out"), wanted)
    read = pq.read_table(machine.folder / "features.parquet")
    for found in (collected.table, read):
        assert_same_bits(sorted_rows(found, wanted), expected, (*RESULTS, "label"))


def sorted_rows(table: pa.Table, wanted: set[Key]) -> pa.Table:
    """The wanted rows, in order; there are no others but of the time that may be left."""
    keys = zip(table.column("model_id").to_pylist(), table.column("index").to_pylist(), strict=True)
    kept = table.filter(pa.array([key in wanted for key in keys]))
    return kept.sort_by([("model_id", "ascending"), ("index", "ascending")])
