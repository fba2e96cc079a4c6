"""NOLANA: stochastic gradient steps on adaptive Nyström features, the weights fitted anew.

The features of a row are q = Eᵀk, k = κ(U, x), with the m landmarks U and the r coefficient vectors
E of the adaptive Nyström map (`kerneltrack.trackers.oana`, whose steps run here); f_c(x) = w_cᵀq,
C functions on one map. A labelled row takes a step on its loss + λ/2·Σ‖w_c‖² (eq. 11),

    w_c ← (1 - η_tλ)w_c - η_t ∂ℓ/∂f_c q,

then its nearest landmark moves to the mean of its rows, unless ‖x - u‖² < ε. The map that follows,
q̄, gets the weights that say the most similar of the landmarks, at their new places (eq. 12):

    w̄_c = argmin Σ_i (w_cᵀq(u_i) - wᵀq̄(u_i))² + θ‖w‖² = (GGᵀ + θI)⁻¹ G q(U)ᵀw_c,  G = q̄(U).

With `stage_order: move_first` the landmark moves before the row's step, which is then one on q̄.
The losses: Crammer and Singer's multi-class hinge, multinomial logistic, and (y - f(x))²/2 in
regression. The first m labelled rows that differ are the landmarks. With `threshold: null` they
stay so, which is NOGD. Any orthonormal basis of the
map's subspace gives the same functions, so features are not aligned.

Flops a labelled row that moves a landmark: 6mD + 2mr + 4Cr + 6m²r + 13mr² + 2r³/3 + 4Cmr; the
first three terms where none moves, 3mD + 2mr + 2Cr for a row that is predicted only.

Reference: S. Si, S. Kumar, Y. Li, "Nonlinear online learning with adaptive Nyström approximation",
2018, Alg. 2, eq. 11 and 12; J. Lu, S. C. H. Hoi, J. Wang, P. Zhao, Z.-Y. Liu, "Large scale online
kernel learning", JMLR 17, 2016 (NOGD).

Differs from the paper: several classes; η_t may fall; a row that becomes a landmark does so before
its step, as only then the map knows it; a row of the squared loss never moves f past its own
target, η_t <= 1.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.learners.common.base import COUNTS
from kerneltrack.learners.common.kept_classes import KeptClasses
from kerneltrack.learners.common.prequential import MAX_WIDTH, many_sums
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.kernel.common import (
    EARLY,
    KernelLearner,
    counts_of,
    first_bandwidth,
    kernel_sums,
    width_of,
)
from kerneltrack.learners.kernel.spec import NOLANASpec
from kerneltrack.limits import ArrayForm, Limit, check_counts, check_whole, real, whole
from kerneltrack.native.layouts import FloatMatrix, FloatVector, IntVector
from kerneltrack.settings import check_int

LANDMARKS, MOVED, _, DIRECTIONS = range(COUNTS, COUNTS + 4)
"""Places in `counts` behind those of all learners; the third is `EARLY`."""


class NOLANASettings(NamedTuple):
    """A spec as numbers; `threshold` is infinite where landmarks stay where they are."""

    ridge: float
    step_size: float
    decay_rows: float
    refit_ridge: float
    threshold: float
    logistic: bool
    moves_first: bool
    warmup: int


class NOLANAState(NamedTuple):
    """State of NOLANA; see `LearnerState` for what all states hold.

    With D features, C classes (1 in regression), s = m + 1 slots for landmarks and e < warmup rows
    that wait for the bandwidth, the bytes of its arrays are 8(s(D + 2r + s + 1) + C(r + 1) +
    e(D + 1) + 13), 8 more in regression.

    Attributes:
        weights: (C, r) w.
        support: (s, D) landmarks; slots from `size` on are unused, the last one always.
        factor: (r, s) Eᵀ.
        gram: (s, s) kernel matrix of the landmarks.
        image: (r, s) (KE)ᵀ, the landmarks' features.
        members: (s,) rows whose mean each landmark is.
        early: (e, D + 1) rows that wait for the bandwidth, each with its target or class's place.
        bandwidth: (1,) γ; 0 until it is known.
        sums: (4 + C,), in regression (6,), as in `LearnerState`.
        counts: (8,) as in `LearnerState`, then landmarks, rows that moved one, e and directions.
        classes, kept: As in `LearnerState`.
    """

    weights: FloatMatrix
    support: FloatMatrix
    factor: FloatMatrix
    gram: FloatMatrix
    image: FloatMatrix
    members: IntVector
    early: FloatMatrix
    bandwidth: FloatVector
    sums: FloatVector
    counts: IntVector
    classes: tuple[str, ...]
    kept: KeptClasses | None = None

    @property
    def size(self) -> int:
        """Landmarks."""
        return int(self.counts[LANDMARKS])


class NOLANA(KernelLearner[NOLANASpec, NOLANAState]):
    """The learner NOLANA (see the module).

    Example:
        >>> spec, learner = NOLANASpec(gamma=1.0, budget=20, rank=16, threshold=0.1), NOLANA()
        >>> rows = np.random.default_rng(0).normal(size=(300, 2))
        >>> labels = ["in" if row @ row < 1 else "out" for row in rows]
        >>> state, found = learner.update(spec, learner.init(spec, 2), rows, labels)
        >>> learner.predict(spec, state, [[0.1, 0.0], [2.0, 1.0]]).names, state.size
        (['in', 'out'], 20)
    """

    name = "nolana"
    spec_type: type[LearnerSpec] = NOLANASpec
    state_type = NOLANAState
    evaluation = "nolana_values"

    def settings(self, spec: NOLANASpec) -> NOLANASettings:
        """Return the spec as numbers."""
        return NOLANASettings(
            ridge=float(spec.ridge),
            step_size=float(spec.step_size),
            decay_rows=float(spec.decay_rows),
            refit_ridge=float(spec.refit_ridge),
            threshold=math.inf if spec.threshold is None else float(spec.threshold),
            logistic=spec.classifies and spec.loss == "logistic",
            moves_first=spec.stage_order == "move_first",
            warmup=spec.warmup,
        )

    def init(self, spec: NOLANASpec, width: int) -> NOLANAState:
        """Make the state of a learner that has seen no label; see `Learner.init`."""
        check_int("width", width, 1, MAX_WIDTH)
        slots, rank = spec.budget + 1, spec.rank
        return NOLANAState(
            weights=np.zeros((0 if spec.classifies else 1, rank)),
            support=np.zeros((slots, width)),
            factor=np.zeros((rank, slots)),
            gram=np.zeros((slots, slots)),
            image=np.zeros((rank, slots)),
            members=np.zeros(slots, dtype=np.int64),
            early=np.zeros((0, width + 1)),
            bandwidth=first_bandwidth(spec),
            sums=kernel_sums(spec),
            counts=np.zeros(DIRECTIONS + 1, dtype=np.int64),
            classes=(),
        )

    def width(self, spec: NOLANASpec, state: NOLANAState) -> int:
        """Return the number of features that a state was made for."""
        width: int = state.support.shape[1]
        return width

    def stored(self, state: NOLANAState) -> int:
        """Return how many rows a state holds, without those that wait."""
        return state.size

    def layout(
        self, spec: NOLANASpec, arrays: dict[str, npt.NDArray[Any]], classes: int
    ) -> dict[str, ArrayForm]:
        """Return what a state's arrays should be like; see `PrequentialLearner`."""
        counts, width = counts_of(arrays, DIRECTIONS + 1), width_of(arrays["support"])
        check_counts(
            "state.counts",
            counts,
            Limit("landmarks", LANDMARKS, spec.budget),
            Limit("rows that wait", EARLY, spec.warmup - 1),
            Limit("directions", DIRECTIONS, min(int(counts[LANDMARKS]), spec.rank)),
        )
        slots, rank = spec.budget + 1, spec.rank
        return {
            "weights": real(classes, rank),
            "support": real(slots, width),
            "factor": real(rank, slots),
            "gram": real(slots, slots),
            "image": real(rank, slots),
            "members": whole(slots),
            "early": real(int(counts[EARLY]), width + 1),
            "bandwidth": real(1),
            "sums": real(many_sums(spec, classes)),
            "counts": whole(DIRECTIONS + 1),
        }

    def sound(self, spec: NOLANASpec, state: NOLANAState) -> NOLANAState:
        """Check what the row loop is led by."""
        check_whole("state.members", state.members[: state.size], 1)
        return super().sound(spec, state)
