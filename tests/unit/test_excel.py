"""Excel workbooks are read as CSV is: exact numbers, times to the millisecond, one sheet."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError, DataError
from tests import parts
from tests.parts import examples
from tests.workbooks import workbook
from transforms.read.columns import ColumnOptions
from transforms.read.formats import FormatOptions
from transforms.read.look import Input, look_at_files
from transforms.read.parse import parsed_of

parts.module("python_calamine", "kerneltrack[excel]")

START = datetime.datetime(2026, 3, 1)
HEADER = ["device", "time", "x"]


def look(path: Path, **options: Any) -> Input:
    columns = ColumnOptions(model_id="device", time="time")
    return look_at_files(str(path), columns, FormatOptions(**options))


def save(path: Path, **sheets: list[list[Any]]) -> Path:
    path.write_bytes(workbook(**sheets))
    return path


@settings(max_examples=examples(30))
@given(
    rows=st.lists(
        st.tuples(
            st.one_of(st.integers(1, 2**53 - 1), st.text("aé, \"'\n", min_size=1).map("d".__add__)),
            st.integers(0, 10**11),
            st.floats(-1e99, 1e99),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_cells_come_back(
    rows: list[tuple[Any, int, float]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    times = [START + datetime.timedelta(milliseconds=ms) for _, ms, _ in rows]
    cells = [[name, time, x] for (name, _, x), time in zip(rows, times, strict=True)]
    path = save(tmp_path_factory.mktemp("excel") / "a.xlsx", one=[HEADER, *cells], empty=[])
    found = look(path)
    ((good, failed),) = parsed_of(found.infos, found.columns)
    assert failed.batch.num_rows == 0
    assert good.row.tolist() == list(range(len(rows)))
    assert [good.models[code] for code in good.model] == [
        " ".join(str(n).split()) for n, _, _ in rows
    ]
    assert np.array_equal(good.x[:, 0], [x for _, _, x in rows])
    utc = [time.replace(tzinfo=datetime.timezone.utc) for time in times]
    assert good.time is not None
    assert good.time.tolist() == [round(time.timestamp() * 1000) * 10**6 for time in utc]


def test_what_csv_has_is_there(tmp_path: Path) -> None:
    """Title lines, cells that are no numbers, missing ones, truths."""
    rows = [["a", START, 1.5, True], ["a", START, None, True], ["a", START, "x", False]]
    more = [["b", START, 2, False]] * 2
    cells: list[list[Any]] = [["Pump house"], [], [*HEADER, "on"], *rows, *more]
    found = look(save(tmp_path / "a.xlsx", one=cells), skip_lines=2)
    assert (found.infos[0].format, found.columns.channels) == ("excel", ("x", "on"))
    ((good, failed),) = parsed_of(found.infos, found.columns)
    assert good.x.tolist() == [[1.5, 1.0], [2.0, 0.0], [2.0, 0.0]]
    reasons = failed.batch.column("reason").to_pylist()
    assert reasons == ["x = nan: missing value", "x = 'x': not a number"]


def test_one_sheet_is_read(tmp_path: Path) -> None:
    path = save(tmp_path / "a.xlsx", one=[HEADER, ["a", START, 1]], two=[HEADER, ["b", START, 2]])
    with pytest.raises(ConfigError, match=r"sheet = None: must be named: .* several, one, two"):
        look(path)
    found = look(path, sheet="two")
    assert [good.models for good, _ in parsed_of(found.infos, found.columns)] == [["b"]]
    with pytest.raises(ConfigError, match=r"sheet = 'three': must be a sheet of .*: one, two"):
        look(path, sheet="three")
    with pytest.raises(DataError, match=r"b\.xlsx: no sheet of it holds a cell"):
        look(save(tmp_path / "b.xlsx", one=[]))


def test_damage_is_a_data_error(tmp_path: Path) -> None:
    good = workbook(one=[HEADER, ["a", START, 1]])
    for size in (0, 10, len(good) // 2):
        (tmp_path / "a.xlsx").write_bytes(good[:size])
        with pytest.raises(DataError, match=r"a\.xlsx: cannot be read"):
            look(tmp_path / "a.xlsx")
    (tmp_path / "a.csv").write_bytes(good)
    with pytest.raises(DataError, match=r"a\.csv: is an Excel workbook: try --format excel"):
        look(tmp_path / "a.csv")
    assert look(tmp_path / "a.csv", format="excel").columns.width == 1
