"""What the covariance tracker's docstring claims: bounds, unbiasedness, the rate, exactness."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerneltrack.in_memory import run_all
from kerneltrack.kernels import gram
from kerneltrack.trackers import CovarianceSpec, CovarianceTracker
from kerneltrack.trackers.common.calls import kernel_of
from kerneltrack.trackers.common.state import N
from kerneltrack.trackers.covariance.state import COIN, CONTROL, LAST, LOST
from tests.oracles import covariance as oracle
from tests.oracles.streams import walk

Array = npt.NDArray[np.float64]
TRACKER = CovarianceTracker()
SIZES: dict[str, Any] = {"rank": 4, "budget": 10, "standardise": False}


def stored(state: Any) -> tuple[Array, Array]:
    """The stored rows and Γ."""
    size = state.size
    return np.array(state.support[:size]), np.array(state.weights[:size, :size])


@pytest.mark.parametrize(
    "fields",
    [
        {"gamma": 30.0},
        {"gamma": 5.0, "halflife": 40.0},
        {"kernel": "laplacian", "gamma": 9.0, "halflife": 300.0},
        {"kernel": "polynomial", "halflife": 100.0},
        {"kernel": "linear"},
    ],
)
def test_evictions_take_no_more_from_the_covariance_than_is_booked(fields: dict[str, Any]) -> None:
    """‖Σ w φφᵀ - Φ_S Γ Φ_Sᵀ‖_HS, from kernel values alone, against the sum of the costs' roots."""
    spec = CovarianceSpec(**SIZES, **fields)
    rows = walk(5, 400, 4)
    state, _ = run_all(spec, rows)
    rate = 0.0 if spec.halflife is None else 1 / float(spec.halflife)
    weights = 0.5 ** (rate * np.arange(len(rows) - 1, -1, -1.0))
    kept, gamma = stored(state)
    kernel = kernel_of(spec, state)
    own, cross, among = gram(kernel, rows, rows), gram(kernel, rows, kept), gram(kernel, kept, kept)
    square = float(weights @ np.square(own) @ weights)
    square += float(np.trace(gamma @ among @ gamma @ among))
    square -= 2 * float(weights @ np.einsum("ij,jk,ik->i", cross, gamma, cross))
    whole = float(weights @ np.diag(own))
    assert math.sqrt(max(square, 0.0)) <= state.reals[LOST] + 1e-6 * whole
    # By its trace C only loses, never gains.
    assert float(np.trace(gamma @ among)) <= whole * (1 + 1e-9)


def test_without_evictions_nothing_is_lost() -> None:
    rows = walk(1, 30, 3)
    spec = CovarianceSpec(rank=3, budget=30, gamma=2.0, standardise=False)
    state, _ = run_all(spec, rows)
    assert np.array_equal(state.weights[:30, :30], np.eye(30))
    assert state.reals[LOST] == 0.0


SEEDS, DEVIATIONS = 400, 5.0


@pytest.mark.parametrize("fields", [{"kernel": "linear"}, {"kernel": "polynomial"}])
def test_leverage_is_unbiased_until_the_first_eviction(fields: dict[str, Any]) -> None:
    """The kernel's feature space is smaller than the budget: no row is ever evicted for room.

    Over the seeds the mean of each entry of the covariance, κ-weighted, lies within 5 standard
    errors of the exact one. Normal deviates leave that range with probability 5.7e-7, and there
    are at most 10·11/2 entries in both cases: a false alarm in 16,000 drawings of the seeds, and
    these are fixed.
    """
    rows = walk(9, 200, 3)
    sizes: dict[str, Any] = {"rank": 2, "budget": 12, "standardise": False}
    probes = walk(10, 10, 3)
    kernel = None
    draws = []
    for seed in range(SEEDS):
        spec = CovarianceSpec(
            **sizes, **fields, admission="leverage", admission_rate=0.2, seed=seed
        )
        state, features = run_all(spec, rows)
        admitted = int(features.informative.sum())
        assert state.size < 12 < admitted < len(rows)
        kernel = kernel_of(spec, state)
        kept, gamma = stored(state)
        seen = gram(kernel, probes, kept)
        draws.append(seen @ gamma @ seen.T)
    assert kernel is not None
    exact = gram(kernel, probes, rows) @ gram(kernel, rows, probes)
    mean, error = np.mean(draws, axis=0), np.std(draws, axis=0, ddof=1) / math.sqrt(SEEDS)
    assert (error > 0).all()
    assert (np.abs(mean - exact) <= DEVIATIONS * error).all()


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3, 0.9])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_leverage_holds_its_rate_at_any_scale(rate: float, scale: float) -> None:
    """The mean of p is the target up to the controller's own movement, and coins add their noise.

    ln c moves by COIN_GAIN(1 - p/rate): over n rows the mean of p is off by at most
    rate·|Δ ln c|/(COIN_GAIN·n), and ln c moves here by less than ln 40. Coins deviate by
    √(n·rate): 5 of these.
    """
    spec = CovarianceSpec(
        rank=3, budget=6, kernel="linear", standardise=False, admission="leverage",
        admission_rate=rate,
    )  # fmt: skip
    rows = np.random.default_rng(3).normal(size=(20_000, 12)) * scale
    _, features = run_all(spec, rows)
    count = len(rows) - 6
    admitted = int(features.informative[6:].sum())
    allowed = rate * math.log(40) / 0.02 + 5 * math.sqrt(count * rate)
    assert abs(admitted - rate * count) <= allowed


