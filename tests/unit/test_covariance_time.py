"""The covariance tracker's half-life in event time: irregular sampling, and how times get there."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack import codec
from kerneltrack.errors import ConfigError
from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.model import Work
from kerneltrack.fleet.run import run_rows
from kerneltrack.in_memory import run_all
from kerneltrack.monitor.moving import MovingWindow
from kerneltrack.sklearn import SubspaceTracker
from kerneltrack.trackers import CovarianceSpec, CovarianceTracker, OKFEBSpec
from tests.oracles.streams import feature_bytes, joined_bytes, state_bytes, walk
from tests.parts import examples

TRACKER = CovarianceTracker()
SIZES: dict[str, Any] = {"rank": 3, "budget": 6, "gamma": 9.0, "standardise": False}
SECOND = 10**9
ROWS = walk(seed=4, count=150, width=3)
RNG = np.random.default_rng(5)
TIMES = np.cumsum(RNG.integers(0, 5 * SECOND, len(ROWS))) - 200 * SECOND
"""Irregular, before and after 1970."""
TIMED = [
    CovarianceSpec(**SIZES, halflife_seconds=15.0),
    CovarianceSpec(**SIZES, halflife_seconds=90.0, admission="leverage", rank_factor=1.5),
]


def start(spec: CovarianceSpec) -> Any:
    return TRACKER.init(spec, ROWS[:1], "model")


def test_at_a_steady_rate_it_is_the_half_life_in_rows() -> None:
    times = 1_700_000_000 * SECOND + np.arange(len(ROWS)) * SECOND // 4
    in_rows, by_rows = run_all(CovarianceSpec(**SIZES, halflife=20.0), ROWS)
    in_time, by_time = run_all(CovarianceSpec(**SIZES, halflife_seconds=5.0), ROWS, times=times)
    assert np.allclose(in_rows.weights, in_time.weights, rtol=1e-12, atol=0)
    assert by_time.loss == pytest.approx(by_rows.loss, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seconds", [0.0, 1.5, 30.0])
def test_a_silence_lets_all_that_was_before_fade(seconds: float) -> None:
    spec = CovarianceSpec(rank=1, budget=4, kernel="linear", standardise=False, halflife_seconds=10)
    rows = np.diag([2.0, 3.0, 4.0])
    times = np.array([0, 0, int(seconds * SECOND)])
    state, _ = run_all(spec, rows, times=times)
    faded = 0.5 ** (seconds / 10)
    assert np.diag(state.weights)[:3] == pytest.approx([faded, faded, 1.0], rel=1e-12)


@settings(max_examples=examples(15))
@given(cuts=st.lists(st.integers(0, len(ROWS)), max_size=10))
@pytest.mark.parametrize("spec", TIMED, ids=["every", "leverage"])
def test_the_same_bytes_however_rows_are_cut(spec: CovarianceSpec, cuts: list[int]) -> None:
    whole_state, whole = TRACKER.update(spec, start(spec), ROWS, (), TIMES)
    state, parts = start(spec), []
    for low, high in itertools.pairwise([0, *sorted(cuts), len(ROWS)]):
        snapshot = codec.decode(codec.encode(spec, state, {}))
        assert snapshot.spec == spec
        state, output_text = TRACKER.update(
            spec, snapshot.state, ROWS[low:high], (), TIMES[low:high]
        )
        parts.append(output_text)
    assert joined_bytes(parts) == feature_bytes(whole)
    assert state_bytes(state) == state_bytes(whole_state)


@pytest.mark.parametrize("moving", [False, True])
def test_the_keyed_step_tells_the_times_of_the_rows(moving: bool) -> None:
    from transforms.track.windows import MeasureMismatch  # noqa: PLC0415 - one case of two

    spec = TIMED[0]
    work = Work(spec=spec, measure=MeasureMismatch(moving=20).in_ns() if moving else None)
    model = begin(work, "model", ROWS[:1])
    expected_state, expected = TRACKER.update(spec, start(spec), ROWS, (), TIMES)
    parts = []
    for piece in (slice(0, 70), slice(70, None)):
        model, outcome = run_rows(work, "model", model, ROWS[piece], TIMES[piece], np.inf)
        parts.append(outcome.features)
    assert joined_bytes(parts) == feature_bytes(expected)
    assert state_bytes(model.state) == state_bytes(expected_state)


def test_rows_that_came_late_count_as_of_the_newest_time() -> None:
    spec = TIMED[0]
    work = Work(spec=spec)
    disordered = TIMES.copy()
    disordered[[40, 90]] -= 60 * SECOND
    model, _ = run_rows(work, "m", begin(work, "m", ROWS[:1]), ROWS, disordered, np.inf)
    newest = np.maximum.accumulate(disordered)
    expected, _ = TRACKER.update(spec, TRACKER.init(spec, ROWS[:1], "m"), ROWS, (), newest)
    assert state_bytes(model.state) == state_bytes(expected)


def test_without_times_it_says_what_is_missing() -> None:
    spec = TIMED[0]
    with pytest.raises(ConfigError, match="times = None: must be event times of the rows"):
        TRACKER.update(spec, start(spec), ROWS)
    with pytest.raises(ConfigError, match=r"times = \(3,\): must be of shape \(150,\)"):
        TRACKER.update(spec, start(spec), ROWS, (), TIMES[:3])
    moving = MovingWindow(10)
    with pytest.raises(ConfigError, match="times = None"):
        moving.update(spec, start(spec), moving.init(spec, start(spec)), ROWS)
    estimator = SubspaceTracker(tracker="covariance", rank=3, budget=6, halflife_seconds=5.0)
    with pytest.raises(ConfigError, match="times = None"):
        estimator.fit(ROWS)


def test_a_half_life_is_one_of_rows_or_of_time() -> None:
    with pytest.raises(ConfigError, match="halflife_seconds"):
        CovarianceSpec(halflife=5.0, halflife_seconds=5.0)
    with pytest.raises(ConfigError, match="halflife_seconds"):
        CovarianceSpec(halflife_seconds=0.0)


def test_directions_in_use_are_counted() -> None:
    spec = CovarianceSpec(**SIZES, halflife=20.0, rank_factor=1.5)
    rows = walk(seed=6, count=400, width=3)
    state, features = run_all(spec, rows, ("q",))
    assert features.q is not None
    # Directions in use are those that q has; of the rows before the budget is full all are.
    used = (features.q != 0).sum(axis=1)
    used[: spec.budget] = spec.rank
    assert TRACKER.counters(state)["directions"] == used[features.informative].sum()
    assert len(set(used.tolist())) > 1
    assert "directions" not in TRACKER.counters(run_all(CovarianceSpec(**SIZES), rows)[0])


def test_other_trackers_take_times_and_need_none() -> None:
    spec = OKFEBSpec(**SIZES)
    with_times: npt.NDArray[Any] = run_all(spec, ROWS, times=TIMES)[1].loss
    assert with_times.tolist() == run_all(spec, ROWS)[1].loss.tolist()
