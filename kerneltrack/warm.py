"""Compile the row loops ahead of the first row: `python -m kerneltrack.warm`."""

from __future__ import annotations

import logging
import time

import numpy as np

from kerneltrack.trackers import TRACKERS


def warm() -> float:
    """Compile every tracker's loop into Numba's cache and return the seconds it took."""
    begin = time.perf_counter()
    rows = np.random.default_rng(0).normal(size=(8, 2))
    for tracker in TRACKERS.values():
        spec = tracker.spec_type(rank=2, warmup=4)
        state = tracker.init(spec, rows)
        tracker.update(spec, state, rows, ("q", "s"))
        tracker.project(spec, state, rows)
    return time.perf_counter() - begin


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.info("row loops compiled in %.1f s", warm())
