"""The compiled loop of doubly stochastic kernel PCA.

Per mini-batch of rows: evaluate H(x) = Σ_i φ_i(x) α_i over the pool, which is drawn again in
blocks; per row: project, score, add to the mini-batch's moments; at its end: the step of eq. 10
and 16 for mini-batches (supplement, section A). Symbols are those of `dskpca`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.compiled import compiled, inlined
from kerneltrack.linalg import (
    inverse_cholesky,
    multiply_transposed,
    nearest_rotation,
    semidefinite_factor,
)
from kerneltrack.sums import dot, fused
from kerneltrack.trackers.common.row_steps import MAX_KERNEL, MAX_SCALED, bounded_loss, rank_among
from kerneltrack.trackers.doubly.random_features import (
    EXP_SEMIGROUP,
    GROUP,
    REC_SEMIGROUP,
    Drawn,
    FeatureMap,
    draw,
    evaluate,
    make_room,
)
from kerneltrack.trackers.okfeb.state import Outputs

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# Places in the state's `counts` and `reals`.
N, LOSSES, STEPS, WAITING, MENDED = range(5)
COUNTS = 5
RIDGE = 0
REALS = 1
SUBSPACE, GHA = range(2)
MIN_RIDGE = 1e-12
"""The ridge in force is never below this fraction of tr M: M + λI stays invertible."""
MAX_SPREAD = 1e30
"""A step after which tr M is above it, or not a number, is not taken."""


class Settings(NamedTuple):
    """A spec as numbers."""

    learn: bool
    aligned: bool
    ridge: float
    form: int
    step_size: float
    step_decay: float
    row_batch: int
    clip: float


class DoublyState(NamedTuple):
    """State of a model; every array keeps its shape for the model's whole life.

    The bytes of its arrays are 8(r(F + B) + 4r² + 2D + window + 7), F features in the pool, B of
    them in a mini-batch: neither the rows nor the features themselves are in it.

    Attributes:
        factor: (r, F) αᵀ, the coefficients of the pool's features.
        solver: (r, r) inverse of the lower Cholesky factor of M + λI, M = F'ααᵀ over the F'
            features in use.
        solver_t: (r, r) its transpose.
        mapping: (r, r) M^{1/2}(M + λI)⁻¹, so that z = mapping · h.
        moment: (r, r) Σ h hᵀ over the rows of the open mini-batch.
        cross: (r, B) Σ h φᵀ over them, φ the features that its step moves.
        shift: (D,) centre over scale.
        scale: (D,) standard deviation.
        bandwidth: (1,) γ.
        recent: (window,) ring of the last losses.
        reals: (1,) ridge in force.
        counts: (5,) valid rows, losses in all, steps, rows in the open mini-batch,
            steps that were not taken.
    """

    factor: FloatArray
    solver: FloatArray
    solver_t: FloatArray
    mapping: FloatArray
    moment: FloatArray
    cross: FloatArray
    shift: FloatArray
    scale: FloatArray
    bandwidth: FloatArray
    recent: FloatArray
    reals: FloatArray
    counts: IntArray

    @property
    def n(self) -> int:
        """Valid rows seen."""
        return int(self.counts[N])

    @property
    def size(self) -> int:
        """Rows that were learned from."""
        return int(self.counts[N])


class View(NamedTuple):
    """Scratch space: a mini-batch of rows, what is said of them, a block of features.

    Attributes:
        x: (T, D) scaled rows.
        h: (T, r) H(x).
        own: (T,) κ̂(x,x).
        good: (T,) whether the row can be used.
        phi: (GROUP, B) features of some rows.
        v: (r,) half-way to q.
        q: (r,) projection coefficients of one row.
    """

    x: FloatArray
    h: FloatArray
    own: FloatArray
    good: BoolArray
    phi: FloatArray
    v: FloatArray
    q: FloatArray


@inlined
def make_view(most: int, width: int, rank: int, block: int) -> View:
    """Make scratch space for mini-batches of `most` rows of `width` channels."""
    return View(
        np.empty((most, width)),
        np.empty((most, rank)),
        np.empty(most),
        np.empty(most, dtype=np.bool_),
        np.empty((GROUP, block)),
        np.empty(rank),
        np.empty(rank),
    )


@inlined
def blocks_in_use(state: DoublyState) -> int:
    """Return how many blocks of the pool have coefficients: one of the start, one a step."""
    blocks = state.factor.shape[1] // state.cross.shape[1]
    return int(min(state.counts[STEPS] + 1, blocks))


@inlined
def next_block(state: DoublyState) -> int:
    """Return the block that the open mini-batch's step moves; a full pool is gone round again."""
    blocks = state.factor.shape[1] // state.cross.shape[1]
    return int((state.counts[STEPS] + 1) % blocks)


