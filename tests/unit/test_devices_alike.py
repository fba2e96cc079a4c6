"""Devices that differ in the same way are one line of `kerneltrack devices`."""

from __future__ import annotations

from typing import Any

from kerneltrack.monitor.likeness import channel
from pipelines.devices.text import changes_of_one_first, in_order, open_episodes
from pipelines.report.data import alike as groups


def alike(lines: list[Any]) -> list[str]:
    return groups.alike_lines(groups.alike(open_episodes(lines)))


def line(
    device: str, *channels: dict[str, Any], kind: str = "shift", state: str = "changed"
) -> Any:
    return {"model_id": device, "state": state, "kind": kind, "channels": [*channels]}


def exchanged(device: str, oil: float = 0.6, **more: Any) -> Any:
    """Oil above and heat below what is usual, with a share of this size."""
    return line(device, channel("oil", oil, 1.0), channel("heat", 1 - oil, -1.4), **more)


def test_three_that_differ_alike_are_one_line_and_others_none() -> None:
    lines = [
        exchanged("a"),
        line("b", channel("oil", 0.6, -1.0), channel("heat", 0.4, 1.4)),
        exchanged("c", 0.8, state="off"),
        exchanged("d", kind="ramp"),
        line("e", channel("oil", 1.0, 40.0)),
        exchanged("f", state="normal"),
    ]
    assert alike(lines) == ["3 devices differ alike (oil above, heat below): a, c, d"]
    assert alike(lines[:3]) == []


def test_those_that_changed_alike_stand_behind_a_change_that_is_one_device_s_own() -> None:
    lines = [
        {**exchanged("a", state="off"), "severity": 1.0},
        *({**exchanged(name), "severity": 100.0} for name in "bcd"),
        {**line("e", channel("oil", 1.0, 40.0)), "severity": 2.0},
        {**line("f", channel("heat", 1.0, None), kind="stuck"), "severity": 900.0},
    ]
    found = in_order(lines)
    found = changes_of_one_first(found, groups.alike(open_episodes(found)))
    assert [each["model_id"] for each in found] == ["a", "e", "f", "b", "c", "d"]
    assert alike(found) == ["4 devices differ alike (oil above, heat below): a, b, c and 1 more"]


def test_more_are_counted_and_stuck_ones_are_alike_among_themselves() -> None:
    stuck = [line(f"s{n}", channel("oil", 1.0, None), kind="stuck") for n in range(4)]
    lines = [*stuck, *(exchanged(f"x{n}") for n in range(3))]
    assert alike(lines) == [
        "4 devices differ alike (oil stuck): s0, s1, s2 and 1 more",
        "3 devices differ alike (oil above, heat below): x0, x1, x2",
    ]


def test_silent_devices_and_those_without_channels_are_left_out() -> None:
    assert alike([line(name, kind="silent", state="off") for name in "abc"]) == []
    assert alike([{**line(name), "channels": None} for name in "abc"]) == []
