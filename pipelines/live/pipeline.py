"""The ends of the live job: rows and delayed labels from topics, results to topics."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import apache_beam as beam
import pyarrow as pa

from pipelines.job_spec import Job, apply_job
from transforms.kafka import read as kafka
from transforms.kafka.commands import Commands
from transforms.kafka.device_states import DeviceStatesFn
from transforms.kafka.encode import EncodeFn, placed_schema
from transforms.kafka.fetch import FetchFn
from transforms.kafka.gather import Outgoing
from transforms.kafka.periods import PeriodsFn
from transforms.kafka.read import ReadMessages
from transforms.kafka.send import SendMessages
from transforms.keyed.expiry import Expiry
from transforms.outputs import DEAD_LETTERS, DEVICES, EPISODES, FEATURES, PERIODS, written
from transforms.read.columns import Columns
from transforms.read.label_files import name_rows
from transforms.snapshots.write import WriteStates


@dataclasses.dataclass(frozen=True, kw_only=True)
class Labels:
    """Where delayed labels come from.

    Attributes:
        topic: Their topic.
        columns: What each field of one is.
    """

    topic: str
    columns: Columns


@dataclasses.dataclass(frozen=True, kw_only=True)
class LiveEnds:
    """Where messages come from and go to.

    Attributes:
        topic: The input.
        labels: Delayed labels; None: there are none.
        topics: Topic of each output by name.
        form: How the input's messages are written.
        output_form: How the output's are.
        consumer: Settings of Java's consumer.
        client: Settings of librdkafka's clients: producers, and the consumer that fetches
            messages whose rows were refused.
        expansion_service: Address of Beam's expansion service.
        source: Number of the source. Flink finds the partitions and offsets of one by its label,
            and keeps its partitions: those that were added take a source of another label.
        registry: Settings of the schema registry, None without.
        snapshots: Folder of the snapshots, None without.
        expiry: When models that are silent leave Flink's state; None: never.
    """

    topic: str
    labels: Labels | None
    topics: dict[str, str]
    form: str
    output_form: str
    consumer: dict[str, str]
    client: dict[str, str]
    expansion_service: str
    source: int = 0
    registry: dict[str, str] | None = None
    snapshots: str | None = None
    expiry: Expiry | None = None


def outputs_of(job: Job) -> tuple[str, ...]:
    """Return the outputs that go to topics, as the table of outputs calls these."""
    return tuple(str(output.topic) for output in written(job.asked(bounded=False)))


def digest(settings: dict[str, Any]) -> str:
    """Return a hash of a job's settings."""
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def build(pipeline: beam.Pipeline, job: Job, ends: LiveEnds) -> None:
    """Put the job's steps into a pipeline.

    Args:
        pipeline: The pipeline.
        job: What is done with rows.
        ends: Where they come from, and results go to.
    """
    commands = Commands(job.spec, job.learner, job.columns.width, job.feedback, job.live_quiet)
    number = str(ends.source or "")
    read = pipeline | f"Read{number}" >> _reader(ends, ends.topic, job.columns, commands, "rows")
    dead, labels = {"dead letters": read[kafka.DEAD_LETTERS]}, None
    if ends.labels is not None:
        found = pipeline | f"ReadLabels{number}" >> _reader(
            ends, ends.labels.topic, ends.labels.columns, None, "labels"
        )
        dead["dead labels"] = found[kafka.DEAD_LETTERS]
        labels = name_rows(found[kafka.ROWS], ends.labels.columns)
    results = apply_job(job, read[kafka.ROWS], labels, bounded=False, expiry=ends.expiry)
    for name, (chunks, schema) in results.chunks.items():
        _send(name, chunks, encoder_of(name, schema, job, ends), ends)
    _fetch("lost", ends.topic, results.failures, ends)
    if ends.labels is not None:
        _fetch("lost labels", ends.labels.topic, results.lost_labels, ends)
    for name, letters in dead.items():
        _ = letters | f"Write {name}" >> SendMessages(ends.topics[DEAD_LETTERS], ends.client)
    if ends.snapshots is not None:
        _ = results.snapshots | "Write snapshots" >> WriteStates(ends.snapshots, job.float32)


def encoder_of(name: str, schema: pa.Schema, job: Job, ends: LiveEnds) -> beam.DoFn:
    """Return the step that turns chunks of an output into messages."""
    if name == DEVICES:
        return DeviceStatesFn(schema, job.columns.channels)
    if name == PERIODS and job.periods is not None:
        return PeriodsFn(schema, job.columns.channels, job.periods)
    placed = placed_schema(schema) if name == FEATURES else schema
    channels = job.columns.channels if name == EPISODES else ()
    return EncodeFn(placed, ends.output_form, channels)


def _reader(
    ends: LiveEnds, topic: str, columns: Columns, commands: Commands | None, counted_as: str
) -> ReadMessages:
    return ReadMessages(
        topic,
        columns,
        ends.form,
        commands,
        ends.consumer,
        ends.expansion_service,
        counted_as,
        registry=ends.registry,
    )


def _send(name: str, chunks: Any, encode: Any, ends: LiveEnds) -> None:
    messages = chunks | f"Encode {name}" >> beam.ParDo(encode).with_output_types(Outgoing)
    _ = messages | f"Write {name}" >> SendMessages(ends.topics[name], ends.client)


def _fetch(name: str, topic: str, lost: list[Any], ends: LiveEnds) -> None:
    """Send messages of which rows or labels were refused after they had left their message."""
    fetched = (
        lost
        | f"All{name.title().replace(' ', '')}" >> beam.Flatten()
        | f"Fetch {name}" >> beam.ParDo(FetchFn(topic, ends.client)).with_output_types(Outgoing)
    )
    _ = fetched | f"Write {name}" >> SendMessages(ends.topics[DEAD_LETTERS], ends.client)
