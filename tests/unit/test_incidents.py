"""Incidents: which episodes begin together, and how often they would by chance."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.monitor.incidents import (
    CHANCE,
    LEAST_DEVICES,
    SPAN,
    Began,
    Incident,
    expected_clusters,
    incidents_of,
    poisson_tail,
    span_of,
)
from pipelines.devices.incidents import incidents_now
from pipelines.report.clock import iso
from tests.parts import examples

HOUR = 3600 * 10**9
MONTH = 30 * 24 * HOUR


def obvious(began: Sequence[Began], watched: int) -> list[list[Began]]:
    """The rule of the module, episode by episode, without groups."""
    span, total = span_of(watched), len(began)
    ordered = sorted(began, key=lambda each: (each.time, each.device, each.episode))
    covered: list[set[Began]] = []
    for at, first in enumerate(ordered):
        own = [each for each in ordered[at:] if each.time <= first.time + span]
        devices = len({each.device for each in own})
        mean = total * span / watched
        others = range(devices - 1)
        below = sum(math.exp(-mean) * mean**k / math.factorial(k) for k in others)
        is_rare = devices - 1 >= mean + 1 and total * max(1 - below, 0.0) <= CHANCE
        if devices >= LEAST_DEVICES and is_rare:
            if covered and covered[-1] & set(own):
                covered[-1] |= set(own)
            else:
                covered.append(set(own))
    return [sorted(each, key=lambda one: (one.time, one.device, one.episode)) for each in covered]


@settings(max_examples=examples(200))
@given(st.data())
def test_it_is_the_rule(data: st.DataObject) -> None:
    hours = st.integers(0, data.draw(st.sampled_from([24, 300, 700])))
    drawn = data.draw(st.lists(st.tuples(st.integers(0, 8), hours), max_size=30))
    counts: dict[int, int] = defaultdict(int)
    began = []
    for device, hour in drawn:
        counts[device] += 1
        began.append(Began(f"m{device}", counts[device], hour * HOUR))
    found = incidents_of(began, MONTH)
    assert [list(each.members) for each in found] == obvious(began, MONTH)
    # In any order.
    random.Random(len(began)).shuffle(began)
    assert incidents_of(began, MONTH) == found
    for each in found:
        assert each.devices == len({one.device for one in each.members}) >= LEAST_DEVICES
        assert each.chance <= CHANCE and each.group is None


@pytest.mark.parametrize(("mean", "least"), [(0.01, 1), (0.5, 2), (3.0, 9), (40.0, 90)])
def test_the_tail_is_poissons(mean: float, least: int) -> None:
    terms = [math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(400)]
    assert poisson_tail(mean, least) == pytest.approx(math.fsum(terms[least:]), rel=1e-12)


def test_the_bound_says_nothing_near_the_mean() -> None:
    assert expected_clusters(50, 3.0, 4) == 50
    assert expected_clusters(50, 3.0, 20) < 1e-6


def fleet(rng: np.random.Generator, devices: int, rate: float, burst: int) -> list[Began]:
    """Episodes of independent devices: each begins a burst at some times, at a rate of its own."""
    found = []
    for device in range(devices):
        own = rng.gamma(0.5, 2 * rate)
        times = rng.uniform(0, MONTH, rng.poisson(own))
        times = (times[:, None] + rng.uniform(0, 2 * HOUR, (len(times), burst))) % MONTH
        found += [Began(f"m{device}", n, int(time)) for n, time in enumerate(times.ravel())]
    return found


@pytest.mark.parametrize(
    ("devices", "rate", "burst"),
    [
        *((40, 0.1, 1), (40, 1.0, 1), (40, 0.5, 5)),
        pytest.param(1000, 0.05, 1, marks=pytest.mark.nightly),
    ],
)
def test_independent_devices_have_none(devices: int, rate: float, burst: int) -> None:
    """Bursts and unequal rates change nothing: at most one run in a hundred has an incident."""
    rng = np.random.default_rng(devices + burst)
    runs = 300
    wrong = sum(bool(incidents_of(fleet(rng, devices, rate, burst), MONTH)) for _ in range(runs))
    # 300 x .01 are expected at most; more than 9 come once in a thousand such tests.
    assert wrong <= 9


def together(devices: Sequence[str], hour: float) -> list[Began]:
    return [Began(name, 1, int((hour + 0.01 * n) * HOUR)) for n, name in enumerate(devices)]


def of_each(found: Sequence[Incident]) -> list[tuple[str | None, int]]:
    return [(each.group, each.devices) for each in found]


def test_a_common_cause_is_one_incident_of_its_group_or_of_all() -> None:
    names = [f"m{n:02}" for n in range(40)]
    groups: Mapping[str, str] = {
        name: "north" if n < 10 else "south" for n, name in enumerate(names)
    }
    alone = [Began(name, 9, 15 * n * HOUR) for n, name in enumerate(names)]
    assert of_each(incidents_of(alone, MONTH, groups)) == []
    whole = together(names[5:15], 333)
    north = together(names[:8], 500)
    found = incidents_of([*alone, *whole, *north], MONTH, groups)
    assert of_each(found) == [(None, 10), ("north", 8)]
    assert set(found[1].members) == set(north)
    # Too few for a fleet that has many; not so for their group, which has none else.
    busy = [
        Began(name, 10 + k, (7 * n + 71 * k) * HOUR)
        for n, name in enumerate(names[10:])
        for k in range(9)
    ]
    three = together(names[:4], 610.5)
    assert of_each(incidents_of([*busy, *three], MONTH)) == []
    assert of_each(incidents_of([*busy, *three], MONTH, groups)) == [("north", 4)]


def test_a_short_run_has_a_short_span() -> None:
    assert span_of(MONTH) == SPAN
    assert span_of(10 * HOUR) == HOUR // 10
    assert incidents_of(together(["a", "b", "c"], 1), 0) == []
    assert incidents_of([], MONTH) == []
    # An hour in which all goes wrong is no incident: there is nothing to compare it with.
    assert incidents_of(together(list("abcdefgh"), 0), HOUR // 10) == []


def device(name: str, *, state: str = "normal", since: int = 0, **changed: Any) -> dict[str, Any]:
    """A line of a devices topic; times in hours."""
    line = {"model_id": name, "state": state, "episodes": 0, "episode": None, "kind": None}
    line |= {"since": iso(since * HOUR), "time": iso(since * HOUR), "detected": None, **changed}
    if isinstance(line["detected"], int):
        line["time"] = line["detected"] = iso(line["detected"] * HOUR)
    return line


def off(number: int, at: int = 700, **changed: Any) -> dict[str, Any]:
    given = {"state": "off", "since": at, "detected": at, "episodes": 1, "episode": 1}
    return device(f"pump-{number}", **{**given, "kind": "shift", **changed})


def test_a_devices_topic_tells_the_incidents_that_go_on() -> None:
    well = [device(f"fan-{n}") for n in range(8)]
    (found,) = incidents_now([*well, off(2), off(10, 701), off(1, 702), off(3, 600)])
    assert (found.devices, found.open) == (("pump-1", "pump-2", "pump-10"), 3)
    assert (found.start, found.last) == (700 * HOUR, 702 * HOUR)
    # One that is well again stays a member; where all are, there is nothing to tell.
    over = off(2, state="normal")
    (found,) = incidents_now([*well, over, off(10, 701), off(1, 702)])
    assert (len(found.devices), found.open) == (3, 2)
    assert incidents_now([*well, over, off(10, 701, state="changed")]) == []
    # What does not count, and who sends nothing, belongs to none.
    others = [off(3, muted="below"), off(4, kind="recovered"), off(5, kind="silent", detected=None)]
    assert incidents_now([*well, off(1), off(2), *others]) == []


def test_all_episodes_of_a_fleet_count_against_chance() -> None:
    """Also those of which the topic knows no more than the number."""
    together = [off(number) for number in range(3)]
    assert incidents_now([*together, *(device(f"fan-{n}") for n in range(8))])
    assert not incidents_now([*together, *(device(f"fan-{n}", episodes=20) for n in range(8))])


def test_groups_of_a_live_job_are_looked_at_by_themselves() -> None:
    """A small hall whose devices fail is found in a fleet that has many episodes."""
    hall = [off(number, 700 + number) for number in range(4)]
    others = [device(f"fan-{n}", episodes=20) for n in range(12)]
    groups = {line["model_id"]: "hall" for line in hall} | {"fan-1": "roof"}
    assert incidents_now([*hall, *others]) == []
    (found,) = incidents_now([*hall, *others], groups)
    assert (found.group, found.devices) == ("hall", tuple(f"pump-{n}" for n in range(4)))
    # Its own episodes count against chance.
    busy = [{**line, "episodes": 60} for line in hall]
    assert incidents_now([*busy, *others], groups) == []
    # What belongs to an incident of the fleet is not told of twice.
    (whole,) = incidents_now([*hall, *(device(f"fan-{n}") for n in range(12))], groups)
    assert (whole.group, whole.devices) == ("hall", found.devices)


def test_wrong_clocks_of_two_devices_make_no_incident() -> None:
    together = [off(number, at=20 + number) for number in range(3)]
    many = [device(f"fan-{n}", episodes=3, since=10) for n in range(8)]
    assert incidents_now([*together, *many]) == []
    old = [device(f"old-{n}", since=-300_000) for n in range(2)]
    far = [device(f"far-{n}", since=300_000) for n in range(2)]
    assert incidents_now([*together, *many, *old, *far]) == []
    # A third one is believed.
    assert incidents_now([*together, *many, *old, device("old-2", since=-300_000)])
