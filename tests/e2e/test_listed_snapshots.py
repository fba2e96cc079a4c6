"""A folder of snapshots without an index, as live jobs leave it: the files say what there is."""

from __future__ import annotations

import dataclasses
import json
import pickle
import shutil
from pathlib import Path

import pytest

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.snapshots.index import INDEX, LISTED, read_index
from pipelines.cli.main import main
from tests.e2e.jobs import COLUMNS, SMALL, features_of, labelled_table, track, write

JOB = (*COLUMNS, *SMALL, "--learner", "ridge", "--snapshot-every", "4")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The snapshots of a file job, and the same without their index."""
    folder = tmp_path_factory.mktemp("listed")
    table = labelled_table(1500)
    track(write(folder / "in.parquet", table.slice(0, 1000)), *JOB, "--output", f"{folder}/out")
    write(folder / "more.parquet", table.slice(1000))
    indexed, listed = folder / "out" / "snapshots", folder / "listed"
    shutil.copytree(indexed, listed)
    (listed / INDEX).unlink()
    return indexed, listed


def test_the_files_say_what_the_index_says(folders: tuple[Path, Path]) -> None:
    indexed, listed = (read_index(str(folder)) for folder in folders)
    assert listed == {**indexed, LISTED: True}
    assert len(listed["models"]["m/0"]) > 2


def test_a_job_goes_on_from_it(folders: tuple[Path, Path], tmp_path: Path) -> None:
    more = str(folders[0].parents[1] / "more.parquet")
    tables = []
    for name, folder in zip(("indexed", "listed"), folders, strict=True):
        output = tmp_path / name
        track(more, *COLUMNS, "--warm-start", str(folder), "--output", str(output))
        scored = tmp_path / f"{name}-scores"
        flags = ["--snapshots", str(folder), "--output", str(scored)]
        assert main(["score", more, *COLUMNS, *flags]) == 0
        tables.append(features_of(output))
    assert tables[0].equals(tables[1])


def test_workers_see_what_was_there_when_the_job_began(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """Other jobs may write more of them meanwhile."""
    folder = tmp_path / "snapshots"
    shutil.copytree(folders[1], folder)
    known = SnapshotFolder(str(folder), learner=True)
    sent = pickle.dumps(known)
    before = known.boundary("m/0")
    assert before is not None
    for path in folder.glob("m%2F0.*"):
        path.unlink()
    assert pickle.loads(sent).boundary("m/0") == before
    assert SnapshotFolder(str(folder)).boundary("m/0") != before


def test_others_than_snapshots_are_told_of(folders: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"index\.json: cannot be read"):
        read_index(str(tmp_path))
    folder = tmp_path / "snapshots"
    shutil.copytree(folders[1], folder)
    (folder / "other.safetensors").write_bytes(b"12345678")
    with pytest.raises(DataError, match=r"other\.safetensors: not a kerneltrack snapshot"):
        read_index(str(folder))
    data = (folder / "m%2F0.safetensors").read_bytes()
    spec, state, header, _ = codec.decode(data)
    changed = json.loads(json.dumps(header["about"]))
    other = codec.encode(dataclasses.replace(spec, seed=5), state, changed)
    (folder / "other.safetensors").write_bytes(other)
    with pytest.raises(DataError, match="made with other settings than others of the folder"):
        read_index(str(folder))
