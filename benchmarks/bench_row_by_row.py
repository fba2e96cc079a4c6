"""What a call of `kerneltrack.Tracker.learn` costs over the row loop.

Both in one process, in turns, so that a busy machine slows both: medians of rounds, µs a row of
processor time.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

import kerneltrack as kt
from benchmarks.record import TIMES, Table

ROWS, ROUNDS, WIDTH = 20_000, 7, 12
GOAL = 10.0


def main() -> None:
    """Print a line a tracker."""
    rows = np.cumsum(np.random.default_rng(0).normal(size=(2 * ROWS, WIDTH)), axis=0) % 7
    columns = ["µs a row", "loop", "a row a call", "the call's own", f"goal: at most {GOAL:g}"]
    table = Table("speed", "row_by_row", columns, tolerance=TIMES)
    for name, spec in (
        ("okfeb", kt.OKFEBSpec(rank=10, budget=20)),
        ("covariance", kt.CovarianceSpec(rank=10, budget=20)),
        ("oana", kt.OANASpec(rank=10, budget=20)),
    ):
        loops, calls = [], []
        for _ in range(ROUNDS):
            tracker = kt.Tracker(spec)
            for row in rows[:ROWS]:
                tracker.learn(row)
            state, later = tracker.state, rows[ROWS:]
            begun = time.process_time()
            kt.get_tracker(spec.tracker).update(spec, state, later)
            loops.append((time.process_time() - begun) / ROWS * 1e6)
            begun = time.process_time()
            for row in later:
                tracker.learn(row)
            calls.append((time.process_time() - begun) / ROWS * 1e6)
        own = statistics.median(call - loop for call, loop in zip(calls, loops, strict=True))
        loop, call = statistics.median(loops), statistics.median(calls)
        met = "met" if own <= GOAL else "missed"
        table.add(name, f"{loop:.2f}", f"{call:.2f}", f"{own:.2f}", met)


if __name__ == "__main__":
    main()
