"""Doubly stochastic component analysis: Fig. 1 to 5 and Table 3 of the paper.

- Fig. 1, 2: rows from N(0, 1) and the Gaussian kernel exp(-(x-y)²/2): the eigenfunctions are
  Hermite functions, with eigenvalues .618, .236, .0902, ... k = 3 and θ₁ = .01 as in section 7.1.
  The paper's pool of 262,144 features is full after 2,048 steps of 128; here after as many steps
  of 32, of 128 rows instead of 512: a sixteenth of its work. A fresh row is drawn each time.
- Fig. 3: two latent components, N(-1, .6²) and Gamma(1.2, 1), three views; KSVD of two of them, the
  components by simultaneous diagonalisation with the third. A quarter of the paper's features.
- Table 3: halves of MNIST's digits (`doubly_pairs`); MNIST8M is not at hand.
- Fig. 5: sarcos in place of KUKA's two million rows.

References: B. Xie, Y. Liang, L. Song, "Scale up nonlinear component analysis with doubly
stochastic gradients", NIPS 2015, section 7; C. Rasmussen, C. Williams, "Gaussian processes for
machine learning", 2006, section 4.3.1 (the eigenfunctions); A. Anandkumar et al., "Two SVDs
suffice", 2012 (the components).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite import hermval
from numpy.polynomial.hermite_e import hermegauss
from scipy.stats import gamma as gamma_law
from scipy.stats import norm
from sklearn.kernel_approximation import Nystroem, RBFSampler

from benchmarks.paper.doubly_pairs import fig5, table3
from benchmarks.paper.parts import Found, Measure, curves
from kerneltrack.arrays import FloatArray
from kerneltrack.trackers import DSKPCA, DSKPCASpec, DSPair, DSPairSpec
from kerneltrack.trackers.doubly.kpca import functions

Pair = Callable[[FloatArray], FloatArray]
"""Functions of rows of one view, (n,) -> (n, 2)."""

RANK = 3
ROWS, FEATURES = 128, 32
FIRST_STEP = 100
NODES = 80
LATENT, BANDWIDTH, ETA = 100_000, 0.25, (1.0, 0.6)
"""Rows of Fig. 3, the width of its density estimates, the vector that tells components apart."""


class Size(NamedTuple):
    """How much is run: features in the pool, steps in all, seeds."""

    budget: int
    steps: int
    seeds: int


FULL = Size(65_536, 2048, 2)
QUICK = Size(16_384, 512, 2)


class Course(NamedTuple):
    """One run: at which steps it was looked at, and what was seen."""

    steps: list[int]
    sine2: list[float]
    correlation: list[FloatArray]
    functions: FloatArray


def eigenfunctions(points: FloatArray) -> FloatArray:
    """Return the first eigenfunctions at some points, (n, 3), of norm 1 in L² of N(0, 1)."""
    a, b = 0.25, 0.5
    c = np.sqrt(a * a + 2 * a * b)
    found = []
    for k in range(RANK):
        values = np.exp(-(c - a) * points**2) * hermval(np.sqrt(2 * c) * points, np.eye(RANK)[k])
        found.append(values / np.sqrt((WEIGHTS * _at_nodes(k, a, c) ** 2).sum()))
    return np.column_stack(found)


def _at_nodes(k: int, a: float, c: float) -> FloatArray:
    values: FloatArray = hermval(np.sqrt(2 * c) * POINTS, np.eye(RANK)[k])
    return np.exp(-(c - a) * POINTS**2) * values


POINTS, WEIGHTS = hermegauss(NODES)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
# Where the weight is nothing the Hermite functions overflow nothing, but say nothing either.
ROOT = np.sqrt(WEIGHTS)[:, None]


def squared_sine(found: FloatArray, true: FloatArray) -> float:
    """Return sin² of the largest principal angle between two spans in L² of N(0, 1)."""
    left, _ = np.linalg.qr(ROOT * found)
    right, _ = np.linalg.qr(ROOT * true)
    # ‖(I - P)Q‖² keeps its digits where 1 - cos² has none.
    rest = right - left @ (left.T @ right)
    return float(np.linalg.norm(rest, 2) ** 2)


def correlations(found: FloatArray, true: FloatArray) -> FloatArray:
    """Return the absolute correlation of each function with its eigenfunction, means not taken."""
    products = np.abs((WEIGHTS[:, None] * found * true).sum(axis=0))
    result: FloatArray = products / np.sqrt((WEIGHTS[:, None] * found**2).sum(axis=0))
    return result


def run(form: str, size: Size, seed: int) -> Course:
    """Run one form on fresh rows."""
    spec = DSKPCASpec(
        rank=RANK,
        budget=size.budget,
        gamma=2.0,
        standardise=False,
        form=form,
        row_batch=ROWS,
        feature_batch=FEATURES,
        step_size=1.0,
        step_decay=0.01,
        seed=seed,
        emit="q",
    )
    tracker, rng, true = DSKPCA(), np.random.default_rng(1000 + seed), eigenfunctions(POINTS)
    state = tracker.init(spec, np.zeros((1, 1)))
    looks = np.unique(np.round(np.geomspace(1, size.steps, 40)).astype(int)).tolist()
    sine2: list[float] = []
    seen: list[FloatArray] = []
    for t in range(1, size.steps + 1):
        state, _ = tracker.update(spec, state, rng.normal(size=(ROWS, 1)))
        if t in looks:
            found = functions(spec, state, POINTS[:, None])
            sine2.append(squared_sine(found, true))
            seen.append(correlations(found, true))
    grid = np.linspace(-3, 3, 121)
    return Course(looks, sine2, seen, functions(spec, state, grid[:, None]))


def slope(steps: list[int], sine2: FloatArray, last: int) -> float:
    """Return the slope of log sin² over log t from `FIRST_STEP` to `last`."""
    at = np.array(steps)
    kept = (at >= FIRST_STEP) & (at <= last)
    return float(np.polyfit(np.log(at[kept]), np.log(sine2[kept]), 1)[0])


def fig1(quick: bool) -> Found:
    """sin² of the angle between the functions' span and the true one, by the step."""
    courses = _courses("subspace", quick)
    size, steps = QUICK if quick else FULL, courses[0].steps
    mean = np.exp(np.mean([np.log(course.sine2) for course in courses], axis=0))
    filled = min(size.budget // FEATURES, size.steps)
    values = {
        "slope of log sin² over log t": slope(steps, mean, filled),
        "sin² at the end": float(mean[-1]),
    }
    lines = {"DSGD-KPCA": (steps, mean.tolist())}
    axes = {"xscale": "log", "yscale": "log", "xlabel": "step t", "ylabel": "sin²"}
    return Found(values, curves(lines, **axes))


def fig2(quick: bool) -> Found:
    """The functions of the GHA form beside the true eigenfunctions."""
    courses = _courses("gha", quick)
    least = np.min([course.correlation[-1] for course in courses], axis=0)
    grid = np.linspace(-3, 3, 121)
    true, found = eigenfunctions(grid), courses[0].functions
    lines = {}
    for k in range(RANK):
        scale = (true[:, k] @ found[:, k]) / (found[:, k] @ found[:, k])
        lines[f"eigenfunction {k + 1}"] = (grid.tolist(), true[:, k].tolist())
        lines[f"found {k + 1}"] = (grid.tolist(), (scale * found[:, k]).tolist())
    values = {f"least |correlation|, function {k + 1}": float(least[k]) for k in range(RANK)}
    return Found(values, curves(lines, xlabel="x", ylabel=""))


def _courses(form: str, quick: bool) -> list[Course]:
    size = QUICK if quick else FULL
    return [run(form, size, seed) for seed in range(size.seeds)]


def latent(count: int, seed: int) -> FloatArray:
    """Draw rows of three views, (n, 3), alike and independent within a component."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, count) == 0
    normal, skewed = rng.normal(-1.0, 0.6, (count, 3)), rng.gamma(1.2, 1.0, (count, 3))
    return np.where(first[:, None], normal, skewed)


def conditional(rows: FloatArray, left: Pair, right: Pair, grid: FloatArray) -> FloatArray:
    """Return the density of a view given each component, on a grid, (2, g).

    With M = E[u(x)v(y)ᵀ] and M_η = E[u(x)v(y)ᵀ (ηᵀu(z))], M_ηM⁻¹ has the eigenvectors
    a_h = E[u | h] and the eigenvalues ηᵀa_h; functions of z that are 1 on average given one
    component, and 0 given the other, weigh the rows of a kernel density estimate of x.
    """
    u, v, w = left(rows[:, 0]), right(rows[:, 1]), left(rows[:, 2])
    scale = np.sqrt((u**2).mean(axis=0))
    u, w = u / scale, w / scale
    moment = u.T @ v / len(u)
    tilted = (u * (w @ ETA)[:, None]).T @ v / len(u)
    values, vectors = np.linalg.eig(tilted @ np.linalg.inv(moment))
    means = np.real(vectors * (values / (np.array(ETA) @ vectors)))
    inverse = np.linalg.inv(means)
    shares = inverse @ u.mean(axis=0)
    weights = (w @ inverse.T) / shares
    apart = (grid[:, None] - rows[None, :, 0]) / BANDWIDTH
    bumps = np.exp(-(apart**2) / 2.0) / (BANDWIDTH * np.sqrt(2.0 * np.pi))
    return np.asarray((bumps @ weights).T / len(rows))


def fig3(quick: bool) -> Found:
    """Densities of two latent components, by KSVD and by features that are drawn once."""
    rows = latent(5_000 if quick else LATENT, 0)
    few = rows[:10_000]
    pairs = {
        "DSGD-KSVD": _doubly_pair(rows),
        "random Fourier": _fixed_pair(RBFSampler(gamma=0.5, n_components=512, random_state=0), few),
        "Nyström": _fixed_pair(Nystroem(gamma=0.5, n_components=512, random_state=0), few),
    }
    grid = np.linspace(-4.0, 7.0, 221)
    narrow = np.linspace(-8.0, 14.0, 4_401)
    smooth = np.exp(-(((grid[:, None] - narrow) / BANDWIDTH) ** 2) / 2.0)
    smooth /= BANDWIDTH * np.sqrt(2.0 * np.pi)
    laws = np.array([norm.pdf(narrow, -1.0, 0.6), gamma_law.pdf(narrow, 1.2)])
    true = laws @ smooth.T * (narrow[1] - narrow[0])
    lines = {f"true {k + 1}": (grid.tolist(), each.tolist()) for k, each in enumerate(true)}
    values = {}
    for name, (left, right) in pairs.items():
        found = conditional(few, left, right, grid)
        if np.abs(found - true).sum() > np.abs(found[::-1] - true).sum():
            found = found[::-1]
        off = np.abs(found - true).sum(axis=1) * (grid[1] - grid[0])
        values[f"{name}, L1 distance of the worse density"] = float(off.max())
        lines |= {f"{name} {k + 1}": (grid.tolist(), each.tolist()) for k, each in enumerate(found)}
    return Found(values, curves(lines, xlabel="x", ylabel="density"))


def _doubly_pair(rows: FloatArray) -> tuple[Pair, Pair]:
    spec = DSPairSpec(
        rank=2,
        budget=2_048,
        feature_batch=64,
        row_batch=512,
        form="ksvd",
        first_view=1,
        gamma=2.0,
        standardise=False,
        step_size=2.0,
        step_decay=0.01,
    )
    tracker = DSPair()
    state = tracker.init(spec, rows[:1, :2])
    for _ in range(max(1, 200 * 512 // len(rows))):
        state, _ = tracker.update(spec, state, np.ascontiguousarray(rows[:, :2]))

    def of(view: int) -> Pair:
        def values(x: FloatArray) -> FloatArray:
            predictions = tracker.project(spec, state, np.column_stack([x, x]), ("q",))
            return np.asarray(predictions.z if view == 0 else predictions.q)

        return values

    return of(0), of(1)


def _fixed_pair(kind: RBFSampler | Nystroem, rows: FloatArray) -> tuple[Pair, Pair]:
    fitted = kind.fit(rows[:, :1])
    x, y = (fitted.transform(rows[:, k : k + 1]) for k in (0, 1))
    left, _, right = np.linalg.svd(x.T @ y / len(rows))
    sides = left[:, :2], right[:2].T

    def of(view: int) -> Pair:
        return lambda each: np.asarray(fitted.transform(each[:, None]) @ sides[view])

    return of(0), of(1)


PARTS: dict[str, Measure] = {
    "fig1": fig1,
    "fig2": fig2,
    "fig3": fig3,
    "table3": table3,
    "fig5": fig5,
}
