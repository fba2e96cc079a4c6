"""Rows that references leave out, so that they judge one row of each span of event time.

A reference counts the rows that it judges, and those that pass it by. Which of the tracker's rows
one of these is follows from how many were left out before it: that is kept of the rows that it may
yet tell of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import BoolArray, IntArray
from kerneltrack.monitor.reference.state import (
    ALL_LEFT_OUT,
    CHANGED,
    LAST_SPAN,
    LAST_SURPRISE,
    LOW_ROW,
    LOW_ROW_OF_LASTING,
    OPENED,
    SEEN,
    ZERO,
    ReferenceState,
)

NONE: IntArray = np.zeros(0, np.int64)


class Numbering(NamedTuple):
    """Which of the tracker's rows those are that a reference counts.

    Attributes:
        shift: The tracker's index of the reference's row 0.
        rows: (t,) rows that the reference may tell of.
        left_out: (t,) how many were left out before each of them.
        first: The first one of further rows, which follow one another.
        further: (n,) how many were left out before each of these.
    """

    shift: int
    rows: IntArray = NONE
    left_out: IntArray = NONE
    first: int = 0
    further: IntArray = NONE

    def of(self, row: int) -> int:
        """Return the tracker's index of a row that the reference counts."""
        if 0 <= row - self.first < len(self.further):
            return row + self.shift + int(self.further[row - self.first])
        known = self.left_out[self.rows <= row]
        return row + self.shift + int(known.max(initial=0))


class Told(NamedTuple):
    """What of the tables of m references says of which rows they may tell.

    Attributes:
        counts: (m, k).
        lows: (m, Q + 1, 6).
        compared: (m, 6).
        left_out: (m, 2Q + 7).
    """

    counts: IntArray
    lows: IntArray
    compared: IntArray
    left_out: IntArray

    @classmethod
    def of(cls, columns: Mapping[str, IntArray]) -> Told:
        """Return those of references, by the names of their tables."""
        return cls(*(columns[name] for name in cls._fields))

    @classmethod
    def of_one(cls, state: ReferenceState) -> Told:
        """Return those of one reference, m = 1."""
        tables = state.tables
        parts = tables.counts, tables.lows, tables.compared, tables.left_out
        return cls(*(part[np.newaxis] for part in parts))

    def at(self, which: IntArray) -> Told:
        """Return copies of those of some references."""
        return Told(*(part[which] for part in self))

    @property
    def rows(self) -> IntArray:
        """The rows that each may tell of, (m, 2Q + 5), as `left_out` has them."""
        parts = (
            self.lows[:, :-1, LOW_ROW],
            self.lows[:, :-1, LOW_ROW_OF_LASTING],
            self.counts[:, [ZERO, LAST_SURPRISE, OPENED]],
            self.compared[:, CHANGED : CHANGED + 1] - 1,
            self.counts[:, SEEN : SEEN + 1] - 1,
        )
        return np.concatenate(parts, axis=1)


class LeftOut(NamedTuple):
    """What is left out of rows of m references.

    Attributes:
        before: Of the references, before the rows.
        starts: (m,) place of each one's first row among those that stay.
        stops: (m,) place after its last.
        further: (n,) how many rows were left out before each of them.
        after: (m, 2) rows that are left out once all have come, and the span of the newest.
    """

    before: Told
    starts: IntArray
    stops: IntArray
    further: IntArray
    after: IntArray

    def numbering(self, place: int, seen: int) -> Numbering:
        """Return which rows those of one reference are; `seen`: the tracker's before them."""
        before = Told(*(part[place : place + 1] for part in self.before))
        first, known = int(before.counts[0, SEEN]), before.left_out[0]
        return Numbering(
            seen - first - int(known[ALL_LEFT_OUT]),
            *(before.rows[0], known[:ALL_LEFT_OUT]),
            *(first, self.further[self.starts[place] : self.stops[place]]),
        )

    def kept(self, now: Told) -> IntArray:
        """Return what is kept, (m, 2Q + 7), after the rows; `now`: of the references then."""
        first, before = self.before.counts[:, SEEN], self.before.rows
        rows, known = now.rows, self.before.left_out[:, :ALL_LEFT_OUT]
        found, others, place = known.copy(), rows != before, rows - first[:, np.newaxis]
        later = others & (place >= 0)
        found[later] = self.further[(self.starts[:, np.newaxis] + place)[later]]
        # Rare: an episode was opened, or is over.
        for model, at in np.argwhere(others & (place < 0)).tolist():
            earlier = before[model] <= rows[model, at]
            found[model, at] = known[model, earlier].max(initial=0)
        return np.concatenate([found, self.after], axis=1)


def first_of_spans(
    every: int, times: IntArray, owners: IntArray, passed: BoolArray, last: IntArray
) -> tuple[BoolArray, IntArray]:
    """Return which rows stay: the first of each span, and all that pass references by.

    Args:
        every: The span, ns.
        times: (n,) event times, ns; a reference's rows follow one another, in order.
        owners: (n,) whose they are, places among the references, rising.
        passed: (n,) which of them pass by.
        last: (m,) span of the row that each reference judged last.

    Returns:
        (n,) which stay, and (m,) span of the row that was judged last then.
    """
    kept, last, there = np.ones(len(times), np.bool_), last.copy(), np.flatnonzero(~passed)
    if not len(there):
        return kept, last
    spans, own = times[there] // every, owners[there]
    begins = np.r_[True, own[1:] != own[:-1]]
    # Within a span all rows after the first one are left out: the one before is of the last judged.
    kept[there] = spans != np.where(begins, last[own], np.r_[0, spans[:-1]])
    ends = np.r_[begins[1:], True]
    last[own[ends]] = spans[ends]
    return kept, last


def leave_out(
    before: Told, every: int, times: IntArray, lengths: IntArray, passed: BoolArray
) -> tuple[BoolArray, LeftOut]:
    """Return which rows of m references stay, (n,), and what is known of the others.

    Args:
        before: Of the references, before the rows.
        every: The span, ns.
        times: (n,) event times, ns, each reference's in order.
        lengths: (m,) how many rows there are of each.
        passed: (n,) which of them pass by.
    """
    owners = np.repeat(np.arange(len(lengths)), lengths)
    last = before.left_out[:, LAST_SPAN]
    kept, spans = first_of_spans(every, times, owners, passed, last)
    many = np.bincount(owners[kept], minlength=len(lengths))
    gone = np.bincount(owners[~kept], minlength=len(lengths))
    ends, known = np.cumsum(many), before.left_out[:, ALL_LEFT_OUT]
    # Those of the references before it are not a row's own.
    own = known - (np.cumsum(gone) - gone)
    left_out = np.cumsum(~kept, dtype=np.int64)
    further = left_out[kept] + own[owners[kept]]
    after = np.stack([known + gone, spans], axis=1)
    return kept, LeftOut(before, ends - many, ends, further, after)


def numbering_of(state: ReferenceState, seen: int) -> Numbering:
    """Return which of the tracker's rows those of a reference are, after `seen` of the tracker."""
    counts, left_out = state.tables.counts, state.tables.left_out
    if not len(left_out):
        return Numbering(seen - int(counts[SEEN]))
    rows = Told.of_one(state).rows[0]
    shift = seen - int(counts[SEEN]) - int(left_out[ALL_LEFT_OUT])
    return Numbering(shift, rows, left_out[:ALL_LEFT_OUT])
