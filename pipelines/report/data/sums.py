"""Sums over short blocks of rows of several groups, and the bins that curves are drawn from.

Sums, least and greatest values do not depend on the order of the rows or on how they are cut into
batches, and the number of blocks is set beforehand, so memory has a bound that no run exceeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.report.data.curves import bin_starts, broken_at, gaps_of
from pipelines.report.data.totals import Floats, Ints

_LIMITS = np.iinfo(np.int64)


@dataclass(frozen=True)
class Part:
    """The blocks of one group that hold rows; n of them, in the order of their places.

    Attributes:
        rows: Rows in each, shape (n,).
        index: Least and greatest row index, shape (n, 2).
        time: Earliest and latest time (ns), shape (n, 2); None without times.
        sums: Sums of what was added, by name, shape (n,).
        low, high: Least and greatest of what was added, by name, shape (n,).
    """

    rows: Ints
    index: Ints
    time: Ints | None
    sums: Mapping[str, Floats]
    low: Mapping[str, Floats]
    high: Mapping[str, Floats]

    def take(self, order: Ints) -> Part:
        """Return these blocks in this order."""
        return Part(
            self.rows[order],
            self.index[order],
            None if self.time is None else self.time[order],
            *(
                {name: values[order] for name, values in part.items()}
                for part in (self.sums, self.low, self.high)
            ),
        )


class BlockSums:
    """Blocks of groups, filled batch by batch; about 8(3 + 2 times + sums + 2 ranges) bytes each.

    Args:
        counts: How many blocks each group has, shape (groups,).
        sums: Names of the values that are added up.
        ranges: Those of them whose least and greatest value are kept too.
        timed: Whether rows have times.
    """

    def __init__(
        self, counts: Ints, sums: Sequence[str], ranges: Sequence[str] = (), *, timed: bool
    ) -> None:
        """Allocate; see the class."""
        self._start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        total = int(self._start[-1])
        self._rows = np.zeros(total, dtype=np.int64)
        self._sums = {name: np.zeros(total) for name in sums}
        self._low = {name: np.full(total, np.inf) for name in ranges}
        self._high = {name: np.full(total, -np.inf) for name in ranges}
        self._index = _ends(total)
        self._time = _ends(total) if timed else None

    def add(
        self, group: Ints, place: Ints, index: Ints, time: Ints | None, values: Mapping[str, Floats]
    ) -> None:
        """Add rows.

        Args:
            group: Each row's group, shape (n,).
            place: Its block in the group, shape (n,).
            index: Its index among the model's rows, shape (n,).
            time: Its time (ns), shape (n,); None without times.
            values: What is added up, by name, shape (n,) each.
        """
        at = self._start[group] + place
        np.add.at(self._rows, at, 1)
        _widen(self._index, at, index)
        if self._time is not None and time is not None:
            _widen(self._time, at, time)
        for name, total in self._sums.items():
            np.add.at(total, at, values[name])
        for name, low in self._low.items():
            np.minimum.at(low, at, values[name])
            np.maximum.at(self._high[name], at, values[name])

    def part(self, group: int) -> Part:
        """Return the blocks of a group that hold rows."""
        span = slice(int(self._start[group]), int(self._start[group + 1]))
        held = np.flatnonzero(self._rows[span])
        return Part(
            self._rows[span][held],
            self._index[span][held],
            None if self._time is None else self._time[span][held],
            *(
                {name: values[span][held] for name, values in kept.items()}
                for kept in (self._sums, self._low, self._high)
            ),
        )


@dataclass(frozen=True)
class Bins:
    """A part's blocks put together for drawing.

    `starts` are the first blocks of the bins, `gaps` the blocks before which nothing was recorded
    for long; `axes` has `row` and, with times, `time` (s since `start`): the middle of each bin.
    """

    starts: Ints
    gaps: Ints
    axes: dict[str, Floats]

    def total(self, values: Floats | Ints) -> Floats:
        """Add up blocks."""
        return np.add.reduceat(values, self.starts).astype(np.float64)

    def broken(self, curve: Mapping[str, Floats]) -> dict[str, Floats]:
        """Return axes and curves with a place without values at every gap."""
        return broken_at({**self.axes, **curve}, self.starts, self.gaps)


def bins_of(part: Part, most: int, start: int | None) -> Bins:
    """Cut the blocks of a part into bins of equally many, none with a gap inside.

    Args:
        part: At least one block, in the order of rows.
        most: About how many bins; a gap can add one.
        start: The time (ns) that the axis counts from; None for an axis of rows alone.
    """
    times = part.time if start is not None else None
    gaps = gaps_of(times)
    starts = bin_starts(gaps, len(part.rows), most)
    last = np.append(starts[1:], len(part.rows)) - 1
    axes = {"row": (part.index[starts, 0] + part.index[last, 1]) / 2}
    if times is not None and start is not None:
        first = times[starts, 0] - start
        axes["time"] = (first + (times[last, 1] - times[starts, 0]) / 2) / 1e9
    return Bins(starts, gaps, axes)


def _ends(total: int) -> Ints:
    ends = np.empty((total, 2), dtype=np.int64)
    ends[:] = _LIMITS.max, _LIMITS.min
    return ends


def _widen(ends: Ints, at: Ints, values: Ints) -> None:
    np.minimum.at(ends[:, 0], at, values)
    np.maximum.at(ends[:, 1], at, values)
