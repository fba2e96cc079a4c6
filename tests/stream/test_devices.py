"""What is known of each device: a line whenever it changes, however rows come."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from apache_beam import pvalue
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from kerneltrack.fleet.devices import GONE, Device
from kerneltrack.monitor import reference
from kerneltrack.monitor.quiet import QuietTime, QuietTimes
from kerneltrack.monitor.reference import Episode, ReferenceSpec
from pipelines.topics.read_output import Once
from tests.parts import cuts, examples, lanes
from tests.stream.running import (
    SECOND,
    SPEC,
    Element,
    Line,
    Rows,
    Step,
    exact,
    step_through,
    track,
    track_stream,
)
from tests.stream.test_boundaries import write_folder
from tests.stream.test_expiry import KEY, Tracking
from tests.stream.test_order import arriving
from tests.stream.test_reference import (
    FOLLOWED,
    HELD,
    ORDERS,
    TWO,
    as_line,
    faulty,
    faulty_for_long,
    later,
)
from transforms.kafka.device_states import DeviceStatesFn
from transforms.keyed.commands import Command, as_chunk
from transforms.track.devices import device_chunk
from transforms.track.order import Order
from transforms.track.transform import DEVICES, TrackSubspace
from transforms.write.schemas import devices_schema

NOTHING = dict.fromkeys(
    (
        *("episode", "kind", "severity", "p", "muted", "start_index", "start", "detected_index"),
        *("detected", "last_index", "last"),
    )
) | {"shares": [0.0] * 3, "deviations": [None] * 3}
UNTIL = dataclasses.replace(HELD, until="1970-01-01T00:05:00", false_alarms=3600, per="1 hour")
MOVES = ReferenceSpec(learning="auto", rows=256, memory="1024 rows", season="none", false_alarms=10)
ACCEPTS = dataclasses.replace(HELD, accept_after=128)


def known(state: str, rows: int, since: int | None, at: tuple[int, int | None], many: int) -> Line:
    """A line without an episode; `at`: times of the newest row and of that since when."""
    return {
        **NOTHING,
        **{"state": state, "rows": rows, "time": at[0], "since_index": since, "since": at[1]},
        "episodes": many,
    }


def one_by_one(rows: Rows, spec: ReferenceSpec = HELD) -> list[Line]:
    """What the core says of a model's rows, one after the other."""
    good = rows.take(np.flatnonzero(np.isfinite(rows.x).all(axis=1)))
    times = np.asarray(good.time)
    state = reference.init(spec, good.x[: SPEC.rows_to_start])
    lines = [
        known("learning", 0, 0, (int(np.asarray(rows.time)[0]), int(np.asarray(rows.time)[0])), 0)
    ]
    spoke, many = False, 0
    for place in range(len(good)):
        at = int(times[place])
        here = slice(place, place + 1)
        state, scores, reported = reference.update(spec, state, good.x[here], times[here])
        speaks = not np.isnan((scores.evidence if spec.moves else scores.p)[0])
        if speaks and not spoke:
            lines.append(known("normal", place + 1, place, (at, at), many))
        spoke = speaks
        still = reference.open_episode(spec, state)
        if still is not None and place - still.opened in (32, 128, 512):
            reported = [*reported, still]
        for episode in reported:
            many = episode.number
            line = as_line(episode)
            off = not episode.closed
            line |= {
                "state": "off" if off else "learning" if episode.accepted else "normal",
                "rows": line.pop("index") + 1,
                "since_index": episode.start if off else episode.row,
                "since": episode.times[0] if off else at,
                "episodes": many,
            }
            lines.append(line)
    return lines


@cache
def lines_of(number: int, spec: ReferenceSpec = HELD) -> list[Line]:
    """Those of the rows that are faulty in this way; they are not to be changed."""
    return one_by_one(faulty(number), spec)


def changing(seed: int) -> Rows:
    """Rows of a device that goes on in another way from its 400th row on."""
    rows = faulty(seed, 1500)
    x = rows.x.copy()
    x[400:, 0] += 9 * x[:256, 0].std()
    x[1200:1230, 1] -= 40
    return dataclasses.replace(rows, x=x)


def cut_up(rows: dict[str, Rows], max_disorder: float, sizes: list[int], seed: int) -> Any:
    elements: list[Element] = []
    for key, of_model in rows.items():
        elements += [(key, chunk) for chunk in arriving(of_model, max_disorder, seed).cut(sizes)]
    return elements


