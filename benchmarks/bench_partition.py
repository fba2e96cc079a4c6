"""What a model costs beside its rows, and what more cores bring.

    python benchmarks/bench_partition.py [--models N] [--rows N] [--workers N ...] [--runs N]
        [--source FILE] [--against CHECKOUT ...]
    python benchmarks/bench_partition.py --memory N [N ...] [--rows N] [--workers N]
    python benchmarks/bench_partition.py --snapshots N

Runs `kerneltrack track` on made rows by one of Beam's runners and in processes of its own, in
turns, and prints wall time, processor time of all its processes, the largest one's memory,
and the times as a share of the runner's (medians). Exit code 1 if features or snapshots differ
in a bit. With `--runner no` the runner is left out. `--source` takes a file with the columns
model_id and time instead of made rows, `--against` other versions into the turns: checkouts with
an environment of their own in `.venv`; the first of them is then what the others are shares of.

`--memory`: runs so many models in processes, and prints how many partitions there were and what
the first process and the largest of the others took.

`--snapshots`: writes the states of so many models packed, as a block's columns and one by one, and
as single files, reads and decodes all with all checks, packed ones as columns and one by one, and
prints processor seconds and bytes. Exit code 1 if they are not the same states.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench_job import write_models
from benchmarks.record import TIMES, Table
from kerneltrack import codec
from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.model import Work
from kerneltrack.fleet.run import run_rows
from kerneltrack.fleet.states import encode
from kerneltrack.snapshots.files import read_whole, snapshot_name, write_whole
from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.snapshots.header import PackedState
from kerneltrack.snapshots.packed import PackedFile, PackedWriter
from kerneltrack.trackers import OKFEBSpec
from transforms.beam_worker.runners import IN_PROCESS_RUNNER

FLAGS = ("--model-id", "model_id", "--time", "time", "--rank", "10", "--budget", "15")
SPEC = OKFEBSpec(rank=10, budget=15)
COMMAND = Path(sys.executable).with_name("kerneltrack")
KIND = 20
"""Different states that the snapshots are made of."""


class Ran(NamedTuple):
    """A run: seconds by the clock, of processors, and MB of its largest and its first process."""

    wall: float
    cpu: float
    peak: float
    first: float


def run(source: Path, output: Path, *flags: str, command: Path = COMMAND) -> Ran:
    """Run the job as a process of its own."""
    arguments = ["track", str(source), "--output", str(output), "--overwrite", *FLAGS, *flags]
    begun = time.monotonic()
    process = subprocess.Popen([str(command), *arguments], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"the job ended with {status}")
    wall, cpu = time.monotonic() - begun, used.ru_utime + used.ru_stime
    peak = first = used.ru_maxrss / 1024
    record = json.loads((output / "run.json").read_text(encoding="utf-8"))
    workers = record.get("processes", {"workers": 1})
    if workers["workers"] > 1:
        # They are no children of the job's process: what they took is in the record.
        cpu, peak = cpu + workers["processor_seconds"], max(peak, workers["peak_mb"])
    return Ran(wall, cpu, peak, first)


def digest(output: Path) -> tuple[str, str]:
    """Hashes of features and snapshots, whatever files they are in."""
    table = pa.concat_tables(pq.read_table(path) for path in (output / "features").iterdir())
    table = table.set_column(
        table.schema.get_field_index("source"), "source", table.column("source").cast(pa.string())
    )
    table = table.sort_by([("model_id", "ascending"), ("index", "ascending")]).combine_chunks()
    features = hashlib.sha256()
    for batch in table.to_batches():
        features.update(batch.serialize().to_pybytes())
    folder, states = SnapshotFolder(str(output / "snapshots")), hashlib.sha256()
    for model_id in sorted(folder.models):
        states.update(folder.state(model_id, codec.TRACKER) or b"")
    return features.hexdigest(), states.hexdigest()


def compare(args: argparse.Namespace) -> bool:
    """Run all ways in turns, print them, and tell whether they gave the same."""
    ways: dict[str, tuple[Path, tuple[str, ...]]] = {
        f"{count} process{'' if count == 1 else 'es'}": (COMMAND, ("--workers", str(count)))
        for count in args.workers
    }
    if args.runner == "yes":
        ways = {"runner": (COMMAND, (f"--runner={IN_PROCESS_RUNNER}",)), **ways}
    others: dict[str, tuple[Path, tuple[str, ...]]] = {
        str(other): (other / ".venv" / "bin" / "kerneltrack", ()) for other in args.against
    }
    with tempfile.TemporaryDirectory() as place:
        source = args.source or Path(place) / "in.parquet"
        if args.source is None:
            write_models(source, args.models, args.rows)
        outputs = {name: Path(place) / str(at) for at, name in enumerate({**others, **ways})}
        found: dict[str, list[Ran]] = {name: [] for name in outputs}
        for _ in range(args.runs):
            for name, (command, flags) in {**others, **ways}.items():
                found[name].append(run(source, outputs[name], *flags, command=command))
        digests = {name: digest(outputs[name]) for name in ways}
        models = len(SnapshotFolder(str(outputs[next(iter(ways))] / "snapshots")).models)
    first = next(iter(found))
    heads = ["models", "way", "s", "processor s", "µs a model", "peak, MB"]
    more = [f"s over {first}", f"processor s over {first}"]
    table = Table("files", "partition", [*heads, *more], tolerance=TIMES)
    for name, each in found.items():
        middle = Ran(*(statistics.median(values) for values in zip(*each, strict=True)))
        shares = [
            statistics.median(
                now[field] / then[field] for now, then in zip(each, found[first], strict=True)
            )
            for field in range(2)
        ]
        spent = f"{middle.wall:.1f}", f"{middle.cpu:.1f}", f"{middle.cpu / models * 1e6:,.0f}"
        ratios = f"{shares[0]:.2f}", f"{shares[1]:.2f}"
        table.add(f"{models:,}", name, *spent, f"{middle.peak:.0f}", *ratios)
    same = len(set(digests.values())) == 1
    say("the same features and snapshots, bit for bit" if same else "NOT the same")
    return same


def memory(models: int, rows: int, workers: int, table: Table) -> None:
    """Run the job once in processes; add what time and memory it took."""
    with tempfile.TemporaryDirectory() as place:
        source, output = Path(place) / "in.parquet", Path(place) / "out"
        size = write_models(source, models, rows)
        ran = run(source, output, "--workers", str(workers))
        others = json.loads((output / "run.json").read_text(encoding="utf-8"))["processes"]
    sizes = f"{models * rows:,}", f"{size / 1e6:,.0f} MB", others["partitions"]
    spent = f"{ran.wall:.1f}", f"{ran.cpu:.1f}", f"{ran.first:.0f} MB", f"{others['peak_mb']} MB"
    table.add(*sizes, *spent)


def states(models: int) -> Iterator[PackedState]:
    """States of so many models, in order of their names."""
    rng, work = np.random.default_rng(0), Work(spec=SPEC)
    made = []
    for _ in range(KIND):
        rows = rng.normal(size=(10, 6))
        model, _ = run_rows(work, "m", begin(work, "m", rows), rows, np.arange(10), math.inf)
        made.append(model)
    for number in range(models):
        name = f"model-{number:09d}"
        data = encode(work, name, made[number % KIND], final=True)
        yield PackedState(name, codec.TRACKER, 10, 9, True, data)


def snapshots(models: int) -> None:
    """Write and read snapshots in all ways, and print seconds and bytes."""
    with tempfile.TemporaryDirectory() as place:
        folder, given = Path(place), list(states(models))
        packed = folder / "part-00000-of-00001.parquet"
        by_columns = _write_columns(packed, given)
        written = packed.read_bytes()
        begun = time.process_time()
        with packed.open("wb") as handle:
            writer = PackedWriter(handle)
            for state in given:
                writer.add(state)
            writer.close()
        one_by_one = time.process_time() - begun
        same = list(PackedFile(str(packed)).states()) == given
        packed.write_bytes(written)
        begun = time.process_time()
        count = sum(1 for _ in PackedFile(str(packed)).snapshots())
        read_columns = time.process_time() - begun
        begun = time.process_time()
        for state in PackedFile(str(packed)).states():
            codec.decode(state.data)
        read_one_by_one = time.process_time() - begun
        same = same and count == models and list(PackedFile(str(packed)).states()) == given
        begun = time.process_time()
        for state in given:
            write_whole(str(folder / "single" / snapshot_name(state.model_id)), state.data)
        single_write = time.process_time() - begun
        begun = time.process_time()
        for state in given:
            codec.decode(read_whole(str(folder / "single" / snapshot_name(state.model_id))))
        single_read = time.process_time() - begun
    size = sum(len(state.data) for state in given)
    columns = [f"{models:,} models", "written, processor s", "read", "bytes"]
    table = Table("files", "snapshots", columns, tolerance=TIMES)
    table.add("a file each", f"{single_write:.2f}", f"{single_read:.2f}", f"{size:,}")
    table.add("packed, one by one", f"{one_by_one:.2f}", f"{read_one_by_one:.2f}", "")
    sizes = f"{len(written):,}"
    table.add("packed, as columns", f"{by_columns:.2f}", f"{read_columns:.2f}", sizes)
    if not same:
        raise SystemExit("NOT the same states")


def _write_columns(path: Path, given: list[PackedState], block: int = 4096) -> float:
    """Write states as the job writes a block's; return the seconds."""
    taken = 0.0
    with path.open("wb") as handle:
        writer = PackedWriter(handle)
        for start in range(0, len(given), block):
            some = given[start : start + block]
            parts = [codec.parts_of(state.data) for state in some]
            columns = {name: np.stack([own[name] for _, own in parts]) for name in parts[0][1]}
            headers, names = [text for text, _ in parts], [state.model_id for state in some]
            begun = time.process_time()
            writer.add_columns(
                codec.TRACKER,
                names,
                [state.rows for state in some],
                [state.time for state in some],
                headers,
                columns,
            )
            taken += time.process_time() - begun
        begun = time.process_time()
        writer.close()
        taken += time.process_time() - begun
    return taken


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Read the flags and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=10, help="of each (default %(default)s)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--source", type=Path, metavar="FILE")
    parser.add_argument("--against", type=Path, nargs="+", default=[], metavar="CHECKOUT")
    parser.add_argument("--runner", choices=("yes", "no"), default="yes")
    parser.add_argument("--memory", type=int, nargs="+", metavar="N")
    parser.add_argument("--snapshots", type=int, metavar="N")
    args = parser.parse_args()
    if args.snapshots is not None:
        snapshots(args.snapshots)
        return 0
    if args.memory:
        columns = ["rows", "as Arrow", "partitions", "seconds", "processor seconds"]
        most = ["first process", "largest of the others"]
        table = Table("files", "partition_memory", [*columns, *most], tolerance=TIMES)
        for models in args.memory:
            memory(models, args.rows, max(args.workers), table)
        return 0
    return 0 if compare(args) else 1


if __name__ == "__main__":
    sys.exit(main())
