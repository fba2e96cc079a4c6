"""The running standardiser, and that the row loop scales as it does."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kerneltrack.in_memory import run_all
from kerneltrack.kernels import median_bandwidth
from kerneltrack.trackers import OKFEB, OKFEBSpec
from kerneltrack.trackers.common.scaling import apply_scaling, no_scaling, standard_scaling
from tests.oracles.streams import walk

Array = npt.NDArray[np.float64]
EPS = 2.0**-52


def test_mean_and_deviation() -> None:
    rows = np.random.default_rng(0).normal(loc=[5, -3, 0], scale=[2, 0.1, 40], size=(200, 3))
    scaling = standard_scaling(rows, np.inf)
    assert scaling.scale == pytest.approx(rows.std(axis=0), rel=1e-13)
    assert scaling.shift == pytest.approx(rows.mean(axis=0) / rows.std(axis=0), rel=1e-12)
    scaled = apply_scaling(scaling, rows, np.inf)
    assert np.abs(scaled.mean(axis=0)).max() < 1e-12
    assert scaled.std(axis=0) == pytest.approx(np.ones(3), rel=1e-12)


@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 20), st.integers(1, 3)),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    ),
    st.sampled_from([np.inf, 3.0, 1e-3]),
)
def test_any_finite_rows_give_a_usable_scaling(rows: Array, clip: float) -> None:
    scaling = standard_scaling(rows, clip)
    assert np.isfinite(scaling.shift).all() and np.isfinite(scaling.scale).all()
    assert (scaling.scale > 0).all()


def test_a_channel_without_spread_is_centred_only() -> None:
    scaling = standard_scaling(np.column_stack([np.full(9, 0.1), np.zeros(9)]), np.inf)
    assert scaling.scale.tolist() == [1.0, 1.0]
    assert scaling.shift == pytest.approx([0.1, 0.0])


def test_with_a_clip_an_outlier_does_not_flatten_the_rest() -> None:
    rows = np.random.default_rng(1).normal(size=(101, 1))
    outlier = rows.copy()
    outlier[50] = 1e6
    assert standard_scaling(outlier, np.inf).scale[0] > 1e4
    assert standard_scaling(outlier, 4.0).scale[0] == pytest.approx(rows.std(), rel=0.15)


def test_no_scaling() -> None:
    rows = walk(0, 10, 2)
    assert np.array_equal(apply_scaling(no_scaling(2), rows, np.inf), rows)


@pytest.mark.parametrize("clip", [None, 1.0])
def test_the_row_loop_scales_in_the_same_way(clip: float | None) -> None:
    """Stored rows, and the bandwidth, are those of the scaled rows, bit for bit."""
    spec = OKFEBSpec(rank=5, budget=40, warmup=30, clip=clip)
    rows = walk(1, 30, 3) * [1.0, 1e5, 1e-7] + [0, 1e3, 0]
    state, _ = run_all(spec, rows)
    reach = np.inf if clip is None else clip
    scaled = apply_scaling(standard_scaling(rows, reach), rows, reach)
    assert np.array_equal(state.support[: state.size], scaled)
    assert state.bandwidth[0] == median_bandwidth("gaussian", scaled)
    assert clip is None or np.abs(scaled).max() == clip


def test_a_model_with_fewer_rows_than_the_warm_up_uses_all_it_has() -> None:
    rows = walk(2, 7, 2)
    state = OKFEB().init(OKFEBSpec(rank=2, budget=3, warmup=500), rows)
    assert state.scale == pytest.approx(rows.std(axis=0), rel=1e-13)


def test_scale_and_offset_of_the_channels_do_not_matter() -> None:
    """Powers of two scale without rounding, so that the features are the same bits."""
    spec, rows = OKFEBSpec(rank=3, budget=5, warmup=50), walk(3, 120, 2)
    _, plain = run_all(spec, rows)
    _, scaled = run_all(spec, rows * [2.0**20, 2.0**-30])
    assert np.array_equal(plain.loss, scaled.loss)
