"""A live job whose TaskManager and workers are killed again and again loses and changes nothing.

    python benchmarks/bench_kills.py [--kills N] [--folder FOLDER] [--engine local]

On a local cluster of its own, rows of the sample from Kafka: first all of them as a backlog
through a job that nothing disturbs, which gives the bytes that are wanted and the capacity. Then
once more, at no more than a fifth of the capacity, through a job on which at random moments the
TaskManager or the Python worker is killed (SIGKILL), each time with a checkpoint begun since the
last kill and with messages in the topic that no checkpoint has seen. In the end the JobManager is
killed: `kerneltrack cluster up` starts it, `kerneltrack stream --resume latest` the job.

Prints a line for each kill, and what became of the rows. Exit code 1 if one is missing or has two
values, or other bytes than in the job that nothing disturbed.

With `--engine local` the job that nothing disturbs is Flink's as well, and the one that is killed
the local engine's: its process dies at a random moment while rows come, and is started with
`--resume latest`. Exit code 1 also if a row comes again.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import TIMES, Table
from pipelines.cli.main import main as kerneltrack
from pipelines.topics.read_output import Once, OutputReader
from tests.e2e.clusters import LocalCluster, wait_for
from tests.e2e.jobs import command, environment
from tests.e2e.kills import VICTIMS, Kill, Killer
from tests.e2e.live import Live, Recording, record

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "watch.parquet"
MODELS = 4
PARTITIONS = 6
PORTION = 500
"""Rows of each model that are sent around a kill."""
MESSAGE_ROWS = 5
HERTZ = 50
FLINK, LOCAL = "flink", "local"
CAPACITY_SHARE = 0.2
MOST_SPEED = 2.0
MOST_WAIT = 3.0
"""Seconds between a portion's first row and a kill of the local engine."""
SEED = 11

Row = tuple[str, int]


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def read(live: Live, count: int) -> tuple[dict[Row, Any], Once, float]:
    """Read so many rows of the features; also when they came, as rows a second."""
    reader, once = OutputReader(live.client, f"{live.topic}-out", live.form), Once()
    rows: dict[Row, Any] = {}
    times: list[int] = []
    while len(once) < count:
        for message in reader.messages():
            times.append(message.timestamp()[1])
            for row in reader.rows_of(message):
                if once.is_new(row):
                    rows[row["model_id"], row["index"]] = contents(row)
    reader.close()
    return rows, once, count / max(1e-3, (max(times) - min(times)) / 1000)


def contents(row: dict[str, Any]) -> dict[str, Any]:
    """Return what must be the same, reals by their bits: not where the row's message lay."""
    return {
        name: repr(value)
        for name, value in row.items()
        if name not in ("partition", "offset", "place")
    }


def undisturbed(live: Live, recording: Recording) -> tuple[dict[Row, Any], float]:
    """Run all rows as a backlog; return them and the rows a second."""
    live.make_topic(PARTITIONS)
    for file in recording.files:
        live.send(file, MESSAGE_ROWS)
    with live.running():
        rows, _, rate = read(live, recording.features.num_rows)
    return rows, rate


def kill_all(live: Live, recording: Recording, speed: float) -> list[Kill]:
    """Kill once for each portion but the first and the last, then the JobManager."""
    live.make_topic(PARTITIONS)
    first, *others, last = recording.portions
    live.send(first, MESSAGE_ROWS)
    job, kills = live.start(), []
    random, killer = np.random.default_rng(SEED), Killer(live, job, SEED)
    for number, portion in enumerate(others, 1):
        with feeding(live, portion, speed):
            kills.append(killer.kill(VICTIMS[int(random.integers(len(VICTIMS)))]))
        kill = kills[-1]
        say(
            f"kill {number:>2}: {kill.victim:<11} {kill.lag:>3} messages behind, "
            f"recovered in {kill.recovery:.1f} s"
        )
    with feeding(live, last, speed):
        seconds = kill_jobmanager(live, killer)
    say(f"JobManager: killed, started and resumed from the last checkpoint in {seconds:.1f} s")
    return kills


def kill_local(live: Live, recording: Recording, speed: float, job: ExitStack) -> list[Kill]:
    """Kill the local engine once for each portion but the first and the last; it runs on."""
    live.make_topic(PARTITIONS)
    first, *others, last = recording.portions
    live.send(first, MESSAGE_ROWS)
    random, kills = np.random.default_rng(SEED), []
    output = f"{live.topic}-out"
    job.enter_context(local(live))
    for number, portion in enumerate(others, 1):
        before = sum(live.sizes(live.topic))
        with feeding(live, portion, speed):
            wait_for("the portion", lambda: sum(live.sizes(live.topic)) > before)  # noqa: B023
            time.sleep(float(random.uniform(0, MOST_WAIT)))
            killed = time.time()
            job.close()
            job.enter_context(local(live, "--resume", "latest"))
            came = wait_for("more to come out", lambda: live.first_since(output, killed))  # noqa: B023
        kills.append(Kill(LOCAL, 0, came - killed))
        say(f"kill {number:>2}: recovered in {came - killed:.1f} s")
    live.send(last, MESSAGE_ROWS)
    return kills