@settings(max_examples=examples(4))
@given(
    st.sampled_from(ORDERS),
    st.sampled_from([HELD, UNTIL]),
    cuts(90),
    st.integers(0, 2**32),
)
def test_lines_are_those_of_the_core_however_rows_come(
    max_disorder: float, spec: ReferenceSpec, sizes: list[int], seed: int
) -> None:
    rows = {key: faulty(number) for number, key in enumerate("ab")}
    elements = cut_up(rows, max_disorder, sizes, seed)
    order = Order(max_disorder=max_disorder)
    asked: dict[str, Any] = {"order": order, "reference": spec, "snapshot_every": 50.0}
    outcome = step_through(elements, devices=True, **asked)
    for number, key in enumerate(rows):
        lines = lines_of(number, spec)
        assert {"learning", "normal", "off"} == {line["state"] for line in lines}
        assert exact(outcome.devices[key]) == exact(lines)
    # They are told beside the rest, which stays as it is.
    without = step_through(elements, **asked)
    assert without.devices == {}
    assert (without.episodes, without.snapshots) == (outcome.episodes, outcome.snapshots)


@settings(max_examples=examples(4))
@given(
    st.sampled_from([MOVES, TWO]),
    cuts(128),
    st.booleans(),
)
def test_one_that_moves_learns_until_it_may_be_off(
    spec: ReferenceSpec, sizes: list[int], whole_blocks: bool
) -> None:
    rows = faulty_for_long(1).take(np.arange(1800))
    parts = [128] if whole_blocks else sizes
    asked: dict[str, Any] = {"order": FOLLOWED, "reference": spec, "devices": True}
    outcome = step_through([("m", chunk) for chunk in rows.cut(parts)], **asked)
    lines = one_by_one(rows, spec)
    assert [line["state"] for line in lines[:2]] == ["learning", "normal"]
    assert 1024 < lines[1]["rows"] < 1200
    assert exact(outcome.devices["m"]) == exact(lines)


@pytest.mark.parametrize("size", lanes(128, 1, 90, 1500))
def test_a_mode_that_is_not_known_yet_changes_nothing_of_when(size: int) -> None:
    """The rows after which it may be off, and thirty more, are of a mode without a p."""
    rows = faulty(1, 1500)
    x = rows.x[:, [0, 1, 1]]
    x[:, 2] = 0.0
    x[1000:1060, 2] = 1.0
    rows = dataclasses.replace(rows, x=x)
    spec = dataclasses.replace(MOVES, mode=2)
    asked: dict[str, Any] = {"order": FOLLOWED, "reference": spec, "devices": True}
    lines = step_through([("m", chunk) for chunk in rows.cut([size])], **asked).devices["m"]
    assert [line["state"] for line in lines[:2]] == ["learning", "normal"]
    assert lines[1]["rows"] == 1025
    assert exact(lines) == exact(step_through([("m", rows.chunk())], **asked).devices["m"])


@pytest.mark.parametrize("size", lanes(128, 1, 256, 1500))
def test_a_device_with_a_new_normal_learns_it(size: int) -> None:
    rows = changing(1)
    elements = [("m", chunk) for chunk in rows.cut([size])]
    outcome = step_through(elements, order=FOLLOWED, reference=ACCEPTS, devices=True)
    lines = one_by_one(rows, ACCEPTS)
    reported = [line["state"] for line in lines]
    accepted = reported.index("learning", 1)
    assert reported[accepted - 1] == "off"
    assert reported[accepted + 1 : accepted + 3] == ["normal", "off"]
    assert exact(outcome.devices["m"]) == exact(lines)


def test_both_pipelines_tell() -> None:
    rows = {key: faulty(number) for number, key in enumerate(["a", "b/c"])}
    elements = cut_up(rows, 0.0, [70, 10, 130], 1)
    bundles = [elements[k : k + 4] for k in range(0, len(elements), 4)]
    order = Order(max_disorder=0)
    bounded = track(elements, order=order, reference=HELD, devices=True)
    live = track_stream(bundles, order=order, reference=HELD, devices=True)
    for outcome in (bounded, live):
        for number, key in enumerate(rows):
            assert exact(outcome.devices[key]) == exact(lines_of(number))


def test_what_is_open_at_the_end_of_the_input_stays_off() -> None:
    rows = faulty(1).take(np.arange(520))
    outcome = step_through([("m", rows.chunk())], reference=HELD, devices=True)
    assert outcome.episodes["m"][-1]["state"] == "open"
    assert exact(outcome.devices["m"]) == exact(one_by_one(rows))


