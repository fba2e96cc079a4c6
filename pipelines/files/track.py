"""The file job: rows from files in; features, snapshots, failures and a report out."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import sys
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

import kerneltrack
from kerneltrack.errors import path_text
from kerneltrack.monitor.reference import ReferenceSpec
from pipelines.calls import Calls
from pipelines.cli import input_options
from pipelines.cli.command_line import flags_named
from pipelines.files import outcome, output_folder, partitioned
from pipelines.files.differences import difference_lines, find_differences
from pipelines.files.false_share import find_listed
from pipelines.files.first_look import look_and_warn
from pipelines.files.groups import groups_of
from pipelines.files.incidents import find_incidents, incident_lines
from pipelines.files.lineage import START, Lineage, input_dataset
from pipelines.files.local_times import counted, local_times
from pipelines.files.long_look import is_scattered, narrowed
from pipelines.files.max_failures import read_limit
from pipelines.files.missing import missing_lines, missing_values, models_without_rows
from pipelines.files.neighbours import find_neighbours
from pipelines.files.pipeline import Ends, build, parts_of, settings_of
from pipelines.files.progress import StatusLine
from pipelines.files.quiet import feedback_lines, quiet_lines, rule_lines, with_groups
from pipelines.files.record import (
    counts,
    input_files,
    run_pipeline,
    summary,
    versions,
    write_record,
)
from pipelines.files.second_pace import with_second
from pipelines.files.silent import find_silent, silent_lines
from pipelines.files.time_span import span_lines, span_warnings, time_span
from pipelines.files.unkept_classes import unkept_classes, unkept_lines
from pipelines.files.workers import workers_of
from pipelines.job import explain, say
from pipelines.job_spec import Job, job_from_flags, refuse_periods, transform_of
from pipelines.report import write_report
from pipelines.report.data.episodes import off_lines
from pipelines.report.data.failures import failure_lines, failure_reasons, failures_of
from pipelines.report.data.listed import listed_lines
from pipelines.report.data.neighbours import neighbour_lines
from transforms.metrics import UNREFERENCED
from transforms.outputs import FEATURES
from transforms.periods import check_periods
from transforms.read.columns import Columns
from transforms.read.files import ReadChunks
from transforms.read.label_files import ReadLabels
from transforms.read.label_values import check_label_type
from transforms.read.look import Input
from transforms.read.path_columns import FILE_NAME


def _labels(args: argparse.Namespace, files: Input, job: Job) -> ReadLabels | None:
    """Return the delayed labels, from files of their own."""
    if job.late is None or job.learner is None:
        return None
    given = input_options.COLUMNS.read(args)
    if files.columns.model_id != FILE_NAME:
        given = dataclasses.replace(given, model_id=files.columns.model_id, model_id_from=None)
    columns = dataclasses.replace(
        given,
        time=None if args.label_index else files.columns.times,
        sequence=args.label_index,
        label=args.label_column or args.label or "label",
        features=(),
        exclude=(),
        metric=None,
        value=None,
        missing="fail",
    )
    # How the rows' files name their columns says nothing of these.
    formats = dataclasses.replace(
        input_options.formats_from_flags(args), format=None, header=None, names=None, arrays=None
    )
    with flags_named({"sequence": "--label-index", "label": "--label-column"}):
        labels = ReadLabels(args.labels, columns, formats, first_source=len(files.paths))
    check_label_type(job.learner, labels.input.columns.label_type)
    return labels


def _job_of(args: argparse.Namespace, files: Input, columns: Columns) -> Job:
    """Return what is done with rows of these columns."""
    job = job_from_flags(args, columns, {}, "--labels")
    refuse_periods(job, check_periods)
    return with_groups(job, args.group, files)


def _why_unreferenced(job: Job) -> str:
    """Return why models have no reference, where some have none."""
    if job.given is not None:
        return f"none that is complete in {job.given.place}"
    if job.reference is None:
        return ""
    until = "" if job.reference.until is None else f" before {job.reference.until}"
    return f"fewer than {job.reference.rows:,} rows{until}"


def _of_the_fleet(
    args: argparse.Namespace,
    files: Input,
    job: Job,
    span: Mapping[str, Any],
    found: Mapping[str, int | float],
) -> dict[str, Any]:
    """Compare the devices by period, find incidents, by group as well, and list who was off.

    Returns:
        What the record says of these.
    """
    groups: Mapping[str, str] | None = None
    if job.quiet is not None and job.quiet.groups:
        groups = job.quiet.groups
    elif job.rules is not None and job.rules.groups:
        groups = job.rules.groups
    elif args.group is not None and (job.periods is not None or job.reference is not None):
        groups = groups_of(files, args.group)
    differ = {}
    if job.periods is not None:
        differ = find_differences(args.output, job.periods, job.columns.channels, groups)
    is_new = job.given is None and job.before is None
    rows = found["rows_out"] / max(found["models"], 1) if is_new else None
    incidents = find_incidents(args.output, job.reference, span, rows, groups)
    listed = find_listed(args.output, job.reference, job.fleet_false_share)
    return {**differ, **incidents, **listed}


def _causes(job: Job) -> list[str]:
    """Return the channels that are causes of others."""
    places = () if job.reference is None else job.reference.causes
    return [job.columns.channels[place] for place in places if isinstance(place, int)]


def _what_to_ask(lines: str | None, job: Job, found: Mapping[str, int | float]) -> list[str]:
    """Return how to learn which models are off, where nothing was asked and the rows would tell.

    `lines` is what `--reference` says.
    """
    enough = found["rows_out"] >= ReferenceSpec.rows * max(found["models"], 1)
    if lines or job.reference is not None or job.learner is not None or not enough:
        return []
    return ["to learn which devices are off, since when and in which channels: --reference first"]


PROCESSES = "processes"
"""What the record calls the way of the default runner's name: no runner at all."""


