"""Quiet times: what a file says, and rows that pass their references by."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
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
from kerneltrack.monitor.clocks import WEEKDAYS
from kerneltrack.monitor.entries import check_devices
from kerneltrack.monitor.quiet import Entry, QuietTime, QuietTimes, checked_times
from kerneltrack.monitor.reference import AUTO, BLOCK, ReferenceSpec
from kerneltrack.monitor.spans import parse_moment
from kerneltrack.trackers import OKFEBSpec
from pipelines.cli.main import main
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


@pytest.mark.parametrize("seed", range(3))
def test_hours_without_rows_of_their_own_are_not_known_by_those_beside_them(seed: int) -> None:
    """Nights are quiet for four weeks. Then they are judged: idle, as hours of each day were."""
    count, nights = 36 * 144, 28
    times = parse_moment("day", "2026-03-02") + 10 * MINUTE * np.arange(count)
    hour = times // HOUR % 24
    busy = ((hour >= 6) & (hour < 9)) | ((hour >= 18) & (hour < 22))
    noise = 0.2 * np.random.default_rng(seed).normal(size=(count, 3))
    rows = busy[:, np.newaxis] * [3.0, 4.0, 5.0] + noise
    entry = {"device": "a", "from": "every day 22:00", "to": "06:00"}
    last = int(times[nights * 144])
    spans = QuietTimes(checked_times([("line", entry)])).of("a", int(times[0]), last)
    known = tuple(quiet_time(*span) for span in spans.tolist() if span[0] < last)
    work = Work(
        spec=OKFEBSpec(rank=3, budget=5),
        reference=ReferenceSpec(learning=AUTO, rows=256, memory="1024 rows"),
        quiet=QuietTimes(known),
    )
    _, p, episodes = run(work, rows, times)
    at_night = (hour >= 22) | (hour < 6)
    assert np.isnan(p[: nights * 144][at_night[: nights * 144]]).all()
    assert np.isfinite(p[(nights + 1) * 144 :]).all()
    assert not episodes


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


def hours_of(entries: Iterable[Entry]) -> list[int]:
    """How long quiet times last that come once."""
    once = [each for each in entries if isinstance(each, QuietTime)]
    return [(each.end - each.start) // HOUR for each in once]


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
    assert hours_of(found[:2]) == [29, 4 * 24]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "must have the columns from, to .* its first line has nothing"),
        ("a.csv", "device,from\na,2026\n", "must have the columns"),
        ("a.csv", "Gerät;von;bis\n", r"\(and may have device, .* has Gerät, von, bis$"),
        ("a.csv", "device,from,to,who\n", "must have the columns"),
        ("a.csv", "device,device,from,to\n", "must have the columns"),
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
    assert hours_of(local) == [24, 23, 4]
    assert hours_of(utc[:2]) == [24, 24]
    assert local[0][2] == parse_moment("from", "2026-06-14T22:00:00Z")
    assert utc[0][2] == parse_moment("from", "2026-06-15T00:00:00Z")
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
    assert [each.why for each in times] == ["holidays"]
    # Whole years: those of the first hours of 1970 began the year before.
    spans = [tuple(each) for each in times[0].spans(0, 2**62).tolist()]
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
        ("12-24T08:00", "12-24T08:00", "line 2, to = '12-24T08:00': must be before the next 12-24"),
        ("01-01", "12-31", "line 2, to = '12-31': must be before the next 01-01, or all times are"),
    ],
)
def test_a_time_that_not_every_year_has_is_refused(
    tmp_path: Path, start: str, end: str, message: str
) -> None:
    path = tmp_path / "quiet.csv"
    path.write_text(f"device,from,to,why\n*,every year {start},{end},\n")
    with pytest.raises(DataError, match=re.escape(message)):
        read_quiet(str(path), "Europe/Berlin")


def times_of(start: str, end: str, zone: str, first: str, last: str) -> list[list[str]]:
    """When an entry comes between two days, in UTC."""
    (entry,) = checked_times([("line", {"device": "*", "from": start, "to": end})], zone)
    span = [parse_moment("day", day) for day in (first, last)]
    found = QuietTimes((entry,)).of("a", *span)
    met = found[(found[:, 0] <= span[1]) & (found[:, 1] > span[0])]
    return [[str(np.datetime64(at, "m")) for at in each.astype("M8[ns]")] for each in met]


def test_a_time_comes_every_week_or_day_by_the_clock_of_its_zone() -> None:
    sundays = times_of("every week Sunday", "Sunday", "Europe/Berlin", "2026-03-20", "2026-04-03")
    assert sundays == [
        ["2026-03-21T23:00", "2026-03-22T23:00"],
        ["2026-03-28T23:00", "2026-03-29T22:00"],
    ]
    # Over the end of a week and a year.
    shut = times_of("every week Sat 18:00", "monT06:00", "UTC", "2026-12-31", "2027-01-05")
    assert shut == [["2027-01-02T18:00", "2027-01-04T06:00"]]
    nights = times_of("Every day 22:00", "06:00", "UTC", "2026-12-31", "2027-01-01T12:00")
    assert nights == [
        ["2026-12-30T22:00", "2026-12-31T06:00"],
        ["2026-12-31T22:00", "2027-01-01T06:00"],
    ]
    # What clocks pass over, or show twice, is within, however it is read.
    days = ("every day 02:15", "02:45", "Europe/Berlin")
    assert times_of(*days, "2026-03-29", "2026-03-29T12:00") == [
        ["2026-03-29T00:15", "2026-03-29T01:45"]
    ]
    assert times_of(*days, "2026-10-25", "2026-10-25T12:00") == [
        ["2026-10-25T00:15", "2026-10-25T01:45"]
    ]
    assert times_of(
        "every day 06:00+02:00", "06:30Z", "Europe/Berlin", "2026-05-01", "2026-05-01T12"
    ) == [["2026-05-01T04:00", "2026-05-01T06:30"]]


@given(
    day=st.integers(0, 6),
    hours=st.tuples(st.integers(0, 23), st.integers(0, 23)),
    lasts=st.integers(0, 5),
    at=st.lists(st.integers(0, 200 * 24 * 4), min_size=1, max_size=20),
)
def test_a_row_is_quiet_if_its_day_and_hour_say_so(
    day: int, hours: tuple[int, int], lasts: int, at: list[int]
) -> None:
    """By hand: hours since Monday, round the week."""
    begin, end = day * 24 + hours[0], (day + lasts) % 7 * 24 + hours[1]
    names = [WEEKDAYS[each // 24].title() for each in (begin, end)]
    texts = [f"{name} {hour:02}:00" for name, hour in zip(names, hours, strict=True)]
    length = (end - begin) % 168 or 168
    entry = {"device": "a", "from": f"every week {texts[0]}", "to": texts[1]}
    if length == 168:
        with pytest.raises(ConfigError, match="or all times are quiet"):
            checked_times([("line", entry)])
        return
    quiet = QuietTimes(checked_times([("line", entry)]))
    monday = parse_moment("day", "2026-06-01")
    times = monday + np.array(at, np.int64) * (HOUR // 4)
    # Asked for one by one, and in one call.
    found = [bool(quiet.is_quiet("a", times[k : k + 1])[0]) for k in range(len(at))]
    assert found == [(each / 4 - begin) % 168 < length for each in at]
    assert found == quiet.is_quiet("a", times).tolist()


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ("every week Sunday", "Caturday", "line, to = 'Caturday': must be a day of the week, as"),
        ("every week Monday", "Sunday", "line, to = 'Sunday': must be before the next Monday"),
        ("every day", "06:00", "line, from = 'every day'"),
        ("every day 22:00", "2200", "line, to = '2200': must be a time of day, as 22:00 (in YAML"),
        ("every day 22:00", "22:00", "line, to = '22:00': must be before the next 22:00"),
        ("every day 24:00", "06:00", "line, from = '24:00': must be a time of day"),
        ("every month 3", "5", "line, from = 'every month 3': must be a time in ISO 8601"),
    ],
)
def test_a_week_or_day_that_is_none_is_refused(start: str, end: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        checked_times([("line", {"device": "a", "from": start, "to": end})])


def test_times_are_as_they_were_from_json() -> None:
    lines = [{"device": "*", "from": "every week Sunday", "to": "Sunday", "why": "shut"}]
    lines += [{"group": "hall 2", "from": "2026-03-01", "to": "2026-03-02"}]
    entries = checked_times([("line", each) for each in lines], "Europe/Berlin")
    quiet = QuietTimes(entries, {"a": "hall 2", "b": "hall 3"})
    text = json.dumps(quiet.to_dict())
    assert json.loads(text)["times"][0]["zone"] == "Europe/Berlin"
    again = QuietTimes.from_dict(json.loads(text))
    assert (again.times, again.groups) == (entries, {"a": "hall 2"})


def test_the_command_adds_lines_and_takes_them_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "works.csv"

    def quiet(*words: str, code: int = 0) -> str:
        assert main(["quiet", *words, "--file", str(path)]) == code
        shown = capsys.readouterr()
        return shown.err if code else shown.out

    one = ("pump-5", "--from", "2026-03-02T06:00", "--to", "2026-03-02T18:00")
    assert "pump-5: quiet from 2026-03-02T06:00 to 2026-03-02T18:00, oil, new (in" in quiet(
        *one, "--why", "oil, new"
    )
    shown = quiet("--group", "hall 2", "--from", "every week Sunday", "--to", "Sunday")
    assert "hall 2: quiet every week Sunday to Sunday (in" in shown
    assert "has that already" in quiet(
        "--group", "hall 2", "--from", "every week sun", "--to", "Sun"
    )
    assert path.read_text() == (
        "device,group,from,to,why\n"
        'pump-5,,2026-03-02T06:00,2026-03-02T18:00,"oil, new"\n'
        ",hall 2,every week Sunday,Sunday,\n"
    )
    assert "pump-5: no longer quiet from 2026-03-02T06:00" in quiet(*one, "--cancel")
    assert [each.group for each in read_quiet(str(path))] == ["hall 2"]
    assert "must be a time that" in quiet(*one, "--cancel", code=2)
    assert "--from = 'soon'" in quiet("pump-5", "--from", "soon", "--to", "2026-01-01", code=2)
    assert "DEVICE" in quiet("--from", "2026-01-01", "--to", "2026-01-02", code=2)
    assert "without --send" in quiet(*one, "--brokers", "localhost:1", code=2)
    # In the columns that a file has; one without a column that is needed is left as it is.
    path.write_text("to;from;device\n2026-01-02;2026-01-01;a\n")
    quiet(*one)
    assert path.read_text().endswith(";a\n2026-03-02T18:00;2026-03-02T06:00;pump-5\n")
    assert "has no column why" in quiet(*one[:4], "2026-03-03", "--why", "oil", code=2)
    other = ("*", "--from", "2026-01-01", "--to", "2026-01-02", "--send", "rows")
    for words, flag in (
        (other, "--groups"),
        (("a", *other[1:], "--groups", "halls.csv"), "--groups"),
        ((*other, "--groups", "halls.csv", "--partition", "1"), "--partition"),
    ):
        assert f"kerneltrack: {flag}" in quiet(*words, code=2)
    assert main(["quiet", *one, "--file", "works.yaml"]) == 2
    assert main(["quiet", *one]) == 2
