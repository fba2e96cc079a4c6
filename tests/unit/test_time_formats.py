"""Times written as texts and numbers: what is written is read back, and nothing is read as another.

The oracle is Python's own calendar.
"""

from __future__ import annotations

import decimal
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from kerneltrack.limits import TIME_LIMIT
from kerneltrack.time_units import UNITS
from pipelines.files.times_look import formats_of
from tests.parts import examples
from transforms.read.column_options import ColumnOptions
from transforms.read.times import to_nanoseconds

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)
DATES = st.datetimes(datetime(1700, 1, 1), datetime(2250, 1, 1))
RECENT = st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31))


def ns(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND * 1000


def convert(values: pa.Array, **options: str) -> list[int | None]:
    times = to_nanoseconds(values, **options)
    return [None if bad else int(n) for n, bad in zip(times.time, times.bad, strict=True)]


def one(text: str, time_format: str | None = None, zone: str = "UTC") -> int | None:
    (found,) = convert(pa.array([text]), time_format=time_format, zone=zone)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(
    ("form", "step"),
    [
        ("%Y%m%d%H%M%S%f", 1),
        ("%d.%m.%Y %H:%M:%S,%f", 1),
        ("%m/%d/%Y %I:%M:%S.%f %p", 1),
        ("%a %b %d %H:%M:%S %Y", 10**6),
        ("%A, %d %B %Y %X", 10**6),
        ("%Y-%j %H%M%S", 10**6),
        ("%G-W%V-%u %H:%M", 60 * 10**6),
        ("%Y%m%d%H", 3600 * 10**6),
        ("%c", 10**6),
    ],
)
@settings(max_examples=examples(20))
@given(moments=st.lists(DATES, min_size=1))
def test_any_instant_is_read_back(form: str, step: int, moments: list[datetime]) -> None:
    cut = [EPOCH + (m - EPOCH) // (step * MICROSECOND) * (step * MICROSECOND) for m in moments]
    texts = [f"{m:%Y}".zfill(4) and m.strftime(form) for m in cut]
    assert convert(pa.array(texts), time_format=form) == [ns(m) for m in cut]
    assert convert(pa.array([t.upper() for t in texts]), time_format=form) == [ns(m) for m in cut]


@given(RECENT, st.sampled_from(["%d-%b-%y %H:%M:%S", "%m/%d/%y %I:%M:%S%p", "%y%m%d%H%M%S"]))
def test_two_digits_of_a_year_are_of_1970_to_2068(moment: datetime, form: str) -> None:
    moment = moment.replace(microsecond=0)
    assert one(moment.strftime(form), form) == ns(moment)


@given(
    st.sampled_from(["%d/%m/%Y %H:%M:%S", "%Y-%m-%d %I:%M %p", "%b %d %Y %H:%M", "%d%m%Y"]),
    st.text("0123456789/-: apmAPMJanFebMr", max_size=20) | DATES.map(str),
)
@example("%d/%m/%Y %H:%M:%S", "29/02/2023 00:00:00")
@example("%Y-%m-%d %I:%M %p", "2023-01-01 00:10 AM")
@example("%d%m%Y", "1112023")
def test_what_is_read_is_what_python_reads(form: str, text: str) -> None:
    found = one(text, form)
    if found is not None:
        text = text.replace(" 24:00", " 00:00").strip()
        assert found % (86_400 * 10**9) == 0 or found == ns(datetime.strptime(text, form))


@given(st.integers(-TIME_LIMIT, TIME_LIMIT))
@example(1_772_323_200_000_000_100)
def test_nanoseconds_are_exact(time: int) -> None:
    whole = pa.array([str(time), str(time)])
    assert convert(whole, unit="ns") == [time] * 2
    assert convert(pa.array(["", str(time), "x"]), unit="ns") == [None, time, None]
    for unit, digits in (("s", 9), ("ms", 6), ("us", 3)):
        number = decimal.Decimal(time).scaleb(-digits)
        texts = [f"{number:f}", f" {number:f} "]
        assert convert(pa.array(texts), unit=unit) == [time, time]
        assert convert(pa.array([*texts, "soon"]), unit=unit) == [time, time, None]
        kind = pa.decimal128(38, 9)
        assert convert(pa.array([number], kind), unit=unit) == [time]


@pytest.mark.parametrize("unit", UNITS)
@settings(max_examples=examples(20))
@given(moment=st.datetimes(datetime(1970, 1, 1), datetime(2150, 1, 1)))
def test_every_unit_is_read_back(unit: str, moment: datetime) -> None:
    known = UNITS[unit]
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    with decimal.localcontext() as context:
        context.prec = 60
        number = decimal.Decimal(ns(moment) + known.shift) / known.nanoseconds + known.epoch
        texts = [f"{round(number, 10):f}"]
    found = convert(pa.array(texts), unit=unit)
    assert found == [ns(moment)]
    assert convert(pa.array([*texts, "x"]), unit=unit)[:1] == found
    if known.nanoseconds >= 10**6:
        assert abs(convert(pa.array([float(number)]), unit=unit)[0] - ns(moment)) < 10**6  # type: ignore[operator]
    if number == int(number):
        assert convert(pa.array([int(number)]), unit=unit) == found
        assert known.instant(int(number)) == found[0]


@pytest.mark.parametrize(
    ("unit", "number", "moment"),
    [
        ("excel", 46_082, "2026-03-01T00:00"),
        ("excel", 46_082.5, "2026-03-01T12:00"),
        ("excel1904", 44_620.25, "2026-03-01T06:00"),
        ("matlab", 740_042.0, "2026-03-01T00:00"),
        ("julian", 2_461_100.5, "2026-03-01T00:00"),
        ("julian", 2_440_588, "1970-01-01T12:00"),
        ("labview", 3_855_168_000.0, "2026-03-01T00:00"),
        ("ntp", 3_981_312_000, "2026-03-01T00:00"),
        ("filetime", 134_167_968_000_000_000, "2026-03-01T00:00"),
        ("ticks", 639_079_200_000_000_000, "2026-03-01T00:00"),
    ],
)
def test_numbers_of_other_clocks(unit: str, number: float, moment: str) -> None:
    expected = int(np.datetime64(moment, "ns").astype(np.int64))
    assert convert(pa.array([number]), unit=unit) == [expected]
    assert UNITS[unit].instant(number) == expected
    limits = pa.array([2**63 - 1, -(2**63)])
    assert all(time is None or abs(time) <= TIME_LIMIT for time in convert(limits, unit=unit))


def test_only_numbers_of_local_clocks_have_a_zone() -> None:
    noon = 46_204.5
    assert convert(pa.array([noon]), unit="excel", zone="Europe/Berlin") == [
        ns(datetime(2026, 7, 1, 10))
    ]
    assert convert(pa.array([str(noon)]), unit="excel", zone="Europe/Berlin") == [
        ns(datetime(2026, 7, 1, 10))
    ]
    assert convert(pa.array([0]), unit="labview", zone="Europe/Berlin") == [
        ns(datetime(1904, 1, 1))
    ]


FIRST = ns(datetime(2026, 3, 1))
HOUR = 3600 * 10**9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01 00:00:00 UTC", FIRST),
        ("2026-03-01 00:00:00 GMT", FIRST),
        ("2026-03-01 01:00:00 CET", FIRST),
        ("2026-03-01T02:00 CEST", FIRST),
        ("20260301T000000Z", FIRST),
        ("20260301T000000", FIRST),
        ("20260301T0000", FIRST),
        ("20260301T010000.5+0100", FIRST + 500_000_000),
        ("2026-060", FIRST),
        ("2026-060T00:00:00", FIRST),
        ("2026060T010000", FIRST + HOUR),
        ("2026-W09-7", FIRST),
        ("2026-02-28T24:00:00", FIRST),
        ("2026-03-01T00:00:00,250", FIRST + 250_000_000),
        ("2026-03-01 00:00:00.000000001 z", FIRST + 1),
        ("2026-03-01T01:00:00+01:00[Europe/Paris]", FIRST),
        ("2026-02-28T22:00:00.5-02:00[Etc/GMT+2][u-ca=iso8601]", FIRST + 500_000_000),
        ("2026-03-01T00:00Z[UTC]", FIRST),
        ("2026-03-01T00:00[Europe/Paris]", None),
        ("2026-03-01T00:00:00+01:00[!Europe/Paris]", None),
        ("2026-02-28T24:00:01", None),
        ("2026-02-28T25:00", None),
        ("2026-366", None),
        ("2024-366", ns(datetime(2024, 12, 31))),
        ("2026-W54-1", None),
        ("2016-12-31T23:59:60Z", None),
        ("2026-03-01 00:00:00 CST", None),
        ("2026-03-01 00:00:00 XYZ", None),
        ("2026-03-01 00:00:00 PM", None),
        ("2026-03-01T00:00:00+24:00", None),
        ("20260230T000000", None),
    ],
)
def test_rarer_forms_of_iso_8601(text: str, expected: int | None) -> None:
    assert one(text) == expected
    assert convert(pa.array(["2026-03-01", text, None])) == [FIRST, expected, None]


