"""The window view of a reference: distances against plain NumPy, cuts, periods, shapes, states."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerneltrack.errors import ConfigError
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import Episode, ReferenceSpec, Scores, block, paces
from kerneltrack.monitor.reference.state import (
    FOLLOWED,
    REALS,
    SHAPE_ROWS,
    SHAPES_WAITING,
    WINDOW_LENGTH,
)

Array = npt.NDArray[np.float64]

PERIOD, ROWS, BEGIN = 40, 1024, 4000
AUTO = ReferenceSpec(rows=ROWS, window="auto")
GIVEN = ReferenceSpec(rows=ROWS, window=24)
GATED = ReferenceSpec(rows=ROWS, window=24, learning="gated")
NONE = ReferenceSpec(rows=ROWS)
MOVES = ReferenceSpec(learning="auto", memory="2000 rows", season="none", window="auto")
MOVES_GIVEN = dataclasses.replace(MOVES, window=24)
SECOND = 10**9


def beats(seed: int, count: int, width: int = 1, period: int = PERIOD) -> Array:
    """Rows of a machine that goes round and round, not at quite the same speed."""
    rng = np.random.default_rng(seed)
    turns = 2 * np.pi * np.cumsum((1 + 0.1 * rng.normal(size=count)) / period)
    waves = [np.sin(turns + d) + 0.5 * np.sin(2 * (turns + d)) for d in range(width)]
    return np.column_stack(waves) + 0.05 * rng.normal(size=(count, width))


def turned(rows: Array, channel: int = 0) -> Array:
    """Let a channel run backwards for one period: each of its values is usual."""
    odd = rows.copy()
    odd[BEGIN : BEGIN + PERIOD, channel] = rows[BEGIN : BEGIN + PERIOD, channel][::-1]
    return odd


def run(
    spec: ReferenceSpec, rows: Array, *cuts: int, times: npt.NDArray[np.int64] | None = None
) -> tuple[Any, Scores, list[Episode]]:
    """All rows in calls that end at these places."""
    state = reference.init(spec, rows[:512])
    parts, told = [], []
    for at in np.split(np.arange(len(rows)), cuts):
        state, scores, found = reference.update(
            spec, state, rows[at], None if times is None else times[at]
        )
        parts.append(scores)
        told += found
    return state, Scores(*map(np.concatenate, zip(*(p.columns for p in parts), strict=True))), told


def as_bytes(state: Any, scores: Scores) -> bytes:
    return b"".join(array.tobytes() for array in (*state.tables, *state.kernel, *scores.columns))


def squares(rows: Array, known: int, length: int, points: int) -> Array:
    """Squared distance of each row's window from the nearest shape of the first rows."""
    scaled = (rows - rows[:512].mean(axis=0)) / rows[:512].std(axis=0)
    back = [k * (length - 1) // (points - 1) for k in range(points)]
    windows = np.stack([scaled[length - 1 - b : len(scaled) - b] for b in back], axis=1)
    windows = (windows - windows.mean(axis=1, keepdims=True)).reshape(len(windows), -1)
    shapes = windows[: known - length + 1]
    found = [float(((shapes - window) ** 2).sum(axis=1).min()) for window in windows]
    return np.concatenate([np.full(length - 1, np.nan), found])


@pytest.mark.parametrize(
    ("width", "points"), [(1, 24), (2, 24), pytest.param(9, 14, marks=pytest.mark.nightly)]
)
def test_a_score_has_the_distance_from_the_nearest_shape(width: int, points: int) -> None:
    rows = turned(beats(1, BEGIN + 200, width))
    plain, seen = run(NONE, rows)[1].score, run(GIVEN, rows)[1].score
    nearest = np.sqrt(squares(rows, ROWS // 2, 24, points))
    # One of each two scores of the second half is kept, drawn: the mean of all is near theirs.
    part = nearest / nearest[ROWS // 2 : ROWS].mean()
    weight = 18 / width**2
    expected = (1.5 * plain + weight * part) / (1.5 + weight)
    np.testing.assert_allclose(seen[ROWS:], expected[ROWS:], rtol=0.02)


def test_shapes_are_taken_evenly_where_they_are_many() -> None:
    rows = beats(2, 9000)
    spec = ReferenceSpec(rows=8192, window=32)
    state, scores, _ = run(spec, rows)
    assert state.tables.counts[SHAPE_ROWS] == 4096
    # Of 4,065 shapes a fourth is looked at, and so none is nearer than the nearest of all.
    nearest = np.sqrt(squares(rows, 4096, 32, 32))[8192:]
    weight = 18 / (1.5 + 18) / state.tables.reals[REALS]
    plain = run(ReferenceSpec(rows=8192), rows)[1].score[8192:] * 1.5 / 19.5
    looked_at = (scores.score[8192:] - plain) / weight
    assert (looked_at > nearest * (1 - 1e-9)).all()
    assert np.median(looked_at / nearest) < 1.3


@pytest.mark.sanitized
@pytest.mark.parametrize("period", [35, 50, 120])
def test_a_window_is_as_long_as_the_period(period: int) -> None:
    state, _, _ = run(AUTO, beats(3, 2000, period=period))
    assert abs(state.tables.counts[WINDOW_LENGTH] - period) <= 2


def test_a_window_that_is_found_has_32_rows_at_least() -> None:
    state, _, _ = run(AUTO, beats(3, 2000, period=10))
    assert state.tables.counts[WINDOW_LENGTH] == 32


def check_noticed(scores: Scores, told: list[Episode]) -> None:
    """The odd shape has one episode, and the highest score."""
    assert [episode.closed for episode in told] == [False, True]
    assert BEGIN - PERIOD <= told[0].start <= told[0].opened <= BEGIN + PERIOD
    assert told[-1].shares.tolist() == [1.0]
    assert BEGIN <= int(scores.score[ROWS:].argmax()) + ROWS < BEGIN + 2 * PERIOD


def test_a_shape_of_usual_values_is_noticed() -> None:
    rows = turned(beats(4, 6000))
    assert run(NONE, rows)[2] == []
    _, scores, told = run(AUTO, rows)
    check_noticed(scores, told)
    assert scores.p[BEGIN : BEGIN + PERIOD].min() < 1e-3
    settled = int(scores.settled[ROWS + 40 :].argmax()) + ROWS + 40
    assert BEGIN <= settled - 20 < BEGIN + 2 * PERIOD


def test_the_channel_whose_shape_is_odd_comes_first() -> None:
    _, _, told = run(AUTO, turned(beats(4, 6000, 2), 1))
    assert int(told[-1].shares.argmax()) == 1


@pytest.mark.parametrize("spec", [AUTO, GIVEN, GATED, MOVES, MOVES_GIVEN])
@pytest.mark.parametrize("cuts", [[1, 2, 500], [127, 128, 129], [513, 1023, 1024], [4010, 4011]])
def test_cuts_change_nothing(spec: ReferenceSpec, cuts: list[int]) -> None:
    rows, times = turned(beats(5, 4500)), np.arange(4500) * SECOND
    times[700:] += 10_000 * SECOND
    times[2500:] += 10_000 * SECOND
    spec = dataclasses.replace(spec, gap="1 minutes")
    whole, apart = run(spec, rows, times=times), run(spec, rows, *cuts, times=times)
    assert as_bytes(*whole[:2]) == as_bytes(*apart[:2])
    assert len(whole[2]) == len(apart[2])


@pytest.mark.sanitized
def test_no_window_reaches_across_a_gap() -> None:
    rows, times = beats(6, 3000), np.arange(3000) * SECOND
    # After the gap the device begins elsewhere in its turn.
    rows[2003:] = rows[2003 - PERIOD // 2 : 3000 - PERIOD // 2].copy()
    there = times + np.where(np.arange(3000) >= 2003, 10_000 * SECOND, 0)
    spec = dataclasses.replace(GIVEN, gap="1 minutes")
    with_gap, without = (run(spec, rows, times=each)[1].score for each in (there, times))
    plain = run(dataclasses.replace(NONE, gap="1 minutes"), rows, times=there)[1].score
    # Until a window's rows have come since the gap, it counts as usual.
    usual = (1.5 * plain[2003:2026] + 18) / 19.5
    np.testing.assert_allclose(with_gap[2003:2026], usual, rtol=1e-12)
    assert without[2003:2026].max() > 1.5 > with_gap[2003:2026].max()
    np.testing.assert_allclose(with_gap[-100:], without[-100:], rtol=1e-6)


@pytest.mark.sanitized
@pytest.mark.parametrize("spec", [GIVEN, MOVES])
def test_many_models_at_once_are_each_alone(spec: ReferenceSpec) -> None:
    rows = [turned(beats(seed, count)) for seed, count in ((7, 4300), (8, 4100), (9, 4500))]
    lengths = np.array([len(each) for each in rows])
    stops = np.cumsum(lengths)
    starts = stops - lengths
    blocks = block.begin(spec, np.concatenate(rows), starts, starts + 512)
    times = np.zeros(int(stops[-1]), np.int64)
    watched = block.go_on(spec, blocks, np.concatenate(rows), starts, stops, times)
    assert watched.done.all()
    for place, each in enumerate(rows):
        state, scores, told = run(spec, each)
        at = np.arange(starts[place], stops[place])
        together = block.state_at(spec, 1, blocks, place), watched.scores.at(at)
        assert as_bytes(*together) == as_bytes(state, scores)
        assert len(watched.episodes[place]) == len(told)
        again = paces.unpack(spec, 1, paces.pack(spec, state))
        assert as_bytes(again, scores) == as_bytes(state, scores)


@pytest.mark.sanitized
@pytest.mark.parametrize("spec", [AUTO, MOVES])
@pytest.mark.parametrize("cut", [300, 700, 1500])
def test_a_state_goes_on_from_its_arrays(spec: ReferenceSpec, cut: int) -> None:
    rows = turned(beats(10, 4200))
    state, _, _ = run(spec, rows[:cut])
    again = reference.from_arrays(spec, reference.arrays(state))
    one, two = (reference.update(spec, each, rows[cut:]) for each in (state, again))
    assert as_bytes(*one[:2]) == as_bytes(*two[:2])


@pytest.mark.sanitized
def test_a_reference_that_is_given_to_new_rows_begins_without_a_window() -> None:
    rows = beats(11, 3000)
    state, _, _ = run(AUTO, rows)
    begun = reference.restarted(state)
    assert begun.tables.counts[FOLLOWED] == 0
    assert begun.tables.counts[WINDOW_LENGTH] == state.tables.counts[WINDOW_LENGTH]
    _, scores, told = reference.update(AUTO, begun, beats(11, 600)[100:], learn=False)
    assert told == []
    assert np.isfinite(scores.score).all()


def test_without_windows_a_state_has_nothing_of_them() -> None:
    rows = beats(12, 1500)
    names = {"shapes", "before"}
    assert not names & set(reference.arrays(run(NONE, rows)[0]))
    assert names <= set(reference.arrays(run(AUTO, rows)[0]))
    assert "window" not in NONE.to_dict()
    assert AUTO.to_dict()["window"] == "auto"


def test_a_state_has_the_bytes_of_the_formula() -> None:
    cases = ((1, AUTO, 512), (1, GIVEN, 512), (20, AUTO, 512), (1, MOVES, 8192), (20, MOVES, 1024))
    for width, spec, rows in cases:
        sizes = [
            sum(array.nbytes for array in reference.init(each, np.eye(50, width)).tables)
            for each in (spec, dataclasses.replace(spec, window=None))
        ]
        most = 24 if spec is GIVEN else 300
        more = 1159 if spec is not MOVES else 453
        assert sizes[0] - sizes[1] == 8 * (width * (rows + most) + more)


@pytest.mark.sanitized
@pytest.mark.parametrize(
    ("place", "value"),
    [
        *((WINDOW_LENGTH, value) for value in (513, 7, -1)),
        *((FOLLOWED, 301), (SHAPE_ROWS, 513), (SHAPE_ROWS, 20)),
    ],
)
def test_a_state_that_leads_astray_is_refused(place: int, value: int) -> None:
    arrays = reference.arrays(run(AUTO, beats(13, 1500))[0])
    arrays["counts"] = arrays["counts"].copy()
    arrays["counts"][place] = value
    with pytest.raises(ConfigError, match="counts"):
        reference.from_arrays(AUTO, arrays)


@pytest.mark.sanitized
def test_more_shapes_that_wait_than_there_are_are_refused() -> None:
    arrays = reference.arrays(run(MOVES, beats(13, 1500))[0])
    arrays["counts"] = arrays["counts"].copy()
    arrays["counts"][SHAPES_WAITING] = arrays["counts"][SHAPE_ROWS] + 1
    with pytest.raises(ConfigError, match="shapes that wait"):
        reference.from_arrays(MOVES, arrays)


@pytest.mark.parametrize(
    "fields",
    [
        *({"window": window} for window in (7, 65, 513, 2.5, "day")),
        {"window": 257, "learning": "auto"},
        {"window": "auto", "learning": "auto", "mode": "state"},
    ],
)
def test_odd_windows_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="window"):
        ReferenceSpec(**fields)


@pytest.mark.parametrize("seed", [5, 6])
def test_a_moving_reference_notices_a_shape_of_usual_values(seed: int) -> None:
    rows = turned(beats(seed, 6000))
    assert run(dataclasses.replace(MOVES, window=None), rows)[2] == []
    state, scores, told = run(MOVES, rows)
    check_noticed(scores, told)
    assert abs(state.tables.counts[WINDOW_LENGTH] - PERIOD) <= 2


def test_a_moving_reference_blames_the_channel_whose_shape_is_odd() -> None:
    _, _, told = run(MOVES, turned(beats(4, 6000, 2), 1))
    assert int(told[-1].shares.argmax()) == 1


def test_the_shape_of_a_cause_is_never_odd() -> None:
    rows = np.column_stack([beats(5, 6000), turned(beats(7, 6000))])
    assert run(MOVES, rows)[2] != []
    assert run(dataclasses.replace(MOVES, causes=(1,)), rows)[2] == []


@pytest.mark.sanitized
def test_no_window_of_a_moving_reference_reaches_across_a_gap() -> None:
    """Also across one that is too short for the rest to begin anew."""
    rows, times = beats(6, 6000), np.arange(6000) * SECOND
    rows[BEGIN:] = rows[BEGIN - PERIOD // 2 : -PERIOD // 2].copy()
    there = times + np.where(np.arange(6000) >= BEGIN, 8 * SECOND, 0)
    spec = dataclasses.replace(MOVES_GIVEN, gap="1 hours")
    with_gap, without = (run(spec, rows, times=each)[1].score for each in (there, times))
    spans = slice(BEGIN + 8, BEGIN + 22)
    assert without[spans].mean() > 2 * with_gap[spans].mean()
    apart = run(spec, rows, BEGIN - 1, BEGIN + 3, BEGIN + 20, times=there)[1]
    assert apart.score.tobytes() == with_gap.tobytes()


def test_shapes_of_an_episode_are_not_learned() -> None:
    state, _, told = run(MOVES, turned(beats(4, BEGIN + 1000)))
    scaled = state.tables.shapes[0, : state.tables.counts[SHAPE_ROWS]]
    pieces = np.split(scaled, np.flatnonzero(np.isnan(scaled)))
    odd = np.arange(told[0].opened, told[-1].row) - (BEGIN + 1000)
    assert len(pieces) > 1
    assert len(scaled) < 2000
    there = (state.tables.scale, state.tables.shift)
    values = turned(beats(4, BEGIN + 1000))[odd, 0] / there[0] - there[1]
    assert not np.isin(values, scaled).any()


def test_shapes_move_with_the_rows() -> None:
    """A beat that has become another one for a memory is usual; what was before is odd."""
    before, after = beats(4, 4000), beats(5, 8000, period=70)
    rows = np.concatenate([before, after, beats(6, 200)])
    state, scores, _ = run(MOVES, rows)
    assert scores.score[11_000:12_000].mean() < 1.5
    assert scores.score[-100:].mean() > 1.5 * scores.score[11_000:12_000].mean()
    assert state.tables.counts[SHAPE_ROWS] <= 2000


@pytest.mark.parametrize("rows", [512, 2048])
def test_the_stated_rate_is_kept(rows: int) -> None:
    """As well as without windows, though one that is odd shows for as long as it is."""
    many = np.zeros(2, np.int64)
    for seed in range(3):
        noise = np.random.default_rng(seed).normal(size=(30_000, 1))
        for place, window in enumerate((None, "auto")):
            spec = ReferenceSpec(rows=rows, window=window, false_alarms=1, per=2_000)
            many[place] += sum(not each.closed for each in run(spec, noise)[2])
    assert 15 <= many[1] <= 1.6 * max(many[0], 45)


@pytest.mark.sanitized
@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("scale", [0.0, 1e-150, 1e150])
def test_hostile_rows_give_numbers(scale: float, moves: bool) -> None:
    rng = np.random.default_rng(14)
    rows = rng.normal(size=(1500, 2)) * scale
    rows[rng.integers(0, 1500, 40)] = 1e150
    spec = MOVES if moves else dataclasses.replace(AUTO, learning="gated")
    state, scores, told = run(spec, rows)
    assert np.isfinite(scores.p[ROWS:]).all()
    assert moves or np.isfinite(scores.evidence[ROWS:]).all()
    assert all(np.isfinite(episode.shares).all() for episode in told)
    assert all(np.isfinite(array).all() for array in reference.arrays(state).values())
