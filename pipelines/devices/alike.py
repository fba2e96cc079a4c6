"""Devices that are off in the same way: an exchanged part, or a cause that they share."""

from __future__ import annotations

from collections.abc import Sequence

from kerneltrack.errors import printable
from kerneltrack.fleet.devices import CHANGED, OFF
from kerneltrack.monitor.likeness import STUCK, KnownFault, likeness
from kerneltrack.monitor.reference.spec import LEAST_SHARE
from pipelines.devices.of_run import Line
from pipelines.report.data.episodes import MOST_CHANNELS
from pipelines.report.text import few

LEAST_LIKENESS = 0.8
LEAST_DEVICES = 3
MOST_LOOKED_AT = 1_000
"""Devices, the worst first, that are held against each other."""
MOST_NAMED = 3


def alike_lines(lines: Sequence[Line]) -> list[str]:
    """Return a line for each three or more devices that are off, or changed, in the same way.

    Whether they are says the likeness of their episodes, that of known faults, to the first one's.

    Args:
        lines: What is known of each device, the worst first.
    """
    groups: list[tuple[KnownFault, list[str]]] = []
    telling = [line for line in lines if line["state"] in (OFF, CHANGED) and line["channels"]]
    for line in telling[:MOST_LOOKED_AT]:
        own = KnownFault("", line["model_id"], line["kind"], line["channels"])
        for first, members in groups:
            if likeness(own.kind, own.channels, first) >= LEAST_LIKENESS:
                members.append(own.device)
                break
        else:
            groups.append((own, [own.device]))
    return [
        f"{len(members):,} devices differ alike ({_way(first)}): {_named(members)}"
        for first, members in groups
        if len(members) >= LEAST_DEVICES
    ]


def _named(members: Sequence[str]) -> str:
    return few([printable(each) for each in members[:MOST_NAMED]], MOST_NAMED, len(members))


def _way(first: KnownFault) -> str:
    """Return the channels of an episode, and on which side they are."""
    return ", ".join(
        f"{printable(each['channel'])} {_side(first.kind, each['deviation'])}"
        for each in first.channels[:MOST_CHANNELS]
        if each["share"] >= LEAST_SHARE
    )


def _side(kind: str, deviation: float | None) -> str:
    if kind == STUCK:
        return STUCK
    if deviation is None:
        return "odd"
    return "above" if deviation > 0 else "below"
