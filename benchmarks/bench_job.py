"""The whole file job against its parts: how much the pipeline costs on top of the work itself.

    python benchmarks/bench_job.py [--runs N] [--many-models] [--one-model] [--additions]

Without flags: the motionsense job (`kerneltrack track ... --rank 10 --budget 15`, output written,
report made) as a process of its own with warm caches, against, in the same run and interleaved,
reading the file with plain pyarrow + the core in memory, model by model + writing the same output
with plain pyarrow (same columns, zstd level 1), a process of its own too. Prints both and
`1.6 x parts + 6 s`, within which the job should stay.

`--many-models` runs 100,000 models of 10 rows, interleaved by time, and `--one-model` one model of
2 million rows; both print seconds and peak memory.

`--additions` runs the motionsense job with a learner, with windows and with drift alerts, each in
turn with the plain job, and prints what it adds: a learner at most 30 %, output written and report
made.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.places import DATA, ROOT
from benchmarks.record import TIMES, Table
from kerneltrack.in_memory import run_all
from kerneltrack.trackers import OKFEBSpec

SOURCE = DATA / "motionsense.parquet"
SPEC = OKFEBSpec(rank=10, budget=15)
SENSORS = ("--model-id", "model_id", "--time", "time", "--label", "label")
FLAGS = (*SENSORS, "--rank", "10", "--budget", "15")
WIDTH = 6
BATCH = 500_000


class Finished(NamedTuple):
    """What a process took.

    Attributes:
        seconds: From start to end, imports and all.
        peak: Greatest resident memory, MB.
    """

    seconds: float
    peak: float


def run_process(arguments: Sequence[str]) -> Finished:
    """Run a command to its end; its output is shown only if it fails."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as shown:
        process = subprocess.Popen(arguments, cwd=ROOT, stdout=shown, stderr=shown)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - begin
        if process.returncode != 0:
            shown.seek(0)
            raise SystemExit(shown.read().decode())
    return Finished(seconds, usage.ru_maxrss / 1024)


def run_job(source: Path, output: Path, flags: Sequence[str]) -> Finished:
    """Run the file job."""
    command = [sys.executable, "-m", "pipelines.cli", "track", str(source), *flags]
    return run_process([*command, "--output", str(output), "--overwrite"])


def parts(source: str, output: str) -> None:
    """Read with plain pyarrow, track in memory, write with plain pyarrow; print the seconds."""
    begin = time.perf_counter()
    table = pq.read_table(source)
    model = table.column("model_id").combine_chunks().dictionary_encode()
    codes = model.indices.to_numpy()
    names = [name for name in table.schema.names if name not in {"model_id", "time", "label"}]
    x = np.stack([table.column(name).to_numpy() for name in names], axis=1)
    stamp = table.column("time").cast(pa.timestamp("ns", "UTC")).combine_chunks()
    at_of = [np.flatnonzero(codes == code) for code in range(len(model.dictionary))]
    when = stamp.cast(pa.int64()).to_numpy()
    at_of = [at[np.argsort(when[at], kind="stable")] for at in at_of]
    read = time.perf_counter()
    done = [run_all(SPEC, x[at])[1] for at in at_of]
    tracked = time.perf_counter()
    writer: pq.ParquetWriter | None = None
    paths = pa.array([source])
    label = table.column("label").combine_chunks()
    for name, at, features in zip(model.dictionary.to_pylist(), at_of, done, strict=True):
        place = pa.array(at)
        columns = {
            "model_id": pa.array([name]).take(pa.array(np.zeros(len(at), dtype=np.int64))),
            "index": pa.array(features.index),
            "time": stamp.take(place),
            "source": pa.DictionaryArray.from_arrays(np.zeros(len(at), dtype=np.int32), paths),
            "row": place,
            "loss": pa.array(features.loss),
            "novelty": pa.array(features.novelty),
            "informative": pa.array(features.informative),
            "evicted": pa.array(features.evicted, mask=features.evicted < 0),
            "initial": pa.array(features.initial),
            "z": pa.FixedSizeListArray.from_arrays(
                pa.array(np.asarray(features.z).reshape(-1)), SPEC.rank
            ),
            "label": label.take(place),
        }
        batch = pa.RecordBatch.from_pydict(columns)
        if writer is None:
            texts = ["model_id", "source", "label"]
            writer = pq.ParquetWriter(
                output,
                batch.schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=texts,
            )
        writer.write_table(pa.Table.from_batches([batch]), row_group_size=131_072)
    if writer is not None:
        writer.close()
    ended = time.perf_counter()
    sys.stdout.write(json.dumps([read - begin, tracked - read, ended - tracked]))


def run_parts(folder: Path) -> list[float]:
    """Run `parts` in a process of its own; return its seconds of reading, core and writing."""
    # `run_all` once on a few rows first: loading the compiled loop is not the core's work.
    code = (
        "import sys, numpy; sys.path.insert(0, sys.argv[1]); import bench_job as b; "
        "b.run_all(b.SPEC, numpy.eye(9)); b.parts(sys.argv[2], sys.argv[3])"
    )
    folders = [str(Path(__file__).parent), str(SOURCE), str(folder / "parts.parquet")]
    done = subprocess.run(
        [sys.executable, "-c", code, *folders], cwd=ROOT, check=True, capture_output=True, text=True
    )
    seconds: list[float] = json.loads(done.stdout)
    return seconds


