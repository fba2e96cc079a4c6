"""Devices that send nothing, in live jobs: off after a while, by the worker's own clock."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.monitor.silences import NEVER, own_time
from tests.parts import examples
from tests.stream.running import SECOND, SPEC, Rows
from tests.stream.test_expiry import KEY, Tracking
from tests.stream.test_idle_flush import at
from tests.stream.test_reference import FOLLOWED, HELD, faulty
from transforms.keyed.commands import Command, as_chunk
from transforms.keyed.silence import Heard, SilentAfter
from transforms.track.log import EntryCoder
from transforms.track.order import Order
from transforms.track.transform import TrackSubspace

ROWS = faulty(1)
FIRST, LATER = np.arange(300), np.arange(300, 620)
AFTER = SilentAfter(20.0)


def tracking(folder: Path, after: SilentAfter | None = AFTER) -> Tracking:
    return Tracking(folder, FOLLOWED, HELD, devices=True, silent_after=after)


def last_rows(rows: Rows, count: int) -> int:
    """Time of the last of the first rows that a model can take."""
    good = np.flatnonzero(np.isfinite(rows.x).all(axis=1))
    return int(np.asarray(rows.time)[good[good < count][-1]])


def silences(found: Tracking) -> list[dict[str, object]]:
    names = ("index", "time", "state", "start_index", "start", "episode")
    return [
        {name: line[name] for name in names}
        for line in found.outcome.episodes.get(KEY, [])
        if line["kind"] == "silent"
    ]


def test_a_silent_device_is_off_until_its_next_row(tmp_path: Path) -> None:
    found = tracking(tmp_path)
    found.push(ROWS.take(FIRST))
    rows, since = len(found.outcome.features[KEY][0]), last_rows(ROWS, 300)
    found.miss()
    line = found.outcome.devices[KEY][-1]
    assert (line["state"], line["kind"], line["since"]) == ("off", "silent", since)
    assert (line["rows"], line["since_index"], line["episode"]) == (rows, rows - 1, None)
    assert found.unheard.due is None
    found.push(ROWS.take(LATER))
    first = int(np.asarray(ROWS.time)[300])
    begun = {"start_index": rows - 1, "start": since, "episode": None}
    assert silences(found) == [
        {"index": rows - 1, "time": since + 20 * SECOND, "state": "open", **begun},
        {"index": rows, "time": first, "state": "closed", **begun},
    ]
    states = [each["state"] for each in found.outcome.devices[KEY]]
    assert states[states.index("off") + 1] == "normal"
    assert found.unheard.due == found.now + 20


def test_nothing_else_depends_on_it(tmp_path: Path) -> None:
    outcomes = []
    for name, after in (("with", AFTER), ("without", None)):
        found = tracking(tmp_path / name, after)
        found.push(ROWS.take(FIRST))
        if after is not None:
            found.miss()
        found.push(ROWS.take(LATER))
        outcome = found.finish()
        outcome.episodes[KEY] = [e for e in outcome.episodes[KEY] if e["kind"] != "silent"]
        outcomes.append((outcome.table(KEY), outcome.episodes, outcome.snapshots))
    (left, *others), (right, *wanted) = outcomes
    assert others == wanted
    for name, values in left.items():
        assert np.array_equal(values, right[name], equal_nan=values.dtype.kind == "f")


def test_each_has_a_time_of_its_own(tmp_path: Path) -> None:
    found = tracking(tmp_path, SilentAfter(None))
    found.push(ROWS.take(np.arange(19)))
    assert found.unheard.due is None
    found.push(ROWS.take(np.arange(19, 300)))
    allowed = own_time(np.diff(np.asarray(ROWS.time)[:300])) / SECOND
    assert found.unheard.due == pytest.approx(found.now + allowed)
    found.miss()
    assert [each["state"] for each in silences(found)] == ["open"]


def test_a_timer_waits_for_what_is_left_and_for_what_nobody_has_read(tmp_path: Path) -> None:
    found = tracking(tmp_path)
    found.push(ROWS.take(FIRST))
    found.now += 5
    found.push(ROWS.take(LATER[:10]))
    found.miss()
    assert (silences(found), found.unheard.due) == ([], found.now + 5)
    # The job stood still for longer than the silence.
    found.miss(late_by=30)
    assert (silences(found), found.unheard.due) == ([], found.now + 20)
    # Another worker goes on: what came meanwhile is read first.
    with at(found.now + 15):
        found.step.setup()
    found.miss()
    assert (silences(found), found.unheard.due) == ([], found.now + 15)
    found.miss()
    assert len(silences(found)) == 1


def test_one_that_expires_stays_off(tmp_path: Path) -> None:
    found = tracking(tmp_path)
    found.push(ROWS.take(FIRST))
    found.miss()
    found.expire()
    assert found.outcome.devices[KEY][-1]["kind"] == "silent"
    found.push(ROWS.take(LATER))
    assert [each["state"] for each in silences(found)] == ["open", "closed"]
    assert "gone" not in {each["state"] for each in found.outcome.devices[KEY]}


def test_one_is_silent_after_it_has_expired(tmp_path: Path) -> None:
    """Where its own time is longer."""
    found = tracking(tmp_path, SilentAfter(90.0))
    found.push(ROWS.take(FIRST))
    found.expire()
    assert found.outcome.devices[KEY][-1]["state"] == "gone"
    found.miss()
    assert found.outcome.devices[KEY][-1]["kind"] == "silent"
    found.push(ROWS.take(LATER))
    assert [each["state"] for each in silences(found)] == ["open", "closed"]


def test_one_that_is_reset_while_it_is_silent_begins_with_its_next_row(tmp_path: Path) -> None:
    found = tracking(tmp_path)
    found.push(ROWS.take(FIRST))
    found.miss()
    timers = {"end": found.end, "idle": found.idle, "silent": found.silent}
    reported = {**found.cells, **timers, "unheard": found.unheard, "timestamp": 0}
    with at(found.now):
        found._keep(found.step.process((KEY, as_chunk(Command(None, None))), **reported))
    found.push(ROWS.take(LATER))
    assert [each["state"] for each in silences(found)] == ["open", "closed"]
    states = [each["state"] for each in found.outcome.devices[KEY]]
    assert states[-3:] == ["gone", "learning", "normal"]


@settings(max_examples=examples(100))
@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=60),
    st.lists(st.integers(0, 61), max_size=5),
)
def test_its_own_time_is_that_of_files_however_rows_are_cut(
    gaps: list[int], cuts: list[int]
) -> None:
    times = np.cumsum([0, *gaps])
    heard = Heard(seen=1.0)
    for part in np.split(times, sorted(cuts)):
        heard = heard.after(part, int(times[-1]))
    after, own = SilentAfter(None), own_time(np.array(gaps))
    wanted = np.inf if own >= NEVER else max(own / SECOND, 0.1)
    assert after.seconds(heard, None) == wanted
    coder = EntryCoder()
    assert coder.decode(coder.encode(heard)) == heard


def test_rows_that_are_too_far_ahead_say_nothing() -> None:
    heard = Heard(seen=1.0).after(np.array([10, 20, 10**15]), 20)
    assert (heard.newest, heard.gaps, heard.total) == (20, 1, 10)
    assert heard.after(np.array([5, 20]), 20) == heard


@pytest.mark.parametrize(
    "heard",
    [
        Heard(seen=float("nan")),
        Heard(rows=-2),
        Heard(gaps=-1),
        Heard(total=5, longest=(9, 0, 0)),
    ],
)
def test_damaged_ones_are_refused(heard: Heard) -> None:
    with pytest.raises(DataError, match="damaged: a silence"):
        Heard.decode(heard.encode())
    with pytest.raises(DataError, match="damaged: a silence of 3 bytes"):
        Heard.decode(b"abc")


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="silent_after"):
        TrackSubspace(SPEC, Order(max_disorder=1.0), silent_after=AFTER)
    with pytest.raises(ConfigError, match="silent_after"):
        TrackSubspace(SPEC, reference=HELD, silent_after=AFTER)
    order = Order(max_disorder=1.0, idle_flush=20.0)
    with pytest.raises(ConfigError, match="more than idle_flush = 20"):
        TrackSubspace(SPEC, order, reference=HELD, silent_after=AFTER)
    with pytest.raises(ConfigError, match="silent_after = 'soon': must be a time"):
        SilentAfter.of("soon")
    assert SilentAfter.of("15m").after == 900
    assert SilentAfter.of("auto").after is None
