"""Messages of Protobuf by the schemas of a registry, whose calls are served here."""

from __future__ import annotations

import base64
import math
import pickle
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parts import examples
from tests.stream.conftest import Answer, Served
from tests.stream.test_messages import columns, message, rows_of
from transforms.kafka.gather import Gathering
from transforms.kafka.messages import BadMessageError, records_of
from transforms.kafka.protobuf_by_schema import parse, read
from transforms.kafka.read import GatherFn
from transforms.kafka.schema_registry import SchemaRegistry
from transforms.read.matrix import Feature

FORM = "confluent-protobuf"
QUERY = "?format=serialized"
SECONDS, NANOS = 1_600_000_000, 123_456_789
TYPES = {
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "float": FieldDescriptorProto.TYPE_FLOAT,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
    "sint32": FieldDescriptorProto.TYPE_SINT32,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
}


def field(number: int, name: str, kind: str, **more: Any) -> FieldDescriptorProto:
    """Describe a field; a type that begins with a point is a message's, with "=" an enum's."""
    made = FieldDescriptorProto(name=name, number=number, label=1)
    if kind in TYPES:
        made.type = TYPES[kind]
    else:
        enum = kind.startswith("=")
        made.type = FieldDescriptorProto.TYPE_ENUM if enum else FieldDescriptorProto.TYPE_MESSAGE
        made.type_name = kind.removeprefix("=")
    made.MergeFrom(FieldDescriptorProto(**more))
    return made


REPEATED = FieldDescriptorProto.LABEL_REPEATED


def timed(name: str, *fields: FieldDescriptorProto, **more: Any) -> DescriptorProto:
    own = [field(1, "time", ".google.protobuf.Timestamp"), *fields]
    return DescriptorProto(name=name, field=own, **more)


def file(*types: DescriptorProto, **more: Any) -> FileDescriptorProto:
    given = {"name": "x.proto", "syntax": "proto3", "package": "plant", **more}
    given.setdefault("dependency", ["google/protobuf/timestamp.proto"])
    return FileDescriptorProto(message_type=types, **given)


PLAIN = file(timed("Row", field(2, "a", "double"), field(3, "b", "double")))


def text(content: FileDescriptorProto) -> str:
    return base64.b64encode(content.SerializeToString()).decode()


def schema(content: FileDescriptorProto, **more: Any) -> Answer:
    return 200, {"schemaType": "PROTOBUF", "schema": text(content), **more}


def types_of(content: FileDescriptorProto, *others: FileDescriptorProto) -> dict[str, Any]:
    """Make the classes that a sender has, by the names of their types, in a pool of their own."""
    pool = descriptor_pool.DescriptorPool()
    for name in ("timestamp", "wrappers", "duration"):
        known = __import__(f"google.protobuf.{name}_pb2", fromlist=["DESCRIPTOR"])
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    for each in (*others, content):
        pool.Add(each)
    made = message_factory.GetMessageClassesForFiles([content.name], pool)
    return {name.removeprefix("plant."): kind for name, kind in made.items()}


def bytes_of(number: int, value: Any, places: bytes = b"\0") -> bytes:
    own: bytes = value.SerializeToString()
    return b"\0" + number.to_bytes(4, "big") + places + own


def row(kind: Any, at: int, **more: Any) -> Any:
    return kind(time={"seconds": SECONDS + at, "nanos": NANOS}, **more)


def test_rows_are_read_by_the_schema_that_they_name(served: Served) -> None:
    # The field's number moved and a type came first; the order is not that of the names.
    newer = file(
        timed("Zero"),
        timed("Newer", field(7, "a", "float"), field(3, "b", "sint32")),
        timed("Between"),
    )
    served[f"/schemas/ids/7{QUERY}"], served[f"/schemas/ids/300{QUERY}"] = (
        schema(PLAIN),
        schema(newer),
    )
    plain, new = types_of(PLAIN)["Row"], types_of(newer)["Newer"]
    registry = SchemaRegistry({"url": served.url}, FORM)
    gathering = Gathering(columns(label=None), FORM, "rows", registry.read)
    sent = [
        bytes_of(7, row(plain, 0, a=1 / 3, b=-1e-300)),
        bytes_of(300, row(new, 1, a=0.1, b=-5), b"\x02\x02"),
        # The first type by its number, instead of 0 alone; numbers that are 0 are not sent.
        bytes_of(7, row(plain, 2), b"\x02\x00"),
    ]
    for offset, value in enumerate(sent):
        gathering.add(message(value, offset))
    found = rows_of(gathering.chunks())
    assert list(gathering.dead_letters()) == []
    assert [each["time"] for each in found] == [
        (SECONDS + at) * 1_000_000_000 + NANOS for at in range(3)
    ]
    single = 0.10000000149011612
    assert [each["x"] for each in found] == [[1 / 3, -1e-300], [single, -5.0], [0.0, 0.0]]
    # Each schema is asked for once.
    assert sorted(path for path, _ in served.asked) == [
        f"/schemas/ids/{n}{QUERY}" for n in (300, 7)
    ]


