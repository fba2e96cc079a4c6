"""Messages of a long table: to the bit what wide ones give, in whatever form and bundles."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parts import examples
from tests.stream.running import SECOND, Step, assert_same, core_alone, make_rows, track_stream
from transforms.chunks import Chunk, encode_batch
from transforms.kafka.formats import MESSAGE_KEY
from transforms.kafka.gather import Gathering
from transforms.kafka.messages import Message
from transforms.read.column_options import ColumnOptions
from transforms.read.columns import Columns
from transforms.read.long_table import LongTable
from transforms.read.matrix import Feature
from transforms.track.order import Order

CHANNELS = ("flow", "heat", "speed")
DISORDER = 4
MERGE = Order(max_disorder=DISORDER, max_jump=3600, duplicates="merge")
PLACES = ("source", "row")

Record = dict[str, Any]
COLUMNS = Columns(
    model_id=MESSAGE_KEY,
    time="t",
    sequence=None,
    label=None,
    label_type=None,
    features=(),
    dtype="float64",
    requests={},
    options=ColumnOptions(time_unit="ns", features=CHANNELS),
    long=LongTable("metric", "value", CHANNELS),
    partial=True,
)


def records(count: int, seed: int, key: int = 0) -> list[Record]:
    """A device's rows as records of one value each, less than `DISORDER` out of order."""
    rows, rng = make_rows(count, seed=key), np.random.default_rng(seed)
    assert rows.time is not None
    found = [
        {"t": time, "metric": name, "value": value}
        for time, values in zip(rows.time.tolist(), rows.x.tolist(), strict=True)
        for name, value in zip(CHANNELS, values, strict=True)
    ]
    late = rng.uniform(0, DISORDER - 0.01, len(found)) * SECOND
    return [found[at] for at in np.argsort([r["t"] for r in found] + late, kind="stable")]


def encoded(form: str, rows: Sequence[Record]) -> bytes:
    if form == "json":
        return json.dumps(rows[0] if len(rows) == 1 else list(rows)).encode()
    if form == "arrow":
        return encode_batch(pa.RecordBatch.from_pylist(list(rows)))
    fields = [
        {"name": "t", "type": "long"},
        {"name": "metric", "type": "string"},
        {"name": "value", "type": ["null", "double", "string"]},
    ]
    handle = io.BytesIO()
    fastavro.writer(handle, {"type": "record", "name": "r", "fields": fields}, list(rows))
    return handle.getvalue()


def gathered(
    messages: Sequence[tuple[bytes, bytes]], form: str, first: int, columns: Columns = COLUMNS
) -> tuple[list[tuple[str, Chunk]], list[str]]:
    """Return the chunks of a bundle of (key, value), and why rows were refused."""
    gathering = Gathering(columns, form)
    for at, (key, value) in enumerate(messages):
        gathering.add(Message("rows", 3, first + at, 0, key, value))
    chunks = list(gathering.chunks())
    letters = [dict(headers) for _, _, headers in gathering.dead_letters()]
    return chunks, [letter["reason"].decode() for letter in letters]


@pytest.mark.parametrize("form", ["json", "arrow", "avro"])
@settings(max_examples=examples(15))
@given(
    seed=st.integers(0, 99),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    bundle=st.integers(1, 30),
)
def test_they_give_what_the_wide_rows_give(
    form: str, seed: int, sizes: list[int], bundle: int
) -> None:
    sent: list[tuple[float, bytes, bytes]] = []
    for key in (0, 1):
        own, start, turn = records(40, seed, key), 0, 0
        while start < len(own):
            size = sizes[turn % len(sizes)]
            value = encoded(form, own[start : start + size])
            sent.append((start, b"%d" % key, value))
            start, turn = start + size, turn + 1
    messages = [(key, value) for _, key, value in sorted(sent, key=lambda each: each[0])]
    step = Step(order=MERGE)
    for start in range(0, len(messages), bundle):
        chunks, refused = gathered(messages[start : start + bundle], form, start)
        assert refused == []
        step.push_all(chunks)
    outcome = step.finish()
    assert (outcome.late, outcome.failures) == ([], [])
    for key in (0, 1):
        assert_same(outcome.table(str(key)), core_alone(make_rows(40, seed=key)), PLACES)


