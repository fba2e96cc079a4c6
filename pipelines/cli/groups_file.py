"""The file of `--groups`: which site, or which kind, each device of a live job is of."""

from __future__ import annotations

from kerneltrack.errors import ConfigError
from kerneltrack.monitor.entries import texts_of
from pipelines.cli.entries_file import MOST_BYTES, named_by, read_entries

FIELDS = ("device", "group")
_EXAMPLE = "{device: pump-7, group: hall 2}"


def read_groups(path: str) -> dict[str, str]:
    """Return the group of each device that a file names.

    Args:
        path: A CSV file (.csv) with the columns device and group, or a YAML file with a list of
            them.

    Raises:
        DataError: if it cannot be read, or a line says something else or names a device of another
            group once more: by its line or entry.
    """
    found: dict[str, str] = {}
    with named_by(path):
        for where, entry in read_entries(path, MOST_BYTES, FIELDS, FIELDS, _EXAMPLE):
            texts = texts_of(where, entry, FIELDS)
            for name in FIELDS:
                if name not in texts:
                    raise ConfigError(f"{where}, {name}", None, "a text")
            device, group = texts["device"], texts["group"]
            if found.setdefault(device, group) != group:
                allowed = f"{found[device]!r}, its group in a line before"
                raise ConfigError(f"{where}, group", group, allowed)
        if not found:
            raise ConfigError("entries", 0, "one at least")
    return found