@inlined
def scale_row(
    settings: Settings, state: DoublyState, row: FloatArray, positive: bool, x: FloatArray
) -> bool:
    """Write the scaled row to x; False if it is not finite, too large or has no features."""
    good = True
    for d in range(x.shape[0]):
        value = row[d] / state.scale[d] - state.shift[d]
        x[d] = min(max(value, -settings.clip), settings.clip)
        good = good and abs(x[d]) <= MAX_SCALED and np.isfinite(row[d])
        good = good and not (positive and x[d] < 0.0)
    return good


@inlined
def evaluate_view(
    features: FeatureMap, factor: FloatArray, used: int, drawn: Drawn, view: View, count: int
) -> None:
    """Fill h = H(x) and own = κ̂(x,x) = Σφ²/F' of the view's first rows (Algorithm 2).

    `used` blocks of the pool are in use. Rows with a κ̂(x,x) that is too large turn bad, and what is
    filled for bad ones means nothing. A row's sums have the order of its own features, whatever
    rows stand beside it.
    """
    rank, block = factor.shape[0], view.phi.shape[1]
    for b in range(count):
        view.own[b] = 0.0
        for c in range(rank):
            view.h[b, c] = 0.0
    for at in range(used):
        first = at * block
        draw(features, first, block, drawn)
        for start in range(0, count, GROUP):
            stop = min(start + GROUP, count)
            evaluate(features, drawn, view.x[start:stop], block, view.phi)
            for b in range(start, stop):
                phi = view.phi[b - start]
                view.own[b] += dot(phi, phi, block)
            for c in range(rank):
                for b in range(start, stop):
                    view.h[b, c] += dot(factor[c, first:], view.phi[b - start], block)
    for b in range(count):
        view.own[b] /= used * block
        view.good[b] = view.good[b] and view.own[b] <= MAX_KERNEL


@inlined
def project_row(state: DoublyState, h: FloatArray, view: View, own: float) -> float:
    """Fill q = (M + λI)⁻¹h and return ℓ = κ̂(x,x) - hᵀq - λ‖q‖²."""
    rank = h.shape[0]
    for c in range(rank):
        view.v[c] = dot(state.solver[c], h, c + 1)
    for c in range(rank):
        view.q[c] = dot(state.solver_t[c, c:], view.v[c:], rank - c)
    fitted = dot(view.v, view.v, rank)
    return float(own - fitted - state.reals[RIDGE] * dot(view.q, view.q, rank))


@compiled
def refresh(settings: Settings, state: DoublyState) -> bool:
    """Compute anew what depends on α; False, and nothing done, if α is out of all bounds."""
    rank = state.factor.shape[0]
    used = blocks_in_use(state) * state.cross.shape[1]
    inner = np.empty((rank, rank))
    trace = 0.0
    for c in range(rank):
        for e in range(c + 1):
            inner[c, e] = used * dot(state.factor[c], state.factor[e], used)
            inner[e, c] = inner[c, e]
        trace += inner[c, c]
    if not trace <= MAX_SPREAD:
        return False
    state.reals[RIDGE] = max(settings.ridge, MIN_RIDGE * trace)
    left = np.empty((rank, rank))
    right = np.empty((rank, rank))
    inverse_cholesky(inner, state.reals[RIDGE], left, state.solver, state.solver_t)
    if settings.aligned:
        # M = RRᵀ; R = M^{1/2}U by its polar decomposition, so that M^{1/2} = RUᵀ.
        root = np.empty((rank, rank))
        turn = np.empty((rank, rank))
        semidefinite_factor(inner, np.empty(rank), root)
        nearest_rotation(root, left, np.empty(rank, dtype=np.int64), turn)
        multiply_transposed(root, turn, rank, left)
        multiply_transposed(state.solver_t, state.solver_t, rank, right)
        multiply_transposed(left, right, rank, state.mapping)
    return True


@inlined
def add_products(
    left: FloatArray, right: FloatArray, good: BoolArray, lower: bool, out: FloatArray
) -> None:
    """Add Σ left_b right_bᵀ over the good rows b, in their order, to `out`, or its lower triangle.

    `out` is walked through once for all rows: it is larger than a processor's nearest caches.
    """
    for i in range(out.shape[0]):
        most = i + 1 if lower else out.shape[1]
        for b in range(good.shape[0]):
            if good[b]:
                weight = left[b, i]
                for j in range(most):
                    out[i, j] = fused(weight, right[b, j], out[i, j])


@inlined
def _gather(features: FeatureMap, drawn: Drawn, state: DoublyState, view: View, count: int) -> None:
    """Add the good ones of `count` rows to the open mini-batch's moments."""
    block = state.cross.shape[1]
    draw(features, next_block(state) * block, block, drawn)
    for b in range(0, count, GROUP):
        part = slice(b, min(b + GROUP, count))
        h, good = view.h[part], view.good[part]
        evaluate(features, drawn, view.x[part], block, view.phi)
        add_products(h, h, good, False, state.moment)
        add_products(h, view.phi, good, False, state.cross)


