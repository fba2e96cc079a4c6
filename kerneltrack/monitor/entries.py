"""What entries that people write about devices share: whom they are of, and how they are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from kerneltrack.errors import ConfigError

ALL = "*"
"""In the place of a device: all of them."""


class Entry(Protocol):
    """An entry about a device, all of them, or those of a group."""

    @property
    def device(self) -> str | None:
        """A device's ID, or "*" for all; None: those of a group."""

    @property
    def group(self) -> str | None:
        """A group's name; None: one device, or all."""


_E = TypeVar("_E", bound=Entry)


def by_who(entries: Iterable[_E]) -> dict[tuple[str | None, str | None], list[_E]]:
    """Return the entries of each device and group."""
    found: dict[tuple[str | None, str | None], list[_E]] = {}
    for each in entries:
        found.setdefault((each.device, each.group), []).append(each)
    return found


def check_devices(field: str, entries: Iterable[Entry]) -> None:
    """Check that entries name devices, where their groups are not known.

    Raises:
        ConfigError: for one of a group.
    """
    for each in entries:
        if each.group is not None:
            raise ConfigError(f"{field}, group", each.group, "a device: groups are of files")


def groups_named(entries: Iterable[Entry], groups: Mapping[str, str]) -> dict[str, str]:
    """Return the groups, by device, that entries name."""
    named = {each.group for each in entries if each.group is not None}
    return {device: group for device, group in groups.items() if group in named}


def numbered(entries: Iterable[Any], of: str = "") -> list[tuple[str, Any]]:
    """Return entries, each with its place: "entry 2", behind what they are `of`."""
    return [(f"{of}entry {number}", each) for number, each in enumerate(entries, 1)]


def told_entries(told: bytes, most: int) -> list[tuple[str, Any]]:
    """Return the entries that a live job is told, lines of JSON, each with its place.

    Raises:
        ConfigError: for a line that is none, or has more than `most` bytes.
    """
    found = []
    for where, line in numbered(told.splitlines()):
        if len(line) > most:
            raise ConfigError(where, f"{len(line):,} bytes", f"at most {most:,}")
        try:
            found.append((where, json.loads(line)))
        except ValueError as error:
            raise ConfigError(where, str(error), "a line of JSON") from error
    return found


def texts_of(where: str, entry: Any, fields: Sequence[str]) -> dict[str, str]:
    """Return the texts of an entry's fields that are not empty.

    Raises:
        ConfigError: for one that is no mapping, or has other fields, by its place.
    """
    if not isinstance(entry, Mapping) or not all(isinstance(name, str) for name in entry):
        raise ConfigError(where, entry, f"a mapping with {', '.join(fields)}")
    if unknown := sorted(set(entry) - set(fields)):
        raise ConfigError(f"{where}, {unknown[0]}", entry[unknown[0]], f"of {', '.join(fields)}")
    texts = {name: str(entry[name]).strip() for name in fields if entry.get(name) is not None}
    return {name: text for name, text in texts.items() if text}
