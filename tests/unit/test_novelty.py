"""The novelty score: exact mid-ranks in a sliding window, and what they mean."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from kerneltrack.in_memory import run_all
from kerneltrack.trackers import OKFEB
from tests.oracles.streams import small_spec, walk

TRACKER = OKFEB()


@pytest.mark.parametrize("window", [100, 137])
@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
def test_mid_rank_among_the_last_losses(window: int, kernel: str) -> None:
    """(below + (equal + 1)/2)/(m + 1) among the m losses before; ties by zero rows."""
    rows = walk(0, 500, 3)
    rows[::7] = 0.0
    _, features = run_all(small_spec(novelty_window=window, kernel=kernel), rows)
    losses, scores = features.loss[~features.initial], features.novelty[~features.initial]
    for n, (loss, score) in enumerate(zip(losses, scores, strict=True)):
        last = losses[max(0, n - window) : n]
        expected = ((last < loss).sum() + 0.5 * ((last == loss).sum() + 1)) / (len(last) + 1)
        assert score == expected
    assert (features.novelty[features.initial] == 0.5).all()


def test_uniform_on_exchangeable_losses() -> None:
    """Under a subspace that stands still, on i.i.d. rows: a false-alarm rate is what it says.

    Scores in one window share their reference, so that they are a martingale's ranks, not
    independent: taken once per window they are. Kolmogorov-Smirnov at level 1e-3, fixed seed.
    """
    spec = small_spec(censor="fixed", threshold=10.0, novelty_window=100, emit="q")
    rows = np.random.default_rng(1).normal(size=(60_000, 3))
    _, features = run_all(spec, rows)
    assert not features.informative[6:].any()
    scores = features.novelty[200:]
    assert scipy.stats.kstest(scores[::101], "uniform").pvalue > 1e-3
    for level in (0.9, 0.95, 0.99):
        # Binomial with the sample's size, widened threefold for the shared windows.
        wide = 3 * 3 * np.sqrt(level * (1 - level) / len(scores))
        assert (scores > level).mean() == pytest.approx(1 - level, abs=wide + 1 / 101)


def test_a_change_of_regime_is_seen() -> None:
    calm = np.random.default_rng(2).normal(scale=0.3, size=(400, 3))
    _, features = run_all(small_spec(), np.vstack([calm, calm[:10] + 5]))
    assert features.novelty[400] > 0.99
    assert features.novelty[300:400].mean() == pytest.approx(0.5, abs=0.1)


def test_project_scores_without_remembering() -> None:
    spec = small_spec()
    state, features = run_all(spec, walk(3, 200, 3))
    probe = walk(4, 30, 3)
    together = TRACKER.project(spec, state, probe)
    alone = [TRACKER.project(spec, state, probe[n : n + 1]).novelty[0] for n in range(30)]
    assert together.novelty.tolist() == alone
    last = features.loss[~features.initial][-197:]
    expected = [((last < loss).sum() + 0.5) / (len(last) + 1) for loss in together.loss]
    assert alone == expected


def test_the_first_scores_are_in_the_middle() -> None:
    spec = small_spec()
    _, features = run_all(spec, walk(5, 4, 3))
    assert features.novelty.tolist() == [0.5] * 4
