"""TrackSubspace's own clock: rows out of order, late, too far ahead, in live pipelines too."""

from __future__ import annotations

import dataclasses
import math
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kerneltrack.errors import DataError
from kerneltrack.fleet.model import Work
from kerneltrack.jumps import Standing, judge
from tests.parts import examples, lanes
from tests.stream.running import (
    SECOND,
    SPEC,
    Element,
    Outcome,
    Rows,
    Step,
    _Timer,
    assert_same,
    core_alone,
    empty_cells,
    end_of_bundle,
    make_rows,
    track,
    track_stream,
)
from transforms.chunks import Chunk
from transforms.partition import blocks
from transforms.partition.steps import Steps
from transforms.track import log
from transforms.track.clock import jump_rule
from transforms.track.keyed_fn import with_timers
from transforms.track.log import MOST_ENTRIES
from transforms.track.order import Order
from transforms.track.step import TrackFn
from transforms.track.transform import TrackSubspace

DISORDERS = [0, 0.1, 1, 60]

Reference = tuple[list[int], list[int], list[int]]


def arrival(
    times: npt.NDArray[np.int64], max_disorder: float, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """An order of arrival that is less than `max_disorder` from the order of time.

    A row comes after every row that is `max_disorder` or more older, never behind them: it is
    delayed by less than that on the clock of the times themselves.
    """
    longest = max(round(max_disorder * SECOND) - 1, 0)
    arrived = times + rng.integers(0, longest + 1, size=len(times))
    return np.lexsort((np.arange(len(times)), arrived))


def arriving(rows: Rows, max_disorder: float, seed: int) -> Rows:
    """The rows in an order of arrival: any, where `max_disorder` is infinity."""
    rng = np.random.default_rng(seed)
    if max_disorder == math.inf:
        return rows.take(rng.permutation(len(rows)))
    return rows.take(arrival(np.asarray(rows.time), max_disorder, rng))


def times_of(kind: str, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Sorted times, on whole seconds, 50 Hz, or of both kinds and with many equal ones."""
    whole = np.sort(rng.integers(0, count // 2, size=count)) * SECOND
    if kind == "whole seconds":
        return whole
    if kind == "50 Hz":
        return np.arange(count) * (SECOND // 50)
    mixed = np.where(rng.random(count) < 0.5, whole, whole + rng.integers(0, SECOND, size=count))
    return np.sort(mixed)


def bundles_of(chunks: list[Chunk], sizes: list[int], key: str = "m") -> list[list[Element]]:
    bundles: list[list[Element]] = []
    for chunk in chunks:
        if not bundles or len(bundles[-1]) >= sizes[(len(bundles) - 1) % len(sizes)]:
            bundles.append([])
        bundles[-1].append((key, chunk))
    return bundles


@pytest.mark.parametrize("kind", ["whole seconds", "50 Hz", "both"])
@pytest.mark.parametrize("max_disorder", DISORDERS)
def test_a_live_stream_gives_the_features_of_the_file(max_disorder: float, kind: str) -> None:
    rng = np.random.default_rng([DISORDERS.index(max_disorder), len(kind)])
    times = times_of(kind, 240, rng)
    rows = make_rows(240, seed=7, times=times)
    arriving = rows.take(arrival(times, max_disorder, rng))
    if max_disorder:
        assert (np.diff(arriving.row) < 0).any()
    chunks = arriving.cut(rng.integers(1, 12, size=240).tolist())
    order = Order(max_disorder=max_disorder)
    live = track_stream(bundles_of(chunks, [1, 3]), order=order)
    expected = core_alone(rows)
    assert_same(live.table("m"), expected)
    assert (live.late, live.failures) == ([], [])
    bounded = track([("m", chunk) for chunk in rows.cut([50])])
    assert_same(bounded.table("m"), expected)
    assert live.snapshots == bounded.snapshots


@settings(max_examples=examples(10))
@given(
    st.sampled_from(DISORDERS),
    st.sampled_from(["whole seconds", "50 Hz", "both"]),
    st.lists(st.integers(1, 30), min_size=1, max_size=30),
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_no_cut_of_a_live_stream_matters(
    max_disorder: float,
    kind: str,
    sizes: list[int],
    bundles: list[int],
    with_sequence: bool,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    times = times_of(kind, 120, rng)
    rows = make_rows(120, seed=1, times=times)
    if with_sequence:
        rows = dataclasses.replace(rows, sequence=rng.integers(0, 3, size=120))
    rows = dataclasses.replace(rows, source=rng.integers(0, 2, size=120).astype(np.int32))
    ordered = rows.in_order()
    arriving = ordered.take(arrival(np.asarray(ordered.time), max_disorder, rng))
    live = track_stream(
        bundles_of(arriving.cut(sizes), bundles), order=Order(max_disorder=max_disorder)
    )
    # With max_disorder = 0 the order of arrival is the order, among equal times too.
    assert_same(live.table("m"), core_alone(ordered if max_disorder else arriving))
    assert (live.late, live.failures) == ([], [])


def test_models_keep_their_own_clocks() -> None:
    """One model's times are years ahead of another's: neither is late."""
    early = make_rows(60, seed=1)
    ahead = make_rows(60, seed=2, times=np.arange(60) * SECOND + 10**18)
    cuts = zip(early.cut([5]), ahead.cut([5]), strict=True)
    bundles: list[list[Element]] = [[("ahead", a), ("early", e)] for e, a in cuts]
    live = track_stream(bundles, order=Order(max_disorder=1.0))
    assert_same(live.table("early"), core_alone(early))
    assert_same(live.table("ahead"), core_alone(ahead))
    assert live.late == []


def by_the_rules(times: npt.NDArray[np.int64], order: Order) -> Reference:
    """Take rows one by one: the places that are kept, in their turn, late, and unconfirmed."""
    standing, rule = Standing(), jump_rule(order)
    kept: list[int] = []
    late: list[int] = []
    refused: list[int] = []
    waits: list[int] = []
    for place, time in enumerate(times.tolist()):
        newest = standing.newest
        if newest is not None and time < newest - order.max_disorder * SECOND:
            late.append(place)
            continue
        found = judge(rule, standing, times[place : place + 1])
        standing = found.standing
        refused += [at for at in waits if times[at] in found.refused]
        (refused if not (found.counts | found.waits)[0] else waits).append(place)
        waits = [at for at in waits if at not in refused]
        kept += [at for at in waits if times[at] not in standing.ahead]
        waits = [at for at in waits if times[at] in standing.ahead]
    waits.sort(key=lambda at: int(times[at]))
    found = judge(rule, standing._replace(ahead=()), times[waits], last=True)
    kept += sorted(np.array(waits, np.int64)[found.counts].tolist())
    refused += np.array(waits, np.int64)[~found.counts].tolist()
    return kept, late, sorted(refused)


def check_against_rules(rows: Rows, order: Order, outcome: Outcome) -> Reference:
    kept, late, refused = by_the_rules(np.asarray(rows.time), order)
    ordered = rows.take(kept).in_order()
    assert_same(outcome.table("m"), core_alone(ordered))
    assert outcome.late == sorted(("m", 0, int(rows.row[place])) for place in late)
    reason = (
        f"its time is more than max_jump = {order.max_jump:g} s from the device's other rows, and "
        f"fewer than jump_rows = {order.jump_rows} rows agree on it"
    )
    assert outcome.failures == [("m", 0, int(rows.row[place]), reason) for place in refused]
    return kept, late, refused


@settings(max_examples=examples(50))
@given(
    st.sampled_from([0, 0.1, 1, 7]),
    st.sampled_from([3.0, 10.0, 1e6]),
    st.sampled_from([1, 2, 8]),
    st.lists(st.integers(1, 40), min_size=1, max_size=20),
    st.integers(0, 2**32),
)
def test_late_and_wild_rows_go_where_they_belong(
    max_disorder: float, max_jump: float, jump_rows: int, sizes: list[int], seed: int
) -> None:
    """However the rows were cut, and in whatever order a chunk holds them."""
    rng = np.random.default_rng(seed)
    steps = rng.choice([0, 1, 1, 1, 2, 4, -1, -3, -12, 40], size=120)
    times = np.cumsum(steps) * SECOND + rng.choice([0, 0, SECOND // 20], size=120)
    # Some of another year, one by one or together.
    times[rng.integers(0, 120, 3)] += 10**18
    wild = int(rng.integers(0, 100))
    times[wild : wild + int(rng.integers(0, 12))] += 10**18
    rows = make_rows(120, seed=2, times=times)
    order = Order(max_disorder=max_disorder, max_jump=max_jump, jump_rows=jump_rows)
    chunks = rows.cut(sizes)
    if max_disorder:
        # As they come out of the gathering of messages.
        chunks = [chunk.in_order() for chunk in chunks]
    step = Step(order=order)
    for bundle in bundles_of(chunks, [4]):
        step.push_all(bundle)
    assume(len(by_the_rules(times, order)[0]) >= SPEC.rows_to_start)
    check_against_rules(rows, order, step.finish())


def test_between_partitions_none_is_late_by_its_own_chunk() -> None:
    """Of one model in two partitions nothing says which row came first."""
    rows = make_rows(80, times=np.tile(np.arange(40), 2) * SECOND)
    rows = dataclasses.replace(rows, source=np.repeat([0, 1], 40).astype(np.int32))
    live = track_stream([[("m", rows.chunk())]], order=Order(max_disorder=2.0))
    assert live.late == []
    assert_same(live.table("m"), core_alone(rows.in_order()))


def test_the_edges_of_late_and_wild() -> None:
    """A row as old as max_disorder is in time, one as far ahead as max_jump is no jump."""
    seconds = [10, 12, 10, 10, 17, 15, 22, 16, 22, 14]
    nudges = [0, 0, 0, -1, 0, 0, 1, 0, 0, 0]
    times = np.array(seconds) * SECOND + np.array(nudges)
    rows = make_rows(10, times=times)
    order = Order(max_disorder=2.0, max_jump=5.0, jump_rows=2)
    live = track_stream(bundles_of(rows.cut([1]), [1]), order=order)
    kept, late, refused = check_against_rules(rows, order, live)
    assert (kept, late, refused) == ([0, 1, 2, 4, 5, 7, 8], [3, 9], [6])


def test_a_bounded_job_keeps_the_rules_too() -> None:
    seconds = np.arange(60) * 10
    seconds[20] += 5000
    seconds[[30, 45]] -= 100
    rows = make_rows(60, times=seconds * SECOND)
    order = Order(max_disorder=60.0, max_jump=200.0)
    outcome = track([("m", chunk) for chunk in rows.cut([1])], order=order)
    _, late, refused = check_against_rules(rows, order, outcome)
    assert (late, refused) == ([30, 45], [20])


@pytest.mark.parametrize("place", [0, 40, 99])
@pytest.mark.parametrize("wild", [-(10**18), 86_400 * SECOND, 10**18])
def test_one_wild_clock_costs_its_row(place: int, wild: int) -> None:
    times = np.arange(100) * SECOND
    times[place] = wild
    rows = make_rows(100, times=times)
    order = Order(max_disorder=2.0, max_jump=3600.0)
    step = Step(order=order)
    for bundle in bundles_of(rows.cut([1]), [5]):
        step.push_all(bundle)
    outcome = step.finish()
    assert_same(outcome.table("m"), core_alone(rows.take(np.delete(np.arange(100), place))))
    refused = [failure[2] for failure in outcome.failures] + [late[2] for late in outcome.late]
    assert refused == [place]


def stretches(rng: np.random.Generator, jump_rows: int) -> npt.NDArray[np.int64]:
    """Times of a device that falls silent now and then, sorted, 120 at least."""
    parts: list[npt.NDArray[np.int64]] = []
    start = 0
    while sum(len(part) for part in parts) < 120:
        size = int(rng.integers(jump_rows, 60))
        parts.append(start + np.cumsum(rng.integers(0, 3 * SECOND, size)))
        start = int(parts[-1][-1]) + 3601 * SECOND + int(rng.integers(0, 10**15))
    return np.concatenate(parts)


@settings(max_examples=examples(40))
@given(
    st.sampled_from([0.0, 1.0, 60.0, math.inf]),
    st.integers(1, 8),
    st.lists(st.integers(1, 30), min_size=1, max_size=30),
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_silences_and_wild_rows_give_what_the_sorted_rows_give(
    max_disorder: float,
    jump_rows: int,
    sizes: list[int],
    bundles: list[int],
    whole: bool,
    seed: int,
) -> None:
    """Any order of arrival within max_disorder, any cut: features, failures, snapshots' bytes."""
    rng = np.random.default_rng(seed)
    times = stretches(rng, jump_rows)
    rows = make_rows(len(times), seed=1, times=times)
    late_by = max_disorder if max_disorder < math.inf else 3600.0
    arriving = rows.take(arrival(times, late_by, rng))
    if jump_rows > 2:
        places = rng.integers(0, len(times) + 1, 2)
        extra = make_rows(2, seed=2, times=np.array([4, 5]) * 10**18)
        extra = dataclasses.replace(extra, row=np.array([1000, 1001]))
        joined = [
            np.insert(getattr(arriving, n), places, getattr(extra, n), axis=0)
            for n in ("time", "x", "source", "row")
        ]
        arriving = Rows(*joined)
    order = Order(max_disorder=max_disorder, max_jump=3600.0, jump_rows=jump_rows)
    step = Step(order=order)
    for bundle in bundles_of(arriving.cut(sizes), bundles):
        for part in [bundle] if whole else [[element] for element in bundle]:
            step.push_all(part)
    outcome = step.finish()
    assert_same(outcome.table("m"), core_alone(rows))
    assert [failure[2] for failure in outcome.failures] == ([1000, 1001] if jump_rows > 2 else [])
    assert outcome.late == []
    alone = Step(order=Order())
    alone.push("m", rows.chunk())
    assert outcome.snapshots == alone.finish().snapshots


def test_sorted_rows_that_come_some_at_a_time_are_sifted_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = np.sort(np.concatenate([np.arange(30), 10**7 + np.arange(50), [9 * 10**8]])) * SECOND
    rows = make_rows(81, times=times)
    order = Order(max_jump=3600.0)
    steps = Steps(TrackSubspace(SPEC, order).step(), order)
    for sizes, least in (([1], 1), ([7], 1), ([7], 10), ([81], 100)):
        monkeypatch.setattr(blocks, "BLOCK_ROWS", least)
        outcome = Outcome()
        for block in blocks.run_large(steps, "m", rows.cut(sizes), {}):
            for item in blocks.items_of(block):
                outcome.keep(getattr(item, "tag", "features"), getattr(item, "value", item))
        assert_same(outcome.table("m"), core_alone(rows.take(np.arange(80))))
        assert [failure[2] for failure in outcome.failures] == [80]


def test_times_at_the_ends_of_the_years() -> None:
    """The greatest times that files may hold leave room for max_disorder."""
    limit = 9 * 10**18
    rows = make_rows(40, times=np.linspace(-limit, limit, 40).astype(np.int64))
    for order in (Order(max_disorder=60.0), Order(max_disorder=1e9), Order()):
        outcome = track([("m", chunk) for chunk in rows.cut([3])], order=order)
        assert_same(outcome.table("m"), core_alone(rows))
        assert outcome.late == []


@pytest.mark.parametrize("order", [Order(max_disorder=5.0), Order(max_disorder=0), Order()])
def test_rows_without_times_keep_their_place_in_the_file(order: Order) -> None:
    rows = dataclasses.replace(make_rows(90, seed=3), time=None)
    outcome = track([("m", chunk) for chunk in rows.cut([8])], order=order)
    table = outcome.table("m")
    assert "time" not in table
    assert_same(table, core_alone(rows))


def test_rows_leave_as_soon_as_the_clock_lets_them() -> None:
    """Latency is max_disorder, not the end of the stream: chunks come out along the way."""
    rows = make_rows(100)
    live = track_stream(bundles_of(rows.cut([1]), [1]), order=Order(max_disorder=2.0))
    sizes = [len(chunk) for chunk in live.features["m"]]
    # Rows are half a second apart. The warm-up's 20 rows leave with the 25th, whose clock is past
    # theirs by more than 2 s; then one row a row; the last five at the end.
    assert sizes == [20, *[1] * 75, 5]


class _CountingBag:
    """A bag that counts the rows that go through it."""

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.rows = 0

    def read(self) -> list[Any]:
        self.rows += sum(map(_rows, self.held))
        return self.held

    def add(self, entry: Any) -> None:
        self.rows += _rows(entry)
        self.held.append(entry)

    def clear(self) -> None:
        self.held = []


def _rows(entry: Any) -> int:
    if isinstance(entry, log.Waiting):
        return len(entry.chunk())
    return len(entry) if isinstance(entry, Chunk) else 0


def rows_touched(count: int, order: Order) -> int:
    """Feed one-row chunks to the stateful step itself, over bags that count."""
    step = _step(order)
    entries, buffer = _CountingBag(), _CountingBag()
    cells = {"log": entries, "buffer": buffer}
    for chunk in make_rows(count).cut([1]):
        list(step.process(("m", chunk), **cells, end=_Timer(), timestamp=MIN_TIMESTAMP))
        list(end_of_bundle(step))
    list(step.at_end("m", **cells))
    return entries.rows + buffer.rows


def _step(order: Order) -> Any:
    return with_timers(TrackFn, "end", live=False)(Work(spec=SPEC), order, None)


@pytest.mark.parametrize("max_disorder", lanes(2.0, 0.0, 10.0, math.inf))
def test_the_work_of_a_row_does_not_grow_with_the_backlog(max_disorder: float) -> None:
    order = Order(max_disorder=max_disorder)
    first, second = rows_touched(200, order), rows_touched(400, order)
    third = rows_touched(800, order)
    # Past the warm-up each further row costs the same.
    assert third - second == 2 * (second - first)


@pytest.mark.parametrize("max_disorder", [500.0, math.inf])
def test_nor_where_rows_wait_for_long(max_disorder: float) -> None:
    """They leave the log, which is read for each chunk, and are not looked at until they run."""
    order = Order(max_disorder=max_disorder, max_jump=1e6)
    touched = [rows_touched(count, order) for count in (200, 400, 800)]
    assert touched[2] < 2.2 * touched[1] < 2.2 * 2.2 * touched[0]
    assert touched[2] < 800 * (MOST_ENTRIES // 2)


@settings(max_examples=examples(40))
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=40),
    most=st.integers(1, 8),
    max_disorder=st.sampled_from([0.0, 2.0, 60.0]),
)
def test_rows_that_have_left_the_log_run_in_their_turn(
    sizes: list[int], most: int, max_disorder: float
) -> None:
    """However few entries a log may have."""
    rows = make_rows(150)
    step = Step(order=Order(max_disorder=max_disorder))
    with patch.object(log, "MOST_ENTRIES", most):
        for chunk in rows.cut(sizes):
            step.push("m", chunk)
        assert_same(step.finish().table("m"), core_alone(rows))


def test_a_clock_of_another_version_is_refused() -> None:
    step = _step(Order(max_disorder=2.0))
    cells = empty_cells()
    cells["log"].encoded.append(log.CLOCK + b'{"version": 99}')
    (chunk,) = make_rows(1).cut([1])
    with pytest.raises(DataError, match="format version 99: this code reads version 5"):
        list(step.process(("m", chunk), **cells, end=_Timer(), timestamp=MIN_TIMESTAMP))
        list(end_of_bundle(step))
