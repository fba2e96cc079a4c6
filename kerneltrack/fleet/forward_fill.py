"""Last value held: a channel's last value stands in for a missing one, for a stated time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.limits import ArrayForm, real, whole


class LastValues(NamedTuple):
    """What each channel showed last.

    Attributes:
        values: (D,) last value, NaN if none yet.
        times: (D,) its time, ns.
    """

    values: npt.NDArray[np.float64]
    times: npt.NDArray[np.int64]

    @classmethod
    def none(cls, models: int, width: int) -> LastValues:
        """Return what m models without rows have shown, (m, D) each."""
        return cls(np.full((models, width), np.nan), np.zeros((models, width), np.int64))

    @staticmethod
    def layout(width: int) -> dict[str, ArrayForm]:
        """Return what the arrays of D channels are like."""
        return {"values": real(width), "times": whole(width)}


def hold_last(
    rows: npt.NDArray[Any], times: npt.NDArray[np.int64], previous: LastValues | None, longest: int
) -> tuple[npt.NDArray[Any], LastValues]:
    """Fill NaN with the channel's last value, if that is at most `longest` ns old.

    Args:
        rows: Shape (n, D), in order.
        times: Shape (n,), ns.
        previous: What the rows before showed last.
        longest: Greatest age of a value that stands in, ns.

    Returns:
        The filled rows (NaN where no recent value was known) and what they showed last. The
        same however the rows are cut. Cost O(nD).

    Example:
        >>> rows = np.array([[1.0], [np.nan], [np.nan]])
        >>> hold_last(rows, np.array([0, 5, 20]), None, 10)[0].ravel().tolist()
        [1.0, 1.0, nan]
    """
    before = (
        LastValues.none(1, rows.shape[1])
        if previous is None
        else LastValues(previous.values[np.newaxis], previous.times[np.newaxis])
    )
    ends = np.array([0]), np.array([len(rows)])
    filled, (values, shown) = hold_each(rows, times, *ends, before, longest)
    return filled, LastValues(values[0], shown[0])


def hold_each(
    rows: npt.NDArray[Any],
    times: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
    previous: LastValues,
    longest: int,
) -> tuple[npt.NDArray[Any], LastValues]:
    """Fill the rows of m models that follow one another without a gap; see `hold_last`.

    Args:
        rows: Shape (n, D), each model's in order.
        times: Shape (n,), ns.
        starts: (m,) place of each model's first row; the first one's is 0.
        stops: (m,) place after its last: the next one's first.
        previous: What each model's rows before showed last, (m, D) each.
        longest: Greatest age of a value that stands in, ns.

    Returns:
        As `hold_last`; the rows themselves if no value is missing.
    """
    if not np.count_nonzero(np.isnan(rows)):
        return rows, _last_shown(rows, times, starts, stops, previous)
    models, columns = np.arange(len(starts)), np.arange(rows.shape[1])
    # What was held before stands in front of each model's rows.
    first = starts + models
    own = np.arange(len(rows)) + 1 + np.repeat(models, stops - starts)
    values = np.empty((len(rows) + len(models), rows.shape[1]))
    stamps = np.empty(values.shape, np.int64)
    values[first], stamps[first] = previous
    values[own], stamps[own] = rows, times[:, np.newaxis]
    known = ~np.isnan(values)
    # Place of the last known value at or before each; without any, that of what was held.
    places = np.where(known, np.arange(len(values))[:, np.newaxis], 0)
    places[first] = first[:, np.newaxis]
    places = np.maximum.accumulate(places, axis=0)
    latest, shown = values[places, columns], stamps[places, columns]
    recent = (times[:, np.newaxis] - shown[own]) <= longest
    filled = np.where(known[own], values[own], np.where(recent, latest[own], np.nan))
    last = stops + models
    return filled.astype(rows.dtype), LastValues(latest[last], shown[last])


def _last_shown(
    rows: npt.NDArray[Any],
    times: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
    previous: LastValues,
) -> LastValues:
    """Return what rows without a missing value have shown last; see `hold_each`."""
    some = stops > starts
    last, after = stops[some] - 1, LastValues(previous.values.copy(), previous.times.copy())
    after.values[some], after.times[some] = rows[last], times[last, np.newaxis]
    return after
