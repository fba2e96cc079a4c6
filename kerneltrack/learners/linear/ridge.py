"""Recursive ridge regression (RLS): the exact ridge solution after every row, in O(p²).

After n labelled rows, with the forgetting factor ρ, w minimises

    Σ_i ρ^{n-i}(y_i - wᵀx_i)² + wᵀD_n w,     D_n = λI if ρ = 1.

In classification every class has its own w and y = [the row is of the class], all with one shared
inverse P = (Σ_i ρ^{n-i}x_i x_iᵀ + D_n)⁻¹; the largest wᵀx is predicted. A class not seen yet has
w = 0, which is exactly what ridge gives it: classes may appear at any time.

In regression with a bias and `scale_targets` the bias has no λ: the first row fixes it, whatever it
is (in the limit λ_bias → 0 S is [[I/√λ, 0], [-xᵀ/√λ, 1]] after the row x); it has no turn below.

**Square root.** P is kept as SSᵀ (`memory` is Sᵀ), and a row updates S (Potter's form):

    a = Sᵀx,  s = √(1 + ‖a‖²),  k = Sa = Px,  w += k(y - wᵀx)/s²,  S ← S - k aᵀ/(s(s + 1)).

So P is symmetric and positive semidefinite whatever the rounding, and has twice the digits that
updating P itself would keep.

A row that counts k times (`weights`) is learned as √k·x with √k·y: where ρ = 1 the same as k rows.

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

from kerneltrack.arrays import FloatArray
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.learners.linear.common import LinearLearner
from kerneltrack.learners.linear.spec import RidgeSpec


class RidgeSettings(NamedTuple):
    """A spec as numbers."""

    ridge: float
    forgetting: float


class Ridge(LinearLearner[RidgeSpec]):
    """The recursive ridge learner (see the module).

    Example:
        >>> spec, learner = RidgeSpec(task="regression", ridge=1e-6), Ridge()
        >>> rows = np.random.default_rng(0).normal(size=(50, 2))
        >>> targets = rows @ [2.0, -1.0] + 3.0
        >>> state, found = learner.update(spec, learner.init(spec, 2), rows, targets)
        >>> learner.predict(spec, state, [[1.0, 1.0]]).value.round(3).tolist()
        [4.0]
    """

    name = "ridge"
    weighs = True
    spec_type: type[LearnerSpec] = RidgeSpec

    def memory(self, spec: RidgeSpec, size: int) -> FloatArray:
        """Return Sᵀ of P = I/λ."""
        root: FloatArray = np.eye(size) / math.sqrt(spec.ridge)
        return root

    def settings(self, spec: RidgeSpec) -> RidgeSettings:
        """Return the spec as numbers."""
        return RidgeSettings(float(spec.ridge), float(spec.forgetting))
