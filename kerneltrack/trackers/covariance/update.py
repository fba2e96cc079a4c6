"""One row into the budgeted covariance C = Φ_S Γ Φ_Sᵀ, and one stored row out of it.

Symbols: S the stored rows, K = κ(S, S), W with WᵀW = K⁻¹, Γ the weights, k = κ(S, x) of a row.
Everything costs O(B²), but for the renewal of W and ΓKΓ, O(B³), every `RENEWAL` rows or B.
See `covariance` for the derivation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kerneltrack.compiled import compiled, inlined
from kerneltrack.linalg import inverse_cholesky
from kerneltrack.sums import dot, fused
from kerneltrack.trackers.covariance.state import LOST, SINCE, CovarianceState, Work
from kerneltrack.trackers.okfeb.state import MENDED, SIZE, N

FloatArray = npt.NDArray[np.float64]

FOLD = 1e-6
"""A row whose squared distance from the span of the others is below this fraction of κ(x,x) is not
stored: Γ takes its projection. So the condition of K, of unit diagonal, stays below B²/FOLD."""
RENEWAL = 64
"""W and ΓKΓ are computed anew after so many admitted rows, or B if that is more."""
RESIDUAL = 1e-10
"""Largest |Kt - k| in units of √(κ_iiκ(x,x)); above it W is renewed at once."""
NO_LIFT = 1e-18
"""Added to a unit diagonal it changes nothing; pivots stay above half of it."""


@inlined
def _times(matrix: FloatArray, vector: FloatArray, size: int, out: FloatArray) -> None:
    """Write the product of a table's first rows and columns with a vector to `out`."""
    for i in range(size):
        out[i] = dot(matrix[i], vector, size)


@inlined
def _transposed_times(matrix: FloatArray, vector: FloatArray, size: int, out: FloatArray) -> None:
    """The same with the table's transpose."""
    for j in range(size):
        out[j] = 0.0
    for i in range(size):
        weight = vector[i]
        for j in range(size):
            out[j] = fused(weight, matrix[i, j], out[j])


@inlined
def _transform(
    matrix: FloatArray, slot: int, share: FloatArray, size: int, half: FloatArray
) -> None:
    """Replace X by TXTᵀ, where T adds share[j] times row `slot` to row j; share[slot] is -1."""
    own = matrix[slot, slot]
    for j in range(size):
        half[j] = matrix[slot, j] + 0.5 * share[j] * own
    for i in range(size):
        for j in range(size):
            matrix[i, j] += share[i] * half[j] + half[i] * share[j]


@compiled
def renew(state: CovarianceState) -> None:
    """Compute W and ΓKΓ from K and Γ. Cost O(B³)."""
    size = state.counts[SIZE]
    unit = np.empty(size)
    matrix = np.empty((size, size))
    for i in range(size):
        unit[i] = 1.0 / np.sqrt(state.gram[i, i])
    for i in range(size):
        for j in range(size):
            matrix[i, j] = state.gram[i, j] * unit[i] * unit[j]
    chol = np.empty((size, size))
    half = np.empty((size, size))
    half_t = np.empty((size, size))
    inverse_cholesky(matrix, NO_LIFT, chol, half, half_t)
    for i in range(size):
        for j in range(size):
            state.whitener[i, j] = half[i, j] * unit[j]
    for i in range(size):
        for j in range(size):
            matrix[i, j] = dot(state.weights[i], state.gram[j], size)
    for i in range(size):
        for j in range(i + 1):
            entry = dot(matrix[i], state.weights[j], size)
            state.square[i, j] = entry
            state.square[j, i] = entry
    state.counts[SINCE] = 0


@inlined
def _solve(state: CovarianceState, work: Work, own: float) -> float:
    """Write t = K⁻¹k to work.share; return the squared distance δ = κ(x,x) - kᵀt from span S."""
    size = state.counts[SIZE]
    _times(state.whitener, work.k, size, work.half)
    _transposed_times(state.whitener, work.half, size, work.share)
    return own - dot(work.half, work.half, size)


@compiled
def solve(state: CovarianceState, work: Work, own: float) -> float:
    """Write t = K⁻¹k to work.share and return δ; W is renewed when due or not exact enough."""
    size = state.counts[SIZE]
    if state.counts[SINCE] >= max(RENEWAL, state.support.shape[0] - 1):
        renew(state)
    rest = _solve(state, work, own)
    wrong = False
    for i in range(size):
        gap = abs(dot(state.gram[i], work.share, size) - work.k[i])
        wrong = wrong or not gap <= RESIDUAL * np.sqrt(state.gram[i, i] * own)
    if wrong and state.counts[SINCE] > 0:
        state.counts[MENDED] += 1
        renew(state)
        rest = _solve(state, work, own)
    return rest


@compiled
def fade(state: CovarianceState, factor: float) -> None:
    """Multiply Γ by a factor in [0, 1]."""
    size = state.counts[SIZE]
    for i in range(size):
        for j in range(size):
            state.weights[i, j] *= factor
            state.square[i, j] *= factor * factor
    state.reals[LOST] *= factor


@compiled
def fold(state: CovarianceState, work: Work, own: float, rest: float, weight: float) -> None:
    """Add weight·φφᵀ for a row in the span of S, φ = Φ_S t with t in work.share.

    ΓKΓ grows by w(g tᵀ + t gᵀ) + w²(tᵀKt)ttᵀ with g = Γk.
    """
    size = state.counts[SIZE]
    share, along = work.share, work.along
    _times(state.weights, work.k, size, along)
    half = 0.5 * weight * dot(work.k, share, size)
    for i in range(size):
        along[i] = weight * (along[i] + half * share[i])
    for i in range(size):
        for j in range(size):
            state.square[i, j] += along[i] * share[j] + share[i] * along[j]
            state.weights[i, j] += weight * (share[i] * share[j])
    rest = max(rest, 0.0)
    state.reals[LOST] += weight * np.sqrt(rest * (2.0 * own - rest))


