"""Periods: sums against a slow oracle, numbers against formulas, and who differs from the fleet."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter

from kerneltrack.errors import ConfigError
from kerneltrack.monitor.periods.device import (
    LEVEL,
    MOVEMENT,
    NO_DAY,
    NUMBERS,
    REPEATS,
    DeviceNumbers,
    beginning,
    numbers_of,
)
from kerneltrack.monitor.periods.fleet import Spell, median, verdict
from kerneltrack.monitor.periods.running import RunningPeriods
from kerneltrack.monitor.periods.spec import PeriodsSpec
from kerneltrack.monitor.periods.sums import SECOND, SPANS, DeviceSums, PeriodSums, join
from kerneltrack.native.binding import call

pytestmark = pytest.mark.sanitized

Array = npt.NDArray[np.float64]
HOUR, DAY = 3600, 86_400
WIDTH = 3
SPEC = PeriodsSpec()
START = 20_000 * DAY
"""A midnight."""


def made(
    days: int, step: int = 1800, seed: int = 0, width: int = WIDTH
) -> tuple[npt.NDArray[np.int64], Array]:
    """Times, ns, and rows that two waves share, with a swing over the day."""
    rng = np.random.default_rng(seed)
    seconds = START + step * np.arange(days * DAY // step)
    waves = lfilter([0.6], [1.0, -0.8], rng.normal(size=(len(seconds), 2)), axis=0)
    ties = np.random.default_rng(99).normal(size=(2, width))
    swing = np.sin(2 * np.pi * seconds / DAY)[:, None]
    rows = waves @ ties + 0.5 * swing + 0.2 * rng.normal(size=(len(seconds), width))
    return seconds * SECOND, rows + 5


def sums_of(times: npt.NDArray[np.int64], rows: Array, seconds: int = DAY) -> DeviceSums:
    sums = DeviceSums(rows.shape[1], seconds)
    sums.add(times, rows)
    return sums


def vectors_of(times: npt.NDArray[np.int64], rows: Array) -> Array:
    """The vectors [x, m10, m60], row by row."""
    means = [rows[0].copy() for _ in SPANS]
    out = [np.concatenate([rows[0], *means])]
    for gap, row in zip(np.diff(times) * 1e-9, rows[1:], strict=True):
        means = [
            mean + (1 - np.exp(-gap / span)) * (row - mean)
            for mean, span in zip(means, SPANS, strict=True)
        ]
        out.append(np.concatenate([row, *means]))
    return np.array(out)


def test_sums_are_those_of_the_vectors_of_a_period() -> None:
    times, rows = made(3, step=1700)
    rows[40:44, 1] = rows[40, 1]
    periods, sums = sums_of(times, rows).result()
    day = times // (DAY * SECOND)
    assert periods.tolist() == np.unique(day).tolist()
    vectors = vectors_of(times, rows)
    same = np.vstack([np.zeros((1, WIDTH)), rows[1:] == rows[:-1]])
    for place, period in enumerate(periods):
        own = vectors[day == period]
        assert sums.rows[place] == len(own)
        np.testing.assert_allclose(sums.mean[place], own.mean(axis=0), rtol=1e-12)
        size = own.shape[1]
        lower = np.tril(sums.comoments[place * size : (place + 1) * size])
        expected = np.tril(np.cov(own.T, bias=True) * len(own))
        np.testing.assert_allclose(lower, expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(sums.repeats[place], same[day == period].sum(axis=0))
    assert sums.repeats[:, 1].sum() == 3


@given(st.lists(st.integers(0, 200), max_size=6), st.sampled_from([HOUR, DAY]))
def test_sums_are_the_same_bits_however_rows_are_cut(cuts: list[int], seconds: int) -> None:
    times, rows = made(4)
    rows[7, 2] = np.nan
    whole = sums_of(times, rows, seconds).result()
    parts = DeviceSums(WIDTH, seconds)
    edges = [0, *sorted(cuts), len(rows)]
    for begin, end in pairwise(edges):
        parts.add(times[begin:end], rows[begin:end])
    periods, sums = parts.result()
    assert periods.tobytes() == whole[0].tobytes()
    for own, other in zip(sums, whole[1], strict=True):
        assert own.tobytes() == other.tobytes()


def test_rows_that_are_no_numbers_are_left_out() -> None:
    times, rows = made(2)
    bad = rows.copy()
    bad[5, 0], bad[9, 2] = np.nan, np.inf
    kept = np.delete(np.arange(len(rows)), [5, 9])
    assert (
        sums_of(times, bad).result()[1].comoments.tobytes()
        == sums_of(times[kept], rows[kept]).result()[1].comoments.tobytes()
    )
    assert sums_of(times[:1], np.full((1, WIDTH), np.nan)).result()[0].size == 0


def test_joined_periods_are_one() -> None:
    times, rows = made(6)
    periods, sums = sums_of(times, rows).result()
    whole = join(sums, [np.arange(len(periods)), np.array([2, 4])])
    vectors, day = vectors_of(times, rows), times // (DAY * SECOND)
    size = vectors.shape[1]
    for place, chosen in enumerate([day >= 0, np.isin(day, periods[[2, 4]])]):
        own = vectors[chosen]
        assert whole.rows[place] == len(own)
        np.testing.assert_allclose(whole.mean[place], own.mean(axis=0), rtol=1e-12)
        lower = np.tril(whole.comoments[place * size : (place + 1) * size])
        np.testing.assert_allclose(lower, np.tril(np.cov(own.T, bias=True)) * len(own), rtol=1e-8)


def test_weights_leave_what_ridge_regression_on_the_other_channels_leaves() -> None:
    vectors = vectors_of(*made(5))
    correlations: Array = np.asarray(np.corrcoef(vectors.T))
    weights = np.empty((WIDTH, len(correlations)))
    call("period_weights", np.tril(correlations), (1e-3,), weights)
    for channel in range(WIDTH):
        others = [at for at in range(len(correlations)) if at % WIDTH != channel]
        ridge = correlations[np.ix_(others, others)] + 1e-3 * np.eye(len(others))
        expected = np.zeros(len(correlations))
        expected[others] = -np.linalg.solve(ridge, correlations[others, channel])
        expected[channel] = 1
        np.testing.assert_allclose(weights[channel], expected, atol=1e-9)


def test_residuals_are_linear_and_quadratic_forms_of_the_sums() -> None:
    rng = np.random.default_rng(3)
    times, rows = made(3)
    _, sums = sums_of(times, rows).result()
    size = 3 * WIDTH
    weights, centre = rng.normal(size=(WIDTH, size)), rng.normal(size=size)
    level, spread = np.empty((2, 2, WIDTH))
    places = np.array([2, 0])
    call("period_residuals", weights, centre, sums, places, level, spread)
    for k, place in enumerate(places):
        lower = np.tril(sums.comoments[place * size : (place + 1) * size])
        whole = lower + np.tril(lower, -1).T
        np.testing.assert_allclose(level[k], weights @ (sums.mean[place] - centre), rtol=1e-10)
        expected = np.diag(weights @ whole @ weights.T) / sums.rows[place]
        np.testing.assert_allclose(spread[k], expected, rtol=1e-9)


def test_first_days_are_compared_crosswise_and_later_ones_with_days_before() -> None:
    """What comes later changes nothing of earlier numbers, but for those of the first days."""
    times, rows = made(30)
    whole = numbers_of(SPEC, sums_of(times, rows))
    assert np.isfinite(whole.values).all()
    at = times < (START + 22 * DAY) * SECOND
    part = numbers_of(SPEC, sums_of(times[at], rows[at]))
    assert part.values.tobytes() == whole.values[:22].tobytes()
    few = times < (START + 9 * DAY) * SECOND
    early = numbers_of(SPEC, sums_of(times[few], rows[few]))
    assert np.isfinite(early.values).all()
    assert early.values.tobytes() != whole.values[:9].tobytes()
    # The days within the delay do not count: a fault of three days is not learned yet.
    faulty = rows.copy()
    faulty[times >= (START + 20 * DAY) * SECOND] += 3
    third = numbers_of(SPEC, sums_of(times, faulty)).values[23]
    assert third.tobytes() != whole.values[23].tobytes()
    faulty[times >= (START + 23 * DAY) * SECOND] -= 3
    again = numbers_of(SPEC, sums_of(times, faulty)).values[23]
    gap, learned = np.abs(again - whole.values[23]).max(), np.abs(third - whole.values[23]).max()
    # Only what the means over time still hold of the fault is left.
    assert gap < learned / 5


def test_numbers_show_what_changed() -> None:
    times, rows = made(20)
    whole = numbers_of(SPEC, sums_of(times, rows)).values[19]
    last = times >= (START + 19 * DAY) * SECOND
    rng = np.random.default_rng(1)
    own = rows[last, 1]
    changes = {
        LEVEL: own + 2,
        MOVEMENT: own + rng.normal(size=len(own)),
        REPEATS: np.full(len(own), own[0]),
    }
    for number, changed_to in changes.items():
        changed = rows.copy()
        changed[last, 1] = changed_to
        found = numbers_of(SPEC, sums_of(times, changed)).values[19] - whole
        place = NUMBERS.index(number)
        assert np.argmax(np.abs(found[place])) == 1
        assert found[place, 1] > 0.5


def test_too_little_past_gives_no_numbers() -> None:
    times, rows = made(5)
    numbers = numbers_of(SPEC, sums_of(times, rows))
    assert numbers.rows.tolist() == [48] * 5
    assert np.isnan(numbers.values).all()
    assert not len(numbers_of(SPEC, DeviceSums(WIDTH, DAY)).period)


def test_one_wild_day_does_not_decide_for_weeks() -> None:
    times, rows = made(20)
    whole = numbers_of(SPEC, sums_of(times, rows)).values
    wild = rows.copy()
    wild[100, 0] = 1e9
    found = numbers_of(SPEC, sums_of(times, wild)).values
    # Its day is left out of the past of the others, and was in it before.
    assert np.abs(found[[10, 15, 19]] - whole[[10, 15, 19]]).max() < 0.5
    assert found[2, 1].max() > 5


@pytest.mark.parametrize("value", [1e308, -1e308, 1e100])
def test_values_that_would_overflow_spoil_nothing(value: float) -> None:
    times, rows = made(20)
    rows[50, 1] = value
    found = numbers_of(SPEC, sums_of(times, rows)).values
    assert np.isfinite(found[[10, 19]]).all()


def test_a_constant_channel_and_twins_have_numbers() -> None:
    times, rows = made(20, width=4)
    rows[:, 2], rows[:, 3] = 7.0, rows[:, 0]
    assert np.isfinite(numbers_of(SPEC, sums_of(times, rows)).values).all()


def test_a_few_early_rows_are_no_beginning() -> None:
    days = np.array([0, 20_000, 20_001, 20_002, 20_003, 20_004, 20_005, 20_006])
    assert beginning(days, 14) == 20_000
    assert beginning(days[:6], 14) == beginning(days[:0], 14) == NO_DAY
    times, rows = made(20)
    early = numbers_of(SPEC, sums_of(np.r_[0, times], np.vstack([rows[:1], rows])))
    np.testing.assert_allclose(
        early.values[1:], numbers_of(SPEC, sums_of(times, rows)).values, atol=0.2
    )
    assert np.isnan(early.values[0]).all()


def said_of(
    times: npt.NDArray[np.int64], rows: Array, cuts: list[int]
) -> tuple[dict[int, tuple[int, int, bytes]], list[bytes]]:
    """What is said last of each day (version, rows, numbers) of rows that come in parts."""
    last: dict[int, tuple[int, int, bytes]] = {}
    state, past = b"", list[bytes]()
    edges = [0, *sorted({*cuts} - {0, len(times)}), len(times)]
    for begin, end in pairwise(edges):
        running = RunningPeriods(SPEC, WIDTH, state, past.copy)
        running.add(times[begin:end], rows[begin:end])
        said = [*running.over(), *(running.last() if begin == edges[-2] else ())]
        for numbers, versions in said:
            for day, count, values, version in zip(*numbers, versions, strict=True):
                assert version > last.get(int(day), (0,))[0]
                last[int(day)] = int(version), int(count), values.tobytes()
        state, past = running.encode(), past if running.past is None else running.past
    return last, past


DAYS_OFF = st.sets(st.integers(0, 49), max_size=40)


@given(DAYS_OFF, st.lists(st.integers(0, 50 * 6), max_size=8))
def test_what_is_said_last_of_a_day_is_what_all_rows_make_of_it(
    off: set[int], cuts: list[int]
) -> None:
    """Whatever days have no rows, a wild early one among them, and however rows are cut."""
    times, rows = made(50, step=14_400)
    there = ~np.isin(times // (DAY * SECOND) - START // DAY, list(off))
    times, rows = np.r_[DAY * SECOND, times[there]], np.vstack([rows[:1], rows[there]])
    last, past = said_of(times, rows, [min(cut, len(times)) for cut in cuts])
    wanted = numbers_of(SPEC, sums_of(times, rows))
    assert sorted(last) == wanted.period.tolist()
    for day, count, values in zip(*wanted, strict=True):
        assert last[int(day)][1:] == (int(count), values.tobytes())
    assert len(past) <= SPEC.delay + SPEC.past + 1
    assert max(version for version, *_ in last.values()) <= SPEC.first


def test_a_day_before_the_one_that_goes_on_begins_all_anew() -> None:
    times, rows = made(20)
    wild = np.r_[times[-1:] + 10**18, times]
    last, past = said_of(wild, np.vstack([rows[:1], rows]), [1, 400])
    alone, days = said_of(times, rows, [])
    assert last == alone and past == days


def test_bytes_of_another_length_are_refused() -> None:
    running = RunningPeriods(SPEC, WIDTH)
    assert running.encode() == b""
    running.add(*made(2))
    assert len(list(running.over())) == 1
    state, past = running.encode(), running.past or []
    with pytest.raises(ConfigError, match="state = "):
        RunningPeriods(SPEC, WIDTH, state[:-8])
    again = RunningPeriods(SPEC, WIDTH, state, lambda: [past[0][8:]])
    with pytest.raises(ConfigError, match="state = "):
        list(again.last())


def test_median_is_numpys() -> None:
    table = np.random.default_rng(0).normal(size=(6, 9))
    table[table > 0.6] = np.nan
    table[2] = np.nan
    with pytest.warns(RuntimeWarning, match="All-NaN"):
        expected = np.nanmedian(table, axis=1)
    np.testing.assert_array_equal(median(table), expected)
    assert np.isnan(median(np.empty((2, 0)))).all()


Fleet = list[tuple[str, str | None, DeviceNumbers]]


def fleet(
    devices: int = 8, days: int = 26, change: dict[int, tuple[int, Array]] | None = None
) -> Fleet:
    """Devices with weather that all share; some change for good on a day."""
    made_ones: Fleet = []
    weather = np.random.default_rng(7).normal(size=days) * 0.3
    for number in range(devices):
        times, rows = made(days, seed=100 + number)
        day = (times // (DAY * SECOND) - START // DAY).astype(int)
        rows[:, 0] += weather[day]
        if change and number in change:
            since, by = change[number]
            rows[day >= since] += by
        made_ones.append((f"d{number}", None, numbers_of(SPEC, sums_of(times, rows))))
    return made_ones


def test_a_device_that_changed_is_found_and_no_other() -> None:
    found = verdict(SPEC, fleet(change={3: (20, np.array([0.0, 3.0, 0.0]))}))
    (spell,) = found
    assert (spell.model, spell.channel, spell.number, spell.up) == ("d3", 1, "level", True)
    assert spell.start == START + 20 * DAY
    assert spell.noticed == START + 22 * DAY
    assert (spell.state, spell.changed, spell.of) == ("open", 1, 8)
    assert spell.score > SPEC.limit


def test_what_all_do_is_one_common_cause_and_no_device() -> None:
    by = np.array([0.0, 0.0, 4.0])
    found = verdict(SPEC, fleet(change={number: (21, by) for number in range(8)}))
    (spell,) = found
    assert (spell.model, spell.changed, spell.of) == (None, 8, 8)
    assert (spell.start, spell.channel) == (START + 21 * DAY, 2)


def test_the_order_of_devices_changes_nothing_and_their_groups_do() -> None:
    change = {number: (21, np.array([0.0, 0.0, 4.0])) for number in range(4)}
    devices = fleet(12, change=change)
    found = verdict(SPEC, devices)
    assert verdict(SPEC, devices[::-1]) == found
    grouped = [
        (name, "north" if number < 6 else "south", numbers)
        for number, (name, _, numbers) in enumerate(devices)
    ]
    north = [spell for spell in verdict(SPEC, grouped) if spell.model is None]
    assert [(spell.group, spell.changed, spell.of) for spell in north] == [("north", 4, 6)]
    assert {spell.model for spell in verdict(SPEC, grouped)} <= {None, "d4", "d5"}


def test_a_few_devices_are_held_against_their_own_past() -> None:
    by = np.array([0.0, 0.0, 4.0])
    found = verdict(SPEC, fleet(3, change={number: (21, by) for number in range(3)}))
    assert {spell.model for spell in found} == {"d0", "d1", "d2"}


def test_a_spell_ends_and_nothing_is_said_of_first_days() -> None:
    devices = fleet(days=40)
    name, group, numbers = devices[5]
    changed = numbers.values.copy()
    changed[3:6, 0, 1] += 50
    changed[25:28, 0, 1] += 50
    devices[5] = (name, group, numbers._replace(values=changed))
    (spell,) = verdict(SPEC, devices)
    assert (spell.model, spell.state) == ("d5", "closed")
    assert (spell.start, spell.last) == (START + 25 * DAY, START + 28 * DAY)


def test_nothing_is_said_of_nobody() -> None:
    assert verdict(SPEC, []) == []
    empty = numbers_of(SPEC, DeviceSums(WIDTH, DAY))
    assert verdict(SPEC, [("d0", None, empty)]) == []


def test_a_wrong_clock_does_not_grow_the_table() -> None:
    times, rows = made(20)
    devices: Fleet = []
    for number in range(6):
        wild = times.copy()
        if number == 2:
            wild[-1] = 2**62
        devices.append((f"d{number}", None, numbers_of(SPEC, sums_of(wild, rows))))
    assert verdict(SPEC, devices) == []


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"length": "hour"}, "length"),
        ({"limit": 0.5}, "limit"),
        ({"first": 4}, "first"),
        ({"past": 10}, "past"),
        ({"delay": -1}, "delay"),
    ],
)
def test_settings_out_of_range_are_refused(values: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        PeriodsSpec(**values)  # type: ignore[arg-type]


def test_spells_name_their_fields() -> None:
    assert Spell._fields[:2] == ("model", "group")
    assert PeriodSums._fields == ("rows", "repeats", "mean", "comoments")
