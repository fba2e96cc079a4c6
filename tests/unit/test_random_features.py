"""Random features: the draws against NumPy's generator, the kernels against their closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from kerneltrack.trackers.doubly.random_features import (
    feature_rows,
    make_feature_map,
)
from kerneltrack.trackers.doubly.spec import FEATURE_KERNELS, POSITIVE
from tests.oracles.doubly import frequencies, kernel_value
from tests.parts import examples

Array = npt.NDArray[np.float64]
SIGNS = {"polynomial", "linear"}


def rows_for(name: str, seed: int, count: int, width: int) -> Array:
    rows = np.random.default_rng(seed).normal(size=(count, width))
    return np.abs(rows) if name in POSITIVE else rows


@settings(max_examples=examples(60))
@given(
    name=st.sampled_from([n for n in FEATURE_KERNELS if n not in SIGNS]),
    seed=st.integers(0, 2**63 - 1),
    which=st.integers(0, 3),
    first=st.integers(0, 2**40),
    width=st.integers(1, 9),
    gamma=st.floats(0.05, 50.0),
)
def test_the_features_are_those_of_the_draws(
    name: str, seed: int, which: int, first: int, width: int, gamma: float
) -> None:
    rows = rows_for(name, 1, 4, width)
    found = feature_rows(make_feature_map(name, seed, which, gamma), rows, first, 5)
    for j in range(5):
        omega, phase = frequencies(name, seed, which, first + j, width, gamma)
        along = rows @ omega
        # Rounding of ωᵀx itself, which the cosine hands on.
        slack = 1e-14 * (1 + np.abs(rows) @ np.abs(omega))
        if name in POSITIVE:
            expected = np.exp(-along)
        elif name.startswith("arccosine"):
            order = int(name[-1])
            expected = np.where(along > 0, math.sqrt(2) * along**order, 0.0)
            slack = slack * (1 + np.abs(along)) ** 2
        else:
            expected = math.sqrt(2) * np.cos(along + phase)
        assert (np.abs(found[:, j] - expected) <= slack).all()


@pytest.mark.parametrize("name", FEATURE_KERNELS)
@pytest.mark.parametrize("gamma", [0.7, 3.0])
def test_products_of_features_have_the_kernels_mean(name: str, gamma: float) -> None:
    rows = 0.8 * rows_for(name, 2, 5, 3)
    count = 200_000
    phi = feature_rows(make_feature_map(name, 9, 0, gamma, 3, 0.5), rows, 0, count)
    for i in range(5):
        for j in range(i):
            products = phi[i] * phi[j]
            expected = kernel_value(name, rows[i], rows[j], gamma, 3, 0.5)
            deviation = products.std() / math.sqrt(count)
            assert abs(products.mean() - expected) < 5 * deviation
    if name not in SIGNS | POSITIVE and not name.startswith("arc"):
        # Of cosines, κ(x, x) = 1.
        assert abs(np.mean(phi[0] ** 2) - 1) < 5 * math.sqrt(0.5 / count)


@pytest.mark.parametrize("name", FEATURE_KERNELS)
def test_a_feature_is_the_same_in_any_block_and_sets_differ(name: str) -> None:
    rows = rows_for(name, 3, 3, 4)
    features = make_feature_map(name, 5, 0, 2.0)
    whole = feature_rows(features, rows, 10, 20)
    for first in (10, 17, 29):
        assert feature_rows(features, rows, first, 1).tobytes() == whole[:, [first - 10]].tobytes()
    other = feature_rows(make_feature_map(name, 5, 1, 2.0), rows, 10, 20)
    assert not np.array_equal(other, whole)
    assert abs(np.corrcoef(other.ravel(), whole.ravel())[0, 1]) < 0.6


def test_signs_are_signs_and_even() -> None:
    eye = np.eye(70)
    found = feature_rows(make_feature_map("linear", 4), eye, 0, 3000)
    assert set(np.unique(found)) == {-1.0, 1.0}
    # Binomial(3000, ½) for each channel.
    assert np.abs(found.mean(axis=1)).max() < 5 / math.sqrt(3000)
    assert np.abs(found @ found.T / 3000 - eye).max() < 5 / math.sqrt(3000)


def test_rows_that_are_no_matrix_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^rows = "):
        feature_rows(make_feature_map("gaussian", 0), np.ones(3), 0, 4)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("kernel", {"name": "sinc"}),
        ("gamma", {"gamma": 0.0}),
        ("gamma", {"gamma": math.inf}),
        ("degree", {"degree": 0}),
        ("offset", {"offset": -1.0}),
    ],
)
def test_bad_settings(field: str, values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{field} = "):
        make_feature_map(**{"name": "gaussian", "seed": 0, **values})
