"""What a notification says: an episode of a device, its silence, or an incident begins or ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import msgspec
import numpy as np

from kerneltrack.errors import DataError, printable
from kerneltrack.fleet.devices import CHANGED, LEARNING, OFF, channel_text
from kerneltrack.monitor.likeness import KnownFault, like_of, like_text, named_channels
from kerneltrack.monitor.reference.spec import ACCEPTED, LEAST_SHARE, STEADY
from pipelines.report.text import counted, few, moment
from transforms.outputs import SILENT

FIRING, RESOLVED = "firing", "resolved"
INCIDENT, FLEET = "incident", "fleet"
BY = "by "
"""How the kind begins of what differs by period."""
MOST_CHANNELS = 3
"""Channels that a text names."""
MOST_DEVICES = 5
"""Devices of an incident that a text names."""
SPIKE = "spike"
"""The kind of every episode in its first rows: while one is open it says nothing yet."""
_ENDED = {CHANGED: STEADY, LEARNING: ACCEPTED}
"""How the episode ended after which a device is in a state, if it is not as before."""
_TO_SECONDS = 10**9
_FIELDS = {"model_id", "episode", "state", "kind", "severity", "start_index"}
_FIELDS |= {"shares", "deviations"}


class Notice(msgspec.Struct, frozen=True):
    """An episode of a device, its silence, or an incident of several, as of one line.

    Attributes:
        device: The device's ID; of an incident, the group of its devices, or "fleet".
        episode: The episode's number; None of a silence, an incident or a difference by day.
        kind: As of `Episode`, or "silent", "incident" or "by day".
        state: "open", "closed", "steady" or "accepted".
        start_index: Index of the row since when.
        start: That row's time, ns; None without times.
        time: Time of the row after which this holds, ns; None without times, or if not known.
        severity: As of `Episode`; None of a silence or an incident.
        channels: Names, shares and deviations of the channels that explain it, the largest share
            first.
        devices: Of an incident, the IDs of its devices.
        members: Of an incident, the keys of its episodes that are the newest of their devices.
        like: Which known fault it is like, in words; "": none.
    """

    device: str
    episode: int | None
    kind: str
    state: str
    start_index: int
    start: int | None
    time: int | None
    severity: float | None
    channels: list[dict[str, Any]]
    devices: list[str] = []
    members: list[str] = []
    like: str = ""

    @property
    def own(self) -> str:
        """What tells this episode or silence apart from others of the device, however it goes on.

        Example:
            >>> Notice("pump-5", 3, "shift", "open", 9, None, None, 12.5, []).own
            'episode 3'
        """
        if self.episode is not None:
            return f"episode {self.episode}"
        return f"{self.kind} since {iso_of(self.start) or f'row {self.start_index}'}"

    @property
    def key(self) -> str:
        """What tells it apart from all others."""
        return f"{self.device} {self.own}"

    @property
    def settled_kind(self) -> str | None:
        """The kind; None of an episode so short yet that it may become any.

        Example:
            >>> Notice("pump-5", 3, "spike", "open", 9, None, None, 12.5, []).settled_kind
            >>> Notice("pump-5", 3, "spike", "closed", 9, None, None, 12.5, []).settled_kind
            'spike'
        """
        return None if self.is_open and self.kind == SPIKE else self.kind

    @property
    def is_by_period(self) -> bool:
        """Whether it says that the device differs from its past and the fleet, by period."""
        return self.kind.startswith(BY)

    @property
    def is_open(self) -> bool:
        """Whether it goes on."""
        return self.state == "open"


class Event(msgspec.Struct, frozen=True):
    """What is sent: that an episode or silence has begun, or that it is over.

    Attributes:
        opened: As it was when it began.
        closed: As it was when it ended; None: it goes on.
        over: Whether it is over: also where nothing more is known of it, after a run anew.
    """

    opened: Notice
    closed: Notice | None = None
    over: bool = False

    @property
    def status(self) -> str:
        """`FIRING` or `RESOLVED`."""
        return RESOLVED if self.over else FIRING

    @property
    def until(self) -> int | None:
        """When it ended, ns; None if it has not, or nobody knows."""
        return None if self.closed is None else self.closed.time

    @property
    def kind(self) -> str | None:
        """The kind as far as it is known by now; None: not yet."""
        return (self.closed or self.opened).settled_kind

    @property
    def channels(self) -> str:
        """The channels that explain it, with their shares, and how far they are above the usual.

        Example:
            >>> heat = {"channel": "heat", "share": 0.97, "deviation": 6.08}
            >>> notice = Notice("pump-5", 1, "shift", "open", 9, None, None, 12.5, [heat])
            >>> Event(notice).channels
            'heat 97 % (+6.1)'
        """
        named = [each for each in self.opened.channels if each["share"] >= LEAST_SHARE]
        parts = ("channel", "share", "deviation")
        texts = [channel_text(*(each[part] for part in parts)) for each in named[:MOST_CHANNELS]]
        return printable(", ".join(texts).replace("%", " %"))

    @property
    def summary(self) -> str:
        """One line for people.

        Example:
            >>> start = 1_772_395_140_000_000_000
            >>> notice = Notice("pump-5", 1, "shift", "open", 9, start, None, 12.5, [])
            >>> Event(notice).summary
            'pump-5 is off since 2026-03-01 19:59:00 UTC: shift'
            >>> Event(notice, over=True).summary
            'pump-5 is well again (shift since 2026-03-01 19:59:00 UTC)'
        """
        notice, device = self.opened, printable(self.opened.device)
        since = f"row {notice.start_index:,}"
        if notice.start is not None:
            since = f"{moment(notice.start, to=_TO_SECONDS)} UTC"
        if notice.kind == INCIDENT:
            return self._of_incident(since)
        if notice.kind == SILENT:
            again = f"{device} sends rows again (silent since {since})"
            return again if self.over else f"{device} has sent nothing since {since}"
        if notice.is_by_period:
            as_before = f"{device} no longer differs {notice.kind} (since {since})"
            changed = f"{device} differs {notice.kind} since {since}: {self.channels}"
            return as_before if self.over else changed
        if self.over:
            return self._ended(device, since)
        like = notice.like.replace("%", " %")
        kind = ", ".join(text for text in (self.kind, like) if text)
        what = " in ".join(text for text in (kind, self.channels) if text)
        return f"{device} is off since {since}" + (f": {what}" if what else "")

    def _of_incident(self, since: str) -> str:
        names = self.opened.devices
        of = "" if self.opened.device == FLEET else f" of {printable(self.opened.device)}"
        if self.over:
            return f"the incident{of} since {since} is over: {counted(len(names), 'device')}"
        shown = few([printable(name) for name in names], MOST_DEVICES)
        return f"{counted(len(names), 'device')}{of} went off together from {since} on: {shown}"

    def _ended(self, device: str, since: str) -> str:
        ended = self.closed or self.opened
        what = f"{self.kind} since {since}" if self.kind else f"since {since}"
        if ended.state == STEADY:
            return f"{device} has changed to stay ({what}): it is not as it was"
        if ended.state == ACCEPTED:
            return f"{device} has a new normal ({what})"
        return f"{device} is well again ({what})"


def counts(line: Mapping[str, Any]) -> bool:
    """Check whether anybody hears of a line of the episodes: not of an open one that is muted.

    The end of one that was told of before it was muted is told of.
    """
    return line.get("state") != "open" or line.get("muted") is None


def notice_of(
    line: Mapping[str, Any],
    channels: Sequence[str],
    place: str,
    faults: Sequence[KnownFault] = (),
) -> Notice:
    """Return what a line of the episodes says.

    Args:
        line: Its columns by name; times in ns since 1970, or in ISO 8601.
        channels: Names of the D channels, if the line has none itself; others are numbered.
        place: Where the line comes from, for the error.
        faults: Known faults, after which it is named.

    Raises:
        DataError: if it is no line of episodes.
    """
    if not line.keys() >= _FIELDS:
        raise DataError(place, "has a line without columns of episodes: is it an episodes topic?")
    try:
        named = _channels_of(line, channels)
        return Notice(
            str(line["model_id"]),
            None if line["kind"] == SILENT else int(line["episode"]),
            str(line["kind"]),
            str(line["state"]),
            int(line["start_index"]),
            _ns(line.get("start")),
            _ns(line.get("time")),
            _number(line["severity"]),
            named,
            like=like_text(like_of(str(line["kind"]), named, faults)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(place, f"has a line that is no episode: {error}") from error


def notice_of_device(
    line: Mapping[str, Any], place: str, faults: Sequence[KnownFault] = ()
) -> Notice | None:
    """Return what a line of a devices topic says of the device's newest episode, or its silence.

    Args:
        line: Its fields.
        place: Where the line comes from, for the error.
        faults: As of `notice_of`.

    Returns:
        None if it says of neither; of a device that differs by period, that.

    Raises:
        DataError: if it is no line of a devices topic.
    """
    is_off = line["state"] == OFF
    if str(line["kind"]).startswith(BY):
        return difference_of(line["model_id"], line["kind"], line["since"], line["channels"])
    if line["kind"] == SILENT:
        since = {"start": line.get("since"), "start_index": line["since_index"]}
    elif line["episode"] is not None:
        since = {}
    else:
        return None
    state = "open" if is_off else _ENDED.get(line["state"], "closed")
    shares: dict[str, Any] = {"shares": [], "deviations": []}
    return notice_of({**shares, **line, **since, "state": state}, (), place, faults)


def difference_of(
    device: str, kind: str, since: int | str, channels: Sequence[Mapping[str, Any]]
) -> Notice:
    """Return that a device differs by period.

    Args:
        device: Its ID.
        kind: "by day".
        since: Start of the first period that differs, in ns since 1970 or in ISO 8601.
        channels: The channel that differs most, as a line of the devices has it.
    """
    return Notice(device, None, kind, "open", 0, _ns(since), None, None, [*map(dict, channels)])


def _channels_of(line: Mapping[str, Any], channels: Sequence[str]) -> list[dict[str, Any]]:
    named = line.get("channels")
    if named is not None:
        return [
            {
                "channel": str(each["channel"]),
                "share": float(each["share"]),
                "deviation": _number(each["deviation"]),
            }
            for each in named
        ]
    shares = [share or 0.0 for share in line["shares"]]
    names = [*channels, *(f"channel {n}" for n in range(len(channels) + 1, len(shares) + 1))]
    return named_channels(shares, line["deviations"], names)


def iso_of(time: int | None) -> str | None:
    """Return a time, ns since 1970, as RFC 3339 has it, in whole milliseconds.

    Example:
        >>> iso_of(1_500_000_000_250_000_000)
        '2017-07-14T02:40:00.250Z'
    """
    if time is None:
        return None
    stamp = datetime.fromtimestamp(time // 10**6 / 1000, timezone.utc)
    return stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ns(value: Any) -> int | None:
    if value is None or isinstance(value, int):
        return value
    return int(np.datetime64(str(value).removesuffix("Z"), "ns").astype(np.int64))


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
