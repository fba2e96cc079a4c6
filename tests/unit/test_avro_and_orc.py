"""Avro and ORC: what is written is read back, and damage is one clear error."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from kerneltrack.errors import DataError
from transforms.read.columns import ColumnOptions
from transforms.read.formats import base, inspect
from transforms.read.look import look_at_files
from transforms.read.parse import parsed_of

N = 300
UTC = datetime.timezone.utc
TIMES = [
    datetime.datetime(2026, 3, 1, tzinfo=UTC) + i * datetime.timedelta(0, 60, 1) for i in range(N)
]
VALUES = np.random.default_rng(4).normal(size=N)
FIELDS: dict[str, Any] = {
    "id": "string",
    "t": {"type": "long", "logicalType": "timestamp-micros"},
    "x": "double",
    "n": ["null", "int"],
    "state": {"type": "enum", "name": "s", "symbols": ["on", "off"]},
    "cost": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
    "raw": "bytes",
    "inner": {"type": "record", "name": "i", "fields": [{"name": "y", "type": "float"}]},
    "z": {"type": "array", "items": "double"},
}


def record(i: int) -> dict[str, Any]:
    return {
        "id": f"m{i % 3}",
        "t": TIMES[i],
        "x": VALUES[i],
        "n": None if i % 7 == 0 else i,
        "state": "on" if i % 2 else "off",
        "cost": decimal.Decimal(i) / 4,
        "raw": b"\xff",
        "inner": {"y": i / 2},
        "z": [float(i), -1.0],
    }


def write_avro(path: Path, rows: int = N) -> None:
    fields = [{"name": name, "type": kind} for name, kind in FIELDS.items()]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    with path.open("wb") as file:
        fastavro.writer(file, schema, map(record, range(rows)), "deflate", sync_interval=2000)


def orc_table() -> pa.Table:
    return pa.table(
        {
            "id": [f"m{i % 3}" for i in range(N)],
            "t": pa.array([time.replace(tzinfo=None) for time in TIMES], pa.timestamp("ns")),
            "x": VALUES,
            "n": pa.array([None if i % 7 == 0 else i for i in range(N)], pa.int32()),
            "a.b": pa.array(range(N), pa.float32()),
        }
    )


def write_orc(path: Path) -> None:
    pyarrow.orc.write_table(orc_table(), path, stripe_size=2000, batch_size=100)


WRITERS: dict[str, Callable[[Path], None]] = {"a.avro": write_avro, "a.orc": write_orc}


def test_orc_tables_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BATCH_ROWS", 64)
    write_orc(tmp_path / "a.orc")
    info = inspect(str(tmp_path / "a.orc"))
    assert (info.schema, info.rows, info.text) == (orc_table().schema, N, False)
    wanted = dict(zip(info.schema.names, info.schema.types, strict=True))
    parts = [rows for piece in info.pieces for rows in piece.read(wanted)]
    assert max(rows.batch.num_rows for rows in parts) <= 64
    assert pa.Table.from_batches([rows.batch for rows in parts]) == orc_table()
    assert np.concatenate([rows.row for rows in parts]).tolist() == list(range(N))
    (first, *_) = (piece.first({"x": pa.float64(), "id": pa.string()}, 3) for piece in info.pieces)
    assert first is not None
    assert first.batch.to_pydict() == {"x": VALUES[:3].tolist(), "id": ["m0", "m1", "m2"]}


def test_avro_records_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BATCH_ROWS", 64)
    write_avro(tmp_path / "a.avro")
    info = inspect(str(tmp_path / "a.avro"))
    assert dict(zip(info.schema.names, info.schema.types, strict=True)) == {
        "id": pa.string(),
        "t": pa.string(),
        "x": pa.float64(),
        "n": pa.int64(),
        "state": pa.string(),
        "cost": pa.float64(),
        "raw": pa.binary(),
        "inner.y": pa.float64(),
        "z": pa.list_(pa.float64(), 2),
    }
    options = ColumnOptions(model_id="id", time="t", missing="hold")
    found = look_at_files(str(tmp_path / "a.avro"), options)
    assert found.columns.channels == ("x", "n", "cost", "inner.y", "z[0]", "z[1]")
    parts = list(parsed_of(found.infos, found.columns))
    assert sum(failed.batch.num_rows for _, failed in parts) == 0
    assert np.concatenate([good.row for good, _ in parts]).tolist() == list(range(N))
    x = np.concatenate([good.x for good, _ in parts])
    missing = [np.nan if i % 7 == 0 else i for i in range(N)]
    expected: list[Any] = [
        VALUES,
        missing,
        np.arange(N) / 4,
        np.arange(N) / 2,
        np.arange(N),
        -np.ones(N),
    ]
    assert np.array_equal(x, np.column_stack(expected), equal_nan=True)
    times = np.concatenate([good.time for good, _ in parts if good.time is not None])
    start = int(TIMES[0].timestamp()) * 10**9
    assert times.tolist() == [start + i * 60_000_001_000 for i in range(N)]


def test_avro_without_records_or_of_no_record(tmp_path: Path) -> None:
    write_avro(tmp_path / "a.avro", rows=0)
    assert inspect(str(tmp_path / "a.avro")).schema.names == []
    with (tmp_path / "b.avro").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema("long"), [1, 2])
    with pytest.raises(DataError, match="its schema is not that of a record"):
        inspect(str(tmp_path / "b.avro"))


@pytest.mark.parametrize("name", WRITERS)
def test_damage_is_a_data_error_or_harmless(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    good = path.read_bytes()
    rng = np.random.default_rng(3)
    cut = [good[: len(good) * tenth // 10] for tenth in range(10)]
    refused = 0
    for at in range(150):
        data = np.frombuffer(cut[at] if at < len(cut) else good, dtype=np.uint8).copy()
        if at >= len(cut):
            places = rng.integers(len(data), size=rng.integers(1, 6))
            data[places] = rng.integers(256, size=len(places), dtype=np.uint8)
        path.write_bytes(data.tobytes())
        try:
            info = inspect(str(path))
            for piece in info.pieces:
                for rows in piece.read(
                    dict(zip(info.schema.names, info.schema.types, strict=True))
                ):
                    assert rows.batch.num_rows == len(rows.row)
        except DataError as error:
            refused += 1
            assert (error.path, "\n" in str(error)) == (str(path), False)
    assert refused >= 10
