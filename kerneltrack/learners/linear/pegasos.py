"""Pegasos: primal estimated sub-gradient solver for SVM, one classifier a class against the rest.

With y = ±1 (this class or not), the t-th labelled row x and η_t = 1/(λt),

    w_{t+1} = (1 - η_tλ)w_t + η_t·y·x·[y·w_tᵀx < 1]        (Fig. 1, one row a step)

and, optionally, the projection of w on the ball of radius 1/√λ. The class with the largest w·x
is predicted. Two classes give two mirrored vectors, that is the binary algorithm.

Unrolled, w_{t+1} = (1/(λt))·Σ y·x over the rows that violated the margin: the state keeps the
sum, `weights` = λt·w, so that a row within the margin costs no update and nothing is lost to t
roundings. A class that appears late begins with the vector of a class that no row has had
(`memory`, which has seen every row as "not this class"): it is the same as if it had been known
from the start. A row that counts k times (`weights`) has k times this loss. Cost O(Cp) a row.
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

from kerneltrack.arrays import FloatArray
from kerneltrack.learners.common.base import LEARNED
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.linear.common import LinearLearner, LinearState
from kerneltrack.learners.linear.spec import PegasosSpec


class PegasosSettings(NamedTuple):
    """A spec as numbers."""

    ridge: float
    project: bool


class Pegasos(LinearLearner[PegasosSpec]):
    """The learner Pegasos (see the module).

    Example:
        >>> spec, learner = PegasosSpec(), Pegasos()
        >>> rows = [[1.0, 0.0], [-1.0, 0.0]] * 20
        >>> state, found = learner.update(spec, learner.init(spec, 2), rows, ["up", "down"] * 20)
        >>> found.names[:3], learner.predict(spec, state, [[0.9, 0.1]]).names
        ([None, 'up', 'up'], ['up'])
    """

    name = "pegasos"
    weighs = True
    spec_type: type[LearnerSpec] = PegasosSpec

    def values(self, spec: PegasosSpec, state: LinearState, features: npt.ArrayLike) -> FloatArray:
        """Return w_c·x of every class and row."""
        return super().values(spec, state, features) * _scale(spec, state)

    def memory(self, spec: PegasosSpec, size: int) -> FloatArray:
        """Return λt·w of a class that no row has had."""
        return np.zeros((1, size))

    def unmet(self, state: LinearState) -> FloatArray:
        """Return λt·w of a class that no row has had, (p,)."""
        weights: FloatArray = state.memory[0]
        return weights

    def settings(self, spec: PegasosSpec) -> PegasosSettings:
        """Return the spec as numbers."""
        return PegasosSettings(float(spec.ridge), spec.project)


def _scale(spec: PegasosSpec, state: LinearState) -> float:
    return 1.0 / (spec.ridge * max(int(state.counts[LEARNED]), 1))
