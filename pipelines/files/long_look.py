"""A look at the first rows for a long table that is not read as one."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kerneltrack.arrays import IntArray
from transforms.read.columns import Columns
from transforms.read.date_and_time import time_column
from transforms.read.formats import FileInfo, PieceRows
from transforms.read.kinds import codes_of, encode, is_number, is_text, value_type
from transforms.read.look import Input
from transforms.read.parse import parse

_ROWS = 1_000
_FEWEST = 12
_MOST_METRICS = 256
_SHARE = 0.5
"""Least share of rows that share their device and time with the row of another metric."""
_METRICS = re.compile(
    r"_*(metric|metrics|metric_?name|field|quantity|parameter|param|variable|signal|tag|tag_?name|"
    r"point|point_?name|entity_?id|__name__)_*",
    re.IGNORECASE,
)
"""Names of columns of metrics, whatever the first rows hold: they may be of one metric."""
_MAYBE = re.compile(
    r"_*(measure|measurement|entity|sensor|sensor_?(id|name|type)|register|node|node_?id|property|"
    r"object|item|channel|attribute|series|topic|name|type|kind|what)_*",
    re.IGNORECASE,
)
"""Names of columns that may be, if there are several metrics."""
_VALUES = re.compile(r"_*(value|val|state|reading)_*", re.IGNORECASE)


def long_table_warnings(infos: Sequence[FileInfo], columns: Columns) -> list[str]:
    """Return a line if the first rows look like a long table, with the flags that read it.

    They do where a device's times repeat, and a column of texts tells the rows of each time apart;
    or where such a column and that of the values are named like those of a long table, whose first
    rows may be of one metric.
    """
    if columns.time is None or columns.long is not None:
        return []
    for info in infos:
        texts = _texts(info, columns)
        values = _values(info, columns)
        if not texts or not values:
            continue
        names = dict.fromkeys([*columns.requests, *texts, *values])
        requests = {
            name: pa.string() if info.is_text(name) else info.schema.field(name).type
            for name in names
        }
        rows = info.first(requests, _ROWS)
        if rows is not None:
            return _warning(rows, columns, texts, values)
    return []


def is_scattered(files: Input) -> bool:
    """Check whether in the first rows of a long table few are beside another of their time."""
    if files.columns.long is None:
        return False
    for info in files.infos:
        rows = info.first(files.columns.requests, _ROWS)
        if rows is not None:
            good, _ = parse(rows, 0, files.columns)
            return len(good) > good.merged.rows
    return False


def narrowed(files: Input) -> Input:
    """Return a long table whose rows stay a value each until all have come."""
    table = files.columns.long and dataclasses.replace(files.columns.long, narrow=True)
    return dataclasses.replace(files, columns=dataclasses.replace(files.columns, long=table))


def _texts(info: FileInfo, columns: Columns) -> list[str]:
    """Return the columns that may name metrics: texts that have no other meaning."""
    taken = {columns.model_id, *columns.times, columns.sequence, columns.label}
    names = [field.name for field in info.schema if field.name not in taken]
    return [name for name in names if is_text(value_type(info.schema.field(name).type))]


def _values(info: FileInfo, columns: Columns) -> list[str]:
    """Return the columns that may hold values: channels, or texts that are named so."""
    taken = {columns.model_id, *columns.times, columns.sequence, columns.label}
    found = []
    for field in info.schema:
        number = is_number(value_type(field.type))
        if field.name not in taken and (number or _VALUES.fullmatch(field.name)):
            found.append(field.name)
    return found


def _warning(
    rows: PieceRows, columns: Columns, texts: Sequence[str], values: Sequence[str]
) -> list[str]:
    batch = rows.batch
    if batch.num_rows < _FEWEST:
        return []
    place = _places(batch, columns)
    best: tuple[float, str, int] | None = None
    for name in texts:
        if name in values and _VALUES.fullmatch(name):
            continue
        codes, distinct = _codes(batch.column(name))
        sure = bool(_METRICS.fullmatch(name))
        if not 2 - sure <= distinct <= min(_MOST_METRICS, batch.num_rows // 3):
            continue
        share, each = _told_apart(place, codes)
        named = (sure or bool(_MAYBE.fullmatch(name))) and any(map(_VALUES.fullmatch, values))
        if (share >= _SHARE or named) and (best is None or share > best[0]):
            best = share, name, each if share >= _SHARE else 0
    if best is None:
        return []
    _, metric, each = best
    value = _value_of(metric, values)
    if value is None:
        return []
    flags = f"--metric {shlex.quote(metric)} --value {shlex.quote(value)}"
    if each:
        seen = f"a time comes {each:,} times in a device, each time with another {metric}"
    else:
        seen = f"{metric} seems to name what {value} is of"
    return [f"{seen}: a long table? ({flags} makes the {metric}s the channels)"]


def _value_of(metric: str, values: Sequence[str]) -> str | None:
    others = [name for name in values if name != metric]
    named = [name for name in others if _VALUES.fullmatch(name)]
    if named:
        return named[0]
    return others[0] if len(others) == 1 else None


def _places(batch: pa.RecordBatch, columns: Columns) -> IntArray:
    """Return a number for each row, the same for rows of one device and time."""
    times, _ = _codes(time_column(batch, columns))
    if columns.model_id is None:
        return times
    models, count = _codes(batch.column(columns.model_id))
    return times * (count + 1) + models


def _codes(values: pa.Array) -> tuple[IntArray, int]:
    encoded = encode(values)
    return codes_of(encoded), len(encoded.dictionary)


def _told_apart(place: IntArray, codes: IntArray) -> tuple[float, int]:
    """Return the share of rows that are not the only one of their place, and how many there are.

    0 if two rows of one place have the same code.
    """
    pairs = np.unique(np.column_stack([place, codes]), axis=0)
    if len(pairs) < len(place):
        return 0.0, 0
    _, counts = np.unique(place, return_counts=True)
    several = counts[counts > 1]
    if not len(several):
        return 0.0, 0
    return float(several.sum()) / len(place), int(np.median(several))
