"""Text inside archives and encodings, streams, and formats that are refused by their names."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import sqlite3
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kerneltrack.errors import DataError
from transforms.read.columns import ColumnOptions
from transforms.read.formats import FormatOptions, inspect
from transforms.read.look import Input, look_at_files
from transforms.read.parse import parsed_of

CSV = "id,x\nnörth,1.5\nsouth,2\n"
EXPECTED = {"nörth": [1.5], "south": [2.0]}


def look(path: Path | str, form: str | None = None, encoding: str = "utf-8") -> Input:
    formats = FormatOptions(format=form, encoding=encoding)
    return look_at_files(str(path), ColumnOptions(model_id="id"), formats)


def rows(found: Input) -> dict[str, list[float]]:
    """The values of each model."""
    values: dict[str, list[float]] = {}
    for good, failed in parsed_of(found.infos, found.columns):
        assert failed.batch.num_rows == 0
        for code, x in zip(good.model.tolist(), good.x[:, 0].tolist(), strict=True):
            values.setdefault(good.models[code], []).append(x)
    return values


def zipped(**members: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return data.getvalue()


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("rows.csv.zip", zipped(**{"rows.csv": CSV})),
        ("rows.zip", zipped(**{"deep/rows.csv": CSV, "__MACOSX/._rows.csv": "?", ".x": "?"})),
        ("rows.csv", gzip.compress(CSV.encode())),
        ("rows.csv", lzma.compress(CSV.encode())),
        ("rows.csv", zstd(CSV.encode())),
        ("rows.csv", zipped(**{"any": CSV})),
        ("ROWS.CSV.GZ", gzip.compress(CSV.encode())),
        ("rows.csv.bz2", bz2.compress(CSV.encode())),
    ],
    # Their bytes hold the time at which they were made: no names of tests.
    ids=["csv.zip", "zip", "gzip", "xz", "zstd", "zip by bytes", "GZ", "bz2"],
)
def test_compression_is_known_by_its_bytes_or_its_ending(
    name: str, data: bytes, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    assert rows(look(tmp_path / name)) == EXPECTED


def test_json_lines_in_a_zip(tmp_path: Path) -> None:
    text = '{"id": "nörth", "x": 1.5}\n{"id": "south", "x": 2}\n'
    (tmp_path / "rows.zip").write_bytes(zipped(**{"rows.jsonl": text}))
    assert rows(look(tmp_path / "rows.zip")) == EXPECTED


@pytest.mark.parametrize("name", ["rows.zip", "rows.csv.zip"])
def test_archives_of_several_files_name_them(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(zipped(**{"a.csv": CSV, "b.csv": CSV}))
    with pytest.raises(DataError, match=r"a zip archive of 2 files, not one: a\.csv, b\.csv; unp"):
        look(tmp_path / name)


def test_a_zip_of_what_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped(**{"a.parquet": ""}))
    with pytest.raises(DataError, match=r"a\.parquet in it: parquet inside zip cannot be read"):
        look(tmp_path / "a.zip")
    (tmp_path / "b.zip").write_bytes(b"PK\x03\x04" + bytes(50))
    with pytest.raises(DataError, match=r"b\.zip: cannot be read: File is not a zip file"):
        look(tmp_path / "b.zip")


def test_tar_archives_are_named(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(CSV)
    for name, mode in (("a.tar.gz", "w:gz"), ("a.tgz", "w:gz"), ("a.tar", "w"), ("a.csv", "w:gz")):
        with tarfile.open(tmp_path / name, mode) as archive:  # type: ignore[call-overload]
            archive.add(tmp_path / "rows.csv")
        with pytest.raises(DataError, match="is a tar archive: unpack it first"):
            look(tmp_path / name)
        with pytest.raises(DataError, match="is a tar archive"):
            look(tmp_path / name, "csv")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_says_the_encoding(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CSV.encode(encoding))
    assert rows(look(tmp_path / "a.csv")) == EXPECTED
    assert rows(look(tmp_path / "a.csv", encoding=encoding)) == EXPECTED


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_named(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes((CSV * 100).encode(encoding))
    with pytest.raises(DataError, match=f"every other byte is NUL: try --encoding {encoding}"):
        look(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_bytes(CSV.encode(encoding))
    assert rows(look(tmp_path / "b.csv", encoding=encoding)) == EXPECTED


def test_another_encoding_names_the_flag(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("gerät,x\na,1\n".encode("cp1252"))
    with pytest.raises(DataError, match="not UTF-8 \\(--encoding says another, such as cp1252"):
        look(tmp_path / "a.csv")


def test_nul_in_a_text_is_none_of_utf_16(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CSV.encode() + bytes(500) + b"\nsouth,3\n")
    found = look(tmp_path / "a.csv")
    good, failed = next(iter(parsed_of(found.infos, found.columns)))
    assert (len(good), failed.batch.num_rows) == (3, 1)


def sqlite(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE readings (x)")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.sqlite", None, "an SQLite database: .*sqlite3 -csv -header"),
        ("a.duckdb", bytes(8) + b"DUCK" + bytes(9), "a DuckDB database: .*COPY NAME TO"),
        ("a.h5", b"\x89HDF\r\n\x1a\n" + bytes(9), r"an HDF5 file: .*pandas\.read_hdf"),
        ("a.pkl", pickle.dumps([0] * 9), r"a pickle, which may run any code .*read_pickle"),
        ("a.mat", b"MATLAB 5.0 MAT-file, " + bytes(99), "a MATLAB file: .*writetable"),
        ("a.xml", b'<?xml version="1.0"?>\n<rows/>', r"XML: .*pandas\.read_xml"),
        ("a.gpx", b'<?xml version="1.0"?>\n<gpx version="1.1">', "GPS tracks: .*gpsbabel"),
        ("a.nc", b"CDF\x01" + bytes(9), r"netCDF file: .*open_dataset"),
        ("a.7z", b"7z\xbc\xaf\x27\x1c" + bytes(9), "an archive: .*unpack"),
    ],
)
def test_formats_that_are_not_read_say_how_to_convert(
    name: str, data: bytes | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if data is None:
        sqlite(path)
    else:
        path.write_bytes(data)
    with pytest.raises(DataError, match=message):
        look(path)
    if name != "a.pkl":
        with pytest.raises(DataError, match=message):
            look(path, "csv")
    path.rename(tmp_path / "a.csv")
    if name != "a.pkl":
        with pytest.raises(DataError, match=message):
            look(tmp_path / "a.csv")


def test_feather_of_version_1_says_how_to_convert(tmp_path: Path) -> None:
    (tmp_path / "a.feather").write_bytes(b"FEA1" + bytes(20))
    with pytest.raises(DataError, match=r"Feather version 1: .*read_feather"):
        inspect(str(tmp_path / "a.feather"))


def test_what_a_file_without_ending_is(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["nörth", "south"], "x": [1.5, 2.0]}), tmp_path / "part-0")
    assert rows(look(tmp_path / "part-0")) == EXPECTED
    (tmp_path / "text").write_text(CSV)
    with pytest.raises(DataError, match=r"ending '' is not known .* --format says what it is"):
        look(tmp_path / "text")


@contextmanager
def standard_input(data: bytes, path: Path) -> Iterator[None]:
    """Let standard input hold some bytes."""
    path.write_bytes(data)
    with path.open("rb") as handle, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", handle)
        yield


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input_is_csv(name: str, tmp_path: Path) -> None:
    for data in (CSV.encode(), gzip.compress(CSV.encode()), CSV.encode("utf-16")):
        with standard_input(data, tmp_path / "in"):
            found = look(name)
            assert found.paths == [name]
            assert rows(found) == rows(found) == EXPECTED
            assert rows(look("-")) == EXPECTED


def test_standard_input_of_other_formats(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["nörth", "south"], "x": [1.5, 2.0]}), tmp_path / "a")
    with standard_input((tmp_path / "a").read_bytes(), tmp_path / "in"):
        assert rows(look("-")) == EXPECTED
    text = '{"id": "nörth", "x": 1.5}\n{"id": "south", "x": 2}\n'
    with standard_input(text.encode(), tmp_path / "in"):
        with pytest.raises(DataError, match=r"^-: begins as JSON does, .* try --format jsonl"):
            look("-")
        assert rows(look("-", "jsonl")) == EXPECTED


def test_a_pipe_of_the_shell_is_read_once(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(CSV.encode())
    found = look(f"/dev/fd/{reading}")
    os.close(reading)
    assert rows(found) == rows(found) == EXPECTED
