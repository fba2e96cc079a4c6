"""The pipelines' elements: what a chunk holds, and that its bytes give it back."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam import coders
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from hypothesis import given
from hypothesis import strategies as st

from transforms.chunks import (
    FEW,
    Chunk,
    ChunkCoder,
    FailuresCoder,
    chunk_from,
    decode_batch,
    encode_batch,
    matrix_column,
    pieces,
)
from transforms.failures import FAILURE_SCHEMA, Failures


def make_chunk(count: int, dtype: Any = np.float64, label: Any = None) -> Chunk:
    numbers = np.arange(count)
    columns = {
        "time": pa.array(numbers * 10 - 5, pa.int64()),
        "sequence": pa.array(-numbers, pa.int64()),
        "source": pa.array(numbers.astype(np.int32)),
        "row": pa.array(numbers + 2**40, pa.int64()),
        "x": matrix_column(numbers[:, None].astype(dtype) * np.array([1, -0.5], dtype)),
    }
    if label is not None:
        columns["label"] = label
    return Chunk(pa.RecordBatch.from_pydict(columns))


LABELS = {
    "none": None,
    "string": pa.array(["a", None, "é\n漢", ""], pa.string()),
    "int64": pa.array([1, None, -(2**62), 0], pa.int64()),
    "float64": pa.array([0.1, None, float("inf"), -0.0], pa.float64()),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("label", LABELS)
def test_a_chunk_comes_back_from_its_bytes(label: str, dtype: Any) -> None:
    chunk = make_chunk(4, dtype, LABELS[label])
    coder = ChunkCoder()
    back = coder.decode(coder.encode(chunk))
    assert isinstance(back, Chunk)
    assert back.batch.equals(chunk.batch, check_metadata=True)
    assert back.column("x").dtype == dtype
    assert back.column("x").tolist() == [[0.0, -0.0], [1.0, -0.5], [2.0, -1.0], [3.0, -1.5]]


def test_an_empty_chunk_keeps_its_columns() -> None:
    coder = ChunkCoder()
    back = coder.decode(coder.encode(make_chunk(0)))
    assert len(back) == 0
    assert back.column("x").shape == (0, 2)
    assert back.batch.schema == make_chunk(3).batch.schema


@given(st.integers(0, 20), st.integers(0, 20))
def test_a_slice_is_those_rows(start: int, stop: int) -> None:
    start, stop = min(start, stop), max(start, stop)
    whole = make_chunk(20)
    part = whole.slice(start, stop)
    assert part.column("row").tolist() == [2**40 + i for i in range(start, stop)]
    assert part.column("x").tolist() == [[i, -0.5 * i] for i in range(start, stop)]
    alone = whole.take(np.arange(start, stop))
    assert decode_batch(encode_batch(part.batch)).equals(alone.batch)


def test_a_chunk_of_a_great_batch_carries_its_own_rows_only() -> None:
    whole = make_chunk(100_000)
    alone = len(encode_batch(make_chunk(10).batch))
    for start in (0, 50_000, 99_990):
        # Buffers end at multiples of 64 bytes.
        assert len(encode_batch(whole.slice(start, start + 10).batch)) <= alone + 6 * 64


def test_equal_chunks_have_equal_bytes() -> None:
    coder = ChunkCoder()
    assert coder.is_deterministic()
    assert coder.encode(make_chunk(7)) == coder.encode(make_chunk(7))


def bare(columns: list[str]) -> pa.RecordBatch:
    """Rows of all of a label's types, with these columns only."""
    batch = make_chunk(4, np.float32, LABELS["string"]).batch
    return batch.select(columns)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("label", LABELS)
@given(cuts=st.lists(st.integers(0, 4), max_size=4))
def test_a_few_rows_travel_as_records(label: str, dtype: Any, cuts: list[int]) -> None:
    """Alone and joined they are the rows that they were, whatever was cut where."""
    batch = make_chunk(4, dtype, LABELS[label]).batch
    ends = [*sorted(cuts), 4]
    chunks = [chunk_from(data) for data in pieces(Chunk(batch), ends)]
    assert all(chunk.records is not None for chunk in chunks)
    assert Chunk.concat(chunks).batch.equals(batch, check_metadata=True)
    start = 0
    for chunk, stop in zip(chunks, ends, strict=True):
        wanted = Chunk(batch.slice(start, stop - start))
        assert len(chunk) == len(wanted)
        assert chunk.schema == batch.schema
        for name in ("time", "sequence", "source", "row", "x"):
            assert chunk.has(name)
            values = chunk.column(name)
            assert values.flags.c_contiguous
            assert values.dtype == wanted.column(name).dtype
            assert (values == wanted.column(name)).all()
        assert ChunkCoder().decode(ChunkCoder().encode(chunk)) == wanted
        assert chunk.batch.equals(wanted.batch, check_metadata=True)
        start = stop