def test_a_worker_reads_by_the_form_of_its_job(served: Served) -> None:
    served[f"/schemas/ids/7{QUERY}"] = schema(PLAIN)
    step = GatherFn(columns(label=None), FORM, None, registry={"url": served.url})
    step = pickle.loads(pickle.dumps(step))
    step.setup()
    step.start_bundle()
    record = SimpleNamespace(
        topic="rows", partition=0, offset=0, timestamp=5, key=b"m", value=GOOD, headers=[]
    )
    found = [*step.process(record, timestamp=0), *step.finish_bundle()]
    ((key, chunk),) = [each.value for each in found]
    assert (key, chunk.batch.column("x").to_pylist()) == ("m", [[1.0, 0.0]])


def test_types_in_types_are_found_by_their_places() -> None:
    inner = timed("Inner", field(2, "a", "double"))
    outer = timed("Outer", nested_type=[DescriptorProto(name="Other"), inner])
    content = file(DescriptorProto(name="First"), outer)
    sent = row(types_of(content)["Outer"].Inner, 0, a=2.5)
    found = read(parse([("7", text(content))]), b"\x04\x02\x02" + sent.SerializeToString())
    assert found == {"time": "2020-09-13T12:26:40.123456789Z", "a": 2.5}


EVERY = file(
    timed(
        "Row",
        field(2, "number", "int64"),
        field(3, "site", "string"),
        field(4, "on", "bool"),
        field(5, "raw", "bytes"),
        field(6, "state", "=.plant.State"),
        field(7, "load", ".google.protobuf.DoubleValue"),
        field(8, "name", ".google.protobuf.StringValue"),
        field(9, "axes", "double", label=REPEATED),
        field(10, "states", "=.plant.State", label=REPEATED),
        field(11, "loads", ".google.protobuf.DoubleValue", label=REPEATED),
        field(12, "by_name", ".plant.Row.ByNameEntry", label=REPEATED),
        field(13, "place", ".plant.Place"),
        field(14, "places", ".plant.Place", label=REPEATED),
        field(15, "maybe", "double", oneof_index=1, proto3_optional=True),
        field(16, "left", "double", oneof_index=0),
        field(17, "right", "string", oneof_index=0),
        field(18, "lasting", ".google.protobuf.Duration"),
        field(19, "large", "uint64"),
        nested_type=[
            DescriptorProto(
                name="ByNameEntry",
                field=[field(1, "key", "string"), field(2, "value", "double")],
                options=descriptor_pb2.MessageOptions(map_entry=True),
            )
        ],
        oneof_decl=[
            descriptor_pb2.OneofDescriptorProto(name="side"),
            descriptor_pb2.OneofDescriptorProto(name="_maybe"),
        ],
    ),
    DescriptorProto(name="Place", field=[field(1, "x", "double")]),
    enum_type=[
        descriptor_pb2.EnumDescriptorProto(
            name="State",
            value=[
                descriptor_pb2.EnumValueDescriptorProto(name="IDLE", number=0),
                descriptor_pb2.EnumValueDescriptorProto(name="BUSY", number=3),
            ],
        )
    ],
    dependency=[f"google/protobuf/{name}.proto" for name in ("timestamp", "wrappers", "duration")],
)
SET = {
    "number": -(2**62),
    "site": "Süd",
    "on": True,
    "raw": b"\xff",
    "state": 3,
    "load": {"value": 0.0},
    "name": {"value": ""},
    "axes": [1.5, math.inf],
    "states": [3, 0, 9],
    "loads": [{"value": 1.0}, {}],
    "by_name": {"x": 1.0},
    "place": {"x": 1.0},
    "places": [{"x": 1.0}, {}],
    "maybe": 0.0,
    "right": "r",
    "lasting": {"seconds": 1},
    "large": 2**64 - 1,
}
TAKEN = {
    "time": "2020-09-13T12:26:40.123456789Z",
    **SET,
    "state": "BUSY",
    "load": 0.0,
    "name": "",
    # 9 is a state that the schema does not name.
    "states": ["BUSY", "IDLE", 9],
    "loads": [1.0, 0.0],
    "by_name": {},
    "place": {},
    "places": [{}, {}],
    "left": None,
    "lasting": {},
}


