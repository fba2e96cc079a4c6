"""Files of entries that a flag names: CSV with a header, or a list in YAML."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kerneltrack.errors import ConfigError, DataError, fit, printable
from kerneltrack.monitor.entries import Entry, numbered
from kerneltrack.snapshots.files import read_whole

Entries = list[tuple[str, Any]]
"""Each with its place in the file: "line 3", "entry 2"."""
MOST_BYTES = 16 << 20
"""Bytes that a file of them has at most."""


class EntryFlag(NamedTuple):
    """A flag that names a file of entries, and a section of the spec file that may have them.

    Attributes:
        name: Of both.
        fields: Columns that a CSV file may have.
        needed: Those that it must have.
        example: An entry in YAML, for the error.
        may_be_empty: Whether there may be none in it.
    """

    name: str
    fields: Collection[str]
    needed: Collection[str]
    example: str
    may_be_empty: bool = False

    def entries(self, args: argparse.Namespace) -> tuple[str, Entries]:
        """Return the file that has the entries, and these; "" and none without either.

        The file is that of the flag; without one it is that of `--spec`.

        Raises:
            DataError: for a file that cannot be read, or that has none.
        """
        path = getattr(args, self.name)
        if path is not None:
            entries = read_entries(path, MOST_BYTES, self.fields, self.needed, self.example)
            if not entries and not self.may_be_empty:
                raise DataError(path, f"holds no {self.name}: - {self.example}")
            return path, entries
        if getattr(args, "spec", None) is None:
            return "", []
        # Reading YAML takes a tenth of what a command without takes.
        from pipelines.cli.spec_file import read_spec_file  # noqa: PLC0415

        values = read_spec_file(args.spec)
        if self.name not in values:
            return "", []
        section: Any = values[self.name]
        if not isinstance(section, list) or not (section or self.may_be_empty):
            raise DataError(args.spec, f"{self.name} must hold a list: - {self.example}")
        return args.spec, numbered(section, f"{self.name}, ")


@contextmanager
def named_by(path: str) -> Iterator[None]:
    """Name the file in what is wrong of its entries.

    Raises:
        DataError: for a ConfigError.
    """
    try:
        yield
    except ConfigError as error:
        raise DataError(path, str(error)) from error


def read_entries(
    path: str, most_bytes: int, fields: Collection[str], needed: Collection[str], example: str
) -> Entries:
    """Return the entries of a file.

    Args:
        path: A CSV file (.csv), whose lines become mappings of texts, or a YAML file with a list.
        most_bytes: Bytes that it has at most.
        fields: Columns that the CSV file may have.
        needed: Those that it must have.
        example: An entry in YAML, for the error.

    Raises:
        DataError: if it cannot be read, or is neither.
    """
    data = read_whole(path, most_bytes)
    if path.lower().endswith(".csv"):
        return _of_csv(path, data, fields, needed)
    return _of_yaml(path, data, example)


def _of_csv(path: str, data: bytes, fields: Collection[str], needed: Collection[str]) -> Entries:
    try:
        text = data.decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text), strict=True, delimiter=delimiter_of(text))
        lines = [(reader.line_num, line) for line in reader if line]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(path, f"not CSV: {error}") from error
    names = [name.strip() for name in lines[0][1]] if lines else []
    if len({*names}) < len(names) or not {*needed} <= {*names} <= {*fields}:
        raise DataError(path, _wrong_header(names, fields, needed))
    for number, line in lines:
        if len(line) != len(names):
            raise DataError(path, f"line {number} has {len(line)} values, not {len(names)}")
    return [(f"line {number}", dict(zip(names, line, strict=True))) for number, line in lines[1:]]


def delimiter_of(text: str) -> str:
    """Return what separates the values of a CSV file."""
    head = text.lstrip().partition("\n")[0]
    # As spreadsheets write it where the comma is the decimal mark.
    return ";" if ";" in head and "," not in head else ","


def _wrong_header(names: list[str], fields: Collection[str], needed: Collection[str]) -> str:
    rest = [name for name in fields if name not in needed]
    more = f" (and may have {', '.join(rest)})" if rest else ""
    return (
        f"must have the columns {', '.join(needed)}{more}, separated by commas or semicolons; "
        f"its first line has {fit(', '.join(names)) or 'nothing'}"
    )


def _of_yaml(path: str, data: bytes, example: str) -> Entries:
    # Reading YAML takes a tenth of what a command without takes.
    from pipelines.cli.spec_file import read_yaml  # noqa: PLC0415

    values = read_yaml(path, data)
    if not isinstance(values, list):
        raise DataError(path, f"must hold a list: - {example}")
    return numbered(values)


def check_groups(
    entries: Iterable[Entry],
    given: str | None,
    flag: str,
    by: tuple[str, str] = ("--group", "the column of the devices' groups"),
) -> None:
    """Refuse entries of groups where nothing says which device is in which group.

    Args:
        entries: The entries.
        given: The column or file that says it; None: none is named.
        flag: The entries' own flag.
        by: The flag that names it, and what that is.

    Raises:
        ConfigError: naming `by`.
    """
    name = next((each.group for each in entries if each.group is not None), None)
    if name is not None and given is None:
        raise ConfigError(by[0], None, f"{by[1]}: {flag} names the group {printable(name)}")
