"""One table in many forms: whatever files it lies in, the same rows of each device come out."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parts import examples
from transforms.read.columns import ColumnOptions
from transforms.read.formats import FormatOptions
from transforms.read.look import look_at_files
from transforms.read.parse import parsed_of

Table = dict[str, list[tuple[int, float, float]]]
"""The rows of each device: time in ms, and two channels."""

Rows = dict[str, list[tuple[int, bytes]]]
"""Time in ns of each row, and the bits of its channels, in the order of time."""

PATH = ColumnOptions(model_id_from="path", time="t", time_unit="ms")
COLUMN = ColumnOptions(model_id="device", time="t", time_unit="ms")

NAMES = st.text(
    st.characters(exclude_characters='/\0"\n\r,\\=', exclude_categories=["Cs", "Cc"]),
    min_size=1,
    max_size=8,
).filter(lambda name: name == name.strip() and name[0] not in "._~" and "." not in name)
VALUES = st.floats(-1e99, 1e99)
TABLES = st.dictionaries(
    NAMES,
    st.lists(
        st.tuples(st.integers(0, 2**40), VALUES, VALUES),
        min_size=1,
        max_size=6,
        unique_by=lambda row: row[0],
    ),
    min_size=2,
    max_size=4,
)


def expected(table: Table) -> Rows:
    return {
        device: sorted((t * 1_000_000, np.array([a, b]).tobytes()) for t, a, b in rows)
        for device, rows in table.items()
    }


def read(path: str, columns: ColumnOptions, formats: FormatOptions | None = None) -> Rows:
    found: Rows = {}
    files = look_at_files(path, columns, formats)
    assert files.columns.channels == ("a", "b")
    for good, failed in parsed_of(files.infos, files.columns):
        assert failed.batch.num_rows == 0, failed.batch.to_pylist()
        assert good.time is not None
        x = good.x.astype(np.float64)
        for code, t, values in zip(good.model.tolist(), good.time.tolist(), x, strict=True):
            found.setdefault(good.models[code], []).append((t, values.tobytes()))
    return {device: sorted(rows) for device, rows in found.items()}


def csv(table: Table, device: bool = True) -> str:
    lines = ["device,t,a,b" if device else "t,a,b"]
    for name, rows in table.items():
        lines += [f"{name + ',' if device else ''}{t},{a!r},{b!r}" for t, a, b in rows]
    return "\n".join(lines) + "\n"


def json_lines(table: Table, device: bool = True) -> str:
    named = [
        ({"device": name} if device else {}, row) for name, rows in table.items() for row in rows
    ]
    return "".join(
        json.dumps(first | {"t": t, "a": a, "b": b}) + "\n" for first, (t, a, b) in named
    )


def arrow(table: Table, device: bool) -> pa.Table:
    rows = [(name, *row) for name, own in table.items() for row in own]
    columns = dict(zip(("device", "t", "a", "b"), map(list, zip(*rows, strict=True)), strict=True))
    return pa.table({k: v for k, v in columns.items() if device or k != "device"})


def parquet(table: Table, device: bool = True) -> bytes:
    sink = io.BytesIO()
    pq.write_table(arrow(table, device), sink)
    return sink.getvalue()


def orc(table: Table, device: bool = True) -> bytes:
    sink = io.BytesIO()
    pyarrow.orc.write_table(arrow(table, device), sink)
    return sink.getvalue()


def avro(table: Table, device: bool = True) -> bytes:
    sink, kinds = io.BytesIO(), {"device": "string", "t": "long", "a": "double", "b": "double"}
    rows = arrow(table, device)
    fields = [{"name": name, "type": kinds[name]} for name in rows.column_names]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    fastavro.writer(sink, schema, rows.to_pylist())
    return sink.getvalue()


def zipped(table: Table, device: bool = True) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("rows.csv", csv(table, device))
    return sink.getvalue()


WRITERS: dict[str, Callable[..., Any]] = {
    "csv": csv,
    "jsonl": json_lines,
    "parquet": parquet,
    "orc": orc,
    "avro": avro,
    "csv.zip": zipped,
}


def save(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


@settings(max_examples=examples(10))
@given(table=TABLES)
@pytest.mark.parametrize("ending", WRITERS)
def test_one_file_or_one_for_each_device(
    ending: str, table: Table, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, write = tmp_path_factory.mktemp("table"), WRITERS[ending]
    save(folder / "one" / f"rows.{ending}", write(table))
    for number, (device, rows) in enumerate(table.items()):
        own = write({device: rows}, device=False)
        save(folder / "named" / f"{device}.{ending}", own)
        save(folder / "folders" / f"device={quote(device)}" / f"part-0.{ending}", own)
        save(folder / "pattern" / f"{number}~{device}~x.{ending}", own)
    rows_of = expected(table)
    assert read(str(folder / "one"), COLUMN) == rows_of
    assert read(str(folder / "named"), PATH) == rows_of
    assert read(str(folder / "folders"), COLUMN) == rows_of
    assert read(str(folder / "folders"), PATH) == rows_of
    pattern = FormatOptions(path_pattern="/[0-9]~(?P<device>[^/]+)~x")
    assert read(str(folder / "pattern"), COLUMN, pattern) == rows_of


@settings(max_examples=examples(20))
@given(table=TABLES, form=st.sampled_from(["csv", "jsonl", "parquet"]))
def test_standard_input(table: Table, form: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("stdin") / "in"
    save(path, WRITERS[form](table))
    with path.open("rb") as handle, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", handle)
        assert read("-", COLUMN, FormatOptions(format=form)) == expected(table)
