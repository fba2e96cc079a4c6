"""`kerneltrack stop`: end a live job."""

from __future__ import annotations

import argparse
from pathlib import Path

from kerneltrack.errors import ConfigError
from kerneltrack.paths import whole
from pipelines.job import say
from pipelines.live.jobs import LOCAL_RECORD, choose, find_place, how_to_go_on, stop


def run(args: argparse.Namespace) -> int:
    """Stop the job.

    Returns:
        The exit code, 0.

    Raises:
        ConfigError: if no job, or more than one, is meant.
        FlinkError: if no savepoint can be written; the job then goes on.
    """
    if args.state_folder is not None and (Path(args.state_folder) / LOCAL_RECORD).exists():
        allowed = "a folder of jobs on Flink: a job with --engine local ends with Ctrl-C or SIGTERM"
        raise ConfigError("--state-folder", args.state_folder, allowed)
    place = find_place(args.cluster, args.flink, args.state_folder)
    record = choose(place, args.job)
    if args.savepoint is None:
        place.flink.cancel(record.job, args.patience)
        say(f"job {record.name} was cancelled, {how_to_go_on(place, record)}")
        return 0
    folder = whole(args.savepoint) if args.savepoint else None
    location = stop(place, record, folder, args.patience)
    say(f"job {record.name} was stopped; go on with --resume {location}")
    return 0
