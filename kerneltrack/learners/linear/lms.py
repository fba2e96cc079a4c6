"""Regularised least mean squares, plain and normalised, for regression and classification.

With the error e = y - wᵀx of a labelled row,

    w ← (1 - μλ)w + μ·e·x            μ = min(η_t, 1/‖x‖²)             (LMS)
    w ← (1 - η_tλ)w + μ·e·x          μ = η_t/(1e-3 + ‖x‖²)            (NLMS)

In classification every class has its own w and y = [the row is of the class]: least squares, one
class against the rest; the largest wᵀx is predicted. A class not seen yet has w = 0, which is
what it would have had if it had been known from the start. Cost O(Cp) a row.
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
)
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.linear.common import LinearLearner
from kerneltrack.learners.linear.spec import LMSSpec
from kerneltrack.sums import dot

NORM_FLOOR = 1e-3
"""ε of NLMS: a row with ‖x‖² far below it says nothing, and is not blown up."""


class _Settings(NamedTuple):
    ridge: float
    step_size: float
    decay_rows: float
    normalised: bool


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
        norm2 = dot(x, x, x.shape[0])
        leak = step
        if settings.normalised:
            step /= NORM_FLOOR + norm2
        elif step * norm2 > 1.0:
            step = 1.0 / norm2
            leak = step
        shrink_all(weights, known, leak * settings.ridge)
        for c in range(known):
            wanted = labels.targets[n] if mode.regression else (1.0 if c == code else 0.0)
            add_to(weights[c], step * (wanted - values[c]), x)


class LMS(LinearLearner[LMSSpec]):
    """The LMS and NLMS learner (see the module).

    Example:
        >>> spec, learner = LMSSpec(task="regression", bias=False), LMS()
        >>> rows = np.random.default_rng(0).normal(size=(500, 2))
        >>> state, said = learner.update(spec, learner.init(spec, 2), rows, rows @ [2.0, -1.0])
        >>> learner.predict(spec, state, [[1.0, 1.0]]).value.round(3).tolist()
        [1.0]
    """

    name = "lms"
    spec_type: type[LearnerSpec] = LMSSpec

    def run(
        self,
        spec: LMSSpec,
        mode: Mode,
        state: Arrays,
        features: FloatArray,
        labels: Coded,
        out: Outputs,
    ) -> None:
        """Run rows through the compiled loop."""
        settings = _Settings(
            float(spec.ridge), float(spec.step_size), float(spec.decay_rows), spec.normalised
        )
        _run_rows(settings, mode, state, features, labels, out)
