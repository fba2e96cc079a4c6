"""Flags of rules, their file and their section of a spec file: which episodes count."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from kerneltrack.errors import ConfigError, printable
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.monitor.rules import FIELDS, Rules, checked_rules
from pipelines.cli.entries_file import EntryFlag, named_by
from pipelines.cli.spec_options import RULES

FLAG = "--rules"
_EXAMPLE = "{channel: heat, direction: up, least_deviation: 2}"
_SOURCE = EntryFlag(RULES, FIELDS, ("channel",), _EXAMPLE)
_OF_FLAGS = {"--direction": "direction", "--least-deviation": "least_deviation"}


def rules_from_flags(args: argparse.Namespace, channels: Sequence[str]) -> Rules | None:
    """Return the rules of flags and of a file, without the groups of devices; None without any.

    The file is that of `--rules`; without one it is the section `rules` of that of `--spec`. Flags
    hold for all devices.

    Args:
        args: The parsed flags.
        channels: Names of the D channels.

    Raises:
        ConfigError: for a flag that says something else.
        DataError: for a file that cannot be read, or that says something else: by its line or
            entry.
    """
    path, entries = _SOURCE.entries(args)
    given = _given(args)
    if not entries and not given:
        return None
    with named_by(path):
        found = checked_rules(entries, channels) if entries else None
    if not given:
        return found
    flags = [
        (" and ".join(names), {"channel": channel, **values})
        for channel, (names, values) in given.items()
    ]
    # One of all devices that is in the file, too, is named by its line.
    return checked_rules([*entries, *flags], channels)


def _given(args: argparse.Namespace) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return what flags say of each channel: their names, and its fields."""
    found: dict[str, tuple[list[str], dict[str, str]]] = {}
    for flag, field in _OF_FLAGS.items():
        for text in getattr(args, field) or ():
            channel, sign, value = text.rpartition("=")
            if not sign or not channel:
                raise ConfigError(
                    flag, text, f"CHANNEL={'VALUE' if 'least' in flag else 'up|down'}"
                )
            names, values = found.setdefault(channel, ([], {}))
            if field in values:
                raise ConfigError(flag, text, f"once: {printable(channel)} has {values[field]}")
            names.append(flag)
            values[field] = value
    return found


def check_rules(rules: Rules | None, reference: ReferenceSpec | None) -> None:
    """Refuse rules where nothing is judged.

    Raises:
        ConfigError: naming `--rules`.
    """
    if rules is not None and reference is None:
        raise ConfigError(FLAG, len(rules.rules), "left out without --reference")
