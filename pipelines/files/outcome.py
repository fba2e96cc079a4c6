"""What a job that ran to its end came to: whether enough of its rows did not fail.

It is judged once all rows were read and all outputs are written, so that they can be looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipelines.cli.command_line import ROWS_EXIT
from pipelines.files.max_failures import FLAG, MaxFailures
from pipelines.job import JobError, say
from pipelines.report.text import counted

DONE = "done"
NO_ROWS = "no rows"
ALL_FAILED = "all rows failed"
ALL_LABELS_FAILED = "all labels failed"
TOO_MANY_FAILED = "too many rows failed"


class JobOutcome(NamedTuple):
    """What a job came to.

    Attributes:
        word: One of this module's, for the record.
        why: What to say of it; "" where nothing is.
        exit_code: Of the process.
    """

    word: str
    why: str = ""
    exit_code: int = 0


def judge(counts: Mapping[str, Any], allowed: MaxFailures | None) -> JobOutcome:
    """Return what a job came to by its counts.

    Args:
        counts: `rows_in`, `rows_out`, `rows_failed`, and of a job with files of labels
            `labels_in`, `labels_failed` and `scored`, predictions that met a label.
        allowed: How many rows may fail; None: any but all.
    """
    rows, failed = counts["rows_in"], counts["rows_failed"]
    labels, labels_failed = counts.get("labels_in", 0), counts.get("labels_failed", 0)
    if rows and not counts["rows_out"]:
        which = "the only row" if rows == 1 else f"all {rows:,} rows"
        return JobOutcome(ALL_FAILED, f"{which} failed, nothing came out", ROWS_EXIT)
    if allowed is not None and not allowed.allows(failed, rows):
        why = f"{FLAG} {allowed.text}: {failed:,} of {counted(rows, 'row')} failed"
        return JobOutcome(TOO_MANY_FAILED, f"{why} ({failed / rows:.2%})", ROWS_EXIT)
    # Rows may bring labels of their own.
    if labels and labels_failed == labels and not counts.get("scored"):
        why = f"all {counted(labels, 'label')} of --labels failed, nothing was learned"
        return JobOutcome(ALL_LABELS_FAILED, why, ROWS_EXIT)
    return JobOutcome(DONE) if rows else JobOutcome(NO_ROWS, "the input holds no rows")


def record_of(outcome: JobOutcome, allowed: MaxFailures | None) -> dict[str, Any]:
    """Return what the record says of it."""
    return {
        "outcome": outcome.word,
        "exit_code": outcome.exit_code,
        "max_failures": allowed and allowed.text,
    }


def end(outcome: JobOutcome) -> int:
    """Print what is left to say, and return the exit code 0.

    Raises:
        JobError: with code 3, saying why, if too few rows came out.
    """
    if outcome.exit_code:
        text = f"{outcome.why}; the outputs are complete for a look"
        raise JobError(text, outcome.exit_code)
    if outcome.why:
        say(outcome.why)
    return 0
