"""Data frames as the columns that models take, and results as frames of the same kind.

A frame is pandas', polars' or Arrow's (a table or a record batch), or whatever else narwhals knows.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.errors import ConfigError, shorten
from kerneltrack.frames.names import check_once
from kerneltrack.frames.pandas_frames import index_of_times, is_real, plain
from kerneltrack.learners.common.class_names import class_of
from kerneltrack.limits import TIME_LIMIT
from kerneltrack.missing import is_missing
from kerneltrack.monitor.clocks import UTC, is_zone
from kerneltrack.number_texts import NumberTexts
from kerneltrack.time_units import NANOSECONDS

LIBRARIES = ("pandas", "polars", "pyarrow")
"""Whose frames are made where no frame has come yet: the first of them that is installed."""
PLAIN = NumberTexts()
"""Texts are read as plain numbers."""
_SHOWN = 20
_LIKELY = (788_918_400 * 10**9, 2_840_140_800 * 10**9)
"""From 1995 to 2060, ns: numbers outside are not read in seconds where another unit is inside."""
_MOST = 0.9
"""Share of the times that another reading must suit."""
_CALENDAR = (19_000_101, 21_001_231)
"""Whole numbers that may be dates, such as 20260301."""


_CLASSES = (
    "a class, a text or a whole number, as the learner tells classes apart; to learn numbers set "
    "its task: Fleet(learner=kt.AutoSpec(task='regression')). To take them as classes make them "
    "texts"
)


class FrameColumns(NamedTuple):
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

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that are no channels."""
        names = (self.model_id, self.time, self.label)
        return tuple(name for name in names if name is not None)


class Frame(NamedTuple):
    """A frame of narwhals, with all columns that are asked for.

    Attributes:
        frame: Names are texts, each once.
        from_index: Columns that pandas' index had.
        zone: Zone of pandas' times, which are in UTC in it; None: they are as they came.
    """

    frame: Any
    from_index: tuple[str, ...] = ()
    zone: Any = None


class TableRows(NamedTuple):
    """A frame's rows.

    Attributes:
        model_id: (n,) texts, None where missing.
        time: (n,) ns since 1970, None without times.
        late: (n,) True where the time is missing or out of range; None without times.
        label: n labels, None without.
        x: (n, D).
        wrong: By place, why a row cannot be taken, whatever its channels are.
    """

    model_id: list[str | None]
    time: IntArray | None
    late: npt.NDArray[np.bool_] | None
    label: list[Any] | None
    x: FloatArray
    wrong: Mapping[int, str]


def frame_of(data: Any, time: str | None = None, others: tuple[str, ...] = ()) -> Frame:
    """Return data as a frame of narwhals.

    Args:
        data: A data frame.
        time: Column of event times; pandas' index may be it.
        others: Further columns that are no channels; these, too, may lie in the index.

    Raises:
        ConfigError: for what is no data frame, or one with names that stand twice.
    """
    from_index: tuple[str, ...] = ()
    zone: Any = None
    if nw.dependencies.is_pandas_dataframe(data):
        data, from_index, zone = plain(data, time, others)
    if hasattr(data, "column_names"):
        check_once(list(data.column_names))
    try:
        return Frame(nw.from_native(data, eager_only=True), from_index, zone)
    except TypeError:
        pass
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        import pyarrow as pa  # noqa: PLC0415 - whatever has Arrow's interface becomes its table

        try:
            table = pa.table(data)
        except (TypeError, ValueError):  # a single column, such as a series
            table = None
        if table is not None:
            check_once(table.column_names)
            return Frame(nw.from_native(table, eager_only=True))
    allowed = "a data frame: pandas', polars', or one with Arrow's interface (__arrow_c_stream__)"
    if hasattr(data, "collect"):
        allowed += "; call its collect() first"
    raise ConfigError("df", type(data).__name__, allowed)


def index_name(data: Any) -> str | None:
    """Return the name of a frame's index of times; None if it has none."""
    return index_of_times(data) if nw.dependencies.is_pandas_dataframe(data) else None


