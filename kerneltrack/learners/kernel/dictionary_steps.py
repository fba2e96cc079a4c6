"""Compiled steps on a dictionary of rows: a row in, a row out, each with the others re-fitted.

Symbols: D the M stored rows, K = κ(D, D) with unit diagonal, W with WᵀW = K⁻¹ (`root`), k = κ(D, x)
of a row, w_c the weights of f_c = Σ_j w_cj κ(d_j, ·).

**In.** t = K⁻¹k is the row's projection on the others, δ = 1 - kᵀt its squared distance from them;
W gets the row (-t, 1)/√δ and [K⁻¹]_jj grows by t_j²/δ. A row as good as in their span is not
stored: w_c takes its projection.

**Out.** Without row j, the best w in the norm of the RKHS is w_ci - w_cj [K⁻¹]_ij/[K⁻¹]_jj, and the
functions move by Σ_c w_cj²/[K⁻¹]_jj in squares: all M such errors come at once. Removals one after
the other are projections one inside the other, so that their squared errors add up. A reflection
sends W's column j to the last axis; what is above it is a root of the inverse without j. The row
that came in last, while its row of W is the only one to reach it, just goes again: exactly as if it
had never been stored, in O(CM).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kerneltrack.compiled import compiled, inlined
from kerneltrack.kernels import Kernel, kernel_row
from kerneltrack.learners.common.base import COUNTS, FloatArray, IntArray
from kerneltrack.linalg import inverse_cholesky
from kerneltrack.sums import dot, fused

# Places in `counts` behind those of all learners.
STORED, PENDING, _, SINCE = range(COUNTS, COUNTS + 4)
DICTIONARY_COUNTS = COUNTS + 4

IN_SPAN = 1e-6
"""A row whose squared distance from the span of the others is below this is not stored, or goes as
another comes close, so that the condition of K stays below M²/IN_SPAN."""
RENEWAL = 64
"""W is computed anew after so many rows in and out, or M if that is more."""
NO_LIFT = 1e-18
"""Added to a unit diagonal it changes nothing; pivots stay above half of it."""


class Dictionary(NamedTuple):
    """A state's arrays, as `DictionaryState` documents them, with room for the call's rows."""

    rows: FloatArray
    weights: FloatArray
    root: FloatArray
    diagonal: FloatArray
    early: FloatArray
    bandwidth: FloatArray
    sums: FloatArray
    counts: IntArray


class Work(NamedTuple):
    """Scratch space of one call, a number a stored row in each.

    Attributes:
        k: κ(D, x).
        half: Wk.
        share: t of the row that came in last.
        before: `diagonal` without that row.
        along: A column of W.
        pull: A column of K⁻¹.
        costs: What removing each row would cost.
    """

    k: FloatArray
    half: FloatArray
    share: FloatArray
    before: FloatArray
    along: FloatArray
    pull: FloatArray
    costs: FloatArray


@inlined
def make_work(room: int) -> Work:
    """Make scratch space for so many rows."""
    return Work(
        np.empty(room),
        np.empty(room),
        np.empty(room),
        np.empty(room),
        np.empty(room),
        np.empty(room),
        np.empty(room),
    )


@inlined
def evaluate(
    kernel: Kernel, state: Dictionary, row: FloatArray, known: int, k: FloatArray, out: FloatArray
) -> None:
    """Write κ(D, x) of a row to `k` and the first `known` functions' values of it to `out`."""
    size = state.counts[STORED]
    kernel_row(kernel, state.rows, size, row, k)
    for c in range(known):
        out[c] = dot(state.weights[c], k, size)


@compiled
def evaluate_rows(kernel: Kernel, state: Dictionary, rows: FloatArray, out: FloatArray) -> None:
    """Write the values of all functions, one line a row."""
    k = np.empty(state.counts[STORED])
    for n in range(rows.shape[0]):
        evaluate(kernel, state, rows[n], state.weights.shape[0], k, out[n])


@inlined
def shrink(state: Dictionary, size: int, amount: float) -> None:
    """Multiply the weights of the first `size` rows by 1 - amount, never by less than 0."""
    if amount > 0.0:
        keep = max(1.0 - amount, 0.0)
        for c in range(state.weights.shape[0]):
            for j in range(size):
                state.weights[c, j] *= keep


@inlined
def _transposed_times(root: FloatArray, vector: FloatArray, size: int, out: FloatArray) -> None:
    for j in range(size):
        out[j] = 0.0
    for i in range(size):
        weight = vector[i]
        for j in range(size):
            out[j] = fused(weight, root[i, j], out[j])


@inlined
def _refresh_diagonal(state: Dictionary, size: int) -> None:
    for j in range(size):
        state.diagonal[j] = 0.0
    for i in range(size):
        for j in range(size):
            entry = state.root[i, j]
            state.diagonal[j] = fused(entry, entry, state.diagonal[j])


