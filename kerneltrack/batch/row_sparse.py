"""Row-sparse low-rank approximation of lifted data by block coordinate descent.

With K = κ(X, X) of N rows, a factor A (N×r, row a_i) and coefficients Q (r×N, column q_n):

    f(A, Q) = (1/N) Σ‖φ(x_n) - ΦAq_n‖² + (λ/N) Σ‖q_n‖² + η Σ‖a_i‖

A sweep is one exact step for all columns, q_n = (AᵀKA + λI)⁻¹Aᵀk_n, and one step for every row of
A in turn. As a function of a_i alone f is ½a_iᵀH_i a_i + p_iᵀa_i + η‖a_i‖ and a constant, with

    H_i = (2/N) κ_ii QQᵀ,    p_i = (2/N) (QQᵀ Σ_{j≠i} κ_ij a_j - Qk_i)

- BCD-Ex takes its minimum: 0 if ‖p_i‖ <= η, else a_i = -(H_i + (η/Δ)I)⁻¹p_i with the norm
  Δ = ‖a_i‖ that solves Σ_k (u_kᵀp_i)²/(γ_k Δ + η)² = 1, H_i = Σ γ_k u_k u_kᵀ.
- BCD-PG takes a proximal step: â = a_i - μ(H_i a_i + p_i), a_i = (1 - μη/‖â‖)₊ â, μ = 1/‖H_i‖.

Neither can raise f. All H_i are multiples of one matrix, so that one eigendecomposition serves a
whole sweep: Jacobi's rotations, so that the descent is the same on every system
(`kerneltrack/native/row_sparse.c`).

Reference: F. Sheikholeslami, G. B. Giannakis, "Scalable kernel-based learning via low-rank
approximation of lifted data", Allerton Conf., 2017, algorithms BCD-Ex and BCD-PG.

Differs from the paper: H_i and p_i, which it does not print, come from the cost (and p_i carries
the sign). It starts from rows that the caller chooses: from its one row a_1 no sweep can leave
rank one, since every q_n and p_i is a multiple of a_1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import FloatArray
from kerneltrack.native.binding import call
from kerneltrack.native.layouts import FloatMatrix

PROXIMAL, EXACT = range(2)


class Descent(NamedTuple):
    """Where a descent stands; every sweep writes to it.

    Attributes:
        gram: (N, N) K.
        factor: (N, r) A.
        image: (N, r) KA.
        q: (r, N) Q.
    """

    gram: FloatMatrix
    factor: FloatMatrix
    image: FloatMatrix
    q: FloatMatrix


class RowSparseSettings(NamedTuple):
    """Which steps the rows take: PROXIMAL or EXACT; η and λ."""

    method: int
    penalty: float
    ridge: float


def start_descent(gram: FloatArray, factor: FloatArray) -> Descent:
    """Begin a descent from a factor, (N, r). Cost O(N²r)."""
    descent = Descent(
        np.ascontiguousarray(gram),
        np.array(factor, order="C"),
        np.empty(factor.shape),
        np.zeros(factor.shape[::-1]),
    )
    call("row_sparse_start", descent)
    return descent


def sweep(descent: Descent, method: int, penalty: float, ridge: float) -> tuple[float, float]:
    """Run one sweep; return f after it and the relative change of Q.

    Cost O(Nr²) and O(Nr) for every row of A that changes. A row with κ(x, x) = 0 keeps what it has:
    it adds nothing to the subspace.
    """
    result = np.empty(2)
    call(
        "row_sparse_sweep", RowSparseSettings(method, float(penalty), float(ridge)), descent, result
    )
    after, change = result.tolist()
    return after, change


def solve_q(descent: Descent, ridge: float) -> None:
    """Write Q = (AᵀKA + λI)⁻¹AᵀK of the factor as it stands. Cost O(Nr²)."""
    call("row_sparse_solve", RowSparseSettings(EXACT, 0.0, float(ridge)), descent)


def norm_of_minimum(values: FloatArray, along: FloatArray, penalty: float) -> float:
    """Return Δ > 0 with Σ along_k²/(values_k Δ + η)² = 1, where ‖along‖ > η: the norm in BCD-Ex."""
    out = np.empty(1)
    call("row_sparse_norm", values, along, (float(penalty),), out)
    return float(out[0])
