"""A job for the local cluster: counts the words of each key in Kafka messages, for ever."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import confluent_kafka
from apache_beam.coders import VarIntCoder
from apache_beam.io.kafka import ReadFromKafka
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

Word = tuple[str, tuple[int, str]]


def numbered(message: Any) -> Word:
    """Key, and the number of the message in its partition with its text."""
    return message.key.decode(), (message.offset, message.value.decode())


class CountWords(beam.DoFn):
    """Counts the words that a key has seen, across bundles and restarts."""

    SEEN = ReadModifyWriteStateSpec("seen", VarIntCoder())

    def process(
        self, element: Word, seen: Any = beam.DoFn.StateParam(SEEN)
    ) -> Iterator[tuple[str, int, int]]:
        key, (offset, text) = element
        count = (seen.read() or 0) + len(text.split())
        seen.write(count)
        yield key, offset, count


class WriteCounts(beam.DoFn):
    """Sends each count to a topic, and ends a bundle only when all have arrived."""

    def __init__(self, brokers: str, topic: str) -> None:
        self._brokers = brokers
        self._topic = topic

    def setup(self) -> None:
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": self._brokers, "linger.ms": 0}
        )

    def process(self, element: tuple[str, int, int]) -> None:
        key, offset, count = element
        self._producer.produce(self._topic, f"{offset} {count}".encode(), key.encode())

    def finish_bundle(self) -> None:
        if self._producer.flush(30):
            raise RuntimeError("counts did not arrive")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    for flag in ("--brokers", "--topic", "--output-topic", "--expansion-service"):
        parser.add_argument(flag, required=True)
    args, beam_flags = parser.parse_known_args(arguments)
    options = PipelineOptions(beam_flags, streaming=True)
    pipeline = beam.Pipeline(options=options)
    (
        pipeline
        | "Read"
        >> ReadFromKafka(
            {"bootstrap.servers": args.brokers, "auto.offset.reset": "earliest"},
            [args.topic],
            with_metadata=True,
            timestamp_policy=ReadFromKafka.processing_time_policy,
            expansion_service=args.expansion_service,
        )
        | "Number" >> beam.Map(numbered).with_output_types(Word)
        | "Count" >> beam.ParDo(CountWords())  # type: ignore[no-untyped-call]
        | "Write" >> beam.ParDo(WriteCounts(args.brokers, args.output_topic))
    )
    pipeline.run()


if __name__ == "__main__":
    main(sys.argv[1:])
