"""Text formats: exact values, bad rows found exactly and alone, damage as one clear error."""

from __future__ import annotations

import bz2
import csv as python_csv
import dataclasses
import gzip
import io
import lzma
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from kerneltrack.errors import ConfigError, DataError
from transforms.read.columns import ColumnOptions, resolve
from transforms.read.formats import FormatOptions, inspect
from transforms.read.formats import lines as lines_module
from transforms.read.formats.delimited import PAMAP2_NAMES
from transforms.read.parse import parse

TEXT, REAL, WHOLE = pa.string(), pa.float64(), pa.int64()


def read_text(
    path: Path, columns: dict[str, pa.DataType] | None = None, **options: Any
) -> tuple[dict[str, list[Any]], list[int], dict[int, str]]:
    """Columns, row numbers of the rows that could be read, and reasons of the others."""
    info = inspect(str(path), FormatOptions(**options))
    wanted = columns or {
        name: REAL if kind == pa.null() else kind
        for name, kind in zip(info.schema.names, info.schema.types, strict=True)
    }
    values: dict[str, list[Any]] = {name: [] for name in wanted}
    numbers: list[int] = []
    bad: list[tuple[int, str]] = []
    for piece in info.pieces:
        for rows in piece.read(wanted):
            unread = dict(rows.unread)
            whole = [place for place in range(len(rows.row)) if place not in unread]
            for name in wanted:
                values[name] += rows.batch.column(name).take(pa.array(whole, WHOLE)).to_pylist()
            numbers += rows.row[whole].tolist()
            bad += rows.bad
            bad += [(int(rows.row[place]), reason) for place, reason in unread.items()]
    assert len(dict(bad)) == len(bad)
    return values, numbers, dict(bad)


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_types_are_guessed(tmp_path: Path) -> None:
    text = "id,t,x,flag,gone,mostly\na,1,1.5,true,,1\nb,2,2,false,NA,2.5\nc,3,nan,true,,oops\n"
    info = inspect(str(write(tmp_path / "a.csv", text)))
    assert dict(zip(info.schema.names, info.schema.types, strict=True)) == {
        "id": TEXT,
        "t": WHOLE,
        "x": REAL,
        "flag": pa.bool_(),
        "gone": pa.null(),
        "mostly": REAL,
    }
    assert (info.text, info.rows) == (True, None)


def test_values_numbers_and_reasons(tmp_path: Path) -> None:
    text = (
        "# made by hand\n"
        "id,t,x\n"
        "007,1, 1.5 \n"
        "\n"
        "b,2,oops\n"
        "# in between\n"
        "c,3\n"
        "d,4,+1e-3,9\n"
        "e,five,2\n"
        '"f,g",6,\n'
        'open",7,1\n'
        'h,8,"1\n'
        "i,9,1e999\n"
        "é,10,-.5"
    )
    wanted = {"id": TEXT, "t": WHOLE, "x": REAL}
    values, numbers, bad = read_text(write(tmp_path / "a.csv", text), wanted, comment="#")
    assert values == {
        "id": ["007", "f,g", 'open"', "i", "é"],
        "t": [1, 6, 7, 9, 10],
        "x": [1.5, None, 1.0, math.inf, -0.5],
    }
    assert numbers == [0, 5, 6, 8, 9]
    assert bad == {
        1: "x = 'oops': not a number",
        2: "line: 2 fields instead of 3",
        3: "line: 4 fields instead of 3",
        4: "t = 'five': not a whole number",
        7: "line: quotes that do not close",
    }


def test_a_cell_that_cannot_be_read_leaves_the_rest_of_its_row(tmp_path: Path) -> None:
    text = b"id,t,x\na,1,oops\nb,two,2.5\n\xff,3,-\nd,4,NA\n"
    info = inspect(str(write(tmp_path / "a.csv", text)), FormatOptions(null_values=("-",)))
    (rows,) = info.pieces[0].read({"id": TEXT, "t": WHOLE, "x": REAL})
    assert rows.batch.to_pydict() == {
        "id": ["a", "b", None, "d"],
        "t": [1, None, 3, 4],
        "x": [None, 2.5, None, None],
    }
    assert rows.unread == [
        (0, "x = 'oops': not a number"),
        (1, "t = 'two': not a whole number"),
        (2, "id = '\\\\xff': not UTF-8"),
    ]
    assert rows.slice(1).unread == rows.unread[:1]
    columns = resolve([info], ColumnOptions(model_id="id", time="t", features=("x",)))
    columns = dataclasses.replace(columns, requests={"id": TEXT, "t": WHOLE, "x": REAL})
    good, failures = parse(rows, 0, columns)
    assert len(good) == 0
    assert failures.batch.column("model_id").to_pylist() == ["a", "b", None, "d"]
    assert failures.batch.column("reason").to_pylist() == [
        *(reason for _, reason in rows.unread),
        "x = nan: missing value",
    ]
    assert good.missing == {"x": 1}


