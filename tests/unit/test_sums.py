"""Sums in vector registers: the order of their terms is the one that is promised, to the bit."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError

import kerneltrack
from kerneltrack import sums

Array = npt.NDArray[np.float64]
Term = Callable[[float, float, float], float]


def fused(left: float, right: float, total: float) -> float:
    """Multiply and add exactly, then round once."""
    return float(Fraction(left) * Fraction(right) + Fraction(total))


TERMS: dict[str, Term] = {
    "dot": fused,
    "squared_distance": lambda left, right, total: fused(left - right, left - right, total),
    "absolute_distance": lambda left, right, total: total + abs(left - right),
    "entry_sum": lambda left, _, total: total + left,
    "absolute_sum": lambda left, _, total: total + abs(left),
}


def in_order(term: Term, left: Array, right: Array) -> float:
    """The module's order in plain Python: 4 x 8 sums, then 8, folded in halves."""

    def add(start: int, totals: list[float]) -> list[float]:
        pairs = zip(left[start:], right[start:], totals, strict=False)
        return [term(float(a), float(b), total) for a, b, total in pairs]

    count = len(left)
    totals = [[0.0] * 8 for _ in range(4)]
    for start in range(0, count - count % 32, 32):
        totals = [add(start + 8 * i, totals[i]) for i in range(4)]
    lanes: list[float] = [(a + b) + (c + d) for a, b, c, d in zip(*totals, strict=True)]
    for start in range(count - count % 32, count - count % 8, 8):
        lanes = add(start, lanes)
    width = 8
    while width > 1:
        width //= 2
        lanes = [lanes[i] + lanes[i + width] for i in range(width)]
        if count & width:
            lanes = add(count - count % (2 * width), lanes)
    return float(lanes[0])


def _five_sums(left: Array, right: Array, count: int) -> tuple[float, float, float, float, float]:
    return (
        sums.dot(left, right, count),
        sums.squared_distance(left, right, count),
        sums.absolute_distance(left, right, count),
        sums.entry_sum(left, count),
        sums.absolute_sum(left, count),
    )


def _fused_entries(left: Array, right: Array, totals: Array) -> None:
    for i in range(len(totals)):
        totals[i] = sums.fused(left[i], right[i], totals[i])


five_sums: Any = numba.njit(_five_sums)
fused_entries: Any = numba.njit(_fused_entries)


@pytest.mark.parametrize("count", [*range(35), 39, 40, 63, 64, 100, 127, 300])
def test_a_sum_has_the_stated_order_wherever_its_rows_lie(count: int) -> None:
    random = np.random.default_rng(count)
    memory = random.normal(size=2 * count + 40) * 10.0 ** random.integers(-3, 4, 2 * count + 40)
    for first, gap in ((0, 0), (1, 0), (3, 5), (7, 1)):
        left = memory[first : first + count]
        right = memory[first + count + gap :][:count]
        # A row may be longer than the sum.
        found = five_sums(memory[first:], memory[first + count + gap :], count)
        for (name, term), value in zip(TERMS.items(), found, strict=True):
            assert value == in_order(term, left, right), name


def test_a_fused_product_is_rounded_once_in_loops_of_any_length() -> None:
    random = np.random.default_rng(0)
    for count in (1, 7, 8, 33):
        left, right, totals = random.normal(size=(3, count))
        expected = [fused(*map(float, row)) for row in zip(left, right, totals, strict=True)]
        fused_entries(left, right, totals)
        assert totals.tolist() == expected


def test_not_finite_terms_are_in_the_sum() -> None:
    row = np.ones(20)
    row[13] = np.nan
    assert np.isnan(five_sums(row, row, 20)).all()
    assert not np.isnan(five_sums(row, row, 13)).any()
    row[13] = np.inf
    assert five_sums(row, np.ones(20), 20) == (np.inf,) * 5


def test_a_sum_takes_contiguous_rows_only() -> None:
    rows = np.ones((3, 4))
    with pytest.raises(TypingError, match="two contiguous rows of float64"):
        five_sums(rows[:, 0], rows[0], 3)


def test_no_compiled_step_may_be_rounded_otherwise_than_it_is_written() -> None:
    found = 0
    for module in pkgutil.walk_packages(kerneltrack.__path__, "kerneltrack."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Dispatcher):
                found += 1
                assert not value.targetoptions.get("fastmath"), value
    assert found > 50
