"""What the file job does with rows: its settings, and the steps of its pipeline."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from kerneltrack.learners import LearnerSpec
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.start import StartSet
from pipelines.files import output_folder
from transforms.chunks import Failures
from transforms.learn import transform as learn
from transforms.learn.transform import LateLabels, TrainLinear
from transforms.read.files import ReadChunks
from transforms.read.label_files import ReadLabels
from transforms.snapshots.folder import SnapshotFolder, WriteSnapshots
from transforms.track import transform as track
from transforms.track.late_data import late_as_failures
from transforms.track.transform import MeasureMismatch, Order, TrackSubspace
from transforms.write.parquet import WriteChunks, WriteFailures
from transforms.write.schemas import (
    MISMATCH_SCHEMA,
    alerts_schema,
    features_schema,
    metrics_schema,
    predictions_schema,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What a job does with the rows that it reads.

    Attributes:
        spec: The tracker's spec.
        output: The run's folder.
        order: How rows are put in order.
        extras: More features per row.
        measure: Windows whose kernel mismatch is measured.
        drift: How changes of the loss are detected.
        learner: The learner's spec, if labels are to be learned.
        labels: Labels from files of their own, and how long rows wait for them.
        metrics_window: Seconds of the windows of the learner's metrics.
        snapshot_every: Seconds between snapshots.
        before: Snapshots to begin from.
        start: Landmarks that models begin from.
        start_from: Their file.
        float32: Snapshots of trackers in single precision.
    """

    spec: SubspaceSpec
    output: str
    order: Order
    extras: tuple[str, ...] = ()
    measure: MeasureMismatch | None = None
    drift: DriftSpec | None = None
    learner: LearnerSpec | None = None
    labels: tuple[ReadLabels, LateLabels] | None = None
    metrics_window: float | None = None
    snapshot_every: float | None = None
    before: SnapshotFolder | None = None
    start: StartSet | None = None
    start_from: str | None = None
    float32: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """Folders of the output that the job writes."""
        names = [output_folder.FEATURES, output_folder.FAILURES, output_folder.SNAPSHOTS]
        if self.measure is not None:
            names.append(output_folder.MISMATCH)
        if self.drift is not None:
            names.append(output_folder.ALERTS)
        if self.learner is not None:
            names += [output_folder.PREDICTIONS, output_folder.METRICS]
        return tuple(names)


def settings(read: ReadChunks, job: Job) -> dict[str, Any]:
    """Return what the record says of columns and specs."""
    settings: dict[str, Any] = {
        "columns": {
            "model_id": read.columns.model_id,
            "time": read.columns.time,
            "sequence": read.columns.sequence,
            "label": read.columns.label,
            "features": list(read.columns.channels),
        },
        "tracker": job.spec.tracker,
        "spec": {**job.spec.to_dict(), "digest": job.spec.digest()},
        "learner": job.learner and {**job.learner.to_dict(), "digest": job.learner.digest()},
        "drift": job.drift and job.drift.to_dict(),
        "measure": job.measure and job.measure.to_dict(),
        "metrics_window": job.metrics_window,
        "snapshot_every": job.snapshot_every,
    }
    if job.labels is not None:
        labels, late = job.labels
        settings["labels"] = {
            "files": labels.paths,
            "column": labels.columns.label,
            "by": "index" if labels.columns.sequence else "time",
            **dataclasses.asdict(late),
        }
    if job.before is not None:
        settings["warm_start"] = job.before.folder
    if job.start_from is not None:
        settings["start_from"] = job.start_from
    return settings


def build(pipeline: beam.Pipeline, read: ReadChunks, job: Job, sources: Sequence[str]) -> None:
    """Put the job's steps into a pipeline.

    Args:
        pipeline: The pipeline.
        read: The rows.
        job: What is done with them.
        sources: Path of each source number.
    """
    rows = pipeline | "Read" >> read
    has_time = read.columns.time is not None
    tracked = rows["rows"] | "TrackSubspace" >> TrackSubspace(
        job.spec,
        job.order,
        job.extras,
        measure=job.measure,
        drift=job.drift,
        snapshot_every=job.snapshot_every,
        warm=job.start or job.before,
    )
    late = tracked[track.LATE] | "LateAsFailures" >> beam.Map(late_as_failures).with_output_types(
        Failures
    )
    failures = [rows["failures"], tracked[track.FAILURES], late]
    snapshots = [tracked[track.SNAPSHOTS]]
    features = features_schema(
        job.spec,
        read.columns.label_type,
        has_time,
        job.extras,
        budget=getattr(job.spec, "budget", getattr(job.spec, "max_rows", 0)),
    )
    written = {output_folder.FEATURES: (tracked[track.FEATURES], features)}
    if job.measure is not None:
        written[output_folder.MISMATCH] = (tracked[track.MISMATCH], MISMATCH_SCHEMA)
    if job.drift is not None:
        written[output_folder.ALERTS] = (tracked[track.ALERTS], alerts_schema(has_time))
    if job.learner is not None:
        learned, lost = _learn(pipeline, tracked[track.FEATURES], job, job.learner)
        failures += lost
        snapshots.append(learned[learn.SNAPSHOTS])
        schema = predictions_schema(job.learner, has_time)
        written[output_folder.PREDICTIONS] = (learned[learn.PREDICTIONS], schema)
        written[output_folder.METRICS] = (learned[learn.METRICS], metrics_schema(job.learner))
    for name, (chunks, schema) in written.items():
        prefix = FileSystems.join(job.output, name, "part")
        _ = chunks | f"Write {name}" >> WriteChunks(prefix, schema, sources)
    prefix = FileSystems.join(job.output, output_folder.FAILURES, "part")
    _ = (
        failures
        | "AllFailures" >> beam.Flatten()
        | "Write failures" >> WriteFailures(prefix, sources)
    )
    _ = (
        snapshots
        | "AllSnapshots" >> beam.Flatten()
        | "Write snapshots"
        >> WriteSnapshots(
            FileSystems.join(job.output, output_folder.SNAPSHOTS),
            job.spec,
            job.learner,
            job.float32,
            job.before,
        )
    )


def _learn(
    pipeline: beam.Pipeline, features: Any, job: Job, spec: LearnerSpec
) -> tuple[dict[str, Any], list[Any]]:
    """Put the learner's steps into a pipeline; returns its outputs and those that failed."""
    failures = []
    late = None
    inputs: Any = features
    if job.labels is not None:
        read, late = job.labels
        labels = pipeline | "Labels" >> read
        failures.append(labels["failures"])
        inputs = (features, labels["rows"])
    learned = inputs | "TrainLinear" >> TrainLinear(
        spec,
        late=late,
        window=job.metrics_window,
        snapshot_every=job.snapshot_every,
        warm=job.before,
    )
    return learned, [*failures, learned[learn.FAILURES]]
