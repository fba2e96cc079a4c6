"""What people know of devices: times at which rows say nothing, such as maintenance or a holiday.

Rows of such a time are tracked like others, but not compared with the reference, nor learned by
it: they pass by, and the first row after them is compared with no row before it. A time may come
again each year, week or day; a live job may be told of others while it runs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.monitor.clocks import UTC
from kerneltrack.monitor.entries import ALL, by_who, groups_named, texts_of, told_entries
from kerneltrack.monitor.recurring import EVERY, Recurrence, recurrence
from kerneltrack.monitor.spans import is_day, parse_moment
from kerneltrack.time_units import day_of

FIELDS = ("device", "group", "from", "to", "why")
CANCEL = "cancel"
"""Field of a message, "true": the entry does not count any more."""
MOST_TIMES = 100_000
"""Entries, at most."""
MOST_TOLD, MOST_ENTRY = 64, 1 << 11
"""Entries of a device that a live job is told while it runs, and their bytes, at most."""
YEAR = 366 * 86_400 * 10**9
"""How much before and after the times that are asked for is looked up with them, ns."""


class QuietTime(NamedTuple):
    """An entry.

    Attributes:
        device: A device's ID, or "*" for all; None: those of a group.
        group: A group's name; None: one device, or all.
        start: First time, ns.
        end: Time after the last, ns.
        why: The reason.
    """

    device: str | None
    group: str | None
    start: int
    end: int
    why: str

    def spans(self, first: int, last: int) -> IntArray:
        """Return the time if it may be between two, ns: (k, 2) start and end."""
        meets = self.start <= last and self.end > first
        return np.array([self[2:4]] if meets else [], np.int64).reshape(-1, 2)


class RecurringTime(NamedTuple):
    """An entry that comes again each year, week or day.

    Attributes:
        device: As of `QuietTime`.
        group: As of `QuietTime`.
        every: "year", "week" or "day".
        begin: When it begins, as `recurrence` reads it.
        stop: When it ends.
        zone: Whose clocks show that.
        why: The reason.
    """

    device: str | None
    group: str | None
    every: str
    begin: str
    stop: str
    zone: str
    why: str

    @property
    def comes(self) -> Recurrence:
        """When it comes."""
        return recurrence(self.every, self.every, self.begin, self.stop, self.zone)

    def spans(self, first: int, last: int) -> IntArray:
        """Return those that may be between two times, ns: (k, 2) start and end."""
        return self.comes.spans(first, last)


Entry: TypeAlias = QuietTime | RecurringTime


def is_same(one: Entry, other: Entry) -> bool:
    """Check whether two entries say the same of the same devices, whatever the reasons."""
    if one[:2] != other[:2]:
        return False
    if isinstance(one, RecurringTime) and isinstance(other, RecurringTime):
        return one.comes == other.comes
    return one[:4] == other[:4]


class Told(NamedTuple):
    """What a live job was told of a device while it runs.

    Attributes:
        entry: The entry.
        cancels: Whether it does not count any more.
    """

    entry: Entry
    cancels: bool


class _Known(NamedTuple):
    """The spans of a device that may be between two times, ns."""

    first: int
    last: int
    spans: IntArray


@dataclasses.dataclass(frozen=True)
class QuietTimes:
    """The quiet times of devices.

    Attributes:
        times: The entries.
        groups: Each device's group, where entries name groups.
        zone: The zone of times that name no offset, in what a live job is told.
        least: What it is told begins at this time, ns, or later, and does not recur; None: any.
        told: What it was told of devices: as bytes, and read.
    """

    times: tuple[Entry, ...]
    groups: Mapping[str, str] = dataclasses.field(default_factory=dict)
    zone: str = UTC
    least: int | None = None
    told: dict[str, tuple[bytes, tuple[Told, ...]]] = dataclasses.field(
        default_factory=dict, compare=False
    )

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not self.times and not self.told

    @cached_property
    def _by_name(self) -> dict[tuple[str | None, str | None], list[Entry]]:
        return by_who(self.times)

    def entries_of(self, device: str) -> list[Entry]:
        """Return the entries that count for a device: its own, of its group or of all."""
        names: list[tuple[str | None, str | None]] = [(device, None), (ALL, None)]
        if device in self.groups:
            names.append((None, self.groups[device]))
        found = [each for name in dict.fromkeys(names) for each in self._by_name.get(name, ())]
        for told in self.told.get(device, (b"", ()))[1]:
            if told.cancels:
                found = [each for each in found if not is_same(each, told.entry)]
            else:
                found.append(told.entry)
        return found

    def of(self, device: str, first: int, last: int) -> IntArray:
        """Return a device's quiet times that may be between two times, ns.

        Returns:
            (k, 2) ns: start and end, in order, none overlapping.
        """
        # Most devices have no entries of their own, and the same times as others.
        names = self._names_of(device)
        known = self._known.get(names)
        if known is None or first < known.first or last > known.last:
            first, last = first - YEAR, last + YEAR
            spans = [each.spans(first, last) for each in self.entries_of(device)]
            known = self._known[names] = _Known(first, last, _joined(spans))
        return known.spans

    def _names_of(self, device: str) -> tuple[str | None, str | None]:
        has_own = device in self.told or (device, None) in self._by_name
        return device if has_own else None, self.groups.get(device)

    @cached_property
    def _known(self) -> dict[tuple[str | None, str | None], _Known]:
        return {}

    def is_quiet(self, device: str, times: IntArray) -> npt.NDArray[np.bool_]:
        """Return which of a device's rows are of a quiet time, (n,), by their times, ns."""
        if self.is_empty or not len(times):
            return np.zeros(len(times), np.bool_)
        spans = self.of(device, int(times.min()), int(times.max()))
        if not len(spans):
            return np.zeros(len(times), np.bool_)
        place = spans[:, 0].searchsorted(times, "right") - 1
        quiet: npt.NDArray[np.bool_] = (place >= 0) & (times < spans[place, 1])
        return quiet

    # ---- what a live job is told ----

    def tell(self, device: str, told: bytes) -> None:
        """Let this be all that a live job was told of a device, by `told_with`; b"": nothing."""
        if told == self.told.get(device, (b"",))[0]:
            return
        self._known.pop((device, self.groups.get(device)), None)
        if told:
            self.told[device] = told, self.read(told)
        else:
            del self.told[device]

    def read(self, told: bytes) -> tuple[Told, ...]:
        """Read what `told_with` gave.

        Raises:
            ConfigError: for bytes that are something else.
        """
        return tuple(_told(*each, self.zone) for each in told_entries(told, MOST_ENTRY))

    def read_new(self, told: bytes) -> list[Entry]:
        """Return the entries that a live job is told.

        Raises:
            ConfigError: as `read`, and for an entry that begins too early.
        """
        found = [each.entry for each in self.read(told)]
        for entry in found:
            if self.least is not None and _begins(entry) < self.least:
                allowed = f"{day_of(self.least)} or later, the end of the reference's stretch"
                raise ConfigError("from", entry[2], allowed)
        return found

    def told_with(self, told: bytes, line: bytes, now: Callable[[], float]) -> bytes | None:
        """Return what a live job was told of a device, with one entry more.

        Of more than `MOST_TOLD` those go first that are over, as many as have to.

        Args:
            told: What it was told before.
            line: The entry: a line of JSON.
            now: Gives the time, ns, before which rows have run.

        Returns:
            The entries; None if all are still to come, and there is no place for one more.
        """
        lines = [*told.splitlines(), line]
        if len(lines) > MOST_TOLD:
            ran = now()
            over = [each for each in lines if _ends(self.read(each)[0].entry) <= ran]
            for each in over[: len(lines) - MOST_TOLD]:
                lines.remove(each)
        return b"\n".join(lines) if len(lines) <= MOST_TOLD else None

    # ---- as JSON ----

    def to_dict(self) -> dict[str, Any]:
        """Return the times, and the groups of devices that they name, as JSON has them."""
        groups = groups_named(self.times, self.groups)
        return {"times": [each._asdict() for each in self.times], "groups": groups}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> QuietTimes:
        """Return what `to_dict` gave."""
        times = [
            RecurringTime(**each) if "every" in each else QuietTime(**each)
            for each in values["times"]
        ]
        return cls(tuple(times), values["groups"])


