"""Adaptive Nyström against its paper's equations, one row at a time, and what it promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import run_all
from kerneltrack.kernels import gram
from kerneltrack.trackers import OANA, OANASpec
from kerneltrack.trackers.common.calls import kernel_of
from tests.oracles.oana import Oracle, top_directions
from tests.oracles.streams import walk
from tests.parts import examples

Array = npt.NDArray[np.float64]
TRACKER = OANA()
CLOSE = 1e-8
"""K's condition, 1e6 at most by how directions are admitted, times rounding, times 100."""

KERNELS: dict[str, dict[str, Any]] = {
    "gaussian": {"gamma": 8.0},
    "laplacian": {"kernel": "laplacian", "gamma": 6.0},
    "polynomial": {"kernel": "polynomial", "degree": 3},
}


def spec_of(**fields: Any) -> OANASpec:
    sizes: dict[str, Any] = {"rank": 4, "budget": 7, "standardise": False}
    return OANASpec(**sizes | fields)


@pytest.mark.parametrize("name", KERNELS)
@given(seed=st.integers(0, 2**32 - 1), threshold=st.sampled_from([0.0, 0.5, 4.0, None]))
@settings(max_examples=examples(20))
def test_each_row_does_what_the_paper_says(name: str, seed: int, threshold: float | None) -> None:
    spec = spec_of(**KERNELS[name], threshold=threshold)
    rows = np.random.default_rng(seed).normal(size=(60, 3))
    state, _ = run_all(spec, rows[:20])
    for x in rows[20:]:
        oracle = Oracle.of(spec, state)
        own = float(gram(oracle.kernel, x[None], x[None])[0, 0])
        loss, z = oracle.loss(x), oracle.features(x)
        state, features = TRACKER.update(spec, state, x[None])
        assert features.z is not None
        assert features.loss[0] == pytest.approx(loss, abs=CLOSE * own)
        assert np.allclose(features.z[0], z, atol=CLOSE * np.sqrt(own))
        assert features.informative[0] == oracle.move(x)
        assert np.allclose(state.support[:7], oracle.landmarks, rtol=0, atol=1e-13)
        assert state.members[:7].tolist() == oracle.members.tolist()
        probe = rows[:1] + 0.1
        size = float(gram(oracle.kernel, probe, probe)[0, 0])
        after = TRACKER.project(spec, state, probe)
        assert after.z is not None
        assert after.loss[0] == pytest.approx(oracle.loss(probe[0]), abs=CLOSE * size)
        assert np.allclose(after.z[0], oracle.features(probe[0]), atol=1e-6 * np.sqrt(size))


@pytest.mark.parametrize("name", KERNELS)
def test_the_first_rows_that_differ_are_the_landmarks(name: str) -> None:
    spec = spec_of(**KERNELS[name], threshold=None)
    rows = walk(3, 40, 3)
    rows[3] = rows[1]
    state, features = run_all(spec, rows)
    chosen = [0, 1, 2, 4, 5, 6, 7]
    assert state.born[:7].tolist() == chosen
    assert np.array_equal(state.support[:7], rows[chosen])
    assert state.members[:7].tolist() == [1, 2, 1, 1, 1, 1, 1]
    assert features.initial.tolist() == [n in chosen[:4] for n in range(40)]
    assert features.informative.tolist() == [n <= 7 for n in range(40)]
    # From then on it is the Nyström map of rank r, the paper's without any move.
    kernel = kernel_of(spec, state)
    k = gram(kernel, rows, rows[chosen])
    found = k @ top_directions(k[chosen], 4)
    own = np.array([gram(kernel, x[None], x[None])[0, 0] for x in rows])
    wanted = own - (found**2).sum(axis=1)
    assert np.allclose(features.loss[8:], wanted[8:], rtol=0, atol=CLOSE * own.max())


def test_landmarks_are_the_means_of_their_rows() -> None:
    rows = walk(5, 400, 2)
    state, _ = run_all(spec_of(gamma=10.0), rows)
    assert int(state.members[:7].sum()) == 400
    means = (state.members[:7, None] * state.support[:7]).sum(axis=0)
    assert np.allclose(means, rows.sum(axis=0), rtol=1e-12)


def test_moving_landmarks_approach_those_of_k_means() -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(8, 5)) * 4
    rows = centres[rng.integers(8, size=4000)] + rng.normal(size=(4000, 5)) * 0.7
    late = slice(3000, None)
    fields: dict[str, Any] = {"rank": 8, "budget": 16, "gamma": 20.0}
    _, moving = run_all(spec_of(**fields), rows)
    _, still = run_all(spec_of(**fields, threshold=None), rows)
    spec = spec_of(**fields)
    kernel = kernel_of(spec, TRACKER.init(spec, rows[:1]))
    best = KMeans(16, n_init=3, random_state=0).fit(rows).cluster_centers_
    k = gram(kernel, rows[late], best) @ top_directions(gram(kernel, best, best), 8)
    batch = float((1 - (k**2).sum(axis=1)).mean())
    # The first rows miss a cluster or two, which online k-means goes half of the way to.
    gap, start = moving.loss[late].mean() - batch, still.loss[late].mean() - batch
    assert gap < 0.5 * start


def test_features_keep_still_while_landmarks_move() -> None:
    rows = walk(11, 600, 4)
    spec = spec_of(rank=5, budget=20, gamma=40.0)
    earlier, _ = run_all(spec, rows[:300])
    later, _ = TRACKER.update(spec, earlier, rows[300:301])
    landmarks = later.support[:20]
    before, after = (TRACKER.project(spec, state, landmarks).z for state in (earlier, later))
    assert before is not None
    assert after is not None
    moved = np.linalg.norm(after - before)
    assert 0 < moved < 0.05 * np.linalg.norm(before)
    # No rotation would have left them closer.
    u, _, vt = np.linalg.svd(after.T @ before)
    assert moved == pytest.approx(np.linalg.norm(after @ (u @ vt) - before), rel=1e-6)


def test_a_lost_direction_is_found_again() -> None:
    spec = spec_of(rank=3, budget=4, gamma=1.0)
    rows = np.array([[0.0], [1e-6], [2e-6], [3e-6], [40.0], [-40.0]])
    state, _ = run_all(spec, rows[:4])
    assert int(state.counts[8]) == 1
    state, _ = TRACKER.update(spec, state, rows[4:])
    assert int(state.counts[8]) == 3
    assert np.allclose(TRACKER.project(spec, state, state.support[:4]).loss, 0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"budget": 3}, "budget = 3: must be at least the rank"),
        ({"threshold": -1.0}, "threshold = -1.0"),
        ({"threshold": float("nan")}, "threshold = nan"),
    ],
)
def test_bad_settings_are_named(fields: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        spec_of(**fields)
