"""Which rows a model can take, and why the others are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import fit
from kerneltrack.fleet.conditions import whole_rows, without_unseen
from kerneltrack.fleet.forward_fill import hold_last
from kerneltrack.fleet.model import Work
from kerneltrack.registry import get_tracker
from kerneltrack.trackers.common.calls import refusal
from transforms.chunks import Chunk
from transforms.failures import Failures
from transforms.track.order import MERGE, Order

NOTHING_HELD = "a value is missing and none recent enough can stand in for it (--hold-for)"
NOT_GIVEN = "no row of this time gives a value (--missing hold takes the last one)"
LATE = "late: further behind the model's newest row than max_disorder"
MOST_NAMED = 8
"""Channels that a reason names."""


class Refusals:
    """Says of rows whether models can take them, and why not.

    Args:
        work: What is done with the rows.
        order: How they are put in order.
    """

    def __init__(self, work: Work, order: Order) -> None:
        self.work, self.order = work, order
        self._tracker = get_tracker(work.spec.tracker)

    def usable(self, rows: Chunk) -> npt.NDArray[np.bool_]:
        """Return which rows have all values, or one where others may be filled."""
        if self.order.duplicates == MERGE:
            # A part without a value may be merged already, or not yet: that decides nothing.
            return np.ones(len(rows), dtype=np.bool_)
        if self.work.hold is None:
            return whole_rows(self.work.reference, rows.column("x"))
        usable: npt.NDArray[np.bool_] = np.isfinite(rows.column("x")).any(axis=1)
        return usable

    def first_of(self, rows: Chunk) -> npt.NDArray[Any]:
        """Return the first of a model's rows that it can begin with, as many as it begins with.

        They have all values that the tracker sees; missing values are filled if that is asked for.
        """
        most = self.work.rows_to_start
        usable: npt.NDArray[Any] = self._usable(rows.slice(0, min(most, len(rows))))
        if len(usable) < most < len(rows):
            usable = self._usable(rows)
        return usable[:most]

    def _usable(self, rows: Chunk) -> npt.NDArray[Any]:
        """Return the rows that have all of these, missing values filled if that is asked for."""
        x = rows.column("x")
        if self.work.hold is not None:
            times = rows.column("time") if rows.has("time") else np.zeros(len(rows), np.int64)
            x, _ = hold_last(x, times, None, self.work.hold)
        usable: npt.NDArray[Any] = x[whole_rows(self.work.reference, x)]
        return usable

    def unconfirmed(self, rows: Chunk) -> list[str]:
        """Return why rows are refused that are too far ahead."""
        return [
            self.order.unconfirmed if usable else self._why_missing(row) or refusal(None, row)
            for row, usable in zip(rows.column("x"), self.usable(rows), strict=True)
        ]

    def unusable(self, rows: npt.NDArray[Any]) -> list[str]:
        """Return why rows are refused of which none is fit to begin a model with."""
        return [self._why_missing(row) or NOTHING_HELD for row in rows]

    def by_tracker(self, state: Any, rows: npt.NDArray[Any]) -> list[str]:
        """Return why a tracker refused rows, missing values filled."""
        return [
            self._why_missing(row) or self._tracker.why_refused(self.work.spec, state, row)
            for row in rows
        ]

    def _why_missing(self, row: npt.NDArray[Any]) -> str:
        """Return why a row is refused whose channels are not all there, "" if they are."""
        seen = without_unseen(self.work.reference, row[np.newaxis])[0]
        missing = np.flatnonzero(np.isnan(seen)).tolist()
        fills_gaps, channels = self.work.hold is not None, self.work.channels
        if not missing or not (fills_gaps or self.order.duplicates == MERGE):
            return ""
        if not channels:
            return NOTHING_HELD if fills_gaps else NOT_GIVEN
        names = fit(", ".join(channels[place] for place in missing[:MOST_NAMED]))
        more = len(missing) - MOST_NAMED
        named = f"{names} and {more} more" if more > 0 else names
        return f"{named}: {NOTHING_HELD if fills_gaps else NOT_GIVEN}"


def late_as_failures(element: tuple[str, Chunk]) -> Failures:
    """Return why late rows are refused."""
    key, chunk = element
    return Failures.of(key, chunk.column("source"), chunk.column("row"), [LATE] * len(chunk))
