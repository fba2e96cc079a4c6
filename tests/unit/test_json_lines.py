"""JSON lines: exact values, lines and values that cannot be read set apart, other JSON refused."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltrack.errors import DataError
from transforms.read.columns import ColumnOptions, resolve
from transforms.read.formats import FileInfo, FormatOptions, base, inspect
from transforms.read.formats import lines as lines_module
from transforms.read.look import look_at_files
from transforms.read.parse import parsed_of

TEXT, REAL, WHOLE, TRUTH = pa.string(), pa.float64(), pa.int64(), pa.bool_()
Read = tuple[dict[str, list[Any]], list[int], dict[int, str]]


def save(path: Path, *lines: Any) -> Path:
    """Write lines; what is no text is written as JSON."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def read(info: FileInfo, columns: dict[str, pa.DataType] | None = None) -> Read:
    """Columns, row numbers of what could be read, and all reasons by row number."""
    wanted = columns or dict(zip(info.schema.names, info.schema.types, strict=True))
    values: dict[str, list[Any]] = {name: [] for name in wanted}
    numbers: list[int] = []
    reasons: dict[int, str] = {}
    for piece in info.pieces:
        for rows in piece.read(wanted):
            assert rows.batch.num_rows == len(rows.row) <= base.BATCH_ROWS
            for name in wanted:
                values[name] += rows.batch.column(name).to_pylist()
            numbers += rows.row.tolist()
            reasons |= dict(rows.bad)
            reasons |= {int(rows.row[place]): reason for place, reason in rows.unread}
    return values, numbers, reasons


def test_types_are_guessed(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "n": 1, "x": 1, "on": True, "gone": None, "z": [1, 2.5], "odd": [1], "s": {}},
        {"id": "b", "n": -5, "x": 1.5, "on": False, "z": [None, 0], "odd": [1, 2], "late": "7"},
        {"x": "oops", "deep": {"er": {"y": 3}}},
    ]
    info = inspect(str(save(tmp_path / "a.jsonl", *rows)))
    assert dict(zip(info.schema.names, info.schema.types, strict=True)) == {
        "id": TEXT,
        "n": WHOLE,
        "x": REAL,
        "on": TRUTH,
        "gone": pa.null(),
        "z": pa.list_(REAL, 2),
        "odd": pa.list_(pa.null()),
        "late": TEXT,
        "deep.er.y": WHOLE,
    }
    assert (info.text, info.sparse, info.rows, info.format) == (True, True, None, "jsonl")


def test_every_line_is_read_or_has_its_reason(tmp_path: Path) -> None:
    path = save(
        tmp_path / "a.ndjson",
        {"id": 7, "x": 1, "z": [1, 2]},
        "",
        '{"id": "b", "x": NaN, "z": [1]}',
        '{"id": "c", "x": 2',
        "[1]",
        {"x": "2.5", "id": True},
        {"id": "d", "x": "oops", "z": [1, "y"]},
        {"id": [1], "x": 10**400},
        '{"id": "\\ud800", "x": true}',
    )
    values, numbers, reasons = read(
        inspect(str(path)), {"id": TEXT, "x": REAL, "z": pa.list_(REAL, 2), "none": REAL}
    )
    assert numbers == [0, 1, 4, 5, 6, 7]
    assert values["id"] == ["7", "b", "true", "d", None, None]
    assert values["x"][0] == 1.0 and math.isnan(values["x"][1])
    assert values["x"][2:] == [2.5, None, None, 1.0]
    assert values["z"] == [[1.0, 2.0], None, None, None, None, None]
    assert values["none"] == [None] * 6
    assert reasons == {
        1: "z = [1]: not a list of 2 numbers",
        2: """line = '{"id": "c", "x": 2': not JSON""",
        3: "line = [1]: not an object",
        5: "x = 'oops': not a number",
        6: "id = [1]: not a text",
        7: "id = '\\ud800': not a text",
    }


def test_whole_numbers_are_exact(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jsonl", {"t": 1700000000123456789}, {"t": 2**63}, {"t": 5.0})
    values, _, reasons = read(inspect(str(path)), {"t": WHOLE})
    assert values["t"] == [1700000000123456789, None, 5]
    assert reasons == {1: "t = 9223372036854775808: not a whole number"}
    more = {"t": 1.5}, {"t": "6"}, {"t": "6.0"}, {"t": False}
    values, _, reasons = read(inspect(str(save(tmp_path / "b.jsonl", *more))), {"t": WHOLE})
    assert values["t"] == [None, 6, None, 0]
    assert list(reasons) == [0, 2]


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.sampled_from([2**63, -(2**63), 2**53 + 1, 0.5, -2.0, 1e300]),
    st.floats(allow_nan=False),
    st.sampled_from(["1", "-2.5e3", " 7 ", "1_0", "nan", "", "x", "0x1", "true"]),
)


