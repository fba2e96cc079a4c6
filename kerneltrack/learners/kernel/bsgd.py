"""BSGD: stochastic gradient steps on the multi-class hinge loss, on a fixed budget of rows.

C functions f_c(x) = Σ_j w_cj κ(d_j, x) share the stored rows. A labelled row whose margin is
violated, 1 + f_r(x) - f_y(x) > 0 with the rival r = argmax_{c≠y} f_c(x), is stored with weight η
for its class and -η for the rival, after f_c ← (1 - ηλ)f_c. If there are then more than B rows,
one goes:

| maintenance | the row that goes |
|---|---|
| removal | of the least Σ_c w_cj², with all that it knew |
| projection | whose removal moves the functions least, its share given to the others |
| merging | of the least Σ_c w_cm², into one with another (Gaussian kernel) |

The share is that of least squares (see `dictionary`). Merging, the rows m and n become
z = h·d_m + (1 - h)d_n with the weights w_cz = w_cm κ(d_m, z) + w_cn κ(d_n, z). h maximises
Σ_c w_cz², so that the functions move least, by a golden section search of 20 steps (to 1e-4); n is
the best of all.

Flops a labelled row that is stored: 6MD + 410M + 82CM, by merging an exponential taken for ten, two
in each of 20 steps; 3MD + 10M + 3CM by removal, 10M² more by projection.

Reference: Z. Wang, K. Crammer, S. Vucetic, "Breaking the curse of kernelization: budgeted
stochastic gradient descent for large-scale SVM training", JMLR 13, 2012.

Differs from the paper: the step is η/√(1 + t/d) instead of 1/(λt), as the authors of POLK ran it;
projection looks for the row among all, by its exact error.
"""

from __future__ import annotations

from typing import NamedTuple

from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.kernel.dictionary import DictionaryLearner
from kerneltrack.learners.kernel.spec import MAINTENANCE, BSGDSpec


class BSGDSettings(NamedTuple):
    """A spec as numbers."""

    ridge: float
    step_size: float
    decay_rows: float
    maintenance: int
    budget: int
    warmup: int


class BSGD(DictionaryLearner[BSGDSpec]):
    """The learner BSGD (see the module).

    Example:
        >>> import numpy as np
        >>> spec, learner = BSGDSpec(gamma=1.0, budget=30), BSGD()
        >>> rows = np.random.default_rng(0).normal(size=(300, 2))
        >>> labels = ["in" if row @ row < 1 else "out" for row in rows]
        >>> state, found = learner.update(spec, learner.init(spec, 2), rows, labels)
        >>> learner.predict(spec, state, [[0.1, 0.0], [2.0, 1.0]]).names, state.size
        (['in', 'out'], 30)
    """

    name = "bsgd"
    spec_type: type[LearnerSpec] = BSGDSpec

    def projects(self, spec: BSGDSpec) -> bool:
        """Check whether the learner needs K⁻¹."""
        return spec.maintenance == "projection"

    def settings(self, spec: BSGDSpec) -> BSGDSettings:
        """Return the spec as numbers."""
        return BSGDSettings(
            ridge=float(spec.ridge),
            step_size=float(spec.step_size),
            decay_rows=float(spec.decay_rows),
            maintenance=MAINTENANCE.index(spec.maintenance),
            budget=spec.budget,
            warmup=spec.warmup,
        )
