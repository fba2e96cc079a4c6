"""Sums over groups and short blocks of rows, and the bins that curves are drawn from.

Sums, least and greatest values do not depend on the order of the rows or on how they are cut into
batches, and the number of blocks is set beforehand, so memory has a bound that no run exceeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from pipelines.report.data.time_axis import TimeAxis, time_axis

Arrays = dict[str, npt.NDArray[Any]]

_GAP_STEPS = 10
_GAP_SHARE = 1 / 200


class Groups:
    """Rows, sums, least and greatest values of groups numbered from 0, filled batch by batch.

    Args:
        sums: Types of what is added up, by name.
        ranges: Types of what the least and greatest value is kept of, by name.
        size: How many groups there are to begin with; more come as they are met.

    Attributes:
        rows: Rows of each group, shape (groups,).
        sums, low, high: Arrays of that shape by name; a range without rows is upside down.
    """

    def __init__(
        self, sums: Mapping[str, type], ranges: Mapping[str, type] | None = None, size: int = 0
    ) -> None:
        ranges = ranges or {}
        self.rows: IntArray = np.zeros(0, dtype=np.int64)
        self.sums: Arrays = {name: np.zeros(0, kind) for name, kind in sums.items()}
        self.low: Arrays = {name: np.zeros(0, kind) for name, kind in ranges.items()}
        self.high: Arrays = {name: np.zeros(0, kind) for name, kind in ranges.items()}
        self.grow(size)

    def grow(self, size: int) -> None:
        """Make room for so many groups at least."""
        if size <= len(self.rows):
            return
        self.rows = _grown(self.rows, size)
        for name, total in self.sums.items():
            self.sums[name] = _grown(total, size)
        for name, low in self.low.items():
            least, greatest = _ends(low.dtype)
            self.low[name] = _grown(low, size, greatest)
            self.high[name] = _grown(self.high[name], size, least)

    def add(self, group: IntArray, values: Arrays) -> None:
        """Add rows.

        Args:
            group: Each row's group, shape (n,).
            values: What is added up or has a range, by name, shape (n,) each.

        Cost: O(n).
        """
        if not len(group):
            return
        self.grow(int(group.max()) + 1)
        # Rows of a group often stand together: each such run is put together first.
        first = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
        at = group[first]
        put = _put_once if (at[1:] > at[:-1]).all() else _put
        put(np.add, self.rows, at, np.diff(np.append(first, len(group))))
        for name, total in self.sums.items():
            put(np.add, total, at, np.add.reduceat(values[name], first, dtype=total.dtype))
        for name, low in self.low.items():
            put(np.minimum, low, at, np.minimum.reduceat(values[name], first))
            put(np.maximum, self.high[name], at, np.maximum.reduceat(values[name], first))


def _grown(values: npt.NDArray[Any], size: int, filler: float = 0) -> npt.NDArray[Any]:
    """Return the values followed by fillers; zeros cost nothing before they are written to."""
    grown = np.zeros(size, values.dtype) if filler == 0 else np.full(size, filler, values.dtype)
    grown[: len(values)] = values
    return grown


def _put(
    function: np.ufunc, kept: npt.NDArray[Any], at: IntArray, values: npt.NDArray[Any]
) -> None:
    """Put values together with those that are kept at places, which may come again."""
    function.at(kept, at, values)


def _put_once(
    function: np.ufunc, kept: npt.NDArray[Any], at: IntArray, values: npt.NDArray[Any]
) -> None:
    """Do as `_put` where no place comes again, several times as fast."""
    kept[at] = function(kept[at], values)


def _ends(kind: npt.DTypeLike) -> tuple[float, float]:
    if np.issubdtype(kind, np.floating):
        return -np.inf, np.inf
    return np.iinfo(cast(Any, kind)).min, np.iinfo(cast(Any, kind)).max


@dataclass(frozen=True)
class Part:
    """The blocks of one model that hold rows, in the order of their places; arrays as `Groups`.

    The ranges have `index` (of rows) and, if rows have times, `time` (ns).
    """

    rows: IntArray
    sums: Arrays
    low: Arrays
    high: Arrays

    @cached_property
    def axis(self) -> TimeAxis:
        """The time axis of blocks that are in the order of their times."""
        return time_axis(self.low["time"], self.high["time"], self.rows)

    @cached_property
    def shown(self) -> Shown:
        """Where the blocks stand on it."""
        return Shown(self)

    def take(self, order: IntArray | slice) -> Part:
        """Return these blocks in this order."""
        taken = (
            {name: values[order] for name, values in kept.items()}
            for kept in (self.sums, self.low, self.high)
        )
        return Part(self.rows[order], *taken)


class Blocks(Groups):
    """Groups that are the blocks of several models.

    Args:
        counts: How many blocks each model has, shape (models,).
        sums: As of `Groups`.
        ranges: As of `Groups`.
    """

    def __init__(
        self, counts: IntArray, sums: Mapping[str, type], ranges: Mapping[str, type]
    ) -> None:
        self._start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        super().__init__(sums, ranges, int(self._start[-1]))

    def put(self, model: IntArray, place: IntArray, values: Arrays) -> None:
        """Add rows by their model and their block in it, shape (n,) each."""
        self.add(self._start[model] + place, values)

    def part(self, model: int) -> Part:
        """Return the blocks of a model."""
        span = slice(int(self._start[model]), int(self._start[model + 1]))
        whole = Part(self.rows, self.sums, self.low, self.high).take(span)
        return whole if whole.rows.all() else whole.take(np.flatnonzero(whole.rows))


class Bins:
    """A part's blocks put together for drawing: bins of equally many, none with a gap inside.

    Args:
        part: At least one block, in the order of rows.
        most: About how many bins; a gap or a cut can add one.
        start: The time (ns) that the axis counts from; None for an axis of rows alone.
        cuts: Further blocks that a bin must begin with.

    Attributes:
        starts: First blocks of the bins, shape (bins,).
        gaps: Blocks before which nothing was recorded for long.
        covered: Share of the time in which rows came.
        axes: Middle of each bin: `row` and, with times, `time` (s since `start`, NaN outside of
            the `TimeAxis` of the blocks).
    """

    def __init__(self, part: Part, most: int, start: int | None, cuts: Sequence[int] = ()) -> None:
        times = None if start is None or "time" not in part.low else part.shown
        self.gaps = np.zeros(0, dtype=np.int64) if times is None else times.gaps
        cuts = sorted({*self.gaps.tolist(), *cuts})
        self.starts = bin_starts(cuts, len(part.rows), most)
        ends = np.append(self.starts[1:], len(part.rows)) - 1
        self.axes = {"row": (part.low["index"][self.starts] + part.high["index"][ends]) / 2}
        self.covered = 1.0
        if times is not None:
            begin, inside = times.first[self.starts], times.inside[self.starts]
            middle = (begin - start + (times.last[ends] - begin) / 2) / 1e9
            self.axes["time"] = np.where(inside, middle, np.nan)
            self.covered = times.covered

    def total(self, values: npt.NDArray[Any]) -> FloatArray:
        """Add up blocks."""
        return np.add.reduceat(values, self.starts, dtype=np.float64)

    def broken(self, curve: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        """Return axes and curves with a place without values before each bin after a gap."""
        places = np.searchsorted(self.starts, self.gaps)
        broken: dict[str, FloatArray] = {}
        for name, values in {**self.axes, **curve}.items():
            broken[name] = values.astype(np.float64)
            # Most devices have none, and each of thousands comes by here.
            if len(places):
                filler: Any = np.nan
                if name in self.axes:
                    filler = (values[places - 1] + values[places]) / 2
                broken[name] = np.insert(broken[name], places, filler)
        return broken


def bin_starts(cuts: Sequence[int], length: int, most: int) -> IntArray:
    """Cut 0..length at every place in `cuts`, and each part into its share of the bins.

    Returns:
        The first position of every bin, increasing, shape (about `most`,).
    """
    starts = []
    for first, stop in pairwise([0, *cuts, length]):
        count = min(stop - first, max(1, round((stop - first) * most / length)))
        starts.append(first + np.arange(count) * (stop - first) // count)
    return np.concatenate(starts).astype(np.int64)


class Shown:
    """Where blocks stand on their own time axis.

    Args:
        part: Blocks in the order of their times.

    Attributes:
        first, last: Times of each block; of one that reaches beyond the axis what lies on it.
        inside: Which blocks do.
        gaps: Blocks before which nothing was recorded for long: over ten times the usual step and
            wide enough to be seen, a 200th of the axis.
        covered: Share of the axis in which rows came.
    """

    def __init__(self, part: Part) -> None:
        axis = part.axis
        self.first, self.last = part.low["time"], part.high["time"]
        self.inside: BoolArray = np.ones(len(self.first), np.bool_)
        if not axis.is_whole:
            self.inside = (self.last >= axis.first) & (self.first <= axis.last)
            self.first = np.where(self.inside, np.maximum(self.first, axis.first), self.first)
            self.last = np.where(self.inside, np.minimum(self.last, axis.last), self.last)
        extent = float(axis.last - axis.first)
        step = np.diff(self.first)
        own = self.inside[1:] & self.inside[:-1]
        long, some = np.zeros(len(step), np.bool_), step[own & (step > 0)]
        # Sorting for the median is for those alone whose longest step may be a gap.
        if len(some) and float(some.max()) > _GAP_STEPS * float(some.min()):
            usual = float(np.median(some))
            long = own & (step > max(_GAP_STEPS * usual, extent * _GAP_SHARE))
        self.gaps = np.flatnonzero(long | (self.inside[1:] != self.inside[:-1])) + 1
        silent = float((self.first[1:] - self.last[:-1])[long].sum())
        self.covered = 1.0 - silent / extent if silent else 1.0
