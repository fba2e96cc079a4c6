"""The half-life "auto": three memories, each as it would be alone, and the best of late in use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kerneltrack import codec
from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.in_memory import run_all
from kerneltrack.monitor.moving import MovingWindow
from kerneltrack.registry import get_tracker
from kerneltrack.tracker import Tracker
from kerneltrack.trackers import CovarianceSpec
from kerneltrack.trackers.covariance.memories import LIVES
from tests.oracles.streams import walk

SIZES: dict[str, Any] = {"rank": 3, "budget": 6, "warmup": 40, "novelty_window": 100}
AUTO = CovarianceSpec(**SIZES, halflife="auto")


def regimes(seed: int) -> FloatArray:
    """A slow walk, then jumps among four places, then the walk again."""
    rng = np.random.default_rng(seed)
    slow, places = walk(seed, 400, 4), rng.normal(size=(4, 4)) * 3.0
    return np.concatenate([slow, places[rng.integers(4, size=600)] + 0.1 * slow[:200].repeat(3, 0)])


def by_rule(rows: FloatArray) -> tuple[FloatArray, list[int]]:
    """The losses given out, and which memory each is of, from three trackers that run alone."""
    alone = []
    for life in LIVES:
        spec = CovarianceSpec(**SIZES, halflife=life * AUTO.budget)
        alone.append(run_all(spec, rows)[1].loss)
    means, used, losses, chosen = np.zeros(len(LIVES)), 0, [], []
    for line in np.stack(alone, axis=1):
        losses.append(line[used])
        chosen.append(used)
        means = 0.99 * means + 0.01 * line
        best = min((life for life in range(len(LIVES)) if life != used), key=lambda at: means[at])
        if means[best] < 0.97 * means[used]:
            used = best
    return np.array(losses), chosen


@pytest.mark.parametrize("seed", range(4))
def test_the_losses_are_those_of_the_memory_that_the_rule_names(seed: int) -> None:
    rows = regimes(seed)
    expected, chosen = by_rule(rows)
    state, features = run_all(AUTO, rows)
    assert features.loss.tobytes() == expected.tobytes()
    assert state.choice[len(LIVES)] == LIVES[chosen[-1]] * AUTO.budget
    assert len(set(chosen)) > 1


def test_features_go_on_where_the_memory_changes() -> None:
    """A change moves the features of a row less than a frame of its own would."""
    rows = regimes(1)
    _, chosen = by_rule(rows)
    changes = np.flatnonzero(np.diff(chosen))
    tracker = get_tracker("covariance")
    jumps: list[float] = []
    others: list[float] = []
    state = tracker.init(AUTO, rows[:40])
    for at, row in enumerate(rows[:-1]):
        before = tracker.project(AUTO, state, row[None]).z
        state, _ = tracker.update(AUTO, state, row[None])
        if at in changes:
            after = tracker.project(AUTO, state, row[None]).z
            assert before is not None and after is not None
            spun = np.linalg.qr(np.random.default_rng(at).normal(size=(3, 3)))[0]
            jumps.append(float(np.linalg.norm(after - before)))
            others.append(float(np.linalg.norm(after @ spun - before)))
    assert jumps and np.mean(jumps) < 0.5 * np.mean(others)


def test_a_row_at_a_time_is_the_same() -> None:
    rows = regimes(2)[:300]
    _, features = run_all(AUTO, rows)
    tracker = Tracker(AUTO)
    output_text = [tracker.learn(row) for row in rows]
    losses = [each.loss for each in output_text if each is not None]
    assert losses == features.loss[-len(losses) :].tolist() and len(losses) >= 200


def test_counters_never_fall() -> None:
    rows, tracker = regimes(3), get_tracker("covariance")
    state = tracker.init(AUTO, rows[:40])
    before = tracker.counters(state)
    for start in range(0, len(rows), 7):
        state, _ = tracker.update(AUTO, state, rows[start : start + 7])
        after = tracker.counters(state)
        assert all(after[name] >= before[name] for name in before)
        before = after


def test_what_does_not_go_with_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="halflife_seconds"):
        CovarianceSpec(halflife="auto", halflife_seconds=3.0)
    with pytest.raises(ConfigError, match="halflife = 'soon'"):
        CovarianceSpec(halflife="soon")
    state, _ = run_all(AUTO, regimes(0)[:100])
    with pytest.raises(ConfigError, match=r"halflife = 'auto'.*moving window"):
        MovingWindow(10).init(AUTO, state)
    state.choice[-1] = 7.0
    with pytest.raises(DataError, match=r"choice.*half-lives \[12.0, 3.0, 48.0\]"):
        codec.decode(codec.encode(AUTO, state))
