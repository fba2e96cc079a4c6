"""Data frames as the columns that models take, and results as frames of the same kind.

A frame is pandas', polars' or Arrow's (a table or a record batch), or whatever else narwhals knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.limits import TIME_LIMIT

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

TIME_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Nanoseconds of each unit of times that are numbers."""
_SHOWN = 20


class Columns(NamedTuple):
    """What each column of a frame is.

    Attributes:
        model_id: The model that a row is of; None: all are of one.
        time: Event time; None: rows come in their order.
        label: What is to be learned; None: nothing.
        features: The channels, in order.
        metric: Of a long table, the names of channels; None: it is a wide one.
        value: Their values.
    """

    model_id: str | None
    time: str | None
    label: str | None
    features: tuple[str, ...]
    metric: str | None = None
    value: str | None = None


class Rows(NamedTuple):
    """A frame's rows.

    Attributes:
        model_id: (n,) texts, None where missing.
        time: (n,) ns since 1970, None without times.
        late: (n,) True where the time is missing or out of range; None without times.
        label: n labels, None without.
        x: (n, D).
    """

    model_id: list[str | None]
    time: IntArray | None
    late: npt.NDArray[np.bool_] | None
    label: list[Any] | None
    x: FloatArray


def frame_of(data: Any) -> Any:
    """Return data as a frame of narwhals.

    Raises:
        ConfigError: for what is no data frame.
    """
    try:
        return nw.from_native(data, eager_only=True)
    except TypeError:
        pass
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        import pyarrow as pa  # noqa: PLC0415 - whatever has Arrow's interface becomes its table

        return nw.from_native(pa.table(data), eager_only=True)
    allowed = "a data frame: pandas', polars', or one with Arrow's interface (__arrow_c_stream__)"
    raise ConfigError("df", type(data).__name__, allowed)


def choose_columns(
    frame: Any,
    model_id: str | None,
    time: str | None,
    label: str | None,
    features: Sequence[str] | None,
) -> Columns:
    """Return what a frame's columns are; without `features` all other numeric ones are channels.

    Raises:
        ConfigError: naming a column that is not there, is named twice or holds no numbers.
    """
    names = list(frame.columns)
    for field, name in (("model_id", model_id), ("time", time), ("label", label)):
        if name is not None and name not in names:
            raise ConfigError(field, name, f"a column of the frame: {_listed(names)}")
    others = [name for name in (model_id, time, label) if name is not None]
    if features is None:
        numeric = [name for name in names if name not in others and _is_number(frame[name].dtype)]
        if not numeric:
            raise ConfigError("features", None, f"numeric columns; the frame has {_listed(names)}")
        return Columns(model_id, time, label, tuple(numeric))
    if isinstance(features, str):
        features = [features]
    for name in features:
        if name not in names:
            raise ConfigError("features", name, f"columns of the frame: {_listed(names)}")
        if name in others or list(features).count(name) > 1:
            raise ConfigError("features", name, "columns that are named once")
        if not _is_number(frame[name].dtype):
            raise ConfigError(f"column {name!r}", str(frame[name].dtype), "numbers")
    if not features:
        raise ConfigError("features", [], "at least one column")
    return Columns(model_id, time, label, tuple(features))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(str, names[:_SHOWN]))
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _is_number(kind: Any) -> bool:
    return bool(kind.is_numeric() or kind == nw.Boolean)


def read_rows(frame: Any, columns: Columns, unit: str = "s", *, classes: bool = True) -> Rows:
    """Return a frame's rows.

    Args:
        frame: From `frame_of`.
        columns: What its columns are.
        unit: Unit of times that are numbers.
        classes: Whether labels are classes: numbers become texts; else they are targets.

    Raises:
        ConfigError: naming the column whose values are of no use.
    """
    count = len(frame)
    time = late = None
    if columns.time is not None:
        time, late = _times(frame[columns.time], columns.time, unit)
    return Rows(
        [""] * count if columns.model_id is None else _texts(frame, columns.model_id, "model_id"),
        time,
        late,
        None if columns.label is None else _labels(frame, columns.label, classes),
        _matrix(frame, columns.features),
    )


def _matrix(frame: Any, names: Sequence[str]) -> FloatArray:
    rows = np.empty((len(frame), len(names)))
    for place, name in enumerate(names):
        column = frame[name]
        if column.dtype == nw.Boolean:
            column = column.cast(nw.Int8)
        rows[:, place] = column.cast(nw.Float64).to_numpy()
    return rows


