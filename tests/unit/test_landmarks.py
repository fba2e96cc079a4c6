"""Landmarks: each update against the paper's equations, the descents and the choice as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.batch import row_sparse
from kerneltrack.batch.landmark_spec import METHODS
from kerneltrack.batch.landmarks import LandmarkSpec, choose_landmarks, span_error
from kerneltrack.errors import ConfigError
from kerneltrack.kernels import gram, make_kernel
from tests.oracles import rowsparse as oracle
from tests.oracles.streams import raw
from tests.parts import examples

Array = npt.NDArray[np.float64]
KERNELS = {
    "gaussian": make_kernel("gaussian", 3.0),
    "laplacian": make_kernel("laplacian", 2.0),
    "polynomial": make_kernel("polynomial", degree=2, offset=0.5),
}


def problem(seed: int, count: int, rank: int, started: int, kernel: str) -> tuple[Array, Array]:
    """K of random rows, and a factor of which a few rows are not zero."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, 2))
    factor = np.zeros((count, rank))
    factor[rng.choice(count, min(started, count), replace=False)] = rng.normal(
        size=(min(started, count), rank)
    ) / np.sqrt(rank)
    return gram(KERNELS[kernel], rows, rows), factor


problems: Any = st.builds(
    problem,
    seed=st.integers(0, 2**20),
    count=st.integers(2, 14),
    rank=st.integers(1, 4),
    started=st.integers(4, 14),
    kernel=st.sampled_from(sorted(KERNELS)),
)
penalties: Any = st.floats(1e-3, 1.0)
ridges: Any = st.floats(1e-2, 1.0)


def steepest(full: Array, factor: Array, ridge: float) -> float:
    q = oracle.coefficients(full, factor, ridge)
    return 2 / len(full) * float(np.linalg.norm(q @ full, axis=0).max())


@settings(max_examples=examples(150))
@given(case=problems, share=penalties, ridge=ridges, exact=st.booleans())
def test_a_sweep_is_the_papers(
    case: tuple[Array, Array], share: float, ridge: float, exact: bool
) -> None:
    full, factor = case
    penalty = share * steepest(full, factor, ridge)
    expected, q = oracle.sweep(full, factor, penalty, ridge, exact)
    descent = row_sparse.start_descent(full, factor)
    method = row_sparse.EXACT if exact else row_sparse.PROXIMAL
    objective, change = row_sparse.sweep(descent, method, penalty, ridge)
    # H + (η/Δ)I has a condition of at most 1 + ‖H‖Δ/η, M + λI one of 1 + ‖M‖/λ: 1e4 each here.
    scale = max(np.abs(expected).max(), np.abs(factor).max())
    np.testing.assert_allclose(descent.q, q, rtol=0, atol=1e-10 * np.abs(q).max())
    np.testing.assert_allclose(descent.factor, expected, rtol=0, atol=1e-7 * scale)
    np.testing.assert_allclose(
        descent.image, full @ descent.factor, rtol=0, atol=1e-11 * np.abs(full).sum() * scale
    )
    # Q was zero before.
    assert change == np.inf
    assert objective == pytest.approx(
        oracle.cost(full, descent.factor, descent.q, penalty, ridge), rel=1e-9, abs=1e-9
    )


@settings(max_examples=examples(50))
@given(case=problems, ridge=ridges, i=st.integers(0, 1), seed=st.integers(0, 99))
def test_the_cost_of_one_row_is_the_quadratic(
    case: tuple[Array, Array], ridge: float, i: int, seed: int
) -> None:
    full, factor = case
    q = oracle.coefficients(full, factor, ridge)
    hessian, slope = oracle.quadratic(full, factor, q, i)
    moved = factor.copy()
    moved[i] += np.random.default_rng(seed).normal(size=factor.shape[1])

    def along(row: Array) -> float:
        return float(0.5 * row @ hessian @ row + slope @ row)

    gap = oracle.cost(full, moved, q, 0.0, ridge) - oracle.cost(full, factor, q, 0.0, ridge)
    size = np.abs(full).max() * (1 + np.abs(q).max()) ** 2 * (1 + np.abs(moved).sum()) ** 2
    assert gap == pytest.approx(along(moved[i]) - along(factor[i]), abs=1e-12 * size)


@settings(max_examples=examples(100))
@given(case=problems, share=penalties, ridge=ridges, exact=st.booleans())
def test_no_step_raises_the_cost(
    case: tuple[Array, Array], share: float, ridge: float, exact: bool
) -> None:
    full, factor = case
    penalty = share * steepest(full, factor, ridge)
    descent = row_sparse.start_descent(full, factor)
    method = row_sparse.EXACT if exact else row_sparse.PROXIMAL
    q = oracle.coefficients(full, factor, ridge)
    before = oracle.cost(full, factor, q, penalty, ridge)
    for _ in range(12):
        previous = descent.q.copy()
        after, change = row_sparse.sweep(descent, method, penalty, ridge)
        length = np.linalg.norm(previous)
        moved = np.linalg.norm(descent.q - previous) / length if length > 0 else np.inf
        assert change == pytest.approx(moved, rel=1e-9)
        assert after <= before + 1e-11 * abs(before)
        before = after


