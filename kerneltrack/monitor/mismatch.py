"""Kernel mismatch of a window of rows: (1/N)‖K - K̂‖_F under one subspace.

K = κ(X, X) of the window's N rows and K̂ = ZᵀZ of their features z under the subspace that the
tracker holds when the window closes: features under different subspaces share no inner product.
`window_mismatch` measures a window that is at hand, `MovingWindow` the paper's window of the last N
rows after every row (section VII).

The features are those that the tracker gives, z = Pᵀκ(S, x) but for the frame, which turns them all
alike and leaves K̂ as it is. Of the trackers with an orthonormal basis Φ_S E (covariance, OANA) they
are coordinates of the projection on the subspace, P = E, as far as its directions are in use. Those
of OK-FEB and OK-FE are regularised, P = AQᵀ with QᵀQ = (M + ρI)⁻¹, M = AᵀK_S A and ρ the ridge in
force: K̂ = Bᵀ(M + ρI)⁻¹B, B = AᵀK(S, X). Either way z is R^½φ(x) in other coordinates, with R = LLᵀ
or L(M + ρI)⁻¹Lᵀ of the basis L of the subspace, and no eigenvalue of R is above 1: K - K̂ is
positive semidefinite, so that the mismatch is at most (1/N)tr(K - K̂), the mean residual (`bounds`).

Reference: F. Sheikholeslami, D. Berberidis, G. B. Giannakis, "Large-scale kernel-based feature
extraction via low-rank subspace tracking on a budget", IEEE Trans. Signal Process., 2018,
sections VI and VII.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.monitor.bounds import fitting_bound
from kerneltrack.native.binding import address, call, packed
from kerneltrack.registry import get_tracker
from kerneltrack.trackers import KernelTracker
from kerneltrack.trackers.common.block import Block
from kerneltrack.trackers.common.calls import kernel_of, kernel_of_spec
from kerneltrack.trackers.common.loop import NO_TIMES, Pieces
from kerneltrack.trackers.common.places import spans, words_of_each
from kerneltrack.trackers.common.scaling import Scaling, apply_scaling
from kerneltrack.trackers.common.spec import SubspaceSpec

MOST_ROWS = 65_536
"""Rows of windows that are measured together, beside those of one."""


class Mismatch(NamedTuple):
    """Kernel mismatch of a window of rows under a subspace.

    Attributes:
        n: Valid rows N of the window.
        value: (1/N)‖K - K̂‖_F; NaN, as the other two, if N is 0.
        residual: Mean of κ(x,x) - ‖z‖².
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


def stores_rows(tracker: KernelTracker[Any, Any]) -> bool:
    """Check whether a tracker's state holds rows, on which its subspace stands: K̂ is of those."""
    return hasattr(tracker.state_type, "support")


def window_mismatch(spec: SubspaceSpec, state: Any, rows: npt.ArrayLike) -> Mismatch:
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

    Cost O(N²(D + r)) once per window, in addition to `project`; memory O(N(D + r)), never N².

    Example:
        >>> from kerneltrack import CovarianceSpec, run_all
        >>> spec = CovarianceSpec(rank=2, budget=4, kernel="linear", standardise=False)
        >>> rows = np.random.default_rng(0).normal(size=(50, 2))
        >>> state, _ = run_all(spec, rows)
        >>> found = window_mismatch(spec, state, rows[-20:])
        >>> found.n, round(found.value, 9) + 0.0, found.value <= found.trace_bound
        (20, 0.0, True)
    """
    matrix = np.ascontiguousarray(rows, dtype=np.float64)
    # Whatever the spec emits, K̂ is of z.
    plain: Any = spec if spec.emit == "z" else dataclasses.replace(spec, emit="z")
    features = get_tracker(spec.tracker).project(plain, state, matrix)
    kept = scaled_rows(spec, state, matrix[features.valid])
    count = len(kept)
    if features.z is None or count == 0:
        return _NOTHING
    z, sums = np.ascontiguousarray(features.z[features.valid].T), np.zeros(3)
    call("mismatch_sums", kernel_of(spec, state), kept, z, sums)
    return _of_sums(count, *sums.tolist())


_NOTHING = Mismatch(0, math.nan, math.nan, math.nan)


def _of_sums(count: int, square: float, residual: float, own: float) -> Mismatch:
    value = math.sqrt(square) / count
    # Equal at the least, but for rounding: a certificate must not lie below what it certifies.
    return Mismatch(count, value, max(residual / count, value), own / count)


def window_mismatches(
    spec: SubspaceSpec,
    block: Block[Any],
    models: IntArray,
    windows: Sequence[Sequence[FloatArray]],
) -> list[Mismatch]:
    """Measure windows of many models, each under its model's subspace; see `window_mismatch`.

    Args:
        spec: The spec that the states were made with.
        block: The trackers' states; not written to.
        models: (w,) places of the windows' models.
        windows: The rows of each, in parts of shape (n, D).
    """
    found: list[Mismatch] = []
    lengths = [sum(map(len, parts)) for parts in windows]
    # Windows that slide hold each row many times: not all at once.
    batches = [number // MOST_ROWS for number in accumulate(lengths)]
    for first, stop in _runs(batches):
        rows = _joined([part for parts in windows[first:stop] for part in parts])
        many = np.array(lengths[first:stop], np.int64)
        found += _measured(spec, block, models[first:stop], rows, many)
    return found


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Return where runs of the same number begin and end."""
    first = 0
    for at, number in enumerate(numbers):
        if number != numbers[first]:
            yield first, at
            first = at
    if numbers:
        yield first, len(numbers)


