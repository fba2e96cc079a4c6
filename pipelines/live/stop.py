"""`kerneltrack stop`: end a live job."""

from __future__ import annotations

import argparse

from pipelines.job import say
from pipelines.live.jobs import choose, find_place, stop


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