@compiled
def add(state: CovarianceState, work: Work, own: float, rest: float, weight: float) -> None:
    """Store the row in slot |S| with Γ's new diagonal entry `weight`; t is in work.share."""
    size = state.counts[SIZE]
    share, along = work.share, work.along
    _times(state.weights, work.k, size, along)
    inverse = 1.0 / np.sqrt(rest)
    for i in range(size):
        state.gram[size, i] = work.k[i]
        state.gram[i, size] = work.k[i]
        state.weights[size, i] = 0.0
        state.weights[i, size] = 0.0
        state.square[size, i] = weight * along[i]
        state.square[i, size] = weight * along[i]
        state.whitener[size, i] = -inverse * share[i]
        state.whitener[i, size] = 0.0
    state.gram[size, size] = own
    state.weights[size, size] = weight
    state.square[size, size] = weight * (weight * own)
    state.whitener[size, size] = inverse
    for d in range(work.x.shape[0]):
        state.support[size, d] = work.x[d]
    for c in range(state.factor.shape[0]):
        state.factor[c, size] = 0.0
        state.image[c, size] = work.q[c]
    state.born[size] = state.counts[N] - 1
    state.counts[SIZE] = size + 1


@compiled
def leaving(state: CovarianceState, work: Work) -> int:
    """Return the slot to drop after a row was added, -1 if none must go; fill work.costs.

    Past the budget it is the one whose projection on the others moves C = ΦΓΦᵀ least:
    ‖ΔC‖²_HS = 2δ_i(ΓKΓ)_ii - δ_i²Γ_ii², δ_i = 1/[K⁻¹]_ii. Ties go to the lowest slot. A row that
    now is as good as in the span of the others goes first, or K⁻¹ would be lost.
    """
    size = state.counts[SIZE]
    rests, costs = work.half, work.costs
    for i in range(size):
        rests[i] = 0.0
    for m in range(size):
        for i in range(size):
            rests[i] = fused(state.whitener[m, i], state.whitener[m, i], rests[i])
    best = 0
    nearest = 0
    for i in range(size):
        rests[i] = 1.0 / rests[i]
        own = rests[i] * state.weights[i, i]
        costs[i] = 2.0 * rests[i] * state.square[i, i] - own * own
        if costs[i] < costs[best]:
            best = i
        # δ_i/κ_i, without a division.
        if rests[i] * state.gram[nearest, nearest] < rests[nearest] * state.gram[i, i]:
            nearest = i
    if rests[nearest] <= FOLD * state.gram[nearest, nearest]:
        return nearest
    return best if size == state.support.shape[0] else -1


@compiled
def evict(state: CovarianceState, work: Work, slot: int) -> None:
    """Project a stored row on the others and drop it; the last slot moves into its place.

    What the row was on the others stays in work.share, its cost is in work.costs.
    """
    size = state.counts[SIZE]
    last = size - 1
    share, along, reflected = work.share, work.along, work.half
    square = 0.0
    for m in range(size):
        along[m] = state.whitener[m, slot]
        square = fused(along[m], along[m], square)
    rest = 1.0 / square
    _transposed_times(state.whitener, along, size, share)
    for j in range(size):
        share[j] *= -rest
    share[slot] = -1.0
    # The reflection that sends W's column to the last axis leaves a root of K_rest⁻¹ above it.
    length = np.sqrt(square)
    along[last] += length if along[last] >= 0.0 else -length
    scale = 1.0 / (length * abs(along[last]))
    _transposed_times(state.whitener, along, size, reflected)
    for m in range(last):
        weight = -scale * along[m]
        for j in range(size):
            state.whitener[m, j] = fused(weight, reflected[j], state.whitener[m, j])
    # ΓKΓ with K - δeeᵀ in the middle, then both sides through T.
    for i in range(size):
        along[i] = state.weights[slot, i]
    for i in range(size):
        for j in range(size):
            state.square[i, j] -= rest * (along[i] * along[j])
    _transform(state.square, slot, share, size, along)
    _transform(state.weights, slot, share, size, along)
    for c in range(state.factor.shape[0]):
        weight = state.factor[c, slot]
        for j in range(size):
            state.factor[c, j] = fused(weight, share[j], state.factor[c, j])
    _drop(state, slot, last)
    share[slot] = share[last]
    state.counts[SIZE] = last
    state.reals[LOST] += np.sqrt(max(work.costs[slot], 0.0))


@inlined
def _drop(state: CovarianceState, slot: int, last: int) -> None:
    """Move the last slot into one that is dropped."""
    for table in (state.gram, state.weights, state.square):
        for i in range(last):
            table[i, slot] = table[i, last]
            table[slot, i] = table[last, i]
        table[slot, slot] = table[last, last]
    for m in range(last):
        state.whitener[m, slot] = state.whitener[m, last]
    for d in range(state.support.shape[1]):
        state.support[slot, d] = state.support[last, d]
    for c in range(state.factor.shape[0]):
        state.factor[c, slot] = state.factor[c, last]
        state.image[c, slot] = state.image[c, last]
    state.born[slot] = state.born[last]