@pytest.mark.parametrize(
    ("name", "zone", "hours"),
    [
        ("CST", "America/Chicago", -6),
        ("CST", "Asia/Shanghai", 8),
        ("IST", "Asia/Kolkata", 5.5),
        ("IST", "Europe/Dublin", 1),
        ("EST", "America/New_York", -5),
        ("BST", "Europe/London", 1),
        ("JST", "America/Chicago", 9),
        ("cet", "UTC", 1),
        ("MSK", "UTC", None),
        ("MSK", "Europe/Moscow", None),
        ("EST", "UTC", None),
    ],
)
def test_abbreviations_of_zones(name: str, zone: str, hours: float | None) -> None:
    form = "%d.%m.%Y %H:%M %Z"
    expected = None if hours is None else ns(datetime(2026, 7, 1) - timedelta(hours=hours))
    assert one(f"01.07.2026 00:00 {name}", form, zone) == expected


def test_an_abbreviation_says_which_of_two_hours_is_meant() -> None:
    texts = pa.array(["2026-10-25 02:30 CEST", "2026-10-25 02:30 CET"])
    times = to_nanoseconds(texts, zone="Europe/Berlin")
    assert times.again is None
    assert times.time.tolist() == [
        ns(datetime(2026, 10, 25, 0, 30)),
        ns(datetime(2026, 10, 25, 1, 30)),
    ]


