"""`kerneltrack feedback`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import Any

from kerneltrack.errors import ConfigError, DataError, printable
from kerneltrack.monitor.feedback import FALSE, MOST_ENTRY, Said, entry_of
from kerneltrack.monitor.likeness import named_channels
from kerneltrack.monitor.reference.spec import AUTO
from kerneltrack.monitor.spans import parse_moment
from pipelines.cli.feedback_file import append
from pipelines.cli.groups_file import read_groups
from pipelines.feedback.options import LAST, check
from pipelines.job import say
from pipelines.report.clock import SiteClock, clock_of, ns_of
from pipelines.report.data.files import read_lines, read_run
from pipelines.topics.options import client_settings
from transforms.keyed.commands import Command
from transforms.outputs import EPISODES

Line = dict[str, Any]
_FIELDS = ("episode", "kind", "start", "time", "channels")


def run(args: argparse.Namespace) -> int:
    """Look the episode up, and add a line to the file.

    Returns:
        The exit code, 0.

    Raises:
        ConfigError: for a bad flag, or an episode that is not there.
        DataError: if the run, the topic or the file cannot be read.
    """
    check(args)
    learning = AUTO
    if args.folder is None:
        clock, lines = SiteClock(), list(_of_topic(args))
    else:
        record = read_run(args.folder)
        clock, lines = clock_of(record), list(_of_run(args.folder, args.device))
        learning = (record.get("reference") or {}).get("learning", AUTO)
    line = _chosen(args, lines, clock.zone)
    start = line["time"] if args.start is None else parse_moment("--from", args.start, clock.zone)
    said = Said(
        device="" if args.group else args.device,
        group=args.group,
        since=_whole(line["start"]),
        until=_whole(line["time"]),
        verdict=args.verdict,
        start=_whole(start),
        kind=line["kind"],
        channels=tuple(line["channels"]),
        name=args.name.strip(),
        why=args.why.strip(),
    )
    sent = _send(args, said)
    is_new = args.to is None or append(args.to, said)
    about = (
        f"episode {line['episode']} of {printable(args.device)}, since {clock.named(line['start'])}"
    )
    if said.group:
        about += f", and those of {printable(said.group)} in that time"
        about += f" (sent to {sent:,} devices)" if sent else ""
    named = f", {printable(said.name)}" if said.name else ""
    note = f"from {clock.named(said.start)} on" if is_new else f"{args.to} has that already"
    if is_new and said.verdict == FALSE and learning != AUTO:
        note += f"; with --reference {learning} episodes like it are muted, its rows stay odd"
    say(f"{about}: {said.verdict}{named} ({note})")
    return 0


def _send(args: argparse.Namespace, said: Said) -> int:
    """Tell a live job, if one is to be told; return how many messages that were."""
    if args.send is None:
        return 0
    # Kafka's client is not needed for a file.
    from pipelines.topics.reset import send  # noqa: PLC0415

    text = json.dumps(entry_of(said), allow_nan=False).encode()
    if len(text) > MOST_ENTRY:
        allowed = f"shorter: the line has {len(text):,} bytes, at most {MOST_ENTRY:,} are allowed"
        raise ConfigError("--why", said.why, allowed)
    devices = [args.device] if said.group is None else _devices_of(args, said.group)
    send(client_settings(args), args.send, devices, Command(None, None, text), args.partition)
    return len(devices)


def _devices_of(args: argparse.Namespace, group: str) -> list[str]:
    """Return the devices of a group.

    Raises:
        ConfigError: if the one with the episode is in another.
    """
    groups = read_groups(args.groups)
    if groups.get(args.device) != group:
        allowed = f"the group of {printable(args.device)} in {args.groups}"
        raise ConfigError("--group", group, allowed)
    return [device for device, own in groups.items() if own == group]


def _whole(time: int) -> int:
    """Return a time in whole microseconds, as texts of times have it."""
    return time // 1000 * 1000


def _chosen(args: argparse.Namespace, lines: Iterable[Line], zone: str) -> Line:
    """Return the newest line of the episode that is meant.

    Raises:
        ConfigError: if there is none.
    """
    newest: dict[int, Line] = {}
    for line in lines:
        known = newest.get(line["episode"])
        if known is None or line["time"] >= known["time"]:
            newest[line["episode"]] = line
    if args.episode == LAST:
        number = max(newest, default=0)
    elif args.episode.isdecimal():
        number = int(args.episode)
    else:
        # Tables show whole seconds.
        at = parse_moment("EPISODE", args.episode, zone) + 10**9
        number = max((n for n, line in newest.items() if line["start"] < at), default=0)
    if number not in newest:
        place = printable(args.folder or args.topic)
        there = f"{', '.join(map(str, sorted(newest)[-5:]))}" if newest else "it has none there"
        allowed = f"an episode of {printable(args.device)} in {place} ({there})"
        raise ConfigError("EPISODE", args.episode, allowed)
    return newest[number]


def _of_run(folder: str, device: str) -> Iterable[Line]:
    """Yield the lines of a device's episodes in a run's folder."""
    channels = (read_run(folder).get("columns") or {}).get("features") or []
    for line in read_lines(folder, EPISODES):
        if line["model_id"] != device:
            continue
        if line.get("time") is None:
            raise DataError(folder, "has episodes without times: `track --time` gives them times")
        parts = line["shares"], line["deviations"]
        yield {**line, "channels": named_channels(*parts, channels)}


def _of_topic(args: argparse.Namespace) -> Iterable[Line]:
    """Yield the lines of a device's episodes in a topic."""
    # Kafka's client is not needed for a folder.
    from pipelines.topics.read_output import OutputReader  # noqa: PLC0415

    reader = OutputReader(client_settings(args), args.topic, "json")
    try:
        while not reader.at_end:
            for row in reader.rows():
                if row.get("model_id") != args.device or row.get("episode") is None:
                    continue
                if any(row.get(name) is None for name in _FIELDS):
                    allowed = "neither a --devices-topic nor an --episodes-topic"
                    raise DataError(args.topic, f"has a message without episodes: {allowed}")
                times = {name: ns_of(row[name].removesuffix("Z")) for name in ("start", "time")}
                yield {**row, **times}
    finally:
        reader.close()
