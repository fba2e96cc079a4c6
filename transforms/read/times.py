"""Times of any Arrow type as nanoseconds since 1970 UTC.

The unreadable ones are marked, and so are local times that the clock showed twice, or never.
"""

from __future__ import annotations

import functools
import re
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.limits import TIME_LIMIT
from kerneltrack.time_units import NANOSECONDS, UNITS, TimeUnit
from transforms.read.kinds import as_bytes, codes_of, encode, is_number, is_text, texts_of
from transforms.read.time_formats import parse_format, parse_iso

_EPOCH = datetime(1970, 1, 1)
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[T ][0-9]{2}(:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?)?"
_ZONE = r" ?(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_DECIMALS = 18
_REAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?"

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
        unit: Unit of numbers, one of `time_units.UNITS`.
        zone: IANA zone of timestamps, dates and texts that do not say theirs.
        time_format: Format of texts, and of whole numbers such as 20260301, as for
            `datetime.strptime`; None: ISO 8601.

    Returns:
        Times, which of them are bad, and which are local times that do not come exactly once.
        Fractions of a nanosecond are rounded to the nearest.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _spread(values, to_nanoseconds(values.dictionary, unit, zone, time_format))
    if time_format is not None and is_number(kind):
        return _from_text(as_digits(values), unit, zone, time_format)
    if is_text(kind):
        return _from_text(values, unit, zone, time_format)
    if pa.types.is_date(kind):
        values = values.cast(pa.timestamp("ms"))
        kind = values.type
    if pa.types.is_timestamp(kind):
        numbers, bad = _scale(_integers(values), _is_null(values), NANOSECONDS[kind.unit])
        return Times(numbers, bad) if kind.tz else _localise(numbers, bad, ~bad, zone)
    if pa.types.is_duration(kind):
        return Times(*_scale(_integers(values), _is_null(values), NANOSECONDS[kind.unit]))
    numbers, bad = _from_numbers(values, UNITS[unit])
    return _localise(numbers, bad, ~bad, zone) if UNITS[unit].local else Times(numbers, bad)


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


def _from_numbers(values: pa.Array, unit: TimeUnit) -> Nanoseconds:
    factor, limit = unit.nanoseconds, TIME_LIMIT // unit.nanoseconds
    if pa.types.is_integer(values.type):
        bad = _is_null(values)
        if pa.types.is_uint64(values.type):
            most = pa.scalar(2**63 - 1, pa.uint64())
            bad |= _mask(pc.greater(values, most).fill_null(True))
        whole = _integers(values.cast(pa.int64(), safe=False))
        bad |= (whole > unit.epoch + limit) | (whole < unit.epoch - limit)
        return np.where(bad, 0, (whole - unit.epoch) * factor - unit.shift), bad
    if pa.types.is_decimal(values.type) and unit.digits is not None:
        try:
            return _from_decimals(values.cast(pa.decimal128(38, unit.digits)), unit)
        except pa.ArrowInvalid:
            pass
    since = values.cast(pa.float64()).to_numpy(zero_copy_only=False) - unit.epoch
    bad = ~(np.abs(since) <= limit)
    since = np.where(bad, 0.0, since)
    # The product of a large whole part would lose what the fraction still says.
    whole = np.floor(since)
    fraction = np.rint((since - whole) * factor / unit.step).astype(np.int64) * unit.step
    time = whole.astype(np.int64) * factor + fraction - unit.shift
    return np.where(bad, 0, time), bad


def _from_decimals(values: pa.Array, unit: TimeUnit) -> Nanoseconds:
    """Return exact times of decimal128 with as many digits as there are nanoseconds in a unit."""
    words = np.frombuffer(values.buffers()[1], np.int64)
    words = words[2 * values.offset : 2 * (values.offset + len(values))].reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    bad = _is_null(values) | (high != low >> 63)
    epoch = unit.epoch * unit.nanoseconds
    bad |= (low > min(epoch + TIME_LIMIT, 2**63 - 1)) | (low < epoch - TIME_LIMIT)
    return np.where(bad, 0, low - epoch), bad


def _as_decimals(texts: pa.Array, digits: int) -> pa.Array:
    """Read texts as decimals, rounded to some digits.

    Raises:
        pa.ArrowInvalid: if one is no number, or has more than 18 digits after the point.
    """
    kind = pa.decimal128(38, digits)
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return pc.round(texts.cast(pa.decimal128(38, _DECIMALS)), digits).cast(kind)


