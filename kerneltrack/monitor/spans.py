"""Moments and spans of event time, or of rows, as settings write them."""

from __future__ import annotations

import functools
import re
from datetime import date, datetime, timedelta, timezone
from typing import NamedTuple
from zoneinfo import ZoneInfo

from kerneltrack.errors import ConfigError
from kerneltrack.monitor.clocks import UTC, is_zone

SECOND = 10**9
UNITS = {
    "second": SECOND,
    "minute": 60 * SECOND,
    "hour": 3600 * SECOND,
    "day": 86_400 * SECOND,
    "week": 7 * 86_400 * SECOND,
}
MOST_ROWS = 10**12
MOST_TIME = 10**18
"""Longest span, ns: some 31 years."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SPAN = re.compile(
    r"(\d{1,13}(?:\.\d{1,9})?) *(?:(row|second|minute|hour|day|week)s?|([smhdw]))", re.ASCII
)
_SHORT = {unit[0]: unit for unit in UNITS}


class Span(NamedTuple):
    """So many rows, or so much event time.

    Attributes:
        rows: Number of rows; None of a time.
        time: ns; None of rows.
    """

    rows: int | None
    time: int | None


@functools.lru_cache
def parse_span(field: str, text: str) -> Span:
    """Return what "1000000 rows", "12 hours", "15m" or "30 days" says.

    Args:
        field: The setting, for the error.
        text: A number and rows, seconds, minutes, hours, days or weeks, or s, m, h, d, w.

    Raises:
        ConfigError: for anything else, no rows or time, or more than 10¹² rows or 10⁹ s.

    Example:
        >>> parse_span("per", "30 days").time == 30 * 86400 * 10**9
        True
    """
    found = _SPAN.fullmatch(text.strip())
    unit = "" if found is None else str(found[2] or _SHORT[found[3]])
    if found is not None and unit == "row" and "." not in found[1]:
        rows = int(found[1])
        if 1 <= rows <= MOST_ROWS:
            return Span(rows, None)
    elif found is not None and unit != "row":
        time = round(float(found[1]) * UNITS[unit])
        if 1 <= time <= MOST_TIME:
            return Span(None, time)
    raise ConfigError(
        field, text, f"rows, 1 to {MOST_ROWS:g}, or a time, to 1e9 seconds: 1000 rows, 30 days"
    )


@functools.lru_cache
def parse_moment(field: str, text: str, zone: str = UTC) -> int:
    """Return the event time, ns since 1970 UTC, that an ISO 8601 text names.

    Args:
        field: The setting, for the error.
        text: As 2026-03-01T12:00:00Z; without an offset it is local, without a time midnight.
        zone: Name of the IANA time zone of texts without an offset.

    Raises:
        ConfigError: for anything else, and for a local time that never comes, or comes twice.

    Example:
        >>> parse_moment("until", "1970-01-02") == 86400 * 10**9
        True
    """
    try:
        moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text.strip()))
    except ValueError:
        raise ConfigError(field, text, "a time in ISO 8601, as 2026-03-01T12:00:00Z") from None
    if moment.tzinfo is None:
        moment = _of_zone(field, text, moment, zone)
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def is_day(text: str) -> bool:
    """Check whether an ISO 8601 text is a date without a time of day."""
    try:
        date.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


def _of_zone(field: str, text: str, moment: datetime, zone: str) -> datetime:
    """Return the instant of a local time, which has to come exactly once."""
    if not is_zone(zone):
        raise ConfigError(field, text, f"with its offset, +01:00: {zone} is no zone that is known")
    first, second = (moment.replace(tzinfo=ZoneInfo(zone), fold=fold) for fold in (0, 1))
    if first.utcoffset() == second.utcoffset():
        # Aware times of one zone are subtracted as clocks show them.
        return first.astimezone(timezone.utc)
    comes = first.astimezone(timezone.utc).astimezone(first.tzinfo).replace(tzinfo=None) == moment
    often = "comes twice" if comes else "never comes"
    raise ConfigError(field, text, f"with its offset, +01:00: this local time {often} in {zone}")
