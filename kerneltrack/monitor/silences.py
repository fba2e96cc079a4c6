"""Devices that send nothing: times without a row that are longer than allowed.

A time is given for all devices, or each has its own: twice its third longest time between two
rows, so that nights and weekends that come again are not silences, and at least twenty times the
mean of the others, so that a few long ones do not hide each other. A device with fewer than
twenty rows has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.monitor.spans import parse_span

AUTO = "auto"
FEWEST_ROWS = 20
"""Rows by which a device's own allowed time is known, at least."""
LONGEST, TIMES_LONGEST, TIMES_USUAL = 3, 2, 20
NEVER = int(np.iinfo(np.int64).max)


class Silence(NamedTuple):
    """A time without a row of a device.

    Attributes:
        model: The device's number.
        start: Time of the last row before it, ns.
        end: Time of the first row after it, ns; None: it lasts to the end of the input.
        allowed: The device's allowed time, ns.
    """

    model: int
    start: int
    end: int | None
    allowed: int


def allowed_time(field: str, text: str) -> int | None:
    """Return the allowed time, ns; None: each device has its own.

    Raises:
        ConfigError: for anything else than a time or "auto".
    """
    if text.strip() == AUTO:
        return None
    time = None
    try:
        time = parse_span(field, text).time
    except ConfigError:
        pass
    if time is None:
        raise ConfigError(field, text, f"a time, 15m or 12 hours, or {AUTO}")
    return time


def own_time(gaps: IntArray) -> int:
    """Return a device's own allowed time, ns, by the times between its rows; `NEVER` of too few.

    Example:
        >>> own_time(np.array([60] * 500 + [3600] * 3))
        7200
    """
    if len(gaps) + 1 < FEWEST_ROWS:
        return NEVER
    longest = np.partition(gaps, len(gaps) - LONGEST)[-LONGEST:]
    return own_time_of(len(gaps), int(gaps.sum()), longest.tolist())


def own_time_of(gaps: int, total: int, longest: Sequence[int]) -> int:
    """Return a device's own allowed time, ns, as of `own_time`.

    Args:
        gaps: How many times between rows there are.
        total: Their sum, ns.
        longest: The `LONGEST` longest of them, ns, in any order.
    """
    if gaps + 1 < FEWEST_ROWS:
        return NEVER
    usual = (total - sum(longest)) // (gaps - LONGEST)
    return max(TIMES_LONGEST * min(longest), TIMES_USUAL * usual)


def silences_of(models: IntArray, times: IntArray, allowed: int | None) -> list[Silence]:
    """Return the silences of devices, in order of devices and time.

    Args:
        models: (n,) numbers of the devices whose rows these are, in any order.
        times: (n,) event times, ns.
        allowed: Time without a row that is no silence, ns; None: each device's own.

    Cost: O(n log n) time, 40 bytes a row.
    """
    if not len(times):
        return []
    order = np.lexsort((times, models))
    times, models = times[order], models[order]
    edges = np.flatnonzero(np.append(models[1:] != models[:-1], True)) + 1
    newest, start, found = int(times.max()), 0, []
    for stop in edges.tolist():
        own, model = times[start:stop], int(models[start])
        gaps = np.diff(own)
        most = own_time(gaps) if allowed is None else allowed
        for at in np.flatnonzero(gaps > most).tolist():
            found.append(Silence(model, int(own[at]), int(own[at + 1]), most))
        if newest - int(own[-1]) > most:
            found.append(Silence(model, int(own[-1]), None, most))
        start = stop
    return found
