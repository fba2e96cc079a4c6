"""NOLANA's evaluation: Table 1 and 2, Fig. 1 to 4, the bound of Theorem 4.1, the stages' order.

Sets: cpusmall (channels by the ranges of all rows, 80 % to learn, root mean squared error on the
rest), usps (train and test joined, pixels in [-1, 1], ten classes) and ijcnn1 (joined), both
prequential, accuracy over all rows; the paper's m, r = .8m, five shuffles. NOGD is NOLANA whose
first m landmarks stay; FOGD has (md + mr)/d random features, NOLANA's budget, and the same losses;
PA is linear. webspam and covtype are not at hand.

Bandwidths are multiples of the median trick's on 500 rows; multiple, step size and its fall were
chosen for each method on a shuffle of its own that is none of the five (`SETTINGS`).

Reference: S. Si, S. Kumar, Y. Li, "Nonlinear online learning with adaptive Nyström approximation",
2018, sections 4 and 5.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any, NamedTuple

import numpy as np
from sklearn.svm import LinearSVC

from benchmarks.paper.nolana_sets import FIRST, Rows, shuffled
from benchmarks.paper.parts import Found, Measure, bars, curves
from benchmarks.paper.printed_nolana import SOLVERS, PrintedNolana
from kerneltrack.arrays import FloatArray
from kerneltrack.in_memory import learn_all, run_all
from kerneltrack.kernels import gram, make_kernel
from kerneltrack.learners import FOGDSpec, LearnerSpec, NOLANASpec, PASpec
from kerneltrack.learners.kernel.nolana import MOVED
from kerneltrack.learners.kernel.spec import STAGE_ORDERS
from kerneltrack.registry import get_learner
from kerneltrack.trackers import OANA, OANASpec
from kerneltrack.trackers.doubly.random_features import feature_rows, make_feature_map

ROUNDS, QUICK_ROWS, MEASURED_ROWS = 5, 2_000, 2_000
LEARNED = 0.8
"""Share of cpusmall's rows that are learned from."""
METHODS = ("majority", "PA", "NOGD", "FOGD", "NOLANA")
LANDMARKS = {"cpusmall": 20, "usps": 100, "ijcnn1": 100}
EPSILON = {"cpusmall": 0.0, "usps": 75.0, "ijcnn1": 1.0}
SWEEP = (0.0, 25.0, 50.0, 100.0, 200.0, 300.0)
"""ε of Table 1."""
GAMMAS = (0.5, 0.35)
"""Bandwidths, in medians, of `stages`: Table 2's, and one that is better on these rows."""
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
        state, predictions = learn_all(spec, x, rows.labels)
        seconds = time.perf_counter() - begin
        right = 0.0 if predictions.correct is None else float(predictions.correct.mean())
        return right, _moved(spec, state), seconds
    count = int(LEARNED * len(x))
    centre, unit = float(rows.y[:FIRST].mean()), float(rows.y[:FIRST].std())
    state, _ = learn_all(spec, x[:count], (rows.y[:count] - centre) / unit)
    seconds = time.perf_counter() - begin
    predictions = get_learner(spec.learner).predict(spec, state, x[count:])
    error = float(
        np.sqrt(np.mean((centre + unit * np.asarray(predictions.value) - rows.y[count:]) ** 2))
    )
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


def rounds(name: str, quick: bool) -> list[Rows]:
    """Return a set's shuffles."""
    return [
        shuffled(name, seed, QUICK_ROWS if quick else None)
        for seed in range(1 if quick else ROUNDS)
    ]


