"""`kerneltrack reset`: one model of a live job starts over, or goes on from a snapshot."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from kerneltrack import codec
from kerneltrack.errors import ConfigError
from kerneltrack.snapshots.folder import SnapshotFolder
from pipelines.job import say
from pipelines.topics import options as replay_options
from pipelines.topics.admin import Topics
from pipelines.topics.replay import Sender
from transforms.keyed.commands import Command


def run(args: argparse.Namespace) -> int:
    """Send the command; the job obeys when it comes to it.

    Returns:
        The exit code, 0.

    Raises:
        ConfigError: for a bad flag or topic, or a model without snapshots.
        DataError: if the snapshots cannot be read.
        KerneltrackError: if Kafka does not answer or the message does not arrive.
    """
    command, what = _command(args)
    client = replay_options.client_settings(args)
    send(client, args.topic, [args.model], command, args.partition)
    say(f"model {args.model}: {what} after the rows that {args.topic} holds now")
    return 0


def send(
    client: dict[str, Any],
    topic: str,
    models: Iterable[str],
    command: Command,
    partition: int | None,
) -> None:
    """Send a command to a job's input topic, of each of these models.

    To the partition of the model's ID, if none is given.

    Raises:
        ConfigError: for a topic or partition that is not there.
        KerneltrackError: if Kafka does not answer or the message does not arrive.
    """
    partitions = Topics(client).check_input(topic)
    place = {}
    if partition is not None:
        if not 0 <= partition < partitions:
            allowed = f"0 to {partitions - 1}, the partitions of {topic}"
            raise ConfigError("--partition", partition, allowed)
        place = {"partition": partition}
    sender = Sender(client)
    for model in models:
        sender.send(topic, (model.encode(), None, command.headers), **place)
    sender.finish()


def _command(args: argparse.Namespace) -> tuple[Command, str]:
    """Return the command, and what it says."""
    if args.snapshots is None:
        if args.from_model is not None:
            raise ConfigError("--from-model", args.from_model, "given with --snapshots only")
        return Command(None, None), "starts over"
    folder, name = SnapshotFolder(args.snapshots, learner=True), args.from_model or args.model
    tracker = folder.state(name, codec.TRACKER)
    if tracker is None:
        flag = "MODEL" if args.from_model is None else "--from-model"
        raise ConfigError(flag, name, f"a model with snapshots in {args.snapshots}")
    learner = folder.state(name, codec.LEARNER)
    what = f"goes on with what {name} was after {folder.rows(name):,} rows"
    return Command(tracker, learner), what
