"""Times written as texts: `strptime` for whole columns, exact to the nanosecond.

Unlike Python's own it reads no name of a zone by the machine's zone and no name of a month by its
language; unlike Arrow's it takes no 30 February for 2 March. What could be read in two ways is not
read: numbers side by side have all their digits, a day of the week is the date's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.arrays import BoolArray, IntArray
from kerneltrack.limits import TIME_LIMIT

_SECOND = 10**9
_WIDTHS = {"Y": 4, "G": 4, "y": 2, "m": 2, "d": 2, "H": 2, "I": 2, "M": 2, "S": 2, "V": 2, "u": 1}
_ALWAYS_WHOLE = "YGyu"
_MONTHS = "january february march april may june july august september october november december"
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_NAMED = {
    "b": {name[:size]: i for i, name in enumerate(_MONTHS.split(), 1) for size in (3, len(name))},
    "a": {name[:size]: i for i, name in enumerate(_DAYS.split()) for size in (3, len(name))},
    "p": {"am": 0, "pm": 12, "a.m.": 0, "p.m.": 12},
}
_ALIASES = {"B": "b", "h": "b", "A": "a"}
_EXPANDED = {"c": "%a %b %d %H:%M:%S %Y", "x": "%m/%d/%y", "X": "%H:%M:%S"}
_OFFSET = "(?:UTC|GMT)?[+-][0-9]{2}(?::?[0-9]{2})?|Z|UTC|GMT"
_ZONE_NAME = "[A-Za-z]{1,5}"
_ISO_CLOCK = "(?P<H>[0-9]{2}):(?P<M>[0-9]{2})(?::(?P<S>[0-9]{2})(?:[.,](?P<f>[0-9]{1,9}))?)?"
_BASIC_CLOCK = "(?P<H>[0-9]{2})(?:(?P<M>[0-9]{2})(?:(?P<S>[0-9]{2})(?:[.,](?P<f>[0-9]{1,9}))?)?)?"
_ISO_ZONE = f"(?: ?(?P<z>{_OFFSET}|{_ZONE_NAME}))?"
_ISO = tuple(
    f"^(?i){date}{clock}$"
    for date, clock in (
        ("(?P<Y>[0-9]{4})-(?P<m>[0-9]{2})-(?P<d>[0-9]{2})", f"[T ]{_ISO_CLOCK}{_ISO_ZONE}"),
        ("(?P<Y>[0-9]{4})-(?P<j>[0-9]{3})", f"(?:[T ]{_ISO_CLOCK}{_ISO_ZONE})?"),
        ("(?P<G>[0-9]{4})-W(?P<V>[0-9]{2})-(?P<u>[1-7])", f"(?:[T ]{_ISO_CLOCK}{_ISO_ZONE})?"),
        ("(?P<Y>[0-9]{4})(?P<m>[0-9]{2})(?P<d>[0-9]{2})", f"T{_BASIC_CLOCK}{_ISO_ZONE}"),
        ("(?P<Y>[0-9]{4})(?P<j>[0-9]{3})", f"T{_BASIC_CLOCK}{_ISO_ZONE}"),
    )
)
"""The rarer forms of ISO 8601: commas, 24:00, the basic form, days of the year, weeks, and zones
by name, which it does not have and many write."""


_ADDED = rf"((?i)Z|{_OFFSET})(\[[A-Za-z0-9_+/=-]+\])+$"


class FormTimes(NamedTuple):
    """Times of texts.

    Attributes:
        time: (n,) ns since 1970 of the clock that the text is of, on UTC if it says its zone.
        bad: (n,) which are not of the format.
        naive: (n,) which do not say their zone.
    """

    time: IntArray
    bad: BoolArray
    naive: BoolArray


def why_no_format(time_format: str) -> str | None:
    """Return what a format of times must be, if it is none that can be read; else None."""
    try:
        pattern = _pattern_of(time_format)
    except ValueError as error:
        return str(error)
    parts = set(re.findall("P<(.)>", pattern))
    if not parts & set("YyG"):
        return "a format with a date: add the year (%Y), or name two columns, --time DATE TIME"
    day = "d" in parts or "j" in parts or {"G", "V", "u"} <= parts
    if parts & set("HIMSf") and not day:
        return "a format with a date: add the day (%d), or name two columns, --time DATE TIME"
    if ("I" in parts) != ("p" in parts):
        return "a format with both %I and %p, or with %H"
    return None


def parse_format(texts: pa.Array, time_format: str, zone: str) -> FormTimes:
    """Read texts of one format.

    Args:
        texts: Texts; null is bad.
        time_format: As for `strptime`; `why_no_format` has no objection to it.
        zone: IANA zone whose own abbreviations come first.
    """
    if not time_format.strip().endswith("%f") and "." not in time_format:
        # Whole numbers that went through a float.
        texts = pc.replace_substring_regex(texts, r"^([0-9]+)\.0*$", r"\1")
    return _parse(pc.utf8_trim_whitespace(texts), _pattern_of(time_format), zone)


def parse_iso(texts: pa.Array, zone: str) -> FormTimes:
    """Read the rarer forms of ISO 8601, as "20260301T000000Z", "2026-060" or "... CET".

    What RFC 9557 adds in brackets after an offset, "+01:00[Europe/Paris]", changes no instant.
    """
    texts = pc.replace_substring_regex(texts, _ADDED, r"\1")
    found = FormTimes(
        np.zeros(len(texts), np.int64), np.ones(len(texts), bool), np.zeros(len(texts), bool)
    )
    for pattern in _ISO:
        rest = np.flatnonzero(found.bad)
        if not len(rest):
            break
        part = _parse(texts.take(pa.array(rest)), pattern, zone)
        for whole, own in zip(found, part, strict=True):
            whole[rest] = own
    return found


@functools.cache
def _pattern_of(time_format: str) -> str:
    """Return a regular expression of a format, its parts named by their directives.

    Raises:
        ValueError: for a format that cannot be read, saying what is allowed.
    """
    for short, long in _EXPANDED.items():
        time_format = time_format.replace(f"%{short}", long)
    pieces = re.split("%(.|$)", time_format.strip())
    literals, names = pieces[::2], [_ALIASES.get(name, name) for name in pieces[1::2]]
    if not names:
        raise ValueError("a format that strptime can read, such as %Y-%m-%d %H:%M:%S")
    pattern, seen = _literal(literals[0]), set()
    for at, name in enumerate(names):
        if name in seen and name != "%":
            raise ValueError(f"a format with %{name} once")
        seen.add(name)
        before, after = literals[at], literals[at + 1]
        joined = (at > 0 and not before and names[at - 1] in _NUMBERS) or before[-1:].isdigit()
        follows = not after and at + 1 < len(names) and names[at + 1] in _NUMBERS
        fixed = joined or follows or after[:1].isdigit()
        if name == "f" and (follows or after[:1].isdigit()):
            raise ValueError("a format in which %f ends the digits")
        pattern += _group(name, fixed) + _literal(after)
    return f"^(?i){pattern}$"


_NUMBERS = frozenset([*_WIDTHS, "f", "j"])


def _literal(text: str) -> str:
    return r"\s+".join(re.escape(part) for part in re.split(r"\s+", text))


def _group(name: str, fixed: bool) -> str:
    if name == "%":
        return "%"
    if name in _WIDTHS:
        width = _WIDTHS[name]
        digits = f"{{{width}}}" if fixed or name in _ALWAYS_WHOLE else f"{{1,{width}}}"
        return f"(?P<{name}>[0-9]{digits})"
    if name in _NAMED:
        longest_first = sorted(_NAMED[name], key=len, reverse=True)
        return f"(?P<{name}>{'|'.join(map(re.escape, longest_first))})"
    if name in _OTHERS:
        return f"(?P<{name}>{_OTHERS[name]})"
    if name == "j":
        return f"(?P<j>[0-9]{'{3}' if fixed else '{1,3}'})"
    raise ValueError(f"a format without %{name}, which is not known here")


_OTHERS = {"f": "[0-9]{1,9}", "z": _OFFSET, "Z": _ZONE_NAME}


class _Found:
    """What the parts of a pattern matched."""

    def __init__(self, texts: pa.Array, pattern: str) -> None:
        self._match = pc.extract_regex(texts, pattern)
        self.bad: BoolArray = self._match.is_null().to_numpy(zero_copy_only=False)
        self.names = {field.name for field in self._match.type}

    def texts(self, name: str) -> pa.Array:
        return pc.struct_field(self._match, name)

    def number(self, name: str, default: int = 0) -> IntArray:
        """Return the numbers of a part; `default` where it is not there."""
        if name not in self.names:
            return np.full(len(self.bad), default)
        texts = self.texts(name)
        if name == "f":
            texts = pc.utf8_rpad(texts, 9, "0")
        else:
            texts = pc.if_else(pc.equal(texts, ""), str(default), texts)
        numbers: IntArray = texts.cast(pa.int64()).fill_null(default).to_numpy(zero_copy_only=False)
        return numbers

    def named(self, name: str, value_of: Callable[[str], int]) -> IntArray:
        """Return what the texts of a part stand for, 0 where none is; each is asked for once."""
        coded = self.texts(name).fill_null("").dictionary_encode()
        values = [value_of(text) if text else 0 for text in coded.dictionary.to_pylist()]
        found: IntArray = np.array(values, np.int64)[coded.indices.to_numpy(zero_copy_only=False)]
        return found


_UNKNOWN = 10**6
"""Stands for the offset of a name that means no clock, or several."""


def _parse(texts: pa.Array, pattern: str, zone: str) -> FormTimes:
    found = _Found(texts, pattern)
    bad = found.bad
    days, no_date = _days_of(found)
    hour, no_hour = _hours_of(found)
    minute, second, fraction = found.number("M"), found.number("S"), found.number("f")
    ends_day = (hour == 24) & (minute == 0) & (second == 0) & (fraction == 0)
    # A leap second is none of the seconds that are counted since 1970.
    bad |= no_date | no_hour | ((hour > 23) & ~ends_day) | (minute > 59) | (second > 59)
    if "a" in found.names:
        bad |= found.named("a", lambda text: _NAMED["a"][text.lower()]) != (days + 3) % 7
    offset, naive = np.zeros(len(bad), np.int64), np.ones(len(bad), bool)
    for name in ("Z", "z"):
        if name in found.names:
            there = pc.not_equal(found.texts(name).fill_null(""), "")
            there = there.to_numpy(zero_copy_only=False)
            offset = np.where(there, found.named(name, lambda text: _offset(text, zone)), offset)
            naive &= ~there
    bad |= offset == _UNKNOWN
    seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset
    bad |= np.abs(seconds) >= TIME_LIMIT // _SECOND
    return FormTimes(np.where(bad, 0, seconds) * _SECOND + np.where(bad, 0, fraction), bad, naive)


def _days_of(found: _Found) -> tuple[IntArray, BoolArray]:
    """Return days since 1970, and which are none of the calendar."""
    year = found.number("Y", 1970)
    if "y" in found.names:
        short = found.number("y", 70)
        year = short + np.where(short < 69, 2000, 1900)
    if "G" in found.names:
        return _week_days(found)
    first = ((year - 1970) * 12).astype("M8[M]")
    if "j" in found.names:
        day = found.number("j", 1)
        return _in_days(first) + day - 1, (day < 1) | (day > _in_days(first + 12) - _in_days(first))
    month, day = found.number("m", 1), found.number("d", 1)
    if "b" in found.names:
        month = found.named("b", lambda text: _NAMED["b"][text.lower()])
    first = first + (month - 1)
    wrong = (month < 1) | (month > 12) | (day < 1) | (day > _in_days(first + 1) - _in_days(first))
    return _in_days(first) + day - 1, wrong | (year < 1)


def _week_days(found: _Found) -> tuple[IntArray, BoolArray]:
    """Return the days of ISO 8601's weeks, of which the first has the year's first Thursday."""
    year, week, day = found.number("G", 1970), found.number("V", 1), found.number("u", 1)
    fourth = _in_days(((year - 1970) * 12).astype("M8[M]")) + 3
    monday = fourth - (fourth + 3) % 7 + (week - 1) * 7
    own = (monday + 3).astype("M8[D]").astype("M8[Y]").astype(np.int64) + 1970
    return monday + day - 1, (own != year) | (day < 1) | (day > 7) | (week < 1)


def _in_days(months: npt.NDArray[np.datetime64]) -> IntArray:
    days: IntArray = months.astype("M8[D]").astype(np.int64)
    return days


def _hours_of(found: _Found) -> tuple[IntArray, BoolArray]:
    if "I" not in found.names:
        return found.number("H"), np.zeros(len(found.bad), bool)
    hour = found.number("I", 12)
    half = found.named("p", lambda text: _NAMED["p"][text.lower()])
    return hour % 12 + half, (hour < 1) | (hour > 12)


def _offset(text: str, zone: str) -> int:
    """Return by how many seconds a clock is ahead of UTC, `_UNKNOWN` if that is not known."""
    name = text.upper()
    written = re.fullmatch("(?:UTC|GMT)?([+-])([0-9]{2}):?([0-9]{2})?", name)
    if written is None:
        known = offset_of(name, zone)
        return _UNKNOWN if known is None else known
    sign, hours, minutes = written[1], int(written[2]), int(written[3] or 0)
    if hours > 23 or minutes > 59:
        return _UNKNOWN
    return (hours * 3_600 + minutes * 60) * (-1 if sign == "-" else 1)


_CLOCKS = {
    **dict.fromkeys(("Z", "UTC", "UT", "GMT", "WET"), 0.0),
    **dict.fromkeys(("WEST", "CET", "MEZ", "MET", "WAT"), 1.0),
    **dict.fromkeys(("CEST", "MESZ", "MEST", "EET", "CAT", "SAST"), 2.0),
    **dict.fromkeys(("EEST", "EAT"), 3.0),
    **{"PKT": 5.0, "WIB": 7.0, "HKT": 8.0, "SGT": 8.0, "AWST": 8.0, "JST": 9.0, "ACST": 9.5},
    **{"AEST": 10.0, "ACDT": 10.5, "AEDT": 11.0, "NZST": 12.0, "NZDT": 13.0},
    **{"EDT": -4.0, "MDT": -6.0, "PDT": -7.0, "AKDT": -8.0, "AKST": -9.0, "HST": -10.0},
}
"""Hours ahead of UTC of the abbreviations that mean one clock alone: none of CST, IST, EST ..."""


def offset_of(name: str, zone: str) -> int | None:
    """Return by how many seconds the clock of an abbreviation is ahead of UTC.

    Args:
        name: The abbreviation, in any case.
        zone: IANA zone that the times are of: its own abbreviations come first.

    Returns:
        None if it is not known, or stands for several clocks and is none of the zone's.
    """
    name = name.upper()
    own = _names_of(zone)
    if name in own:
        return own[name]
    hours = _CLOCKS.get(name)
    return None if hours is None else round(hours * 3600)


@functools.cache
def _names_of(zone: str) -> dict[str, int | None]:
    """Return the abbreviations that a zone has had since 1970; None: of several clocks."""
    if zone == "UTC":
        return {}
    days = np.arange("1970-01-01", "2037-01-01", 15, dtype="datetime64[D]").astype("M8[s]")
    aware = pa.array(days.astype(np.int64)).cast(pa.timestamp("s", zone))
    names = pc.strftime(aware, "%Z").to_pylist()
    ahead = pc.local_timestamp(aware).cast(pa.int64()).to_numpy() - days.astype(np.int64)
    found: dict[str, int | None] = {}
    for name, seconds in set(zip(names, ahead.tolist(), strict=True)):
        if name.isalpha():
            found[name.upper()] = None if name.upper() in found else seconds
    return found
