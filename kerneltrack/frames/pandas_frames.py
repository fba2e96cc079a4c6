"""pandas' frames as the rest takes them: names that are texts, columns of one kind, no index."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from kerneltrack.errors import ConfigError
from kerneltrack.frames.names import check_once, name_of
from kerneltrack.missing import is_missing

INDEX = "index"
"""What an index without a name is called, as by pandas' `reset_index`."""
_NUMBERS = ("floating", "integer", "mixed-integer-float", "decimal", "boolean")
_MIXED = ("mixed", "mixed-integer")
_TIMES = ("datetime", "datetime64", "date")
"""Kinds of objects, as pandas infers them."""


class Plain(NamedTuple):
    """A frame whose columns have all that is asked for.

    Attributes:
        frame: A pandas frame.
        from_index: Columns that its index had.
        zone: Zone of its times, which are in UTC here; None: they have none.
    """

    frame: Any
    from_index: tuple[str, ...]
    zone: Any = None


def index_of_times(df: Any) -> str | None:
    """Return the name of a frame's index, where that is of times; else None."""
    import pandas as pd  # noqa: PLC0415 - not all frames are pandas'

    if not isinstance(df.index, pd.DatetimeIndex | pd.PeriodIndex):
        return None
    return INDEX if df.index.name is None else name_of("index", df.index.name)


def plain(df: Any, time: str | None, others: tuple[str, ...]) -> Plain:
    """Return a frame with texts as names, and objects, sparse columns and periods as plain ones.

    Times with a zone come in UTC: narwhals knows pandas' zones by their names, and not all names.

    Args:
        df: A pandas frame; it is not written to.
        time: Column of event times.
        others: Columns that are no channels either: model ids, labels. Their values stay.

    Raises:
        ConfigError: for a name that stands twice, or objects that are no numbers or times.
    """
    import pandas as pd  # noqa: PLC0415

    names = [name_of("columns", name) for name in df.columns]
    check_once(names)
    made = df.set_axis(names, axis=1)
    levels = [INDEX if name is None else name_of("index", name) for name in df.index.names]
    wanted = [name for name in (time, *others) if name is not None]
    from_index = tuple(name for name in levels if name in wanted and name not in names)
    for name in from_index:
        made[name] = df.index.get_level_values(levels.index(name))
    for name, kind in zip(made.columns, made.dtypes, strict=True):
        if isinstance(kind, np.dtype) and not kind.hasobject:
            continue
        column = made[name]
        dense = _dense(column, name == time, name in others)
        if dense is not column:
            made[name] = dense
    zone = None
    if time in made and isinstance(made[time].dtype, pd.DatetimeTZDtype):
        zone = made[time].dtype.tz
        made[time] = made[time].dt.tz_convert("UTC")
    return Plain(made, from_index, zone)


def _dense(column: Any, is_time: bool, stays: bool) -> Any:
    import pandas as pd  # noqa: PLC0415

    kind = column.dtype
    if isinstance(kind, pd.SparseDtype):
        return column.sparse.to_dense()
    if is_time and isinstance(kind, pd.PeriodDtype):
        return column.dt.to_timestamp()
    if stays or not pd.api.types.is_object_dtype(kind):
        return column
    found = pd.api.types.infer_dtype(column, skipna=True)
    if is_time and found in _TIMES:
        try:
            return pd.to_datetime(column)
        except ValueError as error:
            allowed = "times, all of them with a zone or none"
            raise ConfigError(f"column {column.name!r}", str(error), allowed) from error
    if not is_time and (found in _NUMBERS or (found in _MIXED and _are_numbers(column))):
        return pd.Series(_floats(column), column.index, name=column.name)
    return column


def _are_numbers(column: Any) -> bool:
    return all(is_missing(value) or is_real(value) for value in column.to_list())


def is_real(value: object) -> bool:
    """Check for a number that is no complex one and no span of time."""
    return isinstance(value, Real | Decimal | np.bool_) and not isinstance(value, np.timedelta64)


def _floats(column: Any) -> Any:
    values = column.to_list()
    try:
        return np.array([np.nan if is_missing(value) else float(value) for value in values])
    except OverflowError as error:
        raise ConfigError(f"column {column.name!r}", str(error), "numbers") from error
