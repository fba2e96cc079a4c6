"""Doubly stochastic kernel PCA: a subspace of random features that are never stored.

The subspace is spanned by r functions H(x) = Σ_i φ_i(x) α_i of random features φ_i
(`random_features`), drawn again from counters whenever they are needed; the state holds their
coefficients α_i in R^r. A mini-batch of T rows and B features moves them by Oja's rule,

    α_i ← (I - η S)α_i,  S = (1/T) Σ h hᵀ,  h = H(x)        (eq. 10, all features)
    α_i += η/(TB) Σ φ_i(x) h                                (eq. 10, the mini-batch's features)

with η_t = θ₀/(1 + θ₁t) (eq. 27). The GHA form takes the upper triangle of S (eq. 16): the functions
then become the eigenfunctions one by one, not only their span.

A row gets, with the kernel κ̂(x, y) = (1/F')Σ φ_i(x)φ_i(y) of the F' features in use and
M = F' Σ α_i α_iᵀ, exactly the projection on that span, as the other trackers do it:

    q = (M + λI)⁻¹h      ℓ = κ̂(x,x) - hᵀq - λ‖q‖²      z = M^{1/2}q

Cost per row: O(F(D + r) + rB), and O(F r² + r³) a mini-batch; drawing costs O(FD) a mini-batch or
a call, whichever is less rows, so calls of a few rows are slow.
Flops a row: 2FD + 12F + 2Fr + 2BD + 10B + 2Br + 8r² + 3Fr²/T + 30FD/T + 30r³/T.

Reference: B. Xie, Y. Liang, L. Song, "Scale up nonlinear component analysis with doubly stochastic
gradients", NIPS 2015, Algorithms 1 and 2, equations 10, 16, 27, supplement A for mini-batches.

Differs from the paper:
- The pool is bounded and gone round again, block by block (the paper revisits "in practice").
- V₀ is r orthonormal functions of the first block of features; the paper assumes one.
- η is never above 1/tr S, under which I - ηS cannot overshoot. A step that would all the same
  leave α out of all bounds is not taken and counted as mended.
- What it says of a row does not take the functions to be orthonormal, which they are in the limit.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray
from kerneltrack.limits import ArrayForm, Limit, real, whole
from kerneltrack.native.binding import call
from kerneltrack.trackers.common.base import KernelTracker
from kerneltrack.trackers.common.calls import look_at, refusal
from kerneltrack.trackers.common.loop import Loop
from kerneltrack.trackers.doubly.random_features import FeatureMap, make_feature_map
from kerneltrack.trackers.doubly.spec import POSITIVE, DSKPCASpec
from kerneltrack.trackers.doubly.state import (
    COUNTS,
    MENDED,
    REALS,
    RIDGE,
    STEPS,
    WAITING,
    DoublySettings,
    DoublyState,
    N,
)


def first_functions(spec: DSKPCASpec, which: int) -> FloatArray:
    """Return αᵀ of V₀ of a view, (r, B): orthonormal under the kernel of its first features.

    Gram and Schmidt, twice, in plain sums: the same bits with any library.
    """
    block = spec.feature_batch
    rows: FloatArray = np.random.default_rng((spec.seed, which)).standard_normal((spec.rank, block))
    for c in range(spec.rank):
        for _ in range(2):
            for e in range(c):
                rows[c] -= float((rows[c] * rows[e]).sum()) * rows[e]
            rows[c] /= math.sqrt(float((rows[c] * rows[c]).sum()))
    return rows / math.sqrt(block)


def feature_map_of(spec: DSKPCASpec, gamma: float = 1.0, which: int = 0) -> FeatureMap:
    """Return the random features of a view of this bandwidth; each model has its own."""
    return make_feature_map(spec.kernel, spec.seed, which, gamma, spec.degree, spec.offset)


def settings_of(spec: DSKPCASpec, learn: bool) -> DoublySettings:
    """Return the spec as the compiled loop takes it."""
    return DoublySettings(
        learn=learn,
        aligned=spec.emit == "z",
        ridge=float(spec.ridge),
        form=spec.forms.index(spec.form),
        step_size=float(spec.step_size),
        step_decay=float(spec.step_decay),
        row_batch=spec.row_batch,
        clip=math.inf if spec.clip is None else float(spec.clip),
    )


def functions(spec: DSKPCASpec, state: DoublyState, rows: npt.ArrayLike) -> FloatArray:
    """Return H(x) of rows, (n, r): Algorithm 2. The GHA form's columns are eigenfunctions."""
    tracker, plain = DSKPCA(), dataclasses.replace(spec, emit="q")
    features = tracker.project(plain, state, rows)
    used = min(int(state.counts[STEPS]) + 1, spec.budget // spec.feature_batch)
    alpha = state.factor[:, : used * spec.feature_batch]
    inner = alpha.shape[1] * (alpha @ alpha.T) + state.reals[RIDGE] * np.eye(spec.rank)
    result: FloatArray = np.asarray(features.q) @ inner
    return result


class DSKPCA(KernelTracker[DSKPCASpec, DoublyState]):
    """The tracker of doubly stochastic kernel PCA (see the module).

    Example:
        >>> spec = DSKPCASpec(rank=2, budget=128, warmup=50, row_batch=25)
        >>> rows = np.random.default_rng(0).normal(size=(200, 3))
        >>> state, features = DSKPCA().update(spec, DSKPCA().init(spec, rows[:50]), rows)
        >>> features.z.shape, int(state.counts[2])
        ((200, 2), 8)
    """

    name = "dskpca"
    spec_type = DSKPCASpec
    state_type = DoublyState

    def init(self, spec: DSKPCASpec, first_rows: npt.ArrayLike, key: str = "") -> DoublyState:
        """Make the state from the first rows (m, D); see `KernelTracker.init`."""
        state = self.first_state(spec, look_at(spec, first_rows))
        state.factor[:, : spec.feature_batch] = first_functions(spec, 0)
        call("dskpca_refresh", settings_of(spec, True), state)
        return state

    def loop(self, spec: DSKPCASpec, learn: bool) -> Loop:
        """Return the row loop (native/dskpca.c)."""
        return Loop("dskpca_run", settings_of(spec, learn), (feature_map_of(spec),))

    def stored(self, spec: DSKPCASpec) -> int:
        """Return how many numbers the features s of a row are."""
        return spec.budget

    def why_refused(self, spec: DSKPCASpec, state: DoublyState, row: npt.ArrayLike) -> str:
        """Return in one clause why a row was not valid."""
        return refusal(state, row, positive_only(spec))

    def counters(self, state: DoublyState) -> dict[str, int]:
        """Return running totals by name: every valid row is learned from, none is stored."""
        return totals(state.counts)

    def layout(self, spec: DSKPCASpec, width: int) -> dict[str, ArrayForm]:
        """Return what the arrays of a state are like."""
        rank = spec.rank
        return {
            "factor": real(rank, spec.budget),
            "solver": real(rank, rank),
            "solver_t": real(rank, rank),
            "mapping": real(rank, rank),
            "moment": real(rank, rank),
            "cross": real(rank, spec.feature_batch),
            "shift": real(width),
            "scale": real(width),
            "bandwidth": real(1),
            "recent": real(spec.novelty_window),
            "reals": real(REALS),
            "counts": whole(COUNTS),
        }

    def limits(self, spec: DSKPCASpec) -> tuple[Limit, ...]:
        """Return the range of the rows in the open mini-batch."""
        return (waiting(spec),)


def positive_only(spec: DSKPCASpec) -> str | None:
    """Return the kernel's name if it takes no number below 0."""
    return spec.kernel if spec.kernel in POSITIVE else None


def waiting(spec: DSKPCASpec) -> Limit:
    """Return the range of the rows in a mini-batch that is not whole yet."""
    return Limit("rows in the open mini-batch", WAITING, spec.row_batch - 1)


def totals(counts: npt.NDArray[np.int64]) -> dict[str, int]:
    """Return running totals by name."""
    none = dict.fromkeys(("evicted", "dropped_at_once", "unseen"), 0)
    return {
        "informative": int(counts[N]),
        "mended": int(counts[MENDED]),
        **none,
    }
