"""SendMessages: to a Kafka topic, and a bundle ends only when all have arrived."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apache_beam as beam
import confluent_kafka
from apache_beam import pvalue

from kerneltrack.errors import KerneltrackError
from transforms.kafka.gather import Outgoing
from transforms.kafka.secrets import resolve
from transforms.metrics import count

SETTINGS: Mapping[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    # A broker that comes back after long is found by the addresses that were given, and soon.
    "metadata.recovery.rebootstrap.trigger.ms": 10_000,
    "linger.ms": 5,
    "compression.type": "lz4",
    # Java's own: consumers that join topics by key find models in the partition they expect.
    "partitioner": "murmur2_random",
}

DELIVERY_TIMEOUT = 120
"""Seconds for which a broker may be away before the bundle fails and the job goes back to its
checkpoint."""

FLUSH_SLACK = 15
QUEUE_WAIT = 0.5


class SendError(KerneltrackError):
    """Messages did not arrive."""


class SendMessages(beam.PTransform[pvalue.PCollection[Any], pvalue.PCollection[None]]):
    """Send messages to a topic.

    Input: `Outgoing`: key, value and headers; any windowing, any order. Output: none. Messages of
    one key keep their order within a bundle. A bundle that fails or is run again sends its
    messages again: they carry what a reader tells duplicates by. A message that does not arrive
    fails the bundle. No state.

    Args:
        topic: The topic; it must be there.
        producer: Settings of librdkafka's producer, `bootstrap.servers` among them.
    """

    def __init__(self, topic: str, producer: Mapping[str, Any]) -> None:
        """Keep the arguments; see the class."""
        super().__init__()
        self._topic = topic
        self._producer = dict(producer)

    def expand(self, messages: pvalue.PCollection[Any]) -> pvalue.PCollection[None]:
        """Apply the transform."""
        sent: pvalue.PCollection[None] = messages | "Send" >> beam.ParDo(
            _SendFn(self._topic, self._producer)
        )
        return sent


def produce(
    producer: confluent_kafka.Producer, topic: str, message: Outgoing, **options: Any
) -> None:
    """Hand a message to a producer, once its queue has room."""
    key, value, headers = message
    while True:
        try:
            producer.produce(topic, value, key, headers=list(headers), **options)
            break
        except BufferError:
            producer.poll(QUEUE_WAIT)
    producer.poll(0)


class _SendFn(beam.DoFn):
    """Produce, and wait for the delivery reports at the end of each bundle."""

    def __init__(self, topic: str, settings: Mapping[str, Any]) -> None:
        self._topic = topic
        self._settings = dict(settings)

    def setup(self) -> None:
        timeout = {"delivery.timeout.ms": DELIVERY_TIMEOUT * 1000}
        self._producer = confluent_kafka.Producer(
            {**SETTINGS, **timeout, **resolve(self._settings)}
        )

    def start_bundle(self) -> None:
        self._errors: list[str] = []
        self._sent = 0

    def process(self, element: Outgoing) -> None:
        produce(self._producer, self._topic, element, on_delivery=self._delivered)
        self._sent += 1

    def finish_bundle(self) -> None:
        left = self._producer.flush(DELIVERY_TIMEOUT + FLUSH_SLACK)
        if self._errors or left:
            why = self._errors[0] if self._errors else "no answer"
            failed = len(self._errors) + left
            raise SendError(f"{failed} of {self._sent} messages for {self._topic}: {why}")
        count("messages_sent", self._sent)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._errors.append(error.str())
