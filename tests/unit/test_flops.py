"""The flop counts in the docstrings: each tracker and learner has one that can be read."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.flops import flops_of
from kerneltrack.registry import LEARNERS, TRACKERS

SIZES = {"r": 3, "B": 5, "D": 2, "m": 5, "F": 16, "T": 4, "p": 3, "C": 2, "M": 5, "W": 7}
PARTS: dict[str, Any] = {**TRACKERS, **LEARNERS}


@pytest.mark.parametrize("name", PARTS)
def test_every_part_says_its_flops(name: str) -> None:
    count = flops_of(PARTS[name], SIZES)
    assert count > 0
    doubled = {letter: 2 * size for letter, size in SIZES.items()}
    assert flops_of(PARTS[name], doubled) > count


def test_a_count_is_what_it_says() -> None:
    # 3BD + 10B + 18Br + 25r² + 2B²r/64 + Br²/64 + 10r³/64
    expected = 30 + 50 + 270 + 225 + (150 + 45 + 270) / 64
    assert flops_of(PARTS["okfeb"], SIZES) == pytest.approx(expected, rel=1e-15)
    # 3BD + 10B + 28B² + 39Br + 31r² + 2r³/3 + 4B²r/3 + 13Br²/3 + 26r³/3 + 4B³/64
    expected = 30 + 50 + 700 + 585 + 279 + 18 + (300 + 585 + 702) / 3 + 500 / 64
    assert flops_of(PARTS["covariance"], SIZES) == pytest.approx(expected, rel=1e-15)
    # 4Cp + 20C
    assert flops_of(PARTS["logistic"], SIZES) == 24 + 40
    with pytest.raises(ValueError, match="no flops in the docstring"):
        flops_of(0, SIZES)
