"""Long tables: each row holds one value of one metric, and the metrics are the channels."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import ConfigError, shorten
from transforms.read.formats.base import FileInfo
from transforms.read.kinds import codes_of, encode, texts_of
from transforms.read.numbers import PLAIN, Numbers, values_of

MOST_METRICS = 4_096
"""Metrics that a scan finds at most: a table of more has another column for its metrics."""

NO_CHANNEL, NO_METRIC = -1, -2
_MANY = 3

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LongTable:
    """Which columns of a table hold the names of channels and their values.

    Attributes:
        metric: Column of the metrics' names.
        value: Column of their values.
        channels: Metrics that are channels, in order.
        numbers: How values that are texts are written.
        narrow: Whether rows stay a value each until all have come. So they take the same room
            however many channels there are; where those of a time follow one another, rows that
            are merged at once take less.
    """

    metric: str
    value: str
    channels: tuple[str, ...]
    numbers: Numbers = PLAIN
    narrow: bool = False


class Cells(NamedTuple):
    """One value a row.

    Attributes:
        names: Distinct names of metrics, None for what is no text.
        name: (n,) place of each row's among them.
        channel: (n,) place of its channel, `NO_CHANNEL` or `NO_METRIC` without one.
        value: (n,) NaN where it is missing.
        wrong: (n,) rows whose value is no number.
    """

    names: list[str | None]
    name: IntArray
    channel: IntArray
    value: npt.NDArray[np.floating]
    wrong: BoolArray


def cells_of(batch: pa.RecordBatch, table: LongTable, dtype: npt.DTypeLike) -> Cells:
    """Read the metric and the value of each row."""
    encoded = encode(batch.column(table.metric))
    names = [*texts_of(encoded.dictionary), None]
    places = {name: place for place, name in enumerate(table.channels)}
    of_names = [
        NO_METRIC if name is None or not name else places.get(name, NO_CHANNEL) for name in names
    ]
    codes = codes_of(encoded)
    value, wrong = values_of(batch.column(table.value), table.numbers, dtype)
    return Cells(names, codes, np.array(of_names, dtype=np.int64)[codes], value, wrong)


class Runs(NamedTuple):
    """Rows of one model and time that follow one another in its source.

    Attributes:
        first: (g,) place of each run's first row.
        owner: (n,) run of each row.
    """

    first: IntArray
    owner: IntArray


def runs_of(model: npt.NDArray[np.int32], keys: Sequence[npt.NDArray[np.integer]]) -> Runs:
    """Find the rows that can be merged as they come, in the order of their first rows.

    Rows of a model are one run as long as all keys (time, sequence, source) stay the same. Others
    of the same time may come later, from elsewhere: these are merged once rows are in order.
    """
    small = model.astype(np.uint16) if len(model) and model.max() < 2**16 else model
    order = np.argsort(small, kind="stable")
    new = np.ones(len(model), dtype=np.bool_)
    new[1:] = False
    for key in (model, *keys):
        ordered = key[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    first = order[new]
    ranked = np.argsort(first, kind="stable")
    rank = np.empty(len(first), dtype=np.int64)
    rank[ranked] = np.arange(len(first))
    owner = np.empty(len(model), dtype=np.int64)
    owner[order] = rank[np.cumsum(new) - 1]
    return Runs(first[ranked], owner)


def spread(
    runs: Runs, channel: IntArray, value: npt.NDArray[np.floating], width: int
) -> npt.NDArray[np.floating]:
    """Return the runs' rows, (g, D): of each channel the last value given, NaN if there is none."""
    rows = np.full((len(runs.first), width), np.nan, dtype=value.dtype)
    given = np.flatnonzero(~np.isnan(value))
    # Of equal places NumPy keeps what is assigned last.
    rows[runs.owner[given], channel[given]] = value[given]
    return rows


def last_label(runs: Runs, label: pa.Array) -> pa.Array:
    """Return each run's last label that is given."""
    there = label.is_valid().to_numpy(zero_copy_only=False)
    place = np.full(len(runs.first), -1, dtype=np.int64)
    given = np.flatnonzero(there)
    place[runs.owner[given]] = given
    return label.take(pa.array(place, mask=place < 0))


