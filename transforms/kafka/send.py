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
        super().__init__()
        self._send = _SendFn(topic, producer)

    def expand(self, messages: pvalue.PCollection[Any]) -> pvalue.PCollection[None]:
        """Apply the transform."""
        sent: pvalue.PCollection[None] = messages | "Send" >> beam.ParDo(self._send)
        return sent


def produce(
    producer: confluent_kafka.Producer, topic: str, message: Outgoing, **options: Any
) -> None:
    """Hand a message to a producer, once its queue has room."""
    key, value, headers = message
    while True:
        try:
            producer.produce(topic, value, key, headers=list(headers) or None, **options)
            break
        except BufferError:
            producer.poll(QUEUE_WAIT)
    producer.poll(0)


class Sender:
    """A producer that counts what was sent, and keeps what did not arrive.

    Args:
        settings: Settings of librdkafka's producer, secrets by reference.

    Attributes:
        sent: Messages sent.
        errors: Of those that are known not to have arrived.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._producer = confluent_kafka.Producer({**SETTINGS, **resolve(settings)})
        self.errors: list[Any] = []
        self.sent = 0

    def send(self, topic: str, message: Outgoing, **options: Any) -> None:
        """Send a message, with further options of `confluent_kafka.Producer.produce`."""
        produce(self._producer, topic, message, on_delivery=self._delivered, **options)
        self.sent += 1

    def flush(self, patience: float) -> int:
        """Wait until all have arrived, so many seconds at most; return how many did not."""
        return int(self._producer.flush(patience)) + len(self.errors)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(error)


class _SendFn(beam.DoFn):
    """Produce, and wait for the delivery reports at the end of each bundle."""

    def __init__(self, topic: str, settings: Mapping[str, Any]) -> None:
        self._topic = topic
        self._settings = {"delivery.timeout.ms": DELIVERY_TIMEOUT * 1000, **settings}

    def setup(self) -> None:
        self._sender = Sender(self._settings)

    def start_bundle(self) -> None:
        self._sender.sent, self._sender.errors = 0, []

    def process(self, element: Outgoing) -> None:
        self._sender.send(self._topic, element)

    def finish_bundle(self) -> None:
        failed, errors = self._sender.flush(DELIVERY_TIMEOUT + FLUSH_SLACK), self._sender.errors
        sent = self._sender.sent
        if failed:
            why = errors[0].str() if errors else "no answer"
            raise SendError(f"{failed} of {sent} messages for {self._topic}: {why}")
        count("messages_sent", sent)