def table2(quick: bool) -> Found:
    """Errors and accuracies of the methods on three of the five sets."""
    found: dict[str, list[float]] = {}
    for name in LANDMARKS:
        for seed, rows in enumerate(rounds(name, quick)):
            linear = PASpec(task="regression" if rows.regression else "classification")
            each = {"majority": majority(rows), "PA": measure(linear, rows.x, rows)[0]}
            for method, setting in SETTINGS[name].items():
                each[method] = run_method(method, name, rows, setting, seed)[0]
            for method, value in each.items():
                found.setdefault(f"{name}, {method}", []).append(value)
    notes = [f"{name}: {min(each):.4f} to {max(each):.4f}" for name, each in found.items()]
    values = {name: float(np.mean(each)) for name, each in found.items()}
    return Found(values, None, ("Range over the shuffles:", "; ".join(notes), ""))


def table1(quick: bool) -> Found:
    """Accuracy, seconds and moves by ε, on usps."""
    setting = SETTINGS["usps"]["NOLANA"]
    values, means = {}, []
    shuffles = rounds("usps", quick)
    for epsilon in SWEEP:
        spec = [nolana("usps", rows, setting, epsilon) for rows in shuffles]
        runs = [measure(each, rows.x, rows) for each, rows in zip(spec, shuffles, strict=True)]
        accuracy, moved, seconds = np.mean(runs, axis=0).tolist()
        values[f"ε = {epsilon:g}, accuracy"] = accuracy
        values[f"ε = {epsilon:g}, updates"] = moved
        values[f"ε = {epsilon:g}, seconds"] = seconds
        means.append(accuracy)
    values["ε = 50 below the best ε, accuracy"] = max(means) - means[SWEEP.index(50.0)]
    return Found(values, curves({"NOLANA": (SWEEP, means)}, xlabel="ε", ylabel="accuracy"))


def stages(quick: bool) -> Found:
    """Accuracy on usps with the step before the landmark moves and after, at two bandwidths."""
    setting, shuffles = SETTINGS["usps"]["NOLANA"], rounds("usps", quick)
    values = {}
    for gamma in GAMMAS:
        scaled = setting._replace(gamma=gamma)
        for order in STAGE_ORDERS:
            right = []
            for rows in shuffles:
                spec = nolana("usps", rows, scaled, EPSILON["usps"])
                ordered = dataclasses.replace(spec, stage_order=order)
                right.append(measure(ordered, rows.x, rows)[0])
            values[f"γ = {gamma:g} medians, {order}"] = float(np.mean(right))
    return Found(values, bars(values, "accuracy"))


class Curve(NamedTuple):
    """A run of NOLANA as printed: right or wrong by row, seconds by hundred rows."""

    correct: FloatArray
    seconds: FloatArray


def printed(rows: Rows, solver: str = "warm start", *, refits: bool = True) -> Curve:
    """Run NOLANA as printed on usps, ε = 50 as Table 1's best."""
    setting, many = SETTINGS["usps"]["NOLANA"], LANDMARKS["usps"]
    model = PrintedNolana(
        rows.x[:many],
        int(rows.y.max()) + 1,
        rank=int(0.8 * many),
        gamma=setting.gamma * rows.median,
        threshold=50.0,
        solver=solver,
        refits=refits,
    )
    correct, clock, begin = np.zeros(len(rows.x)), [0.0], time.process_time()
    for number, (x, label) in enumerate(zip(rows.x, rows.y.tolist(), strict=True)):
        q = model.features(x[None])[0]
        correct[number] = float((model.weights @ q).argmax() == label)
        step = setting.step_size / np.sqrt(1.0 + number / setting.decay_rows)
        model.descend(q, label, step)
        if number >= many:
            model.move(x)
        if (number + 1) % 100 == 0:
            clock.append(time.process_time() - begin)
    return Curve(correct, np.array(clock))


