"""FOGD: stochastic gradient steps on random Fourier features.

f_c(x) = w_cᵀφ(x)/√m with the features φ_j(x) = √2 cos(ω_jᵀx + b_j), j = 1..m, whose mean product
is the kernel (`kerneltrack.trackers.doubly.random_features`). A labelled row takes a step on its
loss + λ/2·Σ‖w_c‖²,

    w_c ← (1 - η_tλ)w_c - η_t ∂ℓ/∂f_c φ/√m.

The losses: Crammer and Singer's multi-class hinge, multinomial logistic, and (y - f(x))²/2 in
regression. ω and b are drawn anew in each call, from the seed and their number alone, and are no
part of the state: rows that come one by one pay O(mD) for it each.

Flops a labelled row: 2mD + 10m + 4Cm; 2mD + 10m + 2Cm for one that is predicted only.

Reference: J. Lu, S. C. H. Hoi, J. Wang, P. Zhao, Z.-Y. Liu, "Large scale online kernel learning",
JMLR 17, 2016, Algorithm 1; A. Rahimi, B. Recht, "Random features for large-scale kernel machines",
NIPS 2007.

Differs from the paper: several classes; cosines with a phase, where the paper has sine and cosine
of m/2 frequencies; η_t may fall; a row of the squared loss never moves f past its own target,
η_t <= 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray
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
)
from kerneltrack.learners.kernel.spec import FOGDSpec
from kerneltrack.limits import ArrayForm, Limit, check_counts, real, whole
from kerneltrack.native.layouts import FloatMatrix, FloatVector, IntVector
from kerneltrack.settings import check_int
from kerneltrack.trackers.doubly.random_features import FeatureMap, make_feature_map

INPUTS, FEATURES = range(COUNTS, COUNTS + 2)
"""Places in `counts` behind those of all learners, before `EARLY`."""


class FOGDSettings(NamedTuple):
    """A spec as numbers."""

    ridge: float
    step_size: float
    decay_rows: float
    logistic: bool
    warmup: int


class FOGDState(NamedTuple):
    """State of FOGD; see `LearnerState` for what all states hold.

    With D features, C classes (1 in regression), m random features and e < warmup rows that wait
    for the bandwidth, the bytes of its arrays are 8(C(m + 1) + e(D + 1) + 12), 8 more in
    regression.

    Attributes:
        weights: (C, m) w.
        early: (e, D + 1) rows that wait for the bandwidth, each with its target or class's place.
        bandwidth: (1,) γ; 0 until it is known.
        sums: (4 + C,), in regression (6,), as in `LearnerState`.
        counts: (7,) as in `LearnerState`, then D, m and e.
        classes, kept: As in `LearnerState`.
    """

    weights: FloatMatrix
    early: FloatMatrix
    bandwidth: FloatVector
    sums: FloatVector
    counts: IntVector
    classes: tuple[str, ...]
    kept: KeptClasses | None = None


class FOGD(KernelLearner[FOGDSpec, FOGDState]):
    """The learner FOGD (see the module).

    Example:
        >>> spec, learner = FOGDSpec(gamma=1.0, budget=100), FOGD()
        >>> rows = np.random.default_rng(0).normal(size=(500, 2))
        >>> labels = ["in" if row @ row < 1 else "out" for row in rows]
        >>> state, found = learner.update(spec, learner.init(spec, 2), rows, labels)
        >>> learner.predict(spec, state, [[0.1, 0.0], [2.0, 1.0]]).names
        ['in', 'out']
    """

    name = "fogd"
    spec_type: type[LearnerSpec] = FOGDSpec
    state_type = FOGDState
    evaluation = "fogd_values"

    def settings(self, spec: FOGDSpec) -> FOGDSettings:
        """Return the spec as numbers."""
        return FOGDSettings(
            ridge=float(spec.ridge),
            step_size=float(spec.step_size),
            decay_rows=float(spec.decay_rows),
            logistic=spec.classifies and spec.loss == "logistic",
            warmup=spec.warmup,
        )

    def similarity(self, spec: FOGDSpec, bandwidth: FloatArray) -> FeatureMap:
        """Return the random features; any will do while γ is not known."""
        gamma = float(bandwidth[0]) or 1.0
        return make_feature_map(spec.kernel, spec.seed, gamma=gamma)

    def init(self, spec: FOGDSpec, width: int) -> FOGDState:
        """Make the state of a learner that has seen no label; see `Learner.init`."""
        check_int("width", width, 1, MAX_WIDTH)
        counts = np.zeros(EARLY + 1, dtype=np.int64)
        counts[[INPUTS, FEATURES]] = width, spec.budget
        return FOGDState(
            weights=np.zeros((0 if spec.classifies else 1, spec.budget)),
            early=np.zeros((0, width + 1)),
            bandwidth=first_bandwidth(spec),
            sums=kernel_sums(spec),
            counts=counts,
            classes=(),
        )

    def width(self, spec: FOGDSpec, state: FOGDState) -> int:
        """Return the number of features that a state was made for."""
        return int(state.counts[INPUTS])

    def stored(self, state: FOGDState) -> int:
        """Return how many rows a state holds, without those that wait."""
        return 0

    def layout(
        self, spec: FOGDSpec, arrays: dict[str, npt.NDArray[Any]], classes: int
    ) -> dict[str, ArrayForm]:
        """Return what a state's arrays should be like; see `PrequentialLearner`."""
        counts = counts_of(arrays, EARLY + 1)
        check_counts(
            "state.counts",
            counts,
            Limit("inputs", INPUTS, MAX_WIDTH, 1),
            Limit("random features", FEATURES, spec.budget, spec.budget),
            Limit("rows that wait", EARLY, spec.warmup - 1),
        )
        return {
            "weights": real(classes, spec.budget),
            "early": real(int(counts[EARLY]), int(counts[INPUTS]) + 1),
            "bandwidth": real(1),
            "sums": real(many_sums(spec, classes)),
            "counts": whole(EARLY + 1),
        }
