"""Kernel mismatch of a window of rows: (1/N)‖K - K̂‖_F under one subspace.

K = κ(X, X) of the window's N rows and K̂ = ZᵀZ of their projections on the subspace L = Φ_S A
that the tracker holds when the window closes: projections on different subspaces share no inner
product. `window_mismatch` measures a window that is at hand, `MovingWindow` the paper's window of
the last N rows after every row (section VII).

K̂ is of the *unregularised* projection, K̂ = Bᵀ(AᵀK_S A)⁺B with B = AᵀK(S, X): what the subspace
can represent, without the ridge of the tracker's own features. Then K - K̂ is positive
semidefinite, so that the mismatch is at most (1/N)tr(K - K̂), the mean residual (`bounds`).

AᵀK_S A may be singular: A has more columns than stored rows, or these nearly coincide. No
pseudo-inverse is computed but an orthonormal basis of L (`span_basis`), without the directions
that are nothing but rounding. A direction that counts by a squared length of δ (of its terms')
carries a relative error of about 1e-15/δ into K̂: below 1e-10 for δ > 1e-5.

Reference: F. Sheikholeslami, D. Berberidis, G. B. Giannakis, "Large-scale kernel-based feature
extraction via low-rank subspace tracking on a budget", IEEE Trans. Signal Process., 2018,
sections VI and VII.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.compiled import compiled
from kerneltrack.kernels import Kernel, kernel_row
from kerneltrack.monitor.bounds import fitting_bound
from kerneltrack.registry import get_tracker
from kerneltrack.sums import dot, fused
from kerneltrack.trackers import Tracker
from kerneltrack.trackers.common.calls import kernel_of
from kerneltrack.trackers.common.scaling import Scaling, apply_scaling
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.okfeb.state import SubspaceState, directions_used

FloatArray = npt.NDArray[np.float64]

RANK_TOLERANCE = 1e-10
"""A direction whose squared length is below this fraction of its terms' is rounding."""
TILE = 256
"""Rows whose kernel values with one row are at hand at a time: they stay in the fast cache."""


class Mismatch(NamedTuple):
    """What a window says of the subspace it was measured under.

    Attributes:
        n: Valid rows N of the window.
        value: (1/N)‖K - K̂‖_F; NaN, as the other two, if N is 0.
        residual: Mean of κ(x,x) - ‖z‖², z the unregularised projection.
        kappa: Mean of κ(x,x).
    """

    n: int
    value: float
    residual: float
    kappa: float

    @property
    def trace_bound(self) -> float:
        """The trace certificate (1/N)tr(K - K̂) >= value: it is the mean residual itself."""
        return self.residual

    @property
    def fitting_bound(self) -> float:
        """The paper's bound 2√(κ̄ē) + ē (eq. 28b); NaN where the subspace is none."""
        known = self.n and math.isfinite(self.residual + self.kappa)
        return fitting_bound(self.kappa, self.residual) if known else math.nan


def stores_rows(tracker: Tracker) -> bool:
    """Check whether a tracker's state holds rows, on which its subspace stands: K̂ needs them."""
    return "support" in tracker.state_type._fields


def window_mismatch(spec: SubspaceSpec, state: SubspaceState, rows: npt.ArrayLike) -> Mismatch:
    """Measure one window of rows under the subspace of a state.

    The sums run in the order of the rows given, whatever calls the rows came in; rows in another
    order give the same value up to rounding.

    Args:
        spec: The spec that the state was made with.
        state: Tracker state when the window closes; not written to.
        rows: Shape (N, D), unscaled, as the tracker takes them. Rows that the tracker refuses are
            left out.

    Returns:
        The window's mismatch, mean residual and mean κ(x,x).

    Raises:
        ConfigError: for rows of another width.

    Cost O(N²(D + r) + NB(D + r)) once per window; memory O(N(D + r)), never N².

    Example:
        >>> from kerneltrack import OKFEBSpec, run_all
        >>> spec = OKFEBSpec(rank=2, budget=4, kernel="linear", standardise=False)
        >>> rows = np.random.default_rng(0).normal(size=(50, 2))
        >>> state, _ = run_all(spec, rows)
        >>> found = window_mismatch(spec, state, rows[-20:])
        >>> found.n, round(found.value, 9) + 0.0, found.value <= found.trace_bound
        (20, 0.0, True)
    """
    matrix = np.ascontiguousarray(rows, dtype=np.float64)
    valid = get_tracker(spec.tracker).project(spec, state, matrix).valid
    kept = scaled_rows(spec, state, matrix[valid])
    count = len(kept)
    if count == 0:
        return Mismatch(0, math.nan, math.nan, math.nan)
    # Copies: Numba would compile the loops anew for arrays that may not be written to.
    parts = (state.factor, state.image, state.gram, state.support)
    factor, image, gram, support = (np.array(part) for part in parts)
    used = directions_used(state.counts, factor)
    basis = np.zeros((spec.rank, len(support)))
    rank = span_basis(factor[:used], image[:used], gram, state.size, basis)
    square, residual, own = _window_sums(
        kernel_of(spec, state), kept, support, state.size, basis[:rank]
    )
    value = math.sqrt(square) / count
    # Equal at the least, but for rounding: a certificate must not lie below what it certifies.
    return Mismatch(count, value, max(residual / count, value), own / count)