def test_leverage_admits_all_until_the_budget_is_full() -> None:
    spec = CovarianceSpec(**SIZES, gamma=4.0, admission="leverage", admission_rate=0.02)
    _, features = run_all(spec, walk(3, 500, 3))
    assert features.informative[:10].all()
    assert 0 < features.informative[10:].sum() < 100


def enters(key: int, number: int, chance: float) -> bool:
    """Whether row `number` enters with this chance, the coins being drawn from `key`."""
    spec = CovarianceSpec(
        rank=1, budget=2, kernel="linear", standardise=False, admission="leverage",
        admission_rate=1e-9,
    )  # fmt: skip
    state, _ = run_all(spec, np.eye(3)[:2])
    state.key[COIN], state.reals[CONTROL] = key, chance
    state.counts[N] = state.counts[LAST] = number
    # ℓ = κ(x,x) = 1: the row is at a right angle to the others.
    features = TRACKER.update(spec, state, np.eye(3)[2:])[1]
    assert features.loss[0] == 1.0
    return bool(features.informative[0])


@pytest.mark.parametrize("key", [0, 1, -1, 2**62, -(2**63)])
def test_coins_are_the_hash_that_they_are_said_to_be(key: int) -> None:
    """A row enters if its coin is below its chance: the next number above the coin is enough."""
    for number in (0, 1, 2, 10**12):
        coin = oracle.coin(key, number)
        assert enters(key, number, np.nextafter(coin, 1.0))
        assert not enters(key, number, coin)
    # First word of SplitMix64 from the seed 0, as its authors' code gives it.
    assert oracle.coin(0, 0) == (0xE220A8397B1DCDAF >> 11) / 2**53


@pytest.mark.parametrize("halflife", [None, 25.0])
def test_weights_are_those_of_the_half_life(halflife: float | None) -> None:
    """Refused rows count as rows, although nothing is done on them."""
    spec = CovarianceSpec(
        **SIZES, kernel="linear", admission="fixed", threshold=1e-3, halflife=halflife
    )
    rows = np.repeat(walk(4, 40, 4), 2, axis=0)[:77]
    state, features = run_all(spec, rows)
    assert features.informative[:10].all()
    kept, gamma = stored(state)
    last = int(np.flatnonzero(features.informative)[-1])
    ages = last - np.flatnonzero(features.informative)
    weights = np.ones(len(ages)) if halflife is None else 0.5 ** (ages / halflife)
    used = rows[features.informative]
    exact = (used * weights[:, None]).T @ used
    assert np.abs(kept.T @ gamma @ kept - exact).max() <= 1e-10 * np.abs(exact).max()


def test_features_are_an_isometry_of_the_projections() -> None:
    spec = CovarianceSpec(**SIZES, gamma=20.0, halflife=50.0)
    _, features = run_all(spec, walk(6, 300, 4), ("q", "s"))
    assert features.z is not None and features.q is not None and features.s is not None
    lengths = [np.square(part).sum(axis=1) for part in (features.z, features.q, features.s)]
    assert np.abs(lengths[0] - lengths[1]).max() <= 1e-12
    assert np.abs(lengths[0] - lengths[2]).max() <= 1e-8
    assert np.abs(1 - lengths[0] - features.loss).max() <= 1e-9


def test_q_are_scores_of_falling_variance() -> None:
    spec = CovarianceSpec(rank=4, budget=30, kernel="linear", standardise=False)
    rows = np.random.default_rng(0).normal(size=(800, 4)) * [1.0, 9.0, 3.0, 27.0]
    state, _ = run_all(spec, rows)
    q = TRACKER.project(spec, state, rows, ("q",)).q
    assert q is not None
    assert np.square(q).mean(axis=0) == pytest.approx(np.sort((rows**2).mean(0))[::-1], rel=0.01)
