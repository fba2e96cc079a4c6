"""Times of any Arrow type as nanoseconds since 1970 UTC.

The unreadable ones are marked, and so are local times that the clock showed twice, or never.
"""

from __future__ import annotations

import functools
import re
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.limits import TIME_LIMIT
from transforms.read.column_options import UNITS
from transforms.read.kinds import codes_of, encode, is_text, texts_of

_EPOCH = datetime(1970, 1, 1)
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[T ][0-9]{2}(:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?)?"
_ZONE = r" ?(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_WHOLE = "-?([0-9]{1,18}|[1-8][0-9]{18})"
_REAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?"
_REWRITTEN = ("Ymd", "YmdH", "YmdHM", "YmdHMS", "YmdHMSf")
_DIGITS = {"Y": "[0-9]{4}", "f": "[0-9]{1,9}"}

Nanoseconds = tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]
"""Times in ns, and which of them are missing or not readable (their value is then 0)."""

Parsed = tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]
"""Beside these: which of them are local times, not yet on UTC."""

NEVER = -1
UNKNOWN = -2
"""What `Times.again` says of local times that the clock skipped, and of those after the last year
whose changes of the clock Arrow knows."""

_LAST_RULES = datetime(2037, 12, 31)


class Times(NamedTuple):
    """Times of rows.

    Attributes:
        time: (n,) ns since 1970 UTC; 0 where bad. Of a local time that comes twice it is the
            first, of one that never comes the instant at which the clock was put forward.
        bad: (n,) which are missing or not readable.
        again: (n,) int64: by how many ns a local time comes again after `time`, 0 if it comes
            once, else `NEVER` or `UNKNOWN`. None: all come once.
    """

    time: npt.NDArray[np.int64]
    bad: npt.NDArray[np.bool_]
    again: npt.NDArray[np.int64] | None = None


def to_nanoseconds(
    values: pa.Array, unit: str = "s", zone: str = "UTC", time_format: str | None = None
) -> Times:
    """Convert a column of times.

    Args:
        values: Timestamps, dates, durations since 1970, numbers or texts.
        unit: Unit of numbers: "s", "ms", "us" or "ns".
        zone: IANA zone of timestamps, dates and texts that do not say theirs.
        time_format: Format of texts as for `datetime.strptime`; None: ISO 8601.

    Returns:
        Times, which of them are bad, and which are local times that do not come exactly once.
        Fractions of a nanosecond are rounded to the nearest.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _spread(values, to_nanoseconds(values.dictionary, unit, zone, time_format))
    if is_text(kind):
        return _from_text(values, unit, zone, time_format)
    if pa.types.is_date(kind):
        values = values.cast(pa.timestamp("ms"))
        kind = values.type
    if pa.types.is_timestamp(kind):
        numbers, bad = _scale(_integers(values), _is_null(values), UNITS[kind.unit])
        return Times(numbers, bad) if kind.tz else _localise(numbers, bad, ~bad, zone)
    if pa.types.is_duration(kind):
        return Times(*_scale(_integers(values), _is_null(values), UNITS[kind.unit]))
    return Times(*_from_numbers(values, UNITS[unit]))


def check_zone(zone: str) -> bool:
    """Check whether the zone is in the time-zone data base."""
    try:
        _on_utc(pa.array([0], pa.timestamp("ns")), zone, "earliest", "latest")
    except (pa.ArrowException, ValueError):
        return False
    return True


def _scale(
    numbers: npt.NDArray[np.int64], missing: npt.NDArray[np.bool_], factor: int
) -> Nanoseconds:
    limit = TIME_LIMIT // factor
    bad = missing | (numbers > limit) | (numbers < -limit)
    return np.where(bad, 0, numbers) * factor, bad


def _from_numbers(values: pa.Array, factor: int) -> Nanoseconds:
    if pa.types.is_integer(values.type):
        missing = _is_null(values)
        if pa.types.is_uint64(values.type):
            limit = pa.scalar(TIME_LIMIT, pa.uint64())
            missing = _mask(pc.greater(values, limit).fill_null(True))
        return _scale(_integers(values.cast(pa.int64(), safe=False)), missing, factor)
    numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    bad = ~(np.abs(numbers) <= TIME_LIMIT // factor)
    numbers = np.where(bad, 0.0, numbers)
    # The product of a large whole part would lose what the fraction still says.
    whole = np.floor(numbers)
    fraction = np.rint((numbers - whole) * factor).astype(np.int64)
    return whole.astype(np.int64) * factor + fraction, bad


def change_between(zone: str, first: int, last: int) -> int:
    """Return the instant between two, ns since 1970, from which a zone's clock is another one.

    Args:
        zone: IANA zone.
        first: Before the change, which is at a whole second.
        last: After it, or at it.
    """
    second = UNITS["s"]
    instants = np.arange(first // second, -(-last // second) + 1, dtype=np.int64)
    ahead = _ahead(instants, zone)
    return int(instants[np.argmax(ahead != ahead[0])]) * second


def _ahead(instants: npt.NDArray[np.int64], zone: str) -> npt.NDArray[np.int64]:
    """Return by how many seconds a zone's clock is ahead of UTC, at seconds since 1970."""
    aware = pa.array(instants).cast(pa.timestamp("s", zone))
    return _integers(pc.local_timestamp(aware)) - instants


