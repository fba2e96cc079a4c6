"""The same rows give the same bytes, whichever way they go: files, Flink in batches, live.

    python benchmarks/bench_same_bytes.py [--rows N] [--folder FOLDER]

200,000 rows of motionsense (the first of each of its 16 models) in an order of arrival that is
less than a second from that of time, but for some rows that come 5 to 10 s late: once each through
the file job in this process, on the Flink that Beam's runner starts by itself (`[local]`), and on
a local cluster, and through live jobs from Kafka. Those have messages of 1, 50 and 1,000 rows in
JSON, Arrow and Avro, parallelism 1 and 2, all messages there before the job (backlog) or none
(live), and a partition without messages.

Which rows are late depends on the order in which a model's rows come, and on nothing else. Kafka
keeps it, since a model's messages lie in one partition, and so does a file that one process reads.
Flink's batch mode does not promise it: there the whole input is put in order, and compared with
what the file job in this process makes of all rows in order.

Prints a line for each way, whether features (z, loss and the rest), by model and index, bit for
bit, and late rows are those of the file job in this process. Exit code 1 if any is not.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.places import DATA
from benchmarks.record import TIMES, Table
from pipelines.cli.main import main as kerneltrack
from pipelines.cluster.beam_flags import beam_flags
from pipelines.cluster.folder import Folder, load
from tests.e2e.arrivals import (
    MAX_DISORDER,
    Arrivals,
    Late,
    arrive,
    from_files,
    from_topics,
)
from tests.e2e.clusters import LocalCluster
from tests.e2e.jobs import COLUMNS, REALS, array_of, command, run_process
from tests.e2e.live import Live

SOURCE = DATA / "motionsense.parquet"
MODELS = 16
ROWS = 200_000
LATE = 10
"""Late rows of each model."""
PARTITIONS = 24
PATIENCE = 3600.0
SPEC = ("--rank", "10", "--budget", "15")
COMPARED = ("loss", "novelty", "informative", "evicted", "initial", "z", "label")

Found = tuple[pa.Table, set[Late]]


class Way(NamedTuple):
    """A live job.

    Attributes:
        form: How messages are written.
        size: Rows of one.
        parallelism: Of the job.
        backlog: Whether all messages are there before it.
    """

    form: str
    size: int
    parallelism: int
    backlog: bool

    @property
    def name(self) -> str:
        """What it is called."""
        when = "backlog" if self.backlog else "live"
        return f"{self.form}, {self.size:,} rows a message, parallelism {self.parallelism}, {when}"


WAYS = (
    Way("json", 1, 1, True),
    Way("json", 50, 2, False),
    Way("json", 1000, 1, False),
    Way("arrow", 1, 2, False),
    Way("arrow", 50, 1, True),
    Way("arrow", 1000, 2, True),
    Way("avro", 50, 2, True),
)
"""Each form but Avro with each size, and each form, size and time with each parallelism."""


def difference(found: Found, wanted: Found) -> str | None:
    """Say in which way results differ; None if in none."""
    (table, late), (right, wanted_late) = found, wanted
    if late != wanted_late:
        return f"{len(late ^ wanted_late)} rows are late in one only"
    if table.num_rows != right.num_rows:
        return f"{table.num_rows:,} rows, not {right.num_rows:,}"
    for name in ("model_id", "index", *COMPARED):
        a, b = array_of(table, name), array_of(right, name)
        if name in REALS:
            a, b = (np.ascontiguousarray(part).view(np.int64) for part in (a, b))
        differs = np.flatnonzero((a != b).reshape(len(a), -1).any(axis=1))
        if len(differs):
            return f"{name} differs in {len(differs):,} rows, first in row {differs[0]}"
    return None


def settled(table: pa.Table) -> pa.Table:
    """Leave out each model's last row, which live jobs hold back."""
    last = table.group_by("model_id").aggregate([("index", "max")])
    tops = {row["model_id"]: row["index_max"] for row in last.to_pylist()}
    names, indexes = (table.column(name).to_pylist() for name in ("model_id", "index"))
    kept = [index < tops[name] for name, index in zip(names, indexes, strict=True)]
    return table.filter(pa.array(kept))


