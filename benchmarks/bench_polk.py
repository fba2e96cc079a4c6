"""POLK and BSGD on the paper's data: error and model order; and how a pruning step's time grows.

    python benchmarks/bench_polk.py [--quick] [--only multidist mnist brodatz growth]

- multidist (Table 2): ten draws of five classes in the plane, 5,000 rows to learn and 2,500 to
  test. A draw's Bayes error is that of the classifier that knows the mixture, on the same test
  rows. With the paper's settings (η = 6, K = .04 and .03, mini-batches of 32, λ = 1e-6, σ² = .6),
  and with a step that falls, η/√(1 + t/250), and a hard cap of 20 rows: the goal is that these are
  within 1 point of the Bayes error, on average over the draws. Errors are means over the last 5 %
  of the rows, as in the paper.
- mnist (Table 3): pixels in [0, 1], hinge with η = 24, mini-batches of 32, and σ = 4, η taken for
  each row: with σ² = 4 hardly any two digits are alike (κ near e^-12), and with η taken for the
  mean of 32 rows ε = 28 is more than any step moves f, so that nothing would ever be kept. With a
  step that falls, a hard cap and σ² = 24 also in six passes over the rows (the paper does not say
  how many it took). Goal: an error of at most 2.6 % at a model order of at most 1,100 with the
  60,000 rows. `--quick` learns 10,000.
- brodatz (Table 3): texton histograms of patches of 13 textures (see `brodatz`; reading them takes
  Pillow), 10,000 to learn and 5,000 to test, hinge with the paper's σ² = .1 and η = 24, for each
  row as above, and with a step that falls. Goal: an error of at most 5 % at a model order of at
  most 1,200. `--quick` leaves it out.
- growth: µs of a row that comes in and one that goes, against the rows M.

BSGD runs beside it at POLK's model order, with the paper's η = 1. Exits with 1 if a goal is missed
(that of mnist only without `--quick`). Tables, a list of all values (CSV) and a plot go to
build/benchmarks/polk.*. The data sets' folder is `KERNELTRACK_DATA`, by default `../shared/data`
beside the project; without it mnist and brodatz are left out, saying so.

References: A. Koppel, G. Warnell, E. Stump, A. Ribeiro, "Parsimonious online learning with kernels
via sparse projections in function space", JMLR 20, 2019, section 5; Z. Wang, K. Crammer,
S. Vucetic, "Breaking the curse of kernelization", JMLR 13, 2012.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from benchmarks.brodatz import texton_histograms
from benchmarks.places import BUILD, DATA
from kerneltrack.learners import BSGDSpec, LearnerSpec, POLKSpec
from kerneltrack.learners.kernel.dictionary import DictionaryState
from kerneltrack.registry import get_learner

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

OUT = BUILD / "polk"
DRAWS, CLASSES, TRAIN, TEST = 10, 5, 5000, 2500
VARIANCE = 0.2
WITHIN = 0.01
CAP = 20
TABLE_2 = {"hinge": "3.98 % at 16", "logistic": "4.36 % at 16", "BSGD": "21.8 % at 16"}
TABLE_3 = {
    "mnist": {"hinge": "2.46 % at 1,086", "BSGD": "2.67 % at 1,086"},
    "brodatz": {"hinge": "4.53 % at 1,171", "BSGD": "4.72 % at 1,171"},
}
GOALS = {"mnist": (0.026, 1100), "brodatz": (0.05, 1200)}
"""The largest error and model order of hinge."""
SIZES = (50, 100, 200, 400, 800)
FALLING = "hinge, falling step, cap 1,100"
PASSES = 6
"""Over mnist's rows, of what learns them more than once."""

LAST = 20
"""Times that the error is measured over the last 5 % of the rows."""


class Problem(NamedTuple):
    """Rows and classes to learn and to test, and the Bayes classifier's error on the latter."""

    x: FloatArray
    y: IntArray
    test: FloatArray
    truth: IntArray
    bayes: float


class Figures(NamedTuple):
    """What came of a run."""

    method: str
    draw: int
    error: float
    order: int
    bayes: float
    seconds: float


