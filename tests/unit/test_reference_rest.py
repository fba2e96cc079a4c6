"""A machine at rest, found by itself, and rows after another mode began: they open no episode."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import AUTO, Episode, ReferenceSpec
from kerneltrack.monitor.reference.state import ReferenceState
from tests.parts import examples
from tests.unit.test_reference_moving import run

Array = npt.NDArray[np.float64]

SPEC = ReferenceSpec(learning=AUTO, rows=256, memory="1024 rows", season="none", false_alarms=100)
SPELLS = (300, 520, 800, 1000)
"""Rows with which the machine comes to rest before episodes may open, and once they may."""
LATER = (1500, 1900)
BEGIN, COUNT = 1300, 2400


def machine(seed: int, spells: dict[int, int], count: int = COUNT) -> Array:
    """Load, speed, valve and heat; at rest speed and valve stand at a bound, heat fades slowly."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(count, 4))
    load = np.sin(np.arange(count) / 17) + 0.3 * noise[:, 0]
    rests = np.zeros(count, np.bool_)
    for begin, length in spells.items():
        rests[begin : begin + length] = True
    speed = np.where(rests, 0.0, 30 + 4 * load + noise[:, 1])
    valve = np.where(rests, 90.0, 12 - load + 0.5 * noise[:, 2])
    heat = np.empty(count)
    now = 50.0
    for row in range(count):
        now += 0.1 * ((20.0 if rests[row] else 50 + 2 * load[row]) - now)
        heat[row] = now
    return np.column_stack([load * ~rests, speed, valve, heat + 0.3 * noise[:, 3]])


def opened(rows: Array, spec: ReferenceSpec = SPEC) -> list[int]:
    return [episode.opened for episode in run(spec, rows)[2] if not episode.closed]


@pytest.mark.sanitized
@pytest.mark.parametrize("seed", range(4))
def test_a_rest_that_is_known_opens_no_episode_nor_does_what_follows_it(seed: int) -> None:
    known = dict.fromkeys(SPELLS, 12)
    assert not opened(machine(seed, known | dict.fromkeys(LATER, 40)))
    # What was never before does, and one spell that goes on and on.
    assert 1500 <= min(opened(machine(seed, dict.fromkeys(LATER, 40)))) < 1540
    (at, *_) = opened(machine(seed, known | {1500: 400}))
    assert 1500 + 1024 // 7 <= at < 1500 + 450


@pytest.mark.sanitized
@pytest.mark.parametrize("seed", range(4))
def test_one_channel_that_stands_at_its_bound_is_a_fault(seed: int) -> None:
    rows = machine(seed, dict.fromkeys(SPELLS, 12))
    rows[1500:1700, 1] = 0.0
    assert any(1500 < at < 1700 for at in opened(rows))


def by_the_rule(rows: Array, causes: tuple[int, ...] = ()) -> tuple[Array, list[int]]:
    """The table of a rest by its description, and which rows are held: SPEC's memory."""
    count, width = rows.shape
    table, held = np.zeros((2 * width + 1, 6)), []
    repeats = np.zeros(width, np.int64)
    for row in range(count):
        memory = 1024 if row >= 128 else 0
        resting, many = 0, width - len(causes)
        for channel in range(width):
            same = row > 0 and rows[row, channel] == rows[row - 1, channel]
            repeats[channel] = repeats[channel] + 1 if same else 0
            if channel in causes:
                continue
            rests = False
            for side in (0, 1):
                bound = table[2 * channel + side]
                value = rows[row, channel] * (1 if side else -1)
                if repeats[channel] >= 2 and (bound[1] == 0 or value > bound[0]):
                    bound[:] = value, 1, 0, 0, 0, 0
                elif bound[1] and value == bound[0]:
                    bound[1] += 1
                elif bound[1] and value > bound[0] - 0.5:
                    bound[2] += 1
                if not bound[1]:
                    continue
                if value != bound[0]:
                    bound[5] = 0
                    continue
                bound[5] += 1
                spells, began = bound[3], row + 1 - bound[5]
                if bound[5] >= max(memory / 672, 6) and (
                    not spells or began - bound[4] > memory / 56
                ):
                    bound[3:5] = spells + 1, began
                elif spells and bound[4] == began:
                    spells -= 1
                clear = 6 <= bound[1] < 0.3 * row and bound[1] >= 3 * bound[2]
                rests |= bool(spells >= 2 and clear and bound[5] < memory / 7)
            resting += rests
        last = table[-1]
        if resting >= 2 and 4 * resting >= many:
            last[2] += 1
            held.append(row)
            continue
        last[0], last[2] = max(last[0], min(2 * last[2], 150)), 0
        if last[0] >= 1:
            last[0] -= 1
            held.append(row)
    return table, held


