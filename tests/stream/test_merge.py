"""Rows that are parts of one row: merged they give what the whole row gives, to the bit."""

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

from kerneltrack.errors import ConfigError
from kerneltrack.fleet.forward_fill import hold_last
from tests.parts import examples
from tests.stream.running import (
    SECOND,
    Rows,
    Step,
    assert_same,
    core_alone,
    make_rows,
    step_through,
    taking_turns,
    track,
    track_stream,
)
from transforms.chunks import Chunk
from transforms.track.merge import merge_across, merge_times
from transforms.track.order import Order

DISORDER = 4.0
MERGE = Order(max_disorder=DISORDER, max_jump=3600, duplicates="merge")
PLACES = ("source", "row")
"""The whole row has another place than the first of its parts."""


def parts_of(rows: Rows, seed: int) -> Rows:
    """Cut each row into parts that have some of its channels each, in order of time."""
    rng = np.random.default_rng(seed)
    owner, pieces = [], []
    for at, values in enumerate(rows.x):
        part = rng.integers(0, len(values), len(values))
        for number in np.unique(part):
            owner.append(at)
            pieces.append(np.where(part == number, values, np.nan))
    cut = rows.take(owner)
    count = len(owner)
    return dataclasses.replace(
        cut, x=np.array(pieces), row=np.arange(count), source=np.zeros(count, dtype=np.int32)
    )


def arrive(rows: Rows, seed: int) -> Rows:
    """Put rows into an order of arrival that is less than `DISORDER` from that of time."""
    assert rows.time is not None
    shift = np.random.default_rng(seed).uniform(0, DISORDER - 0.01, len(rows)) * SECOND
    here = rows.take(np.argsort(rows.time + shift, kind="stable"))
    return dataclasses.replace(here, row=np.arange(len(here)))


def merged_by_hand(rows: Rows) -> dict[int, list[float]]:
    """Of each time the last value of each channel, with Python's own loops."""
    found: dict[int, list[float]] = {}
    ordered = rows.in_order()
    assert ordered.time is not None
    for time, values in zip(ordered.time.tolist(), ordered.x.tolist(), strict=True):
        kept = found.setdefault(time, [math.nan] * len(values))
        for channel, value in enumerate(values):
            if not math.isnan(value):
                kept[channel] = value
    return found


def bits(rows: Chunk) -> dict[str, list[Any]]:
    """Return the columns as whole numbers and texts: -0.0 is not 0.0, missing is missing."""
    columns = {name: rows.batch.column(name).to_pylist() for name in ("time", "row", "label")}
    return {**columns, "x": rows.column("x").view(np.int64).tolist()}


@settings(max_examples=examples(60))
@given(
    times=st.lists(st.integers(0, 5), min_size=1, max_size=30),
    seed=st.integers(0, 99),
    cuts=st.lists(st.integers(1, 6), min_size=1, max_size=20),
)
def test_merging_some_first_is_merging_once(times: list[int], seed: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((len(times), 3)) < 0.5, np.nan, rng.integers(-2, 3, (len(times), 3)))
    x[rng.random(x.shape) < 0.1] = -0.0
    rows = make_rows(len(times), times=np.sort(times), width=3)
    rows = dataclasses.replace(rows, x=x, label=rng.choice(["a", "b"], len(times)))
    whole = merge_times(rows.chunk())
    first = Chunk.concat([merge_times(chunk) for chunk in rows.cut(cuts)])
    across = Chunk.concat(list(merge_across(rows.cut(cuts))))
    assert bits(merge_times(first)) == bits(across) == bits(whole)
    expected = merged_by_hand(rows)
    assert whole.column("time").tolist() == list(expected)
    assert (
        whole.column("x").astype(str).tolist()
        == np.array([*expected.values()]).astype(str).tolist()
    )
    starts = np.flatnonzero(np.diff(np.sort(times), prepend=-1))
    assert whole.column("row").tolist() == starts.tolist()


def test_a_label_is_the_last_that_is_given() -> None:
    labels = pa.array(["a", None, None, None, "b", "c"])
    rows = make_rows(6, times=[0, 0, 1, 1, 2, 2]).chunk().batch.append_column("label", labels)
    assert merge_times(Chunk(rows)).batch.column("label").to_pylist() == ["a", None, "c"]


