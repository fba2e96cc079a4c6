"""Protobuf's messages by a schema that a registry has.

A registry gives a schema as a FileDescriptorProto (`?format=serialized`), so that no compiler is
needed. Its file may define several types: behind the schema's number a message says which is its
own, by the type's place in the file, and, of a nested one, in the type around it: how many numbers
there are and the numbers, as zigzag varints; 0 alone stands for the first type.

What a row takes of a message's own fields:

=============================  ====================================================
numbers, texts, booleans       themselves
an enum                        its name; the number of a value that it does not name
google.protobuf.Timestamp      the time as a text, in UTC, with nine digits
a wrapper (DoubleValue, ...)   the value that is wrapped
repeated                       a list of these
another message, a map         an object: refused where a number or a text is needed
=============================  ====================================================

A field that can say that it is not set (`optional`, a message, a member of a oneof, all of proto2)
is null then; a proto3 field that cannot is 0, empty or false, as the sender left it out for that.

Reference: Confluent, "Wire format", docs.confluent.io; "ProtoJSON Format", protobuf.dev.
"""

from __future__ import annotations

import base64
import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import Message

from kerneltrack.errors import one_line
from transforms.kafka.messages import BadMessageError

KIND = "PROTOBUF"
QUERY = "?format=serialized"

_COMMON = re.compile(r"google/protobuf/[a-z_]+\.proto")
"""Files that come with Protobuf itself: no schema refers to them as one of the registry's."""
_OPTIONS = "confluent/meta.proto"
"""A file of options, which the registry keeps to itself, and which rows do not need."""
_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_MOST_NESTED = 100
_VARINT_BITS = 63
_EPOCH = datetime(1970, 1, 1)
_SECOND = 1_000_000_000

Take = Callable[[Any], Any]
"""Makes a row's value of a field's."""


class Type(NamedTuple):
    """A type of messages.

    Attributes:
        make: Its class.
        fields: Name of each field, whether it can say that it is not set, and what makes a row's
            value of it.
    """

    make: type[Message]
    fields: list[tuple[str, bool, Take]]


class Schema:
    """A file of types.

    Args:
        pool: The pool that has it.
        name: Its name there.
    """

    def __init__(self, pool: descriptor_pool.DescriptorPool, name: str) -> None:
        self._file = pool.FindFileByName(name)
        self._types: dict[tuple[int, ...], Type] = {}

    def type_of(self, places: tuple[int, ...]) -> Type:
        """Return the type at a place in the file.

        Raises:
            BadMessageError: if there is none.
        """
        if places not in self._types:
            self._types[places] = _type(self._find(places))
        return self._types[places]

    def _find(self, places: tuple[int, ...]) -> Descriptor:
        types: Sequence[Descriptor] = list(self._file.message_types_by_name.values())
        for place in places[:-1]:
            types = _at(types, place, places).nested_types
        return _at(types, places[-1], places)


def _at(types: Sequence[Descriptor], place: int, places: tuple[int, ...]) -> Descriptor:
    # A negative place would count from the end.
    if not 0 <= place < len(types):
        raise BadMessageError(f"its schema has no message type at {list(places)}")
    return types[place]


def parse(texts: Sequence[tuple[str, str]]) -> Schema:
    """Return the last of some schemas, which may refer to those before it.

    Args:
        texts: Name and text (a FileDescriptorProto in base64) of each.

    Raises:
        BadMessageError: for one that is no schema.
    """
    pool = descriptor_pool.DescriptorPool()
    pool.Add(FileDescriptorProto(name=_OPTIONS))
    for name, text in texts:
        try:
            file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except Exception as error:
            raise BadMessageError(
                f"schema {name} is not in serialized form: the registry must know {QUERY}"
            ) from error
        # Others import it by the name that they refer to it by.
        file.name = name
        try:
            _add_common(pool, file.dependency)
            pool.Add(file)
        except Exception as error:
            raise BadMessageError(
                f"schema {name} is no schema of Protobuf: {one_line(error)}"
            ) from error
    return Schema(pool, texts[-1][0])


def _add_common(pool: descriptor_pool.DescriptorPool, names: Iterable[str]) -> None:
    """Add files that come with Protobuf, and what they import."""
    for name in names:
        if not _COMMON.fullmatch(name):
            continue
        try:
            pool.FindFileByName(name)
        except KeyError:
            module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
            file = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
            _add_common(pool, file.dependency)
            pool.Add(file)


def read(schema: Schema, body: bytes) -> dict[str, Any]:
    """Read one message, behind the schema's number.

    Raises:
        BadMessageError: if it does not say which type it has; Protobuf's errors for other bytes.
    """
    count, at = _number(body, 0)
    places = [0] if count == 0 else []
    if not 0 <= count <= _MOST_NESTED:
        raise BadMessageError(f"{count} places of its message type: must be 0 to {_MOST_NESTED}")
    for _ in range(count):
        place, at = _number(body, at)
        places.append(place)
    found = schema.type_of(tuple(places))
    message = found.make.FromString(body[at:])
    return {
        name: take(getattr(message, name)) if not optional or message.HasField(name) else None
        for name, optional, take in found.fields
    }


def _number(body: bytes, at: int) -> tuple[int, int]:
    """Read a zigzag varint; return it and where it ends."""
    value = 0
    for shift in range(0, _VARINT_BITS, 7):
        if at == len(body):
            raise BadMessageError("it ends before it says which message type it has")
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise BadMessageError("no message type behind its schema's number")


def _type(descriptor: Descriptor) -> Type:
    proto = DescriptorProto()
    descriptor.CopyToProto(proto)
    return Type(
        message_factory.GetMessageClass(descriptor),
        [
            (
                field.name,
                field.has_presence,
                _take(field, declared.label == declared.LABEL_REPEATED),
            )
            for field, declared in zip(descriptor.fields, proto.field, strict=True)
        ],
    )


def _take(field: FieldDescriptor, repeated: bool) -> Take:
    """Return what makes a row's value of a field's."""
    one = _take_one(field)
    kind = field.message_type
    if not repeated or (kind is not None and kind.GetOptions().map_entry):
        return one
    return list if one is _itself else lambda values: [one(value) for value in values]


def _take_one(field: FieldDescriptor) -> Take:
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, number)
    if field.message_type is None:
        return _itself
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return _time
    if name in _WRAPPERS:
        return lambda message: message.value
    return _object


def _itself(value: Any) -> Any:
    return value


def _object(value: Any) -> dict[str, Any]:
    """Stand for what no row takes."""
    return {}


def _time(value: Any) -> str:
    """Return a Timestamp as text.

    Raises:
        BadMessageError: for one that is none: years 1 to 9999, nanoseconds within a second.
    """
    seconds, nanos = value.seconds, value.nanos
    try:
        time = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        time = None
    if time is None or not 0 <= nanos < _SECOND:
        raise BadMessageError(f"{seconds} seconds and {nanos} nanoseconds: no time")
    return f"{time.isoformat()}.{nanos:09d}Z"
