"""examples/on_spark.py gives the bytes of `kerneltrack track`, also after it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main
from samples.fleet import CHANNELS, pumps
from tests import parts

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "on_spark.py"
DEVICES, ROWS, FILES, LATE = 12, 1000, 3, 5
BROKEN, REPAIRED = "pump-5", 850
"""A device that is off, and the row from which it is well again."""
COLUMNS = ("--model-id", "device", "--time", "time", "--features", *CHANNELS)
PATIENCE = 300.0
QUICK = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Java begins in half the time so."""


def write_rows(folder: Path) -> None:
    """Write rows a minute apart, out of order by up to five minutes, across files too."""
    rng = np.random.default_rng(7)
    made = list(pumps(DEVICES, seed=1, rows=ROWS, many=2))
    made[5].rows[REPAIRED:ROWS] = made[5].rows[: ROWS - REPAIRED]
    at = 1_772_323_200_000_000 + 60_000_000 * np.tile(np.arange(ROWS), DEVICES)
    x = np.concatenate([pump.rows[:ROWS] for pump in made])
    names = np.repeat([f"pump-{number}" for number in range(DEVICES)], ROWS)
    order = np.argsort(at + rng.uniform(0, LATE * 60e6, len(at)))
    columns = dict(zip(CHANNELS, x[order].T, strict=True))
    times = pa.array(at[order], pa.timestamp("us", "UTC"))
    table = pa.table({"device": names[order], "time": times, **columns})
    folder.mkdir()
    size = -(-len(table) // FILES)
    for number in range(FILES):
        pq.write_table(table.slice(number * size, size), folder / f"{number}.parquet")


@contextmanager
def query(folder: Path) -> Iterator[Callable[[Callable[[], bool]], None]]:
    """Run the query, a file a micro-batch; give what waits for something; kill it at the end."""
    command = [sys.executable, str(PROGRAM), "rows", *COLUMNS, "--files", "1"]
    command += ["--max-disorder", "600", "--idle-flush", "1"]
    command += ["--output", "spark", "--checkpoint", "checkpoint"]
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | QUICK,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def wait(done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not done():
            text = (folder / "log").read_text()
            assert process.poll() is None and time.monotonic() < deadline, text[-5000:]
            time.sleep(0.5)

    try:
        yield wait
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def batches(folder: Path, output: str) -> list[Path]:
    """Return the micro-batches of an output that have been written."""
    return sorted(done.parent for done in (folder / "spark" / output).glob("batch=*/_SUCCESS"))


def of_spark(folder: Path, output: str) -> pa.Table:
    found = batches(folder, output)
    return in_order(pa.concat_tables([pq.read_table(path, partitioning=None) for path in found]))


def rows_of(found: list[Path]) -> int:
    return sum(pq.read_metadata(part).num_rows for path in found for part in path.glob("*.parquet"))


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([("model_id", "ascending"), ("index", "ascending")])


def as_spark_has_it(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table of `kerneltrack track` with the types of Spark: the values are the same."""
    return in_order(table.select(schema.names).cast(schema))


@pytest.mark.nightly
def test_spark_gives_the_bytes_of_a_file_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.module("pyspark", "pyspark: make spark")
    parts.program("java", "Java 17")
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows")
    flags = ("--rank", "5", "--budget", "10", "--reference", "first")
    assert main(["track", "rows", *COLUMNS, *flags, "--output", "files"]) == 0
    expected = pq.read_table(tmp_path / "files" / "features")
    ended = pq.read_table(tmp_path / "files" / "episodes")

    with query(tmp_path) as wait:
        wait(lambda: bool(batches(tmp_path, "features")))
    before = batches(tmp_path, "features")
    assert rows_of(before) < DEVICES * ROWS
    with query(tmp_path) as wait:
        wait(lambda: rows_of(batches(tmp_path, "features")) == DEVICES * ROWS)
    assert len(batches(tmp_path, "features")) > len(before) + 1

    features = of_spark(tmp_path, "features")
    assert features.equals(as_spark_has_it(expected, features.schema))
    episodes = of_spark(tmp_path, "episodes")
    assert not batches(tmp_path, "failures")
    # A file job says at its end which episodes are open; a stream has no end.
    within = ended.filter(pc.less(ended.column("index"), ROWS - 1))
    states = set(
        zip(*(within.column(name).to_pylist() for name in ("model_id", "state")), strict=True)
    )
    assert {(BROKEN, "open"), (BROKEN, "closed"), ("pump-6", "open")} <= states
    assert episodes.equals(as_spark_has_it(within, episodes.schema))
