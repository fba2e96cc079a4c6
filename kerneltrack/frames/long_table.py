"""Frames of long tables, a row for each value, as wide ones."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.errors import ConfigError, shorten
from kerneltrack.frames.table import PLAIN, FrameColumns
from kerneltrack.missing import is_missing
from kerneltrack.number_texts import NumberTexts

_SHOWN = 5


class _Cells(NamedTuple):
    """One value a row.

    Attributes:
        names: The metrics, in the order of their names.
        name: (n,) place of each row's among them.
        value: (n,) NaN where it is missing or no number.
        wrong: By metric, how many values are no numbers.
        example: By metric, the first of them.
    """

    names: list[str]
    name: IntArray
    value: FloatArray
    wrong: Counter[str]
    example: dict[str, object]


def widen(
    frame: Any, columns: FrameColumns, features: Sequence[str] | None, texts: NumberTexts = PLAIN
) -> Any:
    """Return a frame with a row for each model and time, and a column for each metric.

    Args:
        frame: From `frame_of`.
        columns: Its columns, those of metrics and values among them.
        features: Metrics that are wanted, in order; None: all whose values are numbers.
        texts: How texts of metrics are read.

    Returns:
        Rows in the order in which their model and time first came, each with the last value of
        each metric. Of a metric that a time lacks the value is NaN.

    Raises:
        ConfigError: naming the column or metric that is wrong.
    """
    _check(frame, columns)
    cells = _cells_of(frame, str(columns.metric), str(columns.value), texts)
    channels = _choose(cells, features)
    for name in channels:
        if name in (columns.model_id, columns.time, columns.label):
            raise ConfigError("metric", name, f"another name than that of the column {name!r}")
    first, owner = _rows_of(frame, columns)
    values = np.full((len(first), len(channels)), np.nan)
    places = {name: place for place, name in enumerate(channels)}
    channel = np.array([places.get(name, -1) for name in cells.names], np.int64)[cells.name]
    given = np.flatnonzero((channel >= 0) & ~np.isnan(cells.value))
    # Of equal places NumPy keeps what is assigned last.
    values[owner[given], channel[given]] = cells.value[given]
    replaced = len(given) - int((~np.isnan(values)).sum())
    if replaced:
        _warn(
            f"{replaced:,} values came again for the same device, time and metric: the last one "
            "is taken (is `model_id` right?)"
        )
    kept = [name for name in (columns.model_id, columns.time) if name is not None]
    wide = frame.select(kept)[first]
    backend = frame.implementation
    made = [
        nw.new_series(name, values[:, place], nw.Float64(), backend=backend)
        for place, name in enumerate(channels)
    ]
    if columns.label is not None:
        made.append(frame[columns.label][_last_given(frame[columns.label], first, owner)])
    return wide.with_columns(*made)


def _check(frame: Any, columns: FrameColumns) -> None:
    for field in ("metric", "value"):
        name = getattr(columns, field)
        if name is None:
            raise ConfigError(field, None, "a column: a long table has metrics and values")
        if name not in frame.columns:
            listed = ", ".join(map(str, frame.columns))
            raise ConfigError(field, name, f"a column of the frame: {listed}")
    if columns.time is None:
        raise ConfigError("time", None, "a column of event times: rows of one time become one")


def _cells_of(frame: Any, metric: str, value: str, texts: NumberTexts) -> _Cells:
    named = ["" if is_missing(name) else str(name) for name in frame[metric].to_list()]
    missing = named.count("")
    if missing:
        allowed = f"the name of a channel in every row; {missing:,} rows have none"
        raise ConfigError(f"column {metric!r}", None, allowed)
    names = sorted(set(named))
    places = {name: place for place, name in enumerate(names)}
    codes = np.array([places[name] for name in named], dtype=np.int64)
    column = frame[value]
    if column.dtype == nw.Boolean:
        column = column.cast(nw.Int8)
    if column.dtype.is_numeric():
        values = column.cast(nw.Float64).to_numpy().astype(np.float64)
        return _Cells(names, codes, values, Counter(), {})
    wrong, example = Counter[str](), dict[str, object]()
    values = np.full(len(named), np.nan)
    for place, cell in enumerate(column.to_list()):
        name = named[place]
        number = _number(cell, name, texts)
        if number is None:
            wrong[name] += 1
            example.setdefault(name, cell)
        else:
            values[place] = number
    return _Cells(names, codes, values, wrong, example)


def _number(cell: object, name: str, texts: NumberTexts) -> float | None:
    """Return a metric's value, NaN if it is missing, None for what is no number."""
    if is_missing(cell):
        return math.nan
    if isinstance(cell, str) and texts.says_how(name):
        return texts.read(name, cell)
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def _choose(cells: _Cells, features: Sequence[str] | None) -> list[str]:
    """Return the channels, and warn of what is not among them or no number."""
    numbers = np.bincount(cells.name[~np.isnan(cells.value)], minlength=len(cells.names))
    if features is not None:
        chosen = list(features)
        left = [name for name in cells.names if name not in chosen]
        if not set(chosen) & set(cells.names):
            raise ConfigError("features", ", ".join(chosen), f"metrics: {_listed(cells.names)}")
        if left:
            _warn(f"metrics that are not among the features are left out: {_listed(left)}")
    else:
        enough = [many > cells.wrong[name] for name, many in zip(cells.names, numbers, strict=True)]
        chosen = [name for name, fine in zip(cells.names, enough, strict=True) if fine]
        left = [name for name, fine in zip(cells.names, enough, strict=True) if not fine]
        if not chosen:
            raise ConfigError("value", None, f"numbers of a metric: {_listed(cells.names)}")
        if left:
            _warn(f"metrics without numbers are left out: {_listed(left)}")
    for name in chosen:
        if cells.wrong[name]:
            shown = shorten(cells.example[name])
            _warn(
                f"{cells.wrong[name]:,} values of {name} are missing: no numbers, such as {shown}"
            )
    return chosen


