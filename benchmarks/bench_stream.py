"""The live job beside a pass-through: rows/s from a backlog, and latency at half of that.

    python benchmarks/bench_stream.py [--quick] [--runs N] [--seconds S] [--cells NAME ...]
                                      [--engine local]

Both jobs read the same topic on a local cluster of this script's own: the live job (rank 10,
budget 15, warm-up 15 rows, max_disorder 1 s), and `stream_pass.py`, the same without the tracker.
They run in turns. Each drains a backlog of motionsense rows; the rate is that of the rows that came
out between 30 % and 95 % of them, by the times at which they were sent; also by CPU seconds of
TaskManager and workers, which other work on the machine disturbs less. Then messages come at half
the live job's rate, and a row's latency is from its message's timestamp to when a reader of
committed messages has the one it came out in.

A row waits until its model shows a time `max_disorder` later, so its latency has also the time
between two messages of its model, which is given beside; the messages of each model's last
`max_disorder` are left out, since none that much later follows. Goals: 60 % of the pass-through's
rows/s at 1,000 rows a message, 70 % at one; p99 at most the pass-through's, max_disorder, that time
and 300 ms. The last line holds rows per CPU second of TaskManager and workers against those of the
file job.

With `--engine local` it is the local engine beside the live job on Flink, each at half of its own
rate. Goals: twice Flink's rows/s; p99 at most max_disorder, the time between two messages of a
model, and 300 ms. `local_pass.py` shows at the same rate what of that the broker, transactions and
this script's own reader take; and the engine runs at half of twice Flink's rate, which does not
grow with its own. Before all that `local_pass.py` keeps the broker busy until it is warm.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.live_cluster import (
    FLINK,
    LOCAL,
    LOCAL_PASS,
    PARTITIONS,
    PASS,
    QUIET,
    Cell,
    LiveCluster,
    Rows,
    messages,
    run_command,
)
from benchmarks.record import TIMES, Table
from transforms.kafka.messages import batch_of

MAX_DISORDER = 1.0
SLACK = 0.3
EDGE = 0.1
"""Seconds between a message's timestamp and its rows' times at most."""
LEAST_MESSAGES = 4
"""Of each model at the pace: a row comes out with a later message of its model."""

WARM_UP = 20.0
"""Seconds of messages before the first job."""

QUICK_SHARE = 4
PARTS = (0.3, 0.95)
PAUSE, NEAR = 0.1, 0.1
"""Seconds without a message after which another bundle has begun, and how far from a part of the
backlog the end of one may be, as a share of all rows."""
BESIDE = "pass-through"
COLUMNS = (
    "models x rows a message",
    "backlog",
    "rows/s",
    BESIDE,
    "share",
    "of its rows per CPU second",
    "half, rows/s",
    "p50 / p99",
    BESIDE,
    "limit",
)
LOCAL_COLUMNS = (
    *("Flink" if name == BESIDE else name for name in COLUMNS),
    BESIDE,
    "at Flink's rows/s",
    "limit",
)
GOALS = {1: 0.7, 50: 0.6, 1000: 0.6}
TIMES_FLINK = 2.0
"""Goal of the local engine: so many times Flink's rows/s."""

CELLS = (
    Cell(16, 1000, "arrow", 800_000),
    Cell(1, 1000, "json", 400_000),
    Cell(16, 50, "json", 300_000),
    Cell(1000, 50, "arrow", 600_000),
    Cell(1, 1, "json", 80_000),
    Cell(16, 1, "arrow", 60_000),
    Cell(1000, 1, "json", 60_000),
    Cell(1000, 1, "json", 200_000, bundle=1000),
)
QUICK = ("16x1000-arrow", "1x1-json")
LOCAL_CELLS = (Cell(1000, 1, "json", 400_000), Cell(16, 1000, "arrow", 3_000_000))
"""Longer: a bundle of the local engine holds all that has come."""


@dataclass(frozen=True)
class Result:
    """What one run of one job showed.

    Attributes:
        rate: Rows/s from the backlog.
        per_cpu: Rows per CPU second of TaskManager and workers, meanwhile.
        latencies: Seconds, of each row at the paced rate.
    """

    rate: float
    per_cpu: float
    latencies: npt.NDArray[np.float64]


@dataclass
class Pace:
    """At which rate messages come after the backlog.

    Attributes:
        seconds: For how long.
        rate: Rows/s: half of what the live job did, which runs first.
        next_row: Where each model goes on.
    """

    seconds: float
    rate: float = 0.0
    next_row: int = 10_000_000

    def after(self, rate: float) -> None:
        """Take the rate of the first job."""
        self.rate = self.rate or rate / 2


