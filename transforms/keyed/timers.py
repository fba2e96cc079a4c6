"""Timers of stateful steps: what they are called, and whether they fire in time."""

from __future__ import annotations

import re
import time
from typing import Any

from apache_beam.utils.timestamp import Timestamp


def timer_name(pipeline: Any) -> str:
    """Return a name for the timer of the transform that is being applied, made of its label.

    The in-process runner fuses stateful steps into one stage and keeps the timers of a stage that
    have one name in one buffer: with one name for several steps rows would be lost. The label is
    what a pipeline must keep for its state to be found again anyway.
    """
    label = pipeline._current_transform().full_label
    return re.sub(r"\W+", "_", label) + "_end"


def in_time(timer: Any, due: Any, span: float) -> bool:
    """Check whether a timer of the worker's own time fires in time; if not, set it anew.

    If it does not, the job stood still: elements may have come that nobody has read yet.

    Args:
        timer: The timer.
        due: What it was set to.
        span: Seconds after which it is to fire, and by which it may be late.
    """
    now = time.time()
    if now - float(due) <= span:
        return True
    timer.set(Timestamp.of(now + span))
    return False
