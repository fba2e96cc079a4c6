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

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils as numba_cgutils
from numba.core import types
from numba.extending import intrinsic as numba_intrinsic

from kerneltrack.compiled import compiled, inlined
from kerneltrack.errors import ConfigError
from kerneltrack.sums import fused
from kerneltrack.trackers.doubly.philox import WORDS, block, open_uniform, uniform
from kerneltrack.trackers.doubly.spec import FEATURE_KERNELS, MEASURED

FloatArray = npt.NDArray[np.float64]
WordArray = npt.NDArray[np.uint64]

# What Numba does not type.
cgutils: Any = numba_cgutils
intrinsic: Any = numba_intrinsic

(
    GAUSSIAN,
    LAPLACIAN,
    CAUCHY,
    MATERN12,
    MATERN32,
    MATERN52,
    ARC0,
    ARC1,
    ARC2,
    POLYNOMIAL,
    LINEAR,
    EXP_SEMIGROUP,
    REC_SEMIGROUP,
) = range(len(FEATURE_KERNELS))
SCALED = MEASURED | {"expsemigroup", "recsemigroup"}
"""Kernels that have a bandwidth at all."""

TURN = 2.0 * np.pi
ROOT_2 = np.sqrt(2.0)
GROUP = 8
"""Rows that are worked on side by side: what they meet is read from memory once for all of them."""
BITS = 64
# sin(πf) = f Σ SINE[k] f^(2k); the next term is below 2e-18 for |f| <= ½.
SINE = (
    3.141592653589793,
    -5.167712780049969,
    2.550164039877345,
    -0.5992645293207919,
    0.08214588661112819,
    -0.007370430945714348,
    0.00046630280576761234,
    -2.1915353447830204e-05,
    7.952054001475508e-07,
    -2.2948428997269856e-08,
    5.392664662608125e-10,
)


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
    key: WordArray


class Drawn(NamedTuple):
    """Room for some features' ω, one column a feature.

    Attributes:
        omega: (P, count) in turns for cosines; P is D, or p(D + 1) of the polynomial kernel.
        phase: (count,) b in turns.
        words: Scratch.
        counter: Scratch, (4,).
        normals: Scratch.
    """

    omega: FloatArray
    phase: FloatArray
    words: WordArray
    counter: WordArray
    normals: FloatArray


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
    if name not in FEATURE_KERNELS:
        raise ConfigError("kernel", name, f"one of {', '.join(FEATURE_KERNELS)}")
    if not 0 < gamma < np.inf:
        raise ConfigError("gamma", gamma, "a finite number > 0")
    if not 1 <= degree <= 20:
        raise ConfigError("degree", degree, "an integer from 1 to 20")
    if not 0 <= offset < np.inf:
        raise ConfigError("offset", offset, "a finite number >= 0")
    linear = name == "linear"
    return FeatureMap(
        FEATURE_KERNELS.index(name),
        1.0 / gamma,
        1 if linear else int(degree),
        0.0 if linear else float(np.sqrt(offset)),
        np.array([seed, which], dtype=np.uint64),
    )


@inlined
def make_room(features: FeatureMap, width: int, count: int) -> Drawn:
    """Make room for `count` features of rows of `width` channels."""
    signs = features.code in (POLYNOMIAL, LINEAR)
    parts = features.degree * (width + 1) if signs else width
    # A phase and a word a channel; up to five normals more; normals come in pairs.
    words = parts // BITS + 1 if signs else width + 7
    rounded = (words + WORDS - 1) // WORDS * WORDS
    return Drawn(
        np.empty((parts, count)),
        np.empty(count),
        np.empty(rounded, dtype=np.uint64),
        np.zeros(WORDS, dtype=np.uint64),
        np.empty(width + 6),
    )


@inlined
def _normals(words: WordArray, first: int, count: int, out: FloatArray) -> None:
    """Write standard normals, a pair for each two words (Box and Muller)."""
    for i in range(0, count, 2):
        radius = np.sqrt(-2.0 * np.log(open_uniform(words[first + i])))
        angle = TURN * uniform(words[first + i + 1])
        out[i] = radius * np.cos(angle)
        if i + 1 < count:
            out[i + 1] = radius * np.sin(angle)


