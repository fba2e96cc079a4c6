"""Quiet times: what a file says, and rows that pass their references by."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.model import Work
from kerneltrack.fleet.restore import decode
from kerneltrack.fleet.run import run_rows
from kerneltrack.fleet.states import encode
from kerneltrack.monitor import reference
from kerneltrack.monitor.entries import check_devices
from kerneltrack.monitor.quiet import QuietTime, QuietTimes
from kerneltrack.monitor.reference import AUTO, BLOCK, ReferenceSpec
from kerneltrack.monitor.spans import parse_moment
from kerneltrack.trackers import OKFEBSpec
from pipelines.cli.quiet_file import read_quiet
from tests.parts import examples

MINUTE = 60 * 10**9
HOUR = 60 * MINUTE
Array = npt.NDArray[np.float64]


def quiet_time(start: int, end: int, device: str | None = "a", group: str | None = None) -> Any:
    return QuietTime(device, group, start, end, "")


@given(
    spans=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20), st.sampled_from("ab*g"))),
    times=st.lists(st.integers(-5, 80)),
)
def test_a_row_is_quiet_if_any_time_of_its_device_says_so(
    spans: list[tuple[int, int, str]], times: list[int]
) -> None:
    entries = tuple(
        quiet_time(start, start + length, *((None, who) if who == "g" else (who, None)))
        for start, length, who in spans
    )
    quiet = QuietTimes(entries, {"a": "g"})
    for device, names in (("a", "a*g"), ("b", "b*"), ("c", "*")):
        expected = [
            any(start <= time < start + length for start, length, who in spans if who in names)
            for time in times
        ]
        assert quiet.is_quiet(device, np.array(times, np.int64)).tolist() == expected


def rows_of(seed: int, count: int) -> tuple[Array, npt.NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    load = np.sin(np.arange(count) / 17) + 0.5 * np.sin(np.arange(count) / 5)
    rows = load[:, np.newaxis] * [1.0, 2.0, 3.0] + 0.2 * rng.normal(size=(count, 3))
    return rows, 1_772_409_600 * 10**9 + 5 * MINUTE * np.arange(count)


def work_of(learning: str, *spans: tuple[int, int]) -> Work:
    memory = "1200 rows" if learning == AUTO else ReferenceSpec.memory
    spec = ReferenceSpec(learning=learning, rows=256, gap="12 hours", memory=memory)
    times = rows_of(0, 3000)[1]
    entries = tuple(quiet_time(int(times[a]), int(times[b])) for a, b in spans)
    quiet = QuietTimes(entries) if entries else None
    return Work(spec=OKFEBSpec(rank=3, budget=5), reference=spec, quiet=quiet)


def run(work: Work, rows: Array, times: npt.NDArray[np.int64], *cuts: int) -> tuple[Any, Any, Any]:
    model = begin(work, "a", rows[:100])
    scores, episodes = [], []
    pieces = zip(np.split(rows, cuts), np.split(times, cuts), strict=True)
    for piece, stamps in pieces:
        until = math.inf if stamps[-1:] == times[-1:] else 0
        model, found = run_rows(work, "a", model, piece, stamps, until)
        assert found.scores is not None
        scores.append(found.scores.p)
        episodes += found.episodes.get(0, [])
    return model, np.concatenate(scores), episodes


@pytest.mark.parametrize("learning", ["first", "gated", AUTO])
def test_quiet_rows_are_as_if_they_were_not_there(learning: str) -> None:
    rows, times = rows_of(1, 3000)
    rows[500:700] += 30.0
    rows[2200:2400] -= 50.0
    rows[2700:2800, 1] += 3.0
    keep = np.ones(3000, np.bool_)
    # In the stretch (half of it at its begin), and later.
    spans = (0, 100), (200, 360), (500, 700), (2200, 2400)
    for start, end in spans:
        keep[start:end] = False
    model, p, episodes = run(work_of(learning, *spans), rows, times)
    assert np.isnan(p[~keep]).all()
    other = work_of(learning)
    alone = reference.init(other.reference or ReferenceSpec(), rows[:100])
    state, scores, reported = reference.update(
        other.reference or ReferenceSpec(), alone, rows[keep], times[keep]
    )
    assert p[keep].tobytes() == scores.p.tobytes()
    assert int(model.reference.tables.counts[reference.SEEN]) == 3000
    kept = np.flatnonzero(keep)
    assert [(e.start, e.opened) for e in episodes if e.closed] == [
        (kept[e.start], kept[e.opened]) for e in reported if e.closed
    ]
    assert any(2690 < e.opened < 2800 for e in episodes)
    for name in ("mean", "scatter", "whitener", "rows", "memory"):
        after, expected = getattr(model.reference.tables, name), getattr(state.tables, name)
        assert after.tobytes() == expected.tobytes(), name


@pytest.mark.parametrize("learning", ["first", "gated", AUTO])
@settings(max_examples=examples(8))
@given(
    cuts=st.lists(st.integers(1, 2999), max_size=6, unique=True),
    spans=st.lists(st.tuples(st.integers(0, 2800), st.integers(1, 199)), min_size=1, max_size=4),
)
def test_cuts_change_no_bit(learning: str, cuts: list[int], spans: list[tuple[int, int]]) -> None:
    rows, times = rows_of(2, 3000)
    rows[1900:1960, 2] += 4.0
    work = work_of(learning, *((start, start + many) for start, many in spans))
    whole, parts = run(work, rows, times), run(work, rows, times, *sorted(cuts))
    assert whole[1].tobytes() == parts[1].tobytes()
    assert repr(whole[2]) == repr(parts[2])
    assert encode(work, "a", whole[0]) == encode(work, "a", parts[0])
    again = decode(work, encode(work, "a", whole[0]), "state")
    assert encode(work, "a", again) == encode(work, "a", whole[0])


def test_an_episode_goes_on_after_a_quiet_time() -> None:
    rows, times = rows_of(3, 3000)
    rows[2000:, 1] += 3.0
    episodes = run(work_of("first", (2100, 2200)), rows, times)[2]
    opened = [each for each in episodes if not each.closed]
    assert opened[0].opened < 2100
    assert {each.number for each in episodes} == {1}
    assert 2 * BLOCK < episodes[-1].row - episodes[0].row


CSV = """device,group,from,to,why
pump-1,,2026-03-01,2026-03-02T06:00:00+01:00,"bearing, changed"
*,,2026-12-24,2026-12-27,holiday
,hall 2,2026-04-01T12:00:00,2026-04-01T13:00:00,
"""
YAML = """
- {device: pump-1, from: 2026-03-01, to: "2026-03-02T06:00:00+01:00", why: "bearing, changed"}
- {device: "*", from: 2026-12-24, to: 2026-12-27, why: holiday}
- {group: hall 2, from: 2026-04-01T12:00:00, to: 2026-04-01T13:00:00}
"""


def written(folder: Path, text: str, name: str = "quiet.csv") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_csv_and_yaml_say_the_same(tmp_path: Path) -> None:
    found = read_quiet(written(tmp_path, CSV))
    assert found == read_quiet(written(tmp_path, YAML, "quiet.yaml"))
    assert [(each.device, each.group, each.why) for each in found] == [
        ("pump-1", None, "bearing, changed"),
        ("*", None, "holiday"),
        (None, "hall 2", ""),
    ]
    assert (found[0].end - found[0].start) // HOUR == 29
    assert (found[1].end - found[1].start) // HOUR == 4 * 24


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "must have the columns from, to .* its first line has nothing"),
        ("a.csv", "device,from\na,2026\n", "must have the columns"),
        ("a.csv", "Gerät;von;bis\n", r"\(and may have device, .* has Gerät, von, bis$"),
        ("a.csv", "device,from,to,who\n", "must have the columns"),
        ("a.csv", "device,device,from,to\n", "must have the columns"),
        ("a.csv", "device,from,to\n", "entries"),
        ("a.csv", "device,from,to\na,2026-01-01\n", "line 2"),
        ("a.csv", "device,from,to\na,2026-01-01,2026-01-02,x\n", "line 2"),
        ("a.csv", "device,from,to\na,2026-01-01,2026-01-02\nb,soon,2026-01-02\n", "line 3, from"),
        ("a.csv", "device,from,to\na,2026-01-02,2026-01-01\n", "line 2, to"),
        ("a.csv", "device,from,to\na,2026-01-02T01:00,2026-01-02T01:00\n", "line 2, to"),
        ("a.csv", "device,from,to\na,2026-03-29T02:30,2026-04-01\n", "line 2, from.*never comes"),
        ("a.csv", "device;from;to\na;2026-10-01;2026-10-25T02:30\n", "line 2, to.*comes twice"),
        ("a.csv", "device,from,to\n,2026-01-01,2026-01-02\n", "line 2"),
        ("a.csv", "device,group,from,to\na,b,2026-01-01,2026-01-02\n", "line 2"),
        ("a.yaml", "device: a\n", "must hold a list"),
        ("a.yaml", "- 5\n", "entry 1"),
        ("a.yaml", "- {device: a, from: 2026-01-01, until: 2026-01-02}\n", "entry 1, until"),
        ("a.yaml", "- {device: a, from: 2026-01-01}\n", "entry 1, to"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_quiet(written(tmp_path, text, name), "Europe/Berlin")


def test_times_without_an_offset_are_of_the_zone_and_a_last_date_is_that_day(
    tmp_path: Path,
) -> None:
    lines = [
        "device;from;to;why",
        "a;2026-06-15;2026-06-15;one day",
        "a;2026-03-29;2026-03-29;the day with 23 hours",
        "a;2026-06-15T06:00;2026-06-15T08:00Z;four hours",
    ]
    path = written(tmp_path, "\n".join(lines))
    local, utc = read_quiet(path, "Europe/Berlin"), read_quiet(path, "UTC")
    assert [(each.end - each.start) // HOUR for each in local] == [24, 23, 4]
    assert [(each.end - each.start) // HOUR for each in utc[:2]] == [24, 24]
    assert utc[0].start - local[0].start == 2 * HOUR
    assert local[0].start == parse_moment("from", "2026-06-14T22:00:00Z")
    dates = "- {device: a, from: 2026-06-15, to: 2026-06-15, why: one day}\n"
    assert read_quiet(written(tmp_path, dates, "dates.yaml"), "Europe/Berlin") == local[:1]


def test_only_rows_that_are_judged_can_be_quiet() -> None:
    from transforms import TrackSubspace  # noqa: PLC0415

    quiet = QuietTimes((quiet_time(0, 1),))
    with pytest.raises(ConfigError, match="quiet"):
        TrackSubspace(OKFEBSpec(), quiet=quiet)
    group = QuietTimes((quiet_time(0, 1, None, "hall 2"),))
    with pytest.raises(ConfigError, match="--quiet, group = 'hall 2'"):
        check_devices("--quiet", group.times)


@pytest.mark.parametrize(
    ("start", "end", "first", "last"),
    [
        ("12-24", "01-02", "2025-12-23T23:00", "2026-01-02T23:00"),
        ("12-24T18:00", "12-24", "2025-12-24T17:00", "2025-12-24T23:00"),
        ("07-01", "07-31T06:00", "2025-06-30T22:00", "2025-07-31T04:00"),
        ("12-24T00:00Z", "12-24T00:00-02:00", "2025-12-24T00:00", "2025-12-24T02:00"),
    ],
)
def test_a_time_comes_every_year_by_the_clock_of_its_zone(
    tmp_path: Path, start: str, end: str, first: str, last: str
) -> None:
    path = tmp_path / "quiet.csv"
    path.write_text(f"device,from,to,why\n*,every year {start},{end},holidays\n")
    times = read_quiet(str(path), "Europe/Berlin")
    assert {each.why for each in times} == {"holidays"}
    spans = [(each.start, each.end) for each in times]
    assert len(spans) == 131
    assert (parse_moment("from", f"{first}Z"), parse_moment("to", f"{last}Z")) in spans
    inside = np.array([0, -1, 1]) + parse_moment("from", f"{first}Z".replace("2025", "2031"))
    assert QuietTimes(times).is_quiet("a", inside).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ("02-29", "03-02", "line 2, from = '02-29': must be a month and day that each year has"),
        ("12-24", "2026-01-02", "line 2, to = '2026-01-02': must be a month and day"),
        ("Christmas", "01-02", "line 2, from = 'Christmas'"),
        ("12-24T08:00", "12-24T08:00", "line 2, to = '1970-12-24T08:00': must be after"),
        ("03-29T02:30", "04-02", "never comes in Europe/Berlin"),
    ],
)
def test_a_time_that_not_every_year_has_is_refused(
    tmp_path: Path, start: str, end: str, message: str
) -> None:
    path = tmp_path / "quiet.csv"
    path.write_text(f"device,from,to,why\n*,every year {start},{end},\n")
    with pytest.raises(DataError, match=re.escape(message)):
        read_quiet(str(path), "Europe/Berlin")
