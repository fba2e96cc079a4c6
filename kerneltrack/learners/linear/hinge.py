"""Multi-class hinge loss, by stochastic gradient steps.

With s_c = w_cᵀx, the row's class y and the rival r = argmax_{c≠y} s_c, the loss of Crammer and
Singer (section 3) is ℓ = max(0, 1 + s_r - s_y), and a step on ℓ + λ/2·Σ‖w_c‖² is

    w_c ← (1 - η_tλ)w_c    for all c;    if ℓ > 0:  w_y ← w_y + η_t·x,  w_r ← w_r - η_t·x.

Only known classes are rivals; one that appears begins with w = 0. Cost O(Cp) a row.
Flops a labelled row: 2Cp + 4p.

References: K. Crammer, Y. Singer, "On the algorithmic implementation of multiclass kernel-based
vector machines", JMLR 2, 2001; A. Koppel, G. Warnell, E. Stump, A. Ribeiro, "Parsimonious online
learning with kernels via sparse projections in function space", JMLR 20, 2019, eq. 12 and 26.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kerneltrack.compiled import compiled
from kerneltrack.learners.common.base import LEARNED, FloatArray
from kerneltrack.learners.common.labels import Coded
from kerneltrack.learners.common.row_steps import (
    Arrays,
    Mode,
    Outputs,
    add_to,
    decayed_step,
    decision_values,
    is_learnable,
    load_row,
    report,
    rival_of,
    shrink_all,
)
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.linear.common import LinearLearner
from kerneltrack.learners.linear.spec import HingeSpec


class _Settings(NamedTuple):
    ridge: float
    step_size: float
    decay_rows: float


@compiled
def _run_rows(
    settings: _Settings,
    mode: Mode,
    state: Arrays,
    features: FloatArray,
    labels: Coded,
    out: Outputs,
) -> None:
    weights = state.weights
    x = np.ones(weights.shape[1])
    values = np.zeros(weights.shape[0])
    known = mode.known
    for n in range(features.shape[0]):
        if not out.valid[n]:
            continue
        load_row(features[n], x)
        decision_values(weights, known, x, values)
        if mode.predict:
            report(mode, state, values, known, labels, out, n)
        code = labels.codes[n]
        if not is_learnable(mode, state, code):
            continue
        step = decayed_step(settings.step_size, settings.decay_rows, state.counts[LEARNED])
        state.counts[LEARNED] += 1
        if code == known:
            values[code] = 0.0
            known += 1
        rival = rival_of(values, known, code)
        shrink_all(weights, known, step * settings.ridge)
        if rival >= 0 and 1.0 + values[rival] - values[code] > 0.0:
            add_to(weights[code], step, x)
            add_to(weights[rival], -step, x)


class Hinge(LinearLearner[HingeSpec]):
    """The multi-class hinge learner (see the module).

    Example:
        >>> spec, learner = HingeSpec(), Hinge()
        >>> rows = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]] * 20
        >>> state, said = learner.update(spec, learner.init(spec, 2), rows, list("abc") * 20)
        >>> learner.predict(spec, state, [[0.1, 0.9]]).names
        ['c']
    """

    name = "hinge"
    spec_type: type[LearnerSpec] = HingeSpec

    def run(
        self,
        spec: HingeSpec,
        mode: Mode,
        state: Arrays,
        features: FloatArray,
        labels: Coded,
        out: Outputs,
    ) -> None:
        """Run rows through the compiled loop."""
        settings = _Settings(float(spec.ridge), float(spec.step_size), float(spec.decay_rows))
        _run_rows(settings, mode, state, features, labels, out)
