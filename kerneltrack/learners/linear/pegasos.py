"""Pegasos: primal estimated sub-gradient solver for SVM, one classifier a class against the rest.

With y = ±1 (this class or not), the t-th labelled row x and η_t = 1/(λt),

    w_{t+1} = (1 - η_tλ)w_t + η_t·y·x·[y·w_tᵀx < 1]        (Fig. 1, one row a step)

and, optionally, the projection of w on the ball of radius 1/√λ. The class with the largest w·x
is predicted. Two classes give two mirrored vectors, that is the binary algorithm.

Unrolled, w_{t+1} = (1/(λt))·Σ y·x over the rows that violated the margin: the state keeps the
sum, `weights` = λt·w, so that a row within the margin costs no update and nothing is lost to t
roundings. A class that appears late begins with the vector of a class that no row has had
(`memory`, which has seen every row as "not this class"): it is the same as if it had been known
from the start. Cost O(Cp) a row.
Flops a labelled row: 4Cp + 4p.

Reference: S. Shalev-Shwartz, Y. Singer, N. Srebro, A. Cotter, "Pegasos: primal estimated
sub-gradient solver for SVM", Math. Program. 127, 2011.

Differs from the paper: rows come in the order of the stream instead of being drawn; the bias, if
any, is one more feature (a way of section 6) and so regularised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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
)
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.linear.common import LinearLearner, LinearState
from kerneltrack.learners.linear.spec import PegasosSpec
from kerneltrack.sums import dot


class _Settings(NamedTuple):
    ridge: float
    project: bool


@inlined
def _step(settings: _Settings, v: FloatArray, x: FloatArray, sign: float, t: float) -> None:
    """Add ±x to v = λt·w, and keep ‖w‖ <= 1/√λ, that is ‖v‖² <= λt², if asked to.

    Between violations v stays and λt² grows: the projection has nothing to do there.
    """
    add_to(v, sign, x)
    if settings.project:
        norm2 = dot(v, v, v.shape[0])
        if norm2 > settings.ridge * t * t:
            shrink = t * np.sqrt(settings.ridge / norm2)
            for j in range(v.shape[0]):
                v[j] *= shrink


@compiled
def _run_rows(
    settings: _Settings,
    mode: Mode,
    state: Arrays,
    features: FloatArray,
    labels: Coded,
    out: Outputs,
) -> None:
    weights, unseen = state.weights, state.memory
    x = np.ones(weights.shape[1])
    values = np.zeros(weights.shape[0])
    other = np.zeros(1)
    known = mode.known
    for n in range(features.shape[0]):
        if not out.valid[n]:
            continue
        load_row(features[n], x)
        t = float(state.counts[LEARNED])
        scale = 1.0 / (settings.ridge * t) if t > 0.0 else 0.0
        decision_values(weights, known, x, values)
        for c in range(known):
            values[c] *= scale
        if mode.predict:
            report(mode, state, values, known, labels, out, n)
        code = labels.codes[n]
        if not is_learnable(mode, state, code):
            continue
        state.counts[LEARNED] += 1
        t += 1.0
        decision_values(unseen, 1, x, other)
        other[0] *= scale
        if code == known:
            weights[code] = unseen[0]
            values[code] = other[0]
            known += 1
        for c in range(known):
            sign = 1.0 if c == code else -1.0
            if sign * values[c] < 1.0:
                _step(settings, weights[c], x, sign, t)
        if -other[0] < 1.0:
            _step(settings, unseen[0], x, -1.0, t)


class Pegasos(LinearLearner[PegasosSpec]):
    """The learner Pegasos (see the module).

    Example:
        >>> spec, learner = PegasosSpec(), Pegasos()
        >>> rows = [[1.0, 0.0], [-1.0, 0.0]] * 20
        >>> state, said = learner.update(spec, learner.init(spec, 2), rows, ["up", "down"] * 20)
        >>> said.names[:3], learner.predict(spec, state, [[0.9, 0.1]]).names
        ([None, 'up', 'up'], ['up'])
    """

    name = "pegasos"
    spec_type: type[LearnerSpec] = PegasosSpec

    def values(self, spec: PegasosSpec, state: LinearState, features: npt.ArrayLike) -> FloatArray:
        """Return w_c·x of every class and row."""
        return super().values(spec, state, features) * _scale(spec, state)

    def memory(self, spec: PegasosSpec, size: int) -> FloatArray:
        """Return λt·w of a class that no row has had."""
        return np.zeros((1, size))

    def run(
        self,
        spec: PegasosSpec,
        mode: Mode,
        state: Arrays,
        features: FloatArray,
        labels: Coded,
        out: Outputs,
    ) -> None:
        """Run rows through the compiled loop."""
        settings = _Settings(float(spec.ridge), spec.project)
        _run_rows(settings, mode, state, features, labels, out)


def _scale(spec: PegasosSpec, state: LinearState) -> float:
    return 1.0 / (spec.ridge * max(int(state.counts[LEARNED]), 1))
