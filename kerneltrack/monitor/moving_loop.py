"""The compiled loop of the moving window: one row through the tracker, then through the window.

What is kept from row to row and what a row costs: see `moving`. Symbols: X the window's rows, S the
stored rows, Z the projections' coordinates in an orthonormal basis of the subspace.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba.extending import overload as numba_overload

from kerneltrack.compiled import compiled, inlined
from kerneltrack.kernels import Kernel, kernel_row
from kerneltrack.monitor.mismatch import span_basis, subtract_products
from kerneltrack.sums import dot, entry_sum, fused
from kerneltrack.trackers.covariance.loop import run_rows as run_covariance
from kerneltrack.trackers.covariance.state import CovarianceState
from kerneltrack.trackers.okfeb.loop import run_rows as run_okfeb
from kerneltrack.trackers.okfeb.state import SIZE, Outputs, SubspaceState, directions

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

GROUP = 4
"""Rows of K - ZᵀZ that are computed side by side: they share the loads of Z."""
LANES = 8
"""The longest loops run to a multiple of it: a processor's vectors leave no remainder."""

# Places in the window's `counts`.
SEEN, DIRECTIONS, STALE = range(3)


class WindowState(NamedTuple):
    """State of a moving window; the last of N places is the newest row's.

    Places of rows that have not come yet hold zeros. The bytes of its arrays are
    8(N(N + D + C + r + 3) + rC + 3), with C = B + 1.

    Attributes:
        rows: (N, D) the window's rows, scaled.
        gram: (N, N) ring: row number n, counted from 0, keeps in row n mod N its kernel values
            with the N - 1 rows before it and with itself.
        cross: (C, N) κ(S, X); slots as in the tracker's state.
        basis: (r, C) coefficients of the basis that `features` are taken in.
        features: (r, N) Z.
        shares: (N,) sum over all entries of K - ZᵀZ, squared, of a row with itself and with
            newer rows.
        residuals: (N,) κ(x,x) - ‖z‖².
        own: (N,) κ(x,x).
        counts: (3,) valid rows seen, directions of the basis, 1 if `basis`, `features`, `shares`
            and `residuals` belong to an earlier subspace.
    """

    rows: FloatArray
    gram: FloatArray
    cross: FloatArray
    basis: FloatArray
    features: FloatArray
    shares: FloatArray
    residuals: FloatArray
    own: FloatArray
    counts: IntArray


class MovingMismatch(NamedTuple):
    """What a moving window says after each of n rows.

    All are NaN before the window is full and for rows that the tracker refused.

    Attributes:
        value: (n,) (1/N)‖K - K̂‖_F of the last N valid rows under the subspace after the row.
        residual: (n,) their mean κ(x,x) - ‖z‖², which is the trace certificate.
        kappa: (n,) their mean κ(x,x).
    """

    value: FloatArray
    residual: FloatArray
    kappa: FloatArray

    @property
    def trace_bound(self) -> FloatArray:
        """The trace certificate (1/N)tr(K - K̂) >= value, shape (n,)."""
        return self.residual

    @property
    def fitting_bound(self) -> FloatArray:
        """The paper's bound 2√(κ̄ē) + ē (eq. 28b), shape (n,)."""
        bound: FloatArray = 2.0 * np.sqrt(self.kappa * self.residual) + self.residual
        return bound


# What Numba does not type.
overload: Any = numba_overload

LOOPS: dict[Any, Any] = {SubspaceState: run_okfeb, CovarianceState: run_covariance}
"""The trackers' row loops by their states; both states have what a window reads."""


def _track(
    settings: Any, kernel: Kernel, state: Any, rows: FloatArray, out: Outputs, times: IntArray
) -> None:
    """Run rows through the tracker that the state belongs to; compiled only."""
    raise NotImplementedError


@overload(_track)  # type: ignore[untyped-decorator]
def _track_by_state(settings: Any, kernel: Any, state: Any, rows: Any, out: Any, times: Any) -> Any:
    loop = LOOPS[state.instance_class]

    def timed(settings: Any, kernel: Any, state: Any, rows: Any, out: Any, times: Any) -> None:
        loop(settings, kernel, state, rows, out, times)

    def plain(settings: Any, kernel: Any, state: Any, rows: Any, out: Any, times: Any) -> None:
        loop(settings, kernel, state, rows, out)

    return timed if state.instance_class is CovarianceState else plain


