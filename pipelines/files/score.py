"""The scoring job: rows from files in; features and predictions under a run's snapshots out.

    kerneltrack score INPUT... --snapshots DIR/snapshots --output DIR2 [flags] [Beam's flags]

Nothing is learned, and nothing waits: every row is projected and predicted by itself.
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
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

import kerneltrack
from kerneltrack.errors import ConfigError
from kerneltrack.learners import LearnerSpec
from kerneltrack.warm import warm_up
from pipelines.cli import input_options
from pipelines.cli.command_line import folder_name
from pipelines.files import outcome, output_folder
from pipelines.files.first_look import look_and_warn
from pipelines.files.local_times import counted, local_times, local_times_text
from pipelines.files.progress import StatusLine
from pipelines.files.record import (
    JobError,
    counters,
    parquet_rows,
    performance,
    performance_text,
    versions,
    write_record,
)
from pipelines.job import explain, say
from pipelines.report.data.failures import FailureKind, failure_lines, failure_reasons, failures_of
from transforms.read.files import ReadChunks, known_rows
from transforms.read.label_values import check_label_type
from transforms.score import FAILURES, SCORES, ScoreRows, scores_schema
from transforms.snapshots.folder import SnapshotFolder
from transforms.write.parquet import WriteChunks, WriteFailures

PARTS = (output_folder.SCORES, output_folder.FAILURES)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the job's flags to a parser."""
    parser.usage = "kerneltrack score INPUT... --snapshots FOLDER --output DIR [flags]"
    parser.add_argument("input", nargs="+", metavar="INPUT", help="files or globs")
    parser.add_argument(
        "--snapshots", required=True, metavar="FOLDER", help="a run's snapshots (DIR/snapshots)"
    )
    parser.add_argument(
        "--output", required=True, type=folder_name, metavar="DIR", help="folder for the results"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the results of an earlier run in DIR"
    )
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="status line while it runs (default: on a terminal)",
    )
    outcome.add_flag(parser)
    input_options.add_input_flags(parser)


def run(args: argparse.Namespace, beam_flags: PipelineOptions, command: Sequence[str]) -> int:
    """Run the job; arguments, result and errors as of `pipelines.files.track.run`."""
    begin, started = time.monotonic(), datetime.now(timezone.utc)
    allowed = outcome.max_failures(args.max_failures)
    if args.missing == "hold":
        raise ConfigError("--missing", "hold", "fail or drop: every row is scored by itself")
    snapshots = SnapshotFolder(args.snapshots, learner=True)
    read = ReadChunks(
        args.input, input_options.columns_from_flags(args), input_options.formats_from_flags(args)
    )
    learner = snapshots.learner_spec
    if learner is not None and read.columns.label is not None:
        check_label_type(learner, read.columns.label_type)
    snapshots.check_width(read.columns.width)
    say(read.describe())
    warnings = look_and_warn(read.infos, read.columns)
    try:
        pipeline = beam.Pipeline(options=beam_flags)
        _build(pipeline, read, snapshots, args.output)
    except Exception as error:
        raise explain(error, args.output) from error
    inputs = [*read.paths, snapshots.folder]
    with output_folder.held(args.output, PARTS, args.overwrite, inputs, command):
        warm_up([snapshots.spec.tracker], [] if learner is None else [learner.learner])
        with StatusLine(sys.stderr, known_rows(read.infos), args.progress):
            result = pipeline.run()
            state = result.wait_until_finish()
        if state != "DONE":
            raise JobError(f"the job ended in state {state}; see the runner's log")
        totals = counters(result)
        found = _counts(args.output, totals, learner)
        judged, failed = outcome.judge(found, allowed), failures_of(args.output)
        record = {
            "kerneltrack": kerneltrack.__version__,
            "versions": versions(),
            "command": shlex.join(command),
            "runner": beam_flags.view_as(StandardOptions).runner.rpartition(".")[2],
            "started": started.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "seconds": {"total": round(time.monotonic() - begin, 3)},
            "inputs": [{"path": info.path, "rows": info.rows} for info in read.infos],
            "snapshots": snapshots.folder,
            "warnings": warnings,
            **outcome.record_of(judged, allowed),
            "counts": found,
            "failures": failure_reasons(failed),
            **local_times(read.columns, counted(totals)),
        }
        write_record(args.output, record)
    say(_summary(record, failed))
    return outcome.end(judged)


def _build(
    pipeline: beam.Pipeline, read: ReadChunks, snapshots: SnapshotFolder, output: str
) -> None:
    """Put the job's steps into a pipeline."""
    rows = pipeline | "Read" >> read
    scored = rows["rows"] | "ScoreRows" >> ScoreRows(snapshots)
    schema = scores_schema(
        snapshots.spec,
        snapshots.learner_spec,
        read.columns.label_type,
        read.columns.time is not None,
    )
    prefix = FileSystems.join(output, output_folder.SCORES, "part")
    _ = scored[SCORES] | "Write scores" >> WriteChunks(prefix, schema, read.paths)
    prefix = FileSystems.join(output, output_folder.FAILURES, "part")
    _ = (
        (rows["failures"], scored[FAILURES])
        | "AllFailures" >> beam.Flatten()
        | "Write failures" >> WriteFailures(prefix, read.paths)
    )


def _counts(
    output: str, totals: dict[str, int], learner: LearnerSpec | None
) -> dict[str, int | float]:
    """Count rows in and out, and how many predictions met a label and were right.

    Raises:
        JobError: if a row is missing or came twice.
    """
    counted: dict[str, int | float] = {
        "rows_in": totals.get("rows_read", 0),
        "rows_out": parquet_rows(output, output_folder.SCORES),
        "rows_failed": parquet_rows(output, output_folder.FAILURES),
    }
    if counted["rows_in"] != counted["rows_out"] + counted["rows_failed"]:
        raise JobError(f"rows are missing: {counted}")
    if learner is not None:
        counted |= performance(output, output_folder.SCORES, learner)
    return counted


def _summary(record: dict[str, Any], kinds: Sequence[FailureKind]) -> str:
    counted, seconds = record["counts"], record["seconds"]["total"]
    text = (
        f"{counted['rows_in']:,} rows in: {counted['rows_out']:,} scored, "
        f"{counted['rows_failed']:,} failed; {seconds:.1f} s"
    )
    text += local_times_text(record)
    if "scored" in counted:
        text += "\n" + performance_text(counted)
    return "\n".join([text, *failure_lines(kinds)])
