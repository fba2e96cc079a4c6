"""Rows made to do harm to the covariance tracker: all stays finite, and the basis orthonormal."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerneltrack.in_memory import run_all
from kerneltrack.trackers import CovarianceSpec, CovarianceTracker
from tests.oracles.streams import walk

Array = npt.NDArray[np.float64]
TRACKER = CovarianceTracker()
COUNT = 400


def streams() -> dict[str, Array]:
    """Streams by what is wrong with them."""
    rng = np.random.default_rng(0)
    rows = walk(1, COUNT, 3)
    spikes, crumbs, jump = rows.copy(), rows.copy(), rows.copy()
    spikes[::7] *= 1e12
    crumbs[::7] *= 1e-12
    jump[200:] += 1e5
    return {
        "fewer than the rank": rng.normal(size=(3, 3)),
        "each row thirty times": np.repeat(rng.normal(size=(14, 3)), 30, axis=0),
        "one row": np.full((COUNT, 3), 2.5),
        "zeros": np.zeros((COUNT, 3)),
        "huge": rows * 1e100,
        "small": rows * 1e-30,
        "tiny": rows * 1e-150,
        "denormal": rows * 1e-310,
        "spikes": spikes,
        "crumbs": crumbs,
        "of all sizes": rows * 10.0 ** rng.uniform(-20, 20, size=(COUNT, 1)),
        "a jump": jump,
        "hardly moving": np.cumsum(rng.normal(size=(COUNT, 3)) * 1e-5, axis=0),
        "a line": np.outer(np.linspace(0, 1, COUNT), np.ones(3)),
    }


STREAMS = streams()
KERNELS: list[dict[str, Any]] = [
    {"kernel": "gaussian"},
    {"kernel": "gaussian", "gamma": 1e-12, "standardise": False},
    {"kernel": "laplacian", "gamma": 1e12, "standardise": False},
    {"kernel": "polynomial", "degree": 9},
    {"kernel": "polynomial", "standardise": False},
    {"kernel": "linear", "standardise": False},
]
MODES: list[dict[str, Any]] = [
    {"rank": 1, "budget": 1, "halflife": 1e-3},
    {"rank": 3, "budget": 3, "admission": "leverage"},
    {"rank": 4, "budget": 9, "halflife": 1.0, "admission": "rate"},
    {"rank": 20, "budget": 30},
]


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("mode", MODES)
def test_all_is_finite_and_the_basis_orthonormal(mode: dict[str, Any], kind: str) -> None:
    for fields in KERNELS:
        spec = CovarianceSpec(**mode, **fields, warmup=50)
        state, features = run_all(spec, STREAMS[kind], ("q", "s"))
        assert all(np.isfinite(array).all() for array in state)
        parts = (features.z, features.q, features.s, features.loss)
        assert all(np.isfinite(part).all() for part in parts if part is not None)
        assert (features.loss >= 0).all()
        size = state.size
        basis = state.factor[:, :size]
        among = basis @ state.gram[:size, :size] @ basis.T
        # A direction that the rows do not fill is zero.
        assert np.abs(among - np.diag(np.diag(among).round())).max() <= 1e-7
        assert set(np.diag(among).round()) <= {0.0, 1.0}


@pytest.mark.parametrize("fields", KERNELS[:3])
def test_ordinary_rows_are_followed_after_any_of_them(fields: dict[str, Any]) -> None:
    """A stream of its own again, 300 rows later, as well as if the hostile ones had never been.

    Of kernels with κ(x,x) = 1: a row of a polynomial's 10⁴⁸ takes as many half-lives to forget.
    """
    spec = CovarianceSpec(rank=4, budget=9, halflife=5.0, warmup=50, **fields)
    rows = walk(2, 600, 3)
    fresh = TRACKER.init(spec, rows[:50])
    _, usual = TRACKER.update(spec, fresh, rows)
    for hostile in STREAMS.values():
        state, _ = TRACKER.update(spec, fresh, hostile)
        _, features = TRACKER.update(spec, state, rows)
        assert features.loss[300:].mean() <= 1.05 * usual.loss[300:].mean() + 1e-9


def test_repeated_rows_are_folded_into_the_weights() -> None:
    rows = np.random.default_rng(3).normal(size=(6, 4))
    order = np.random.default_rng(4).integers(0, 6, size=500)
    order[:6] = np.arange(6)
    spec = CovarianceSpec(rank=3, budget=8, gamma=6.0, standardise=False)
    state, features = run_all(spec, rows[order])
    assert state.size == 6
    assert features.informative.all()
    assert features.evicted.tolist() == [-1] * 6 + list(range(6, 500))
    counted = np.diag(np.bincount(order).astype(np.float64))
    assert np.abs(state.weights[:6, :6] - counted).max() <= 1e-9
    assert TRACKER.counters(state)["mended"] == 0


@pytest.mark.parametrize(("rank", "budget"), [(1, 1), (3, 5), (10, 15)])
def test_the_states_bytes_are_those_of_the_formula(rank: int, budget: int) -> None:
    for width, window in itertools.product((1, 7), (100, 256)):
        spec = CovarianceSpec(rank=rank, budget=budget, novelty_window=window, warmup=20)
        state = TRACKER.init(spec, walk(0, 20, width))
        slots = budget + 1
        expected = 8 * (
            slots * (width + 3 * rank + 4 * slots + 1) + 2 * rank**2 + 2 * width + window + 17
        )
        assert sum(array.nbytes for array in state) == expected
        state, _ = TRACKER.update(spec, state, walk(1, 100, width))
        assert sum(array.nbytes for array in state) == expected
        timed = dataclasses.replace(spec, halflife_seconds=9.0)
        chosen = dataclasses.replace(spec, rank_factor=2.0)
        for other, more in ((timed, 1), (chosen, rank + 4)):
            state = TRACKER.init(other, walk(0, 20, width))
            assert sum(array.nbytes for array in state) == expected + 8 * more