@inlined
def _row_of(out: Outputs, n: int) -> Outputs:
    """Return views of one row of the outputs."""
    return Outputs(
        out.valid[n : n + 1],
        out.number[n : n + 1],
        out.z[n : n + 1],
        out.loss[n : n + 1],
        out.novelty[n : n + 1],
        out.informative[n : n + 1],
        out.evicted[n : n + 1],
        out.initial[n : n + 1],
        out.q[n : n + 1],
        out.s[n : n + 1],
    )


@inlined
def _shift(table: FloatArray) -> None:
    """Move every column of a table one place to the front; the last is free then."""
    for i in range(table.shape[0]):
        for j in range(table.shape[1] - 1):
            table[i, j] = table[i, j + 1]


@compiled
def _enter(
    kernel: Kernel,
    state: Any,
    window: WindowState,
    x: FloatArray,
    number: int,
    k: FloatArray,
) -> None:
    """Take a scaled row into the window: its kernel values with window and stored rows.

    `number` is its index among the model's rows, by which a slot of S tells that it holds it; k
    is filled with κ(S, x).
    """
    length, size = window.rows.shape[0], state.counts[SIZE]
    for j in range(length - 1):
        window.own[j] = window.own[j + 1]
        window.shares[j] = window.shares[j + 1]
        window.residuals[j] = window.residuals[j + 1]
        for d in range(x.shape[0]):
            window.rows[j, d] = window.rows[j + 1, d]
    for d in range(x.shape[0]):
        window.rows[length - 1, d] = x[d]
    values = window.gram[window.counts[SEEN] % length]
    kernel_row(kernel, window.rows, length, x, values)
    window.own[length - 1] = values[length - 1]
    kernel_row(kernel, state.support, size, x, k)
    _shift(window.cross[:size])
    for i in range(size):
        window.cross[i, length - 1] = k[i]
        if state.born[i] == number:
            for j in range(length):
                window.cross[i, j] = values[j]
    window.counts[SEEN] += 1


@compiled
def _append(window: WindowState, k: FloatArray, line: FloatArray) -> None:
    """Book the newest row's entries of K - ZᵀZ; the subspace is as it was. Cost O(N(B + r))."""
    length, rank = window.rows.shape[0], window.counts[DIRECTIONS]
    newest = length - 1
    z = window.features[:rank]
    _shift(z)
    for c in range(rank):
        z[c, newest] = dot(window.basis[c], k, k.shape[0])
    values = window.gram[(window.counts[SEEN] - 1) % length]
    for j in range(length):
        line[j] = values[j]
    subtract_products(z, newest, 0, length, line)
    for j in range(newest):
        window.shares[j] += 2.0 * line[j] * line[j]
    window.shares[newest] = line[newest] * line[newest]
    window.residuals[newest] = line[newest]


@inlined
def _project_window(window: WindowState, size: int, pad: int, z: FloatArray) -> None:
    """Fill Z = basis · κ(S, X) behind `pad` columns, and a row of zeros below it. Cost O(NBr).

    Four stored rows at a time, then two; the slot after the last has coefficient 0. Unsigned
    indexes: see `subtract_products`.
    """
    length, rank = window.rows.shape[0], window.counts[DIRECTIONS]
    cross = window.cross
    whole = size - size % 4
    for c in range(rank + 1):
        for j in range(length):
            z[c, pad + j] = 0.0
    for c in range(rank):
        for i in range(0, whole, 4):
            w0, w1 = window.basis[c, i], window.basis[c, i + 1]
            w2, w3 = window.basis[c, i + 2], window.basis[c, i + 3]
            for j in range(length):
                at = np.uintp(pad + j)
                half = fused(w1, cross[i + 1, j], fused(w0, cross[i, j], z[c, at]))
                z[c, at] = fused(w3, cross[i + 3, j], fused(w2, cross[i + 2, j], half))
        for i in range(whole, size, 2):
            w0, w1 = window.basis[c, i], window.basis[c, i + 1]
            for j in range(length):
                at = np.uintp(pad + j)
                z[c, at] = fused(w1, cross[i + 1, j], fused(w0, cross[i, j], z[c, at]))
        for j in range(length):
            window.features[c, j] = z[c, pad + j]


