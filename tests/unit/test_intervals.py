"""Intervals of predictions: what follows the errors, and what share of targets it holds."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import learn_all
from kerneltrack.learners import AutoSpec, LearnerSpec, LMSSpec, POLKSpec, RidgeSpec
from kerneltrack.learners.common.board import of_intervals
from tests.oracles.learner_cases import stream

FloatArray = npt.NDArray[np.float64]
SKIPPED = 100
"""Rows that are scored for nobody: the bound begins with the first error."""


def followed(errors: FloatArray, missing: float) -> FloatArray:
    """The bound before each error, by the equations of `prequential`."""
    found, log_bound, run = np.full(len(errors), np.nan), 0.0, 0
    pace = min(0.2, 0.1 * math.sqrt(0.1 / missing))
    longest = {
        miss: math.floor(math.log(1e-5) / math.log(chance))
        for miss, chance in ((True, missing), (False, 1.0 - missing))
    }
    for t, error in enumerate(errors):
        if t == 0:
            log_bound = math.log(error)
            continue
        found[t] = math.exp(log_bound)
        miss = bool(error > found[t])
        run = max(run, 0) + 1 if miss else min(run, 0) - 1
        times = max(1, abs(run) - longest[miss])
        log_bound += max(pace, 1.0 / math.sqrt(t)) * times * (miss - missing)
    return found


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
def test_the_bound_follows_the_errors(coverage: float) -> None:
    spec = RidgeSpec(task="regression", intervals=coverage)
    rows, targets = stream(spec, count=600, seed=3)
    _, said = learn_all(spec, rows, targets)
    assert said.value is not None and said.error is not None
    assert said.lower is not None and said.upper is not None
    scored = np.flatnonzero(said.scored)
    expected = followed(said.error[scored], 1.0 - coverage)
    width = (said.upper - said.lower)[scored]
    np.testing.assert_allclose(width, 2.0 * expected, rtol=1e-6)
    known = ~np.isnan(said.lower)
    np.testing.assert_allclose((said.lower + said.upper)[known] / 2, said.value[known], rtol=1e-12)


def made(kind: str, seed: int, count: int = 6_000) -> tuple[FloatArray, FloatArray]:
    """Rows and targets; the noise of most of them changes."""
    rng = np.random.default_rng(seed)
    rows, at = rng.normal(size=(count, 4)) / 2, np.arange(count) / count
    noise = {
        "still": rng.normal(size=count),
        "heavy tails": rng.standard_t(2, size=count),
        "jumps of size": rng.normal(size=count) * np.where((at > 0.3) & (at < 0.6), 30.0, 1.0),
        "slow growth": rng.normal(size=count) * np.exp(4 * at),
        "drift": rng.normal(size=count) + np.cumsum(rng.normal(size=count)) / 5,
        "skewed": rng.exponential(size=count),
    }[kind]
    weights = rng.normal(size=4)
    targets = rows @ weights + np.sin(4 * rows[:, 0]) + 0.3 * noise
    if kind == "drift":
        targets[count // 2 :] += 5 * rows[count // 2 :, 1]
    return rows, 1e4 + targets


KINDS = ("still", "heavy tails", "jumps of size", "slow growth", "drift", "skewed")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize(
    "kind_of", [RidgeSpec, LMSSpec, POLKSpec, AutoSpec], ids=lambda kind: kind.learner
)
def test_the_stated_share_of_targets_is_inside(
    kind: str, coverage: float, kind_of: type[LearnerSpec]
) -> None:
    spec = kind_of(task="regression", intervals=coverage)
    rows, targets = made(kind, seed=11)
    _, said = learn_all(spec, rows, targets)
    assert said.lower is not None and said.upper is not None and said.error is not None
    told = ~np.isnan(said.lower)
    told[np.flatnonzero(told)[:SKIPPED]] = False
    within = of_intervals(coverage, said.lower[told], said.upper[told], targets[told])
    assert abs(within[:, 0].mean() - coverage) < 0.02
    # As good as the half width that is the best of one for all rows, known only in hindsight.
    half = float(np.quantile(said.error[told], coverage))
    assert said.value is not None
    still = of_intervals(coverage, said.value[told] - half, said.value[told] + half, targets[told])
    assert within[:, 2].mean() < 1.1 * still[:, 2].mean()


@pytest.mark.parametrize("size", [1e6, 1e-6])
def test_errors_of_another_size_are_followed_soon(size: float) -> None:
    rng = np.random.default_rng(0)
    rows, targets = np.ones((6_000, 1)), rng.normal(size=6_000)
    targets[3_000:] *= size
    spec = LMSSpec(task="regression", intervals=0.9, step_size=0.01)
    _, said = learn_all(spec, rows, targets)
    assert said.lower is not None and said.upper is not None
    inside = (said.lower <= targets) & (targets <= said.upper)
    assert abs(inside[3_600:].mean() - 0.9) < 0.03
    assert np.median((said.upper - said.lower)[3_600:]) < 6.0 * size


def test_targets_without_errors_have_intervals_of_no_width() -> None:
    spec = RidgeSpec(task="regression", intervals=0.9)
    targets = np.full(2_000, 7.0)
    targets[1_500:] += np.random.default_rng(0).normal(size=500)
    _, said = learn_all(spec, np.ones((2_000, 1)), targets)
    assert said.lower is not None and said.upper is not None
    assert (said.lower[2:1_500] == 7.0).all() and (said.upper[2:1_500] == 7.0).all()
    inside = (said.lower <= targets) & (targets <= said.upper)
    assert inside[1_600:].mean() > 0.8


def test_classes_have_no_intervals() -> None:
    with pytest.raises(ConfigError, match=r"intervals = 0\.9: must be none"):
        RidgeSpec(intervals=0.9)
