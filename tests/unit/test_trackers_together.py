"""Many models in a call: to each the bits that it has alone, whoever its neighbours are."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.arrays import IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.monitor.moving import MovingWindow, no_mismatch
from kerneltrack.registry import get_tracker
from kerneltrack.trackers import CovarianceSpec
from kerneltrack.trackers.common.features import Features
from kerneltrack.trackers.common.loop import Pieces
from kerneltrack.trackers.common.spec import SubspaceSpec
from tests.oracles.streams import feature_bytes, raw, state_bytes, walk
from tests.parts import examples
from tests.unit.test_tracker_contract import LARGE, SMALL, lanes
from tests.unit.test_tracker_contract import SPECS as UNTIMED

pytestmark = pytest.mark.sanitized

Array = npt.NDArray[np.float64]

WIDTH = 3
SPECS = UNTIMED | {"covariance-timed": CovarianceSpec(**SMALL, budget=5, halflife_seconds=9.0)}
FIXED = [name for name, spec in SPECS.items() if spec.tracker != "okfe"]
WINDOWED = [
    name
    for name, spec in SPECS.items()
    if spec.tracker in {"okfeb", "covariance"} and getattr(spec, "halflife", None) != "auto"
]


class Model(NamedTuple):
    """A model's rows, and the pieces in which they come."""

    key: str
    rows: Array
    cuts: tuple[int, ...]


@st.composite
def a_model(draw: st.DrawFn) -> Model:
    """Rows of one model, some of which are refused."""
    seed, count = draw(st.integers(0, 9)), draw(st.integers(0, 45))
    rows = walk(seed, count, WIDTH)
    for place in draw(st.lists(st.integers(0, max(count - 1, 0)), max_size=4)):
        if count:
            rows[place, draw(st.integers(0, WIDTH - 1))] = draw(st.sampled_from([np.nan, 1e300]))
    cuts = sorted(draw(st.lists(st.integers(0, count), min_size=2, max_size=2)))
    return Model(str(draw(st.integers(0, 9))), rows, (0, *cuts, count))


models_of = st.lists(a_model(), min_size=1, max_size=5)


def begin(spec: SubspaceSpec, model: Model) -> Any:
    first = walk(len(model.rows), spec.rows_to_start, WIDTH)
    return get_tracker(spec.tracker).init(spec, first, model.key)


def laid_out(models: list[Model], turn: int, order: list[int]) -> tuple[Pieces, list[slice]]:
    """The turn-th pieces of models in a table, in some order, with rows of nobody between them."""
    rows, spans = [np.full((1, WIDTH), np.nan)], []
    for place in order:
        start = sum(map(len, rows))
        piece = models[place].rows[models[place].cuts[turn] : models[place].cuts[turn + 1]]
        rows += [piece, np.full((1, WIDTH), 7.0)]
        spans.append(slice(start, start + len(piece)))
    starts = np.array([span.start for span in spans], np.int64)
    stops = np.array([span.stop for span in spans], np.int64)
    table = np.concatenate(rows)
    return Pieces(table, starts, stops, times=times_of(len(table))), spans


def times_of(count: int) -> IntArray:
    return np.arange(count, dtype=np.int64) * 10**9


def extras_of(name: str) -> tuple[str, ...]:
    return ("q",) if name in LARGE else ("q", "s")


def assert_same(features: Features, span: slice, alone: Features) -> None:
    assert feature_bytes(features, span) == feature_bytes(alone)


def run_each(
    spec: SubspaceSpec, states: list[Any], pieces: Pieces, learn: bool = True
) -> tuple[list[Any], Features]:
    """Run rows of models through copies of their states; return the new ones, and the features."""
    tracker = get_tracker(spec.tracker)
    block = tracker.pack(spec, states)
    output_text = tracker.run(spec, block, pieces, learn=learn)
    return block.states(), output_text


