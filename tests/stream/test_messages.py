"""Messages become rows or dead letters; whatever their bytes are, nothing is raised or lost."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from tests.e2e.hostile import good_rows, hostile_messages
from transforms.chunks import Chunk, encode_batch
from transforms.kafka.encode import to_json
from transforms.kafka.gather import Gathering
from transforms.kafka.messages import MESSAGE_KEY, RECORD_TIME, Message, offset_and_place, position
from transforms.read.column_options import ColumnOptions
from transforms.read.columns import Columns
from transforms.read.matrix import Feature

NAMES = ("a", "b")


def columns(**changes: Any) -> Columns:
    given: dict[str, Any] = {
        "model_id": MESSAGE_KEY,
        "time": "time",
        "sequence": None,
        "label": "label",
        "label_type": pa.string(),
        "features": tuple(Feature(name) for name in NAMES),
        "dtype": "float64",
        "requests": {},
        "options": ColumnOptions(time_unit="ns"),
    }
    return Columns(**{**given, **changes})


def message(value: bytes | None, offset: int = 0, key: bytes | None = b"m") -> Message:
    return Message("rows", 3, offset, 1_600_000_000_000, key, value)


def rows_of(chunks: Iterable[tuple[str, Chunk]]) -> list[dict[str, Any]]:
    found = []
    for model_id, chunk in chunks:
        for row in chunk.batch.to_pylist():
            offset, place = offset_and_place(np.array(row.pop("row")))
            found.append({"model": model_id, **row, "at": (int(offset), int(place))})
    return sorted(found, key=lambda row: row["at"])


def gather(
    messages: Sequence[Message], form: str = "json", **changes: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    gathering = Gathering(columns(**changes), form)
    for each in messages:
        gathering.add(each)
    rows = rows_of(gathering.chunks())
    letters = []
    for key, value, headers in gathering.dead_letters():
        told = {name: text.decode() for name, text in headers}
        letters.append({"key": key, "value": value, **told})
    return rows, letters


def values(form: str, rows: list[dict[str, Any]]) -> bytes:
    if form == "json":
        return json.dumps(rows).encode()
    if form == "arrow":
        return encode_batch(pa.RecordBatch.from_pylist(rows))
    fields = [
        {"name": "time", "type": "long"},
        *({"name": name, "type": "double"} for name in NAMES),
        {"name": "label", "type": ["null", "string"]},
    ]
    handle = io.BytesIO()
    fastavro.writer(handle, {"type": "record", "name": "r", "fields": fields}, rows)
    return handle.getvalue()


@pytest.mark.parametrize("form", ["json", "arrow", "avro"])
def test_rows_of_all_forms_are_the_same(form: str) -> None:
    time = 1_600_000_000_123_456_789
    sent = [
        {"time": time + at, "a": 0.1 * at, "b": -1e-300 * at, "label": "x" if at else None}
        for at in range(3)
    ]
    found, letters = gather([message(values(form, sent), 7), message(values(form, sent), 9)], form)
    assert letters == []
    assert found == [
        {
            "model": "m",
            "time": row["time"],
            "source": 3,
            "x": [row["a"], row["b"]],
            "label": row["label"],
            "at": (offset, place),
        }
        for offset in (7, 9)
        for place, row in enumerate(sent)
    ]


def test_one_object_is_one_row_of_key_and_record_time() -> None:
    found, letters = gather([message(b'{"a": 1, "b": true}')], time=RECORD_TIME, label=None)
    assert letters == []
    (row,) = found
    assert (row["time"], row["x"]) == (1_600_000_000_000 * 10**6, [1.0, 1.0])


def test_values_are_read_each_by_itself() -> None:
    """Times of several types in one bundle: a whole number is not rounded for another's sake."""
    exact = 1_600_000_000_123_456_789
    times = [exact, 1.6e18, "2020-09-13T12:26:40.123456789Z", str(exact)]
    sent = [{"time": time, "a": 1, "b": 2, "label": 3} for time in times]
    found, letters = gather([message(json.dumps(row).encode(), at) for at, row in enumerate(sent)])
    assert letters == []
    assert [row["time"] for row in found] == [exact, 1_600_000_000_000_000_000, exact, exact]


