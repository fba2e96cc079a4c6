"""Whatever is chosen and whatever comes: finite features, losses in [0, κ(x,x)]."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest

from kerneltrack.in_memory import run_all
from kerneltrack.kernels import gram, make_kernel
from kerneltrack.registry import get_tracker
from kerneltrack.specs import KERNELS
from kerneltrack.trackers import OKFEB, OKFEBSpec
from kerneltrack.trackers.common.scaling import apply_scaling, standard_scaling
from kerneltrack.trackers.okfeb.spec import POLICIES, RULES, STEPS
from tests.oracles.streams import imu, walk

Array = npt.NDArray[np.float64]
TRACKER = OKFEB()
MENDED, UNSEEN = 6, 7
BLOCK = 50
"""Rows whose κ(x,x) are taken from one matrix: a call for each costs more than the trackers."""
TOP = 0.999e6
"""The largest step size, nearly."""


def check(spec: OKFEBSpec, state: Any, features: Any, rows: Array) -> None:
    """Features finite, losses in range, the state usable."""
    valid = features.valid
    kernel = make_kernel(spec.kernel, float(state.bandwidth[0]), spec.degree, spec.offset)
    scaled = rows / state.scale - state.shift
    parts = np.array_split(scaled[valid], len(rows) // BLOCK + 1)
    own = np.concatenate([np.diag(gram(kernel, part, part)) for part in parts])
    assert (features.loss[valid] >= 0).all() and (features.loss[valid] <= own).all()
    for array in (features.z, features.q, features.novelty):
        assert array is None or np.isfinite(array[valid]).all()
    assert all(np.isfinite(array).all() for array in state)


def nasty(seed: int = 0) -> dict[str, Array]:
    """Streams on which a plain gradient step goes wrong."""
    rng = np.random.default_rng(seed)
    calm = walk(seed, 240, 3)
    twins = np.repeat(calm[:60], 4, axis=0)
    jumps = calm.copy()
    jumps[::9] *= 1e3
    return {
        "near duplicates": twins + 1e-9 * rng.normal(size=twins.shape),
        "one point, jittered": 1.0 + 1e-7 * rng.normal(size=(240, 3)),
        "two far clusters": np.where(rng.random((240, 1)) < 0.5, calm, calm + 50),
        "every row far from all": 40 * rng.normal(size=(240, 3)),
        "growing": calm * np.geomspace(1e-3, 1e3, 240)[:, None],
        "jumps": jumps,
        "on a line": np.outer(np.linspace(-3, 3, 240), [1.0, 2.0, -1.0]),
        "one outlier": np.vstack([calm[:100], 10 * calm[100:101], calm[101:]]),
    }


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("rule", RULES)
def test_nasty_streams(rule: str, step: str, kernel: str) -> None:
    for rows in nasty().values():
        for policy in POLICIES:
            for size in (1.0, TOP):
                spec = OKFEBSpec(
                    rank=4,
                    budget=7,
                    kernel=kernel,
                    gamma=2.0,
                    degree=3,
                    rule=rule,
                    step=step,
                    step_size=size,
                    policy=policy,
                    standardise=False,
                )
                state, features = run_all(spec, rows, ("q",))
                check(spec, state, features, rows)
                assert features.valid.all()
                if step not in ("inverse_n", "inverse_n2"):
                    break


@pytest.mark.parametrize("kernel", KERNELS)
def test_scales_far_from_one(kernel: str) -> None:
    for scale in 10.0 ** np.arange(-160, 50, 10):
        rows = np.random.default_rng(1).normal(size=(60, 3)) * scale
        for rule in RULES:
            for step in STEPS:
                for policy in POLICIES:
                    spec = OKFEBSpec(
                        rank=3,
                        budget=5,
                        kernel=kernel,
                        offset=0.0,
                        gamma=2.0,
                        rule=rule,
                        step=step,
                        policy=policy,
                        standardise=False,
                    )
                    state, features = run_all(spec, rows, ("q",))
                    check(spec, state, features, rows)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_default_is_never_mended_on_the_sample(kernel: str, sample: Path) -> None:
    rows = imu(sample, 20_000)
    for order in (slice(None), np.random.default_rng(0).permutation(len(rows))):
        spec = OKFEBSpec(rank=10, budget=15, kernel=kernel)
        state, features = run_all(spec, rows[order])
        assert state.counts[MENDED] == 0 and state.counts[UNSEEN] == 0
        if kernel in ("gaussian", "laplacian"):
            check(spec, state, features, rows[order])
            assert 0 < features.loss[-5000:].mean() < 0.7


@pytest.mark.parametrize("rule", RULES)
def test_the_default_step_is_never_mended_on_motionsense(
    rule: str, data_file: Callable[[str], Path]
) -> None:
    batch = next(pq.ParquetFile(data_file("motionsense.parquet")).iter_batches(30_000))
    reals = [c for c in batch.columns if str(c.type) in ("float", "double")]
    rows = np.column_stack([c.to_numpy(zero_copy_only=False) for c in reals]).astype(np.float64)
    spec = OKFEBSpec(rank=10, budget=15, rule=rule)
    state, features = run_all(spec, rows)
    assert state.counts[MENDED] == 0
    check(spec, state, features, rows)


def test_the_papers_step_is_mended_on_the_sample_in_random_order(sample: Path) -> None:
    """1/‖q‖ outgrows the bound on A on real rows; the mended tracker fits as before."""
    rows = imu(sample, 82_152)
    rows = rows[np.random.default_rng(0).permutation(len(rows))[:6000]]
    for rule in RULES:
        spec = OKFEBSpec(rank=10, budget=15, rule=rule, step="inverse_norm")
        state = TRACKER.init(spec, rows[:500])
        mended = []
        losses = []
        for low in range(0, 6000, 100):
            state, features = TRACKER.update(spec, state, rows[low : low + 100])
            check(spec, state, features, rows[low : low + 100])
            mended.append(int(state.counts[MENDED]))
            losses.append(features.loss.mean())
        assert mended[-1] > 0
        assert TRACKER.counters(state)["mended"] == mended[-1]
        assert np.mean(losses[-20:]) < 0.5


def test_mending_is_counted_where_the_step_is_absurd() -> None:
    """μ = 10⁶/n on ten rows: the first updates are replaced, and the count says so."""
    spec = OKFEBSpec(
        rank=3,
        budget=6,
        gamma=4.0,
        rule="nonparametric",
        step="inverse_n",
        step_size=TOP,
        standardise=False,
    )
    rows = walk(2, 300, 3)
    state, features = run_all(spec, rows)
    assert 0 < state.counts[MENDED]
    check(spec, state, features, rows)


def test_a_row_that_the_subspace_cannot_see_enters_at_random() -> None:
    """Far rows under a Gaussian kernel: k = 0 exactly, q = 0, and 1/‖q‖ would be infinite."""
    calm = walk(3, 50, 2)
    for rule in RULES:
        for step in STEPS:
            spec = OKFEBSpec(rank=3, budget=6, gamma=1.0, rule=rule, step=step, standardise=False)
            state, _ = run_all(spec, calm)
            far = calm[:1] + 1e4
            after, features = TRACKER.update(spec, state, np.vstack([far, far]))
            assert features.loss[0] == 1.0
            check(spec, after, features, np.vstack([far, far]))
            stays = features.evicted[0] != features.index[0]
            # Once it is in, its like is seen; where the budget policy drops it, it is not.
            assert after.counts[UNSEEN] == state.counts[UNSEEN] + (1 if stays else 2)
            assert (features.loss[1] < 1.0) == stays


def test_scaled_rows_are_what_losses_are_bounded_by() -> None:
    """κ(x,x) is that of the standardised, clipped row."""
    rows = walk(4, 200, 3) * 50
    spec = OKFEBSpec(rank=3, budget=6, kernel="linear", clip=1.5, warmup=50)
    _, features = run_all(spec, rows)
    scaled = apply_scaling(standard_scaling(rows[:50], 1.5), rows, 1.5)
    assert (features.loss <= (scaled**2).sum(axis=1) * (1 + 1e-15)).all()
    assert get_tracker("okfeb").counters(run_all(spec, rows)[0])["mended"] == 0
