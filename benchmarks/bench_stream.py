"""The live job beside a pass-through: rows/s from a backlog, and latency at half of that.

    python benchmarks/bench_stream.py [--quick] [--runs N] [--seconds S] [--cells NAME ...]

Both jobs read the same topic on a local cluster of this script's own: the live job (rank 10,
budget 15, warm-up 15 rows, max_disorder 1 s), and `stream_pass.py`, the same without the tracker.
They run in turns. Each drains a backlog of motionsense rows; the rate is that of the rows that came
out between 30 % and 95 % of them, by the times at which they were sent; also by CPU seconds of
TaskManager and workers, which other work on the machine disturbs less. Then messages come at half
the live job's rate, and a row's latency is from its message's timestamp to that of the message it
came out in.

A row waits until its model shows a time `max_disorder` later, so its latency has also the time
between two messages of its model, which is given beside. Goals: 60 % of the pass-through's rows/s
at 1,000 rows a message, 70 % at one; p99 at most the pass-through's, max_disorder, that time and
150 ms. The last line holds rows per CPU second of TaskManager and workers against those of the
file job.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pipelines.cluster import records
from pipelines.cluster.folder import Folder, load
from transforms.chunks import encode_batch
from transforms.messages import batch_of

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("KERNELTRACK_DATA", ROOT.parent / "shared" / "data"))
PARTITIONS = 4
STEP = 20_000_000
MAX_DISORDER = 1.0
SLACK = 0.15
QUIET = 15.0
"""Seconds without output after which a job is taken to have done its work."""

LEAST_WAIT = 0.001
LEAST_MESSAGES = 4
"""Of each model at the pace: a row comes out with a later message of its model."""

QUICK_SHARE = 4
SECOND = 1_000_000_000
PARTS = (0.3, 0.95)
GOALS = {1: 0.7, 50: 0.6, 1000: 0.6}


class Cell(NamedTuple):
    """One setting: models, rows of a message, format, and rows of the backlog."""

    models: int
    message_rows: int
    form: str
    rows: int

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.models}x{self.message_rows}-{self.form}"


CELLS = (
    Cell(16, 1000, "arrow", 800_000),
    Cell(1, 1000, "json", 400_000),
    Cell(16, 50, "json", 300_000),
    Cell(1000, 50, "arrow", 600_000),
    Cell(1, 1, "json", 80_000),
    Cell(16, 1, "arrow", 60_000),
    Cell(1000, 1, "json", 60_000),
)
QUICK = ("16x1000-arrow", "1x1-json")


class Sendable(NamedTuple):
    """A message: its model, its rows' numbers in the model, and how many those are."""

    model: int
    first: int
    rows: int


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


