"""What the covariance tracker costs, beside OK-FEB and against its budget.

    python benchmarks/bench_covariance.py [--quick] [--check]

r = 10, B = 15, D = 12, Gaussian kernel, aligned features: an admitted row and a refused one of
both trackers, and 10 % of the rows admitted by leverage against every row by OK-FEB. Then an
admitted row at r = 10 for budgets up to 320, and the slope of its cost in a log-log fit. Rounds
are interleaved; reported are medians of each round's ratio. `--check` exits with 1 if a goal is
missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.record import TIMES, Table
from kerneltrack.registry import get_tracker
from kerneltrack.trackers import CovarianceSpec, OKFEBSpec
from kerneltrack.trackers.common.spec import SubspaceSpec

Array = npt.NDArray[np.float64]

WIDTH, RANK, BUDGET = 12, 10, 15
BUDGETS = (20, 40, 80, 160, 320)
NEVER = 1e9
MOST = {"admitted": 5.0, "refused": 1.2, "10 % admitted": 1.0}
"""Goals: cost of the covariance tracker over that of OK-FEB."""
STEEPEST = 2.2
"""Goal: slope of an admitted row's cost in the budget; the last three budgets are fitted."""

SIZES: dict[str, Any] = {
    "rank": RANK,
    "budget": BUDGET,
    "gamma": 2.0 * WIDTH,
    "standardise": False,
}
PAIRS: dict[str, tuple[SubspaceSpec, SubspaceSpec]] = {
    "admitted": (CovarianceSpec(**SIZES, halflife=50.0), OKFEBSpec(**SIZES)),
    "refused": (
        CovarianceSpec(**SIZES, admission="fixed", threshold=NEVER),
        OKFEBSpec(**SIZES, censor="fixed", threshold=NEVER),
    ),
    "10 % admitted": (
        CovarianceSpec(**SIZES, admission="leverage", halflife=500.0),
        OKFEBSpec(**SIZES),
    ),
}


class Timed(NamedTuple):
    """Microseconds a row of both, and their ratio: medians over the rounds."""

    ours: float
    theirs: float
    ratio: float


def stream(count: int) -> Array:
    """A random walk, folded: neighbours are alike, as in sensor data."""
    steps = np.random.default_rng(0).normal(scale=0.3, size=(count, WIDTH))
    return np.asarray(np.sin(np.cumsum(steps, axis=0)))


class Runner:
    """A tracker that has filled its budget, and rows to time it on."""

    def __init__(self, spec: SubspaceSpec, rows: Array, first: int) -> None:
        """Run the first rows."""
        self._spec, self._tracker, self._rows = spec, get_tracker(spec.tracker), rows[first:]
        state = self._tracker.init(spec, rows[:1])
        self._state, _ = self._tracker.update(spec, state, rows[:first])

    def seconds(self) -> float:
        """Processor time of a row: what else the machine does is left out."""
        begin = time.process_time()
        self._tracker.update(self._spec, self._state, self._rows)
        return (time.process_time() - begin) / len(self._rows)


def compare(pair: tuple[SubspaceSpec, SubspaceSpec], rows: Array, rounds: int) -> Timed:
    """Time both in turn."""
    runners = [Runner(spec, rows, 1_000) for spec in pair]
    times = [[runner.seconds() for runner in runners] for _ in range(rounds)]
    ours, theirs = (statistics.median(column) * 1e6 for column in zip(*times, strict=True))
    return Timed(ours, theirs, statistics.median(a / b for a, b in times))


def growth(rounds: int, quick: bool) -> tuple[dict[int, float], float]:
    """Return microseconds an admitted row by budget, and the slope."""
    rows = stream(2_000)
    runners = {}
    for budget in BUDGETS:
        spec = CovarianceSpec(**{**SIZES, "budget": budget, "halflife": 2.0 * budget})
        count = budget + 50 + (100 if quick else 400)
        runners[budget] = Runner(spec, rows[:count], budget + 50)
    times = [[runner.seconds() for runner in runners.values()] for _ in range(rounds)]
    costs = [statistics.median(column) * 1e6 for column in zip(*times, strict=True)]
    slope = float(np.polyfit(np.log(BUDGETS[-3:]), np.log(costs[-3:]), 1)[0])
    return dict(zip(BUDGETS, costs, strict=True)), slope


def main() -> int:
    """Print the tables; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    options = parser.parse_args()
    rounds = 5 if options.quick else 15
    rows = stream(3_000 if options.quick else 11_000)
    missed = 0
    columns = ["row", "covariance, µs", "OK-FEB, µs", "ratio", "goal"]
    table = Table("covariance", "cost", columns, tolerance=TIMES)
    for name, pair in PAIRS.items():
        timed = compare(pair, rows, rounds)
        late = timed.ratio > MOST[name]
        missed += late
        cells = [f"{each:.2f}" for each in (timed.ours, timed.theirs, timed.ratio)]
        table.add(name, *cells, f"{MOST[name]:g}{': missed' if late else ''}")
    costs, slope = growth(rounds, options.quick)
    missed += slope > STEEPEST
    heads = ["", *(f"B = {budget}" for budget in costs), f"slope from B = {BUDGETS[-3]} on", "goal"]
    verdict = ": missed" if slope > STEEPEST else ""
    growing = Table("covariance", "growth", heads, tolerance=TIMES)
    cells = [f"{cost:.1f}" for cost in costs.values()]
    growing.add("µs a row", *cells, f"{slope:.2f}", f"{STEEPEST:.1f}{verdict}")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