def plainly(value: Any, kind: pa.DataType) -> Any:
    """What a value is as a type: the obvious way; an exception if it is not of it."""
    if kind == REAL:
        if (
            isinstance(value, str)
            and not value.strip(" ").replace("e", "").strip("-").replace(".", "").isdigit()
        ):
            raise ValueError(value)
        return float(value)
    if kind == WHOLE:
        if isinstance(value, str):
            value = int(value) if value.strip(" ").isdigit() else 1 / 0
        if value != int(value) or not -(2**63) <= value < 2**63:
            raise ValueError(value)
        return int(value)
    if kind == TEXT:
        return str(value) if isinstance(value, float) else json.dumps(value).strip('"')
    if value not in (True, False):
        raise ValueError(value)
    return bool(value)


@given(
    rows=st.lists(st.dictionaries(st.sampled_from("abc"), SCALARS), min_size=1, max_size=20),
    kind=st.sampled_from([REAL, WHOLE, TEXT, TRUTH]),
    most=st.integers(1, 7),
)
def test_values_are_converted_alike_alone_and_together(
    rows: list[dict[str, Any]], kind: pa.DataType, most: int, tmp_path_factory: Any
) -> None:
    path = save(tmp_path_factory.mktemp("json") / "a.jsonl", *rows)
    (piece,) = inspect(str(path)).pieces
    before, base.BATCH_ROWS = base.BATCH_ROWS, most
    try:
        parts = list(piece.read({"a": kind}))
    finally:
        base.BATCH_ROWS = before
    assert [row for part in parts for row in part.row.tolist()] == list(range(len(rows)))
    for part in parts:
        unread = dict(part.unread)
        for place, got in enumerate(part.batch.column("a").to_pylist()):
            value = rows[part.row[place]].get("a")
            try:
                expected = None if value is None else plainly(value, kind)
            except (ValueError, OverflowError, ZeroDivisionError):
                assert (got, place in unread) == (None, True), value
            else:
                assert (got, place in unread) == (expected, False), value


def test_blocks_encodings_and_compression_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": f"dü{i % 3}", "x": i / 7} for i in range(500)]
    path = save(tmp_path / "a.jsonl", *rows)
    expected = read(inspect(str(path)))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    text = path.read_text(encoding="utf-8").replace("dü", "d\\u00fc").replace("\n", "\r\n")
    (tmp_path / "c.jsonl").write_bytes(text.encode("utf-16"))
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", 100)
    assert read(inspect(str(path))) == expected
    assert read(inspect(str(tmp_path / "b.jsonl.gz"))) == expected
    options = FormatOptions(encoding="utf-16")
    assert read(inspect(str(tmp_path / "c.jsonl"), options)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"x": 1},\n {"x": 2}]', r"an array of records: .* jq -c '\.\[\]' FILE .* lines=True"),
        ('{\n  "x": 1\n}', r"line 1: line = '{': not JSON: .* as jq -c \. FILE writes them"),
        ('{"x": {"0": 1, "1": 2}, "y": {"0": 3, "1": 4}}', "an object of columns: .*orient='rec"),
        ('{"rows": [{"x": 1}, {"x": 2}]}', r"in the list 'rows': .* jq -c '\.rows\[\]' FILE"),
        ('{"status": "success", "data": {"resultType": "matrix", "resu', r"Prometheus: .* jq -c"),
        ("x,y\n1,2\n", "line 1: line = 'x,y': not JSON"),
        ("\n\n", "has no line"),
    ],
)
def test_other_json_is_refused_with_the_way_to_convert_it(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        inspect(str(path))


def test_keys_may_differ_from_file_to_file(tmp_path: Path) -> None:
    save(tmp_path / "a.jsonl", {"id": "a", "x": 1, "y": 2})
    save(tmp_path / "b.jsonl", {"id": "b", "x": 3})
    infos = [inspect(str(tmp_path / name)) for name in ("a.jsonl", "b.jsonl")]
    columns = resolve(infos, ColumnOptions(model_id="id"))
    assert columns.channels == ("x", "y")
    (a, _), (b, failed) = parsed_of(infos, columns)
    assert (a.x.tolist(), len(b)) == ([[1.0, 2.0]], 0)
    assert failed.batch.column("model_id").to_pylist() == ["b"]
    assert failed.batch.column("reason").to_pylist() == ["y = nan: missing value"]


def test_keys_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jsonl", {"a.b": 1, "a": {"b": 2}})
    with pytest.raises(DataError, match=r"two columns are called 'a\.b'"):
        inspect(str(path))


def test_what_read_output_writes_is_read(tmp_path: Path) -> None:
    """As a job's features lie in Kafka: lists of numbers, times with nine digits."""
    rows = [
        {
            "model_id": "m",
            "index": i,
            "time": f"2026-03-01T00:00:{i:02d}.000000001Z",
            "loss": i / 3,
            "evicted": None,
            "z": [i / 7, -i / 9, 0.1],
        }
        for i in range(50)
    ]
    path = save(tmp_path / "features.jsonl", *rows)
    options = ColumnOptions(model_id="model_id", time="time", sequence="index", features=["z"])
    found = look_at_files(str(path), options)
    assert found.columns.channels == ("z[0]", "z[1]", "z[2]")
    ((good, failed),) = parsed_of(found.infos, found.columns)
    assert failed.batch.num_rows == 0
    assert np.array_equal(good.x, np.array([row["z"] for row in rows]))
    assert good.time is not None
    assert (np.diff(good.time) == 10**9).all() and good.time[0] % 10**9 == 1
