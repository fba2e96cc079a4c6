"""The file job: rows from files in; features, snapshots, failures and a report out.

    python -m pipelines.files.track INPUT... --output DIR [flags] [Beam's flags]

The same as `kerneltrack track`.
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

import kerneltrack
from kerneltrack.errors import ConfigError
from kerneltrack.learners import LearnerSpec
from pipelines.cli import input_options, spec_options, work_options
from pipelines.cli.command_line import flags_named, folder_name
from pipelines.files import outcome, output_folder
from pipelines.files.first_look import look_and_warn
from pipelines.files.local_times import counted, local_times
from pipelines.files.pipeline import Job, build, settings
from pipelines.files.progress import StatusLine
from pipelines.files.record import (
    JobError,
    counters,
    counts,
    summary,
    versions,
    write_record,
)
from pipelines.job import compile_loops, explain, say
from pipelines.report import write_report
from pipelines.report.data.failures import failure_lines, failure_reasons, failures_of
from transforms.learn import transform as learn
from transforms.learn.transform import LateLabels
from transforms.read.files import ReadChunks, known_rows
from transforms.read.label_files import ReadLabels
from transforms.snapshots.folder import SnapshotFolder
from transforms.track.transform import Order


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the job's flags to a parser."""
    parser.usage = "kerneltrack track INPUT... --output DIR [flags] [Beam's flags]"
    parser.add_argument("input", nargs="+", metavar="INPUT", help="files or globs")
    parser.add_argument(
        "--output", required=True, type=folder_name, metavar="DIR", help="folder for the results"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the results of an earlier run in DIR"
    )
    parser.add_argument(
        "--extras", nargs="+", choices=("q", "s"), default=(), help="more features per row"
    )
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="status line while it runs (default: on a terminal)",
    )
    outcome.add_flag(parser)
    order = parser.add_argument_group("order")
    order.add_argument(
        "--max-disorder",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="rows that come later than this behind their model's newest are late and go to the "
        "failures (default: none is, the whole input is put in order)",
    )
    order.add_argument(
        "--max-jump",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="rows further ahead of their model's newest than this are refused (default: none)",
    )
    input_options.add_input_flags(parser)
    spec_options.add_spec_flags(parser)
    work_options.add_label_flags(parser)
    work_options.add_window_flags(parser)
    work_options.add_snapshot_flags(parser)
    parser.epilog = (
        "All other flags are Beam's own (--runner, --direct_num_workers, ...). The default runner "
        "works in this process."
    )


def job_from_flags(args: argparse.Namespace, read: ReadChunks) -> Job:
    """Build the job of a command line.

    Raises:
        ConfigError: for a bad flag or spec, or flags that do not go together.
        DataError: for snapshots, labels or a spec that cannot be read.
    """
    start = work_options.start_from_flags(args, read.columns.width)
    before = None if args.warm_start is None else SnapshotFolder(args.warm_start)
    learner = spec_options.learner_from_flags(args, before.learner_spec if before else None)
    has_time = read.columns.time is not None
    if args.snapshot_every is not None and not has_time:
        raise ConfigError("--snapshot-every", args.snapshot_every, "left out without --time")
    job = Job(
        spec=spec_options.tracker_from_flags(args, before.spec if before else None),
        output=args.output,
        order=Order(
            max_disorder=args.max_disorder,
            max_jump=args.max_jump,
            hold_for=args.hold_for if args.missing == "hold" else None,
        ),
        extras=tuple(args.extras),
        measure=work_options.measure_from_flags(args, has_time),
        drift=spec_options.drift_from_flags(args),
        learner=learner,
        labels=_labels(args, read, learner),
        metrics_window=args.metrics_window,
        snapshot_every=args.snapshot_every,
        before=before if before is None or learner is None else before.with_learner(),
        start=start,
        start_from=args.start_from,
        float32=args.float32,
    )
    if learner is None:
        work_options.refuse_without(args, "metrics_window", ["learner"])
    elif not has_time:
        work_options.refuse_without(args, "metrics_window", ["time"])
    if learner is not None and job.labels is None and read.columns.label is None:
        raise ConfigError("--learner", learner.learner, "none without --label or --labels")
    if job.spec.needs_times and not has_time:
        raise ConfigError("--time", None, "the column of event times: the half-life is in seconds")
    if job.before is not None:
        _check_before(job, job.before, read.columns.width)
    if learner is not None and read.columns.label is not None:
        learn.check_label_type(learner, read.columns.label_type)
    return job


def _check_before(job: Job, before: SnapshotFolder, width: int) -> None:
    """Refuse to go on from snapshots of other settings or of other rows."""
    with spec_options.TRACKER.named():
        before.check(job.spec)
    if job.learner is not None:
        with spec_options.LEARNER.named():
            before.check(job.learner)
    before.check_width(width)


