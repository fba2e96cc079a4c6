"""Moments and spans of event time, or of rows, as settings write them."""

from __future__ import annotations

import functools
import re
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from kerneltrack.errors import ConfigError

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
def parse_moment(field: str, text: str) -> int:
    """Return the event time, ns since 1970 UTC, that an ISO 8601 text names.

    Args:
        field: The setting, for the error.
        text: As 2026-03-01T12:00:00Z; without an offset it is UTC, without a time midnight.

    Raises:
        ConfigError: for anything else.

    Example:
        >>> parse_moment("until", "1970-01-02") == 86400 * 10**9
        True
    """
    try:
        moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text.strip()))
    except ValueError:
        raise ConfigError(field, text, "a time in ISO 8601, as 2026-03-01T12:00:00Z") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
