"""One update of the subspace: step, move, drop, and refresh what depends on A.

Symbols are those of the papers: S the stored rows, A the factor, K = κ(S, S), M = AᵀKA, k and q
of a row, λ the ridge.
"""

from __future__ import annotations

import numpy as np

from kerneltrack.compiled import compiled, inlined
from kerneltrack.linalg import (
    inverse_cholesky,
    multiply_transposed,
    nearest_rotation,
    semidefinite_factor,
    transpose,
)
from kerneltrack.sums import absolute_sum, dot, fused
from kerneltrack.trackers.okfeb.budget import choose_eviction, drop_slot, square_norms
from kerneltrack.trackers.okfeb.state import (
    INVERSE_N,
    INVERSE_N2,
    INVERSE_NORM,
    MAJORISED,
    MENDED,
    NONPARAMETRIC,
    NORMALISED,
    RIDGE,
    SIZE,
    STARTED,
    STEP_SUM,
    UNSEEN,
    N,
    Settings,
    SubspaceState,
    Work,
)

MAX_CONDITION = 1e10
"""An update after which Σκ_ii‖a_i‖² exceeds this many times max(λ, √κ) counts as diverged."""
MIN_RIDGE = 1e-12
"""The ridge in force is never below this fraction of Σκ_ii‖a_i‖², which rounding errors of M
scale with: M + λI stays invertible."""


@inlined
def _step(settings: Settings, state: SubspaceState, kind: int, size: int, norm2: float) -> float:
    """Return the step size μ_n of the row in slot `size`, ‖q‖² = norm2."""
    n = float(state.counts[N])
    if kind == INVERSE_NORM:
        return float(1.0 / np.sqrt(norm2))
    if kind == INVERSE_N:
        return settings.step_size / n
    if kind == INVERSE_N2:
        return settings.step_size / (n * n)
    curvature = norm2 + settings.ridge
    bound = 1.0
    if settings.rule == NONPARAMETRIC:
        # λ_max(K) is at most the largest absolute row sum; Prop. 3 takes the trace.
        bound = 0.0
        if kind == MAJORISED:
            for i in range(size + 1):
                bound += state.gram[i, i]
        else:
            for i in range(size + 1):
                bound = max(bound, absolute_sum(state.gram[i], size + 1))
    if kind == MAJORISED:
        # Prop. 2 and 3: γ_n = ‖q‖² + λ/n, ξ_n = tr(K)γ_n, μ_n = 1/Σ.
        state.reals[STEP_SUM] += bound * (norm2 + settings.ridge / n)
        return float(1.0 / state.reals[STEP_SUM])
    return 1.0 / (bound * curvature)


@inlined
def _move(settings: Settings, state: SubspaceState, work: Work, size: int, step: float) -> None:
    """Write the updated factor, the row in slot `size` included, to work.factor."""
    rank = state.factor.shape[0]
    decay = 1.0 - step * settings.ridge / state.counts[N]
    q, along = work.q, work.along
    # Rows of K_S+[A; 0] (nonparametric, eq. 19b) or of [A; 0] (parametric, eq. 16) times q.
    source = state.image if settings.rule == NONPARAMETRIC else state.factor
    for i in range(size + 1):
        along[i] = 0.0
    for c in range(rank):
        weight = q[c]
        for i in range(size + 1):
            along[i] = fused(weight, source[c, i], along[i])
    if settings.rule == NONPARAMETRIC:
        shrink = step * settings.ridge / state.counts[N]
        for i in range(size + 1):
            along[i] = step * (state.gram[size, i] - along[i])
        for c in range(rank):
            weight = q[c]
            for i in range(size + 1):
                kept = fused(-shrink, source[c, i], state.factor[c, i])
                work.factor[c, i] = fused(weight, along[i], kept)
    else:
        along[size] -= 1.0
        for c in range(rank):
            weight = step * q[c]
            for i in range(size + 1):
                work.factor[c, i] = fused(-weight, along[i], decay * state.factor[c, i])


@inlined
def _evaluate(state: SubspaceState, work: Work, count: int, evicted: int) -> float:
    """Fill work.image = KA and work.inner = M of the candidate in work.factor; return Σκ_ii‖a_i‖².

    A dropped row of A is zeroed first, so that it contributes exactly nothing.
    """
    rank = state.factor.shape[0]
    if evicted >= 0:
        for c in range(rank):
            work.factor[c, evicted] = 0.0
    for c in range(rank):
        for i in range(count):
            work.image[c, i] = dot(state.gram[i], work.factor[c], count)
        for e in range(c + 1):
            entry = dot(work.factor[c], work.image[e], count)
            work.inner[c, e] = entry
            work.inner[e, c] = entry
    square_norms(work.factor, count, work.along)
    spread = 0.0
    for i in range(count):
        spread += state.gram[i, i] * work.along[i]
    return spread


@inlined
def _commit(
    settings: Settings, state: SubspaceState, work: Work, count: int, evicted: int, spread: float
) -> None:
    """Make the evaluated candidate the state: solver, frame, slots."""
    state.reals[RIDGE] = max(settings.ridge, MIN_RIDGE * spread)
    inverse_cholesky(work.inner, state.reals[RIDGE], work.left, state.solver, state.solver_t)
    if settings.aligned:
        _align(state, work, count, evicted)
    for c in range(state.factor.shape[0]):
        for i in range(count):
            state.factor[c, i] = work.factor[c, i]
            state.image[c, i] = work.image[c, i]
    if evicted >= 0:
        drop_slot(state, evicted, count - 1)
        state.counts[SIZE] = count - 1
    else:
        state.counts[SIZE] = count


