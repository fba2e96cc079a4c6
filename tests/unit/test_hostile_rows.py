"""100,000 rows made to do harm: each is served or refused, and none spoils what follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.specs import KERNELS
from kerneltrack.trackers import OKFEB, OKFEBSpec
from tests.oracles.streams import feature_bytes, state_bytes, walk
from tests.parts import examples

Array = npt.NDArray[np.float64]
TRACKER = OKFEB()
WIDTH, BLOCK, EXAMPLES = 3, 125, 100
VALUES = (
    np.nan, np.inf, -np.inf, 1.7e308, 1e308, -1e308, 1e200, 1e154, -1e150, 1e77, 1e20, 1e6,
    1.0, -1.0, 0.0, -0.0, 1e-8, 1e-77, 1e-154, 2.2e-308, 1e-310, 5e-324, -5e-324,
)  # fmt: skip


@st.composite
def blocks(draw: st.DrawFn) -> Array:
    """Ordinary rows, and among them hostile values, whole hostile rows, repeats and constants."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = walk(int(rng.integers(2**20)), BLOCK, WIDTH)
    chosen = np.array(draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=4)))
    for share, whole in ((draw(st.floats(0, 0.3)), False), (draw(st.floats(0, 0.3)), True)):
        hit = rng.random((BLOCK, 1 if whole else WIDTH)) < share
        rows = np.where(hit, rng.choice(chosen, size=(BLOCK, 1 if whole else WIDTH)), rows)
    repeats = rng.random(BLOCK) < draw(st.floats(0, 0.5))
    for n in np.flatnonzero(repeats[1:]) + 1:
        rows[n] = rows[n - 1]
    with np.errstate(over="ignore"):
        return rows * draw(st.sampled_from([1.0, 1.0, 1e-150, 1e40]))


def spec_of(kernel: str, rule: str, step: str, policy: str, clip: float | None) -> OKFEBSpec:
    return OKFEBSpec(
        rank=3,
        budget=5,
        kernel=kernel,
        rule=rule,
        step=step,
        policy=policy,
        clip=clip,
        warmup=50,
        novelty_window=100,
    )


CASES: list[tuple[str, str, str, str, float | None]] = [
    ("gaussian", "parametric", "normalised", "norm", None),
    ("gaussian", "nonparametric", "inverse_norm", "norm", 5.0),
    ("laplacian", "nonparametric", "normalised", "distortion", None),
    ("laplacian", "parametric", "inverse_n2", "fifo", 5.0),
    ("polynomial", "parametric", "normalised", "norm", 5.0),
    ("polynomial", "nonparametric", "inverse_n", "compensated", None),
    ("linear", "parametric", "normalised", "norm", None),
    ("linear", "parametric", "inverse_norm", "compensated", None),
]


def finite_features(features: Any, rows: Any = slice(None)) -> bool:
    arrays = (features.z, features.q, features.loss, features.novelty)
    return all(np.isfinite(array[rows]).all() for array in arrays)


@pytest.mark.parametrize("case", CASES, ids=["-".join(map(str, case)) for case in CASES])
@settings(max_examples=examples(EXAMPLES))
@given(block=blocks())
def test_each_row_is_served_or_refused(
    case: tuple[str, str, str, str, float | None], block: Array
) -> None:
    """Each night 8 settings x 100 blocks x 125 rows: 100,000 rows."""
    spec = spec_of(*case)
    ordinary = walk(0, 70, WIDTH)
    with np.errstate(over="ignore", invalid="ignore"):
        state = TRACKER.init(spec, ordinary[:50])
        state, _ = TRACKER.update(spec, state, ordinary)
        after, features = TRACKER.update(spec, state, block, ("q",))
    valid = features.valid
    assert not valid[np.isnan(block).any(axis=1)].any()
    moderate = (np.abs(block) <= 1e6).all(axis=1)
    assert valid[moderate].all()
    assert finite_features(features)
    assert all(np.isfinite(array).all() for array in after)
    assert (features.loss >= 0).all()
    assert after.n == state.n + valid.sum()
    # What follows is served, with losses in range and a subspace that still learns.
    _, served = TRACKER.update(spec, after, walk(1, 40, WIDTH), ("q",))
    assert served.valid.all() and finite_features(served)
    # Refused rows leave no trace.
    alone, expected = TRACKER.update(spec, state, block[valid], ("q",))
    assert state_bytes(alone) == state_bytes(after)
    assert feature_bytes(features, valid) == feature_bytes(expected)
    for row in block[~valid][:3]:
        with np.errstate(over="ignore"):
            assert TRACKER.why_refused(spec, after, row)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("clip", [None, 4.0])
def test_any_finite_warm_up_gives_a_usable_model(kernel: str, clip: float | None) -> None:
    """Outliers among the first rows: scale and bandwidth stay finite and positive."""
    spec = spec_of(kernel, "parametric", "normalised", "norm", clip)
    for value in VALUES:
        if not np.isfinite(value):
            continue
        rows = walk(2, 80, WIDTH)
        rows[::10, 0] = value
        with np.errstate(over="ignore", invalid="ignore"):
            state = TRACKER.init(spec, rows[:50])
            assert all(np.isfinite(array).all() for array in state)
            assert (state.scale > 0).all() and state.bandwidth[0] > 0
            _, features = TRACKER.update(spec, state, rows, ("q",))
        assert finite_features(features)
        ordinary = np.ones(80, dtype=bool)
        ordinary[::10] = False
        assert features.valid[ordinary].all()


def test_a_finite_outlier_is_clipped_or_kept_as_told() -> None:
    rows = walk(3, 100, WIDTH)
    rows[70, 1] = 1e9
    for clip in (None, 3.0):
        spec = spec_of("gaussian", "parametric", "normalised", "fifo", clip)
        state = TRACKER.init(spec, rows[:50])
        state, features = TRACKER.update(spec, state, rows[:71])
        assert features.valid[70]
        stored = state.support[np.argmax(state.born[: state.size])]
        assert np.abs(stored).max() == 3.0 if clip else np.abs(stored).max() > 1e8
