"""Rows of any pipeline as chunks, and chunks as rows again: elements that others understand.

Rows are `beam.Row`s, named tuples or dicts. What comes back are `beam.Row`s with a schema.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any, Optional

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.typehints import row_type
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from kerneltrack.errors import ConfigError, shorten
from kerneltrack.learners.common.class_names import class_of
from kerneltrack.limits import TIME_LIMIT
from kerneltrack.missing import is_missing
from kerneltrack.time_units import NANOSECONDS, UNITS, TimeUnit
from transforms.arguments import check_collection
from transforms.chunks import Chunk, matrix_column
from transforms.failures import Failures
from transforms.global_window import IN_GLOBAL
from transforms.metrics import count
from transforms.outputs import FAILURES
from transforms.read.column_options import ONLY_MODEL

ROWS = "rows"
MOST_GATHERED = 65_536
"""Rows of a bundle that are gathered before they leave as chunks."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400 * 10**9
_CLOCK_UNITS = {
    **{"W": 7 * _DAY, "D": _DAY, "h": _DAY // 24, "m": 60 * 10**9},
    **NANOSECONDS,
}
"""Nanoseconds of NumPy's units; months and years have no fixed length."""
_FINER_UNITS = {"ps": 10**3, "fs": 10**6, "as": 10**9}
"""How many of NumPy's finer units a nanosecond has."""
_MOST_MONTHS = 12_000
_NO_REALS = (np.complexfloating, np.datetime64, np.timedelta64)
"""What `float` takes and makes another number of."""


@dataclasses.dataclass(frozen=True)
class RowFields:
    """What the fields of a row are; see `RowsToChunks`."""

    model_id: str | None
    time: str
    features: tuple[str, ...]
    label: str | None = None
    sequence: str | None = None
    time_unit: str = "s"
    targets: bool = False

    def __post_init__(self) -> None:
        """Check that the names are names, each given once."""
        if not isinstance(self.time, str):
            raise ConfigError("time", self.time, "the field of event times: rows have no order")
        if not self.features or not all(isinstance(name, str) for name in self.features):
            raise ConfigError("features", list(self.features), "a list of names, one at least")
        if self.time_unit not in UNITS:
            raise ConfigError("time_unit", self.time_unit, f"one of {', '.join(UNITS)}")
        more = (self.model_id, self.label, self.sequence)
        names = [*self.features, self.time, *(name for name in more if name)]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError("fields", name, "named once")

    @property
    def unit(self) -> TimeUnit:
        """How times that are numbers are counted."""
        return UNITS[self.time_unit]


class RowsToChunks(beam.PTransform[pvalue.PCollection[Any], dict[str, pvalue.PCollection[Any]]]):
    """Put rows of any pipeline into chunks, for `TrackSubspace` and what follows it.

    Input: `beam.Row`, named tuple, dict, or any object with attributes; in any order, bounded or
    not. Output, a dict: `rows`, `tuple[str, Chunk]` in the global window, keyed by model; and
    `failures`, `Failures`, the rows without a usable model, time, label or feature, each with its
    reason and its model, where that can be read. Each row is in one of the two, once; none ends
    the pipeline. The rows of a bundle are gathered, up to 65,536.

    Rows have no place in a file. Those of one model and time are put in order by `sequence`, and
    without it by their contents, so that results do not depend on the order in which they came.

    Args:
        model_id: Field of the model that a row is of; None: all are of one.
        time: Field of event times: `Timestamp`, `datetime` (UTC, if it has no zone), a date,
            NumPy's or pandas' times, or numbers. Rows of a pipeline have no order but that.
        features: Fields of the channels, in order: numbers.
        label: Field of the labels, missing where None, NaN, NaT, NA or an empty text; None: there
            are none. True and False are the classes 1 and 0.
        sequence: Field of whole numbers that order rows of equal time.
        time_unit: Unit of times that are numbers, one of `kerneltrack.time_units.UNITS`: "s",
            "ms", "us" or "ns" since 1970, "excel", "matlab" and others.
        targets: Whether labels are numbers to predict instead of classes.

    Raises:
        ConfigError: for an argument that is out of range or named twice, and, where the rows have
            a schema, for a field that is not in it.

    Example:
        >>> rows = RowsToChunks(model_id="pump", time="at", features=["flow", "heat"])
        >>> with beam.Pipeline() as pipeline:
        ...     made = pipeline | beam.Create([{"pump": "a", "at": 7, "flow": 1.5, "heat": 20}])
        ...     found = (made | rows)["rows"] | beam.Map(lambda part: print(part[0], len(part[1])))
        a 1
    """

    def __init__(
        self,
        *,
        model_id: str | None,
        time: str,
        features: Sequence[str],
        label: str | None = None,
        sequence: str | None = None,
        time_unit: str = "s",
        targets: bool = False,
    ) -> None:
        super().__init__()
        if isinstance(features, str):
            raise ConfigError("features", features, "a list of names, one at least")
        self._fields = RowFields(
            model_id, time, tuple(features), label, sequence, time_unit, targets
        )

    @classmethod
    def of(cls, fields: RowFields) -> RowsToChunks:
        """Return the transform for rows of these fields."""
        return cls(**{**dataclasses.asdict(fields), "features": list(fields.features)})

    def expand(self, rows: pvalue.PCollection[Any]) -> dict[str, pvalue.PCollection[Any]]:
        """Apply the transform."""
        return self.gather(rows)

    def gather(
        self, rows: pvalue.PCollection[Any], whole: bool = False
    ) -> dict[str, pvalue.PCollection[Any]]:
        """Apply the transform; `whole`: failures are pairs of the row as it came and the reason."""
        check_collection("rows", rows)
        _check_schema(rows.element_type, self._fields)
        failed: Any = tuple[Any, str] if whole else Failures
        gather = beam.ParDo(_GatherFn(self._fields, whole)).with_output_types(
            tuple[str, Chunk], **{FAILURES: failed}
        )
        outputs = rows | "Gather" >> gather.with_outputs(FAILURES, main=ROWS)
        return {ROWS: outputs[ROWS], FAILURES: outputs[FAILURES]}


class _Refused(Exception):
    """Why a row cannot be used."""


@dataclasses.dataclass
class _Gathered:
    """Rows of a model."""

    time: list[int] = dataclasses.field(default_factory=list)
    sequence: list[int] = dataclasses.field(default_factory=list)
    row: list[int] = dataclasses.field(default_factory=list)
    x: list[list[float]] = dataclasses.field(default_factory=list)
    label: list[Any] = dataclasses.field(default_factory=list)


class _GatherFn(beam.DoFn):
    """Gather the rows of a bundle by model."""

    def __init__(self, fields: RowFields, whole: bool = False) -> None:
        self._fields = fields
        self._whole = whole

    def start_bundle(self) -> None:
        """Begin with nothing."""
        self._models: dict[str, _Gathered] = {}
        self._count = 0

    def process(self, element: Any) -> Iterator[Any]:
        """Take a row in."""
        get = element.get if isinstance(element, Mapping) else partial(_attribute, element)
        count("rows_read", 1)
        model = None
        try:
            model = _model_of(get(self._fields.model_id)) if self._fields.model_id else ONLY_MODEL
            self._add(model, get)
        except _Refused as error:
            count("rows_failed", 1)
            reason = str(error)
            failed: Any = (element, reason)
            if not self._whole:
                failed = Failures.of(model, [0], [-1], [reason])
            yield pvalue.TaggedOutput(FAILURES, failed)
        if self._count >= MOST_GATHERED:
            yield from (placed.value for placed in self._taken())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yield what was gathered."""
        yield from self._taken()

    def _add(self, model: str, get: Any) -> None:
        fields = self._fields
        time = _time_of(fields, get(fields.time))
        sequence = _whole_of(fields.sequence, get(fields.sequence)) if fields.sequence else None
        x = [_real_of(name, get(name)) for name in fields.features]
        label = _label_of(fields, get(fields.label)) if fields.label else None
        rows = self._models.setdefault(model, _Gathered())
        rows.time.append(time)
        if sequence is not None:
            rows.sequence.append(sequence)
        rows.x.append(x)
        rows.label.append(label)
        rows.row.append(_place_of(x, label))
        self._count += 1

    def _taken(self) -> Iterator[WindowedValue]:
        for model, rows in self._models.items():
            chunk = Chunk(self._batch(rows)).in_order()
            yield WindowedValue((model, chunk), MIN_TIMESTAMP, IN_GLOBAL)
        self.start_bundle()

    def _batch(self, rows: _Gathered) -> pa.RecordBatch:
        columns: dict[str, pa.Array] = {"time": pa.array(rows.time, pa.int64())}
        if self._fields.sequence:
            columns["sequence"] = pa.array(rows.sequence, pa.int64())
        columns["source"] = pa.array(np.zeros(len(rows.x), np.int32))
        columns["row"] = pa.array(rows.row, pa.int64())
        columns["x"] = matrix_column(np.array(rows.x, np.float64))
        if self._fields.label:
            kind = pa.float64() if self._fields.targets else pa.string()
            columns["label"] = pa.array(rows.label, kind)
        return pa.RecordBatch.from_pydict(columns)


def _check_schema(kind: Any, fields: RowFields) -> None:
    """Check that rows of a type have the fields; a type without a schema passes."""
    row = kind if isinstance(kind, row_type.RowTypeConstraint) else None
    if row is None and isinstance(kind, type):
        row = row_type.RowTypeConstraint.from_user_type(kind)
    if row is None:
        return
    there = [name for name, _ in row._fields]
    named: dict[str, Sequence[str | None]] = {
        "model_id": [fields.model_id],
        "time": [fields.time],
        "features": fields.features,
        "label": [fields.label],
        "sequence": [fields.sequence],
    }
    for setting, names in named.items():
        for name in names:
            # A class may have properties besides.
            if name is not None and name not in there and not hasattr(row.user_type, name):
                raise ConfigError(setting, name, f"a field of the rows: {', '.join(there)}")


def _attribute(element: Any, name: str) -> Any:
    return getattr(element, name, None)


def _model_of(value: Any) -> str:
    if isinstance(value, str):
        return _utf8("model id", value)
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
    if whole:
        try:
            return str(int(value))
        except ValueError as error:  # of more digits than Python writes
            raise _Refused(f"model id = {shorten(value)}: too large") from error
    raise _Refused(f"model id = {shorten(value)}: not a text or a whole number")


def _utf8(name: str, text: str) -> str:
    """Return a text as a plain one that can be written."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise _Refused(f"{name} = {shorten(text)}: has half a character") from error
    # Subtypes, such as NumPy's, become plain texts.
    return str.__str__(text)


def _real_of(name: str, value: Any) -> float:
    number: float = value if type(value) is float else _converted(name, value)
    if not math.isfinite(number):
        raise _Refused(f"{name} = {number}: not finite")
    return number


def _converted(name: str, value: Any) -> float:
    if value is None:
        raise _Refused(f"{name} = None: missing value, or no such field")
    is_text = isinstance(value, str | bytes)
    try:
        if isinstance(value, _NO_REALS) or (is_text and not _is_plain(value)):
            raise ValueError("float would read it as another number")
        return float(value)
    except OverflowError as error:
        raise _Refused(f"{name} = {shorten(value)}: too large") from error
    except Exception as error:  # a foreign value decides what `float` raises
        raise _Refused(f"{name} = {shorten(value)}: not a number") from error


def _is_plain(text: str | bytes) -> bool:
    """Check for a number as files have them, without Python's 1_000 and digits of other scripts."""
    return text.isascii() and (b"_" if isinstance(text, bytes) else "_") not in text  # type: ignore[operator]


def _whole_of(name: str, value: Any) -> int:
    if isinstance(value, int | np.integer) and not isinstance(value, np.timedelta64):
        if abs(int(value)) < 1 << 63:
            return int(value)
    raise _Refused(f"{name} = {shorten(value)}: not a whole number")


def _time_of(fields: RowFields, value: Any) -> int:
    """Return a time, ns since 1970."""
    try:
        at = _nanoseconds(value, fields.unit)
    except (ArithmeticError, TypeError, ValueError):  # of calendars and zones of other libraries
        at = None
    if at is None:
        raise _Refused(f"{fields.time} = {shorten(value)}: not a time")
    if abs(at) > TIME_LIMIT:
        raise _Refused(f"{fields.time} = {shorten(value)}: too far from 1970")
    return at


def _nanoseconds(value: Any, unit: TimeUnit) -> int | None:
    """Return a time, ns since 1970, in whatever range; None for what is none."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        return unit.instant(int(value))
    if isinstance(value, float | np.floating | Decimal):
        # NumPy's own types overflow.
        real = value if isinstance(value, Decimal) else float(value)
        return unit.instant(real) if math.isfinite(real) else None
    if isinstance(value, Timestamp):
        return int(value.micros) * 1000
    if is_missing(value) or not isinstance(value, date | np.datetime64):
        return None
    return _of_date(value) if isinstance(value, date) else _of_datetime64(value)


def _of_date(value: date) -> int:
    if not isinstance(value, datetime):
        value = datetime.combine(value, time())
    aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    # pandas' times have nanoseconds.
    return int((aware - _EPOCH) // _MICROSECOND) * 1000 + int(getattr(value, "nanosecond", 0))


def _of_datetime64(value: np.datetime64) -> int:
    unit, step = np.datetime_data(value.dtype)
    count = int(value.astype(np.int64)) * step
    if unit in _CLOCK_UNITS:
        return count * _CLOCK_UNITS[unit]
    if unit in _FINER_UNITS:
        return count // _FINER_UNITS[unit]
    months = count * (12 if unit == "Y" else 1)
    if abs(months) > _MOST_MONTHS:
        return 2 * TIME_LIMIT
    return int(np.datetime64(months, "M").astype("datetime64[D]").astype(np.int64)) * _DAY


def _label_of(fields: RowFields, value: Any) -> Any:
    name = str(fields.label)
    if fields.targets:
        return None if is_missing(value) else _real_of(name, value)
    try:
        label = class_of(value)
    except ValueError as error:
        raise _Refused(f"{name} = {shorten(value)}: {error}") from error
    return label if label is None else _utf8(name, label)


def _place_of(x: list[float], label: Any) -> int:
    """Return what stands for a row's place: a number made of its contents, 63 bits."""
    text = repr((x, label)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


class ChunksToRows(beam.PTransform[pvalue.PCollection[Any], pvalue.PCollection[Any]]):
    """Take chunks apart into `beam.Row`s with a schema: for SQL, BigQuery, Iceberg or YAML.

    Input: `tuple[str, Chunk]`, any output of `TrackSubspace`, `TrainLinear` or `ScoreRows`.
    Output: `beam.Row` with `model_id` and the schema's other columns but `source` and `row`, which
    say where in a file a row was: times are `Timestamp`s, features lists of numbers.

    Args:
        schema: That of the chunks: `features_schema`, `predictions_schema`, `episodes_schema` and
            others of `transforms.write.schemas`.
    """

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__()
        self._schema = pa.schema([field for field in schema if field.name not in _PLACES])

    def expand(self, chunks: pvalue.PCollection[Any]) -> pvalue.PCollection[Any]:
        """Apply the transform."""
        check_collection("features", chunks)
        fields = [(field.name, _type_of(field.type)) for field in self._schema]
        kind = row_type.RowTypeConstraint.from_fields(fields)
        rows: pvalue.PCollection[Any] = chunks | "TakeApart" >> beam.FlatMap(
            _rows_of, self._schema
        ).with_output_types(kind)
        return rows


_PLACES = ("source", "row")


def _rows_of(element: tuple[str, Chunk], schema: pa.Schema) -> Iterator[beam.Row]:
    model, batch = element[0], element[1].batch
    names = [field.name for field in schema]
    columns: list[list[Any]] = []
    for field in schema:
        if field.name == "model_id":
            columns.append([model] * batch.num_rows)
        elif pa.types.is_timestamp(field.type):
            times = batch.column(field.name).cast(pa.int64()).to_pylist()
            columns.append([None if at is None else Timestamp(micros=at // 1000) for at in times])
        else:
            columns.append(batch.column(field.name).to_pylist())
    for values in zip(*columns, strict=True):
        yield beam.Row(**dict(zip(names, values, strict=True)))


def _type_of(kind: pa.DataType) -> Any:
    """Return the type of a field of rows."""
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return Sequence[_type_of(kind.value_type)]  # type: ignore[misc]
    if pa.types.is_floating(kind):
        return Optional[float]  # noqa: UP045 - Beam's schemas know this form alone
    if pa.types.is_integer(kind):
        return Optional[np.int64]  # noqa: UP045
    if pa.types.is_boolean(kind):
        return Optional[bool]  # noqa: UP045
    if pa.types.is_timestamp(kind):
        return Optional[Timestamp]  # noqa: UP045
    if pa.types.is_string(kind):
        return Optional[str]  # noqa: UP045
    raise ConfigError("schema", str(kind), "columns of numbers, texts, times and lists of numbers")
