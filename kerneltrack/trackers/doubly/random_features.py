"""Random features φ_ω(x) with E[φ_ω(x)φ_ω(y)] = κ(x, y), drawn from counters and never stored.

| name | κ(x, y), δ = x - y | φ_ω(x) | ω |
|---|---|---|---|
| gaussian | exp(-‖δ‖²/γ) | √2 cos(ωᵀx + b) | N(0, 2/γ) |
| laplacian | exp(-‖δ‖₁/γ) | √2 cos(ωᵀx + b) | Cauchy/γ |
| cauchy | Π 1/(1 + δ_i²/γ) | √2 cos(ωᵀx + b) | Laplace/√γ |
| matern12, matern32, matern52 | Matérn of ν = ½, 3/2, 5/2 and ℓ = √γ | √2 cos(ωᵀx + b) | t_2ν/√γ |
| arccosine0, arccosine1, arccosine2 | (1/π)‖x‖ⁿ‖y‖ⁿJ_n(angle) | √2 (ωᵀx)ⁿ where ωᵀx > 0 | N(0, 1) |
| polynomial | (xᵀy + c)^p | Π_{t=1..p} ω_tᵀ(x, √c) | ±1 |
| linear | xᵀy | ωᵀx | ±1 |
| expsemigroup | exp(-Σ√((x_i + y_i)/γ)), x >= 0 | exp(-ωᵀx) | Lévy(½)/γ |
| recsemigroup | Π γ/(x_i + y_i + γ), x >= 0 | exp(-ωᵀx) | exponential/γ |

b is uniform in [0, 2π), t_k is the multivariate Student distribution of k degrees of freedom.
Feature j under a key is a function of the key and of j alone: Philox with j in its counter.

Reference: B. Xie, Y. Liang, L. Song, "Scale up nonlinear component analysis with doubly stochastic
gradients", NIPS 2015, Table 1 and section 3.3, and the papers that its table names.

Differs from the paper: a scale γ everywhere; the Cauchy kernel is 1 at δ = 0 (not 2^D); Cho and
Saul's arc-cosine features, of which the table prints those of the next order; Matérn's ν is one of
three; the Lévy density with β²/4 in its exponent, which the table's kernel needs; the polynomial
kernel by products of signs (Kar and Karnick, the table's "dot product") instead of sketches by
FFT, whose coordinates cannot be drawn one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.kernels import check_kernel
from kerneltrack.native.binding import call
from kerneltrack.native.layouts import WordVector
from kerneltrack.trackers.doubly.spec import FEATURE_KERNELS

WordArray = npt.NDArray[np.uint64]


class FeatureMap(NamedTuple):
    """A kernel's random features with their parameters resolved to numbers.

    Attributes:
        code: Place in `NAMES`.
        inverse_gamma: 1/γ.
        degree: p of the polynomial kernel.
        root_offset: √c of the polynomial kernel.
        key: (2,) the generator's key: a seed, and which of several independent sets.
    """

    code: int
    inverse_gamma: float
    degree: int
    root_offset: float
    key: WordVector


def make_feature_map(
    name: str, seed: int, which: int = 0, gamma: float = 1.0, degree: int = 2, offset: float = 1.0
) -> FeatureMap:
    """Build a feature map from its name and numbers.

    Args:
        name: One of `NAMES`.
        seed: 0 to 2**64 - 1.
        which: Number of a set of features; sets of one seed are independent.
        gamma: γ > 0.
        degree: p, 1 to 20.
        offset: c >= 0.

    Raises:
        ConfigError: for an unknown name or a number out of range.

    Example:
        >>> features = feature_rows(make_feature_map("gaussian", seed=1), np.zeros((1, 3)), 0, 4000)
        >>> bool(abs(np.mean(features**2) - 1) < 0.1)
        True
    """
    check_kernel(name, FEATURE_KERNELS, gamma, degree, offset)
    linear = name == "linear"
    return FeatureMap(
        FEATURE_KERNELS.index(name),
        float(1.0 / gamma),
        1 if linear else int(degree),
        0.0 if linear else float(np.sqrt(offset)),
        np.array([seed, which], dtype=np.uint64),
    )


def feature_rows(features: FeatureMap, rows: npt.ArrayLike, first: int, count: int) -> FloatArray:
    """Return φ of some features for all rows.

    Args:
        features: The feature map.
        rows: Shape (n, D).
        first: Number of the first feature.
        count: How many features.

    Returns:
        Shape (n, count); κ(x, y) is the expectation of a column's products.

    Raises:
        ConfigError: for rows that are no matrix.
    """
    matrix = np.ascontiguousarray(rows, dtype=np.float64)
    if matrix.ndim != 2:
        raise ConfigError("rows", matrix.shape, "of shape (n, D)")
    out = np.empty((len(matrix), count))
    call("feature_rows", features, matrix, (first,), out)
    return out
