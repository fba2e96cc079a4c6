"""Doubly stochastic kernel SIR and CCA: sarcos (Fig. 5) and the halves of MNIST (Table 3).

- fig5 (section 7.5; the paper's set of 2 million rows is not at hand): the 4,449 rows of sarcos,
  split 80/20 by the seed, standardised; 21 inputs, 7 torques. Seven functions of the inputs by
  kernel CCA against the torques, by kernel PCA (scikit-learn's, exact) and by PCA, then linear
  regression: the mean squared error of the standardised torques on the test rows.
- table3 (section 7.3, MNIST8M there): left and right halves of MNIST's digits, top 50: the total
  canonical correlation, on the 10,000 test rows, of a linear CCA fitted on all 60,000 training rows
  of the functions; linear CCA on the pixels, and random Fourier and Nyström features with linear
  CCA, on the same rows; the form "kcca-newton" with 100 functions, of which the CCA takes the best
  50, and Algorithm 4 as printed.

`python -m benchmarks.paper.doubly_pairs` looks longer: ours with up to 32,768 features (three hours
of one core), and linear CCA of as many random Fourier features solved at once (`exact_cca`).

Bandwidths by the median trick on 1,000 rows; rows are drawn with replacement.

Reference: B. Xie, Y. Liang, L. Song, "Scale up nonlinear component analysis with doubly stochastic
gradients", NIPS 2015.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.io import loadmat
from sklearn.decomposition import PCA, KernelPCA
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import Ridge

from benchmarks.paper.exact_cca import exact_totals, summed
from benchmarks.paper.parts import Found, bars
from benchmarks.places import DATA
from benchmarks.record import TIMES, Table
from kerneltrack.arrays import FloatArray
from kerneltrack.kernels import median_bandwidth
from kerneltrack.trackers import DSPair, DSPairSpec
from kerneltrack.trackers.doubly.pair import PairState

STEPS, NEWTON_STEPS, FEATURES = 800, 300, 2048
"""Of Fig. 5; of its short form a quarter of the steps."""
TOP = 50
RIDGE = 1e-6
RIDGES = (1e-6, 3e-6, 1e-5, 3e-5)
"""Of exact, beside features of length 1."""
COUNTS = (256, 512, 1024, 2048)
Views = list[FloatArray]


class Form(NamedTuple):
    """A run of DSGD-KCCA: settings, and after which steps it is looked at."""

    name: str
    spec: DSPairSpec
    looks: tuple[int, ...]


def _newton(features: int) -> DSPairSpec:
    return DSPairSpec(
        rank=2 * TOP,
        budget=features,
        feature_batch=1024,
        row_batch=2048,
        form="kcca-newton",
        step_size=1.0,
        step_decay=0.05,
    )


PRINTED = DSPairSpec(
    rank=TOP, budget=2048, feature_batch=512, row_batch=1024, step_size=2.0, step_decay=0.001
)
FORMS = (
    Form("DSGD-KCCA, Newton", _newton(32_768), (100, 300, 600, 1000)),
    Form("DSGD-KCCA, Newton", _newton(16_384), (30, 100, 300, 1000)),
    Form("DSGD-KCCA, Newton", _newton(4096), (30, 60)),
    Form("DSGD-KCCA, Newton", _newton(2048), (30, 60)),
    Form("DSGD-KCCA, as printed", PRINTED, (100, 400)),
)


def learned(spec: DSPairSpec, rows: FloatArray, seed: int, steps: int) -> PairState:
    """Run mini-batches of rows drawn with replacement."""
    tracker, rng = DSPair(), np.random.default_rng(seed)
    state = tracker.init(spec, rows[:1000])
    for _ in range(steps):
        state, _ = tracker.update(spec, state, rows[rng.integers(0, len(rows), spec.row_batch)])
    return state


def fig5(quick: bool) -> Found:
    """Mean squared error of linear regression on seven dimensions, by how they are found."""
    seeds, part = (1, 4) if quick else (3, 1)
    table: dict[str, list[float]] = {}
    for seed in range(seeds):
        data = loadmat(DATA / "sarcos_inv_test.mat")["sarcos_inv_test"].astype(np.float64)
        data = data[np.random.default_rng(seed).permutation(len(data))]
        count = int(0.8 * len(data))
        data = (data - data[:count].mean(axis=0)) / data[:count].std(axis=0)
        x, y = data[:, :21], data[:, 21:]
        gamma = median_bandwidth("gaussian", np.ascontiguousarray(x[:1000]))
        spec = DSPairSpec(
            rank=7,
            budget=FEATURES,
            feature_batch=256,
            row_batch=256,
            first_view=21,
            standardise=False,
            seed=seed,
        )
        newton = dataclasses.replace(
            spec, form="kcca-newton", row_batch=1024, feature_batch=512, step_decay=0.05
        )
        state = learned(spec, data[:count], seed, STEPS // part)
        better = learned(newton, data[:count], seed, NEWTON_STEPS // part)
        fixed = RBFSampler(gamma=1 / gamma, n_components=FEATURES, random_state=seed)
        drawn = Nystroem(gamma=1 / gamma, n_components=512, random_state=seed)
        for name, values in {
            "kernel SIR, Newton": DSPair().project(newton, better, data).z,
            "kernel SIR": DSPair().project(spec, state, data).z,
            "kernel PCA": KernelPCA(7, kernel="rbf", gamma=1 / gamma).fit(x[:count]).transform(x),
            "PCA": PCA(7).fit(x[:count]).transform(x),
            "random Fourier, all of them": fixed.fit(x[:count]).transform(x),
            "Nyström, all of them": drawn.fit(x[:count]).transform(x),
            "all 21 inputs": x,
        }.items():
            fitted = Ridge(1e-3).fit(values[:count], y[:count])
            error = float(np.mean((fitted.predict(values[count:]) - y[count:]) ** 2))
            table.setdefault(f"{name}, test error", []).append(error)
    means = {name: float(np.mean(errors)) for name, errors in table.items()}
    draw = bars({name.removesuffix(", test error"): each for name, each in means.items()}, "error")
    ratio = means["kernel SIR, test error"] / means["kernel PCA, test error"]
    ours = min(means["kernel SIR, test error"], means["kernel SIR, Newton, test error"])
    peers = [means[f"{name}, all of them, test error"] for name in ("random Fourier", "Nyström")]
    means["best kernel SIR over the best of random Fourier and Nyström"] = ours / min(peers)
    return Found({**means, "kernel SIR over kernel PCA": ratio}, draw)


def halves(digits: npt.NDArray[Any]) -> FloatArray:
    """Return the left halves' pixels, then the right halves', (n, 784) in [0, 1]."""
    images = digits.reshape(len(digits), 28, 28) / 255.0
    parts = [images[:, :, :14], images[:, :, 14:]]
    return np.hstack([part.reshape(len(digits), -1) for part in parts])


def read_digits() -> tuple[FloatArray, FloatArray]:
    """Return the halves of the training and the test rows, as `halves` has them."""
    with np.load(DATA / "mnist.npz") as arrays:
        return halves(arrays["X"]), halves(arrays["Xt"])


def total_correlation(fit: Views, test: Views) -> float:
    """Return Σ|correlation| on the test rows of the top 50 directions fitted on the others."""
    means = [view.mean(axis=0) for view in fit]
    roots = []
    for view, mean in zip(fit, means, strict=True):
        values, vectors = np.linalg.eigh(view.T @ view / len(view) - np.outer(mean, mean))
        values = np.maximum(values, 0.0) + RIDGE * values.mean()
        roots.append((vectors / np.sqrt(values)) @ vectors.T)
    tie = fit[0].T @ fit[1] / len(fit[0]) - np.outer(*means)
    left, _, right = np.linalg.svd(roots[0] @ tie @ roots[1])
    directions = roots[0] @ left[:, :TOP], roots[1] @ right[:TOP].T
    return summed([(v - m) @ d for v, m, d in zip(test, means, directions, strict=True)])


class Line(NamedTuple):
    """A method's total correlation; of ours, also after how many steps."""

    method: str
    features: int
    total: float
    seconds: float
    steps: int = 0


