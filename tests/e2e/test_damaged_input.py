"""Files from outside that are no input: one line of some hundred characters, and exit code 2."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save

from pipelines.cli.main import main
from pipelines.landmark_file import KEY
from tests.e2e.jobs import failures_of, features_of, record_of

SMALL = ("--rank", "3", "--budget", "6", "--warmup", "20")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(40, 3))
    pq.write_table(pa.table({name: x[:, i] for i, name in enumerate("abc")}), "in.parquet")
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the command line and return what its one line says."""
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kerneltrack: ")
    assert line.isprintable() and len(line) <= 820
    assert not Path("out").exists()
    return line.removeprefix("kerneltrack: ")


def laughs(first: str) -> str:
    """A list of ten of a list of ten ..., as a value of the field `rank`."""
    lines = [f"  - &a0 [{first}]"]
    lines += [f"  - &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    return "rank:\n" + "\n".join(lines)


def merges() -> str:
    lines = ["a0: &a0 {" + ", ".join(f"k{i}: 1" for i in range(10)) + "}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 12)]
    return "\n".join(lines)


SPECS = {
    "a date that does not exist": ("rank: 2020-99-99", "not YAML: month must be in 1..12"),
    "1,200 brackets": ("rank: " + "[" * 1200 + "]" * 1200, "not YAML: maximum recursion"),
    "brackets that do not close": ("rank: " + "[" * 1200, "not YAML: "),
    "a list of many lists": (laughs("x"), r"^rank = \[.*: must be an integer from 1 to 1000$"),
    "mappings of many mappings": (merges(), "not YAML: over 100 fields in one place"),
    "a list of itself": ("rank: &r [*r]", r"^rank = \[\[\[\.\.\.\]\]\]: must be an integer"),
    "a number of 5,000 digits": ("rank: " + "9" * 5000, "not YAML: .*limit"),
    "a number of 5,000 hexadecimal digits": (
        "rank: 0x" + "f" * 5000,
        "^rank = an integer of about 6021 digits: must be an integer from 1 to 1000$",
    ),
    "a text of 50,000 letters": ("kernel: " + "x" * 50_000, "^kernel = 'xxx.*xxx...': must be one"),
    "a field of 50,000 letters": ("? " + "x" * 50_000 + "\n: 1", "must be a field of okfeb$"),
    "a file of 50 MB": (
        "# " + "x" * 50_000_000,
        "larger than 65,536 bytes$",
    ),
    "a truth value that is none": ("standardise: !!bool 'x'", "not YAML: 'x'"),
    "a moment that is none": ("rank: !!timestamp 'x'", "not YAML: "),
    "an integer that is none": ("rank: !!int 'x'", "not YAML: invalid literal"),
    "bytes that are none": ("rank: !!binary '!!!'", "not YAML|rank = b?'"),
    "a program": ("!!python/object/apply:os.abort []", "not YAML: could not determine"),
    "a key that is a list": ("? [a]\n: 1", "not YAML: .*unhashable key"),
    "a key that is a number": ("1: 2", "spec = 1: must be a field of okfeb"),
    "an escape sequence": ('kernel: "\\e[31m\\u202e"', r"^kernel = '\\x1b\[31m\\u202e': must be"),
    "bytes that are no text": ("rank: \udcff", "not YAML: "),
}


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_that_cannot_be(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, says = SPECS[name]
    (folder / "s.yaml").write_bytes(text.encode("utf-8", "surrogateescape"))
    line = refused(capsys, "track", "in.parquet", "--output", "out", "--spec", "s.yaml")
    assert re.search(says, line), line


def test_a_spec_may_name_a_value_and_merge(folder: Path) -> None:
    text = "rank: &r 3\nwarmup: 20\nlearner: &l {learner: ridge}\nbudget: 6\n<<: {seed: 7}\n"
    (folder / "s.yaml").write_text(text)
    pq.write_table(
        pq.read_table("in.parquet").append_column("y", pa.array(["u", "v"] * 20)), "y.parquet"
    )
    assert main(["track", "y.parquet", "--output", "out", "--label", "y", "--spec", "s.yaml"]) == 0
    spec = record_of(folder / "out")["spec"]
    assert (spec["rank"], spec["seed"], spec["budget"]) == (3, 7, 6)


GOOD: dict[str, Any] = {
    "version": 1,
    "gamma": 2.0,
    "spec": {"kernel": "gaussian", "standardise": True},
    "rows": [[1.0, 2.0, 3.0], [2.0, 1.0, 0.0]],
    "shift": [0.0, 0.0, 0.0],
    "scale": [1.0, 1.0, 1.0],
}
NONE, DAMAGED = "start.json: not a file of landmarks", "start.json: damaged landmarks: "


def changed(**fields: Any) -> str:
    return json.dumps({**GOOD, **fields})


STARTS = {
    "a number of 400 digits": (changed(rows=[[10**400, 1, 1]]), NONE),
    "a bandwidth of 400 digits": (changed(gamma=10**400), NONE),
    "a number of 5,000 digits": (changed(gamma=1).replace("1,", "9" * 5000 + ",", 1), NONE),
    "texts of numbers": (changed(rows=[["1", "2", "3"]]), NONE),
    "true and false": (changed(rows=[[True, False, True]]), NONE),
    "rows of unequal length": (changed(rows=[[1.0], [1.0, 2.0]]), NONE),
    "null": (changed(rows=[[None, 1.0, 1.0]]), NONE),
    "no row": (changed(rows=[]), DAMAGED + "shape of rows"),
    "rows of rows": (changed(rows=[[[1.0, 2.0, 3.0]]]), DAMAGED + "shape of rows"),
    "a shift of another width": (changed(shift=[0.0]), DAMAGED + "shape of shift"),
    "a scale of 0": (changed(scale=[1.0, 0.0, 1.0]), DAMAGED + "scale = 0.0"),
    "an infinite row": (changed(rows=[[1e999, 1.0, 1.0]]), DAMAGED + "rows = inf"),
    "a bandwidth that is none": (changed(gamma=float("nan")), DAMAGED + "gamma = nan"),
    "a bandwidth of 0": (changed(gamma=0), DAMAGED + "gamma = 0.0"),
    "a kernel that is none": (changed(spec={**GOOD["spec"], "kernel": ["x"] * 99}), DAMAGED),
    "a truth value that is none": (changed(spec={**GOOD["spec"], "standardise": 1}), DAMAGED),
    "no spec": (changed(spec=[]), NONE),
    "another version": (changed(version=["x" * 9999]), r"format version \['xxx"),
    "a list": ("[]", NONE),
    "3,000 brackets": ("[" * 3000, NONE),
    "200,000 brackets": ("[" * 200_000, NONE),
    "no text": ("\udcff\udcfe", NONE),
    "nothing": ("", NONE),
    "another width": (
        changed(rows=[[1.0, 2.0]], shift=[0.0] * 2, scale=[1.0] * 2),
        "^number of features = 3: must be that of landmarks: 2$",
    ),
    "more landmarks than room": (
        changed(rows=[[1.0, i, 2.0] for i in range(7)]),
        "budget = 6: must be at least 7",
    ),
    "a row that no tracker takes": (
        changed(rows=[[1.0, 1e200, 2.0]]),
        "^landmark = 0: must be a row that okfeb takes: channel 1",
    ),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_start_that_cannot_be(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, says = STARTS[name]
    (folder / "start.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    given = ("--output", "out", "--start-from", "start.json", *SMALL)
    assert re.search(says, refused(capsys, "track", "in.parquet", *given))


def of_arrays(kind: type[np.generic] = np.float64, **fields: Any) -> bytes:
    """GOOD as safetensors, numbers of this type."""
    whole = {**GOOD, **fields}
    arrays = {name: np.array(whole.pop(name), dtype=kind) for name in ("rows", "shift", "scale")}
    data: bytes = save(arrays, metadata={KEY: json.dumps(whole)})
    return data


ARRAYS = {
    "not even a header": (b"\xff" * 8 + b"{}", "not a file of landmarks"),
    "a header of a terabyte": ((10**12).to_bytes(8, "little") + b"{}", "not a file of landmarks"),
    "cut off": (of_arrays()[:-8], "not a file of landmarks"),
    "no metadata": (save({"rows": np.ones((2, 3))}), "not a file of landmarks"),
    "truth values": (of_arrays(np.bool_), "not a file of landmarks"),
    "numbers of a type that NumPy lacks": (
        of_arrays().replace(b'"F64"', b'"F8X"'),
        "not a file of landmarks",
    ),
    "an infinite scale": (of_arrays(scale=[np.inf, 1.0, 1.0]), "damaged landmarks: scale = inf"),
    "a bandwidth of 400 digits": (of_arrays(gamma=10**400), "not a file of landmarks"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_start_arrays_that_cannot_be(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, says = ARRAYS[name]
    (folder / "start.safetensors").write_bytes(data)
    given = ("--output", "out", "--start-from", "start.safetensors", *SMALL)
    line = refused(capsys, "track", "in.parquet", *given)
    assert line.startswith(f"start.safetensors: {says}")


@pytest.mark.parametrize("name", ["start.json", "start.safetensors"])
def test_a_start_that_does_not_end(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pipelines.landmark_file.MOST_BYTES", 10_000)
    monkeypatch.setattr("pipelines.landmark_file.MOST_JSON_BYTES", 10_000)
    (folder / name).write_bytes(bytes(10_001))
    given = ("--output", "out", "--start-from", name, *SMALL)
    assert "larger than 10,000 bytes" in refused(capsys, "track", "in.parquet", *given)
    (folder / name).unlink()
    os.symlink("/dev/zero", name)
    assert "not a regular file" in refused(capsys, "track", "in.parquet", *given)
    # What could not be read is not written either.
    marks = ("--output", f"new-{name}", "--count", "40", "--method", "uniform")
    monkeypatch.setattr("pipelines.landmark_file.MOST_BYTES", 500)
    monkeypatch.setattr("pipelines.landmark_file.MOST_JSON_BYTES", 500)
    line = refused(capsys, "landmarks", "in.parquet", *marks)
    assert "must be a file of at most 500 bytes" in line
    assert not (folder / f"new-{name}").exists()


MESSAGES = {
    "a column of 100,000 letters": ("--time", "x" * 100_000, r"^\S*time = 'x+\.\.\.': must be a"),
    "a column with an escape sequence": ("--time", "\x1b[2J", r"^\S*time = '\\x1b\[2J': must be"),
    "a word of 5,000 letters": (
        "--rank",
        "x" * 5000,
        r"rank = 'x+\.\.\.': must be an integer from 1 to 1000",
    ),
    "a codec that is none of text": ("--encoding", "hex", "encoding = 'hex': must be an encoding"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_value_is_shown_shortened(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flag, value, says = MESSAGES[name]
    line = refused(capsys, "track", "in.parquet", "--output", "out", flag, value)
    assert re.search(says, line), line


@pytest.mark.parametrize("name", ["a\nb.csv", "\x1b[31m.csv", "\u202e.csv", "x" * 5000 + ".csv"])
def test_a_path_is_shown_escaped(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, "track", name, "--output", "out").endswith(".csv: no such file")


def test_names_of_bytes_that_are_not_utf_8(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are read; in what is written of them such a byte is `\\xff`. Beam writes to none."""
    source, there = os.fsdecode(b"in\xff.csv"), os.fsdecode(b"there\xfe")
    rows = np.random.default_rng(0).normal(size=(30, 2)).tolist()
    text = "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows) + "1,\n"
    (folder / source).write_text(text)
    for command in (["track"], ["score", "--snapshots", "x"]):
        line = refused(capsys, *command, source, "--output", there)
        assert line.startswith(r"argument --output: 'there\udcfe' is not UTF-8: no results")
    assert main(["track", source, "--output", "out", *SMALL]) == 0
    assert capsys.readouterr().err == ""
    found = Path("out")
    assert set(features_of(found)["source"].to_pylist()) == {r"in\xff.csv"}
    assert [row[1:3] for row in failures_of(found)] == [(r"in\xff.csv", 30)]
    record = record_of(found)
    assert [one["path"] for one in record["inputs"]] == [r"in\xff.csv"]
    assert record["command"].startswith(r"kerneltrack track 'in\xff.csv'")
    assert r"in\xff.csv" in (found / "report.html").read_text()
    # Landmarks, snapshots and specs of such names, too.
    found.rename(there)
    marks = os.fsdecode(b"m\xfd.json")
    assert main(["landmarks", source, "--output", marks, "--count", "4", "--rank", "2"]) == 0
    assert json.loads(Path(marks).read_text())["files"] == [r"in\xff.csv"]
    assert main(["track", source, "--output", "again", "--start-from", marks, *SMALL]) == 0
    assert record_of(Path("again"))["start_from"] == r"m\xfd.json"
    given = ["--snapshots", os.path.join(there, "snapshots"), "--output", "scored"]
    assert main(["score", source, *given]) == 0
    assert record_of(Path("scored"))["snapshots"] == r"there\xfe/snapshots"
    assert main(["inspect", os.path.join(there, "snapshots", "all.safetensors")]) == 0
    assert main(["report", there]) == 0
