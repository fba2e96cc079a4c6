"""A long table beside the wide one: seconds of processors and memory of the file job.

    python benchmarks/bench_long.py [--devices 200] [--rows 1000] [--channels 5]

Writes the same rows wide and long, as CSV and Parquet, the long ones in the order of their times,
by metric (each metric's rows of all devices one after the other) and shuffled, and runs
`kerneltrack track --workers 1` on each: wall time, processor time and memory of the whole command.
That the features are the same bits is checked.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from benchmarks.record import TIMES, Table

NAMES = ("--model-id", "device", "--time", "time")
LONG = ("--metric", "metric", "--value", "value")
ORDERS = ("by time", "by metric", "shuffled")


def wide_table(devices: int, rows: int, channels: int) -> pa.Table:
    """Return rows of devices in the order of their times."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows * devices, channels))
    columns: dict[str, object] = {
        "device": [f"device-{number:05d}" for number in range(devices)] * rows,
        "time": np.repeat(np.arange(rows) * 60 + 1_772_323_200, devices),
    }
    return pa.table({**columns, **{f"channel-{c}": x[:, c] for c in range(channels)}})


def long_table(wide: pa.Table, order: str) -> pa.Table:
    """Return a row for each value."""
    names = [name for name in wide.column_names if name.startswith("channel")]
    parts = [
        wide.select(["device", "time"])
        .append_column("metric", pa.array([name] * len(wide)))
        .append_column("value", wide[name])
        for name in names
    ]
    table = pa.concat_tables(parts)
    if order == "by metric":
        return table
    places = np.arange(len(table)).reshape(len(names), -1).T.ravel()
    if order == "shuffled":
        places = np.random.default_rng(1).permutation(len(table))
    return table.take(pa.array(places))


def write(table: pa.Table, path: Path) -> Path:
    """Write a table by its ending."""
    if path.suffix == ".csv":
        pacsv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    return path


def measure(path: Path, flags: tuple[str, ...], output: Path) -> tuple[dict[str, float], pa.Table]:
    """Run the job; return its figures, and its features in order."""
    job = [sys.executable, "-m", "pipelines.cli", "track", str(path), *NAMES, *flags]
    job += ["--rank", "4", "--budget", "10", "--workers", "1", "--output", str(output)]
    begun = time.monotonic()
    process = subprocess.Popen(job, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begun
    assert status == 0, job
    record = json.loads((output / "run.json").read_text())
    found = pa.concat_tables(pq.read_table(p) for p in sorted((output / "features").iterdir()))
    found = found.sort_by([("model_id", "ascending"), ("index", "ascending")])
    figures = {
        "seconds": seconds,
        "processor": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
        "rows_in": record["counts"]["rows_in"],
    }
    return figures, found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--channels", type=int, default=5)
    args = parser.parse_args()
    wide = wide_table(args.devices, args.rows, args.channels)
    columns = ["table", "rows in", "s", "processor, s", "most memory, MB"]
    lines = Table("files", "long", columns, tolerance=TIMES)
    for ending in ("parquet", "csv"):
        expected = None
        for order in ("wide", *ORDERS):
            with tempfile.TemporaryDirectory() as folder:
                table = wide if order == "wide" else long_table(wide, order)
                path = write(table, Path(folder, f"rows.{ending}"))
                del table
                flags = () if order == "wide" else LONG
                figures, found = measure(path, flags, Path(folder, "out"))
            z = found.select(["model_id", "index", "z", "loss"])
            expected = z if expected is None else expected
            assert z.equals(expected), f"{ending}, {order}: other features"
            name = f"{ending}, {order if order == 'wide' else f'long, {order}'}"
            spent = f"{figures['seconds']:.1f}", f"{figures['processor']:.1f}"
            lines.add(name, f"{figures['rows_in']:,}", *spent, f"{figures['peak_mb']:,.0f}")


if __name__ == "__main__":
    main()
