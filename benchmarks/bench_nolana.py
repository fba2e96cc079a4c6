"""NOLANA beside NOGD, FOGD and PA on the paper's data: accuracy, ε, and how near the kernel is.

    python benchmarks/bench_nolana.py [--quick] [--rounds 5] [--only table2 table1 fig3]
        [--sets cpusmall usps ijcnn1]

- table2 (Table 2): means over the rounds, each a shuffle. cpusmall (channels by the ranges of
  all rows, 80 % to learn, root mean squared error on the rest), usps (train and test
  joined, pixels in [-1, 1], ten classes) and ijcnn1 (joined), both prequential, accuracy over all
  rows. The paper's m, r = .8m. NOGD is NOLANA whose first m landmarks stay; FOGD has (md + mr)/d
  random features, NOLANA's budget, and the same losses; PA is linear; "majority" says the
  commonest class or the mean target.
- table1 (Table 1): usps, ε from 0 (every row moves a landmark) to none; rows that moved one, and
  seconds, are of one shuffle's pass on average.
- fig3 (Fig. 3): ‖G - Ĝ‖_F/‖G‖_F on rows drawn from each set, against m: OANA's map after a pass
  over all rows, NOGD's of the first m, FOGD's at that budget.

Bandwidths are multiples of the median trick's on 500 rows; multiple, step size and its fall were
chosen for each method on a shuffle of its own that is none of the five (`SETTINGS`).

Goals: NOLANA's RMSE on cpusmall at most 7.1, accuracy on usps at least .920, on ijcnn1 .936; on
usps the accuracy at about half the moves within .005 of the best ε. Exits with 1 if one is missed
(without `--quick`, which takes one shuffle of 2,000 rows). Tables, all values (CSV) and a plot go
to build/benchmarks/nolana.*. The data sets' folder is `KERNELTRACK_DATA`, by default
`../shared/data` beside the project.

Reference: S. Si, S. Kumar, Y. Li, "Nonlinear online learning with adaptive Nyström approximation",
2018, section 5.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from benchmarks.nolana_sets import FIRST, Rows, shuffled
from benchmarks.places import BUILD
from kerneltrack.in_memory import learn_all, run_all
from kerneltrack.kernels import gram, make_kernel
from kerneltrack.learners import FOGDSpec, LearnerSpec, NOLANASpec, PASpec
from kerneltrack.learners.kernel.nolana import MOVED
from kerneltrack.registry import get_learner
from kerneltrack.trackers import OANA, OANASpec
from kerneltrack.trackers.doubly.random_features import feature_rows, make_feature_map

FloatArray = npt.NDArray[np.float64]

OUT = BUILD / "nolana"
QUICK_ROWS = 2000
MEASURED_ROWS = 2000
LEARNED = 0.8
"""Share of cpusmall's rows that are learned from."""
METHODS = ("majority", "PA", "NOGD", "FOGD", "NOLANA")
PAPER = {
    "cpusmall": {"PA": "15.83", "NOGD": "8.30", "FOGD": "7.60", "NOLANA": "7.08"},
    "usps": {"PA": ".8001", "NOGD": ".9052", "FOGD": ".8952", "NOLANA": ".9207"},
    "ijcnn1": {"PA": ".8984", "NOGD": ".9358", "FOGD": ".9400", "NOLANA": ".9365"},
}
GOALS = {"cpusmall": 7.1, "usps": 0.920, "ijcnn1": 0.936}
LANDMARKS = {"cpusmall": 20, "usps": 100, "ijcnn1": 100}
EPSILON = {"cpusmall": 0.0, "usps": 75.0, "ijcnn1": 1.0}
SWEEP = {
    0.0: (".9200", "9,298"),
    25.0: (".9191", "7,742"),
    50.0: (".9214", "5,523"),
    75.0: ("", ""),
    100.0: (".9091", "1,262"),
    200.0: (".9027", "23"),
    300.0: (".9052", "0"),
}
"""ε, and the paper's accuracy and number of updates."""
HALF, WITHIN = 50.0, 0.005
SIZES = {"cpusmall": (10, 20, 40, 80), "usps": (25, 50, 100)}


