"""Time axes: the bulk of the rows, in spite of clocks that say 1970 or 2099."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltrack.arrays import IntArray
from pipelines.report.data import time_axis
from pipelines.report.data.time_axis import RowTimes, TimeAxis

MINUTE = 60 * 10**9
DAY = 1_440 * MINUTE
YEAR = 365 * DAY
START = 1_772_323_200 * 10**9
"""2026-03-01."""
IN_2099 = 4_070_908_800 * 10**9
ENDS_OF_INT64 = -(2**63) + 1, 2**63 - 1


def axis_of(*parts: IntArray, seed: int | None = None, batches: int = 3) -> TimeAxis:
    times = np.concatenate([np.asarray(part, dtype=np.int64) for part in parts])
    if seed is not None:
        times = np.random.default_rng(seed).permutation(times)
    found = RowTimes()
    for batch in np.array_split(times, batches):
        found.add(batch)
    axis = found.axis()
    assert axis is not None
    return axis


def whole(times: IntArray) -> TimeAxis:
    ends = int(times.min()), int(times.max())
    return TimeAxis(*ends, *ends)


def spread(rows: int, span: int, start: int = START) -> IntArray:
    return start + np.arange(rows, dtype=np.int64) * span // max(rows - 1, 1)


BULK = spread(1_500, 25 * 60 * MINUTE)
ENDS = int(BULK[0]), int(BULK[-1])


def test_no_rows_have_no_axis() -> None:
    found = RowTimes()
    assert found.axis() is None
    found.add(np.zeros(0, np.int64))
    assert found.axis() is None


@pytest.mark.parametrize(
    "far",
    [
        [IN_2099],
        [0, MINUTE],
        [0, IN_2099],
        ENDS_OF_INT64,
        # A clock that says something else each time, and a device that lives in 1970.
        range(10 * YEAR, 50 * YEAR, 4 * YEAR),
        spread(1_500, 25 * 60 * MINUTE, 0).tolist(),
    ],
)
@pytest.mark.parametrize("devices", [1, 4, 11])
def test_the_bulk_is_the_axis_and_the_rest_lies_outside(far: Sequence[int], devices: int) -> None:
    if len(far) == len(BULK) and devices == 1:
        return
    bulk = np.tile(BULK, devices)
    axis = axis_of(bulk, np.array(far), seed=devices)
    assert axis == TimeAxis(*ENDS, min(far[0], ENDS[0]), max(far[-1], ENDS[1]))
    assert not axis.is_whole


def test_a_clock_that_stands_still_is_no_bulk() -> None:
    assert axis_of(np.zeros(2_000, np.int64), BULK) == TimeAxis(*ENDS, 0, ENDS[1])


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_few_rows_are_all_shown(rows: int) -> None:
    times = spread(rows, YEAR)
    assert axis_of(times) == whole(times)


@pytest.mark.parametrize(
    "times",
    [
        # Eight hours a day; a day, and five days later another; two sessions, weeks apart.
        np.concatenate([spread(480, 480 * MINUTE, START + k * DAY) for k in range(30)]),
        np.concatenate([BULK, BULK + 5 * DAY]),
        np.concatenate([BULK, BULK + 21 * DAY]),
        # A fleet that doubles each month; a burst at 10 kHz in a month of a row a minute.
        np.concatenate([spread(2**k, 29 * DAY, START + 30 * k * DAY) for k in range(16)]),
        np.concatenate([spread(43_200, 30 * DAY), spread(50_000, 5 * 10**9, START + DAY + 1)]),
        # A row a month, and all at one time.
        spread(24, 2 * YEAR),
        np.full(100, START),
    ],
)
def test_nothing_of_a_normal_run_is_cut_off(times: IntArray) -> None:
    assert axis_of(times, seed=0) == whole(times)


@given(
    rows=st.integers(2, 400),
    steps=st.lists(st.integers(0, 1_000), min_size=1, max_size=20),
    device=st.integers(0, 30),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_run_without_a_gap_much_longer_than_the_rest_is_all_shown(
    rows: int, steps: list[int], device: int, seed: int
) -> None:
    # However uneven the steps are, they come again and again.
    first = START + np.cumsum(np.resize(np.array(steps, dtype=np.int64) * MINUTE, rows * 20))
    times = np.concatenate([first, first[device:]])
    assert axis_of(times, seed=seed) == whole(times)


def test_what_is_found_does_not_depend_on_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_axis, "MOST_CELLS", 64)
    monkeypatch.setattr(time_axis, "MOST_WAITING", 1_000)
    times = np.concatenate([np.tile(BULK, 5), [0, 7 * MINUTE, IN_2099]])
    expected = TimeAxis(*ENDS, 0, IN_2099)
    for seed in range(20):
        assert axis_of(times, seed=seed, batches=1 + seed) == expected
    found = RowTimes()
    for batch in np.array_split(times, 9):
        found.add(batch)
        assert sum(map(len, found._waiting)) < 1_000
    found.axis()
    assert len(found._rows) <= 64 and found._rows.sum() == len(times)


@given(
    steps=st.lists(st.integers(0, 2**40), min_size=1, max_size=300),
    rows=st.lists(st.integers(1, 1_000), min_size=1, max_size=300),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_stretch_with_half_of_the_rows_is_shorter_than_the_quick_bound(
    steps: list[int], rows: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    points = np.cumsum(rng.choice(steps, 300)).astype(np.uint64)
    weights = rng.choice(rows, 300)
    begin, end = time_axis._core(points - points[0], weights)
    shortest = float(points[end] - points[begin])
    assert time_axis._least_half(points - points[0], weights) <= shortest


def test_the_times_outside_are_put_into_words() -> None:
    axis = axis_of(BULK, np.array([0, 4 * MINUTE, IN_2099]))
    assert axis.words() == (
        "before 2026-03-01 00:00:00 (from 1970-01-01 00:00:00 on) and "
        "after 2026-03-02 01:00:00 (up to 2099-01-01 00:00:00)"
    )
    assert axis_of(BULK).words() == ""
