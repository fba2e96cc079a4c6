"""What z is: an isometry of the paper's features in a frame that moves as little as it can."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerneltrack.in_memory import run_all
from kerneltrack.specs import KERNELS
from kerneltrack.trackers import OKFEB, OKFEBSpec
from tests.oracles import okfeb as oracle
from tests.oracles.streams import walk

Array = npt.NDArray[np.float64]
TRACKER = OKFEB()
EPS = 2.0**-52


def spec_of(kernel: str = "gaussian", **fields: Any) -> OKFEBSpec:
    sizes: dict[str, Any] = {"rank": 4, "budget": 8, "gamma": 6.0, "standardise": False}
    return OKFEBSpec(kernel=kernel, **(sizes | fields))


def lengths_of_factor(model: Any) -> float:
    """Σκ(s,s)‖a_s‖², the scale that rounding in M is measured by."""
    stored = np.diag(model.kernel(model.stored, model.stored))
    return float(stored @ (model.factor**2).sum(axis=1))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rule", ["parametric", "nonparametric"])
def test_inner_products_are_those_of_the_approximated_kernel(kernel: str, rule: str) -> None:
    """K̂ = QᵀMQ = SᵀS = ZᵀZ (eq. 31) under one subspace."""
    spec = spec_of(kernel, rule=rule, budget=4)
    state, _ = run_all(spec, walk(0, 90, 5))
    features = TRACKER.project(spec, state, walk(1, 25, 5), ("q", "s"))
    assert features.z is not None and features.q is not None and features.s is not None
    model = oracle.from_state(spec, state)
    expected = features.q @ model.inner @ features.q.T
    # M differs between the sides by rounding of its terms; with S of full rank so does K^{1/2}.
    moved = 64 * EPS * lengths_of_factor(model) * (features.q**2).sum(axis=1).max()
    assert np.abs(features.z @ features.z.T - expected).max() <= moved
    assert np.abs(features.s @ features.s.T - expected).max() <= moved


@pytest.mark.parametrize("start", ["rows", "rank_one"])
def test_the_frame_is_a_root_of_m_and_the_mapping_follows_it(start: str) -> None:
    spec = spec_of(start=start, rule="nonparametric")
    rows = walk(2, 200, 3)
    state = TRACKER.init(spec, rows[:1])
    for low in range(0, len(rows), 10):
        state, _ = TRACKER.update(spec, state, rows[low : low + 10])
        model = oracle.from_state(spec, state)
        allowed = 64 * EPS * lengths_of_factor(model)
        assert np.abs(state.frame.T @ state.frame - model.inner).max() <= allowed
        regularised = model.inner + model.ridge * np.eye(spec.rank)
        expected = np.linalg.solve(regularised, state.frame.T).T
        relative = 64 * EPS * np.linalg.cond(regularised) * np.abs(expected).max()
        assert np.abs(state.mapping - expected).max() <= relative
        assert np.array_equal(state.solver, state.solver_t.T)


def subspace_features(model: Any, frame: Array, rows: Array) -> Array:
    """T(M + λI)⁻¹Aᵀκ(S, rows), one row each."""
    k = model.kernel(model.stored, rows)
    regularised = model.inner + model.ridge * np.eye(len(frame))
    return np.asarray((frame @ np.linalg.solve(regularised, model.factor.T @ k)).T)


@pytest.mark.parametrize(
    ("kernel", "policy"), list(itertools.product(KERNELS, ["norm", "fifo", "compensated"]))
)
def test_an_update_moves_the_svs_features_least(kernel: str, policy: str) -> None:
    """No rotation brings z of the SVs that stay nearer to what it was (orthogonal Procrustes)."""
    spec = spec_of(kernel, policy=policy)
    rows = walk(3, 120, 5)
    state = TRACKER.init(spec, rows[:1])
    state, _ = TRACKER.update(spec, state, rows[:20])
    for n in range(20, len(rows)):
        before = oracle.from_state(spec, state)
        old_frame = state.frame
        state, _ = TRACKER.update(spec, state, rows[n : n + 1])
        after = oracle.from_state(spec, state)
        stay = after.stored
        old = subspace_features(before, old_frame, stay)
        new = subspace_features(after, state.frame, stay)
        best = subspace_features(after, oracle.nearest_frame(old, new, state.frame), stay)
        moved, least = ((new - old) ** 2).sum(), ((best - old) ** 2).sum()
        # The polar iteration stops 1e-13 from the rotation; z carries the solver's rounding.
        regularised = after.inner + after.ridge * np.eye(spec.rank)
        relative = 1e-13 + 64 * EPS * np.linalg.cond(regularised)
        assert moved <= least + relative * ((old**2).sum() + (new**2).sum())


def test_without_z_the_subspace_is_the_same() -> None:
    rows = walk(5, 150, 3)
    lean_state, lean = run_all(spec_of(emit="q"), rows)
    full_state, full = run_all(spec_of(), rows, ("q",))
    assert lean.z is None and lean.q is not None and full.q is not None
    assert np.array_equal(lean.q, full.q)
    assert np.array_equal(lean.loss, full.loss)
    assert np.array_equal(lean_state.factor, full_state.factor)
    assert not lean_state.frame.any() and not lean_state.mapping.any()
