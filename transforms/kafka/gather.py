"""The rows of a bundle's messages, gathered: chunks by model, and dead letters.

State is read and written once for each element of the keyed step, so rows that come one by one
are put together per model before it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import fit, shorten
from transforms.chunks import Chunk, chunk_from, few_each, pieces
from transforms.kafka.formats import MESSAGE_KEY, RECORD_TIME
from transforms.kafka.messages import (
    BadMessageError,
    Message,
    batch_of,
    position,
    read_json,
    records_of,
    refused_rows,
)
from transforms.metrics import count
from transforms.read.columns import ROLE_ALLOWED, Columns
from transforms.read.files import by_model, chunks_of
from transforms.read.formats.base import PieceRows
from transforms.read.kinds import is_feature, is_text
from transforms.read.matrix import Feature
from transforms.read.parse import ParsedRows, parse

MOST_REASONS = 100
"""Rows of one message whose reasons its dead letter tells."""

READ_TOGETHER = 256
"""Messages in JSON that are read together at most: one that is none lets each be read by itself."""

NO_ROW = -1
NOT_IN_KAFKA = "; not in Kafka"
"""The end of a reason where the message itself could not be had any more."""

Outgoing = tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]
"""Key, value and headers of a message to be sent."""


class _LocalTime(datetime):
    """Stands for the type of times without a zone, as Avro has them beside those with one."""


_KINDS = {
    "model_id": {str: pa.string(), int: pa.int64()},
    "time": {
        int: pa.int64(),
        float: pa.float64(),
        str: pa.string(),
        datetime: pa.timestamp("ns", "UTC"),
        _LocalTime: pa.timestamp("ns"),
        date: pa.date32(),
    },
    "time_of_day": {str: pa.string(), int: pa.int64(), time: pa.time64("us")},
    "sequence": {int: pa.int64(), float: pa.float64()},
    "label": {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()},
}
"""Arrow's type for values of a record's field: each of them is read by itself, whatever values
are beside it in the bundle."""

_TEXTS = {
    "model_id": "a text or a whole number",
    "time": "a time, a number or a text",
    "time_of_day": "a time of day, a whole number or a text",
    "sequence": "a whole number",
    "label": "a text or a number",
    "metric": "a text or a whole number",
    "value": "a number, or a text that is one",
}


class Reason(NamedTuple):
    """Why a row of a message is refused; place -1: the message as a whole."""

    place: int
    text: str


@dataclass
class _MessageGroup:
    """Rows whose fields are of the same types: batches, or records.

    Attributes:
        batches: The rows of a message each.
        records: A row each.
        messages: Number of each one's message.
        places: Place of each record in its message.
    """

    batches: list[pa.RecordBatch] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    def origins(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the number of each row's message, and its place there."""
        messages = np.array(self.messages, dtype=np.int64)
        if not self.batches:
            return messages, np.array(self.places, dtype=np.int64)
        counts = np.array([batch.num_rows for batch in self.batches])
        begins = np.cumsum(counts) - counts
        places = np.arange(counts.sum()) - np.repeat(begins, counts)
        return np.repeat(messages, counts), places


