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
whole sweep.

Reference: F. Sheikholeslami, G. B. Giannakis, "Scalable kernel-based learning via low-rank
approximation of lifted data", Allerton Conf., 2017, algorithms BCD-Ex and BCD-PG.

Differs from the paper: H_i and p_i, which it does not print, come from the cost (and p_i carries
the sign). It starts from rows that the caller chooses: from its one row a_1 no sweep can leave
rank one, since every q_n and p_i is a multiple of a_1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.compiled import compiled, inlined
from kerneltrack.linalg import inverse_cholesky, multiply_transposed, solve_factored
from kerneltrack.sums import dot, fused

FloatArray = npt.NDArray[np.float64]

PROXIMAL, EXACT = range(2)
ROOT_STEPS = 200
ROOT_TOLERANCE = 1e-14
FAR = 1e300
"""A norm that no sound problem comes to: p is not in the range of H but for rounding."""


class Descent(NamedTuple):
    """Where a descent stands; every sweep writes to it.

    Attributes:
        gram: (N, N) K.
        factor: (N, r) A.
        image: (N, r) KA.
        q: (r, N) Q.
        objective: f after each sweep.
    """

    gram: FloatArray
    factor: FloatArray
    image: FloatArray
    q: FloatArray
    objective: list[float]


class Rows(NamedTuple):
    """What the rows' updates of one sweep work on: a descent, and QQᵀ by its eigenvectors.

    Attributes:
        gram: (N, N) K.
        factor: (N, r) A, written to.
        image: (N, r) KA, written to.
        q: (r, N) Q.
        values: (r,) eigenvalues of QQᵀ, >= 0.
        vectors: (r, r) its eigenvectors, one a row.
    """

    gram: FloatArray
    factor: FloatArray
    image: FloatArray
    q: FloatArray
    values: FloatArray
    vectors: FloatArray


def start_descent(gram: FloatArray, factor: FloatArray) -> Descent:
    """Begin a descent from a factor, (N, r). Cost O(N²r)."""
    image = np.empty_like(factor)
    multiply_transposed(gram, np.ascontiguousarray(factor.T), len(gram), image)
    return Descent(gram, factor.copy(), image, np.zeros((factor.shape[1], len(gram))), [])


def sweep(descent: Descent, method: int, penalty: float, ridge: float) -> float:
    """Run one sweep, add f to the objectives and return the relative change of Q.

    Cost O(Nr²) and O(Nr) for every row of A that changes.
    """
    before = descent.q.copy()
    solve_q(descent.factor, descent.image, ridge, descent.q)
    outer = np.empty((descent.q.shape[0],) * 2)
    multiply_transposed(descent.q, descent.q, descent.q.shape[1], outer)
    values, vectors = np.linalg.eigh(outer)
    values, vectors = np.maximum(values, 0.0), np.ascontiguousarray(vectors.T)
    update_rows(
        method,
        penalty,
        Rows(descent.gram, descent.factor, descent.image, descent.q, values, vectors),
    )
    descent.objective.append(objective(descent, penalty, ridge))
    norm = float(np.linalg.norm(before))
    change = float(np.linalg.norm(descent.q - before))
    return change / norm if norm > 0 else np.inf


def objective(descent: Descent, penalty: float, ridge: float) -> float:
    """Return f(A, Q) of a descent. Cost O(Nr²)."""
    count = len(descent.gram)
    outer = descent.q @ descent.q.T
    fit = np.trace(descent.gram) - 2.0 * np.sum(descent.image * descent.q.T)
    fit += np.sum((descent.factor.T @ descent.image) * outer)
    price = penalty * np.sum(np.linalg.norm(descent.factor, axis=1))
    return float((fit + ridge * np.trace(outer)) / count + price)


@compiled
def solve_q(factor: FloatArray, image: FloatArray, ridge: float, q: FloatArray) -> None:
    """Write Q = (AᵀKA + λI)⁻¹AᵀK to `q`."""
    count, rank = factor.shape
    inner = np.zeros((rank, rank))
    for i in range(count):
        for c in range(rank):
            weight = factor[i, c]
            if weight != 0.0:
                for e in range(rank):
                    inner[c, e] = fused(weight, image[i, e], inner[c, e])
    chol = np.empty((rank, rank))
    solver = np.empty((rank, rank))
    solver_t = np.empty((rank, rank))
    inverse_cholesky(inner, ridge, chol, solver, solver_t)
    half = np.empty(rank)
    for n in range(count):
        solve_factored(solver, solver_t, image[n], half, q[:, n])