def fig1(quick: bool) -> Found:
    """Seconds by the number of rows under three solvers of the landmarks' eigenvectors."""
    rows = shuffled("usps", 0, 1_500 if quick else None)
    runs = {solver: printed(rows, solver) for solver in SOLVERS}
    spent = {solver: float(run.seconds[-1]) for solver, run in runs.items()}
    right = {solver: float(run.correct.mean()) for solver, run in runs.items()}
    counts = (100 * np.arange(len(next(iter(runs.values())).seconds))).tolist()
    fit = np.polyfit(counts, runs["warm start"].seconds, 1)
    off = runs["warm start"].seconds - np.polyval(fit, counts)
    values = {
        "warm start over scratch, seconds": spent["warm start"] / spent["scratch"],
        "rank-2 over warm start, seconds": spent["rank-2"] / spent["warm start"],
        "largest difference of the accuracies": max(right.values()) - min(right.values()),
        "time off a straight line, share": float(np.abs(off).max() / spent["warm start"]),
    }
    lines = {solver: (counts, run.seconds.tolist()) for solver, run in runs.items()}
    return Found(values, curves(lines, xlabel="rows", ylabel="seconds"))


def fig2(quick: bool) -> Found:
    """Accuracy with the second stage, which fits the weights to the new map, and without."""
    shuffles = rounds("usps", quick)[: 1 if quick else 3]
    runs = {
        "with the second stage": [printed(rows) for rows in shuffles],
        "without": [printed(rows, refits=False) for rows in shuffles],
    }
    right = {
        name: np.mean([each.correct for each in found], axis=0) for name, found in runs.items()
    }
    values = {name: float(each.mean()) for name, each in right.items()}
    return Found(values, curves(_so_far(right), xlabel="rows", ylabel="accuracy so far"))


def _so_far(right: dict[str, FloatArray]) -> dict[str, tuple[list[float], list[float]]]:
    return {
        name: (
            list(range(1, len(each) + 1)),
            (np.cumsum(each) / np.arange(1, len(each) + 1)).tolist(),
        )
        for name, each in right.items()
    }


def fig3(quick: bool) -> Found:
    """Relative error of the kernel matrix against the landmarks, ‖G - Ĝ‖_F/‖G‖_F."""
    found: dict[str, list[float]] = {}
    for name, sizes in SIZES.items():
        for seed, rows in enumerate(rounds(name, quick)):
            gamma = SETTINGS[name]["NOLANA"].gamma * rows.median
            some = np.random.default_rng(seed).permutation(len(rows.x))[:MEASURED_ROWS]
            sample = np.ascontiguousarray(rows.x[some])
            whole = gram(make_kernel("gaussian", gamma), sample, sample)
            for landmarks in sizes:
                count = budget(landmarks, rows.x.shape[1])
                maps = {
                    "NOGD": nystroem(rows.x, sample, gamma, landmarks, None),
                    "FOGD": random_features(sample, gamma, count, seed),
                    "OANA": nystroem(rows.x, sample, gamma, landmarks, EPSILON[name]),
                }
                for method, z in maps.items():
                    error = float(np.linalg.norm(whole - z @ z.T) / np.linalg.norm(whole))
                    found.setdefault(f"{name}, m = {landmarks}, {method}", []).append(error)
    means = {name: float(np.mean(each)) for name, each in found.items()}
    values, lines = {}, {}
    for name, sizes in SIZES.items():
        for landmarks in sizes:
            ours = means[f"{name}, m = {landmarks}, OANA"]
            for method in ("NOGD", "FOGD"):
                ratio = ours / means[f"{name}, m = {landmarks}, {method}"]
                values[f"{name}, m = {landmarks}, OANA over {method}"] = ratio
        for method in ("NOGD", "FOGD", "OANA"):
            errors = [means[f"{name}, m = {landmarks}, {method}"] for landmarks in sizes]
            lines[f"{name}, {method}"] = (sizes, errors)
    return Found(values, curves(lines, yscale="log", xlabel="m", ylabel="relative error"))


