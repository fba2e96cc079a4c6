"""A second drift detector, on the rows' mean discrepancy in random features: is it worth its place?

    python -m benchmarks.bench_discrepancy [--sets motionsense watch spheroids]

The project's detector on the tracker's loss, the same detector on `mean_discrepancy` (which takes
no tracker), and both with higher thresholds, an alert of either counting. Changes, delays and false
alarms are counted as in `bench_drift`. Thresholds and memory were chosen on every second subject of
motionsense, for the most changes found with about as many false alarms as the loss has. The other
subjects, watch (where an exercise begins or ends) and the two spheroids had no say.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.bench_drift import (
    CHANGES,
    COLUMNS,
    OWNED,
    Case,
    Detector,
    Score,
    by_spec,
    cells,
    changing,
    labelled,
    score,
)
from benchmarks.mean_discrepancy import discrepancies
from benchmarks.record import Table
from kerneltrack.arrays import FloatArray
from kerneltrack.in_memory import run_all
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.trackers import OKFEBSpec

MEMORY, SEEDS = 200, 4
ALONE, LOSS, DISCREPANCY = 16.0, 10.0, 24.0
"""Thresholds: of the discrepancy alone; of both, where either raises an alert."""
SETS = ("motionsense", "watch", "spheroids")
Rows = Mapping[str, tuple[FloatArray, Case]]


def streams(name: str) -> dict[str, Rows]:
    """Return a set's streams by what they are for: rows and case of each model."""
    if name == "spheroids":
        return {name: {str(seed): _spheroid(seed) for seed in range(SEEDS)}}
    models = labelled(name)
    if name == "watch" or not models:
        return {name: models}
    names = sorted(models)
    halves = {"chosen on": names[::2], "held out": names[1::2]}
    return {f"{name}, {half}": {one: models[one] for one in own} for half, own in halves.items()}


def _spheroid(seed: int) -> tuple[FloatArray, Case]:
    rows, changes = changing(seed)
    loss = run_all(OKFEBSpec(rank=10, emit="q", seed=seed), rows)[1].loss
    return rows, Case(loss, changes, ["new", "back"] * (CHANGES // 2))


class Compared(NamedTuple):
    """Scores by detector, and the µs a row of the discrepancies."""

    scores: dict[str, Score]
    micros: float


def compare(table: Table, name: str, models: Rows) -> Compared:
    """Add a line for each detector."""
    begin = time.process_time()
    series = {id(case.losses): discrepancies(rows, MEMORY) for rows, case in models.values()}
    spent = time.process_time() - begin
    own, loss, apart, alone = (
        by_spec(spec)
        for spec in (
            DriftSpec(),
            DriftSpec(threshold=LOSS),
            DriftSpec(threshold=DISCREPANCY),
            DriftSpec(threshold=ALONE),
        )
    )
    detectors: dict[str, Detector] = {
        "loss": own,
        "discrepancy": lambda losses: alone(series[id(losses)]),
        "either": lambda losses: np.union1d(loss(losses), apart(series[id(losses)])),
    }
    cases = [case for _, case in models.values()]
    scores = {detector: score(detect, cases) for detector, detect in detectors.items()}
    for detector, result in scores.items():
        table.add(f"{name}: {detector}", len(result.delays), *cells(result))
    return Compared(scores, spent / sum(len(case.losses) for case in cases) * 1e6)


def show_kinds(halves: Sequence[Mapping[str, Score]]) -> None:
    """Write which of motionsense's changes each detector finds within `OWNED` rows."""
    kinds = np.concatenate([half["loss"].kinds for half in halves])
    found = {
        detector: np.concatenate([half[detector].delays <= OWNED for half in halves])
        for detector in halves[0]
    }
    table = Table("drift", "discrepancy_changes", ["change", "number", *found])
    for kind in np.unique(kinds):
        here = kinds == kind
        table.add(kind, here.sum(), *(each[here].sum() for each in found.values()))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    table = Table("drift", "discrepancy", ["stream: detector", "changes", *COLUMNS])
    found: dict[str, Compared] = {}
    for name in parser.parse_args().sets:
        for stream, models in streams(name).items():
            if models:
                found[stream] = compare(table, stream, models)
            else:
                print(f"{name} left out: it is not there")
    if halves := [each.scores for name, each in found.items() if name.startswith("motionsense")]:
        show_kinds(halves)
    micros = max((each.micros for each in found.values()), default=0.0)
    print(f"the discrepancies take {micros:.1f} µs a row in NumPy")
    return 0


if __name__ == "__main__":
    sys.exit(main())
