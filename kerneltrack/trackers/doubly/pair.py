"""Doubly stochastic kernel CCA and SVD: functions of two views of a row that go together.

A row is a pair (x, y): its first `first_view` columns and the others. Functions u = Σ φ_i(x)α_i of
the one and v = Σ φ_i(y)β_i of the other, r each, move by a mini-batch of T rows and B features,
with W = (1/T) Σ(uvᵀ + vuᵀ):

    ksvd:  α_i ← (I - ηW)α_i (all features);  α_i += η/(TB) Σ φ_i(x)v (the mini-batch's)  (Alg. 3)
    kcca:  α_i += η/(TB) Σ φ_i(x)(v - Wu)                         (the mini-batch's)      (Alg. 4)
    kcca-newton:  α += η (G + μI)⁻¹(1/T) Σ φ(x)(v - Wu)ᵀ          (the mini-batch's)      (ours)

and β likewise with the views exchanged. G = (1/T) Σ φ(x)φ(x)ᵀ of the mini-batch's features and μ is
.3 of its mean eigenvalue. The plain step moves a function along an eigenfunction of the kernel in
proportion to its eigenvalue, so that those of small eigenvalues take thousands of steps; with G
taken out they keep pace. Kernel sliced inverse regression is the CCA of a row with its target
(section 6.4): the target is the second view.

Of a row it says z = u, q = v, and as loss the mean over the two views of the squared distance from
the span of their functions, as `dskpca` has it; s is the first view's projection.

Cost per row: O(F(D + r) + rB) for each view, and O(F r² + r³) a mini-batch; "kcca-newton" takes
O(B²) a row and O(B³ + rB²) a mini-batch more.
Flops a row: 2FD + 24F + 4Fr + 2BD + 20B + 4Br + 16r² + 6Fr²/T + 30FD/T + 60r³/T, and
2B² + (4B³/3 + 4rB²)/T more for "kcca-newton".

Reference: B. Xie, Y. Liang, L. Song, "Scale up nonlinear component analysis with doubly stochastic
gradients", NIPS 2015, Algorithms 3 and 4, equations 18 to 26.

Differs from the paper: as `dskpca`; mini-batches take the means of its sums; the views have random
features of their own, so that they may be of different widths. Nothing is centred, as in the
paper: one pair of functions may be the constants. "kcca-newton" is ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.limits import ArrayForm, Limit, real, whole
from kerneltrack.native.binding import call
from kerneltrack.native.layouts import FloatCube, FloatMatrix, FloatVector, IntVector
from kerneltrack.trackers.common.base import KernelTracker
from kerneltrack.trackers.common.calls import look_at, refusal
from kerneltrack.trackers.common.loop import Loop
from kerneltrack.trackers.doubly import kpca as dskpca
from kerneltrack.trackers.doubly.spec import DSPairSpec
from kerneltrack.trackers.doubly.state import COUNTS, DoublySettings, DoublyState, N


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

    factor: FloatCube
    solver: FloatCube
    solver_t: FloatCube
    moment: FloatCube
    link: FloatMatrix
    cross: FloatCube
    own: FloatCube
    gram: FloatCube
    shift: FloatVector
    scale: FloatVector
    bandwidth: FloatVector
    recent: FloatVector
    reals: FloatVector
    counts: IntVector

    @property
    def n(self) -> int:
        """Valid rows seen."""
        return int(self.counts[N])

    @property
    def size(self) -> int:
        """Rows that were learned from."""
        return int(self.counts[N])


class PairView(NamedTuple):
    """One view's part of a state, as the compiled loop takes it; it shares the state's memory.

    Attributes:
        of: What its functions have in common with those of `dskpca`.
        own: (r, B) as in the state.
        gram: (B, B) likewise.
    """

    of: DoublyState
    own: FloatArray
    gram: FloatArray


def views(spec: DSPairSpec, state: PairState) -> tuple[PairView, PairView]:
    """Return the two views' parts of a state; they share its memory."""
    columns = (slice(0, spec.first_view), slice(spec.first_view, None))
    one, two = (
        DoublyState(
            factor=state.factor[which],
            solver=state.solver[which],
            solver_t=state.solver_t[which],
            mapping=np.zeros((spec.rank, spec.rank)),
            moment=state.moment[which],
            cross=state.cross[which],
            shift=state.shift[columns[which]],
            scale=state.scale[columns[which]],
            bandwidth=state.bandwidth[which : which + 1],
            recent=state.recent,
            reals=state.reals[which : which + 1],
            counts=state.counts,
        )
        for which in (0, 1)
    )
    return PairView(one, state.own[0], state.gram[0]), PairView(two, state.own[1], state.gram[1])


