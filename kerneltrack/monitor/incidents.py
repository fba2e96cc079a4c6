"""Incidents: episodes of several devices that begin together, more often than chance explains.

Let a fleet have N episodes in a time T. A *cluster of k* begins with an episode at time t if
episodes of k devices, its own among them, begin in [t, t + w]. If devices go off independently of
each other, each at a rate that does not change, another device with n episodes has one of them in
that span with a probability of at most n w / T. So the number of others in it is a sum of
independent indicators with a mean of at most mu = N w / T, whose tail beyond mu + 1 is at most that
of a Poisson variable. Summed over the N episodes that may begin a cluster, the expected number of
clusters of k or more is at most

    N P(Poisson(mu) >= k - 1)    for k - 1 >= mu + 1,

and the probability that there is one is no larger. An incident is what clusters cover whose bound
is at most a given probability. How the episodes of one device follow each other does not matter.
A rate that rises on all devices at a time, such as at the start of each Monday, counts as a common
cause.

Reference: the tail of sums of indicators: Hoeffding, Annals of Mathematical Statistics, 1956,
Theorem 4 (at most the binomial's); Anderson and Samuels, 5th Berkeley Symposium, 1967 (at most
Poisson's). Clusters in a span: Naus, Journal of the American Statistical Association, 1965.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

SPAN = 3 * 3600 * 10**9
"""w, ns: episodes of one cause are noticed within some hours, by how much each device shows it."""
LEAST_PARTS = 100
"""w is this part of T at most."""
CHANCE = 0.01
"""Probability of any incident in a run without a common cause, at most."""
LEAST_DEVICES = 3


class Began(NamedTuple):
    """An episode that began.

    Attributes:
        device: The device's ID.
        episode: Its number.
        time: When, ns.
    """

    device: str
    episode: int
    time: int


class Incident(NamedTuple):
    """Episodes that began together.

    Attributes:
        members: The episodes, in order of time, then of their devices' IDs.
        devices: How many devices they are of.
        group: The group of all members; None if they are of several, or without groups.
        chance: The bound on the probability of its densest cluster without a common cause.
    """

    members: tuple[Began, ...]
    devices: int
    group: str | None
    chance: float


def span_of(watched: int) -> int:
    """Return the span w, ns, in a time T, ns."""
    return min(SPAN, watched // LEAST_PARTS)


def incidents_of(
    began: Sequence[Began],
    watched: int,
    groups: Mapping[str, str] | None = None,
    *,
    episodes: Mapping[str, int] | None = None,
) -> list[Incident]:
    """Find the incidents among the episodes of a fleet, in order of time.

    With groups half of the probability is for the whole fleet; what is of no incident of the fleet
    is then looked at by group, each with an equal part of the other half.

    Args:
        began: The episodes, in any order.
        watched: The time T in which devices could go off, ns.
        groups: Of each device; None: all are one.
        episodes: How many each device had, where `began` has only some of them.

    Returns:
        Incidents, which depend on the times and IDs of episodes and on T alone.

    Cost: O(n log n) time and O(n) memory for n episodes.

    Example:
        >>> hour = 3600 * 10**9
        >>> alone = [Began(f"pump-{day}", 1, 24 * day * hour) for day in range(5)]
        >>> both = [Began(f"fan-{n}", 1, 60 * hour + n) for n in range(4)]
        >>> (found,) = incidents_of(alone + both, 30 * 24 * hour)
        >>> [each.device for each in found.members], found.chance < 1e-4
        (['fan-0', 'fan-1', 'fan-2', 'fan-3'], True)
    """
    ordered = sorted(began, key=lambda each: (each.time, each.device, each.episode))
    part = CHANCE if groups is None else CHANCE / 2
    counts = episodes or Counter(each.device for each in ordered)
    found = _clusters(ordered, watched, part, sum(counts.values()))
    if groups is not None:
        known = {each for members, _ in found for each in members}
        many: Counter[str] = Counter()
        for device in counts.keys() & groups.keys():
            many[groups[device]] += counts[device]
        many.subtract(groups[each.device] for each in known if each.device in groups)
        own: dict[str, list[Began]] = {}
        for each in ordered:
            if each not in known and each.device in groups:
                own.setdefault(groups[each.device], []).append(each)
        each_part = part / max(len(set(groups.values())), 1)
        for name in sorted(own):
            found += _clusters(own[name], watched, each_part, many[name])
    incidents = [_incident(members, chance, groups) for members, chance in found]
    return sorted(incidents, key=lambda each: (each.members[0].time, each.members[0].device))


def _clusters(
    ordered: Sequence[Began], watched: int, part: float, episodes: int
) -> list[tuple[list[Began], float]]:
    """Return episodes that clusters cover whose bound is at most a probability, with the least."""
    span = span_of(watched)
    if span <= 0 or not ordered:
        return []
    mean = episodes * span / watched
    within: Counter[str] = Counter()
    found: list[tuple[int, int, float]] = []
    stop = 0
    for start, first in enumerate(ordered):
        while stop < len(ordered) and ordered[stop].time - first.time <= span:
            within[ordered[stop].device] += 1
            stop += 1
        bound = expected_clusters(episodes, mean, len(within))
        if len(within) >= LEAST_DEVICES and bound <= part:
            if found and start < found[-1][1]:
                begin, _, least = found.pop()
                found.append((begin, stop, min(least, bound)))
            else:
                found.append((start, stop, bound))
        within[first.device] -= 1
        if not within[first.device]:
            del within[first.device]
    return [(list(ordered[begin:end]), bound) for begin, end, bound in found]


def expected_clusters(episodes: int, mean: float, devices: int) -> float:
    """Return the bound on the expected number of clusters, at most the number of episodes.

    Args:
        episodes: N.
        mean: mu, N w / T.
        devices: k.
    """
    if devices - 1 < mean + 1:
        return float(episodes)
    return episodes * poisson_tail(mean, devices - 1)


def poisson_tail(mean: float, least: int) -> float:
    """Return P(X >= least) of a Poisson variable with a mean below `least`.

    Example:
        >>> poisson_tail(0.5, 1) == 1 - math.exp(-0.5)
        True
    """
    term = math.exp(least * math.log(mean) - mean - math.lgamma(least + 1))
    total, count = 0.0, least
    while term > total * np.finfo(float).eps:
        total += term
        count += 1
        term *= mean / count
    return total


def _incident(
    members: Sequence[Began], chance: float, groups: Mapping[str, str] | None
) -> Incident:
    names = {each.device for each in members}
    own = {None} if groups is None else {groups.get(name) for name in names}
    group = own.pop() if len(own) == 1 else None
    return Incident(tuple(members), len(names), group, chance)
