"""Chunks of output as messages: JSON or Arrow, a model's rows under its id."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.errors import ConfigError
from transforms.chunks import Chunk, encode_batch
from transforms.kafka.commands import command_of
from transforms.kafka.gather import Outgoing
from transforms.kafka.messages import OUTPUT_FORMATS, offset_and_place
from transforms.write.schemas import TIME

MOST_BYTES = 900_000
"""Longest message: brokers and clients take a million bytes unless told otherwise."""

PLACE_FIELDS = (
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("place", pa.int32()),
)
"""Where in the input topic a row came from."""


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

    Args:
        schema: Columns of the rows, `model_id` first.
        form: "json", a list of objects, or "arrow", an IPC stream.

    Raises:
        ConfigError: for an unknown form.
    """

    def __init__(self, schema: pa.Schema, form: str) -> None:
        """Keep the arguments; see the class."""
        if form not in OUTPUT_FORMATS:
            raise ConfigError("form", form, f"one of {', '.join(OUTPUT_FORMATS)}")
        self._schema = schema
        self._form = form

    def process(self, element: tuple[str, Chunk]) -> Iterator[Outgoing]:
        """Yield the chunk's messages; a command is none."""
        key, chunk = element
        if command_of(chunk) is not None:
            return
        batch = rows_of(key, chunk, self._schema)
        for value in self._values(batch):
            yield key.encode("utf-8"), value, []

    def _values(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        value = encode_batch(batch) if self._form == "arrow" else to_json(batch)
        if len(value) <= MOST_BYTES or batch.num_rows == 1:
            yield value
            return
        half = batch.num_rows // 2
        yield from self._values(batch.slice(0, half))
        yield from self._values(batch.slice(half))


def rows_of(model_id: str, chunk: Chunk, schema: pa.Schema) -> pa.RecordBatch:
    """Return a chunk's rows with the columns of a schema."""
    columns: list[Any] = []
    place: dict[str, Any] = {}
    if chunk.has("row"):
        offset, at = offset_and_place(chunk.column("row"))
        place = {"partition": chunk.column("source"), "offset": offset, "place": at}
    for field in schema:
        if field.name == "model_id":
            columns.append(pa.array([model_id] * len(chunk), pa.string()))
        elif field.name in place:
            columns.append(pa.array(place[field.name]).cast(field.type))
        else:
            columns.append(chunk.batch.column(field.name).cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def to_json(batch: pa.RecordBatch) -> bytes:
    """Write rows as a list of objects.

    Reals come back as they were, bit for bit; what is not finite is null. Times are ISO 8601
    with all nine digits.
    """
    columns: dict[str, list[Any]] = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if field.type == TIME:
            # Arrow writes the zone as Z, and a space before the clock.
            texts = pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
            columns[field.name] = texts.to_pylist()
        elif pa.types.is_floating(field.type):
            columns[field.name] = pc.if_else(pc.is_finite(column), column, None).to_pylist()
        else:
            columns[field.name] = column.to_pylist()
    names = list(columns)
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
