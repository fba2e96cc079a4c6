"""Columns in the files' paths: folders of partitions, patterns, names; and folders as input."""

from __future__ import annotations

import datetime
import gzip
import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError, DataError
from pipelines.files.first_look import look_at
from transforms.read.columns import ColumnOptions
from transforms.read.formats import FormatOptions, find
from transforms.read.formats.endings import bare_name
from transforms.read.label_files import ReadLabels
from transforms.read.look import Input, look_at_files
from transforms.read.parse import parsed_of

CSV = "x,note\n1,a\n2,b\n"


def save(folder: Path, *names: str, text: str = CSV) -> None:
    """Write small files, CSV or Parquet by their endings."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            pq.write_table(pa.table({"x": [1.0, 2.0], "note": ["a", "b"]}), path)
        else:
            path.write_text(text)


def look(
    folder: Path, pattern: str | None = None, form: str | None = None, **columns: Any
) -> Input:
    options = FormatOptions(path_pattern=pattern, format=form)
    return look_at_files(str(folder), ColumnOptions(**columns), options)


def models(found: Input) -> list[str]:
    """The model id of each good row, in the order of the input."""
    return [
        good.models[code]
        for good, _ in parsed_of(found.infos, found.columns)
        for code in good.model.tolist()
    ]


def reasons(found: Input) -> list[str]:
    return [
        reason
        for _, bad in parsed_of(found.infos, found.columns)
        for reason in bad.batch.column("reason").to_pylist()
    ]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_file_name_is_the_model_id(ending: str, tmp_path: Path) -> None:
    save(tmp_path, f"north.{ending}", f"deep/south.1.{ending}")
    found = look(tmp_path, model_id_from="path")
    assert models(found) == ["south.1", "south.1", "north", "north"]
    assert found.columns.channels == ("x",)
    assert "device:   file name (from the path)" in found.describe()
    assert "file name = south.1 (of " in found.describe()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/2004.02.12.10.32.39", "2004.02.12.10.32.39"),
        ("pump.1.CSV.GZ", "pump.1"),
        ("s3://bucket/x.tar.parquet", "x.tar"),
        (".csv", ".csv"),
        ("v1.2", "v1.2"),
    ],
)
def test_only_known_endings_are_none_of_the_name(path: str, name: str) -> None:
    assert bare_name(path) == name


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    save(tmp_path, "north/data.csv", "south/data.csv")
    with pytest.raises(
        ConfigError, match=r"--path-pattern '\(\?P<device>.*all 2 files are called data"
    ):
        look(tmp_path, model_id_from="path")
    found = look(tmp_path, "(?P<device>[^/]+)/[^/]+$", model_id_from="path")
    assert models(found) == ["north"] * 2 + ["south"] * 2


def test_a_line_that_cannot_be_read_has_the_device_of_its_path(tmp_path: Path) -> None:
    save(tmp_path, "north.csv", text="x,y\n1,2\n3\n4,oops\n5,6\n")
    found = look(tmp_path, model_id_from="path")
    ((good, bad),) = parsed_of(found.infos, found.columns)
    assert len(good) == 2
    assert bad.batch.column("model_id").to_pylist() == ["north", "north"]
    assert sorted(bad.batch.column("row").to_pylist()) == [1, 2]


def test_names_that_come_again_are_counted(tmp_path: Path) -> None:
    save(tmp_path, "may/north.csv", "june/north.csv", "may/south.csv")
    found = look(tmp_path, model_id_from="path")
    assert models(found) == ["north"] * 4 + ["south"] * 2
    assert "paths:    file name: 2 names of 3 files" in found.describe()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_groups_of_a_pattern_are_columns(ending: str, tmp_path: Path) -> None:
    save(tmp_path, f"north/20260301.{ending}", f"south/20260302.{ending}")
    pattern = r"(?P<device>[^/]+)/(?P<date>\d{8})[.]"
    found = look(tmp_path, pattern, model_id="device", time="date", time_format="%Y%m%d")
    assert models(found) == ["north"] * 2 + ["south"] * 2
    (north, _), (south, _) = parsed_of(found.infos, found.columns)
    days = [datetime.datetime(2026, 3, day, tzinfo=datetime.timezone.utc) for day in (1, 2)]
    assert north.time is not None and south.time is not None
    assert north.time.tolist() == [int(days[0].timestamp()) * 10**9] * 2
    assert south.time.tolist() == [int(days[1].timestamp()) * 10**9] * 2
    assert look(tmp_path, pattern, model_id_from="path").columns.model_id == "device"


def test_a_group_may_be_each_of_the_roles(tmp_path: Path) -> None:
    save(tmp_path, "walk_7_2.5.csv", "run_8_3.csv")
    pattern = r"(?P<label>[a-z]+)_(?P<number>\d+)_(?P<speed>[\d.]+)[.]csv"
    found = look(tmp_path, pattern, label="label", sequence="number", features=["x", "speed"])
    (run, _), (walk, _) = parsed_of(found.infos, found.columns)
    assert run.label is not None and run.sequence is not None
    assert run.label.to_pylist() == ["run", "run"]
    assert (run.sequence.tolist(), walk.x.tolist()) == ([8, 8], [[1.0, 2.5], [2.0, 2.5]])
    assert look(tmp_path, pattern, features=["*[!e]"]).columns.channels == ("x",)
    with pytest.raises(DataError, match="label = 'run' in its path: not of type int64"):
        reasons(look(tmp_path, pattern, sequence="label"))


def test_a_path_that_does_not_match_is_named(tmp_path: Path) -> None:
    save(tmp_path, "north_1.csv", "other.csv")
    with pytest.raises(DataError, match=r"other\.csv: does not match --path-pattern"):
        look(tmp_path, r"/(?P<device>[a-z]+)_\d[.]csv")
    with pytest.raises(DataError, match=r"other\.csv: nothing for the group number"):
        look(tmp_path, r"(?P<device>[a-z]+)_?(?P<number>\d*)[.]csv")
    with pytest.raises(ConfigError, match=r"no columns of .*north_1\.csv, which has 'x'"):
        look(tmp_path / "north_1.csv", r"(?P<x>\d)[.]csv")


@pytest.mark.parametrize("pattern", ["north", "(", "(?<device>a)"])
def test_a_pattern_without_named_groups_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"path_pattern = .*named groups, such as"):
        FormatOptions(path_pattern=pattern)


def test_a_column_and_the_path_cannot_both_be_the_model_id() -> None:
    with pytest.raises(ConfigError, match="model_id_from = 'path': must be left out"):
        ColumnOptions(model_id="device", model_id_from="path")


def test_files_without_a_line_are_named_and_left_out(tmp_path: Path) -> None:
    """As those that a logger has just opened; a header alone is a file without rows."""
    (tmp_path / "a.csv").write_text("device,time,x\na,2026-03-01,1\n")
    (tmp_path / "b.csv").write_text("")
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(b"\n"))
    (tmp_path / "d.csv").write_text("device,time,x\n")
    found = look(tmp_path, time="time", model_id="device")
    assert found.empty == (str(tmp_path / "b.csv"), str(tmp_path / "c.csv.gz"))
    assert [Path(path).name for path in found.paths] == ["a.csv", "d.csv"]
    assert re.search(r"^empty: .*b\.csv, .*c\.csv\.gz: without a line$", found.describe(), re.M)
    assert models(found) == ["a"]
    with pytest.raises(DataError, match=r"b\.csv: has no line"):
        look_at_files([str(tmp_path / "b.csv"), str(tmp_path / "c.csv.gz")])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_folders_of_partitions_are_columns(ending: str, tmp_path: Path) -> None:
    save(
        tmp_path,
        f"device=a%20b%2Fc/date=2026-03-01/part-0.{ending}",
        f"device=__HIVE_DEFAULT_PARTITION__/date=2026-03-02/part-0.{ending}",
        "_SUCCESS",
        f".part-0.{ending}.crc",
        "device=a%20b%2Fc/date=2026-03-01/_metadata",
        f"device=a%20b%2Fc/date=2026-03-01/.part-0.{ending}.crc",
    )
    for options in ({"model_id": "device"}, {"model_id_from": "path"}):
        found = look(tmp_path, time="date", **options)
        assert models(found) == ["a b/c"] * 2
        assert reasons(found) == ["device = null: no model id (1 to 1024 bytes of UTF-8)"] * 2
        assert found.columns.channels == ("x",)
        assert (found.skipped, found.rows) == ((), 4 if ending == "parquet" else None)
    assert look(tmp_path).columns.left_out[-2:] == (
        ("device", "from the files' paths"),
        ("date", "from the files' paths"),
    )


def test_a_day_is_no_device(tmp_path: Path) -> None:
    save(tmp_path, "date=2026-03-01/a.csv", "date=2026-03-02/a.csv")
    with pytest.raises(ConfigError, match="which one is it, of the columns date of the paths"):
        look(tmp_path, model_id_from="path")


def test_a_files_own_column_goes_before_its_folder(tmp_path: Path) -> None:
    save(tmp_path, "device=north/a.csv", text="device,x\nown,1\n")
    found = look(tmp_path, model_id="device")
    assert models(found) == ["own"]
    assert "from the path" not in found.describe()


def test_labels_have_a_column_or_a_path_of_their_own(tmp_path: Path) -> None:
    save(tmp_path, "labels.csv", "labels/south.csv", text="device,time,label\nnorth,1,a\n")
    save(tmp_path, "bare/south.csv", text="time,label\n1,a\n")
    options = ColumnOptions(model_id="device", time="time", label="label", features=())
    formats = FormatOptions(path_pattern="(?P<device>[^/]+)[.]csv$")
    for name, device in (("labels.csv", "north"), ("labels", "north"), ("bare", "south")):
        assert models(ReadLabels([str(tmp_path / name)], options, formats).input) == [device]


def test_folders_of_one_file_alone_harm_nothing(tmp_path: Path) -> None:
    save(tmp_path, "device=north/a.csv", "b.csv")
    assert look(tmp_path).columns.channels == ("x",)
    with pytest.raises(ConfigError, match=r"'device': must be a column: x, note of .*b\.csv"):
        look(tmp_path, model_id="device")


def test_only_constant_columns_are_counted_by_one_of_the_file(tmp_path: Path) -> None:
    save(tmp_path, "device=north/a.csv", "device=north/b.parquet")
    for name in ("a.csv", "b.parquet"):
        info = look(tmp_path / "device=north" / name).infos[0]
        for piece in pickle.loads(pickle.dumps(info.pieces)):
            (rows,) = piece.read({"device": pa.string()})
            assert rows.batch.to_pydict() == {"device": ["north", "north"]}
            assert rows.row.tolist() == [0, 1]
            assert rows.batch.schema.field("device").type == pa.dictionary(pa.int8(), pa.string())
            first = piece.first({"x": pa.float64(), "device": pa.string()}, 1)
            assert first is not None
            assert first.batch.to_pydict() == {"x": [1.0], "device": ["north"]}


def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/d\xff.csv"
    Path(os.fsdecode(path)).write_text(CSV)
    assert models(look(tmp_path, model_id_from="path")) == ["d\\xff"] * 2


def test_files_that_are_no_data_are_named(tmp_path: Path) -> None:
    save(tmp_path, "a.csv", "deep/b.csv", "README", "notes.md", "_tmp/c.csv", ".git/d.csv")
    found = look(tmp_path)
    assert [Path(path).name for path in found.paths] == ["a.csv", "b.csv"]
    assert "README" in found.describe()
    assert "notes.md: not known as data by their endings (--format)" in found.describe()
    assert len(look(tmp_path, form="csv").paths) == 4


def test_a_folder_of_different_endings_is_refused_with_a_pattern_that_works(tmp_path: Path) -> None:
    save(tmp_path, "a.csv", "deep/b.csv", "c.txt")
    with pytest.raises(DataError, match=r"\.csv \(2\), \.txt \(1\); name those of one") as caught:
        find([str(tmp_path)])
    pattern = str(caught.value).rpartition("as ")[2].strip("'")
    assert [Path(path).name for path in find([pattern]).paths] == ["a.csv", "b.csv"]


def test_folders_without_data(tmp_path: Path) -> None:
    save(tmp_path, "odd/2004.02.12.10.32.39", "none/_SUCCESS")
    with pytest.raises(DataError, match=r"has a known ending \(\.parquet, .*, as 2004.*--format"):
        look(tmp_path / "odd")
    with pytest.raises(DataError, match="is a folder without files"):
        look(tmp_path / "none")
    pattern = r"(?P<time>\d{4}[.\d]+)$"
    found = look(tmp_path / "odd", pattern, "csv", time="time", time_format="%Y.%m.%d.%H.%M.%S")
    ((good, _),) = parsed_of(found.infos, found.columns)
    moment = datetime.datetime(2004, 2, 12, 10, 32, 39, tzinfo=datetime.timezone.utc)
    assert good.time is not None
    assert good.time.tolist() == [int(moment.timestamp()) * 10**9] * 2


def test_patterns_find_folders_and_leave_out_what_tools_leave(tmp_path: Path) -> None:
    save(tmp_path, "d=1/a.csv", "d=1/_SUCCESS", "d=2/.a.csv.crc", "d=2/a.csv", "d=2/_own.csv")
    folder = str(tmp_path)
    both = [f"{folder}/d=1/a.csv", f"{folder}/d=2/_own.csv", f"{folder}/d=2/a.csv"]
    assert find([f"{folder}/d=*/*"]).paths == both
    assert find([f"{folder}/d=*"]).paths == [path for path in both if "_own" not in path]
    assert find([f"{folder}/d=2/.a.csv.crc"]).paths == [f"{folder}/d=2/.a.csv.crc"]


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    save(tmp_path, "deep/a.csv")
    (tmp_path / "deep" / "up").symlink_to(tmp_path)
    (tmp_path / "again.csv").symlink_to(tmp_path / "deep" / "a.csv")
    (tmp_path / "gone.csv").symlink_to(tmp_path / "nowhere.csv")
    assert len(find([str(tmp_path)]).paths) == 1


def test_several_files_that_are_one_model_are_a_warning(tmp_path: Path) -> None:
    save(tmp_path, "a.csv", "b.csv")
    (line,) = look_at((found := look(tmp_path)).infos, found.columns).warnings
    assert line == (
        "the 2 files are one model (--model-id COLUMN if they name the device, "
        "--model-id-from path if each file is one)"
    )
    for quiet in (look(tmp_path, model_id_from="path"), look(tmp_path / "a.csv")):
        assert look_at(quiet.infos, quiet.columns).warnings == []


@given(name=st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1))
def test_any_name_of_a_partition_comes_back(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As pyarrow writes it."""
    folder = tmp_path_factory.mktemp("hive")
    table = pa.table({"device": [name, name], "x": [1.0, 2.0]})
    try:
        pq.write_to_dataset(table, folder, partition_cols=["device"])
    except OSError:
        return  # A name too long for a folder.
    found = look(folder, model_id="device")
    assert models(found) == [name] * 2
    assert np.concatenate(
        [good.x for good, _ in parsed_of(found.infos, found.columns)]
    ).tolist() == [[1.0], [2.0]]