@compiled
def step(settings: Settings, state: DoublyState) -> None:
    """Take the step of a whole mini-batch of T rows and B features.

    α ← α - η S α with S = Σhhᵀ/T (subspace, eq. 10) or its upper triangle (GHA, eq. 16); then
    the block's α += η Σφh/(TB). η = θ₀/(1 + θ₁t) (eq. 27), but never above 1/tr S: I - ηS does
    not overshoot.
    """
    (rank, block), pool = state.cross.shape, state.factor.shape[1]
    before = state.factor.copy()
    eta = settings.step_size / (1.0 + settings.step_decay * state.counts[STEPS])
    trace = 0.0
    for c in range(rank):
        trace += state.moment[c, c] / settings.row_batch
    if eta * trace > 1.0:
        eta = 1.0 / trace
    shrink = eta / settings.row_batch
    used = blocks_in_use(state) * block
    for c in range(rank):
        most = c + 1 if settings.form == GHA else rank
        for e in range(most):
            weight = -shrink * state.moment[e, c]
            for i in range(used):
                state.factor[c, i] = fused(weight, before[e, i], state.factor[c, i])
    first = next_block(state) * block
    grow = eta / (settings.row_batch * float(block))
    for c in range(rank):
        for j in range(block):
            state.factor[c, first + j] = fused(grow, state.cross[c, j], state.factor[c, first + j])
    state.counts[STEPS] += 1
    if not refresh(settings, state):
        state.counts[MENDED] += 1
        for c in range(rank):
            for i in range(pool):
                state.factor[c, i] = before[c, i]
        # The features in use may be more than before: M is scaled by their number.
        refresh(settings, state)
    state.counts[WAITING] = 0
    for c in range(rank):
        for e in range(rank):
            state.moment[c, e] = 0.0
        for j in range(block):
            state.cross[c, j] = 0.0


@inlined
def write_coordinates(state: DoublyState, q: FloatArray, out: FloatArray) -> None:
    """Write √F'·αq, the projected row by the features in use, to `out`, which holds zeros."""
    used = blocks_in_use(state) * state.cross.shape[1]
    scale = np.sqrt(float(used))
    for c in range(state.factor.shape[0]):
        weight = scale * q[c]
        for i in range(used):
            out[i] = fused(weight, state.factor[c, i], out[i])


@inlined
def is_positive_only(features: FeatureMap) -> bool:
    """Check whether the kernel takes no negative entries."""
    return bool(features.code in (EXP_SEMIGROUP, REC_SEMIGROUP))


@inlined
def _tell(settings: Settings, state: DoublyState, work: View, b: int, out: Outputs, n: int) -> None:
    """Fill what is said of row n, the b-th of its mini-batch."""
    rank, counts = state.factor.shape[0], state.counts
    own = work.own[b]
    loss = project_row(state, work.h[b], work, own)
    loss = bounded_loss(loss, own)
    out.valid[n] = True
    out.number[n] = counts[N]
    out.loss[n] = loss
    recent = min(counts[LOSSES], state.recent.shape[0])
    out.novelty[n] = rank_among(state.recent, recent, loss)
    if settings.aligned:
        for c in range(rank):
            out.z[n, c] = dot(state.mapping[c], work.h[b], rank)
    if out.q.shape[0] > 0:
        out.q[n] = work.q
    if out.s.shape[0] > 0:
        write_coordinates(state, work.q, out.s[n])


@compiled
def run_rows(
    settings: Settings, features: FeatureMap, state: DoublyState, rows: FloatArray, out: Outputs
) -> None:
    """Run rows (n, D) through the state in order and fill the features' arrays.

    The state is written to only if `settings.learn`. Cost a row: see `dskpca`.
    """
    (rank, block), (total, width) = state.cross.shape, rows.shape
    counts = state.counts
    drawn = make_room(features, width, block)
    work = make_view(min(settings.row_batch, total), width, rank, block)
    positive = is_positive_only(features)
    place = 0
    while place < total:
        room = settings.row_batch - counts[WAITING] if settings.learn else settings.row_batch
        count = min(room, total - place)
        for b in range(count):
            x = work.x[b]
            work.good[b] = scale_row(settings, state, rows[place + b], positive, x)
        evaluate_view(features, state.factor, blocks_in_use(state), drawn, work, count)
        for b in range(count):
            if not work.good[b]:
                continue
            _tell(settings, state, work, b, out, place + b)
            if settings.learn:
                state.recent[counts[LOSSES] % state.recent.shape[0]] = out.loss[place + b]
                counts[LOSSES] += 1
                counts[N] += 1
                counts[WAITING] += 1
                out.informative[place + b] = True
        if settings.learn:
            _gather(features, drawn, state, work, count)
        place += count
        if settings.learn and counts[WAITING] == settings.row_batch:
            step(settings, state)
