"""Which SV goes: the policies' formulas, their ties, and what they promise."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from kerneltrack.in_memory import run_all
from kerneltrack.trackers import OKFEB
from tests.oracles import okfeb as oracle
from tests.oracles.streams import small_spec, walk

Array = npt.NDArray[np.float64]
TRACKER = OKFEB()


def test_fifo_drops_the_oldest() -> None:
    state, features = run_all(small_spec(policy="fifo"), walk(0, 60, 3))
    assert features.evicted.tolist() == [-1] * 6 + list(range(54))
    assert sorted(state.born[: state.size]) == list(range(54, 60))


def test_strong_forgetting_is_fifo() -> None:
    """β → 0: only age counts (section V-B2), once the rows that filled the budget are gone.

    Those have one η: ages differ only from the first overflow on (Alg. 5).
    """
    _, features = run_all(small_spec(forgetting=1e-12), walk(0, 60, 3))
    assert sorted(features.evicted[6:12]) == list(range(6))
    assert features.evicted[12:].tolist() == list(range(6, 54))


def test_recency_ages_on_overflow_only() -> None:
    state, _ = run_all(small_spec(forgetting=0.5), walk(1, 6, 3))
    assert state.recency[:6].tolist() == [1.0] * 6
    state, _ = run_all(small_spec(forgetting=0.5, policy="fifo"), walk(1, 9, 3))
    ages = dict(zip(state.born[:6].tolist(), state.recency[:6].tolist(), strict=True))
    assert ages == {3: 0.125, 4: 0.125, 5: 0.125, 6: 0.25, 7: 0.5, 8: 1.0}


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_minimum_distortion_is_the_smallest_norm_where_kernels_are_one(kernel: str) -> None:
    """κ(x,x) = 1: eq. 24 and eq. 25 choose alike, so the runs are the same bits."""
    rows = walk(2, 150, 3)
    _, distortion = run_all(small_spec(kernel=kernel, policy="distortion"), rows)
    _, norm = run_all(small_spec(kernel=kernel, forgetting=1.0), rows)
    assert np.array_equal(distortion.evicted, norm.evicted)
    assert np.array_equal(distortion.loss, norm.loss)


@pytest.mark.parametrize("kernel", ["polynomial", "linear"])
def test_minimum_distortion_differs_elsewhere_and_enumerates_eq_24(kernel: str) -> None:
    rows = walk(3, 150, 5)
    _, norm = run_all(small_spec(kernel=kernel, forgetting=1.0), rows)
    _, distortion = run_all(small_spec(kernel=kernel, policy="distortion"), rows)
    assert not np.array_equal(distortion.evicted, norm.evicted)


def test_compensation_costs_no_more_than_dropping() -> None:
    """Projecting φ_i first can only lower the distortion of L."""
    spec = small_spec(policy="compensated")
    rows = walk(4, 80, 3)
    state = TRACKER.init(spec, rows[:1])
    state, _ = TRACKER.update(spec, state, rows[:40])
    for n in range(40, 80):
        model = oracle.from_state(spec, state)
        candidate = model.update(rows[n]).candidate
        assert candidate is not None
        for i, cost in enumerate(candidate.costs()):
            plain = candidate.distortion(candidate.without(i))
            assert cost <= plain * (1 + 1e-9)
        state, _ = TRACKER.update(spec, state, rows[n : n + 1])


def test_compensation_drops_one_of_two_twins_for_free() -> None:
    """The other one carries all of it, so L stays what it was."""
    spec = small_spec(policy="compensated", rank=2, budget=4)
    rows = walk(5, 4, 3)
    state, _ = run_all(spec, rows)
    after, features = TRACKER.update(spec, state, rows[1:2])
    assert features.evicted[0] in (1, 4)
    candidate = oracle.from_state(spec, state).update(rows[1]).candidate
    assert candidate is not None
    probe = walk(6, 10, 3)
    whole = candidate.kernel(probe, candidate.stored) @ candidate.factor
    kept = oracle.from_state(spec, after)
    # K's diagonal is lifted by 1e-10 to be inverted: so much of a_i stays behind.
    left = kept.kernel(probe, kept.stored) @ kept.factor
    assert np.abs(left - whole).max() <= 1e-5 * np.abs(candidate.factor).max()


def test_ties_go_to_the_lowest_slot() -> None:
    """All rows of A equal in norm: rank one, one seed for all, nothing moves (μ → 0)."""
    spec = small_spec(rank=1, budget=3, step="inverse_n", step_size=1e-300, forgetting=1.0)
    state, _ = run_all(spec, walk(7, 3, 2))
    level = state.factor.copy()
    level[:, :3] = 0.5
    state = state._replace(factor=level, image=(state.gram @ level.T).T.copy())
    # The row that comes enters with a row of A near zero, and leaves at once...
    after, features = TRACKER.update(spec, state, walk(8, 1, 2))
    assert features.evicted.tolist() == [3] and after.counts[5] == 1
    # ... unless all are zero: then the first of the equals goes.
    level[:] = 0.0
    bare = state._replace(factor=level, image=level.copy(), seeds=np.zeros((1, 1)))
    bare = bare._replace(frame=np.eye(1, 4) * spec.ridge**-0.5)
    _, features = TRACKER.update(spec, bare, walk(8, 1, 2))
    assert features.evicted.tolist() == [0]


@pytest.mark.parametrize("policy", ["norm", "fifo", "distortion", "compensated"])
def test_the_budget_is_never_exceeded_and_always_used(policy: str) -> None:
    spec = small_spec(policy=policy, budget=5)
    rows = walk(9, 40, 3)
    state = TRACKER.init(spec, rows[:1])
    stored: set[int] = set()
    for n in range(len(rows)):
        state, features = TRACKER.update(spec, state, rows[n : n + 1])
        stored |= {n}
        gone = int(features.evicted[0])
        assert (gone >= 0) == (n >= 5)
        stored -= {gone}
        assert state.size == min(n + 1, 5)
        assert set(state.born[: state.size].tolist()) == stored
        by_age = dict(zip(state.born[: state.size].tolist(), state.support, strict=False))
        assert all(np.array_equal(row, rows[b]) for b, row in by_age.items())
    expected = oracle.from_state(spec, state)
    size = state.size
    stored_kernel = expected.kernel(expected.stored, expected.stored)
    assert state.gram[:size, :size] == pytest.approx(stored_kernel, abs=1e-15)
    image = stored_kernel @ expected.factor
    assert state.image[:, :size].T == pytest.approx(image, abs=1e-13 * np.abs(image).max() * 8)