def _rows_of(frame: Any, columns: FrameColumns) -> tuple[IntArray, IntArray]:
    """Return where each row of the wide frame begins, (g,), and which one each row is of, (n,)."""
    count = len(frame)
    times, models = _codes(frame[columns.time]), np.zeros(count, dtype=np.int64)
    if columns.model_id is not None:
        models = _codes(frame[columns.model_id])
    order = np.lexsort((times, models))
    new = np.ones(count, dtype=np.bool_)
    new[1:] = (np.diff(models[order]) != 0) | (np.diff(times[order]) != 0)
    first = order[new]
    ranked = np.argsort(first, kind="stable")
    rank = np.empty(len(first), dtype=np.int64)
    rank[ranked] = np.arange(len(first))
    owner = np.empty(count, dtype=np.int64)
    owner[order] = rank[np.cumsum(new) - 1]
    return first[ranked], owner


def _codes(column: Any) -> IntArray:
    """Return a number for each value; missing ones, whose rows are refused later, differ."""
    kind = column.dtype
    if kind == nw.Datetime:
        column = column.dt.timestamp("ns")
    if kind == nw.Datetime or kind.is_integer():
        values = column.fill_null(0).to_numpy().astype(np.int64)
        missing = column.is_null().to_numpy().astype(bool)
        _, codes = np.unique(values, return_inverse=True)
        return np.where(missing, -1 - np.arange(len(codes)), codes)
    places: dict[Any, int] = {}
    found = [
        -1 - at if is_missing(value) else places.setdefault(value, len(places))
        for at, value in enumerate(column.to_list())
    ]
    return np.array(found, dtype=np.int64)


def _last_given(label: Any, first: IntArray, owner: IntArray) -> IntArray:
    there = np.flatnonzero(~label.is_null().to_numpy().astype(bool))
    last = first.copy()
    last[owner[there]] = there
    return last


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _warn(text: str) -> None:
    # The line of the user's own call of the fleet.
    warnings.warn(text, UserWarning, stacklevel=6)
