"""ALD-KRLS against the least squares that it is the recursion of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.krls_ald import recursive_squares
from benchmarks.krls_tracker import JITTER
from tests.parts import examples


@given(
    seed=st.integers(0, 2**32 - 1),
    level=st.sampled_from([0.01, 0.1, 0.5]),
    budget=st.sampled_from([3, 8, 60]),
)
@settings(max_examples=examples(30))
def test_weights_are_those_of_the_batch_problem(seed: int, level: float, budget: int) -> None:
    """min_α Σ_t (a_tᵀKα - y_t)²; a_t says a row by those that were stored when it came."""
    rng = np.random.default_rng(seed)
    rows, targets = rng.normal(size=(60, 2)), rng.normal(size=60)
    stored: list[int] = []
    parts = np.zeros((59, 60))

    def kernel(left: list[int], right: list[int]) -> np.ndarray:
        gaps = ((rows[left][:, None] - rows[right][None]) ** 2).sum(axis=2)
        return np.asarray(np.exp(-gaps / 2.0) + JITTER * (gaps == 0.0))

    for t in range(59):
        near = kernel(stored, [t])[:, 0]
        along = np.linalg.solve(kernel(stored, stored), near)
        if 1.0 + JITTER - near @ along > level and len(stored) < budget:
            parts[t, len(stored)] = 1.0
            stored.append(t)
        else:
            parts[t, : len(stored)] = along
    design = parts[:, : len(stored)] @ kernel(stored, stored)
    weights = np.linalg.lstsq(design, targets[:59], rcond=None)[0]
    expected = float(kernel(stored, [59])[:, 0] @ weights)
    found = recursive_squares(rows, targets, budget, 1.0, level)
    assert found[59] == pytest.approx(expected, abs=1e-6)
