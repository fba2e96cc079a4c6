"""Files made to break their reader: one DataError, and memory that stays bounded."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kerneltrack.errors import ConfigError, DataError
from transforms.read.columns import ColumnOptions, resolve
from transforms.read.files import split
from transforms.read.formats import FormatOptions, find, inspect
from transforms.read.matrix import to_matrix
from transforms.read.parse import parse


def npy(header: str, data: bytes = b"\0" * 64) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def shaped(shape: str, kind: str = "'<f8'") -> bytes:
    return npy(f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}}}")


NPY = {
    "more rows than bytes": (shaped("(999999999999999, 3)"), "cut off: 64 of 23999999999999976"),
    "a negative size": (shaped("(-5, 3)"), r"shape \(-5, 3\): sizes are whole numbers from 0"),
    "a negative width": (shaped("(5, -3)"), r"shape \(5, -3\): sizes are whole numbers from 0"),
    "a size of True": (shaped("(True, 3)"), r"shape \(True, 3\): sizes are whole numbers"),
    "a size of 1.5": (shaped("(1.5,)"), "shape is not valid"),
    "wide rows, none of them": (shaped("(0, 99999999999999)"), "rows of 99999999999999 numbers"),
    "more than fits a number": (shaped("(2**64, 2)".replace("2**64", str(2**64))), "cut off"),
    "a size of 400 digits": (shaped(f"({'9' * 400}, 2)"), "cut off"),
    "values of no bytes": (shaped("(1000000000000,)", "'|S0'"), "which has no bytes"),
    "records of no field": (shaped("(100000000000,)", "[]"), "which has no bytes"),
    "a name that is no text": (shaped("(2,)", "[('\\ud800', '<f8')]"), "surrogates not allowed"),
    "3,000 brackets": (npy("(" * 3000 + ")" * 3000), "cannot be read"),
    "a header of 4 GB": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b"x" * 100, "EOF"),
    "a program": (npy("__import__('os').abort()"), "cannot be read"),
    "a version to come": (b"\x93NUMPY\x03\x00" + bytes(100), "version 3.0 is not known"),
    "no header": (b"\x93NUMPY", "EOF"),
    "nothing": (b"", "EOF"),
}


@pytest.mark.parametrize("name", NPY)
def test_an_array_that_cannot_be(name: str, tmp_path: Path) -> None:
    data, says = NPY[name]
    (tmp_path / "in.npy").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "in.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", data)
    with pytest.raises(DataError, match=says) as caught:
        inspect(str(tmp_path / "in.npy"))
    assert len(str(caught.value)) < 800
    with pytest.raises(DataError):
        inspect(str(tmp_path / "in.npz"))


def test_two_members_of_one_name(tmp_path: Path) -> None:
    held = io.BytesIO()
    np.save(held, np.ones((4, 2)))
    with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        warnings.simplefilter("ignore")
        for _ in range(2):
            archive.writestr("X.npy", held.getvalue())
    with pytest.raises(DataError, match="two columns are called 'X'"):
        inspect(str(tmp_path / "in.npz"))


@pytest.mark.parametrize("shape", [(700, 3), (700, 2, 3)])
def test_a_column_major_member_is_unpacked_beside_memory(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    values = np.asfortranarray(np.random.default_rng(0).normal(size=shape))
    np.savez_compressed(tmp_path / "in.npz", X=values)
    info = inspect(str(tmp_path / "in.npz"))
    (piece,) = info.pieces
    columns = {"X": info.schema.field("X").type}
    reported = [rows.batch.column("X").flatten() for rows in piece.read(columns)]
    assert np.concatenate(reported).tobytes() == values.reshape(700, -1).tobytes()


def test_a_column_major_bomb_takes_a_batch_of_memory(tmp_path: Path) -> None:
    header = "{'descr': '<f8', 'fortran_order': True, 'shape': (4000000, 4)}"
    with zipfile.ZipFile(tmp_path / "in.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", npy(header, bytes(4_000_000 * 32)))
    assert os.path.getsize(tmp_path / "in.npz") < 200_000
    (piece,) = inspect(str(tmp_path / "in.npz")).pieces
    tracemalloc.start()
    first = next(piece.read({"X": pa.list_(pa.float64(), 4)}))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert first.batch.num_rows == 65_536
    assert peak < 40 << 20


NO_TEXT = "hex base64 zlib bz2 uu quopri rot13 idna punycode undefined mbcs nonsense a\0b".split(
    " "
)


@pytest.mark.parametrize("name", NO_TEXT)
def test_a_codec_that_is_none_of_text(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^encoding = .*: must be an encoding of text"):
        FormatOptions(encoding=name)


@pytest.mark.parametrize(
    "name", ["utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-32-le", "utf-7", "gb18030", "cp037"]
)
def test_encodings_of_text_are_taken(name: str) -> None:
    assert FormatOptions(encoding=name).encoding == name


@pytest.mark.parametrize("given", [{"quote": ","}, {"decimal": ","}])
def test_marks_that_are_the_delimiter_by_default(given: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ConfigError, match=f"^{next(iter(given))} = ',': must be another"):
        inspect(str(tmp_path / "in.csv"), FormatOptions(**given))
    (tmp_path / "in.tsv").write_text("a\tb\n1\t2\n")
    assert inspect(str(tmp_path / "in.tsv"), FormatOptions(**given)).schema.names == ["a", "b"]


def test_pipes_and_devices_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in.csv")
    for path in (str(tmp_path / "in.csv"), "/dev/null"):
        with pytest.raises(DataError, match="is a pipe or a device"):
            find([path])
    with pytest.raises(DataError, match="no such file"):
        find([str(tmp_path / "*.csv")])


def test_column_names_that_are_no_text(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"NAME": [1.0], "b": [2.0]}), tmp_path / "in.parquet", store_schema=False
    )
    data = (tmp_path / "in.parquet").read_bytes()
    (tmp_path / "in.parquet").write_bytes(data.replace(b"NAME", b"N\xff\xfeE"))
    with pytest.raises(DataError, match="cannot be read"):
        inspect(str(tmp_path / "in.parquet"))


def test_more_columns_than_are_converted_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transforms.read.formats.fields._MOST_COLUMNS", 5)
    width = 13
    rows = np.arange(2 * width).reshape(2, width) % 7
    lines = [",".join(f"c{i}" for i in range(width)), *(",".join(map(str, row)) for row in rows)]
    # The value that is no number stands in the last share of the columns.
    lines.append(",".join(["1"] * (width - 1) + ["one"]))
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    info = inspect(str(tmp_path / "in.csv"))
    columns = resolve([info], ColumnOptions())
    (reported,) = info.pieces[0].read(columns.requests)
    values = to_matrix(reported.batch, columns.features, "float64")
    np.testing.assert_array_equal(values, [*rows, [1.0] * (width - 1) + [np.nan]])
    assert reported.unread == [(2, f"c{width - 1} = 'one': not a number")]


def test_reasons_are_bounded_and_printable(tmp_path: Path) -> None:
    name = "x" * 1000 + "\x1b[31m\nend"
    table = pa.table(
        {
            "id": ["z" * 10**6, "m\x1b", "\u202e" * 400],
            name: [1.0, float("nan"), 2.0],
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    info = inspect(str(tmp_path / "in.parquet"))
    columns = resolve([info], ColumnOptions(model_id="id"))
    (rows,) = info.pieces[0].read(columns.requests)
    parsed, failures = parse(rows, 0, columns)
    assert list(split([parsed], columns)) == []
    too_long, missing, too_long_too = failures.batch.column("reason").to_pylist()
    no_id = "no model id (1 to 1024 bytes of UTF-8)"
    assert too_long == f"id = '{'z' * 35}...': {no_id}"
    shown = (r"\u202e" * 6)[:35]
    assert too_long_too == f"id = '{shown}...': {no_id}"
    assert missing == "x" * 198 + "..." + ("x" * 99 + r"\x1b[31m end = nan: missing value")[-99:]
    assert failures.batch.column("model_id").to_pylist() == [None, "m\x1b", None]
    # What is said of the columns before the job begins stays on its line, too.
    assert [len(line) < 200 for line in columns.describe().splitlines()] == [True] * 6
