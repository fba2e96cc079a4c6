"""Which rows of a device's clock that jumps count: held against a slow oracle, however cut."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltrack.jumps import MOST_RATIO, JumpRule, Standing, judge

Times = npt.NDArray[np.int64]

REACH, ROWS = 100, 3
RULE = JumpRule(REACH, ROWS, disorder=20)


def of(*times: int) -> Times:
    return np.array(times, np.int64)


def judged_in_pieces(times: Times, cuts: list[int], rule: JumpRule = RULE) -> tuple[list[int], ...]:
    """Return the places that count, and those that are refused, of rows that come cut by cut."""
    standing = Standing()
    counts: list[int] = []
    refused: list[int] = []
    waits: list[int] = []
    for start, stop in zip([0, *cuts], [*cuts, len(times)], strict=True):
        found = judge(rule, standing, times[start:stop])
        for time in found.refused:
            place = next(at for at in waits if times[at] == time)
            waits.remove(place)
            refused.append(place)
        ahead = list(found.standing.ahead)
        counts += [at for at in waits if times[at] not in ahead]
        waits = [at for at in waits if times[at] in ahead]
        own = np.arange(start, stop)
        counts += own[found.counts].tolist()
        waits += own[found.waits].tolist()
        refused += own[~(found.counts | found.waits)].tolist()
        standing = found.standing
    return sorted(counts), sorted(refused), sorted(waits)


def by_groups(times: Times, rows: int = ROWS) -> list[int]:
    """The rule for sorted rows, dense devices only: groups of at least so many rows count."""
    order = np.argsort(times, kind="stable")
    edges = np.flatnonzero(np.diff(times[order]) > REACH) + 1
    large = [group for group in np.split(order, edges) if len(group) >= rows]
    return sorted(np.concatenate([np.zeros(0, np.int64), *large]).tolist())


def test_a_first_row_of_another_time_costs_that_row_only() -> None:
    for first in (-50_000, 50_000):
        times = of(first, *range(0, 200, 10))
        found = judge(RULE, Standing(), times)
        assert found.counts.tolist() == [False] + [True] * 20
        assert not found.waits.any()


def test_nothing_counts_before_enough_rows_agree() -> None:
    found = judge(RULE, Standing(), of(0, 10))
    assert found.standing == Standing(None, 0, (0, 10))
    found = judge(RULE, found.standing, of(5))
    assert found.standing == Standing(10)
    assert found.counts.all()


def test_a_device_goes_on_after_a_gap() -> None:
    found = judge(RULE, Standing(1000), of(2000, 2010))
    assert found.standing == Standing(1000, 0, (2000, 2010))
    assert judge(RULE, found.standing, of(2020)).standing == Standing(2020)


def test_a_row_of_the_old_time_refutes_those_ahead() -> None:
    found = judge(RULE, Standing(1000, 0, (5000, 5001)), of(1010))
    assert found.standing == Standing(1010)
    assert found.refused == (5000, 5001)
    # One that is late says nothing: it may be an old message that comes once more.
    assert judge(RULE, Standing(1000, 0, (5000,)), of(979)).standing.ahead == (5000,)


def test_a_row_that_the_device_comes_to_reach_counts() -> None:
    found = judge(RULE, Standing(1000), of(1150, 1095))
    assert found.standing == Standing(1150)
    assert found.counts.all()
    assert found.was_ahead.tolist() == [True, False]
    assert found.floor[0] < 0


def test_what_waited_raises_the_floor_for_the_rows_after_it() -> None:
    found = judge(RULE, Standing(0, 0, (5000, 5030)), of(5010, 5001, 5002))
    assert found.floor.tolist()[1:] == [5030, 5030]


def test_a_wild_clock_that_comes_back_again_and_again_never_counts() -> None:
    times = np.arange(0, 6000, 10)
    times[50::60] = 10**15 + np.arange(10)
    found = judge(RULE, Standing(), times)
    assert not found.counts[50::60].any()
    assert found.counts.sum() == 590
    assert found.standing.ahead == ()


def test_a_slow_device_is_not_shut_out() -> None:
    gaps = np.random.default_rng(0).integers(3 * REACH, 20 * REACH, 200)
    found = judge(RULE, Standing(), np.cumsum(gaps))
    # Once three rows in a row agreed and a fourth came, all count.
    assert found.counts[:4].all()
    assert found.counts.mean() > 0.9
    assert found.standing.reach > 2 * 3 * REACH


def test_rows_of_a_slow_device_that_began_in_1970() -> None:
    times = of(-(10**12), *(1000 * np.arange(10)))
    found = judge(RULE, Standing(), times)
    assert found.counts.tolist() == [False] + [True] * 10


def test_gaps_that_are_too_uneven_confirm_nothing() -> None:
    gap = 2 * REACH
    even = np.cumsum([0, gap, gap * MOST_RATIO, 10**9])
    assert judge(RULE, Standing(), even).counts[:3].all()
    uneven = np.cumsum([0, gap, gap * MOST_RATIO + 1, 10**9])
    assert not judge(RULE, Standing(), uneven).counts.any()


def test_rows_that_the_model_cannot_take_confirm_nothing() -> None:
    times, usable = of(0, 1, 2, 3, 4), np.array([True, False, True, False, True])
    found = judge(RULE, Standing(), times, usable)
    assert found.counts.tolist() == usable.tolist()
    wild = judge(RULE, Standing(0), of(10**9, 10**9, 10**9, 10), np.array([False] * 3 + [True]))
    assert wild.standing == Standing(10)


@pytest.mark.parametrize(
    ("times", "counts"),
    [
        ((0, 10), [True, True]),
        ((-9999, 0, 10), [False, True, True]),
        ((0, 9999), [False, True]),
        ((0, 1000, 2000), [True, True, True]),
        ((0, 1, 2, 9999), [True, True, True, False]),
    ],
)
def test_at_the_end_few_rows_count_if_nothing_else_does(
    times: tuple[int, ...], counts: list[bool]
) -> None:
    found = judge(RULE, Standing(), of(*times), last=True)
    assert found.counts.tolist() == counts
    assert not found.waits.any()
    assert found.standing.ahead == ()


def test_one_row_confirms_if_one_is_asked_for() -> None:
    times = of(0, 10**9, 5, 10**18)
    found = judge(JumpRule(REACH, 1, 20), Standing(), times)
    assert found.counts.all()
    assert found.standing == Standing(10**18)


def test_the_ends_of_all_time() -> None:
    limit = 9 * 10**18
    times = np.array([-limit] * 3 + [limit] * 3)
    assert judge(RULE, Standing(), times).counts.all()
    assert judge(JumpRule(2**63 - 1, 3), Standing(0), times).counts.all()


@given(
    st.lists(st.sampled_from([0, 1, 5, 19, 60, 100, 101, 500, -5, -30, 10**9, -(10**9)])),
    st.data(),
)
def test_no_cut_matters(steps: list[int], data: st.DataObject) -> None:
    """Whatever comes, in whatever order: what counts and what is refused is the same."""
    # Times that differ: the pieces are told apart by them.
    times = np.cumsum(np.array([0, *steps], np.int64)) * 1000 + np.arange(len(steps) + 1)
    rule = JumpRule(REACH * 1000, ROWS, 20_000)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(times)))))
    whole = judged_in_pieces(times, [], rule)
    assert judged_in_pieces(times, cuts, rule) == whole
    found = judge(rule, Standing(), times)
    assert len(found.standing.ahead) <= ROWS * (ROWS + 1)


@given(
    st.lists(st.integers(ROWS, 12), min_size=1, max_size=5),
    st.lists(st.integers(0, 10**6), max_size=2),
    st.integers(0, 2**32),
)
def test_no_order_of_arrival_matters(sizes: list[int], wild: list[int], seed: int) -> None:
    """Stretches of time with gaps between them, rows less than the disorder out of their places.

    Wild rows, fewer than confirm one, come anywhere.
    """
    rng = np.random.default_rng(seed)
    stretches, start = [], 0
    for size in sizes:
        stretches.append(start + np.cumsum(rng.integers(0, REACH, size)))
        start = int(stretches[-1][-1]) + REACH + 1 + int(rng.integers(0, 10**5))
    times = np.concatenate(stretches)
    arrived = times[np.argsort(times + rng.integers(0, RULE.disorder, len(times)), kind="stable")]
    for row in wild:
        arrived = np.insert(arrived, rng.integers(0, len(arrived) + 1), 10**12 + row)
    found = judge(RULE, Standing(), arrived, last=True)
    assert np.flatnonzero(found.counts).tolist() == by_groups(arrived)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.integers(0, 2**32), st.booleans())
def test_nor_of_a_device_that_is_slow_now_and_then(sizes: list[int], seed: int, last: bool) -> None:
    rng = np.random.default_rng(seed)
    starts = np.cumsum(rng.integers(REACH + 80, 20 * REACH, len(sizes)))
    starts[rng.integers(0, len(sizes)) :] += 10**7
    spans = [start + rng.integers(0, 80, size) for start, size in zip(starts, sizes, strict=True)]
    times = np.concatenate(spans)
    arrived = times[np.argsort(times + rng.integers(0, RULE.disorder, len(times)), kind="stable")]
    expected = judge(RULE, Standing(), np.sort(times), last=last)
    found = judge(RULE, Standing(), arrived, last=last)
    assert found.standing == expected.standing
    assert sorted(arrived[found.counts]) == np.sort(times)[expected.counts].tolist()
