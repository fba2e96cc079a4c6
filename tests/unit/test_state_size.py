"""The bytes of a state: the documented formula, for the model's whole life."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kerneltrack import codec
from kerneltrack.specs import KERNELS
from kerneltrack.trackers import OKFE, OKFEB, OKFEBSpec, OKFESpec
from tests.oracles.streams import walk


def formula(slots: int, width: int, rank: int, window: int) -> int:
    """8(W(D + 2r + W) + rP + r² + 2C + 2D + window + 17), of `SubspaceState`'s docstring."""
    columns, directions = -(-slots // 4) * 4, -(-rank // 4) * 4
    tables = columns * (width + 2 * rank + columns) + rank * directions + rank**2
    return 8 * (tables + 2 * slots + 2 * width + window + 17)


def bytes_of(state: Any) -> int:
    return sum(array.nbytes for array in state)


def test_a_million_rows_leave_the_size_as_it_was() -> None:
    spec = OKFEBSpec(rank=2, budget=3, gamma=2.0, standardise=False, emit="q", novelty_window=100)
    tracker = OKFEB()
    rows = walk(0, 50_000, 2)
    state = tracker.init(spec, rows[:1])
    expected = formula(4, 2, 2, 100)
    assert bytes_of(state) == expected
    shapes = [array.shape for array in state]
    lengths = set()
    for _ in range(20):
        state, features = tracker.update(spec, state, rows)
        assert bytes_of(state) == expected
        assert [array.shape for array in state] == shapes
        lengths.add(len(codec.encode(spec, state)))
    assert state.n == 1_000_000 and features.valid.all()
    assert np.isfinite(features.loss).all() and state.counts[6] == 0
    assert len(lengths) == 1


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("rank", "budget", "width", "warmup", "window"),
    [(1, 1, 1, 2, 100), (3, 5, 4, 50, 256), (10, 15, 39, 500, 1000)],
)
def test_formula(kernel: str, rank: int, budget: int, width: int, warmup: int, window: int) -> None:
    spec = OKFEBSpec(rank=rank, budget=budget, kernel=kernel, warmup=warmup, novelty_window=window)
    rows = walk(1, 60, width)
    state = OKFEB().init(spec, rows[:warmup])
    expected = formula(budget + 1, width, rank, window)
    assert bytes_of(state) == expected
    state, _ = OKFEB().update(spec, state, rows)
    assert bytes_of(state) == expected


def test_the_unbudgeted_tracker_grows_with_what_it_stores() -> None:
    spec = OKFESpec(rank=2, gamma=2.0, standardise=False, novelty_window=100)
    tracker = OKFE()
    rows = walk(2, 90, 3)
    state = tracker.init(spec, rows[:1])
    for n in range(0, 90, 30):
        state, _ = tracker.update(spec, state, rows[n : n + 30])
        assert state.size == n + 30
        assert bytes_of(state) == formula(n + 32, 3, 2, 100)


@pytest.mark.parametrize("rule", ["parametric", "nonparametric"])
@pytest.mark.parametrize("step", ["normalised", "inverse_norm", "inverse_n2", "majorised"])
def test_a_billion_rows_break_nothing(rule: str, step: str) -> None:
    """Row numbers enter steps and λ/n: the tracker goes on as if only they had grown."""
    spec = OKFEBSpec(rank=2, budget=4, gamma=2.0, standardise=False, rule=rule, step=step)
    tracker = OKFEB()
    rows = walk(3, 400, 2)
    state, _ = tracker.update(spec, tracker.init(spec, rows[:1]), rows[:100])
    counts = state.counts.copy()
    counts[[0, 2]] = 10**9
    late = state._replace(counts=counts, born=state.born + 10**9 - 100)
    after, features = tracker.update(spec, late, rows[100:])
    assert after.n == 10**9 + 300
    assert features.index.tolist() == list(range(10**9, 10**9 + 300))
    assert features.z is not None and np.isfinite(features.z).all()
    assert ((features.loss >= 0) & (features.loss <= 1)).all()
    assert ((features.novelty >= 0) & (features.novelty <= 1)).all()
    assert after.counts[6] == state.counts[6]
    assert all(np.isfinite(array).all() for array in after)
    gone = features.evicted[features.evicted >= 0]
    assert (gone >= 10**9 - 100).all()
    if step in ("normalised", "inverse_norm"):
        # λ/n was small already: rows are fitted as well as they were at n = 100.
        _, young = tracker.update(spec, state, rows[100:])
        assert features.loss.mean() == pytest.approx(young.loss.mean(), rel=0.1)
