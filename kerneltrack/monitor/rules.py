"""Rules of what counts: a channel on one side of what is usual only, or only from a distance on.

Rules change nothing of what is measured or learned. They say of each line of an episode whether it
is *muted*: more than half of what explains the episode so far is in channels whose deviations are
not as the rules ask. A channel whose deviation is not known, such as a stuck one, always counts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from kerneltrack.errors import ConfigError, printable
from kerneltrack.monitor.entries import ALL, by_who, groups_named, texts_of
from kerneltrack.monitor.reference.episodes import Episode
from kerneltrack.monitor.reference.spec import RECOVERED

UP, DOWN = "up", "down"
FIELDS = ("device", "group", "channel", "direction", "least_deviation")
MOST_RULES = 100_000
"""Entries, at most."""


class Rule(NamedTuple):
    """An entry.

    Attributes:
        device: A device's ID, or "*" for all; None: those of a group.
        group: A group's name; None: one device, or all.
        channel: The channel's name.
        direction: `UP`: it counts only above what is usual, `DOWN`: only below; None: on both
            sides.
        least_deviation: It counts only from this distance on, in the channel's own unit; None: from
            any.
    """

    device: str | None
    group: str | None
    channel: str
    direction: str | None = None
    least_deviation: float | None = None

    @property
    def text(self) -> str:
        """The rule in words.

        Example:
            >>> Rule("*", None, "heat", "up", 2.5).text
            'heat: up by 2.5 or more'
        """
        least, side = self.least_deviation, self.direction
        if least is None:
            return f"{self.channel}: {side} only"
        return f"{self.channel}: {f'{side} ' if side else ''}by {least:g} or more"

    def allows(self, deviation: float) -> bool:
        """Check whether the channel counts at this deviation; NaN: it is not known.

        Example:
            >>> rule = Rule("*", None, "heat", "up", 2.5)
            >>> rule.allows(2.5), rule.allows(2.4), rule.allows(-9.0), rule.allows(math.nan)
            (True, False, False, True)
        """
        if math.isnan(deviation):
            return True
        if self.direction is not None and (deviation > 0.0) != (self.direction == UP):
            return False
        return abs(deviation) >= (self.least_deviation or 0.0)


@dataclasses.dataclass(frozen=True)
class Rules:
    """The rules of devices.

    Attributes:
        rules: The entries: at most one of a device, group or all for a channel.
        channels: Names of the D channels, all that entries name among them.
        groups: Each device's group, where entries name groups.
    """

    rules: tuple[Rule, ...]
    channels: tuple[str, ...]
    groups: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @cached_property
    def _by_name(self) -> dict[tuple[str | None, str | None], list[Rule]]:
        return by_who(self.rules)

    def of(self, device: str) -> dict[int, Rule]:
        """Return a device's rules by place of the channel: its own, its group's or all's."""
        names: list[tuple[str | None, str | None]] = [(ALL, None)]
        if device in self.groups:
            names.append((None, self.groups[device]))
        names.append((device, None))
        found = {rule.channel: rule for name in names for rule in self._by_name.get(name, ())}
        places = {channel: place for place, channel in enumerate(self.channels)}
        return {places[channel]: rule for channel, rule in found.items()}

    def why_muted(self, device: str, episode: Episode) -> str | None:
        """Return the rule by which an episode is muted as it is now; None: it is not.

        It is that of the channel with the largest share of those that do not count. An episode
        that shows a device to have recovered is never muted: the device is not off.
        """
        if episode.kind == RECOVERED:
            return None
        shares, deviations = episode.shares.tolist(), episode.deviations.tolist()
        muted = [
            (shares[place], rule)
            for place, rule in self.of(device).items()
            if not rule.allows(deviations[place])
        ]
        if 2.0 * math.fsum(share for share, _ in muted) <= math.fsum(shares):
            return None
        return max(muted, key=lambda each: each[0])[1].text

    def judged(self, device: str, episode: Episode) -> Episode:
        """Return an episode with the rule by which it is muted as it is now."""
        return episode._replace(muted=self.why_muted(device, episode))

    def to_dict(self) -> dict[str, Any]:
        """Return the rules, and the groups of devices that they name, as JSON has them."""
        groups = groups_named(self.rules, self.groups)
        return {"rules": [each._asdict() for each in self.rules], "groups": groups}


def checked_rules(entries: Sequence[tuple[str, Any]], channels: Sequence[str]) -> Rules:
    """Return the rules that entries say, without the groups of devices.

    Args:
        entries: Each with its place ("line 3"): a mapping with a `device` or a `group` (neither:
            all devices), a `channel`, and a `direction`, a `least_deviation` or both.
        channels: Names of the D channels.

    Raises:
        ConfigError: for one that says something else, by its place.
    """
    if not 0 < len(entries) <= MOST_RULES:
        raise ConfigError("entries", len(entries), f"1 to {MOST_RULES:,}")
    found: dict[tuple[str | None, str | None, str], str] = {}
    rules = []
    for where, entry in entries:
        rule = _checked(where, entry, channels)
        who = rule.device, rule.group, rule.channel
        if who in found:
            raise ConfigError(f"{where}, channel", rule.channel, f"once: {found[who]} has it")
        found[who] = where
        rules.append(rule)
    return Rules(tuple(rules), tuple(channels))


def _checked(where: str, entry: Any, channels: Sequence[str]) -> Rule:
    texts = texts_of(where, entry, FIELDS)
    if "device" in texts and "group" in texts:
        raise ConfigError(f"{where}, group", texts["group"], "left out where a device is named")
    channel = texts.get("channel")
    if channel is None or channel not in channels:
        names = ", ".join(map(printable, channels))
        raise ConfigError(f"{where}, channel", channel, f"a channel: {names}")
    direction, least = texts.get("direction"), texts.get("least_deviation")
    if direction not in (None, UP, DOWN):
        raise ConfigError(f"{where}, direction", direction, f"{UP} or {DOWN}")
    if direction is None and least is None:
        raise ConfigError(f"{where}, direction", None, "given, or least_deviation")
    group = texts.get("group")
    device = None if group is not None else texts.get("device", ALL)
    distance = None if least is None else _distance(where, least)
    return Rule(device, group, channel, direction, distance)


def _distance(where: str, text: str) -> float:
    try:
        least = float(text)
    except ValueError:
        least = math.nan
    if not 0.0 < least < math.inf:
        allowed = "a number above 0, in the channel's own unit"
        raise ConfigError(f"{where}, least_deviation", text, allowed)
    return least
