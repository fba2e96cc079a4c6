"""Avro's records by a schema that a registry has."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro

from kerneltrack.errors import one_line
from transforms.kafka.messages import BadMessageError

KIND = "AVRO"
QUERY = ""


def parse(texts: Sequence[tuple[str, str]]) -> Any:
    """Return the last of some schemas, which may refer to those before it.

    Args:
        texts: Name and text (JSON) of each.

    Raises:
        BadMessageError: for one that is no schema.
    """
    named: dict[str, Any] = {}
    for name, text in texts[:-1]:
        if name not in named:
            _parse(name, text, named)
    return _parse(*texts[-1], named)


def _parse(name: str, text: str, named: dict[str, Any]) -> Any:
    try:
        return fastavro.parse_schema(json.loads(text), named)
    except Exception as error:
        raise BadMessageError(f"schema {name} is no schema of Avro: {one_line(error)}") from error


def read(schema: Any, body: bytes) -> Any:
    """Read a record, or an array of them, in Avro's binary encoding.

    Raises:
        BadMessageError: if something is left over; fastavro's errors for other bytes.
    """
    stream = io.BytesIO(body)
    found = fastavro.schemaless_reader(stream, schema, None)
    if stream.tell() != len(body):
        raise BadMessageError(f"{len(body) - stream.tell()} bytes behind the record")
    return found