class Setting(NamedTuple):
    """γ in medians, and the step η/√(1 + t/d)."""

    gamma: float
    step_size: float
    decay_rows: int


SETTINGS = {
    "cpusmall": dict.fromkeys(METHODS[2:], Setting(4.0, 1.0, 500)),
    "usps": {
        "NOGD": Setting(0.5, 3.0, 500),
        "FOGD": Setting(1.0, 3.0, 500),
        "NOLANA": Setting(0.5, 3.0, 500),
    },
    "ijcnn1": dict.fromkeys(METHODS[2:], Setting(1.0, 3.0, 500)),
}


class Value(NamedTuple):
    """A value that was measured; `parameter`: ε in table1, m elsewhere."""

    part: str
    data: str
    method: str
    parameter: float
    round: int
    value: float
    moved: int
    seconds: float


def nolana(name: str, rows: Rows, setting: Setting, epsilon: float | None) -> NOLANASpec:
    """NOLANA, or NOGD where no landmark moves, with the paper's m and r."""
    landmarks = LANDMARKS[name]
    return NOLANASpec(
        task="regression" if rows.regression else "classification",
        budget=landmarks,
        rank=int(0.8 * landmarks),
        threshold=epsilon,
        ridge=0.0,
        gamma=setting.gamma * rows.median,
        step_size=setting.step_size,
        decay_rows=setting.decay_rows,
    )


def fourier(name: str, rows: Rows, setting: Setting, seed: int) -> FOGDSpec:
    """FOGD, with as many random features as weigh as much as NOLANA."""
    return FOGDSpec(
        task="regression" if rows.regression else "classification",
        budget=budget(LANDMARKS[name], rows.x.shape[1]),
        ridge=0.0,
        gamma=setting.gamma * rows.median,
        step_size=setting.step_size,
        decay_rows=setting.decay_rows,
        seed=seed,
    )


def budget(landmarks: int, width: int) -> int:
    """Return how many random features weigh as much as the landmarks and their map."""
    return (landmarks * width + landmarks * int(0.8 * landmarks)) // width


def random_features(x: FloatArray, gamma: float, count: int, seed: int) -> FloatArray:
    """Return random Fourier features whose products are the Gaussian kernel on average."""
    features = feature_rows(make_feature_map("gaussian", seed, gamma=gamma), x, 0, count)
    scaled: FloatArray = features / np.sqrt(count)
    return scaled


def measure(spec: LearnerSpec, x: FloatArray, rows: Rows) -> tuple[float, int, float]:
    """Return accuracy over all rows or RMSE on those left out; rows that moved one; seconds."""
    begin = time.perf_counter()
    if not rows.regression:
        state, said = learn_all(spec, x, rows.labels)
        seconds = time.perf_counter() - begin
        right = 0.0 if said.correct is None else float(said.correct.mean())
        return right, _moved(spec, state), seconds
    count = int(LEARNED * len(x))
    centre, unit = float(rows.y[:FIRST].mean()), float(rows.y[:FIRST].std())
    state, _ = learn_all(spec, x[:count], (rows.y[:count] - centre) / unit)
    seconds = time.perf_counter() - begin
    said = get_learner(spec.learner).predict(spec, state, x[count:])
    error = float(np.sqrt(np.mean((centre + unit * np.asarray(said.value) - rows.y[count:]) ** 2)))
    return error, _moved(spec, state), seconds


def _moved(spec: LearnerSpec, state: Any) -> int:
    return int(state.counts[MOVED]) if isinstance(spec, NOLANASpec) else 0


def majority(rows: Rows) -> float:
    """Return what always saying the commonest class, or the mean target, comes to."""
    if rows.regression:
        return float(rows.y.std())
    return float(np.unique(rows.y, return_counts=True)[1].max() / len(rows.y))