def peer_lines(train: Views, test: Views, counts: tuple[int, ...]) -> Iterator[Line]:
    """Fit the peers on all training rows, smallest first."""
    gammas = [median_bandwidth("gaussian", np.ascontiguousarray(view[:1000])) for view in train]
    begin = time.perf_counter()
    total = total_correlation(train, test)
    yield Line("linear CCA", train[0].shape[1], total, time.perf_counter() - begin)
    for count in counts:
        for name, kind in (("random Fourier", RBFSampler), ("Nyström", Nystroem)):
            begin = time.perf_counter()
            maps = [kind(gamma=1 / g, n_components=count, random_state=0) for g in gammas]
            fitted = [m.fit(view) for m, view in zip(maps, train, strict=True)]
            fit, late = (
                [m.transform(view) for m, view in zip(fitted, part, strict=True)]
                for part in (train, test)
            )
            total = total_correlation(fit, late)
            yield Line(name, count, total, time.perf_counter() - begin)


def our_lines(form: Form, rows: FloatArray, test: FloatArray) -> Iterator[Line]:
    """Learn from rows drawn with replacement, and look at the functions now and then."""
    spec = dataclasses.replace(form.spec, first_view=rows.shape[1] // 2, standardise=False)
    tracker, rng, seconds = DSPair(), np.random.default_rng(0), 0.0
    state = tracker.init(spec, rows[:1000])
    for step in range(1, form.looks[-1] + 1):
        batch = rows[rng.integers(0, len(rows), spec.row_batch)]
        begin = time.perf_counter()
        state, _ = tracker.update(spec, state, batch)
        seconds += time.perf_counter() - begin
        if step in form.looks:
            found = []
            for part in (rows, test):
                predictions = tracker.project(spec, state, part, ("q",))
                found.append([np.asarray(predictions.z), np.asarray(predictions.q)])
            total = total_correlation(found[0], found[1])
            yield Line(form.name, spec.budget, total, seconds, step)


def table3(quick: bool) -> Found:
    """Total correlation of the top 50 pairs, by method and number of features."""
    rows, test = read_digits()
    if quick:
        rows, test = rows[:3_000], test[:1_000]
    counts = COUNTS[:1] if quick else COUNTS
    found = list(peer_lines(np.hsplit(rows, 2), np.hsplit(test, 2), counts))
    for form in FORMS[3:] if quick else FORMS[2:]:
        looks = (10,) if quick else form.looks
        found += list(our_lines(form._replace(looks=looks), rows, test))[-1:]
    values = {f"{each.method}, {each.features}": each.total for each in found}
    return Found(values)


def main() -> None:
    """Print what more features and steps come to, line by line."""
    rows, test = read_digits()
    columns = ["form", "features", "steps", "total correlation", "s"]
    table = Table("doubly", "pairs", columns, tolerance=TIMES)
    for line in itertools.chain.from_iterable(our_lines(form, rows, test) for form in FORMS):
        cells = line.method, f"{line.features:,}", line.steps
        table.add(*cells, f"{line.total:.1f}", f"{line.seconds:.0f}")
    views, late = np.hsplit(rows, 2), np.hsplit(test, 2)
    heads = ["features", *(f"ridge {ridge:g}" for ridge in RIDGES)]
    table = Table("doubly", "pairs_exact", heads)
    for count in (2048, 4096, 8192, 16_384):
        totals = [f"{each:.1f}" for each in exact_totals(views, late, count, RIDGES, TOP)]
        table.add(f"{count:,}", *totals)


if __name__ == "__main__":
    main()
