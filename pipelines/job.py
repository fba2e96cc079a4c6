"""What all jobs share: what they say, and how they explain what a worker met."""

from __future__ import annotations

import errno
import re
import sys

from kerneltrack.errors import KerneltrackError, printable
from pipelines.cli.command_line import INPUT_EXIT, SIGNAL_EXIT
from pipelines.cli.signals import said_of, signal_of

AGAIN = "run the same command with --overwrite"


class JobError(KerneltrackError):
    """The job ran and did not do what it should; nothing half-written bears a final name.

    Args:
        message: What happened and what to do, on one line.
        exit_code: The process's: 1, 2 if the input is at fault, 3 if too many of its rows failed
            (the outputs are then there), 130 if it was interrupted.
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def explain(error: BaseException, output: str) -> KerneltrackError:
    """Find, in what the runner raised, the error that a worker met."""
    if isinstance(error, KerneltrackError):
        return error
    text, number = str(error), signal_of(error)
    if number is not None:
        return JobError(f"{said_of(number)}: {AGAIN}", SIGNAL_EXIT + number)
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


def say(text: str) -> None:
    """Print a line, or several, at once."""
    sys.stdout.write("\n".join(printable(line) for line in text.split("\n")) + "\n")
    sys.stdout.flush()