def run_method(
    method: str, name: str, rows: Rows, setting: Setting, seed: int
) -> tuple[float, int, float]:
    """Run one method of Table 2 on one shuffle; see `measure`."""
    if method == "FOGD":
        return measure(fourier(name, rows, setting, seed), rows.x, rows)
    epsilon = EPSILON[name] if method == "NOLANA" else None
    return measure(nolana(name, rows, setting, epsilon), rows.x, rows)


def run_table2(
    names: Sequence[str], rounds: int, most: int | None
) -> tuple[list[Value], list[str], str]:
    """Run Table 2; return all values, what was missed, and the table."""
    values: list[Value] = []
    for name in names:
        for seed in range(rounds):
            rows = shuffled(name, seed, most)
            linear = PASpec(task="regression" if rows.regression else "classification")
            found = {
                "majority": (majority(rows), 0, 0.0),
                "PA": measure(linear, rows.x, rows),
                **{
                    method: run_method(method, name, rows, setting, seed)
                    for method, setting in SETTINGS[name].items()
                },
            }
            values += [
                Value("table2", name, method, LANDMARKS[name], seed, *each)
                for method, each in found.items()
            ]
    lines = [
        "## Table 2",
        "",
        "| set | method | mean | least | largest | moved | s | paper |",
        "|---|---|---|---|---|---|---|---|",
    ]
    missed = []
    for name in names:
        for method in METHODS:
            mine = [each for each in values if (each.data, each.method) == (name, method)]
            measured = [each.value for each in mine]
            lines.append(
                f"| {name} | {method} | {np.mean(measured):.4f} | {min(measured):.4f} "
                f"| {max(measured):.4f} | {_mean(mine, 'moved'):.0f} "
                f"| {_mean(mine, 'seconds'):.1f} | {PAPER[name].get(method, '')} |"
            )
        best = _mean([e for e in values if (e.data, e.method) == (name, "NOLANA")], "value")
        good = best <= GOALS[name] if name == "cpusmall" else best >= GOALS[name]
        if not good:
            missed.append(f"{name}: {best:.4f}, goal {GOALS[name]}")
    return values, missed, "\n".join(lines)


def _mean(values: Sequence[Value], field: str) -> float:
    return float(np.mean([getattr(each, field) for each in values]))


def run_table1(
    names: Sequence[str], rounds: int, most: int | None
) -> tuple[list[Value], list[str], str]:
    """Run Table 1's sweep of ε on usps."""
    values: list[Value] = []
    if "usps" not in names:
        return values, [], "Table 1 is of usps."
    for seed in range(rounds):
        rows = shuffled("usps", seed, most)
        setting = SETTINGS["usps"]["NOLANA"]
        for epsilon in SWEEP:
            each = measure(nolana("usps", rows, setting, epsilon), rows.x, rows)
            values.append(Value("table1", "usps", "NOLANA", epsilon, seed, *each))
    lines = [
        "## Table 1, usps",
        "",
        "| ε | accuracy | moved | s | paper's accuracy | paper's updates |",
        "|---|---|---|---|---|---|",
    ]
    means = {}
    for epsilon, (accuracy, updates) in SWEEP.items():
        mine = [each for each in values if each.parameter == epsilon]
        means[epsilon] = _mean(mine, "value")
        lines.append(
            f"| {epsilon:.0f} | {means[epsilon]:.4f} | {_mean(mine, 'moved'):.0f} "
            f"| {_mean(mine, 'seconds'):.1f} | {accuracy} | {updates} |"
        )
    gap = max(means.values()) - means[HALF]
    missed = [f"usps: ε = {HALF:.0f} is {gap:.4f} below the best ε"] if gap > WITHIN else []
    return values, missed, "\n".join(lines)


