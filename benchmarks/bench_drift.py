"""Drift alerts on streams whose changes are known: how many are found, when, and false alarms.

    python -m benchmarks.bench_drift [--seeds FIRST COUNT] [--no-motionsense]

The two-spheroid stream: 12,000 rows uniform on a spheroid stretched along x, then 2,000 on one
stretched along y, and so on in turn: eight changes, eight seeds (0 to 7). False alarms are counted
on rows 2,001 to 12,000. motionsense: 16 subjects, each a model; its changes are those of the label
along time. The detector sees the losses only. An alert up to 500 rows after a change is that
change's, each other one is false. A delay counts the rows from the first of the new regime to the
alert.

Beside the project's detector stand river's own on the plain loss of each row.

It exits with 1 if, tracked by default, a change of the spheroids is not found within 100 rows, or
more than one alert of a seed is false. The folder of the data is `KERNELTRACK_DATA`; tables whose
data are not there are left out, saying so.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from river.drift import ADWIN, PageHinkley

from benchmarks.places import DATA
from benchmarks.record import Table
from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.in_memory import run_all
from kerneltrack.monitor import drift
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.trackers import OKFEBSpec
from tests.oracles.streams import spheroid

Detector = Callable[[FloatArray], IntArray]

STATIC, CHANGES, BETWEEN = 12_000, 8, 2_000
LEARNED = 2_000
WITHIN = 100
OWNED = 500
HORIZONS = (100, 250, 500)
COLUMNS = (*(f"within {rows}" for rows in HORIZONS), "median delay", "false in 10,000")
MOST_FALSE = 1
DEFAULT_TRACKER = "default: r = 10, B = 20"


def _paper(budget: int, **fields: Any) -> dict[str, Any]:
    """Return the settings of the paper's experiment (section VII-B)."""
    common = {"rule": "nonparametric", "step": "inverse_norm", "gamma": 2.0, "standardise": False}
    return {"budget": budget, **common, **fields}


TRACKERS: dict[str, dict[str, Any]] = {
    DEFAULT_TRACKER: {},
    "default, B = 50": {"budget": 50},
    "paper, B = 20, β = 1": _paper(20, forgetting=1.0),
    "paper, B = 20, β = .9": _paper(20, forgetting=0.9),
    "paper, B = 20, FIFO": _paper(20, policy="fifo"),
    "paper, B = 50, β = 1": _paper(50, forgetting=1.0),
    "paper, B = 50, β = .9": _paper(50, forgetting=0.9),
    "paper, B = 50, FIFO": _paper(50, policy="fifo"),
}


class Case(NamedTuple):
    """Losses of one model, the first rows of its regimes but the first, and their names."""

    losses: FloatArray
    changes: IntArray
    kinds: list[str]


class Score(NamedTuple):
    """How a detector did on some cases.

    Attributes:
        delays: Rows to the first alert of each change, NaN where there is none within 500.
        since: Rows from the last alert before each change to it, infinite where there is none.
        kinds: The changes' names.
        false: Rows of the false alarms, by case.
        rows: Rows of all cases.
        seconds: Time of all cases.
    """

    delays: FloatArray
    since: FloatArray
    kinds: npt.NDArray[np.str_]
    false: list[IntArray]
    rows: int
    seconds: float

    def found(self, within: int) -> float:
        """Return the share of changes found within so many rows."""
        return float(np.mean(self.delays <= within))


def by_spec(spec: DriftSpec) -> Detector:
    """Return the project's detector."""

    def detect(losses: FloatArray) -> IntArray:
        return drift.update(spec, drift.init(spec), losses, np.arange(len(losses)))[1].index

    return detect


def by_river(make: Callable[[], Any]) -> Detector:
    """Return a detector of river's, row by row on the plain loss."""

    def detect(losses: FloatArray) -> IntArray:
        machine, found = make(), []
        for row, loss in enumerate(losses.tolist()):
            machine.update(loss)
            if machine.drift_detected:
                found.append(row)
        return np.array(found, dtype=np.int64)

    return detect


DETECTORS: dict[str, Detector] = {
    "default": by_spec(DriftSpec()),
    "threshold 12": by_spec(DriftSpec(threshold=12.0)),
    "block 5, clip 4, delta 1, threshold 3": by_spec(
        DriftSpec(block=5, clip=4.0, delta=1.0, threshold=3.0)
    ),
    "Page-Hinkley on ℓ, threshold 5, delta .05": by_river(
        functools.partial(PageHinkley, threshold=5.0, delta=0.05)
    ),
    "Page-Hinkley on ℓ, threshold 10, delta .1": by_river(
        functools.partial(PageHinkley, threshold=10.0, delta=0.1)
    ),
    "ADWIN on ℓ, delta 2e-3": by_river(ADWIN),
    "ADWIN on ℓ, delta 1e-6": by_river(functools.partial(ADWIN, delta=1e-6)),
}