def compare(runs: int) -> bool:
    """Run job and parts in turns; print the medians and tell whether the goal is met."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        run_job(SOURCE, folder / "out", FLAGS)
        jobs, alone = [], []
        for _ in range(runs):
            jobs.append(run_job(SOURCE, folder / "out", FLAGS))
            alone.append(run_parts(folder))
        written = sum(path.stat().st_size for path in (folder / "out" / "features").iterdir())
        plain = (folder / "parts.parquet").stat().st_size
        record = json.loads((folder / "out" / "run.json").read_text(encoding="utf-8"))
    job = statistics.median(found.seconds for found in jobs)
    read, core, write = (float(statistics.median(part)) for part in zip(*alone, strict=True))
    limit = 1.6 * (read + core + write) + 6
    each = ", ".join(f"{found.seconds:.1f}" for found in jobs)
    sums = ", ".join(f"{sum(found):.1f}" for found in alone)
    table = Table("files", "job", ["", "s", "each", "MB"], tolerance=TIMES)
    peak = max(found.peak for found in jobs)
    table.add("the job", f"{job:.2f}", each, f"{peak:.0f} of memory, {written / 1e6:.0f} written")
    table.add("its parts", f"{read + core + write:.2f}", sums, f"{plain / 1e6:.0f} written")
    for name, part in (("read", read), ("core", core), ("write", write)):
        table.add(f"of them {name}", f"{part:.2f}", "", "")
    met = "met" if job <= limit else "NOT MET"
    table.add("goal: 1.6 × parts + 6 s", f"{limit:.2f}", met, "")
    print(f"\nThe job's own account: {record['seconds']}")
    return bool(job <= limit)


def write_models(path: Path, models: int, rows: int) -> int:
    """Write `models` models of `rows` rows each, interleaved by time; return the Arrow bytes."""
    rng = np.random.default_rng(0)
    total, size = models * rows, 0
    writer: pq.ParquetWriter | None = None
    for start in range(0, total, BATCH):
        at = np.arange(start, min(start + BATCH, total))
        columns = {
            "model_id": pa.array(np.char.add("model-", (at % models).astype(str))),
            "time": pa.array(at // models * 20 + at % models % 20, pa.timestamp("ms", "UTC")),
            **{
                f"x{i}": rng.normal(size=len(at)).astype(np.float32) + np.sin(at / 997)
                for i in range(WIDTH)
            },
        }
        table = pa.table(columns)
        size += table.nbytes
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
    return size


def extreme(name: str, models: int, rows: int) -> None:
    """Run the job on made rows and print its seconds and peak memory."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        size = write_models(folder / "in.parquet", models, rows)
        flags = ("--model-id", "model_id", "--time", "time", "--rank", "10", "--budget", "15")
        done = run_job(folder / "in.parquet", folder / "out", flags)
        record = json.loads((folder / "out" / "run.json").read_text(encoding="utf-8"))
        counts = record["counts"]
    columns = ["models", "rows in", "out", "s", "peak, MB", "input in Arrow, MB"]
    table = Table("files", name, columns, tolerance=TIMES)
    passed = f"{counts['rows_in']:,}", f"{counts['rows_out']:,}"
    sizes = f"{done.seconds:.1f}", f"{done.peak:.0f}", f"{size / 2**20:.0f}"
    table.add(f"{counts['models']:,}", *passed, *sizes)
    print(f"\nThe job's own account: {record['seconds']}")


ADDITIONS = {
    "learner": ("--learner", "ridge"),
    "windows": ("--window", "60"),
    "drift": ("--drift",),
}
LEARNER_SHARE = 0.3


def additions(runs: int) -> bool:
    """Run the plain job and that with each addition in turns; print the medians of the ratios."""
    with tempfile.TemporaryDirectory() as place:
        output = Path(place) / "out"
        for flags in ADDITIONS.values():
            run_job(SOURCE, output, (*FLAGS, *flags))
        ratios: dict[str, list[float]] = {name: [] for name in ADDITIONS}
        peaks = dict.fromkeys(ADDITIONS, 0.0)
        plain = []
        for _ in range(runs):
            for name, flags in ADDITIONS.items():
                before = run_job(SOURCE, output, FLAGS)
                found = run_job(SOURCE, output, (*FLAGS, *flags))
                plain.append(before)
                ratios[name].append(found.seconds / before.seconds)
                peaks[name] = max(peaks[name], found.peak)
    table = Table("files", "additions", ["job with", "times", "each", "peak, MB"], tolerance=TIMES)
    seconds = f"{statistics.median(found.seconds for found in plain):.1f} s"
    table.add("nothing", "1", seconds, f"{max(found.peak for found in plain):.0f}")
    for name, shares in ratios.items():
        each = ", ".join(f"{share:.2f}" for share in shares)
        table.add(name, f"{statistics.median(shares):.2f}", each, f"{peaks[name]:.0f}")
    good = statistics.median(ratios["learner"]) <= 1 + LEARNER_SHARE
    sys.stdout.write(f"goal: a learner adds 30 % at most: {'met' if good else 'NOT MET'}\n")
    return good


def main() -> int:
    """Read the flags and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="interleaved runs (default 3)")
    parser.add_argument("--many-models", action="store_true", help="100,000 models of 10 rows")
    parser.add_argument("--one-model", action="store_true", help="one model of 2 million rows")
    parser.add_argument("--additions", action="store_true", help="what a learner adds, and so on")
    args = parser.parse_args()
    if args.additions:
        return 0 if additions(args.runs) else 1
    if args.many_models:
        extreme("many_models", 100_000, 10)
    if args.one_model:
        extreme("one_model", 1, 2_000_000)
    if args.many_models or args.one_model:
        return 0
    return 0 if compare(args.runs) else 1


if __name__ == "__main__":
    sys.exit(main())
