"""Budget maintenance: which SV goes when one too many is stored.

| policy | the SV that goes |
|---|---|
| norm | of the least η‖a‖, where the η of all older ones shrink by β (Alg. 5, eq. 25 and 26) |
| fifo | the oldest |
| distortion | of the least κ(x,x)‖a‖², which moves the subspace least (eq. 24) |
| compensated | of the least ‖a‖²/[K⁻¹]_ii, its φ first projected on the others |

Reference: F. Sheikholeslami, D. Berberidis, G. B. Giannakis, "Large-scale kernel-based feature
extraction via low-rank subspace tracking on a budget", IEEE Trans. Signal Process., 2018, Alg. 5.

Differs from the paper: "compensated" is this project's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kerneltrack.compiled import compiled, inlined
from kerneltrack.linalg import inverse_cholesky
from kerneltrack.sums import dot, fused
from kerneltrack.trackers.okfeb.state import (
    COMPENSATED,
    DISTORTION,
    FIFO,
    NORM,
    Settings,
    SubspaceState,
    Work,
)

FloatArray = npt.NDArray[np.float64]

JITTER = 1e-10
"""Added to K's diagonal, times the largest κ(x,x), where K must be inverted."""


@compiled
def _inverse_gram(state: SubspaceState, count: int) -> FloatArray:
    """Return (K/max κ + JITTER·I)⁻¹ of the first `count` SVs."""
    matrix = np.empty((count, count))
    largest = 0.0
    for i in range(count):
        largest = max(largest, state.gram[i, i])
        for j in range(count):
            matrix[i, j] = state.gram[i, j]
    # Of K over its largest entry: the choice and the shares are the same, nothing overflows.
    weight = 1.0 / max(largest, 1e-300)
    for i in range(count):
        for j in range(count):
            matrix[i, j] *= weight
    chol = np.empty((count, count))
    half = np.empty((count, count))
    half_t = np.empty((count, count))
    inverse_cholesky(matrix, JITTER, chol, half, half_t)
    for i in range(count):
        for j in range(count):
            first = max(i, j)
            matrix[i, j] = dot(half_t[i, first:], half_t[j, first:], count - first)
    return matrix


@inlined
def square_norms(factor: FloatArray, count: int, out: FloatArray) -> None:
    """Write the ‖a_i‖² of the first `count` rows of A, given Aᵀ, to `out`."""
    for i in range(count):
        out[i] = 0.0
    for c in range(factor.shape[0]):
        for i in range(count):
            out[i] = fused(factor[c, i], factor[c, i], out[i])


@inlined
def choose_eviction(settings: Settings, state: SubspaceState, work: Work, count: int) -> int:
    """Return the slot to drop (Alg. 5, eq. 24); "compensated" also spreads its row of A."""
    rank = state.factor.shape[0]
    if settings.policy == FIFO:
        oldest = 0
        for i in range(1, count):
            if state.born[i] < state.born[oldest]:
                oldest = i
        return oldest
    inverse = np.empty((0, 0))
    if settings.policy == COMPENSATED:
        inverse = _inverse_gram(state, count)
    norms = work.along
    square_norms(work.factor, count, norms)
    best = 0
    least = np.inf
    for i in range(count):
        if settings.policy == NORM:
            cost = state.recency[i] * np.sqrt(norms[i])
        elif settings.policy == DISTORTION:
            cost = state.gram[i, i] * norms[i]
        else:
            cost = norms[i] / inverse[i, i]
        if cost < least:
            least = cost
            best = i
    if settings.policy == COMPENSATED:
        # φ_i projected on the others: K_rest⁻¹k_i = -[K⁻¹]_ji / [K⁻¹]_ii.
        for j in range(count):
            if j != best:
                share = -inverse[j, best] / inverse[best, best]
                for c in range(rank):
                    work.factor[c, j] += share * work.factor[c, best]
    return best


@inlined
def drop_slot(state: SubspaceState, slot: int, last: int) -> None:
    """Move the last slot into the one that is dropped and clear the last."""
    for i in range(last):
        state.gram[i, slot] = state.gram[i, last]
        state.gram[slot, i] = state.gram[last, i]
    state.gram[slot, slot] = state.gram[last, last]
    state.support[slot] = state.support[last]
    for c in range(state.factor.shape[0]):
        state.factor[c, slot] = state.factor[c, last]
        state.image[c, slot] = state.image[c, last]
    state.recency[slot] = state.recency[last]
    state.born[slot] = state.born[last]
