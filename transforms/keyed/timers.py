"""Timers of stateful steps: the worker's own clock, and whether they fire in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apache_beam.utils.timestamp import Timestamp

CLOCK_STEP = 0.001
"""Seconds by which runners' timers may be early: they count in whole milliseconds."""


_STANDS_AT: list[float] = []
"""The time of a clock that stands still, the last one counts; empty: it runs."""


def wall_clock() -> float:
    """Return the time of the worker's own clock, in seconds since 1970."""
    return _STANDS_AT[-1] if _STANDS_AT else time.time()


@contextmanager
def standing_at(now: float) -> Iterator[None]:
    """Let the worker's own clock stand at a time: what runs within can be run again as it was."""
    _STANDS_AT.append(now)
    try:
        yield
    finally:
        _STANDS_AT.pop()


def in_time(timer: Any, due: Any, span: float, seen: float = 0.0) -> bool:
    """Check whether a timer of the worker's own time fires in time; if not, set it anew.

    It does not if the job stood still: elements may have come that nobody has read yet. Nor if
    there were elements since it was set.

    Args:
        timer: The timer.
        due: What it was set to.
        span: Seconds of silence after which it is to fire, and by which it may be late.
        seen: When the last element came, in seconds of the worker's own time.
    """
    now = wall_clock()
    silent = now - seen >= span - CLOCK_STEP
    if silent and now - float(due) <= span:
        return True
    timer.set(Timestamp.of(now + span if silent else min(seen, now) + span))
    return False


def set_within(timer: Any, due: float, now: float, span: float) -> float:
    """Set a timer of the worker's own time unless it is to fire within the span anyway.

    One that is due later was set by a job with a longer span, from which this one goes on.

    Args:
        timer: The timer.
        due: What it was last set to.
        now: Seconds of the worker's own time.
        span: Seconds from now.

    Returns:
        What it is set to.
    """
    if now < due <= now + span:
        return due
    timer.set(Timestamp.of(now + span))
    return now + span
