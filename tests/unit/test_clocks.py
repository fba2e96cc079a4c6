"""What clocks of a zone show, against `zoneinfo`, one time after the other."""

from __future__ import annotations

from datetime import datetime, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltrack.monitor.clocks import UTC, is_zone, local_times

HOUR = 3600 * 10**9
ZONES = ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", UTC]


@given(st.lists(st.integers(0, 4 * 10**9), max_size=20), st.sampled_from(ZONES))
def test_offsets_are_those_of_the_data_base(seconds: list[int], zone: str) -> None:
    times = np.array(seconds, np.int64) * 10**9 + 7
    shown = [
        datetime.fromtimestamp(s, ZoneInfo(zone)).replace(tzinfo=timezone.utc) for s in seconds
    ]
    expected = [int(moment.timestamp()) * 10**9 + 7 for moment in shown]
    assert local_times(times, zone).tolist() == expected


@pytest.mark.parametrize("zone", ZONES)
def test_a_change_of_the_clock_is_where_the_data_base_has_it(zone: str) -> None:
    begin = int(datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp())
    seconds = begin + 60 * np.arange(366 * 1440)
    shown = local_times(seconds * 10**9, zone) // 10**9
    changes = np.flatnonzero(np.diff(shown - seconds)) + 1
    for second in seconds[np.concatenate([changes - 1, changes])].tolist():
        moment = datetime.fromtimestamp(second, ZoneInfo(zone))
        offset = moment.utcoffset()
        assert offset is not None
        assert shown[(second - begin) // 60] - second == offset.total_seconds()
    assert len(changes) == (2 if zone in ZONES[:3] else 0)


def test_times_before_1970_and_at_the_ends_have_an_offset() -> None:
    times = np.array([-(2**62), -1, 0, 2**62])
    ahead = local_times(times, "Asia/Kolkata") - times
    assert ahead[1:].tolist() == [int(5.5 * HOUR)] * 3
    assert ahead[0] > 0


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "Europe", "../etc/passwd", "/etc/passwd"])
def test_what_is_no_zone_is_known(name: str) -> None:
    assert not is_zone(name)
    assert is_zone("Europe/Berlin")