@contextmanager
def local(live: Live, *flags: str) -> Iterator[None]:
    """Run the local engine, and kill it at the end."""
    run = live.attached("--engine", LOCAL, "--checkpointing_interval=1000", *flags)
    with subprocess.Popen(run, env=environment(), stdout=subprocess.PIPE, text=True) as job:
        try:
            assert job.stdout is not None
            first = job.stdout.readline()
            if "runs in this process" not in first:
                raise RuntimeError(f"the local job does not begin: {first}")
            yield
        finally:
            job.kill()


def feeding(live: Live, portion: Path, speed: float) -> subprocess.Popen[bytes]:
    """Send a portion as a process of its own."""
    sending = command(*live.replay(portion, MESSAGE_ROWS, "--speed", str(speed)))
    return subprocess.Popen(sending, env=environment(), stdout=subprocess.DEVNULL)


def kill_jobmanager(live: Live, killer: Killer) -> float:
    """Kill the JobManager, and go on; return the seconds until more comes out."""
    killer.wait_for_moment()
    (process,) = [part for part in live.cluster.processes() if part.name == "jobmanager"]
    begun = time.monotonic()
    os.kill(process.pid, signal.SIGKILL)
    wait_for("its end", lambda: not process.alive)
    written = killer.written()
    if kerneltrack(["cluster", "up", "--folder", str(live.cluster.folder)]):
        raise RuntimeError("the cluster does not come up")
    live.start("--resume", "latest")
    wait_for("more to come out", lambda: killer.written() > written)
    return time.monotonic() - begun


def main(arguments: Sequence[str]) -> int:
    """Run both jobs; return 0 if they gave the same rows."""
    parser = argparse.ArgumentParser(description="Kill a live job's processes.")
    parser.add_argument("--kills", type=int, default=20, help="(default %(default)s)")
    parser.add_argument("--folder", default="build/kills", help="of the cluster")
    parser.add_argument("--engine", choices=[FLINK, LOCAL], default=FLINK)
    args = parser.parse_args(arguments)
    cluster = LocalCluster(Path(args.folder).absolute())
    if kerneltrack(["cluster", "up", "--folder", args.folder]):
        return 1
    try:
        with tempfile.TemporaryDirectory() as scratch:
            count = args.kills + 2
            recording = record(SAMPLE, Path(scratch) / "rows", count * PORTION, count)
            total = recording.features.num_rows
            wanted, capacity = undisturbed(Live(cluster, "undisturbed", "json"), recording)
            speed = min(MOST_SPEED, CAPACITY_SHARE * capacity / (MODELS * HERTZ))
            say(
                f"{total:,} rows, capacity {capacity:,.0f} rows/s, "
                f"fed at {speed * MODELS * HERTZ:,.0f} rows/s"
            )
            live = Live(cluster, "killed", "json")
            if args.engine == LOCAL:
                with ExitStack() as job:
                    kills = kill_local(live, recording, speed, job)
                    found, once, _ = read(live, total)
            else:
                kills = kill_all(live, recording, speed)
                found, once, _ = read(live, total)
                kerneltrack(["stop", *live.place])
    finally:
        kerneltrack(["cluster", "down", "--folder", args.folder, "--wipe"])
    columns = ["killed", "times", "back after, median, s", "longest"]
    name = "local_kills" if args.engine == LOCAL else "kills"
    table = Table("live", name, columns, tolerance=TIMES)
    for victim in (*VICTIMS, LOCAL):
        seconds = [kill.recovery for kill in kills if kill.victim == victim]
        if seconds:
            middle = statistics.median(seconds)
            table.add(victim, len(seconds), f"{middle:.1f}", f"{max(seconds):.1f}")
    lost, other = (
        len(wanted.keys() - found.keys()),
        sum(found.get(row) != content for row, content in wanted.items()),
    )
    say(
        f"{len(found):,} rows: {lost} lost, {once.conflicts} with two values, {other} with other "
        f"bytes, {once.repeated:,} came again"
    )
    twice = args.engine == LOCAL and once.repeated
    return 1 if lost or other or once.conflicts or twice else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