def _texts(frame: Any, name: str, field: str) -> list[str | None]:
    column = frame[name]
    kind = column.dtype
    if kind in (nw.Categorical, nw.Enum, nw.String) or isinstance(kind, nw.Enum):
        values = column.cast(nw.String).to_list()
    elif kind.is_integer():
        values = column.to_list()
    elif kind == nw.Object:
        values = column.to_list()
        for value in values:
            if not (_is_missing(value) or isinstance(value, str)):
                raise ConfigError(f"column {name!r}", value, f"texts or whole numbers, as {field}")
    else:
        raise ConfigError(f"column {name!r}", str(kind), f"texts or whole numbers, as {field}")
    return [None if _is_missing(value) else str(value) for value in values]


def _is_missing(value: Any) -> bool:
    """Check for no value: None, NaN, or pandas' NA."""
    if isinstance(value, str):
        return False
    try:
        return bool(value is None or value != value)  # noqa: PLR0124
    except TypeError:  # pandas' NA is neither
        return True


def _times(column: Any, name: str, unit: str) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    kind = column.dtype
    bad = column.is_null().to_numpy().astype(bool)
    if kind == nw.Date:
        column, kind = column.cast(nw.Datetime("us")), nw.Datetime("us")
    if kind == nw.Datetime:
        # Missing ones have no whole number; they are marked.
        stamps = column.dt.timestamp("ns").fill_null(0)
        return stamps.to_numpy().astype(np.int64), bad
    factor = TIME_UNITS.get(unit)
    if factor is None:
        raise ConfigError("time_unit", unit, f"one of {', '.join(TIME_UNITS)}")
    limit = TIME_LIMIT // factor
    if kind.is_integer():
        whole = column.fill_null(0).to_numpy().astype(np.int64)
        bad |= (whole > limit) | (whole < -limit)
        return np.where(bad, 0, whole) * factor, bad
    if kind.is_float():
        reals = column.cast(nw.Float64).to_numpy().astype(np.float64)
        bad = bad | ~(np.abs(reals) <= limit)
        reals = np.where(bad, 0.0, reals)
        # The product of a large whole part would lose what the fraction still says.
        floor = np.floor(reals)
        fraction = np.rint((reals - floor) * factor).astype(np.int64)
        return floor.astype(np.int64) * factor + fraction, bad
    raise ConfigError(f"column {name!r}", str(kind), "times: datetimes, dates or numbers")


def _labels(frame: Any, name: str, classes: bool) -> list[Any]:
    column = frame[name]
    kind = column.dtype
    if not classes:
        if not _is_number(kind):
            raise ConfigError(f"column {name!r}", str(kind), "numbers, for regression")
        return [float("nan") if v is None else float(v) for v in column.to_list()]
    if kind == nw.Boolean:
        return [None if v is None else str(v).lower() for v in column.to_list()]
    if kind.is_float():
        # Whole numbers are the classes that they would be in a column of those.
        return [
            None if _is_missing(v) else str(int(v)) if v == int(v) else repr(v)
            for v in column.to_list()
        ]
    return _texts(frame, name, "label")


def _column(name: str, values: Any, backend: Any) -> Any:
    """Return a column; of a list, of the type of its values, texts where there are none."""
    if not isinstance(values, list):
        return values
    there = next((value for value in values if value is not None), "")
    if backend.is_pandas_like():
        if isinstance(there, int) and not isinstance(there, bool) and None in values:
            # Whole numbers have no missing ones there.
            return np.array([np.nan if value is None else value for value in values])
        return np.array(values, dtype=object if isinstance(there, str | bool) else None)
    kinds = {str: nw.String(), bool: nw.Boolean(), int: nw.Int64(), float: nw.Float64()}
    return nw.new_series(name, values, kinds[type(there)], backend=backend)


def zone_of(frame: Any, time: str | None) -> str | None:
    """Return the zone of a frame's column of times, None where it has none."""
    kind = None if time is None else frame[time].dtype
    return kind.time_zone if isinstance(kind, nw.Datetime) else None


def make_frame(
    like: Any, columns: Mapping[str, Any], *, zone: str | None = None, same_rows: bool = False
) -> Any:
    """Return columns as a frame of the kind of another, in its own library.

    Args:
        like: A frame of narwhals.
        columns: By name.
        zone: Time zone that times are told in; None: UTC, and they do not say so.
        same_rows: Whether its rows are those of `like`, whose index pandas then keeps.
    """
    backend = like.implementation
    made = {name: _column(name, values, backend) for name, values in columns.items()}
    frame = nw.from_dict(made, backend=backend)
    if zone is not None:
        kinds = frame.schema.items()
        bare = [
            name for name, kind in kinds if isinstance(kind, nw.Datetime) and not kind.time_zone
        ]
        told = nw.col(*bare).dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
        frame = frame.with_columns(told) if bare else frame
    native = frame.to_native()
    index = nw.maybe_get_index(like) if same_rows else None
    if index is not None:
        native.index = index
    return native
