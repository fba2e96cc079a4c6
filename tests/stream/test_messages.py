"""Messages become rows or dead letters; whatever their bytes are, nothing is raised or lost."""

from __future__ import annotations

import datetime
import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from kerneltrack.number_texts import name_code
from tests.e2e.hostile import good_rows, hostile_messages
from tests.parts import some
from transforms.chunks import Chunk, encode_batch
from transforms.kafka.encode import MOST_BYTES, EncodeFn, messages_of, to_json
from transforms.kafka.formats import MESSAGE_KEY, RECORD_TIME
from transforms.kafka.gather import READ_TOGETHER, Gathering, Outgoing
from transforms.kafka.messages import (
    BadMessageError,
    Message,
    batch_of,
    offset_and_place,
    position,
    records_of,
)
from transforms.read.column_options import ColumnOptions
from transforms.read.columns import Columns
from transforms.read.matrix import Feature
from transforms.read.numbers import Numbers

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
        reported = {name: text.decode() for name, text in headers}
        letters.append({"key": key, "value": value, **reported})
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


ODD = [
    b"[]",
    b"{",
    b"7",
    None,
    b"NaN",
    b'{"time": 5, "a": 1, "b": 2}',
    b'{"time": "5", "a": 1, "b": 2, "label": "x"}',
    b'{"time": true, "a": 1, "b": 2, "label": "x"}',
    b'{"time": 5, "a": NaN, "b": 2, "label": "x"}',
    b'{"time": 5, "a": "1", "b": 2, "label": "x"}',
    b'{"time": 5, "a": 1, "b": 2, "label": 3}',
    b'[{"time": 5, "a": 1, "b": 2, "label": "x"}, 4, {"time": 6, "a": 1, "b": 2}]',
    b'{"time": 5, "a": 1, "b": 2, "label": "x"} {}',
    b'{"time": 5, "a": 1, "b": 2, "label": "x", "time": 6}',
]


@pytest.mark.parametrize("odd", [*range(len(ODD)), *(range(len(ODD)),)])
def test_messages_that_are_read_together_are_what_each_alone_is(odd: int | range) -> None:
    """However odd one among them is, first, in the middle or last: with each change in turn."""
    chosen = [ODD[odd]] if isinstance(odd, int) else [ODD[at] for at in odd]
    plain = [
        json.dumps({"time": 1000 - at, "a": at / 3, "b": -at, "label": "x"}).encode()
        for at in range(READ_TOGETHER + 40)
    ]
    for place in some((0, 100, len(plain)), odd if isinstance(odd, int) else 0):
        values = [*plain[:place], *chosen, *plain[place:]]
        sent = [message(value, at) for at, value in enumerate(values)]
        together = gather(sent)
        alone = [gather([each]) for each in sent]
        assert together[0] == [row for rows, _ in alone for row in rows]
        assert together[1] == [letter for _, letters in alone for letter in letters]


def test_a_chunk_knows_the_least_and_greatest_time_of_its_rows() -> None:
    gathering = Gathering(columns(), "json")
    for at, time in enumerate([7, 3, 9, 5, 4, 8]):
        value = json.dumps({"time": time, "a": 1, "b": 2, "label": None}).encode()
        gathering.add(message(value, at, b"m" if at < 4 else b"n"))
    assert [(key, chunk.span()) for key, chunk in gathering.chunks()] == [
        ("m", (3, 9)),
        ("n", (4, 8)),
    ]


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


