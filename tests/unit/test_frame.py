"""The features' frame is kept still while the subspace moves, so that a learner survives it.

Let Z and Z' be the stored rows' features before and after an update, K their kernel matrix. Both
K - ZᵀZ and K - Z'ᵀZ' are positive semidefinite, with the traces Σe and Σe', e = κ(x,x) - ‖z‖² of
each stored row. The frame is the orthogonal U that minimises ‖UZ' - Z‖_F, so

    ‖UZ' - Z‖_F² <= ‖(Z'ᵀZ')^½ - (ZᵀZ)^½‖_F² <= ‖Z'ᵀZ' - ZᵀZ‖_1 <= Σ(e + e')

by the inequality of Powers and Størmer (Comm. Math. Phys. 16, 1970, lemma 4.1) and the triangle's.
A linear learner's predictions on the stored rows therefore move by at most ‖w‖√Σ(e + e') all
together. It is their sum that is bounded: one stored row may move by more than its own errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerneltrack.learners import RidgeSpec
from kerneltrack.registry import get_learner
from kerneltrack.trackers import OKFEB, OKFEBSpec
from tests.oracles.streams import walk

Array = npt.NDArray[Any]


def updates(spec: OKFEBSpec, rows: Array, first: int) -> Any:
    """Give, for every update, the rows stored before and after it and both states."""
    tracker = OKFEB()
    state = tracker.init(spec, rows[: spec.rows_to_start])
    state, _ = tracker.update(spec, state, rows[:first])
    for n in range(first, len(rows)):
        after, features = tracker.update(spec, state, rows[n : n + 1])
        if features.informative[0]:
            before_rows, after_rows = stored(state), stored(after)
            kept = [i for i, row in enumerate(before_rows) if (row == after_rows).all(1).any()]
            yield before_rows[kept], state, after
        state = after


def stored(state: Any) -> Array:
    scaled = np.array(state.support[: state.size])
    rows: Array = (scaled + state.shift) * state.scale
    return rows


def residuals(z: Array, own: Array) -> Array:
    rest: Array = np.maximum(own - (z**2).sum(axis=1), 0.0)
    return rest


def moved_predictions(z: Array, moved: Array, seed: int) -> tuple[Array, float]:
    """Predictions of a learner's weights on features before and after, and the weights' norm."""
    learner = get_learner("ridge")
    spec = RidgeSpec(task="regression", bias=False, scale_targets=False)
    targets = np.random.default_rng(seed).normal(size=len(z))
    state, _ = learner.update(spec, learner.init(spec, z.shape[1]), z, targets)
    before, after = (learner.predict(spec, state, part).value for part in (z, moved))
    assert before is not None
    assert after is not None
    return after - before, float(np.linalg.norm(state.weights))


@pytest.mark.parametrize("rule", ["parametric", "nonparametric"])
def test_predictions_stay_when_the_span_stays(rule: str) -> None:
    """With a linear kernel of as many channels as the rank the subspace is always the whole space.

    Unless an update empties a direction of A, that is: then the span did not stay. The ridge
    shrinks features by λ over the eigenvalues of AᵀKA, below 1e-9 where these are above 1e-3.
    """
    spec = OKFEBSpec(rank=3, budget=6, kernel="linear", standardise=False, ridge=1e-12, rule=rule)
    checked = 0
    for seed in range(20):
        rows = np.random.default_rng(seed).normal(size=(12, 3))
        for kept, state, after in updates(spec, rows, 3):
            if min(least_eigenvalue(part) for part in (state, after)) < 1e-3:
                continue
            z, moved = (OKFEB().project(spec, part, kept).z for part in (state, after))
            assert z is not None
            assert moved is not None
            change, _ = moved_predictions(z, moved, seed)
            assert np.abs(change).max() <= 1e-8
            checked += 1
    assert checked >= 50


def least_eigenvalue(state: Any) -> float:
    size = state.size
    factor = np.array(state.factor[:, :size])
    return float(np.linalg.eigvalsh(factor @ np.array(state.gram[:size, :size]) @ factor.T)[0])


@pytest.mark.parametrize("policy", ["norm", "fifo"])
@pytest.mark.parametrize("forgetting", [1.0, 0.9])
@pytest.mark.parametrize("rule", ["parametric", "nonparametric"])
@pytest.mark.parametrize(("rank", "budget"), [(3, 6), (10, 15)])
def test_predictions_move_by_no_more_than_the_projection_errors(
    rank: int, budget: int, rule: str, forgetting: float, policy: str
) -> None:
    spec = OKFEBSpec(
        rank=rank, budget=budget, rule=rule, forgetting=forgetting, policy=policy, warmup=50
    )
    rows = walk(rank, 300, 4)
    checked = 0
    for kept, state, after in updates(spec, rows, 50):
        z, moved = (OKFEB().project(spec, part, kept).z for part in (state, after))
        assert z is not None
        assert moved is not None
        own = np.ones(len(kept))
        bound = residuals(z, own).sum() + residuals(moved, own).sum()
        assert ((moved - z) ** 2).sum() <= bound + 1e-9
        change, norm = moved_predictions(z, moved, rank)
        assert np.sqrt((change**2).sum()) <= norm * np.sqrt(bound) + 1e-9
        checked += 1
    assert checked >= 200