@inlined
def _draw_signs(features: FeatureMap, drawn: Drawn, column: int) -> None:
    parts = drawn.omega.shape[0]
    width = parts // features.degree
    for i in range(parts):
        bit = (drawn.words[i // BITS] >> np.uint64(i % BITS)) & np.uint64(1)
        sign = 1.0 if bit == np.uint64(1) else -1.0
        drawn.omega[i, column] = sign * features.root_offset if (i + 1) % width == 0 else sign


@inlined
def _draw_reals(features: FeatureMap, drawn: Drawn, column: int) -> None:
    code, inverse = features.code, features.inverse_gamma
    width, words, normals = drawn.omega.shape[0], drawn.words, drawn.normals
    drawn.phase[column] = uniform(words[0])
    if code in (LAPLACIAN, CAUCHY, REC_SEMIGROUP):
        for d in range(width):
            u = open_uniform(words[1 + d])
            if code == LAPLACIAN:
                value = np.tan(np.pi * (u - 0.5)) * inverse / TURN
            elif code == CAUCHY:
                side = 2.0 * u - 1.0
                tail = -np.log(1.0 - abs(side)) * np.sqrt(inverse) / TURN
                value = tail if side > 0.0 else -tail
            else:
                value = -np.log(u) * inverse
            drawn.omega[d, column] = value
        return
    extra = 0
    if code in (MATERN12, MATERN32, MATERN52):
        extra = 2 * (code - MATERN12) + 1
    _normals(words, 1, width + extra, normals)
    scale = 1.0
    if code == GAUSSIAN:
        scale = np.sqrt(2.0 * inverse) / TURN
    elif extra > 0:
        square = 0.0
        for i in range(extra):
            square += normals[width + i] * normals[width + i]
        scale = np.sqrt(extra * inverse / square) / TURN
    for d in range(width):
        value = normals[d]
        if code == EXP_SEMIGROUP:
            # Lévy of scale ½: Laplace transform exp(-√s).
            drawn.omega[d, column] = 0.5 * inverse / (value * value)
        else:
            drawn.omega[d, column] = value * scale


@compiled
def draw(features: FeatureMap, first: int, count: int, drawn: Drawn) -> None:
    """Draw features first, ..., first + count - 1. Cost O(count · D)."""
    counter, found = drawn.counter, np.empty(WORDS, dtype=np.uint64)
    for column in range(count):
        counter[0] = np.uint64(0)
        counter[1] = np.uint64(first + column)
        for start in range(0, drawn.words.shape[0], WORDS):
            block(features.key, counter, found)
            drawn.words[start : start + WORDS] = found
            counter[0] += np.uint64(1)
        if features.code in (POLYNOMIAL, LINEAR):
            _draw_signs(features, drawn, column)
        else:
            _draw_reals(features, drawn, column)


@inlined
def _project(drawn: Drawn, rows: FloatArray, start: int, count: int, out: FloatArray) -> None:
    """Add Σ_d ω_d x_d to `out` (n, count), ω from row `start` of the drawn numbers on.

    Zeros are passed over, so that sparse rows cost less.
    """
    for d in range(rows.shape[1]):
        omega = drawn.omega[start + d]
        for n in range(rows.shape[0]):
            value = rows[n, d]
            if value == 0.0:
                continue
            for j in range(count):
                out[n, j] = fused(omega[j], value, out[n, j])


def _typed_nearest(_: Any, value: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.DoubleType()
        declared = ir.FunctionType(kind, [kind])
        name = "llvm.rint.f64"
        return builder.call(cgutils.get_or_insert_function(builder.module, declared, name), args)

    return types.float64(types.float64), emit


_nearest = intrinsic(_typed_nearest)
"""The nearest integer, of two equally near the even one: one instruction, unlike NumPy's call."""


@inlined
def cosine_of_turns(turns: float) -> float:
    """Return cos(2π·turns): whole turns are dropped exactly, and no library is called.

    1 - 2sin²(π·part), the sine by its Taylor series: error below 1e-15.
    """
    part = turns - _nearest(turns)
    square = part * part
    total = SINE[10]
    total = fused(total, square, SINE[9])
    total = fused(total, square, SINE[8])
    total = fused(total, square, SINE[7])
    total = fused(total, square, SINE[6])
    total = fused(total, square, SINE[5])
    total = fused(total, square, SINE[4])
    total = fused(total, square, SINE[3])
    total = fused(total, square, SINE[2])
    total = fused(total, square, SINE[1])
    total = fused(total, square, SINE[0])
    sine = part * total
    return fused(-2.0 * sine, sine, 1.0)


@compiled
def evaluate(
    features: FeatureMap, drawn: Drawn, rows: FloatArray, count: int, out: FloatArray
) -> None:
    """Write φ of the drawn features to `out` (n, count) for rows (n, D), of which `GROUP` are best.

    Cost O(n · count · D), times p for polynomials.
    """
    code, many = features.code, rows.shape[0]
    if code in (POLYNOMIAL, LINEAR):
        width = rows.shape[1]
        factor = np.empty((many, count))
        for t in range(features.degree):
            start = t * (width + 1)
            for n in range(many):
                for j in range(count):
                    factor[n, j] = drawn.omega[start + width, j]
            _project(drawn, rows, start, count, factor)
            for n in range(many):
                for j in range(count):
                    out[n, j] = factor[n, j] if t == 0 else out[n, j] * factor[n, j]
        return
    cosines = code < ARC0
    for n in range(many):
        for j in range(count):
            out[n, j] = drawn.phase[j] if cosines else 0.0
    _project(drawn, rows, 0, count, out)
    for n in range(many):
        if cosines:
            for j in range(count):
                out[n, j] = ROOT_2 * cosine_of_turns(out[n, j])
        elif code in (EXP_SEMIGROUP, REC_SEMIGROUP):
            for j in range(count):
                out[n, j] = np.exp(-out[n, j])
        else:
            for j in range(count):
                along = out[n, j]
                value = ROOT_2 if along > 0.0 else 0.0
                for _ in range(code - ARC0):
                    value *= along
                out[n, j] = value


@compiled
def _feature_rows(features: FeatureMap, rows: FloatArray, first: int, out: FloatArray) -> None:
    drawn = make_room(features, rows.shape[1], out.shape[1])
    draw(features, first, out.shape[1], drawn)
    for n in range(0, rows.shape[0], GROUP):
        evaluate(features, drawn, rows[n : n + GROUP], out.shape[1], out[n : n + GROUP])


def feature_rows(features: FeatureMap, rows: npt.ArrayLike, first: int, count: int) -> FloatArray:
    """Return φ of some features for all rows.

    Args:
        features: The feature map.
        rows: Shape (n, D).
        first: Number of the first feature.
        count: How many features.

    Returns:
        Shape (n, count); κ(x, y) is the expectation of a column's products.
    """
    matrix = np.ascontiguousarray(rows, dtype=np.float64)
    out = np.empty((len(matrix), count))
    _feature_rows(features, matrix, first, out)
    return out