@pytest.mark.parametrize("form", ["json", "arrow", "avro"])
def test_a_date_and_a_time_of_day_are_one_time(form: str) -> None:
    day, clocks = datetime.date(2026, 3, 1), [datetime.time(1, at) for at in range(3)]
    moments = [datetime.datetime.combine(day, clock) for clock in clocks]
    if form == "json":
        dates, times = [str(day)] * 3, [str(clock) for clock in clocks]
        value = json.dumps(
            [{"Date": d, "Time": t, "a": 1, "b": 2} for d, t in zip(dates, times, strict=True)]
        ).encode()
    elif form == "arrow":
        value = encode_batch(
            pa.RecordBatch.from_pydict(
                {"Date": [day] * 3, "Time": clocks, "a": [1.0] * 3, "b": [2.0] * 3}
            )
        )
    else:
        kinds = {
            "Date": {"type": "int", "logicalType": "date"},
            "Time": {"type": "long", "logicalType": "time-micros"},
            "a": "double",
            "b": "double",
        }
        fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
        handle = io.BytesIO()
        rows = [{"Date": day, "Time": clock, "a": 1.0, "b": 2.0} for clock in clocks]
        fastavro.writer(handle, {"type": "record", "name": "r", "fields": fields}, rows)
        value = handle.getvalue()
    found, letters = gather(
        [message(value)],
        form,
        time="Date",
        time_of_day="Time",
        label=None,
        options=ColumnOptions(time=("Date", "Time")),
    )
    assert letters == []
    epoch = datetime.datetime(1970, 1, 1)
    assert [row["time"] for row in found] == [
        (moment - epoch) // datetime.timedelta(microseconds=1) * 1000 for moment in moments
    ]


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
        [3, "time = null: missing time"],
        [4, "a: no such field"],
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
        (b'{"time": 1, "a": null, "b": 2}', b"m", "a = null: missing value"),
        (b'{"time": 1, "a": 1}', b"m", "b: no such field"),
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


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({}, "v: no such field"),
        ({"v": None}, "v[0] = null: missing value"),
        ({"v": [1.0, None]}, "v[1] = nan: missing value"),
        ({"v": [math.nan, 2.0]}, "v[0] = nan: missing value"),
    ],
)
def test_a_list_that_is_missing_is_told_from_a_number_that_is(
    sent: dict[str, Any], reason: str
) -> None:
    value = json.dumps({"time": 1, "v[0]": 1.0, **sent} if sent else {"time": 1}).encode()
    _, (letter,) = gather([message(value)], features=(Feature("v", 2),))
    assert letter["reason"] == reason


@pytest.mark.parametrize("form", ["json", "arrow", "avro"])
def test_true_and_false_are_numbers_in_every_form(form: str) -> None:
    """As in files: 1 and 0."""
    rows = [{"time": 1, "a": True, "b": False, "label": "x"}]
    if form == "avro":
        fields = [("time", "long"), ("a", "boolean"), ("b", "boolean"), ("label", "string")]
        named = [{"name": name, "type": kind} for name, kind in fields]
        written = io.BytesIO()
        fastavro.writer(written, {"type": "record", "name": "Row", "fields": named}, rows)
        value = written.getvalue()
    else:
        value = values(form, rows)
    (row,), letters = gather([message(value)], form)
    assert (row["x"], letters) == ([1.0, 0.0], [])


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


TEXTS = (
    b'{"a": 1, "a": 2}',
    b"123456789012345678901234567890",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"[1e400, -1e400, 1e-400, -0, -0.0, 1E5, 1e22, 5e-324, 2.2250738585072011e-308]",
    b"[NaN, Infinity, -Infinity]",
    b"9007199254740993.0",
    b"12345678901234567890123.5",
    b'["\\ud800", "\\ud83d\\ude00", "\\u00e9\\n\\/", "\x7f"]',
    b'{"\\u0061": true, "b": null}',
    b"1" * 400,
)
REFUSED = (
    *(b"[1,2", b"\xef\xbb\xbf{}", b'"\xff"', b'"\x01"', b"01", b"1.", b".5", b"+1", b"", b"[1,]"),
    *(b"{}x", b'"\\x"', b'"\xed\xa0\x80"', b"[" * 100_000, b"1" * 5000, b"\x0c1"),
)


@pytest.mark.parametrize("text", TEXTS)
def test_json_is_read_as_python_reads_it(text: bytes) -> None:
    expected = json.loads(text.decode("utf-8"))
    rows = expected if isinstance(expected, list) else [expected]
    # Their writing tells -0.0 from 0.0, 1 from 1.0 and a NaN from another.
    assert repr(records_of(text, "json")) == repr(rows)


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_json_to_python_is_none(text: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)) as error:
        json.loads(text.decode("utf-8"))
    with pytest.raises(BadMessageError, match="not JSON: ") as found:
        records_of(text, "json")
    assert str(error.value)[:20] in str(found.value)