def changing(seed: int) -> tuple[FloatArray, IntArray]:
    """Return rows of the two-spheroid stream, and the first rows of its regimes but the first."""
    counts = [STATIC] + [BETWEEN] * CHANGES
    rng = np.random.default_rng(seed)
    rows = np.vstack([spheroid(rng, count, axis=k % 2) for k, count in enumerate(counts)])
    return rows, np.cumsum(counts)[:-1]


def spheroids(seeds: range) -> dict[str, list[Case]]:
    """Track the two-spheroid stream with each tracker: a case a seed."""
    kinds = ["new" if place % 2 == 0 else "back" for place in range(CHANGES)]
    cases: dict[str, list[Case]] = {name: [] for name in TRACKERS}
    for seed in seeds:
        rows, changes = changing(seed)
        for name, fields in TRACKERS.items():
            spec = OKFEBSpec(rank=10, emit="q", seed=seed, **fields)
            cases[name].append(Case(run_all(spec, rows)[1].loss, changes, kinds))
    return cases


def motionsense() -> dict[str, Case]:
    """Track motionsense's subjects, r = 10, B = 15; empty without the data."""
    return {name: case for name, (_, case) in labelled("motionsense").items()}


def labelled(name: str) -> dict[str, tuple[FloatArray, Case]]:
    """Track a labelled set's models, r = 10, B = 15: rows and case; empty without the data."""
    path = DATA / f"{name}.parquet"
    if not path.exists():
        return {}
    table = pq.read_table(path).sort_by([("model_id", "ascending"), ("time", "ascending")])
    models, labels = (np.array(table[name].to_pylist()) for name in ("model_id", "label"))
    channels = table.drop_columns(["model_id", "time", "label"]).columns
    rows = np.column_stack([channel.to_numpy() for channel in channels]).astype(np.float64)
    cases = {}
    for model in np.unique(models):
        own = models == model
        label = labels[own]
        _, features = run_all(OKFEBSpec(rank=10, budget=15, emit="q"), rows[own])
        changes = np.flatnonzero(label[1:] != label[:-1]) + 1
        kinds = [f"{label[row - 1]} to {label[row]}" for row in changes]
        cases[str(model)] = rows[own], Case(features.loss, changes, kinds)
    return cases


def score(detector: Detector, cases: Iterable[Case]) -> Score:
    """Run a detector and hold its alerts against the changes."""
    delays: list[float] = []
    since: list[float] = []
    kinds: list[str] = []
    false, rows, seconds = [], 0, 0.0
    for case in cases:
        start = time.perf_counter()
        alerts = detector(case.losses)
        seconds += time.perf_counter() - start
        rows += len(case.losses)
        owned = np.zeros(len(alerts), dtype=bool)
        for change in case.changes:
            own = (alerts >= change) & (alerts < change + OWNED)
            owned |= own
            delays.append(float(alerts[own][0] - change + 1) if own.any() else np.nan)
            earlier = alerts[alerts < change]
            since.append(float(change - earlier[-1]) if len(earlier) else np.inf)
        false.append(alerts[~owned])
        kinds += case.kinds
    return Score(np.array(delays), np.array(since), np.array(kinds), false, rows, seconds)


def static_false(result: Score) -> list[int]:
    """Count the false alarms of each seed on its 10,000 static rows."""
    return [int(((rows >= LEARNED) & (rows < STATIC)).sum()) for rows in result.false]


def quantile(delays: FloatArray, share: float) -> str:
    """Return a quantile of the delays of the changes that were found."""
    found = delays[~np.isnan(delays)]
    return f"{np.quantile(found, share):.0f}" if len(found) else "-"


