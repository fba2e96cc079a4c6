"""Feedback: which episodes it mutes, from when on, and what entries and files may say."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.devices import NORMAL, OFF
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.run import run_rows
from kerneltrack.fleet.states import encode
from kerneltrack.monitor.feedback import (
    FALSE,
    REAL,
    Feedback,
    Said,
    checked_feedback,
    named_faults,
)
from kerneltrack.monitor.likeness import channel, named_channels
from kerneltrack.monitor.reference import Episode, ReferenceSpec
from kerneltrack.monitor.reference.spec import RECOVERED
from kerneltrack.trackers import OKFEBSpec
from pipelines.cli.feedback_file import append, read_feedback
from tests.parts import examples

CHANNELS = ("flow", "heat", "oil")
SPEC = OKFEBSpec(rank=3, budget=5)
HELD = ReferenceSpec(rows=256)
SECOND = 10**9
AGAIN = "like that since 1970-01-01T00:11:40Z, marked as false"
HOT = (channel("heat", 1.0, 4.0),)
WHY = "like that since 1970-01-01T00:00:07Z, marked as false"
Array = npt.NDArray[np.float64]


def said(**changes: Any) -> Said:
    return Said("a", 7 * SECOND, 17 * SECOND, FALSE, 100 * SECOND, "shift", HOT)._replace(**changes)


def episode(
    share: float = 1.0, deviation: float = 4.0, kind: str = "shift", lasts: int = 10, at: int = 100
) -> Episode:
    parts = np.array([1.0 - share, share, 0.0]), np.array([1.0, deviation, math.nan])
    times = ((at - lasts) * SECOND, 0, at * SECOND, 0)
    return Episode(7, kind, 5, 9, 9, False, 9, 4.0, 1e-6, times, *parts)


@pytest.mark.parametrize(
    ("entries", "is_muted"),
    [
        ([said()], True),
        # It is of another device, or of a later time.
        ([said(device="b")], False),
        ([said(start=101 * SECOND)], False),
        # What was said later counts, once its own time has come.
        ([said(), said(verdict=REAL)], False),
        ([said(), said(verdict=REAL, start=101 * SECOND)], True),
        ([said(verdict=REAL), said()], True),
        # The episode that it is most like decides; of two that are as like, the real one.
        ([said(), said(since=2, verdict=REAL, channels=(channel("heat", 1.0, 5.0),))], True),
        ([said(channels=(channel("heat", 1.0, 5.0),)), said(since=2, verdict=REAL)], False),
        ([said(), said(since=2, verdict=REAL)], False),
        # Stuck channels are like others that are stuck alone.
        ([said(kind="stuck")], False),
    ],
)
def test_an_episode_is_muted_if_the_one_it_is_most_like_was_false(
    entries: list[Said], is_muted: bool
) -> None:
    feedback = Feedback(tuple(entries), CHANNELS)
    assert feedback.why_muted("a", episode()) == (WHY if is_muted else None)
    # It says that the device is well again.
    assert feedback.why_muted("a", episode(kind=RECOVERED)) is None


@pytest.mark.parametrize(
    ("share", "deviation", "is_muted"),
    [(0.82, 4, True), (0.8, 4, False), (1, 2.7, True), (1, 6.2, False), (1, -4, False)],
)
def test_it_must_be_like_it(share: float, deviation: float, is_muted: bool) -> None:
    # At a likeness of .9: .81 of the shares, or .66 of the distance.
    feedback = Feedback((said(),), CHANNELS)
    found = feedback.why_muted("a", episode(share, deviation))
    assert found == (WHY if is_muted else None)


def test_a_channel_that_is_known_in_neither_is_alike() -> None:
    both = channel("heat", 0.5, 4.0), channel("oil", 0.5, None)
    parts = np.array([0.0, 0.5, 0.5]), np.array([1.0, 4.0, math.nan])
    like = episode()._replace(shares=parts[0], deviations=parts[1])
    assert Feedback((said(channels=both),), CHANNELS).why_muted("a", like) == WHY
    other = channel("heat", 0.5, 4.0), channel("oil", 0.5, 1.0)
    assert Feedback((said(channels=other),), CHANNELS).why_muted("a", like) is None


def test_what_lasts_much_longer_counts_but_for_the_false_one_itself() -> None:
    feedback = Feedback((said(),), CHANNELS)
    assert feedback.why_muted("a", episode(lasts=40)) == WHY
    assert feedback.why_muted("a", episode(lasts=41)) is None
    assert feedback.why_muted("a", episode(lasts=93)) == WHY


def test_what_is_said_of_a_group_counts_for_its_devices() -> None:
    of_all = said(device="", group="north")
    feedback = Feedback((of_all,), CHANNELS, groups={"a": "north", "b": "south"})
    assert feedback.why_muted("a", episode()) == WHY
    assert feedback.why_muted("b", episode()) is None
    assert feedback.said_of("a").tolist() == [[7 * SECOND, 17 * SECOND, 100 * SECOND, 1, 1]]
    assert not len(feedback.said_of("b"))
    # However long it is, one that was in that time is meant itself.
    assert feedback.why_muted("a", episode(lasts=93)) == WHY
    assert feedback.why_muted("a", episode(lasts=82)) is None
    # What is said of the device itself comes later.
    own = said(verdict=REAL)
    both = Feedback((own, of_all), CHANNELS, groups={"a": "north"})
    assert both.why_muted("a", episode()) is None


def test_names_are_those_of_real_episodes_as_they_were_said_last() -> None:
    entries = [
        *(said(name="bearing", verdict=REAL), said(since=2, verdict=REAL)),
        *(said(since=3, name="leak", verdict=REAL), said(since=3)),
        said(device="b", verdict=REAL, name="belt"),
    ]
    found = [(each.device, each.name) for each in named_faults(entries)]
    assert found == [("a", "bearing"), ("b", "belt")]


ENTRY = {
    **{
        "device": "a",
        "since": "1970-01-01T00:00:03Z",
        "until": "1970-01-01T00:00:04Z",
        "verdict": "false",
        "from": "1970-01-02",
        "kind": "shift",
    },
    "channels": '[{"channel": "heat", "share": 0.9, "deviation": -1.5}]',
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"device": ""}, "line 2, device"),
        ({"since": ""}, "line 2, since"),
        ({"verdict": "wrong"}, "line 2, verdict = 'wrong': must be false or real"),
        ({"name": "bearing"}, "line 2, name = 'bearing': must be left out"),
        ({"from": ""}, "line 2, from"),
        ({"from": "yesterday"}, "line 2, from"),
        ({"since": "yesterday"}, "line 2, since"),
        ({"until": "1970-01-01"}, "line 2, until = '1970-01-01': must be not before since"),
        ({"kind": " "}, "line 2, kind"),
        ({"channels": "heat"}, "line 2, channels"),
        ({"channels": '{"channel": "heat"}'}, "line 2, channels"),
        ({"channels": [{"channel": "heat", "share": 1}]}, "line 2, channels"),
        ({"channels": [channel("speed", 1.0, 1.0)]}, "a channel: flow, heat, oil"),
        ({"channels": [channel("heat", 1.5, 1.0)]}, "line 2, channels, share"),
        ({"channels": [channel("heat", 1.0, math.inf)]}, "line 2, channels, deviation"),
        ({"channels": '[{"channel": "heat", "share": true, "deviation": 1}]'}, "channels, share"),
        ({"unit": "K"}, "line 2, unit"),
        ({"group": "north"}, "line 2, group = 'north': must be left out where a device is named"),
    ],
)
def test_what_an_entry_may_not_say_is_named_by_its_place(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        checked_feedback([("line 1", ENTRY), ("line 2", {**ENTRY, **changes})], CHANNELS)


def test_entries_are_read_as_csv_and_yaml_give_them() -> None:
    yaml = {**ENTRY, "verdict": False, "channels": json.loads(ENTRY["channels"])}
    entries = [("line 1", {**ENTRY, "name": "", "why": " "}), ("entry 2", yaml)]
    of_both = checked_feedback(entries, CHANNELS)
    heat = (channel("heat", 0.9, -1.5),)
    assert of_both == (Said("a", 3 * SECOND, 4 * SECOND, FALSE, 86400 * SECOND, "shift", heat),) * 2


def test_a_file_gets_a_line_for_each_thing_said(tmp_path: Path) -> None:
    path = str(tmp_path / "said.csv")
    first = said(start=5000, channels=(channel("heat", 1 / 3, None),), why='a "b", c')
    real = first._replace(verdict=REAL, name="bearing")
    assert append(path, first)
    assert not append(path, first)
    assert append(path, real)
    assert append(path, first)
    assert append(path, said(device="b,\n'", start=5000))
    assert read_feedback(path) == (first, real, first, said(device="b,\n'", start=5000))
    text = Path(path).read_text().rstrip()
    Path(path).write_text(text)
    assert append(path, real)
    assert Path(path).read_text().startswith(text + "\n")
    Path(path).write_text("device,from\n")
    with pytest.raises(DataError, match="must have the columns device, since, until, verdict"):
        append(path, real)
    others = [name for name in text.split("\n")[0].split(",") if name != "why"]
    Path(path).write_text(",".join(others) + "\n")
    with pytest.raises(DataError, match="must begin with the line device,group,since,until"):
        append(path, real)


def rows_of(*bends: int) -> Array:
    """A third channel that is too high for 60 rows from each of some rows on."""
    rows = np.random.default_rng(4).normal(size=(1400, 3))
    for bend in bends:
        rows[bend : bend + 60, 2] += 6.0
    return rows


def run(work: Work, rows: Array, *cuts: int) -> tuple[Model, Array, list[Episode], list[Any]]:
    model = begin(work, "a", rows[:100])
    scores, episodes, devices = [], [], []
    pieces = np.split(np.arange(len(rows)), cuts)
    for number, piece in enumerate(pieces):
        until = math.inf if number == len(pieces) - 1 else -math.inf
        model, found = run_rows(work, "a", model, rows[piece], piece * SECOND, until)
        assert found.scores is not None
        scores.append(found.scores.p)
        episodes += found.episodes.get(0, [])
        devices += found.devices.get(0, [])
    return model, np.concatenate(scores), episodes, devices


def false_of(work: Work, rows: Array) -> Feedback:
    """The first episode was false, which is said once it is over."""
    over = next(each for each in run(work, rows)[2] if each.closed)
    parts = named_channels(over.shares.tolist(), over.deviations.tolist(), CHANNELS)
    return Feedback(
        (
            Said(
                *("a", over.times[0], over.times[2], FALSE, over.times[2]),
                *(over.kind, tuple(parts)),
            ),
        ),
        CHANNELS,
    )


def test_what_is_like_a_false_one_does_not_count_from_then_on() -> None:
    rows, plain = rows_of(700, 1000), Work(spec=SPEC, reference=HELD, devices=True)
    work = dataclasses.replace(plain, feedback=false_of(plain, rows))
    model, p, episodes, devices = run(work, rows)
    ends = {each.number: each.muted for each in episodes}
    assert ends == {1: AGAIN, 2: AGAIN}
    # What was told before that stays as it was.
    assert [each.muted for each in episodes if each.number == 1] == [None, None, AGAIN]
    told = [each for each in devices if each.episode is not None and not each.episode.closed]
    assert {(each.episode.number, each.state) for each in told} == {(1, OFF), (2, NORMAL)}
    # All else is as it is without.
    other, other_p, other_episodes, _ = run(plain, rows)
    assert p.tobytes() == other_p.tobytes()
    assert encode(work, "a", model) == encode(plain, "a", other)
    lines = {repr(each._replace(muted=None)) for each in episodes}
    assert {repr(each) for each in other_episodes} <= lines


@settings(max_examples=examples(30))
@given(cuts=st.lists(st.integers(650, 1200), max_size=4), devices=st.booleans())
def test_cuts_change_no_line(cuts: list[int], devices: bool) -> None:
    rows, plain = rows_of(700, 1000), Work(spec=SPEC, reference=HELD, devices=devices)
    work = dataclasses.replace(plain, feedback=false_of(plain, rows))
    whole, found = run(work, rows), run(work, rows, *sorted(cuts))
    assert repr(found[2:]) == repr(whole[2:])
    assert {each.muted for each in whole[2]} == {None, AGAIN}