def _joined(spans: Sequence[IntArray]) -> IntArray:
    joined: list[list[int]] = []
    for start, end in sorted(each for own in spans for each in own.tolist()):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return np.array(joined, np.int64).reshape(-1, 2)


def _begins(entry: Entry) -> float:
    return entry.start if isinstance(entry, QuietTime) else -math.inf


def _ends(entry: Entry) -> float:
    return entry.end if isinstance(entry, QuietTime) else math.inf


def runs_of(quiet: npt.NDArray[np.bool_]) -> list[tuple[int, int, bool]]:
    """Cut rows where a quiet time begins or ends: first, place after the last, whether quiet.

    Example:
        >>> runs_of(np.array([False, False, True]))
        [(0, 2, False), (2, 3, True)]
    """
    edges = [0, *(np.flatnonzero(np.diff(quiet)) + 1).tolist(), len(quiet)]
    return [(first, stop, bool(quiet[first])) for first, stop in pairwise(edges) if stop > first]


def checked_times(entries: Sequence[tuple[str, Any]], zone: str = UTC) -> tuple[Entry, ...]:
    """Return the quiet times that entries of a file say.

    Args:
        entries: Each with its place ("line 3"): a mapping with a `device` ("*" for all) or a
            `group`, `from`, `to` and `why`. A `to` that is a date is that whole day. A `from` like
            "every week Sunday" comes again: `to` is the next such moment after it.
        zone: The zone of times that name no offset.

    Raises:
        ConfigError: for one that says something else, by its place.
    """
    if len(entries) > MOST_TIMES:
        raise ConfigError("entries", len(entries), f"at most {MOST_TIMES:,}")
    return tuple(_checked(where, entry, zone) for where, entry in entries)


