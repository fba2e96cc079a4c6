"""Binary formats: what is written is read back, in pieces, and damage is one clear error."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from kerneltrack.errors import ConfigError, DataError
from transforms.read.formats import FileInfo, FormatOptions, PieceRows, find, format_of, inspect
from transforms.read.formats import base as formats_base
from transforms.read.formats import parquet as parquet_format

Read = tuple[pa.Table, npt.NDArray[np.int64], list[tuple[int, str]]]


def read_all(info: FileInfo, columns: dict[str, pa.DataType] | None = None) -> Read:
    """All rows of a file, with what every batch must hold checked."""
    wanted = columns or dict(zip(info.schema.names, info.schema.types, strict=True))
    parts: list[PieceRows] = [rows for piece in info.pieces for rows in piece.read(wanted)]
    for rows in parts:
        assert rows.batch.num_rows == len(rows.row) <= formats_base.BATCH_ROWS
        assert rows.row.dtype == np.int64
        assert rows.batch.schema.names == list(wanted)
    batches = [rows.batch for rows in parts]
    table = pa.Table.from_batches(batches) if batches else info.schema.empty_table()
    numbers = np.concatenate([np.empty(0, dtype=np.int64), *(rows.row for rows in parts)])
    return table, numbers, list(itertools.chain.from_iterable(rows.bad for rows in parts))


@pytest.fixture
def table() -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "id": pa.array([f"m{i % 3}" for i in range(1000)]),
            "t": pa.array(range(1000), pa.timestamp("ms")),
            "a": pa.array(rng.normal(size=1000)),
            "b": pa.array(rng.normal(size=1000), pa.float32()),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(rng.normal(size=3000)), 3),
            "n": pa.array([None if i % 7 == 0 else i for i in range(1000)], pa.int32()),
        }
    )


def plain(table: pa.Table) -> pa.Table:
    """The table with texts as they are instead of dictionary-encoded."""
    columns = {
        name: column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pa.table(columns)


def test_rows_without_a_list_are_read_beside_types_that_only_arrow_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats_base, "BATCH_ROWS", 8)
    lists = [None if i in (0, 9, 17, 18, 39) else [i, None if i == 4 else -i] for i in range(40)]
    given = pa.table(
        {
            "v": pa.array(lists, pa.list_(pa.float32(), 2)),
            "v.w": pa.array([[1.0]] * 40, pa.list_(pa.float64(), 1)),
            "age": pa.array(range(40), pa.duration("ms")),
            "t": pa.array(range(40), pa.timestamp("us", "Europe/Istanbul")),
            "s": pa.array(range(40), pa.timestamp("s")),
            "id": pa.array(["ARROW:schema", "m"] * 20, pa.large_string()),
            "k": pa.array(["x", "y"] * 20).dictionary_encode(),
        }
    )
    path = tmp_path / "in.parquet"
    for statistics in (True, False):
        pq.write_table(given, path, row_group_size=16, write_statistics=statistics)
        read, numbers, bad = read_all(inspect(str(path), FormatOptions()))
        assert plain(read).cast(given.schema) == given
        assert read.schema.field("v").type == given.schema.field("v").type
        assert read.schema.field("t").type == given.schema.field("t").type
        assert numbers.tolist() == list(range(40))
        assert bad == []


def test_lists_that_are_shorter_than_the_schema_says_are_named(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    schema = pa.schema({"a": pa.float64(), "v": pa.list_(pa.float64(), 2)})
    note = pa.table({"a": [0.0], "v": pa.array([None], schema.field("v").type)})
    pq.write_table(note, path)
    kept = pq.read_metadata(path).metadata[b"ARROW:schema"]
    lists = pa.array([[1.0, 2.0], None, [3.0]])
    other = pa.table({"a": [0.0, 1.0, 2.0], "v": lists})
    with pq.ParquetWriter(path, other.schema, store_schema=False) as writer:
        writer.write_table(other)
        writer.add_key_value_metadata({"ARROW:schema": kept})
    info = inspect(str(path), FormatOptions())
    assert info.schema == schema
    message = "column 'v', row 2: a list of 1 values, where all have 2"
    with pytest.raises(DataError, match=message):
        read_all(info)


def write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, row_group_size=130)


def write_arrow(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=130)


def write_stream(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=130)


def write_feather(table: pa.Table, path: Path) -> None:
    pyarrow.feather.write_feather(table, str(path), compression="zstd", chunksize=130)


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "a.parquet": write_parquet,
    "a.arrow": write_arrow,
    "stream.arrow": write_stream,
    "a.arrows": write_stream,
    "a.feather": write_feather,
}


@pytest.mark.parametrize("name", WRITERS)
def test_tables_come_back(name: str, table: pa.Table, tmp_path: Path) -> None:
    WRITERS[name](table, tmp_path / name)
    info = inspect(str(tmp_path / name))
    back, numbers, bad = read_all(info)
    assert info.schema == table.schema
    assert info.rows == (1000 if name == "a.parquet" else None)
    assert plain(back).equals(table)
    assert numbers.tolist() == list(range(1000))
    assert bad == []


@pytest.mark.parametrize("name", WRITERS)
def test_only_named_columns_are_read_in_the_named_order(
    name: str, table: pa.Table, tmp_path: Path
) -> None:
    WRITERS[name](table, tmp_path / name)
    wanted = {"b": pa.float32(), "id": pa.string()}
    back, _, _ = read_all(inspect(str(tmp_path / name)), wanted)
    assert plain(back).equals(table.select(["b", "id"]))


def test_tiny_row_groups_are_merged(
    table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(table, tmp_path / "a.parquet")
    assert len(inspect(str(tmp_path / "a.parquet")).pieces) == 1
    monkeypatch.setattr(parquet_format, "PIECE_ROWS", 300)
    info = inspect(str(tmp_path / "a.parquet"))
    assert [(piece.first_row, piece.rows) for piece in info.pieces] == [
        (0, 390),
        (390, 390),
        (780, 220),
    ]
    # Each piece by itself, last first, as on different workers.
    parts = [list(piece.read({"a": pa.float64()})) for piece in reversed(info.pieces)]
    assert [int(part[0].row[0]) for part in parts] == [780, 390, 0]
    back, numbers, _ = read_all(info)
    assert plain(back).equals(table)
    assert numbers.tolist() == list(range(1000))


def test_string_views_and_dictionaries_are_texts(tmp_path: Path) -> None:
    table = pa.table(
        {
            "view": pa.array(["a", None, "a long text that is not inline"], pa.string_view()),
            "dictionary": pa.array(["x", None, "x"]).dictionary_encode(),
        }
    )
    write_arrow(table, tmp_path / "a.arrow")
    back, _, _ = read_all(inspect(str(tmp_path / "a.arrow")))
    assert plain(back).to_pydict() == {
        "view": ["a", None, "a long text that is not inline"],
        "dictionary": ["x", None, "x"],
    }


ARRAYS: dict[str, npt.NDArray[Any]] = {
    "float64": np.arange(30, dtype=np.float64).reshape(10, 3) / 7,
    "big-endian": np.arange(30, dtype=">f4").reshape(10, 3),
    "uint8": np.arange(30, dtype=np.uint8).reshape(10, 3),
    "bool": np.arange(30).reshape(10, 3) % 2 == 0,
    "images": np.arange(120, dtype=np.int16).reshape(10, 3, 4),
    "fortran": np.asfortranarray(np.arange(30, dtype=np.float32).reshape(10, 3)),
    "fortran images": np.asfortranarray(np.arange(120.0).reshape(10, 3, 4)),
    "vector": np.arange(10) * 1.5,
    "empty": np.empty((0, 3)),
}


@pytest.mark.parametrize("compressed", [False, True, None])
@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_come_back(
    kind: str, compressed: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = ARRAYS[kind]
    # Two rows a batch.
    row_bytes = max(1, array.itemsize * int(np.prod(array.shape[1:])))
    monkeypatch.setattr(formats_base, "BATCH_BYTES", 2 * row_bytes)
    if compressed is None:
        name, path = "x", tmp_path / "a.npy"
        np.save(path, array)
    else:
        name, path = "X", tmp_path / "a.npz"
        (np.savez_compressed if compressed else np.savez)(path, X=array, y=np.arange(len(array)))
    info = inspect(str(path))
    back, numbers, _ = read_all(info)
    assert info.rows == len(array)
    assert numbers.tolist() == list(range(len(array)))
    rows = [row.reshape(-1).tolist() if array.ndim > 1 else row.item() for row in array]
    assert back[name].to_pylist() == rows
    if compressed is not None:
        assert back["y"].to_pylist() == list(range(len(array)))
        assert info.suggested.label == "y"


def test_npy_row_ranges_are_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(30.0).reshape(10, 3)
    np.save(tmp_path / "a.npy", array)
    monkeypatch.setattr("transforms.read.formats.arrays.PIECE_ROWS", 4)
    info = inspect(str(tmp_path / "a.npy"))
    assert [(piece.first_row, piece.rows) for piece in info.pieces] == [(0, 4), (4, 4), (8, 2)]
    back, numbers, _ = read_all(info)
    assert back["x"].to_pylist() == array.tolist()
    assert numbers.tolist() == list(range(10))


def test_structured_npy_has_its_fields_for_columns(tmp_path: Path) -> None:
    array = np.zeros(3, dtype=[("t", "<i8"), ("a", ">f8"), ("who", "U3")])
    array["t"], array["a"], array["who"] = [1, 2, 3], [0.5, 1.5, 2.5], ["x", "y", "é"]
    np.save(tmp_path / "a.npy", array)
    back, _, _ = read_all(inspect(str(tmp_path / "a.npy")))
    assert back.to_pydict() == {"t": [1, 2, 3], "a": [0.5, 1.5, 2.5], "who": ["x", "y", "é"]}


def test_npz_arrays_by_option(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, X=np.ones((2, 2)), Xt=np.zeros((3, 2)), yt=np.arange(3), other=np.ones(3))
    info = inspect(str(path), FormatOptions(arrays=("Xt", "yt")))
    back, _, _ = read_all(info)
    assert back.to_pydict() == {"Xt": [[0.0, 0.0]] * 3, "yt": [0, 1, 2]}
    assert info.suggested.label is None
    with pytest.raises(DataError, match="3 rows instead of 2"):
        inspect(str(path), FormatOptions(arrays=("X", "yt")))
    with pytest.raises(DataError, match="no array 'Z', only X, Xt, yt, other"):
        inspect(str(path), FormatOptions(arrays=("Z",)))


def test_npz_without_x_takes_the_arrays_of_the_first_length(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, acc=np.ones((2, 2)), other=np.ones(3), gyro=np.zeros(2))
    assert inspect(str(path)).schema.names == ["acc", "gyro"]


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}, None], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="values of type object cannot be read"):
        inspect(str(tmp_path / "a.npy"))


def damaged(good: bytes) -> Iterator[bytes]:
    """Cut off at every tenth, and with bytes flipped all over."""
    for tenth in range(10):
        yield good[: len(good) * tenth // 10]
    rng = np.random.default_rng(3)
    for _ in range(150):
        data = np.frombuffer(good, dtype=np.uint8).copy()
        at = rng.integers(len(data), size=rng.integers(1, 6))
        data[at] = rng.integers(256, size=len(at), dtype=np.uint8)
        yield data.tobytes()


# A flipped byte of a header may make it an odd literal.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
@pytest.mark.parametrize("name", [*WRITERS, "a.npy", "a.npz"])
def test_damage_is_a_data_error_or_harmless(name: str, table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / name
    if name in WRITERS:
        WRITERS[name](table.slice(0, 300), path)
    elif name == "a.npy":
        np.save(path, np.ones((20, 3)))
    else:
        np.savez_compressed(path, X=np.ones((20, 3)), y=np.ones(20))
    good = path.read_bytes()
    refused = 0
    for data in damaged(good):
        path.write_bytes(data)
        try:
            read_all(inspect(str(path)))
        except DataError as error:
            refused += 1
            assert error.path == str(path)
            assert "\n" not in str(error)
    assert refused >= 10


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npy", "npz", "feather", "avro", "orc"])
def test_another_format_is_a_data_error(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_bytes(b"time,x\n1,2\n" * 10)
    with pytest.raises(DataError, match="cannot be read"):
        inspect(str(path))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="two columns are called 'a'"):
        inspect(str(tmp_path / "a.parquet"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.PARQUET", "parquet"),
        ("s3://b/a.tsv.gz", "csv"),
        ("a.libsvm.bz2", "libsvm"),
        ("subject101.dat", "pamap2"),
        ("a.npz", "npz"),
    ],
)
def test_formats_by_ending(path: str, expected: str) -> None:
    assert format_of(path) == expected


def test_formats_that_are_not_known() -> None:
    with pytest.raises(DataError, match=r"ending '.foo' is not known"):
        format_of("a.foo")
    with pytest.raises(DataError, match="parquet inside gzip cannot be read"):
        format_of("a.parquet.gz")
    with pytest.raises(ConfigError, match="format = 'odd': must be one of parquet, csv"):
        format_of("a.foo", FormatOptions(format="odd"))
    assert format_of("a.foo", FormatOptions(format="csv")) == "csv"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"delimiter": ";;"}, "delimiter"),
        ({"delimiter": "\n"}, "delimiter"),
        ({"quote": "é"}, "quote"),
        ({"delimiter": "'", "quote": "'"}, "quote"),
        ({"delimiter": ";", "decimal": ";"}, "decimal"),
        ({"encoding": "klingon"}, "encoding"),
        ({"width": 0}, "width"),
        ({"comment": "#\n"}, "comment"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        FormatOptions(**options)
    assert caught.value.field == field


def test_patterns(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "c.txt", "odd[1].csv"):
        (tmp_path / name).write_text("x\n1\n")
    folder = str(tmp_path)
    assert find([f"{folder}/b.csv", f"{folder}/?.csv", f"{folder}/./a.csv"]).paths == [
        f"{folder}/a.csv",
        f"{folder}/b.csv",
    ]
    assert find([f"{folder}/odd[1].csv"]).paths == [f"{folder}/odd[1].csv"]
    with pytest.raises(DataError, match="no such file"):
        find([f"{folder}/*.parquet"])


def test_missing_and_unreadable_files_are_data_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv: no such file"):
        inspect(str(tmp_path / "a.csv"))


REAL = {
    "motionsense.parquet": 926_603,
    "watch.parquet": 244_102,
    "pamap2_fragment.parquet": 6_500,
    "elec2.parquet": 45_312,
    "gas_drift.parquet": 6_697,
    "usps.npz": 7_291,
    "mnist.npz": 60_000,
}


@pytest.mark.parametrize("name", REAL)
def test_real_files(name: str, data_file: Callable[[str], Path]) -> None:
    info = inspect(str(data_file(name)))
    name, kind = next(iter(zip(info.schema.names, info.schema.types, strict=True)))
    table, numbers, bad = read_all(info, {name: kind})
    assert (info.rows, table.num_rows, bad) == (REAL[Path(info.path).name], len(numbers), [])
    assert numbers.tolist() == list(range(REAL[Path(info.path).name]))


def test_npz_test_part(data_file: Callable[[str], Path]) -> None:
    path = str(data_file("usps.npz"))
    info = inspect(path, FormatOptions(arrays=("Xt", "yt")))
    table, _, _ = read_all(info)
    with np.load(io.BytesIO(Path(path).read_bytes())) as arrays:
        flat = table["Xt"].combine_chunks().flatten().to_numpy()
        assert flat.tobytes() == arrays["Xt"].tobytes()
        assert table["yt"].to_numpy().tobytes() == arrays["yt"].tobytes()


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npy"])
@pytest.mark.parametrize("most", [1, 250, 5000])
def test_the_first_rows(ending: str, most: int, table: pa.Table, tmp_path: Path) -> None:
    """Those that a whole reading begins with, whatever a batch or a row group holds."""
    path = tmp_path / f"a.{ending}"
    wanted = table.select(["a"])
    if ending == "parquet":
        pq.write_table(wanted, path, row_group_size=100)
    elif ending == "arrow":
        pyarrow.feather.write_feather(wanted, path, chunksize=300)
    else:
        np.save(path, wanted.column("a").to_numpy()[:, None])
    info = inspect(str(path))
    columns = dict(zip(info.schema.names, info.schema.types, strict=True))
    rows = info.pieces[0].first(columns, most)
    assert rows is not None
    # Arrow files are read by their own record batches, and Parquet across row groups.
    count = min(most, 300) if ending == "arrow" else min(most, 1000)
    assert rows.row.tolist() == list(range(count))
    whole, _, _ = read_all(info)
    assert rows.batch.column(0).to_pylist() == whole.column(0).to_pylist()[:count]
    assert rows.bad == ()