@compiled
def _measure_anew(state: Any, window: WindowState, z: FloatArray, block: FloatArray) -> None:
    """Take the basis of the subspace as it is now and book all of K - ZᵀZ again.

    Row by row, oldest first, each with the rows before it, in groups of `GROUP`. Empty places in
    front of the oldest row make the groups even.

    Args:
        state: Tracker state; factor, image and Gram matrix are read.
        window: Its basis, features, shares and residuals are written.
        z: Workspace (r + 1, width), zero in all columns but the N that Z takes.
        block: Workspace (GROUP + 1, width): rows of -ZᵀZ, and the sums of squares.

    Cost O(Br² + NBr + N²r).
    """
    length, size = window.rows.shape[0], state.counts[SIZE]
    used = directions(state.counts, state.factor)
    rank = span_basis(state.factor[:used], state.image[:used], state.gram, size, window.basis)
    window.counts[DIRECTIONS] = rank
    window.counts[STALE] = 0
    pad = -length % GROUP
    _project_window(window, size, pad, z)
    sums = block[GROUP]
    for j in range(length + pad):
        sums[j] = 0.0
    for a in range(0, length + pad, GROUP):
        count = (a + GROUP + LANES - 1) // LANES * LANES
        for j in range(count):
            block[0, j] = 0.0
            block[1, j] = 0.0
            block[2, j] = 0.0
            block[3, j] = 0.0
        for c in range(0, rank, 2):
            u0, u1, u2, u3 = z[c, a], z[c, a + 1], z[c, a + 2], z[c, a + 3]
            v0, v1, v2, v3 = z[c + 1, a], z[c + 1, a + 1], z[c + 1, a + 2], z[c + 1, a + 3]
            for j in range(count):
                u, v = z[c, j], z[c + 1, j]
                block[0, j] = fused(-u0, u, fused(-v0, v, block[0, j]))
                block[1, j] = fused(-u1, u, fused(-v1, v, block[1, j]))
                block[2, j] = fused(-u2, u, fused(-v2, v, block[2, j]))
                block[3, j] = fused(-u3, u, fused(-v3, v, block[3, j]))
        # The kernel values that a row was given on arrival end with itself.
        first = window.counts[SEEN] + a - pad
        end = length - 1 - a
        k0, k1 = window.gram[first % length], window.gram[(first + 1) % length]
        k2, k3 = window.gram[(first + 2) % length], window.gram[(first + 3) % length]
        for j in range(pad, a):
            d0 = k0[np.uintp(end + j)] + block[0, j]
            d1 = k1[np.uintp(end - 1 + j)] + block[1, j]
            d2 = k2[np.uintp(end - 2 + j)] + block[2, j]
            d3 = k3[np.uintp(end - 3 + j)] + block[3, j]
            sums[j] = fused(d0, d0, fused(d1, d1, fused(d2, d2, fused(d3, d3, sums[j]))))
        for g in range(max(pad - a, 0), GROUP):
            for h in range(max(pad - a, 0), g + 1):
                entry = window.gram[(first + g) % length, length - 1 - g + h] + block[g, a + h]
                sums[a + h] += entry * entry
                window.residuals[a + g - pad] = entry
    for j in range(length):
        # Off the diagonal every entry is there twice.
        square = window.residuals[j] * window.residuals[j]
        window.shares[j] = 2.0 * sums[pad + j] - square


@compiled
def run_window(  # noqa: PLR0913, PLR0917 - the tracker's loop has six of its own
    settings: Any,
    kernel: Kernel,
    state: Any,
    window: WindowState,
    rows: FloatArray,
    scaled: FloatArray,
    out: Outputs,
    measured: MovingMismatch,
    times: IntArray,
) -> None:
    """Run rows (n, D) through tracker and window, one by one, and fill both's outputs."""
    length = window.rows.shape[0]
    width = (length + GROUP + LANES - 1) // LANES * LANES
    z = np.zeros((window.features.shape[0] + 1, width))
    block = np.zeros((GROUP + 1, width))
    line = np.empty(length)
    k = np.zeros(window.cross.shape[0])
    for n in range(rows.shape[0]):
        _track(settings, kernel, state, rows[n : n + 1], _row_of(out, n), times[n : n + 1])
        if not out.valid[n]:
            continue
        _enter(kernel, state, window, scaled[n], out.number[n], k)
        if out.informative[n] or window.counts[SEEN] < length:
            window.counts[STALE] = 1
        if window.counts[SEEN] < length:
            continue
        if window.counts[STALE] == 1:
            _measure_anew(state, window, z, block)
        else:
            _append(window, k, line)
        value = np.sqrt(entry_sum(window.shares, length)) / length
        measured.value[n] = value
        # Equal at the least, but for rounding, as in `window_mismatch`.
        measured.residual[n] = max(entry_sum(window.residuals, length) / length, value)
        measured.kappa[n] = entry_sum(window.own, length) / length
