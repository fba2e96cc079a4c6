"""Kernel machines fitted to all rows at once: what POLK's tables have beside it.

With the features z of rows whose products are the kernel's on some rows ("basis"), one function a
class minimises the mean loss + λ/2·Σ_c‖w_c‖², by L-BFGS; the hinge is smoothed at its kinks, which
L-BFGS needs. All rows are the basis of "L-BFGS" there. The import vector machine adds the row to
the basis that lowers the cost most, of some drawn at random (it looks at all of them in its paper).

Reference: J. Zhu, T. Hastie, "Kernel logistic regression and the import vector machine", Journal of
Computational and Graphical Statistics 14(1), 2005.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import logsumexp

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.kernels import Kernel, gram

FLAT, DRAWN, STEPS, GLANCE = 1e-8, 20, 200, 5
"""Added to the kernel's diagonal; rows that the import vector machine looks at for each that it
adds; steps of L-BFGS, and those of a look."""


class Loss(NamedTuple):
    """The loss μ·log Σ_c exp((f_c + δ[c ≠ y])/μ) - f_y of a row.

    Attributes:
        margin: δ.
        width: μ; against 0 it is the multi-class hinge.
    """

    margin: float
    width: float


LOSSES = {"logistic": Loss(0.0, 1.0), "hinge": Loss(1.0, 0.02)}


class Fitted(NamedTuple):
    """Functions Σ_i α_ic κ(x_i, ·) of the basis' rows.

    Attributes:
        rows: (m, D) of the basis.
        weights: (m, C) α.
        cost: Mean loss and ridge.
    """

    rows: FloatArray
    weights: FloatArray
    cost: float


def loss_of(values: FloatArray, y: IntArray, loss: Loss) -> tuple[FloatArray, FloatArray]:
    """Return each row's loss, (n,), and its gradient in the functions' values, (n, C)."""
    at = np.arange(len(y))
    raised = values + loss.margin
    raised[at, y] = values[at, y]
    total = logsumexp(raised / loss.width, axis=1)
    slopes = np.exp(raised / loss.width - total[:, None])
    slopes[at, y] -= 1.0
    return np.asarray(loss.width * total - values[at, y]), slopes


def fit(
    kernel: Kernel,
    x: FloatArray,
    y: IntArray,
    basis: FloatArray,
    *,
    loss: str,
    ridge: float,
    steps: int = STEPS,
) -> Fitted:
    """Fit functions on a basis to all rows, (n, D), of classes 0 to C - 1."""
    root = cholesky(gram(kernel, basis, basis) + FLAT * np.eye(len(basis)), lower=True)
    z = solve_triangular(root, gram(kernel, basis, x), lower=True).T
    shape = len(basis), int(y.max()) + 1

    def cost(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = flat.reshape(shape)
        losses, slopes = loss_of(z @ weights, y, LOSSES[loss])
        value = float(losses.mean()) + ridge / 2.0 * float(flat @ flat)
        return value, (z.T @ slopes / len(y) + ridge * weights).ravel()

    found: Any = minimize(
        cost, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps}
    )
    weights = solve_triangular(root, found.x.reshape(shape), lower=True, trans="T")
    return Fitted(basis, weights, float(found.fun))


def import_vectors(
    kernel: Kernel, x: FloatArray, y: IntArray, *, ridge: float, count: int, seed: int
) -> Fitted:
    """Fit kernel logistic regression on rows that are added one after the other."""
    rng, basis = np.random.default_rng(seed), x[:0]
    for _ in range(count):
        looks = [
            fit(kernel, x, y, np.vstack([basis, x[i]]), loss="logistic", ridge=ridge, steps=GLANCE)
            for i in rng.choice(len(x), DRAWN, replace=False)
        ]
        basis = min(looks, key=lambda each: each.cost).rows
    return fit(kernel, x, y, basis, loss="logistic", ridge=ridge)


def risk_and_error(
    kernel: Kernel, model: Fitted, x: FloatArray, y: IntArray, loss: str
) -> tuple[float, float]:
    """Return the mean loss, and the share of rows that are wrong."""
    values = gram(kernel, x, model.rows) @ model.weights
    return float(loss_of(values, y, LOSSES[loss])[0].mean()), float(
        (values.argmax(axis=1) != y).mean()
    )