def track(arrived: Path, output: Path, *flags: str) -> Found:
    """Run the file job as a process of its own."""
    arguments = [str(arrived), *COLUMNS, *SPEC, "--output", str(output), *flags]
    done = run_process(command("track", *arguments), patience=PATIENCE)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return from_files(output, arrived)


def stream(cluster: LocalCluster, arrivals: Arrivals, way: Way) -> Found:
    """Run a live job until all rows have come out."""
    live = Live(cluster, re.sub(r"\W+", "-", way.name), way.form)
    live.make_topic(PARTITIONS)
    if way.backlog:
        arrivals.send(live, way.size)
    submit = command(
        *("stream", *live.place, "--topic", live.topic, "--output-topic", f"{live.topic}-out"),
        *("--create-topics", "--detach", "--format", way.form, "--output-format", "arrow"),
        *("--features", *arrivals.channels, "--time", "time", "--time-unit", "ns"),
        *("--label", "label", "--idle-flush", "0", "--max-disorder", str(MAX_DISORDER)),
        *(*SPEC, f"--parallelism={way.parallelism}"),
    )
    done = run_process(submit)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    if not way.backlog:
        arrivals.send(live, way.size)
    found = from_topics(live, arrivals.rows, len(arrivals.late))
    kerneltrack(["stop", *live.place])
    if 0 not in live.sizes(live.topic):
        raise RuntimeError(f"{live.topic}: no partition is empty")
    return found


def compare(name: str, run: Callable[[], Found], wanted: Found, table: Table) -> bool:
    """Run one way, and add a row about it."""
    begun = time.monotonic()
    differs = difference(run(), wanted)
    rows, late = wanted[0].num_rows, len(wanted[1])
    same = f"{rows:,} rows and {late} late rows are the same"
    table.add(name, differs or same, f"{time.monotonic() - begun:.0f}")
    return differs is None


def main(arguments: Sequence[str]) -> int:
    """Run all ways; return 0 if they gave the same."""
    parser = argparse.ArgumentParser(description="The same rows by many ways.")
    parser.add_argument("--rows", type=int, default=ROWS, help="(default %(default)s)")
    parser.add_argument("--folder", default="build/same-bytes", help="of the cluster")
    args = parser.parse_args(arguments)
    cluster = LocalCluster(Path(args.folder).absolute())
    if kerneltrack(["cluster", "up", "--folder", args.folder]):
        return 1
    try:
        with tempfile.TemporaryDirectory() as scratch:
            return 0 if _all_same(cluster, args.rows, Path(scratch)) else 1
    finally:
        kerneltrack(["cluster", "down", "--folder", args.folder, "--wipe"])


def _all_same(cluster: LocalCluster, rows: int, scratch: Path) -> bool:
    arrivals = arrive(SOURCE, rows // MODELS, LATE, scratch / "rows")
    arrived, output = scratch / "arrived.parquet", scratch / "out"
    arrivals.write(arrived)
    table, late = track(arrived, output, "--max-disorder", str(MAX_DISORDER))
    if late != arrivals.late:
        say("file job: not the rows are late that come late")
        return False
    # All rows: those that come late have their place, too.
    whole = track(arrived, scratch / "whole")
    live = settled(table), late
    say(f"file job in this process: {live[0].num_rows:,} rows, {len(late)} late rows")
    found = load(Folder(cluster.folder))
    if found is None:
        raise FileNotFoundError(cluster.folder)
    on_cluster = beam_flags(found)
    inside = ["--runner=FlinkRunner", "--flink_version=1.19", "--flink_master=[local]"]
    inside.append(f"--flink_job_server_jar={found.jars.jobserver}")
    workers = [flag for flag in on_cluster if flag.startswith("--environment")]
    batch = {"Flink inside the job server": [*inside, *workers], "Flink's cluster": on_cluster}
    ways = {way.name: (partial(stream, cluster, arrivals, way), live) for way in WAYS}
    for name, flags in batch.items():
        ways[name] = partial(track, arrived, scratch / name, *flags), whole
    table = Table("live", "same_bytes", ["way", "against the file job", "s"], tolerance=TIMES)
    return all([compare(name, *way, table) for name, way in ways.items()])


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
