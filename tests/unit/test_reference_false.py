"""Rows of episodes that were false become normal, for a reference that moves."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneltrack as kt
from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.results import Results
from kerneltrack.fleet.run import run_models, run_rows
from kerneltrack.fleet.states import encode
from kerneltrack.monitor import reference
from kerneltrack.monitor.feedback import FALSE, REAL, Feedback, Said, entry_of
from kerneltrack.monitor.reference import BLOCK, Episode, Scores, square
from kerneltrack.monitor.reference.run import NOTHING_SAID
from kerneltrack.monitor.reference.state import (
    EPISODES_LEARNED,
    KEPT_EPISODES,
    KEPT_FALSE,
    KEPT_NUMBER,
    KEPT_ROWS,
    ReferenceState,
)
from kerneltrack.trackers import OKFEBSpec
from tests.parts import examples
from tests.unit.test_reference_moving import SPEC, Array, clock, embedded, normal

MINUTES = 10 * 60 * 10**9
HABIT, LASTS = (2000, 2500, 2900, 3300, 3700), 40
CHANNELS = ("a", "b", "c", "d")


def rows_of(seed: int = 1, habit: tuple[int, ...] = HABIT, size: float = 2.5) -> Array:
    """A channel that leaves what the others make of it for some rows, again and again."""
    rows = normal(seed, 4100)
    for start in habit:
        rows[start : start + LASTS, 1] += size
    return rows


def five_faults() -> Array:
    """Channels that leave what the others make of them, one after the other."""
    rows = normal(1, 4100)
    for number, start in enumerate(HABIT):
        rows[start : start + LASTS, number % 4] += 4.0
    return rows


def line(since: int, at: int, *, false: bool = True, until: int = 0, of_all: bool = False) -> Any:
    """What is said of an episode from the time of a row on."""
    return since, until, int(clock(1)[0]) + at * MINUTES, false, of_all


def run(
    rows: Array, said: npt.NDArray[np.int64] = NOTHING_SAID, *cuts: int, spec: Any = SPEC
) -> tuple[ReferenceState, Scores, list[Episode]]:
    state, parts, found = reference.init(spec, rows[:256]), [], []
    times = clock(len(rows))
    for piece in np.split(np.arange(len(rows)), cuts):
        state, scores, more = reference.update(spec, state, rows[piece], times[piece], said=said)
        parts.append(scores.columns)
        found += more
    return state, Scores(*map(np.concatenate, zip(*parts, strict=True))), found


def first_of(rows: Array) -> Episode:
    return next(each for each in run(rows)[2] if each.closed)


def said_of(*lines: Any) -> npt.NDArray[np.int64]:
    return np.array(lines, np.int64)


def bytes_of(state: ReferenceState) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in reference.arrays(state).items()}


def test_what_was_false_opens_no_episode_again() -> None:
    for seed in range(4):
        rows = rows_of(seed)
        first = first_of(rows)
        said = said_of(line(first.times[0], first.row + 1))
        _, plain, before = run(rows)
        state, scores, after = run(rows, said)
        opened = [[each.opened for each in found if not each.closed] for found in (before, after)]
        assert len(opened[0]) >= 4, seed
        assert len(opened[1]) < len(opened[0]) - 1, seed
        assert state.tables.episodes[-1, EPISODES_LEARNED] == 1
        # What was before is the same, to the end of the block in which it is said.
        end = -(-(first.row + 1) // BLOCK) * BLOCK
        for column, other in zip(plain.columns, scores.columns, strict=True):
            assert column[:end].tobytes() == other[:end].tobytes()
        # What is unlike it is as odd as ever: another channel, or much more of it.
        for channel, size in ((3, 2.5), (1, 10.0)):
            fault = rows.copy()
            fault[3600:3640, channel] += size
            hundreds = {each.opened // 100 for each in run(fault, said)[2] if not each.closed}
            assert 36 in hundreds, (seed, channel)


def test_it_is_a_state_of_its_own_moment_however_rows_are_cut() -> None:
    rows = rows_of()
    first = first_of(rows)
    said = said_of(line(first.times[0], first.row + 30))
    whole = run(rows, said)
    # Whoever hears of it later, but before that moment, comes to the same.
    half = run(rows[: first.row + 20])[0]
    rest = rows[first.row + 20 :], clock(len(rows))[first.row + 20 :]
    assert bytes_of(reference.update(SPEC, half, *rest, said=said)[0]) == bytes_of(whole[0])
    # It is said of another device, another episode, or later.
    for other in (line(first.times[0] + 1000, 0), line(first.times[0], 5000)):
        assert bytes_of(run(rows, said_of(other))[0]) == bytes_of(run(rows)[0])


@pytest.mark.sanitized
@settings(max_examples=examples(20))
@given(
    cuts=st.lists(st.integers(1, 4099), max_size=5),
    at=st.integers(1990, 2200),
    back=st.integers(1990, 2200),
)
def test_cuts_change_nothing(cuts: list[int], at: int, back: int) -> None:
    """Also of an episode that is open, and of one of which it is said later that it was real."""
    rows = rows_of()
    since = first_of(rows).times[0]
    said = said_of(line(since, at), line(since, back, false=False))
    whole, found = run(rows, said), run(rows, said, *sorted(cuts))
    assert bytes_of(found[0]) == bytes_of(whole[0])
    for column, other in zip(found[1].columns, whole[1].columns, strict=True):
        assert column.tobytes() == other.tobytes()
    assert repr(found[2]) == repr(whole[2])


def test_one_that_is_open_is_learned_when_it_is_over() -> None:
    rows = rows_of()
    over = first_of(rows)
    said = said_of(line(over.times[0], over.opened + 1))
    stop = -(-over.opened // BLOCK) * BLOCK
    state = run(rows[:stop], said)[0]
    assert stop <= over.row
    kept = state.tables.episodes[1 % KEPT_EPISODES]
    assert (kept[KEPT_NUMBER], kept[KEPT_FALSE]) == (1, 1)
    assert kept[KEPT_ROWS] > 0
    assert state.tables.episodes[-1, EPISODES_LEARNED] == 0
    after = run(rows[: stop + BLOCK], said)[0]
    assert not after.tables.episodes[:-1].any()
    assert not after.tables.episode_sums.any()
    assert after.tables.episodes[-1, EPISODES_LEARNED] == 1


def test_what_was_said_last_counts_until_it_is_learned() -> None:
    rows = rows_of()
    first = first_of(rows)
    since, over = first.times[0], first.row
    said = said_of(line(since, over + 1), line(since, over + 1, false=False))
    assert bytes_of(run(rows, said)[0]) == bytes_of(run(rows)[0])
    # What was learned stays learned.
    late = said_of(line(since, over + 1), line(since, over + 1 + BLOCK, false=False))
    assert bytes_of(run(rows, late)[0]) == bytes_of(run(rows, late[:1])[0])


@pytest.mark.sanitized
def test_of_episodes_before_the_last_four_nothing_is_kept() -> None:
    rows = five_faults()
    plain = run(rows)
    assert plain[0].tables.counts[reference.EPISODES] == 5
    since = [each.times[0] for each in plain[2] if each.closed]
    for number, learned in ((0, 0), (1, 1)):
        state = run(rows, said_of(line(since[number], 4000)))[0]
        assert state.tables.episodes[-1, EPISODES_LEARNED] == learned


@pytest.mark.sanitized
def test_all_episodes_of_a_time_can_be_meant() -> None:
    rows = five_faults()
    over = [each for each in run(rows)[2] if each.closed]
    since, until = over[1].times[2], over[3].times[0]
    state = run(rows, said_of(line(since, 4000, until=until, of_all=True)))[0]
    assert state.tables.episodes[-1, EPISODES_LEARNED] == 3
    assert sorted(state.tables.episodes[:-1, KEPT_NUMBER]) == [0, 0, 0, 5]


def greedy(e: Array, omega: Array, fast: Array, slow: Array) -> list[tuple[int, Any]]:
    """Take out the channels that are least what the others make of them, three at most.

    Args:
        e: An embedded row, less the mean.
        omega: The precision.
        fast, slow: Of each channel the score of its rows beside the means over time, and that of
            the slow mean, that one row in ten is beyond.
    """
    found, width = [], len(fast)
    for _ in range(3):
        v, gains, parts, odd = omega @ e, [], [], []
        for channel in range(width):
            own = np.arange(channel, len(e), width)
            left = np.linalg.inv(omega[np.ix_(own, own)])
            part, rows_alone = left @ v[own], own[:-2]
            tied = np.linalg.solve(omega[np.ix_(rows_alone, rows_alone)], v[rows_alone])
            parts.append(part)
            gains.append(math.sqrt(part @ v[own]))
            made = e[own] - part
            jump = 0.49 * (made[0] - made[1]) ** 2 / left[0, 0]
            beyond = math.sqrt(v[rows_alone] @ tied / (1 + jump)) > fast[channel]
            lasting = abs(part[-1]) / math.sqrt(left[-1, -1] + (made[-1] / 5) ** 2)
            odd.append(beyond or lasting > slow[channel])
        worst = int(np.argmax(gains))
        if not odd[worst]:
            break
        found.append((worst, parts[worst]))
        e = e.copy()
        e[worst::width] -= parts[worst]
    return found


@pytest.mark.sanitized
def test_sums_and_what_is_learned_are_those_of_the_equations() -> None:
    rows = rows_of(habit=(2050,), size=0.8)
    first = first_of(rows)
    stop = first.row // BLOCK * BLOCK + BLOCK
    said = said_of(line(first.times[0], first.row + 1))
    assert first.start // BLOCK * BLOCK + BLOCK == stop
    before = run(rows[: stop - 1])[0].tables
    after, learned = run(rows[:stop])[0].tables, run(rows[:stop], said)[0].tables
    lags, width = SPEC.lags_for(4), 4
    scaled = np.clip(rows / before.scale - before.shift, -1e3, 1e3)
    columns = embedded(scaled[:stop], lags)
    # The slow means come first in W, then the fast ones, then the rows.
    group = np.r_[2 : lags + 2, 1, 0]
    places = (group[:, None] * width + np.arange(width)).ravel()
    whitener = square(before.whitener[0], len(places))
    omega = (whitener.T @ whitener)[np.ix_(places, places)]
    above = before.tally[:, ::-1].cumsum(axis=1)[:, ::-1]
    share = above / np.maximum(above[:, :1], 1e-9)
    bins = (share > 0.1).argmin(axis=1)
    edges = [2.0 ** (b // 8 - 8) * (1 + b % 8 / 8) if b else 0.0 for b in bins.tolist()]
    fast, slow = np.array(edges[1 : 1 + width]), np.array(edges[2 + width : 2 + 2 * width])
    own = len(before.mean) // width
    products, blamed = np.zeros((width, own, own)), np.zeros(width)
    for row in range(first.start, first.row + 1):
        for channel, part in greedy(columns[row] - before.mean, omega, fast, slow):
            products[channel] += np.outer(part, part)
            blamed[channel] += 1
    sums = after.episode_sums[1 % KEPT_EPISODES]
    assert after.episodes[1 % KEPT_EPISODES, KEPT_ROWS] == first.row + 1 - first.start
    np.testing.assert_array_equal(sums[24 : 24 + width], blamed)
    lower = np.tril_indices(own)
    wanted = np.concatenate([each[lower] for each in products])
    np.testing.assert_allclose(sums[24 + 3 * width :], wanted, rtol=1e-6, atol=1e-6)
    part = scaled[first.start : first.row + 1]
    np.testing.assert_allclose(sums[24 + width : 24 + 2 * width], part.sum(axis=0), atol=1e-9)
    # Six times as often, within each channel; m stays. What was learned before fades first.
    fading = min(1024 / after.counts[1], 1.0)
    moved = square(learned.scatter[0] - fading * after.scatter[0], len(places))
    for channel in range(width):
        at = np.arange(channel, len(before.mean), width)
        np.testing.assert_allclose(
            moved[np.ix_(at, at)][lower], 6 * products[channel][lower], rtol=1e-6, atol=1e-6
        )
        moved[np.ix_(at, at)] = 0.0
    np.testing.assert_allclose(moved, 0.0, atol=1e-9)
    np.testing.assert_array_equal(learned.mean, after.mean)


def test_a_mode_learns_rows_of_its_own() -> None:
    spec = dataclasses.replace(SPEC, mode=3, max_modes=2, rows=512)
    rows = normal(2, 9000)
    rows[:, 3] = np.arange(9000) // 60 % 2
    at = 8000
    rows[at : at + 90, 1] += 3.0
    over = next(each for each in run(rows, spec=spec)[2] if each.closed and each.opened >= at - 5)
    said = said_of(line(over.times[0], over.row + 1))
    plain, learned = (run(rows, each, spec=spec)[0].tables for each in (NOTHING_SAID, said))
    assert learned.episodes[-1, EPISODES_LEARNED] == 1
    same = [np.array_equal(plain.scatter[mode], learned.scatter[mode]) for mode in range(2)]
    assert sorted(same) == [False, True]


def work_of(*said: Said) -> Work:
    return Work(
        spec=OKFEBSpec(rank=3, budget=5),
        reference=SPEC,
        devices=True,
        feedback=Feedback(said, CHANNELS),
    )


def said_in_words(key: str, episode: Episode, start: int, verdict: str = FALSE) -> Said:
    since, _, until, _ = episode.times
    return Said(key, since, until, verdict, start, "shift", ())


def alone(work: Work, key: str, rows: Array) -> tuple[Model, Results]:
    model = begin(work, key, rows[:100])
    return run_rows(work, key, model, rows, clock(len(rows)), math.inf)


@pytest.mark.sanitized
@pytest.mark.parametrize("cuts", [[], [2100, 2101, 3000]])
def test_many_models_at_once_are_each_alone(cuts: list[int]) -> None:
    keys = ["m", "n", "o"]
    rows = [rows_of(seed) for seed in range(3)]
    over = [first_of(each) for each in rows]
    said = [
        said_in_words(key, episode, episode.times[2] + MINUTES)
        for key, episode in zip(keys[:2], over, strict=False)
    ]
    said.append(said_in_words("n", over[1], over[1].times[2] + 2 * MINUTES, REAL))
    work = work_of(*said)
    own = [alone(work, key, each) for key, each in zip(keys, rows, strict=True)]
    models = Models.of(
        work, keys, [begin(work, key, each[:100]) for key, each in zip(keys, rows, strict=True)]
    )
    times, learned = clock(len(rows[0])), 0
    lines: list[list[Any]] = [[] for _ in keys]
    for piece in np.split(np.arange(len(times)), cuts):
        stops = len(piece) * np.arange(1, 4)
        until = [math.inf if piece[-1] == len(times) - 1 else -math.inf] * 3
        together = np.concatenate([each[piece] for each in rows])
        found = run_models(
            models, together, np.tile(times[piece], 3), stops - len(piece), stops, until
        )
        learned += found.false_learned
        for place in range(3):
            lines[place] += [*found.episodes.get(place, []), *found.devices.get(place, [])]
    for place, (model, results) in enumerate(own):
        assert encode(work, keys[place], models.model(place)) == encode(work, keys[place], model)
        wanted = [*results.episodes[0], *results.devices[0]]
        assert sorted(map(repr, lines[place])) == sorted(map(repr, wanted))
    assert learned == sum(results.false_learned for _, results in own) == 1


def test_a_fleet_learns_them_too() -> None:
    rows = rows_of()
    over = first_of(rows)
    said = said_in_words("m", over, over.times[2] + MINUTES)
    results = alone(work_of(said), "m", rows)[1]
    fleet, times = (
        kt.Fleet(rank=3, budget=5, reference=SPEC, feedback=[entry_of(said)]),
        clock(4100),
    )
    for piece in np.array_split(np.arange(len(rows)), 3):
        columns = {name: rows[piece, place] for place, name in enumerate(CHANNELS)}
        columns |= {
            "device": ["m"] * len(piece),
            "time": pa.array(times[piece], pa.timestamp("ns")),
        }
        fleet.update(pa.table(columns), model_id="device", time="time")
    opened = {each.number: each.start for each in results.episodes[0]}
    found = fleet.episodes.to_pylist()
    assert {each["episode"]: each["start_index"] for each in found} == opened
    assert len(fleet.episodes) == len(opened) < len(HABIT)


@pytest.mark.sanitized
def test_a_frozen_reference_learns_none() -> None:
    rows = rows_of()
    first = first_of(rows)
    said = [said_in_words("m", first, first.times[2])]
    model, _ = alone(work_of(), "m", rows[: first.row + 1])
    frozen = dataclasses.replace(work_of(*said), frozen=True)
    times = clock(len(rows))[first.row + 1 :]
    found = run_rows(frozen, "m", model, rows[first.row + 1 :], times, math.inf)[1]
    assert not found.false_learned