def as_digits(values: pa.Array) -> pa.Array:
    """Write whole numbers as texts, for a format: 20260301 is one of "%Y%m%d"."""
    if not pa.types.is_integer(values.type):
        reals = values.cast(pa.float64())
        whole = pc.and_(pc.equal(reals, pc.trunc(reals)), pc.less(pc.abs(reals), 2.0**53))
        values = pc.if_else(whole, reals, None).cast(pa.int64())
    return values.cast(pa.string())


def change_between(zone: str, first: int, last: int) -> int:
    """Return the instant between two, ns since 1970, from which a zone's clock is another one.

    Args:
        zone: IANA zone.
        first: Before the change, which is at a whole second.
        last: After it, or at it.
    """
    second = NANOSECONDS["s"]
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
    end = (_LAST_RULES - _EPOCH) // timedelta(microseconds=1) * NANOSECONDS["us"]
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
    if time_format is None and _begins_with_a_number(values):
        found = _all_digits(values, UNITS[unit])
        if found is not None:
            numbers, bad = found
            return _localise(numbers, bad, ~bad, zone) if UNITS[unit].local else Times(*found)
    distinct = encode(values)
    known = as_utf8(distinct.dictionary)
    if time_format is None:
        numbers, bad, naive = _from_iso(known)
        rest = np.flatnonzero(bad)
        others = known.take(pa.array(rest))
        numbers[rest], bad[rest] = _from_digits(others, UNITS[unit])
        naive[rest] = ~bad[rest] & UNITS[unit].local
        rest = np.flatnonzero(bad)
        others = pc.utf8_trim_whitespace(known.take(pa.array(rest)))
        numbers[rest], bad[rest], naive[rest] = parse_iso(others, zone)
    else:
        numbers, bad, naive = parse_format(known, time_format, zone)
    return _spread(distinct, _localise(numbers, bad, naive & ~bad, zone))


def as_utf8(texts: pa.Array) -> pa.Array:
    """Return texts that are UTF-8 for sure; others are null."""
    try:
        return as_bytes(texts).cast(pa.string())
    except pa.ArrowException:
        return pa.array(texts_of(texts), pa.string())


def _begins_with_a_number(values: pa.Array) -> bool:
    for value in as_bytes(values[:1]).to_pylist():
        return (
            value is not None and re.fullmatch(_REAL, value.strip().decode("latin-1")) is not None
        )
    return False


def _all_digits(values: pa.Array, unit: TimeUnit) -> Nanoseconds | None:
    """Read texts that are all plain numbers; None if one is not."""
    if unit.digits is None:
        return None
    try:
        texts = pc.utf8_trim_whitespace(as_bytes(values).cast(pa.string()))
        return _from_decimals(_as_decimals(texts, unit.digits), unit)
    except pa.ArrowException:
        return None


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


def _from_digits(texts: pa.Array, unit: TimeUnit) -> Nanoseconds:
    """Read texts that are numbers; as `_all_digits` reads them, whatever is beside them."""
    numbers = np.zeros(len(texts), dtype=np.int64)
    bad = np.ones(len(texts), dtype=bool)
    texts = pc.utf8_trim_whitespace(texts)
    is_number = pc.match_substring_regex(texts, f"^{_REAL}$").fill_null(False)
    if unit.digits is not None:
        at = np.flatnonzero(_mask(is_number))
        numbers[at], bad[at] = _cast_numbers(texts.take(pa.array(at)), unit)
        return numbers, bad
    texts = pc.replace_substring_regex(texts, r"^(-?[0-9]{1,18})\.0*$", r"\1")
    is_whole = pc.match_substring_regex(texts, "^-?[0-9]{1,18}$").fill_null(False)
    for mask, kind in (
        (is_whole, pa.int64()),
        (pc.and_not(is_number, is_whole), pa.float64()),
    ):
        at = np.flatnonzero(_mask(mask))
        numbers[at], bad[at] = _from_numbers(texts.take(pa.array(at)).cast(kind), unit)
    return numbers, bad


def _cast_numbers(texts: pa.Array, unit: TimeUnit) -> Nanoseconds:
    """Read numbers exactly; halve them where one is too long for that."""
    if not len(texts):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
    try:
        return _from_decimals(_as_decimals(texts, unit.digits or 0), unit)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return _from_numbers(texts.cast(pa.float64()), unit)
    middle = len(texts) // 2
    parts = [_cast_numbers(texts[:middle], unit), _cast_numbers(texts[middle:], unit)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


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
