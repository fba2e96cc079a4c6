"""Times as people on the site read them: in the zone of the run, against `zoneinfo`."""

from __future__ import annotations

from datetime import datetime, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.report.clock import UTC_CLOCK, SiteClock, clock_of, ns_of


def at(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp()) * 10**9


def test_times_are_those_of_the_zone_and_name_it() -> None:
    clock = clock_of({"times": {"zone": "Europe/Berlin"}})
    assert clock.named(at("2026-06-20T04:20:00")) == "2026-06-20 06:20:00 CEST"
    assert clock.named(at("2026-01-20T04:20:00")) == "2026-01-20 05:20:00 CET"
    # The hour that comes twice: the clock's name tells which.
    assert clock.named(at("2026-10-25T00:30:00")) == "2026-10-25 02:30:00 CEST"
    assert clock.named(at("2026-10-25T01:30:00")) == "2026-10-25 02:30:00 CET"
    assert UTC_CLOCK.named(at("2026-06-20T04:20:00")) == "2026-06-20 04:20:00 UTC"


@pytest.mark.parametrize("times", [None, {}, {"zone": None}, {"zone": "Mars/Dome"}])
def test_without_a_zone_that_is_known_times_are_utc(times: dict[str, str] | None) -> None:
    assert clock_of({"times": times}) == clock_of({}) == UTC_CLOCK


@given(
    st.sampled_from(["Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "UTC"]),
    st.integers(0, 4_000_000_000),
)
def test_any_time_is_what_a_clock_there_shows(zone: str, second: int) -> None:
    shown = datetime.fromtimestamp(second, ZoneInfo(zone))
    named = SiteClock(zone).named(second * 10**9)
    assert named == f"{shown:%Y-%m-%d %H:%M:%S} {shown.tzname()}"
    utc = datetime.fromtimestamp(second, timezone.utc)
    assert ns_of(f"{utc:%Y-%m-%d %H:%M:%S}") == second * 10**9
