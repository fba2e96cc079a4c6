"""The file of `--quiet`: what people know of devices, such as maintenance."""

from __future__ import annotations

import csv
import io
from typing import Any

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.monitor.quiet import FIELDS, QuietTime, checked_times
from kerneltrack.snapshots.files import read_whole

FLAG = "--quiet"
_MOST_BYTES = 16 << 20
_Entries = list[tuple[str, Any]]


def read_quiet(path: str) -> tuple[QuietTime, ...]:
    """Return the quiet times of devices.

    Args:
        path: A CSV file (.csv) with the columns device or group (or both), from, to and why, or a
            YAML file with a list of them, `- {device: pump-7, from: 2026-03-01, to: 2026-03-02}`.

    Raises:
        DataError: if it cannot be read, or holds something else: by its line or entry.
    """
    data = read_whole(path, _MOST_BYTES)
    entries = _of_csv(path, data) if path.lower().endswith(".csv") else _of_yaml(path, data)
    try:
        return checked_times(entries)
    except ConfigError as error:
        raise DataError(path, str(error)) from error


def _of_csv(path: str, data: bytes) -> _Entries:
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig")), strict=True)
        reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        if not {"from", "to"} <= {*reader.fieldnames} <= {*FIELDS}:
            raise DataError(path, f"must have columns of {', '.join(FIELDS)}, separated by commas")
        entries: _Entries = []
        for line in reader:
            where = f"line {reader.line_num}"
            if None in line or None in line.values():
                raise DataError(path, f"{where} has not {len(reader.fieldnames)} values")
            entries.append((where, line))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(path, f"not CSV: {error}") from error
    return entries


def _of_yaml(path: str, data: bytes) -> _Entries:
    # Reading YAML takes a tenth of what a command without takes.
    from pipelines.cli.spec_file import read_yaml  # noqa: PLC0415

    values = read_yaml(path, data)
    if not isinstance(values, list):
        raise DataError(path, "must hold a list: - {device: pump-7, from: ..., to: ..., why: ...}")
    return [(f"entry {number}", value) for number, value in enumerate(values, 1)]