CELLS = st.sampled_from(["1", "-2.5", " 3 ", "", "NA", "x", '"4"', '"a,b"', "1e999", "-"])


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=20))
def test_each_cell_is_read_whatever_is_beside_it(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str]]
) -> None:
    """A column alone in a file gives the oracle: nothing is lost of a row but what is no number."""
    folder = tmp_path_factory.mktemp("cells")
    path = write(folder / "a.csv", "id,a,b\n" + "".join(f"m,{a},{b}\n" for a, b in cells))
    (rows,) = inspect(str(path)).pieces[0].read({"id": TEXT, "a": REAL, "b": REAL})
    assert rows.bad == []
    assert rows.batch.column("id").to_pylist() == ["m"] * len(cells)
    expected, unread = [], set()
    for place, row in enumerate(cells):
        values = []
        for cell in row:
            text = cell.strip('"')
            number = None if text in ("", "NA", "-") else _float_or_none(text)
            unread |= {place} if number is None and text not in ("", "NA", "-") else set()
            values.append(number)
        expected.append(tuple(values))
    found = list(zip(*(rows.batch.column(name).to_pylist() for name in "ab"), strict=True))
    assert found == expected
    assert {place for place, _ in rows.unread} == unread


def _float_or_none(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def test_a_bad_value_in_a_column_that_is_not_needed_harms_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b"a,b\n1,x\n2,\xff\n3,\n")
    assert read_text(path, {"a": REAL}) == ({"a": [1.0, 2.0, 3.0]}, [0, 1, 2], {})


def test_dialects(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "'a;b';1,5\nc;-\nd;2.5\n")
    options = {
        "delimiter": ";",
        "quote": "'",
        "decimal": ",",
        "header": False,
        "names": ("id", "x"),
        "null_values": ("-",),
    }
    assert read_text(path, {"id": TEXT, "x": REAL}, **options) == (
        {"id": ["a;b", "c"], "x": [1.5, None]},
        [0, 1],
        {2: "x = '2.5': not a number"},
    )
    path = write(tmp_path / "b.txt", '1"|2\n"3|4\n')
    assert read_text(path, {"f0": TEXT, "f1": REAL}, delimiter="|", quote="", header=False) == (
        {"f0": ['1"', '"3'], "f1": [2.0, 4.0]},
        [0, 1],
        {},
    )
    path = write(tmp_path / "c.tsv", "a\tb\n1\t2\n")
    assert read_text(path) == ({"a": [1], "b": [2]}, [0], {})
    path = write(tmp_path / "d.data", "  a  b\t c \n1 2   3\n\t4\t5 6\t\n")
    assert read_text(path, delimiter=" ") == ({"a": [1, 4], "b": [2, 5], "c": [3, 6]}, [0, 1], {})


@pytest.mark.parametrize(
    ("text", "name", "delimiter", "says"),
    [
        (
            "a;b;c\n1;2;3\n",
            "a.csv",
            ",",
            "';' for {}: its first lines then have 3 fields each, now ",
        ),
        ("a;b\n1,5;2,5\n2,5;1\n", "a.csv", ",", "';' for {}: its first lines then have 2 fields"),
        ("a, in K;b\n1;2\n3;4\n", "a.csv", ",", "';' for {}: its first lines then have 2 fields"),
        ("a\tb\n1\t2\n", "a.csv", ",", "'\\t' for {}: its first lines then have 2 fields each"),
        ("a|b\n1|2\n", "a.csv", ",", "'|' for {}"),
        ("a,b\n1,2\n", "a.tsv", "\t", "',' for {}"),
        (" 1.5  2\n3 4 \n", "a.txt", ",", "' ' for {}"),
        (
            "a;b\n" + "1;2\n" * 9 + "1\n",
            "a.csv",
            ",",
            "';' for {}: its first lines then have 2 fie",
        ),
    ],
)
def test_another_delimiter_is_named(
    text: str, name: str, delimiter: str, says: str, tmp_path: Path
) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(ConfigError) as caught:
        inspect(str(path))
    assert (caught.value.field, caught.value.value) == ("delimiter", delimiter)
    assert caught.value.allowed.startswith(says.format(path)), caught.value.allowed
    other = caught.value.allowed.partition("'")[2].partition("'")[0].replace("\\t", "\t")
    assert caught.value.allowed.endswith(f"(try delimiter {other!r})")
    assert len(inspect(str(path), FormatOptions(delimiter=other)).schema.names) >= 2
    # Whoever sets one means it.
    assert inspect(str(path), FormatOptions(delimiter=delimiter, quote="")).format == "csv"


