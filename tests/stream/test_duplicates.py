"""Rows that were sent twice: of one time and sequence the first one by its place is taken."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from tests.parts import examples
from tests.stream.running import (
    SECOND,
    Rows,
    assert_same,
    core_alone,
    make_rows,
    step_through,
    track,
    track_stream,
)
from transforms.track.order import Order

DISORDER = 4
DROP = Order(max_disorder=DISORDER, max_jump=3600, duplicates="drop")


def sent_twice(count: int, twins: npt.NDArray[np.int64], sequence: bool) -> tuple[Rows, Rows]:
    """Rows in order, and those with a twin each of some, from a later source, which says more.

    With a sequence two rows each are of one time, and are no twins.
    """
    rows = make_rows(count)
    if sequence:
        assert rows.time is not None
        times = rows.time // SECOND * SECOND
        rows = dataclasses.replace(rows, time=times, sequence=np.arange(count) % 2)
    both = np.r_[np.arange(count), twins]
    again = rows.take(both)
    again.x[count:] += 1
    # Rows of one source come in its order: twins among them would be as late as they are.
    again.source[count:] = 1
    again.row[count:] = np.arange(len(twins))
    return rows, again


def arrive(rows: Rows, seed: int) -> Rows:
    """Put rows into an order of arrival that is less than `DISORDER` from that of time."""
    assert rows.time is not None
    shift = np.random.default_rng(seed).uniform(0, DISORDER - 0.01, len(rows)) * SECOND
    return rows.take(np.argsort(rows.time + shift, kind="stable"))


def in_bundles(rows: Rows, sizes: list[int]) -> list[Any]:
    return [("m", chunk.in_order()) for chunk in rows.cut(sizes)]


@settings(max_examples=examples(40))
@given(
    count=st.integers(25, 60),
    share=st.floats(0, 1),
    sequence=st.booleans(),
    seed=st.integers(0, 99),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=20),
)
@example(count=25, share=0.25, sequence=False, seed=22, sizes=[9])
def test_rows_come_out_as_if_they_had_been_sent_once(
    count: int, share: float, sequence: bool, seed: int, sizes: list[int]
) -> None:
    twins = np.flatnonzero(np.random.default_rng(seed).random(count) < share)
    rows, again = sent_twice(count, twins, sequence)
    outcome = step_through(in_bundles(arrive(again, seed), sizes), order=DROP)
    assert (outcome.late, outcome.failures) == ([], [])
    assert_same(outcome.table("m"), core_alone(rows))


def test_in_a_pipeline_too_live_and_bounded() -> None:
    rows, again = sent_twice(60, np.arange(0, 60, 3), sequence=True)
    elements = in_bundles(arrive(again, 1), [7])
    live = track_stream([[element] for element in elements], order=DROP)
    bounded = track(elements, order=Order(max_disorder=math.inf, duplicates="drop"))
    for outcome in (live, bounded):
        assert (outcome.late, outcome.failures) == ([], [])
        assert_same(outcome.table("m"), core_alone(rows))


def test_they_are_kept_unless_that_is_asked_for() -> None:
    _, again = sent_twice(40, np.arange(40), sequence=False)
    kept = Order(max_disorder=DISORDER, max_jump=3600)
    outcome = step_through(in_bundles(arrive(again, 1), [7]), order=kept)
    assert_same(outcome.table("m"), core_alone(again.in_order()))


def test_one_that_comes_after_its_twin_was_taken_is_late() -> None:
    rows = make_rows(60)
    twin = dataclasses.replace(rows.take([3]), row=np.array([10_000]))
    outcome = step_through([*in_bundles(rows, [60]), ("m", twin.chunk())], order=DROP)
    assert outcome.late == [("m", 0, 10_000)]
    assert_same(outcome.table("m"), core_alone(rows))


def test_a_model_begins_with_rows_enough_that_differ() -> None:
    rows, again = sent_twice(40, np.r_[np.repeat(np.arange(3), 9)], sequence=False)
    outcome = step_through(in_bundles(again.in_order(), [1]), order=DROP)
    assert_same(outcome.table("m"), core_alone(rows))


@pytest.mark.parametrize(
    "wrong", [{"duplicates": "some"}, {"duplicates": "drop", "max_disorder": 0}]
)
def test_bad_orders_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="duplicates"):
        Order(**wrong)
