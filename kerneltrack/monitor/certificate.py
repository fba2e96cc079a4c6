"""What the residuals of scored rows guarantee: their mismatch, and learners on their features.

All is put together from `bounds`, for rows that were measured under one subspace. e_i is
κ(x_i,x_i) - ‖z_i‖² of row i, ē its mean, ξ̄ the mean of √e_i. What a bound on weights means for a
learner follows from the same proofs:

- SVM (Prop. 5). On φ(x) and on the features, J = ½‖w‖² + (C/N)Σ hinge. By the optimality of ŵ,
  Ĵ(ŵ) ≤ Ĵ(w) ≤ J(w) + (C/N)‖w‖Σ√e_i, and ‖w‖² ≤ C, so that the objective of learning on the
  features exceeds that of learning on φ(x) by at most C^{3/2} ξ̄.
- Kernel ridge regression (Prop. 7). The fitted values are Kβ = y - λNβ, those of K̂ are y - λNβ̂.
  With ‖β - β̂‖ ≤ B_y x/(λ²√N) the root mean square of their difference is λ√N‖β - β̂‖ ≤ B_y x/λ,
  and so is what the features add to the root mean squared error of the fit.

The function 0 has the objective C, and a root mean squared error of at most B_y: neither optimum is
worse, so that the excess is at most these where the bounds are above them.

Reference: F. Sheikholeslami, D. Berberidis, G. B. Giannakis, "Large-scale kernel-based feature
extraction via low-rank subspace tracking on a budget", IEEE Trans. Signal Process., 2018,
section VI.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.monitor.bounds import (
    fitting_bound,
    future_mismatch,
    future_residual,
    ridge_weight_bound,
    svm_weight_bound,
)
from kerneltrack.settings import Range, check_number


@dataclasses.dataclass(frozen=True)
class Certificate:
    """Bounds for N rows, and for as many to come; see the module.

    Attributes:
        rows: N.
        residual: ē.
        mismatch: (1/N)‖K - K̂‖_F of these rows is at most this: ē.
        paper_mismatch: The same by the paper's form (28b), 2√ē + ē.
        future_mismatch: The mean residual, and so the mismatch, of the next N rows is at most this
            with probability `confidence`.
        paper_future_mismatch: The same by Prop. 4.
        confidence: Probability.
        svm_penalty: C.
        svm_weights: Bound on ‖w - ŵ‖² (Prop. 5).
        svm_excess: Bound on what the features add to the objective.
        ridge_penalty: λ.
        largest_target: B_y.
        ridge_weights: Bound on ‖β - β̂‖ (Prop. 7, corrected).
        ridge_excess: Bound on what the features add to the root mean squared error.
    """

    rows: int
    residual: float
    mismatch: float
    paper_mismatch: float
    future_mismatch: float
    paper_future_mismatch: float
    confidence: float
    svm_penalty: float
    svm_weights: float
    svm_excess: float
    ridge_penalty: float
    largest_target: float
    ridge_weights: float
    ridge_excess: float


def certify(
    residuals: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    svm_penalty: float = 1.0,
    ridge_penalty: float = 0.01,
    largest_target: float = 1.0,
) -> Certificate:
    """Return the bounds for rows of a kernel with κ(x,x) = 1 that one subspace has measured.

    Args:
        residuals: e_i = 1 - ‖z_i‖² of the N >= 1 rows, from 0 to 1, shape (N,).
        confidence: Of the bounds on rows to come, > 0 and < 1.
        svm_penalty: C > 0 of (33); scikit-learn's C is C/N.
        ridge_penalty: λ > 0 of (38); scikit-learn's alpha is λN.
        largest_target: B_y >= 0, the largest |y_i|; 1 for labels of -1 and 1.

    Raises:
        ConfigError: for a value out of range.

    Cost O(N).

    Example:
        >>> found = certify([0.0, 0.02], ridge_penalty=0.1)
        >>> round(found.mismatch, 6), round(found.ridge_excess, 6), round(found.svm_excess, 6)
        (0.01, 0.1, 0.070711)
    """
    values = np.asarray(residuals, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ConfigError("residuals", values.shape, "of shape (N,) with N >= 1")
    good = (values >= 0.0) & (values <= 1.0)
    if not good.all():
        raise ConfigError("residuals", float(values[~good][0]), "numbers from 0 to 1")
    penalty = check_number("ridge_penalty", ridge_penalty, Range(0, math.inf, "()"))
    rows, mean = len(values), float(values.mean())
    weights = svm_weight_bound(values, svm_penalty)
    apart = ridge_weight_bound(mean, largest_target, penalty, rows)
    return Certificate(
        rows=rows,
        residual=mean,
        mismatch=mean,
        paper_mismatch=fitting_bound(1.0, mean),
        future_mismatch=future_residual(mean, rows, confidence, observed=rows),
        paper_future_mismatch=future_mismatch(mean, rows, confidence, observed=rows),
        confidence=float(confidence),
        svm_penalty=float(svm_penalty),
        svm_weights=weights,
        svm_excess=min(0.5 * weights, svm_penalty),
        ridge_penalty=penalty,
        largest_target=float(largest_target),
        ridge_weights=apart,
        ridge_excess=min(penalty * math.sqrt(rows) * apart, largest_target),
    )