def test_a_silent_model_is_gone_until_it_comes_back(tmp_path: Path) -> None:
    """In the middle of its stretch, and of an episode."""
    rows, expected = faulty(1), lines_of(1)
    tracking = Tracking(tmp_path, FOLLOWED, HELD, devices=True)
    for start, stop in ((0, 200), (200, 520), (520, 620)):
        tracking.push(rows.take(np.arange(start, stop)))
        if stop < 620:
            tracking.expire()
    lines = tracking.finish().devices[KEY]
    gone = [place for place, line in enumerate(lines) if line["state"] == "gone"]
    early, late = usable(rows, 200), usable(rows, 520)
    assert [lines[place]["rows"] for place in gone] == [early, late]
    back = [lines[place + 1] for place in gone]
    assert back[0] == known("learning", early, None, (199 * SECOND, None), 0)
    opened = next(line for line in expected if line["state"] == "off" and line["rows"] > 450)
    assert {name: back[1][name] for name in ("state", "rows", "time", "since_index", "since")} == {
        **{"state": "off", "rows": late, "time": 519 * SECOND},
        **{name: opened[name] for name in ("since_index", "since")},
    }
    assert back[1]["episode"] == opened["episode"] == back[1]["episodes"]
    assert back[1]["severity"] > opened["severity"]
    # All that changed is told beside these.
    left = [line for k, line in enumerate(lines) if k not in gone and k - 1 not in gone]
    assert exact(left) == exact(expected)


def usable(rows: Rows, count: int) -> int:
    return int(np.isfinite(rows.x[:count]).all(axis=1).sum())


def test_a_model_that_never_began_leaves_nothing(tmp_path: Path) -> None:
    tracking = Tracking(tmp_path, FOLLOWED, HELD, devices=True)
    tracking.push(faulty(1).take(np.arange(5)))
    tracking.expire()
    assert tracking.outcome.devices == {}


def test_a_model_that_is_reset_is_gone_and_learns_anew() -> None:
    rows, again = faulty(1), later(faulty(2))
    step = Step(order=FOLLOWED, reference=HELD, devices=True)
    step.push("m", rows.take(np.arange(530)).chunk())
    (line,) = step.push("m", as_chunk(Command(None, None))).devices["m"]
    before = usable(rows, 530)
    assert (line["state"], line["rows"]) == ("gone", before)
    reported = step.push("m", again.chunk()).devices["m"]
    places = ("rows", "since_index", "start_index", "detected_index", "last_index")
    expected = [
        line | {name: line[name] + before for name in places if line[name] is not None}
        for line in one_by_one(again)
    ]
    assert exact(reported) == exact(expected)


def test_a_model_that_goes_on_from_a_snapshot_is_told(tmp_path: Path) -> None:
    rows = faulty(3)
    first = step_through([("m", rows.take(np.arange(520)).chunk())], reference=HELD)
    ((_, data),) = first.snapshots
    step = Step(order=FOLLOWED, reference=HELD, devices=True)
    (line,) = step.push("m", as_chunk(Command(data, None))).devices["m"]
    assert line == known("learning", 0, None, (None, None), 0)  # type: ignore[arg-type]
    warm = write_folder(first, tmp_path, reference=HELD)
    rest = rows.take(np.arange(520, 620)).chunk()
    reported = step_through([("m", rest)], reference=HELD, warm=warm, devices=True).devices["m"]
    assert reported[0]["state"] == "off"
    assert reported[0]["rows"] == usable(rows, 520)
    assert exact(reported[1:]) == exact(
        [line for line in one_by_one(rows) if line["rows"] > usable(rows, 520)]
    )


def one_by_one_but(rows: Rows, quiet: QuietTimes) -> list[Line]:
    """What the core says of a model's rows, one after the other, those of quiet times left out."""
    good = rows.take(np.flatnonzero(np.isfinite(rows.x).all(axis=1)))
    times = np.asarray(good.time)
    state = reference.init(HELD, good.x[: SPEC.rows_to_start])
    begun = int(np.asarray(rows.time)[0])
    lines, shown, many = [known("learning", 0, 0, (begun, begun), 0)], "learning", 0
    since_open = None
    for place, passes in enumerate(quiet.is_quiet("m", times).tolist()):
        reported: list[Episode] = []
        at, p = int(times[place]), np.nan
        if passes:
            state = reference.pass_by(state, 1)
        else:
            part = slice(place, place + 1)
            state, scores, reported = reference.update(HELD, state, good.x[part], times[part])
            p = scores.p[0]
        still = reference.open_episode(HELD, state)
        now = "quiet" if passes else "learning" if np.isnan(p) else "normal"
        if since_open is None and now != shown:
            lines.append(known(now, place + 1, place, (at, at), many))
            shown = now
        if still is not None and since_open is not None and place - since_open in (32, 128, 512):
            reported = [*reported, still]
        for episode in reported:
            many, line, off = episode.number, as_line(episode), not episode.closed
            shown, since_open = ("off", episode.opened) if off else ("normal", None)
            line |= {
                "state": shown,
                "rows": line.pop("index") + 1,
                "since_index": episode.start if off else episode.row,
                "since": episode.times[0] if off else at,
                "episodes": many,
            }
            lines.append(line)
    return lines


