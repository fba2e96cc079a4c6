"""What may be wrong with a fleet's first frame, for a person to look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import narwhals as nw
import numpy as np

from kerneltrack.frames.pandas_frames import is_real
from kerneltrack.frames.table import Columns, Rows, is_text, number_of_text
from kerneltrack.missing import is_missing

_LOOKED_AT = 1000
"""First rows of a text column that are looked at."""
_MOST_EQUAL = 0.01
"""Share of rows at the time of another that a single machine may have."""


def doubts(frame: Any, columns: Columns, rows: Rows) -> Iterator[str]:
    """Return what to look at: columns of numbers left out, and rows of several machines."""
    others = [name for name in frame.columns if name not in (*columns.named, *columns.features)]
    numbers = [name for name in others if _holds_numbers(frame.get_column(name))]
    if numbers:
        shown = ", ".join(map(repr, numbers))
        yield f"left out, though they hold numbers: {shown}; name the channels by features="
    if columns.model_id is None:
        signs = [*_signs_of_times(rows), *_signs_of_texts(frame, others, numbers)]
        if signs:
            yield (
                f"all rows are of one model, but {' and '.join(signs)}: "
                "name the column of the device by model_id="
            )


def _holds_numbers(column: Any) -> bool:
    kind = column.dtype
    if is_text(kind) or kind == nw.Object:
        values = [v for v in column.head(_LOOKED_AT).to_list() if not is_missing(v) and v != ""]
        numbers = sum(is_real(v) or number_of_text(v) is not None for v in values)
        return bool(values) and 2 * numbers >= len(values)
    if kind == nw.Duration:
        return True
    native = str(getattr(column.to_native(), "dtype", ""))
    return native.startswith("complex")


def _signs_of_times(rows: Rows) -> Iterator[str]:
    if rows.time is None or rows.late is None:
        return
    times = rows.time[~rows.late]
    equal = len(times) - len(np.unique(times))
    if equal > _MOST_EQUAL * len(times):
        yield f"{equal:,} of them have the time of another"
    elif 0 < int((np.diff(times) < 0).sum()) <= _MOST_EQUAL * len(times):
        yield "their times begin anew"


def _signs_of_texts(frame: Any, others: list[str], numbers: list[str]) -> Iterator[str]:
    """Return columns that look like ids: a few texts, each in rows that follow one another."""
    for name in others:
        column = frame.get_column(name)
        if name in numbers or not is_text(column.dtype) or len(column) < 2:
            continue
        _, codes = np.unique(
            np.array([str(value) for value in column.to_list()]), return_inverse=True
        )
        runs, many = int((np.diff(codes) != 0).sum()) + 1, int(codes.max()) + 1
        if 1 < many == runs and 2 * many <= len(codes):
            yield f"{name!r} has {many:,} values, one after the other"