def run_fig3(
    names: Sequence[str], rounds: int, most: int | None
) -> tuple[list[Value], list[str], str]:
    """Measure how near each map's products are to the kernel."""
    values: list[Value] = []
    for name in (name for name in SIZES if name in names):
        for seed in range(rounds):
            rows = shuffled(name, seed, most)
            gamma = SETTINGS[name]["NOLANA"].gamma * rows.median
            some = np.random.default_rng(seed).permutation(len(rows.x))[:MEASURED_ROWS]
            sample = np.ascontiguousarray(rows.x[some])
            whole = gram(make_kernel("gaussian", gamma), sample, sample)
            for landmarks in SIZES[name]:
                count = budget(landmarks, rows.x.shape[1])
                maps = {
                    "NOGD": nystroem(rows.x, sample, gamma, landmarks, None),
                    "FOGD": random_features(sample, gamma, count, seed),
                    "OANA": nystroem(rows.x, sample, gamma, landmarks, EPSILON[name]),
                }
                for method, z in maps.items():
                    error = float(np.linalg.norm(whole - z @ z.T) / np.linalg.norm(whole))
                    values.append(Value("fig3", name, method, landmarks, seed, error, 0, 0.0))
    lines = ["## Fig. 3: relative error of the kernel matrix", ""]
    lines += ["| set | m | NOGD | FOGD | OANA |", "|---|---|---|---|---|"]
    for name in (name for name in SIZES if name in names):
        for landmarks in SIZES[name]:
            here = [e for e in values if (e.data, e.parameter) == (name, landmarks)]
            errors = [
                _mean([each for each in here if each.method == method], "value")
                for method in ("NOGD", "FOGD", "OANA")
            ]
            lines.append(
                f"| {name} | {landmarks} | " + " | ".join(f"{e:.4f}" for e in errors) + " |"
            )
    return values, [], "\n".join(lines)


def nystroem(
    x: FloatArray, sample: FloatArray, gamma: float, landmarks: int, epsilon: float | None
) -> FloatArray:
    """Return the sample's features under the map after a pass over the rows."""
    spec = OANASpec(
        rank=int(0.8 * landmarks),
        budget=landmarks,
        gamma=gamma,
        threshold=epsilon,
        standardise=False,
        emit="q",
    )
    state, _ = run_all(spec, x)
    return np.asarray(OANA().project(spec, state, sample).q)


PARTS = {"table2": run_table2, "table1": run_table1, "fig3": run_fig3}


def main() -> int:
    """Run what is asked for, print and write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--rounds", type=int, default=5, help="shuffles")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sets", nargs="+", choices=GOALS, default=list(GOALS))
    args = parser.parse_args()
    size = (1, QUICK_ROWS) if args.quick else (args.rounds, None)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    values: list[Value] = []
    missed, tables = [], []
    for name in args.only:
        found, part, table = PARTS[name](args.sets, *size)
        values += found
        missed += part
        tables.append(table)
        sys.stdout.write(table + "\n\n")
        sys.stdout.flush()
    OUT.with_suffix(".md").write_text("\n\n".join(tables) + "\n", encoding="utf-8")
    with OUT.with_suffix(".csv").open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(Value._fields)
        writer.writerows(values)
    _plot(values)
    sys.stdout.write("".join(f"missed: {goal}\n" for goal in missed))
    return 1 if missed and not args.quick else 0


def _plot(values: Sequence[Value]) -> None:
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, *right = figure.subplots(1, 3)
    sweep = [
        [e for e in values if (e.part, e.parameter) == ("table1", epsilon)] for epsilon in SWEEP
    ]
    if all(sweep):
        moved = [_mean(each, "moved") for each in sweep]
        left.plot(moved, [_mean(each, "value") for each in sweep], "o-")
    left.set(xlabel="rows that moved a landmark", ylabel="accuracy", title="usps, ε (Table 1)")
    for axes, (name, sizes) in zip(right, SIZES.items(), strict=True):
        for method in ("NOGD", "FOGD", "OANA"):
            mine = [
                [e for e in values if (e[:3], e.parameter) == (("fig3", name, method), size)]
                for size in sizes
            ]
            if all(mine):
                axes.semilogy(sizes, [_mean(each, "value") for each in mine], "o-", label=method)
        axes.set(xlabel="landmarks m", ylabel="relative error", title=f"{name} (Fig. 3)")
        if axes.lines:
            axes.legend()
    figure.savefig(OUT.with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    sys.exit(main())
