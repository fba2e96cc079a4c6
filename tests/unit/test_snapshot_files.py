"""Files that are read and written as a whole: what is no plain file is refused, none is half."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kerneltrack.errors import DataError
from kerneltrack.snapshots import files as snapshot_files
from kerneltrack.snapshots.files import files_in, read_whole, write_whole


def test_a_file_is_read_up_to_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_files, "_BLOCK", 3)
    path = tmp_path / "file"
    path.write_bytes(b"12345678")
    assert read_whole(str(path), 8) == b"12345678"
    with pytest.raises(DataError, match=r"file: cannot be read: larger than 7 bytes$"):
        read_whole(str(path), 7)
    path.write_bytes(b"")
    assert read_whole(str(path), 0) == b""


def test_a_file_that_grows_is_read_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an object store's the size is not known before it is read."""
    monkeypatch.setattr(snapshot_files, "_open", lambda path, most: Path(path).open("rb"))
    path = tmp_path / "file"
    path.write_bytes(b"12345678")
    assert read_whole(str(path), 8) == b"12345678"
    with pytest.raises(DataError, match=r"file: cannot be read: larger than 7 bytes$"):
        read_whole(str(path), 7)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as handle:
        handle.truncate(100 << 30)
    with pytest.raises(DataError, match=r"huge: cannot be read: larger than 4,294,967,296 bytes$"):
        read_whole(str(path))


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "zeros").symlink_to("/dev/zero")
    with pytest.raises(DataError, match=r"pipe: cannot be read: not a regular file$"):
        read_whole(str(tmp_path / "pipe"))
    with pytest.raises(DataError, match=r"folder: cannot be read: .*Is a directory"):
        read_whole(str(tmp_path / "folder"))
    with pytest.raises(DataError, match=r"zeros: cannot be read: not a regular file$"):
        read_whole(str(tmp_path / "zeros"))
    with pytest.raises(DataError, match=r"no/such/file: cannot be read: .*No such file"):
        read_whole("no/such/file")
    with pytest.raises(DataError, match=r"a\\x00b: cannot be read: embedded null byte$"):
        read_whole("a\0b")
    with pytest.raises(DataError, match=r"^nowhere://x: cannot be read: Unable to get filesystem"):
        read_whole("nowhere://x")


def test_files_of_a_folder_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "run [1]*"
    assert files_in(str(folder), ".safetensors") == []
    (folder / "c.safetensors").mkdir(parents=True)
    (folder / "b.safetensors").write_bytes(b"12")
    (folder / "a.safetensors").write_bytes(b"1")
    (folder / "a.safetensors.0.unfinished").write_bytes(b"1")
    assert files_in(str(folder), ".safetensors") == [("a.safetensors", 1), ("b.safetensors", 2)]


def test_two_writers_of_a_file_do_not_share_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second job's file in between is neither mixed with the first one's nor lost half-way."""
    path = tmp_path / "file"
    rename, seen = os.replace, []

    def other_first(source: str, target: str) -> None:
        seen.append(source)
        if len(seen) == 1:
            write_whole(str(path), b"theirs")
            assert path.read_bytes() == b"theirs"
        rename(source, target)

    monkeypatch.setattr(os, "replace", other_first)
    write_whole(str(path), b"ours")
    assert path.read_bytes() == b"ours"
    assert len(set(seen)) == 2
    assert all(name.startswith(f"{path}.") and name.endswith(".unfinished") for name in seen)
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_that_cannot_be_written_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beam takes what it removes for a pattern."""
    (tmp_path / "run1").mkdir()
    (tmp_path / "run1" / "file").write_bytes(b"theirs")

    def refuse(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr("kerneltrack.snapshots.files.secrets.token_hex", lambda size: "0")
    (tmp_path / "run1" / "file.0.unfinished").write_bytes(b"theirs")
    with pytest.raises(OSError, match="No space left"):
        write_whole(str(tmp_path / "run*" / "file"), b"ours")
    assert sorted(os.listdir(tmp_path / "run1")) == ["file", "file.0.unfinished"]
    assert os.listdir(tmp_path / "run*") == []
    assert stat.S_ISDIR((tmp_path / "run*").stat().st_mode)
