"""What the live job does with rows: its settings, and the steps of its pipeline."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import apache_beam as beam
import pyarrow as pa

from kerneltrack.learners import LearnerSpec
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.start import StartSet
from transforms.chunks import Failures
from transforms.kafka import read as kafka
from transforms.kafka.commands import Commands
from transforms.kafka.encode import EncodeFn, placed_schema
from transforms.kafka.fetch import FetchFn
from transforms.kafka.gather import Outgoing
from transforms.kafka.read import ReadMessages
from transforms.kafka.send import SendMessages
from transforms.keyed.expiry import Expiry
from transforms.learn import transform as learn
from transforms.learn.transform import TrainLinear
from transforms.read.columns import Columns
from transforms.snapshots.folder import SnapshotFolder, WriteStates
from transforms.track import transform as track
from transforms.track.late_data import late_as_failures
from transforms.track.transform import MeasureMismatch, Order, TrackSubspace
from transforms.write.schemas import (
    MISMATCH_SCHEMA,
    alerts_schema,
    features_schema,
    metrics_schema,
    predictions_schema,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ends:
    """Where messages come from and go to.

    Attributes:
        topic: The input.
        topics: Topic of each output by name.
        form: How the input's messages are written.
        output_form: How the output's are.
        consumer: Settings of Java's consumer.
        client: Settings of librdkafka's clients: producers, and the consumer that fetches
            messages whose rows were refused.
        expansion_service: Address of Beam's expansion service.
    """

    topic: str
    topics: dict[str, str]
    form: str
    output_form: str
    consumer: dict[str, str]
    client: dict[str, str]
    expansion_service: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamJob:
    """What a live job does with the rows that it reads; attributes as of `file_pipeline.Job`.

    Attributes:
        columns: What each field of a row is.
        snapshots: Folder of the snapshots, None without.
        expiry: When models that are silent leave Flink's state; None: never.
    """

    columns: Columns
    spec: SubspaceSpec
    order: Order
    extras: tuple[str, ...] = ()
    measure: MeasureMismatch | None = None
    drift: DriftSpec | None = None
    learner: LearnerSpec | None = None
    metrics_window: float | None = None
    snapshot_every: float | None = None
    snapshots: str | None = None
    expiry: Expiry | None = None
    before: SnapshotFolder | None = None
    start: StartSet | None = None
    float32: bool = False

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs that the job writes."""
        names = ["features", "dead-letters"]
        if self.learner is not None:
            names.append("predictions")
            if self.metrics_window is not None:
                names.append("metrics")
        if self.measure is not None:
            names.append("mismatch")
        if self.drift is not None:
            names.append("alerts")
        return tuple(names)

    def settings(self) -> dict[str, Any]:
        """Return all that results depend on: a job goes on only from one with the same."""
        return {
            "tracker": self.spec.to_dict(),
            "learner": self.learner and self.learner.to_dict(),
            "drift": self.drift and self.drift.to_dict(),
            "measure": self.measure and self.measure.to_dict(),
            "order": dataclasses.asdict(self.order),
            "metrics_window": self.metrics_window,
            "snapshot_every": self.snapshot_every,
            "start_from": self.start and self.start.digest(),
            "extras": list(self.extras),
            "columns": {
                "model_id": self.columns.model_id,
                "time": self.columns.time,
                "sequence": self.columns.sequence,
                "label": self.columns.label,
                "features": list(self.columns.channels),
            },
        }


def digest(settings: dict[str, Any]) -> str:
    """Return a hash of a job's settings."""
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def build(pipeline: beam.Pipeline, job: StreamJob, ends: Ends) -> None:
    """Put the job's steps into a pipeline.

    Args:
        pipeline: The pipeline.
        job: What is done with rows.
        ends: Where they come from, and results go to.
    """
    read = pipeline | "Read" >> ReadMessages(
        ends.topic,
        job.columns,
        ends.form,
        Commands(job.spec, job.learner, job.columns.width),
        ends.consumer,
        ends.expansion_service,
    )
    tracked = read[kafka.ROWS] | "TrackSubspace" >> TrackSubspace(
        job.spec,
        job.order,
        job.extras,
        measure=job.measure,
        drift=job.drift,
        snapshot_every=job.snapshot_every,
        warm=job.start or job.before,
        expiry=job.expiry,
    )
    late = tracked[track.LATE] | "LateAsFailures" >> beam.Map(late_as_failures).with_output_types(
        Failures
    )
    lost = [tracked[track.FAILURES], late]
    snapshots = [tracked[track.SNAPSHOTS]]
    features = features_schema(
        job.spec,
        job.columns.label_type,
        has_time=True,
        extras=job.extras,
        budget=getattr(job.spec, "budget", getattr(job.spec, "max_rows", 0)),
    )
    written = {"features": (tracked[track.FEATURES], placed_schema(features))}
    if job.measure is not None:
        written["mismatch"] = (tracked[track.MISMATCH], MISMATCH_SCHEMA)
    if job.drift is not None:
        written["alerts"] = (tracked[track.ALERTS], alerts_schema(has_time=True))
    if job.learner is not None:
        learned = tracked[track.FEATURES] | "TrainLinear" >> TrainLinear(
            job.learner,
            window=job.metrics_window,
            snapshot_every=job.snapshot_every,
            warm=job.before,
            bounded=False,
            expiry=job.expiry,
        )
        lost.append(learned[learn.FAILURES])
        snapshots.append(learned[learn.SNAPSHOTS])
        schema = predictions_schema(job.learner, has_time=True)
        written["predictions"] = (learned[learn.PREDICTIONS], schema)
        if job.metrics_window is not None:
            written["metrics"] = (learned[learn.METRICS], metrics_schema(job.learner))
    for name, (chunks, schema) in written.items():
        _send(name, chunks, schema, ends)
    _send_dead_letters(read[kafka.DEAD_LETTERS], lost, ends)
    if job.snapshots is not None:
        states = snapshots | "AllSnapshots" >> beam.Flatten()
        _ = states | "Write snapshots" >> WriteStates(job.snapshots, job.float32)


def _send(name: str, chunks: Any, schema: pa.Schema, ends: Ends) -> None:
    messages = chunks | f"Encode {name}" >> beam.ParDo(
        EncodeFn(schema, ends.output_form)
    ).with_output_types(Outgoing)
    _ = messages | f"Write {name}" >> SendMessages(ends.topics[name], ends.client)


def _send_dead_letters(letters: Any, lost: list[Any], ends: Ends) -> None:
    topic = ends.topics["dead-letters"]
    fetched = (
        lost
        | "AllLost" >> beam.Flatten()
        | "Fetch lost" >> beam.ParDo(FetchFn(ends.topic, ends.client)).with_output_types(Outgoing)
    )
    _ = fetched | "Write lost" >> SendMessages(topic, ends.client)
    _ = letters | "Write dead letters" >> SendMessages(topic, ends.client)
