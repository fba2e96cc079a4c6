"""Kernels against their formulas, and the median trick."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kerneltrack.errors import ConfigError
from kerneltrack.kernels import (
    MAX_MEDIAN_ROWS,
    gram,
    make_kernel,
    median_bandwidth,
)
from kerneltrack.specs import KERNELS

Array = npt.NDArray[np.float64]
EPS = 2.0**-52


def formula(name: str, x: Array, y: Array, gamma: float, degree: int, offset: float) -> float:
    values = {
        "gaussian": np.exp(-np.sum((x - y) ** 2) / gamma),
        "laplacian": np.exp(-np.sum(np.abs(x - y)) / gamma),
        "polynomial": (x @ y + offset) ** degree,
        "linear": x @ y,
    }
    return float(values[name])


vectors = hnp.arrays(
    np.float64, st.shared(st.integers(1, 6), key="width"), elements=st.floats(-9, 9)
)


@pytest.mark.parametrize("name", KERNELS)
@given(
    x=vectors,
    y=vectors,
    gamma=st.floats(0.1, 50),
    degree=st.integers(1, 5),
    offset=st.floats(0, 3),
)
def test_values_are_the_formulas(
    name: str, x: Array, y: Array, gamma: float, degree: int, offset: float
) -> None:
    kernel = make_kernel(name, gamma, degree, offset)
    expected = formula(name, x, y, gamma, degree, offset)
    # D products in a sum, then a power; a radial kernel's t·exp(-t) is at most 1/e.
    size = float(np.abs(x) @ np.abs(y))
    terms: dict[str, float] = {
        "linear": size,
        "polynomial": degree * (size + offset) ** degree,
    }
    allowed = (len(x) + 8) * EPS * (1 + terms.get(name, 1.0))
    value = gram(kernel, x[None], y[None])[0, 0]
    assert abs(value - expected) <= allowed
    assert gram(kernel, y[None], x[None])[0, 0] == value


@pytest.mark.parametrize("name", KERNELS)
def test_matrices_are_positive_semidefinite(name: str) -> None:
    rows = np.random.default_rng(0).normal(size=(30, 4))
    matrix = gram(make_kernel(name, 2.0, 3, 0.5), rows, rows)
    assert np.array_equal(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() >= -30 * EPS * np.trace(matrix)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 9])
def test_a_value_does_not_depend_on_those_beside_it(name: str, count: int) -> None:
    generator = np.random.default_rng(3)
    rows, columns = generator.normal(size=(2, 7)), generator.normal(size=(count, 7))
    kernel = make_kernel(name, 2.0, 3, 0.5)
    alone = [[gram(kernel, [x], [y])[0, 0] for y in columns] for x in rows]
    assert np.array_equal(gram(kernel, rows, columns), np.array(alone).reshape(2, count))


@pytest.mark.parametrize(
    ("rows", "columns", "field"),
    [
        (np.ones(3), np.ones((1, 3)), "rows"),
        (np.ones((1, 3)), np.ones((1, 2)), "columns"),
        (np.ones((1, 3)), np.ones((1, 4)), "columns"),
    ],
)
def test_rows_of_two_widths_are_refused(rows: Array, columns: Array, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        gram(make_kernel("linear"), rows, columns)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "rbf"),
        ("gamma", 0.0),
        ("gamma", float("nan")),
        ("gamma", float("inf")),
        ("degree", 0),
        ("degree", 21),
        ("offset", -0.1),
        ("offset", float("inf")),
    ],
)
def test_bad_numbers_are_named(field: str, value: Any) -> None:
    arguments: dict[str, Any] = {"name": "polynomial", field: value}
    with pytest.raises(ConfigError) as caught:
        make_kernel(**arguments)
    assert caught.value.field == ("kernel" if field == "name" else field)


@pytest.mark.parametrize("name", ["gaussian", "laplacian"])
def test_median_trick_is_the_median_over_pairs(name: str) -> None:
    rows = np.random.default_rng(1).normal(size=(40, 3))
    gaps = rows[:, None] - rows[None]
    far = (gaps**2).sum(axis=2) if name == "gaussian" else np.abs(gaps).sum(axis=2)
    expected = np.median(far[np.triu_indices(40, 1)])
    assert median_bandwidth(name, rows) == pytest.approx(expected, rel=8 * EPS)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (np.ones((5, 2)), 1.0),
        (np.ones((1, 2)), 1.0),
        # 10 pairs of equal rows, 5 with ‖x - y‖² = 9: the median of the others.
        (np.array([[0.0]] * 5 + [[3.0]]), 9.0),
        (np.array([[1e200], [-1e200], [1e200]]), 1.0),
    ],
)
def test_median_trick_survives_degenerate_rows(rows: Array, expected: float) -> None:
    assert median_bandwidth("gaussian", rows) == expected


def test_median_trick_looks_at_a_bounded_number_of_rows() -> None:
    rows = np.random.default_rng(2).normal(size=(3 * MAX_MEDIAN_ROWS, 2))
    chosen = rows[np.linspace(0, len(rows) - 1, MAX_MEDIAN_ROWS).astype(int)]
    assert median_bandwidth("gaussian", rows) == median_bandwidth("gaussian", chosen)
