"""Peak memory of the file job at 1, 4 and 16 times motionsense.

    python benchmarks/bench_memory.py [TIMES ...]

The rows of motionsense are written again and again under new model ids, sorted by time as a live
stream's are, batch by batch. Prints the peak resident memory of each job, a process of its own,
beside 3 x the input's size in Arrow + 500 MB, within which it should stay.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.places import DATA, ROOT
from benchmarks.record import TIMES, Table

SOURCE = DATA / "motionsense.parquet"
FLAGS = (
    *("--model-id", "model_id", "--time", "time", "--label", "label"),
    *("--rank", "10", "--budget", "15"),
)
BATCH = 65_536
MB = 2**20


def repeat(path: Path, times: int) -> int:
    """Write the rows `times` times under new model ids; return their bytes in Arrow."""
    source = pq.ParquetFile(SOURCE)
    size = 0
    with pq.ParquetWriter(path, source.schema_arrow) as writer:
        for batch in source.iter_batches(BATCH):
            place = batch.schema.get_field_index("model_id")
            for copy in range(times):
                ids = batch.column(place).cast(pa.string())
                ids = pc.binary_join_element_wise(ids, f"copy{copy:02d}", "-")
                columns = [*batch.columns]
                columns[place] = ids.cast(batch.schema.field(place).type)
                again = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
                size += again.nbytes
                writer.write_batch(again)
    return size


def peak_of(arguments: Sequence[str]) -> tuple[float, float]:
    """Run a command; return its seconds and its peak resident memory in bytes."""
    begin = time.perf_counter()
    process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(process.returncode)
    return time.perf_counter() - begin, usage.ru_maxrss * 1024.0


def measure(times: int, table: Table) -> bool:
    """Run the job at so many times the rows, add a row, tell whether memory is within."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        size = repeat(folder / "in.parquet", times)
        command = [sys.executable, "-m", "pipelines.cli", "track", str(folder / "in.parquet")]
        seconds, peak = peak_of([*command, *FLAGS, "--output", str(folder / "out")])
        record = json.loads((folder / "out" / "run.json").read_text(encoding="utf-8"))
        counts = record["counts"]
    limit = 3 * size + 500 * MB
    goal = f"{limit / MB:,.0f} MB" + ("" if peak <= limit else ": NOT MET")
    sizes = f"{size / MB:,.0f} MB", f"{peak / MB:,.0f} MB"
    table.add(f"{times} ×", f"{counts['rows_out']:,}", *sizes, goal, f"{seconds:.0f}")
    return peak <= limit


def main(times: Sequence[str]) -> int:
    """Measure at each size."""
    columns = ["motionsense", "rows", "Arrow size", "peak memory", "goal, 3 × Arrow + 500 MB", "s"]
    table = Table("files", "memory", columns, tolerance=TIMES)
    good = [measure(int(one), table) for one in times or ("1", "4", "16")]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
