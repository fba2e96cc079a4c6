"""The row-sparse approximation of Sheikholeslami and Giannakis (Allerton 2017), line by line.

K is κ(X, X), A is N×r with the rows a_i, Q is r×N with the columns q_n. H_i and p_i are summed
term by term as the cost's derivative has them, the norm Δ comes from bisection.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

Array = npt.NDArray[np.float64]


def cost(full: Array, factor: Array, q: Array, penalty: float, ridge: float) -> float:
    """(1/N) Σ‖φ(x_n) - ΦAq_n‖² + (λ/N) Σ‖q_n‖² + η Σ‖a_i‖."""
    total = 0.0
    for n in range(len(full)):
        along = factor @ q[:, n]
        total += full[n, n] - 2 * full[n] @ along + along @ full @ along + ridge * q[:, n] @ q[:, n]
    return float(total / len(full) + penalty * sum(np.linalg.norm(row) for row in factor))


def coefficients(full: Array, factor: Array, ridge: float) -> Array:
    """q_n = (AᵀKA + λI)⁻¹Aᵀk_n for every n."""
    inner = factor.T @ full @ factor + ridge * np.eye(factor.shape[1])
    return np.column_stack(
        [np.linalg.solve(inner, factor.T @ full[:, n]) for n in range(len(full))]
    )


def quadratic(full: Array, factor: Array, q: Array, i: int) -> tuple[Array, Array]:
    """H_i and p_i of ½aᵀH_i a + p_iᵀa, the cost as a function of row i alone."""
    count, rank = factor.shape
    hessian, slope = np.zeros((rank, rank)), np.zeros(rank)
    for n in range(count):
        hessian += 2 / count * full[i, i] * np.outer(q[:, n], q[:, n])
        others = sum(full[i, j] * (factor[j] @ q[:, n]) for j in range(count) if j != i)
        slope += 2 / count * (others - full[i, n]) * q[:, n]
    return hessian, slope


def exact_row(hessian: Array, slope: Array, penalty: float) -> Array:
    """BCD-Ex: zero if ‖p‖ <= η, else -(H + (η/Δ)I)⁻¹p with ‖y(Δ)‖² = 1."""
    if np.linalg.norm(slope) <= penalty:
        return np.zeros_like(slope)
    gammas, vectors = np.linalg.eigh(hessian)
    along = vectors.T @ slope

    def length(delta: float) -> float:
        return float(np.sum((along / (np.maximum(gammas, 0) * delta + penalty)) ** 2)) - 1

    if length(0.0) <= 0:
        return np.zeros_like(slope)
    most = 1.0
    while length(most) > 0:
        most *= 2
    delta: Any = brentq(length, 0.0, most, xtol=1e-300, rtol=8.9e-16, maxiter=1000)
    return np.asarray(-np.linalg.solve(hessian + penalty / delta * np.eye(len(slope)), slope))


def proximal_row(hessian: Array, slope: Array, before: Array, penalty: float) -> Array:
    """BCD-PG with μ = 1/‖H‖: a forward step, then group shrinkage."""
    step = 1 / np.linalg.norm(hessian, 2)
    hat = before - step * (hessian @ before + slope)
    if np.linalg.norm(hat) <= step * penalty:
        return np.zeros_like(slope)
    gap = np.linalg.norm(hat) - step * penalty
    return np.asarray(hat / (1 + penalty * step / gap))


def sweep(
    full: Array, factor: Array, penalty: float, ridge: float, exact: bool
) -> tuple[Array, Array]:
    """One sweep from A: the new A, and the Q that it was made with."""
    q, after = coefficients(full, factor, ridge), factor.copy()
    for i in range(len(full)):
        hessian, slope = quadratic(full, after, q, i)
        if exact:
            after[i] = exact_row(hessian, slope, penalty)
        else:
            after[i] = proximal_row(hessian, slope, after[i], penalty)
    return after, q
