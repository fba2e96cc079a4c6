"""`kerneltrack quiet`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping

from kerneltrack.errors import ConfigError, printable
from kerneltrack.monitor.entries import ALL
from kerneltrack.monitor.quiet import CANCEL, FIELDS, MOST_ENTRY, checked_times
from kerneltrack.monitor.recurring import EVERY
from pipelines.cli.groups_file import read_groups
from pipelines.cli.quiet_file import add_line, remove_lines
from pipelines.job import say
from pipelines.quiet.options import check
from pipelines.topics.options import client_settings
from transforms.keyed.commands import QUIET, Command


def run(args: argparse.Namespace) -> int:
    """Write the time into the file, and send it to the topic.

    Returns:
        The exit code, 0.

    Raises:
        ConfigError: for a bad flag, or a time to cancel that the file does not hold.
        DataError: if the file cannot be read, or is something else.
        KerneltrackError: if Kafka does not answer or the message does not arrive.
    """
    check(args)
    values = (args.device, args.group, args.start, args.end, args.why)
    texts = {name: (value or "").strip() for name, value in zip(FIELDS, values, strict=True)}
    _check(texts)
    places = []
    if args.send is not None:
        places.append(_send(args, texts))
    if args.file is not None:
        change = remove_lines if args.cancel else add_line
        places.append(change(args.file, texts))
    who = printable(texts["group"] or texts["device"]).replace(ALL, "all devices")
    what = "no longer quiet" if args.cancel else "quiet"
    why = f", {printable(texts['why'])}" if texts["why"] else ""
    comes = "" if EVERY.fullmatch(texts["from"]) else "from "
    when = f"{comes}{printable(texts['from'])} to {printable(texts['to'])}"
    say(f"{who}: {what} {when}{why} ({'; '.join(places)})")
    return 0


def _check(texts: Mapping[str, str]) -> None:
    """Check the times, as flags.

    Raises:
        ConfigError: naming the flag.
    """
    try:
        checked_times([("", texts)])
    except ConfigError as error:
        raise ConfigError(error.field.replace(", ", "--"), error.value, error.allowed) from None


def _send(args: argparse.Namespace, texts: Mapping[str, str]) -> str:
    """Tell a live job; return which devices it was told of."""
    # Kafka's client is not needed for a file.
    from pipelines.topics.reset import send  # noqa: PLC0415

    entry = {name: text for name, text in texts.items() if text}
    line = json.dumps({**entry, CANCEL: True} if args.cancel else entry).encode()
    if len(line) > MOST_ENTRY:
        allowed = f"shorter: the line has {len(line):,} bytes, at most {MOST_ENTRY:,} are allowed"
        raise ConfigError("--why", args.why, allowed)
    devices = _devices(args)
    command = Command(None, None, line, QUIET)
    send(client_settings(args), args.send, devices, command, args.partition)
    many = f"about {len(devices):,} devices" if args.groups else "for rows to come"
    return f"sent to {args.send} {many}"


def _devices(args: argparse.Namespace) -> list[str]:
    """Return the devices that are meant.

    Raises:
        ConfigError: if there is none of the group.
    """
    if args.groups is None:
        return [args.device]
    groups = read_groups(args.groups)
    found = [device for device, own in groups.items() if args.group in (None, own)]
    if not found:
        raise ConfigError("--group", args.group, f"a group of {args.groups}")
    return found
