"""The half-life "auto" of the covariance tracker against the best half-life in hindsight.

    python benchmarks/bench_memories.py [--sets watch ...] [--rows 6000]

The streams are those of `defaults_sets`, each in its own order and shuffled (seed 0), r = 10 and
B = 20. Of each the mean fitting error from row 500 on, with half-lives of B/2, 2B and 8B rows, with
none, and with "auto": by how much it is above the best of the four, and above the other three.
Exits with 1 if "auto" is above the best by more than half a per cent on the average, or 2 % on one.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from benchmarks.defaults_sets import DATA_SETS, ORDERS, ordered, whole
from benchmarks.record import Table
from kerneltrack.in_memory import run_all
from kerneltrack.trackers import CovarianceSpec

RANK, BUDGET, FIRST = 10, 20, 500
LIVES: tuple[float | str | None, ...] = (BUDGET / 2, 2.0 * BUDGET, 8.0 * BUDGET, None, "auto")
MEAN_GOAL, LARGEST_GOAL = 0.005, 0.02


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=DATA_SETS, default=list(DATA_SETS[:-1]))
    parser.add_argument("--rows", type=int, default=6_000, help="most rows of a stream")
    options = parser.parse_args()
    above: list[list[float]] = []
    seconds = np.zeros(len(LIVES))
    table = Table("covariance", "memories_streams", ["", "best", "error", *map(str, LIVES)])
    for name in options.sets:
        rows = whole(name)
        for order in ORDERS:
            stream = ordered(rows, order, 0, options.rows)
            errors = []
            for place, life in enumerate(LIVES):
                spec = CovarianceSpec(rank=RANK, budget=BUDGET, halflife=life)
                begin = time.process_time()
                _, features = run_all(spec, stream.rows)
                seconds[place] += time.process_time() - begin
                errors.append(float(features.loss[FIRST:].mean()))
            best = int(np.argmin(errors[:-1]))
            above.append([error / errors[best] - 1.0 for error in errors])
            cells = (f"{100 * share:.2f} %" for share in above[-1])
            table.add(f"{name}, {order}", LIVES[best], f"{errors[best]:.4f}", *cells)
    shares = np.array(above)
    sums = Table("covariance", "memories", ["", *map(str, LIVES)])
    figures = {"mean": shares.mean(axis=0), "largest": shares.max(axis=0)}
    for title, values in {**figures, "least": shares.min(axis=0)}.items():
        sums.add(title, *(f"{100 * value:.2f} %" for value in values))
    print(f"\ntime of auto beside one memory: {seconds[-1] / seconds[:-1].mean():.2f}")
    mean, largest = float(shares[:, -1].mean()), float(shares[:, -1].max())
    return int(mean > MEAN_GOAL or largest > LARGEST_GOAL)


if __name__ == "__main__":
    sys.exit(main())
