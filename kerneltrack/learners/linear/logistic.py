"""Multinomial logistic regression, by stochastic gradient steps.

With s_c = w_cᵀx and the probabilities p_c = exp(s_c) / Σ_d exp(s_d) of the known classes, a step
on -log p_y + λ/2·Σ‖w_c‖² is

    w_c ← (1 - η_tλ)w_c + η_t([c = y] - p_c)x.

A class that appears begins with w = 0. A row that counts k times (`weights`) has k times this loss.
Cost O(Cp) a row.
Flops a labelled row: 4Cp + 20C, an exponential taken for ten.

References: C. M. Bishop, "Pattern recognition and machine learning", 2006, eq. 4.104 and 4.109;
A. Koppel, G. Warnell, E. Stump, A. Ribeiro, "Parsimonious online learning with kernels via sparse
projections in function space", JMLR 20, 2019, eq. 27.
"""

from __future__ import annotations

from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.linear.common import GradientSettings, LinearLearner
from kerneltrack.learners.linear.spec import LogisticSpec


class Logistic(LinearLearner[LogisticSpec]):
    """The multinomial logistic learner (see the module).

    Example:
        >>> spec, learner = LogisticSpec(), Logistic()
        >>> rows = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]] * 20
        >>> state, found = learner.update(spec, learner.init(spec, 2), rows, list("abc") * 20)
        >>> last = learner.predict(spec, state, [[0.1, 0.9]])
        >>> last.names, bool(0.5 < last.score[0] < 1.0)
        (['c'], True)
    """

    name = "logistic"
    weighs = True
    first_beta = 1.0
    spec_type: type[LearnerSpec] = LogisticSpec

    def settings(self, spec: LogisticSpec) -> GradientSettings:
        """Return the spec as numbers."""
        return GradientSettings(float(spec.ridge), float(spec.step_size), float(spec.decay_rows))
