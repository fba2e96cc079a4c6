"""The bounds: argument checks, coverage of Prop. 4, and Prop. 5 and 7 on solved problems."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.monitor import bounds
from tests.parts import examples


class Projected(NamedTuple):
    """Kernel matrix of random rows, of their projections on some landmarks, and residuals."""

    kernel: FloatArray
    approximate: FloatArray
    residuals: FloatArray


def projected(rng: np.random.Generator, count: int, gamma: float) -> Projected:
    rows = rng.normal(size=(count, 3))
    distances = np.sum((rows[:, None, :] - rows[None, :, :]) ** 2, axis=2)
    kernel = np.exp(-distances / gamma)
    landmarks = kernel[:, : max(count // 5, 1)]
    inverse = np.linalg.pinv(landmarks[: landmarks.shape[1]], rcond=1e-9, hermitian=True)
    approximate = landmarks @ inverse @ landmarks.T
    residuals = np.maximum(np.diag(kernel) - np.diag(approximate), 0.0)
    return Projected(kernel, approximate, residuals)


def mismatch(case: Projected) -> float:
    return float(np.linalg.norm(case.kernel - case.approximate)) / len(case.kernel)


problems = st.builds(
    lambda seed, count, gamma: projected(np.random.default_rng(seed), count, gamma),
    st.integers(0, 2**32),
    st.integers(2, 60),
    st.floats(0.1, 50.0),
)


@given(problems)
def test_the_sure_bounds_hold_in_their_order(case: Projected) -> None:
    energy = np.diag(case.kernel) - case.residuals
    trace = bounds.trace_bound(np.diag(case.kernel), energy)
    assert trace == pytest.approx(case.residuals.mean(), abs=1e-15)
    paper = bounds.fitting_bound(1.0, trace)
    assert mismatch(case) <= trace + 1e-12
    assert trace <= paper


def test_rounding_does_not_make_a_trace_bound_negative() -> None:
    assert bounds.trace_bound([1.0], [1.0 + 1e-15]) == 0.0


@given(st.integers(0, 2**32), st.floats(0.01, 10.0), st.floats(0.0, 10.0))
def test_the_papers_bound_holds_for_any_approximation(
    seed: int, scale: float, error: float
) -> None:
    rng = np.random.default_rng(seed)
    features = scale * rng.normal(size=(20, 4))
    near = features + error * rng.normal(size=(20, 4))
    actual = np.linalg.norm(features @ features.T - near @ near.T) / 20
    kappa, residual = np.mean([np.sum(features**2, 1), np.sum((features - near) ** 2, 1)], axis=1)
    assert actual <= bounds.fitting_bound(kappa, residual) + 1e-13 * kappa


def test_future_residual_has_the_margin_of_prop_4() -> None:
    # exp(-2Nt²) = 1 - confidence at N = 50, t = .1.
    confidence = 1 - math.exp(-1.0)
    assert bounds.future_residual(0.2, 50, confidence) == pytest.approx(0.3, rel=1e-14)
    assert bounds.future_residual(0.8, 50, confidence, 4.0) == pytest.approx(1.2, rel=1e-14)
    # As many observed as to come: half the rows' worth.
    assert bounds.future_residual(0.2, 100, confidence, observed=100) == pytest.approx(0.3)
    assert bounds.future_residual(0.2, 2, 0.999) == 1.0
    expected = bounds.fitting_bound(4.0, 1.2)
    assert bounds.future_mismatch(0.8, 50, confidence, 4.0) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("observed", [None, 40])
def test_future_residuals_are_covered(observed: int | None) -> None:
    """Residuals of 0 or 3: the widest spread there is for their range."""
    rng = np.random.default_rng(1)
    trials, rows, confidence = 4000, 25, 0.8
    future = 3.0 * rng.binomial(rows, 0.5, trials) / rows
    seen = (
        np.full(trials, 1.5)
        if observed is None
        else 3.0 * rng.binomial(observed, 0.5, trials) / observed
    )
    held = [
        later <= bounds.future_residual(mean, rows, confidence, 3.0, observed)
        for later, mean in zip(future, seen, strict=True)
    ]
    assert confidence <= np.mean(held) < 1.0


@settings(max_examples=examples(40))
@given(problems, st.integers(0, 2**32), st.sampled_from([0.1, 1.0, 10.0, 100.0]))
def test_prop_5_bounds_the_weights_of_batch_svms(
    case: Projected, seed: int, penalty: float
) -> None:
    count = len(case.kernel)
    labels = np.where(np.random.default_rng(seed).random(count) < 0.5, -1.0, 1.0)
    labels[:2] = -1.0, 1.0

    def weights(matrix: FloatArray) -> FloatArray:
        machine = SVC(C=penalty / count, kernel="precomputed", tol=1e-8).fit(matrix, labels)
        dual = np.zeros(count)
        dual[machine.support_] = machine.dual_coef_[0]
        return dual

    exact, near = weights(case.kernel), weights(case.approximate)
    # <φ_i, φ̂_j> = <φ̂_i, φ̂_j>: φ̂ is the orthogonal projection.
    gap = exact @ case.kernel @ exact + (near - 2 * exact) @ case.approximate @ near
    # The solver stops at a dual gap of about tol · C.
    slack = 1e-6 * penalty
    assert gap <= bounds.svm_weight_bound(case.residuals, penalty) + slack


class Ridge(NamedTuple):
    """One pair of ridge regressions: ‖β - β̂‖ and what bounds it."""

    gap: float
    largest: float
    ridge: float
    rows: int
    residual: float
    mismatch: float

    @property
    def printed(self) -> float:
        """The right side of eq. 40, which is to bound ‖β - β̂‖²."""
        return self.largest / self.ridge**2 * bounds.fitting_bound(1.0, self.residual)


def ridge_pair(rng: np.random.Generator, scale: float, ridge: float) -> Ridge:
    count = int(rng.integers(2, 60))
    case = projected(rng, count, float(rng.choice([0.3, 3.0, 30.0])))
    targets = scale * rng.uniform(-1, 1, size=count)
    lift = ridge * count * np.eye(count)
    gap = np.linalg.solve(case.kernel + lift, targets) - np.linalg.solve(
        case.approximate + lift, targets
    )
    return Ridge(
        float(np.linalg.norm(gap)),
        float(np.abs(targets).max()),
        ridge,
        count,
        float(case.residuals.mean()),
        mismatch(case),
    )


@given(
    st.integers(0, 2**32),
    st.sampled_from([1e-3, 1.0, 1e3, 1e6]),
    st.sampled_from([1e-4, 1e-2, 1.0]),
)
def test_the_corrected_prop_7_bounds_ridge_coefficients(
    seed: int, scale: float, ridge: float
) -> None:
    pair = ridge_pair(np.random.default_rng(seed), scale, ridge)
    paper = bounds.fitting_bound(1.0, pair.residual)
    for certificate in (pair.mismatch, pair.residual, paper):
        bound = bounds.ridge_weight_bound(certificate + 1e-12, pair.largest, ridge, pair.rows)
        assert pair.gap <= bound * (1 + 1e-9)


def test_prop_7_as_printed_has_counterexamples() -> None:
    """Also with t = 0 left out of it: ē is the rows' own mean, nothing is left to chance."""
    rng = np.random.default_rng(0)
    pairs = [ridge_pair(rng, scale=1e6, ridge=1e-2) for _ in range(50)]
    broken = [pair for pair in pairs if pair.gap**2 > pair.printed]
    assert len(broken) > 40
    for pair in broken:
        x = bounds.fitting_bound(1.0, pair.residual)
        assert pair.gap <= bounds.ridge_weight_bound(x, pair.largest, pair.ridge, pair.rows)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: bounds.trace_bound([1.0], [0.5, 0.5]), "energy"),
        (lambda: bounds.trace_bound([], []), "own"),
        (lambda: bounds.trace_bound([[1.0]], [[1.0]]), "own"),
        (lambda: bounds.trace_bound([1.0], [math.nan]), "energy"),
        (lambda: bounds.fitting_bound(-1.0, 0.5), "kappa"),
        (lambda: bounds.fitting_bound(1.0, math.inf), "residual"),
        (lambda: bounds.fitting_bound(1.0, True), "residual"),
        (lambda: bounds.future_residual(1.5, 10, 0.9), "residual"),
        (lambda: bounds.future_residual(0.5, 0, 0.9), "rows"),
        (lambda: bounds.future_residual(0.5, 10, 1.0), "confidence"),
        (lambda: bounds.future_residual(0.5, 10, 0.0), "confidence"),
        (lambda: bounds.future_residual(0.5, 10, 0.9, 0.0), "largest"),
        (lambda: bounds.future_residual(0.5, 10, 0.9, observed=0), "observed"),
        (lambda: bounds.future_mismatch(math.nan, 10, 0.9), "residual"),
        (lambda: bounds.svm_weight_bound([-0.1], 1.0), "residuals"),
        (lambda: bounds.svm_weight_bound([0.1], 0.0), "penalty"),
        (lambda: bounds.ridge_weight_bound(-0.1, 1.0, 1.0, 10), "mismatch"),
        (lambda: bounds.ridge_weight_bound(0.1, -1.0, 1.0, 10), "largest_target"),
        (lambda: bounds.ridge_weight_bound(0.1, 1.0, 0.0, 10), "ridge"),
        (lambda: bounds.ridge_weight_bound(0.1, 1.0, 1.0, 0), "rows"),
    ],
)
def test_a_wrong_argument_is_named(call: Callable[[], float], field: str) -> None:
    with pytest.raises(ConfigError, match=f"^{field} = "):
        call()