@dataclass
class _Seen:
    """What a scan has seen of a metric."""

    values: int = 0
    wrong: int = 0
    example: str = ""


def find_channels(
    infos: Sequence[FileInfo],
    table: LongTable,
    features: Sequence[str] | None,
    exclude: Iterable[str],
) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """Find the metrics of files, and choose those that are channels.

    Args:
        infos: The files; their columns of metrics and values are read once.
        table: Which these are.
        features: Names and patterns of the channels, which give their order; None: all metrics
            whose values are numbers, in the order of their names.
        exclude: Names and patterns of metrics that are none.

    Returns:
        The channels, and the other metrics with the reason.

    Raises:
        ConfigError: for a name that no metric has, too many metrics, or none that is left.
        DataError: if a file cannot be read.
    """
    seen = _scan(infos, table)
    names = sorted(seen)
    for pattern in exclude:
        matching("exclude", pattern, names)
    out = {name for pattern in exclude for name in matching("exclude", pattern, names)}
    if features is not None:
        named = [name for pattern in features for name in matching("features", pattern, names)]
        chosen = [name for name in dict.fromkeys(named) if name not in out]
        reason = "not among the named features"
        left = [(n, "excluded" if n in out else reason) for n in names if n not in chosen]
    else:
        why = {name: "excluded" if name in out else _no_numbers(seen[name]) for name in names}
        chosen = [name for name in names if not why[name]]
        left = [(name, reason) for name, reason in why.items() if reason]
    if not chosen:
        shown = ", ".join(shorten(f"{name} ({reason})") for name, reason in left[:_MANY])
        allowed = f"a choice that leaves a metric with numbers: {shown or 'there is no metric'}"
        raise ConfigError("features", features, allowed)
    return tuple(chosen), left


def _scan(infos: Sequence[FileInfo], table: LongTable) -> dict[str, _Seen]:
    seen: dict[str, _Seen] = {}
    for info in infos:
        requests = {
            name: pa.string() if info.is_text(name) else info.schema.field(name).type
            for name in (table.metric, table.value)
        }
        for piece in info.pieces:
            for rows in piece.read(requests):
                _look_at(rows.batch, table, seen)
                if len(seen) > MOST_METRICS:
                    allowed = f"a column of at most {MOST_METRICS:,} different names"
                    raise ConfigError("metric", table.metric, allowed)
    return seen


def _look_at(batch: pa.RecordBatch, table: LongTable, seen: dict[str, _Seen]) -> None:
    cells = cells_of(batch, table, np.float64)
    size = len(cells.names)
    given = cells.wrong | ~np.isnan(cells.value)
    values = np.bincount(cells.name[given], minlength=size).tolist()
    wrong = np.bincount(cells.name[cells.wrong], minlength=size).tolist()
    there = np.bincount(cells.name, minlength=size).tolist()
    for place, name in enumerate(cells.names):
        if not name or not there[place]:
            continue
        own = seen.setdefault(name, _Seen())
        own.values += values[place]
        own.wrong += wrong[place]
        if wrong[place] and not own.example:
            at = int(np.flatnonzero(cells.wrong & (cells.name == place))[0])
            own.example = shorten(batch.column(table.value)[at].as_py())


def _no_numbers(seen: _Seen) -> str:
    """Return why a metric is no channel, "" if more than half of its values are numbers."""
    if not seen.values:
        return "no values"
    return f"no numbers, but such as {seen.example}" if 2 * seen.wrong >= seen.values else ""


def matching(field: str, pattern: str, names: Sequence[str]) -> list[str]:
    """Return the metrics of a name or pattern.

    Raises:
        ConfigError: if there is none.
    """
    if pattern in names:
        return [pattern]
    found = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    if not found:
        shown = ", ".join(shorten(name) for name in names[:12])
        more = f" ... and {len(names) - 12} more" if len(names) > 12 else ""
        raise ConfigError(field, pattern, f"a metric: {shown}{more}")
    return found
