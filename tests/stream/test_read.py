"""From files to chunks: every row once, in order, and bad rows change nothing."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that
from hypothesis import example, given
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError, DataError
from pipelines.files.record import counters
from transforms.chunks import Chunk
from transforms.failures import Failures
from transforms.read import files as read_module
from transforms.read.columns import ColumnOptions, Columns, resolve
from transforms.read.files import CHUNK_ROWS, ReadChunks, split
from transforms.read.formats import FileInfo, FormatOptions, PieceRows
from transforms.read.look import Input, look_at_files
from transforms.read.parse import ParsedRows, parse

RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"

Cut = tuple[list[tuple[str, Chunk]], list[Failures]]


def columns_of(schema: pa.Schema, **options: Any) -> Columns:
    return resolve([FileInfo("a", "parquet", schema, None, ())], ColumnOptions(**options))


def rows_of(batch: pa.RecordBatch, first: int = 0) -> PieceRows:
    return PieceRows(batch, np.arange(first, first + batch.num_rows))


def cut(
    rows: PieceRows, source: Any, columns: Columns, chunk_rows: int = CHUNK_ROWS
) -> tuple[list[tuple[str, Chunk]], Failures]:
    """A batch as chunks, and the rows that cannot be used."""
    parsed, failures = parse(rows, source, columns)
    return list(split([parsed], columns, chunk_rows)), failures


def cut_files(reader: ReadChunks) -> Cut:
    """What the transform does, without Beam."""
    chunks: list[tuple[str, Chunk]] = []
    failures: list[Failures] = []
    for source, info in enumerate(reader.input.infos):
        for piece in info.pieces:
            for rows in piece.read(reader.input.columns.requests):
                more, failed = cut(rows, source, reader.input.columns)
                chunks += more
                failures.append(failed)
    return chunks, failures


def listed(chunks: Sequence[tuple[str, Chunk]]) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(model, chunk.batch.to_pylist()) for model, chunk in chunks]


def reasons(failures: Failures) -> list[tuple[str | None, int, int, str]]:
    return [tuple(row.values()) for row in failures.batch.to_pylist()]


# Without Beam ------------------------------------------------------------------------------------


def test_exact_chunks_and_failures() -> None:
    batch = pa.record_batch(
        {
            "id": pa.array(["b", "a", None, "b", "a", "", "b", "a", "b", "b"]),
            "t": pa.array([3, 2, 1, 1, 2, 1, None, 1, 1, 1], pa.timestamp("s")),
            "n": pa.array([0, 9, 0, 2, 8, 0, 0, 0, None, 1]),
            "x": pa.array([0.5, 1.5, 0, 3.5, 4.5, 0, 0, math.nan, 0, 9.5]),
            "y": pa.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], pa.int32()),
            "label": pa.array(["l", None, "l", "k", "l", "l", "l", "l", "l", ""]),
        }
    )
    columns = columns_of(batch.schema, model_id="id", time="t", sequence="n", label="label")
    bad = ((99, "line: 1 fields instead of 6"),)
    chunks, failures = cut(PieceRows(batch, np.arange(100, 110), bad), 7, columns)
    second = 1_000_000_000

    def row(t: int, n: int, at: int, x: list[float], label: str | None) -> dict[str, Any]:
        return {
            "time": t * second,
            "sequence": n,
            "source": 7,
            "row": at,
            "x": x,
            "label": label,
        }

    assert listed(chunks) == [
        (
            "b",
            [
                row(1, 1, 109, [9.5, 10.0], None),
                row(1, 2, 103, [3.5, 4.0], "k"),
                row(3, 0, 100, [0.5, 1.0], "l"),
            ],
        ),
        ("a", [row(2, 8, 104, [4.5, 5.0], "l"), row(2, 9, 101, [1.5, 2.0], None)]),
    ]
    assert chunks[0][1].batch.schema == pa.schema(
        [
            ("time", pa.int64()),
            ("sequence", pa.int64()),
            ("source", pa.int32()),
            ("row", pa.int64()),
            ("x", pa.list_(pa.float64(), 2)),
            ("label", pa.string()),
        ]
    )
    assert reasons(failures) == [
        (None, 7, 102, "id = null: no model id (1 to 1024 bytes of UTF-8)"),
        (None, 7, 105, "id = '': no model id (1 to 1024 bytes of UTF-8)"),
        ("b", 7, 106, "t = null: missing time"),
        ("a", 7, 107, "x = nan: missing value"),
        ("b", 7, 108, "n = null: no whole number"),
        (None, 7, 99, "line: 1 fields instead of 6"),
    ]


def test_without_columns_for_model_time_sequence_and_label() -> None:
    batch = pa.record_batch({"x": pa.array([1.0, 2.0], pa.float32())})
    chunks, failures = cut(rows_of(batch), 0, columns_of(batch.schema))
    assert listed(chunks) == [
        ("all", [{"source": 0, "row": 0, "x": [1.0]}, {"source": 0, "row": 1, "x": [2.0]}])
    ]
    assert chunks[0][1].batch.schema.field("x").type == pa.list_(pa.float32(), 1)
    assert failures.batch.num_rows == 0


def test_a_source_of_each_row() -> None:
    batch = pa.record_batch({"x": pa.array([1.0, math.inf, 2.0])})
    chunks, failures = cut(rows_of(batch), np.array([4, 5, 6]), columns_of(batch.schema))
    assert [row["source"] for row in chunks[0][1].batch.to_pylist()] == [4, 6]
    assert reasons(failures) == [("all", 5, 1, "x = inf: not finite")]


@pytest.mark.parametrize("missing", ["fail", "hold"])
def test_values_that_cannot_be_features(missing: str) -> None:
    x = [1.0, None, math.nan, math.inf, -math.inf, 1e100, 1.0000001e100, -1e308]
    vectors = pa.array([[v, 0.0] for v in x] + [None, [0.0, 7.0]], pa.list_(pa.float64(), 2))
    # A slice, so that offsets count.
    vectors = pa.concat_arrays([pa.array([[9.0, 9.0]], vectors.type), vectors]).slice(1)
    batch = pa.record_batch({"v": vectors})
    chunks, failures = cut(rows_of(batch), 0, columns_of(batch.schema, missing=missing))
    kept = [0, 5, 9] if missing == "fail" else [0, 1, 2, 5, 8, 9]
    assert chunks[0][1].column("row").tolist() == kept
    expected = np.array([[v if v is not None else np.nan, 0] for v in x] + [[np.nan] * 2, [0, 7]])
    assert chunks[0][1].column("x").tobytes() == expected[kept].tobytes()
    failed = {row: reason for _, _, row, reason in reasons(failures)}
    holes = {i: "v[0] = nan: missing value" for i in (1, 2, 8)} if missing == "fail" else {}
    assert failed == holes | {
        3: "v[0] = inf: not finite",
        4: "v[0] = -inf: not finite",
        6: "v[0] = 1.0000001e+100: magnitude over 1e+100",
        7: "v[0] = -1e+308: magnitude over 1e+100",
    }


def test_every_numeric_type_makes_the_same_matrix() -> None:
    values = [0, 1, None, 3]
    kinds = [pa.uint8(), pa.int16(), pa.int64(), pa.uint64(), pa.float16(), pa.float32()]
    kinds += [pa.float64(), pa.decimal128(9, 2)]
    batch = pa.record_batch(
        {str(kind): pa.array(values, pa.float64()).cast(kind) for kind in kinds}
        | {
            "bool": pa.array([False, True, None, True]),
            "dictionary": pa.array([0.0, 1.0, None, 3.0]).dictionary_encode(),
        }
    )
    chunks, failures = cut(rows_of(batch), 0, columns_of(batch.schema))
    expected = np.tile(np.array([[0.0], [1.0], [3.0]]), len(kinds) + 2)
    expected[2, len(kinds)] = 1
    assert chunks[0][1].column("x").tolist() == expected.tolist()
    assert [row for _, _, row, _ in reasons(failures)] == [2]


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([7, None, 7, 8]),
        pa.array(["7", None, "7", "8"]),
        pa.array([b"7", b"\xff\xfe", b"7", b"8"]),
        pa.array(["7", "x" * 1025, "7", "8"], pa.large_string()),
        pa.array(["7", None, "7", "8"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 2], pa.int8()), ["7", "7", "8", "z"]),
    ],
)
def test_model_ids_of_every_type(ids: pa.Array) -> None:
    batch = pa.record_batch({"id": ids, "x": pa.array([0.0, 1.0, 2.0, 3.0])})
    chunks, failures = cut(rows_of(batch), 0, columns_of(batch.schema, model_id="id"))
    assert [(model, chunk.column("row").tolist()) for model, chunk in chunks] == [
        ("7", [0, 2]),
        ("8", [3]),
    ]
    assert [(model, row) for model, _, row, _ in reasons(failures)] == [(None, 1)]


def test_a_small_index_type_with_all_its_values_used() -> None:
    names = [f"m{i}" for i in range(128)]
    codes = pa.array([*range(128), None], pa.int8())
    ids = pa.DictionaryArray.from_arrays(codes, names)
    batch = pa.record_batch({"id": ids, "x": pa.array(np.arange(129.0))})
    chunks, failures = cut(rows_of(batch), 0, columns_of(batch.schema, model_id="id"))
    assert [model for model, _ in chunks] == names
    assert len(reasons(failures)) == 1


def test_texts_that_are_not_utf8_fail_their_own_row() -> None:
    data = pa.py_buffer(b"ok\xed\xa0\x80ok")
    offsets = pa.py_buffer(np.array([0, 2, 5, 7], dtype=np.int32).tobytes())
    texts = pa.Array.from_buffers(pa.string(), 3, [None, offsets, data])
    batch = pa.record_batch({"id": texts, "x": pa.array([1.0, 2.0, 3.0])})
    chunks, failures = cut(rows_of(batch), 0, columns_of(batch.schema, model_id="id"))
    assert [(model, len(chunk)) for model, chunk in chunks] == [("ok", 2)]
    assert [row for _, _, row, _ in reasons(failures)] == [1]
    batch = pa.record_batch({"l": texts, "x": pa.array([1.0, 2.0, 3.0])})
    chunks, failures = cut(rows_of(batch), 0, columns_of(batch.schema, label="l"))
    assert chunks[0][1].column("label").tolist() == ["ok", "ok"]
    assert reasons(failures) == [
        ("all", 0, 1, r"l = '\\xed\\xa0\\x80': not a label of type string")
    ]


@pytest.mark.parametrize(
    ("values", "kind", "expected", "refused"),
    [
        (pa.array([1, None, 3]), "int64", [1, None, 3], []),
        (pa.array([1, None, 3]), "string", ["1", None, "3"], []),
        (pa.array([1, None, 3]), "float64", [1.0, None, 3.0], []),
        (pa.array(["1", "", "x"]), "int64", [1, None], [2]),
        (pa.array([1.0, math.nan, 2.5]), "float64", [1.0, None, 2.5], []),
        (pa.array([1.0, math.nan, 2.5]), "int64", [1, None], [2]),
        (pa.array([True, None, False]), "int64", [1, None, 0], []),
        (pa.array([True, None, False]), "string", ["1", None, "0"], []),
        (pa.array([" 1.5", "nan", "1e3"]), "float64", [1.5, None, 1000.0], []),
        (pa.array([2**64 - 1, 1, None], pa.uint64()), "int64", [1, None], [0]),
    ],
)
def test_labels(values: pa.Array, kind: str, expected: list[Any], refused: list[int]) -> None:
    batch = pa.record_batch({"l": values, "x": pa.array([0.0] * 3)})
    columns = columns_of(batch.schema, label="l", label_type=kind)
    chunks, failures = cut(rows_of(batch), 0, columns)
    label = chunks[0][1].batch.column("label")
    assert (str(label.type), label.to_pylist()) == (str(columns.label_type), expected)
    assert [row for _, _, row, _ in reasons(failures)] == refused


@pytest.mark.parametrize(
    "values",
    [
        pa.array([2, None, 1]),
        pa.array([2.0, 1.5, 1.0]),
        pa.array([2.0, math.inf, 1.0]),
        pa.array([2, 2**63, 1], pa.uint64()),
    ],
)
def test_sequences(values: pa.Array) -> None:
    batch = pa.record_batch({"n": values, "x": pa.array([0.0] * 3)})
    chunks, failures = cut(rows_of(batch), 0, columns_of(batch.schema, sequence="n"))
    assert chunks[0][1].column("sequence").tolist() == [1, 2]
    assert chunks[0][1].column("row").tolist() == [2, 0]
    assert [row for _, _, row, _ in reasons(failures)] == [1]


@pytest.mark.parametrize("chunk_rows", [1, 7, 16_384])
def test_chunks_are_no_longer_than_told(chunk_rows: int) -> None:
    rng = np.random.default_rng(4)
    batch = pa.record_batch(
        {"id": pa.array(rng.integers(5, size=500)), "t": pa.array(rng.integers(50, size=500)),
         "x": pa.array(rng.normal(size=500))}
    )  # fmt: skip
    columns = columns_of(batch.schema, model_id="id", time="t")
    chunks, _ = cut(rows_of(batch), 0, columns, chunk_rows)
    rows: dict[str, list[tuple[int, int]]] = {}
    for model, chunk in chunks:
        assert 1 <= len(chunk) <= chunk_rows
        rows.setdefault(model, []).extend(
            zip(chunk.column("time").tolist(), chunk.column("row").tolist(), strict=True)
        )
    assert all(found == sorted(found) for found in rows.values())
    assert sorted(row for found in rows.values() for _, row in found) == list(range(500))


VALUES = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.sampled_from([None, math.nan, math.inf, -math.inf, 1e308, 1e100, 0.0]),
)
HOSTILE = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["a", "b", "ü", "", None, "x" * 1025]),
        "t": st.one_of(st.none(), st.integers(-5, 5), st.sampled_from([2**63 - 1, -(2**63)])),
        "n": st.one_of(st.none(), st.integers(-2, 2)),
        "x": VALUES,
        "v": st.one_of(st.none(), st.lists(VALUES, min_size=2, max_size=2)),
        "l": st.sampled_from(["1", "2", "", None, "x"]),
    }
)
HOSTILE_SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "t": pa.int64(),
        "n": pa.int64(),
        "x": pa.float64(),
        "v": pa.list_(pa.float64(), 2),
        "l": pa.string(),
    }
)


@given(
    st.lists(HOSTILE, max_size=40),
    st.lists(st.integers(0, 40), max_size=4),
    st.sampled_from(["fail", "hold"]),
)
def test_every_row_once_and_refused_ones_change_nothing(
    rows: list[dict[str, Any]], cuts: list[int], missing: str
) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=HOSTILE_SCHEMA)
    columns = columns_of(
        HOSTILE_SCHEMA, model_id="id", time="t", sequence="n", label="l", label_type="int64",
        missing=missing,
    )  # fmt: skip
    chunks, failures = cut(rows_of(batch), 0, columns)
    good = sorted(row for _, chunk in chunks for row in chunk.column("row").tolist())
    failed = [row for _, _, row, _ in reasons(failures)]
    assert sorted(good + failed) == list(range(len(rows)))
    # The good rows alone.
    again, none = cut(rows_of(batch.take(pa.array(good, pa.int64()))), 0, columns)
    assert none.batch.num_rows == 0
    # A model's first row says when its turn is, and may be a refused one.
    assert sorted(model for model, _ in again) == sorted(model for model, _ in chunks)
    alone = dict(again)
    for model, one in chunks:
        other = alone[model]
        rank = {row: i for i, row in enumerate(good)}
        assert [rank[row] for row in one.column("row").tolist()] == other.column("row").tolist()
        assert one.batch.drop_columns("row").equals(other.batch.drop_columns("row"), True) or (
            missing == "hold"
        )
        assert one.column("x").tobytes() == other.column("x").tobytes()
    # The same rows in several batches, gathered.
    borders = sorted({0, len(rows), *(at for at in cuts if at < len(rows))})
    parts = [
        parse(rows_of(batch.slice(start, stop - start), start), 0, columns)
        for start, stop in itertools.pairwise(borders)
    ]
    gathered = {model: chunk for model, chunk in split([part for part, _ in parts], columns)}
    assert gathered.keys() == dict(chunks).keys()
    for model, chunk in chunks:
        assert repr(gathered[model].batch.to_pylist()) == repr(chunk.batch.to_pylist())
    assert [text for _, found in parts for text in reasons(found)] == reasons(failures)


CSV_FIELDS = st.sampled_from(["1", "2.5", "", "nan", "inf", "1e308", "x", '"', '"a"', "\xff", "é"])
CSV_LINES = st.lists(CSV_FIELDS, min_size=1, max_size=6).map(
    lambda fields: ",".join(fields).encode("latin-1")
)
GOOD_CSV = st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.floats(-9, 9), st.floats(-9, 9))


@given(st.lists(st.one_of(CSV_LINES, GOOD_CSV), max_size=30))
def test_every_line_of_a_csv_file_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes | tuple[Any, ...]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    texts = [
        line if isinstance(line, bytes) else ",".join(map(str, line)).encode() for line in lines
    ]
    options = ColumnOptions(model_id="id", time="t", features=["x", "y"])
    results = []
    for content in (texts, [text for text, line in zip(texts, lines, strict=True)
                            if isinstance(line, tuple)]):  # fmt: skip
        path.write_bytes(b"\n".join([b"id,t,x,y", *content]))
        # Else a header unlike the lines below it is refused.
        try:
            results.append(cut_files(ReadChunks(str(path), options, FormatOptions(header=True))))
        except ConfigError as error:
            # Two fields that never end may look like one that holds a line's end.
            assert error.field == "multiline"
            assert sum(text.count(b'"') % 2 for text in content) > 1
            return
    chunks, failures = results[0]
    good = [row for _, chunk in chunks for row in chunk.column("row").tolist()]
    failed = [row for part in failures for _, _, row, _ in reasons(part)]
    assert sorted(good + failed) == list(range(sum(bool(text) for text in texts)))
    # Lines that are good by construction are among the rows, with the values they have alone.
    values = Counter(repr((m, r["time"], r["x"])) for m, c in chunks for r in c.batch.to_pylist())
    alone = Counter(
        repr((m, r["time"], r["x"])) for m, c in results[1][0] for r in c.batch.to_pylist()
    )
    assert sum(alone.values()) == sum(isinstance(line, tuple) for line in lines)
    assert alone <= values


@example([("a", 0, 0.0, 0.0), b"1,,,", b"1"])
@example([("a", 0, 0.0, 0.0), b'1,inf,inf,",1', b"1"])
@example([b"1,1,1,1,1", b"1,1,1,1,1"])
@example([b"x,x,x,x", ("a", 0, 1.0, 2.0), ("b", 1, 2.0, 3.0)])
@given(st.lists(st.one_of(CSV_LINES, GOOD_CSV), max_size=30))
def test_a_csv_file_whose_header_nobody_names_is_refused_or_whole(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes | tuple[Any, ...]]
) -> None:
    """It is what `header` makes of it, but for lines of units, which are counted in a note."""
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    texts = [
        line if isinstance(line, bytes) else ",".join(map(str, line)).encode() for line in lines
    ]
    path.write_bytes(b"\n".join([b"id,t,x,y", *texts]))
    options = ColumnOptions(model_id="id", time="t", features=["x", "y"])
    try:
        reader = ReadChunks(str(path), options)
    except (ConfigError, DataError) as error:
        assert re.search("try skip_lines|name all columns|multiline", str(error))
        return
    chunks, failures = cut_files(reader)
    sure, _ = cut_files(ReadChunks(str(path), options, FormatOptions(header=True)))
    values, expected = (
        Counter(repr((m, r["time"], r["x"])) for m, c in found for r in c.batch.to_pylist())
        for found in (chunks, sure)
    )
    assert values == expected
    notes = "".join(reader.input.infos[0].notes)
    noted = re.search(r"(\d) lines? below the header left out", notes)
    read = values.total() + sum(part.batch.num_rows for part in failures)
    assert read + (int(noted[1]) if noted else 0) == sum(bool(text) for text in texts)


# Gathering ---------------------------------------------------------------------------------------


def interleaved(models: int, rounds: int) -> pa.Table:
    number = np.arange(models * rounds)
    ids = pa.array([f"m{i}" for i in range(models)]).take(pa.array(number % models))
    return pa.table({"id": ids, "t": number, "x": number / 7})


@pytest.mark.parametrize(("gather_rows", "expected"), [(1_000_000, 3_000), (1, 9_000)])
def test_interleaved_models_are_gathered(
    gather_rows: int, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transforms.read.formats.base.BATCH_ROWS", 10_000)
    path = tmp_path / "a.parquet"
    pq.write_table(interleaved(3_000, 10), path, row_group_size=5_000)
    reader = ReadChunks(str(path), ColumnOptions(model_id="id", time="t"), gather_rows=gather_rows)
    read_fn = read_module._ReadFn(reader.input.columns, 16_384, gather_rows, "rows")
    chunks = [
        chunk
        for piece in reader.input.infos[0].pieces
        for chunk in read_fn.process((0, piece))
        if isinstance(chunk, tuple)
    ]
    assert len(chunks) == expected if gather_rows > 1 else len(chunks) >= expected
    assert sum(len(chunk) for _, chunk in chunks) == 30_000
    for model, chunk in chunks:
        assert set((chunk.column("row") % 3_000).tolist()) == {int(model[1:])}


def test_few_models_are_cut_early() -> None:
    columns = columns_of(pa.schema({"x": pa.float64()}))
    batch = pa.record_batch({"x": np.zeros(1_023)})
    parsed: list[ParsedRows] = [parse(rows_of(batch), 0, columns)[0]]
    assert not read_module._is_enough(parsed, 1_000_000)
    assert read_module._is_enough(parsed, 1_000)
    assert read_module._is_enough(parsed * 2, 1_000_000)
    assert not read_module._is_enough([], 1)


# With Beam ---------------------------------------------------------------------------------------


def test_pipeline(tmp_path: Path) -> None:
    table = pa.table({"id": ["a", "b", "a", None], "t": [2, 1, 1, 0], "x": [1.0, 2.0, 3.0, 4.0]})
    pq.write_table(table, tmp_path / "1.parquet")
    (tmp_path / "2.csv").write_text("id,t,x\na,1,5\nb,oops,6\nb,0\nb,4,7\n")
    reader = ReadChunks(
        [f"{tmp_path}/*", f"{tmp_path}/1.parquet"], ColumnOptions(model_id="id", time="t")
    )
    assert [Path(path).name for path in reader.input.paths] == ["1.parquet", "2.csv"]
    assert reader.input.rows is None
    assert Input(reader.input.infos[:1], reader.input.columns).rows == 4
    assert reader.input.describe().splitlines()[0] == "input:    2 files"

    def check_rows(actual: list[tuple[str, Chunk]]) -> None:
        found = sorted(
            (model, r["source"], r["row"], r["time"], r["x"])
            for model, chunk in actual
            for r in chunk.batch.to_pylist()
        )
        assert found == [
            ("a", 0, 0, 2_000_000_000, [1.0]),
            ("a", 0, 2, 1_000_000_000, [3.0]),
            ("a", 1, 0, 1_000_000_000, [5.0]),
            ("b", 0, 1, 1_000_000_000, [2.0]),
            ("b", 1, 3, 4_000_000_000, [7.0]),
        ]

    def check_reasons(actual: list[Failures]) -> None:
        found = sorted((r["source"], r["row"], r["reason"]) for part in actual
                       for r in part.batch.to_pylist())  # fmt: skip
        assert found == [
            (0, 3, "id = null: no model id (1 to 1024 bytes of UTF-8)"),
            (1, 1, "t = 'oops': no time in the years 1685 to 2255"),
            (1, 2, "line: 2 fields instead of 3"),
        ]

    pipeline = beam.Pipeline(runner=RUNNER)
    outputs = pipeline | "Read" >> reader
    assert outputs["rows"].element_type == beam.typehints.Tuple[str, Chunk]
    assert outputs["failures"].element_type is Failures
    assert_that(outputs["rows"], check_rows, label="rows")
    assert_that(outputs["failures"], check_reasons, label="failures")
    result = pipeline.run()
    result.wait_until_finish()
    assert counters(result) == {"rows_read": 8, "rows_failed": 3}


def test_damage_in_a_worker_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n")
    reader = ReadChunks(str(path))
    path.unlink()
    pipeline = beam.Pipeline(runner=RUNNER)
    pipeline | "Read" >> reader
    with pytest.raises(Exception, match=r"a\.csv: no such file"):
        pipeline.run()


def test_wrong_settings(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    path = str(tmp_path / "a.csv")
    with pytest.raises(ConfigError, match="chunk_rows = 0: must be 1 at least"):
        ReadChunks(path, chunk_rows=0)
    with pytest.raises(ConfigError, match="gather_rows = 0: must be 1 at least"):
        ReadChunks(path, gather_rows=0)
    with pytest.raises(ConfigError, match="one path or pattern at least"):
        look_at_files([])
    with pytest.raises(DataError, match="no such file"):
        ReadChunks(f"{tmp_path}/*.parquet")


# Real data ---------------------------------------------------------------------------------------


REAL: dict[str, tuple[ColumnOptions, FormatOptions, int, int, int]] = {
    "watch.parquet": (
        ColumnOptions(model_id="model_id", time="time", label="label"),
        FormatOptions(), 244_102, 0, 6,
    ),
    "pamap2_fragment.parquet": (
        ColumnOptions(time="timestamp", label="activityID", features=["hand*", "chest*", "ankle*"]),
        FormatOptions(), 6_378, 122, 27,
    ),
    "a9a.libsvm.gz": (ColumnOptions(), FormatOptions(), 32_561, 0, 123),
    "ijcnn1.libsvm.bz2": (ColumnOptions(), FormatOptions(width=22), 49_990, 0, 22),
    "cadata.tsv.gz": (ColumnOptions(label="target"), FormatOptions(), 20_640, 0, 8),
}  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_real_files(name: str, data_file: Callable[[str], Path]) -> None:
    columns, formats, good, failed, width = REAL[name]
    reader = ReadChunks(str(data_file(name)), columns, formats)
    chunks, failures = cut_files(reader)
    assert sum(len(chunk) for _, chunk in chunks) == good
    assert sum(part.batch.num_rows for part in failures) == failed
    assert reader.input.columns.width == width


def test_motionsense_is_what_the_file_says(data_file: Callable[[str], Path]) -> None:
    path = data_file("motionsense.parquet")
    reader = ReadChunks(str(path), ColumnOptions(model_id="model_id", time="time", label="label"))
    chunks, failures = cut_files(reader)
    assert sum(part.batch.num_rows for part in failures) == 0
    table = pq.read_table(path)
    names = list(reader.input.columns.channels)
    assert (len(names), reader.input.columns.dtype) == (12, "float32")
    models = table["model_id"].unique().to_pylist()
    assert sorted({model for model, _ in chunks}) == sorted(models)
    for model in models[:3]:
        part = table.filter(pc.equal(table["model_id"], model))
        whole = Chunk.concat([chunk for name, chunk in chunks if name == model])
        expected = np.column_stack([part[name].to_numpy() for name in names])
        assert whole.column("x").tobytes() == expected.tobytes()
        assert whole.column("label").tolist() == part["label"].to_pylist()
        milliseconds = part["time"].cast(pa.int64()).to_numpy()
        assert (whole.column("time") == milliseconds * 1_000_000).all()
        assert (np.diff(whole.column("row")) > 0).all()
