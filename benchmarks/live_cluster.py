"""A local cluster for benchmarks of the live job: rows sent to it, jobs started, outputs read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.places import DATA, ROOT
from pipelines.cluster import records
from pipelines.cluster.folder import Folder, load
from pipelines.live.options import RunnerFlags
from transforms.chunks import encode_batch

PARTITIONS = 4
SECOND = 1_000_000_000
STEP = SECOND // 50
BUNDLE = RunnerFlags.max_bundle_time_mills
LEAST_SPAN = 100 * SECOND
"""Of a model's rows in a backlog: one in a hundred waits for newer ones in the end."""

QUIET = 15.0
"""Seconds without output after which a job is taken to have done its work."""

LEAST_WAIT = 0.001


class Cell(NamedTuple):
    """One setting: models, rows of a message, format, rows of the backlog, ms of a bundle."""

    models: int
    message_rows: int
    form: str
    rows: int
    bundle: int = BUNDLE

    @property
    def name(self) -> str:
        """What it is called."""
        long = f"-{self.bundle}ms" if self.bundle != BUNDLE else ""
        return f"{self.models}x{self.message_rows}-{self.form}{long}"

    @property
    def step(self) -> int:
        """Nanoseconds between a model's rows in the backlog, which is `LEAST_SPAN` or more."""
        return max(STEP, LEAST_SPAN * self.models // self.rows)


class Sendable(NamedTuple):
    """A message: its model, its rows' numbers in the model, and how many those are."""

    model: int
    first: int
    rows: int


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


def worker_memory(folder: Path) -> float:
    """Return the resident memory of a cluster's Python workers, in bytes."""
    total = 0.0
    for process in records.read_all(folder / "run", "worker-"):
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        if b"boot_worker" in command:
            status = Path(f"/proc/{process.pid}/status").read_text()
            (kilobytes,) = re.findall(r"^VmRSS:\s+(\d+) kB$", status, re.M)
            total += 1024.0 * int(kilobytes)
    return total


class LiveCluster:
    """A local cluster that runs: sends rows to it, starts jobs on it, reads what they say."""

    def __init__(self, folder: Path, rows: Rows) -> None:
        """Take a cluster that runs."""
        self.folder = folder
        self.rows = rows
        cluster = load(Folder(folder))
        if cluster is None:
            raise FileNotFoundError(folder)
        self.client: dict[str, Any] = {"bootstrap.servers": cluster.settings.address("kafka")}

    def topic(self) -> str:
        """Make a new topic."""
        return self.make(f"bench-{time.time_ns()}")

    def make(self, name: str) -> str:
        """Make a topic of this name."""
        admin = AdminClient(self.client)
        for made in admin.create_topics([NewTopic(name, num_partitions=PARTITIONS)]).values():
            made.result(60)
        return name

    def send(self, topic: str, cell: Cell, parts: Sequence[Sendable], rate: float | None) -> None:
        """Send messages, models' rows `cell.step` apart, or at so many rows/s.

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
            times = old + numbers * cell.step if rate is None else due[-1] + numbers - part.first
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
            *("--budget", "15", "--warmup", "15", "--max-jump", "1e9"),
            *(f"--max_bundle_time_mills={cell.bundle}", *flags),
        )


def run_command(*arguments: str) -> str:
    """Run a program of Python's; return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout
