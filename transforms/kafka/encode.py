"""Chunks of output as messages: JSON or Arrow, a model's rows under its id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import apache_beam as beam
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.utils.timestamp import MAX_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from kerneltrack.errors import ConfigError
from kerneltrack.monitor.likeness import named_channels
from transforms.chunks import Chunk, encode_batch
from transforms.global_window import IN_GLOBAL
from transforms.kafka.formats import OUTPUT_FORMATS
from transforms.kafka.gather import Outgoing
from transforms.kafka.messages import offset_and_place
from transforms.write.schemas import TIME

MOST_BYTES = 900_000
"""Longest message: brokers and clients take a million bytes unless told otherwise."""

MOST_HELD = 16_384
"""Rows of a bundle that are written together at most."""

PLACE_FIELDS = (
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("place", pa.int32()),
)
"""Where in the input topic a row came from."""

NAMED_CHANNELS = pa.field(
    "channels",
    pa.list_(
        pa.struct(
            [
                pa.field("channel", pa.string()),
                pa.field("share", pa.float64()),
                pa.field("deviation", pa.float64()),
            ]
        )
    ),
)
"""The largest shares of an episode, by the names of their channels, and their deviations."""


def placed_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of features with a message's place for a file's."""
    fields: list[pa.Field] = []
    for field in schema:
        if field.name == "source":
            fields.extend(PLACE_FIELDS)
        elif field.name != "row":
            fields.append(field)
    return pa.schema(fields)