@pytest.mark.parametrize(
    "text",
    [
        "a\n1\n2\n",
        "a;b\n1\n2\n",
        "a b\n1\n",
        "one note\n",
        "a,b\n1;1,2;2\n",
        "a,b\n1,2,3\n4,5\n",
        "time,a\n2024-01-01 10:00,1\n2024-01-01 10:01\n",
        'a,b\n"1;2",3\n"4;5",6\n',
    ],
)
def test_a_table_as_it_is_stays_one(text: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", text)
    names = text.partition("\n")[0].split(",")
    assert inspect(str(path)).schema.names == names


def test_numbers_with_the_other_decimal_mark(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "a;b;c;d;e\n1,5;x;1.5;7;1.234,5\n-2,25;1,5;2.5;8;2.345,6\n")
    point = inspect(str(path), FormatOptions(delimiter=";"))
    assert point.decimals == {"a": ","}
    comma = inspect(str(path), FormatOptions(delimiter=";", decimal=","))
    assert comma.decimals == {"c": "."}


def test_the_first_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "a,b\n" + "".join(f"{i},{i}\n" for i in range(50)) + "x,1\n")
    (piece,) = inspect(str(path)).pieces
    rows = piece.first({"a": WHOLE}, 3)
    assert rows is not None
    assert (rows.batch.to_pydict(), rows.row.tolist(), rows.bad) == (
        {"a": [0, 1, 2]},
        [0, 1, 2],
        [],
    )
    rows = piece.first({"a": WHOLE}, 100)
    assert rows is not None
    assert (rows.row.tolist(), rows.bad) == ([*range(51)], [])
    assert rows.unread == [(50, "a = 'x': not a whole number")]
    (piece,) = inspect(str(write(tmp_path / "b.csv", "a,b\n"))).pieces
    assert piece.first({"a": WHOLE}, 3) is None


@pytest.mark.parametrize(
    ("first", "header"),
    [
        ("x,y", True),
        ("x,1", True),
        ("1.5,2", False),
        ("0,1", True),
        ("1,2", False),
        ("nan,b", True),
    ],
)
def test_a_first_line_of_numbers_is_data(first: str, header: bool, tmp_path: Path) -> None:
    info = inspect(str(write(tmp_path / "a.csv", f"{first}\n3,4\n")))
    assert info.schema.names == (first.split(",") if header else ["f0", "f1"])
    values, _, _ = read_text(tmp_path / "a.csv")
    assert len(values[info.schema.names[0]]) == (1 if header else 2)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000])
