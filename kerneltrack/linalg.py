"""Small dense linear algebra for the compiled row loops.

The matrices here are r×r with r around 10: a call of LAPACK costs more than the arithmetic, and
its rounding depends on the library. These loops are plain, allocate nothing and always run the
same operations in the same order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kerneltrack.compiled import compiled, inlined
from kerneltrack.sums import dot, fused

FloatArray = npt.NDArray[np.float64]

TINY = 1e-290
"""Below it, and above its inverse, a matrix to be rotated counts as unknown."""
POLAR_STEPS = 30
POLAR_TOLERANCE = 1e-7
"""Newton's iteration is quadratic: a change below 1e-7 leaves an error near 1e-14."""
JACOBI_SWEEPS = 12
JACOBI_TOLERANCE = 1e-15
"""Entries below this fraction of the mean of their two diagonal ones are rounding."""


@compiled
def multiply_transposed(left: FloatArray, right: FloatArray, depth: int, out: FloatArray) -> None:
    """Write left · rightᵀ into `out`, summing over the first `depth` columns of both.

    Rows of both sides are contiguous, so every entry is one vectorised dot product: three times
    as fast as the other loop orders at these sizes. `out` may not alias the two. Cost O(nmk).
    """
    for i in range(left.shape[0]):
        for j in range(right.shape[0]):
            out[i, j] = dot(left[i], right[j], depth)


