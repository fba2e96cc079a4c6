"""Topics of a live job: looked at, and made, before anything is submitted."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Container, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswerError
from datetime import datetime, timezone
from typing import Any

import confluent_kafka
from confluent_kafka import cimpl
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType

from kerneltrack.errors import ConfigError, KerneltrackError
from transforms.kafka.secrets import resolve

TIMEOUT = 30.0
ASK = 1.0
ASK_AGAIN = 5.0
"""Seconds after which a question that has no answer is asked once more."""
POLL = 0.05

_REFUSED = {
    confluent_kafka.KafkaError._AUTHENTICATION: "sasl.*",
    confluent_kafka.KafkaError._SSL: "ssl.*",
}
"""What the brokers do not take, and the settings that say it."""


class KafkaError(KerneltrackError):
    """Kafka does not answer, or refuses."""


class Topics:
    """What a cluster's topics are.

    Args:
        client: Settings of librdkafka's clients.

    Raises:
        ConfigError: if the brokers refuse the password, or are not who they must be.
        KafkaError: if no broker answers.
    """

    def __init__(self, client: Mapping[str, Any]) -> None:
        """Ask the brokers."""
        self._brokers = str(client["bootstrap.servers"])
        self._met: list[confluent_kafka.KafkaError] = []
        # Kept for as long as its answers are read.
        settings: dict[str, Any] = {**resolve(client), "error_cb": self._met.append}
        self._admin = AdminClient(settings)
        self.partitions = {
            name: len(topic.partitions)
            for name, topic in self._ask_for_topics().items()
            if not topic.error
        }

    def _ask_for_topics(self) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                topics: dict[str, Any] = self._admin.list_topics(timeout=ASK).topics
            except confluent_kafka.KafkaException as error:
                # librdkafka would go on trying for ever, and tell only here what for.
                self._admin.poll(0)
                for met in self._met:
                    if met.code() in _REFUSED:
                        why = re.sub(r"^\S+: | \(after .*", "", met.str())
                        allowed = f"what {self._brokers} takes: {why}"
                        raise ConfigError(
                            f"--client {_REFUSED[met.code()]}", "...", allowed
                        ) from error
                if time.monotonic() > deadline:
                    raise KafkaError(
                        f"--brokers {self._brokers}: no broker answers: {_text(error)}"
                    ) from error
            else:
                return topics

    def check_input(self, topic: str, flag: str = "--topic") -> int:
        """Return the number of partitions of a topic that a flag names.

        Raises:
            ConfigError: if it is not there, or may not be read.
        """
        self._check_there(flag, topic)
        self._check_right(flag, topic, "READ")
        return self.partitions[topic]

    def check_output(self, flag: str, topic: str) -> None:
        """Check a topic that is to be written.

        Raises:
            ConfigError: if it is not there, or may not be written.
        """
        self._check_there(flag, topic)
        self._check_right(flag, topic, "WRITE")

    def create(
        self, topics: Iterable[str], partitions: int, compacted: Container[str] = ()
    ) -> None:
        """Make the topics that are missing.

        Args:
            topics: Their names.
            partitions: How many partitions each gets.
            compacted: Those of which only the last message of each key need stay.

        Raises:
            KafkaError: if one cannot be made.
        """
        new = [
            cimpl.NewTopic(
                name,
                num_partitions=partitions,
                config={"cleanup.policy": "compact"} if name in compacted else {},
            )
            for name in dict.fromkeys(topics)
            if name not in self.partitions
        ]
        if not new:
            return
        for name, made in self._admin.create_topics(new).items():
            _result(made, f"topic {name} cannot be made")
            self._wait_for(name)
            self.partitions[name] = partitions

    def offsets(self, topic: str, *, end: bool = False) -> dict[int, int]:
        """Return the first offset that each partition has, or the one after its last.

        Raises:
            KafkaError: if a broker does not say it.
        """
        answers = ask_for_offsets(self._admin, topic, self.partitions[topic], end=end)
        what = f"topic {topic}: its offsets cannot be read"
        return {part: int(_result(answer, what).offset) for part, answer in answers.items()}

    def timestamp_type(self, topic: str) -> str:
        """Return CreateTime (the sender's) or LogAppendTime (the broker's)."""
        return self._setting(topic, "message.timestamp.type")

    def cleanup_policy(self, topic: str) -> str:
        """Return what becomes of a topic's old messages: delete, compact, or both."""
        return self._setting(topic, "cleanup.policy")

    def _setting(self, topic: str, name: str) -> str:
        asked = [ConfigResource(ResourceType.TOPIC, topic)]
        what = f"topic {topic}: its settings cannot be read"
        settings = _answer(lambda: self._admin.describe_configs(asked), what)
        return str(settings[name].value)

    def _check_there(self, flag: str, topic: str) -> None:
        if topic not in self.partitions:
            known = (
                ", ".join(sorted(n for n in self.partitions if not n.startswith("__"))) or "none"
            )
            raise ConfigError(flag, topic, f"a topic of {self._brokers} (there are: {known})")

    def _wait_for(self, topic: str) -> None:
        """Wait until a broker knows a topic that the controller has just made."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                self._describe(topic)
            except KafkaError as error:
                if time.monotonic() > deadline or not _is_unknown(error.__cause__):
                    raise
                time.sleep(POLL)
            else:
                return

    def _describe(self, topic: str) -> Any:
        names = confluent_kafka.TopicCollection([topic])
        return _answer(
            lambda: self._admin.describe_topics(names, include_authorized_operations=True),
            f"topic {topic} cannot be examined",
        )

    def _check_right(self, flag: str, topic: str, right: str) -> None:
        operations = self._describe(topic).authorized_operations
        if operations and right not in {operation.name for operation in operations}:
            raise ConfigError(flag, topic, f"a topic with the right to {right.lower()}")


def _answer(ask: Callable[[], Mapping[Any, Future[Any]]], what: str) -> Any:
    """Return a broker's answer; what has none for a while is asked again.

    Args:
        ask: Asks about one thing.
        what: What cannot be done without an answer.

    Raises:
        KafkaError: if it refuses, or does not answer.
    """
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            (answer,) = ask().values()
            return answer.result(ASK_AGAIN)
        except confluent_kafka.KafkaException as error:
            raise KafkaError(f"{what}: {_text(error)}") from error
        except NoAnswerError as error:
            if time.monotonic() > deadline:
                reason = f"no broker has answered for {TIMEOUT:g} s"
                raise KafkaError(f"{what}: {reason}") from error


def _result(future: Future[Any], what: str) -> Any:
    """Wait for the answer to what is asked only once; as of `_answer`."""
    return _answer(lambda: {what: future}, what)


def ask_for_offsets(
    admin: AdminClient, topic: str, partitions: int, *, end: bool = False, patience: float = TIMEOUT
) -> dict[int, Future[Any]]:
    """Ask for the first offset of each partition, or for the one after its last."""
    spec: Any = OffsetSpec
    wanted = spec.latest() if end else spec.earliest()
    asked = {confluent_kafka.TopicPartition(topic, part): wanted for part in range(partitions)}
    answers = admin.list_offsets(asked, request_timeout=patience)
    return {place.partition: answer for place, answer in answers.items()}


def _is_unknown(error: BaseException | None) -> bool:
    if not isinstance(error, confluent_kafka.KafkaException):
        return False
    code = error.args[0].code()
    return bool(code == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART)


def _text(error: confluent_kafka.KafkaException) -> str:
    known: Any = error.args[0]
    return str(known.str()) if hasattr(known, "str") else str(known)


def are_offsets(where: str) -> bool:
    """Return whether a place to begin is offsets, `0:1200,1:900`."""
    return re.fullmatch(r"\d+:\d+(,\d+:\d+)*", where) is not None


def start_offsets(
    where: str, topic: str, known: Topics, client: Mapping[str, Any]
) -> dict[int, int]:
    """Return from which offset each partition is read; those left out, from their beginning.

    Args:
        where: earliest, latest, a time, or offsets.
        topic: The topic.
        known: The cluster's topics.
        client: Settings of librdkafka's clients.

    Raises:
        ConfigError: for a text that is no place, or a partition that is not there.
        KafkaError: if the offsets cannot be read.
    """
    partitions = known.partitions[topic]
    if where == "earliest":
        return {}
    if where == "latest":
        return known.offsets(topic, end=True)
    allowed = "earliest, latest, a time (2026-01-31T12:00Z) or offsets (0:1200,1:900)"
    if are_offsets(where):
        offsets = {int(a): int(b) for a, b in (part.split(":") for part in where.split(","))}
        beyond = [number for number in offsets if number >= partitions]
        if beyond:
            raise ConfigError("--from", where, f"partitions 0 to {partitions - 1} of {topic}")
        return offsets
    try:
        moment = moment_of(where)
    except ValueError:
        raise ConfigError("--from", where, allowed) from None
    # A partition without a message of that time or later begins with its next one.
    ends = known.offsets(topic, end=True)
    return ends | _offsets_at(topic, partitions, moment, client)


def start_settings(
    offsets: Mapping[str, Mapping[int, int]], client: Mapping[str, Any], group: str
) -> dict[str, str]:
    """Return the settings that make Java's consumer begin at offsets of topics.

    They are written down as those of a consumer group of the job's own, from where the consumer
    takes them; a resumed job goes on where it was instead. Partitions that none is given of are
    read from their beginning, as are those of which Kafka has deleted it.

    Raises:
        KafkaError: if they cannot be written down.
    """
    settings = {"auto.offset.reset": "earliest"}
    places = [
        confluent_kafka.TopicPartition(topic, partition, offset)
        for topic, by_partition in offsets.items()
        for partition, offset in by_partition.items()
    ]
    if not places:
        return settings
    consumer = confluent_kafka.Consumer(
        {**resolve(client), "group.id": group, "enable.auto.commit": False}
    )
    try:
        consumer.commit(offsets=places, asynchronous=False)
    except confluent_kafka.KafkaException as error:
        raise KafkaError(f"where to begin cannot be written down: {_text(error)}") from error
    finally:
        consumer.close()
    return {**settings, "group.id": group}


def moment_of(text: str) -> datetime:
    """Read a time, which is UTC unless it says another zone.

    Raises:
        ValueError: if it is none.
    """
    moment = datetime.fromisoformat(re.sub("Z$", "+00:00", text))
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def _offsets_at(
    topic: str, partitions: int, moment: datetime, client: Mapping[str, Any]
) -> dict[int, int]:
    """Return the first offset of each partition at or after a time, where there is one."""
    milliseconds = round(moment.timestamp() * 1000)
    consumer = confluent_kafka.Consumer({**resolve(client), "group.id": "kerneltrack-look"})
    asked = [
        confluent_kafka.TopicPartition(topic, part, milliseconds) for part in range(partitions)
    ]
    try:
        found = consumer.offsets_for_times(asked, timeout=TIMEOUT)
    except confluent_kafka.KafkaException as error:
        raise KafkaError(f"--from {moment.isoformat()}: {_text(error)}") from error
    finally:
        consumer.close()
    return {place.partition: place.offset for place in found if place.offset >= 0}
