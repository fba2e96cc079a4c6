"""Times that come again: each year, week or day, by the clock of a zone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from kerneltrack.arrays import IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.monitor.clocks import UTC, weekday_of

YEAR, WEEK, DAY = "year", "week", "day"
EVERY = re.compile(rf"every +({YEAR}|{WEEK}|{DAY}) +(.*)", re.IGNORECASE)
"""How a time begins that comes again."""
FIRST_YEAR, LAST_YEAR = 1970, 2100
"""Those in which it comes."""
_ALLOWED = {
    YEAR: "a month and day that each year has, as 12-24, or a time of it, 12-24T18:00",
    WEEK: "a day of the week, as Sunday, or a time of it, Sunday 06:00",
    DAY: "a time of day, as 22:00 (in YAML in quotes)",
}
_CLOCK = re.compile(r"\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)?", re.ASCII | re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LONGEST = {YEAR: timedelta(days=367), WEEK: timedelta(days=8), DAY: timedelta(days=2)}
"""How long before a time one may have begun that is not over."""
_WHOLE_DAY = timedelta(days=1)


class Moment(NamedTuple):
    """A moment of each year, week or day.

    Attributes:
        month: The month; 1 where none is said.
        day: Day of the month or week, from 0 on.
        after: Time since its midnight.
        offset: The offset that the text names; None: that of the zone.
    """

    month: int
    day: int
    after: timedelta
    offset: tzinfo | None

    def on(self, start: date) -> datetime:
        """Return when it is in the year, week or day that begins with this day, by clocks."""
        month = start.replace(month=self.month) if self.month > 1 else start
        return datetime.combine(month + timedelta(days=self.day), time()) + self.after


class Recurrence(NamedTuple):
    """From a moment of each year, week or day to the next such moment as the other.

    Attributes:
        every: `YEAR`, `WEEK` or `DAY`.
        begin: The first.
        stop: The other.
        zone: Whose clocks show them.
    """

    every: str
    begin: Moment
    stop: Moment
    zone: str

    def spans(self, first: int, last: int) -> IntArray:
        """Return those that may be between two times, ns: (k, 2) start and end."""
        early = _utc(first) - _LONGEST[self.every]
        years = range(max(early.year, FIRST_YEAR), min(_utc(last).year + 1, LAST_YEAR) + 1)
        found = np.concatenate([np.zeros((0, 2), np.int64), *(_of_year(self, y) for y in years)])
        return found[(found[:, 0] <= last) & (found[:, 1] > first)]


def recurrence(where: str, every: str, begin: str, stop: str, zone: str) -> Recurrence:
    """Return what texts say.

    Args:
        where: The entry's place, for errors.
        every: `YEAR`, `WEEK` or `DAY`.
        begin: "12-24" of a year, "Sunday 06:00" of a week, "22:00" of a day.
        stop: Such a text; without a time of day that whole day.
        zone: The zone of texts that name no offset.

    Raises:
        ConfigError: for another text, or if it never ends.
    """
    found = Recurrence(
        every,
        _moment(f"{where}, from", every, begin, timedelta()),
        _moment(f"{where}, to", every, stop, _WHOLE_DAY),
        zone,
    )
    spans = np.concatenate([_of_year(found._replace(zone=UTC), year) for year in (2001, 2002)])
    if (spans[1:, 0] <= spans[:-1, 1]).any():
        raise ConfigError(f"{where}, to", stop, f"before the next {begin}, or all times are quiet")
    return found


def _moment(field: str, every: str, text: str, after: timedelta) -> Moment:
    """Read a moment; `after`: its time since midnight if the text has none."""
    read: Callable[[str], tuple[int, int, str]] = {
        YEAR: _of_a_year,
        WEEK: _of_a_week,
        DAY: lambda text: (1, 0, text),
    }[every]
    try:
        month, day, clock = read(text.strip())
        if not clock and every != DAY:
            return Moment(month, day, after, None)
        if not _CLOCK.fullmatch(clock):
            raise ValueError(clock)
        shown = time.fromisoformat(re.sub("[zZ]$", "+00:00", clock))
    except ValueError:
        raise ConfigError(field, text, _ALLOWED[every]) from None
    since = timedelta(hours=shown.hour, minutes=shown.minute, seconds=shown.second)
    return Moment(month, day, since, shown.tzinfo)


def _of_a_year(text: str) -> tuple[int, int, str]:
    # 2001 has no leap day.
    day = date.fromisoformat(f"2001-{text[:5]}")
    if text[5:] and text[5] not in "Tt ":
        raise ValueError(text)
    return day.month, day.day - 1, text[6:]


def _of_a_week(text: str) -> tuple[int, int, str]:
    name, _, clock = re.sub("[Tt](?=[0-9])", " ", text).partition(" ")
    return 1, weekday_of(name), clock.strip()


@lru_cache(maxsize=1024)
def _of_year(comes: Recurrence, year: int) -> IntArray:
    """Return those that begin in a year, week or day that begins in this year, (k, 2) ns."""
    periods = _periods(comes.every, year)
    starts = [_instant(comes.begin, each, comes.zone, min) for each in periods]
    around = [*_periods(comes.every, year - 1)[-2:], *periods, *_periods(comes.every, year + 1)[:2]]
    stops = np.array([_instant(comes.stop, each, comes.zone, max) for each in around], np.int64)
    begins = np.array(starts, np.int64)
    return np.stack([begins, stops[stops.searchsorted(begins, "right")]], axis=1)


@lru_cache(maxsize=8)
def _periods(every: str, year: int) -> list[date]:
    """Return the first days of the year, or of its weeks or days."""
    first = date(year, 1, 1)
    if every == YEAR:
        return [first]
    step = 7 if every == WEEK else 1
    first += timedelta(days=-first.weekday() % step)
    days = (date(year + 1, 1, 1) - first).days
    return [first + timedelta(days=day) for day in range(0, days, step)]


def _instant(
    moment: Moment, start: date, zone: str, chosen: Callable[[datetime, datetime], datetime]
) -> int:
    """Return when a moment is, ns.

    Of a local time that comes twice, or that clocks pass over, `chosen` takes the one of two.
    """
    local = moment.on(start)
    if moment.offset is None and zone != UTC:
        known = ZoneInfo(zone)
        one, other = (
            local.replace(tzinfo=known, fold=fold).astimezone(timezone.utc) for fold in (0, 1)
        )
        at = chosen(one, other)
    else:
        at = local.replace(tzinfo=moment.offset or timezone.utc)
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000


def _utc(at: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at // 1000)
