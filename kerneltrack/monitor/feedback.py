"""What people said of episodes: which were false, so that later ones like them are muted.

Like a rule, feedback says of each line of an episode whether it is *muted*: of the episodes of the
same device that people spoke of, the one that it is most like was false. A line counts what was
said of moments of event time up to its row's. A reference that moves learns the rows of false
episodes (`kerneltrack.monitor.reference`); nothing else that is measured or learned depends on it.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from kerneltrack.arrays import IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.monitor.clocks import UTC
from kerneltrack.monitor.entries import by_who, texts_of, told_entries
from kerneltrack.monitor.likeness import KnownFault, likeness, named_channels
from kerneltrack.monitor.reference.episodes import Episode
from kerneltrack.monitor.reference.run import NOTHING_SAID
from kerneltrack.monitor.reference.spec import RECOVERED
from kerneltrack.monitor.spans import parse_moment

FALSE, REAL = "false", "real"
VERDICTS = (FALSE, REAL)
NEEDED = ("device", "since", "until", "verdict", "from", "kind", "channels")
FIELDS = ("device", "group", "since", "until", "verdict", "name", "from", "why", "kind", "channels")
MOST_SAID = 100_000
"""Entries, at most."""
MOST_TOLD, MOST_ENTRY = 64, 1 << 14
"""Entries of a device that a live job is told while it runs, and their bytes, at most."""
LEAST_LIKENESS = 0.9
"""Episodes that are less like a false one are not muted."""
LONGEST = 4.0
"""Nor are those that last more than so many times as long: what comes and goes may come to stay."""
_OF_CHANNEL = {"channel", "share", "deviation"}


class Said(NamedTuple):
    """An entry: what somebody said of an episode, and what the episode was like.

    Attributes:
        device: The device's ID; "" for those of a group.
        since: Since when the episode was, ns. Of a group all are meant that were between these.
        until: Time of its newest row that was known, ns.
        verdict: `FALSE` or `REAL`.
        start: It counts from this time on, ns.
        kind: As of `Episode`.
        channels: As of `KnownFault`.
        name: What was found to be its cause; "": not said.
        why: The reason; "": none.
        group: A group's name, which says it of each of its devices; None: of one.
    """

    device: str
    since: int
    until: int
    verdict: str
    start: int
    kind: str
    channels: tuple[Mapping[str, Any], ...]
    name: str = ""
    why: str = ""
    group: str | None = None

    @property
    def who(self) -> str:
        """The device or group."""
        return self.device if self.group is None else self.group

    @property
    def fault(self) -> KnownFault:
        """The episode as others are compared with it."""
        return KnownFault(self.name, self.who, self.kind, self.channels)

    def is_of(self, start: int, now: int) -> bool:
        """Check whether it is of an episode of these times, ns: the begin, and its newest row."""
        if self.group is None:
            return self.since == start // 1000 * 1000
        return start <= self.until and now >= self.since

    @property
    def text(self) -> str:
        """Why an episode like it is muted, if it was false."""
        return f"like that since {np.datetime64(self.since // 10**9, 's')}Z, marked as false"


@dataclasses.dataclass(frozen=True)
class Feedback:
    """What people said of devices' episodes.

    Attributes:
        said: The entries. Of two of an episode the later one counts, from its own time on.
        channels: Names of the D channels.
        told: What a live job was told of devices since, behind these: as bytes, and read.
        groups: Each device's group, where entries name groups.
    """

    said: tuple[Said, ...]
    channels: tuple[str, ...]
    told: dict[str, tuple[bytes, tuple[Said, ...]]] = dataclasses.field(
        default_factory=dict, compare=False
    )
    groups: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def tell(self, device: str, told: bytes) -> None:
        """Let this be all that a live job was told of a device, by `told_with`; b"": nothing.

        A job that goes on may have other names of channels: nothing is like those that are gone.
        """
        if not told:
            self.told.pop(device, None)
        elif self.told.get(device, (b"",))[0] != told:
            self.told[device] = told, checked_feedback(told_entries(told, MOST_ENTRY))

    def read_new(self, told: bytes) -> tuple[Said, ...]:
        """Return the entries that a live job is told.

        Raises:
            ConfigError: for bytes that are something else, or another channel than these.
        """
        return checked_feedback(told_entries(told, MOST_ENTRY), self.channels)

    def said_of(self, device: str) -> IntArray:
        """Return what was said of a device's episodes, as of `reference.update`."""
        lines = [
            (each.since, each.until, each.start, each.verdict == FALSE, each.group is not None)
            for each in self._entries_of(device)
        ]
        return np.array(lines, np.int64) if lines else NOTHING_SAID

    @cached_property
    def _by_who(self) -> dict[tuple[str | None, str | None], list[Said]]:
        return by_who(self.said)

    def _entries_of(self, device: str) -> list[Said]:
        """Return what was said of a device: of its group, then of itself.

        Of each first what is in the file, then what was told while the job runs.
        """
        told, group = self.told.get(device, (b"", ()))[1], self.groups.get(device)
        return [
            *(self._by_who.get(("", group), ()) if group is not None else ()),
            *(each for each in told if each.group is not None),
            *self._by_who.get((device, None), ()),
            *(each for each in told if each.group is None),
        ]

    def of(self, device: str, time: int) -> list[Said]:
        """Return what counts of a device's episodes at a time, ns: of each what was said last."""
        entries = [each for each in self._entries_of(device) if each.start <= time]
        return [*{(each.group, each.since): each for each in entries}.values()]

    def why_muted(self, device: str, episode: Episode) -> str | None:
        """Return why an episode is muted as it is now, in words; None: it is not.

        An episode that shows a device to have recovered is never muted: the device is not off.
        """
        start, _, now, _ = episode.times
        said = self.of(device, now)
        if episode.kind == RECOVERED or not said:
            return None
        # Files know no NaN.
        deviations = [None if math.isnan(each) else each for each in episode.deviations.tolist()]
        channels = named_channels(episode.shares.tolist(), deviations, self.channels)
        how_like = [
            (likeness(episode.kind, channels, each.fault), each.verdict == REAL, each)
            for each in said
        ]
        # Of those that are as like, one that was real comes first.
        most, is_real, nearest = max(how_like, key=itemgetter(0, 1))
        is_longer = now - start > LONGEST * (nearest.until - nearest.since)
        if is_real or most < LEAST_LIKENESS or (is_longer and not nearest.is_of(start, now)):
            return None
        return nearest.text

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the entries as JSON has them."""
        return [each._asdict() for each in self.said]


def entry_of(said: Said) -> dict[str, str]:
    """Return the texts of an entry, by field, as files have them."""
    texts = {
        "device": said.device,
        "group": said.group or "",
        "since": _moment(said.since),
        "until": _moment(said.until),
        "verdict": said.verdict,
        "name": said.name,
        "from": _moment(said.start),
        "why": said.why,
        "kind": said.kind,
        "channels": json.dumps(list(said.channels), allow_nan=False),
    }
    return {field: texts[field] for field in FIELDS}


def _moment(time: int) -> str:
    return f"{np.datetime64(time, 'ns')}Z"


def told_with(told: bytes, said: bytes) -> bytes:
    """Return what a live job was told of a device, with one entry more; the last `MOST_TOLD` stay.

    Args:
        told: What it was told before.
        said: The entry: a line of JSON.
    """
    lines = [*told.splitlines(), said]
    return b"\n".join(lines[-MOST_TOLD:])


def named_faults(said: Sequence[Said]) -> list[KnownFault]:
    """Return the episodes that have a name, and were not said to be false later."""
    last = {(each.device, each.group, each.since): each for each in said}
    return [each.fault for each in last.values() if each.verdict == REAL and each.name]


def faults_of_run(run: Mapping[str, Any]) -> list[KnownFault]:
    """Return the named episodes of the feedback that a run had, by its record."""
    return named_faults([Said(**each) for each in run.get("feedback") or ()])


def checked_feedback(
    entries: Sequence[tuple[str, Any]], channels: Sequence[str] | None = None, zone: str = UTC
) -> tuple[Said, ...]:
    """Return what entries say.

    Args:
        entries: Each with its place ("line 3"): a mapping with the `NEEDED` fields, or a `group` in
            place of a device, and perhaps others of `FIELDS`. `channels` is a list of mappings, or
            its text in JSON.
        channels: Names of the channels that there are; None: any.
        zone: The zone of times that name no offset.

    Raises:
        ConfigError: for one that says something else, by its place.
    """
    if len(entries) > MOST_SAID:
        raise ConfigError("entries", len(entries), f"at most {MOST_SAID:,}")
    return tuple(_checked(where, entry, channels, zone) for where, entry in entries)


def _checked(where: str, entry: Any, channels: Sequence[str] | None, zone: str) -> Said:
    if isinstance(entry, Mapping) and isinstance(entry.get("channels"), list):
        entry = {**entry, "channels": json.dumps(entry["channels"])}
    texts = texts_of(where, entry, FIELDS)
    if "device" in texts and "group" in texts:
        raise ConfigError(f"{where}, group", texts["group"], "left out where a device is named")
    for field in NEEDED:
        if field not in texts and not (field == "device" and "group" in texts):
            raise ConfigError(f"{where}, {field}", None, "given")
    verdict, name = texts["verdict"].lower(), texts.get("name", "")
    if verdict not in VERDICTS:
        raise ConfigError(f"{where}, verdict", texts["verdict"], f"{FALSE} or {REAL}")
    if name and verdict == FALSE:
        raise ConfigError(f"{where}, name", name, "left out of an episode that was false")
    since, until, start = (
        parse_moment(f"{where}, {field}", texts[field], zone)
        for field in ("since", "until", "from")
    )
    if until < since:
        raise ConfigError(f"{where}, until", texts["until"], "not before since")
    return Said(
        device=texts.get("device", ""),
        group=texts.get("group"),
        since=since,
        until=until,
        verdict=verdict,
        start=start,
        kind=texts["kind"],
        channels=_channels(f"{where}, channels", texts["channels"], channels),
        name=name,
        why=texts.get("why", ""),
    )


def _channels(where: str, text: str, known: Sequence[str] | None) -> tuple[Mapping[str, Any], ...]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(
        isinstance(each, dict) and {*each} == _OF_CHANNEL for each in found
    ):
        allowed = 'a list in JSON: [{"channel": "heat", "share": 0.9, "deviation": 6.1}]'
        raise ConfigError(where, text, allowed)
    for each in found:
        if known is not None and each["channel"] not in known:
            raise ConfigError(where, each["channel"], f"a channel: {', '.join(known)}")
        _check_number(f"{where}, share", each["share"], 0.0, 1.0)
        if each["deviation"] is not None:
            _check_number(f"{where}, deviation", each["deviation"], -math.inf, math.inf)
    return tuple(found)


def _check_number(where: str, value: Any, least: float, most: float) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not least <= value <= most:
        allowed = "a finite number" if math.isinf(most) else f"{least:g} to {most:g}"
        raise ConfigError(where, value, allowed)