def choose_columns(
    frame: Any,
    model_id: str | None,
    time: str | None,
    label: str | None,
    features: Sequence[str] | None,
    texts: NumberTexts = PLAIN,
) -> FrameColumns:
    """Return what a frame's columns are.

    Without `features` all other columns of numbers are channels, and those that `texts` names.

    Raises:
        ConfigError: naming a column that is not there, is named twice or holds no numbers.
    """
    names = list(frame.columns)
    for field, name in (("model_id", model_id), ("time", time), ("label", label)):
        if name is not None and name not in names:
            raise ConfigError(field, name, f"a column of the frame: {listed(names)}")
    others = [name for name in (model_id, time, label) if name is not None]
    kinds = frame.schema
    if features is None:
        numeric = [
            name
            for name in names
            if name not in others and (name in texts.named or _is_number(kinds[name]))
        ]
        if not numeric:
            raise ConfigError("features", None, f"numeric columns; the frame has {listed(names)}")
        features = numeric
    features = [features] if isinstance(features, str) else list(features)
    for field in ("words", "units"):
        for name in getattr(texts, field):
            if name not in features:
                raise ConfigError(field, name, f"a channel: {listed(features)}")
    for name in features:
        if name not in names:
            raise ConfigError("features", name, f"columns of the frame: {listed(names)}")
        for field, other in (("model_id", model_id), ("time", time), ("label", label)):
            if name == other:
                raise ConfigError(
                    "features", name, f"a channel; {field}={other!r} names it already"
                )
        if features.count(name) > 1:
            raise ConfigError("features", name, "named once; it is there several times")
        kind = kinds[name]
        if not (_is_number(kind) or is_text(kind) or kind == nw.Object):
            raise ConfigError(f"column {name!r}", str(kind), "numbers")
    if not features:
        raise ConfigError("features", [], "at least one column")
    return FrameColumns(model_id, time, label, tuple(features))


def listed(names: Sequence[str]) -> str:
    """Return names for a message, the first of them where there are many."""
    shown = ", ".join(map(str, names[:_SHOWN]))
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _is_number(kind: Any) -> bool:
    return bool(kind.is_numeric() or kind == nw.Boolean)


def is_text(kind: Any) -> bool:
    """Check whether a column of this type holds texts."""
    return kind in (nw.Categorical, nw.Enum, nw.String) or isinstance(kind, nw.Enum)


def read_rows(
    frame: Any,
    columns: FrameColumns,
    unit: str | None = None,
    *,
    classes: bool = True,
    texts: NumberTexts = PLAIN,
) -> TableRows:
    """Return a frame's rows.

    Args:
        frame: From `frame_of`.
        columns: What its columns are.
        unit: Unit of times that are numbers; None: seconds, and what looks like another is refused.
        classes: Whether labels are classes: numbers become texts; else they are targets.
        texts: How texts of channels are read.

    Raises:
        ConfigError: naming the column whose values are of no use.
    """
    count = len(frame)
    time = late = None
    if columns.time is not None:
        time, late = _times(frame.get_column(columns.time), columns.time, unit)
    ids: list[str | None] = [""] * count
    if columns.model_id is not None:
        ids = _ids(frame.get_column(columns.model_id), columns.model_id)
    labels: list[Any] | None = None
    wrong: dict[int, str] = {}
    if columns.label is not None:
        labels, wrong = _labels(frame.get_column(columns.label), columns.label, classes)
    x = np.empty((count, len(columns.features)))
    for place, name in enumerate(columns.features):
        x[:, place], others = _numbers(frame.get_column(name), name, texts)
        wrong = {**others, **wrong}
    return TableRows(ids, time, late, labels, x, wrong)


def _numbers(column: Any, name: str, texts: NumberTexts) -> tuple[FloatArray, dict[int, str]]:
    """Return a column's numbers, NaN where missing, and why others are none, by their places."""
    kind = column.dtype
    if is_text(kind) or kind == nw.Object:
        return _read_values(column.to_list(), name, texts)
    if kind == nw.Float64:
        return column.to_numpy(), {}
    if kind == nw.Boolean:
        column = column.cast(nw.Int8)
    return column.cast(nw.Float64).to_numpy(), {}


def _read_values(
    values: Sequence[Any], name: str, texts: NumberTexts
) -> tuple[FloatArray, dict[int, str]]:
    """Return the numbers of a column of texts or objects, as `_numbers` does.

    Raises:
        ConfigError: if none of them can be read.
    """
    reals, wrong = np.full(len(values), np.nan), dict[int, str]()
    known: dict[str, float | None] = {}
    for place, value in enumerate(values):
        if is_missing(value) or (isinstance(value, str) and value == ""):
            continue
        if is_real(value) and name not in texts.named:
            reals[place] = float(value)
            continue
        text = str(value)
        if text not in known:
            known[text] = _number_of(text, name, texts)
        number = known[text]
        if number is None:
            wrong[place] = f"column {name!r} is {shorten(text)}: {texts.meaning(name)}"
        else:
            reals[place] = number
    if wrong and np.isnan(reals).all():
        first = str(values[min(wrong)])
        raise ConfigError(f"column {name!r}", first, f"readable; it is {texts.meaning(name)}")
    return reals, wrong