def _joined(parts: Sequence[FloatArray]) -> FloatArray:
    """Return rows one part after the other, contiguous: those of a single part as they are."""
    return np.ascontiguousarray(parts[0]) if len(parts) == 1 else np.concatenate(parts)


def _measured(
    spec: SubspaceSpec, block: Block[Any], models: IntArray, rows: FloatArray, lengths: IntArray
) -> list[Mismatch]:
    """Measure windows whose rows follow one another, so many each."""
    plain: Any = spec if spec.emit == "z" else dataclasses.replace(spec, emit="z")
    stops = np.cumsum(lengths)
    tracker = get_tracker(spec.tracker)
    out = tracker.room(plain, len(rows), width=block.width)
    pieces = Pieces(rows, stops - lengths, stops, NO_TIMES, models)
    tracker.run_checked(plain, block, pieces, out, False)
    owner = np.repeat(models, lengths)
    scaling = Scaling(*(block.column(name)[owner] for name in ("shift", "scale")))
    z, valid = out.z, out.valid
    if np.count_nonzero(valid) < len(valid):
        of_window = np.repeat(np.arange(len(models)), lengths)
        lengths = np.bincount(of_window[valid], minlength=len(models))
        rows, z = rows[valid], z[valid]
        scaling = Scaling(*(part[valid] for part in scaling))
        stops = np.cumsum(lengths)
    clip = math.inf if spec.clip is None else spec.clip
    kept = np.ascontiguousarray(apply_scaling(scaling, rows, clip))
    kernels = kernels_of_each(spec, block.column("bandwidth")[models, 0])
    if np.count_nonzero(lengths) == len(lengths):
        return mismatch_of_each(kernels, kept, z, stops - lengths, stops)
    some = np.flatnonzero(lengths)
    measured = mismatch_of_each(kernels[some], kept, z, (stops - lengths)[some], stops[some])
    found = dict(zip(some.tolist(), measured, strict=True))
    return [found.get(at, _NOTHING) for at in range(len(models))]


def kernels_of_each(spec: SubspaceSpec, bandwidths: FloatArray) -> IntArray:
    """Return the kernel of each model as the loops take it, (m, 4)."""
    words = np.empty((len(bandwidths), 4), np.int64)
    words[:] = _kernel_words(spec)
    words[:, 1] = (1.0 / bandwidths).view(np.int64)
    return words


@lru_cache(maxsize=16)
def _kernel_words(spec: SubspaceSpec) -> IntArray:
    """Return the kernel of a spec's models as the loop takes it, (4,), of bandwidth 1."""
    return np.frombuffer(packed(kernel_of_spec(spec)), np.int64)


def mismatch_of_each(
    kernels: IntArray, rows: FloatArray, z: FloatArray, starts: IntArray, stops: IntArray
) -> list[Mismatch]:
    """Return what `window_mismatch` says of each of w windows.

    Args:
        kernels: (w, 4) the kernel of each one's model as the loop takes it.
        rows: (n, D) scaled rows that are valid, those of a window one after the other.
        z: (n, r) their features.
        starts: (w,) place of each window's first row.
        stops: (w,) place after its last: the next one's first.
    """
    sums, lengths = np.zeros((len(starts), 3)), stops - starts
    turned = np.empty(z.size)
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        part = turned[start * z.shape[1] : stop * z.shape[1]]
        part.reshape(z.shape[1], stop - start)[...] = z[start:stop].T
    zs = np.empty((len(starts), 3), np.int64)
    zs[:, 0] = address(turned) + starts * (z.shape[1] * turned.itemsize)
    zs[:, 1], zs[:, 2] = z.shape[1], lengths
    words = spans(rows, starts, stops).tobytes(), zs.tobytes(), words_of_each(sums).tobytes()
    call("mismatch_sums_each", (len(starts),), kernels.tobytes(), *words)
    return [
        _of_sums(count, *line) for count, line in zip(lengths.tolist(), sums.tolist(), strict=True)
    ]


def scaled_rows(spec: SubspaceSpec, state: Any, rows: FloatArray) -> FloatArray:
    """Return rows as the tracker sees them; those that it refuses may come out as anything."""
    clip = math.inf if spec.clip is None else spec.clip
    with np.errstate(all="ignore"):
        scaled = apply_scaling(Scaling(state.shift, state.scale), rows, clip)
    return np.ascontiguousarray(scaled)