def run(cluster: LiveCluster, engine: str, topic: str, cell: Cell, pace: Pace) -> Result:
    """Run a job over a topic that holds a backlog, then at a pace."""
    output = cluster.topic()
    with cluster.running(engine, topic, output, cell, "--checkpointing_interval=5000"):
        cpu = cluster.settle(output, 0)
        found = cluster.read(output, [0] * PARTITIONS)
        sent = np.array([message.timestamp()[1] / 1000 for message in found])
        counts = np.array([count_rows(message.value(), cell.form) for message in found])
        rate, per_cpu = rates(sent, counts, cpu)
        starts, before = cluster.ends(output), cluster.ends(topic)
        pace.after(rate)
        least = LEAST_MESSAGES * cell.models * cell.message_rows
        paced = messages(cell, max(int(pace.rate * pace.seconds), least), pace.next_row)
        with cluster.watching(output, starts) as came:
            cluster.send(topic, cell, paced, pace.rate)
            cluster.settle(output, sum(starts))
    since, newest, model = {}, {}, {}
    for message in cluster.read(topic, before):
        where = message.partition(), message.offset()
        since[where] = newest[message.key()] = message.timestamp()[1] / 1000
        model[where] = message.key()
    for where, key in model.items():
        # None comes max_disorder later: it comes out when the model is taken to be silent.
        if newest[key] - since[where] <= MAX_DISORDER + EDGE:
            del since[where]
    latencies = [
        arrival - since[where]
        for arrival, value in came
        for where in _places(value, cell.form)
        if where in since
    ]
    if not latencies:
        raise SystemExit(f"{output}: no row of a paced message came out for {QUIET:g} s")
    pace.next_row += 10_000_000
    return Result(rate, per_cpu, np.array(latencies))


def rates(
    sent: npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64],
    cpu: Sequence[tuple[float, float]],
) -> tuple[float, float]:
    """Return rows/s and rows per CPU second.

    Args:
        sent: When each message was sent.
        counts: Its rows.
        cpu: CPU seconds by time.
    """
    order = np.argsort(sent, kind="stable")
    sent, done = sent[order], np.cumsum(counts[order])
    low, high = (whole(sent, done, int(np.searchsorted(done, part * done[-1]))) for part in PARTS)
    rows = done[high] - done[low]
    times, seconds = zip(*cpu, strict=True)
    used = np.interp(sent[[low, high]], times, seconds)
    return rows / (sent[high] - sent[low]), rows / (used[1] - used[0])


def whole(sent: npt.NDArray[np.float64], done: npt.NDArray[np.int64], place: int) -> int:
    """Return the end of the bundle before a message, if it is near: one that is cut says little.

    Args:
        sent: When each message was sent, in order.
        done: Rows up to each.
        place: The message.
    """
    ends = np.flatnonzero(np.diff(sent[: place + 1]) > PAUSE)
    if len(ends) and done[place] - done[ends[-1]] <= NEAR * done[-1]:
        return int(ends[-1])
    return place


def count_rows(value: bytes, form: str) -> int:
    """Return how many rows a message of an output holds."""
    return batch_of(value).num_rows if form == "arrow" else value.count(b'"index":')


def _places(value: bytes, form: str) -> list[tuple[int, int]]:
    if form == "arrow":
        batch = batch_of(value)
        names = ("partition", "offset")
        return list(zip(*(batch.column(name).to_pylist() for name in names), strict=True))
    return [(row["partition"], row["offset"]) for row in json.loads(value)]


def compare(
    cluster: LiveCluster, cell: Cell, runs: int, seconds: float, table: Table, local: bool
) -> tuple[bool, float]:
    """Run both jobs in turns over one backlog; add what came of it.

    Returns:
        Whether the goals are met, and the first job's rows per CPU second.
    """
    topic = cluster.topic()
    cluster.send(topic, cell, messages(cell, cell.rows), None)
    engines = (LOCAL, FLINK) if local else (FLINK, PASS)
    first, other = [], []
    pace = Pace(seconds)
    if local:
        # A new broker compiles its own code meanwhile, for which it takes a third of a core.
        run(cluster, LOCAL_PASS, topic, cell, Pace(WARM_UP, cell.rows / WARM_UP, pace.next_row))
        pace.next_row += 10_000_000
    for _ in range(runs):
        first.append(run(cluster, engines[0], topic, cell, pace))
        slower = Pace(seconds, next_row=pace.next_row) if local else pace
        other.append(run(cluster, engines[1], topic, cell, slower))
        pace.next_row = slower.next_row
    pairs = list(zip(first, other, strict=True))
    share = statistics.median(a.rate / b.rate for a, b in pairs)
    cpu_share = statistics.median(a.per_cpu / b.per_cpu for a, b in pairs)
    (p50, p99), (other50, other99) = (
        [float(np.median([np.quantile(found.latencies, q) for found in of])) for q in (0.5, 0.99)]
        for of in (first, other)
    )
    limit = (0.0 if local else other99) + _least_wait(cell, pace.rate) + SLACK
    good = share >= (TIMES_FLINK if local else GOALS[cell.message_rows]) and p99 <= limit
    rate, other_rate = (statistics.median(found.rate for found in of) for of in (first, other))
    rates = f"{cell.rows:,}", f"{rate:,.0f}", f"{other_rate:,.0f}"
    shares = f"{share:.0%}", f"{cpu_share:.0%}"
    waits = f"{p50:.2f} / {p99:.2f} s", f"{other50:.2f} / {other99:.2f} s"
    met = "" if good else ": not met"
    cells = [cell.name, *rates, *shares, f"{pace.rate:,.0f}", *waits, f"{limit:.2f} s{met}"]
    if local:
        cells += _local_cells(cluster, topic, cell, pace, other_rate)
    table.add(*cells)
    return good, statistics.median(found.per_cpu for found in first)


