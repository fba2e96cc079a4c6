"""The subspace of the covariance tracker: follow the r largest eigenvectors of C = Φ_S Γ Φ_Sᵀ.

Symbols: E the coefficients of an orthonormal basis Φ_S E of the subspace, G = K_S E its image. One
call is one step of orthogonal iteration with Rayleigh and Ritz's choice before it, started from the
subspace as it was and the new row. See `covariance` for the derivation.
"""

from __future__ import annotations

from typing import Any

from kerneltrack.compiled import compiled, inlined
from kerneltrack.linalg import (
    diagonalise,
    multiply_transposed,
    nearest_rotation,
    orthonormalise,
)
from kerneltrack.sums import dot, fused
from kerneltrack.trackers.covariance.state import CovarianceState, Settings, Work
from kerneltrack.trackers.okfeb.state import SIZE

DEPENDENT = 1e-10
"""A direction of which less than this fraction of a squared length is new is left out."""
SHIFT = 1e-7
"""The iteration runs with C + SHIFT·tr(C)·I: directions of no energy are kept, not made of
rounding errors."""


@inlined
def _choose(work: Work, rank: int) -> None:
    """Order the r + 1 Ritz vectors: the largest values first, ties by place."""
    for c in range(rank + 1):
        work.order[c] = c
    for c in range(rank):
        best = c
        for e in range(c + 1, rank + 1):
            if (
                work.small[work.order[e], work.order[e]]
                > work.small[work.order[best], work.order[best]]
            ):
                best = e
        # Kept in order, so that equal values stay where they are.
        chosen = work.order[best]
        for e in range(best, c, -1):
            work.order[e] = work.order[e - 1]
        work.order[c] = chosen


@inlined
def _rotate(work: Work, size: int, rank: int) -> float:
    """Find the Ritz vectors of VᵀKΓKV, in work.turns and work.order; return its trace."""
    trace = 0.0
    for c in range(rank + 1):
        for e in range(c + 1):
            entry = dot(work.right[e], work.moved[c], size)
            work.small[c, e] = entry
            work.small[e, c] = entry
        trace += work.small[c, c]
    diagonalise(work.small, work.turns)
    _choose(work, rank)
    return trace


@inlined
def finish(state: Any, work: Any, size: int, rank: int) -> None:
    """Make the first r rows of work.left orthonormal, their images in work.right."""
    left, right = work.left, work.right
    for c in range(rank):
        for i in range(size):
            right[c, i] = dot(state.gram[i], left[c], size)
        work.least[c] = DEPENDENT * dot(left[c], right[c], size)
    orthonormalise(left, right, rank, size, work.least)


@inlined
def _load(state: CovarianceState, work: Work, size: int, rank: int, own: float) -> None:
    """Make V = [E, new row] orthonormal in work.left, its image in work.right.

    An eviction has shortened E's columns from 1.
    """
    left, right = work.left, work.right
    for c in range(rank):
        for i in range(size):
            left[c, i] = state.factor[c, i]
            right[c, i] = state.image[c, i]
        work.least[c] = DEPENDENT
    work.least[rank] = DEPENDENT * own
    orthonormalise(left, right, rank + 1, size, work.least)


@compiled
def follow(settings: Settings, state: CovarianceState, work: Work, own: float) -> None:
    """Move the subspace after Γ or S changed. Cost O(B²r + Br² + r³).

    On entry the last rows of work.left and work.right hold the coefficients of the new row and
    its kernel values with S.
    """
    size, rank = state.counts[SIZE], state.factor.shape[0]
    left, right, moved = work.left, work.right, work.moved
    _load(state, work, size, rank, own)
    # CV has the coefficients ΓKV.
    for c in range(rank + 1):
        for i in range(size):
            moved[c, i] = dot(state.weights[i], right[c], size)
    shift = SHIFT * _rotate(work, size, rank)
    for c in range(rank + 1):
        for i in range(size):
            moved[c, i] = fused(shift, left[c, i], moved[c, i])
    # The r largest Ritz vectors, each through C once: the new E, before it is made orthonormal.
    for c in range(rank):
        turn = work.turns[work.order[c]]
        for i in range(size):
            left[c, i] = 0.0
        for e in range(rank + 1):
            weight = turn[e]
            for i in range(size):
                left[c, i] = fused(weight, moved[e, i], left[c, i])
    finish(state, work, size, rank)
    for _ in range(settings.steps - 1):
        for c in range(rank):
            for i in range(size):
                moved[c, i] = fused(shift, left[c, i], dot(state.weights[i], right[c], size))
        for c in range(rank):
            for i in range(size):
                left[c, i] = moved[c, i]
        finish(state, work, size, rank)
    if settings.aligned:
        align(state, work)
    for c in range(rank):
        for i in range(size):
            state.factor[c, i] = left[c, i]
            state.image[c, i] = right[c, i]


@inlined
def align(state: Any, work: Any) -> None:
    """Turn the frame T so that the features TG of the stored rows move least."""
    size, rank = state.counts[SIZE], state.factor.shape[0]
    multiply_transposed(work.right[:rank], state.image, size, work.inner)
    multiply_transposed(state.frame, work.inner, rank, work.rest)
    nearest_rotation(work.rest, work.inner, work.pivots, state.frame)