class Rows:
    """motionsense's rows, over and over."""

    def __init__(self) -> None:
        """Read them."""
        table = pq.read_table(DATA / "motionsense.parquet")
        self.channels = [n for n in table.schema.names if n not in {"model_id", "time", "label"}]
        columns = [table.column(name).to_numpy() for name in self.channels]
        self.x = np.stack(columns, axis=1).astype(np.float32)
        self.label = table.column("label").combine_chunks().cast(pa.string())

    def batch(self, message: Sendable, times: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Return a message's rows."""
        at = (np.arange(message.first, message.first + message.rows) + 5000 * message.model) % len(
            self.x
        )
        columns = {"time": pa.array(times)}
        columns |= {name: pa.array(self.x[at, i]) for i, name in enumerate(self.channels)}
        return pa.RecordBatch.from_pydict({**columns, "label": self.label.take(pa.array(at))})

    def value(self, message: Sendable, times: npt.NDArray[np.int64], form: str) -> bytes:
        """Return a message's bytes."""
        batch = self.batch(message, times)
        if form == "arrow":
            return encode_batch(batch)
        rows = batch.to_pylist()
        return json.dumps(rows[0] if len(rows) == 1 else rows).encode()


def messages(cell: Cell, rows: int, first: int = 0) -> list[Sendable]:
    """Return messages of all models in turn, from a model's row on."""
    turns = max(1, round(rows / (cell.models * cell.message_rows)))
    return [
        Sendable(model, first + turn * cell.message_rows, cell.message_rows)
        for turn in range(turns)
        for model in range(cell.models)
    ]


class Bench:
    """A cluster, and what is run on it."""

    def __init__(self, folder: Path, rows: Rows) -> None:
        """Take a cluster that runs."""
        self.folder = folder
        self.rows = rows
        cluster = load(Folder(folder))
        if cluster is None:
            raise FileNotFoundError(folder)
        self.client: dict[str, Any] = {"bootstrap.servers": cluster.settings.address("kafka")}
        self._number = 0

    def topic(self) -> str:
        """Make a new topic."""
        self._number += 1
        name = f"bench-{time.time_ns()}"
        admin = AdminClient(self.client)
        for made in admin.create_topics([NewTopic(name, num_partitions=PARTITIONS)]).values():
            made.result(60)
        return name

    def send(self, topic: str, cell: Cell, parts: Sequence[Sendable], rate: float | None) -> float:
        """Send messages, their models' rows `STEP` apart, or at so many rows/s; return the begin.

        A paced message's rows bear the time at which it is due.
        """
        producer = confluent_kafka.Producer(
            {**self.client, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
        )
        old = time.time_ns() - 86_400 * SECOND
        # Written before the first is due.
        begin = time.time_ns() + (0 if rate is None else (2 + len(parts) // 5000) * SECOND)
        due, done, values = [], 0, []
        for part in parts:
            due.append(begin if rate is None else begin + round(done / rate * SECOND))
            numbers = np.arange(part.first, part.first + part.rows)
            times = old + numbers * STEP if rate is None else due[-1] + numbers - part.first
            values.append(self.rows.value(part, times, cell.form))
            done += part.rows
        for part, value, when in zip(parts, values, due, strict=True):
            wait = (when - time.time_ns()) / SECOND
            if rate is not None and wait > LEAST_WAIT:
                time.sleep(wait)
            while True:
                try:
                    producer.produce(topic, value, f"model-{part.model}".encode())
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        if producer.flush(120):
            raise RuntimeError("messages did not arrive")
        return begin / SECOND

    def ends(self, topic: str) -> list[int]:
        """Return the end of each partition."""
        consumer = confluent_kafka.Consumer({**self.client, "group.id": "bench"})
        places = [confluent_kafka.TopicPartition(topic, n) for n in range(PARTITIONS)]
        found = [consumer.get_watermark_offsets(place, 60)[1] for place in places]
        consumer.close()
        return found

    def read(self, topic: str, starts: Sequence[int]) -> list[Any]:
        """Read a topic from these offsets to its end."""
        ends = self.ends(topic)
        consumer = confluent_kafka.Consumer({**self.client, "group.id": "bench"})
        consumer.assign(
            [confluent_kafka.TopicPartition(topic, n, at) for n, at in enumerate(starts)]
        )
        found: list[Any] = []
        while len(found) < sum(ends) - sum(starts):
            found += consumer.consume(1000, 1.0)
        consumer.close()
        return found

    def cpu(self) -> float:
        """Return the CPU seconds that TaskManager and workers have taken."""
        known = records.read_all(self.folder / "run")
        total = 0.0
        for process in known:
            if process.alive and process.name.startswith(("taskmanager", "worker-")):
                fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
                total += sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
        return total

    def settle(self, topic: str, least: int) -> list[tuple[float, float]]:
        """Wait until nothing comes any more; return CPU seconds by time."""
        shown, since, seen = [(time.time(), self.cpu())], time.monotonic(), -1
        while seen <= least or time.monotonic() - since < QUIET:
            time.sleep(0.5)
            shown.append((time.time(), self.cpu()))
            now = sum(self.ends(topic))
            if now != seen:
                since, seen = time.monotonic(), now
        return shown

    def start(
        self, program: Sequence[str], topic: str, output: str, cell: Cell, *flags: str
    ) -> None:
        """Start a job, and wait until it runs."""
        run_command(
            *(*program, "stream", "--cluster", str(self.folder), "--detach", "--topic", topic),
            *("--output-topic", output, "--create-topics", "--format", cell.form),
            *("--output-format", cell.form, "--features", *self.rows.channels),
            *("--time", "time", "--time-unit", "ns", "--label", "label", "--rank", "10"),
            *("--budget", "15", "--warmup", "15", "--idle-flush", "0", "--max-jump", "1e9", *flags),
        )

    def run(self, program: Sequence[str], topic: str, cell: Cell, pace: Pace) -> Result:
        """Run a job over a topic that holds a backlog, then at a pace."""
        self._number += 1
        output = f"{topic}-{self._number}"
        self.start(program, topic, output, cell, "--checkpointing_interval=5000")
        cpu = self.settle(output, 0)
        found = self.read(output, [0] * PARTITIONS)
        sent = np.array([message.timestamp()[1] / 1000 for message in found])
        counts = np.array([_count(message.value(), cell.form) for message in found])
        rate, per_cpu = _rates(sent, counts, cpu)
        starts, before = self.ends(output), self.ends(topic)
        pace.after(rate)
        least = LEAST_MESSAGES * cell.models * cell.message_rows
        count = max(int(pace.rate * pace.seconds), least)
        self.send(topic, cell, messages(cell, count, pace.next_row), pace.rate)
        self.settle(output, sum(starts))
        since = {
            (message.partition(), message.offset()): message.timestamp()[1] / 1000
            for message in self.read(topic, before)
        }
        run_command("-m", "pipelines.cli", "stop", "--cluster", str(self.folder))
        latencies = [
            message.timestamp()[1] / 1000 - since[where]
            for message in self.read(output, starts)
            for where in _places(message.value(), cell.form)
            if where in since
        ]
        if not latencies:
            raise SystemExit(f"{output}: no row of a paced message came out for {QUIET:g} s")
        pace.next_row += 10_000_000
        return Result(rate, per_cpu, np.array(latencies))


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


def _rates(
    sent: npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64],
    cpu: Sequence[tuple[float, float]],
) -> tuple[float, float]:
    order = np.argsort(sent, kind="stable")
    sent, done = sent[order], np.cumsum(counts[order])
    low, high = (int(np.searchsorted(done, part * done[-1])) for part in PARTS)
    rows = done[high] - done[low]
    times, seconds = zip(*cpu, strict=True)
    used = np.interp(sent[[low, high]], times, seconds)
    return rows / (sent[high] - sent[low]), rows / (used[1] - used[0])


def _count(value: bytes, form: str) -> int:
    return batch_of(value).num_rows if form == "arrow" else value.count(b'"index":')


def _places(value: bytes, form: str) -> list[tuple[int, int]]:
    if form == "arrow":
        batch = batch_of(value)
        names = ("partition", "offset")
        return list(zip(*(batch.column(name).to_pylist() for name in names), strict=True))
    return [(row["partition"], row["offset"]) for row in json.loads(value)]


def run_command(*arguments: str) -> str:
    """Run a program of Python's; return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout


def compare(bench: Bench, cell: Cell, runs: int, seconds: float) -> tuple[bool, float]:
    """Run both jobs in turns over one backlog; print what came of it.

    Returns:
        Whether the goals are met, and the live job's rows per CPU second.
    """
    topic = bench.topic()
    bench.send(topic, cell, messages(cell, cell.rows), None)
    ours, passed = [], []
    pace = Pace(seconds)
    for _ in range(runs):
        ours.append(bench.run(("-m", "pipelines.cli"), topic, cell, pace))
        passed.append(bench.run(("-m", "benchmarks.stream_pass"), topic, cell, pace))
    pairs = list(zip(ours, passed, strict=True))
    share = statistics.median(a.rate / b.rate for a, b in pairs)
    cpu_share = statistics.median(a.per_cpu / b.per_cpu for a, b in pairs)
    (p50, p99), (pass50, pass99) = (
        [float(np.median([np.quantile(run.latencies, q) for run in of])) for q in (0.5, 0.99)]
        for of in (ours, passed)
    )
    between = cell.models * cell.message_rows / pace.rate
    limit = pass99 + MAX_DISORDER + between + SLACK
    good = share >= GOALS[cell.message_rows] and p99 <= limit
    ours_rate, pass_rate = (statistics.median(run.rate for run in of) for of in (ours, passed))
    sys.stdout.write(
        f"{cell.name:15} {ours_rate:9,.0f} rows/s, pass-through {pass_rate:9,.0f}: {share:.0%} "
        f"(goal {GOALS[cell.message_rows]:.0%}), of its rows per CPU second {cpu_share:.0%}; at "
        f"{pace.rate:,.0f} rows/s p50 {p50:.2f} s, p99 {p99:.2f} s, pass-through {pass50:.2f}, "
        f"{pass99:.2f}; a model's messages {between:.2f} s apart, limit {limit:.2f} s"
        f"{'' if good else ' NOT MET'}\n"
    )
    sys.stdout.flush()
    return good, statistics.median(run.per_cpu for run in ours)


def file_job(rows: Rows, cell: Cell, folder: Path) -> float:
    """Return the file job's rows per CPU second on a cell's backlog."""
    tables = []
    for part in messages(cell, cell.rows):
        numbers = np.arange(part.first, part.first + part.rows)
        batch = rows.batch(part, numbers * STEP)
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
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="at the paced rate")
    parser.add_argument("--cells", nargs="+", default=None, choices=[cell.name for cell in CELLS])
    args = parser.parse_args()
    names = args.cells or (QUICK if args.quick else [cell.name for cell in CELLS])
    runs, seconds = (1, 8.0) if args.quick else (args.runs, args.seconds)
    good, rows = True, Rows()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "cluster"
        run_command("-m", "pipelines.cli", "cluster", "up", "--folder", str(folder))
        try:
            bench = Bench(folder, rows)
            per_cpu = {}
            share = QUICK_SHARE if args.quick else 1
            for cell in (c._replace(rows=c.rows // share) for c in CELLS if c.name in names):
                met, per_cpu[cell] = compare(bench, cell, runs, seconds)
                good = good and met
        finally:
            run_command("-m", "pipelines.cli", "cluster", "down", "--folder", str(folder))
        for cell, found in list(per_cpu.items())[:1]:
            alone = file_job(rows, cell, Path(place))
            sys.stdout.write(
                f"{cell.name}: {found:,.0f} rows per CPU second on Flink, the file job "
                f"{alone:,.0f}: {found / alone:.0%} (goal 60%)\n"
            )
            good = good and found >= 0.6 * alone
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
