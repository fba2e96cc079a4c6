"""How far two correct evaluations of one OK-FEB step may lie apart in double precision.

First-order error analysis (Higham, Accuracy and Stability of Numerical Algorithms, ch. 3 and 7):
a sum of m products carries at most m·ε times the sum of their absolute values, a solution of
(M + λI)q = b moves by ‖(M + λI)⁻¹‖(‖ΔM‖‖q‖ + ‖Δb‖). Both sides of a comparison err, and the
terms left out are of second order: `SLACK` covers the two.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tests.oracles.okfeb import Oracle

Array = npt.NDArray[np.float64]

EPS = 2.0**-52
INEXACT = 1e-9
"""What the loop lets pass of z, relative, before it computes KA and Q anew."""
NOTHING = 1e-100
"""A row that is seen no better is as good as not seen."""
SLACK = 8.0


class Bounds(NamedTuple):
    """Largest absolute differences: of q (norm), ℓ, the new A and its row norms, z (norm)."""

    q: float
    loss: float
    factor: float
    z: float
    s: float

    def times(self, rows: int) -> Bounds:
        """Bounds of so many steps, one after the other."""
        return Bounds(*(rows * bound + NOTHING for bound in self))


def _norm(matrix: Array) -> float:
    return float(np.linalg.norm(matrix))


def kernel_error(oracle: Oracle, rows: Array, columns: Array) -> Array:
    """|Δκ|: radial kernels lie in [0, 1] and t·exp(-t) <= 1/e; powers multiply relative errors."""
    width, spec = rows.shape[1], oracle.spec
    shape = (len(rows), len(columns))
    if spec.kernel in ("gaussian", "laplacian"):
        return np.full(shape, (width + 4) * EPS)
    absolute = np.abs(rows) @ np.abs(columns).T
    degree = 1
    if spec.kernel == "polynomial":
        degree = spec.degree
        absolute = (absolute + spec.offset) ** degree
    return np.asarray((width + 4) * degree * EPS * absolute)


def bounds(oracle: Oracle, x: Array, step: float | None = None) -> Bounds:
    """Bounds of one step of `oracle` (as it is before the row) with the row x."""
    factor = oracle.factor
    size, rank = factor.shape
    unit = (size + rank + 4) * EPS
    stored = oracle.kernel(oracle.stored, oracle.stored)
    k = oracle.kernel(oracle.stored, x[None])[:, 0]
    own = float(oracle.kernel(x[None], x[None])[0, 0])
    wrong_stored = kernel_error(oracle, oracle.stored, oracle.stored) + unit * np.abs(stored)
    wrong_k = kernel_error(oracle, oracle.stored, x[None])[:, 0] + unit * np.abs(k)
    size_of = np.abs(factor)

    q, _ = oracle.project(x)
    ridge, inner = oracle.ridge, oracle.inner
    d_inner = 2 * _norm(size_of.T @ wrong_stored @ size_of)
    d_b = 2 * _norm(size_of.T @ wrong_k)
    inverse = 1 / np.linalg.eigvalsh(inner + ridge * np.eye(rank))[0]
    length = _norm(q)
    # The factorisation's own backward error, r²·ε‖M + λI‖.
    d_solve = rank * unit * (_norm(inner) + ridge)
    d_q = SLACK * inverse * ((d_inner + d_solve) * length + d_b)
    let_pass = INEXACT * math.sqrt(max(float(q @ factor.T @ k), 0.0))
    d_q += SLACK * math.sqrt(inverse) * let_pass
    b = _norm(factor.T @ k)
    d_loss = SLACK * (
        2 * d_b * length
        + d_inner * length**2
        + unit * (own + 2 * b * length + (_norm(inner) + ridge) * length**2)
    )
    # Away from the minimum over q, ℓ moves with both b and Mq.
    d_loss += 2 * (b + (_norm(inner) + ridge) * length) * d_q

    d_factor = math.nan
    if step is not None:
        d_factor = _factor_bound(oracle, x, step, q, d_q)
    root = math.sqrt(_norm(inner))
    d_z = root * d_q + SLACK * let_pass + SLACK * math.sqrt(d_inner + d_solve) * length
    # ‖√K - √K'‖ <= √‖K - K'‖ for semidefinite matrices.
    along = _norm(factor @ q)
    d_s = SLACK * math.sqrt(_norm(wrong_stored)) * along
    d_s += math.sqrt(_norm(stored)) * _norm(factor) * d_q
    return Bounds(d_q, d_loss, d_factor, d_z, d_s)


def _factor_bound(oracle: Oracle, x: Array, step: float, q: Array, d_q: float) -> float:
    factor, spec = oracle.factor, oracle.spec
    length, ridge = _norm(q), spec.ridge / oracle.n
    relative: dict[str, float] = {"inverse_n": EPS, "inverse_n2": EPS}
    d_step = step * relative.get(spec.step, 2 * d_q / length + 64 * EPS)
    unit = (len(factor) + len(q) + 4) * EPS
    if spec.rule == "parametric":
        gradient = _norm(factor) * (length**2 + ridge) + length
        d_gradient = (2 * _norm(factor) * length + 1) * d_q + unit * gradient
    else:
        grown_rows = np.vstack([oracle.stored, x])
        grown = oracle.kernel(grown_rows, grown_rows)
        wrong = kernel_error(oracle, grown_rows, grown_rows) + unit * np.abs(grown)
        padded = np.vstack([factor, np.zeros(len(q))])
        image, d_image = _norm(np.abs(grown) @ np.abs(padded)), _norm(wrong @ np.abs(padded))
        edge = _norm(grown[:, -1])
        gradient = image * (length**2 + ridge) + edge * length
        d_gradient = (
            d_image * (length**2 + ridge)
            + (2 * image * length + edge) * d_q
            + _norm(wrong[:, -1]) * length
            + unit * gradient
        )
    return float(SLACK * (step * d_gradient + d_step * gradient + unit * _norm(factor)))


def cost_bound(candidate: Oracle, d_factor: float) -> Array:
    """How far each of the budget policy's costs may be off, given the error of A."""
    costs, factor = candidate.costs(), candidate.factor
    count = len(costs)
    if candidate.spec.policy == "fifo":
        return np.zeros(count)
    if candidate.spec.policy == "norm":
        return d_factor + count * EPS * costs
    # ‖a‖²·κ, or ‖a‖²/[K⁻¹]_ii, which is at most as large and moves with the condition of K;
    # the enumeration of eq. 24 cancels terms as large as tr(|A|ᵀ|K||A|).
    lifted = candidate.lifted()
    whole = float(np.trace(np.abs(factor).T @ np.abs(lifted) @ np.abs(factor)))
    share = compensation_bound(candidate) if candidate.spec.policy == "compensated" else 0.0
    moved = np.diag(lifted) * (2 * np.linalg.norm(factor, axis=1) + d_factor) * d_factor
    return np.asarray(moved + (SLACK * count * EPS + share) * whole)


def compensation_bound(candidate: Oracle) -> float:
    """Relative error of K_rest⁻¹k: two solutions with the condition of K_S."""
    lifted = candidate.lifted()
    return SLACK * len(lifted) * EPS * float(np.linalg.cond(lifted))
