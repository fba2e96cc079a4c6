"""The file of `--costs`: what errors cost."""

from __future__ import annotations

import csv
import io
from typing import Any

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.learners.common.costs import FIELDS, Costs, checked_costs
from kerneltrack.snapshots.files import read_whole

_MOST_BYTES = 1 << 20


def read_costs(path: str) -> Costs:
    """Return what errors cost.

    Args:
        path: A CSV file (.csv) with the columns true, predicted and cost, or a YAML file with a
            list of them, `- {true: fault, predicted: ok, cost: 50}` or `- [fault, ok, 50]`.

    Raises:
        DataError: if it cannot be read, or holds something else.
    """
    data = read_whole(path, _MOST_BYTES)
    entries = _of_csv(path, data) if path.lower().endswith(".csv") else _of_yaml(path, data)
    if not entries:
        raise DataError(path, "holds no costs")
    try:
        return checked_costs(entries)
    except ConfigError as error:
        raise DataError(path, str(error)) from error


def _of_csv(path: str, data: bytes) -> list[Any]:
    try:
        lines = list(csv.reader(io.StringIO(data.decode("utf-8-sig")), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(path, f"not CSV: {error}") from error
    lines = [line for line in lines if line]
    if not lines or sorted(map(str.strip, lines[0])) != sorted(FIELDS):
        raise DataError(path, f"must have the columns {', '.join(FIELDS)}, separated by commas")
    places = [list(map(str.strip, lines[0])).index(field) for field in FIELDS]
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(FIELDS):
            raise DataError(path, f"line {number} has {len(line)} values, not {len(FIELDS)}")
    return [[line[place] for place in places] for line in lines[1:]]


def _of_yaml(path: str, data: bytes) -> list[Any]:
    # Reading YAML takes a tenth of what a command without takes.
    from pipelines.cli.spec_file import read_yaml  # noqa: PLC0415

    values = read_yaml(path, data)
    if not isinstance(values, list):
        raise DataError(path, "must hold a list: - {true: fault, predicted: ok, cost: 50}")
    return values