OUTPUT = pa.schema(
    [
        pa.field("model_id", pa.string()),
        pa.field("index", pa.int64()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("place", pa.int32()),
        pa.field("loss", pa.float64()),
        pa.field("evicted", pa.int64()),
        pa.field("z", pa.list_(pa.float64(), 2)),
        pa.field("label", pa.string()),
    ]
)


def output_chunk(first: int, rows: int, label: str | None = "walk") -> Chunk:
    index = np.arange(first, first + rows)
    reals = np.random.default_rng(first).normal(size=(rows, 3))
    evicted = pa.array([None if i % 2 else int(i) for i in index], pa.int64())
    columns = {
        "index": pa.array(index),
        "source": pa.array(np.full(rows, 3, np.int32)),
        "row": pa.array(position(index, 0)),
        "loss": pa.array(reals[:, 0]),
        "evicted": evicted,
        "z": pa.FixedSizeListArray.from_arrays(pa.array(reals[:, 1:].ravel()), 2),
        "label": pa.array([label] * rows, pa.string()),
    }
    return Chunk(pa.RecordBatch.from_pydict(columns))


def bundle_of(step: EncodeFn, elements: Iterable[tuple[str, Chunk]]) -> list[Outgoing]:
    step.start_bundle()
    found = [out for element in elements for out in step.process(element, 5)]
    return [out.value for out in [*found, *step.finish_bundle()]]


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_chunks_of_a_bundle_are_written_as_each_by_itself(form: str) -> None:
    elements = [(f"m{i % 3}é", output_chunk(10 * i, 1 + i % 4)) for i in range(9)]
    elements.append(("m1", output_chunk(3, 4, None)))
    # One with other columns, as another output has them: what is held goes out first.
    other = output_chunk(7, 2).batch
    elements.insert(4, ("m2", Chunk(other.append_column("more", pa.array([1, 2])))))
    found = bundle_of(EncodeFn(OUTPUT, form), elements)
    alone = [out for element in elements for out in messages_of([element], OUTPUT, form)]
    if form == "arrow":
        # The bits past the last row of a message are anything.
        found, alone = (
            [(key, batch_of(value), headers) for key, value, headers in messages]
            for messages in (found, alone)
        )
    assert found == alone
    assert [key.decode() for key, _, _ in found if key] == [key for key, _ in elements]
    first = elements[0][1].batch.slice(0, 1).to_pylist()[0]
    row = {"model_id": "m0é", "index": 0, "partition": 3, "offset": 0, "place": 0}
    row |= {name: first[name] for name in ("loss", "evicted", "z", "label")}
    value: Any = found[0][1]
    assert (json.loads(value) if form == "json" else value.to_pylist()) == [row]


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_rows_too_many_for_a_message_become_several(form: str) -> None:
    elements = [
        ("a", output_chunk(0, 3)),
        ("b", output_chunk(0, 30_000)),
        ("c", output_chunk(5, 2)),
    ]
    found = bundle_of(EncodeFn(OUTPUT, form), elements)
    assert all(len(value or b"") <= MOST_BYTES for _, value, _ in found)
    rows: dict[bytes, list[int]] = {}
    for key, value, _ in found:
        read = json.loads(value or b"") if form == "json" else batch_of(value).to_pylist()
        rows.setdefault(key or b"", []).extend(row["index"] for row in read)
    assert rows == {b"a": [0, 1, 2], b"b": list(range(30_000)), b"c": [5, 6]}
    assert len(found) > 3


def test_names_are_texts_or_numbers() -> None:
    """A mode comes as either; the same name is the same number, whatever the message's form."""
    features = (Feature("a"), Feature("b", numbers=Numbers(words=("*",))))
    values: list[Any] = ["run", "idle", 2, "2", [1]]
    sent = [
        message(json.dumps({"time": place, "a": 0.5, "b": value}).encode(), place)
        for place, value in enumerate(values)
    ]
    found, letters = gather(sent, features=features, label=None, label_type=None)
    expected = [name_code("run"), name_code("idle"), 2.0, 2.0]
    assert [row["x"][1] for row in found] == expected
    assert len(letters) == 1
    batches: list[list[Any]] = [["run", "idle", "2"], [2.0, 7.0]]
    sent = []
    for at, names in enumerate(batches):
        rest = {"time": [1] * len(names), "a": [0.5] * len(names)}
        batch = pa.RecordBatch.from_pydict({**rest, "b": names})
        sent.append(message(encode_batch(batch), at))
    found, letters = gather(sent, "arrow", features=features, label=None, label_type=None)
    assert letters == []
    assert [row["x"][1] for row in found] == [*expected[:3], 2.0, 7.0]
