"""What can be set of the windows whose kernel mismatch is measured, beside when they begin."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from kerneltrack.settings import Range, Settings

MOST_MOVING = 2000
"""Longest moving window: its state is 8N² bytes and more."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowSettings(Settings):
    """What can be set of windows, of event time and moving."""

    moving: Annotated[
        int | None,
        Range(1, MOST_MOVING),
        """Also measure the last N rows after every row, from the N-th on, under the subspace
        after that row.""",
    ] = None
    most_rows: Annotated[
        int,
        Range(2, 100_000),
        """Most rows of a device kept for its open windows. A longer window is measured on some
        of its rows at equal spacing, at least about half as many; the cost of a window is
        quadratic in this number.""",
    ] = 1_000
    confidence: Annotated[
        float,
        Range(0, 1, "()"),
        "Probability with which the bound on the mismatch of future rows holds.",
    ] = 0.95