def test_line_ends_and_blocks(
    end: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", block)
    text = end.join(["x,y", "1,2", "", "3,bad", "5,6"])
    assert read_text(write(tmp_path / "a.csv", text), {"x": WHOLE, "y": WHOLE}) == (
        {"x": [1, 5], "y": [2, 6]},
        [0, 2],
        {1: "y = 'bad': not a whole number"},
    )


@pytest.mark.parametrize("block", [1, 5, 1000])
def test_line_ends_inside_quotes(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", block)
    path = write(tmp_path / "a.csv", 'id,x\n"two\nlines ""q""",1\nb,2\n"two\nmore",bad\nc,3\n"d,4')
    wanted = {"id": TEXT, "x": REAL}
    assert read_text(path, wanted, multiline=True) == (
        {"id": ['two\nlines "q"', "b", "c"], "x": [1.0, 2.0, 3.0]},
        [0, 1, 3],
        {2: "x = 'bad': not a number", 4: "line: quotes that do not close"},
    )


def test_encodings(tmp_path: Path) -> None:
    wanted = {"id": TEXT, "x": REAL}
    text = "id,x\nÄpfel,1\n日本,2\n"
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        path = write(tmp_path / "a.csv", text.encode(encoding))
        values, _, bad = read_text(path, wanted, encoding=encoding)
        assert (values["id"], bad) == (["Äpfel", "日本"], {})
    path = write(tmp_path / "a.csv", "id,x\nÄpfel,1\n".encode("latin-1"))
    assert read_text(path, wanted, encoding="latin-1")[0]["id"] == ["Äpfel"]
    assert read_text(path, wanted) == (
        {"id": [], "x": []},
        [],
        {0: "id = '\\\\xc4pfel': not UTF-8"},
    )
    path = write(tmp_path / "a.csv", b"id,x\na\xed\xa0\x80,1\nb,2\n")
    assert read_text(path, wanted)[2] == {0: r"id = 'a\\xed\\xa0\\x80': not UTF-8"}


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("ending", COMPRESS)
def test_compression(ending: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    numbers = rng.normal(size=20_000).tolist()
    data = COMPRESS[ending]("\n".join(["x", *map(repr, numbers)]).encode())
    path = write(tmp_path / f"a.csv{ending}", data)
    values, rows, bad = read_text(path)
    assert (values, rows, bad) == ({"x": numbers}, list(range(20_000)), {})
    write(path, data[: len(data) * 2 // 3])
    with pytest.raises(DataError, match=r"cut off|cannot be read") as caught:
        read_text(path)
    assert caught.value.path == str(path)
    assert "\n" not in str(caught.value)
    write(path, b"x\n1\n")
    with pytest.raises(DataError, match="cannot be read"):
        read_text(path)


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 2000)
    path = write(tmp_path / "a.csv", b"x\n1\n" + bytes(5000))
    with pytest.raises(DataError, match="line 3: longer than"):
        read_text(path, {"x": REAL})


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_no_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no line"):
        inspect(str(write(tmp_path / "a.csv", text)), FormatOptions(comment="#"))


def test_header_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "x,y")
    assert inspect(str(path)).schema.types == [pa.null(), pa.null()]
    assert read_text(path) == ({"x": [], "y": []}, [], {})


def test_headers_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="two columns are called 'x'"):
        inspect(str(write(tmp_path / "a.csv", "1,2\n")), FormatOptions(names=("x", "x")))
    with pytest.raises(DataError, match="is not UTF-8"):
        inspect(str(write(tmp_path / "a.csv", b"x,\xff\n1,2\n")))
    with pytest.raises(DataError, match="2 columns instead of the 1 named"):
        inspect(str(write(tmp_path / "a.csv", "1,2\n")), FormatOptions(names=("x",)))


# CSV, hostile ----------------------------------------------------------------------------------

FIELDS = st.one_of(
    st.sampled_from(
        ["1", "2.5", "-1e3", "", "nan", "inf", "1e308", "1e999", "x", "NA", " 3 ", "0x10", "1_0"]
    ),
    st.sampled_from(['"1"', '"', '""', '"a', 'a"', '"a,b"', 'a"b"c', "#", "'", "\\", "\t", "\0"]),
    st.floats(allow_nan=False).map(repr),
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8),
)
HOSTILE_LINES = st.one_of(
    st.lists(FIELDS, min_size=3, max_size=3).map(",".join),
    st.lists(FIELDS, min_size=1, max_size=5).map(",".join),
).map(lambda line: line.encode())
RAW_LINES = st.binary(min_size=1, max_size=20).map(
    lambda data: data.replace(b"\n", b"n").replace(b"\r", b"r")
)
GOOD_LINES = st.tuples(
    st.sampled_from(["a", "b", '"c,d"', "é"]),
    st.integers(-(10**15), 10**15),
    st.floats(allow_nan=False, allow_infinity=False),
).map(lambda row: f"{row[0]},{row[1]},{row[2]!r}".encode())


@given(
    st.lists(
        st.one_of(
            GOOD_LINES.map(lambda line: (True, line)), HOSTILE_LINES.map(lambda b: (False, b))
        ),
        max_size=30,
    ),
    st.lists(RAW_LINES, max_size=3),
    st.sampled_from([7, 64, 1 << 20]),
)
def test_every_line_is_a_row_or_bad_and_bad_ones_change_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[tuple[bool, bytes]],
    raw: list[bytes],
    block: int,
) -> None:
    folder = tmp_path_factory.mktemp("csv")
    wanted = {"id": TEXT, "t": WHOLE, "x": REAL}
    everything = [line for _, line in lines] + raw
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "BLOCK_BYTES", block)
        path = write(folder / "a.csv", b"\n".join([b"id,t,x", *everything]))
        try:
            values, numbers, bad = read_text(path, wanted, header=True)
        except ConfigError as error:
            # Two fields that never end may look like one that holds a line's end.
            assert error.field == "multiline"
            assert sum(line.count(b'"') % 2 for line in everything) > 1
            return
    kept = [line for line in everything if line]
    assert sorted([*numbers, *bad]) == list(range(len(kept)))
    # What is good by construction is read as Python reads it.
    at = {row: i for i, row in enumerate(numbers)}
    row = -1
    for is_good, line in lines:
        row += bool(line)
        if is_good:
            i = at[row]
            (expected,) = python_csv.reader(io.StringIO(line.decode()))
            assert [values["id"][i], values["t"][i]] == [expected[0], int(expected[1])]
            assert values["x"][i] == float(expected[2])
    # Without the bad lines the rest is the same.
    again = write(folder / "b.csv", b"\n".join([b"id,t,x", *(kept[row] for row in numbers)]))
    values_again, numbers_again, bad_again = read_text(again, wanted, header=True)
    assert bad_again == {}
    assert numbers_again == list(range(len(numbers)))
    assert repr(values_again) == repr(values)


