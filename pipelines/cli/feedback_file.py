"""The file of `--feedback`: what people said of episodes."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterable

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.monitor.feedback import (
    FIELDS,
    NEEDED,
    Feedback,
    Said,
    checked_feedback,
    entry_of,
)
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.paths import exists
from pipelines.cli.entries_file import MOST_BYTES, EntryFlag, named_by, read_entries
from pipelines.cli.spec_options import FEEDBACK
from transforms.read.columns import Columns

FLAG = "--feedback"
_EXAMPLE = (
    "{device: pump-7, since: ..., until: ..., verdict: false, from: ..., kind: ..., channels: ...}"
)
_SOURCE = EntryFlag(FEEDBACK, FIELDS, NEEDED, _EXAMPLE, may_be_empty=True)


def feedback_from_flags(args: argparse.Namespace, columns: Columns) -> Feedback | None:
    """Return what `--feedback`, or the section `feedback` of a spec file, says; None without.

    Args:
        args: The parsed flags.
        columns: What each field of a row is.

    Raises:
        ConfigError: for rows without times.
        DataError: for a file that cannot be read, or that says something else: by its line or
            entry.
    """
    path, entries = _SOURCE.entries(args)
    if not path:
        return None
    if columns.time is None:
        raise ConfigError("--time", None, f"the column of event times: {FLAG} needs them")
    with named_by(path):
        said = checked_feedback(entries, columns.channels, columns.options.time_zone)
    return Feedback(said, tuple(columns.channels))


def check_feedback(feedback: Feedback | None, reference: ReferenceSpec | None) -> None:
    """Refuse feedback where nothing is judged.

    Raises:
        ConfigError: naming `--feedback`.
    """
    if feedback is not None and reference is None:
        raise ConfigError(FLAG, len(feedback.said), "left out without --reference")


def read_feedback(path: str) -> tuple[Said, ...]:
    """Return what a file says; times that name no offset are UTC.

    Raises:
        DataError: if it cannot be read, or says something else: by its line or entry.
    """
    entries = read_entries(path, MOST_BYTES, FIELDS, NEEDED, _EXAMPLE)
    with named_by(path):
        return checked_feedback(entries)


def append(path: str, said: Said) -> bool:
    """Add a line to a file, with a header if it is new; return whether it was not there already.

    Raises:
        DataError: for a file that is no feedback, or has other columns than this writes.
        OSError: if it cannot be written.
    """
    header = _line(FIELDS)
    if exists(path):
        before = {(each.who, each.since): each for each in read_feedback(path)}
        if before.get((said.who, said.since)) == said:
            return False
    with open(path, "a+", encoding="utf-8", newline="") as file:
        file.seek(0)
        text = file.read()
        if text and text.partition("\n")[0].strip() != header.strip():
            raise DataError(path, f"must begin with the line {header.strip()}")
        if not text:
            file.write(header)
        elif not text.endswith("\n"):
            file.write("\n")
        file.write(_line(entry_of(said).values()))
    return True


def _line(cells: Iterable[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
