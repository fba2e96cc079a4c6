"""A look at the first times: a job whose times would be misread, or not read, ends before it runs.

Digits can be read in many ways, so a number is taken for seconds since 1970 only where no other
usual reading makes a time of our days of it, or where the user says so.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.errors import DataError
from kerneltrack.time_units import NANOSECONDS, UNITS
from transforms.read.columns import Columns
from transforms.read.date_and_time import time_column
from transforms.read.formats import FileInfo, PieceRows
from transforms.read.kinds import as_bytes, is_number, is_text, texts_of
from transforms.read.local_times import read_times
from transforms.read.parse import plain
from transforms.read.time_formats import parse_format
from transforms.read.time_reasons import why_bad
from transforms.read.times import Times, to_nanoseconds

_DATES = (
    *("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%Y"),
    *("%m-%d-%Y", "%d-%m-%y", "%m-%d-%y", "%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%d", "%y/%m/%d"),
    *("%y-%m-%d", "%Y%m%d", "%d%m%Y", "%Y %m %d", "%d %m %Y", "%Y %j", "%Y/%j", "%Y.%j"),
    *("%d %b %Y", "%d %b %y", "%d-%b-%Y", "%d-%b-%y", "%d/%b/%Y", "%d%b%Y", "%d. %b %Y"),
    *("%b %d %Y", "%b %d, %Y", "%b-%d-%Y", "%Y %b %d", "%Y-%b-%d", "%a %b %d %Y"),
    *("%a, %d %b %Y", "%a %d %b %Y", "%a, %b %d, %Y"),
)
_CLOCKS = (
    *("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%H:%M:%S,%f", "%H:%M:%S:%f", "%I:%M:%S %p", "%I:%M %p"),
    *(
        "%I:%M:%S.%f %p",
        "%I.%M.%S.%f %p",
        "%I:%M%p",
        "%I:%M:%S%p",
        "%H.%M.%S",
        "%H.%M.%S.%f",
        "%H.%M",
        "%H%M%S",
    ),
    *("%H%M", "%H%M%S.%f", "%H-%M-%S"),
)
_BETWEEN = (" ", "T", ", ", "_", "-", ":", "")
_FORMATS = (
    *(f"{date}{mark}{clock}" for date in _DATES for clock in _CLOCKS for mark in _BETWEEN),
    *_DATES,
    *(f"{clock} {date}" for clock in _CLOCKS[:9] for date in _DATES),
    *(f"%a %b %d {clock} {zone}%Y" for clock in _CLOCKS[:4] for zone in ("", "%Z ")),
    "%Y-%m-%d %H",
    "%Y-%m",
)
_CALENDAR = ("%Y%m%d", "%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S", "%Y%m%d%H%M%S%f")
"""How whole numbers write a date."""
_LIKELY = ("1995-01-01", "2060-01-01")
"""Times outside of these are read as they are only where nothing else brings them into it."""
_CALENDAR_YEARS = ("1900-01-01", "2100-01-01")
_OTHER = "Etc/GMT-5"
"""Any zone but UTC whose clock never changes."""
_HOUR = 3600 * NANOSECONDS["s"]
_MOST = 0.9
"""Share of the first rows that a reading must suit: some rows may be wrong in each."""
_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"


def check_times(info: FileInfo, rows: PieceRows, columns: Columns) -> list[str]:
    """Check that the first rows' times are as the options say, or else of no usual other form.

    Returns:
        Lines about times that are missing, or cannot be read, in some of them.

    Raises:
        DataError: if most cannot be read, or may well be something else, with the flag to give.
    """
    if columns.time is None or not rows.batch.num_rows:
        return []
    values, name = time_column(rows.batch, columns), " ".join(columns.times)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    there = values.filter(values.is_valid())
    if is_text(there.type):
        there = there.filter(pc.greater(pc.binary_length(as_bytes(there)), 0))
    many = f"{len(values):,} row{'' if len(values) == 1 else 's'}"
    if not len(there):
        return [f"{name}: none of the first {many} has a time"]
    look = _FirstTimes(info, columns, name, there)
    if _are_numbers(there):
        look.check_numbers()
    else:
        look.check_texts()
    lines = [f"{name}: {line}" for line in (*look.mixtures(), *look.half_days())]
    missing = len(values) - len(there)
    if missing:
        lines.append(f"{name}: missing in {missing:,} of the first {many}")
    bad = read_times(there, columns).bad
    if bad.any():
        (example,) = plain(there.filter(pa.array(bad)).slice(0, 1))
        lines.append(
            f"{name}: {int(bad.sum()):,} of the first {many} have a time that cannot be read, "
            f"such as {example}: is it written in more than one way?"
        )
    return lines


class _FirstTimes:
    """The times of a column's first rows, all of them there."""

    def __init__(self, info: FileInfo, columns: Columns, name: str, values: pa.Array) -> None:
        self._info = info
        self._columns = columns
        self._options = columns.options
        self._name = name
        self._values = values
        (self._example,) = plain(values.slice(0, 1))

    def check_numbers(self) -> None:
        """Refuse numbers that another unit, or a calendar, brings into our days."""
        unit, form = self._options.time_unit, self._options.time_format
        if self._mostly_read() and (unit is not None or form is not None):
            return
        others = self._other_numbers()
        ours = self._share(self._now(), _LIKELY) >= _MOST
        if unit is None and form is None and self._mostly_read():
            if ours and not any("--time-format" in way for way in others):
                return
            far = self._share(self._now(), ("1700-01-01", "2100-01-01")) < 1 - _MOST
            if not others and not far:
                return
            others.append("--time-unit s if that is right")
            (read,) = self._shown(self._now())
            self._refuse(f"would be {read} in seconds since 1970: try", others)
        if not others:
            self._refuse_unread()
        wanted = repr(form) if form is not None else f"in {self._options.unit}"
        self._refuse(f"are not {wanted}: try", others)

    def check_texts(self) -> None:
        """Refuse texts of which most cannot be read."""
        if self._mostly_read():
            return
        texts = texts_of(self._values) if is_text(self._values.type) else []
        formats = formats_of([text or "" for text in texts], self._options.time_zone)
        if not formats:
            self._refuse_unread()
        form = self._options.time_format
        wanted = "ISO 8601" if form is None else repr(form)
        tried = [f"--time-format {shlex.quote(form)}" for form in formats]
        doubt = " (no day is above 12: which is meant?)" if len(formats) > 1 else ""
        self._refuse(f"are not {wanted}: try", tried, doubt)

    def mixtures(self) -> list[str]:
        """Return how times are read that are not written like the others."""
        if not is_text(self._values.type):
            return []
        lines, options = [], self._options
        numbers = _which_numbers(self._values)
        if options.time_format is None and 0 < numbers.sum() < len(numbers):
            (example,) = plain(self._values.filter(pa.array(numbers)).slice(0, 1))
            lines.append(
                f"numbers, such as {example}, among other times: they are read as "
                f"{UNITS[options.unit].about}"
            )
        if options.time_zone == "UTC":
            there = self._now()
            elsewhere = to_nanoseconds(self._values, options.unit, _OTHER, options.time_format)
            local = (there.time != elsewhere.time) & ~there.bad
            if local.any() and not (local | there.bad | numbers).all():
                lines.append(
                    "some times name their zone, others do not: these are taken for UTC "
                    "(--time-zone)"
                )
        return lines

    def half_days(self) -> list[str]:
        """Return a line where hours seem to be of a clock of twelve, without AM and PM."""
        times = self._now()
        if not is_text(self._values.type) or times.bad.any():
            return []
        day, hour = np.divmod(times.time // _HOUR, 24)
        noon = (hour[:-1] == 12) & (hour[1:] == 1) & (day[:-1] == day[1:])
        if hour.min() < 1 or hour.max() > 12 or not noon.any():
            return []
        return [
            "no hour is 0 or above 12, and 12 is followed by 1 on the same day: is this a clock of "
            "12 hours, and AM or PM is lost? Then half of the times are wrong"
        ]

    def _now(self) -> Times:
        # Whether a local time comes twice says nothing of how it is written.
        options = self._options
        return to_nanoseconds(self._values, options.unit, "UTC", options.time_format)

    def _mostly_read(self) -> bool:
        return 2 * int(read_times(self._values, self._columns).bad.sum()) <= len(self._values)

    def _other_numbers(self) -> list[str]:
        """Return the flags of other readings, with what the first number would be."""
        found = []
        for form in _CALENDAR:
            times = to_nanoseconds(self._values, "s", "UTC", form)
            if form != self._options.time_format and self._share(times, _CALENDAR_YEARS) >= _MOST:
                found.append(f"--time-format {form} ({', '.join(self._shown(times))})")
        for unit in () if found else UNITS:
            times = to_nanoseconds(self._values, unit)
            if unit != self._options.unit and self._share(times, _LIKELY) >= _MOST:
                found.append(f"--time-unit {unit} ({', '.join(self._shown(times))})")
        return found

    @staticmethod
    def _share(times: Times, span: tuple[str, str]) -> float:
        first, last = np.array(span, "M8[ns]").astype(np.int64).tolist()
        return float(np.mean(~times.bad & (times.time >= first) & (times.time < last)))

    @staticmethod
    def _shown(times: Times) -> list[str]:
        return [
            str(at).replace("T", " ")
            for at in times.time[~times.bad][:1].astype("M8[ns]").astype("M8[s]")
        ]

    def _refuse_unread(self) -> None:
        bad = read_times(self._values, self._columns).bad
        _, why = next(why_bad(self._values, bad, self._options))
        raise DataError(
            self._info.path,
            f"the times of {self._name}, such as {self._example}, cannot be read: {why} "
            "(--time-format and --time-unit say how they are written)",
        )

    def _refuse(self, what: str, ways: Sequence[str], doubt: str = "") -> None:
        text = f"the times of {self._name}, such as {self._example}, {what} {' or '.join(ways)}"
        raise DataError(self._info.path, text + doubt)


def _are_numbers(values: pa.Array) -> bool:
    """Check whether most values are numbers, or texts of some."""
    if is_number(values.type):
        return True
    if not is_text(values.type):
        return False
    return bool(2 * _which_numbers(values).sum() > len(values))


def _which_numbers(values: pa.Array) -> npt.NDArray[np.bool_]:
    texts = pa.array(texts_of(values), pa.string())
    found = pc.match_substring_regex(texts, _NUMBER).fill_null(False)
    numbers: npt.NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return numbers


def formats_of(texts: Sequence[str], zone: str) -> list[str]:
    """Return the usual formats that read most texts: several where day and month may be either.

    Args:
        texts: Times, none empty.
        zone: IANA zone whose abbreviations come first.
    """
    if not texts:
        return []
    # Trying one costs a fraction of a millisecond, and there are thousands.
    first, array = pa.array(texts[:1]), pa.array(texts)
    alike = [form for form in _formats_like(texts[0]) if not _reads(first, form, zone) < 1]
    shares = {form: _reads(array, form, zone) for form in alike}
    best = max(shares.values(), default=0.0)
    able = [form for form, share in shares.items() if share == best >= _MOST]
    return able[:1] + [form for form in able[1:] if sorted(form) == sorted(able[0])]


def _formats_like(text: str) -> Iterator[str]:
    """Yield the formats with digits, letters and marks where a text has them, in their order."""
    ends = {text: ""}
    zone = _ZONE.search(text)
    if zone is not None:
        ends[text[: zone.start()]] = zone[1] + ("%z" if zone[2][-1].isdigit() else "%Z")
    for body, end in ends.items():
        for form in _formats_by_skeleton()[_skeleton(body)]:
            yield form + end


_ZONE = re.compile(r"(\s*)((?:UTC|GMT)?[+-][0-9]{2}:?[0-9]{2}|[A-Z]{1,5})$")


def _skeleton(text: str) -> str:
    """Return a text with 9 for digits and A for letters.

    Example:
        >>> _skeleton("01-Mar-2026 00:00") == _skeleton(_sample("%d-%b-%Y %H:%M"))
        True
    """
    text = re.sub("[A-Za-z]+", "A", re.sub("[0-9]+", "9", text.strip()))
    return re.sub(r"\s+", " ", text)


def _sample(form: str) -> str:
    return re.sub("%.", lambda found: "A" if found[0][1] in "abpZ" else "9", form)


@cache
def _formats_by_skeleton() -> defaultdict[str, list[str]]:
    # Made when a text needs it: it takes as long as an import of many modules.
    found = defaultdict[str, list[str]](list)
    for form in dict.fromkeys(_FORMATS):
        found[_skeleton(_sample(form))].append(form)
    return found


def _reads(texts: pa.Array, form: str, zone: str) -> float:
    """Return the share of texts that a format reads."""
    return float(np.mean(~parse_format(texts, form, zone).bad))
