"""Units of times that are numbers: how long one is, and which of them is 1970."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""Nanoseconds of the units that count from 1970 UTC."""


_FOREVER = 2**63 - 1


@lru_cache(maxsize=64)
def nanoseconds(seconds: float) -> int:
    """Turn seconds into whole nanoseconds, as far as they fit into 64 bits.

    Example:
        >>> nanoseconds(0.25)
        250000000
    """
    return round(seconds * _SECOND) if seconds < _FOREVER / _SECOND else _FOREVER


def day_of(time: int) -> str:
    """Return the day of a time, ns since 1970 UTC.

    Example:
        >>> day_of(4_070_908_800_000_000_000)
        '2099-01-01'
    """
    return (datetime(1970, 1, 1) + timedelta(microseconds=time // 1000)).date().isoformat()


_SECOND, _DAY, _MILLISECOND = 10**9, 86_400 * 10**9, 10**6


class TimeUnit(NamedTuple):
    """How times are numbered.

    Attributes:
        nanoseconds: Length of a unit.
        epoch: The whole number whose start is 1970-01-01, or `shift` before it.
        about: What the number is, for a person.
        local: Whether it is the time of a local clock; else it is UTC.
        digits: Decimal digits that are nanoseconds; None: a unit is no power of ten of them.
        step: Times of fractions are rounded to a multiple of this, ns: a float64 of days does not
            hold more.
        shift: By how many ns the number `epoch` is before 1970-01-01.
    """

    nanoseconds: int
    epoch: int
    about: str
    local: bool = False
    digits: int | None = None
    step: int = 1
    shift: int = 0

    def instant(self, number: float | Decimal) -> int:
        """Return the time of a finite number, ns since 1970, the nearest one.

        Example:
            >>> UNITS["excel"].instant(25_569.5)
            43200000000000
        """
        if isinstance(number, int):
            return (number - self.epoch) * self.nanoseconds - self.shift
        since: Any = number - self.epoch
        whole: int = math.floor(since)
        # The product of a large whole part would lose what the fraction still says.
        fraction: int = round((since - whole) * self.nanoseconds / self.step) * self.step
        return whole * self.nanoseconds + fraction - self.shift


def _days(epoch: int, about: str, *, local: bool = True, shift: int = 0) -> TimeUnit:
    return TimeUnit(_DAY, epoch, about, local, step=_MILLISECOND, shift=shift)


UNITS = {
    "s": TimeUnit(_SECOND, 0, "seconds since 1970", digits=9),
    "ms": TimeUnit(_MILLISECOND, 0, "milliseconds since 1970", digits=6),
    "us": TimeUnit(1_000, 0, "microseconds since 1970", digits=3),
    "ns": TimeUnit(1, 0, "nanoseconds since 1970", digits=0),
    "excel": _days(25_569, "days of Excel"),
    "excel1904": _days(24_107, "days since 1904, of Excel on old Macs"),
    "matlab": _days(719_529, "days of MATLAB's datenum"),
    "julian": _days(2_440_587, "Julian days", local=False, shift=_DAY // 2),
    "labview": TimeUnit(_SECOND, 2_082_844_800, "seconds since 1904, of LabVIEW", digits=9),
    "ntp": TimeUnit(_SECOND, 2_208_988_800, "seconds since 1900, of NTP", digits=9),
    "filetime": TimeUnit(100, 116_444_736_000_000_000, "100 ns since 1601, of Windows"),
    "ticks": TimeUnit(100, 621_355_968_000_000_000, "100 ns since year 1, of .NET", local=True),
}
"""By name, as settings have it."""
