"""The status line of a live job, from Flink's metrics, until the job ends."""

from __future__ import annotations

import time
from typing import TextIO

from pipelines.cluster.interruption import Interruption
from pipelines.flink import ENDED, FlinkError
from pipelines.job import INTERRUPTED_EXIT, say
from pipelines.stream_jobs import NotSubmittedError, Place, Record, stop
from pipelines.stream_pipeline import Ends

INTERVAL = 1.0
SAVEPOINT_PATIENCE = 120.0


def follow(place: Place, record: Record, ends: Ends, stream: TextIO) -> int:
    """Show how a job gets on until it ends; Ctrl-C stops it with a savepoint.

    Returns:
        0, or 130 after Ctrl-C.

    Raises:
        KerneltrackError: if the job failed.
    """
    with Interruption() as interruption:
        while not interruption.came:
            state = place.flink.state(record.job)
            if state in ENDED:
                if state == "FAILED":
                    why = place.flink.why_failed(record.job)
                    raise NotSubmittedError(f"job {record.name} failed: {why}")
                say(f"job {record.name} ended: {state}")
                return 0
            interruption.pause(INTERVAL)
        say("stopping with a savepoint ...")
        location = stop(place, record, None, SAVEPOINT_PATIENCE)
        say(f"stopped; go on with --resume {location}")
    return INTERRUPTED_EXIT
