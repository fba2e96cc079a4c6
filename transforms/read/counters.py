"""Counters, such as energy, pulses or uptime: found by the first rows, and left out.

A counter is at a new value in every row, so that none looks like those before it: a healthy device
would never be usual.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from transforms.read.column_options import AUTO, NONE
from transforms.read.columns import Columns
from transforms.read.formats.base import FileInfo
from transforms.read.parse import ParsedRows, parse

REASON = "counts up, with resets at most: no row would be like those before (--counters none)"

_MOST_ROWS, _MOST_VALUES, _MOST_FILES = 20_000, 2_000_000, 32
_FEWEST_ROWS = 50
"""A model with fewer rows does not tell."""

_FEWEST_DISTINCT = 10
_MOST_FALLS = 0.01
_RESET = 0.05
"""After a reset a counter has at most this share of its value before."""


def without_counters(infos: Sequence[FileInfo], columns: Columns) -> Columns:
    """Leave out the counters among channels that nobody named.

    Only with a column of times: without one a counter may be the order of rows.

    Args:
        infos: All input files.
        columns: What each of their columns is; its options say which columns are counters.

    Raises:
        DataError: if a file cannot be read.
    """
    options = columns.options
    if options.features is not None or columns.long is not None or columns.time is None:
        return columns
    if options.counters == NONE:
        return columns
    found = set(options.counters)
    if options.counters == AUTO:
        found = set(_counters_in(list(_first_rows(infos, columns)), columns)) - set(columns.words)
    found -= set(columns.unseen)
    features = tuple(each for each in columns.features if each.name not in found)
    if not features:
        return columns
    # What a condition is about is still read for it.
    asked = [each for each in columns.features if each.name in found & {*dict(options.conditions)}]
    features, unseen = (*features, *asked), (*columns.unseen, *(each.name for each in asked))
    left = tuple(each.name for each in columns.features if each not in features)
    requests = {name: kind for name, kind in columns.requests.items() if name not in left}
    left_out = (*columns.left_out, *((name, REASON) for name in left))
    return dataclasses.replace(
        columns,
        features=features,
        requests=requests,
        left_out=left_out,
        counters=left,
        unseen=unseen,
    )


def _first_rows(infos: Sequence[FileInfo], columns: Columns) -> Iterator[ParsedRows]:
    """Yield the first rows of the first files; missing values are NaN."""
    options = dataclasses.replace(columns.options, missing="hold")
    columns = dataclasses.replace(columns, options=options)
    left = min(_MOST_ROWS, _MOST_VALUES // max(columns.width, 1))
    for info in infos[:_MOST_FILES]:
        for piece in info.pieces[:1]:
            rows = piece.first(columns.requests, left)
            if rows is not None:
                good, _ = parse(rows, 0, columns)
                left -= len(good)
                yield good
        if left <= 0:
            return


def _counters_in(parts: Sequence[ParsedRows], columns: Columns) -> list[str]:
    """Return which channels are counters in every model that has enough rows to tell."""
    at, places = 0, []
    for feature in columns.features:
        if feature.width is None:
            places.append((at, feature.name))
        at += len(feature.channels)
    models = [rows for part in parts for rows in _by_model(part)]
    if not models:
        return []
    return [name for at, name in places if all(is_counter(rows[:, at]) for rows in models)]


def _by_model(part: ParsedRows) -> Iterator[npt.NDArray[np.floating]]:
    """Yield each model's rows in the order of their times, if there are enough."""
    if part.time is None:
        return
    for code in np.flatnonzero(np.bincount(part.model) >= _FEWEST_ROWS).tolist():
        own = np.flatnonzero(part.model == code)
        yield part.x[own[np.argsort(part.time[own], kind="stable")]]


def is_counter(values: npt.NDArray[np.floating]) -> bool:
    """Check whether values, in the order of their times, count up.

    Example:
        >>> is_counter(np.arange(100.0) % 60)
        True
        >>> is_counter(np.sin(np.arange(100.0)))
        False
    """
    values = values[~np.isnan(values)]
    if len(values) < _FEWEST_ROWS or len(np.unique(values)) < _FEWEST_DISTINCT:
        return False
    if values.min() < 0:
        return False
    falls = np.flatnonzero(np.diff(values) < 0)
    if len(falls) > max(1, _MOST_FALLS * len(values)):
        return False
    return bool((values[falls + 1] <= _RESET * values[falls]).all())