def test_each_kind_of_field_is_taken_as_rows_take_it() -> None:
    kind = types_of(EVERY)["Row"]
    every = parse([("7", text(EVERY))])
    assert read(every, b"\0" + row(kind, 0, **SET).SerializeToString()) == TAKEN
    # What can say that it is not set is null, what cannot is nothing of its kind.
    nothing: dict[str, Any] = dict.fromkeys(TAKEN)
    nothing.update(number=0, site="", on=False, raw=b"", state="IDLE", large=0, by_name={})
    nothing.update(axes=[], states=[], loads=[], places=[])
    assert read(every, b"\0") == nothing


def test_fields_of_the_second_syntax_may_be_missing() -> None:
    older = file(
        timed(
            "Row",
            field(2, "a", "double", label=FieldDescriptorProto.LABEL_REQUIRED),
            field(3, "b", "double", default_value="4"),
        ),
        syntax="proto2",
    )
    assert read(parse([("7", text(older))]), b"\0") == {"time": None, "a": None, "b": None}


@cache
def every_type() -> Any:
    return types_of(EVERY)


@cache
def every_parsed() -> Any:
    return parse([("7", text(EVERY))])


@given(
    st.lists(st.floats(width=64), max_size=5),
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=5),
    st.sampled_from([0, 3]),
)
@settings(max_examples=examples(50))
def test_values_are_those_of_the_json_mapping(
    axes: list[float], number: int, site: str, state: int
) -> None:
    """Of the kinds that rows take, but for numbers as texts, as which JSON keeps large ones."""
    sent = row(every_type()["Row"], 0, axes=axes, number=number, site=site, state=state)
    found = read(every_parsed(), b"\0" + sent.SerializeToString())
    reported = MessageToDict(sent, always_print_fields_with_no_presence=True)
    assert [float(value) for value in reported["axes"]] == pytest.approx(found["axes"], nan_ok=True)
    assert (int(reported["number"]), reported["site"]) == (found["number"], found["site"])
    assert (reported["state"], reported["time"]) == (found["state"], found["time"])


def test_named_fields_that_no_row_takes_are_refused_by_name(served: Served) -> None:
    served[f"/schemas/ids/7{QUERY}"] = schema(EVERY)
    kind = types_of(EVERY)["Row"]
    value = bytes_of(7, row(kind, 0, **SET))
    reasons = {}
    for name, width in (("load", None), ("place", None), ("by_name", 2), ("site", None)):
        named = columns(label=None, features=(Feature(name, width),))
        gathering = Gathering(named, FORM, "rows", SchemaRegistry({"url": served.url}, FORM).read)
        gathering.add(message(value))
        rows = rows_of(gathering.chunks())
        reasons[name] = [
            dict(headers)["reason"].decode() for _, _, headers in gathering.dead_letters()
        ]
        assert len(rows) + len(reasons[name]) == 1
    assert reasons == {
        "load": [],
        "place": ["place = a dict: not a number"],
        "by_name": ["by_name = a dict: not a list of 2 numbers"],
        "site": ["site = 'Süd': not a number"],
    }