def _number_of(text: str, name: str, texts: NumberTexts) -> float | None:
    return texts.read(name, text) if texts.says_how(name) else number_of_text(text)


def number_of_text(text: object) -> float | None:
    """Return the number that a text is, None for what is none.

    Example:
        >>> number_of_text(" 1.5e3 "), number_of_text("1_000"), number_of_text("1.5 bar")
        (1500.0, None, None)
    """
    text = str(text)
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def _ids(column: Any, name: str) -> list[str | None]:
    kind = column.dtype
    if not (is_text(kind) or kind.is_integer() or kind == nw.Object):
        allowed = "texts or whole numbers, as model_id"
        raise ConfigError(f"column {name!r}", str(kind), allowed)
    found: list[str | None] = []
    for value in column.to_list():
        if is_missing(value):
            found.append(None)
        elif isinstance(value, bool | np.bool_) or not isinstance(value, str | int | np.integer):
            raise ConfigError(f"column {name!r}", value, "texts or whole numbers, as model_id")
        else:
            found.append(str(value))
    return found


def _times(column: Any, name: str, unit: str | None) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    kind = column.dtype
    bad = column.is_null().to_numpy().astype(bool)
    if kind == nw.Date:
        column, kind = column.cast(nw.Datetime("us")), nw.Datetime("us")
    if kind == nw.Datetime:
        # Missing ones have no whole number; they are marked.
        stamps = column.dt.timestamp("ns").fill_null(0)
        return stamps.to_numpy().astype(np.int64), bad
    if not (kind.is_integer() or kind.is_float()):
        allowed = "times: datetimes, dates or numbers"
        if is_text(kind):
            allowed += ", not texts: make them datetimes first, such as by pd.to_datetime"
        raise ConfigError(f"column {name!r}", str(kind), allowed)
    if unit is not None and unit not in NANOSECONDS:
        raise ConfigError("time_unit", unit, f"one of {', '.join(NANOSECONDS)}")
    if unit is None:
        _check_seconds(column, name)
    return _scaled(column, NANOSECONDS[unit or "s"], bad)


def _scaled(
    column: Any, factor: int, bad: npt.NDArray[np.bool_]
) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    limit = TIME_LIMIT // factor
    if column.dtype.is_integer():
        whole = column.fill_null(0).to_numpy()
        bad = bad | (whole > limit)
        if column.dtype.is_signed_integer():
            bad |= whole < -limit
        return np.where(bad, 0, whole).astype(np.int64) * factor, bad
    reals = column.cast(nw.Float64).to_numpy().astype(np.float64)
    bad = bad | ~(np.abs(reals) <= limit)
    reals = np.where(bad, 0.0, reals)
    # The product of a large whole part would lose what the fraction still says.
    floor = np.floor(reals)
    fraction = np.rint((reals - floor) * factor).astype(np.int64)
    return floor.astype(np.int64) * factor + fraction, bad


def _check_seconds(column: Any, name: str) -> None:
    """Refuse numbers that are seconds since 1970 only if nobody looks at them.

    Raises:
        ConfigError: if another unit, or a calendar, brings them into our days and seconds do not.
    """
    numbers = column.cast(nw.Float64).drop_nulls().to_numpy()
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return
    first, last = _LIKELY
    for unit, factor in NANOSECONDS.items():
        with np.errstate(over="ignore"):
            at = numbers * factor
        if np.mean((at >= first) & (at < last)) >= _MOST:
            if unit == "s":
                return
            shown = str(np.datetime64(int(at[0]), "ns").astype("M8[s]")).replace("T", " ")
            allowed = f"given: {unit!r} if {name} begins at {shown}, 's' if in 1970 or far from it"
            raise ConfigError("time_unit", None, allowed)
    low, high = _CALENDAR
    parts = numbers // 100 % 100, numbers % 100
    dates = (numbers >= low) & (numbers <= high) & (numbers % 1 == 0)
    for part, most in zip(parts, (12, 31), strict=True):
        dates &= (part >= 1) & (part <= most)
    if np.mean(dates) >= _MOST:
        allowed = "datetimes, by pd.to_datetime(..., format='%Y%m%d'); or give time_unit='s'"
        raise ConfigError(f"column {name!r}", int(numbers[0]), allowed)


