"""The ends of the file job: rows and delayed labels from files, results into a run's folder."""

from __future__ import annotations

import dataclasses
from typing import Any

import apache_beam as beam

from kerneltrack.paths import join, whole
from pipelines.job_spec import Job, apply_job
from transforms.outputs import FAILURES, LEARNER, PERIOD, SNAPSHOTS, TRACKER, written
from transforms.read.files import ReadChunks
from transforms.read.label_files import ReadLabels
from transforms.snapshots.write import WriteSnapshots
from transforms.write.parquet import WriteChunks, WriteFailures


@dataclasses.dataclass(frozen=True)
class Ends:
    """Where rows come from and results go to.

    Attributes:
        rows: The rows.
        labels: Delayed labels, if there are any.
        output: The run's folder.
    """

    rows: ReadChunks
    labels: ReadLabels | None
    output: str

    @property
    def sources(self) -> list[str]:
        """Path of each source number."""
        labels = [] if self.labels is None else self.labels.input.paths
        return [*self.rows.input.paths, *labels]


def parts_of(job: Job) -> tuple[str, ...]:
    """Return the folders of the output that a job writes."""
    return tuple(output.name for output in written(job.asked(), TRACKER, LEARNER, PERIOD))


def settings_of(job: Job, ends: Ends, start_from: str | None) -> dict[str, Any]:
    """Return what the record says of columns and specs."""
    settings = job.settings()
    found: dict[str, Any] = {
        "columns": settings["columns"],
        "times": settings["times"],
        "tracker": job.spec.tracker,
        "spec": {**settings["tracker"], "digest": job.spec.digest()},
        "learner": job.learner and {**settings["learner"], "digest": job.learner.digest()},
        **{name: settings[name] for name in ("drift", "reference", "measure")},
        **{name: settings[name] for name in ("metrics_window", "snapshot_every")},
    }
    if ends.labels is not None:
        columns = ends.labels.input.columns
        found["labels"] = {
            "files": ends.labels.input.paths,
            "column": columns.label,
            "by": "index" if columns.sequence else "time",
            **settings["late"],
        }
    if job.before is not None:
        found["warm_start"] = job.before.folder
    if job.periods is not None:
        found["periods"] = settings["periods"]
    if job.quiet is not None:
        found["quiet"] = job.quiet.to_dict()
    if job.rules is not None:
        found["rules"] = job.rules.to_dict()
    if job.feedback is not None:
        found["feedback"] = job.feedback.to_dict()
    if job.given is not None:
        found["reference_from"] = job.given.place
    if start_from is not None:
        found["start_from"] = start_from
    return found


def build(pipeline: beam.Pipeline, job: Job, ends: Ends) -> None:
    """Put the job's steps into a pipeline."""
    output = whole(ends.output)
    rows = pipeline | "Read" >> ends.rows
    labels = None if ends.labels is None else pipeline | "Labels" >> ends.labels
    results = apply_job(job, rows["rows"], labels and labels["rows"])
    for name, (chunks, schema) in results.chunks.items():
        prefix = join(output, name, "part")
        _ = chunks | f"Write {name}" >> WriteChunks(prefix, schema, ends.sources)
    refused = [*results.failures, *results.lost_labels]
    failures = [part["failures"] for part in (rows, labels) if part is not None]
    _ = (
        [*failures, *refused]
        | "AllFailures" >> beam.Flatten()
        | "Write failures" >> WriteFailures(join(output, FAILURES, "part"), ends.sources)
    )
    _ = results.snapshots | "Write snapshots" >> WriteSnapshots(
        join(output, SNAPSHOTS),
        job.spec,
        job.learner,
        job.float32,
        job.before,
        job.reference,
    )