@settings(max_examples=examples(12))
@given(data=st.data(), models=models_of)
@pytest.mark.parametrize("name", lanes(SPECS))
def test_many_at_once_are_each_alone(name: str, data: st.DataObject, models: list[Model]) -> None:
    spec, extras = SPECS[name], extras_of(name)
    tracker = get_tracker(spec.tracker)
    alone = [begin(spec, model) for model in models]
    block = tracker.pack(spec, alone)
    for turn in range(3):
        order = data.draw(st.permutations(range(len(models))))
        # Not all of them have rows each time.
        order = order[: data.draw(st.integers(0, len(models)))]
        pieces, spans = laid_out(models, turn, order)
        pieces = pieces._replace(models=np.array(order, int))
        seen = tracker.run(spec, block, pieces, extras, learn=False)
        output_text = tracker.run(spec, block, pieces, extras)
        for place, span in zip(order, spans, strict=True):
            rows, times = pieces.rows[span], times_of(len(pieces.rows))[span]
            assert_same(seen, span, tracker.project(spec, alone[place], rows, extras))
            alone[place], wanted = tracker.update(spec, alone[place], rows, extras, times)
            assert_same(output_text, span, wanted)
        nobody = np.ones(len(pieces.rows), bool)
        for span in spans:
            nobody[span] = False
        assert not output_text.valid[nobody].any()
        wanted_states = [state_bytes(state) for state in alone]
        assert [state_bytes(state) for state in block.states()] == wanted_states


@settings(max_examples=examples(10))
@given(data=st.data(), models=models_of)
@pytest.mark.parametrize("name", lanes(WINDOWED))
def test_windows_go_along_as_alone(name: str, data: st.DataObject, models: list[Model]) -> None:
    spec, extras, moving = SPECS[name], extras_of(name), MovingWindow(8)
    alone = [begin(spec, model) for model in models]
    windows = [moving.init(spec, state) for state in alone]
    block, beside = get_tracker(spec.tracker).pack(spec, alone), moving.pack(spec, windows)
    for turn in range(3):
        order = data.draw(st.permutations(range(len(models))))
        pieces, spans = laid_out(models, turn, order)
        pieces = pieces._replace(models=np.array(order, int))
        output_text, measured = moving.run(spec, block, beside, pieces, extras)
        for place, span in zip(order, spans, strict=True):
            own = pieces.rows[span], extras, times_of(len(pieces.rows))[span]
            state, window, wanted, value = moving.update(spec, alone[place], windows[place], *own)
            assert_same(output_text, span, wanted)
            assert [raw(part[span]) for part in measured] == [raw(part) for part in value]
            assert state_bytes(block.state(place)) == state_bytes(state)
            assert state_bytes(beside.state(place)) == state_bytes(window)
            alone[place], windows[place] = state, window


@pytest.mark.parametrize("name", lanes(SPECS))
def test_pieces_of_one_model_run_in_their_order(name: str) -> None:
    spec = SPECS[name]
    tracker, rows = get_tracker(spec.tracker), walk(3, 60, WIDTH)
    rows[[7, 33]] = np.nan
    one, two = (begin(spec, Model(key, rows, ())) for key in "ab")
    block = tracker.pack(spec, [one, two])
    spans = np.array([[0, 20], [20, 30], [30, 60], [20, 60]])
    models = np.array([1, 0, 0, 1])
    times = times_of(60)
    pieces = Pieces(rows, spans[:3, 0], spans[:3, 1], times, models[:3])
    output_text = tracker.run(spec, block, pieces)
    pieces = Pieces(rows, spans[3:, 0], spans[3:, 1], times, models[3:])
    rest = tracker.run(spec, block, pieces)
    first, of_first = tracker.update(spec, one, rows[20:], times=times[20:])
    second, of_second = tracker.update(spec, two, rows, times=times)
    assert [state_bytes(state) for state in block.states()] == [*map(state_bytes, (first, second))]
    assert feature_bytes(output_text, slice(20, 60)) == feature_bytes(of_first)
    assert feature_bytes(output_text, slice(0, 20)) == feature_bytes(of_second, slice(0, 20))
    assert feature_bytes(rest, slice(20, 60)) == feature_bytes(of_second, slice(20, 60))


