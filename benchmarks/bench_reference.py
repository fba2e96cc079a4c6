"""What a row of a reference costs beside one of `okfeb`, and the bytes of its state.

    python -m benchmarks.bench_reference [--rounds 7]

A device whose channels follow a load with a day, beside noise of their own: a row each five
minutes, with two references each minute; 14 days go before the 40,000 rows that are timed. All of a
width take their turns in one process, processor time of one call; reported are medians over the
rounds, ratios those of each round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.signal import lfilter

import kerneltrack as kt
from benchmarks.record import TIMES, Table
from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.monitor.reference.paces import bytes_of

WIDTHS = (6, 8, 12)
DAYS, ROWS = 14, 40_000
MINUTE = 60 * 10**9
SPECS = {
    "first": ReferenceSpec(),
    "gated": ReferenceSpec(learning="gated"),
    "auto": ReferenceSpec(learning="auto"),
    "auto, two references": ReferenceSpec(learning="auto", also_every="5 minutes"),
}
TRACKER = kt.OKFEBSpec()


def device(width: int, count: int, step: int) -> tuple[FloatArray, IntArray]:
    """Return rows of D channels and their times, `step` ns apart."""
    drawn = np.random.default_rng(width)
    hours = np.arange(count) * (step / (60 * MINUTE))
    load = lfilter([0.3], [1.0, -0.9], drawn.normal(size=count))
    load += np.sin(2.0 * np.pi * hours / 24.0)
    rows = np.outer(load, drawn.normal(size=width)) + drawn.normal(size=(count, width))
    return rows, 1_770_000_000 * 10**9 + np.arange(count, dtype=np.int64) * step


def begun(spec: ReferenceSpec, width: int) -> Callable[[], Any]:
    """Return what holds the rows against a reference of 14 days."""
    step = MINUTE if spec.also_every else 5 * MINUTE
    before = DAYS * 24 * 60 * MINUTE // step
    rows, times = device(width, before + ROWS, step)
    state, *_ = reference.update(
        spec, reference.init(spec, rows[: spec.rows]), rows[:before], times[:before]
    )
    return lambda: reference.update(spec, state, rows[before:], times[before:])


def tracked(width: int) -> Callable[[], Any]:
    """Return what lets the tracker take as many rows in."""
    rows, _ = device(width, 2 * ROWS, 5 * MINUTE)
    tracker = kt.get_tracker(TRACKER.tracker)
    state, _ = tracker.update(TRACKER, tracker.init(TRACKER, rows[:512]), rows[:ROWS])
    return lambda: tracker.update(TRACKER, state, rows[ROWS:])


def main() -> None:
    """Print a line a width and reference."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    columns = ["D, reference", "µs a row", "in okfeb's", "bytes of state"]
    table = Table("reference", "cost", columns, tolerance=TIMES)
    for width in WIDTHS:
        things = {"okfeb": tracked(width), **{n: begun(s, width) for n, s in SPECS.items()}}
        spent: dict[str, list[float]] = {name: [] for name in things}
        for _ in range(rounds):
            for name, run in things.items():
                begin = time.process_time()
                run()
                spent[name].append((time.process_time() - begin) / ROWS * 1e6)
        for name, spec in SPECS.items():
            ratios = [a / b for a, b in zip(spent[name], spent["okfeb"], strict=True)]
            micros, ratio = statistics.median(spent[name]), statistics.median(ratios)
            size = f"{bytes_of(spec, width):,}"
            table.add(f"{width}, {name}", f"{micros:.2f}", f"{ratio:.2f}", size)


if __name__ == "__main__":
    main()
