"""The file job: rows from files in; features, snapshots, failures and a report out.

    python -m pipelines.track_files INPUT... --output DIR [flags] [Beam's flags]

The same as `kerneltrack track`.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

import kerneltrack
from kerneltrack.errors import ConfigError, DataError, KerneltrackError
from kerneltrack.specs import SubspaceSpec
from kerneltrack.warm import warm
from pipelines import options
from pipelines.progress import StatusLine
from pipelines.record import (
    RUN,
    JobError,
    counters,
    counts,
    failure_reasons,
    summary,
    versions,
    write_record,
)
from pipelines.report import write_report
from transforms.chunks import Chunk, Failures
from transforms.read import ReadChunks, known_rows
from transforms.track import FAILURES, FEATURES, LATE, SNAPSHOTS, Order, TrackSubspace
from transforms.write import (
    WriteFailures,
    WriteFeatures,
    WriteSnapshots,
    features_schema,
)

PARTS = ("features", "failures", "snapshots")
INPUT_EXIT = 2
INTERRUPTED_EXIT = 130
AGAIN = "run the same command with --overwrite"
COMPILE_NOTICE = 4.0
"""Seconds after which the row loops are plainly not just being loaded."""
REPORT = "report.html"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the job's flags to a parser."""
    parser.usage = "kerneltrack track INPUT... --output DIR [flags] [Beam's flags]"
    parser.add_argument("input", nargs="+", metavar="INPUT", help="files or globs")
    parser.add_argument("--output", required=True, metavar="DIR", help="folder for the results")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the results of an earlier run in DIR"
    )
    parser.add_argument(
        "--float32", action="store_true", help="snapshots in single precision: half the size"
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
    options.add_input_flags(parser)
    options.add_spec_flags(parser)
    parser.epilog = (
        "All other flags are Beam's own (--runner, --direct_num_workers, ...). The default runner "
        "works in this process."
    )


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
        JobError: if the job fails or rows are missing at its end.
    """
    begin, started = time.monotonic(), datetime.now(timezone.utc)
    spec = options.spec_from_flags(args)
    order = Order(
        max_disorder=args.max_disorder,
        max_jump=args.max_jump,
        hold_for=args.hold_for if args.missing == "hold" else None,
    )
    read = ReadChunks(
        args.input, options.columns_from_flags(args), options.formats_from_flags(args)
    )
    _say(read.describe())
    _clear(args.output, args.overwrite, read.paths)
    try:
        _compile()
        pipeline = beam.Pipeline(options=beam_flags)
        extras = tuple(args.extras)
        build(pipeline, read, spec, order, args.output, extras, args.float32)
        ready = time.monotonic()
        with StatusLine(sys.stderr, known_rows(read.infos), args.progress):
            result = pipeline.run()
            state = result.wait_until_finish()
        if state != "DONE":
            raise JobError(f"the job ended in state {state}; see the runner's log")
        ended = time.monotonic()
        record = {
            "kerneltrack": kerneltrack.__version__,
            "versions": versions(),
            "command": shlex.join(command),
            "runner": beam_flags.view_as(StandardOptions).runner.rpartition(".")[2],
            "started": started.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "seconds": {"prepare": round(ready - begin, 3), "track": round(ended - ready, 3)},
            "inputs": [{"path": info.path, "rows": info.rows} for info in read.infos],
            "columns": {
                "model_id": read.columns.model_id,
                "time": read.columns.time,
                "sequence": read.columns.sequence,
                "label": read.columns.label,
                "features": list(read.columns.channels),
            },
            "tracker": spec.tracker,
            "spec": {**spec.to_dict(), "digest": spec.digest()},
            "counts": counts(args.output, counters(result)),
            "failures": failure_reasons(args.output),
        }
        write_record(args.output, record)
        report = write_report(args.output)
        record["seconds"]["report"] = round(time.monotonic() - ended, 3)
        record["seconds"]["total"] = round(time.monotonic() - begin, 3)
        write_record(args.output, record)
    except (Exception, KeyboardInterrupt) as error:
        _remove_unfinished(args.output)
        raise _explain(error, args.output) from error
    _say(summary(record, report))
    return 0


def build(
    pipeline: beam.Pipeline,
    read: ReadChunks,
    spec: SubspaceSpec,
    order: Order,
    output: str,
    extras: tuple[str, ...] = (),
    float32: bool = False,
) -> None:
    """Put the job's steps into a pipeline."""
    rows = pipeline | "Read" >> read
    tracked = rows["rows"] | "TrackSubspace" >> TrackSubspace(spec, order, extras)
    late = tracked[LATE] | "LateAsFailures" >> beam.Map(_late_as_failures).with_output_types(
        Failures
    )
    failures = (rows["failures"], tracked[FAILURES], late) | "AllFailures" >> beam.Flatten()
    schema = features_schema(
        spec,
        read.columns.label_type,
        read.columns.time is not None,
        extras,
        budget=getattr(spec, "budget", getattr(spec, "max_rows", 0)),
    )
    prefix = FileSystems.join(output, "features", "part")
    _ = tracked[FEATURES] | "Features" >> WriteFeatures(prefix, schema, read.paths)
    prefix = FileSystems.join(output, "failures", "part")
    _ = failures | "Failures" >> WriteFailures(prefix, read.paths)
    folder = FileSystems.join(output, "snapshots")
    _ = tracked[SNAPSHOTS] | "Snapshots" >> WriteSnapshots(folder, float32)


def _compile() -> None:
    """Load the row loops, and say so where they must first be compiled."""
    notice = threading.Timer(COMPILE_NOTICE, _say, ["compiling the row loops, once ..."])
    notice.start()
    try:
        warm()
    finally:
        notice.cancel()


def _late_as_failures(element: tuple[str, Chunk]) -> Failures:
    key, chunk = element
    reasons = ["late: further behind the model's newest row than max_disorder"] * len(chunk)
    return Failures.of(key, chunk.column("source"), chunk.column("row"), reasons)


def _clear(output: str, overwrite: bool, inputs: Sequence[str]) -> None:
    """Make the output folder; refuse or remove what an earlier run left in it."""
    folders = [os.path.join(os.path.abspath(output), name, "") for name in PARTS]
    for path in inputs:
        if os.path.abspath(path).startswith(tuple(folders)):
            raise ConfigError("--output", output, f"another folder than that of the input {path}")
    names = [*PARTS, RUN, REPORT]
    found = [name for name in names if FileSystems.exists(FileSystems.join(output, name))]
    if found and not overwrite:
        raise ConfigError(
            "--output", output, f"a folder without {', '.join(found)}, or pass --overwrite"
        )
    try:
        if found:
            # The record first: without it what is left is plainly unfinished.
            for name in sorted(found, key=lambda name: name != RUN):
                FileSystems.delete([FileSystems.join(output, name)])
        for name in PARTS:
            FileSystems.mkdirs(FileSystems.join(output, name))
    except (OSError, beam.io.filesystem.BeamIOError) as error:
        raise DataError(output, f"cannot be written: {error}") from error


def _explain(error: BaseException, output: str) -> KerneltrackError:
    """Find, in what the runner raised, the error that a worker met."""
    if isinstance(error, KerneltrackError):
        return error
    text = str(error)
    if isinstance(error, KeyboardInterrupt) or "KeyboardInterrupt" in text:
        return JobError(f"interrupted: {AGAIN}", INTERRUPTED_EXIT)
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if getattr(error, "errno", None) in full or any(f"[Errno {code}]" in text for code in full):
        return JobError(
            f"the disk is full: nothing half-written is left in {output}; free some space, then "
            + AGAIN
        )
    # A worker's error arrives as the text of its traceback.
    worker = re.findall(
        r"^(?:kerneltrack\.errors\.)?(?:DataError|ConfigError): (.*?)(?: \[while running .*)?$",
        text,
        re.M,
    )
    if worker:
        return JobError(worker[-1], INPUT_EXIT)
    lines = [line for line in text.splitlines() if line.strip()]
    return JobError(f"the job failed: {lines[-1] if lines else type(error).__name__}")


def _remove_unfinished(output: str) -> None:
    """Remove what Beam's and our writers leave under temporary names when a job breaks off."""
    for folder in [output, *(FileSystems.join(output, name) for name in PARTS)]:
        found = FileSystems.match([FileSystems.join(folder, "*.unfinished")])[0].metadata_list
        if found:
            FileSystems.delete([entry.path for entry in found])
        if FileSystems.get_scheme(folder) is None:
            for path in Path(folder).glob("beam-temp-*"):
                shutil.rmtree(path, ignore_errors=True)
        else:
            pattern = FileSystems.join(folder, "beam-temp-*/*")
            found = FileSystems.match([pattern])[0].metadata_list
            if found:
                FileSystems.delete([entry.path for entry in found])


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    from pipelines.cli import main

    sys.exit(main(["track", *sys.argv[1:]]))
