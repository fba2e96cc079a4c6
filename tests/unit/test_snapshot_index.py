"""Indexes that nobody wrote: an entry names the files that a job would have written, or nothing."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.in_memory import run_all
from kerneltrack.learners import RidgeSpec
from kerneltrack.snapshots import index as snapshot_index
from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.snapshots.index import LISTED, read_index
from kerneltrack.trackers import OKFEBSpec
from tests.oracles.streams import walk

SPEC = OKFEBSpec(rank=2, budget=4, warmup=10)
ROWS = 40
STATE = run_all(SPEC, walk(3, ROWS, 2))[0]


def snapshot(model_id: str, rows: int = ROWS, final: bool = True, spec: Any = SPEC) -> bytes:
    about = {"model_id": model_id, "rows": rows, "time": 7, "until": 7, "final": final}
    return codec.encode(spec, STATE, about)


def good_index() -> dict[str, Any]:
    first = {"rows": 20, "time": 3, "tracker": "m%2F1@20.safetensors", "tracker_bytes": 5}
    last = {"rows": ROWS, "time": 7, "tracker": "m%2F1.safetensors", "tracker_bytes": 5}
    last |= {"learner": "m%2F1@learner.safetensors", "learner_bytes": 3}
    models = {
        "m/1": [first, last],
        "untimed": [],
        "é": [{**first, "tracker": "%C3%A9.safetensors"}],
    }
    models["é"][0]["time"] = None
    learner = RidgeSpec().to_dict()
    return {"version": 2, "tracker": SPEC.to_dict(), "learner": learner, "models": models}


def write(folder: Path, index: Any) -> str:
    (folder / "index.json").write_text(index if isinstance(index, str) else json.dumps(index))
    return str(folder)


def test_an_index_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_index(write(tmp_path, good_index())) == {**good_index(), LISTED: False}
    folder = SnapshotFolder(str(tmp_path), learner=True)
    assert folder.place("m/1", codec.TRACKER) == str(tmp_path / "m%2F1.safetensors")
    assert folder.place("m/1", codec.LEARNER) == str(tmp_path / "m%2F1@learner.safetensors")


def entry(**change: Any) -> Callable[[dict[str, Any]], Any]:
    """Change the newest entry of model m/1; None takes a field out."""

    def changed(index: dict[str, Any]) -> dict[str, Any]:
        index["models"]["m/1"][-1] |= change
        return index

    return changed


def put(**change: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda index: {**index, **change}


def without(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda index: {key: value for key, value in index.items() if key != name}


def models(of: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda index: {**index, "models": {"m/1": of}}


ONE = "entry 1 of model 'm/1': "
OTHER = ONE + "another file than the tracker's of this model"
BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a list": (lambda index: [], ""),
    "nothing": (lambda index: None, ""),
    "a text": (lambda index: "version", ""),
    "deep": (lambda index: '{"version": 2, "models": ' + "[" * 200_000, ""),
    "a long number": (lambda index: '{"version": ' + "9" * 10_000, ""),
    "no tracker": (without("tracker"), "no tracker's settings"),
    "tracker null": (put(tracker=None), "no tracker's settings"),
    "tracker a list": (put(tracker=[]), "no tracker's settings"),
    "tracker a number": (put(tracker=3), "no tracker's settings"),
    "no learner": (without("learner"), "no learner's settings"),
    "learner a number": (put(learner=3), "no learner's settings"),
    "no models": (without("models"), "no models"),
    "models null": (put(models=None), "no models"),
    "models a list": (put(models=[]), "no models"),
    "entries a text": (models("abc"), "model 'm/1' has no list of entries"),
    "entries a number": (models(3), "model 'm/1' has no list of entries"),
    "an entry a number": (models([3]), "entry 0 of model 'm/1': not an entry, or not a model's id"),
    "an entry empty": (models([{}]), "entry 0 of model 'm/1': no number of rows"),
    "rows a text": (entry(rows="40"), ONE + "no number of rows"),
    "rows true": (entry(rows=True), ONE + "no number of rows"),
    "rows a real": (entry(rows=40.0), ONE + "no number of rows"),
    "rows negative": (entry(rows=-5), ONE + "no number of rows"),
    "rows huge": (entry(rows=10**30), ONE + "no number of rows"),
    "rows of before": (entry(rows=20), ONE + "its rows are no more than those before"),
    "time a text": (entry(time="x"), ONE + "no time"),
    "time a real": (entry(time=1.5), ONE + "no time"),
    "time huge": (entry(time=10**30), ONE + "no time"),
    "time far back": (entry(time=-(10**30)), ONE + "no time"),
    "no state": (models([{"rows": 1, "time": 1}]), "entry 0 of model 'm/1': no state"),
    "tracker null in an entry": (entry(tracker=None), OTHER),
    "tracker a list in an entry": (entry(tracker=["m%2F1.safetensors"]), OTHER),
    "no name": (entry(tracker=""), OTHER),
    "the folder": (entry(tracker="."), OTHER),
    "the folder above": (entry(tracker="../secret.txt"), OTHER),
    "the same by a detour": (entry(tracker="../snapshots/m%2F1.safetensors"), OTHER),
    "the same with a point": (entry(tracker="./m%2F1.safetensors"), OTHER),
    "another folder": (entry(tracker="/etc/passwd"), OTHER),
    "a device": (entry(tracker="/dev/zero"), OTHER),
    "a bucket": (entry(tracker="gs://x/y"), OTHER),
    "a NUL": (entry(tracker="a\0b"), OTHER),
    "the index": (entry(tracker="index.json"), OTHER),
    "another model's": (entry(tracker="untimed.safetensors"), OTHER),
    "another boundary's": (entry(tracker="m%2F1@20.safetensors"), OTHER),
    "a learner's": (entry(tracker="m%2F1@learner.safetensors"), OTHER),
    "a tracker's": (
        entry(learner="m%2F1.safetensors"),
        ONE + "another file than the learner's of this model",
    ),
    "half a character": (
        put(models={"\ud800": [{"rows": 1, "time": 1, "tracker": "%ED%A0%80.safetensors"}]}),
        "entry 0 of model '\\ud800': not an entry, or not a model's id",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_an_index_that_no_job_wrote_is_refused(name: str, tmp_path: Path) -> None:
    change, says = BAD[name]
    folder = write(tmp_path, change(good_index()))
    with pytest.raises(DataError) as caught:
        read_index(folder)
    expected = "not an index of snapshots" + (f": {says}" if says else "")
    assert str(caught.value) == f"{tmp_path}/index.json: {expected}"


@pytest.mark.parametrize("version", [1, 4, "2", True, 2.0, [2], None])
def test_an_index_of_another_version_is_refused(version: Any, tmp_path: Path) -> None:
    folder = write(tmp_path, {**good_index(), "version": version})
    with pytest.raises(
        DataError, match=re.escape(f"index version {version!r}: this code reads 2 and 3")
    ):
        read_index(folder)


def test_a_model_with_a_long_id_is_named_in_short(tmp_path: Path) -> None:
    folder = write(tmp_path, put(models={"x" * 10**6: 3})(good_index()))
    with pytest.raises(DataError) as caught:
        read_index(folder)
    assert len(caught.value.reason) < 200


def test_an_index_is_read_up_to_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path, good_index())
    monkeypatch.setattr(snapshot_index, "MOST_INDEX", os.path.getsize(tmp_path / "index.json"))
    assert read_index(folder)["version"] == 2
    write(tmp_path, json.dumps(good_index()) + " ")
    with pytest.raises(DataError, match="cannot be read: larger than"):
        read_index(folder)


# Without an index: the files themselves.


def test_files_under_other_names_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(snapshot("m"))
    assert list(read_index(str(tmp_path))["models"]) == ["m"]
    (tmp_path / "other.safetensors").write_bytes(snapshot("m"))
    with pytest.raises(DataError, match=r"other\.safetensors: not the snapshot that its name says"):
        read_index(str(tmp_path))


def test_a_pipe_is_no_snapshot(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.safetensors")
    with pytest.raises(DataError, match=r"m\.safetensors: cannot be read: not a regular file"):
        read_index(str(tmp_path))


def test_of_a_header_no_more_is_read_than_there_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.safetensors").write_bytes(struct.pack("<Q", 2**63) + b" " * 10_000)
    asked: list[int] = []

    def ask(data: bytes, path: str) -> dict[str, Any]:
        asked.append(len(data))
        return {}

    monkeypatch.setattr(codec, "read_header", ask)
    monkeypatch.setattr(snapshot_index, "MOST_HEADER", 100)
    with pytest.raises(DataError, match="damaged header"):
        read_index(str(tmp_path))
    assert asked == [8 + 100]


# What is copied into another job's folder.


def checked(folder: Path, data: bytes) -> bytes | None:
    index = {"version": 2, "tracker": SPEC.to_dict(), "learner": None}
    line = {"rows": ROWS, "time": 7, "tracker": "m.safetensors", "tracker_bytes": len(data)}
    (folder / "m.safetensors").write_bytes(data)
    return SnapshotFolder(write(folder, {**index, "models": {"m": [line]}})).checked(
        "m", codec.TRACKER
    )


def test_a_snapshot_is_what_the_index_says_or_it_is_refused(tmp_path: Path) -> None:
    assert checked(tmp_path, snapshot("m")) == snapshot("m")
    elsewhere = "a tracker of another model or boundary than the index says"
    for data, says in (
        (b"TOPSECRET", "not a kerneltrack snapshot"),
        (snapshot("m")[:-8], "damaged state"),
        (snapshot("other"), elsewhere),
        (snapshot("m", rows=ROWS + 1), elsewhere),
        (
            snapshot("m", spec=OKFEBSpec(rank=2, budget=4, warmup=10, seed=1)),
            "a tracker of other settings than the index says",
        ),
    ):
        with pytest.raises(DataError) as caught:
            checked(tmp_path, data)
        assert caught.value.path == str(tmp_path / "m.safetensors")
        assert says in caught.value.reason
