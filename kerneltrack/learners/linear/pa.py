"""Passive-aggressive learning: the smallest move that puts the last row right.

With s_c = w_cᵀx, the row's class y and the rival r = argmax_{c≠y} s_c, the loss of a labelled row
is ℓ = max(0, 1 + s_r - s_y) and

    w_y ← w_y + τx,  w_r ← w_r - τx;  τ = ℓ/n (PA),  min(C, ℓ/n) (PA-I),  ℓ/(n + 1/(2C)) (PA-II)

with n = 2‖x‖². In regression ℓ = max(0, |y - wᵀx| - ε), n = ‖x‖² and w ← w + sign(y - wᵀx)τx. Only
known classes are rivals; one that appears begins with w = 0. Cost O(Cp) a row.
Flops a labelled row: 2Cp + 6p.

Reference: K. Crammer, O. Dekel, J. Keshet, S. Shalev-Shwartz, Y. Singer, "Online passive-aggressive
algorithms", JMLR 7, 2006: Fig. 1 (the three steps), section 5 (regression), section 8 (classes: the
max-loss update for costs of 0 and 1).
"""

from __future__ import annotations

from typing import NamedTuple

from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.linear.common import LinearLearner
from kerneltrack.learners.linear.spec import VARIANTS, PASpec


class PASettings(NamedTuple):
    """A spec as numbers."""

    variant: int
    aggressiveness: float
    insensitivity: float


class PA(LinearLearner[PASpec]):
    """The passive-aggressive learner (see the module).

    Example:
        >>> spec, learner = PASpec(), PA()
        >>> rows = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]] * 20
        >>> state, found = learner.update(spec, learner.init(spec, 2), rows, list("abc") * 20)
        >>> learner.predict(spec, state, [[0.1, 0.9]]).names
        ['c']
    """

    name = "pa"
    spec_type: type[LearnerSpec] = PASpec

    def settings(self, spec: PASpec) -> PASettings:
        """Return the spec as numbers."""
        return PASettings(
            VARIANTS.index(spec.variant), float(spec.aggressiveness), float(spec.insensitivity)
        )
