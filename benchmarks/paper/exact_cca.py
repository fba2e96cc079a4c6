"""CCA of two views' random Fourier features, solved at once from their covariances.

In single precision: 12 bytes for each pair of features, and as many again while it is solved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse.linalg import LinearOperator, svds
from sklearn.kernel_approximation import RBFSampler

from kerneltrack.kernels import median_bandwidth

Matrix = npt.NDArray[Any]

CHUNKS = 12


def summed(values: Sequence[Matrix]) -> float:
    """Return Σ|correlation| of the columns of two matrices, pair by pair."""
    pairs = zip(values[0].T, values[1].T, strict=True)
    return float(sum(abs(np.corrcoef(a, b)[0, 1]) for a, b in pairs))


def exact_totals(
    rows: Sequence[Matrix], test: Sequence[Matrix], count: int, ridges: Sequence[float], top: int
) -> Iterator[float]:
    """Yield, for each ridge, the test rows' total correlation of the top directions.

    Args:
        rows: Two views of the rows that are fitted, shapes (n, D) and (n, E).
        test: The same of others.
        count: Random Fourier features of each view, of length 1 for each row.
        ridges: What is added to the covariances' diagonals.
        top: Number of directions.
    """
    maps: list[RBFSampler] = []
    for view in rows:
        gamma = 1.0 / median_bandwidth("gaussian", np.ascontiguousarray(view[:1000]))
        sampler = RBFSampler(gamma=gamma, n_components=count, random_state=len(maps))
        maps.append(sampler.fit(view[:1].astype(np.float32)))
    covariances = _covariances(maps, rows)
    late = [m.transform(view.astype(np.float32)) for m, view in zip(maps, test, strict=True)]
    for ridge in ridges:
        roots = [_root(covariances[side, side], ridge) for side in (0, 1)]
        left, _, right = svds(_whitened(roots, covariances[0, 1]), k=top, random_state=0)
        sides = zip(late, roots, (left, right.T), strict=True)
        yield summed([x @ solve_triangular(r, d, lower=True, trans=1) for x, r, d in sides])


def _covariances(
    maps: Sequence[RBFSampler], rows: Sequence[Matrix]
) -> dict[tuple[int, int], Matrix]:
    """Return the features' covariances within the views and between them."""
    count = maps[0].n_components
    parts = [np.array_split(view.astype(np.float32), CHUNKS) for view in rows]
    means = [
        sum(m.transform(part).sum(axis=0) for part in each) / len(view)
        for m, each, view in zip(maps, parts, rows, strict=True)
    ]
    found = {pair: np.zeros((count, count), np.float32) for pair in ((0, 0), (1, 1), (0, 1))}
    for both in zip(*parts, strict=True):
        x = [m.transform(p) - mean for m, p, mean in zip(maps, both, means, strict=True)]
        for a, b in found:
            found[a, b] += x[a].T @ x[b] / len(rows[0])
    return found


def _root(covariance: Matrix, ridge: float) -> Matrix:
    shifted = covariance.copy()
    shifted.flat[:: len(shifted) + 1] += ridge
    root: Matrix = cholesky(shifted, lower=True, overwrite_a=True)
    return root


def _whitened(roots: Sequence[Matrix], tie: Matrix) -> LinearOperator:
    """Return L⁻¹CR⁻ᵀ, with the Cholesky factors L, R of the views and C between them."""

    def solved(side: int, x: Matrix, trans: int) -> Matrix:
        root: Matrix = solve_triangular(roots[side], x, lower=True, trans=trans)
        return root

    return LinearOperator(
        tie.shape,
        matvec=lambda x: solved(0, tie @ solved(1, x, 1), 0),
        rmatvec=lambda x: solved(1, tie.T @ solved(0, x, 1), 0),
        dtype=tie.dtype,
    )
