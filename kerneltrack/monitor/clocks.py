"""What clocks of a time zone show, changes of the clock included; days of the week."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

UTC = "UTC"
QUARTER = 900
"""Seconds, at whose multiples clocks change: those of the last fifty years all do."""
SECOND = 10**9
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def weekday_of(name: str) -> int:
    """Return a weekday's number from Monday, 0, on, by its name or the first three letters of it.

    Raises:
        ValueError: for another word.
    """
    return [*WEEKDAYS, *(each[:3] for each in WEEKDAYS)].index(name.lower()) % len(WEEKDAYS)


def is_zone(name: str) -> bool:
    """Check whether the time-zone data base has a zone of this name."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def local_times(times: npt.NDArray[np.int64], zone: str) -> npt.NDArray[np.int64]:
    """Return what clocks there show at each time.

    Args:
        times: (n,) event times, ns since 1970 in UTC.
        zone: Name of an IANA time zone.

    Returns:
        (n,) ns since midnight of 1970-01-01 by these clocks: `times` itself for UTC. A quarter of
        an hour has the offset of its begin. O(n log n).

    Example:
        >>> import numpy as np
        >>> summer = np.array([1_782_864_000 * 10**9])  # 2026-07-01, midnight
        >>> (local_times(summer, "Europe/Berlin") - summer) // (3600 * 10**9)
        array([2])
    """
    if zone == UTC:
        return times
    # A spec asks for zones' names alone, and is made without NumPy.
    import numpy as np  # noqa: PLC0415

    quarters, places = np.unique(times // (QUARTER * SECOND), return_inverse=True)
    offsets = [_offset_of(quarter, zone) for quarter in quarters.tolist()]
    shown: npt.NDArray[np.int64] = times + np.array(offsets, np.int64)[places.reshape(-1)]
    return shown


@lru_cache(maxsize=4096)
def _offset_of(quarter: int, zone: str) -> int:
    """Return how far clocks are ahead of UTC in a quarter of an hour, ns."""
    ahead = datetime.fromtimestamp(quarter * QUARTER, ZoneInfo(zone)).utcoffset()
    return (ahead or timedelta()) // timedelta(microseconds=1) * 1000
