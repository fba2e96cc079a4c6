"""The file of `--quiet`: what people know of devices, such as maintenance."""

from __future__ import annotations

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.monitor.clocks import UTC
from kerneltrack.monitor.quiet import FIELDS, QuietTime, checked_times
from pipelines.cli.entries_file import MOST_BYTES, read_entries

FLAG = "--quiet"
_EXAMPLE = "{device: pump-7, from: ..., to: ..., why: ...}"


def read_quiet(path: str, zone: str = UTC) -> tuple[QuietTime, ...]:
    """Return the quiet times of devices.

    Args:
        path: A CSV file (.csv) with the columns device or group (or both), from, to and why, or a
            YAML file with a list of them, `- {device: pump-7, from: 2026-03-01, to: 2026-03-02}`.
        zone: The zone of times that name no offset.

    Raises:
        DataError: if it cannot be read, or holds something else: by its line or entry.
    """
    try:
        entries = read_entries(path, MOST_BYTES, FIELDS, ("from", "to"), _EXAMPLE)
        return checked_times(entries, zone)
    except ConfigError as error:
        raise DataError(path, str(error)) from error
