"""A model's windows of event time on the way through the rows of a call.

The rows that a window is measured on lie in the call's own rows, and in what was kept of rows
before. Only where a window may come to hold more than can be kept is thinned as `OpenWindows` says,
piece by piece.
"""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

import numpy as np

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from kerneltrack.fleet.windows import MeasuredWindows, OpenWindows

Opened: TypeAlias = list[tuple[int, int]]


@dataclasses.dataclass
class OwnRows:
    """A model's rows in a call, some of which have run.

    Attributes:
        rows: (n, D) missing values filled.
        valid: (n,) which the tracker took, as far as they have run.
        first: Number of the first valid row among all that the model has seen.
        ran: How many have run.
        whole: Whether the tracker took all of these.
    """

    rows: FloatArray
    valid: BoolArray
    first: int
    ran: int = 0
    whole: bool = True

    def run_to(self, stop: int, whole: bool) -> None:
        """Take note that rows up to a place have run; `whole`: the tracker took all of them."""
        self.whole = self.whole and (whole or bool(self.valid[self.ran : stop].all()))
        self.ran = stop

    def number(self, place: int) -> int:
        """Return the number of the first valid row from a place on that have run."""
        if self.whole:
            return self.first + place
        return self.first + int(np.count_nonzero(self.valid[:place]))

    @property
    def next(self) -> int:
        """Number of the next valid row."""
        return self.number(self.ran)

    def last(self, count: int) -> FloatArray:
        """Return the last of the valid rows that have run, so many or all."""
        if self.whole:
            return self.rows[max(self.ran - count, 0) : self.ran]
        places = np.flatnonzero(self.valid[: self.ran])
        return self.rows[places[max(len(places) - count, 0) :]]


class KeptWindows:
    """Windows whose rows can all be kept: they stay where they are until somebody asks."""

    def __init__(self, known: OpenWindows, opened: Opened, own: OwnRows) -> None:
        self._known, self._own = known, own
        self._numbers: dict[int, int] = dict(known.windows[:, :2].tolist())
        self._places = dict(opened)

    def take(self, start: int, stop: int, whole: bool) -> None:
        """Take note of rows that have run, by their places; `whole`: the tracker took them all."""
        self._own.run_to(stop, whole)

    def first_of(self, start: int) -> int:
        """Return the number of the first row of the window that begins at this time."""
        place = self._places.get(start)
        return self._numbers[start] if place is None else self._own.number(place)

    def rows_of(self, start: int) -> list[FloatArray]:
        """Return the rows that the window is measured on, in parts."""
        return self._from(self.first_of(start))

    def close(self, start: int) -> None:
        """Leave a window out."""
        self._numbers.pop(start, None)
        self._places.pop(start, None)

    def state(self) -> OpenWindows:
        """Return the windows that are open, and the rows that they need."""
        earlier = [start for start, place in self._places.items() if place < self._own.ran]
        starts = [*self._numbers, *earlier]
        if not starts:
            return OpenWindows.none(self._own.rows.shape[1])
        firsts = [self.first_of(start) for start in starts]
        least, following = min(firsts), self._own.next
        parts = [*self._from(least)]
        count = sum(map(len, parts))
        lines = [(start, first, 1) for start, first in zip(starts, firsts, strict=True)]
        return OpenWindows(
            np.array(lines, np.int64),
            np.concatenate(parts) if count else np.zeros((0, self._own.rows.shape[1])),
            np.arange(following - count, following),
            np.ones(1, np.int64),
        )

    def _from(self, first: int) -> list[FloatArray]:
        """Return the valid rows from a number on."""
        own = self._own
        here = own.last(own.next - first)
        if first >= own.first:
            return [here]
        return [self._known.rows[self._known.numbers >= first], here]


class ThinnedWindows:
    """Windows that may hold more rows than can be kept; methods as of `KeptWindows`."""

    def __init__(
        self, measure: MeasuredWindows, known: OpenWindows, opened: Opened, own: OwnRows
    ) -> None:
        self._measure, self._open, self._own = measure, known, own
        self._opened = np.array(opened, np.int64).reshape(len(opened), 2)

    def take(self, start: int, stop: int, whole: bool) -> None:
        """Take in rows that have run."""
        own = self._own
        before = own.number(start)
        own.run_to(stop, whole)
        here = self._opened[(self._opened[:, 1] >= start) & (self._opened[:, 1] < stop)]
        valid = np.flatnonzero(own.valid[start:stop])
        here[:, 1] = before + np.searchsorted(valid, here[:, 1] - start)
        index = before + np.arange(len(valid))
        rows = own.rows[start:stop][valid]
        self._open = self._open.take_in(self._measure, here, rows, index)

    def first_of(self, start: int) -> int:
        """Return the number of a window's first row."""
        return int(self._line(start)[1])

    def rows_of(self, start: int) -> list[FloatArray]:
        """Return a window's rows."""
        return [self._open.rows_of(self._line(start))]

    def close(self, start: int) -> None:
        """Leave a window out."""
        self._open = self._open.without(np.array([start]), self._measure)

    def state(self) -> OpenWindows:
        """Return the windows that are open."""
        return self._open

    def _line(self, start: int) -> IntArray:
        line: IntArray = self._open.windows[self._open.windows[:, 0] == start][0]
        return line


WindowsOnTheWay: TypeAlias = KeptWindows | ThinnedWindows
"""The windows of a model."""


def windows_of(
    measure: MeasuredWindows,
    known: OpenWindows,
    opened: Opened,
    ends: dict[int, int],
    own: OwnRows,
) -> WindowsOnTheWay:
    """Return the windows of a model before its rows run.

    Args:
        measure: What is asked for.
        known: Those that are open.
        opened: Start of each one that begins to hold rows, and place of its first.
        ends: Place before which each window ends, by start.
        own: The rows.
    """
    most = max((ends[start] - place for start, place in opened), default=0)
    if len(known.windows):
        firsts = np.searchsorted(known.numbers, known.windows[:, 1]).tolist()
        lines = zip(known.windows[:, 0].tolist(), firsts, strict=True)
        most = max(most, *(len(known.numbers) - first + ends[start] for start, first in lines))
    sparse = int(known.stride[0]) > 1 or (known.windows[:, 2] > 1).any()
    if sparse or most > measure.most_rows:
        return ThinnedWindows(measure, known, opened, own)
    return KeptWindows(known, opened, own)