# LIBSVM ----------------------------------------------------------------------------------------


def dense(path: Path, **options: Any) -> tuple[list[float], list[list[float]], dict[int, str]]:
    info = inspect(str(path), FormatOptions(**options))
    columns = dict(zip(info.schema.names, info.schema.types, strict=True))
    values, _, bad = read_text(path, columns, **options)
    return values["label"], values["x"], bad


def test_libsvm_values_and_reasons(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.libsvm",
        "# a comment\n"
        "+1 1:0.5 3:-2e-1 # the rest is no data 9:9\n"
        "\n"
        "-1\n"
        "  2.5   2:1\t4:7  \r\n"
        "1 2:1 2:1\n"
        "1 3:1 2:1\n"
        "1 0:1\n"
        "1 5:1\n"
        "1 a:1\n"
        "1 1:b\n"
        "1 1:\n"
        "1 :1\n"
        "1 1\n"
        "1 1:2:3\n"
        "cat 1:1\n"
        "1 qid:3 1:1\n"
        "1 0x1:1\n"
        "1 1:nan\n"
        "1:1 2:2\n"
        "-1 4:1",
    )
    labels, x, bad = dense(path, width=4)
    assert labels == [1.0, -1.0, 2.5, 1.0, -1.0]
    nan = math.nan
    expected: list[list[float]] = [
        [0.5, 0, -0.2, 0],
        [0, 0, 0, 0],
        [0, 1, 0, 7],
        [nan, 0, 0, 0],
        [0, 0, 0, 1],
    ]
    assert repr(x) == repr([[float(value) for value in row] for row in expected])
    assert bad == {
        3: "index = 2: after index 2, must rise",
        4: "index = 2: after index 3, must rise",
        5: "index = 0: must be 1..4",
        6: "index = 5: must be 1..4",
        7: "'a:1': not index:value",
        8: "'1:b': not index:value",
        9: "'1:': not index:value",
        10: "':1': not index:value",
        11: "'1': not index:value",
        12: "'1:2:3': not index:value",
        13: "label = 'cat': not a number",
        14: "'qid:3': not index:value",
        15: "'0x1:1': not index:value",
        17: "label = '1:1': not a number",
    }


def test_libsvm_width_is_found_by_a_scan(tmp_path: Path) -> None:
    path = write(tmp_path / "a.libsvm", "1 2:1 7:1\n-1 3:1\n1 99:1 1:1\n")
    info = inspect(str(path))
    assert info.schema.field("x").type == pa.list_(pa.float64(), 7)
    assert info.rows == 3
    path = write(tmp_path / "a.libsvm", "1 0:1 6:1\n")
    assert dense(path, zero_based=True) == ([1.0], [[1.0, 0, 0, 0, 0, 0, 1.0]], {})