def _localise(
    numbers: npt.NDArray[np.int64],
    bad: npt.NDArray[np.bool_],
    naive: npt.NDArray[np.bool_],
    zone: str,
) -> Times:
    """Read the naive ones of the numbers as local times of a zone."""
    if zone == "UTC" or not naive.any():
        return Times(numbers, bad)
    whole = bool(naive.all())
    at = slice(None) if whole else np.flatnonzero(naive)
    # A zone moves a time by a day at most; at the limits of int64 Arrow would overflow, but
    # TIME_LIMIT keeps away from them.
    local = pa.array(numbers[at]).cast(pa.timestamp("ns"))
    again = None
    try:
        first = last = _on_utc(local, zone, "raise", "raise")
    except pa.ArrowInvalid:
        first = _on_utc(local, zone, "earliest", "latest")
        last = _on_utc(local, zone, "latest", "earliest")
        again = np.zeros(len(numbers), dtype=np.int64)
        # The end of the gap and the last instant before it are 1 ns apart.
        again[at] = np.where(last < first, NEVER, last - first)
    time = first
    if not whole:
        time = numbers.copy()
        time[at] = first
    end = (_LAST_RULES - _EPOCH) // timedelta(microseconds=1) * UNITS["us"]
    if int(first.max()) >= end and _lacks_rules(zone):
        again = np.zeros(len(numbers), dtype=np.int64) if again is None else again
        again[naive & (time >= end)] = UNKNOWN
    return Times(time, bad, again)


def _on_utc(local: pa.Array, zone: str, ambiguous: str, nonexistent: str) -> npt.NDArray[np.int64]:
    return _integers(pc.assume_timezone(local, zone, ambiguous=ambiguous, nonexistent=nonexistent))