def show_spheroids(seeds: range) -> bool:
    """Print the tables of the two-spheroid stream; tell whether the goal is met."""
    cases = spheroids(seeds)
    print(f"\nTwo spheroids, the default detector, {len(seeds)} seeds: found within {WITHIN}")
    heads = ["tracker", "new shape", "back", "median delay", "longest", "false in 10,000 (worst)"]
    table = Table("drift", "spheroids", heads)
    good = False
    for name, runs in cases.items():
        result = score(DETECTORS["default"], runs)
        found, false = result.delays <= WITHIN, static_false(result)
        new = result.kinds == "new"
        table.add(
            name,
            f"{found[new].sum()} of {new.sum()}",
            f"{found[~new].sum()} of {(~new).sum()}",
            quantile(result.delays, 0.5),
            quantile(result.delays, 1.0),
            f"{np.mean(false):.2f} ({max(false)})",
        )
        if name == DEFAULT_TRACKER:
            good = bool(found.all()) and max(false) <= MOST_FALSE
    shown = [
        DEFAULT_TRACKER,
        "paper, B = 20, β = 1",
        "paper, B = 20, β = .9",
        "paper, B = 50, β = .9",
    ]
    print(f"\nOther detectors: share found within {WITHIN} / false in 10,000 static rows")
    table = Table("drift", "spheroids_detectors", ["detector", *shown])
    for name, detector in DETECTORS.items():
        results = [score(detector, cases[tracker]) for tracker in shown]
        both = (f"{r.found(WITHIN):.2f} / {np.mean(static_false(r)):.2f}" for r in results)
        table.add(name, *both)
    return good


def show_motionsense() -> None:
    """Print the tables of motionsense."""
    cases = motionsense()
    if not cases:
        sys.stdout.write(f"\nmotionsense left out: it is not in {DATA}\n")
        return
    changes = sum(len(case.changes) for case in cases.values())
    columns = COLUMNS
    print(f"\nmotionsense, {len(cases)} subjects, {changes} changes of activity")
    table = Table("drift", "motionsense", ["detector", *columns])
    results = {name: score(detector, cases.values()) for name, detector in DETECTORS.items()}
    for name, result in results.items():
        table.add(name, *cells(result))
    micros = {name: f"{each.seconds / each.rows * 1e6:.2f}" for name, each in results.items()}
    print("\nµs a row: " + ", ".join(f"{name} {each}" for name, each in micros.items()))
    table = Table("drift", "subjects", ["subject", "changes", *columns])
    for name, case in cases.items():
        table.add(name, len(case.changes), *cells(score(DETECTORS["default"], [case])))
    own = results["default"]
    within = [f"within {rows}" for rows in HORIZONS]
    last = ["median delay", "not found", "of them just after an alert"]
    table = Table("drift", "changes", ["change", "number", *within, *last])
    missed, deaf = np.isnan(own.delays), own.since <= DriftSpec().settle
    for kind in np.unique(own.kinds):
        here = own.kinds == kind
        delays = own.delays[here]
        found = [f"{np.mean(delays <= rows):.2f}" for rows in HORIZONS]
        left = [(missed & here).sum(), (missed & deaf & here).sum()]
        table.add(kind, len(delays), *found, quantile(delays, 0.5), *left)
    _show_false(own, list(cases.values()))


def cells(result: Score) -> list[str]:
    """Return shares found within `HORIZONS`, the median delay, and false alarms in 10,000 rows."""
    false = sum(map(len, result.false)) / result.rows * 10_000
    found = [f"{result.found(rows):.2f}" for rows in HORIZONS]
    return [*found, quantile(result.delays, 0.5), f"{false:.2f}"]


def _show_false(result: Score, cases: list[Case]) -> None:
    """Print where the false alarms are, by activity."""
    rows: dict[str, int] = {}
    alarms: dict[str, int] = {}
    for case, false in zip(cases, result.false, strict=True):
        borders = [0, *case.changes, len(case.losses)]
        names = [case.kinds[0].split()[0], *(kind.split()[-1] for kind in case.kinds)]
        for name, start, stop in zip(names, borders[:-1], borders[1:], strict=True):
            rows[name] = rows.get(name, 0) + int(stop - start)
            here = int(((false >= start) & (false < stop)).sum())
            alarms[name] = alarms.get(name, 0) + here
    table = Table("drift", "activities", ["activity", "rows", "false", "in 10,000"])
    for name in sorted(rows):
        rate = alarms[name] / rows[name] * 10_000
        table.add(name, f"{rows[name]:,}", alarms[name], f"{rate:.2f}")


def main() -> int:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 8), metavar=("FIRST", "COUNT"))
    parser.add_argument("--no-motionsense", action="store_true", help="leave motionsense out")
    options = parser.parse_args()
    first, count = options.seeds
    good = show_spheroids(range(first, first + count))
    if not options.no_motionsense:
        show_motionsense()
    sys.stdout.write(f"\nspheroids, tracked by default: goal {'met' if good else 'MISSED'}\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
