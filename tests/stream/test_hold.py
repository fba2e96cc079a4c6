"""The last value held: against a row-by-row oracle, and through the stateful step."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.fleet.forward_fill import LastValues, hold_last
from tests.parts import examples
from tests.stream.running import SECOND, Rows, assert_same, core_alone, make_rows, track
from transforms.track.order import Order

Matrix = npt.NDArray[np.float64]


def by_hand(rows: Matrix, times: npt.NDArray[np.int64], longest: int) -> Matrix:
    """Fill channel by channel, row by row."""
    filled = rows.copy()
    for channel in range(rows.shape[1]):
        last, since = math.nan, 0
        for place in range(len(rows)):
            value = rows[place, channel]
            if not math.isnan(value):
                last, since = value, int(times[place])
            elif not math.isnan(last) and int(times[place]) - since <= longest:
                filled[place, channel] = last
    return filled


def with_gaps(count: int, seed: int, share: float = 0.5) -> Rows:
    rng = np.random.default_rng(seed)
    rows = make_rows(count, seed=seed, times=np.sort(rng.integers(0, 5 * count, size=count)))
    x = np.where(rng.random(rows.x.shape) < share, np.nan, rows.x)
    return dataclasses.replace(rows, x=x, time=np.asarray(rows.time) * SECOND)


@given(
    st.integers(1, 40),
    st.integers(0, 12),
    st.lists(st.integers(1, 9), min_size=1, max_size=40),
    st.integers(0, 2**32),
)
def test_values_are_held_as_by_hand_however_rows_are_cut(
    count: int, longest: int, sizes: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random((count, 3)) < 0.6, np.nan, rng.normal(size=(count, 3)))
    times = np.sort(rng.integers(-10, 30, size=count))
    before, held, parts = rows.copy(), None, []
    start = 0
    for size in [*sizes, count]:
        part, held = hold_last(
            rows[start : start + size], times[start : start + size], held, longest
        )
        parts.append(part)
        start += size
        if start >= count:
            break
    np.testing.assert_array_equal(np.concatenate(parts), by_hand(rows, times, longest))
    np.testing.assert_array_equal(rows, before)


def test_a_value_of_just_that_age_stands_in() -> None:
    rows = np.array([[1.0], [np.nan], [np.nan], [2.0], [np.nan]])
    times = np.array([0, 10, 11, 20, 20])
    filled, held = hold_last(rows, times, None, 10)
    np.testing.assert_array_equal(filled.ravel(), [1.0, 1.0, np.nan, 2.0, 2.0])
    assert (held.values.tolist(), held.times.tolist()) == ([2.0], [20])


def test_single_precision_stays_so() -> None:
    rows = np.array([[0.1, np.nan], [np.nan, 0.2]], dtype=np.float32)
    held = LastValues(np.array([np.nan, 0.3]), np.array([0, 5]))
    filled, held = hold_last(rows, np.array([6, 7]), held, 1)
    assert filled.dtype == np.float32
    assert filled.tolist() == [
        [np.float32(0.1), np.float32(0.3)],
        [np.float32(0.1), np.float32(0.2)],
    ]
    assert held.values.tolist() == [np.float32(0.1), np.float32(0.2)]


@settings(max_examples=examples(10))
@given(
    st.sampled_from([0.0, 3.0, 1e6, math.inf]),
    st.sampled_from([math.inf, 0.0, 20.0]),
    st.lists(st.integers(1, 30), min_size=1, max_size=20),
    st.integers(0, 2**32),
)
def test_a_model_learns_from_the_filled_rows(
    hold_for: float, max_disorder: float, sizes: list[int], seed: int
) -> None:
    rows = with_gaps(90, seed)
    order = Order(max_disorder=max_disorder, hold_for=hold_for)
    outcome = track([("m", chunk) for chunk in rows.cut(sizes)], order=order)
    longest = 2**62 if hold_for > 1e6 else round(hold_for * SECOND)
    filled = by_hand(rows.x, np.asarray(rows.time), longest)
    good = np.isfinite(filled).all(axis=1)
    assert sorted(failure[2] for failure in outcome.failures) == np.flatnonzero(~good).tolist()
    if good.any():
        expected = core_alone(dataclasses.replace(rows, x=filled).take(np.flatnonzero(good)))
        assert_same(outcome.table("m"), expected)
    else:
        assert outcome.features == {}


def test_the_reason_of_a_row_that_nothing_fills() -> None:
    rows = with_gaps(60, 3, share=0.0)
    rows.x[0, 1] = np.nan
    rows.x[40, 2] = np.nan
    order = Order(hold_for=0.5)
    times = np.arange(60) * SECOND
    outcome = track(
        [("m", chunk) for chunk in dataclasses.replace(rows, time=times).cut([8])], order=order
    )
    assert [failure[:3] for failure in outcome.failures] == [("m", 0, 0), ("m", 0, 40)]
    assert len({failure[3] for failure in outcome.failures}) == 1
    assert "missing" in outcome.failures[0][3]


def test_a_model_of_which_nothing_is_known() -> None:
    rows = make_rows(30)
    rows.x[:, 0] = np.nan
    outcome = track([("m", chunk) for chunk in rows.cut([7])], order=Order(hold_for=10.0))
    assert (outcome.features, outcome.snapshots) == ({}, [])
    assert [failure[2] for failure in outcome.failures] == list(range(30))


@pytest.mark.parametrize("max_disorder", [math.inf, 0.0])
def test_without_times_a_value_is_held_for_ever(max_disorder: float) -> None:
    rows = dataclasses.replace(with_gaps(50, 5), time=None)
    order = Order(max_disorder=max_disorder, hold_for=0.0)
    outcome = track([("m", chunk) for chunk in rows.cut([4])], order=order)
    filled = by_hand(rows.x, np.zeros(50, dtype=np.int64), 0)
    good = np.flatnonzero(np.isfinite(filled).all(axis=1))
    expected = core_alone(dataclasses.replace(rows, x=filled).take(good))
    assert_same(outcome.table("m"), expected)
