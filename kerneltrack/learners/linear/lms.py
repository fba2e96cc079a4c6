"""Regularised least mean squares, plain and normalised, for regression and classification.

With the error e = y - wᵀx of a labelled row,

    w ← (1 - μλ)w + μ·e·x            μ = min(η_t, 1/‖x‖²)             (LMS)
    w ← (1 - η_tλ)w + μ·e·x          μ = η_t/(1e-3 + ‖x‖²)            (NLMS)

In regression with `scale_targets` the leak leaves the bias alone. In classification every class has
its own w and y = [the row is of the class]: least squares, one class against the rest; the largest
wᵀx is predicted. A class not seen yet has w = 0, which is what it would have had if it had been
known from the start. A row that counts k times (`weights`) goes kμ, but no farther than its own
error is gone (1/‖x‖², or μ if that is more). Cost O(Cp) a row.
Flops a labelled row: 4Cp + 2p.

References: B. Widrow, M. E. Hoff, "Adaptive switching circuits", IRE WESCON Convention Record,
1960 (LMS); A. H. Sayed, "Fundamentals of adaptive filtering", 2003, Alg. 5.2.1 (LMS), 5.3.1
(ε-NLMS), 5.7.1 (leaky LMS).

Differs from these: the step of LMS is capped at 1/‖x‖², where the row's own error is gone
(without the cap it diverges on ‖x‖² > 2/η); features in the unit ball with a bias never meet the
cap at η <= 1/2.
"""

from __future__ import annotations

from typing import NamedTuple

from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.linear.common import LinearLearner
from kerneltrack.learners.linear.spec import LMSSpec


class LMSSettings(NamedTuple):
    """A spec as numbers."""

    ridge: float
    step_size: float
    decay_rows: float
    normalised: bool


class LMS(LinearLearner[LMSSpec]):
    """The LMS and NLMS learner (see the module).

    Example:
        >>> import numpy as np
        >>> spec, learner = LMSSpec(task="regression", bias=False), LMS()
        >>> rows = np.random.default_rng(0).normal(size=(500, 2))
        >>> state, found = learner.update(spec, learner.init(spec, 2), rows, rows @ [2.0, -1.0])
        >>> learner.predict(spec, state, [[1.0, 1.0]]).value.round(3).tolist()
        [1.0]
    """

    name = "lms"
    weighs = True
    spec_type: type[LearnerSpec] = LMSSpec

    def settings(self, spec: LMSSpec) -> LMSSettings:
        """Return the spec as numbers."""
        return LMSSettings(
            float(spec.ridge), float(spec.step_size), float(spec.decay_rows), spec.normalised
        )
