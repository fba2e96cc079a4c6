"""`kerneltrack notify`: sends alerts when devices go off, and when they are well again."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import closing

from kerneltrack.monitor.likeness import KnownFault
from pipelines.cli.command_line import FAILED_EXIT, INTERRUPTED_EXIT
from pipelines.cli.groups_file import read_groups
from pipelines.cluster.interruption import Interruption
from pipelines.devices.faults import read_faults
from pipelines.job import say
from pipelines.notify.deliver import Delivery
from pipelines.notify.options import check, receivers_of
from pipelines.notify.outbox import Outbox
from pipelines.notify.sources import DevicesSource, FolderSource, Source, TopicSource
from pipelines.report.text import counted
from pipelines.topics.options import client_settings

SHORTEST_PAUSE = 0.05


def run(args: argparse.Namespace) -> int:
    """Send what has changed since the last run.

    Returns:
        The exit code: 0; 1 if something was not delivered or was refused; 130 after Ctrl-C.
    """
    check(args)
    receivers = receivers_of(args)
    faults = None if args.faults is None else read_faults(args.faults, args.folder)
    folder = None if args.folder is None else FolderSource(args.folder, faults)
    name = f"topic {args.topic or args.devices_topic}" if folder is None else folder.name
    with closing(Outbox(args.state, name, [each.name for each in receivers])) as outbox:
        source = folder or _topic(args, outbox, faults or ())
        deliveries = [Delivery(each, outbox, args.per_minute, say) for each in receivers]
        with closing(source), Interruption() as interruption:
            if args.follow is None:
                _once(source, outbox, deliveries, args.patience, interruption)
            else:
                _follow(source, outbox, deliveries, args.follow, interruption)
        sent = sum(each.delivered for each in deliveries)
        refused = sum(each.refused for each in deliveries)
        left = sum(not each.is_done for each in deliveries)
        say(f"{counted(sent, 'notification')} sent{f', {refused:,} refused' if refused else ''}")
        if interruption.came:
            return INTERRUPTED_EXIT
        if left:
            say("NOT SENT: the rest, which the next run with this --state sends")
        return FAILED_EXIT if left or refused else 0


def _topic(args: argparse.Namespace, outbox: Outbox, faults: Sequence[KnownFault]) -> Source:
    client = client_settings(args)
    if args.devices_topic is not None:
        groups = None if args.groups is None else read_groups(args.groups)
        return DevicesSource(client, args.devices_topic, faults, groups, args.periods_topic)
    return TopicSource(client, args.topic, args.output_format, outbox, faults)


def _once(
    source: Source,
    outbox: Outbox,
    deliveries: Sequence[Delivery],
    patience: float,
    interruption: Interruption,
) -> None:
    """Read to the end, and send until all is sent or it has taken too long."""
    source.read(outbox, again=False)
    until = time.monotonic() + patience
    while not interruption.came:
        for delivery in deliveries:
            delivery.go_on()
        due = [each.due for each in deliveries if not each.is_done]
        if not due or min(due) > until:
            return
        interruption.pause(max(min(due) - time.monotonic(), SHORTEST_PAUSE))


def _follow(
    source: Source,
    outbox: Outbox,
    deliveries: Sequence[Delivery],
    seconds: float,
    interruption: Interruption,
) -> None:
    """Read and send until a signal comes."""
    again = False
    while not interruption.came:
        start = time.monotonic()
        source.read(outbox, again)
        for delivery in deliveries:
            delivery.go_on()
        again = True
        interruption.pause(max(seconds - (time.monotonic() - start), 0.0))