class EncodeFn(beam.DoFn):
    """Turn `tuple[str, Chunk]` into messages; a chunk too long for one becomes several.

    The chunks of a bundle are written together: what Arrow and Python cost for each call is paid
    once, not once a model. Messages leave in the order of their chunks.

    Args:
        schema: Columns of the rows, `model_id` first.
        form: "json", a list of objects, or "arrow", an IPC stream.
        channels: Of episodes, names of the D channels: rows have the column `NAMED_CHANNELS`, too.

    Raises:
        ConfigError: for an unknown form.
    """

    def __init__(self, schema: pa.Schema, form: str, channels: Sequence[str] = ()) -> None:
        if form not in OUTPUT_FORMATS:
            raise ConfigError("form", form, f"one of {', '.join(OUTPUT_FORMATS)}")
        self._schema = schema
        self._form = form
        self._channels = tuple(channels)

    def start_bundle(self) -> None:
        """Begin without chunks."""
        self._pending: list[tuple[str, Chunk]] = []
        self._rows = 0
        self._earliest: Any = MAX_TIMESTAMP

    def process(
        self, element: tuple[str, Chunk], timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[WindowedValue]:
        """Take a chunk in."""
        if timestamp is not self._earliest:
            self._earliest = min(self._earliest, timestamp)
        for message in self.take(element):
            yield WindowedValue(message, self._earliest, IN_GLOBAL)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yield the messages of what is held."""
        for message in self.written():
            yield WindowedValue(message, self._earliest, IN_GLOBAL)

    def take(self, element: tuple[str, Chunk]) -> list[Outgoing]:
        """Take a chunk in; return messages of what is held no longer, nearly always none."""
        _, chunk = element
        done: list[Outgoing] = []
        if self._pending and not chunk.has_columns_of(self._pending[-1][1]):
            done = self.written()
        self._pending.append(element)
        self._rows += len(chunk)
        return [*done, *self.written()] if self._rows >= MOST_HELD else done

    def written(self) -> list[Outgoing]:
        """Return the messages of what is held, which is held no longer."""
        pending, self._pending, self._rows = self._pending, [], 0
        return list(messages_of(pending, self._schema, self._form, self._channels))


def messages_of(
    chunks: Sequence[tuple[str, Chunk]],
    schema: pa.Schema,
    form: str,
    channels: Sequence[str] = (),
) -> Iterator[Outgoing]:
    """Yield the messages of chunks of models, all with the same columns.

    Args:
        chunks: The chunks.
        schema: Columns of the rows, `model_id` first.
        form: As of `EncodeFn`.
        channels: As of `EncodeFn`.
    """
    if not chunks:
        return
    batch = rows_of(chunks, schema)
    if channels:
        parts = (batch.column(name).to_pylist() for name in ("shares", "deviations"))
        named = [
            named_channels(shares, deviations, channels)
            for shares, deviations in zip(*parts, strict=True)
        ]
        batch = batch.append_column(NAMED_CHANNELS, pa.array(named, NAMED_CHANNELS.type))
    records = None if form == "arrow" else records_of(batch)
    encode: Any = encode_batch if records is None else _ENCODER.encode
    start = 0
    for key, chunk in chunks:
        stop = start + len(chunk)
        encoded = key.encode("utf-8")
        rows = batch.slice(start, stop - start) if records is None else records[start:stop]
        value = encode(rows)
        if len(value) <= MOST_BYTES:
            yield encoded, value, []
        else:
            for part in _halved(rows, stop - start, encode):
                yield encoded, part, []
        start = stop


_ENCODER = msgspec.json.Encoder()


def _halved(rows: Any, count: int, encode: Any) -> Iterator[bytes]:
    """Yield rows as the message that `encode` makes, or as several where one is too long."""
    value = encode(rows)
    if len(value) <= MOST_BYTES or count == 1:
        yield value
        return
    half = count // 2
    yield from _halved(rows[:half], half, encode)
    yield from _halved(rows[half:], count - half, encode)


def rows_of(chunks: Sequence[tuple[str, Chunk]], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of chunks, all with the same columns, with the columns of a schema."""
    whole = Chunk.concat([chunk for _, chunk in chunks])
    columns: list[Any] = []
    place: dict[str, Any] = {}
    if whole.has("row"):
        offset, at = offset_and_place(whole.column("row"))
        place = {"partition": whole.column("source"), "offset": offset, "place": at}
    for field in schema:
        if field.name == "model_id":
            ids = pa.array([key for key, _ in chunks], pa.string())
            lengths = [len(chunk) for _, chunk in chunks]
            columns.append(ids.take(pa.array(np.repeat(np.arange(len(chunks)), lengths))))
        elif field.name in place:
            columns.append(pa.array(place[field.name]).cast(field.type))
        else:
            columns.append(whole.batch.column(field.name).cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def to_json(batch: pa.RecordBatch) -> bytes:
    """Write rows as a list of objects.

    Reals come back as they were, bit for bit; what is not finite is null. Times are ISO 8601
    with all nine digits.
    """
    return _ENCODER.encode(records_of(batch))


def records_of(batch: pa.RecordBatch) -> list[Any]:
    """Return rows as the objects that `to_json` writes; what is not finite is still there."""
    columns: list[list[Any]] = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if field.type == TIME:
            columns.append(_time_texts(column).to_pylist())
        else:
            columns.append(_plain(column))
    record = _record(tuple(batch.schema.names))
    return [record(*row) for row in zip(*columns, strict=True)]


def _time_texts(times: pa.Array) -> pa.Array:
    """Write times in UTC: with a zone Arrow takes twelve times as long."""
    texts = times.cast(pa.timestamp("ns")).cast(pa.string())
    # There is a space before the clock.
    clocked = pc.replace_substring(texts, " ", "T", max_replacements=1)
    return pc.binary_join_element_wise(clocked, "Z", "")


@lru_cache(maxsize=64)
def _record(names: tuple[str, ...]) -> type[msgspec.Struct]:
    """Return the type of rows with these columns: made, and written, faster than dictionaries."""
    fields = [f"column_{place}" for place in range(len(names))]
    written = dict(zip(fields, names, strict=True))
    return msgspec.defstruct("Record", fields, rename=written, gc=False)


def _plain(column: pa.Array) -> list[Any]:
    """Return `column.to_pylist()`: by NumPy where it holds numbers, many times as fast."""
    kind = column.type
    if pa.types.is_fixed_size_list(kind) and not column.null_count:
        values = _plain(column.flatten())
        width = kind.list_size
        return [values[at : at + width] for at in range(0, len(values), width)]
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) or kind == pa.float16():
        return list(column.to_pylist())
    if not column.null_count:
        return list(column.to_numpy().tolist())
    values = column.fill_null(0).to_numpy().tolist()
    for place in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
        values[place] = None
    return list(values)
