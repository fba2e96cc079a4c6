"""BKFE: batch kernel-based feature extraction, the reference that the trackers approach."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.kernels import Kernel, gram
from kerneltrack.settings import Range, check_int, check_number


class BatchSubspace(NamedTuple):
    """A batch subspace L = ΦA.

    Attributes:
        rows: (N, D) the rows it was fitted to.
        factor: (N, r) A.
        q: (N, r) projection coefficients of the rows.
        losses: (N,) LS-fitting error of each row.
        iterations: Iterations that ran.
    """

    rows: FloatArray
    factor: FloatArray
    q: FloatArray
    losses: FloatArray
    iterations: int


def fit_bkfe(
    kernel: Kernel,
    rows: npt.ArrayLike,
    rank: int,
    ridge: float = 1e-3,
    tolerance: float = 1e-6,
    max_iterations: int = 50,
    seed: int = 0,
) -> BatchSubspace:
    """Fit a rank-r kernel subspace to all rows by alternating least squares (Alg. 1).

    Repeats S = (AᵀKA + λI)⁻¹Aᵀ, Q = SK, A = Qᵀ(QQᵀ + λI)⁻¹ until the relative change of Q is
    at most `tolerance`.

    Args:
        kernel: The kernel.
        rows: Shape (N, D), finite.
        rank: r, 1 to N.
        ridge: λ > 0.
        tolerance: Relative change of Q at which to stop.
        max_iterations: Most iterations (the paper: 50).
        seed: Seed of the random start of A.

    Returns:
        The subspace. Cost O(N²(D + r)) an iteration, 8N² bytes.

    Raises:
        ConfigError: for a value out of range.

    Reference: F. Sheikholeslami, D. Berberidis, G. B. Giannakis, IEEE Trans. Signal Process.,
    2018, Algorithm 1.

    Example:
        >>> from kerneltrack.kernels import make_kernel
        >>> rows = np.random.default_rng(0).normal(size=(40, 2))
        >>> bool(fit_bkfe(make_kernel("linear"), rows, rank=2, ridge=1e-6).losses.max() < 1e-3)
        True
    """
    data = np.ascontiguousarray(rows, dtype=np.float64)
    if data.ndim != 2 or not np.isfinite(data).all():
        raise ConfigError("rows", data.shape, "a finite array of shape (N, D)")
    check_int("rank", rank, 1, len(data))
    check_number("ridge", ridge, Range(0, np.inf, "()"))
    check_int("max_iterations", max_iterations, 1, 1_000_000)
    full = gram(kernel, data, data)
    eye = np.eye(rank)
    factor = np.random.default_rng(seed).standard_normal((len(data), rank)) / np.sqrt(rank)
    q = np.zeros((rank, len(data)))
    iterations = 0
    while iterations < max_iterations:
        iterations += 1
        image = full @ factor
        inner = factor.T @ image
        after = solve(inner + ridge * eye, image.T, assume_a="pos")
        factor = solve(after @ after.T + ridge * eye, after, assume_a="pos").T
        change = np.linalg.norm(after - q)
        q = after
        if change <= tolerance * np.linalg.norm(q):
            break
    image = full @ factor
    inner = factor.T @ image
    q = solve(inner + ridge * eye, image.T, assume_a="pos")
    losses = np.diag(full) - 2 * np.einsum("nr,rn->n", image, q)
    losses = losses + np.einsum("rn,rs,sn->n", q, inner, q)
    return BatchSubspace(data, factor, q.T.copy(), np.maximum(losses, 0.0), iterations)