def test_schemas_that_refer_to_others_are_read(served: Served) -> None:
    """The imported one imports in its turn; the registry's own file of options is nobody's."""
    unit = FileDescriptorProto(
        name="plant/unit.proto",
        syntax="proto3",
        package="plant",
        message_type=[DescriptorProto(name="Unit", field=[field(1, "scale", "double")])],
    )
    place = FileDescriptorProto(
        name="plant/place.proto",
        syntax="proto3",
        package="plant",
        dependency=["plant/unit.proto"],
        message_type=[DescriptorProto(name="Place", field=[field(1, "unit", ".plant.Unit")])],
    )
    content = file(
        timed("Row", field(2, "a", "double"), field(3, "place", ".plant.Place")),
        dependency=["google/protobuf/timestamp.proto", "plant/place.proto"],
    )
    kind = types_of(content, unit, place)["Row"]
    reported = FileDescriptorProto.FromString(content.SerializeToString())
    reported.dependency.append("confluent/meta.proto")
    units = {"name": "plant/unit.proto", "subject": "unit value", "version": 1}
    places = {"name": "plant/place.proto", "subject": "place", "version": 4}
    served[f"/schemas/ids/9{QUERY}"] = schema(reported, references=[places, units])
    # As registries name them, which is not what others import them by.
    unit.name = place.name = "default"
    served[f"/subjects/place/versions/4{QUERY}"] = schema(place, references=[units])
    served[f"/subjects/unit%20value/versions/1{QUERY}"] = schema(unit)
    registry = SchemaRegistry({"url": served.url}, FORM)
    found = registry.read(bytes_of(9, row(kind, 0, a=1.5, place={"unit": {"scale": 2.0}})))
    assert (found["a"], found["place"]) == (1.5, {})
    assert len(served.asked) == 3


GOOD = bytes_of(7, row(types_of(PLAIN)["Row"], 0, a=1.0))
NO_TIME = bytes_of(7, types_of(PLAIN)["Row"](time={"seconds": 2**62}))
NO_NANOS = bytes_of(7, types_of(PLAIN)["Row"](time={"nanos": -1}))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "no zero byte and schema number at its begin"),
        (b'{"a": 1}', "no zero byte and schema number at its begin"),
        (GOOD[:5], "it ends before it says which message type it has"),
        (GOOD[:5] + b"\x04\x00", "it ends before it says which message type it has"),
        (GOOD[:5] + b"\xff" * 20, "no message type behind its schema's number"),
        (GOOD[:5] + b"\x02\x02", "its schema has no message type at [1]"),
        (GOOD[:5] + b"\x02\x01", "its schema has no message type at [-1]"),
        (GOOD[:5] + b"\x04\x00\x00", "its schema has no message type at [0, 0]"),
        (GOOD[:5] + b"\x01", "-1 places of its message type: must be 0 to 100"),
        (GOOD[:5] + b"\xfe\xff\x7f", "1048575 places of its message type: must be 0 to 100"),
        (GOOD[:-1], "not what its schema says: "),
        (GOOD + b"\x0b" * 1000, "not what its schema says: "),
        (NO_TIME, "4611686018427387904 seconds and 0 nanoseconds: no time"),
        (NO_NANOS, "0 seconds and -1 nanoseconds: no time"),
        (b"\0\0\0\0\x05\0", "schema 5 is not in the registry"),
        (b"\0\0\0\0\x06\0", "schema 6 is one of AVRO: must be PROTOBUF"),
        (b"\0\0\0\0\x08\0", "schema 8 is not in serialized form: the registry must know ?format"),
        (b"\0\0\0\0\x09\0", "schema 9 is no schema of Protobuf: "),
        (b"\0\0\0\0\x0a\0", "schema 10 is no schema of Protobuf: "),
    ],
)
def test_other_bytes_are_dead_letters(served: Served, value: bytes, reason: str) -> None:
    served[f"/schemas/ids/7{QUERY}"] = schema(PLAIN)
    served[f"/schemas/ids/6{QUERY}"] = 200, {"schema": '"string"'}
    served[f"/schemas/ids/8{QUERY}"] = (
        200,
        {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3";'},
    )
    served[f"/schemas/ids/9{QUERY}"] = schema(file(timed("Row", field(2, "a", ".no.Such"))))
    lost = file(timed("Row"), dependency=["google/protobuf/nothing.proto"])
    served[f"/schemas/ids/10{QUERY}"] = schema(lost)
    registry = SchemaRegistry({"url": served.url}, FORM)
    gathering = Gathering(columns(label=None), FORM, "rows", registry.read)
    gathering.add(message(value))
    gathering.add(message(GOOD, 1))
    assert len(rows_of(gathering.chunks())) == 1
    ((_, letter, headers),) = gathering.dead_letters()
    assert letter == value
    assert dict(headers)["reason"].decode().startswith(reason)


@given(st.binary(max_size=60))
@settings(max_examples=examples(300))
def test_no_bytes_raise_anything_else(value: bytes) -> None:
    every = parse([("7", text(EVERY))])
    try:
        ((found),) = records_of(value, FORM, lambda body: read(every, body))
    except BadMessageError:
        return
    assert found.keys() == TAKEN.keys()
