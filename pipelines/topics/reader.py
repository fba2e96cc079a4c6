"""A topic read from its beginning or an offset on, by clients that leave no trace in Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import confluent_kafka

from kerneltrack.errors import KerneltrackError
from transforms.kafka.secrets import resolve

POLL = 0.5
BATCH = 500


class TopicReader:
    """Reads a topic, from its beginning or an offset on; of transactions only what was committed.

    Args:
        client: Settings of librdkafka's clients.
        topic: The topic.
        group: Name of the consumer's group, which writes no offsets.
        partitions: How many partitions the topic has.
        begin: Offset of the first message of some partitions that is read.

    Attributes:
        left: Partitions whose end was not met yet.
    """

    def __init__(
        self,
        client: dict[str, Any],
        topic: str,
        group: str,
        partitions: int,
        begin: Mapping[int, int] = {},
    ) -> None:
        self.topic = topic
        self.left = set(range(partitions))
        self._consumer = confluent_kafka.Consumer(
            {
                **resolve(client),
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                # What Kafka has deleted since cannot be read.
                "auto.offset.reset": "earliest",
            }
        )
        first = confluent_kafka.OFFSET_BEGINNING
        self._consumer.assign(
            [
                confluent_kafka.TopicPartition(topic, part, begin.get(part, first))
                for part in self.left
            ]
        )

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def messages(self, seconds: float = POLL) -> Iterable[Any]:
        """Yield the messages that come, waiting for the first ones; `left` as of each.

        Raises:
            KerneltrackError: if the brokers report an error.
        """
        for message in self._consumer.consume(BATCH, seconds):
            error = message.error()
            if error is None:
                yield message
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                self.left.discard(message.partition())
            else:
                raise KerneltrackError(f"{self.topic}: {error.str()}")
