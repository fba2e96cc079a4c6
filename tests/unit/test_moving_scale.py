"""A scale that follows the rows, against a slow one, and how fast it follows."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import run_all
from kerneltrack.learners.common.inputs import own_inputs
from kerneltrack.trackers import (
    CovarianceSpec,
    DSKPCASpec,
    OANASpec,
    OKFEBSpec,
    OKFESpec,
    RowsSpec,
)
from kerneltrack.trackers.common.scaling import standard_scaling
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.start import StartSet, start_from
from tests.oracles.streams import walk
from tests.parts import examples

Array = npt.NDArray[np.float64]
FIRST_ROWS = 500.0


def slow_scale(rows: Array, warmup: int, window: int) -> tuple[Array, Array, Array]:
    """Return each row as it is scaled, and centre and deviation after all, from the definition.

    A block's mean and sum of squares are worked out anew of all its rows at each row.
    """
    first = standard_scaling(rows[:warmup], np.inf)
    centre, scale = first.shift * first.scale, first.scale.copy()
    before = (FIRST_ROWS, centre.copy(), FIRST_ROWS * scale**2)
    block: list[Array] = []
    scaled = []
    for row in rows:
        scaled.append((row - centre) / scale)
        reach = math.sqrt(before[0] + len(block) + 1) * scale
        block.append(np.clip(row, centre - reach, centre + reach))
        values = np.array(block)
        mean, squares = values.mean(axis=0), np.square(values - values.mean(axis=0)).sum(axis=0)
        count = before[0] + len(block)
        apart = mean - before[1]
        centre = before[1] + apart * len(block) / count
        between = apart**2 * before[0] * len(block) / count
        deviation = np.sqrt((before[2] + squares + between) / count)
        flat = deviation <= 4 * np.finfo(np.float32).eps * np.abs(centre)
        scale = np.where(flat, scale, deviation)
        if len(block) == window:
            before, block = (float(window), mean, squares), []
    return np.array(scaled), centre, scale


SPECS: list[SubspaceSpec] = [
    OKFEBSpec(rank=2, budget=4, standardise="moving", scale_window=40, warmup=30),
    OKFESpec(rank=2, standardise="moving", scale_window=40, warmup=30),
    CovarianceSpec(rank=2, budget=4, standardise="moving", scale_window=40, warmup=30),
    CovarianceSpec(
        rank=2, budget=4, halflife="auto", standardise="moving", scale_window=40, warmup=30
    ),
    OANASpec(rank=2, budget=4, standardise="moving", scale_window=40, warmup=30),
    RowsSpec(rank=3, standardise="moving", scale_window=40, warmup=30),
]


@pytest.fixture(params=SPECS, ids=lambda spec: spec.tracker)
def spec(request: pytest.FixtureRequest) -> SubspaceSpec:
    chosen: SubspaceSpec = request.param
    return chosen


def changed_units(count: int = 200) -> Array:
    """Rows of which two channels change their units in the middle, and one its origin."""
    rows = np.random.default_rng(3).normal(size=(count, 3)) * [1.0, 5.0, 0.1] + [0.0, 20.0, 3.0]
    rows[count // 2 :] = rows[count // 2 :] * [1000.0, 1e-3, 1.0] + [0.0, 0.0, 5.0]
    return rows


def test_every_tracker_scales_as_the_slow_one(spec: SubspaceSpec) -> None:
    rows = changed_units()
    state, features = run_all(spec, rows, ("x",))
    scaled, centre, scale = slow_scale(rows, 30, 40)
    assert features.x is not None
    # Centres cancel in x/scale - shift: errors grow with |centre| / scale, at most 1e4 here.
    assert features.x == pytest.approx(scaled, rel=1e-9, abs=1e-9)
    assert state.scale == pytest.approx(scale, rel=1e-11)
    assert state.shift * state.scale == pytest.approx(centre, rel=1e-11)


@settings(max_examples=examples(20))
@given(
    factor=st.sampled_from([1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3]),
    origin=st.sampled_from([0.0, 273.15, -273.15]),
    window=st.integers(80, 120),
    change=st.integers(1, 150),
)
def test_after_three_windows_the_old_units_are_forgotten(
    factor: float, origin: float, window: int, change: int
) -> None:
    rows = np.random.default_rng(1).normal(size=(change + 3 * window, 2))
    rows[change:] = (rows[change:] + origin) * factor
    spec = RowsSpec(rank=2, standardise="moving", scale_window=window, warmup=20)
    late, _ = run_all(spec, rows)
    # A few rows after the change count as closer than they are; no block has them any longer.
    ends = [rows[-back:].std(axis=0) for back in range(window, 2 * window + 1)]
    assert min(abs(end / late.scale - 1.0).max() for end in ends) < 1e-6
    assert late.shift * late.scale / factor == pytest.approx(origin, abs=0.5)


def test_one_wild_row_moves_little() -> None:
    rows = np.random.default_rng(2).normal(size=(300, 1))
    rows[150] = 1e12
    spec = RowsSpec(rank=1, standardise="moving", scale_window=100, warmup=50)
    state, _ = run_all(spec, rows[:151])
    assert state.scale[0] < 1.6 and abs(state.shift[0] * state.scale[0]) < 0.2


@pytest.mark.parametrize("value", [1e308, -1e308, 1e-310, 0.0])
def test_values_at_the_ends_of_the_range_break_nothing(spec: SubspaceSpec, value: float) -> None:
    rows = walk(seed=4, count=200, width=3)
    rows[60:63] = value
    state, features = run_all(spec, rows, ("x",))
    assert np.isfinite(state.shift).all() and np.isfinite(state.scale).all()
    assert (state.scale > 0).all() and features.valid[150:].all()


def test_a_channel_without_spread_keeps_its_scale() -> None:
    rows = np.random.default_rng(5).normal(size=(300, 1))
    rows[100:] = 2.5
    state, _ = run_all(RowsSpec(rank=1, standardise="moving", scale_window=40, warmup=50), rows)
    assert state.scale[0] > 0.01 and state.shift[0] * state.scale[0] == pytest.approx(2.5)


def test_rows_that_are_refused_or_only_looked_at_move_nothing(spec: SubspaceSpec) -> None:
    rows = changed_units()
    bad = rows.copy()
    bad[50:60, 1] = np.nan
    state, _ = run_all(spec, bad)
    without, _ = run_all(spec, np.delete(rows, np.arange(50, 60), axis=0))
    assert state.scale.tobytes() == without.scale.tobytes()
    assert state.shift.tobytes() == without.shift.tobytes()


def test_learners_get_rows_as_they_were_scaled(spec: SubspaceSpec) -> None:
    rows = changed_units()
    state, features = run_all(spec, rows, ("x",))
    own = own_inputs(spec, state, rows, features.x)
    scaled, _, _ = slow_scale(rows, 30, 40)
    wanted = np.clip(scaled, -4, 4) / math.sqrt(3)
    assert own == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("halflife", [None, "auto"])
def test_landmarks_begin_with_the_scale_of_their_batch(halflife: str | None) -> None:
    rows = np.random.default_rng(0).normal(size=(20, 2))
    start = StartSet(rows, np.full(2, 0.5), np.full(2, 2.0), 4.0, "gaussian", True)
    spec = dataclasses.replace(
        CovarianceSpec(rank=5, budget=20, standardise="moving"),
        **{"halflife": halflife},  # type: ignore[arg-type]
    )
    state = start_from(spec, start)
    still = start_from(dataclasses.replace(spec, standardise=True), start)
    assert state.shift.tolist() == [0.5, 0.5] and state.scale.tolist() == [2.0, 2.0]
    assert state.support.tobytes() == still.support.tobytes()
    later, features = run_all(spec, rows)
    assert state.reals.shape == later.reals.shape and state.rivals.shape == later.rivals.shape
    assert features.valid.all()


def test_trackers_that_wait_for_a_batch_refuse_it() -> None:
    with pytest.raises(ConfigError, match="= 'moving': must be true or false with dskpca"):
        DSKPCASpec(standardise="moving")


@pytest.mark.parametrize("value", ["moves", 1, None])
def test_other_words_are_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"standardise = .*: must be true or false, or 'mov"):
        OKFEBSpec(standardise=value)  # type: ignore[arg-type]