@inlined
def _align(state: SubspaceState, work: Work, count: int, evicted: int) -> None:
    """Refresh frame T and mapping P, turned so that the SVs' features move least.

    The features of the SVs are P(KA)ᵀ with P = T(M + λI)⁻¹ and any T with TᵀT = M. Of these,
    UT with the orthogonal U that minimises Σ‖U z_new - z_old‖² over the SVs that stay is taken.
    """
    rank = state.factor.shape[0]
    if evicted >= 0:
        for c in range(rank):
            state.image[c, evicted] = 0.0
    # Σ z_old z_newᵀ = P_old [(KA)_oldᵀ(KA)_new] P_newᵀ.
    multiply_transposed(work.image, state.image, count, work.left)
    multiply_transposed(state.mapping, work.left, rank, work.right)
    semidefinite_factor(work.inner, work.rest, work.root)
    transpose(work.root, work.left)
    multiply_transposed(work.left, state.solver, rank, work.turn)
    multiply_transposed(work.turn, state.solver_t, rank, work.left)
    multiply_transposed(work.right, work.left, rank, work.inner)
    nearest_rotation(work.inner, work.right, work.pivots, work.turn)
    multiply_transposed(work.turn, work.root, rank, state.frame)
    transpose(work.left, work.right)
    multiply_transposed(work.turn, work.right, rank, state.mapping)


@inlined
def _place(state: SubspaceState, work: Work, size: int, own: float) -> None:
    """Put the row and its kernel values into slot `size`; its old image is kᵀA = b."""
    for i in range(size):
        state.gram[size, i] = work.k[i]
        state.gram[i, size] = work.k[i]
    state.gram[size, size] = own
    state.support[size] = work.x
    for c in range(state.factor.shape[0]):
        state.image[c, size] = work.b[c]
        state.factor[c, size] = 0.0
    state.recency[size] = 1.0
    state.born[size] = state.counts[N] - 1


@inlined
def _enter_at_random(state: SubspaceState, work: Work, size: int, own: float, seed: int) -> None:
    """Candidate in which the new row has a random row of A, scaled as ‖φ‖^{-1/2}."""
    scale = 1.0 / np.sqrt(np.sqrt(own))
    for c in range(state.factor.shape[0]):
        for i in range(size):
            work.factor[c, i] = state.factor[c, i]
        work.factor[c, size] = state.seeds[seed, c] * scale


@compiled
def learn(settings: Settings, state: SubspaceState, work: Work, own: float) -> int:
    """Update the subspace with the row in `work`; return the index that left, or -1."""
    size, rank = state.counts[SIZE], state.factor.shape[0]
    _place(state, work, size, own)
    full = size + 1 == state.support.shape[0]
    if full:
        for i in range(size):
            state.recency[i] *= settings.forgetting
    norm2 = dot(work.q, work.q, rank)
    largest = own
    for i in range(size):
        largest = max(largest, state.gram[i, i])
    # A safe step adds at most κ/(4λ) to the spread: no sound state lies above the second term.
    limit = max(
        MAX_CONDITION * max(settings.ridge, np.sqrt(largest)),
        4.0 * (size + 1) * largest / settings.ridge,
    )
    unseen = not norm2 > 0.0
    state.counts[UNSEEN] += unseen
    if unseen:
        _enter_at_random(state, work, size, own, state.counts[N] % rank)
    else:
        _move(settings, state, work, size, _step(settings, state, settings.step, size, norm2))
    evicted = choose_eviction(settings, state, work, size + 1) if full else -1
    spread = _evaluate(state, work, size + 1, evicted)
    if not spread <= limit:
        state.counts[MENDED] += 1
        if not unseen:
            _move(settings, state, work, size, _step(settings, state, NORMALISED, size, norm2))
        evicted = choose_eviction(settings, state, work, size + 1) if full else -1
        spread = _evaluate(state, work, size + 1, evicted)
        if not spread <= limit:
            # Shrinking A keeps what it spans.
            shrink = 0.5 * np.sqrt(limit / spread)
            for c in range(rank):
                for i in range(size + 1):
                    work.factor[c, i] *= shrink
            spread = _evaluate(state, work, size + 1, evicted)
            if not spread <= limit:
                return int(state.counts[N]) - 1
    gone = int(state.born[evicted]) if full else -1
    _commit(settings, state, work, size + 1, evicted, spread)
    return gone


@compiled
def begin(settings: Settings, state: SubspaceState, work: Work, own: float) -> None:
    """Take a row of the start in: it becomes an SV with a random row of A."""
    size = state.counts[SIZE]
    _place(state, work, size, own)
    _enter_at_random(state, work, size, own, size)
    spread = _evaluate(state, work, size + 1, -1)
    _commit(settings, state, work, size + 1, -1, spread)
    state.counts[STARTED] += 1
    for i in range(size + 1):
        work.k[i] = state.gram[i, size]
