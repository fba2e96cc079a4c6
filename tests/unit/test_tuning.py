"""Settings tried on a sample: what a trial measures, the rounds, the time, the choice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import learn_all, run_all
from kerneltrack.learners import AutoSpec, RidgeSpec
from kerneltrack.learners.common.inputs import own_inputs
from kerneltrack.learners.common.spec import CLASSIFICATION, REGRESSION
from kerneltrack.trackers import OKFEBSpec, RowsSpec
from kerneltrack.tuning import (
    FIRST_ROWS,
    Candidate,
    Stretch,
    Trial,
    candidates,
    chosen,
    first_rows,
    try_out,
    tune,
)

STILL = RowsSpec(rank=3)


def stretch(count: int, seed: int = 0, regression: bool = False) -> Stretch:
    rows = np.random.default_rng(seed).normal(size=(count, 3))
    inside = np.sum(rows * rows, axis=1) < 2.4
    if regression:
        return Stretch(rows, rows[:, 0] - rows[:, 1], None)
    names = np.where(inside, "in", "out").astype(object)
    names[::7] = None
    return Stretch(rows, names, None)


def test_a_trial_is_what_the_core_says_of_each_model_alone() -> None:
    tracker, learner = OKFEBSpec(rank=4, budget=8), AutoSpec(budget=20)
    parts = [stretch(400, 1), stretch(300, 2)]
    trial = try_out(Candidate("both", tracker, learner), parts)
    right = []
    for part in parts:
        tracked, features = run_all(tracker, part.rows)
        own = own_inputs(tracker, tracked, part.rows)
        _, output_text = learn_all(learner, own, part.labels.tolist())
        assert features.valid.all()
        right.append(np.asarray(output_text.correct)[output_text.scored])
    joined = np.concatenate(right)
    assert (trial.rows, trial.scored) == (700, len(joined))
    assert trial.score == pytest.approx(joined.mean(), abs=1e-12)
    assert trial.error == pytest.approx(joined.std() / np.sqrt(len(joined)))
    assert trial.state_bytes > 8 * 20 * 20 and trial.micros > 0


def test_targets_are_judged_by_minus_the_root_mean_squared_error() -> None:
    part = stretch(500, 3, regression=True)
    spec = RidgeSpec(task=REGRESSION, forgetting=1.0)
    trial = try_out(Candidate("ridge", STILL, spec), [part])
    tracked, features = run_all(STILL, part.rows)
    assert features.z is not None and tracked is not None
    _, output_text = learn_all(spec, features.z, part.labels)
    errors = np.asarray(output_text.error)[output_text.scored]
    assert trial.score == pytest.approx(-np.sqrt(np.mean(errors**2)))


@pytest.mark.parametrize("task", [CLASSIFICATION, REGRESSION])
def test_every_candidate_can_be_tried(task: str) -> None:
    part = stretch(160, 4, regression=task == REGRESSION)
    names = [candidate.name for candidate in candidates(task, 3)]
    assert names[0] == "auto" and len(set(names)) == len(names) >= 12
    for candidate in candidates(task, 3):
        trial = try_out(candidate, [part])
        assert trial.scored > 100 and np.isfinite(trial.score), candidate.name


def test_the_better_ones_see_more_rows_and_the_default_stays() -> None:
    poor = Candidate("poor default", STILL, RidgeSpec(forgetting=1.0))
    good = [
        Candidate(f"map {budget}", OKFEBSpec(), AutoSpec(budget=budget))
        for budget in (10, 20, 30, 40)
    ]
    others = [Candidate(f"stiff {n}", STILL, RidgeSpec(ridge=1e4 * n)) for n in (1, 2, 3)]
    trials = tune([poor, *others, *good], [stretch(2_500), stretch(2_600, 9)], 1e6)
    longest = [trial.candidate.name for trial in trials if trial.rows == trials[0].rows]
    assert trials[0].rows == 5_100 and len(trials) == 8
    assert "poor default" in longest and longest[0].startswith("map")
    assert not any(name.startswith("stiff") for name in longest)
    scores = [trial.score for trial in trials if trial.rows == 5_100]
    assert scores == sorted(scores, reverse=True)


def test_no_trial_is_begun_that_would_end_after_the_time() -> None:
    """Every look at the clock takes a second here: each trial takes one, the time is for five."""
    ticks = itertools.count()
    tried = [Candidate(f"ridge {n}", STILL, RidgeSpec(ridge=0.1 * n)) for n in range(1, 20)]
    trials = tune(tried, [stretch(300)], 12.0, clock=lambda: float(next(ticks)))
    assert 1 < len(trials) < 8
    assert next(ticks) <= 12 + len(tried)
    alone = tune(tried, [stretch(300)], 0.5, clock=lambda: float(next(ticks)))
    assert [trial.candidate.name for trial in alone] == ["ridge 1"]


def test_first_rows_are_the_same_share_of_every_model() -> None:
    timed = stretch(100)._replace(times=np.arange(100))
    parts = first_rows([stretch(1_000), timed, stretch(1)], FIRST_ROWS // 2)
    assert [len(part.rows) for part in parts] == [455, 46, 1]
    assert parts[1].times is not None and parts[1].times.tolist() == list(range(46))
    assert [len(part.labels) for part in parts] == [455, 46, 1]


def test_the_cheapest_within_a_standard_error_of_the_best_is_chosen() -> None:
    def trial(name: str, rows: int, score: float, micros: float) -> Trial:
        return Trial(Candidate(name, STILL, RidgeSpec()), rows, rows, score, 0.01, micros, 1)

    best, near, far = trial("a", 99, 0.9, 9.0), trial("b", 99, 0.892, 3.0), trial("c", 99, 0.88, 1)
    early = trial("d", 50, 0.99, 0.1)
    assert chosen([best, near, far, early]) is near
    assert chosen([best, far, early]) is best


def test_what_cannot_be_tried_is_refused() -> None:
    one = Candidate("ridge", STILL, RidgeSpec())
    with pytest.raises(ConfigError, match="tried"):
        tune([], [stretch(9)], 1)
    with pytest.raises(ConfigError, match="stretches"):
        tune([one], [], 1)
    with pytest.raises(ConfigError, match="seconds = 0"):
        tune([one], [stretch(9)], 0)
