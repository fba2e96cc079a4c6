"""Rules: what entries say, which episodes they mute, and that nothing else depends on them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.devices import NORMAL, OFF
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.run import run_rows
from kerneltrack.fleet.states import encode
from kerneltrack.monitor.entries import ALL, check_devices
from kerneltrack.monitor.reference import Episode, ReferenceSpec
from kerneltrack.monitor.reference.spec import RECOVERED
from kerneltrack.monitor.rules import Rule, Rules, checked_rules
from kerneltrack.trackers import OKFEBSpec
from pipelines.notify.notices import counts, notice_of
from pipelines.notify.outbox import Outbox
from tests.parts import examples

CHANNELS = ("flow", "heat", "oil")
SPEC = OKFEBSpec(rank=3, budget=5)
HELD = ReferenceSpec(rows=256)
Array = npt.NDArray[np.float64]


def episode(shares: list[float], deviations: list[float], kind: str = "shift") -> Episode:
    parts = np.array(shares), np.array(deviations)
    return Episode(1, kind, 5, 9, 9, False, 9, 4.0, 1e-6, (0, 0, 0, 0), *parts)


def rules_of(*rules: Rule, **groups: str) -> Rules:
    return Rules(rules, CHANNELS, groups)


@pytest.mark.parametrize(
    ("shares", "deviations", "muted"),
    [
        ([0.0, 0.6, 0.4], [0.0, -1.0, 1.0], "heat: up only"),
        ([0.0, 0.6, 0.4], [0.0, 1.0, 1.0], None),
        ([0.0, 0.6, 0.4], [0.0, 1.0, -1.0], None),
        # Half of it counts.
        ([0.0, 0.5, 0.5], [0.0, -1.0, 3.0], None),
        ([0.4, 0.3, 0.3], [0.0, -1.0, 1.9], "heat: up only"),
        ([0.4, 0.2, 0.4], [0.0, -1.0, 1.9], "oil: by 2 or more"),
        ([0.4, 0.2, 0.4], [0.0, -1.0, -2.0], None),
        # Nothing is known of a stuck channel, nor does anything explain this.
        ([0.0, 1.0, 0.0], [math.nan] * 3, None),
        ([0.0, 0.0, 0.0], [-1.0, -1.0, 1.0], None),
    ],
)
def test_an_episode_is_muted_if_most_of_what_explains_it_does_not_count(
    shares: list[float], deviations: list[float], muted: str | None
) -> None:
    rules = rules_of(Rule(ALL, None, "heat", "up"), Rule(ALL, None, "oil", None, 2.0))
    assert rules.why_muted("a", episode(shares, deviations)) == muted
    # It says that the device is well again.
    assert rules.why_muted("a", episode(shares, deviations, RECOVERED)) is None


def test_a_devices_own_rule_comes_before_its_groups_and_that_before_all() -> None:
    of_all, of_group = Rule(ALL, None, "heat", "up"), Rule(None, "hall", "heat", "down")
    own = Rule("a", None, "heat", None, 3.0)
    oil = Rule(ALL, None, "oil", None, 2.0)
    rules = rules_of(own, of_group, of_all, oil, a="hall", b="hall", c="yard")
    found = {device: rules.of(device) for device in "abcd"}
    assert found["a"] == {1: own, 2: oil}
    assert found["b"] == {1: of_group, 2: oil}
    assert found["c"] == found["d"] == {1: of_all, 2: oil}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"channel": "speed", "direction": "up"}, "line 2, channel"),
        ({"direction": "up"}, "line 2, channel"),
        ({"channel": "heat"}, "line 2, direction"),
        ({"channel": "heat", "direction": "left"}, "line 2, direction"),
        ({"channel": "heat", "least_deviation": "some"}, "line 2, least_deviation"),
        ({"channel": "heat", "least_deviation": 0}, "line 2, least_deviation"),
        ({"channel": "heat", "least_deviation": -1}, "line 2, least_deviation"),
        ({"channel": "heat", "least_deviation": "nan"}, "line 2, least_deviation"),
        ({"channel": "heat", "direction": "up", "unit": "K"}, "line 2, unit"),
        ({"channel": "heat", "direction": "up", "device": "a", "group": "b"}, "line 2, group"),
        ("heat", "line 2"),
        ({"channel": "flow", "device": "*", "direction": "down"}, "once: line 1 has it"),
    ],
)
def test_what_an_entry_may_not_say_is_named_by_its_place(entry: Any, message: str) -> None:
    first = {"channel": "flow", "direction": "up"}
    with pytest.raises(ConfigError, match=message):
        checked_rules([("line 1", first), ("line 2", entry)], CHANNELS)


def test_entries_are_read_as_csv_and_yaml_give_them() -> None:
    entries = [
        {"device": "", "channel": " heat ", "direction": "up", "least_deviation": "2.5"},
        {"device": "a", "channel": "heat", "direction": "", "least_deviation": 4},
        {"group": "hall", "channel": "heat", "direction": "down"},
    ]
    found = checked_rules([(f"line {n}", entry) for n, entry in enumerate(entries)], CHANNELS)
    assert found.rules == (
        Rule(ALL, None, "heat", "up", 2.5),
        Rule("a", None, "heat", None, 4.0),
        Rule(None, "hall", "heat", "down"),
    )
    assert found.to_dict()["rules"][0] == {
        **{"device": "*", "group": None, "channel": "heat"},
        **{"direction": "up", "least_deviation": 2.5},
    }
    with pytest.raises(ConfigError, match="a device: groups are of files"):
        check_devices("--rules", found.rules)


def rows_of(count: int, rise: float) -> Array:
    """A third channel that begins to rise at row 1,000, by so much a row."""
    rows = np.random.default_rng(4).normal(size=(count, 3))
    rows[1000:, 2] += 4.0 + rise * np.arange(count - 1000)
    return rows


def run(work: Work, rows: Array, *cuts: int) -> tuple[Model, Array, list[Episode], list[Any]]:
    model = begin(work, "a", rows[:100])
    scores, episodes, devices = [], [], []
    pieces = np.split(rows, cuts)
    for number, piece in enumerate(pieces):
        until = math.inf if number == len(pieces) - 1 else -math.inf
        model, found = run_rows(work, "a", model, piece, None, until)
        assert found.scores is not None
        scores.append(found.scores.p)
        episodes += found.episodes.get(0, [])
        devices += found.devices.get(0, [])
    return model, np.concatenate(scores), episodes, devices


def test_an_episode_counts_from_the_first_line_at_which_the_rules_let_it() -> None:
    rows = rows_of(1700, 0.02)
    rules = rules_of(Rule(ALL, None, "oil", None, 6.0))
    work = Work(spec=SPEC, reference=HELD, rules=rules, devices=True)
    model, p, episodes, devices = run(work, rows)
    opened = episodes[0].opened
    assert [each.row - opened for each in episodes] == [0, 32, 128, 512, 1699 - opened]
    muted = [each.muted for each in episodes]
    assert muted[0] == muted[1] == "oil: by 6 or more"
    assert muted[3] is muted[4] is None
    told = [each for each in devices if each.episode is not None]
    assert [each.episode.muted for each in told] == muted[:-1]
    assert [each.state for each in told] == [NORMAL if why else OFF for why in muted[:-1]]
    # All else is as it is without rules.
    plain = dataclasses.replace(work, rules=None)
    other, other_p, other_episodes, other_devices = run(plain, rows)
    assert p.tobytes() == other_p.tobytes()
    assert encode(work, "a", model) == encode(plain, "a", other)
    bare = [each._replace(muted=None) for each in (episodes[0], episodes[-1])]
    assert repr(bare) == repr(other_episodes)
    assert [each.rows for each in devices] == [each.rows for each in other_devices]


@settings(max_examples=examples(30))
@given(cuts=st.lists(st.integers(900, 1400), max_size=4), devices=st.booleans())
def test_cuts_change_no_line(cuts: list[int], devices: bool) -> None:
    rows = rows_of(1400, 0.02)
    rows[1300:, 2] = rows[:100, 2]
    rules = rules_of(Rule(ALL, None, "oil", "up", 6.0))
    work = Work(spec=SPEC, reference=HELD, rules=rules, devices=devices)
    whole, found = run(work, rows), run(work, rows, *sorted(cuts))
    assert repr(found[2]) == repr(whole[2])
    assert repr(found[3]) == repr(whole[3])
    assert {each.muted for each in whole[2]} == {None, "oil: up by 6 or more"}


def test_nobody_hears_of_a_muted_episode_until_it_counts(tmp_path: Path) -> None:
    def line(number: int, state: str, muted: str | None) -> dict[str, Any]:
        return {
            **{"model_id": "a", "episode": number, "kind": "shift", "state": state},
            **{"severity": 5.0, "start_index": 7, "index": 9, "muted": muted, "channels": []},
            **{"shares": [], "deviations": []},
        }

    why = "oil: up only"
    lines = [
        *(line(1, "open", why), line(1, "closed", why)),
        *(line(2, "open", why), line(2, "open", None), line(2, "closed", why)),
        line(3, "open", why),
    ]
    outbox = Outbox(str(tmp_path / "notify.sqlite"), "here", ["hook"])
    heard = []
    for each in lines:
        if counts(each):
            outbox.read([notice_of(each, (), "")], {})
            due = outbox.due("hook", 9)
            heard += [(event.opened.episode, event.status) for event in due.values()]
            outbox.sent(due)
    assert heard == [(2, "firing"), (2, "resolved")]
