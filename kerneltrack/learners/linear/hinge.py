"""Multi-class hinge loss, by stochastic gradient steps.

With s_c = w_cᵀx, the row's class y and the rival r = argmax_{c≠y} s_c, the loss of Crammer and
Singer (section 3) is ℓ = max(0, 1 + s_r - s_y), and a step on ℓ + λ/2·Σ‖w_c‖² is

    w_c ← (1 - η_tλ)w_c    for all c;    if ℓ > 0:  w_y ← w_y + η_t·x,  w_r ← w_r - η_t·x.

Only known classes are rivals; one that appears begins with w = 0. A row that counts k times
(`weights`) has k times this loss. Cost O(Cp) a row.
Flops a labelled row: 2Cp + 4p.

References: K. Crammer, Y. Singer, "On the algorithmic implementation of multiclass kernel-based
vector machines", JMLR 2, 2001; A. Koppel, G. Warnell, E. Stump, A. Ribeiro, "Parsimonious online
learning with kernels via sparse projections in function space", JMLR 20, 2019, eq. 12 and 26.
"""

from __future__ import annotations

from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.linear.common import GradientSettings, LinearLearner
from kerneltrack.learners.linear.spec import HingeSpec


class Hinge(LinearLearner[HingeSpec]):
    """The multi-class hinge learner (see the module).

    Example:
        >>> spec, learner = HingeSpec(), Hinge()
        >>> rows = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]] * 20
        >>> state, found = learner.update(spec, learner.init(spec, 2), rows, list("abc") * 20)
        >>> learner.predict(spec, state, [[0.1, 0.9]]).names
        ['c']
    """

    name = "hinge"
    weighs = True
    spec_type: type[LearnerSpec] = HingeSpec

    def settings(self, spec: HingeSpec) -> GradientSettings:
        """Return the spec as numbers."""
        return GradientSettings(float(spec.ridge), float(spec.step_size), float(spec.decay_rows))
