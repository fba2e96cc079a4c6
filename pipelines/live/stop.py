"""`kerneltrack stop`: end a live job."""

from __future__ import annotations

import argparse

from pipelines.job import say
from pipelines.live import options as stream_options
from pipelines.live.jobs import choose, find_place, stop

PATIENCE = 120.0


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""
    parser.add_argument(
        "job", nargs="?", default=None, metavar="JOB", help="id or name (default: the only one)"
    )
    stream_options.add_cluster_flags(parser)
    parser.add_argument(
        "--savepoint",
        nargs="?",
        const="",
        default=None,
        metavar="FOLDER",
        help="write a savepoint to go on from (default folder: Flink's own); without: the last "
        "checkpoint is what is left",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        metavar="SECONDS",
        help="that it may take (default %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Stop the job.

    Returns:
        The exit code, 0.

    Raises:
        ConfigError: if no job, or more than one, is meant.
        FlinkError: if no savepoint can be written; the job then goes on.
    """
    place = find_place(args.cluster, args.flink, args.state_folder)
    record = choose(place, args.job)
    if args.savepoint is None:
        place.flink.cancel(record.job, args.patience)
        say(f"job {record.name} was cancelled; go on from its last checkpoint: --resume latest")
        return 0
    location = stop(place, record, args.savepoint or None, args.patience)
    say(f"job {record.name} was stopped; go on with --resume {location}")
    return 0