def _told(where: str, entry: Any, zone: str) -> Told:
    """Return what an entry of a message says."""
    cancels: Any = False
    if isinstance(entry, Mapping) and CANCEL in entry:
        entry = dict(entry)
        cancels = entry.pop(CANCEL)
    if not isinstance(cancels, bool):
        raise ConfigError(f"{where}, {CANCEL}", cancels, "true or false")
    return Told(_checked(where, entry, zone), cancels)


def _checked(where: str, entry: Any, zone: str) -> Entry:
    texts = texts_of(where, entry, FIELDS)
    if ("device" in texts) == ("group" in texts):
        allowed = f'a device, or "{ALL}", or a group: one of them'
        raise ConfigError(where, texts.get("device"), allowed)
    for name in ("from", "to"):
        if name not in texts:
            raise ConfigError(f"{where}, {name}", None, "a date or a time in ISO 8601")
    device, group, why = texts.get("device"), texts.get("group"), texts.get("why", "")
    comes = EVERY.fullmatch(texts["from"])
    if comes is not None:
        found = comes[1].lower(), comes[2].strip(), texts["to"], zone
        recurrence(where, *found)
        return RecurringTime(device, group, *found, why)
    start = parse_moment(f"{where}, from", texts["from"], zone)
    end = _end(f"{where}, to", texts["to"], zone)
    if end <= start:
        raise ConfigError(f"{where}, to", texts["to"], f"after {texts['from']}")
    return QuietTime(device, group, start, end, why)


def _end(field: str, text: str, zone: str) -> int:
    """Return the first time after a quiet one, ns: of a date the midnight that ends it."""
    if is_day(text):
        text = (date.fromisoformat(text) + timedelta(days=1)).isoformat()
    return parse_moment(field, text, zone)
