"""Multinomial logistic regression, by stochastic gradient steps.

With s_c = w_cᵀx and the probabilities p_c = exp(s_c) / Σ_d exp(s_d) of the known classes, a step
on -log p_y + λ/2·Σ‖w_c‖² is

    w_c ← (1 - η_tλ)w_c + η_t([c = y] - p_c)x.

`score` is the probability of the predicted class, `margin` its distance from the second one's. A
class that appears begins with w = 0. Cost O(Cp) a row.
Flops a labelled row: 4Cp + 20C, an exponential taken for ten.

References: C. M. Bishop, "Pattern recognition and machine learning", 2006, eq. 4.104 and 4.109;
A. Koppel, G. Warnell, E. Stump, A. Ribeiro, "Parsimonious online learning with kernels via sparse
projections in function space", JMLR 20, 2019, eq. 27.
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
    shrink_all,
    softmax,
)
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.linear.common import LinearLearner
from kerneltrack.learners.linear.spec import LogisticSpec


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
    probable = np.zeros(weights.shape[0])
    known = mode.known
    for n in range(features.shape[0]):
        if not out.valid[n]:
            continue
        load_row(features[n], x)
        decision_values(weights, known, x, values)
        if known > 0:
            softmax(values, known, probable)
        if mode.predict:
            report(mode, state, probable, known, labels, out, n)
        code = labels.codes[n]
        if not is_learnable(mode, state, code):
            continue
        step = decayed_step(settings.step_size, settings.decay_rows, state.counts[LEARNED])
        state.counts[LEARNED] += 1
        if code == known:
            values[code] = 0.0
            known += 1
            softmax(values, known, probable)
        shrink_all(weights, known, step * settings.ridge)
        for c in range(known):
            wanted = 1.0 if c == code else 0.0
            add_to(weights[c], step * (wanted - probable[c]), x)


class Logistic(LinearLearner[LogisticSpec]):
    """The multinomial logistic learner (see the module).

    Example:
        >>> spec, learner = LogisticSpec(), Logistic()
        >>> rows = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]] * 20
        >>> state, said = learner.update(spec, learner.init(spec, 2), rows, list("abc") * 20)
        >>> last = learner.predict(spec, state, [[0.1, 0.9]])
        >>> last.names, bool(0.5 < last.score[0] < 1.0)
        (['c'], True)
    """

    name = "logistic"
    spec_type: type[LearnerSpec] = LogisticSpec

    def run(
        self,
        spec: LogisticSpec,
        mode: Mode,
        state: Arrays,
        features: FloatArray,
        labels: Coded,
        out: Outputs,
    ) -> None:
        """Run rows through the compiled loop."""
        settings = _Settings(float(spec.ridge), float(spec.step_size), float(spec.decay_rows))
        _run_rows(settings, mode, state, features, labels, out)
