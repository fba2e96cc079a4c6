"""Which times an axis shows: those of the bulk of the rows, whatever a few clocks say.

One row of 2099, or a device that lives in 1970, would leave the rest of a fleet a line a pixel
wide. So an axis spans the bulk: the shortest stretch of time that holds half of the rows, and all
that is joined to it by gaps that leave it room to be seen. What lies beyond is named on the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, IntArray
from pipelines.report.text import SECOND, moment

Offsets = npt.NDArray[np.uint64]

APART = 10
"""Rows lie outside where a gap is so many times as long as the bulk: it would have a tenth of the
axis."""
APART_OF_MANY = 50
"""The same of as many rows as the bulk has; of fewer it is proportionally less, `APART` at least.
"""
MOST_STRETCHES = 20
FEW = 0.01
"""Nothing lies outside if it is more than 20 stretches and 1 % of the rows: they are the rhythm of
the data, and no clocks gone wrong."""
MOST_CELLS = 1 << 16
MOST_WAITING = 1 << 20
_QUANTILES = 64


@dataclass(frozen=True)
class TimeAxis:
    """What a time axis shows, and what it does not.

    Attributes:
        first: First time, ns since 1970.
        last: Last time.
        oldest: First time of all rows, `first` or before it.
        newest: Last time of all.
    """

    first: int
    last: int
    oldest: int
    newest: int

    def holds(self, times: IntArray) -> BoolArray:
        """Return which times lie on the axis."""
        return (times >= self.first) & (times <= self.last)

    @property
    def is_whole(self) -> bool:
        """Whether no row lies outside."""
        return (self.first, self.last) == (self.oldest, self.newest)

    def words(self) -> str:
        """Return which times lie outside; nothing if none do."""
        texts = []
        if self.oldest < self.first:
            texts.append(f"before {_clock(self.first)} (from {_clock(self.oldest)} on)")
        if self.newest > self.last:
            texts.append(f"after {_clock(self.last)} (up to {_clock(self.newest)})")
        return " and ".join(texts)


def between(first: int, last: int) -> str:
    """Return two times, to the second, as `1970-01-01 00:00:00 to 1970-01-01 00:04:00`."""
    return " to ".join(dict.fromkeys(map(_clock, (first, last))))


def _clock(time: int) -> str:
    return moment(time, to=SECOND)


class RowTimes:
    """The times of all rows, as cells of a width that leaves at most 65,536 of them.

    A cell knows its rows and its first and last time, so gaps between cells are exact. What is
    found does not depend on the order of the rows or on how they are cut into batches, except for
    the cells' width.
    """

    def __init__(self) -> None:
        self._bits = 0
        self._first: IntArray = np.zeros(0, np.int64)
        self._last: IntArray = np.zeros(0, np.int64)
        self._rows: IntArray = np.zeros(0, np.int64)
        self._waiting: list[IntArray] = []

    def add(self, times: IntArray) -> None:
        """Add times, ns since 1970.

        Cost: O(n log n + cells).
        """
        self._waiting.append(times)
        if sum(map(len, self._waiting)) >= MOST_WAITING:
            self._put_into_cells()

    def axis(self) -> TimeAxis | None:
        """Return the axis of all rows; None without any."""
        self._put_into_cells()
        return time_axis(self._first, self._last, self._rows) if len(self._rows) else None

    def _put_into_cells(self) -> None:
        times = np.sort(np.concatenate([np.zeros(0, np.int64), *self._waiting]))
        self._waiting = []
        if not len(times):
            return
        starts = self._starts(times)
        rows = np.diff(np.append(starts, len(times)))
        first, last = times[starts], times[np.append(starts[1:], len(times)) - 1]
        order = np.argsort(np.concatenate([self._first, first]), kind="stable")
        self._merge(
            np.concatenate([self._first, first])[order],
            np.concatenate([self._last, last])[order],
            np.concatenate([self._rows, rows])[order],
        )

    def _starts(self, times: IntArray) -> IntArray:
        """Return where cells begin in times that are in order."""
        cells = times >> self._bits
        return np.flatnonzero(np.concatenate([[True], cells[1:] != cells[:-1]]))

    def _merge(self, first: IntArray, last: IntArray, rows: IntArray) -> None:
        starts = self._starts(first)
        while len(starts) > MOST_CELLS:
            self._bits += 1
            starts = self._starts(first)
        self._first = np.minimum.reduceat(first, starts)
        self._last = np.maximum.reduceat(last, starts)
        self._rows = np.add.reduceat(rows, starts)


def time_axis(first: IntArray, last: IntArray, rows: IntArray) -> TimeAxis:
    """Choose the axis of rows that come in cells.

    Args:
        first: First time of each cell, ns since 1970, shape (n,).
        last: Last time.
        rows: Rows of each cell.

    Cost: O(n log n).
    """
    points, halves = np.stack([first, last], axis=1).ravel(), np.repeat(rows, 2)
    gaps = np.diff(points)
    if (gaps < 0).any():
        order = np.argsort(points, kind="stable")
        points, halves = points[order], halves[order]
    elif _has_no_wide_gap(gaps, rows):
        return TimeAxis(*points[[0, -1, 0, -1]].tolist())
    # Of the rows of a cell nothing is known but the ends: half of them stand at each.
    begin, end = _bulk(_offsets(points), halves)
    return TimeAxis(*points[[begin, end, 0, -1]].tolist())


def _has_no_wide_gap(gaps: IntArray, rows: IntArray) -> bool:
    """Return whether no gap can be `APART` times as long as the bulk; most models have even times.

    Half of the rows have so many times at least, each as far from the next as the nearest two.
    """
    apart = gaps > 0
    if (apart[1:] | apart[:-1]).all():
        # At most two points have one time, so twice the most rows of a cell are at most there.
        times = int(rows.sum()) // (2 * int(rows.max()))
        steps = gaps[apart]
        return not len(steps) or float(steps.max()) <= APART * (times - 1) * float(steps.min())
    return False


def _offsets(points: IntArray) -> Offsets:
    """Return the distances from the first point: between all that int64 holds they fit uint64."""
    unsigned = points.astype(np.uint64)
    offsets: Offsets = unsigned - unsigned[0]
    return offsets


def _bulk(points: Offsets, rows: IntArray) -> tuple[int, int]:
    """Return the first and the last of the points that the axis holds."""
    if float(points[-1]) <= APART * _least_half(points, rows):
        return 0, len(points) - 1
    begin, end = _core(points, rows)
    gaps = np.diff(points)
    wide = np.flatnonzero(gaps > APART * _length(points, begin, end))
    edges = np.concatenate([[0], wide + 1, [len(points)]]).tolist()
    upto = [0, *np.cumsum(rows)[np.array(edges[1:]) - 1].tolist()]
    # Parts between wide gaps: that of the core takes its neighbours in while they are near.
    first = last = int(np.searchsorted(wide, begin))
    while True:
        length = _length(points, edges[first], edges[last + 1] - 1)
        inside = upto[last + 1] - upto[first]
        if first and _is_near(gaps[edges[first] - 1], length, upto[first] / inside):
            first -= 1
        elif last + 2 < len(edges) and _is_near(
            gaps[edges[last + 1] - 1], length, (upto[-1] - upto[last + 1]) / inside
        ):
            last += 1
        else:
            break
    begin, end = edges[first], edges[last + 1] - 1
    sides = slice(0, begin), slice(end + 1, None)
    stretches = [n for side in sides for n in _stretches(points[side], rows[side], length)]
    if sum(sorted(stretches)[:-MOST_STRETCHES]) > FEW * upto[-1]:
        return 0, len(points) - 1
    return begin, end


def _least_half(points: Offsets, rows: IntArray) -> float:
    """Return a length that no stretch with half of the rows is shorter than; 0 of few rows."""
    upto = np.cumsum(rows)
    if upto[-1] < _QUANTILES**2:
        return 0.0
    ranks = 1 + np.arange(_QUANTILES) * (upto[-1] - 1) // (_QUANTILES - 1)
    marks = points[np.searchsorted(upto, ranks)].astype(np.float64)
    # Half of the rows hold half of the marks but one at least.
    inside = _QUANTILES // 2 - 2
    return float((marks[inside:] - marks[:-inside]).min())


def _is_near(gap: np.uint64, length: float, share: float) -> bool:
    """Return whether rows beyond a gap, so many for each of the bulk, belong to it."""
    return float(gap) <= max(APART, APART_OF_MANY * share) * length


def _core(points: Offsets, rows: IntArray) -> tuple[int, int]:
    """Return the ends of the shortest stretch with half of the rows.

    If they share one time they have no length, and the others are asked: a clock that stands still
    is no bulk. If no rows are left then, it is the whole.
    """
    rows = rows.copy()
    while rows.any():
        upto = np.cumsum(rows)
        least = upto - rows + (upto[-1] + 1) // 2
        begin = np.flatnonzero(least <= upto[-1])
        end = np.searchsorted(upto, least[begin])
        shortest = int(np.argmin(points[end] - points[begin]))
        first, last = int(begin[shortest]), int(end[shortest])
        if points[last] > points[first]:
            return first, last
        rows[points == points[first]] = 0
    return 0, len(points) - 1


def _length(points: Offsets, begin: int, end: int) -> float:
    return float(points[end] - points[begin])


def _stretches(points: Offsets, rows: IntArray, length: float) -> Iterator[int]:
    """Yield the rows of each stretch of points that no gap longer than this is in."""
    if len(points):
        edges = np.flatnonzero(np.diff(points) > length) + 1
        yield from np.add.reduceat(rows, np.append(0, edges)).tolist()
