"""The compiled loop of doubly stochastic kernel SVD and CCA: two views of every row.

Each view has the state of `kpca_loop` for its own functions; what ties them together is W and which
functions a view's features are multiplied with. Symbols are those of `dspair`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.compiled import compiled, inlined
from kerneltrack.linalg import inverse_cholesky, solve_factored
from kerneltrack.sums import fused
from kerneltrack.trackers.common.row_steps import bounded_loss, rank_among
from kerneltrack.trackers.doubly.kpca_loop import (
    LOSSES,
    MENDED,
    STEPS,
    WAITING,
    DoublyState,
    N,
    Settings,
    View,
    add_products,
    blocks_in_use,
    evaluate_view,
    is_positive_only,
    make_view,
    next_block,
    project_row,
    refresh,
    scale_row,
    write_coordinates,
)
from kerneltrack.trackers.doubly.random_features import (
    GROUP,
    Drawn,
    FeatureMap,
    draw,
    evaluate,
    make_room,
)
from kerneltrack.trackers.okfeb.state import Outputs

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

KSVD, KCCA, NEWTON = range(3)
DAMPING = 0.3
"""μ in mean eigenvalues of G. With T = 2B, a tenth fits the mini-batch's noise, 1 is slower."""


class PairState(NamedTuple):
    """State of a model of two views; every array keeps its shape for the model's whole life.

    The bytes of its arrays are 8(2rF + 4rB + 7r² + 2D + window + 9), F features in each view's
    pool, B of them in a mini-batch, and 16B² more in the form "kcca-newton". Leading dimensions of
    2 are the views.

    Attributes:
        factor: (2, r, F) αᵀ and βᵀ.
        solver: (2, r, r) inverse of the lower Cholesky factor of each view's M + λI.
        solver_t: (2, r, r) its transpose.
        moment: (2, r, r) Σuuᵀ and Σvvᵀ over the rows of the open mini-batch.
        link: (r, r) Σuvᵀ over them.
        cross: (2, r, B) Σvφ(x)ᵀ and Σuφ(y)ᵀ over them, of the features that their step moves.
        own: (2, r, B) Σuφ(x)ᵀ and Σvφ(y)ᵀ.
        gram: (2, B, B) Σφ(x)φ(x)ᵀ and Σφ(y)φ(y)ᵀ, lower triangles; (2, 0, 0) in the other forms.
        shift: (D,) centre over scale.
        scale: (D,) standard deviation.
        bandwidth: (2,) γ of each view.
        recent: (window,) ring of the last losses.
        reals: (2,) ridges in force.
        counts: (5,) as of `DoublyState`.
    """

    factor: FloatArray
    solver: FloatArray
    solver_t: FloatArray
    moment: FloatArray
    link: FloatArray
    cross: FloatArray
    own: FloatArray
    gram: FloatArray
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


class Tie(NamedTuple):
    """What the step of a pair takes beside the views' own: parts of the state."""

    link: FloatArray
    own: FloatArray
    gram: FloatArray


@inlined
def _gather(
    maps: tuple[FeatureMap, FeatureMap],
    rooms: tuple[Drawn, Drawn],
    one: DoublyState,
    two: DoublyState,
    tie: Tie,
    both: tuple[View, View],
    count: int,
) -> None:
    """Add the good ones of `count` rows to the open mini-batch's sums."""
    left, right = both
    block = one.cross.shape[1]
    first = next_block(one) * block
    draw(maps[0], first, block, rooms[0])
    draw(maps[1], first, block, rooms[1])
    for b in range(0, count, GROUP):
        part = slice(b, min(b + GROUP, count))
        good, u, v = left.good[part], left.h[part], right.h[part]
        evaluate(maps[0], rooms[0], left.x[part], block, left.phi)
        evaluate(maps[1], rooms[1], right.x[part], block, right.phi)
        add_products(u, v, good, False, tie.link)
        add_products(u, u, good, False, one.moment)
        add_products(v, v, good, False, two.moment)
        add_products(v, left.phi, good, False, one.cross)
        add_products(u, right.phi, good, False, two.cross)
        add_products(u, left.phi, good, False, tie.own[0])
        add_products(v, right.phi, good, False, tie.own[1])
        if tie.gram.shape[1] > 0:
            add_products(left.phi, left.phi, good, True, tie.gram[0])
            add_products(right.phi, right.phi, good, True, tie.gram[1])


@inlined
def _solve(gram: FloatArray, right: FloatArray) -> None:
    """Turn rows c of `right` into (gram + μI)⁻¹c. Cost O(B³ + rB²).

    Where all features of a mini-batch are zero nothing happens: so are the rows.
    """
    rank, block = right.shape
    shift = 0.0
    for j in range(block):
        shift += DAMPING * gram[j, j] / block
    if not shift > 0.0:
        return
    inverse = np.empty((block, block))
    transposed = np.empty((block, block))
    inverse_cholesky(gram, shift, np.empty((block, block)), inverse, transposed)
    half = np.empty(block)
    for c in range(rank):
        solve_factored(inverse, transposed, right[c], half, right[c])


