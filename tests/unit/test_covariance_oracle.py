"""The covariance tracker against the dense oracle, over whole runs of thousands of rows.

Unlike OK-FEB it forgets how it began: rounding errors do not grow, so that whole runs compare.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from kerneltrack.in_memory import run_all
from kerneltrack.trackers import CovarianceSpec, CovarianceTracker
from tests.oracles import covariance as oracle
from tests.oracles.streams import walk

Array = npt.NDArray[np.float64]
TRACKER = CovarianceTracker()
ROWS, MOST_ROWS = 1_500, 5_000
LONG = ("gaussian, fixed", "gaussian, every, rank chosen", "gaussian, leverage, rank chosen")
"""Where the rank varies, which it seldom does, or few rows are admitted: played longer."""
CLOSE = 1e-8

CASES: dict[str, dict[str, Any]] = {
    "gaussian, every": {"halflife": 60.0},
    "gaussian, every, all kept": {},
    "gaussian, leverage": {"admission": "leverage", "halflife": 600.0, "admission_rate": 0.2},
    "gaussian, fixed": {"admission": "fixed", "threshold": 0.3, "halflife": 200.0},
    "laplacian, moving": {"kernel": "laplacian", "admission": "moving", "halflife": 100.0},
    "laplacian, leverage": {"kernel": "laplacian", "admission": "leverage"},
    "polynomial, rate": {"kernel": "polynomial", "admission": "rate", "halflife": 300.0},
    "polynomial, leverage": {"kernel": "polynomial", "degree": 3, "admission": "leverage"},
    "linear, every": {"kernel": "linear", "halflife": 50.0},
    "gaussian, every, in event time": {"halflife_seconds": 20.0},
    "laplacian, leverage, in event time": {
        "kernel": "laplacian",
        "admission": "leverage",
        "halflife_seconds": 300.0,
    },
    "gaussian, every, rank chosen": {"halflife": 60.0, "rank_factor": 1.3},
    "gaussian, leverage, rank chosen": {
        "admission": "leverage",
        "halflife": 600.0,
        "rank_factor": 2.0,
    },
}


def spec_of(fields: dict[str, Any]) -> CovarianceSpec:
    sizes: dict[str, Any] = {"rank": 4, "budget": 9, "gamma": 60.0, "standardise": False}
    return CovarianceSpec(**sizes, **fields)


def rows_of(name: str) -> int:
    return MOST_ROWS if name in LONG else ROWS


def stream(name: str) -> Array:
    """A walk whose every third hundred of rows is in random order, with repeats."""
    count = rows_of(name)
    rows = walk(len(name), count, 5)
    rng = np.random.default_rng(len(name))
    for first in range(0, count, 300):
        rng.shuffle(rows[first : first + 100])
    repeated = np.flatnonzero(rng.random(count - 40) < 0.05) + 40
    rows[repeated] = rows[repeated - rng.integers(1, 40, len(repeated))]
    return rows


def times_of(name: str) -> npt.NDArray[np.int64]:
    """Times in ns: bursts, gaps, and rows of the same time."""
    rng = np.random.default_rng(len(name))
    count = rows_of(name)
    gaps = rng.exponential(0.5, count) * rng.choice([0.0, 0.2, 1.0, 20.0], count)
    return np.cumsum(gaps * 1e9).astype(np.int64) - 10**12


class Run(NamedTuple):
    model: oracle.Oracle
    outcomes: list[oracle.Outcome]
    state: Any
    features: Any


def play(name: str) -> Run:
    spec, rows = spec_of(CASES[name]), stream(name)
    first = TRACKER.init(spec, rows[:1], "a model")
    model = oracle.start(spec, float(first.bandwidth[0]), rows.shape[1], int(first.key[0]))
    times = times_of(name)
    outcomes = [model.update(x, int(time)) for x, time in zip(rows, times, strict=True)]
    return Run(model, outcomes, *TRACKER.update(spec, first, rows, ("q",), times))


def far(found: Array, wanted: Array) -> float:
    """Largest difference, in units of the largest entry."""
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_whole_runs_agree_with_the_dense_oracle(name: str) -> None:
    model, outcomes, state, features = play(name)
    size = state.size
    used = np.array([o.used for o in outcomes])
    settled = ~features.initial & (features.index >= model.spec.budget)
    assert ((features.q != 0).sum(axis=1) == used)[settled].all()
    assert (len(set(used[settled])) > 1) == (model.spec.rank_factor is not None)
    assert features.evicted.tolist() == [o.evicted for o in outcomes]
    assert features.informative.tolist() == [o.informative for o in outcomes]
    assert features.initial.tolist() == [o.initial for o in outcomes]
    assert state.born[:size].tolist() == model.born
    assert np.array_equal(state.support[:size], model.stored)
    whitener = state.whitener[:size, :size]
    assert far(state.weights[:size, :size], model.weights) <= CLOSE
    assert far(whitener.T @ whitener, np.asarray(np.linalg.inv(model.gram))) <= CLOSE
    square = model.weights @ model.gram @ model.weights
    assert far(state.square[:size, :size], square) <= CLOSE
    losses = np.array([o.loss for o in outcomes])
    own = np.array([model.own(x) for x in stream(name)])
    assert (np.abs(features.loss - losses) <= CLOSE * own).all()
    dense = np.array([o.dense_loss for o in outcomes])[~features.initial]
    assert features.loss[~features.initial].mean() == pytest.approx(dense.mean(), rel=0.01)
    # A root of rounding, δ of a row in the span, is all that may part the two.
    energy = float(np.trace(model.weights @ model.gram))
    assert state.reals[0] == pytest.approx(model.lost, rel=1e-6, abs=1e-6 * energy)


@pytest.mark.parametrize("name", CASES)
def test_a_perturbation_does_not_grow(name: str) -> None:
    spec, rows = spec_of(CASES[name]), stream(name)
    moved = rows * (1 + 1e-10 * np.random.default_rng(1).uniform(-1, 1, rows.shape))
    times = times_of(name)
    _, features = run_all(spec, rows, times=times)
    _, others = run_all(spec, moved, times=times)
    own = np.abs(features.loss + (features.z**2).sum(axis=1))  # type: ignore[operator]
    assert np.array_equal(features.evicted, others.evicted)
    late = slice(len(rows) - 1000, None)
    assert (np.abs(features.loss - others.loss) <= 1e-8 * own)[late].all()
