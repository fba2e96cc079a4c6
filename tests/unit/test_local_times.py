"""Local times that come twice or never: found in every zone, and never guessed."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.read.column_options import ONLY_MODEL, ColumnOptions
from transforms.read.columns import Columns, resolve
from transforms.read.formats import FileInfo, PieceRows
from transforms.read.parse import parse
from transforms.read.times import NEVER, UNKNOWN, Times, to_nanoseconds

S = 1_000_000_000
BERLIN = "Europe/Berlin"
EPOCH = datetime.datetime(1970, 1, 1)


def utc(text: str) -> int:
    return int(np.datetime64(text, "ns").astype(np.int64))


def local(*texts: str) -> pa.Array:
    return pa.array([np.datetime64(text, "ns") for text in texts], pa.timestamp("ns"))


def reported(times: Times) -> list[tuple[int, int]]:
    """Each row's instant, and what is said of it."""
    assert times.again is not None
    assert not times.bad.any()
    return list(zip(times.time.tolist(), times.again.tolist(), strict=True))


@pytest.mark.parametrize(
    ("zone", "text", "instant", "again"),
    [
        (BERLIN, "2026-10-25T02:00:00", "2026-10-25T00:00:00", 3600 * S),
        (BERLIN, "2026-10-25T02:59:59.999999999", "2026-10-25T00:59:59.999999999", 3600 * S),
        (BERLIN, "2026-10-25T01:59:59.999999999", "2026-10-24T23:59:59.999999999", 0),
        (BERLIN, "2026-10-25T03:00:00", "2026-10-25T02:00:00", 0),
        (BERLIN, "2026-03-29T01:59:59", "2026-03-29T00:59:59", 0),
        (BERLIN, "2026-03-29T02:00:00", "2026-03-29T01:00:00", NEVER),
        (BERLIN, "2026-03-29T02:59:59", "2026-03-29T01:00:00", NEVER),
        (BERLIN, "2026-03-29T03:00:00", "2026-03-29T01:00:00", 0),
        # Half an hour.
        ("Australia/Lord_Howe", "2026-04-05T01:45:00", "2026-04-04T14:45:00", 1800 * S),
        ("Australia/Lord_Howe", "2026-04-05T01:15:00", "2026-04-04T14:15:00", 0),
        ("Australia/Lord_Howe", "2026-10-04T02:15:00", "2026-10-03T15:30:00", NEVER),
        ("Australia/Lord_Howe", "2026-10-04T02:45:00", "2026-10-03T15:45:00", 0),
        # Days that were left out, and one that came twice but for an hour.
        ("Pacific/Kwajalein", "1969-09-30T12:00:00", "1969-09-30T01:00:00", 23 * 3600 * S),
        ("Pacific/Apia", "2011-12-30T12:00:00", "2011-12-30T10:00:00", NEVER),
        ("Pacific/Apia", "2011-12-31T00:00:00", "2011-12-30T10:00:00", 0),
        ("Pacific/Kwajalein", "1993-08-21T12:00:00", "1993-08-21T12:00:00", NEVER),
        # Midnight.
        ("America/Sao_Paulo", "2018-11-04T00:00:00", "2018-11-04T03:00:00", NEVER),
        ("Africa/Cairo", "2025-04-25T00:00:00", "2025-04-24T22:00:00", NEVER),
        ("Asia/Beirut", "2026-03-29T00:00:00", "2026-03-28T22:00:00", NEVER),
        ("America/Havana", "2025-11-02T00:00:00", "2025-11-02T04:00:00", 3600 * S),
        # A zone that left its mean solar time.
        ("Asia/Tokyo", "1888-01-01T00:10:00", "1887-12-31T14:51:01", 1139 * S),
    ],
)
def test_hours_that_come_twice_or_never(zone: str, text: str, instant: str, again: int) -> None:
    beside = "1971-01-15T12:00:00"
    ordinary = to_nanoseconds(local(beside), zone=zone)
    found = to_nanoseconds(local(beside, text), zone=zone)
    assert found.time.tolist() == [int(ordinary.time[0]), utc(instant)]
    assert ([0, 0] if found.again is None else found.again.tolist()) == [0, again]


@pytest.mark.parametrize(
    ("values", "time_format"),
    [
        (local("2026-10-25T02:30", "2026-03-29T02:30", "2026-07-01"), None),
        (pa.array(["2026-10-25 02:30", "2026-03-29T02:30:00", "2026-07-01"]), None),
        (pa.array(["25.10.2026 02:30", "29.03.2026 02:30", "01.07.2026 00:00"]), "%d.%m.%Y %H:%M"),
        (
            pa.array(["25 Oct 2026 02:30", "29 Mar 2026 02:30", "01 Jul 2026 00:00"]),
            "%d %b %Y %H:%M",
        ),
    ],
)
def test_every_kind_of_local_time_is_told(values: pa.Array, time_format: str | None) -> None:
    expected = [
        (utc("2026-10-25T00:30"), 3600 * S),
        (utc("2026-03-29T01:00"), NEVER),
        (utc("2026-06-30T22:00"), 0),
    ]
    for given_values in (values, values.dictionary_encode()):
        assert reported(to_nanoseconds(given_values, "s", BERLIN, time_format)) == expected