def multidist(seed: int) -> Problem:
    """Draw the mixture and rows of it (the paper's section 5.2)."""
    rng = np.random.default_rng(seed)
    angles = 2.0 * np.pi * np.arange(CLASSES) / CLASSES
    centres = np.column_stack([np.cos(angles), np.sin(angles)])
    means = centres[:, None] + rng.normal(size=(CLASSES, 3, 2))
    y = rng.integers(0, CLASSES, TRAIN + TEST)
    x = means[y, rng.integers(0, 3, len(y))] + np.sqrt(VARIANCE) * rng.normal(size=(len(y), 2))
    test, truth = x[TRAIN:], y[TRAIN:]
    gaps = ((test[:, None, None] - means) ** 2).sum(axis=3)
    best = np.exp(-gaps / (2.0 * VARIANCE)).sum(axis=2).argmax(axis=1)
    return Problem(x[:TRAIN], y[:TRAIN], test, truth, float((best != truth).mean()))


def mnist(rows: int, tests: int) -> Problem:
    """Read the digits, in random order."""
    rng = np.random.default_rng(0)
    with np.load(DATA / "mnist.npz") as data:
        order = rng.permutation(len(data["X"]))[:rows]
        x, y = data["X"][order] / 255.0, data["y"][order].astype(np.int64)
        test, truth = data["Xt"][:tests] / 255.0, data["yt"][:tests].astype(np.int64)
    return Problem(x.reshape(rows, -1), y, test.reshape(tests, -1), truth, 0.0)


