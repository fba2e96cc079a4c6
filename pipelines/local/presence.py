"""That a job writes to its output topic: a second one, of another folder, is refused meanwhile.

A job that runs is the one member of a consumer group of its output topic's name, which reads
nothing. Kafka forgets it `GONE_AFTER` seconds after it was killed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient

from kerneltrack.errors import ConfigError
from pipelines.job import say
from pipelines.local.engine import ASK, again
from pipelines.topics.admin import KafkaError
from transforms.kafka.secrets import resolve

GONE_AFTER = 10


class Presence:
    """Says that a job writes to a topic, and finds others that do.

    Args:
        client: Settings of librdkafka's clients.
        output: The topic.
    """

    def __init__(self, client: Mapping[str, Any], output: str) -> None:
        self._client, self._output = resolve(client), output
        self._group = f"kerneltrack-writes-{output}"
        self._member: confluent_kafka.Consumer | None = None

    def refuse_others(self, own: str | None) -> None:
        """Refuse to write to what another job writes to: its results would be there twice.

        Args:
            own: The job's name; None if it is a new one.

        Raises:
            ConfigError: naming the other job and its machine.
        """
        admin = AdminClient(self._client)

        def ask() -> list[Any]:
            found = admin.describe_consumer_groups([self._group], request_timeout=ASK)
            return list(found[self._group].result().members)

        try:
            members: list[Any] = again(ask, "its consumer group")
        except KafkaError as error:
            say(f"whether another job writes to {self._output} is not known: {error}")
            return
        for member in members:
            if member.client_id != own:
                where = member.host.lstrip("/")
                reason = f"a topic to which no other job writes: {member.client_id} does"
                since = f"it runs on {where}, or ran there until {GONE_AFTER} s ago"
                raise ConfigError("--output-topic", self._output, f"{reason} ({since})")

    def begin(self, name: str, topic: str) -> None:
        """Let others see that a job of this name writes, which reads a topic."""
        settings = {"group.id": self._group, "client.id": name, "enable.auto.commit": False}
        alive = {"session.timeout.ms": GONE_AFTER * 1000, "heartbeat.interval.ms": 1000}
        self._member = confluent_kafka.Consumer({**self._client, **settings, **alive})
        # The engine reads the topic by itself: the member takes none of its partitions.
        self._member.subscribe([topic], on_assign=lambda member, _: member.assign([]))

    def go_on(self) -> None:
        """Do what keeps the member; to be called every few seconds, minutes apart at most."""
        if self._member is not None:
            self._member.poll(0)

    def close(self) -> None:
        """Let others write."""
        if self._member is not None:
            self._member.close()