@functools.cache
def _lacks_rules(zone: str) -> bool:
    """Check whether a zone's clock changes with the seasons, but no longer in Arrow's eyes.

    Arrow reads the table of changes, which ends in 2037, not the rule that goes on after it.
    """
    seasons = [datetime(year, month, 1) for year in (2037, 2045) for month in (1, 7)]
    instants = np.array([(season - _EPOCH) // timedelta(seconds=1) for season in seasons])
    ahead = _ahead(instants, zone)
    return bool(ahead[0] != ahead[1] and ahead[2] == ahead[3])


def _from_text(values: pa.Array, unit: str, zone: str, time_format: str | None) -> Times:
    """Parse distinct texts: times repeat when models share a clock."""
    distinct = encode(values)
    known = pa.array(texts_of(distinct.dictionary), pa.string())
    if time_format is None:
        numbers, bad, naive = _from_iso(known)
        rest = np.flatnonzero(bad)
        numbers[rest], bad[rest] = _from_digits(known.take(pa.array(rest)), unit)
    else:
        numbers, bad, naive = _from_format(known, time_format)
    return _spread(distinct, _localise(numbers, bad, naive, zone))


def _from_iso(texts: pa.Array) -> Parsed:
    texts = pc.utf8_trim_whitespace(texts)
    zoned = _mask(pc.match_substring_regex(texts, f"^{_DATE}{_CLOCK}{_ZONE}$").fill_null(False))
    naive = _mask(pc.match_substring_regex(texts, f"^{_DATE}({_CLOCK})?$").fill_null(False))
    numbers = np.zeros(len(texts), dtype=np.int64)
    bad = ~(zoned | naive)
    for mask, kind in ((zoned, pa.timestamp("ns", "UTC")), (naive, pa.timestamp("ns"))):
        at = np.flatnonzero(mask)
        part, refused = _cast_texts(texts.take(pa.array(at)), kind)
        numbers[at], bad[at] = part, refused
    return np.where(bad, 0, numbers), bad, naive & ~bad


def _cast_texts(texts: pa.Array, kind: pa.DataType) -> Nanoseconds:
    """Cast texts that look like times; halve them where one is not, as on 30 February."""
    try:
        return _scale(_integers(texts.cast(kind)), np.zeros(len(texts), dtype=bool), 1)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return np.zeros(1, dtype=np.int64), np.ones(1, dtype=bool)
    middle = len(texts) // 2
    parts = [_cast_texts(texts[:middle], kind), _cast_texts(texts[middle:], kind)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _from_digits(texts: pa.Array, unit: str) -> Nanoseconds:
    """Read texts that are numbers: a text file's first rows may not have told so."""
    numbers = np.zeros(len(texts), dtype=np.int64)
    bad = np.ones(len(texts), dtype=bool)
    texts = pc.utf8_trim_whitespace(texts)
    is_whole = pc.match_substring_regex(texts, f"^{_WHOLE}$").fill_null(False)
    is_real = pc.and_not(pc.match_substring_regex(texts, f"^{_REAL}$").fill_null(False), is_whole)
    for mask, kind in ((is_whole, pa.int64()), (is_real, pa.float64())):
        at = np.flatnonzero(_mask(mask))
        numbers[at], bad[at] = _from_numbers(texts.take(pa.array(at)).cast(kind), UNITS[unit])
    return numbers, bad


def _from_format(texts: pa.Array, time_format: str) -> Parsed:
    """Rewrite the usual formats as ISO 8601; leave the rest to Python's strptime.

    Arrow has a strptime too, but it takes 30 February for 2 March.
    """
    numbers = np.zeros(len(texts), dtype=np.int64)
    bad = np.ones(len(texts), dtype=bool)
    naive = np.zeros(len(texts), dtype=bool)
    rewriting = _iso_rewriting(time_format)
    if rewriting is not None:
        pattern, replacement = rewriting
        usual = _mask(pc.match_substring_regex(texts, pattern).fill_null(False))
        iso = pc.replace_substring_regex(texts, pattern, replacement)
        numbers, bad, naive = _from_iso(pc.if_else(pa.array(usual), iso, None))
        bad = bad | ~usual
    rest = np.flatnonzero(bad)
    others = texts.take(pa.array(rest))
    numbers[rest], bad[rest], naive[rest] = _from_python_format(others, time_format)
    return numbers, bad, naive


def _iso_rewriting(time_format: str) -> tuple[str, str] | None:
    """Return a pattern of texts in a format, and what makes them ISO 8601; None if nothing does."""
    pieces = re.split("%(.)", time_format)
    literals, directives = pieces[::2], pieces[1::2]
    order = "".join(sorted(directives, key="YmdHMSf".find))
    if order not in _REWRITTEN:
        return None
    groups = [_DIGITS.get(directive, "[0-9]{2}") for directive in directives]
    pattern = re.escape(literals[0])
    for group, literal in zip(groups, literals[1:], strict=True):
        pattern += f"({group}){re.escape(literal)}"
    place = {directive: f"\\{i}" for i, directive in enumerate(directives, start=1)}
    marks = zip(order, ("", "-", "-", "T", ":", ":", "."), strict=False)
    return f"^{pattern}$", "".join(mark + place[directive] for directive, mark in marks)


def _from_python_format(texts: pa.Array, time_format: str) -> Parsed:
    """Parse formats that only Python's strptime knows, several microseconds a distinct text."""
    numbers = np.zeros(len(texts), dtype=np.int64)
    bad = np.zeros(len(texts), dtype=bool)
    naive = np.zeros(len(texts), dtype=bool)
    for i, text in enumerate(texts.to_pylist()):
        try:
            moment = datetime.strptime(text or "", time_format)
            naive[i] = moment.tzinfo is None
            if moment.tzinfo is not None:
                moment = moment.astimezone(timezone.utc).replace(tzinfo=None)
        except (ValueError, OverflowError):
            bad[i] = True
            continue
        nanoseconds = (moment - _EPOCH) // timedelta(microseconds=1) * UNITS["us"]
        bad[i] = abs(nanoseconds) > TIME_LIMIT
        numbers[i] = 0 if bad[i] else nanoseconds
    return np.where(bad, 0, numbers), bad, naive & ~bad


def _spread(encoded: pa.DictionaryArray, times: Times) -> Times:
    """Return each row's time: of its entry in the dictionary; null is bad."""
    codes = codes_of(encoded)
    again = None if times.again is None else np.append(times.again, 0)[codes]
    return Times(np.append(times.time, 0)[codes], np.append(times.bad, True)[codes], again)


def _integers(values: pa.Array) -> npt.NDArray[np.int64]:
    numbers = values.cast(pa.int64()).fill_null(0)
    result: npt.NDArray[np.int64] = numbers.to_numpy(zero_copy_only=False)
    return result


def _is_null(values: pa.Array) -> npt.NDArray[np.bool_]:
    return _mask(values.is_null())


def _mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    result: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return result
