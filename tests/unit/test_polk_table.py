"""What POLK's mnist column rests on, on 10,000 rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.paper import polk as bench


@pytest.mark.nightly
def test_few_of_the_rows_tell_digits_apart(data_file: Callable[[str], Path]) -> None:
    data_file("mnist.npz")
    problem = bench.mnist(10_000, 2000)
    falling = bench.polk("hinge", 0.0, 16.0, 24.0, batch=1, decay_rows=1000, budget=1100)
    once, more = (bench.run(falling, problem, 5, passes) for passes in (1, 3))
    assert (once.order, more.order) == (1100, 1100)
    assert more.error < once.error < 0.075
    assert more.error < 0.063