@pytest.mark.parametrize("machine", ["Europe/Berlin", "America/New_York", "UTC"])
def test_the_zone_of_the_machine_does_not_matter(machine: str) -> None:
    code = (
        "import pyarrow as pa\n"
        "from transforms.read.times import to_nanoseconds\n"
        "form = '%Y-%m-%d %H:%M:%S %Z'\n"
        "texts = [f'2026-03-01 00:00:00 {name}' for name in ('CET', 'EST', 'UTC', 'EDT')]\n"
        "found = to_nanoseconds(pa.array(texts), time_format=form)\n"
        "print(found.time.tolist(), found.bad.tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TZ": machine},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = [FIRST - HOUR, 0, FIRST, FIRST + 4 * HOUR], [False, True, False, False]
    assert done.stdout == f"{expected[0]} {expected[1]}\n"


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        # A day of the week that is not the date's: day and month are swapped.
        ("%a %d/%m/%Y", "Sun 01/03/2026", FIRST),
        ("%a %m/%d/%Y", "Sun 01/03/2026", None),
        # Digits that are not all there.
        ("%Y%m%d", "202631", None),
        ("%H%M%S %d.%m.%Y", "500 01.03.2026", None),
        ("%Y%m%d", "20260301.0", FIRST),
        ("%d.%m.%Y %I:%M %p", "01.03.2026 12:00 a.m.", FIRST),
        ("%b %d %Y", "Mar  1 2026", FIRST),
        ("100%% %Y", "100% 2026", ns(datetime(2026, 1, 1))),
        ("%a, %d %b %Y %H:%M:%S %z", "Sun, 01 Mar 2026 01:00:00 +0100", FIRST),
        ("%a %b %d %Y %H:%M:%S %z", "Sun Mar 01 2026 01:00:00 GMT+0100", FIRST),
    ],
)
def test_formats(form: str, text: str, expected: int | None) -> None:
    assert one(text, form) == expected


def test_whole_numbers_have_a_format_too() -> None:
    days = [20_260_301, None, 20_260_230]
    for kind in (pa.int64(), pa.int32(), pa.float64()):
        assert convert(pa.array(days, kind), time_format="%Y%m%d") == [FIRST, None, None]
    assert convert(pa.array([20_260_301.5, float("nan")]), time_format="%Y%m%d") == [None, None]


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ("%H:%M:%S", "add the year"),
        ("%d.%m. %H:%M", "add the year"),
        ("%Y %H:%M", "add the day"),
        ("%Y-%m-%d %I:%M", "both %I and %p"),
        ("%Y-%m-%d %H:%M %p", "both %I and %p"),
        ("%Y-%m-%d %Q", "without %Q"),
        ("%Y-%m-%d %Y", "with %Y once"),
        ("%Y%m%d%f%H", "%f ends the digits"),
        ("yesterday", "strptime"),
        ("%", "without %"),
    ],
)
def test_formats_that_do_not_say_an_instant_are_refused(form: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        ColumnOptions(time_format=form)


@given(
    st.lists(RECENT, min_size=1, max_size=20),
    st.sampled_from(["%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%d.%m.%y %H:%M:%S", "%d-%b-%Y %H:%M"]),
)
def test_a_format_is_proposed_alone_only_if_no_other_reads_the_rows(
    moments: list[datetime], form: str
) -> None:
    texts = [moment.strftime(form) for moment in moments]
    found = formats_of(texts, "UTC")
    assert form in found
    others = [other for other in found if other != form]
    for other in others:
        assert all(one(text, other) is not None for text in texts)


def test_python_agrees_that_offsets_are_ahead() -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    moment = datetime(2026, 3, 1, 5, 30, tzinfo=zone)
    assert one(moment.isoformat()) == one(moment.strftime("%d.%m.%Y %H:%M %z"), "%d.%m.%Y %H:%M %z")
    assert one(moment.isoformat()) == FIRST
