"""A live job for a long time at a steady load: does anything grow?

    python benchmarks/bench_soak.py [--minutes 20] [--rate ROWS/S] [--folder DIR]

Starts a local cluster and the live job (rank 10, budget 15, 16 models, messages of 10 rows in
JSON), sends motionsense rows at a steady rate, and looks every ten seconds: heap of the
TaskManager, resident memory of the Python worker, size and duration of the last checkpoint, mean
lag of the rows tracked since the last look. Of each: the median over the last 15 minutes, and the
Theil-Sen slope per hour as a share of it, with its 95 % interval; it should be below 2 %, or its
interval hold 0.
"""

from __future__ import annotations

import argparse
import http.client
import re
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from scipy.stats import theilslopes

from benchmarks.live_cluster import (
    Cell,
    LiveCluster,
    Rows,
    messages,
    run_command,
    worker_memory,
)
from benchmarks.record import TIMES, Table
from pipelines.cluster.folder import Folder, load
from pipelines.flink.client import Flink
from pipelines.flink.health import look

CELL = Cell(16, 10, "json", 0)
LOOK = 10.0
CHUNK = 30.0
"""Seconds of messages that are written at once."""

LAST = 15 * 60.0
GOAL = 0.02
HOUR = 3600.0
MEBIBYTE = 2**20

COUNTER = r"^flink_taskmanager_job_task_operator_kerneltrack_{}{{.*}} (\S+)$"
HEAP = r"^flink_taskmanager_Status_JVM_Memory_Heap_Used{.*} (\S+)$"


class Watch:
    """Looks at a cluster and the one job on it.

    Args:
        folder: The cluster's.
    """

    def __init__(self, folder: Path) -> None:
        cluster = load(Folder(folder))
        if cluster is None:
            raise FileNotFoundError(folder)
        self._folder = folder
        self._flink = Flink(cluster.settings.address("flink"))
        self._metrics = cluster.settings.address("taskmanager-metrics")
        (job,) = (job for job in self._flink.jobs() if job["state"] == "RUNNING")
        self._job = job["jid"]
        self._before = (0.0, 0.0)

    def look(self) -> dict[str, float]:
        """Return what there is to see, by name."""
        connection = http.client.HTTPConnection(self._metrics, timeout=30)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        rows, lag = (
            _sum(COUNTER.format(name), text) for name in ("rows_tracked", "lag_milliseconds")
        )
        new, late = rows - self._before[0], lag - self._before[1]
        self._before = rows, lag
        known = self._flink.ask(f"/jobs/{self._job}/checkpoints")["latest"]["completed"]
        found = {
            "JVM heap, MiB": _sum(HEAP, text) / MEBIBYTE,
            "worker memory, MiB": worker_memory(self._folder) / MEBIBYTE,
            "checkpoint size, MiB": known["state_size"] / MEBIBYTE,
            "checkpoint duration, ms": float(known["end_to_end_duration"]),
            "rows/s": new / LOOK,
        }
        if new > 0:
            found["lag, s"] = late / new / 1000
        return found

    def restarts(self) -> int:
        """Return how often the job was started again."""
        return look(self._flink, self._job).restarts


def _sum(pattern: str, text: str) -> float:
    return sum(float(value) for value in re.findall(pattern, text, re.M))


def feed(
    cluster: LiveCluster, topic: str, rate: float, minutes: float, ended: threading.Event
) -> None:
    """Send rows at a rate until the time is over."""
    turns, end = 0, time.monotonic() + 60 * minutes
    while time.monotonic() < end and not ended.is_set():
        parts = messages(CELL, round(rate * CHUNK), turns * CELL.message_rows)
        turns += len(parts) // CELL.models
        cluster.send(topic, CELL, parts, rate)


def report(seen: list[tuple[float, dict[str, float]]], end: float) -> bool:
    """Print the slopes; tell whether all are small."""
    good = True
    table = Table("live", "soak", ["", "level", "slope an hour", ""], tolerance=TIMES)
    for name in seen[-1][1]:
        points = [(at, found[name]) for at, found in seen if at > end - LAST and name in found]
        times, values = zip(*points, strict=True)
        level = statistics.median(values)
        slope, _, low, high = (float(item) * HOUR / level for item in theilslopes(values, times))
        fine = abs(slope) < GOAL or low <= 0 <= high
        good = good and (fine or name == "rows/s")
        change = f"{slope:+.1%} ({low:+.1%} to {high:+.1%})"
        table.add(name, f"{level:,.2f}", change, "" if fine else "GROWS")
    return good


def main() -> int:
    """Soak, and report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=4000.0, help="rows/s (default %(default)s)")
    parser.add_argument("--folder", help="of the cluster (default: a temporary one)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(args.folder or Path(place) / "cluster")
        run_command("-m", "pipelines.cli", "cluster", "up", "--folder", str(folder))
        try:
            return 0 if soak(folder, args.rate, args.minutes) else 1
        finally:
            run_command("-m", "pipelines.cli", "cluster", "down", "--folder", str(folder))


def soak(folder: Path, rate: float, minutes: float) -> bool:
    """Run the job at a rate; tell whether nothing grew."""
    cluster = LiveCluster(folder, Rows())
    topic = cluster.topic()
    cluster.start(
        ("-m", "pipelines.cli"), topic, f"{topic}-out", CELL, "--checkpointing_interval=5000"
    )
    watch, ended = Watch(folder), threading.Event()
    feeder = threading.Thread(target=feed, args=(cluster, topic, rate, minutes, ended))
    feeder.start()
    seen: list[tuple[float, dict[str, Any]]] = []
    try:
        while feeder.is_alive():
            feeder.join(LOOK)
            seen.append((time.monotonic(), watch.look()))
            line = ", ".join(f"{name} {value:,.1f}" for name, value in seen[-1][1].items())
            sys.stderr.write(f"{(seen[-1][0] - seen[0][0]) / 60:5.1f} min: {line}\n")
    finally:
        ended.set()
    sys.stdout.write(f"{minutes:g} minutes at {rate:,.0f} rows/s, restarts: {watch.restarts()}\n")
    return report(seen, seen[-1][0])


if __name__ == "__main__":
    sys.exit(main())