def run(
    method: str, spec: LearnerSpec, problem: Problem, draw: int, times: int, passes: int = 1
) -> Figures:
    """Learn all rows, in another order in each pass; test over the last 5 % of the last one."""
    learner = get_learner(spec.learner)
    names = np.array([str(label) for label in problem.y], dtype=object)
    state: DictionaryState = learner.init(spec, problem.x.shape[1])
    rng, count = np.random.default_rng(1), len(names)
    x, seconds = problem.x, 0.0
    for number in range(passes):
        rest = count if number + 1 < passes else count * 19 // 20
        begin = time.perf_counter()
        state = learner.learn(spec, state, x[:rest], names[:rest].tolist())
        seconds += time.perf_counter() - begin
        if number + 1 < passes:
            order = rng.permutation(count)
            x, names = x[order], names[order]
    errors = []
    edges = np.linspace(count * 19 // 20, count, times + 1).astype(int)
    for low, high in itertools.pairwise(edges):
        state = learner.learn(spec, state, x[low:high], names[low:high].tolist())
        said = learner.predict(spec, state, problem.test)
        places = np.array([int(name) for name in said.classes])
        errors.append(float((places[said.code] != problem.truth).mean()))
    return Figures(method, draw, float(np.mean(errors)), state.size, problem.bayes, seconds)


def polk(
    loss: str,
    parsimony: float,
    step: float,
    variance: float,
    *,
    batch: int = 32,
    decay_rows: int = 0,
    budget: int = 10_000,
) -> POLKSpec:
    """Settings as the paper gives them."""
    return POLKSpec(
        loss=loss,
        parsimony=parsimony,
        step_size=step,
        gamma=2.0 * variance,
        ridge=1e-6,
        batch=batch,
        decay_rows=decay_rows,
        budget=budget,
    )


def bsgd(maintenance: str, variance: float, budget: int) -> BSGDSpec:
    """Settings as the paper of POLK gives them."""
    return BSGDSpec(
        maintenance=maintenance, step_size=1.0, gamma=2.0 * variance, ridge=1e-6, budget=budget
    )


def run_multidist(quick: bool) -> tuple[list[Figures], list[str], str]:
    """Run Table 2; return all values, what was missed, and the table."""
    falling = {"decay_rows": 250, "budget": CAP}
    specs: dict[str, LearnerSpec] = {
        "hinge, paper's settings": polk("hinge", 0.04, 6.0, 0.6),
        "hinge, falling step, cap 20": polk("hinge", 0.04, 6.0, 0.6, **falling),
        "logistic, paper's settings": polk("logistic", 0.03, 6.0, 0.6),
        "logistic, falling step, cap 20": polk("logistic", 0.03, 6.0, 0.6, **falling),
        **{f"BSGD, {name}": bsgd(name, 0.6, 16) for name in ("removal", "projection", "merging")},
    }
    draws = range(3 if quick else DRAWS)
    problems = [multidist(draw) for draw in draws]
    runs = [
        run(method, spec, problems[draw], draw, LAST)
        for method, spec in specs.items()
        for draw in draws
    ]
    lines = [
        f"## multidist, {len(draws)} draws",
        "",
        "| method | error | Bayes error | above it | largest | model order | paper's draw |",
        "|---|---|---|---|---|---|---|",
    ]
    missed = []
    for method in specs:
        mine = [each for each in runs if each.method == method]
        above = [each.error - each.bayes for each in mine]
        order = max(each.order for each in mine)
        lines.append(
            f"| {method} | {_mean(mine, 'error'):.4f} | {_mean(mine, 'bayes'):.4f} "
            f"| {np.mean(above):.4f} | {max(above):.4f} | {_mean(mine, 'order'):.1f} (<= {order}) "
            f"| {TABLE_2[method.partition(',')[0]]} |"
        )
        if "cap" in method and (np.mean(above) > WITHIN or order > CAP):
            missed.append(f"{method}: {np.mean(above):.4f} above the Bayes error at {order}")
    return runs, missed, "\n".join(lines)


def _mean(runs: Sequence[Figures], field: str) -> float:
    return float(np.mean([getattr(each, field) for each in runs]))


def run_mnist(quick: bool) -> tuple[list[Figures], list[str], str]:
    """Run the hinge column of Table 3; return all values, what was missed, and the table."""
    if not (DATA / "mnist.npz").exists():
        return [], [], f"mnist is left out: no {DATA / 'mnist.npz'}"
    problem = mnist(10_000, 2000) if quick else mnist(60_000, 10_000)
    specs: dict[str, LearnerSpec] = {
        "hinge, K = .24": _summed(0.24, 16.0),
        "hinge, K = .16": _summed(0.16, 16.0),
        FALLING: polk("hinge", 0.0, 16.0, 24.0, batch=1, decay_rows=1000, budget=1100),
        "BSGD, removal": bsgd("removal", 16.0, 1086),
        "BSGD, merging": bsgd("merging", 16.0, 1086),
    }
    again = {f"{method}, {PASSES} passes": specs[method] for method in (FALLING, "BSGD, merging")}
    passes = dict.fromkeys(again, PASSES)
    runs, missed, table = _run_table_3("mnist", specs | again, problem, passes)
    return runs, [] if quick else missed, table


def run_brodatz(quick: bool) -> tuple[list[Figures], list[str], str]:
    """Run the brodatz column of Table 3 likewise."""
    if quick or not (DATA / "brodatz").exists():
        return [], [], f"brodatz is left out: --quick, or no {DATA / 'brodatz'}"
    x, y = texton_histograms(DATA / "brodatz", 15_000, seed=0)
    problem = Problem(x[:10_000], y[:10_000], x[10_000:], y[10_000:], 0.0)
    specs: dict[str, LearnerSpec] = {
        "hinge, K = .02": _summed(0.02, 0.1),
        "hinge, K = .01": _summed(0.01, 0.1),
        "hinge, falling step, cap 1,171": polk(
            "hinge", 0.0, 24.0, 0.1, decay_rows=2000, budget=1171
        ),
        "BSGD, removal": bsgd("removal", 0.1, 1171),
        "BSGD, merging": bsgd("merging", 0.1, 1171),
    }
    return _run_table_3("brodatz", specs, problem, passes={})


def _run_table_3(
    name: str, specs: dict[str, LearnerSpec], problem: Problem, passes: dict[str, int]
) -> tuple[list[Figures], list[str], str]:
    runs = [
        run(method, spec, problem, 0, 5, passes.get(method, 1)) for method, spec in specs.items()
    ]
    lines = [
        f"## {name}, {len(problem.y):,} rows",
        "",
        "| method | error | model order | s to learn | paper |",
        "|---|---|---|---|---|",
        *(
            f"| {each.method} | {each.error:.4f} | {each.order} | {each.seconds:.0f} "
            f"| {TABLE_3[name][each.method.partition(',')[0]]} |"
            for each in runs
        ),
    ]
    error, order = GOALS[name]
    good = any(
        each.error <= error and each.order <= order
        for each in runs
        if each.method.startswith("hinge")
    )
    missed = [] if good else [f"{name}: no error <= {error} at <= {order}"]
    return runs, missed, "\n".join(lines)


def _summed(parsimony: float, variance: float) -> POLKSpec:
    """η = 24 a row instead of a mini-batch of 32, ε as K and η = 24 give it."""
    step = 24.0 * 32
    scaled = parsimony * 24.0**1.5 / step**1.5
    return polk("hinge", scaled, step, variance)


def run_growth(quick: bool) -> tuple[list[Figures], list[str], str]:
    """Time a row in and one out at several sizes of the dictionary."""
    rng = np.random.default_rng(0)
    lines = [
        "## A row in and one out",
        "",
        "| rows M | µs | µs of a row without a gradient | ns per M² |",
        "|---|---|---|---|",
    ]
    micros, runs = [], []
    sizes = SIZES[: 3 if quick else len(SIZES)]
    for size in sizes:
        spec = POLKSpec(task="regression", budget=size, parsimony=0.0, gamma=8.0, step_size=0.5)
        learner = get_learner("polk")
        rows = rng.normal(size=(size + 300, 8))
        targets = rng.normal(size=len(rows))
        state: DictionaryState = learner.init(spec, 8)
        state = learner.learn(spec, state, rows[:size], targets[:size])
        learned = _micros(spec, state, rows[size:], targets[size:])
        said = _micros(spec, state, rows[size:], None)
        micros.append(learned - said)
        runs.append(Figures("growth", state.size, micros[-1], size, 0.0, 0.0))
        lines.append(
            f"| {state.size} | {micros[-1]:.1f} | {said:.2f} | {1e3 * micros[-1] / size**2:.2f} |"
        )
    slope = np.polyfit(np.log(sizes[-3:]), np.log(micros[-3:]), 1)[0]
    lines.append(f"\nSlope of the last three in the log-log plot: {slope:.2f}")
    return runs, [], "\n".join(lines)


def _micros(
    spec: LearnerSpec, state: DictionaryState, rows: FloatArray, targets: FloatArray | None
) -> float:
    """Time a row, the best of three calls: a call copies the state, with labels or without."""
    learner = get_learner(spec.learner)
    best = np.inf
    for _ in range(4):
        begin = time.perf_counter()
        learner.update(spec, state, rows, targets)
        best = min(best, time.perf_counter() - begin)
    return 1e6 * best / len(rows)


PARTS = {
    "multidist": run_multidist,
    "mnist": run_mnist,
    "brodatz": run_brodatz,
    "growth": run_growth,
}


def main() -> int:
    """Run what is asked for, print and write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    args = parser.parse_args()
    OUT.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Figures]] = {}
    missed, tables = [], []
    for name in args.only:
        found[name], part, table = PARTS[name](args.quick)
        missed += part
        tables.append(table)
        sys.stdout.write(table + "\n\n")
        sys.stdout.flush()
    OUT.with_suffix(".md").write_text("\n\n".join(tables) + "\n", encoding="utf-8")
    with OUT.with_suffix(".csv").open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["part", *Figures._fields])
        writer.writerows([name, *each] for name, runs in found.items() for each in runs)
    _plot(found)
    sys.stdout.write("".join(f"missed: {goal}\n" for goal in missed))
    return 1 if missed else 0


def _plot(found: dict[str, list[Figures]]) -> None:
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for method in dict.fromkeys(each.method for each in found.get("multidist", [])):
        mine = [each for each in found["multidist"] if each.method == method]
        left.plot([e.bayes for e in mine], [e.error for e in mine], "o", ms=4, label=method)
    left.axline((0.2, 0.2), slope=1.0, color="black", lw=0.5, label="Bayes error")
    left.set(xlabel="Bayes error of the draw", ylabel="error", title="multidist")
    left.legend(fontsize=7)
    growth = found.get("growth", [])
    if growth:
        sizes = np.array([each.order for each in growth])
        right.loglog(sizes, [each.error for each in growth], "o-")
        right.loglog(sizes, growth[-1].error * (sizes / sizes[-1]) ** 2, "k:", label="M²")
        right.legend()
    right.set(xlabel="rows M", ylabel="µs", title="a row in and one out")
    figure.savefig(OUT.with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    sys.exit(main())