@inlined
def _move(
    settings: Settings, state: DoublyState, tie: Tie, at: int, w: FloatArray, eta: float
) -> None:
    """Move one view's coefficients: Algorithm 3, lines 7 to 10, or Algorithm 4, lines 7 and 8."""
    (rank, block), used = state.cross.shape, blocks_in_use(state)
    if settings.form == KSVD:
        before = state.factor.copy()
        for c in range(rank):
            for e in range(rank):
                weight = -eta * w[c, e]
                for i in range(used * block):
                    state.factor[c, i] = fused(weight, before[e, i], state.factor[c, i])
    else:
        for c in range(rank):
            for e in range(rank):
                for j in range(block):
                    state.cross[c, j] = fused(-w[c, e], tie.own[at, e, j], state.cross[c, j])
    grow = eta / (settings.row_batch * float(block))
    if settings.form == NEWTON:
        _solve(tie.gram[at], state.cross)
        grow = eta
    first = next_block(state) * block
    for c in range(rank):
        for j in range(block):
            state.factor[c, first + j] = fused(grow, state.cross[c, j], state.factor[c, first + j])


@inlined
def _clear(state: DoublyState) -> None:
    rank, block = state.cross.shape
    for c in range(rank):
        for e in range(rank):
            state.moment[c, e] = 0.0
        for j in range(block):
            state.cross[c, j] = 0.0


@compiled
def step_pair(settings: Settings, one: DoublyState, two: DoublyState, tie: Tie) -> None:
    """Take the step of a whole mini-batch of T rows and B features of each view.

    W = (1/T) Σ(uvᵀ + vuᵀ); η = θ₀/(1 + θ₁t), but never above a bound of 1/‖W‖: since 2|u||v| <=
    u² + v², ‖W‖ is at most that of E = (1/T) Σ(uuᵀ + vvᵀ), and so at most E's trace and its
    largest absolute row sum. (Of functions that are not correlated the trace alone is r times too
    much.)
    """
    rank, batch = one.cross.shape[0], float(settings.row_batch)
    w = np.empty((rank, rank))
    trace = 0.0
    widest = 0.0
    for c in range(rank):
        trace += (one.moment[c, c] + two.moment[c, c]) / batch
        row = 0.0
        for e in range(rank):
            w[c, e] = (tie.link[c, e] + tie.link[e, c]) / batch
            row += abs(one.moment[c, e] + two.moment[c, e]) / batch
        widest = max(widest, row)
    energy = min(trace, widest)
    eta = settings.step_size / (1.0 + settings.step_decay * one.counts[STEPS])
    if eta * energy > 1.0:
        eta = 1.0 / energy
    before_one = one.factor.copy()
    before_two = two.factor.copy()
    _move(settings, one, tie, 0, w, eta)
    _move(settings, two, tie, 1, w, eta)
    # Both states share their counts.
    one.counts[STEPS] += 1
    one.counts[WAITING] = 0
    if not (refresh(settings, one) and refresh(settings, two)):
        one.counts[MENDED] += 1
        one.factor[:] = before_one
        two.factor[:] = before_two
        refresh(settings, one)
        refresh(settings, two)
    _clear(one)
    _clear(two)
    tie.own[:] = 0.0
    tie.gram[:] = 0.0
    tie.link[:] = 0.0


@compiled
def run_pairs(
    settings: Settings,
    maps: tuple[FeatureMap, FeatureMap],
    one: DoublyState,
    two: DoublyState,
    tie: Tie,
    rows: FloatArray,
    out: Outputs,
) -> None:
    """Run rows (n, D₁ + D₂) through both views in order and fill the features' arrays.

    The states are written to only if `settings.learn`. Cost a row: see `dspair`.
    """
    (rank, block), total = one.cross.shape, rows.shape[0]
    counts, most, split = one.counts, settings.row_batch, one.scale.shape[0]
    rooms = make_room(maps[0], split, block), make_room(maps[1], two.scale.shape[0], block)
    left = make_view(min(most, total), split, rank, block)
    right = make_view(min(most, total), two.scale.shape[0], rank, block)
    place = 0
    while place < total:
        count = min(most - counts[WAITING] if settings.learn else most, total - place)
        for b in range(count):
            row = rows[place + b]
            good = scale_row(settings, one, row[:split], is_positive_only(maps[0]), left.x[b])
            also = scale_row(settings, two, row[split:], is_positive_only(maps[1]), right.x[b])
            left.good[b] = good and also
            right.good[b] = good and also
        used = blocks_in_use(one)
        evaluate_view(maps[0], one.factor, used, rooms[0], left, count)
        evaluate_view(maps[1], two.factor, used, rooms[1], right, count)
        for b in range(count):
            left.good[b] = left.good[b] and right.good[b]
            if not left.good[b]:
                continue
            n, u, v = place + b, left.h[b], right.h[b]
            loss = 0.5 * project_row(one, u, left, left.own[b])
            loss += 0.5 * project_row(two, v, right, right.own[b])
            out.valid[n] = True
            out.number[n] = counts[N]
            out.loss[n] = bounded_loss(loss, 0.5 * (left.own[b] + right.own[b]))
            out.novelty[n] = rank_among(
                one.recent, min(counts[LOSSES], one.recent.shape[0]), out.loss[n]
            )
            if out.z.shape[0] > 0:
                out.z[n] = u
            if out.q.shape[0] > 0:
                out.q[n] = v
            if out.s.shape[0] > 0:
                write_coordinates(one, left.q, out.s[n])
            if settings.learn:
                one.recent[counts[LOSSES] % one.recent.shape[0]] = out.loss[n]
                counts[LOSSES] += 1
                counts[N] += 1
                counts[WAITING] += 1
                out.informative[n] = True
        if settings.learn:
            _gather(maps, rooms, one, two, tie, (left, right), count)
        place += count
        if settings.learn and counts[WAITING] == most:
            step_pair(settings, one, two, tie)