@settings(max_examples=examples(200))
@given(
    values=st.lists(st.floats(0, 1e3), min_size=1, max_size=6),
    along=st.lists(st.floats(-1e3, 1e3), min_size=6, max_size=6),
    share=st.floats(1e-3, 0.999),
)
def test_the_norm_of_the_minimum_solves_its_equation(
    values: list[float], along: list[float], share: float
) -> None:
    gammas, slope = np.array(values), np.array(along[: len(values)])
    # p lies in the range of H.
    slope[gammas < 1e-3] = 0.0
    length = float(np.linalg.norm(slope))
    if length < 1e-6:
        slope[:], gammas[:], length = 1.0, np.maximum(gammas, 1.0), np.sqrt(len(values))
    penalty = share * length
    delta = row_sparse.norm_of_minimum(gammas, slope, penalty)
    row = -slope / (gammas + penalty / delta)
    assert delta > 0
    assert np.linalg.norm(row) == pytest.approx(delta, rel=1e-9)
    # Where the cost is flat: Ha + p + ηa/‖a‖ = 0.
    rest = gammas * row + slope + penalty * row / np.linalg.norm(row)
    assert np.abs(rest).max() <= 1e-8 * length


ROWS = np.random.default_rng(5).normal(size=(120, 3)) * [1.0, 5.0, 0.2] + [3.0, 0.0, 0.0]


@pytest.mark.parametrize("method", METHODS)
def test_the_choice_is_of_the_rows_and_says_how_good_it_is(method: str) -> None:
    chosen = choose_landmarks(LandmarkSpec(method=method, count=12, rank=5), ROWS)
    assert 1 <= len(chosen.indices) <= 12
    assert (np.diff(chosen.indices) > 0).all()
    np.testing.assert_array_equal(chosen.rows, ROWS[chosen.indices])
    scaled = ROWS / chosen.scale - chosen.shift
    full = gram(make_kernel("gaussian", chosen.gamma), scaled, scaled)
    cross = full[:, chosen.indices]
    rest = full - cross @ np.linalg.pinv(full[np.ix_(chosen.indices, chosen.indices)]) @ cross.T
    assert chosen.residual == pytest.approx(np.trace(rest) / 120, abs=1e-9)
    assert chosen.mismatch == pytest.approx(np.linalg.norm(rest) / 120, abs=1e-9)
    assert chosen.mismatch <= chosen.residual + 1e-12
    again = choose_landmarks(LandmarkSpec(method=method, count=12, rank=5), ROWS)
    arrays = ("indices", "rows", "weights", "objective")
    assert [raw(getattr(again, a)) for a in arrays] == [raw(getattr(chosen, a)) for a in arrays]


@pytest.mark.parametrize("method", ["bcd-pg", "bcd-ex"])
def test_a_descent_beats_rows_drawn_uniformly(method: str) -> None:
    gaps = []
    for seed in range(6):
        residuals = [
            choose_landmarks(LandmarkSpec(method=name, count=12, rank=6, seed=seed), ROWS).residual
            for name in (method, "uniform")
        ]
        gaps.append(residuals[0] - residuals[1])
    assert np.mean(gaps) < 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "rows",
    [np.ones((1, 2)), np.zeros((30, 3)), np.tile([[0.0, 1.0], [1.0, 0.0]], (10, 1))],
    ids=["one row", "equal rows", "two values"],
)
def test_degenerate_rows(method: str, rows: Array) -> None:
    chosen = choose_landmarks(LandmarkSpec(method=method, count=4, rank=2), rows)
    assert 1 <= len(np.unique(rows[chosen.indices], axis=0)) <= 2
    assert np.isfinite(chosen.residual) and np.isfinite(chosen.objective).all()
    assert chosen.residual == pytest.approx(0, abs=1e-9)


def test_a_price_that_no_row_is_worth_leaves_none() -> None:
    chosen = choose_landmarks(LandmarkSpec(method="bcd-ex", count=5, rank=2, penalty=1e6), ROWS)
    assert len(chosen.indices) == 0
    assert chosen.residual == 1.0


def test_rows_of_zero_length_are_never_landmarks_of_a_descent() -> None:
    rows = np.vstack([np.zeros((3, 2)), np.random.default_rng(0).normal(size=(20, 2))])
    spec = LandmarkSpec(method="bcd-ex", count=6, rank=2, kernel="linear", standardise=False)
    chosen = choose_landmarks(spec, rows)
    assert chosen.indices.min() >= 3
    assert chosen.residual == pytest.approx(0, abs=1e-9)


def test_the_error_of_no_landmarks_is_all_there_is() -> None:
    full = np.diag([1.0, 3.0])
    assert span_error(full, np.zeros(0, dtype=np.int64)) == (2.0, np.sqrt(10.0) / 2)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("method", "svd"),
        ("count", 0),
        ("rank", 21),
        ("start", "all"),
        ("penalty", 0.0),
        ("penalty", "median"),
        ("gamma", "auto"),
        ("sweeps", 0),
        ("tolerance", -1.0),
        ("ridge", 0.0),
        ("seed", -1),
        ("kernel", "cauchy"),
    ],
)
def test_bad_settings(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{field} = "):
        LandmarkSpec(**{field: value})


@pytest.mark.parametrize("rows", [np.zeros((0, 2)), np.zeros(3), [[np.nan]]])
def test_bad_rows(rows: Any) -> None:
    with pytest.raises(ConfigError, match="rows"):
        choose_landmarks(LandmarkSpec(), rows)