def _least_wait(cell: Cell, rate: float) -> float:
    """Return the seconds that a row waits at least: max_disorder, and for a message after that."""
    return MAX_DISORDER + cell.models * cell.message_rows / rate


def _local_cells(
    cluster: LiveCluster, topic: str, cell: Cell, pace: Pace, flink: float
) -> list[str]:
    """Return p50 and p99 of the pass-through at a pace, and of the engine at Flink's rate."""
    lines = []
    for engine, rate in ((LOCAL_PASS, pace.rate), (LOCAL, TIMES_FLINK * flink / 2)):
        found = run(cluster, engine, topic, cell, Pace(pace.seconds, rate, pace.next_row))
        pace.next_row += 10_000_000
        lines.append(
            " / ".join(f"{np.quantile(found.latencies, q):.2f}" for q in (0.5, 0.99)) + " s"
        )
    return [*lines, f"{_least_wait(cell, flink * TIMES_FLINK / 2) + SLACK:.2f} s"]


def file_job(rows: Rows, cell: Cell, folder: Path) -> float:
    """Return the file job's rows per CPU second on a cell's backlog."""
    tables = []
    for part in messages(cell, cell.rows):
        numbers = np.arange(part.first, part.first + part.rows)
        batch = rows.batch(part, numbers * cell.step)
        tables.append(batch.append_column("model_id", pa.array([str(part.model)] * part.rows)))
    path = folder / "rows.parquet"
    pq.write_table(pa.Table.from_batches(tables), path)
    flags = ("--time", "time", "--time-unit", "ns", "--model-id", "model_id", "--label", "label")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_command(
        *("-m", "pipelines.cli", "track", str(path), *flags, "--rank", "10", "--budget", "15"),
        *("--output", str(folder / "out"), "--overwrite"),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return cell.rows / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="two cells, once, for a short time")
    parser.add_argument("--engine", choices=[FLINK, LOCAL], default=FLINK)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="at the paced rate")
    parser.add_argument("--cells", nargs="+", metavar="NAME")
    args = parser.parse_args()
    local = args.engine == LOCAL
    cells = LOCAL_CELLS if local else CELLS
    known = [cell.name for cell in cells]
    names = args.cells or (QUICK if args.quick and not local else known)
    if unknown := set(names) - set(known):
        parser.error(f"--cells {unknown}: must be of {known}")
    runs, seconds = (1, 8.0) if args.quick else (args.runs, args.seconds)
    good, rows = True, Rows()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "cluster"
        run_command("-m", "pipelines.cli", "cluster", "up", "--folder", str(folder))
        try:
            cluster = LiveCluster(folder, rows)
            per_cpu = {}
            table = (
                Table("live", "local", LOCAL_COLUMNS, tolerance=TIMES)
                if local
                else Table("live", "speed", COLUMNS, tolerance=TIMES)
            )
            share = QUICK_SHARE if args.quick else 1
            for cell in (c._replace(rows=c.rows // share) for c in cells if c.name in names):
                met, per_cpu[cell] = compare(cluster, cell, runs, seconds, table, local)
                good = good and met
        finally:
            run_command("-m", "pipelines.cli", "cluster", "down", "--folder", str(folder))
        for cell, found in list(per_cpu.items())[:1] if not local else ():
            alone = file_job(rows, cell, Path(place))
            sys.stdout.write(
                f"{cell.name}: {found:,.0f} rows per CPU second on Flink, the file job "
                f"{alone:,.0f}: {found / alone:.0%} (goal 60%)\n"
            )
            good = good and found >= 0.6 * alone
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
