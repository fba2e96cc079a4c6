"""What the fitting error says of the kernel matrix and of learners on the features.

z are the features of a row, e(x) = κ(x,x) - ‖z‖² is its residual, K the kernel matrix of N rows and
K̂ = ZᵀZ that of their features under *one* subspace, ē and κ̄ are the rows' means of e(x) and κ(x,x).
In other coordinates z is φ̂(x) = R^½φ(x), where the eigenvalues p of R are from 0 to 1: R is the
projection on the subspace, or a regularised one (`mismatch` says whose). As (1 - √p)² <= 1 - p,
‖φ(x) - φ̂(x)‖² <= e(x), which for a projection it is.

| bound | on | holds |
|---|---|---|
| `trace_bound` | (1/N)‖K - K̂‖_F | surely, for the N rows that were measured |
| `fitting_bound` (28b) | the same, looser | surely, also for a K̂ that is no projection |
| `future_residual`, `future_mismatch` (Prop. 4) | the same, of rows to come | likely, if i.i.d. |
| `svm_weight_bound` (Prop. 5) | weights of a batch SVM on the features | surely |
| `ridge_weight_bound` (Prop. 7, corrected) | weights of a batch kernel ridge regression | surely |

The last two bound the optima of batch problems on fixed features. They say nothing of learners
that run while the subspace moves.

Reference: F. Sheikholeslami, D. Berberidis, G. B. Giannakis, "Large-scale kernel-based feature
extraction via low-rank subspace tracking on a budget", IEEE Trans. Signal Process., 2018,
section VI.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.settings import Range, check_int, check_number

LARGEST_COUNT = 2**63 - 1


def trace_bound(own: npt.ArrayLike, energy: npt.ArrayLike) -> float:
    """Return the trace certificate (1/N)tr(K - K̂) = mean(κ(x,x) - ‖z‖²).

    K - K̂ = Φᵀ(I - R)Φ is positive semidefinite, with a ridge in R or without one, and the Frobenius
    norm of such a matrix is at most its trace: (1/N)‖K - K̂‖_F ≤ (1/N)tr(K - K̂), whatever the kernel
    and the rows.

    Args:
        own: κ(x,x) of the N >= 1 rows, shape (N,), finite and >= 0.
        energy: ‖z‖² of the same rows, shape (N,), finite and >= 0; more than κ(x,x) by rounding
            only.

    Returns:
        The bound, >= 0. Cost O(N).

    Raises:
        ConfigError: for arrays of unequal shape, empty ones or values that are not allowed.

    Example:
        >>> trace_bound([1.0, 1.0], [0.75, 0.25])
        0.5
    """
    left = _check_sizes("own", own)
    right = _check_sizes("energy", energy)
    if left.shape != right.shape:
        raise ConfigError("energy", right.shape, f"of the shape of own, {left.shape}")
    return max(float(np.mean(left - right)), 0.0)


def fitting_bound(kappa: float, residual: float) -> float:
    """Return 2√(κ̄ē) + ē, which (1/N)‖K - K̂‖_F does not exceed (eq. 28b).

    With E = Φ - Φ̂: ‖K - K̂‖_F = ‖ΦᵀE + EᵀΦ - EᵀE‖_F ≤ 2‖Φ‖‖E‖ + ‖E‖², ‖Φ‖² = Nκ̄, ‖E‖² ≤ Nē.
    The paper takes κ̄ ≤ 1. For the features z `trace_bound` is ē itself, without the root; this form
    holds for every φ̂, such as the paper's Lq, if ē is the mean of *its* ‖φ - φ̂‖², or more.

    Args:
        kappa: κ̄, >= 0.
        residual: ē, >= 0.

    Returns:
        The bound, >= 0.

    Raises:
        ConfigError: for a number out of range.

    Example:
        >>> fitting_bound(1.0, 0.25)
        1.25
    """
    kappa = check_number("kappa", kappa, Range(0, math.inf, "[)"))
    residual = check_number("residual", residual, Range(0, math.inf, "[)"))
    return 2.0 * math.sqrt(kappa * residual) + residual


def future_residual(
    residual: float,
    rows: int,
    confidence: float,
    largest: float = 1.0,
    observed: int | None = None,
) -> float:
    """Return ē + t, which the mean residual of the next rows exceeds with small probability.

    Hoeffding (J. Amer. Statist. Assoc. 58, 1963): with residuals in [0, κ_max], independent and
    identically distributed, the mean of N of them lies above its expectation ē by t or more with
    probability at most exp(-2Nt²/κ_max²) (Prop. 4 with κ_max = 1). If ē is itself the mean of n
    observed rows, the difference of the two means obeys his eq. 2.7: 1/N becomes 1/N + 1/n. So

        t = κ_max √((1/N + 1/n) ln(1/(1 - confidence)) / 2).

    By the trace certificate ē + t bounds the next rows' mismatch (1/N)‖K - K̂‖_F as well, at the
    same confidence: sharper than `future_mismatch`.

    What is assumed, and is not so on many a stream: all rows, the n observed and the N to come,
    are i.i.d., and the subspace stays as it is and has seen none of them. A subspace fitted to
    the very rows that ē is measured on makes ē too small: measure on rows that were scored
    without learning.

    Args:
        residual: ē, 0 to `largest`.
        rows: N, rows to come, >= 1.
        confidence: Probability that the bound holds, > 0 and < 1.
        largest: κ_max: an upper bound of κ(x,x) over all rows, seen or not, > 0; 1 for the
            Gaussian and the Laplacian kernel.
        observed: n, rows that ē is the mean of, >= 1; None if ē is the expectation itself, as
            in the paper's statement.

    Returns:
        ē + t, at most `largest`, which no residual exceeds.

    Raises:
        ConfigError: for a number out of range.

    Example:
        >>> round(future_residual(0.1, rows=1000, confidence=0.99), 4)
        0.148
        >>> round(future_residual(0.1, rows=1000, confidence=0.99, observed=500), 4)
        0.1831
    """
    margin = _margin(rows, confidence, largest, observed)
    residual = check_number("residual", residual, Range(0, largest))
    return min(residual + margin, largest)


@lru_cache(maxsize=256, typed=True)
def _margin(rows: int, confidence: float, largest: float, observed: int | None) -> float:
    """Return t of `future_residual`: windows of as many rows have the same."""
    largest = check_number("largest", largest, Range(0, math.inf, "()"))
    confidence = check_number("confidence", confidence, Range(0, 1, "()"))
    spread = 1.0 / check_int("rows", rows, 1, LARGEST_COUNT)
    if observed is not None:
        spread += 1.0 / check_int("observed", observed, 1, LARGEST_COUNT)
    return largest * math.sqrt(-0.5 * spread * math.log1p(-confidence))


def future_mismatch(
    residual: float,
    rows: int,
    confidence: float,
    largest: float = 1.0,
    observed: int | None = None,
) -> float:
    """Return Prop. 4's bound on (1/N)‖K - K̂‖_F of the next N rows: 2√(κ_max(ē+t)) + ē + t.

    It holds where `future_residual` does, whose value (28b) is applied to. The paper (eq. 30)
    says probability at least 1 - 2exp(-2Nt²); one event is enough, so the factor 2 is not needed.

    Args:
        residual: ē; see `future_residual` for this and all others.
        rows: N.
        confidence: Probability that the bound holds.
        largest: κ_max.
        observed: n.

    Returns:
        The bound.

    Raises:
        ConfigError: for a number out of range.

    Example:
        >>> round(future_mismatch(0.1, rows=1000, confidence=0.99), 4)
        0.9174
    """
    return fitting_bound(largest, future_residual(residual, rows, confidence, largest, observed))


def svm_weight_bound(residuals: npt.ArrayLike, penalty: float) -> float:
    """Return Prop. 5's bound on ‖w - ŵ‖² of two SVMs: on φ(x) and on the features.

    Both minimise ½‖w‖² + (C/N)Σ max(0, 1 - y_i wᵀφ(x_i)) (eq. 33, 35). Both objectives are
    1-strongly convex, so the gaps at each other's optimum add up to at least ‖w - ŵ‖², and they
    differ by at most (C/N)(‖w‖ + ‖ŵ‖)Σ‖φ_i - φ̂_i‖. By strong duality ‖w‖² = Σα_i - hinge loss
    ≤ C, likewise ‖ŵ‖². Hence, with ξ_i = √e_i,

        ‖w - ŵ‖² ≤ 2C^{3/2} (1/N)Σξ_i,

    surely for the rows of the training set; an unpenalised intercept changes nothing. In the
    paper's form the mean is replaced by ξ̄ + t (i.i.d. ξ, probability 1 - exp(-2Nt²)).

    Args:
        residuals: e_i >= ‖φ(x_i) - φ̂(x_i)‖² of the training rows, shape (N,), finite and >= 0:
            κ(x,x) - ‖z‖², or the loss ℓ, which is ‖(I - R)φ‖² and no more.
        penalty: C > 0 of eq. 33; scikit-learn's C is C/N.

    Returns:
        The bound on ‖w - ŵ‖² in the feature space of κ. Cost O(N).

    Raises:
        ConfigError: for a number out of range.

    Example:
        >>> svm_weight_bound([0.01, 0.09], penalty=4.0)
        3.2
    """
    values = _check_sizes("residuals", residuals)
    penalty = check_number("penalty", penalty, Range(0, math.inf, "()"))
    return 2.0 * math.pow(penalty, 1.5) * float(np.mean(np.sqrt(values)))


def ridge_weight_bound(mismatch: float, largest_target: float, ridge: float, rows: int) -> float:
    """Return the corrected Prop. 7: a bound on ‖β - β̂‖ of two kernel ridge regressions.

    β = (K + λNI)⁻¹y and β̂ = (K̂ + λNI)⁻¹y minimise (1/N)‖y - Kβ‖² + λβᵀKβ with K and with K̂
    (eq. 38, 39). As β - β̂ = -(K̂ + λNI)⁻¹(K - K̂)(K + λNI)⁻¹y, both inverses have a norm of at
    most 1/(λN), ‖y‖ ≤ √N B_y and ‖K - K̂‖_2 ≤ ‖K - K̂‖_F = Nx,

        ‖β - β̂‖ ≤ √N B_y · Nx / (λN)² = B_y x / (λ²√N),

    where x is the mismatch (1/N)‖K - K̂‖_F or any bound on it: `fitting_bound(1, ē)` =
    √ē(√ē + 2) as in the paper, the sharper `trace_bound`, or a bound on future rows.

    Differs from the paper: eq. 40 puts ‖β - β̂‖² on the left of (B_y/λ²)x. Its left side scales
    as B_y², its right side as B_y, so large targets break it; and eq. 41 divides by λ²N where
    ‖y‖ ≤ √N B_y gives λ²N^{3/2}.

    Args:
        mismatch: x >= 0.
        largest_target: B_y >= 0, the largest |y_i|.
        ridge: λ > 0 of eq. 38; scikit-learn's alpha is λN.
        rows: N >= 1 training rows.

    Returns:
        The bound on ‖β - β̂‖.

    Raises:
        ConfigError: for a number out of range.

    Example:
        >>> ridge_weight_bound(fitting_bound(1.0, 0.25), largest_target=2.0, ridge=0.5, rows=100)
        1.0
    """
    mismatch = check_number("mismatch", mismatch, Range(0, math.inf, "[)"))
    largest_target = check_number("largest_target", largest_target, Range(0, math.inf, "[)"))
    ridge = check_number("ridge", ridge, Range(0, math.inf, "()"))
    count = check_int("rows", rows, 1, LARGEST_COUNT)
    return largest_target * mismatch / (ridge * ridge * math.sqrt(count))


def _check_sizes(field: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return a vector of at least one finite number >= 0, else raise ConfigError."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ConfigError(field, array.shape, "of shape (N,) with N >= 1")
    good = np.isfinite(array) & (array >= 0)
    if not good.all():
        raise ConfigError(field, float(array[~good][0]), "finite numbers >= 0")
    return array