def _rows_of(read: ReadChunks, job: Job, workers: int | None) -> ReadChunks:
    """Return how the rows are read: of a long table in no order of time a value each."""
    if workers is not None and job.order.waits_for_end and is_scattered(read.input):
        return ReadChunks(narrowed(read.input))
    return read


def _runner(beam_flags: PipelineOptions) -> str:
    return str(beam_flags.view_as(StandardOptions).runner).rpartition(".")[2]


def run(args: argparse.Namespace, files: Input, beam_flags: PipelineOptions) -> int:
    """Run the job.

    Args:
        args: The parsed flags.
        files: The input, looked at.
        beam_flags: Beam's options.

    Returns:
        The exit code, 0.

    Raises:
        ConfigError: for a bad flag, spec or column, or results that are already there.
        DataError: for input that cannot be read.
        JobError: if the job fails or rows are missing at its end, or too few came out.
    """
    begin, started = time.monotonic(), datetime.now(timezone.utc)
    allowed = read_limit(args.max_failures)
    workers = workers_of(args)
    read = ReadChunks(files)
    columns = read.input.columns
    job = _job_of(args, files, columns)
    ends = Ends(_rows_of(read, job, workers), _labels(args, files, job), args.output)
    say(read.input.describe())
    looked = look_and_warn(files.infos, columns, _causes(job))
    job, warnings = with_second(args, job, looked.step), looked.warnings
    if ends.labels is not None:
        say(ends.labels.describe())
        warnings += look_and_warn(ends.labels.input.infos, ends.labels.input.columns).warnings
    try:
        if workers is None:
            pipeline = beam.Pipeline(options=beam_flags)
            build(pipeline, job, ends)
        else:
            transform_of(job)
    except Exception as error:
        raise explain(error, args.output) from error
    # Nothing of an earlier run is removed before all that can be refused has been.
    inputs = [*ends.sources, *([] if job.before is None else [job.before.folder])]
    inputs += [] if job.given is None else [job.given.place]
    inputs += [] if args.start_from is None else [args.start_from]
    parts = parts_of(job)
    lineage = Lineage(
        args.lineage,
        f"track {path_text(os.path.basename(os.path.normpath(args.output)))}",
        [input_dataset(info.path, columns, info.rows) for info in files.infos],
    )
    with (
        output_folder.locked(args.output, parts, args.overwrite, inputs, args.typed),
        lineage.failing(),
    ):
        lineage.tell(START)
        ready = time.monotonic()
        with StatusLine(sys.stderr, files.rows, args.progress):
            if workers is None:
                (totals, (bare,)), processes = run_pipeline(pipeline, UNREFERENCED), None
            else:
                totals, bare, processes = partitioned.run(job, ends, workers, args.temp_dir)
        ended = time.monotonic()
        late = job.late is not None and job.late.most_rows > 1
        found = counts(args.output, totals, parts, job.learner, late)
        judged, failed = outcome.judge(found, allowed), failures_of(args.output)
        span = time_span(args.output, FEATURES)
        calls = Calls.of(totals)
        odd = span_warnings(span, columns.sequence)
        record = {
            "kerneltrack": kerneltrack.__version__,
            "versions": versions(),
            "command": shlex.join(args.typed),
            "runner": _runner(beam_flags) if workers is None else PROCESSES,
            **({} if processes is None else {"processes": processes}),
            "started": started.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "seconds": {"prepare": round(ready - begin, 3), "track": round(ended - ready, 3)},
            "inputs": input_files(files.infos),
            **settings_of(job, ends, args.start_from),
            "warnings": [*warnings, *odd],
            **outcome.record_of(judged, allowed),
            "counts": found,
            "calls": calls and calls._asdict(),
            "failures": failure_reasons(failed),
            **span,
            **missing_values(totals, columns),
            **unkept_classes(args.output, job.learner, totals),
            **models_without_rows(args.output, int(found["rows_failed"])),
            **({} if job.reference is None else {UNREFERENCED: bare}),
            **_of_the_fleet(args, files, job, span, found),
            **find_silent(args.output, job.silent_after),
            **find_neighbours(
                args.output, job.spec, args.neighbours, int(found["models"]), workers or 1
            ),
            **local_times(
                columns, counted(totals), counted(totals, "labels") if ends.labels else None
            ),
        }
        report = write_report(args.output, record, read.input)
        record["seconds"]["report"] = round(time.monotonic() - ended, 3)
        record["seconds"]["total"] = round(time.monotonic() - begin, 3)
        # The last of all: a run without it is not finished.
        write_record(args.output, record)
        lineage.complete(args.output, parts)
    lines = [
        *span_lines(record, columns.sequence),
        *(f"warning:  {line}" for line in odd),
        *off_lines(
            args.output,
            record,
            _why_unreferenced(job),
            own=job.given is None and args.warm_start is None,
        ),
        *listed_lines(args.output, record),
        *incident_lines(args.output, record),
        *difference_lines(args.output, record),
        *silent_lines(args.output, record),
        *quiet_lines(args.output, record, job.quiet),
        *rule_lines(args.output, job.rules),
        *feedback_lines(args.output, job.feedback),
        *neighbour_lines(args.output, record),
        *_what_to_ask(args.reference, job, found),
        *failure_lines(failed),
        *missing_lines(record),
        *unkept_lines(record),
    ]
    say(summary(record, lines, report))
    return outcome.end(judged)
