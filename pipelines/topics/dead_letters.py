"""`kerneltrack replay-dead-letters`: what was refused, sent once more as it was."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kerneltrack.errors import ConfigError
from pipelines.cli.command_line import INTERRUPTED_EXIT
from pipelines.cluster.interruption import Interruption
from pipelines.job import say
from pipelines.topics import options as replay_options
from pipelines.topics.admin import Topics, moment_of
from pipelines.topics.reader import TopicReader
from pipelines.topics.replay import Sender
from transforms.kafka.gather import NOT_IN_KAFKA

NEEDED = ("topic", "partition", "offset", "timestamp", "reason")


@dataclass(frozen=True)
class Letter:
    """A dead letter.

    Attributes:
        at: Topic, partition and offset of the message that it is of.
        timestamp: That message's, ms since 1970; negative: none.
        reason: Why it was refused.
        key: Its key.
        value: Its value.
    """

    at: tuple[str, int, int]
    timestamp: int
    reason: str
    key: bytes | None
    value: bytes | None

    @property
    def is_gone(self) -> bool:
        """Whether the message could no longer be read when it was refused."""
        return self.reason.endswith(NOT_IN_KAFKA)

    def fields(self) -> dict[str, Any]:
        """Return what it says, as a line of text can have it."""
        topic, partition, offset = self.at
        return {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "reason": self.reason,
            "key": _text(self.key),
            "value": _text(self.value),
        }

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """What the message says, sent once more, of where it comes from."""
        topic, partition, offset = self.at
        fields = {
            "replayed-topic": topic,
            "replayed-partition": str(partition),
            "replayed-offset": str(offset),
            "replayed-reason": self.reason,
        }
        return [(name, text.encode()) for name, text in fields.items()]


@dataclass(frozen=True)
class Wanted:
    """Which letters are wanted.

    Attributes:
        reason: A regular expression to be found in the reason.
        partitions: Of the messages; none: all.
        since: Least timestamp of the messages, ms.
        until: Timestamp, ms, before which they are.
    """

    reason: re.Pattern[str]
    partitions: tuple[int, ...]
    since: float
    until: float

    def takes(self, letter: Letter) -> bool:
        """Check whether a letter is wanted."""
        return (
            self.reason.search(letter.reason) is not None
            and (not self.partitions or letter.at[1] in self.partitions)
            and self.since <= letter.timestamp < self.until
        )


def run(args: argparse.Namespace) -> int:
    """Send the letters that are there now.

    Returns:
        The exit code: 0, or 130 after Ctrl-C.

    Raises:
        ConfigError: for a bad flag or topic.
        KerneltrackError: if Kafka does not answer or messages do not arrive.
    """
    wanted = _wanted(args)
    client = replay_options.client_settings(args)
    topics = Topics(client)
    partitions = topics.check_input(args.topic)
    if args.to is not None:
        topics.check_output("--to", args.to)
    sender, seen = Sender(client), set()
    counts: Counter[str] = Counter()
    with Interruption() as interruption:
        for letter in _letters(client, args.topic, partitions):
            if interruption.came:
                break
            if letter is None:
                counts["no letters"] += 1
            elif letter.at in seen:
                counts["came again"] += 1
            elif not wanted.takes(letter):
                counts["not chosen"] += 1
            elif letter.is_gone:
                counts["not in Kafka any more"] += 1
            else:
                seen.add(letter.at)
                target = args.to or letter.at[0]
                if target not in topics.partitions:
                    raise ConfigError("--to", target, "a topic that is there")
                _send(sender, letter, target)
        came = interruption.came
    sender.finish()
    rest = "".join(f", {number:,} {what}" for what, number in sorted(counts.items()))
    say(f"{sender.sent:,} messages sent{rest}")
    return INTERRUPTED_EXIT if came else 0


def _send(sender: Sender, letter: Letter, target: str) -> None:
    more: dict[str, Any] = {}
    if letter.timestamp >= 0:
        more["timestamp"] = letter.timestamp
    if target == letter.at[0]:
        more["partition"] = letter.at[1]
    sender.send(target, (letter.key, letter.value, letter.headers), **more)


def _wanted(args: argparse.Namespace) -> Wanted:
    try:
        reason = re.compile(args.reason or "")
    except re.error as error:
        raise ConfigError("--reason", args.reason, f"a regular expression: {error}") from error
    since, until = _milliseconds("--since", args.since), _milliseconds("--until", args.until)
    return Wanted(
        reason,
        tuple(args.partition or ()),
        -float("inf") if since is None else since,
        float("inf") if until is None else until,
    )


def _milliseconds(flag: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return moment_of(text).timestamp() * 1000
    except ValueError:
        raise ConfigError(flag, text, "a time (2026-01-31T12:00Z)") from None


def _letters(client: dict[str, Any], topic: str, partitions: int) -> Iterator[Letter | None]:
    """Yield a topic's letters up to its present end, None for what is none."""
    reader = TopicReader(client, topic, "kerneltrack-letters", partitions)
    try:
        while reader.left:
            for message in reader.messages():
                if message.partition() in reader.left:
                    yield letter_of(message)
    finally:
        reader.close()


def letter_of(message: Any) -> Letter | None:
    """Return a message of Kafka's client as a dead letter; None if it is none."""
    headers = message.headers() or ()
    fields = {name: (value or b"").decode("utf-8", "replace") for name, value in headers}
    if any(name not in fields for name in NEEDED):
        return None
    try:
        partition, offset, timestamp = (int(fields[name]) for name in NEEDED[1:4])
    except ValueError:
        return None
    at = (fields["topic"], partition, offset)
    return Letter(at, timestamp, fields["reason"], message.key(), message.value())


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
