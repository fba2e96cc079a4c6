"""How a live job is, by what Flink knows: its restarts and their cause, its checkpoint's age."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from pipelines.flink.client import Flink, cause_of

RUNS = "RUNNING"
STOPS = ("CANCELLING", "CANCELED", "FINISHED")
"""States of a job that somebody has stopped, or that came to its end."""
MILLISECONDS = 1000.0
STALE = 30.0
"""Seconds without a finished checkpoint after which that is told."""

RECENT = 60.0
"""Seconds for which a restart is told of."""

LEAST_FREE = 1 << 20
"""Bytes: a disk with less is full."""


@dataclass(frozen=True)
class Health:
    """How a job is.

    Attributes:
        state: Flink's word for it.
        restarts: How often it was started again.
        failed: When it last failed, seconds since 1970; None if it never did.
        cause: Of that.
        saved: When its last checkpoint was finished; when it was started, before the first.
    """

    state: str
    restarts: int
    failed: float | None
    cause: str
    saved: float

    def troubles(self, now: float, checkpoints: Path | None = None) -> list[str]:
        """Return what is wrong with it, if anything.

        Args:
            now: Seconds since 1970.
            checkpoints: Where its checkpoints lie, if that is a folder of this machine.
        """
        found: list[str] = []
        if self.state in STOPS:
            return found
        if self.failed is not None and (self.state != RUNS or now - self.failed < RECENT):
            ago, verb = max(now - self.failed, 0), "was" if self.state == RUNS else "is"
            found.append(f"it failed {ago:.0f} s ago and {verb} started again: {self.cause}")
        if now - self.saved > STALE:
            full = checkpoints is not None and shutil.disk_usage(checkpoints).free < LEAST_FREE
            why = f": the disk of {checkpoints} is full" if full else ""
            found.append(f"no checkpoint for {now - self.saved:.0f} s{why}")
        return found


def look(flink: Flink, job: str) -> Health:
    """Ask Flink how a job is.

    Raises:
        FlinkError: if it does not answer.
    """
    known = flink.ask(f"/jobs/{job}")
    failures = flink.ask(f"/jobs/{job}/exceptions?maxExceptions=1")["exceptionHistory"]["entries"]
    saved = flink.ask(f"/jobs/{job}/checkpoints")["latest"]["completed"]
    counted = flink.ask(f"/jobs/{job}/metrics?get=numRestarts")
    times = [known["start-time"], *([saved["latest_ack_timestamp"]] if saved else [])]
    return Health(
        state=str(known["state"]),
        restarts=int(counted[0]["value"]) if counted else 0,
        failed=failures[0]["timestamp"] / MILLISECONDS if failures else None,
        cause=cause_of(failures[0]["stacktrace"]) if failures else "",
        saved=max(times) / MILLISECONDS,
    )
