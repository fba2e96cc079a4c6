"""What a job that ran to its end came to: whether enough of its rows did not fail.

It is judged once all rows were read and all outputs are written, so that they can be looked at.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from kerneltrack.errors import ConfigError
from pipelines.cli.command_line import ROWS_EXIT
from pipelines.files.record import JobError
from pipelines.job import say
from pipelines.report.page.text import counted

DONE = "done"
NO_ROWS = "no rows"
ALL_FAILED = "all rows failed"
ALL_LABELS_FAILED = "all labels failed"
TOO_MANY_FAILED = "too many rows failed"
FLAG = "--max-failures"
_WHOLE = 100


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--max-failures` to a parser."""
    parser.add_argument(
        FLAG,
        default=None,
        metavar="N|P%",
        help="most rows that may fail, as a number or as a share of all rows (5%%); with more the "
        "job ends with exit code 3, its outputs complete (default: any, but not all)",
    )


class MaxFailures(NamedTuple):
    """How many rows may fail.

    Attributes:
        text: As given.
        most: How many, or which share of all rows.
        is_share: Which of the two.
    """

    text: str
    most: Fraction
    is_share: bool

    def allows(self, failed: int, rows: int) -> bool:
        """Tell whether so many of a job's rows may fail."""
        return failed <= (self.most * rows if self.is_share else self.most)


def max_failures(text: str | None) -> MaxFailures | None:
    """Read the flag.

    Raises:
        ConfigError: naming it.
    """
    if text is None:
        return None
    share = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%", text)
    if share and Fraction(share[1]) <= _WHOLE:
        return MaxFailures(text, Fraction(share[1]) / _WHOLE, True)
    if re.fullmatch("[0-9]{1,18}", text):
        return MaxFailures(text, Fraction(text), False)
    raise ConfigError(FLAG, text, "a number of rows, or a share of all rows from 0% to 100%")


class Outcome(NamedTuple):
    """What a job came to.

    Attributes:
        word: One of this module's, for the record.
        why: What to say of it; "" where nothing is.
        exit_code: Of the process.
    """

    word: str
    why: str = ""
    exit_code: int = 0


def judge(counts: Mapping[str, Any], allowed: MaxFailures | None) -> Outcome:
    """Say what a job came to by its counts.

    Args:
        counts: `rows_in`, `rows_out`, `rows_failed`, and of a job with files of labels
            `labels_in`, `labels_failed` and `scored`, predictions that met a label.
        allowed: How many rows may fail; None: any but all.
    """
    rows, failed = counts["rows_in"], counts["rows_failed"]
    labels, labels_failed = counts.get("labels_in", 0), counts.get("labels_failed", 0)
    if rows and not counts["rows_out"]:
        which = "the only row" if rows == 1 else f"all {rows:,} rows"
        return Outcome(ALL_FAILED, f"{which} failed, nothing came out", ROWS_EXIT)
    if allowed is not None and not allowed.allows(failed, rows):
        why = f"{FLAG} {allowed.text}: {failed:,} of {counted(rows, 'row')} failed"
        return Outcome(TOO_MANY_FAILED, f"{why} ({failed / rows:.2%})", ROWS_EXIT)
    # Rows may bring labels of their own.
    if labels and labels_failed == labels and not counts.get("scored"):
        why = f"all {counted(labels, 'label')} of --labels failed, nothing was learned"
        return Outcome(ALL_LABELS_FAILED, why, ROWS_EXIT)
    return Outcome(DONE) if rows else Outcome(NO_ROWS, "the input holds no rows")


def record_of(outcome: Outcome, allowed: MaxFailures | None) -> dict[str, Any]:
    """Return what the record says of it."""
    return {
        "outcome": outcome.word,
        "exit_code": outcome.exit_code,
        "max_failures": allowed and allowed.text,
    }


def end(outcome: Outcome) -> int:
    """Say what is left to say, and return the exit code 0.

    Raises:
        JobError: with code 3, saying why, if too few rows came out.
    """
    if outcome.exit_code:
        text = f"{outcome.why}; the outputs are complete for a look"
        raise JobError(text, outcome.exit_code)
    if outcome.why:
        say(outcome.why)
    return 0