@pytest.mark.parametrize("name", lanes(SPECS))
def test_one_damaged_model_of_fifty_costs_no_other(name: str) -> None:
    spec = SPECS[name]
    rows = np.concatenate([walk(seed, 6, WIDTH) for seed in range(50)])
    stops = np.arange(1, 51) * 6
    pieces = Pieces(rows, stops - 6, stops, times_of(300))
    sound = [begin(spec, Model(str(seed), rows[:seed], ())) for seed in range(50)]
    sound, _ = run_each(spec, sound, pieces)
    wanted, expected = run_each(spec, sound, pieces)
    damaged = {
        field: np.full_like(array, np.nan) if array.dtype == np.float64 else array.copy()
        for field, array in sound[17]._asdict().items()
    }
    states = [*sound[:17], type(sound[17])(**damaged), *sound[18:]]
    before = state_bytes(states[17])
    after, output_text = run_each(spec, states, pieces)
    others = np.ones(300, bool)
    others[pieces.starts[17] : pieces.stops[17]] = False
    assert feature_bytes(output_text, others) == feature_bytes(expected, others)
    for place in {*range(50)} - {17}:
        assert state_bytes(after[place]) == state_bytes(wanted[place])
    assert state_bytes(states[17]) == before


@pytest.mark.parametrize("keys", [None, ["x", "y", "", "x", "ß"]])
@pytest.mark.parametrize("name", lanes(SPECS))
def test_models_begin_together_as_alone(name: str, keys: list[str] | None) -> None:
    spec = SPECS[name]
    tracker, rows = get_tracker(spec.tracker), walk(4, 120, WIDTH)
    rows[70:80, 1] = 2.0
    spans = np.array([[0, 20], [20, 21], [30, 50], [65, 85], [85, 120]])
    block = tracker.init_each(spec, rows, spans[:, 0], spans[:, 1], keys)
    for place, state in enumerate(block.states()):
        wanted = tracker.init(spec, rows[slice(*spans[place])], keys[place] if keys else "")
        assert state_bytes(state) == state_bytes(wanted)
    with pytest.raises(ConfigError, match="first_rows"):
        tracker.init_each(spec, np.full((9, WIDTH), np.nan), np.array([0]), np.array([9]))


@pytest.mark.parametrize("name", lanes(FIXED))
def test_tables_are_written_in_place(name: str) -> None:
    spec = SPECS[name]
    tracker, rows = get_tracker(spec.tracker), walk(5, 40, WIDTH)
    states = [begin(spec, Model(key, rows[:9], ())) for key in "abc"]
    pieces = Pieces(rows, np.array([0, 10, 10]), np.array([10, 10, 40]), times_of(40))
    wanted, _ = run_each(spec, states, pieces)
    table = np.frombuffer(b"".join(map(tracker.state_bytes, states)), np.uint8).reshape(3, -1)
    table = table.copy()
    block = tracker.pack_table(spec, WIDTH, table)
    tracker.run(spec, block, pieces)
    assert [row.tobytes() for row in table] == [*map(tracker.state_bytes, wanted)]
    for field in states[0]._fields:
        assert raw(block.column(field)) == raw(np.stack([getattr(one, field) for one in wanted]))
    with pytest.raises(ConfigError, match="state"):
        tracker.pack_table(spec, WIDTH, table[:, 8:])


