"""Recursive ridge regression (RLS): the exact ridge solution after every row, in O(p²).

After n labelled rows, with the forgetting factor ρ, w minimises

    Σ_i ρ^{n-i}(y_i - wᵀx_i)² + wᵀD_n w,     D_n = λI if ρ = 1.

In classification every class has its own w and y = [the row is of the class], all with one shared
inverse P = (Σ_i ρ^{n-i}x_i x_iᵀ + D_n)⁻¹; the largest wᵀx is predicted. A class not seen yet has
w = 0, which is exactly what ridge gives it: classes may appear at any time.

**Square root.** P is kept as SSᵀ (`memory` is Sᵀ), and a row updates S (Potter's form):

    a = Sᵀx,  s = √(1 + ‖a‖²),  k = Sa = Px,  w += k(y - wᵀx)/s²,  S ← S - k aᵀ/(s(s + 1)).

So P is symmetric and positive semidefinite whatever the rounding, and has twice the digits that
updating P itself would keep.

**Forgetting without wind-up.** Plain RLS forgets λ with the rest: P grows as ρ^{-n} in directions
that no row excites, and the first row that does throws w off. Here every row also restores the λ
of one coordinate in turn, j = n mod p, as the pseudo-row √g·e_j with target 0 where
g = λ(1 - ρ^m) and m are the rows since j's last turn (Gay's dynamic regularisation): D_n is
diagonal, its entries lie in [ρ^p λ, λ], and P <= I/(ρ^p λ) for ever. It takes the cost of a second
update; none if ρ = 1.

Cost O(p² + Cp) a labelled row, O(Cp) one without a label.
Flops a labelled row: 12p² + 6Cp, where ρ = 1 7p² + 4Cp.

References: A. H. Sayed, "Fundamentals of adaptive filtering", 2003, Alg. 12.3.1 (RLS);
P. G. Kaminski, A. E. Bryson, S. F. Schmidt, "Discrete square root filtering: a survey of current
techniques", IEEE Trans. Autom. Control 16, 1971 (Potter's form); S. L. Gay, "Dynamically
regularized fast RLS with application to echo cancellation", ICASSP 1996.
"""

from __future__ import annotations

import math
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
)
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.linear.common import LinearLearner
from kerneltrack.learners.linear.spec import RidgeSpec
from kerneltrack.sums import dot, fused


class _Settings(NamedTuple):
    ridge: float
    forgetting: float


@inlined
def _project_row(
    root: FloatArray, x: FloatArray, grown: float, a: FloatArray, gain: FloatArray
) -> float:
    """Fill a = Sᵀx and k = Sa, with S = grown·rootᵀ; return s² = 1 + ‖a‖²."""
    size = x.shape[0]
    squared = 1.0
    for j in range(size):
        gain[j] = 0.0
    for i in range(size):
        total = grown * dot(root[i], x, size)
        a[i] = total
        squared += total * total
        total *= grown
        for j in range(size):
            gain[j] = fused(total, root[i, j], gain[j])
    return squared


@inlined
def _project_unit(
    root: FloatArray, place: int, length: float, a: FloatArray, gain: FloatArray
) -> float:
    """Fill a and k as `_project_row` does for the row length·e_place and grown = 1."""
    size = root.shape[0]
    squared = 1.0
    for j in range(size):
        gain[j] = 0.0
    for i in range(size):
        total = length * root[i, place]
        a[i] = total
        squared += total * total
        for j in range(size):
            gain[j] = fused(total, root[i, j], gain[j])
    return squared


@inlined
def _downdate(
    root: FloatArray, grown: float, a: FloatArray, gain: FloatArray, squared: float
) -> None:
    """S ← S - k aᵀ/(s(s + 1)), with S = grown·rootᵀ."""
    s = np.sqrt(squared)
    scale = 1.0 / (s * (s + 1.0))
    for i in range(root.shape[0]):
        weight = scale * a[i]
        for j in range(root.shape[0]):
            root[i, j] = fused(-weight, gain[j], grown * root[i, j])


@compiled
def _run_rows(
    settings: _Settings,
    mode: Mode,
    state: Arrays,
    features: FloatArray,
    labels: Coded,
    out: Outputs,
) -> None:
    weights, root = state.weights, state.memory
    size = weights.shape[1]
    x = np.ones(size)
    a = np.empty(size)
    gain = np.empty(size)
    values = np.zeros(weights.shape[0])
    grown = 1.0 / np.sqrt(settings.forgetting)
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
        if code == known:
            values[code] = 0.0
            known += 1
        # The row itself.
        squared = _project_row(root, x, grown, a, gain)
        for c in range(known):
            wanted = labels.targets[n] if mode.regression else (1.0 if c == code else 0.0)
            add_to(weights[c], (wanted - values[c]) / squared, gain)
        _downdate(root, grown, a, gain, squared)
        # The λ that this row has cost one coordinate since its last turn.
        if settings.forgetting < 1.0:
            learned = state.counts[LEARNED]
            place = learned % size
            lost = 1.0 - settings.forgetting ** min(learned + 1, size)
            length = np.sqrt(settings.ridge * lost)
            squared = _project_unit(root, place, length, a, gain)
            for c in range(known):
                add_to(weights[c], -length * weights[c, place] / squared, gain)
            _downdate(root, 1.0, a, gain, squared)
        state.counts[LEARNED] += 1


class Ridge(LinearLearner[RidgeSpec]):
    """The recursive ridge learner (see the module).

    Example:
        >>> spec, learner = RidgeSpec(task="regression", ridge=1e-6), Ridge()
        >>> rows = np.random.default_rng(0).normal(size=(50, 2))
        >>> targets = rows @ [2.0, -1.0] + 3.0
        >>> state, said = learner.update(spec, learner.init(spec, 2), rows, targets)
        >>> learner.predict(spec, state, [[1.0, 1.0]]).value.round(3).tolist()
        [4.0]
    """

    name = "ridge"
    spec_type: type[LearnerSpec] = RidgeSpec

    def memory(self, spec: RidgeSpec, size: int) -> FloatArray:
        """Return Sᵀ of P = I/λ."""
        root: FloatArray = np.eye(size) / math.sqrt(spec.ridge)
        return root

    def run(
        self,
        spec: RidgeSpec,
        mode: Mode,
        state: Arrays,
        features: FloatArray,
        labels: Coded,
        out: Outputs,
    ) -> None:
        """Run rows through the compiled loop."""
        settings = _Settings(float(spec.ridge), float(spec.forgetting))
        _run_rows(settings, mode, state, features, labels, out)