def fig4(quick: bool) -> Found:
    """Accuracy by the number of rows, usps and ijcnn1: methods of one budget."""
    values: dict[str, float] = {}
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for name in ("usps", "ijcnn1"):
        rows = shuffled(name, 0, QUICK_ROWS if quick else 50_000)
        specs: dict[str, LearnerSpec] = {"PA": PASpec()}
        for method, setting in SETTINGS[name].items():
            specs[method] = (
                fourier(name, rows, setting, 0)
                if method == "FOGD"
                else nolana(name, rows, setting, EPSILON[name] if method == "NOLANA" else None)
            )
        right = {
            method: np.asarray(learn_all(spec, rows.x, rows.labels)[1].correct, np.float64)
            for method, spec in specs.items()
        }
        half = len(rows.x) // 2
        ours = right["NOLANA"]
        values[f"{name}, NOLANA, second half over first"] = float(
            ours[half:].mean() / ours[:half].mean()
        )
        others = {method: float(each.mean()) for method, each in right.items()}
        values[f"{name}, NOLANA less the best of PA, NOGD, FOGD"] = others.pop("NOLANA") - max(
            others.values()
        )
        lines |= {f"{name}, {method}": line for method, line in _so_far(right).items()}
    return Found(values, curves(lines, xlabel="rows", ylabel="accuracy so far"))


def theorem1(quick: bool) -> Found:
    """Regret to the best function of the whole kernel, and the bound (eq. 13 as 17 derives it).

    Digits 0 to 4 against 5 to 9, hinge loss + λ/2‖w‖², η = 1/√T, the last row's comparators by
    batch solutions: of the whole kernel, and of the map after each move.
    """
    count, many, ridge = 200 if quick else 600, 40, 1e-2
    rows = shuffled("usps", 0, count)
    y = np.where(rows.y < 5, 1.0, -1.0)
    step = 1.0 / np.sqrt(count)
    model = PrintedNolana(
        rows.x[:many], 1, rank=32, gamma=rows.median, threshold=75.0, solver="scratch"
    )
    exact = model.kernel(rows.x, rows.x)
    losses, moved, apart = [], [0.0], []
    z = model.features(rows.x)
    best, gap = _batch(z, y, ridge), float(np.linalg.norm(exact - z @ z.T, 2))
    size = float(best @ best)
    for x, label in zip(rows.x, y.tolist(), strict=True):
        q, w = model.features(x[None])[0], model.weights[0]
        losses.append(max(1.0 - label * float(w @ q), 0.0) + ridge / 2.0 * float(w @ w))
        model.weights[0] = w - step * (
            ridge * w - (label * q if label * float(w @ q) < 1.0 else 0.0)
        )
        if model.move(x):
            z = model.features(rows.x)
            before, best = best, _batch(z, y, ridge)
            gap = float(np.linalg.norm(exact - z @ z.T, 2))
            moved.append(float(((best - before) ** 2).sum()))
        apart.append(gap)
    values, vectors = np.linalg.eigh(exact)
    whole = vectors * np.sqrt(np.maximum(values, 0.0))
    comparator = _batch(whole, y, ridge)
    inside = np.maximum(1.0 - y * (whole @ comparator), 0.0)
    against = float(inside.sum() + count * ridge / 2.0 * comparator @ comparator)
    largest = 1.0 + ridge * np.sqrt(size)
    bound = (
        size / (2.0 * step)
        + step / 2.0 * largest**2 * count
        + model.moves * (max(model.jumps, default=0.0) + max(moved)) / (2.0 * step)
        + sum(apart) / (2.0 * count * ridge)
    )
    regret = sum(losses) - against
    return Found({"regret": regret, "bound": float(bound), "regret over bound": regret / bound})


def _batch(z: FloatArray, y: FloatArray, ridge: float) -> FloatArray:
    """Return the w of the least mean hinge loss + λ/2‖w‖²."""
    fitted = LinearSVC(
        loss="hinge", C=1.0 / (ridge * len(z)), fit_intercept=False, max_iter=20_000, tol=1e-5
    ).fit(z, y)
    return np.asarray(fitted.coef_[0], np.float64)


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


PARTS: dict[str, Measure] = {
    "fig1": fig1,
    "fig2": fig2,
    "table1": table1,
    "theorem1": theorem1,
    "fig3": fig3,
    "fig4": fig4,
    "table2": table2,
    "stages": stages,
}
