"""Windowed kernel mismatch in the stream: against a slow oracle, and however rows come."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, WindowFn
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack import codec
from kerneltrack.errors import ConfigError
from kerneltrack.monitor.mismatch import Mismatch, window_mismatch
from kerneltrack.monitor.moving import MovingWindow
from kerneltrack.registry import get_tracker
from kerneltrack.specs import KERNELS
from kerneltrack.trackers import OKFEBSpec, OKFESpec
from kerneltrack.trackers.common.spec import SubspaceSpec
from tests.parts import cuts, examples
from tests.stream.running import (
    SECOND,
    SPEC,
    Line,
    Rows,
    Step,
    assert_same,
    core_alone,
    exact,
    make_rows,
    step_through,
    taking_turns,
    track,
    track_stream,
)
from tests.stream.test_order import arriving
from tests.unit.test_mismatch import assert_agrees, assert_certified, oracle
from transforms.track.order import Order
from transforms.track.transform import SLICE_ROWS, MeasureMismatch, TrackSubspace

EventWindows: TypeAlias = FixedWindows | SlidingWindows

DISORDERS = [0.0, 1.0, 5.0, math.inf]
WINDOWS: list[EventWindows] = [
    FixedWindows(4),
    FixedWindows(2.5, offset=-0.75),
    FixedWindows(0.25),
    SlidingWindows(size=6, period=2),
    SlidingWindows(size=5, period=1.5, offset=0.5),
    SlidingWindows(size=1.5, period=4, offset=3),
    SlidingWindows(size=3, period=3, offset=1),
]
EXACT = ("kind", "start", "end", "index", "rows", "n", "mismatch", "residual", "complete")


def title(windows: EventWindows) -> str:
    measure = MeasureMismatch(windows).in_ns()
    return "-".join(f"{ns / 1e9:g}" for ns in (measure.length, measure.period, measure.offset))


class Expected(NamedTuple):
    """A window's line, and the state and rows that it was measured on."""

    line: Line
    found: Mismatch
    state: Any
    rows: npt.NDArray[Any]


def run_until(rows: Rows, spec: SubspaceSpec, end: float) -> tuple[Any, npt.NDArray[np.bool_]]:
    """The core's state after the rows before `end`, and which rows of the stream it took."""
    tracker = get_tracker(spec.tracker)
    usable = rows.x[np.isfinite(rows.x).all(axis=1)]
    before = np.asarray(rows.time) < end
    first = tracker.init(spec, usable[: spec.rows_to_start])
    state, features = tracker.update(spec, first, rows.x[before])
    taken = np.zeros(len(rows), dtype=np.bool_)
    taken[before] = features.valid
    return state, taken


