"""Rows that no newer ones follow: taken after `idle_flush`; what comes of their time is late."""

from __future__ import annotations

import dataclasses
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from kerneltrack.errors import ConfigError
from kerneltrack.fleet.model import Work
from tests.stream.running import (
    SECOND,
    SPEC,
    Outcome,
    Rows,
    Step,
    _Timer,
    core_alone,
    empty_cells,
    end_of_bundle,
    make_rows,
)
from transforms.track.keyed_fn import with_timers
from transforms.track.order import Order
from transforms.track.step import TrackFn

ORDER = Order(max_disorder=5, max_jump=3600, idle_flush=2)


def at(now: float) -> Any:
    """Let the worker's own clock show this time."""
    return patch("time.time", return_value=now)


class Timer(_Timer):
    """Keeps what it was set to."""

    def __init__(self) -> None:
        self.due: float | None = None

    def set(self, when: Any) -> None:
        self.due = float(when)

    def clear(self) -> None:
        self.due = None


class Flushing:
    """The keyed step of one model, and its timer."""

    def __init__(self, order: Order = ORDER) -> None:
        self._cells = empty_cells()
        self.idle = Timer()
        self.now = 1_000_000.0
        self.outcome = Outcome()
        self.go_on(order)

    def go_on(self, order: Order) -> None:
        """Let a job of this order go on from what is kept."""
        self._step: Any = with_timers(TrackFn, "end", live=True)(Work(spec=SPEC), order, None, None)

    def push(self, rows: Rows) -> None:
        element = ("m", rows.chunk())
        timers = {"end": _Timer(), "idle": self.idle, "silent": Timer()}
        with at(self.now):
            reported = {**self._cells, **timers, "timestamp": MIN_TIMESTAMP}
            self._keep(self._step.process(element, **reported))

    def fire(self, late_by: float = 0.0) -> None:
        due, self.idle.due = self.idle.due, None
        assert due is not None
        self.now = due + late_by
        with at(self.now):
            reported = {**self._cells, "idle": self.idle, "due": Timestamp.of(due)}
            self._keep(self._step.at_idle("m", **reported))

    def _keep(self, elements: Any) -> None:
        for element in [*elements, *end_of_bundle(self._step)]:
            tag = getattr(element, "tag", "features")
            self.outcome.keep(tag, getattr(element, "value", element))

    @property
    def indexes(self) -> list[int]:
        return self.outcome.table("m")["index"].tolist() if self.outcome.features else []


def test_rows_that_wait_are_taken_when_the_timer_fires() -> None:
    rows = make_rows(60)
    flushing = Flushing()
    flushing.push(rows)
    # 5 s of rows, every half second, wait; the row at the clock's own time too.
    assert flushing.indexes == list(range(49))
    flushing.fire()
    assert flushing.indexes == list(range(60))
    wanted = core_alone(rows, SPEC)
    found = flushing.outcome.table("m")
    assert (found["z"] == wanted["z"]).all()
    assert (found["loss"] == wanted["loss"]).all()


def test_what_comes_of_that_time_later_is_late() -> None:
    rows = make_rows(62)
    flushing = Flushing()
    flushing.push(rows.take(np.r_[0:55, 56:60]))
    flushing.fire()
    flushing.push(rows.take([55]))
    assert flushing.outcome.late == [("m", 0, 55)]
    flushing.push(rows.take([60, 61]))
    assert flushing.idle.due is not None
    flushing.fire()
    assert flushing.indexes == list(range(61))


def test_a_model_that_cannot_begin_goes_on_waiting() -> None:
    rows = make_rows(40)
    flushing = Flushing()
    flushing.push(rows.take(np.arange(SPEC.rows_to_start - 1)))
    flushing.fire()
    assert flushing.indexes == []
    flushing.push(rows.take(np.arange(SPEC.rows_to_start - 1, 40)))
    assert flushing.outcome.late == []
    flushing.fire()
    assert flushing.indexes == list(range(40))


def test_a_timer_that_fires_long_after_its_time_is_set_again() -> None:
    """The job stood still: rows may lie in Kafka that nobody has read yet."""
    flushing = Flushing()
    flushing.push(make_rows(60))
    flushing.fire(late_by=10)
    assert flushing.indexes == list(range(49))
    flushing.fire()
    assert flushing.indexes == list(range(60))


def test_a_timer_is_set_once_and_waits_for_what_is_left_of_the_silence() -> None:
    rows = make_rows(60)
    flushing = Flushing()
    flushing.push(rows.take(np.arange(50)))
    first = flushing.idle.due
    assert first == flushing.now + 2
    flushing.now += 1.5
    flushing.push(rows.take(np.arange(50, 60)))
    assert flushing.idle.due == first
    flushing.fire()
    assert flushing.indexes == list(range(49))
    assert flushing.idle.due == first + 1.5
    flushing.fire()
    assert flushing.indexes == list(range(60))
    assert flushing.idle.due is None


def test_a_job_that_goes_on_with_a_shorter_silence_does_not_wait_for_the_longer_one() -> None:
    rows = make_rows(60)
    flushing = Flushing(dataclasses.replace(ORDER, idle_flush=3600))
    flushing.push(rows.take(np.arange(59)))
    assert flushing.idle.due == flushing.now + 3600
    flushing.go_on(ORDER)
    flushing.push(rows.take([59]))
    assert flushing.idle.due == flushing.now + 2
    flushing.fire()
    assert flushing.indexes == list(range(60))


def test_a_job_that_goes_on_with_a_longer_silence_waits_for_it() -> None:
    flushing = Flushing()
    flushing.push(make_rows(60))
    first = flushing.now
    flushing.go_on(dataclasses.replace(ORDER, idle_flush=3600))
    flushing.fire()
    assert (flushing.indexes, flushing.idle.due) == (list(range(49)), first + 3600)
    flushing.fire()
    assert flushing.indexes == list(range(60))


def test_nothing_is_set_while_nothing_waits() -> None:
    rows = make_rows(30, times=np.arange(30) * 10 * SECOND)
    flushing = Flushing()
    flushing.push(rows)
    assert flushing.idle.due is not None
    flushing.fire()
    assert flushing.indexes == list(range(30))
    step = Step(order=Order(max_disorder=0))
    step.push("m", rows.chunk())
    assert step.outcome.table("m")["index"].tolist() == list(range(30))


@pytest.mark.parametrize("value", [0, -1, 0.01, 1e6, "soon"])
def test_bad_spans_are_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="idle_flush"):
        Order(max_disorder=1, idle_flush=value)


def test_an_order_that_waits_for_the_end_has_none() -> None:
    with pytest.raises(ConfigError, match="max_disorder = inf: must be a finite number"):
        Order(idle_flush=1)