@settings(max_examples=examples(10))
@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(0, 600), st.integers(1, 120)), min_size=1, max_size=4),
)
def test_lines_with_quiet_times_are_those_of_the_core(
    sizes: list[int], spans: list[tuple[int, int]]
) -> None:
    rows = faulty(1)
    entries = [(start * SECOND, (start + length) * SECOND) for start, length in spans]
    quiet = QuietTimes(tuple(QuietTime("m", None, *span, "") for span in entries))
    elements = [("m", chunk) for chunk in rows.cut(sizes)]
    outcome = step_through(elements, order=FOLLOWED, reference=HELD, devices=True, quiet=quiet)
    assert exact(outcome.devices["m"]) == exact(one_by_one_but(rows, quiet))


def test_a_quiet_device_that_comes_back_is_still_quiet(tmp_path: Path) -> None:
    rows = faulty(1)
    quiet = QuietTimes((QuietTime(KEY, None, 350 * SECOND, 420 * SECOND, ""),))
    tracking = Tracking(tmp_path, FOLLOWED, HELD, devices=True, quiet=quiet)
    for start, stop in ((0, 400), (400, 620)):
        tracking.push(rows.take(np.arange(start, stop)))
        if stop < 620:
            tracking.expire()
    states = [line["state"] for line in tracking.finish().devices[KEY]]
    assert states[:6] == ["learning", "normal", "quiet", "gone", "quiet", "normal"]


def test_devices_need_a_reference() -> None:
    with pytest.raises(ConfigError, match="devices = True: must be False without a reference"):
        TrackSubspace(SPEC, devices=True)


def messages(key: str, rows: Rows, channels: list[str]) -> list[dict[str, Any]]:
    """What is sent of a device."""
    chunks: list[Any] = []
    step = Step(reference=HELD, devices=True)
    step.push(key, rows.chunk())
    for element in step._step.at_end(key, **step._cells[key]):
        if isinstance(element, pvalue.TaggedOutput) and element.tag == DEVICES:
            chunks.append(element.value)
    encode = DeviceStatesFn(devices_schema(True, len(channels)), channels)
    sent = [message for chunk in chunks for message in encode.process(chunk)]
    assert {(encoded, str(headers)) for encoded, _, headers in sent} == {(key.encode(), "[]")}
    return [json.loads(value) for _, value, _ in sent if value is not None]


def test_a_message_is_a_line_under_the_devices_id() -> None:
    found = messages("pump/é", faulty(1), ["heat", "flow", "noise"])
    for message, line in zip(found, lines_of(1), strict=True):
        for name in ("state", "rows", "since_index", "episodes", "episode", "kind", "severity"):
            assert message[name] == line[name], name
        assert message["model_id"] == "pump/é"
        assert message["time"] == f"1970-01-01T00:{_clock(line['time'])}.000000000Z"
        if line["episode"] is None:
            assert message["channels"] is None
        else:
            shares = dict(zip(["heat", "flow", "noise"], line["shares"], strict=True))
            named = [(each["channel"], each["share"]) for each in message["channels"]]
            positive = [pair for pair in shares.items() if pair[1] > 0]
            assert named == sorted(positive, key=lambda pair: -pair[1])
    once = Once()
    assert [once.is_new(message) for message in found] == [True] * len(found)
    assert not once.is_new(found[-1])
    assert not once.is_new({**found[-1], "severity": -1.0})
    assert (once.repeated, once.conflicts) == (1, 1)


def test_of_many_channels_the_largest_ten_are_named() -> None:
    shares = np.array([1, 5, 0, 3, 3, 9, 2, 7, 4, 8, 6, 2, 11, 10, 1]) / 72
    episode = Episode(1, "shift", 3, 5, 5, False, 5, 4.0, 0.1, (1, 2, 2, 2), shares, -shares)
    chunk = device_chunk([Device("off", 6, 2, 3, 1, 1, episode)], 15)
    encode = DeviceStatesFn(devices_schema(True, 15), [f"c{number}" for number in range(15)])
    ((_, value, _),) = encode.process(("m", chunk))
    assert value is not None
    named = json.loads(value)["channels"]
    wanted = [12, 13, 5, 9, 7, 10, 1, 8, 3, 4]
    assert named == [
        {"channel": f"c{at}", "share": shares[at], "deviation": -shares[at]} for at in wanted
    ]


def test_a_device_that_is_gone_is_a_message_without_a_value() -> None:
    chunk = device_chunk([Device(GONE, 5, 7)], 3)
    encode = DeviceStatesFn(devices_schema(True, 3), ["a", "b", "c"])
    assert list(encode.process(("m", chunk))) == [(b"m", None, [])]


def _clock(time: int) -> str:
    minutes, seconds = divmod(time // SECOND, 60)
    return f"{minutes:02}:{seconds:02}"