@compiled
def renew_root(kernel: Kernel, state: Dictionary) -> None:
    """Compute W from the rows, if that is due. Cost O(M²D + M³)."""
    size = state.counts[STORED]
    if state.counts[SINCE] < max(RENEWAL, size):
        return
    gram = np.empty((size, size))
    chol = np.empty((size, size))
    root = np.empty((size, size))
    transposed = np.empty((size, size))
    for i in range(size):
        kernel_row(kernel, state.rows, i + 1, state.rows[i], gram[i])
    inverse_cholesky(gram, NO_LIFT, chol, root, transposed)
    for i in range(size):
        for j in range(size):
            state.root[i, j] = root[i, j]
    _refresh_diagonal(state, size)
    state.counts[SINCE] = 0


@compiled
def move_row(state: Dictionary, source: int, target: int) -> None:
    """Copy a row and its weights to another place."""
    for d in range(state.rows.shape[1]):
        state.rows[target, d] = state.rows[source, d]
    for c in range(state.weights.shape[0]):
        state.weights[c, target] = state.weights[c, source]


@compiled
def store(state: Dictionary, work: Work, source: int) -> float:
    """Take the row at place `source` >= M, whose k is in `work`, into the dictionary.

    Returns:
        How far the functions moved, squared: 0 but for a row in the span of the others, which is
        projected on them instead.

    4M² + O(M) flops.
    """
    size = state.counts[STORED]
    root, share = state.root, work.share
    for i in range(size):
        work.half[i] = dot(root[i], work.k, size)
    _transposed_times(root, work.half, size, share)
    rest = 1.0 - dot(work.half, work.half, size)
    if rest <= IN_SPAN:
        return max(rest, 0.0) * _fold(state, work, source, size)
    if source != size:
        move_row(state, source, size)
    inverse = 1.0 / np.sqrt(rest)
    for j in range(size):
        entry = -inverse * share[j]
        work.before[j] = state.diagonal[j]
        state.diagonal[j] = fused(entry, entry, state.diagonal[j])
        root[size, j] = entry
        root[j, size] = 0.0
    root[size, size] = inverse
    state.diagonal[size] = inverse * inverse
    state.counts[STORED] = size + 1
    state.counts[SINCE] += 1
    return 0.0


@inlined
def _fold(state: Dictionary, work: Work, slot: int, size: int) -> float:
    """Give the first `size` rows the projection of the row at `slot`; return its Σ_c w²."""
    total = 0.0
    for c in range(state.weights.shape[0]):
        weight = state.weights[c, slot]
        total += weight * weight
        for j in range(size):
            state.weights[c, j] = fused(weight, work.share[j], state.weights[c, j])
    return total


@inlined
def in_span(state: Dictionary, slot: int) -> bool:
    """Check whether a stored row is as good as in the span of the others."""
    return bool(state.diagonal[slot] * IN_SPAN > 1.0)


@inlined
def cheapest(state: Dictionary, work: Work) -> int:
    """Return the row whose removal moves the functions least, ties to the first; fill the costs.

    A row that by now is as good as in the span of the others goes before it. 2CM + 2M flops.
    """
    size = state.counts[STORED]
    costs = work.costs
    for j in range(size):
        costs[j] = 0.0
    for c in range(state.weights.shape[0]):
        for j in range(size):
            weight = state.weights[c, j]
            costs[j] = fused(weight, weight, costs[j])
    best = 0
    nearest = 0
    for j in range(size):
        costs[j] /= state.diagonal[j]
        if costs[j] < costs[best]:
            best = j
        if state.diagonal[j] > state.diagonal[nearest]:
            nearest = j
    return nearest if in_span(state, nearest) else best


@compiled
def take_back(state: Dictionary, work: Work) -> None:
    """Drop the row that `store` took in last, nothing removed since; the others take its share."""
    last = state.counts[STORED] - 1
    _fold(state, work, last, last)
    for j in range(last):
        state.diagonal[j] = work.before[j]
    state.counts[STORED] = last
    state.counts[SINCE] -= 1


@compiled
def remove(state: Dictionary, work: Work, slot: int) -> None:
    """Drop a row, the others re-fitted; the last one moves into its place. 6M² + O(CM) flops."""
    size = state.counts[STORED]
    last = size - 1
    root, along, pull = state.root, work.along, work.pull
    square = 0.0
    for m in range(size):
        along[m] = root[m, slot]
        square = fused(along[m], along[m], square)
    _transposed_times(root, along, size, pull)
    scale = -1.0 / pull[slot]
    for c in range(state.weights.shape[0]):
        weight = scale * state.weights[c, slot]
        for j in range(size):
            state.weights[c, j] = fused(weight, pull[j], state.weights[c, j])
    # v = along ± ‖along‖e_last; Wᵀv follows from Wᵀ·along.
    length = np.sqrt(square) if along[last] >= 0.0 else -np.sqrt(square)
    for j in range(size):
        pull[j] = fused(length, root[last, j], pull[j])
    scale = -1.0 / (length * (along[last] + length))
    for m in range(last):
        weight = scale * along[m]
        for j in range(size):
            root[m, j] = fused(weight, pull[j], root[m, j])
    for m in range(last):
        root[m, slot] = root[m, last]
    _refresh_diagonal(state, last)
    if slot != last:
        move_row(state, last, slot)
    state.counts[STORED] = last
    state.counts[SINCE] += 1
