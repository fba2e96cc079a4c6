"""Rounds against another checkout: the same work by two versions, in turns, in processor time.

    python benchmarks/bench_rounds.py --old CHECKOUT/.venv/bin/python [--pairs 9] [--cases NAME ...]
    python benchmarks/bench_rounds.py --calls
    python benchmarks/bench_rounds.py --old CHECKOUT/.venv/bin/python --gates

A case is a whole command on files, or a script in a process of its own; each pair runs the old and
the new one, the first of a pair in turns. Reported are medians of processor seconds (all processes
of a command), old over new as a geometric mean with its 95 % interval (Student's, of the pairs'
logarithms), and the largest peak of memory of a process.

`--gates`: what rows cost that a gate of the old one sent model by model (`gate_calls`).

`--calls`: what one call of the core costs beyond the compiled loops, for 1 and for 1,000 models of
one row each, in microseconds a model.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import t as student

from benchmarks import gate_calls
from benchmarks.places import BUILD, DATA
from benchmarks.record import TIMES, Table
from kerneltrack.fleet.begin import begin_each
from kerneltrack.fleet.model import Work
from kerneltrack.fleet.run import run_models, run_rows
from kerneltrack.fleet.windows import MeasuredWindows
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.native import binding
from kerneltrack.registry import parse_spec

OUT = BUILD / "rounds"
BEGINS, MINUTE = 1_770_000_000 * 10**9, 60 * 10**9

LEARN = """
import numpy as np, kerneltrack as kt
rows = np.cumsum(np.random.default_rng(0).normal(size=(40_000, 12)), axis=0) % 7
tracker = kt.Tracker(kt.OKFEBSpec(rank=10, budget=20))
for row in rows:
    tracker.learn(row)
"""
FLEET = """
import numpy as np, pyarrow as pa, kerneltrack as kt
rng = np.random.default_rng(0)
fleet = kt.Fleet(rank=10{more})
for at in range(1_500):
    times = pa.array([{begins} + at * {minute}], pa.timestamp("ns"))
    channels = {{f"x{{i}}": rng.normal(size=1) for i in range(6)}}
    fleet.update(pa.table({{"device": ["d"], "time": times, **channels}}), model_id="device",
                 time="time")
"""


class Case(NamedTuple):
    """Work of both versions.

    Attributes:
        table: Models, rows of each and the share of missing values of the table that is made; None:
            motionsense, or a script.
        flags: Of `kerneltrack track`.
        script: What runs instead of a command.
        first: Flags of a run before, whose snapshots `SNAPSHOTS` among the flags stands for; with
            `WARM` the later run's rows begin where its rows end.
    """

    table: tuple[int, int, float] | None = None
    flags: str = ""
    script: str = ""
    first: str = ""


SNAPSHOTS, WARM = "SNAPSHOTS", "--warm-start"
SMALL, HOLES = (2_000, 100, 0.0), (2_000, 100, 0.01)
CASES = {
    "motionsense": Case(flags="--model-id model_id --label label"),
    "100,000 x 10": Case((100_000, 10, 0.0)),
    "10,000 x 100, everything": Case(
        (10_000, 100, 0.01),
        "--missing hold --reference first --reference-rows 256 --window 600 --drift"
        " --label label --learner ridge",
    ),
    "windows": Case(SMALL, "--window 600"),
    "moving window": Case(SMALL, "--moving-window 20"),
    "reference": Case(SMALL, "--reference first --reference-rows 256"),
    "covariance, 1,000 x 1": Case((1_000, 1, 0.0), "--tracker covariance"),
    "reference until a time": Case(
        (500, 1_000, 0.0), "--reference first --reference-until 2026-02-02T14:00:00"
    ),
    "reference of a file": Case(
        SMALL, "--reference SNAPSHOTS", first="--reference first --reference-rows 256"
    ),
    "hold": Case(HOLES, "--missing hold"),
    "warm start": Case(SMALL, f"{WARM} SNAPSHOTS", first="--snapshot-every 1800"),
    "Fleet.update, a row a call": Case(script=FLEET.format(more="", begins=BEGINS, minute=MINUTE)),
    "Fleet.update with a reference": Case(
        script=FLEET.format(more=', reference="first"', begins=BEGINS, minute=MINUTE)
    ),
    "Tracker.learn": Case(script=LEARN),
}


class Spent(NamedTuple):
    """Processor seconds of a run, and the peak of memory of its largest process, MB."""

    seconds: float
    memory: float


def table_of(models: int, rows: int, missing: float, later: int = 0) -> Path:
    """Return the file of so many models and rows of six channels, in order of time.

    `later`: how many such tables have gone before.
    """
    path = OUT / f"{models}x{rows}-{missing}-{later}.parquet"
    if path.is_file():
        return path
    rng, count = np.random.default_rng(0), models * rows
    values = rng.normal(size=(count, 6))
    labels = np.where(values[:, 0] > 0, "a", "b")
    values[rng.random(values.shape) < missing] = np.nan
    minutes = np.repeat(np.arange(rows) + later * rows, models)
    times = pa.array(minutes * MINUTE + BEGINS, pa.timestamp("ns"))
    devices = np.tile([f"d{model:06d}" for model in range(models)], rows)
    channels = {f"x{i}": values[:, i] for i in range(6)}
    columns = {"device": devices, "time": times, **channels, "label": labels}
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def command_of(case: Case, python: Path, snapshots: Path) -> list[str]:
    """Return what runs a case with a checkout's Python."""
    if case.script:
        return [str(python), "-c", case.script]
    flags = case.flags.replace(SNAPSHOTS, str(snapshots / "snapshots"))
    return _track(case, python, flags, OUT / "output")


