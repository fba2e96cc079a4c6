"""Messages of rows that were refused after they had left their message, fetched once more."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import confluent_kafka
from apache_beam.utils.timestamp import MAX_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from kerneltrack.errors import KerneltrackError
from transforms.failures import Failures
from transforms.global_window import IN_GLOBAL
from transforms.kafka.gather import NOT_IN_KAFKA, Reason, dead_letter
from transforms.kafka.messages import Message, refused_rows
from transforms.kafka.secrets import resolve

MOST_ROWS = 262_144
"""Rows of a bundle that wait at most before their messages are fetched."""
NEAR = 200
"""Messages that are read over rather than leaping to the next one that is wanted."""
BATCH = 1_000
POLL = 1.0
PATIENCE = 120.0
"""Seconds without an answer after which the bundle fails and the job goes back to its
checkpoint."""

_SETTINGS = {
    "group.id": "kerneltrack-fetch",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    # What is wanted may be a message here and there: little is read ahead, and without a pause.
    "queued.min.messages": BATCH,
    "fetch.queue.backoff.ms": 1,
}
_GONE = (
    confluent_kafka.KafkaError._AUTO_OFFSET_RESET,
    confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE,
)


class FetchError(KerneltrackError):
    """Kafka does not give a message that it has."""


class FetchFn(beam.DoFn):
    """Turn `Failures` into dead letters, one for each message that a bundle's rows came from.

    Messages are fetched partition by partition, in order of offset. One that Kafka has deleted
    since is a dead letter without key and value, which says so.

    Args:
        topic: The input topic.
        settings: Settings of librdkafka's consumer.
    """

    def __init__(self, topic: str, settings: Mapping[str, Any]) -> None:
        self._topic = topic
        self._settings = {**settings, **_SETTINGS}
        self._consumer: Any = None

    def start_bundle(self) -> None:
        """Begin without rows."""
        self._reasons: dict[int, dict[int, list[Reason]]] = {}
        self._rows = 0
        self._earliest: Any = MAX_TIMESTAMP

    def process(
        self, element: Failures, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[WindowedValue]:
        """Take rows in."""
        for partition, offset, place, text in refused_rows(element.batch):
            messages = self._reasons.setdefault(partition, {})
            messages.setdefault(offset, []).append(Reason(place, text))
        self._rows += element.batch.num_rows
        self._earliest = min(self._earliest, timestamp)
        if self._rows >= MOST_ROWS:
            yield from self.finish_bundle()
            self.start_bundle()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yield the dead letters."""
        for partition in sorted(self._reasons):
            reasons = self._reasons[partition]
            for offset, message in self._fetch(partition, sorted(reasons)):
                known = sorted(reasons[offset])
                if message is None:
                    known = [reason._replace(text=reason.text + NOT_IN_KAFKA) for reason in known]
                letter = dead_letter(
                    message or Message(self._topic, partition, offset, -1, None, None), known
                )
                yield WindowedValue(letter, self._earliest, IN_GLOBAL)

    def teardown(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()

    def _fetch(
        self, partition: int, offsets: Sequence[int]
    ) -> Iterator[tuple[int, Message | None]]:
        """Yield the messages at ascending offsets, None for those that are gone.

        Raises:
            FetchError: if Kafka does not answer.
        """
        left, position = deque(offsets), None
        low, high = self._ends(partition)
        while left and low <= left[-1] and left[0] < high:
            if left[0] < low:
                yield left.popleft(), None
                continue
            if position is None or not 0 <= left[0] - position <= NEAR:
                place = confluent_kafka.TopicPartition(self._topic, partition, left[0])
                self._consumer.assign([place])
            for found in self._consume():
                if found.error() is not None:
                    yield left.popleft(), None
                    position = None
                    break
                position = found.offset() + 1
                while left and left[0] < found.offset():
                    yield left.popleft(), None
                if left and left[0] == found.offset():
                    _, timestamp = found.timestamp()
                    at = (self._topic, partition, found.offset(), timestamp)
                    yield left.popleft(), Message(*at, found.key(), found.value())
        for offset in left:
            yield offset, None

    def _ends(self, partition: int) -> tuple[int, int]:
        """Return the first offset that a partition has, and the one after its last."""
        if self._consumer is None:
            self._consumer = confluent_kafka.Consumer(resolve(self._settings))
        place = confluent_kafka.TopicPartition(self._topic, partition)
        try:
            low, high = self._consumer.get_watermark_offsets(place, PATIENCE)
        except confluent_kafka.KafkaException as error:
            raise FetchError(f"{self._topic}, partition {partition}: {error}") from error
        return low, high

    def _consume(self) -> list[Any]:
        """Return the messages that come next, or the one that says that they are gone."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self._consumer.poll(POLL)
            if found is not None and found.error() is None:
                more = self._consumer.consume(BATCH, 0)
                return [found, *(message for message in more if message.error() is None)]
            if found is not None and found.error().code() in _GONE:
                return [found]
            if time.monotonic() > deadline:
                why = "no answer" if found is None else found.error().str()
                raise FetchError(f"{self._topic}: refused messages cannot be fetched: {why}")