def test_in_a_live_pipeline_too() -> None:
    own = records(60, 5)
    bundles = [
        gathered([(b"m", encoded("json", own[at : at + 5]))], "json", at)[0]
        for at in range(0, len(own), 5)
    ]
    outcome = track_stream(bundles, order=MERGE)
    assert (outcome.late, outcome.failures) == ([], [])
    assert_same(outcome.table("m"), core_alone(make_rows(60)), PLACES)


def test_rows_of_one_time_in_a_bundle_are_one_row_already() -> None:
    chunks, refused = gathered([(b"m", encoded("json", records(40, 0)))], "json", 0)
    assert refused == []
    assert sum(len(chunk) for _, chunk in chunks) < 3 * 40
    in_order = sorted(records(40, 0), key=lambda record: record["t"])
    ((_, whole),), _ = gathered([(b"m", encoded("json", in_order))], "json", 0)
    assert len(whole) == 40


@pytest.mark.parametrize("form", ["json", "arrow", "avro"])
def test_values_may_be_texts_that_are_numbers(form: str) -> None:
    own = [
        {"t": 1, "metric": "flow", "value": "0.1"},
        {"t": 1, "metric": "heat", "value": None},
        {"t": 1, "metric": "speed", "value": "true"},
    ]
    ((_, chunk),), refused = gathered([(b"m", encoded(form, own))], form, 0)
    assert refused == []
    assert str(chunk.column("x").tolist()) == "[[0.1, nan, 1.0]]"


def test_a_value_that_is_none_is_a_dead_letter_by_its_metric() -> None:
    bad: list[Any] = [
        {"t": 1, "metric": "flow", "value": "on"},
        {"t": 1, "metric": "heat", "value": {"a": 1}},
        {"t": 1, "metric": None, "value": 1},
        {"t": 1, "metric": 1.5, "value": 1},
        {"t": 1, "value": 1},
        {"t": 1, "metric": "other", "value": "on"},
        {"t": 1, "metric": "speed", "value": 1e200},
        {"t": 1, "metric": "speed", "value": 4},
        {"t": 1, "metric": "heat", "value": True},
    ]
    messages = [(b"m", json.dumps(record).encode()) for record in bad]
    ((_, chunk),), refused = gathered(messages, "json", 0)
    assert refused == [
        "flow = 'on': not a number",
        "value = a dict: not a number, or a text that is one",
        "metric = null: no metric",
        "metric = 1.5: not a text or a whole number",
        "metric = null: no metric",
        "speed = 9.9999999999999997e+199: magnitude over 1e+100",
    ]
    assert str(chunk.column("x").tolist()) == "[[nan, 1.0, 4.0]]"


def test_wide_messages_that_have_some_fields_each_are_merged() -> None:
    columns = Columns(**{**vars(COLUMNS), "long": None, "features": tuple(map(Feature, CHANNELS))})
    rows = make_rows(40)
    assert rows.time is not None
    sent = [
        {"t": time, name: value}
        for time, values in zip(rows.time.tolist(), rows.x.tolist(), strict=True)
        for name, value in zip(CHANNELS, values, strict=True)
    ]
    step = Step(order=MERGE)
    for at in range(0, len(sent), 4):
        chunks, refused = gathered(
            [(b"m", encoded("json", sent[at : at + 4]))], "json", at, columns
        )
        assert refused == []
        step.push_all(chunks)
    outcome = step.finish()
    assert (outcome.late, outcome.failures) == ([], [])
    assert_same(outcome.table("m"), core_alone(rows), PLACES)