def _track(case: Case, python: Path, flags: str, output: Path) -> list[str]:
    rows = DATA / "motionsense.parquet"
    given = "--time time --neighbours 0 --overwrite"
    if case.table is not None:
        later = int(WARM in flags)
        rows, given = table_of(*case.table, later), f"--model-id device {given}"
    tool = python.parent / "kerneltrack"
    return [str(tool), "track", str(rows), *given.split(), *flags.split(), "--output", str(output)]


def run(command: Sequence[str]) -> Spent:
    """Run a command.

    Raises:
        RuntimeError: if it fails.
    """
    log = OUT / "log.txt"
    with log.open("w", encoding="utf-8") as sink:
        child = subprocess.Popen(command, stdout=sink, stderr=sink, cwd=OUT)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(command)}: {log.read_text(encoding='utf-8')[-600:]}")
    return Spent(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def compare(name: str, pythons: Sequence[Path], pairs: int, table: Table) -> None:
    """Run a case by both versions and add its row."""
    case, folders = CASES[name], [OUT / f"first-{at}" for at in range(2)]
    for python, folder in zip(pythons, folders, strict=True):
        if case.first:
            run(_track(case, python, case.first, folder))
    commands = [command_of(case, *each) for each in zip(pythons, folders, strict=True)]
    spent: tuple[list[Spent], list[Spent]] = ([], [])
    for pair in range(pairs):
        for at in (0, 1) if pair % 2 else (1, 0):
            spent[at].append(run(commands[at]))
    old, new = ([each.seconds for each in part] for part in spent)
    logs = np.log(np.array(old) / np.array(new))
    spread = float(student.ppf(0.975, pairs - 1) * logs.std(ddof=1) / np.sqrt(pairs))
    middle, low, high = (float(np.exp(logs.mean() + by)) for by in (0.0, -spread, spread))
    seconds = f"{statistics.median(old):.2f}", f"{statistics.median(new):.2f}"
    memory = (f"{max(each.memory for each in part):.0f}" for part in spent)
    table.add(name, *seconds, f"{middle:.2f} ({low:.2f} to {high:.2f})", *memory)


def gates(pythons: Sequence[Path]) -> None:
    """Print what rows cost a model where a gate was, by both versions, one row each and 100."""
    columns = ["1,000 models", "rows each", "old, µs a model", "new", "old / new"]
    table = Table("speed", "gates", columns, tolerance=TIMES)
    script = str(Path(gate_calls.__file__))
    for case, rows in itertools.product(gate_calls.CASES, (1, 100)):
        spent = [
            float(subprocess.check_output([python, script, case, str(rows)], text=True))
            for python in pythons
        ]
        micros = f"{spent[0]:.1f}", f"{spent[1]:.1f}"
        table.add(case, rows, *micros, f"{spent[0] / spent[1]:.1f}")


def works() -> dict[str, Work]:
    """Return what is done with the rows, by name."""
    spec, windows = parse_spec({"tracker": "okfeb"}), 10 * MINUTE
    return {
        "okfeb": Work(spec=spec),
        "covariance": Work(spec=parse_spec({"tracker": "covariance"})),
        "with a reference": Work(spec=spec, reference=ReferenceSpec()),
        "with drift": Work(spec=spec, drift=DriftSpec()),
        "with windows": Work(spec=spec, measure=MeasuredWindows(size=windows, period=windows)),
        "with a moving window": Work(spec=spec, measure=MeasuredWindows(moving=20)),
        "held": Work(spec=spec, hold=10 * MINUTE),
    }


def calls(repeats: int = 200) -> None:
    """Print what a call costs beyond the loops, for 1 and for 1,000 models."""
    loops = "of it the loops"
    columns = ["", "`run_rows`, one model", loops, "`run_models` of 1,000, a model", loops]
    table = Table("speed", "calls", columns, tolerance=TIMES)
    rng, models, rows = np.random.default_rng(0), 1_000, 40
    x = rng.normal(size=(models, rows + 1, 6))
    times = BEGINS + MINUTE * np.arange(rows + 1)
    for name, work in works().items():
        starts = np.arange(models) * rows
        first = x[:, :rows].reshape(-1, 6)
        keys = [str(model) for model in range(models)]
        many = begin_each(work, keys, first, starts, starts + rows)
        until = [-np.inf] * models
        run_models(many, first, np.tile(times[:rows], models), starts, starts + rows, until)
        model, each = many.model(0), np.arange(models)

        def alone(work: Work = work, model: Any = model) -> None:
            run_rows(work, "0", model, x[0, rows:], times[rows:], -np.inf)

        def together(many: Any = many, until: Any = until, each: Any = each) -> None:
            following = many.time + MINUTE
            run_models(many, x[:, rows], following, each, each + 1, until)

        one, block = timed(alone, repeats), timed(together, max(repeats // 20, 3))
        cells = [f"{us:.1f}" for us in (*one, *(us / models for us in block))]
        table.add(name, *cells)


def timed(work: Callable[[], None], repeats: int) -> tuple[float, float]:
    """Return microseconds of the fastest of some calls, and those of the loops in it."""
    found = binding._function
    inside = 0.0

    def watched(name: str) -> Callable[..., int]:
        loop = found(name)

        def called(*arguments: bytes) -> int:
            nonlocal inside
            begun = time.perf_counter()
            result = loop(*arguments)
            inside += time.perf_counter() - begun
            return result

        return called

    fastest = (np.inf, 0.0)
    with patch.object(binding, "_function", watched):
        for _ in range(repeats):
            inside, begun = 0.0, time.perf_counter()
            work()
            fastest = min(fastest, (time.perf_counter() - begun, inside))
    whole, loops = fastest
    return whole * 1e6, loops * 1e6


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--old", type=Path, help="Python of the other checkout")
    parser.add_argument("--new", type=Path, default=Path(sys.executable), help="that of this one")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--cases", nargs="+", choices=[*CASES], default=[*CASES])
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--gates", action="store_true")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    if options.calls:
        calls()
    if options.old is None:
        return
    if options.gates:
        gates((options.old.absolute(), options.new.absolute()))
        return
    columns = ["case", "old, s", "new, s", "old / new (95 %)", "MB, old", "new"]
    table = Table("speed", "pairs", columns, tolerance=TIMES)
    for name in options.cases:
        compare(name, (options.old.absolute(), options.new.absolute()), options.pairs, table)
    shutil.rmtree(OUT / "output", ignore_errors=True)


if __name__ == "__main__":
    main()
