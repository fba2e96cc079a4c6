"""The live job with a learner: rows/s from a backlog, with the tracker alone beside it.

    python benchmarks/bench_live_learner.py [--learner NAME ...] [--cells NAME ...]

On a local cluster of this script's own; topics, rows and cells are those of `bench_stream.py`. The
rate is that of the rows whose predictions (features, without a learner) came out between 30 % and
95 % of them, by the times at which they were sent; metrics are of windows of a minute.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.bench_stream import CELLS, count_rows, rates
from benchmarks.live_cluster import PARTITIONS, Cell, LiveCluster, Rows, messages, run_command
from benchmarks.record import TIMES, Table

NONE = "none"
CHOSEN = ("1000x1-json", "1000x50-arrow", "16x50-json")


def drain(cluster: LiveCluster, topic: str, cell: Cell, learner: str) -> float:
    """Run a job over a topic that holds a backlog; return its rows/s."""
    output = watched = cluster.topic()
    flags = ["--checkpointing_interval=5000"]
    if learner != NONE:
        flags += ["--learner", learner, "--metrics-window", "60"]
        watched = f"{output}-predictions"
        cluster.make(watched)
    cluster.start(("-m", "pipelines.cli"), topic, output, cell, *flags)
    cpu = cluster.settle(watched, 0)
    found = cluster.read(watched, [0] * PARTITIONS)
    run_command("-m", "pipelines.cli", "stop", "--cluster", str(cluster.folder))
    sent = np.array([message.timestamp()[1] / 1000 for message in found])
    counts = np.array([count_rows(message.value(), cell.form) for message in found])
    return rates(sent, counts, cpu)[0]


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--learner", nargs="+", default=[NONE, "ridge", "auto"])
    names = [cell.name for cell in CELLS]
    parser.add_argument("--cells", nargs="+", default=CHOSEN, choices=names)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "cluster"
        run_command("-m", "pipelines.cli", "cluster", "up", "--folder", str(folder))
        try:
            cluster = LiveCluster(folder, Rows())
            columns = ["models x rows a message", *(f"{each}, rows/s" for each in args.learner)]
            table = Table("live", "learners", columns, tolerance=TIMES)
            for cell in (cell for cell in CELLS if cell.name in args.cells):
                topic = cluster.topic()
                cluster.send(topic, cell, messages(cell, cell.rows), None)
                found = [drain(cluster, topic, cell, learner) for learner in args.learner]
                table.add(cell.name, *(f"{rate:,.0f}" for rate in found))
        finally:
            run_command("-m", "pipelines.cli", "cluster", "down", "--folder", str(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
