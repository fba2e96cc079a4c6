"""Devices that are off in the same way: an exchanged part, a setting, or a common cause."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from kerneltrack.errors import printable
from kerneltrack.monitor.likeness import STUCK, KnownFault, likeness
from kerneltrack.monitor.reference.spec import LEAST_SHARE
from pipelines.report.text import few

LEAST_LIKENESS = 0.8
LEAST_DEVICES = 3
MOST_LOOKED_AT = 1_000
"""Devices, the worst first, that are held against each other."""
_MOST_NAMED = 3


def alike(episodes: Iterable[KnownFault]) -> list[list[KnownFault]]:
    """Return the episodes of each three or more devices that are off, or changed, in the same way.

    Whether they are says the likeness of their episodes, that of known faults, to the first one's.

    Args:
        episodes: That of each device, the worst first; their names play no part.
    """
    groups: list[list[KnownFault]] = []
    for one in islice(episodes, MOST_LOOKED_AT):
        for group in groups:
            if likeness(one.kind, one.channels, group[0]) >= LEAST_LIKENESS:
                group.append(one)
                break
        else:
            groups.append([one])
    return [group for group in groups if len(group) >= LEAST_DEVICES]


def devices_alike(groups: Iterable[Iterable[KnownFault]]) -> set[str]:
    """Return the devices of what `alike` found.

    Of devices that have changed they come last in lists: there is a line about them, and what is
    nobody else's is rather a fault.
    """
    return {one.device for group in groups for one in group}


def alike_lines(groups: Iterable[list[KnownFault]]) -> list[str]:
    """Return what `alike` found in words, a line each."""
    return [_text(group) for group in groups]


def _text(group: list[KnownFault]) -> str:
    kind, channels = group[0].kind, group[0].channels
    ways = [
        f"{printable(each['channel'])} {_side(kind, each['deviation'])}"
        for each in channels
        if each["share"] >= LEAST_SHARE
    ]
    names = [printable(one.device) for one in group[:_MOST_NAMED]]
    named = few(names, _MOST_NAMED, len(group))
    return f"{len(group):,} devices differ alike ({few(ways, _MOST_NAMED)}): {named}"


def _side(kind: str, deviation: float | None) -> str:
    if kind == STUCK:
        return STUCK
    if deviation is None:
        return "odd"
    return "above" if deviation > 0 else "below"
