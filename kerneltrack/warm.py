"""Compile the row loops ahead of the first row: `python -m kerneltrack.warm` compiles all."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from kerneltrack.in_memory import learn_all
from kerneltrack.learners import TASKS
from kerneltrack.monitor.mismatch import stores_rows, window_mismatch
from kerneltrack.monitor.moving import ON_A_BUDGET, MovingWindow
from kerneltrack.registry import LEARNERS, TRACKERS, get_tracker


def warm_up(
    trackers: Iterable[str] = (),
    learners: Iterable[str] = (),
    mismatch: bool = False,
    moving: bool = False,
) -> float:
    """Compile loops into Numba's cache.

    Args:
        trackers: Names of the trackers whose loops are needed.
        learners: Names of the learners.
        mismatch: Whether the kernel mismatch of windows is needed.
        moving: Whether that of the moving window is.

    Returns:
        The seconds it took.
    """
    begin = time.perf_counter()
    rows = np.random.default_rng(0).normal(size=(8, 2))
    for name in trackers:
        tracker = get_tracker(name)
        spec = tracker.spec_type(rank=2, warmup=4)
        state, _ = tracker.update(spec, tracker.init(spec, rows), rows, ("q", "s"))
        tracker.project(spec, state, rows)
        if mismatch and stores_rows(tracker):
            window_mismatch(spec, state, rows)
        if moving and isinstance(spec, ON_A_BUDGET):
            window = MovingWindow(4)
            window.update(spec, state, window.init(spec, state), rows)
    for name in learners:
        learner = LEARNERS[name]
        for task in set(TASKS) & set(learner.spec_type.tasks):
            labels = list("abababab") if task == "classification" else rows[:, 0]
            told = learner.spec_type(task=task)
            made, said = learn_all(told, rows, labels)
            learner.score(told, made, said, labels)
    return time.perf_counter() - begin


def warm_all() -> float:
    """Compile all loops into Numba's cache, on all processors.

    Returns:
        The seconds it took.
    """
    begin = time.perf_counter()
    # Those of one folder share loops: one process takes them all.
    trackers, learners = _by_folder(TRACKERS), _by_folder(LEARNERS)
    with ProcessPoolExecutor() as pool:
        jobs = [pool.submit(warm_up, names, (), True, True) for names in trackers]
        jobs += [pool.submit(warm_up, (), names) for names in learners]
        for job in jobs:
            job.result()
    return time.perf_counter() - begin


def _by_folder(methods: Mapping[str, object]) -> list[list[str]]:
    """Return the names of methods whose modules lie in one folder, a list for each."""
    found: dict[str, list[str]] = {}
    for name, method in methods.items():
        found.setdefault(type(method).__module__.rpartition(".")[0], []).append(name)
    return list(found.values())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.info("row loops compiled in %.1f s", warm_all())
