"""ReadMessages: rows out of a Kafka topic, gathered per model and bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.io.kafka import ReadFromKafka
from apache_beam.utils.timestamp import MAX_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from kerneltrack.errors import ConfigError
from transforms.chunks import Chunk
from transforms.global_window import IN_GLOBAL
from transforms.kafka.commands import Commands
from transforms.kafka.formats import INPUT_FORMATS, REGISTERED
from transforms.kafka.gather import NO_ROW, Gathering, Reason, dead_letter
from transforms.kafka.messages import BadMessageError, Message
from transforms.kafka.schema_registry import SchemaRegistry
from transforms.metrics import count
from transforms.read.columns import Columns

ROWS = "rows"
DEAD_LETTERS = "dead_letters"

MOST_GATHERED_ROWS = 262_144
MOST_GATHERED_BYTES = 64 << 20
"""A bundle's rows go on before its end once there are so many."""


class ReadMessages(beam.PTransform[pvalue.PBegin, dict[str, pvalue.PCollection[Any]]]):
    """Read a topic's messages into chunks of one model each.

    Input: the pipeline's begin. Output: a dict of two PCollections, in the global window: `rows`,
    `tuple[str, Chunk]`, keyed by model id, the rows of one bundle sorted by (time, sequence,
    partition, offset, place); a chunk's source is the partition, its row the `position` of offset
    and place. `dead_letters`: key, value and headers of each message of which something could not
    be used; its other rows go on. No event time but the rows' own is relied on: elements bear the
    earliest of Beam's timestamps in their bundle. Java's KafkaIO reads, the runner keeps its
    offsets; no state of ours.

    Args:
        topic: The topic.
        columns: What each field of a row is.
        form: How messages are written.
        commands: Reads the commands among the messages (see `commands`), which go on as elements of
            their own between the rows before them and those after; None: there are none.
        consumer: Settings of Java's consumer, `bootstrap.servers` among them.
        expansion_service: Address of Beam's expansion service.
        counted_as: What the counters call the rows: "rows" gives rows_read and rows_failed.
        registry: Settings of the schema registry, for a form of `REGISTERED`.

    Raises:
        ConfigError: for an unknown form, or one that needs a registry without one.
    """

    def __init__(
        self,
        topic: str,
        columns: Columns,
        form: str,
        commands: Commands | None,
        consumer: Mapping[str, str],
        expansion_service: str,
        counted_as: str = "rows",
        *,
        registry: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        if form not in INPUT_FORMATS:
            raise ConfigError("form", form, f"one of {', '.join(INPUT_FORMATS)}")
        if (form in REGISTERED) != (registry is not None):
            raise ConfigError(
                "registry", registry, f"given with {' or '.join(REGISTERED)}, and only"
            )
        self._topic = topic
        self._consumer = dict(consumer)
        self._expansion_service = expansion_service
        self._gather = GatherFn(columns, form, commands, counted_as, registry)

    def expand(self, pbegin: pvalue.PBegin) -> dict[str, pvalue.PCollection[Any]]:
        """Build the steps."""
        messages = pbegin | "ReadTopic" >> ReadFromKafka(
            self._consumer,
            [self._topic],
            with_metadata=True,
            timestamp_policy=ReadFromKafka.processing_time_policy,
            expansion_service=self._expansion_service,
        )
        outputs = messages | "Gather" >> beam.ParDo(self._gather).with_output_types(
            tuple[str, Chunk]
        ).with_outputs(DEAD_LETTERS, main=ROWS)
        outputs[DEAD_LETTERS].element_type = Any
        return {ROWS: outputs[ROWS], DEAD_LETTERS: outputs[DEAD_LETTERS]}


class GatherFn(beam.DoFn):
    """Gather the messages of a bundle; see `Gathering`."""

    def __init__(
        self,
        columns: Columns,
        form: str,
        commands: Commands | None,
        counted_as: str = "rows",
        registry: Mapping[str, str] | None = None,
    ) -> None:
        self._registry = registry
        self._registered: Callable[[bytes], Any] | None = None
        self._counted_as = counted_as
        self._columns = columns
        self._form = form
        self._commands = commands

    def setup(self) -> None:
        """Remember no schema yet."""
        if self._registry is not None:
            self._registered = SchemaRegistry(self._registry, self._form).read

    def start_bundle(self) -> None:
        """Begin without messages."""
        self._gathering = self._new()
        self._earliest: Any = MAX_TIMESTAMP

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        """Take one of Beam's messages in."""
        message = Message(
            element.topic,
            element.partition,
            element.offset,
            element.timestamp,
            element.key,
            element.value,
            [(header.key, header.value or b"") for header in element.headers or ()],
        )
        if timestamp is not self._earliest:
            self._earliest = min(self._earliest, timestamp)
        for item in self.take(message):
            yield self._placed(item)

    def take(self, message: Message) -> Iterable[Any]:
        """Take a message in; return what goes on before the bundle ends, nearly always nothing."""
        if message.headers and self._commands is not None:
            try:
                command = self._commands.read(message, message.headers)
            except BadMessageError as error:
                letter = dead_letter(message, [Reason(NO_ROW, str(error))])
                count("dead_letters", 1)
                return [pvalue.TaggedOutput(DEAD_LETTERS, letter)]
            if command is not None:
                return [*self.gathered(), command]
        self._gathering.add(message)
        full = self._gathering.rows >= MOST_GATHERED_ROWS
        if full or self._gathering.bytes >= MOST_GATHERED_BYTES:
            return self.gathered()
        return ()

    def finish_bundle(self) -> Iterator[Any]:
        """Yield what was gathered."""
        for item in self.gathered():
            yield self._placed(item)

    def gathered(self) -> list[Any]:
        """Return what was gathered, rows and then dead letters, and begin without messages."""
        gathering, self._gathering = self._gathering, self._new()
        if not len(gathering):
            return []
        rows = list(gathering.chunks())
        letters = gathering.dead_letters()
        return [*rows, *(pvalue.TaggedOutput(DEAD_LETTERS, letter) for letter in letters)]

    def _new(self) -> Gathering:
        return Gathering(self._columns, self._form, self._counted_as, self._registered)

    def _placed(self, item: Any) -> Any:
        """Return an item with the earliest of Beam's timestamps."""
        if isinstance(item, pvalue.TaggedOutput):
            return pvalue.TaggedOutput(item.tag, self._placed(item.value))
        return WindowedValue(item, self._earliest, IN_GLOBAL)