def scaled_rows(spec: SubspaceSpec, state: SubspaceState, rows: FloatArray) -> FloatArray:
    """Return rows as the tracker sees them; those that it refuses may come out as anything."""
    clip = math.inf if spec.clip is None else spec.clip
    with np.errstate(all="ignore"):
        scaled = apply_scaling(Scaling(state.shift, state.scale), rows, clip)
    return np.ascontiguousarray(scaled)


@compiled
def span_basis(
    factor: FloatArray, image: FloatArray, gram: FloatArray, size: int, out: FloatArray
) -> int:
    """Write coefficients of an orthonormal basis of L = Φ_S A to the first rows of `out`.

    Modified Gram-Schmidt on the columns a of A, the longest first, in the inner product aᵀK_S b
    of the feature space; K_S a is carried along. Columns are first scaled to Σ|a_i|√κ_ii = 1, the
    length that their terms would have without cancellation: the rounding of K_S is relative to
    it. As the longest goes first the terms grow little, and what is left of a column may be held
    against 1.

    Args:
        factor: (r, C) Aᵀ; slots from `size` on are not read.
        image: (r, C) (K_S A)ᵀ.
        gram: (C, C) K_S; its diagonal is read.
        size: |S|.
        out: (r, C) filled with the basis, (number of directions, |S|).

    Returns:
        The number of directions, at most min(r, |S|). z of a row is out · κ(S, x).

    Cost O(|S|r²).
    """
    rank: int = factor.shape[0]
    left = np.empty((rank, size))
    right = np.empty((rank, size))
    length = np.empty(rank)
    lengths = np.empty(size)
    for i in range(size):
        lengths[i] = np.sqrt(gram[i, i])
    for c in range(rank):
        for i in range(size):
            left[c, i] = abs(factor[c, i])
        total = dot(left[c], lengths, size)
        scale = 1.0 / total if total > 0.0 else 0.0
        for i in range(size):
            left[c, i] = factor[c, i] * scale
            right[c, i] = image[c, i] * scale
        length[c] = dot(left[c], right[c], size)
    for found in range(rank):
        best = 0
        for c in range(rank):
            if length[c] > length[best]:
                best = c
        square = length[best]
        if not square > RANK_TOLERANCE:
            return found
        for i in range(size):
            out[found, i] = left[best, i] / np.sqrt(square)
        length[best] = 0.0
        for c in range(rank):
            if length[c] > 0.0:
                along = dot(left[best], right[c], size) / square
                for i in range(size):
                    left[c, i] = fused(-along, left[best, i], left[c, i])
                    right[c, i] = fused(-along, right[best, i], right[c, i])
                length[c] = dot(left[c], right[c], size)
    return rank


@compiled
def subtract_products(z: FloatArray, row: int, start: int, count: int, line: FloatArray) -> None:
    """Subtract z_rowᵀz_j from line[j - start] for the `count` columns j of z from `start` on.

    An unsigned index spares the question whether it counts from the end, and so the loop stays in
    vector registers.
    """
    for c in range(z.shape[0]):
        weight = z[c, row]
        for j in range(count):
            line[j] = fused(-weight, z[c, np.uintp(start + j)], line[j])


@compiled
def _window_sums(
    kernel: Kernel, rows: FloatArray, support: FloatArray, size: int, basis: FloatArray
) -> tuple[float, float, float]:
    """Return ‖K - K̂‖_F², tr(K - K̂) and tr(K) of scaled rows (N, D).

    K - K̂ passes by in pieces of one row and `TILE` columns; each piece is summed by itself, then
    the pieces of a tile, then the tiles: always the same order, and short sums.
    """
    count, rank = rows.shape[0], basis.shape[0]
    z = np.empty((rank, count))
    line = np.empty(max(TILE, size))
    for n in range(count):
        kernel_row(kernel, support, size, rows[n], line)
        for c in range(rank):
            z[c, n] = dot(basis[c], line, size)
    square = 0.0
    residual = 0.0
    own = 0.0
    for start in range(0, count, TILE):
        tile = rows[start : start + TILE]
        tile_square = 0.0
        for n in range(start, count):
            last = min(n - start, tile.shape[0])
            kernel_row(kernel, tile, last, rows[n], line)
            subtract_products(z, n, start, last, line)
            tile_square += 2.0 * dot(line, line, last)
            if last < tile.shape[0]:
                kernel_row(kernel, rows[n : n + 1], 1, rows[n], line)
                own += line[0]
                subtract_products(z, n, n, 1, line)
                residual += line[0]
                tile_square += line[0] * line[0]
        square += tile_square
    return square, residual, own
