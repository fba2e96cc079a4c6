"""The file of `--quiet`: what people know of devices, such as maintenance."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.monitor.clocks import UTC
from kerneltrack.monitor.quiet import FIELDS, Entry, checked_times, is_same
from kerneltrack.paths import exists
from kerneltrack.snapshots.files import read_whole
from pipelines.cli.entries_file import MOST_BYTES, delimiter_of, named_by, read_entries

FLAG = "--quiet"
_EXAMPLE = "{device: pump-7, from: ..., to: ..., why: ...}"


def read_quiet(path: str, zone: str = UTC) -> tuple[Entry, ...]:
    """Return the quiet times of devices.

    Args:
        path: A CSV file (.csv) with the columns device or group (or both), from, to and why, or a
            YAML file with a list of them, `- {device: pump-7, from: 2026-03-01, to: 2026-03-02}`.
        zone: The zone of times that name no offset.

    Raises:
        DataError: if it cannot be read, or holds something else: by its line or entry.
    """
    with named_by(path):
        entries = read_entries(path, MOST_BYTES, FIELDS, ("from", "to"), _EXAMPLE)
        return checked_times(entries, zone)


def add_line(path: str, texts: Mapping[str, str]) -> str:
    """Add a line to a CSV file, with a header if it is new; return what became of it.

    Args:
        path: The file.
        texts: Those of an entry, by field.

    Raises:
        DataError: for a file that holds no quiet times, or lacks a column of these.
        OSError: if it cannot be written.
    """
    if not exists(path):
        _write(path, ",", [list(FIELDS), [texts[name] for name in FIELDS]])
        return f"in {path}"
    lines = _Lines.of(path)
    if any(_says(lines.entry(line), texts) for line in lines.lines):
        return f"{path} has that already"
    for name, text in texts.items():
        if text and name not in lines.names:
            raise DataError(path, f"has no column {name}: its first line must have it")
    line = [texts.get(name, "") for name in lines.names]
    _write(path, lines.delimiter, [lines.names, *lines.lines, line])
    return f"in {path}"


def remove_lines(path: str, texts: Mapping[str, str]) -> str:
    """Remove the lines of an entry from a CSV file; return that it is done.

    Raises:
        ConfigError: if it holds none.
        DataError: for a file that holds no quiet times.
        OSError: if it cannot be written.
    """
    lines = _Lines.of(path)
    left = [line for line in lines.lines if not _says(lines.entry(line), texts)]
    if len(left) == len(lines.lines):
        raise ConfigError(
            "--cancel", f"{texts['from']} to {texts['to']}", f"a time that {path} has"
        )
    _write(path, lines.delimiter, [lines.names, *left])
    return f"removed from {path}"


class _Lines(NamedTuple):
    """The lines of a CSV file of quiet times."""

    names: list[str]
    lines: list[list[str]]
    delimiter: str

    @classmethod
    def of(cls, path: str) -> _Lines:
        """Read them; a file without entries has none.

        Raises:
            DataError: for another file.
        """
        entries = read_entries(path, MOST_BYTES, FIELDS, ("from", "to"), _EXAMPLE)
        with named_by(path):
            checked_times(entries)
        text = read_whole(path, MOST_BYTES).decode("utf-8-sig")
        delimiter = delimiter_of(text)
        names, *lines = (
            line for line in csv.reader(io.StringIO(text), delimiter=delimiter) if line
        )
        return cls([name.strip() for name in names], lines, delimiter)

    def entry(self, line: list[str]) -> dict[str, str]:
        """Return a line's texts, by field."""
        return dict(zip(self.names, line, strict=True))


def _says(line: Mapping[str, str], texts: Mapping[str, str]) -> bool:
    return is_same(*checked_times([("line", line), ("time", texts)]))


def _write(path: str, delimiter: str, lines: Iterable[list[str]]) -> None:
    """Write a file in one step: a job may read it meanwhile."""
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(lines)
    with open(f"{path}.part", "w", encoding="utf-8", newline="") as file:
        file.write(text.getvalue())
    os.replace(f"{path}.part", path)
