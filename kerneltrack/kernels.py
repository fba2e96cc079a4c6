"""Kernels κ(x, y) = <φ(x), φ(y)>: one scalar definition each, shared by every algorithm.

| name | κ(x, y) | parameters |
|---|---|---|
| gaussian | exp(-‖x-y‖²/γ), so γ = 2σ² | gamma |
| laplacian | exp(-‖x-y‖₁/γ) | gamma |
| polynomial | (xᵀy + c)^p | degree p, offset c |
| linear | xᵀy | |

Reference: B. Schölkopf, A. Smola, "Learning with kernels", 2002, chapter 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.native.binding import call
from kerneltrack.specs import KERNELS

GAUSSIAN, LAPLACIAN, POLYNOMIAL, LINEAR = range(4)
MAX_MEDIAN_ROWS = 1000


class Kernel(NamedTuple):
    """A kernel with its parameters resolved to numbers, as the compiled loops take it.

    1/γ instead of γ: a division by it might become a product in one caller and not in another.
    """

    code: int
    inverse_gamma: float
    degree: int
    offset: float


def make_kernel(name: str, gamma: float = 1.0, degree: int = 2, offset: float = 1.0) -> Kernel:
    """Build a kernel from its name and numbers.

    Args:
        name: One of `KERNELS`.
        gamma: Bandwidth of the Gaussian (γ = 2σ²) and the Laplacian kernel, > 0.
        degree: Degree p of the polynomial kernel, >= 1.
        offset: Offset c of the polynomial kernel, >= 0 (positive definite).

    Returns:
        The kernel.

    Raises:
        ConfigError: for an unknown name or a number out of range.

    Example:
        >>> gram(make_kernel("linear"), np.eye(2), np.ones((1, 2))).ravel().tolist()
        [1.0, 1.0]
    """
    check_kernel(name, KERNELS, gamma, degree, offset)
    return Kernel(KERNELS.index(name), 1.0 / gamma, int(degree), float(offset))


def check_kernel(
    name: str, names: Sequence[str], gamma: float, degree: float, offset: float
) -> None:
    """Check a kernel of these names, and its numbers; see `make_kernel`.

    Raises:
        ConfigError: for an unknown name or a number out of range.
    """
    if name not in names:
        raise ConfigError("kernel", name, f"one of {', '.join(names)}")
    if not 0 < gamma < np.inf:
        raise ConfigError("gamma", gamma, "a finite number > 0, or 'median'")
    if not 1 <= degree <= 20:
        raise ConfigError("degree", degree, "an integer from 1 to 20")
    if not 0 <= offset < np.inf:
        raise ConfigError("offset", offset, "a finite number >= 0")


def gram(kernel: Kernel, rows: npt.ArrayLike, columns: npt.ArrayLike) -> FloatArray:
    """Return the kernel matrix κ(rows, columns).

    Args:
        kernel: The kernel.
        rows: Shape (n, D).
        columns: Shape (m, D).

    Returns:
        Shape (n, m), float64. Cost O(nmD).

    Raises:
        ConfigError: for rows of two widths, or what is no matrix.
    """
    left = np.ascontiguousarray(rows, dtype=np.float64)
    right = np.ascontiguousarray(columns, dtype=np.float64)
    for name, matrix in (("rows", left), ("columns", right)):
        if matrix.ndim != 2 or matrix.shape[1] != left.shape[-1]:
            raise ConfigError(name, matrix.shape, "of shape (n, D), D the same for both")
    out = np.empty((len(left), len(right)))
    call("gram", kernel, left, right, out)
    return out


def median_bandwidth(name: str, rows: FloatArray) -> float:
    """Return the median trick's bandwidth: the median of ‖x_i-x_j‖² over pairs of rows.

    For the Laplacian kernel the distance is ‖x_i-x_j‖₁. Of more than `MAX_MEDIAN_ROWS` rows,
    that many at equal spacing are used. Where more than half of the rows are equal the median of
    the distances that are not zero takes its place, and 1 where all are equal.

    Args:
        name: Name of the kernel.
        rows: Shape (n, D), the first rows of the stream, standardised if the tracker does so.

    Returns:
        A bandwidth > 0. Cost O(n²D).

    Example:
        >>> median_bandwidth("gaussian", np.array([[0.0], [1.0], [3.0]]))
        4.0
    """
    count = rows.shape[0]
    if count > MAX_MEDIAN_ROWS:
        rows = rows[np.linspace(0, count - 1, MAX_MEDIAN_ROWS).astype(np.int64)]
        count = MAX_MEDIAN_ROWS
    distances = _pair_distances(name, rows)
    finite = np.isfinite(distances)
    if not finite.all():
        distances = distances[finite]
    middle = _median(distances)
    if middle > 0:
        return middle
    return _median(distances[distances > 0]) or 1.0


def _median(values: FloatArray) -> float:
    """Return the median of finite values, which are put into another order; 0 of none.

    It is `np.median`'s, which asks more than few rows take.
    """
    half = len(values) // 2
    if not len(values):
        return 0.0
    if len(values) % 2:
        values.partition(half)
        return float(values[half])
    values.partition((half - 1, half))
    return float((values[half - 1] + values[half]) / 2.0)


def _pair_distances(name: str, rows: FloatArray) -> FloatArray:
    """Return ‖x_i - x_j‖², or ‖x_i - x_j‖₁, of all pairs of rows j < i."""
    of = make_kernel("laplacian" if name == "laplacian" else "gaussian")
    out = np.empty(len(rows) * (len(rows) - 1) // 2)
    call("pair_distances", of, np.ascontiguousarray(rows, dtype=np.float64), out)
    return out
