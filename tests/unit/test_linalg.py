"""The row loop's linear algebra against LAPACK's, well and badly conditioned."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from kerneltrack.native.binding import call

Array = npt.NDArray[np.float64]
EPS = 2.0**-52


def semidefinite(size: int, rank: int, decades: float, seed: int) -> Array:
    """A semidefinite matrix of this rank, its eigenvalues spread over so many decades."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0][:, :rank]
    matrix = (basis * 10.0 ** -np.linspace(0, decades, rank)) @ basis.T
    return np.asarray((matrix + matrix.T) / 2)


def rotated(matrix: Array) -> Array:
    size = len(matrix)
    out = np.empty((size, size))
    call("nearest_rotation", matrix, np.empty((size, size)), np.empty(size, dtype=np.int64), out)
    return out


shapes = st.integers(1, 12)
seeds = st.integers(0, 2**20)


@given(n=shapes, m=shapes, k=shapes, seed=seeds)
def test_multiply_transposed(n: int, m: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(n, k)), rng.normal(size=(m, k))
    out = np.empty((n, m))
    call("multiply_transposed", left, right, out)
    assert (np.abs(out - left @ right.T) <= 2 * k * EPS * (np.abs(left) @ np.abs(right).T)).all()


@given(size=shapes, decades=st.floats(0, 14), seed=seeds)
def test_diagonalise(size: int, decades: float, seed: int) -> None:
    matrix = semidefinite(size, size, decades, seed)
    diagonal, turns = matrix.copy(), np.full((size, size), np.nan)
    call("diagonalise", diagonal, turns)
    assert np.abs(turns @ turns.T - np.eye(size)).max() <= 16 * size * EPS
    values = np.diag(diagonal)
    assert np.abs(turns.T @ (values[:, None] * turns) - matrix).max() <= 16 * size**2 * EPS
    assert np.abs(np.sort(values) - np.linalg.eigvalsh(matrix)).max() <= 16 * size * EPS


@given(size=st.integers(1, 60), rank=st.integers(0, 60), decades=st.floats(0, 14), seed=seeds)
def test_eigenvectors(size: int, rank: int, decades: float, seed: int) -> None:
    matrix = semidefinite(size, min(rank, size), decades, seed)
    values, beside, along = np.empty((3, size))
    turns = np.full((size, size), np.nan)
    call("eigenvectors", matrix.copy(), values, beside, along, turns)
    assert np.abs(turns @ turns.T - np.eye(size)).max() <= 16 * size * EPS
    assert np.abs(turns.T @ (values[:, None] * turns) - matrix).max() <= 16 * size * EPS
    assert np.abs(np.sort(values) - np.linalg.eigvalsh(matrix)).max() <= 16 * size * EPS


@given(size=shapes, rank=st.integers(0, 12), shift=st.sampled_from([1e-8, 1e-3, 1.0]), seed=seeds)
def test_inverse_cholesky(size: int, rank: int, shift: float, seed: int) -> None:
    matrix = semidefinite(size, min(rank, size), 3.0, seed)
    before = matrix.copy()
    chol, out, transposed = (np.full((size, size), np.nan) for _ in range(3))
    call("inverse_cholesky", matrix, (shift,), chol, out, transposed)
    assert np.array_equal(matrix, before)
    assert np.array_equal(out.T, transposed)
    assert not np.triu(out, 1).any()
    shifted = matrix + shift * np.eye(size)
    # Higham, theorem 8.5: the residual of a triangular inverse, through two triangles.
    residual = out @ shifted @ out.T - np.eye(size)
    assert np.abs(residual).max() <= 16 * size**2 * EPS * np.linalg.cond(shifted)


def test_inverse_cholesky_lifts_pivots_that_rounding_makes_negative() -> None:
    matrix = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-12]])
    out, transposed = np.empty((2, 2)), np.empty((2, 2))
    call("inverse_cholesky", matrix, (1e-14,), np.empty((2, 2)), out, transposed)
    assert np.isfinite(out).all() and np.abs(out).max() <= 1 / np.sqrt(0.5e-14) * 1.01


@given(size=shapes, rank=st.integers(0, 12), decades=st.floats(0, 14), seed=seeds)
def test_semidefinite_factor(size: int, rank: int, decades: float, seed: int) -> None:
    matrix = semidefinite(size, min(rank, size), decades, seed)
    out = np.full((size, size), np.nan)
    call("semidefinite_factor", matrix, np.empty(size), out)
    # Higham, section 10.3: columns past the numerical rank leave a residual of r·ε·trace.
    allowed = 8 * size**2 * EPS * max(np.trace(matrix), 0.0)
    assert np.abs(out @ out.T - matrix).max() <= allowed


@given(size=shapes, decades=st.floats(0, 8), seed=seeds)
def test_nearest_rotation_is_the_polar_factor(size: int, decades: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.normal(size=(size, size)))[0] for _ in range(2))
    matrix = (left * 10.0 ** -np.linspace(0, decades, size)) @ right.T
    out = rotated(matrix)
    assert np.abs(out @ out.T - np.eye(size)).max() <= 1e-13 * size
    # The polar factor moves by ‖Δ‖/(σ_r-1 + σ_r) (Li 1995); the lift is Δ = 1e-14.
    expected = scipy.linalg.polar(matrix)[0]
    smallest = 10.0**-decades
    assert np.abs(out - expected).max() <= 1e-13 * size**2 / smallest


@given(size=st.integers(2, 10), rank=st.integers(1, 9), seed=seeds)
def test_nearest_rotation_of_a_singular_matrix_still_attains_the_optimum(
    size: int, rank: int, seed: int
) -> None:
    """Any completion is optimal: tr(UᵀC) is the sum of the singular values."""
    rng = np.random.default_rng(seed)
    inner = min(rank, size - 1)
    matrix = rng.normal(size=(size, inner)) @ rng.normal(size=(inner, size))
    out = rotated(matrix)
    assert np.abs(out @ out.T - np.eye(size)).max() <= 1e-11
    attained, best = np.sum(out * matrix), np.linalg.svd(matrix, compute_uv=False).sum()
    assert best - attained <= 1e-11 * best


@pytest.mark.parametrize("size", [1, 3, 10])
def test_nearest_rotation_of_nothing_is_the_identity(size: int) -> None:
    assert np.array_equal(rotated(np.zeros((size, size))), np.eye(size))
