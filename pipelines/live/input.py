"""What a live job reads of its topics: partitions that were added, messages that are gone."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import TimeoutError as NoAnswerError
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient

from kerneltrack.errors import ConfigError
from pipelines.flink.client import Flink
from pipelines.job import say
from pipelines.live.jobs import Left, Record
from pipelines.live.savepoint import offsets_left
from pipelines.topics.admin import (
    Topics,
    are_offsets,
    ask_for_offsets,
    start_offsets,
    start_settings,
)
from transforms.kafka.secrets import resolve

ASK = 2.0
EVERY = 10.0
"""Seconds between two looks at Kafka."""


@dataclass(frozen=True)
class LiveInput:
    """What a job is going to read.

    Attributes:
        start: Settings that make Java's consumer begin where it should.
        partitions: How many partitions there are of each input topic.
        source: Number of its source (`Record.source`).
        deleted: Messages that were deleted before they were read (`Record.deleted`).
    """

    start: dict[str, str]
    partitions: dict[str, int]
    source: int = 0
    deleted: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Inputs:
    """The input topics of a job, and how to reach Kafka.

    Attributes:
        names: The topic of the rows and, if there is one, that of the labels.
        known: The cluster's topics.
        client: Settings of librdkafka's clients.
        group: Name of a consumer group of the job's own.
    """

    names: Sequence[str]
    known: Topics
    client: Mapping[str, Any]
    group: str

    def partitions(self) -> dict[str, int]:
        """Return how many partitions there are."""
        return {name: self.known.partitions[name] for name in self.names}


def begin(topics: Inputs, where: str) -> LiveInput:
    """Return what a new job reads.

    Args:
        topics: Its topics. Labels come from the end of theirs unless rows are read from the
            earliest on, or from offsets.
        where: From where on, as `--from` has it.

    Raises:
        ConfigError: for a place that is none.
        KafkaError: if Kafka does not answer.
    """
    rows, *labels = topics.names
    offsets = {rows: start_offsets(where, rows, topics.known, topics.client)}
    if where != "earliest" and not are_offsets(where):
        offsets |= {name: topics.known.offsets(name, end=True) for name in labels}
    start = start_settings(offsets, topics.client, topics.group)
    return LiveInput(start, topics.partitions())


def go_on(topics: Inputs, left: Left) -> LiveInput:
    """Return what a job reads that goes on, and say what is new and what is gone.

    Flink keeps the partitions of a source in its checkpoints, and a source that goes on reads those
    alone. So where some were added the job takes another source, which begins at the offsets up to
    which the savepoint has read the others.

    Args:
        topics: Its topics.
        left: What it goes on from.

    Raises:
        ConfigError: if partitions were added and the savepoint cannot be read, or if some are gone.
        KafkaError: if Kafka does not answer.
    """
    now = topics.partitions()
    before = {name: left.record.partitions.get(name, count) for name, count in now.items()}
    for name, count in now.items():
        if count < before[name]:
            allowed = f"what was left by a job of the same topic: {name} had {before[name]} "
            raise ConfigError("--resume", left.path, f"{allowed}partitions, and has {count}")
    offsets = {name: offsets_left(left.path, name, count) for name, count in before.items()}
    deleted = {}
    for name, found in offsets.items():
        if found is None:
            say(
                f"how far {name} was read cannot be seen in {left.path}, so nor can it be seen "
                "whether Kafka has deleted messages since"
            )
            continue
        ends = topics.known.offsets(name, end=True)
        if any(ends[part] < offset for part, offset in found.items()):
            say(f"{name} ends before where it was read to: it is another topic, or was cut")
        gone = gone_before(found, topics.known.offsets(name))
        if gone:
            deleted[name] = sum(map(len, gone.values()))
            say(f"LOST: {lost(name, gone)} before they were read")
    new = {name: range(before[name], now[name]) for name in now if now[name] > before[name]}
    if not new:
        return LiveInput({"auto.offset.reset": "earliest"}, now, left.record.source, deleted)
    known = {name: found for name, found in offsets.items() if found is not None}
    if len(known) < len(offsets):
        added = "; ".join(describe_added(name, some) for name, some in new.items())
        allowed = f"a savepoint that can be read from here ({added}): it says where to go on"
        raise ConfigError("--resume", left.path, allowed)
    start = start_settings(known, topics.client, topics.group)
    for name, some in new.items():
        say(f"{describe_added(name, some)}, read from the beginning")
    return LiveInput(start, now, left.record.source + 1, deleted)


def gone_before(read: Mapping[int, int], first: Mapping[int, int]) -> dict[int, range]:
    """Return which offsets of each partition are gone between those read and those there.

    Args:
        read: The next offset to read of each partition.
        first: The first offset that Kafka still has.
    """
    found = {part: range(offset, first.get(part, 0)) for part, offset in sorted(read.items())}
    return {part: gone for part, gone in found.items() if gone}


def lost(topic: str, gone: Mapping[int, range]) -> str:
    """Write what is gone in words.

    Offsets may be those of ends of transactions, too, or be without a message.

    Example:
        >>> lost("rows", {0: range(8, 10)})
        'Kafka deleted up to 2 messages of rows (partition 0: offsets 8 to 9)'
    """
    parts = "; ".join(
        f"partition {part}: offsets {some[0]:,} to {some[-1]:,}" for part, some in gone.items()
    )
    total = sum(map(len, gone.values()))
    return f"Kafka deleted up to {total:,} messages of {topic} ({parts})"


def numbered(partitions: Sequence[int]) -> str:
    """Write numbers of partitions in words.

    Example:
        >>> numbered([1]), numbered([1, 2]), numbered(range(4, 8))
        ('partition 1', 'partitions 1 and 2', 'partitions 4 to 7')
    """
    if len(partitions) == 1:
        return f"partition {partitions[0]}"
    joined = "and" if len(partitions) == 2 else "to"
    return f"partitions {partitions[0]} {joined} {partitions[-1]}"


def describe_added(topic: str, partitions: Sequence[int]) -> str:
    """Write which partitions a topic has got."""
    return f"{topic} has got {numbered(partitions)}"


class InputWatch:
    """Looks whether a running job reads all that its topics have.

    Args:
        client: Settings of librdkafka's clients.
        record: The job.
        flink: Where it runs.
    """

    def __init__(self, client: Mapping[str, Any], record: Record, flink: Flink) -> None:
        self._admin = AdminClient({"log_level": 2, **resolve(client)})
        self._record = record
        self._flink = flink
        self._looked = -EVERY
        self._found: list[str] = []

    def troubles(self) -> list[str]:
        """Return what the job does not read, as of some seconds ago at most."""
        if time.monotonic() - self._looked >= EVERY:
            self._found = [text for name in self._record.partitions for text in self._of(name)]
            self._looked = time.monotonic()
        return self._found

    def _of(self, topic: str) -> list[str]:
        known, deleted = self._record.partitions[topic], self._record.deleted.get(topic, 0)
        found = []
        if deleted:
            found.append(
                f"Kafka deleted up to {deleted:,} messages of {topic} before the job, resumed, "
                "could read them: they are lost"
            )
        try:
            there = len(self._admin.list_topics(topic, timeout=ASK).topics[topic].partitions)
            gone = gone_before(self._read(topic) or {}, self._first(topic, known))
        except (confluent_kafka.KafkaException, KeyError, NoAnswerError):
            # Others say that Kafka does not answer.
            return found
        if there > known:
            found.append(
                f"{describe_added(topic, range(known, there))}, not read yet: stop "
                "the job with --savepoint, and go on with --resume"
            )
        if gone:
            found.append(f"{lost(topic, gone)} before the job has read them")
        return found

    def _first(self, topic: str, partitions: int) -> dict[int, int]:
        answers = ask_for_offsets(self._admin, topic, partitions, patience=ASK)
        return {part: int(answer.result(ASK).offset) for part, answer in answers.items()}

    def _read(self, topic: str) -> dict[int, int] | None:
        """Return how far the job had read by its last checkpoint, if that can be seen from here."""
        latest = self._flink.ask(f"/jobs/{self._record.job}/checkpoints")["latest"]["completed"]
        if not latest or "external_path" not in latest:
            return None
        return offsets_left(latest["external_path"], topic, self._record.partitions[topic])
