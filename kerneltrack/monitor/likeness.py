"""How like two episodes are: which known fault one resembles, by its channels and their sides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kerneltrack.errors import printable

STUCK = "stuck"
"""Kind of an episode in which a channel repeats its value: how far it is off says nothing."""
LEAST_LIKENESS = 0.5
"""Episodes that are less like a fault do not take its name."""
MOST_CHANNELS = 10
"""Channels of an episode that are named, those with the largest shares."""


class KnownFault(NamedTuple):
    """An episode whose cause people know.

    Attributes:
        name: What they call it.
        device: The device's ID.
        kind: As of `Episode`.
        channels: Its channels with the largest shares: `channel`, `share` and `deviation` of each.
    """

    name: str
    device: str
    kind: str
    channels: Sequence[Mapping[str, Any]]


def named_channels(
    shares: Sequence[float], deviations: Sequence[float | None], channels: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the channels of an episode with the largest shares, by name, ten at most.

    Example:
        >>> named_channels([0.2, 0.8], [None, -3.2], ["flow", "heat"])[0]
        {'channel': 'heat', 'share': 0.8, 'deviation': -3.2}
    """
    order = sorted(range(len(shares)), key=lambda place: (-shares[place], place))
    return [
        {"channel": channels[place], "share": shares[place], "deviation": deviations[place]}
        for place in order[:MOST_CHANNELS]
        if shares[place] > 0
    ]


def likeness(kind: str, channels: Sequence[Mapping[str, Any]], fault: KnownFault) -> float:
    """Return how like an episode is to a known fault, from 0 (nothing in common) to 1.

    Σ √(s s') ⁴√(min(|d|, |d'|) / max(|d|, |d'|)) over the channels of both, s being a channel's
    shares (so that the square root alone is Bhattacharyya's coefficient) and d its deviations. The
    fourth root is 1 for a channel whose deviation is not known in either, and 0 where it is not in
    one alone, or above in one and below in the other. Stuck channels are like stuck ones alone.

    Args:
        kind: Kind of the episode.
        channels: Its channels, as of `KnownFault`.
        fault: The fault.

    Example:
        >>> fault = KnownFault("bearing", "p", "ramp", [channel("heat", 1.0, 4.0)])
        >>> likeness("shift", [channel("heat", 1.0, 0.25)], fault)
        0.5
        >>> likeness("shift", [channel("heat", 1.0, -4.0)], fault)
        0.0
    """
    others = {each["channel"]: each for each in fault.channels}
    sums = [
        math.sqrt(each["share"] * other["share"])
        * (_as_far(each["deviation"], other["deviation"]) if STUCK not in {kind, fault.kind} else 1)
        for each in channels
        if (other := others.get(each["channel"])) is not None
    ]
    return min(math.fsum(sums), 1.0) if (kind == STUCK) == (fault.kind == STUCK) else 0.0


def most_like(
    kind: str, channels: Sequence[Mapping[str, Any]], faults: Sequence[KnownFault]
) -> tuple[KnownFault, float] | None:
    """Return the fault that an episode is most like, and how like; None if it is like none."""
    found = [(fault, likeness(kind, channels, fault)) for fault in faults]
    best = max(found, key=lambda pair: pair[1], default=None)
    return None if best is None or best[1] < LEAST_LIKENESS else best


def like_of(
    kind: str, channels: Sequence[Mapping[str, Any]], faults: Sequence[KnownFault]
) -> dict[str, Any] | None:
    """Return the `name`, `device` and `likeness` of the fault that an episode is most like."""
    found = most_like(kind, channels, faults)
    if found is None:
        return None
    fault, how = found
    return {"name": fault.name, "device": fault.device, "likeness": how}


def like_text(like: Mapping[str, Any] | None) -> str:
    """Return what `like_of` gave in words; "" of None.

    Example:
        >>> like_text({"name": "bearing", "device": "pump-5", "likeness": 0.824})
        'like bearing of pump-5 (82%)'
    """
    if like is None:
        return ""
    return f"like {printable(like['name'])} of {printable(like['device'])} ({like['likeness']:.0%})"


def channel(name: str, share: float, deviation: float | None) -> dict[str, Any]:
    """Return a channel of an episode, as `KnownFault` has it."""
    return {"channel": name, "share": share, "deviation": deviation}


def _as_far(deviation: float | None, other: float | None) -> float:
    if deviation is None or other is None:
        return float(deviation is other)
    if not deviation * other > 0.0:
        return 0.0
    least, most = sorted((abs(deviation), abs(other)))
    return math.sqrt(math.sqrt(least / most))