@compiled
def transpose(matrix: FloatArray, out: FloatArray) -> None:
    """Write the transpose of a square matrix into `out`, another matrix."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[0]):
            out[j, i] = matrix[i, j]


@compiled
def inverse_cholesky(
    matrix: FloatArray, shift: float, chol: FloatArray, out: FloatArray, transposed: FloatArray
) -> None:
    """Write C⁻¹ into `out` and C⁻ᵀ into `transposed`, where CCᵀ = matrix + shift·I.

    Args:
        matrix: Symmetric positive semidefinite, (r, r); the lower triangle is read.
        shift: Added to the diagonal, > 0 and large enough to make the sum positive definite.
        chol: Workspace, (r, r); its lower triangle holds C afterwards.
        out: C⁻¹, (r, r), lower triangular.
        transposed: C⁻ᵀ, (r, r), upper triangular.

    Cost O(r³). A pivot that rounding drives below shift/2 is lifted to it: no NaN comes out.
    """
    size = matrix.shape[0]
    for j in range(size):
        pivot = matrix[j, j] + shift - dot(chol[j], chol[j], j)
        root = np.sqrt(max(pivot, 0.5 * shift))
        chol[j, j] = root
        scale = 1.0 / root
        for i in range(j + 1, size):
            chol[i, j] = (matrix[i, j] - dot(chol[i], chol[j], j)) * scale
        # Row j of C⁻¹, entry i: -Σ_{i<=k<j} C[j, k] C⁻¹[k, i] / C[j, j].
        for i in range(j):
            entry = -scale * dot(chol[j, i:], transposed[i, i:], j - i)
            transposed[i, j] = entry
            transposed[j, i] = 0.0
            out[j, i] = entry
            out[i, j] = 0.0
        transposed[j, j] = scale
        out[j, j] = scale


@inlined
def solve_factored(
    inverse: FloatArray,
    transposed: FloatArray,
    right: FloatArray,
    half: FloatArray,
    out: FloatArray,
) -> None:
    """Write (CCᵀ)⁻¹ `right` into `out`, of C⁻¹ and C⁻ᵀ as `inverse_cholesky` leaves them.

    `half`, (r,), is workspace; `out` may be `right`. Cost O(r²).
    """
    size = inverse.shape[0]
    for j in range(size):
        half[j] = dot(inverse[j], right, j + 1)
    for j in range(size):
        out[j] = dot(transposed[j, j:], half[j:], size - j)


@compiled
def semidefinite_factor(matrix: FloatArray, rest: FloatArray, out: FloatArray) -> None:
    """Write R into `out` with RRᵀ = matrix, by Cholesky with diagonal pivoting.

    The matrix may be singular: columns of R past its numerical rank are zero, and the error of
    RRᵀ is of the order of rounding, ε·trace. `rest` is workspace, (r,). Cost O(r³).
    """
    size = matrix.shape[0]
    trace = 0.0
    for i in range(size):
        rest[i] = matrix[i, i]
        trace += abs(matrix[i, i])
        for j in range(size):
            out[i, j] = 0.0
    floor = trace * size * 2.3e-16
    for step in range(size):
        best = 0
        for i in range(size):
            if rest[i] > rest[best]:
                best = i
        if not rest[best] > floor:
            return
        scale = 1.0 / np.sqrt(rest[best])
        for i in range(size):
            # Rows that were pivots have nothing left, not even rounding noise.
            if rest[i] >= 0.0 and i != best:
                total = scale * (matrix[best, i] - dot(out[best], out[i], step))
                out[i, step] = total
                rest[i] = max(rest[i] - total * total, 0.0)
        out[best, step] = rest[best] * scale
        rest[best] = -1.0


@compiled
def _invert(matrix: FloatArray, pivots: npt.NDArray[np.int64]) -> bool:
    """Invert in place by Gauss-Jordan elimination with row pivoting; False if singular."""
    size = matrix.shape[0]
    for column in range(size):
        best = column
        for i in range(column + 1, size):
            if abs(matrix[i, column]) > abs(matrix[best, column]):
                best = i
        pivots[column] = best
        if not abs(matrix[best, column]) > 0.0:
            return False
        if best != column:
            for j in range(size):
                matrix[best, j], matrix[column, j] = matrix[column, j], matrix[best, j]
        scale = 1.0 / matrix[column, column]
        matrix[column, column] = 1.0
        for j in range(size):
            matrix[column, j] *= scale
        for i in range(size):
            if i != column:
                weight = matrix[i, column]
                matrix[i, column] = 0.0
                for j in range(size):
                    matrix[i, j] = fused(-weight, matrix[column, j], matrix[i, j])
    for column in range(size - 1, -1, -1):
        best = pivots[column]
        if best != column:
            for i in range(size):
                matrix[i, best], matrix[i, column] = matrix[i, column], matrix[i, best]
    return True


@compiled
def nearest_rotation(
    matrix: FloatArray, inverse: FloatArray, pivots: npt.NDArray[np.int64], out: FloatArray
) -> None:
    """Write the orthogonal factor of the polar decomposition of `matrix` into `out`.

    It is UVᵀ of the singular value decomposition UΣVᵀ, the orthogonal matrix nearest to
    `matrix`, and so the solution of the orthogonal Procrustes problem. Found by Newton's
    iteration X ← (gX + X⁻ᵀ/g)/2 with the scaling g of Higham (SIAM J. Sci. Stat. Comput. 7,
    1986), about 6 steps. Directions in which `matrix` is zero are completed by a tiny multiple
    of the identity. `matrix` may not alias the others. Cost O(r³) a step.
    """
    size = matrix.shape[0]
    largest = 0.0
    for i in range(size):
        for j in range(size):
            largest = max(largest, abs(matrix[i, j]))
    # Outside this range products of the iteration would overflow, and the data say nothing.
    known = TINY < largest < 1.0 / TINY
    weight = 1.0 / largest if known else 0.0
    lift = 1e-14 if known else 1.0
    for i in range(size):
        for j in range(size):
            out[i, j] = matrix[i, j] * weight if known else 0.0
        out[i, i] += lift
    for _ in range(POLAR_STEPS):
        for i in range(size):
            for j in range(size):
                inverse[i, j] = out[i, j]
        if not _invert(inverse, pivots):
            for i in range(size):
                for j in range(size):
                    out[i, j] = 1.0 if i == j else 0.0
            return
        own = 0.0
        other = 0.0
        for i in range(size):
            own += dot(out[i], out[i], size)
            other += dot(inverse[i], inverse[i], size)
        scale = np.sqrt(np.sqrt(other / own))
        change = 0.0
        for i in range(size):
            for j in range(size):
                value = 0.5 * (scale * out[i, j] + inverse[j, i] / scale)
                change = max(change, abs(value - out[i, j]))
                out[i, j] = value
        if change < POLAR_TOLERANCE:
            return


@compiled
def diagonalise(matrix: FloatArray, turns: FloatArray) -> None:
    """Turn a symmetric matrix into a diagonal one by Jacobi's rotations, cyclic by rows.

    Args:
        matrix: Symmetric, (r, r); its diagonal holds the eigenvalues afterwards, unordered.
        turns: Filled with the eigenvectors as rows, (r, r): turns · matrix · turnsᵀ is diagonal.

    Rotations by angles that rounding swallows are left out, and the sweeps end with the first one
    that has none, after `JACOBI_SWEEPS` at the latest. Cost O(r³) a sweep; a matrix that is nearly
    diagonal takes 2 or 3.
    """
    size = matrix.shape[0]
    for i in range(size):
        for j in range(size):
            turns[i, j] = 0.0
        turns[i, i] = 1.0
    for _ in range(JACOBI_SWEEPS):
        still = True
        for p in range(size):
            for q in range(p + 1, size):
                off = matrix[p, q]
                gap = matrix[q, q] - matrix[p, p]
                small = JACOBI_TOLERANCE * np.sqrt(abs(matrix[p, p]) * abs(matrix[q, q]))
                if not abs(off) > small:
                    continue
                still = False
                # tan of the angle: the smaller root of t² + (gap/off)t - 1, without overflow.
                half = 0.5 * gap / off
                tangent = 1.0 / (abs(half) + np.sqrt(half * half + 1.0))
                tangent = tangent if half >= 0.0 else -tangent
                cosine = 1.0 / np.sqrt(tangent * tangent + 1.0)
                sine = tangent * cosine
                for i in range(size):
                    low, high = matrix[p, i], matrix[q, i]
                    matrix[p, i] = cosine * low - sine * high
                    matrix[q, i] = sine * low + cosine * high
                    low, high = turns[p, i], turns[q, i]
                    turns[p, i] = cosine * low - sine * high
                    turns[q, i] = sine * low + cosine * high
                for i in range(size):
                    low, high = matrix[i, p], matrix[i, q]
                    matrix[i, p] = cosine * low - sine * high
                    matrix[i, q] = sine * low + cosine * high
                matrix[p, q] = 0.0
                matrix[q, p] = 0.0
        if still:
            return


@inlined
def orthonormalise_row(
    left: FloatArray, right: FloatArray, row: int, size: int, least: float
) -> bool:
    """Make one row orthonormal to those before it; see `orthonormalise`.

    Returns:
        Whether there was anything left of it; if not it is zeroed.
    """
    rest = 0.0
    for _ in range(2):
        for e in range(row):
            along = dot(left[e], right[row], size)
            for i in range(size):
                left[row, i] = fused(-along, left[e, i], left[row, i])
                right[row, i] = fused(-along, right[e, i], right[row, i])
        rest = dot(left[row], right[row], size)
    found = rest > least
    scale = 1.0 / np.sqrt(rest) if found else 0.0
    for i in range(size):
        left[row, i] *= scale
        right[row, i] *= scale
    return found


@compiled
def orthonormalise(
    left: FloatArray, right: FloatArray, count: int, size: int, least: FloatArray
) -> None:
    """Make the rows of `left` orthonormal in the inner product of a Gram matrix K, in their order.

    Modified Gram-Schmidt, twice, on rows a with their images Ka. A row of which no more is left
    than rounding is zeroed with its image.

    Args:
        left: Rows a, (count or more, size or more), overwritten.
        right: Rows Ka, likewise.
        count: How many rows.
        size: Their length.
        least: Squared length of each row that counts as rounding, >= 0, (count or more,).

    Cost O(count² · size).
    """
    for c in range(count):
        orthonormalise_row(left, right, c, size, least[c])