def windows_by_hand(rows: Rows, windows: EventWindows, spec: SubspaceSpec = SPEC) -> list[Expected]:
    """Ask Beam for every row's windows; run the core anew up to the end of each."""
    times = np.asarray(rows.time)
    found = {
        (window.start.micros * 1000, window.end.micros * 1000)
        for time in times.tolist()
        for window in windows.assign(WindowFn.AssignContext(Timestamp(micros=time // 1000)))
    }
    lines = []
    for start, end in sorted(found):
        state, taken = run_until(rows, spec, end)
        inside = np.flatnonzero(taken & (times >= start))
        if not len(inside):
            continue
        mismatch = window_mismatch(spec, state, rows.x[inside])
        line = {
            "kind": "fixed" if isinstance(windows, FixedWindows) else "sliding",
            "start": start,
            "end": end,
            "index": int(taken.sum()) - 1,
            "rows": len(inside),
            "n": len(inside),
            "mismatch": mismatch.value,
            "residual": mismatch.residual,
            "complete": bool(end <= times.max()),
        }
        lines.append(Expected(line, mismatch, state, rows.x[inside]))
    return lines


def only_windows(lines: list[Line]) -> list[Line]:
    kept = [line for line in lines if line["kind"] != "moving"]
    return sorted(kept, key=lambda line: (line["start"], line["end"]))


def assert_lines(lines: list[Line], expected: list[Expected]) -> None:
    found = [{name: line[name] for name in EXACT} for line in only_windows(lines)]
    assert exact(found) == exact(part.line for part in expected)


def assert_bounds(line: Line, kappa: float, spec: SubspaceSpec, confidence: float = 0.95) -> None:
    """Hold a line's bounds against their formulas (28b, and Prop. 4 with Hoeffding's eq. 2.7)."""
    residual = line["residual"]
    assert line["trace_bound"] == residual
    assert 0 <= line["mismatch"] <= line["trace_bound"] <= line["fitting_bound"]
    bound = 2 * math.sqrt(kappa * residual) + residual
    assert line["fitting_bound"] == pytest.approx(bound, rel=1e-12)
    if spec.kernel in {"gaussian", "laplacian"}:
        margin = math.sqrt(math.log(1 / (1 - confidence)) / line["n"])
        assert line["future_bound"] == pytest.approx(min(residual + margin, 1), rel=1e-12)
        assert line["future_bound"] >= residual
    else:
        assert line["future_bound"] is None


def irregular(count: int, seed: int, refused: float = 0.15, whole: bool = True) -> Rows:
    """Rows at times before and after 1970: bursts, equal times, long gaps, some rows refused."""
    rng = np.random.default_rng(seed)
    steps = rng.choice([0, 1, 1, 2, 6, 40], size=count, p=[0.25, 0.3, 0.2, 0.15, 0.08, 0.02])
    times = (np.cumsum(steps) - count // 2) * (SECOND // 2)
    if not whole:
        times += rng.choice([0, 1, 999, SECOND // 3], size=count)
    rows = make_rows(count, seed=seed, times=np.sort(times))
    x = rows.x.copy()
    x[rng.random(count) < refused, rng.integers(0, 3)] = np.nan
    return dataclasses.replace(rows, x=x)


@pytest.mark.parametrize("kernel", sorted(KERNELS))
@pytest.mark.parametrize("windows", WINDOWS[:5:2], ids=title)
def test_every_window_equals_brute_force(kernel: str, windows: EventWindows) -> None:
    spec = dataclasses.replace(SPEC, kernel=kernel)
    rows = irregular(90, seed=len(kernel))
    expected = windows_by_hand(rows, windows, spec)
    outcome = step_through(
        [("m", chunk) for chunk in rows.cut([11])],
        spec=spec,
        measure=MeasureMismatch(windows, confidence=0.9),
    )
    assert_lines(outcome.mismatch["m"], expected)
    assert len(expected) > 10
    for line, part in zip(only_windows(outcome.mismatch["m"]), expected, strict=True):
        assert_certified(part.found)
        assert_agrees(part.found, oracle(spec, part.state, part.rows))
        assert_bounds(line, part.found.kappa, spec, confidence=0.9)


@settings(max_examples=examples(40))
@given(
    st.sampled_from(WINDOWS),
    st.sampled_from(DISORDERS),
    st.lists(st.integers(1, 30), min_size=1, max_size=30),
    st.sampled_from([1, 15, 25, 90]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_no_cut_and_no_arrival_matters(
    windows: EventWindows, max_disorder: float, sizes: list[int], count: int, whole: bool, seed: int
) -> None:
    """Two models at once; lines, features and what is kept, all bit for bit."""
    rows = {
        key: irregular(count, 2 * seed + number, whole=whole) for number, key in enumerate("ab")
    }
    measure = MeasureMismatch(windows)
    chunks = {key: arriving(rows[key], max_disorder, seed).cut(sizes) for key in rows}
    elements = taking_turns(chunks)
    outcome = step_through(elements, measure=measure, order=Order(max_disorder=max_disorder))
    for key, of_model in rows.items():
        if not np.isfinite(of_model.x).all(axis=1).any():
            assert key not in outcome.mismatch
            continue
        expected = windows_by_hand(of_model, windows)
        assert_lines(outcome.mismatch.get(key, []), expected)
        for part in expected:
            assert_agrees(part.found, oracle(SPEC, part.state, part.rows))
        whole_run = step_through([(key, of_model.chunk())], measure=measure)
        assert exact(outcome.mismatch.get(key, [])) == exact(whole_run.mismatch.get(key, []))
        assert [pair for pair in outcome.snapshots if pair[0] == key] == whole_run.snapshots


@settings(max_examples=examples(20))
@given(
    st.sampled_from(WINDOWS),
    st.sampled_from(DISORDERS[:-1]),
    st.lists(st.integers(1, 5), min_size=1, max_size=30),
    st.integers(0, 2**32),
)
def test_a_window_closes_as_soon_as_the_models_clock_allows(
    windows: EventWindows, max_disorder: float, sizes: list[int], seed: int
) -> None:
    """Every row moves the clock, also one that waits or is refused."""
    rows = irregular(70, seed)
    expected = [part.line for part in windows_by_hand(rows, windows)]
    step = Step(order=Order(max_disorder=max_disorder), measure=MeasureMismatch(windows))
    newest, closed = -(2**62), set()
    for chunk in arriving(rows, max_disorder, seed).cut(sizes):
        newest = max(newest, int(chunk.column("time").max()))
        closed |= {line["end"] for line in step.push("m", chunk).mismatch.get("m", [])}
        due = newest - round(max_disorder * SECOND)
        if step.model("m") is not None:
            assert closed == {line["end"] for line in expected if line["end"] <= due}
        else:
            assert not closed


def test_a_row_that_waits_closes_the_windows_behind_it() -> None:
    times = [*np.arange(0, 20, 0.5), 29.0, 29.5]
    rows = make_rows(42, times=np.array(times) * SECOND)
    measure = MeasureMismatch(FixedWindows(10))
    step = Step(order=Order(max_disorder=2.0), measure=measure)
    *before, wait, wait_too = rows.cut([1])
    output_text = [step.push("m", chunk) for chunk in before]
    ends = [line["end"] // SECOND for out in output_text for line in out.mismatch.get("m", [])]
    assert ends == [10]
    # 29 s waits until the clock has passed 31 s, but it says that all before 27 s have come.
    out = step.push("m", wait)
    assert [(line["end"] // SECOND, line["complete"]) for line in out.mismatch["m"]] == [(20, True)]
    assert step.push("m", wait_too).mismatch == {}
    (last,) = step.finish().mismatch["m"][2:]
    assert (last["start"] // SECOND, last["rows"], last["complete"]) == (20, 2, False)


@pytest.mark.parametrize("max_disorder", DISORDERS)
def test_both_pipelines_give_the_lines_of_the_core(max_disorder: float) -> None:
    windows = SlidingWindows(size=6, period=2, offset=0.5)
    order, measure = Order(max_disorder=max_disorder), MeasureMismatch(windows, moving=10)
    rows = {key: irregular(120, seed=number) for number, key in enumerate("abc")}
    chunks = {key: arriving(rows[key], max_disorder, seed=7).cut([7, 1, 13]) for key in rows}
    elements = taking_turns(chunks)
    bounded = track(elements, order=order, measure=measure)
    live = track_stream(
        [elements[k : k + 4] for k in range(0, len(elements), 4)], order=order, measure=measure
    )
    for key, of_model in rows.items():
        by_hand = windows_by_hand(of_model, windows)
        for outcome in (bounded, live):
            assert_lines(outcome.mismatch[key], by_hand)
            assert exact(outcome.mismatch[key]) == exact(bounded.mismatch[key])
            assert_same(outcome.table(key), core_alone(valid_only(of_model)))
    assert live.snapshots == bounded.snapshots


def valid_only(rows: Rows) -> Rows:
    return rows.take(np.flatnonzero(np.isfinite(rows.x).all(axis=1)))


def test_windows_longer_than_a_slice_of_rows() -> None:
    count = 2 * SLICE_ROWS + 100
    rows = make_rows(count, times=np.arange(count) * (SECOND // 10))
    measure = MeasureMismatch(SlidingWindows(2500, 1000), most_rows=60)
    bounded = step_through([("m", rows.chunk())], measure=measure)
    live = step_through(
        [("m", chunk) for chunk in rows.cut([5000])], measure=measure, order=Order(max_disorder=9)
    )
    assert exact(bounded.mismatch["m"]) == exact(live.mismatch["m"])
    assert live.snapshots == bounded.snapshots
    starts = [line["start"] // SECOND for line in bounded.mismatch["m"]]
    assert starts == list(range(-2000, 4000, 1000))
    assert [line["rows"] for line in bounded.mismatch["m"]] == [
        5000,
        15000,
        25000,
        22868,
        12868,
        2868,
    ]


def test_a_window_holds_its_start_and_not_its_end() -> None:
    """Refused rows on both edges, and valid ones a nanosecond from them."""
    seconds = np.arange(40) * SECOND
    edges = np.array([40, 50, 50, 60]) * SECOND + np.array([0, -1, 0, 0])
    rows = make_rows(44, times=np.concatenate([seconds, edges]))
    rows.x[[40, 43]] = np.nan
    outcome = step_through([("m", rows.chunk())], measure=MeasureMismatch(FixedWindows(10)))
    found = [
        (line["start"] // SECOND, line["rows"], line["index"], line["complete"])
        for line in outcome.mismatch["m"]
    ]
    # The refused row at 60 s ends the window from 50 s; its own window holds no row.
    assert found[-2:] == [(40, 1, 40, True), (50, 1, 41, True)]
    assert [entry[:2] for entry in found[:4]] == [(0, 10), (10, 10), (20, 10), (30, 10)]


def test_a_window_of_refused_rows_alone_has_no_line() -> None:
    rows = make_rows(60, times=np.arange(60) * SECOND)
    rows.x[20:30] = np.nan
    outcome = step_through([("m", rows.chunk())], measure=MeasureMismatch(FixedWindows(5)))
    starts = [line["start"] // SECOND for line in outcome.mismatch["m"]]
    assert starts == [0, 5, 10, 15, 30, 35, 40, 45, 50, 55]


def test_in_order_of_arrival_rows_that_go_back_in_time_are_late() -> None:
    """With max_disorder = 0 nothing waits, and windows never go back."""
    rng = np.random.default_rng(4)
    seconds = np.arange(60) + rng.choice([0, 0, 0, -4], size=60)
    rows = make_rows(60, times=seconds * SECOND)
    back = seconds < np.maximum.accumulate(seconds)
    assert back.any()
    for sizes in ([60], [1], [7, 2]):
        outcome = step_through(
            [("m", chunk) for chunk in rows.cut(sizes)],
            order=Order(max_disorder=0),
            measure=MeasureMismatch(FixedWindows(5)),
        )
        assert [row for _, _, row in outcome.late] == np.flatnonzero(back).tolist()
        kept = rows.take(np.flatnonzero(~back))
        assert_lines(outcome.mismatch["m"], windows_by_hand(kept, FixedWindows(5)))
        assert_same(outcome.table("m"), core_alone(kept))


def test_rows_without_times_are_in_no_window() -> None:
    rows = dataclasses.replace(make_rows(50), time=None)
    measure = MeasureMismatch(FixedWindows(5), moving=48)
    for order in (Order(), Order(max_disorder=1.0)):
        outcome = step_through([("m", c) for c in rows.cut([9])], order=order, measure=measure)
        assert [line["kind"] for line in outcome.mismatch["m"]] == ["moving"] * 3


@pytest.mark.parametrize("windows", [FixedWindows(1e8), SlidingWindows(1e8, 1e8, 3)], ids=title)
def test_windows_at_the_ends_of_the_years(windows: EventWindows) -> None:
    limit = 9 * 10**18
    rows = make_rows(40, times=np.linspace(-limit, limit, 40).astype(np.int64))
    outcome = step_through([("m", rows.chunk())], measure=MeasureMismatch(windows))
    assert_lines(outcome.mismatch["m"], windows_by_hand(rows, windows))
    assert len(outcome.mismatch["m"]) == 40


# Windows with more than most_rows.


def dense(rates: list[int], seed: int = 0) -> Rows:
    """Rows at these rates, in Hz, second by second."""
    times = [s * SECOND + k * SECOND // rate for s, rate in enumerate(rates) for k in range(rate)]
    return make_rows(len(times), seed=seed, times=np.array(times))


def kept_of(data: bytes | None) -> int:
    return 0 if data is None else len(codec.decode(data).extras["open.rows"])


def strided(rows: Rows, line: Line, spec: SubspaceSpec = SPEC) -> list[int]:
    """The strides, powers of two, on which the window's value is the line's."""
    state, taken = run_until(rows, spec, line["end"])
    numbers = np.cumsum(taken) - 1
    inside = taken & (np.asarray(rows.time) >= line["start"])
    fits = []
    for stride in [2**k for k in range(12)]:
        measured = rows.x[inside & (numbers % stride == 0)]
        found = window_mismatch(spec, state, measured)
        if (found.n, found.value, found.residual) == (
            line["n"],
            line["mismatch"],
            line["residual"],
        ):
            fits.append(stride)
    return fits


@settings(max_examples=examples(20))
@given(
    st.sampled_from([FixedWindows(3), FixedWindows(2, offset=0.5), SlidingWindows(1, 3)]),
    st.sampled_from([2, 5, 16]),
    st.lists(st.sampled_from([1, 2, 8, 40]), min_size=4, max_size=12),
    cuts(60, 20),
    st.integers(0, 2**32),
)
def test_large_windows_are_measured_at_equal_spacing(
    windows: EventWindows, most_rows: int, rates: list[int], sizes: list[int], seed: int
) -> None:
    """Windows that do not overlap: the least stride, a power of two, that leaves most_rows."""
    rows = dense(rates, seed)
    outcome = step_through(
        [("m", c) for c in rows.cut(sizes)],
        order=Order(max_disorder=0),
        measure=MeasureMismatch(windows, most_rows=most_rows),
    )
    for line in outcome.mismatch["m"]:
        indexes = range(line["index"] - line["rows"] + 1, line["index"] + 1)
        stride = 1
        while sum(index % stride == 0 for index in indexes) > most_rows:
            stride *= 2
        assert line["n"] == sum(index % stride == 0 for index in indexes)
        assert stride in strided(rows, line)
    assert sum(line["rows"] for line in outcome.mismatch["m"]) <= len(rows)


@settings(max_examples=examples(20))
@given(
    st.sampled_from([SlidingWindows(4, 1), SlidingWindows(6, 2.5, 0.5), FixedWindows(3)]),
    st.sampled_from([2, 7, 20]),
    st.lists(st.sampled_from([1, 2, 8, 40]), min_size=4, max_size=12),
    cuts(60, 20),
    st.sampled_from([0.0, 1.5, math.inf]),
    st.integers(0, 2**32),
)
def test_memory_is_bounded_and_no_cut_matters_when_rows_are_thinned(
    windows: EventWindows,
    most_rows: int,
    rates: list[int],
    sizes: list[int],
    max_disorder: float,
    seed: int,
) -> None:
    rows, measure = dense(rates, seed), MeasureMismatch(windows, most_rows=most_rows)
    step = Step(order=Order(max_disorder=max_disorder), measure=measure)
    for chunk in arriving(rows, max_disorder, seed).cut(sizes):
        step.push("m", chunk)
        assert kept_of(step.model("m")) <= most_rows
    outcome = step.finish()
    whole = step_through([("m", rows.chunk())], measure=measure)
    assert exact(outcome.mismatch["m"]) == exact(whole.mismatch["m"])
    assert outcome.snapshots == whole.snapshots
    for line in outcome.mismatch["m"]:
        assert line["n"] <= min(line["rows"], most_rows)
        if line["n"]:
            assert strided(rows, line)
            assert line["mismatch"] <= line["trace_bound"]
        else:
            assert line["mismatch"] is line["residual"] is line["trace_bound"] is None
            assert line["fitting_bound"] is line["future_bound"] is None


def test_a_steady_stream_is_measured_on_half_of_most_rows_at_least() -> None:
    rows = dense([60] * 12)
    measure = MeasureMismatch(SlidingWindows(4, 1), most_rows=50)
    outcome = step_through([("m", c) for c in rows.cut([50])], measure=measure)
    lines = [line for line in outcome.mismatch["m"] if line["rows"] == 240]
    assert len(lines) == 9
    assert all(25 <= line["n"] <= 50 for line in lines)


def test_rows_are_kept_densely_again_after_a_burst() -> None:
    rows = dense([4] * 6 + [500] + [4] * 20)
    measure = MeasureMismatch(SlidingWindows(4, 1), most_rows=50)
    outcome = step_through([("m", c) for c in rows.cut([50])], measure=measure)
    thinned = {
        line["start"] // SECOND for line in outcome.mismatch["m"] if line["n"] < line["rows"]
    }
    assert {3, 4, 5, 6} <= thinned
    # A window that was open beside the burst's is thinned as they are, none that opened later.
    assert max(thinned) <= 10


# The moving window.


@settings(max_examples=examples(20))
@given(
    st.sampled_from(sorted(KERNELS)),
    st.sampled_from([1, 2, 7, 30]),
    st.sampled_from(DISORDERS),
    st.lists(st.integers(1, 30), min_size=1, max_size=20),
    st.integers(0, 2**32),
)
def test_the_moving_windows_lines_are_the_cores(
    kernel: str, length: int, max_disorder: float, sizes: list[int], seed: int
) -> None:
    spec = dataclasses.replace(SPEC, kernel=kernel)
    rows = irregular(60, seed)
    outcome = step_through(
        [("m", c) for c in arriving(rows, max_disorder, seed).cut(sizes)],
        spec=spec,
        order=Order(max_disorder=max_disorder),
        measure=MeasureMismatch(FixedWindows(1000), moving=length),
    )
    good = valid_only(rows)
    tracker, moving = get_tracker("okfeb"), MovingWindow(length)
    state = tracker.init(spec, good.x[:20])
    window = moving.init(spec, state)
    _, _, _, measured = moving.update(spec, state, window, good.x)
    lines = [line for line in outcome.mismatch["m"] if line["kind"] == "moving"]
    times = np.asarray(good.time).tolist()
    assert len(lines) == max(len(good) - length + 1, 0)
    for place, line in enumerate(lines, start=length - 1):
        assert exact([line]) == exact(
            [
                {
                    "kind": "moving",
                    "start": times[place - length + 1],
                    "end": times[place],
                    "index": place,
                    "rows": length,
                    "n": length,
                    "mismatch": float(measured.value[place]),
                    "residual": float(measured.residual[place]),
                    "trace_bound": float(measured.residual[place]),
                    "fitting_bound": line["fitting_bound"],
                    "future_bound": line["future_bound"],
                    "complete": True,
                }
            ]
        )
        assert_bounds(line, float(measured.kappa[place]), spec)
        if place % 5 == 0:
            state, _ = tracker.update(spec, tracker.init(spec, good.x[:20]), good.x[: place + 1])
            part = good.x[place - length + 1 : place + 1]
            found = Mismatch(length, line["mismatch"], line["residual"], measured.kappa[place])
            assert_agrees(found, oracle(spec, state, part))


def test_the_moving_window_without_times() -> None:
    rows = dataclasses.replace(make_rows(60), time=None)
    with_times = make_rows(60)
    measure = MeasureMismatch(moving=25)
    lines = [
        step_through([("m", chunk) for chunk in some.cut([7])], measure=measure).mismatch["m"]
        for some in (rows, with_times)
    ]
    assert [(line["start"], line["end"]) for line in lines[0]] == [(None, None)] * 36
    empty = {"start": None, "end": None}
    assert exact(lines[0]) == exact({**line, **empty} for line in lines[1])


# Settings.


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({}, "windows"),
        ({"windows": Sessions(5)}, "windows"),
        ({"windows": 60}, "windows"),
        ({"windows": SlidingWindows(5, 0.001)}, "period"),
        ({"windows": SlidingWindows(1e-7, 1)}, "size"),
        ({"windows": FixedWindows(1e9)}, "size"),
        ({"windows": SlidingWindows(1, 1e9)}, "period"),
        ({"windows": SlidingWindows(1, -3)}, "period"),
        ({"moving": 0}, "moving"),
        ({"moving": 10_000}, "moving"),
        ({"moving": 5, "most_rows": 1}, "most_rows"),
        ({"moving": 5, "most_rows": 10**6}, "most_rows"),
        ({"moving": 5, "confidence": 0.0}, "confidence"),
        ({"moving": 5, "confidence": 1}, "confidence"),
    ],
)
def test_wrong_settings_are_named(asked: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        MeasureMismatch(**asked)
    assert caught.value.field == field


@pytest.mark.parametrize("name", ["dskpca", "dspair"])
def test_there_is_no_kernel_mismatch_without_stored_rows(name: str) -> None:
    spec = get_tracker(name).spec_type(rank=3)
    with pytest.raises(ConfigError, match="measure"):
        TrackSubspace(spec, measure=MeasureMismatch(FixedWindows(60)))


def test_the_moving_window_needs_a_bounded_tracker() -> None:
    spec = OKFESpec(rank=3, max_rows=50)
    with pytest.raises(ConfigError, match=r"^moving = 10: .*okfe"):
        TrackSubspace(spec, measure=MeasureMismatch(moving=10))
    TrackSubspace(OKFEBSpec(rank=3), measure=MeasureMismatch(moving=10))
