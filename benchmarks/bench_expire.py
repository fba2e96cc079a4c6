"""Models that come and go leave Flink's state as small as it was: bytes while 100,000 pass.

    python benchmarks/bench_expire.py [MODELS [FLAG ...]]

On a local cluster of its own each model sends 60 rows and falls silent; a live job with
`--expire-after 20` (and the flags) lets them go, a tenth of the models at a time. Prints after each
tenth what Flink says of the state (its files, in which what was removed stays until they are
compacted) and the Python worker's memory, in the end the bytes of a savepoint (what is really
there), and of the files that the models went to. Then some come back with 60 rows more, whose
features must be those of a model that never went. Exit code 1 if they are not, or if the savepoint
has more than 300 bytes a model.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import confluent_kafka
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.live_cluster import worker_memory
from benchmarks.record import TIMES, Table
from kerneltrack.in_memory import run_all
from kerneltrack.trackers import OKFEBSpec
from pipelines.cli.main import main as kerneltrack
from tests.e2e.clusters import LocalCluster, running
from tests.e2e.live import CHANNELS, Live
from transforms.chunks import encode_batch

MODELS = 100_000
TENTHS = 10
ROWS = 60
BACK = 50
STEPS = 2
STEP = 1_000_000_000
WAITING = 2
"""Rows of a model that wait for newer ones."""
SILENT = "20"
POLL = 2.0
PATIENCE = 1800.0
GOAL = 300
SPEC = OKFEBSpec(rank=4, budget=7, warmup=50)
"""As `live.SPECS` says."""


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def rows_of(model: int) -> npt.NDArray[np.float64]:
    """Return a model's rows, twice as many as it sends at first, and one."""
    return np.random.default_rng(model).normal(size=(2 * ROWS + 1, len(CHANNELS)))


def send(live: Live, models: range, start: int, stop: int) -> None:
    """Send rows start..stop of each model, one message each."""
    producer = confluent_kafka.Producer(live.client)
    times = np.arange(start, stop) * STEP
    for model in models:
        rows = rows_of(model)[start:stop]
        columns = {name: rows[:, at] for at, name in enumerate(CHANNELS)}
        label = pa.array(["x"] * len(rows))
        batch = pa.RecordBatch.from_pydict({"time": times, **columns, "label": label})
        producer.produce(live.topic, encode_batch(batch), b"model-%d" % model)
        producer.poll(0)
    if producer.flush(PATIENCE):
        raise RuntimeError("messages did not arrive")


def wait_until_gone(folder: Path, files: int) -> None:
    """Wait until so many files of expired models are there."""
    deadline = time.monotonic() + PATIENCE
    while sum(1 for _ in folder.glob("idle/*.idle")) < files:
        if time.monotonic() > deadline:
            raise RuntimeError(f"no {files} files of expired models")
        time.sleep(POLL)


def size(folder: Path) -> int:
    """Return the bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.glob("*") if path.is_file())


def measure(cluster: LocalCluster, models: int, flags: Sequence[str], folder: Path) -> int:
    """Let the models come and go, and some come back."""
    live = Live(cluster, "passing", "arrow")
    live.make_topic(2)
    snapshots = ("--snapshots", str(folder / "snapshots"))
    expiring = ("--expire-after", SILENT, "--parallelism=2", *snapshots, *flags)
    job = live.start(*expiring)
    columns = ["models that came and went", "checkpoint, MB", "ms", "worker, MB", "s"]
    table = Table("live", "expire", columns, tolerance=TIMES)
    for tenth in range(TENTHS):
        begin = time.monotonic()
        some = range(tenth * models // TENTHS, (tenth + 1) * models // TENTHS)
        send(live, some, 0, ROWS)
        wait_until_gone(folder / "snapshots", some.stop * STEPS)
        newest = cluster.ask_flink(f"/jobs/{job}/checkpoints")["latest"]["completed"]
        table.add(
            f"{some.stop:,}",
            f"{newest['state_size'] / 1e6:.2f}",
            newest["end_to_end_duration"],
            f"{worker_memory(cluster.folder) / 1e6:.0f}",
            f"{time.monotonic() - begin:.0f}",
        )
    if kerneltrack(["stop", *live.place, "--savepoint"]):
        return 1
    savepoint = max(
        (cluster.folder / "savepoints").glob("*"), key=lambda path: path.stat().st_mtime
    )
    left, gone = size(savepoint) / models, size(folder / "snapshots" / "idle") / models
    say(f"savepoint: {left:.0f} bytes a model; files: {gone:,.0f} bytes a model")
    live.start("--resume", "latest", *expiring, "--output-topic", f"{live.topic}-out-back")
    send(live, range(BACK), ROWS, 2 * ROWS + 1)
    first, last = ROWS - WAITING, 2 * ROWS + 1 - WAITING
    table = live.read("-back", BACK * (last - first), folder)
    same = 0
    for model in range(BACK):
        found = table.filter(pa.compute.equal(table.column("model_id"), f"model-{model}"))
        _, features = run_all(SPEC, rows_of(model)[:last])
        same += found.column("loss").to_pylist() == features.loss[first:].tolist()
    kerneltrack(["stop", *live.place])
    say(f"{same} of {BACK} models that came back have the features of one that never went")
    return 0 if same == BACK and left <= GOAL else 1


def main(models: int, flags: Sequence[str]) -> int:
    """Measure on a cluster of its own."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "cluster") as cluster:
        return measure(cluster, models, flags, Path(folder))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else MODELS, sys.argv[2:]))