@settings(max_examples=examples(40))
@given(
    count=st.integers(25, 60),
    seed=st.integers(0, 99),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=20),
)
def test_parts_out_of_order_give_what_whole_rows_give(
    count: int, seed: int, sizes: list[int]
) -> None:
    rows = make_rows(count)
    parts = arrive(parts_of(rows, seed), seed)
    elements = [("m", chunk.in_order()) for chunk in parts.cut(sizes)]
    outcome = step_through(elements, order=MERGE)
    assert (outcome.late, outcome.failures) == ([], [])
    assert_same(outcome.table("m"), core_alone(rows), PLACES)


@settings(max_examples=examples(15))
@given(count=st.integers(25, 60), seed=st.integers(0, 99), bundle=st.integers(1, 9))
def test_models_together_give_what_each_gives(count: int, seed: int, bundle: int) -> None:
    tables = {key: make_rows(count, seed=number) for number, key in enumerate("abc")}
    chunks = {
        key: arrive(parts_of(rows, seed + number), seed).cut([3])
        for number, (key, rows) in enumerate(tables.items())
    }
    elements = taking_turns(chunks)
    step = Step(order=MERGE)
    for start in range(0, len(elements), bundle):
        step.push_all([(key, chunk.in_order()) for key, chunk in elements[start : start + bundle]])
    outcome = step.finish()
    assert (outcome.late, outcome.failures) == ([], [])
    for key, rows in tables.items():
        assert_same(outcome.table(key), core_alone(rows), PLACES)


@pytest.mark.parametrize("jump", [math.inf, 3600.0])
def test_in_a_pipeline_too_live_and_bounded(jump: float) -> None:
    rows = make_rows(60)
    parts = arrive(parts_of(rows, 3), 3)
    elements = [("m", chunk.in_order()) for chunk in parts.cut([7])]
    live = track_stream([[element] for element in elements], order=MERGE)
    order = Order(max_disorder=math.inf, max_jump=jump, duplicates="merge")
    for outcome in (live, track(elements, order=order)):
        assert (outcome.late, outcome.failures) == ([], [])
        assert_same(outcome.table("m"), core_alone(rows), PLACES)


def sparse(count: int, seed: int) -> tuple[Rows, npt.NDArray[Any]]:
    """Rows of which many channels are missing, and the same with the last value in their place."""
    rows = make_rows(count)
    missing = np.random.default_rng(seed).random(rows.x.shape) < 0.4
    missing[0] = False
    rows = dataclasses.replace(rows, x=np.where(missing, np.nan, rows.x))
    assert rows.time is not None
    return rows, hold_last(rows.x, rows.time, None, 2**62)[0]


@settings(max_examples=examples(20))
@given(seed=st.integers(0, 99), sizes=st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_what_no_row_of_a_time_gives_is_held(seed: int, sizes: list[int]) -> None:
    rows, held = sparse(50, seed)
    parts = arrive(parts_of(rows, seed), seed)
    order = dataclasses.replace(MERGE, hold_for=math.inf)
    outcome = step_through([("m", c.in_order()) for c in parts.cut(sizes)], order=order)
    assert (outcome.late, outcome.failures) == ([], [])
    assert_same(outcome.table("m"), core_alone(dataclasses.replace(rows, x=held)), PLACES)


def test_a_row_that_lacks_channels_fails_by_their_names() -> None:
    rows = make_rows(40)
    parts = parts_of(rows, 1)
    gone = dataclasses.replace(parts, x=np.where(parts.x == rows.x[7, 1], np.nan, parts.x))
    named = ("flow", "heat", "speed")
    outcome = step_through([("m", gone.chunk())], order=MERGE, channels=named)
    first = int(np.flatnonzero(gone.time == rows.time[7])[0]) if rows.time is not None else -1
    assert outcome.failures == [
        (
            "m",
            0,
            first,
            "heat: no row of this time gives a value (--missing hold takes the last one)",
        )
    ]
    whole = rows.take([at for at in range(40) if at != 7])
    assert_same(outcome.table("m"), core_alone(whole), PLACES)


def test_one_that_comes_after_its_time_is_late() -> None:
    rows = make_rows(60)
    part = dataclasses.replace(rows.take([3]), row=np.array([10_000]))
    outcome = step_through([("m", rows.chunk()), ("m", part.chunk())], order=MERGE)
    assert outcome.late == [("m", 0, 10_000)]
    assert_same(outcome.table("m"), core_alone(rows), PLACES)


def test_rows_that_do_not_wait_cannot_be_merged() -> None:
    with pytest.raises(ConfigError, match="keep where max_disorder is 0"):
        Order(duplicates="merge", max_disorder=0)