@pytest.mark.parametrize("text", ["", "1\n-1\n", "no numbers\n"])
def test_libsvm_without_a_feature(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no row of index:value pairs"):
        inspect(str(write(tmp_path / "a.libsvm", text)))


def slow_libsvm(line: str, width: int) -> tuple[float, list[float]] | None:
    """Read a line as plainly as can be; None if it is bad."""
    label, *pairs = line.partition("#")[0].split()
    row, last = [0.0] * width, 0
    try:
        number = float(label)
        for pair in pairs:
            index, value = pair.split(":")
            if not index.isdigit() or not last < int(index) <= width:
                return None
            last = int(index)
            row[last - 1] = float(value)
    except ValueError:
        return None
    return number, row


TOKENS = st.one_of(
    st.tuples(st.integers(-1, 6), st.floats(width=32)).map(lambda pair: f"{pair[0]}:{pair[1]!r}"),
    st.sampled_from(["1:1", "2:1", "3:1", "4:0", "x:1", "1:x", "1", "1:", ":1", "::", "1:1:1"]),
)
LIBSVM_LINES = st.tuples(
    st.sampled_from(["1", "-1", "+1", "0.5", "x", "1:1"]),
    st.lists(TOKENS, max_size=5),
    st.sampled_from([" ", "  ", "\t", " \t "]),
    st.sampled_from(["", " ", "\t", " # 1:1", "#"]),
).map(lambda parts: parts[2].join([parts[0], *parts[1]]) + parts[3])


@given(st.lists(LIBSVM_LINES, min_size=1, max_size=20), st.sampled_from([5, 50, 1 << 20]))
def test_libsvm_is_read_as_plainly_as_can_be(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], block: int
) -> None:
    path = write(tmp_path_factory.mktemp("libsvm") / "a.libsvm", "\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "BLOCK_BYTES", block)
        labels, x, bad = dense(path, width=4)
    expected = [slow_libsvm(line, 4) for line in lines]
    assert sorted(bad) == [row for row, value in enumerate(expected) if value is None]
    good = [value for value in expected if value is not None]
    assert repr(labels) == repr([label for label, _ in good])
    assert repr(x) == repr([row for _, row in good])


# PAMAP2 and real files ---------------------------------------------------------------------------


def test_pamap2(tmp_path: Path) -> None:
    fields = [f"{i}.5" for i in range(54)]
    fields[1], fields[2] = "24", "NaN"
    text = " ".join(fields)
    path = write(tmp_path / "subject101.dat", f"{text}\n{text} 1\n{text} \n")
    info = inspect(str(path))
    assert (len(PAMAP2_NAMES), len(set(PAMAP2_NAMES))) == (54, 54)
    assert info.schema.names == list(PAMAP2_NAMES)
    assert (info.suggested.time, info.suggested.label) == ("time", "activity_id")
    values, numbers, bad = read_text(path)
    assert (numbers, bad) == ([0, 2], {1: "line: 55 fields instead of 54"})
    assert values["time"] == [0.5, 0.5]
    assert values["activity_id"] == [24, 24]
    assert values["heart_rate"] == [None, None]
    assert values["hand_temperature"] == [3.5, 3.5]
    assert values["hand_acc16_x"] == [4.5, 4.5]
    assert values["hand_orientation_4"] == [19.5, 19.5]
    assert values["chest_temperature"] == [20.5, 20.5]
    assert values["ankle_gyro_z"] == [46.5, 46.5]
    assert values["ankle_orientation_4"] == [53.5, 53.5]
    with pytest.raises(DataError, match="3 columns instead of PAMAP2's 54"):
        inspect(str(write(path, "1 2 3\n")))


REAL_FILES = {
    "a9a.libsvm.gz": (32_561, 123),
    "a9a.t.libsvm.gz": (16_281, 122),
    "ijcnn1.libsvm.bz2": (49_990, 22),
    "ijcnn1.t.libsvm.bz2": (91_701, 22),
    "cadata.tsv.gz": (20_640, None),
    "cpusmall.tsv.gz": (8_192, None),
}


@pytest.mark.parametrize("name", REAL_FILES)
def test_real_files(name: str, data_file: Callable[[str], Path]) -> None:
    rows, width = REAL_FILES[name]
    info = inspect(str(data_file(name)))
    columns = dict(zip(info.schema.names, info.schema.types, strict=True))
    parts = [part for piece in info.pieces for part in piece.read(columns)]
    assert sum(part.batch.num_rows for part in parts) == rows
    assert [part.bad for part in parts if part.bad] == []
    if width is not None:
        assert info.schema.field("x").type.list_size == width


def test_real_libsvm_values(data_file: Callable[[str], Path]) -> None:
    path = str(data_file("ijcnn1.libsvm.bz2"))
    expected, labels = load_svmlight_file(path, n_features=22)
    info = inspect(path, FormatOptions(width=22))
    columns = dict(zip(info.schema.names, info.schema.types, strict=True))
    parts = [part.batch for part in info.pieces[0].read(columns)]
    flat = np.concatenate([batch.column("x").flatten().to_numpy() for batch in parts])
    assert flat.tobytes() == expected.toarray().tobytes()
    got = np.concatenate([batch.column("label").to_numpy() for batch in parts])
    assert got.tobytes() == labels.tobytes()