def _labels(
    args: argparse.Namespace, read: ReadChunks, learner: LearnerSpec | None
) -> tuple[ReadLabels, LateLabels] | None:
    """Return the labels that come from files of their own."""
    if not args.labels:
        for flag in ("label_index", "label_column", "label_wait", "label_rows"):
            work_options.refuse_without(args, flag, ["labels"])
        return None
    if learner is None:
        raise ConfigError("--labels", args.labels[0], "left out without --learner")
    time = read.columns.time
    if time is None:
        work_options.refuse_without(args, "label_wait", ["time"])
    if time is None and args.label_index is None:
        raise ConfigError("--labels", args.labels[0], "left out without --label-index or --time")
    columns = dataclasses.replace(
        input_options.columns_from_flags(args),
        time=None if args.label_index else time,
        sequence=args.label_index,
        label=args.label_column or args.label or "label",
        features=(),
        exclude=(),
        missing="fail",
    )
    # How the rows' files name their columns says nothing of these.
    formats = dataclasses.replace(
        input_options.formats_from_flags(args), format=None, header=None, names=None, arrays=None
    )
    named = {"sequence": "--label-index", "label": "--label-column"}
    with flags_named(named):
        labels = ReadLabels(args.labels, columns, formats, first_source=len(read.paths))
    learn.check_label_type(learner, labels.columns.label_type)
    with flags_named({"wait": "--label-wait", "most_rows": "--label-rows"}):
        if args.label_rows is not None:
            return labels, LateLabels(wait=args.label_wait, most_rows=args.label_rows)
        waits = args.label_wait is not None
        most_rows = work_options.MOST_WAITING if waits else 1
        return labels, LateLabels(wait=args.label_wait, most_rows=most_rows)


def run(args: argparse.Namespace, beam_flags: PipelineOptions, command: Sequence[str]) -> int:
    """Run the job.

    Args:
        args: The parsed flags.
        beam_flags: Beam's options.
        command: The command line, for the record.

    Returns:
        The exit code, 0.

    Raises:
        ConfigError: for a bad flag, spec or column, or results that are already there.
        DataError: for input that cannot be read.
        JobError: if the job fails or rows are missing at its end, or too few came out.
    """
    begin, started = time.monotonic(), datetime.now(timezone.utc)
    allowed = outcome.max_failures(args.max_failures)
    read = ReadChunks(
        args.input, input_options.columns_from_flags(args), input_options.formats_from_flags(args)
    )
    job = job_from_flags(args, read)
    sources = [*read.paths, *(job.labels[0].paths if job.labels else ())]
    say(read.describe())
    warnings = look_and_warn(read.infos, read.columns)
    if job.labels is not None:
        say(job.labels[0].describe())
        warnings += look_and_warn(job.labels[0].infos, job.labels[0].columns)
    try:
        pipeline = beam.Pipeline(options=beam_flags)
        with flags_named(work_options.FLAGS):
            build(pipeline, read, job, sources)
    except Exception as error:
        raise explain(error, job.output) from error
    # Nothing of an earlier run is removed before all that can be refused has been.
    inputs = [*sources, *([] if job.before is None else [job.before.folder])]
    inputs += [] if job.start_from is None else [job.start_from]
    with output_folder.held(job.output, job.parts, args.overwrite, inputs, command):
        compile_loops(job.spec, job.learner, job.measure)
        ready = time.monotonic()
        with StatusLine(sys.stderr, known_rows(read.infos), args.progress):
            result = pipeline.run()
            state = result.wait_until_finish()
        if state != "DONE":
            raise JobError(f"the job ended in state {state}; see the runner's log")
        ended = time.monotonic()
        totals = counters(result)
        found = counts(job.output, totals, job.parts, job.learner)
        judged, failed = outcome.judge(found, allowed), failures_of(job.output)
        record = {
            "kerneltrack": kerneltrack.__version__,
            "versions": versions(),
            "command": shlex.join(command),
            "runner": beam_flags.view_as(StandardOptions).runner.rpartition(".")[2],
            "started": started.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "seconds": {"prepare": round(ready - begin, 3), "track": round(ended - ready, 3)},
            "inputs": [{"path": info.path, "rows": info.rows} for info in read.infos],
            **settings(read, job),
            "warnings": warnings,
            **outcome.record_of(judged, allowed),
            "counts": found,
            "failures": failure_reasons(failed),
            **local_times(
                read.columns, counted(totals), counted(totals, "labels") if job.labels else None
            ),
        }
        report = write_report(job.output, record)
        record["seconds"]["report"] = round(time.monotonic() - ended, 3)
        record["seconds"]["total"] = round(time.monotonic() - begin, 3)
        # The last of all: a run without it is not finished.
        write_record(job.output, record)
    say(summary(record, failure_lines(failed), report))
    return outcome.end(judged)


if __name__ == "__main__":
    from pipelines.cli.main import main

    sys.exit(main(["track", *sys.argv[1:]]))
