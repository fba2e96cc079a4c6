"""What z is: coordinates of the regularised projection, in a frame that moves little."""

from __future__ import annotations

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
SINCE = 9


def spec_of(kernel: str = "gaussian", **fields: Any) -> OKFEBSpec:
    sizes: dict[str, Any] = {"rank": 4, "budget": 8, "gamma": 6.0, "standardise": False}
    return OKFEBSpec(kernel=kernel, **(sizes | fields))


def lengths_of_factor(model: Any) -> float:
    """Σκ(s,s)‖a_s‖², the scale that rounding in M is measured by."""
    stored = np.diag(model.kernel(model.stored, model.stored))
    return float(stored @ (model.factor**2).sum(axis=1))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rule", ["parametric", "nonparametric"])
def test_inner_products_are_those_of_the_regularised_projection(kernel: str, rule: str) -> None:
    """ZᵀZ = Qᵀ(M + ρI)Q, and SᵀS = QᵀMQ (eq. 31), under one subspace."""
    spec = spec_of(kernel, rule=rule, budget=4)
    state, _ = run_all(spec, walk(0, 90, 5))
    features = TRACKER.project(spec, state, walk(1, 25, 5), ("q", "s"))
    assert features.z is not None and features.q is not None and features.s is not None
    model = oracle.from_state(spec, state)
    expected = features.q @ model.inner @ features.q.T
    # M differs between the sides by rounding of its terms; with S of full rank so does K^{1/2}.
    # What rows have added to it since the renewal is of the same size.
    rows = 1 + int(state.counts[SINCE])
    moved = 64 * EPS * rows * lengths_of_factor(model) * (features.q**2).sum(axis=1).max()
    assert np.abs(features.s @ features.s.T - expected).max() <= moved
    expected += model.ridge * features.q @ features.q.T
    assert np.abs(features.z @ features.z.T - expected).max() <= moved


@pytest.mark.parametrize("start", ["rows", "rank_one"])
@pytest.mark.parametrize("rule", ["parametric", "nonparametric"])
def test_the_frame_is_a_root_of_the_inverse(rule: str, start: str) -> None:
    """QNQᵀ = I, N = M + ρI."""
    spec = spec_of(start=start, rule=rule)
    rows = walk(2, 200, 3)
    state = TRACKER.init(spec, rows[:1])
    for low in range(0, len(rows), 10):
        state, _ = TRACKER.update(spec, state, rows[low : low + 10])
        model = oracle.from_state(spec, state)
        frame = state.frame[:, : spec.rank]
        regularised = model.inner + model.ridge * np.eye(spec.rank)
        found = frame @ regularised @ frame.T
        assert np.abs(found - np.eye(spec.rank)).max() <= 1e-10
        image = model.kernel(model.stored, model.stored) @ model.factor
        assert np.abs(state.image[:, : state.size].T - image).max() <= 1e-12 * np.abs(image).max()


def subspace_features(model: Any, frame: Array, rows: Array) -> Array:
    """QAᵀκ(S, rows), one row each."""
    k = model.kernel(model.stored, rows)
    return np.asarray((frame[:, : len(frame)] @ model.factor.T @ k).T)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "fields",
    [
        {"budget": 200},
        {"budget": 200, "rule": "nonparametric"},
        {"policy": "fifo", "step": "inverse_n", "step_size": 1e-300},
    ],
    ids=["move", "nonparametric move", "drop"],
)
def test_the_basis_of_the_subspace_turns_no_more_than_it_must(
    kernel: str, fields: dict[str, Any]
) -> None:
    """Of all QᵀQ = N⁻¹ the one whose LQᵀ moves least in feature space (orthogonal Procrustes).

    With V = LQᵀ before and after, that is where VᵀV' is symmetric and has no eigenvalue below 0;
    the ridge counts as a part of L that no row sees.
    """
    spec = spec_of(kernel, **fields)
    rows = walk(3, 60, 5)
    state = TRACKER.init(spec, rows[:1])
    state, _ = TRACKER.update(spec, state, rows[:20])
    for n in range(20, len(rows)):
        before = oracle.from_state(spec, state)
        old = state.frame[:, : spec.rank]
        state, _ = TRACKER.update(spec, state, rows[n : n + 1])
        after = oracle.from_state(spec, state)
        new = state.frame[:, : spec.rank]
        if state.counts[SINCE] == 0:
            continue
        inner = after.factor.T @ after.kernel(after.stored, before.stored) @ before.factor
        inner += np.sqrt(after.ridge * before.ridge) * np.eye(spec.rank)
        found = new @ inner @ old.T
        assert np.abs(found - found.T).max() <= 1e-8
        assert np.linalg.eigvalsh(found)[0] >= -1e-8


def test_without_z_the_subspace_is_the_same() -> None:
    rows = walk(5, 150, 3)
    lean_state, lean = run_all(spec_of(emit="q"), rows)
    full_state, full = run_all(spec_of(), rows, ("q",))
    assert lean.z is None and lean.q is not None and full.q is not None
    assert np.array_equal(lean.q, full.q)
    assert np.array_equal(lean.loss, full.loss)
    assert np.array_equal(lean_state.factor, full_state.factor)
    assert np.array_equal(lean_state.frame, full_state.frame)
