"""What people know of devices: times at which rows say nothing, such as maintenance or a holiday.

Rows of such a time are tracked like others, but not compared with the reference, nor learned by
it: they pass by, and the first row after them is compared with no row before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.monitor.clocks import UTC
from kerneltrack.monitor.entries import ALL, by_who, groups_named, texts_of
from kerneltrack.monitor.spans import is_day, parse_moment

FIELDS = ("device", "group", "from", "to", "why")
MOST_TIMES = 100_000
"""Entries, at most."""
EVERY_YEAR = "every year "
"""How the `from` of a time begins that comes each year: a month and day follow, or a time of it."""
YEARS = range(1970, 2101)
"""Those that it comes in."""


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


@dataclasses.dataclass(frozen=True)
class QuietTimes:
    """The quiet times of devices.

    Attributes:
        times: The entries.
        groups: Each device's group, where entries name groups.
    """

    times: tuple[QuietTime, ...]
    groups: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @cached_property
    def _by_name(self) -> dict[tuple[str | None, str | None], list[QuietTime]]:
        return by_who(self.times)

    def entries_of(self, device: str) -> list[QuietTime]:
        """Return the entries that are of a device, of its group or of all."""
        names: list[tuple[str | None, str | None]] = [(device, None), (ALL, None)]
        if device in self.groups:
            names.append((None, self.groups[device]))
        return [each for name in dict.fromkeys(names) for each in self._by_name.get(name, ())]

    def of(self, device: str) -> IntArray:
        """Return a device's quiet times, (k, 2) ns: start and end, in order, none overlapping."""
        group = self.groups.get(device)
        # Most devices have no entries of their own, and the same times as others.
        names = device if (device, None) in self._by_name else None, group
        if names not in self._known:
            self._known[names] = self._joined(device)
        return self._known[names]

    @cached_property
    def _known(self) -> dict[tuple[str | None, str | None], IntArray]:
        return {}

    def _joined(self, device: str) -> IntArray:
        joined: list[list[int]] = []
        for start, end in sorted((each.start, each.end) for each in self.entries_of(device)):
            if joined and start <= joined[-1][1]:
                joined[-1][1] = max(joined[-1][1], end)
            else:
                joined.append([start, end])
        return np.array(joined, np.int64).reshape(-1, 2)

    def is_quiet(self, device: str, times: IntArray) -> npt.NDArray[np.bool_]:
        """Return which of a device's rows are of a quiet time, (n,), by their times, ns."""
        spans = self.of(device)
        if not len(spans):
            return np.zeros(len(times), np.bool_)
        place = spans[:, 0].searchsorted(times, "right") - 1
        quiet: npt.NDArray[np.bool_] = (place >= 0) & (times < spans[place, 1])
        return quiet

    def to_dict(self) -> dict[str, Any]:
        """Return the times, and the groups of devices that they name, as JSON has them."""
        groups = groups_named(self.times, self.groups)
        return {"times": [each._asdict() for each in self.times], "groups": groups}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> QuietTimes:
        """Return what `to_dict` gave."""
        return cls(tuple(QuietTime(**each) for each in values["times"]), values["groups"])


def runs_of(quiet: npt.NDArray[np.bool_]) -> list[tuple[int, int, bool]]:
    """Cut rows where a quiet time begins or ends: first, place after the last, whether quiet.

    Example:
        >>> runs_of(np.array([False, False, True]))
        [(0, 2, False), (2, 3, True)]
    """
    edges = [0, *(np.flatnonzero(np.diff(quiet)) + 1).tolist(), len(quiet)]
    return [(first, stop, bool(quiet[first])) for first, stop in pairwise(edges) if stop > first]


def checked_times(entries: Sequence[tuple[str, Any]], zone: str = UTC) -> tuple[QuietTime, ...]:
    """Return the quiet times that entries of a file say.

    Args:
        entries: Each with its place ("line 3"): a mapping with a `device` ("*" for all) or a
            `group`, `from`, `to` and `why`. A `to` that is a date is that whole day. With
            `EVERY_YEAR` both are without a year: `to` is the next one after `from`.
        zone: The zone of times that name no offset.

    Raises:
        ConfigError: for one that says something else, by its place.
    """
    if not 0 < len(entries) <= MOST_TIMES:
        raise ConfigError("entries", len(entries), f"1 to {MOST_TIMES:,}")
    return tuple(each for where, entry in entries for each in _checked(where, entry, zone))


def _checked(where: str, entry: Any, zone: str) -> list[QuietTime]:
    texts = texts_of(where, entry, FIELDS)
    if ("device" in texts) == ("group" in texts):
        allowed = f'a device, or "{ALL}", or a group: one of them'
        raise ConfigError(where, texts.get("device"), allowed)
    for name in ("from", "to"):
        if name not in texts:
            raise ConfigError(f"{where}, {name}", None, "a date or a time in ISO 8601")
    if texts["from"].startswith(EVERY_YEAR):
        spans = _each_year(where, texts["from"].removeprefix(EVERY_YEAR).strip(), texts["to"], zone)
    else:
        spans = [_span(where, texts["from"], texts["to"], zone)]
    who = texts.get("device"), texts.get("group")
    return [QuietTime(*who, start, end, texts.get("why", "")) for start, end in spans]


def _span(where: str, begin: str, stop: str, zone: str) -> tuple[int, int]:
    start = parse_moment(f"{where}, from", begin, zone)
    end = _end(f"{where}, to", stop, zone)
    if end <= start:
        raise ConfigError(f"{where}, to", stop, f"after {begin}")
    return start, end


def _each_year(where: str, begin: str, stop: str, zone: str) -> list[tuple[int, int]]:
    """Return the spans from a day of the year to the next such day, of all years."""
    start = _in_a_year(f"{where}, from", begin, parse_moment)
    later = 1 if _in_a_year(f"{where}, to", stop, _end) < start else 0
    return [_span(where, f"{year}-{begin}", f"{year + later}-{stop}", zone) for year in YEARS]


def _in_a_year(field: str, text: str, read: Callable[[str, str, str], int]) -> int:
    """Return when a day of the year, or a time of it, is in 2001, which has no leap day, ns."""
    try:
        return read(field, f"2001-{text}", UTC)
    except (ConfigError, ValueError):
        allowed = "a month and day that each year has, as 12-24, or a time of it, 12-24T18:00"
        raise ConfigError(field, text, allowed) from None


def _end(field: str, text: str, zone: str) -> int:
    """Return the first time after a quiet one, ns: of a date the midnight that ends it."""
    if is_day(text):
        text = (date.fromisoformat(text) + timedelta(days=1)).isoformat()
    return parse_moment(field, text, zone)