def scaled(state: ReferenceState, rows: Array) -> Array:
    return np.asarray(rows / state.tables.scale - state.tables.shift)


@pytest.mark.sanitized
@settings(max_examples=examples(6))
@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.integers(10, 1500), st.integers(1, 60)), max_size=12),
    st.sampled_from([(), (0,), (1,)]),
    st.lists(st.integers(1, 1599), max_size=4),
)
def test_the_table_is_that_of_the_rule_however_rows_are_cut(
    seed: int, spells: list[tuple[int, int]], causes: tuple[int, ...], cuts: list[int]
) -> None:
    rows = np.round(machine(seed % 2**16, dict(spells), 1600), 1)
    spec = dataclasses.replace(SPEC, causes=causes)
    state = run(spec, rows, None, *sorted(cuts))[0]
    table, _ = by_the_rule(scaled(state, rows), causes)
    np.testing.assert_array_equal(state.tables.rest[:, 1:], table[:, 1:])
    np.testing.assert_allclose(state.tables.rest[:, 0], table[:, 0], rtol=1e-12)


@pytest.mark.sanitized
def test_the_rows_that_are_held_add_no_evidence() -> None:
    rows = machine(5, dict.fromkeys(SPELLS, 12) | dict.fromkeys(LATER, 40))
    state, scores, _ = run(SPEC, rows)
    _, held = by_the_rule(scaled(state, rows))
    late = [row for row in held if row > BEGIN]
    assert set(range(1503, 1540)) <= set(late) and set(range(1540, 1600)) <= set(late)
    np.testing.assert_array_equal(scores.evidence[late], scores.evidence[np.array(late) - 1])
    # They have a p, and are learned.
    assert np.isfinite(scores.p[late]).all()
    other = run(SPEC, machine(5, dict.fromkeys(SPELLS, 12)))[0]
    assert (other.tables.mean != state.tables.mean).any()


@pytest.mark.sanitized
def test_a_reference_for_other_rows_is_not_at_rest() -> None:
    rows = machine(5, dict.fromkeys(SPELLS, 12) | {2380: 30})
    state = run(SPEC, rows)[0]
    assert state.tables.rest[-1, 2] > 0
    anew = reference.restarted(state).tables.rest
    assert not anew[-1].any() and not anew[:-1, 5].any()
    np.testing.assert_array_equal(anew[:-1, :5], state.tables.rest[:-1, :5])
    assert len(reference.init(ReferenceSpec(), rows[:256]).tables.rest) == 0


def turning(seed: int, lengths: tuple[int, ...]) -> Array:
    """Two modes in turn; heat follows the mode over some fifty rows."""
    rng = np.random.default_rng(seed)
    mode = np.repeat(np.arange(len(lengths)) % 2, lengths)
    noise = rng.normal(size=(len(mode), 3))
    heat, now = np.empty(len(mode)), 30.0
    for row, of in enumerate(mode):
        now += 0.05 * ((30.0, 60.0)[of] - now)
        heat[row] = now
    load = np.sin(np.arange(len(mode)) / 17)
    return np.column_stack([load + 0.3 * noise[:, 0], 2 * load + noise[:, 1], heat, mode])


@pytest.mark.sanitized
def test_rows_after_another_mode_began_open_no_episode_for_a_while() -> None:
    spec = dataclasses.replace(SPEC, mode=3, max_modes=2, gap="none", false_alarms=1)
    lengths = (700, 400, 500, 300, 400, 300, 500, 300)
    found: list[Episode] = []
    for seed in range(3):
        found += run(spec, turning(seed, lengths))[2]
    assert not found
    # Later in a mode the same is a fault.
    rows = turning(1, (700, 400, 500, 300, 400, 300, 900))
    rows[3200:3280, 2] += 60 * np.exp(-np.arange(80) / 20)
    assert any(3200 <= episode.opened < 3280 for episode in run(spec, rows)[2])