def settings_of(spec: DSPairSpec, learn: bool) -> DoublySettings:
    """Return the spec as the compiled loop takes it; no frame is kept, z are the functions."""
    return dskpca.settings_of(spec, learn)._replace(aligned=False)


class DSPair(KernelTracker[DSPairSpec, PairState]):
    """The tracker of doubly stochastic kernel CCA and SVD (see the module).

    Example:
        >>> spec = DSPairSpec(rank=2, budget=128, warmup=50, row_batch=25, first_view=2)
        >>> rows = np.random.default_rng(0).normal(size=(200, 5))
        >>> state, features = DSPair().update(spec, DSPair().init(spec, rows[:50]), rows, ("q",))
        >>> features.z.shape, features.q.shape
        ((200, 2), (200, 2))
    """

    name = "dspair"
    spec_type = DSPairSpec
    state_type = PairState
    begins_alike = False

    def init(self, spec: DSPairSpec, first_rows: npt.ArrayLike, key: str = "") -> PairState:
        """Make the state from the first rows (m, D); see `KernelTracker.init`."""
        width = np.shape(first_rows)[1] if np.ndim(first_rows) == 2 else 0
        if 1 < width <= spec.first_view:
            raise ConfigError("first_view", spec.first_view, f"less than the {width} columns")
        state = self.first_state(spec, look_at(spec, first_rows, (spec.first_view,)))
        for which, half in enumerate(views(spec, state)):
            half.of.factor[:, : spec.feature_batch] = dskpca.first_functions(spec, which)
            call("dskpca_refresh", settings_of(spec, True), half.of)
        return state

    def loop(self, spec: DSPairSpec, learn: bool) -> Loop:
        """Return the row loop (native/dspair.c)."""
        maps = tuple(dskpca.feature_map_of(spec, which=which) for which in (0, 1))
        return Loop("dspair_run", settings_of(spec, learn), (maps,), more=((spec.first_view,),))

    def stored(self, spec: DSPairSpec) -> int:
        """Return how many numbers the features s of a row are."""
        return spec.budget

    def why_refused(self, spec: DSPairSpec, state: PairState, row: npt.ArrayLike) -> str:
        """Return in one clause why a row was not valid."""
        return refusal(state, row, dskpca.positive_only(spec))

    def counters(self, state: PairState) -> dict[str, int]:
        """Return running totals by name: every valid row is learned from, none is stored."""
        return dskpca.totals(state.counts)

    def layout(self, spec: DSPairSpec, width: int) -> dict[str, ArrayForm]:
        """Return what the arrays of a state are like."""
        rank, block = spec.rank, spec.feature_batch
        solved = block if spec.form == "kcca-newton" else 0
        return {
            "factor": real(2, rank, spec.budget),
            "solver": real(2, rank, rank),
            "solver_t": real(2, rank, rank),
            "moment": real(2, rank, rank),
            "link": real(rank, rank),
            "cross": real(2, rank, block),
            "own": real(2, rank, block),
            "gram": real(2, solved, solved),
            "shift": real(width),
            "scale": real(width),
            "bandwidth": real(2),
            "recent": real(spec.novelty_window),
            "reals": real(2),
            "counts": whole(COUNTS),
        }

    def limits(self, spec: DSPairSpec) -> tuple[Limit, ...]:
        """Return the range of the rows in the open mini-batch."""
        return (dskpca.waiting(spec),)

    def sound(self, spec: DSPairSpec, state: PairState) -> PairState:
        """Return a state that was read, after a look at its values."""
        if state.scale.shape[-1] <= spec.first_view:
            allowed = f"of shape (D,), D more than first_view = {spec.first_view}"
            raise ConfigError("state.scale", state.scale.shape, allowed)
        return state