@pytest.mark.parametrize("name", lanes(SPECS))
def test_results_go_to_room_that_is_given(name: str) -> None:
    spec = SPECS[name]
    tracker, rows = get_tracker(spec.tracker), walk(6, 40, WIDTH)
    state = begin(spec, Model("a", rows, ()))
    block, room = tracker.pack(spec, [state]), tracker.room(spec, 40)
    for start, stop in ((0, 12), (12, 12), (12, 40)):
        pieces = Pieces(rows, np.array([start]), np.array([stop]), times_of(40))
        output_text = tracker.run(spec, block, pieces, out=room)
    assert feature_bytes(output_text) == feature_bytes(
        tracker.update(spec, state, rows, (), times_of(40))[1]
    )
    narrow = dataclasses.replace(spec, rank=spec.rank - 1)
    for other in (tracker.room(spec, 39), tracker.room(narrow, 40)):
        with pytest.raises(ConfigError, match=r"out\."):
            tracker.run(spec, block, pieces, out=other)


@pytest.mark.parametrize("name", lanes(WINDOWED))
def test_windows_that_do_not_fit_are_an_error(name: str) -> None:
    spec, moving = SPECS[name], MovingWindow(8)
    tracker, rows = get_tracker(spec.tracker), walk(6, 40, WIDTH)
    state = begin(spec, Model("a", rows, ()))
    window = moving.init(spec, state)
    pieces = Pieces(rows, np.array([0]), np.array([40]), times_of(40))
    block, windows = tracker.pack(spec, [state]), moving.pack(spec, [window])
    with pytest.raises(ConfigError, match="windows"):
        moving.pack(spec, [])
    with pytest.raises(ConfigError, match="windows"):
        moving.run(spec, block, moving.pack(spec, [window, window]), pieces)
    with pytest.raises(ConfigError, match="window"):
        moving.pack(spec, [MovingWindow(9).init(spec, state)])
    with pytest.raises(ConfigError, match="measured"):
        moving.run(spec, block, windows, pieces, measured=no_mismatch(39))
    with pytest.raises(ConfigError, match=r"out\."):
        moving.run(spec, block, windows, pieces, out=tracker.room(spec, 41))


@pytest.mark.parametrize("name", lanes(SPECS))
def test_what_does_not_fit_is_an_error(name: str) -> None:
    spec = SPECS[name]
    tracker, rows = get_tracker(spec.tracker), walk(6, 10, WIDTH)
    state = begin(spec, Model("a", rows, ()))
    fine = Pieces(rows, np.array([0]), np.array([10]), times_of(10))
    for pieces, field in (
        (fine._replace(rows=rows[:, :2]), "rows"),
        (fine._replace(starts=np.array([-1])), "starts"),
        (fine._replace(stops=np.array([11])), "stops"),
        (fine._replace(starts=np.array([5]), stops=np.array([4])), "starts"),
        (fine._replace(starts=np.array([0, 1])), "starts"),
        (fine._replace(models=np.array([1])), "models"),
        (fine._replace(models=np.array([-1])), "models"),
    ):
        with pytest.raises(ConfigError, match=field):
            run_each(spec, [state], pieces)
        with pytest.raises(ConfigError, match=field):
            run_each(spec, [state], pieces, learn=False)
    rank = 4 if spec.tracker == "rows" else spec.rank
    wide = tracker.init(dataclasses.replace(spec, rank=rank), walk(1, 20, 4))
    with pytest.raises(ConfigError, match="widths"):
        tracker.pack(spec, [state, wide])
    with pytest.raises(ConfigError, match="widths"):
        tracker.pack(spec, [])


@pytest.mark.parametrize("name", lanes(name for name in FIXED if SPECS[name].tracker != "rows"))
def test_states_of_another_spec_are_refused(name: str) -> None:
    spec = SPECS[name]
    other = dataclasses.replace(spec, novelty_window=spec.novelty_window + 1)
    state = begin(other, Model("a", walk(6, 10, WIDTH), ()))
    with pytest.raises(ConfigError, match="states"):
        get_tracker(spec.tracker).pack(spec, [state])
