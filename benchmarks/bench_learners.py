"""Learners: µs per row, and prequential accuracy and RMSE on tracked features.

`python benchmarks/bench_learners.py [--rank 10 40]` prints the tables; rank 160 takes half an
hour, nearly all of it in the tracker. The data sets' folder is `KERNELTRACK_DATA`, by default
`../shared/data` beside the project; tables whose data are not there are left out, saying so.

Beside each accuracy stands the same learner on a map that does not move: the tracker's subspace
as the first rows left it, that is a Nyström map on `rank` random landmarks.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.places import DATA
from benchmarks.record import EXACT, TIMES, Table
from kerneltrack.arrays import FloatArray
from kerneltrack.in_memory import learn_all, run_all
from kerneltrack.learners import (
    HingeSpec,
    LearnerSpec,
    LMSSpec,
    LogisticSpec,
    PegasosSpec,
    RidgeSpec,
)
from kerneltrack.registry import get_learner, get_tracker
from kerneltrack.trackers import Features, OKFEBSpec

CHANNELS = ("ax", "ay", "az", "wx", "wy", "wz")
CHUNK = 1000
REPEATS = 5
PROTOTYPE = {40: 0.595, 160: 0.652}
"""Recursive ridge on shuffled watch over 40 / 160 fixed random landmarks, before this code."""

CLASSIFIERS: dict[str, LearnerSpec] = {
    "ridge": RidgeSpec(),
    "ridge, no forgetting": RidgeSpec(forgetting=1.0),
    "logistic": LogisticSpec(),
    "hinge": HingeSpec(),
    "Pegasos": PegasosSpec(),
    "NLMS": LMSSpec(),
    "LMS": LMSSpec(normalised=False, step_size=0.1),
}
REGRESSORS: dict[str, LearnerSpec] = {
    "ridge": RidgeSpec(task="regression"),
    "ridge, no forgetting": RidgeSpec(task="regression", forgetting=1.0),
    "NLMS": LMSSpec(task="regression"),
    "LMS": LMSSpec(task="regression", normalised=False, step_size=0.1),
}
TRACKERS: dict[str, dict[str, Any]] = {
    "tracked": {},
    "tracked, nonparametric": {"rule": "nonparametric", "forgetting": 1.0},
}


def micros(spec: LearnerSpec, rank: int, classes: int) -> float:
    """Time a row in chunks of `CHUNK` rows, labels as strings: the fastest of `REPEATS` runs."""
    count = 20_000 if rank < 100 else 5_000
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(count, rank))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    labels = [f"class {code}" for code in rng.integers(0, classes, count)]
    learner = get_learner(spec.learner)
    best = np.inf
    for _ in range(REPEATS + 1):
        state = learner.init(spec, rank)
        begin = time.perf_counter()
        for start in range(0, count, CHUNK):
            chunk = slice(start, start + CHUNK)
            state, _ = learner.update(spec, state, rows[chunk], labels[chunk])
        best = min(best, time.perf_counter() - begin)
    return best / count * 1e6


def watch(count: int = 10_000) -> tuple[FloatArray, list[str]] | None:
    """Rows of the smart watch recordings in random order, with their exercise."""
    path = DATA / "watch.parquet"
    if not path.exists():
        return None
    table = pq.read_table(path)
    table = table.take(np.random.default_rng(0).permutation(table.num_rows)[:count])
    rows = np.column_stack([table[name].to_numpy().astype(np.float64) for name in CHANNELS])
    return rows, table["label"].to_pylist()


def regression(name: str) -> tuple[FloatArray, FloatArray] | None:
    """Rows and targets of a set whose last column is the target, in random order."""
    path = DATA / f"{name}.tsv.gz"
    if not path.exists():
        return None
    with gzip.open(path) as file:
        table = np.loadtxt(file, delimiter="\t", skiprows=1)
    np.random.default_rng(0).shuffle(table)
    return table[:, :-1], table[:, -1]


def features(rank: int, rows: FloatArray) -> Iterator[tuple[str, FloatArray]]:
    """The rows' features by name: under the moving subspaces, then under one that stays."""
    for name, options in TRACKERS.items():
        _, tracked = run_all(OKFEBSpec(rank=rank, budget=rank, **options), rows)
        yield name, _z(tracked)
    tracker, spec = get_tracker("okfeb"), OKFEBSpec(rank=rank, budget=rank, ridge=1e-6)
    state = tracker.init(spec, rows[: spec.rows_to_start])
    state, _ = tracker.update(spec, state, rows[:rank])
    yield "fixed map", _z(tracker.project(spec, state, rows))


def _z(tracked: Features) -> FloatArray:
    if tracked.z is None or not tracked.valid.all():
        raise ValueError("the data sets have no rows that a tracker refuses")
    return tracked.z


def accuracy(spec: LearnerSpec, rows: FloatArray, labels: list[str]) -> str:
    """Share of rows predicted correctly before they were learned."""
    counters = get_learner(spec.learner).counters(learn_all(spec, rows, labels)[0])
    return f"{counters['correct'] / counters['scored']:.3f}"


def rmse(spec: LearnerSpec, rows: FloatArray, targets: FloatArray) -> str:
    """Root of the mean squared error of predictions made before learning."""
    counters = get_learner(spec.learner).counters(learn_all(spec, rows, targets)[0])
    return f"{np.sqrt(counters['squared'] / counters['scored']):.5g}"


def show(
    name: str,
    title: str,
    head: list[str],
    lines: dict[str, list[str]],
    tolerance: float = EXACT,
) -> None:
    """Print a table under its title."""
    print(f"\n{title}")
    table = Table("features", name, ["", *head], tolerance=tolerance)
    for method, values in lines.items():
        table.add(method, *values)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rank", type=int, nargs="+", default=[40], help="of accuracies and RMSE")
    ranks = parser.parse_args().rank
    cells = [(rank, classes) for rank in (10, 160) for classes in (2, 7)]
    show(
        "times",
        f"µs per row, chunks of {CHUNK}, string labels",
        [f"r={rank}, C={classes}" for rank, classes in cells],
        {
            name: [f"{micros(spec, rank, classes):.2f}" for rank, classes in cells]
            for name, spec in CLASSIFIERS.items()
        },
        TIMES,
    )
    for rank in ranks:
        labelled = watch()
        if labelled is None:
            print(f"\nNo watch.parquet in {DATA}: accuracies left out")
        else:
            lines: dict[str, list[str]] = {name: [] for name in CLASSIFIERS}
            head = []
            for kind, z in features(rank, labelled[0]):
                head.append(kind)
                for name, spec in CLASSIFIERS.items():
                    lines[name].append(accuracy(spec, z, labelled[1]))
            known = (
                f" (a prototype's ridge, fixed map: {PROTOTYPE[rank]})" if rank in PROTOTYPE else ""
            )
            title = f"Accuracy on shuffled watch, 7 classes, r = B = {rank}{known}"
            show(f"watch_{rank}", title, head, lines)
        for data in ("cadata", "cpusmall"):
            measured = regression(data)
            if measured is None:
                print(f"\nNo {data}.tsv.gz in {DATA}: RMSE left out")
                continue
            lines = {name: [] for name in REGRESSORS}
            head = []
            for kind, z in features(rank, measured[0]):
                head.append(kind)
                for name, spec in REGRESSORS.items():
                    lines[name].append(rmse(spec, z, measured[1]))
            deviation = f"{measured[1].std():.5g}"
            title = f"RMSE on {data}, r = B = {rank} (the mean alone: {deviation})"
            show(f"{data}_{rank}", title, head, lines)


if __name__ == "__main__":
    main()
