"""Where the table of a text file begins, and what its columns are called."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError, DataError
from pipelines.files.first_look import look_at
from transforms.read.columns import ColumnOptions, Columns, resolve
from transforms.read.formats import FileInfo, FormatOptions, inspect
from transforms.read.parse import parse

TABLE = "device,time,temp,flow\n" + "".join(
    f"p{at % 2},2026-03-01T00:{at:02d}:00,{at}.5,{at % 7}\n" for at in range(30)
)
ROLES = ColumnOptions(model_id="device", time="time")


def look(path: Path, text: str, **options: Any) -> tuple[FileInfo, list[str]]:
    """What a look at a file of these lines shows, and what the job would say of it."""
    path.write_text(text, encoding="utf-8")
    info = inspect(str(path), FormatOptions(**options))
    return info, look_at([info], resolve([info], ColumnOptions())).warnings


def rows_of(info: FileInfo, columns: Columns) -> list[tuple[str, float, float]]:
    """Model and channels of each row; none fails."""
    found = []
    for piece in info.pieces:
        for rows in piece.read(columns.requests):
            good, failed = parse(rows, 0, columns)
            assert failed.batch.num_rows == 0
            ids = [good.models[code] for code in good.model.tolist()]
            found += list(zip(ids, *good.x.T.tolist(), strict=True))
    return found


def plain(tmp_path: Path) -> list[tuple[str, float, float]]:
    path = tmp_path / "plain.csv"
    path.write_text(TABLE)
    info = inspect(str(path))
    return rows_of(info, resolve([info], ROLES))


UNITS = TABLE.replace("flow\n", "flow\n,,°C,m3/h\n", 1)
TOA5 = (
    '"TOA5","st_1","CR1000","1234","CR1000.Std.32","CPU:prog.CR1","5678","tbl"\n'
    + TABLE.replace("flow\n", 'flow\n"TS","RN","Deg C","m3/h"\n"","","Avg","Smp"\n', 1)
)
INFLUX = "#group,false,true,false,false\n#datatype,string,string,double,double\n#default,,,,\n"
INFLUX += "".join(f",{line}\n" for line in TABLE.splitlines())


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("sep=,\n" + TABLE, {}),
        ('"sep=;"\n' + TABLE.replace(",", ";"), {}),
        (UNITS, {}),
        (TOA5, {}),
        (INFLUX, {}),
        ("Report, of 2026\n\n" + TABLE, {"skip_lines": 2}),
        ("# made by X\n# 2026\n" + TABLE, {"comment": "#"}),
        ("# made by X\n# 2026\n" + TABLE, {"skip_lines": 2}),
        (TABLE.replace("\n", ",\n"), {}),
        (TABLE.replace("\n", ",\n").replace("flow,", "flow", 1), {}),
        (TABLE.replace("flow\n", "flow,,\n", 1), {}),
        (TABLE.replace("device,time,temp,flow", "device , time, temp ,flow", 1), {}),
    ],
)
def test_what_stands_around_a_table_changes_no_row(
    text: str, options: dict[str, Any], tmp_path: Path
) -> None:
    info, _ = look(tmp_path / "a.csv", text, **options)
    columns = resolve([info], ROLES)
    assert columns.channels == ("temp", "flow")
    assert rows_of(info, columns) == plain(tmp_path)


def test_the_ending_dat_is_campbells_too(tmp_path: Path) -> None:
    info, _ = look(tmp_path / "a.dat", TOA5)
    assert rows_of(info, resolve([info], ROLES)) == plain(tmp_path)


@pytest.mark.parametrize(
    ("above", "says"),
    [
        ("Report\n", "1 for"),
        ("Report of\nstation 7\n\n", "3 for"),
        ("# made by X\n# 2026-03-01\n", "try skip_lines 2, or --comment '#')"),
        ("Report,,,\n,,,\n", "2 for"),
    ],
)
def test_lines_above_the_table_name_the_flag_that_skips_them(
    above: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        look(tmp_path / "a.csv", above + TABLE)
    assert caught.value.field == "skip_lines"
    assert says in caught.value.allowed
    lines = int(caught.value.allowed.split(" ")[0])
    info, _ = look(tmp_path / "a.csv", above + TABLE, skip_lines=lines)
    assert rows_of(info, resolve([info], ROLES)) == plain(tmp_path)


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (UNITS, r"1 line below the header left out: no data, such as ',,°C,m3/h'"),
        ("x,y,x\n1,2,3\n4,5,6\n", r"two columns are called 'x': the later one is 'x \(2\)'"),
        (TABLE.partition("\n")[2], r"has no header: its first line is like those after it"),
    ],
)
def test_what_was_decided_is_said(text: str, notes: str, tmp_path: Path) -> None:
    info, lines = look(tmp_path / "a.csv", text)
    (note,) = info.notes
    assert re.match(notes, note)
    assert lines[0] == f"{tmp_path / 'a.csv'}: {note}"


@pytest.mark.parametrize(
    "below",
    ["17,,,\n18,,,\n", "17,inf,on,x\n18,inf,off,x\n", "17,noon,n/a,\n18,one,n/a,\n"],
    ids=["empty", "texts", "marks"],
)
def test_a_line_with_a_number_is_no_unit_whatever_stands_below(below: str, tmp_path: Path) -> None:
    """A device of another kind comes first, and the others have no numbers beside their names."""
    info, lines = look(tmp_path / "a.csv", "id,t,x,y\npump,3,0.5,2\n" + below)
    assert not any("left out" in line for line in lines)
    (piece,) = info.pieces
    columns = resolve([info], ColumnOptions(model_id="id", features=("x", "y")))
    read = list(piece.read(columns.requests))
    assert sum(len(rows.row) + len(rows.bad) for rows in read) == 3


def test_names_that_are_missing_or_come_twice(tmp_path: Path) -> None:
    info, _ = look(tmp_path / "a.csv", ",x,,x (2),x\n0,1,2,3,4\n9,5,6,7,8\n")
    assert info.schema.names == ["(unnamed)", "x", "(unnamed) (2)", "x (2)", "x (3)"]
    columns = resolve([info], ColumnOptions())
    assert columns.channels == ("x", "x (2)", "x (3)")
    assert [name for name, _ in columns.left_out] == ["(unnamed)", "(unnamed) (2)"]
    named = resolve([info], ColumnOptions(features=("(unnamed)", "x")))
    assert named.channels == ("(unnamed)", "x")


@pytest.mark.parametrize("name", ["__index_level_0__", "Unnamed: 0"])
def test_the_index_of_pandas_is_no_channel(name: str, tmp_path: Path) -> None:
    info, _ = look(tmp_path / "a.csv", f"{name},x\n3,1\n4,2\n")
    assert resolve([info], ColumnOptions()).channels == ("x",)
    assert resolve([info], ColumnOptions(features=(name,))).channels == (name,)


def test_a_header_and_lines_that_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="its header has 2 fields and the lines below it 3"):
        look(tmp_path / "a.csv", "x,y\nr1,1,2\nr2,3,4\n")
    info, _ = look(tmp_path / "a.csv", "x,y\nr1,1,2\nr2,3,4\n", names=("r", "x", "y"), header=True)
    assert resolve([info], ColumnOptions()).channels == ("x", "y")


def test_a_second_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="another table begins here") as caught:
        look(tmp_path / "a.csv", INFLUX + "\n" + INFLUX.replace("temp", "hum"))
    assert caught.value.position == "line 36"


def test_a_first_line_of_text_stays_the_header(tmp_path: Path) -> None:
    """Its fields are names: none of them is a number where the others have numbers."""
    for first in (
        "device,time,temp,flow",
        "sensor,2026,x,y",
        "p0,t,temp,flow",
        "device,when,10,20",
    ):
        info, _ = look(tmp_path / "a.csv", first + "\n" + TABLE.partition("\n")[2])
        assert info.schema.names == first.split(",")


VALUES = st.tuples(
    st.sampled_from(["p0", "p1", "north", "south"]),
    st.datetimes().map(lambda moment: moment.isoformat(timespec="seconds")),
    st.floats(-1e6, 1e6).map(repr) | st.just(""),
    st.integers(0, 99).map(str),
)


@given(st.lists(VALUES, min_size=2, max_size=20), st.booleans())
def test_no_first_line_of_data_is_taken_for_a_header(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[str, ...]], header: bool
) -> None:
    lines = ["device,time,temp,flow"] * header + [",".join(row) for row in values]
    info, _ = look(tmp_path_factory.mktemp("head") / "a.csv", "\n".join(lines) + "\n")
    names = ["device", "time", "temp", "flow"] if header else ["f0", "f1", "f2", "f3"]
    assert info.schema.names == names
    (rows,) = info.pieces[0].read({})
    assert len(rows.row) + len(rows.bad) == len(values)
