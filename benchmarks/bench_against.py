"""This code against another checkout of it: µs a row of every tracker and learner, and accuracy.

    python benchmarks/bench_against.py FOLDER [--python PYTHON] [--rounds 9] [--accuracy]

FOLDER is a checkout, PYTHON an interpreter that has what it needs (by default FOLDER/.venv's). Each
side runs in a process of its own, asked in turns, so that a round's ratio is what the machine's
noise leaves alone: reported are medians of processor time, and of the ratios. The rows are those of
bench_speed, at its sizes and two more.

With `--accuracy` instead: prequential accuracy of ridge on OK-FEB's z, over six streams, two sizes
and three memories. Both sides make as many runs as there are rounds, each on rows that are moved by
1e-7 of themselves: the runs' spread is what chaos makes of rounding.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import TIMES, Table

ROOT = Path(__file__).resolve().parents[1]
SIZES = ((10, 15), (10, 20), (20, 40), (50, 100))
STREAMS = tuple(
    "motionsense_1 motionsense_2 motionsense_3 watch_ordered watch_shuffled elec2".split()
)
CELLS = ((10, 15), (20, 40))
ROWS, SETTLED = 8_000, 100
SLIGHT = 1e-7


class Side:
    """One checkout, in a process that answers questions."""

    def __init__(self, folder: Path, python: Path) -> None:
        """Start the process."""
        environment = {**os.environ, "PYTHONPATH": str(folder), "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [str(python), __file__, "--answer"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **question: Any) -> Any:
        """Return the answer to a question."""
        if self._process.stdin is None or self._process.stdout is None:
            raise ValueError("no pipes")
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate("", timeout=60)


def answer() -> None:
    """Answer questions until there are no more."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asked = _Asked()
    for line in sys.stdin:
        question = json.loads(line)
        found = getattr(asked, question.pop("what"))(**question)
        print(json.dumps(found), file=out, flush=True)


class _Asked:
    """What one side can be asked; of both checkouts only what both have is used."""

    def __init__(self) -> None:
        self._things: dict[tuple[int, str], Any] = {}

    def names(self, rank: int, budget: int) -> list[str]:
        """Make everything of one size; its names."""
        import benchmarks.bench_speed as speed  # noqa: PLC0415 - that of the side's checkout
        from kerneltrack.in_memory import run_all  # noqa: PLC0415
        from kerneltrack.registry import LEARNERS  # noqa: PLC0415

        speed.FEATURES.update({15: 128, 40: 256})
        rows = speed.stream(speed.FIRST + 4_000)
        drawn = np.random.default_rng(1).integers(0, speed.CLASSES, size=len(rows))
        labels = [speed.NAMES[code] for code in drawn]
        z = np.asarray(run_all(speed.tracker_spec("okfeb", rank, budget), rows)[1].z)
        made = [
            *speed.trackers(rank, budget, rows),
            *speed.learners(LEARNERS, budget, rows, z, labels),
        ]
        self._things.update({(budget, each.name): each for each in made})
        return [each.name for each in made]

    def seconds(self, budget: int, name: str, count: int) -> float:
        """Time so many rows, or as many as the thing takes at once: seconds a row."""
        import benchmarks.bench_speed as speed  # noqa: PLC0415 - that of the side's checkout

        thing = self._things[budget, name]
        count = max(min(count, thing.most) // thing.step, 1) * thing.step
        return float(speed.seconds(thing, count))

    def accuracy(self, stream: str, rank: int, budget: int, seed: int) -> list[float]:
        """Return the accuracy of ridge on z, at three memories; seed 0 leaves the rows alone."""
        from benchmarks import tracker_sets  # noqa: PLC0415
        from kerneltrack.in_memory import learn_all, run_all  # noqa: PLC0415
        from kerneltrack.learners import RidgeSpec  # noqa: PLC0415
        from kerneltrack.trackers import OKFEBSpec  # noqa: PLC0415

        data = tracker_sets.make(stream, 0, ROWS)
        labels = list(data.labels)
        rows = np.ascontiguousarray(data.rows)
        if seed:
            rows = rows * (1 + SLIGHT * np.random.default_rng(seed).normal(size=rows.shape))
        z = np.asarray(run_all(OKFEBSpec(rank=rank, budget=budget), rows)[1].z)
        found = []
        for memory in (1 - 1 / budget, 0.998, 1.0):
            _, reported = learn_all(RidgeSpec(ridge=0.01, forgetting=memory), z, labels)
            hits = [name == label for name, label in zip(reported.names, labels, strict=True)]
            found.append(float(np.mean(hits[SETTLED:])))
        return found


def speeds(new: Side, old: Side, rounds: int) -> None:
    """Print the table of µs a row."""
    table = Table(
        "speed", "against", ["", "B", "µs before", "now", "before / now"], tolerance=TIMES
    )
    for rank, budget in SIZES:
        shared = set(old.ask(what="names", rank=rank, budget=budget))
        names = [n for n in new.ask(what="names", rank=rank, budget=budget) if n in shared]
        for name in names:
            counts = {}
            for side in (new, old):
                once = min(
                    side.ask(what="seconds", budget=budget, name=name, count=50) for _ in range(2)
                )
                counts[side] = int(0.05 / max(once, 1e-8))
            pairs = []
            for _ in range(rounds):
                each = [
                    side.ask(what="seconds", budget=budget, name=name, count=counts[side])
                    for side in (old, new)
                ]
                pairs.append((each[0] * 1e6, each[1] * 1e6))
            before, now = (statistics.median(column) for column in zip(*pairs, strict=True))
            ratio = statistics.median(a / b for a, b in pairs)
            table.add(name, budget, f"{before:.3g}", f"{now:.3g}", f"{ratio:.3g}")


def accuracies(new: Side, old: Side, runs: int) -> None:
    """Print the table of accuracies, means over runs on rows that differ by 1e-7 of themselves."""
    columns = ["", "(r, B)", "before: 1 - 1/B, .998, 1", "now"]
    table = Table("features", "against", columns)
    found: list[list[np.ndarray[Any, Any]]] = [[], []]
    for stream in STREAMS:
        for rank, budget in CELLS:
            ask = {"what": "accuracy", "stream": stream, "rank": rank, "budget": budget}
            for side, reported in zip((old, new), found, strict=True):
                reported.append(np.array([side.ask(**ask, seed=seed) for seed in range(runs)]))
            means = [", ".join(f"{x:.4f}" for x in reported[-1].mean(axis=0)) for reported in found]
            table.add(stream, f"({rank}, {budget})", *means)
    # (cells, runs, memories): a run's mean over the cells, then mean and spread of the runs.
    for name, reported in zip(("before", "now"), found, strict=True):
        means = np.mean(reported, axis=0)
        spread = ", ".join(
            f"{mean:.4f} ({low:.4f} to {high:.4f})"
            for mean, low, high in zip(
                means.mean(axis=0), means.min(axis=0), means.max(axis=0), strict=True
            )
        )
        print(f"\nMean of the cells {name}, and the runs' least and most: {spread}")


def main() -> int:
    """Print the tables."""
    if sys.argv[1:] == ["--answer"]:
        answer()
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--accuracy", action="store_true")
    args = parser.parse_args()
    folder = args.folder.resolve()
    new = Side(ROOT, Path(sys.executable))
    old = Side(folder, (args.python or folder / ".venv" / "bin" / "python").absolute())
    (accuracies if args.accuracy else speeds)(new, old, args.rounds)
    new.close()
    old.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
