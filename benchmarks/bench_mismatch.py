"""How much the moving window saves: per row, against computing each window from scratch.

One run over 100,000 rows of motionsense (subject after subject, one model, 12 channels, rank 10,
budget 15, N = 100), in which the subspace moves with every row; and one in which nine rows of ten
are censored. Every 5,000 rows the brute forces compute the window from scratch, from the same
tracker state: κ(X, X), κ(S, X) and κ(S, S) anew, and K - K̂ by eliminating the subspace's r
directions, the ridge among them, from the Gram matrix of subspace and rows.

- "extended": in extended precision (80 bits), as the tests' oracle does. The moving window must
  agree with it to 1e-10 at every one of these steps, or the benchmark fails.
- "double": the same in double precision. The subspace of a slowly moving sensor is close to
  singular, and this loses digits: its largest difference from "extended" is printed.
- "double, SciPy": distances by `scipy.spatial.distance.cdist`.
- "window_mismatch": the project's own compiled measure of a single window.

The window's own time is that of tracker and window less that of the tracker alone. A brute
force's time is that of one step, the best of 5, averaged over the 20 steps.

Usage: `python benchmarks/bench_mismatch.py [rows]`; the folder of the data is `KERNELTRACK_DATA`.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from scipy.spatial.distance import cdist

from benchmarks.places import DATA
from benchmarks.record import TIMES, Table
from kerneltrack.arrays import FloatArray
from kerneltrack.monitor.mismatch import scaled_rows, window_mismatch
from kerneltrack.monitor.moving import MovingWindow
from kerneltrack.trackers import OKFEB, OKFEBSpec
from kerneltrack.trackers.common.state import RIDGE
from kerneltrack.trackers.okfeb.state import SubspaceState

Matrix = npt.NDArray[np.floating[Any]]
Distances = Callable[[Matrix, Matrix], Matrix]
Brute = Callable[[OKFEBSpec, SubspaceState, FloatArray], float]

ROWS = 100_000
LENGTH = 100
SAMPLES = 20
REPEATS = 5
AGREEMENT = 1e-10
CASES = {
    "every row moves the subspace": OKFEBSpec(rank=10, budget=15),
    "90 % of the rows censored": OKFEBSpec(rank=10, budget=15, censor="rate", censor_rate=0.9),
}


def read_rows(count: int) -> FloatArray:
    """Return the first rows of motionsense, subject after subject."""
    path = DATA / "motionsense.parquet"
    if not path.exists():
        sys.exit(f"skipped: no {path}; KERNELTRACK_DATA names the folder of the data sets")
    table = pq.read_table(path).sort_by([("model_id", "ascending"), ("time", "ascending")])
    table = table.drop_columns(["model_id", "time", "label"]).slice(0, count)
    return np.column_stack([column.to_numpy() for column in table.columns]).astype(np.float64)


def all_differences(left: Matrix, right: Matrix) -> Matrix:
    """Return squared distances, from an array of all differences."""
    gaps = left[:, None, :] - right[None, :, :]
    distances: Matrix = np.sum(gaps**2, axis=2)
    return distances


def by_scipy(left: Matrix, right: Matrix) -> Matrix:
    """Return squared distances by SciPy."""
    distances: Matrix = cdist(left, right, "sqeuclidean")
    return distances


def from_scratch(dtype: type[np.floating[Any]], distances: Distances) -> Brute:
    """Return a brute force that computes in a precision and takes its distances from a function."""

    def brute(spec: OKFEBSpec, state: SubspaceState, rows: FloatArray) -> float:
        gamma = dtype(state.bandwidth[0])
        window = scaled_rows(spec, state, rows).astype(dtype)
        stored = state.support[: state.size].astype(dtype)
        factor = state.factor[:, : state.size].T.astype(dtype)
        across = factor.T @ np.exp(-distances(stored, window) / gamma)
        inner = factor.T @ np.exp(-distances(stored, stored) / gamma) @ factor
        own = np.exp(-distances(window, window) / gamma)
        rank = factor.shape[1]
        ridge = dtype(state.reals[RIDGE]) * np.eye(rank, dtype=dtype)
        table = np.block([[inner + ridge, across], [across.T, own]])
        for _ in range(rank):
            best = int(np.argmax(np.diag(table)[:rank]))
            table = table - np.outer(table[:, best], table[best]) / table[best, best]
            table[best], table[:, best] = 0, 0
        return float(np.sqrt(np.sum(table[rank:, rank:] ** 2))) / len(rows)

    return brute


BRUTES: dict[str, Brute] = {
    "extended": from_scratch(np.longdouble, all_differences),
    "double": from_scratch(np.float64, all_differences),
    "double, SciPy": from_scratch(np.float64, by_scipy),
    "window_mismatch": lambda spec, state, rows: window_mismatch(spec, state, rows).value,
}


class Timing(NamedTuple):
    """One brute force: seconds a step and the largest difference from the first of them."""

    step: float
    difference: float


class Run(NamedTuple):
    """Seconds a row of the tracker alone and with the window, and every brute force."""

    alone: float
    both: float
    brutes: dict[str, Timing]


def time_step(
    brute: Brute, spec: OKFEBSpec, state: SubspaceState, rows: FloatArray
) -> tuple[float, float]:
    """Return the seconds of one step by brute force, the best of a few, and its result."""
    best, value = np.inf, np.nan
    for _ in range(REPEATS):
        start = time.perf_counter()
        value = brute(spec, state, rows)
        best = min(best, time.perf_counter() - start)
    return best, value


def measure(spec: OKFEBSpec, rows: FloatArray) -> Run:
    """Run tracker and window over all rows, and the brute forces at some of them."""
    tracker, moving = OKFEB(), MovingWindow(LENGTH)
    state = tracker.init(spec, rows[: spec.rows_to_start])
    window = moving.init(spec, state)
    # The first calls load the loops.
    tracker.update(spec, state, rows[:1])
    moving.update(spec, state, window, rows[:1])
    alone = both = 0.0
    times: dict[str, list[float]] = {name: [] for name in BRUTES}
    differences: dict[str, list[float]] = {name: [] for name in BRUTES}
    stops = np.linspace(0, len(rows), SAMPLES + 1).astype(int)
    for begin, end in itertools.pairwise(stops):
        start = time.perf_counter()
        tracker.update(spec, state, rows[begin:end])
        between = time.perf_counter()
        state, window, _, measured = moving.update(spec, state, window, rows[begin:end])
        alone += between - start
        both += time.perf_counter() - between
        last = rows[end - LENGTH : end]
        truth = BRUTES["extended"](spec, state, last)
        if not abs(truth - measured.value[-1]) <= AGREEMENT:
            raise ArithmeticError(f"row {end}: {truth} expected, {measured.value[-1]} found")
        for name, brute in BRUTES.items():
            step, value = time_step(brute, spec, state, last)
            times[name].append(step)
            differences[name].append(abs(value - truth))
    brutes = {name: Timing(float(np.mean(times[name])), max(differences[name])) for name in BRUTES}
    return Run(alone / len(rows), both / len(rows), brutes)


def main() -> None:
    """Print the table."""
    rows = read_rows(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
    print(f"{len(rows):,} rows x {rows.shape[1]}, N = {LENGTH}; microseconds a row")
    columns = ["rows", "by", "µs", "off by up to", "the window is faster", "with the tracker"]
    table = Table("speed", "window", columns, tolerance=TIMES)
    for title, spec in CASES.items():
        run = measure(spec, rows)
        own = run.both - run.alone
        table.add(title, "the tracker alone", f"{run.alone * 1e6:.1f}", "", "", "")
        table.add(title, "the moving window", f"{own * 1e6:.1f}", "", "", "")
        for name, timing in run.brutes.items():
            times = f"{timing.step / own:,.0f}", f"{(timing.step + run.alone) / run.both:,.0f}"
            table.add(title, name, f"{timing.step * 1e6:,.0f}", f"{timing.difference:.0e}", *times)


if __name__ == "__main__":
    main()
