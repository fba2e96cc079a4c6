"""A local cluster for benchmarks of the live job: rows sent to it, jobs started, outputs read."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
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

FLINK, LOCAL, PASS, LOCAL_PASS = "flink", "local", "pass-through", "local pass-through"
"""What runs a job."""
PROGRAMS = {
    FLINK: ("-m", "pipelines.cli"),
    LOCAL: ("-m", "pipelines.cli"),
    PASS: ("-m", "benchmarks.stream_pass"),
    LOCAL_PASS: ("-m", "benchmarks.local_pass"),
}


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
        table = pq.read_table(DATA / "motionsense.parquet")
        self.channels = [n for n in table.schema.names if n not in {"model_id", "time", "label"}]
        columns = [table.column(name).to_numpy() for name in self.channels]
        self.x = np.stack(columns, axis=1).astype(np.float32)
        self.label = table.column("label").combine_chunks().cast(pa.string())
        self.labels = self.label.to_pylist()

    def batch(self, message: Sendable, times: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Return a message's rows."""
        at = self._places(message)
        columns = {"time": pa.array(times)}
        columns |= {name: pa.array(self.x[at, i]) for i, name in enumerate(self.channels)}
        return pa.RecordBatch.from_pydict({**columns, "label": self.label.take(pa.array(at))})

    def _places(self, message: Sendable) -> npt.NDArray[np.int64]:
        numbers = np.arange(message.first, message.first + message.rows)
        return (numbers + 5000 * message.model) % len(self.x)

    def value(self, message: Sendable, times: npt.NDArray[np.int64], form: str) -> bytes:
        """Return a message's bytes."""
        if form == "arrow":
            return encode_batch(self.batch(message, times))
        # Without Arrow, which takes ten times as long for a row.
        at = self._places(message).tolist()
        names = ("time", *self.channels, "label")
        lines = zip(times.tolist(), self.x[at].tolist(), at, strict=True)
        rows = [
            dict(zip(names, (time, *x, self.labels[place]), strict=True))
            for time, x, place in lines
        ]
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
        self._local: int | None = None

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
        begin = time.time_ns() + (0 if rate is None else (2 + len(parts) // 10_000) * SECOND)
        due, done, values = [], 0, []
        for part in parts:
            due.append(begin if rate is None else begin + round(done / rate * SECOND))
            numbers = np.arange(part.first, part.first + part.rows)
            times = old + numbers * cell.step if rate is None else due[-1] + numbers - part.first
            values.append(self.rows.value(part, times, cell.form))
            done += part.rows
        # Python would look through all of that for garbage meanwhile.
        gc.freeze()
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
        """Read what is committed of a topic, from these offsets to its end."""
        ended = threading.Event()
        ended.set()
        return [message for _, message in _arrivals(self.client, topic, starts, ended)]

    @contextmanager
    def watching(self, topic: str, starts: Sequence[int]) -> Iterator[list[tuple[float, bytes]]]:
        """Read a topic on from these offsets: a list of when a reader had each value, at the end.

        The reader is a process of its own: a thread would wait for the one that sends.
        """
        found: list[tuple[float, bytes]] = []
        spawn = multiprocessing.get_context("spawn")
        ended, (here, there) = spawn.Event(), spawn.Pipe(duplex=False)
        reader = spawn.Process(
            target=_watch, args=(self.client, topic, starts, ended, there), daemon=True
        )
        reader.start()
        try:
            yield found
        finally:
            ended.set()
        found += here.recv()
        reader.join()

    def cpu(self) -> float:
        """Return the CPU seconds that TaskManager, workers and the local job have taken."""
        pids = [
            process.pid
            for process in records.read_all(self.folder / "run")
            if process.alive and process.name.startswith(("taskmanager", "worker-"))
        ]
        if self._local is not None:
            pids.append(self._local)
        total = 0.0
        for pid in pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
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
        """Start a job on Flink, and wait until it runs."""
        run_command(*program, *self._stream(topic, output, cell), "--detach", *flags)

    @contextmanager
    def running(
        self, engine: str, topic: str, output: str, cell: Cell, *flags: str
    ) -> Iterator[None]:
        """Run a job; gives back once it runs, and stops it at the end.

        Args:
            engine: `FLINK`, `LOCAL`, or what each is held against.
            topic: Its input.
            output: Its output.
            cell: What its messages are.
            flags: More flags of `kerneltrack stream`.
        """
        if engine in (FLINK, PASS):
            self.start(PROGRAMS[engine], topic, output, cell, *flags)
            yield
            run_command("-m", "pipelines.cli", "stop", "--cluster", str(self.folder))
            return
        command = [sys.executable, *PROGRAMS[engine], *self._stream(topic, output, cell)]
        command += ["--engine", LOCAL, "--state-folder", str(self.folder / output), *flags]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as job:
            try:
                assert job.stdout is not None
                if "runs in this process" not in job.stdout.readline():
                    raise SystemExit("the local job does not begin")
                self._local = job.pid
                yield
            finally:
                self._local = None
                # A script in the background of a shell hands on that SIGINT is ignored.
                job.send_signal(signal.SIGTERM)

    def _stream(self, topic: str, output: str, cell: Cell) -> list[str]:
        """Return `kerneltrack stream` with its flags."""
        return [
            *("stream", "--cluster", str(self.folder), "--topic", topic),
            *("--output-topic", output, "--create-topics", "--format", cell.form),
            *("--output-format", cell.form, "--features", *self.rows.channels),
            *("--time", "time", "--time-unit", "ns", "--label", "label", "--rank", "10"),
            *("--budget", "15", "--warmup", "15", "--max-jump", "1e9"),
            *([] if cell.bundle == BUNDLE else [f"--max_bundle_time_mills={cell.bundle}"]),
        ]


def _watch(
    client: dict[str, Any], topic: str, starts: Sequence[int], ended: Event, result: Connection
) -> None:
    """Read a topic to its end once the event is set, and hand over what came, and when."""
    found = _arrivals(client, topic, starts, ended)
    result.send([(arrival, message.value()) for arrival, message in found])


def _arrivals(
    client: dict[str, Any], topic: str, starts: Sequence[int], ended: Event | threading.Event
) -> Iterator[tuple[float, Any]]:
    """Yield messages and when they came, to the topic's end once the event is set."""
    consumer = confluent_kafka.Consumer(
        {**client, "group.id": "bench", "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, n, at) for n, at in enumerate(starts)])
    left: set[int | None] = set(range(len(starts)))
    while left or not ended.is_set():
        message = consumer.poll(0.1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            left.add(message.partition())
            yield time.time(), message
        elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
            left.discard(message.partition())
        else:
            raise confluent_kafka.KafkaException(error)
    consumer.close()


def run_command(*arguments: str) -> str:
    """Run a program of Python's; return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout
