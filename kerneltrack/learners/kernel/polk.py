"""POLK: functional stochastic gradient steps, made sparse by matching pursuit.

C functions f_c(x) = Σ_j w_cj κ(d_j, x) of one RKHS share a dictionary of M rows. A mini-batch of B
labelled rows takes a step on the mean loss + λ/2·Σ‖f_c‖² (eq. 14, 18),

    f̃_c = (1 - η_tλ)f_c - (η_t/B) Σ_i ∂ℓ(f(x_i), y_i)/∂f_c · κ(x_i, ·),

which adds its rows to the dictionary; then destructive kernel orthogonal matching pursuit with
pre-fitting (Algorithm 1) drops the row whose removal, all weights re-fitted, moves f̃ least, as
long as f̃ has moved by no more than ε_t = K η_t^{3/2} in all, ‖·‖² = Σ_c ‖·‖². Past `budget` rows it
drops them whatever that costs. The losses: multi-class hinge (eq. 26), with the rival
r = argmax_{c≠y} f_c(x), multinomial logistic (eq. 27), and (y - f(x))²/2 in regression, where ε is
in standard deviations of the targets (`scale_targets`).

With W, WᵀW = K⁻¹, kept up to date (see `dictionary`), all removal errors come at once instead
of from M least-squares fits.
Flops a labelled row with a gradient: 3MD + 10M + 6CM + 10M². Of these 3MD + 10M + 2CM are for f(x),
an exponential taken for ten: all there is of a row that is predicted only. 4M² take it in, 4CM
look for the cheapest, and if that is not the row itself, 6M² drop one: it grows as M².

Reference: A. Koppel, G. Warnell, E. Stump, A. Ribeiro, "Parsimonious online learning with kernels
via sparse projections in function space", JMLR 20, 2019, Algorithms 1 and 2, eq. 26 and 27.

Differs from the paper: the hard cap; η_t may fall; a mini-batch without a gradient drops no row;
one in the span of the others (squared distance below 1e-6) never stays; a row of the squared loss
never moves f past its own target, η_t <= 1. Eq. 20's printed pseudo-inverse is misplaced:
w = K_DD⁻¹ K_DD̃ w̃.
"""

from __future__ import annotations

from typing import NamedTuple

from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.kernel.dictionary import DictionaryLearner
from kerneltrack.learners.kernel.spec import POLKSpec


class POLKSettings(NamedTuple):
    """A spec as numbers."""

    ridge: float
    step_size: float
    decay_rows: float
    parsimony: float
    logistic: bool
    batch: int
    budget: int
    warmup: int


class POLK(DictionaryLearner[POLKSpec]):
    """The learner POLK (see the module).

    Example:
        >>> import numpy as np
        >>> spec, learner = POLKSpec(gamma=1.0, step_size=1.0), POLK()
        >>> rows = np.random.default_rng(0).normal(size=(300, 2))
        >>> labels = ["in" if row @ row < 1 else "out" for row in rows]
        >>> state, found = learner.update(spec, learner.init(spec, 2), rows, labels)
        >>> learner.predict(spec, state, [[0.1, 0.0], [2.0, 1.0]]).names, state.size < 50
        (['in', 'out'], True)
    """

    name = "polk"
    spec_type: type[LearnerSpec] = POLKSpec

    def settings(self, spec: POLKSpec) -> POLKSettings:
        """Return the spec as numbers."""
        return POLKSettings(
            ridge=float(spec.ridge),
            step_size=float(spec.step_size),
            decay_rows=float(spec.decay_rows),
            parsimony=float(spec.parsimony),
            logistic=spec.classifies and spec.loss == "logistic",
            batch=spec.batch,
            budget=spec.budget,
            warmup=spec.warmup,
        )
