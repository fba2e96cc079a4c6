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

import numpy as np

from kerneltrack.compiled import compiled, inlined
from kerneltrack.learners.common.base import LEARNED, FloatArray
from kerneltrack.learners.common.labels import Coded
from kerneltrack.learners.common.row_steps import (
    Arrays,
    Mode,
    Outputs,
    add_to,
    decision_values,
    is_learnable,
    load_row,
    report,
    rival_of,
)
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.linear.common import LinearLearner
from kerneltrack.learners.linear.spec import VARIANTS, PASpec
from kerneltrack.sums import dot

PLAIN, CAPPED, SOFTENED = range(3)


class _Settings(NamedTuple):
    variant: int
    aggressiveness: float
    insensitivity: float


@inlined
def _step(settings: _Settings, loss: float, norm2: float) -> float:
    """Return τ."""
    if settings.variant == SOFTENED:
        return loss / (norm2 + 0.5 / settings.aggressiveness)
    step = loss / norm2
    return min(step, settings.aggressiveness) if settings.variant == CAPPED else step


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
        state.counts[LEARNED] += 1
        if code == known:
            values[code] = 0.0
            known += 1
        norm2 = dot(x, x, x.shape[0])
        if norm2 == 0.0:
            # Nothing that w could do would help.
            continue
        if mode.regression:
            error = labels.targets[n] - values[0]
            loss = abs(error) - settings.insensitivity
            if loss > 0.0:
                step = _step(settings, loss, norm2)
                add_to(weights[0], step if error > 0.0 else -step, x)
            continue
        rival = rival_of(values, known, code)
        loss = 1.0 + values[rival] - values[code] if rival >= 0 else 0.0
        if loss > 0.0:
            step = _step(settings, loss, 2.0 * norm2)
            add_to(weights[code], step, x)
            add_to(weights[rival], -step, x)


class PA(LinearLearner[PASpec]):
    """The passive-aggressive learner (see the module).

    Example:
        >>> spec, learner = PASpec(), PA()
        >>> rows = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]] * 20
        >>> state, said = learner.update(spec, learner.init(spec, 2), rows, list("abc") * 20)
        >>> learner.predict(spec, state, [[0.1, 0.9]]).names
        ['c']
    """

    name = "pa"
    spec_type: type[LearnerSpec] = PASpec

    def run(
        self,
        spec: PASpec,
        mode: Mode,
        state: Arrays,
        features: FloatArray,
        labels: Coded,
        out: Outputs,
    ) -> None:
        """Run rows through the compiled loop."""
        settings = _Settings(
            VARIANTS.index(spec.variant), float(spec.aggressiveness), float(spec.insensitivity)
        )
        _run_rows(settings, mode, state, features, labels, out)