def _labels(column: Any, name: str, classes: bool) -> tuple[list[Any], dict[int, str]]:
    """Return a column's labels, None (or NaN) where missing, and the places of those of no use."""
    kind = column.dtype
    if not classes and (_is_number(kind) or is_text(kind)):
        reals, wrong = _numbers(column, name, PLAIN)
        return reals.tolist(), wrong
    if not (_is_number(kind) or is_text(kind) or kind == nw.Object or _is_null(column)):
        allowed = "texts or numbers" if classes else "numbers, for regression"
        raise ConfigError(f"column {name!r}", str(kind), allowed)
    labels: list[Any] = []
    wrong = {}
    for place, value in enumerate(column.to_list()):
        if classes and _has_fraction(value):
            raise ConfigError(f"column {name!r}", float(value), _CLASSES)
        try:
            labels.append(class_of(value) if classes else _target(value))
        except (TypeError, ValueError, OverflowError) as error:
            labels.append(None if classes else float("nan"))
            why = error if classes else "not a number"
            wrong[place] = f"column {name!r} is {shorten(value)}: {why}"
    return labels, wrong


def _has_fraction(value: object) -> bool:
    """Check for a number that is neither whole nor missing nor infinite."""
    if not isinstance(value, float | np.floating | Decimal):
        return False
    return math.isfinite(value) and value % 1 != 0


def _is_null(column: Any) -> bool:
    return bool(column.is_null().all())


def _target(value: Any) -> float:
    if isinstance(value, str):
        raise TypeError("a text")
    return float("nan") if is_missing(value) else float(value)


def _column(name: str, values: Any, backend: Any) -> Any:
    """Return a column; of a list, of the type of its values (lists: of texts), texts where none."""
    if not isinstance(values, list):
        return values
    there = next((value for value in values if value is not None), "")
    if isinstance(there, list):
        if backend.is_pandas_like():
            # NumPy would take lists of one length for a matrix.
            return np.fromiter(values, dtype=object, count=len(values))
        return nw.new_series(name, values, nw.List(nw.String()), backend=backend)
    if backend.is_pandas_like():
        if isinstance(there, int) and not isinstance(there, bool) and None in values:
            # Whole numbers have no missing ones there.
            return np.array([np.nan if value is None else value for value in values])
        return np.array(values, dtype=object if isinstance(there, str | bool) else None)
    kinds = {str: nw.String(), bool: nw.Boolean(), int: nw.Int64(), float: nw.Float64()}
    return nw.new_series(name, values, kinds[type(there)], backend=backend)


class FrameForm(NamedTuple):
    """What a frame is made like.

    Attributes:
        implementation: Its library, as narwhals names it.
        zone: Zone of its times, by name, or as pandas has it; None: they have none.
        index: pandas' index for the new frame's rows; None: its own.
    """

    implementation: Any
    zone: Any = None
    index: Any = None


def like_of(data: Frame, time: str | None, *, same_rows: bool = False) -> FrameForm:
    """Return what a frame like another is made of.

    Args:
        data: That one.
        time: Its column of times, whose zone others are told in.
        same_rows: Whether the new one's rows are its own, whose index pandas then keeps.
    """
    frame, zone = data.frame, data.zone
    if zone is None and time is not None:
        kind = frame.get_column(time).dtype
        zone = kind.time_zone if isinstance(kind, nw.Datetime) else None
    index = nw.maybe_get_index(frame) if same_rows else None
    return FrameForm(frame.implementation, zone, index)


def form_of(library: str, zone: str | None) -> FrameForm | None:
    """Return the form of a library's frames, or of another one that is there; None without any.

    Args:
        library: Its name; empty: any.
        zone: Zone of times, by name; None: they have none.
    """
    for name in (library, *LIBRARIES):
        if name and importlib.util.find_spec(name) is not None:
            return FrameForm(nw.Implementation.from_string(name), zone)
    return None


def library_and_zone(like: FrameForm | None) -> tuple[str, str | None]:
    """Return the arguments of `form_of` for a form: a zone without a name of its own is UTC."""
    if like is None:
        return "", None
    library = like.implementation.value
    zone = None if like.zone is None else str(like.zone)
    known = zone is None or is_zone(zone)
    return library if library in LIBRARIES else "", zone if known else UTC


def make_frame(like: FrameForm, columns: Mapping[str, Any]) -> Any:
    """Return columns by name as a frame in the library of another."""
    backend = like.implementation
    made = {name: _column(name, values, backend) for name, values in columns.items()}
    frame = nw.from_dict(made, backend=backend)
    if like.zone is not None:
        kinds = {n: kind for n, kind in frame.schema.items() if isinstance(kind, nw.Datetime)}
        bare = [name for name, kind in kinds.items() if not kind.time_zone]
        if bare:
            frame = frame.with_columns(nw.col(*bare).dt.replace_time_zone("UTC"))
        if kinds:
            frame = frame.with_columns(nw.col(*kinds).dt.convert_time_zone(like.zone))
    native = frame.to_native()
    if like.index is not None:
        native.index = like.index
    return native