@given(
    st.lists(st.integers(0, 3), max_size=8),
    st.lists(st.integers(0, 8), max_size=3),
    st.sampled_from([*LABELS]),
)
def test_records_are_taken_and_cut_as_a_batch_is(
    places: list[int], cuts: list[int], label: str
) -> None:
    batch = make_chunk(4, np.float32, LABELS[label]).batch
    joined = Chunk.concat([chunk_from(data) for data in pieces(Chunk(batch), [1, 1, 3, 4])])
    rows = np.array(places, np.int64)
    taken, wanted = joined.take(rows), Chunk(batch).take(rows)
    assert taken.records is not None
    assert taken.batch.equals(wanted.batch, check_metadata=True)
    ends = [*sorted(min(cut, len(places)) for cut in cuts), len(places)]
    cut = pieces(taken, ends)
    for (start, stop), data in zip(itertools.pairwise([0, *ends]), cut, strict=True):
        assert chunk_from(data).batch.equals(wanted.batch.slice(start, stop - start))


def test_rows_of_a_slice_travel_alone() -> None:
    batch = make_chunk(40, np.float32, pa.array(["é" * i for i in range(40)])).batch
    (data,) = pieces(Chunk(batch.slice(7, 3)), [3])
    assert chunk_from(data).batch.equals(batch.slice(7, 3))
    assert len(data) < 400


@pytest.mark.parametrize(
    "batch",
    [
        pa.RecordBatch.from_pydict({"index": pa.array([1])}),
        bare(["row"]).append_column("row2", pa.array([1, 2, 3, 4])),
        bare(["row"]).cast(pa.schema([pa.field("row", pa.int64(), nullable=False)])),
        pa.RecordBatch.from_pydict({"row": pa.array([1, None])}),
        pa.RecordBatch.from_pydict({"x": pa.array([[1.0, None]], pa.list_(pa.float64(), 2))}),
        pa.RecordBatch.from_pydict({"label": pa.array(["a"]).dictionary_encode()}),
    ],
    ids=["features", "more", "never-null", "null", "null-in-x", "dictionary"],
)
def test_other_rows_travel_as_a_stream(batch: pa.RecordBatch) -> None:
    (data,) = pieces(Chunk(batch), [batch.num_rows])
    chunk = chunk_from(data)
    assert chunk.records is None
    assert chunk.batch.equals(batch, check_metadata=True)


def test_many_rows_of_a_model_travel_as_a_stream() -> None:
    chunk = make_chunk(100)
    assert all(chunk_from(data).records is None for data in pieces(chunk, [50, 100]))


def test_records_are_pickled_as_they_travel() -> None:
    (data,) = pieces(make_chunk(3), [3])
    back = pickle.loads(pickle.dumps(chunk_from(data)))
    assert back.encode() == data


def test_rows_are_taken_in_the_asked_order() -> None:
    chunk = make_chunk(5).take(np.array([3, 0, 3]))
    assert chunk.column("sequence").tolist() == [-3, 0, -3]
    assert chunk.column("x").tolist() == [[3.0, -1.5], [0.0, -0.0], [3.0, -1.5]]


def test_chunks_are_joined_in_order() -> None:
    chunk = make_chunk(6)
    joined = Chunk.concat([chunk.slice(4, 6), chunk.slice(0, 1), chunk.slice(2, 2)])
    assert joined.column("row").tolist() == [2**40 + 4, 2**40 + 5, 2**40]
    assert joined.column("x").tolist() == [[4.0, -2.0], [5.0, -2.5], [0.0, -0.0]]
    assert Chunk.concat([chunk]) is chunk


@given(st.lists(st.integers(0, 20), min_size=2, max_size=6))
def test_parts_that_follow_one_another_are_joined_without_being_copied(cuts: list[int]) -> None:
    whole, ends = make_chunk(20), sorted(cuts)
    parts = [whole.slice(start, stop) for start, stop in itertools.pairwise(ends)]
    joined = Chunk.concat(parts)
    assert len(joined) == ends[-1] - ends[0]
    assert joined.batch.equals(whole.batch.slice(ends[0], len(joined)))
    if len(joined):
        assert np.shares_memory(joined.column("row"), whole.column("row"))


