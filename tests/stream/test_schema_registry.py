"""Messages by the schemas of a registry, whose two calls are served here."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from typing import Any

import fastavro
import pytest

from kerneltrack.errors import ConfigError, DataError
from tests.stream.conftest import Answer, Served
from tests.stream.test_messages import NAMES, columns, message, rows_of
from transforms.kafka.gather import Gathering
from transforms.kafka.messages import BadMessageError
from transforms.kafka.schema_registry import SchemaRegistry, check_settings

FIELDS = [
    {"name": "time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    *({"name": name, "type": "double"} for name in NAMES),
]
PLAIN = {"type": "record", "name": "Row", "fields": FIELDS}
MORE = {**PLAIN, "fields": [*FIELDS, {"name": "site", "type": ["null", "string"]}]}
MANY = {"type": "array", "items": PLAIN}
POINT = {
    "type": "record",
    "name": "plant.Point",
    "fields": [{"name": name, "type": "double"} for name in NAMES],
}
POINTED = {
    "type": "record",
    "name": "Pointed",
    "fields": [FIELDS[0], {"name": "at", "type": "plant.Point"}],
}
MICROSECONDS = 1_600_000_000_123_456


def schema(content: Any, **more: Any) -> Answer:
    return 200, {"schema": json.dumps(content), **more}


def bytes_of(number: int, content: Any, value: Any, named: Any = None) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(content, named or {}), value)
    return b"\0" + number.to_bytes(4, "big") + body.getvalue()


def row(at: int) -> dict[str, Any]:
    return {"time": MICROSECONDS + at, "a": at / 3, "b": -1e-300 * at}


def test_rows_are_read_by_the_schema_that_they_name(served: Served) -> None:
    served["/schemas/ids/7"], served["/schemas/ids/300"] = schema(PLAIN), schema(MORE)
    served["/schemas/ids/8"] = schema(MANY)
    registry = SchemaRegistry({"url": served.url + "/"}, "confluent-avro")
    gathering = Gathering(columns(label=None), "confluent-avro", "rows", registry.read)
    sent = [
        bytes_of(7, PLAIN, row(0)),
        bytes_of(300, MORE, {**row(1), "site": "north"}),
        bytes_of(8, MANY, [row(2), row(3)]),
        bytes_of(7, PLAIN, row(4)),
    ]
    for offset, value in enumerate(sent):
        gathering.add(message(value, offset))
    found = rows_of(gathering.chunks())
    assert list(gathering.dead_letters()) == []
    assert [each["time"] for each in found] == [(MICROSECONDS + at) * 1000 for at in range(5)]
    assert [each["x"] for each in found] == [[at / 3, -1e-300 * at] for at in range(5)]
    # Each schema is asked for once.
    assert sorted(path for path, _ in served.asked) == [f"/schemas/ids/{n}" for n in (300, 7, 8)]


def test_schemas_that_refer_to_others_are_read(served: Served) -> None:
    other = {"name": "plant.Point", "subject": "plant/Point", "version": 2}
    served["/schemas/ids/9"] = schema(POINTED, references=[other])
    served["/subjects/plant%2FPoint/versions/2"] = schema(POINT, id=4)
    named: dict[str, Any] = {}
    fastavro.parse_schema(POINT, named)
    value = {"time": MICROSECONDS, "at": {"a": 1.0, "b": 2.0}}
    registry = SchemaRegistry({"url": served.url}, "confluent-avro")
    found = registry.read(bytes_of(9, POINTED, value, named))
    assert found["at"] == {"a": 1.0, "b": 2.0}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "no zero byte and schema number at its begin"),
        (b'{"a": 1}', "no zero byte and schema number at its begin"),
        (b"\0\0\0\0\x05abc", "schema 5 is not in the registry"),
        (b"\0\0\0\0\x06abc", "schema 6 is one of PROTOBUF: must be AVRO"),
        (b"\0\0\0\0\x0aabc", "schema 10 is no schema of Avro: "),
        (bytes_of(7, PLAIN, row(0)) + b"x", "1 bytes behind the record"),
        (bytes_of(7, PLAIN, row(0))[:-1], "not what its schema says: "),
    ],
)
def test_other_bytes_are_dead_letters(served: Served, value: bytes, reason: str) -> None:
    served["/schemas/ids/7"] = schema(PLAIN)
    served["/schemas/ids/6"] = schema("syntax", schemaType="PROTOBUF")
    served["/schemas/ids/10"] = schema({"type": "no such"})
    registry = SchemaRegistry({"url": served.url}, "confluent-avro")
    gathering = Gathering(columns(label=None), "confluent-avro", "rows", registry.read)
    gathering.add(message(value))
    gathering.add(message(bytes_of(7, PLAIN, row(1)), 1))
    assert len(rows_of(gathering.chunks())) == 1
    ((_, letter, headers),) = gathering.dead_letters()
    assert letter == value
    assert dict(headers)["reason"].decode().startswith(reason)


def test_a_registry_that_does_not_answer_makes_rows_wait(served: Served) -> None:
    """Nothing is refused that may be good: the bundle fails, and is done again."""
    failures: list[Answer] = [(503, {}), (200, b"not JSON")]
    good: Callable[[], Answer] = lambda: failures.pop(0) if failures else schema(PLAIN)  # noqa: E731
    served["/schemas/ids/7"] = 200, good
    registry = SchemaRegistry({"url": served.url}, "confluent-avro")
    assert registry.read(bytes_of(7, PLAIN, row(0)))["a"] == 0.0
    assert len(served.asked) == 3
    served["/schemas/ids/11"] = 401, {}
    gathering = Gathering(columns(label=None), "confluent-avro", "rows", registry.read)
    with pytest.raises(DataError, match=r"ids/11: the schema registry does not answer: HTTP 401"):
        gathering.add(message(bytes_of(11, PLAIN, row(0))))
    gone = SchemaRegistry({"url": "http://127.0.0.1:9"}, "confluent-avro")
    with pytest.raises(DataError, match="the schema registry does not answer: "):
        gone.check()
    with pytest.raises(BadMessageError, match="not in the registry"):
        registry.read(bytes_of(12, PLAIN, row(0)))


def test_who_asks_is_said_by_a_secret(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_USER", "me:secret")
    registry = SchemaRegistry(
        {"url": served.url, "basic.auth.user.info": "${env:REGISTRY_USER}"}, "confluent-avro"
    )
    registry.check()
    word = base64.b64encode(b"me:secret").decode()
    assert served.asked == [("/schemas/types", f"Basic {word}")]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "--registry url = '': must be http"),
        ({"url": "registry:8081"}, "--registry url = 'registry:8081': must be http"),
        ({"url": "http://me:pw@registry"}, "must be no password"),
        (
            {"url": "http://registry", "pause": "3"},
            "--registry pause = '3': must be one of url",
        ),
    ],
)
def test_bad_settings_are_named(settings: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        check_settings(settings)
