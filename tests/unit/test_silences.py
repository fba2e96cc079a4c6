"""Times without a row: against a plain loop, and each device's own allowed time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from kerneltrack.monitor.silences import NEVER, Silence, allowed_time, own_time, silences_of

MINUTE = 60 * 10**9
DAY = 24 * 60


def plain(rows: list[tuple[int, int]], allowed: int) -> list[Silence]:
    """Each device's times, one after the other."""
    found = []
    end = max((time for _, time in rows), default=0)
    for model in sorted({model for model, _ in rows}):
        times = sorted(time for of, time in rows if of == model)
        for before, after in itertools.pairwise(times):
            if after - before > allowed:
                found.append(Silence(model, before, after, allowed))
        if end - times[-1] > allowed:
            found.append(Silence(model, times[-1], None, allowed))
    return found


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(-50, 50)), max_size=40),
    allowed=st.integers(1, 30),
)
def test_silences_are_those_of_a_plain_loop(rows: list[tuple[int, int]], allowed: int) -> None:
    models, times = np.array(rows, np.int64).reshape(-1, 2).T
    assert silences_of(models, times, allowed) == plain(rows, allowed)


def test_nights_are_no_silences_and_outages_are() -> None:
    minutes = np.arange(20 * DAY)
    of_days = minutes[minutes % DAY // 60 // 8 == 1]
    steady = minutes[(minutes < 5000) | (minutes > 5060)]
    times = np.concatenate([of_days, steady[steady < 15 * DAY]]) * MINUTE
    models = np.repeat([0, 1], [len(of_days), len(times) - len(of_days)])
    found = silences_of(models, times, None)
    assert [each.model for each in found] == [1, 1]
    assert (found[0].start, found[0].end) == (4999 * MINUTE, 5061 * MINUTE)
    assert (found[1].end, found[1].allowed) == (None, 20 * MINUTE)
    # The night is twice sixteen hours, or one to the end.
    assert own_time(np.diff(of_days * MINUTE)) == 2 * (16 * 60 + 1) * MINUTE


def test_few_rows_say_nothing_of_what_is_usual() -> None:
    assert own_time(np.ones(18, np.int64)) == NEVER
    assert own_time(np.ones(19, np.int64)) == 20


@pytest.mark.parametrize(
    ("text", "time"),
    [("15m", 15 * MINUTE), ("90 s", 90 * 10**9), ("12 hours", 720 * MINUTE), ("auto", None)],
)
def test_times_may_be_short(text: str, time: int | None) -> None:
    assert allowed_time("after", text) == time


@pytest.mark.parametrize("text", ["", "15", "15 rows", "15x", "0s", "15 mm", "-1h", "never"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="after"):
        allowed_time("after", text)