@given(st.lists(st.integers(0, 19), min_size=2, max_size=6))
def test_other_parts_are_joined_as_they_are_given(starts: list[int]) -> None:
    """Also those that were looked at, and those of another batch with the same rows."""
    whole, other = make_chunk(20), make_chunk(20)
    parts = [(whole if start % 3 else other).slice(start, start + 1) for start in starts]
    assert parts[0].batch.num_rows == 1
    assert Chunk.concat(parts).column("row").tolist() == [2**40 + start for start in starts]


def test_columns_are_known_by_name() -> None:
    chunk = make_chunk(2)
    assert [name for name in ("time", "label", "z", "x") if chunk.has(name)] == ["time", "x"]


def test_failures_hold_model_place_and_reason() -> None:
    failures = Failures.of("m", np.array([0, 1]), [5, 2**40], ["x = nan: missing value", "é"])
    assert failures.batch.schema == FAILURE_SCHEMA
    assert failures.batch.to_pylist() == [
        {"model_id": "m", "source": 0, "row": 5, "reason": "x = nan: missing value"},
        {"model_id": "m", "source": 1, "row": 2**40, "reason": "é"},
    ]
    coder = FailuresCoder()
    back = coder.decode(coder.encode(failures))
    assert isinstance(back, Failures)
    assert back.batch.equals(failures.batch)


def test_the_model_of_a_failure_may_be_unknown() -> None:
    failures = Failures.of(None, [3], [0], ["no model id"])
    assert failures.batch.column("model_id").to_pylist() == [None]


@pytest.mark.parametrize(("kind", "coder"), [(Chunk, ChunkCoder), (Failures, FailuresCoder)])
def test_beam_knows_the_coders(kind: type, coder: type) -> None:
    assert isinstance(coders.registry.get_coder(kind), coder)
    assert coder().to_type_hint() is kind


def test_a_key_and_a_chunk_have_deterministic_bytes() -> None:
    coder = coders.registry.get_coder(convert_to_beam_type(tuple[str, Chunk]))
    assert coder.is_deterministic()
    key, back = coder.decode(coder.encode(("é", make_chunk(3))))
    assert (key, back.batch.to_pylist()) == ("é", make_chunk(3).batch.to_pylist())


def test_a_keyed_chunk_crosses_a_pipeline() -> None:
    chunk = make_chunk(3, label=pa.array(["a", None, "b"]))
    seen = beam.Create([("m", chunk)]).with_output_types(tuple[str, Chunk])
    with beam.Pipeline("FnApiRunner") as pipeline:
        grouped = pipeline | seen | beam.GroupByKey() | beam.Map(_as_lists)
        expected = [("m", [chunk.batch.to_pylist()])]
        assert_that(grouped, equal_to(expected))


def _as_lists(element: Any) -> Any:
    key, chunks = element
    return key, [chunk.batch.to_pylist() for chunk in chunks]


@pytest.mark.parametrize("kind", ["plain", "named", "dictionary"])
def test_a_batch_is_written_as_arrow_writes_it(kind: str) -> None:
    batch = make_chunk(10).batch
    if kind == "named":
        batch = batch.replace_schema_metadata({b"name": b"value"})
    if kind == "dictionary":
        batch = batch.append_column("kind", pa.array(["a", "b"] * 5).dictionary_encode())
    for _ in range(2):
        # The second time the schema's part is known.
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        assert encode_batch(batch) == sink.getvalue().to_pybytes()
        found = decode_batch(encode_batch(batch))
        assert found.equals(batch)
        assert found.schema.equals(batch.schema, check_metadata=True)


@pytest.mark.parametrize("columns", [["time"], ["row", "time", "x"], ["time", "row", "label"]])
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=FEW + 2))
def test_the_span_of_records_is_that_of_their_batch(columns: list[str], times: list[int]) -> None:
    count, values = len(times), pa.array(times, pa.int64())
    whole = make_chunk(count, label=pa.array(["é"] * count)).batch
    batch = whole.set_column(0, "time", values).select(columns)
    (data,) = pieces(Chunk(batch), [count])
    assert chunk_from(data).span() == Chunk(batch).span() == (min(times), max(times))
