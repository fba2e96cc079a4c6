"""The compiled core against the line-by-line OK-FEB of the tests, one process, interleaved.

    python benchmarks/bench_core.py [--check] [--rounds 15]

D = 39, r = 10, B = 15, Gaussian kernel. Both sides run the same rows from the same state; each
round times the two in turn, and the ratio of a round is what the machine's noise leaves alone:
reported are the medians. `--check` exits with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.record import TIMES, Table
from kerneltrack.trackers import OKFEB, OKFEBSpec
from tests.oracles import okfeb as oracle

Array = npt.NDArray[np.float64]

WIDTH, RANK, BUDGET = 39, 10, 15
ORACLE_ROWS, CORE_ROWS = 150, 20_000
NEVER, ALWAYS = 1e9, 0.0


class Case(NamedTuple):
    """One line of the table: what is emitted, whether rows are censored, the ratio to reach."""

    emit: str
    censored: bool
    goal: float


CASES = (
    Case("q", False, 20.0),
    Case("q", True, 60.0),
    Case("z", False, 6.0),
    Case("z", True, 40.0),
)


def stream(count: int) -> Array:
    """A random walk, folded: neighbours are alike, as in sensor data."""
    steps = np.random.default_rng(0).normal(scale=0.3, size=(count, WIDTH))
    return np.asarray(np.sin(np.cumsum(steps, axis=0)))


def seconds_of(work: Callable[[], Any]) -> float:
    """Wall time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure(case: Case, rounds: int) -> tuple[float, float, float]:
    """Return microseconds a row of oracle and core, and the ratio (medians over the rounds)."""
    spec = OKFEBSpec(
        rank=RANK,
        budget=BUDGET,
        gamma=2.0 * WIDTH,
        rule="nonparametric",
        step="inverse_norm",
        censor="fixed",
        threshold=NEVER if case.censored else ALWAYS,
        emit=case.emit,
        standardise=False,
    )
    tracker, rows = OKFEB(), stream(CORE_ROWS)
    state, _ = tracker.update(spec, tracker.init(spec, rows[:1]), rows[:500])
    tracker.update(spec, state, rows[:500])
    slow: list[float] = []
    fast: list[float] = []
    for _ in range(rounds):
        model = copy.deepcopy(oracle.from_state(spec, state))

        def line_by_line(model: oracle.Oracle = model) -> None:
            for x in rows[:ORACLE_ROWS]:
                model.update(x)

        slow.append(seconds_of(line_by_line) / ORACLE_ROWS)
        fast.append(seconds_of(lambda: tracker.update(spec, state, rows)) / CORE_ROWS)
    ratio = statistics.median(a / b for a, b in zip(slow, fast, strict=True))
    return statistics.median(slow) * 1e6, statistics.median(fast) * 1e6, ratio


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    missed = 0
    columns = ["features", "row", "oracle, µs", "core, µs", "ratio", "goal"]
    table = Table("okfeb", "core", columns, tolerance=TIMES)
    for case in CASES:
        slow, fast, ratio = measure(case, options.rounds)
        kind = "censored" if case.censored else "updated"
        missed += ratio < case.goal
        verdict = "" if ratio >= case.goal else ": missed"
        cells = f"{slow:.0f}", f"{fast:.2f}", f"{ratio:.0f}", f"{case.goal:.0f}{verdict}"
        table.add(case.emit, kind, *cells)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