def test_dates_are_midnights() -> None:
    dates = pa.array([datetime.date(2018, 11, 4), datetime.date(2018, 11, 5)])
    expected = [(utc("2018-11-04T03:00"), NEVER), (utc("2018-11-05T02:00"), 0)]
    assert reported(to_nanoseconds(dates, zone="America/Sao_Paulo")) == expected


def test_times_that_say_their_zone_and_numbers_are_not_in_doubt() -> None:
    half_past_two = utc("2026-10-25T02:30")
    for values, time_format in (
        (pa.array(["2026-10-25 02:30+00:00", "2026-03-29T02:30Z"]), None),
        (pa.array(["2026-10-25 02:30 +0000", "2026-03-29 02:30 +0000"]), "%Y-%m-%d %H:%M %z"),
        (pa.array([half_past_two, utc("2026-03-29T02:30")], pa.timestamp("ns", BERLIN)), None),
        (pa.array([half_past_two // S, utc("2026-03-29T02:30") // S]), None),
    ):
        found = to_nanoseconds(values, "s", BERLIN, time_format)
        assert (found.time[0], found.again) == (half_past_two, None)
    assert to_nanoseconds(local("2026-10-25T02:30")).again is None


def test_a_bad_text_beside_one_in_doubt() -> None:
    found = to_nanoseconds(pa.array(["2026-10-25 02:30", "oops", None]), zone=BERLIN)
    assert found.bad.tolist() == [False, True, True]
    assert found.time.tolist() == [utc("2026-10-25T00:30"), 0, 0]
    assert found.again is not None
    assert found.again.tolist() == [3600 * S, 0, 0]


def test_years_whose_changes_are_not_known() -> None:
    summer = local("2037-07-01T12:00", "2045-07-01T12:00")
    assert reported(to_nanoseconds(summer, zone=BERLIN))[0] == (utc("2037-07-01T10:00"), 0)
    assert reported(to_nanoseconds(summer, zone=BERLIN))[1][1] == UNKNOWN
    # A zone whose clock does not change.
    assert to_nanoseconds(summer, zone="Asia/Tokyo").again is None


ZONES = [
    *("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Gaza"),
    *("Africa/Cairo", "Africa/Casablanca", "America/Sao_Paulo", "Europe/London", "Asia/Tehran"),
    *("America/Havana", "Asia/Beirut", "Antarctica/Troll", "Europe/Dublin", "Asia/Kathmandu"),
]


@given(
    st.sampled_from(ZONES),
    st.lists(
        st.datetimes(datetime.datetime(1915, 1, 1), datetime.datetime(2037, 1, 1)), min_size=1
    ),
    st.integers(-7200, 7200),
)
def test_as_python_reads_local_times(
    zone: str, moments: list[datetime.datetime], shift: int
) -> None:
    """Against `zoneinfo`, at the given times and near the changes of the clock before them."""
    info = zoneinfo.ZoneInfo(zone)
    near = [_change_before(info, moment) for moment in moments]
    moments += [change + datetime.timedelta(seconds=shift) for change in near if change]
    texts = pa.array([moment.isoformat() for moment in moments])
    found = to_nanoseconds(texts, zone=zone)
    again = np.zeros(len(moments)) if found.again is None else found.again
    for moment, time, output_text in zip(moments, found.time.tolist(), again.tolist(), strict=True):
        first, last = (_utc_of(moment.replace(fold=fold, tzinfo=info)) for fold in (0, 1))
        if first <= last:
            assert (time, output_text) == (first, last - first)
        else:
            assert output_text == NEVER
            # Between what the two clocks would say; the first instant of the new one.
            assert last <= time <= first
            ahead = [info.utcoffset(_of_utc(time + by, info)) for by in (-S, 0)]
            assert ahead[0] != ahead[1]


def _utc_of(moment: datetime.datetime) -> int:
    naive = moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return (naive - EPOCH) // datetime.timedelta(microseconds=1) * 1000


def _of_utc(nanoseconds: int, info: zoneinfo.ZoneInfo) -> datetime.datetime:
    moment = EPOCH + datetime.timedelta(microseconds=nanoseconds // 1000)
    return moment.replace(tzinfo=datetime.timezone.utc).astimezone(info)


def _change_before(info: zoneinfo.ZoneInfo, moment: datetime.datetime) -> datetime.datetime | None:
    """The local time, as the old clock shows it, of a change in the 200 days before, if any."""
    low = (moment - EPOCH) // datetime.timedelta(seconds=1) - 200 * 86400
    high = low + 200 * 86400
    start, end = (_of_utc(at * S, info).utcoffset() for at in (low, high))
    if start == end:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _of_utc(middle * S, info).utcoffset() == start:
            low = middle
        else:
            high = middle
    assert start is not None
    return EPOCH + datetime.timedelta(seconds=high) + start


# What becomes of them ----------------------------------------------------------------------------


def columns_of(**options: Any) -> Columns:
    schema = pa.schema({"t": pa.string(), "x": pa.float64()})
    given_options = ColumnOptions(time="t", time_zone=BERLIN, **options)
    return resolve([FileInfo("a", "parquet", schema, None, ())], given_options)


def parsed(texts: Sequence[str], columns: Columns) -> tuple[dict[int, int], dict[int, str], Any]:
    """Times of the good rows and reasons of the others by row, and the counts."""
    batch = pa.record_batch({"t": pa.array(texts), "x": pa.array(np.ones(len(texts)))})
    good, failures = parse(PieceRows(batch, np.arange(len(texts))), 0, columns)
    assert good.time is not None
    failed = failures.batch
    reasons = dict(
        zip(failed.column("row").to_pylist(), failed.column("reason").to_pylist(), strict=True)
    )
    return dict(zip(good.row.tolist(), good.time.tolist(), strict=True)), reasons, good.local


AUTUMN = ["2026-10-25 01:30", "2026-10-25 02:30", "2026-10-25 03:30"]
SPRING = ["2026-03-29 01:30", "2026-03-29 02:30", "2026-03-29 03:30"]
AROUND_AUTUMN = {0: utc("2026-10-24T23:30"), 2: utc("2026-10-25T02:30")}
AROUND_SPRING = {0: utc("2026-03-29T00:30"), 2: utc("2026-03-29T01:30")}


@pytest.mark.parametrize("mode", ["fail", "earliest", "latest", "infer"])
def test_modes_of_autumn(mode: str) -> None:
    times, reasons, counts = parsed(AUTUMN, columns_of(time_ambiguous=mode))
    how = {
        "fail": "--time-ambiguous says which is meant",
        "infer": "the order of rows does not tell which is meant",
    }
    if mode in how:
        why = f"local time that comes twice in Europe/Berlin ({how[mode]})"
        assert reasons == {1: f"t = '2026-10-25 02:30': {why}"}
        assert times == AROUND_AUTUMN
    else:
        meant = "2026-10-25T00:30" if mode == "earliest" else "2026-10-25T01:30"
        assert (reasons, times) == ({}, {**AROUND_AUTUMN, 1: utc(meant)})
    assert counts == (1, int(mode in how), 0, 0)


@pytest.mark.parametrize("mode", ["fail", "shift"])
def test_modes_of_spring(mode: str) -> None:
    times, reasons, counts = parsed(SPRING, columns_of(time_nonexistent=mode))
    if mode == "fail":
        assert times == AROUND_SPRING
        assert reasons == {
            1: "t = '2026-03-29 02:30': local time that does not exist in Europe/Berlin "
            "(--time-nonexistent shift takes it)"
        }
    else:
        assert (reasons, times) == ({}, {**AROUND_SPRING, 1: utc("2026-03-29T01:00")})
    assert counts == (0, 0, 1, int(mode == "fail"))


def test_years_whose_changes_are_not_known_fail_in_every_mode() -> None:
    columns = columns_of(time_ambiguous="latest", time_nonexistent="shift")
    times, reasons, counts = parsed(["2045-07-01 12:00"], columns)
    assert (times, counts) == ({}, (0, 0, 0, 0))
    assert reasons == {
        0: "t = '2045-07-01 12:00': local time after 2037 (changes of the clock in Europe/Berlin "
        "unknown)"
    }


@pytest.mark.parametrize("dictionary", [False, True])
def test_reasons_show_timestamps_as_local_times(dictionary: bool) -> None:
    values = local("2026-10-25T02:30")
    values = values.dictionary_encode() if dictionary else values
    batch = pa.record_batch({"t": values, "x": pa.array([1.0])})
    _, failures = parse(PieceRows(batch, np.arange(1)), 0, columns_of())
    (reason,) = failures.batch.column("reason").to_pylist()
    assert reason.startswith("t = '2026-10-25 02:30:00.000000000': local time that comes twice")


def test_what_the_order_told_is_of_one_file_and_model() -> None:
    columns = columns_of(time_ambiguous="infer")
    told_of = {(0, ONLY_MODEL, utc("2026-10-25T01:00")): 2}
    columns = Columns(**{**vars(columns), "passages": told_of})
    texts = ["2026-10-25 02:10", "2026-10-25 02:50", "2026-10-25 02:10", "2025-10-26 02:10"]
    times, reasons, counts = parsed(texts, columns)
    assert times == {
        0: utc("2026-10-25T00:10"),
        1: utc("2026-10-25T00:50"),
        2: utc("2026-10-25T01:10"),
    }
    assert [*reasons] == [3]
    assert counts == (4, 1, 0, 0)
