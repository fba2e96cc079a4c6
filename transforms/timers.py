"""Names of timers: one for each stateful step of a pipeline."""

from __future__ import annotations

import re
from typing import Any


def timer_name(pipeline: Any) -> str:
    """Return a name for the timer of the transform that is being applied, made of its label.

    The in-process runner fuses stateful steps into one stage and keeps the timers of a stage that
    have one name in one buffer: with one name for several steps rows would be lost. The label is
    what a pipeline must keep for its state to be found again anyway.
    """
    label = pipeline._current_transform().full_label
    return re.sub(r"\W+", "_", label) + "_end"