class Gathering:
    """Gathers messages, then gives their rows.

    Args:
        columns: What each field of a row is; `MESSAGE_KEY` and `RECORD_TIME` stand for the
            message's own.
        form: How messages are written, one of `messages.INPUT_FORMATS`.
        counted_as: What the counters call the rows: "rows" gives rows_read and rows_failed.
        registered: Reads a message by the schema that a registry has.
    """

    def __init__(
        self,
        columns: Columns,
        form: str,
        counted_as: str = "rows",
        registered: Callable[[bytes], Any] | None = None,
    ) -> None:
        self._counted_as = counted_as
        self._columns = columns
        self._form = form
        self._registered = registered
        named = {
            "model_id": columns.model_id,
            "time": columns.time,
            "time_of_day": columns.time_of_day,
            "sequence": columns.sequence,
            "label": columns.label,
        }
        own = (MESSAGE_KEY, RECORD_TIME)
        self._roles = {role: name for role, name in named.items() if name and name not in own}
        self._nulls = frozenset(columns.null_texts)
        self._messages: list[Message] = []
        self._groups: dict[Any, _MessageGroup] = {}
        self._reasons: dict[int, list[Reason]] = {}
        self._rows = 0
        # How many messages have been read: those in JSON are read together.
        self._read = 0
        self.bytes = 0

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self._messages)

    @property
    def rows(self) -> int:
        """How many rows the messages have; those that have not been read one each."""
        return self._rows + len(self._messages) - self._read

    def add(self, message: Message) -> None:
        """Take a message in. Whatever its bytes are, nothing is raised.

        Raises:
            DataError: if its schema's registry cannot be asked.
        """
        self._messages.append(message)
        self.bytes += len(message.value or b"")
        if self._form != "json":
            self._read_next()
        elif len(self._messages) - self._read >= READ_TOGETHER:
            self._read_together()

    def _read_together(self) -> None:
        """Read messages in JSON: if all are a row each, of the same types, in one go."""
        begin = self._read
        values: list[Any] = [message.value for message in self._messages[begin:]]
        try:
            records: list[Any] = [*map(read_json, values)]
        # Its own errors, Unicode's, recursion's, that of a tombstone.
        except Exception:
            records = []
        key = self._common_types(records)
        if key is None:
            while self._read < len(self._messages):
                self._read_next()
            return
        group = self._groups.setdefault(key, _MessageGroup())
        group.records += records
        group.messages += range(begin, begin + len(records))
        group.places += itertools.repeat(0, len(records))
        self._rows += len(records)
        self._read += len(records)

    def _common_types(self, records: Sequence[Any]) -> tuple[type, ...] | None:
        """Return the types of the fields of records; None where these are not the same for all."""
        if {*map(type, records)} != {dict}:
            return None
        key: list[type] = []
        for role, name in self._roles.items():
            kinds = {type(record.get(name)) for record in records}
            if len(kinds) > 1 or not kinds <= {type(None), *_KINDS[role]}:
                return None
            key += kinds
        return tuple(key)

    def _read_next(self) -> None:
        """Read one message."""
        number, message = self._read, self._messages[self._read]
        self._read += 1
        try:
            if self._form == "arrow":
                self._add_batch(number, batch_of(message.value))
            else:
                self._add_records(number, records_of(message.value, self._form, self._registered))
        except BadMessageError as error:
            self._refuse(number, NO_ROW, str(error))
            self._rows += 1

    def chunks(self) -> Iterator[tuple[str, Chunk]]:
        """Yield the good rows of all messages, by model; to be called once."""
        self._read_together()
        parsed: list[ParsedRows] = []
        # Rows between those of a group may be in another.
        merge = len(self._groups) == 1
        for group in self._groups.values():
            batch, messages, places = self._typed(group)
            if not len(messages):
                continue
            rows = position(self._of(messages, "offset"), places)
            sources = self._of(messages, "partition").astype(np.int32)
            good, failed = parse(PieceRows(batch, rows), sources, self._columns, merge=merge)
            parsed.append(good)
            good.local.add_to_counters(self._counted_as)
            good.merged.add_to_counters(self._counted_as)
            if failed.batch.num_rows:
                self._refuse_rows(failed.batch, group)
        count("messages_read", len(self._messages))
        count(f"{self._counted_as}_read", self.rows)
        good_rows = sum(len(part) + part.merged.rows + part.merged.unnamed for part in parsed)
        count(f"{self._counted_as}_failed", self.rows - good_rows)
        parsed = [part for part in parsed if len(part)]
        if parsed:
            yield from _by_model(parsed, self._columns)

    def dead_letters(self) -> Iterator[Outgoing]:
        """Yield the messages of which something was refused; to be called after `chunks`."""
        count("dead_letters", len(self._reasons))
        for number in sorted(self._reasons):
            reasons = sorted(self._reasons[number])
            yield dead_letter(self._messages[number], reasons)

    def _add_batch(self, number: int, batch: pa.RecordBatch) -> None:
        arrays, names = [], []
        for role, name in [*self._roles.items(), *self._cells()]:
            array = _only_column(batch, name)
            if not ROLE_ALLOWED[role](array.type):
                raise BadMessageError(f"{name} is {array.type}: not {_TEXTS[role]}")
            arrays.append(array)
            names.append(name)
        for feature in self._columns.features:
            array = _only_column(batch, feature.name)
            width = array.type.list_size if pa.types.is_fixed_size_list(array.type) else None
            numbers = feature.numbers
            fits = is_feature(array.type) if numbers is None else is_text(array.type)
            fits |= numbers is not None and numbers.are_names and is_feature(array.type)
            if not fits or width != feature.width:
                raise BadMessageError(f"{feature.name} is {array.type}: not {_numbers(feature)}")
            arrays.append(array)
            names.append(feature.name)
        batch = pa.RecordBatch.from_arrays(arrays, names)
        key: tuple[Any, ...] = tuple(str(array.type) for array in arrays)
        # Batches with dictionaries of their own cannot be joined as they are.
        if any(pa.types.is_dictionary(array.type) for array in arrays):
            key = (number, *key)
        group = self._groups.setdefault(key, _MessageGroup())
        group.batches.append(batch)
        group.messages.append(number)
        self._rows += batch.num_rows

    def _cells(self) -> list[tuple[str, str]]:
        """Return the columns of metrics and values, of a long table."""
        table = self._columns.long
        return [] if table is None else [("metric", table.metric), ("value", table.value)]

    def _add_records(self, number: int, records: Sequence[Any]) -> None:
        roles = list(self._roles.items())
        self._rows += len(records)
        for place, record in enumerate(records):
            if not isinstance(record, dict):
                self._refuse(number, place, f"{_shown(record)}: not an object with fields")
                continue
            kinds = []
            for role, name in roles:
                value = record.get(name)
                kind = _type_of(value)
                if value is not None and kind not in _KINDS[role]:
                    self._refuse(number, place, f"{name} = {_shown(value)}: not {_TEXTS[role]}")
                    break
                kinds.append(kind)
            else:
                group = self._groups.get(tuple(kinds))
                if group is None:
                    group = self._groups[tuple(kinds)] = _MessageGroup()
                group.records.append(record)
                group.messages.append(number)
                group.places.append(place)

    def _typed(
        self, group: _MessageGroup
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return a group's rows with all columns, and where they came from."""
        messages, places = group.origins()
        if group.batches:
            joined = pa.concat_batches(group.batches)
            columns = dict(zip(joined.schema.names, joined.columns, strict=True))
        else:
            columns, bad = self._columns_of(group.records)
            for row, text in bad.items():
                self._refuse(group.messages[row], group.places[row], text)
            if bad:
                keep = np.ones(len(messages), dtype=bool)
                keep[list(bad)] = False
                columns = {name: array.filter(pa.array(keep)) for name, array in columns.items()}
                messages, places = messages[keep], places[keep]
        if self._columns.model_id == MESSAGE_KEY:
            # Each key is looked at once, not once a row.
            keys = pa.array([message.key for message in self._messages], pa.binary())
            keys = keys.dictionary_encode()
            codes = keys.indices.take(pa.array(messages))
            columns[MESSAGE_KEY] = pa.DictionaryArray.from_arrays(codes, keys.dictionary)
        if self._columns.time == RECORD_TIME:
            times = self._of(messages, "timestamp")
            columns[RECORD_TIME] = pa.array(times, mask=times < 0).cast(pa.timestamp("ms", "UTC"))
        return pa.RecordBatch.from_pydict(columns), messages, places

    def _columns_of(
        self, records: Sequence[dict[str, Any]]
    ) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """Return the fields of records as columns, and the rows of which one does not fit."""
        columns: dict[str, pa.Array] = {}
        bad: dict[int, str] = {}
        for role, name in self._roles.items():
            kind = _KINDS[role].get(_type_of(records[0].get(name)), pa.string())
            values = [record.get(name) for record in records]
            columns[name] = _column(name, values, kind, bad, _TEXTS[role])
        for role, name in self._cells():
            own = [record.get(name) for record in records]
            make = _metrics if role == "metric" else self._values_column
            columns[name] = make(name, own, bad)
        for feature in self._columns.features:
            kind = pa.float64() if feature.numbers is None else pa.string()
            if feature.width is not None:
                kind = pa.list_(kind, feature.width)
            values = [record.get(feature.name) for record in records]
            if self._columns.null_texts:
                values = [None if _is_one(value, self._nulls) else value for value in values]
            if feature.numbers is not None and feature.numbers.are_names:
                columns[feature.name] = _value_texts(feature.name, values, bad)
                continue
            columns[feature.name] = _column(feature.name, values, kind, bad, _numbers(feature))
        return columns, bad

    def _values_column(self, name: str, values: list[Any], bad: dict[int, str]) -> pa.Array:
        """Make the column of a long table's values.

        Where a metric is two words, or has a unit, a number is none of its values, whatever else
        the bundle holds: all are texts then.
        """
        table = self._columns.long
        if table is None or not table.own:
            try:
                return pa.array(values, pa.float64())
            except _MISFITS:
                pass
        return _value_texts(name, values, bad)

    def _of(self, messages: npt.NDArray[np.int64], name: str) -> npt.NDArray[np.int64]:
        values = np.array([getattr(message, name) for message in self._messages], dtype=np.int64)
        taken: npt.NDArray[np.int64] = values[messages]
        return taken

    def _refuse(self, number: int, place: int, text: str) -> None:
        self._reasons.setdefault(number, []).append(Reason(place, fit(text)))

    def _refuse_rows(self, failed: pa.RecordBatch, group: _MessageGroup) -> None:
        """Sort the failures of `parse` by their messages."""
        # Of batches there are none.
        places = zip(group.messages, group.places, strict=False)
        records = dict(zip(places, group.records, strict=True))
        where = {(m.partition, m.offset): number for number, m in enumerate(self._messages)}
        for partition, offset, place, text in refused_rows(failed):
            number = where[partition, offset]
            record = records.get((number, place))
            features = () if record is None else self._columns.features
            self._refuse(number, place, _missing(text, record or {}, features))


def _missing(reason: str, record: dict[str, Any], features: Sequence[Feature]) -> str:
    """Say of a feature that is missing what a column of numbers does not tell: NaN, null or none.

    Example:
        >>> _missing("a = nan: missing value", {"a": None}, [Feature("a")])
        'a = null: missing value'
        >>> _missing("v[0] = nan: missing value", {"a": 1.0}, [Feature("v", 2)])
        'v: no such field'
    """
    channel, found, _ = reason.rpartition(_NAN)
    for feature in features if found else ():
        whole = channel if feature.width is None else channel.rpartition("[")[0]
        if whole == feature.name:
            if feature.name not in record:
                return f"{feature.name}: no such field"
            return f"{channel} = null: missing value" if record[feature.name] is None else reason
    return reason


_NAN = " = nan: missing value"
"""How a reason of `parse` ends where a feature is missing."""


def _by_model(parsed: Sequence[ParsedRows], columns: Columns) -> Iterator[tuple[str, Chunk]]:
    """Yield rows, at least one, by model: as records if they are a few each."""
    batch, models, ends = by_model(parsed, columns)
    if few_each(ends[-1], len(ends)):
        found = pieces(Chunk(batch), ends)
        if columns.time is None:
            yield from zip(models, map(chunk_from, found), strict=True)
            return
        times = batch.column("time").to_numpy()
        # A model's rows are in order.
        firsts, lasts = times[[0, *ends[:-1]]], times[np.array(ends) - 1]
        spans = zip(firsts.tolist(), lasts.tolist(), strict=True)
        for model, piece, span in zip(models, found, spans, strict=True):
            yield model, chunk_from(piece, span)
    else:
        yield from chunks_of(batch, models, ends)


def dead_letter(message: Message, reasons: Sequence[Reason]) -> Outgoing:
    """Return a refused message as it is sent on: its own key and value, the rest in headers."""
    listed = [[reason.place, reason.text] for reason in reasons[:MOST_REASONS]]
    headers = {
        "topic": message.topic,
        "partition": str(message.partition),
        "offset": str(message.offset),
        "timestamp": str(message.timestamp),
        "reason": reasons[0].text,
        "refused": str(len(reasons)),
        "rows": json.dumps([line for line in listed if line[0] != NO_ROW]),
    }
    encoded = [(name, text.encode("utf-8", "replace")) for name, text in headers.items()]
    return message.key, message.value, encoded


def _type_of(value: Any) -> type:
    """Return a value's type as `_KINDS` names it."""
    local = isinstance(value, datetime) and value.tzinfo is None
    return _LocalTime if local else type(value)


def _shown(value: Any) -> str:
    """Write a value into a reason; what is nested may be so too deeply to be written."""
    return f"a {type(value).__name__}" if isinstance(value, dict | list) else shorten(value)


def _only_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    places = batch.schema.get_all_field_indices(name)
    if len(places) != 1:
        raise BadMessageError(f"{len(places)} columns are called {name}, one is needed")
    return batch.column(places[0])


def _is_one(value: Any, texts: frozenset[str]) -> bool:
    return isinstance(value, str) and value in texts


def _numbers(feature: Feature) -> str:
    numbers = feature.numbers
    if numbers is not None and numbers.are_names:
        return "a text or a number"
    if numbers is not None:
        words = " or ".join(map(repr, numbers.words))
        return f"a text: {words or f'a number in {numbers.unit}'}"
    return "a number" if feature.width is None else f"a list of {feature.width} numbers"


def _column(
    name: str, values: list[Any], kind: pa.DataType, bad: dict[int, str], allowed: str
) -> pa.Array:
    """Make a column; values that do not fit become null, and their rows are bad."""
    try:
        return pa.array(values, kind)
    except _MISFITS:
        pass
    good: list[Any] = []
    for row, value in enumerate(values):
        try:
            good.append(_plain(value, kind))
        except _MISFITS:
            good.append(None)
            bad.setdefault(row, f"{name} = {_shown(value)}: not {allowed}")
    return pa.array(good, kind)


def _metrics(name: str, values: list[Any], bad: dict[int, str]) -> pa.Array:
    """Make the column of a long table's metrics."""
    texts = [str(value) if type(value) is int else value for value in values]
    return _column(name, texts, pa.string(), bad, _TEXTS["metric"])


def _value_texts(name: str, values: list[Any], bad: dict[int, str]) -> pa.Array:
    """Make the column of a long table's values, all as texts."""
    texts: list[str | None] = []
    for row, value in enumerate(values):
        text = value if isinstance(value, str) else None
        if isinstance(value, bool):
            text = "true" if value else "false"
        elif isinstance(value, int | float):
            text = repr(value)
        elif value is not None and text is None:
            bad.setdefault(row, f"{name} = {_shown(value)}: not {_TEXTS['value']}")
        texts.append(text)
    return _column(name, texts, pa.string(), bad, _TEXTS["value"])


_MISFITS = (pa.ArrowException, ValueError, TypeError, OverflowError)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return a value that fits a type for sure.

    Raises:
        ValueError: or one of `_MISFITS` if it does not.
    """
    if value is None:
        return None
    if pa.types.is_fixed_size_list(kind):
        if not isinstance(value, list) or len(value) != kind.list_size:
            raise ValueError
        return [_plain(number, kind.value_type) for number in value]
    if pa.types.is_floating(kind):
        # Whole numbers over 2**53 are rounded, as a reader of doubles would.
        if not isinstance(value, int | float):
            raise TypeError
        return float(value)
    return pa.scalar(value, kind).as_py()