@compiled
def norm_of_minimum(values: FloatArray, along: FloatArray, penalty: float) -> float:
    """Return Δ > 0 with Σ along_k²/(values_k Δ + η)² = 1, where ‖along‖ > η.

    Newton's method on 1/√Σ - 1 (nearly linear in Δ), kept within a bracket.
    """
    low = 0.0
    high = np.inf
    size = along.shape[0]
    largest = 0.0
    for k in range(size):
        largest = max(largest, values[k])
    length = np.sqrt(dot(along, along, size))
    # The least that the root can be: all of p along the steepest direction.
    at = (length - penalty) / largest if largest > 0.0 else 1.0
    for _ in range(ROOT_STEPS):
        total = 0.0
        slope = 0.0
        for k in range(size):
            depth = values[k] * at + penalty
            part = along[k] * along[k] / (depth * depth)
            total += part
            slope += part * values[k] / depth
        if total > 1.0:
            low = at
        else:
            high = at
        # d/dΔ of 1/√total is slope/total^(3/2).
        root = np.sqrt(total)
        step = (root - 1.0) * total / slope if slope > 0.0 else np.inf
        after = at + step
        if not low < after < high:
            after = 2.0 * at if high == np.inf else 0.5 * (low + high)
        if abs(after - at) <= ROOT_TOLERANCE * at or not after < FAR:
            return at
        at = after
    return at


@inlined
def _exact(values: FloatArray, along: FloatArray, penalty: float) -> float:
    """Turn p (in the frame of H's eigenvectors) into the row of BCD-Ex; return 0 if it is zero."""
    size = along.shape[0]
    if np.sqrt(dot(along, along, size)) <= penalty:
        return 0.0
    length = norm_of_minimum(values, along, penalty)
    for k in range(size):
        along[k] = -along[k] / (values[k] + penalty / length)
    return 1.0


@inlined
def _proximal(values: FloatArray, along: FloatArray, here: FloatArray, penalty: float) -> float:
    """Turn p into the row of BCD-PG but for the factor that is returned; `here` is the old row."""
    size = along.shape[0]
    steepest = 0.0
    for k in range(size):
        steepest = max(steepest, values[k])
    if not steepest > 0.0:
        # Q is zero: the price alone counts.
        return 0.0
    for k in range(size):
        along[k] = here[k] - (values[k] * here[k] + along[k]) / steepest
    length = np.sqrt(dot(along, along, size))
    reach = penalty / steepest
    return float(1.0 - reach / length) if length > reach else 0.0


@compiled
def update_rows(method: int, penalty: float, on: Rows) -> None:
    """Update every row of A in turn, and KA with it; `method` is PROXIMAL or EXACT.

    A row with κ(x, x) = 0 keeps what it has: it adds nothing to the subspace.
    """
    gram, factor, image = on.gram, on.factor, on.image
    count, rank = factor.shape
    unit = 2.0 / count
    along = np.empty(rank)
    here = np.empty(rank)
    gammas = np.empty(rank)
    change = np.empty(rank)
    target = np.empty((count, rank))
    multiply_transposed(gram, on.q, count, target)
    for i in range(count):
        own = gram[i, i]
        if not own > 0.0:
            continue
        # In the eigenvectors' frame: H_i is diagonal, p_i = (2/N)(QQᵀ(KA)_i - Qk_i) - H_i a_i.
        for k in range(rank):
            here[k] = dot(on.vectors[k], factor[i], rank)
            gammas[k] = unit * own * on.values[k]
            gap = on.values[k] * (dot(on.vectors[k], image[i], rank) - own * here[k])
            along[k] = unit * (gap - dot(on.vectors[k], target[i], rank))
        if method == EXACT:
            scale = _exact(gammas, along, penalty)
        else:
            scale = _proximal(gammas, along, here, penalty)
        for c in range(rank):
            change[c] = 0.0
        if scale > 0.0:
            for k in range(rank):
                for c in range(rank):
                    change[c] = fused(scale * along[k], on.vectors[k, c], change[c])
        moved = False
        for c in range(rank):
            change[c], factor[i, c] = change[c] - factor[i, c], change[c]
            moved = moved or change[c] != 0.0
        if moved:
            for n in range(count):
                for c in range(rank):
                    image[n, c] = fused(gram[i, n], change[c], image[n, c])
