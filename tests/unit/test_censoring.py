"""Which rows are learned from: the three thresholds (section V-A, VII-D)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest

from kerneltrack.in_memory import run_all
from kerneltrack.trackers import OKFEB, OKFEBSpec
from tests.oracles.streams import imu, raw, small_spec, state_bytes, walk

Array = npt.NDArray[np.float64]
TRACKER = OKFEB()


def test_nothing_is_censored_before_the_budget_is_full() -> None:
    for censor in ("fixed", "moving", "rate"):
        spec = small_spec(censor=censor, threshold=1e9, censor_rate=0.99)
        _, features = run_all(spec, walk(0, 40, 3))
        assert features.informative[:6].all()
    _, features = run_all(small_spec(censor="fixed", threshold=1e9), walk(0, 40, 3))
    assert not features.informative[6:].any()


@pytest.mark.parametrize("threshold", [0.0, 0.3, 1.0])
def test_fixed_takes_rows_at_or_above_the_threshold(threshold: float) -> None:
    _, features = run_all(small_spec(censor="fixed", threshold=threshold), walk(1, 300, 3))
    assert np.array_equal(features.informative[6:], features.loss[6:] >= threshold)


@pytest.mark.parametrize("window", [100, 257])
def test_moving_is_the_mean_of_the_last_100_losses_before_the_row(window: int) -> None:
    """Censored rows' losses count, the start's do not; exact but for the order of a sum."""
    spec = small_spec(censor="moving", novelty_window=window)
    _, features = run_all(spec, walk(2, 700, 3))
    losses = features.loss[~features.initial]
    informative = features.informative[~features.initial]
    for n in range(3, len(losses)):
        mean = losses[max(0, n - 100) : n].mean()
        if abs(losses[n] - mean) > 1e-13:
            assert informative[n] == (losses[n] >= mean)
    assert 0.2 < informative[100:].mean() < 0.8


@pytest.mark.parametrize("rate", [0.3, 0.7, 0.95])
def test_rate_holds_its_target_on_independent_rows(rate: float) -> None:
    """To three standard errors of the controller's own noise, here below .03."""
    rows = np.random.default_rng(3).normal(size=(6000, 3))
    _, features = run_all(small_spec(censor="rate", censor_rate=rate, emit="q"), rows)
    assert 1 - features.informative[1000:].mean() == pytest.approx(rate, abs=0.03)


@pytest.mark.parametrize("rate", [0.5, 0.9])
@pytest.mark.parametrize("name", ["watch", "motionsense"])
def test_rate_holds_its_target_on_recordings(
    rate: float, name: str, sample: Path, data_file: Callable[[str], Path]
) -> None:
    if name == "watch":
        rows = imu(sample, 20_000)
    else:
        rows = motion(data_file("motionsense.parquet"))
    spec = OKFEBSpec(rank=6, budget=12, censor="rate", censor_rate=rate, emit="q")
    _, features = run_all(spec, rows)
    assert 1 - features.informative[2000:].mean() == pytest.approx(rate, abs=0.04)


def motion(path: Path) -> Array:
    batch = next(pq.ParquetFile(path).iter_batches(20_000))
    reals = [c for c in batch.columns if str(c.type) in ("float", "double")]
    return np.column_stack([c.to_numpy(zero_copy_only=False) for c in reals]).astype(np.float64)


def test_a_censored_row_changes_no_subspace() -> None:
    """Only what counts rows and losses moves."""
    spec = small_spec(censor="fixed", threshold=0.9)
    state, _ = run_all(spec, walk(4, 50, 3))
    rows = walk(5, 200, 3)
    quiet = rows[TRACKER.project(spec, state, rows).loss < 0.9][:20]
    assert len(quiet) == 20
    after, features = TRACKER.update(spec, state, quiet)
    assert not features.informative.any() and (features.evicted == -1).all()
    before, now = state_bytes(state), state_bytes(after)
    changed = {name for name in before if before[name] != now[name]}
    assert changed == {"recent", "reals", "counts"}
    # And features are emitted all the same.
    expected = TRACKER.project(spec, state, quiet)
    assert raw(features.z) == raw(expected.z) and raw(features.loss) == raw(expected.loss)


def test_the_controller_starts_at_zero_and_rises() -> None:
    spec = small_spec(censor="rate", censor_rate=0.8)
    rows = walk(6, 2000, 3)
    state = TRACKER.init(spec, rows[:1])
    epsilons = []
    for low in range(0, 2000, 20):
        state, _ = TRACKER.update(spec, state, rows[low : low + 20])
        epsilons.append(float(state.reals[1]))
    assert epsilons[0] < 0.2 * np.mean(epsilons[50:])
    assert min(epsilons) >= 0.0