def test_a_bad_row_is_told_of_and_the_others_go_on() -> None:
    rows: list[Any] = [
        {"time": 1, "a": 1, "b": 2},
        {"time": 2, "a": "one", "b": 2},
        7,
        {"time": None, "a": 1, "b": 2},
        {"time": 5, "b": 2},
        {"time": 6, "a": 1, "b": 2},
    ]
    value = json.dumps(rows).encode()
    found, letters = gather([message(value, 4)])
    assert [row["at"] for row in found] == [(4, 0), (4, 5)]
    (letter,) = letters
    assert (letter["key"], letter["value"]) == (b"m", value)
    where = [letter[name] for name in ("topic", "partition", "offset", "timestamp", "refused")]
    assert where == ["rows", "3", "4", "1600000000000", "4"]
    assert letter["reason"] == "a = 'one': not a number"
    assert json.loads(letter["rows"]) == [
        [1, "a = 'one': not a number"],
        [2, "7: not an object with fields"],
        [3, "time = null: no time in the years 1685 to 2255"],
        [4, "a = nan: missing value"],
    ]


@pytest.mark.parametrize(
    ("value", "key", "reason"),
    [
        (None, b"m", "a tombstone: no value"),
        (b"", b"m", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"[]", b"m", "0 rows in a message: 1 to 1048576 can be taken"),
        (b"\xff", b"m", "not JSON: 'utf-8' codec can't decode byte 0xff in position 0: "),
        (b"[" * 100_000, b"m", "not JSON: maximum recursion depth exceeded"),
        (b'{"time": 1, "a": 1, "b": 2}', None, "message key = null: no model id"),
        (b'{"time": 1, "a": 1, "b": 2}', b"\xff", "message key = '\\\\xff': no model id"),
        (b'{"time": 1, "a": NaN, "b": 2}', b"m", "a = nan: missing value"),
        (b'{"time": 1, "a": Infinity, "b": 2}', b"m", "a = inf: not finite"),
        (b'{"time": 1e300, "a": 1, "b": 2}', b"m", "time = 1e+300: no time"),
        (b'{"time": 1, "a": 1, "b": [1]}', b"m", "b = a list: not a number"),
        (b'{"time": {}, "a": 1, "b": 2}', b"m", "time = a dict: not a time"),
        (b'{"time": 1, "a": 1, "b": 2, "label": "\\ud800"}', b"m", "label = '\\ud800': not a text"),
    ],
)
def test_a_bad_message_says_why(value: bytes | None, key: bytes | None, reason: str) -> None:
    found, letters = gather([message(value, 1, key)])
    assert found == []
    (letter,) = letters
    assert letter["reason"].startswith(reason)
    assert (letter["key"], letter["value"]) == (key, value)


@pytest.mark.parametrize("form", ["json", "arrow", "avro"])
def test_good_rows_are_the_same_among_thousands_of_bad_messages(form: str) -> None:
    good = [
        message(values(form, rows), 10 * at, b"m%d" % (at % 3))
        for at, rows in enumerate(good_rows(60, NAMES))
    ]
    alone, letters = gather(good, form)
    assert (len(alone), letters) == (60 * 5, [])
    bad = [
        message(value, 10 * at + 1 + at % 8, key)
        for at, (key, value) in enumerate(hostile_messages(3000, form, NAMES, good[0].value or b""))
    ]
    mixed = sorted([*good, *bad], key=lambda each: each.offset)
    among, letters = gather(mixed, form)
    offsets = {each.offset for each in good}
    assert [row for row in among if row["at"][0] in offsets] == alone
    assert [letter["offset"] for letter in letters] == [str(each.offset) for each in bad]
    assert [letter["value"] for letter in letters] == [each.value for each in bad]


def test_positions_come_apart_again() -> None:
    offsets, places = offset_and_place(position([5, 2**42], [2**20 - 1, 0]))
    assert (offsets.tolist(), places.tolist()) == ([5, 2**42], [2**20 - 1, 0])


def test_json_keeps_every_bit_and_says_null_for_what_is_not_finite() -> None:
    reals = [0.1, -0.0, 5e-324, 1.7976931348623157e308]
    batch = pa.RecordBatch.from_pydict({"x": [*reals, float("nan"), float("inf")]})
    found = [row["x"] for row in json.loads(to_json(batch))]
    assert list(map(repr, found)) == [*map(repr, reals), "None", "None"]


def test_reasons_are_bounded_and_printable() -> None:
    wide = {f"field\x1b{i}": 1 for i in range(1000)}
    _, (letter,) = gather([message(values("arrow", [{"time": wide, "a": 1.0}]))], "arrow")
    assert letter["reason"].startswith(r"time is struct<field\x1b0: int64, field\x1b1: int64, ")
    assert letter["reason"].endswith("int64>: not a time, a number or a text")
    assert len(letter["reason"]) == 300
    row = {"time": "\u202e" * 10**5, "a": 1, "b": 2, "label": "x"}
    _, (letter,) = gather([message(json.dumps([row] * 3).encode())])
    shown = (r"\u202e" * 6)[:35]
    reason = f"time = '{shown}...': no time in the years 1685 to 2255"
    assert letter["reason"] == reason
    assert json.loads(letter["rows"]) == [[place, reason] for place in range(3)]
