"""exp, log, sine and cosine of the compiled loops against 60 digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt
import pytest

from kerneltrack.native.elementary import elementary

Array = npt.NDArray[np.float64]
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")


def sine(x: Decimal) -> Decimal:
    """The sum of Taylor's series, of |x| < 10 good to 50 digits."""
    total = term = x
    for k in range(1, 60):
        term = -term * x * x / (2 * k * (2 * k + 1))
        total += term
    return total


EXACT: dict[str, Callable[[Decimal], Decimal]] = {
    "exp": Decimal.exp,
    "log": Decimal.ln,
    "sin": sine,
    "cos": lambda x: sine(PI / 2 - x),
}


def errors(name: str, x: Array) -> Array:
    """Distances from the exact values, in units in their last place."""
    with localcontext() as context:
        context.prec = 60
        exact = [EXACT[name](Decimal(value)) for value in x.tolist()]
        found = [Decimal(value) for value in elementary(name, x).tolist()]
        far = [abs(a - b) for a, b in zip(found, exact, strict=True)]
    return np.array(
        [float(gap) / math.ulp(float(value)) for gap, value in zip(far, exact, strict=True)]
    )


def spread(low: float, high: float, count: int = 3000) -> Array:
    return np.random.default_rng(0).uniform(low, high, count)


# What elementary.h promises; a half is what rounding an exact value costs.
@pytest.mark.parametrize(
    ("name", "x", "most"),
    [
        ("exp", spread(-708, 709), 1.0),
        ("exp", spread(-1, 1), 1.0),
        ("log", 10.0 ** spread(-300, 300), 1.0),
        ("log", spread(0.4, 2.5), 1.0),
        ("log", 1.0 + 2.0 ** spread(-52, -3), 1.0),
        ("log", 1.0 - 2.0 ** spread(-53, -3), 1.0),
        ("sin", spread(-8, 8), 1.6),
        ("sin", 2.0 ** spread(-60, 0), 1.0),
        ("cos", spread(-8, 8), 1.6),
        # The doubles beside multiples of π/2, where one of the two is all but nothing.
        ("sin", np.arange(-5, 6) * (math.pi / 2), 1.6),
        ("cos", np.arange(-5, 6) * (math.pi / 2), 1.6),
    ],
)
def test_errors_are_those_that_are_promised(name: str, x: Array, most: float) -> None:
    assert errors(name, x).max() <= most


def test_the_cosine_of_turns() -> None:
    turns = np.concatenate([np.linspace(-3, 3, 4001), spread(-50, 50), [1e15, -(2.0**60), 1e300]])
    found = elementary("cosine_of_turns", turns)
    # Of the part of a turn that is left, found exactly.
    part = turns - np.rint(turns)
    with localcontext() as context:
        context.prec = 60
        exact = [sine(PI / 2 - 2 * PI * Decimal(value)) for value in part.tolist()]
        far = [abs(Decimal(a) - b) for a, b in zip(found.tolist(), exact, strict=True)]
    assert float(max(far)) < 1.2e-15
    assert np.abs(found).max() <= 1.0
    assert np.isnan(elementary("cosine_of_turns", [math.nan, math.inf, -math.inf])).all()


def test_the_ends_of_the_exponential() -> None:
    ends = elementary("exp", [-math.inf, -708.1, 0.0, 709.1, math.inf])
    assert ends.tolist() == [0.0, 0.0, 1.0, math.inf, math.inf]
    assert math.isnan(elementary("exp", [math.nan])[0])
