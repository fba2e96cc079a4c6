"""The scoring job: rows from files in; what they are under a run's snapshots out.

    kerneltrack score INPUT... --snapshots DIR/snapshots --output DIR2 [flags] [Beam's flags]

Nothing is learned: features, predictions, windows and episodes are those of the models as the run
left them.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

import kerneltrack
from kerneltrack.errors import ConfigError, printable
from kerneltrack.learners import LearnerSpec
from kerneltrack.monitor.entries import check_devices
from kerneltrack.paths import join, whole
from kerneltrack.snapshots.folder import SnapshotFolder
from pipelines.cli.feedback_file import FLAG as FEEDBACK_FLAG
from pipelines.cli.feedback_file import check_feedback, feedback_from_flags
from pipelines.cli.rule_flags import FLAG, check_rules, rules_from_flags
from pipelines.files import outcome, output_folder
from pipelines.files.first_look import look_and_warn
from pipelines.files.local_times import counted, local_times, local_times_text
from pipelines.files.max_failures import read_limit
from pipelines.files.missing import missing_lines, missing_values
from pipelines.files.progress import StatusLine
from pipelines.files.record import (
    apart_text,
    input_files,
    performance,
    performance_text,
    rows_apart,
    run_pipeline,
    versions,
    write_record,
)
from pipelines.files.time_span import span_lines, span_warnings, time_span
from pipelines.job import explain, say
from pipelines.job_spec import measure_from_flags
from pipelines.report.data.episodes import off_lines
from pipelines.report.data.failures import failure_lines, failure_reasons, failures_of
from pipelines.report.data.files import count_rows
from pipelines.report.text import MOST_NAMED, natural
from transforms.metrics import SCORED_AGAIN, UNREFERENCED
from transforms.outputs import EPISODES, FAILURES, SCORER, SCORES, Asked, counters_of, schemas
from transforms.read.files import ReadChunks
from transforms.read.label_values import check_label_type
from transforms.read.look import Input
from transforms.score import ScoreRows
from transforms.write.parquet import WriteChunks, WriteFailures

NO_REFERENCE = (
    "the snapshots have no reference, so no device can be off (`kerneltrack track --reference "
    "first` makes one)"
)


def run(args: argparse.Namespace, files: Input, beam_flags: PipelineOptions) -> int:
    """Run the job; arguments, result and errors as of `pipelines.files.track.run`."""
    begin, started = time.monotonic(), datetime.now(timezone.utc)
    allowed = read_limit(args.max_failures)
    if args.missing == "hold":
        raise ConfigError("--missing", "hold", "fail or drop: every row is scored by itself")
    snapshots = SnapshotFolder(args.snapshots, learner=True)
    read = ReadChunks(files)
    columns = read.input.columns
    learner, reference = snapshots.learner_spec, snapshots.reference_spec
    if learner is not None and columns.label is not None:
        check_label_type(learner, columns.label_type)
    snapshots.check_width(columns.width)
    measure = measure_from_flags(args, columns.time is not None)
    rules = rules_from_flags(args, columns.channels)
    check_rules(rules, reference)
    if rules is not None:
        check_devices(FLAG, rules.rules)
    feedback = feedback_from_flags(args, columns)
    check_feedback(feedback, reference)
    if feedback is not None:
        check_devices(FEEDBACK_FLAG, feedback.said)
    job = ScoreRows(snapshots, measure, merge=columns.partial, rules=rules, feedback=feedback)
    say(read.input.describe())
    warnings = look_and_warn(files.infos, columns).warnings
    try:
        pipeline = beam.Pipeline(options=beam_flags)
        outputs = _build(pipeline, read, job, args.output)
    except Exception as error:
        raise explain(error, args.output) from error
    inputs = [*files.paths, snapshots.folder]
    parts = (*outputs, FAILURES)
    with output_folder.locked(args.output, parts, args.overwrite, inputs, args.typed):
        with StatusLine(sys.stderr, files.rows, args.progress):
            totals, (bare, again) = run_pipeline(pipeline, UNREFERENCED, SCORED_AGAIN)
        found = _counts(args.output, totals, parts, learner)
        judged, failed = outcome.judge(found, allowed), failures_of(args.output)
        span = time_span(args.output, SCORES)
        odd = span_warnings(span, columns.sequence)
        record = {
            "kerneltrack": kerneltrack.__version__,
            "versions": versions(),
            "command": shlex.join(args.typed),
            "runner": beam_flags.view_as(StandardOptions).runner.rpartition(".")[2],
            "started": started.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "seconds": {"total": round(time.monotonic() - begin, 3)},
            "inputs": input_files(files.infos),
            "snapshots": snapshots.folder,
            "columns": {
                "features": list(columns.channels),
                **({"words": columns.words} if columns.words else {}),
                **({"units": columns.units} if columns.units else {}),
                **({"counters": columns.counters} if columns.counters else {}),
            },
            "reference": reference and reference.to_dict(),
            **({} if rules is None else {"rules": rules.to_dict()}),
            **({} if feedback is None else {"feedback": feedback.to_dict()}),
            "measure": job.measure and job.measure.in_ns().to_dict(),
            "warnings": [*warnings, *odd],
            **outcome.record_of(judged, allowed),
            "counts": found,
            "failures": failure_reasons(failed),
            **missing_values(totals, columns),
            **({} if reference is None else {UNREFERENCED: bare}),
            "models_scored_again": again,
            **local_times(columns, counted(totals)),
            **span,
        }
        write_record(args.output, record)
    lines = [
        *span_lines(record, columns.sequence),
        *(f"warning:  {line}" for line in odd),
        *failure_lines(failed),
        *missing_lines(record),
    ]
    if reference is None:
        lines = [*lines, NO_REFERENCE]
    else:
        off = off_lines(args.output, record, "none that is complete in the snapshots")
        lines = [*off, *lines]
    say("\n".join([_summary(record), *scored_again_lines(record), *lines]))
    return outcome.end(judged)


def _build(
    pipeline: beam.Pipeline, read: ReadChunks, job: ScoreRows, output: str
) -> tuple[str, ...]:
    """Put the job's steps into a pipeline; the folders that it writes beside the failures'."""
    output = whole(output)
    columns, snapshots = read.input.columns, job.snapshots
    asked = Asked(
        spec=snapshots.spec,
        has_time=columns.time is not None,
        width=columns.width,
        label=columns.label_type,
        measure=job.measure is not None,
        reference=snapshots.reference_spec is not None,
        mutes=job.rules is not None or job.feedback is not None,
        learner=snapshots.learner_spec,
        in_order=job.in_order,
    )
    rows = pipeline | "Read" >> read
    scored = rows["rows"] | "ScoreRows" >> job
    known = schemas(asked, SCORER)
    for name, schema in known.items():
        prefix = join(output, name, "part")
        _ = scored[name] | f"Write {name}" >> WriteChunks(prefix, schema, read.input.paths)
    _ = (
        (rows["failures"], scored[FAILURES])
        | "AllFailures" >> beam.Flatten()
        | "Write failures" >> WriteFailures(join(output, FAILURES, "part"), read.input.paths)
    )
    return tuple(known)


def _counts(
    output: str, totals: dict[str, int], parts: Sequence[str], learner: LearnerSpec | None
) -> dict[str, int | float]:
    """Count rows in and out, and how many predictions met a label and were right.

    Raises:
        JobError: if a row is missing or came twice.
    """
    counted: dict[str, int | float] = {
        "rows_in": totals.get("rows_read", 0),
        "rows_out": count_rows(output, SCORES),
        "rows_failed": count_rows(output, FAILURES),
        SCORED_AGAIN: totals.get(SCORED_AGAIN, 0),
    }
    counted |= rows_apart(counted, totals, SCORES)
    for name in counters_of(parts):
        counted[name] = totals.get(name, 0)
    if EPISODES in parts:
        counted["models"] = totals.get("models_scored", 0)
        counted[UNREFERENCED] = totals.get(UNREFERENCED, 0)
    if learner is not None:
        counted |= performance(output, SCORES, learner)
    return counted


def scored_again_lines(record: dict[str, Any]) -> list[str]:
    """Return a line if models scored rows that they had learned from."""
    rows, names = record["counts"][SCORED_AGAIN], record["models_scored_again"]
    if not rows:
        return []
    named = ", ".join(printable(name) for name in sorted(names, key=natural)[:MOST_NAMED])
    more = ", ..." if len(names) > MOST_NAMED else ""
    return [
        f"{rows:,} rows are no newer than the snapshots, whose models have learned from such rows: "
        f"they look more usual than new ones ({named}{more})"
    ]


def _summary(record: dict[str, Any]) -> str:
    counted, seconds = record["counts"], record["seconds"]["total"]
    text = (
        f"{counted['rows_in']:,} rows in: {counted['rows_out']:,} scored, "
        f"{counted['rows_failed']:,} failed; {seconds:.1f} s"
    )
    text += local_times_text(record) + apart_text(counted)
    if "scored" in counted:
        text += "\n" + performance_text(counted)
    return text
