"""Messages of rows that were refused after they had left their message, fetched once more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import apache_beam as beam
import confluent_kafka

from transforms.chunks import Chunk, Failures
from transforms.message_rows import Outgoing, Reason, dead_letter
from transforms.messages import Message, offset_and_place
from transforms.secrets import resolve

PATIENCE = 10.0
"""Seconds that one message may take."""


class FetchFn(beam.DoFn):
    """Turn `Failures` into dead letters, one for each message of a bundle element.

    A message that Kafka has deleted since, or that does not come in `PATIENCE`, is a dead letter
    without key and value, which says so.

    Args:
        topic: The input topic.
        settings: Settings of librdkafka's consumer.
    """

    def __init__(self, topic: str, settings: Mapping[str, Any]) -> None:
        """Keep the arguments; see the class."""
        self._topic = topic
        self._settings = {
            **settings,
            "group.id": "kerneltrack-fetch",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
        self._consumer: Any = None

    def process(self, element: Failures) -> Iterator[Outgoing]:
        """Give the dead letters."""
        failed = Chunk(element.batch)
        offsets, places = offset_and_place(failed.column("row"))
        found = zip(
            failed.column("source").tolist(),
            offsets.tolist(),
            places.tolist(),
            element.batch.column("reason").to_pylist(),
            strict=True,
        )
        reasons: dict[tuple[int, int], list[Reason]] = {}
        for partition, offset, place, text in found:
            reasons.setdefault((partition, offset), []).append(Reason(place, text))
        for at in sorted(reasons):
            message = self._fetch(*at)
            known = reasons[at]
            if message is None:
                message = Message(self._topic, *at, -1, None, None)
                known = [reason._replace(text=f"{reason.text}; not in Kafka") for reason in known]
            yield dead_letter(message, known)

    def teardown(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()

    def _fetch(self, partition: int, offset: int) -> Message | None:
        if self._consumer is None:
            self._consumer = confluent_kafka.Consumer(resolve(self._settings))
            self._next: tuple[int, int] | None = None
        if self._next != (partition, offset):
            place = confluent_kafka.TopicPartition(self._topic, partition, offset)
            self._consumer.assign([place])
        self._next = None
        found = self._consumer.poll(PATIENCE)
        if found is None or found.error() is not None or found.offset() != offset:
            return None
        self._next = (partition, offset + 1)
        _, timestamp = found.timestamp()
        return Message(self._topic, partition, offset, timestamp, found.key(), found.value())
