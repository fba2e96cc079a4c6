"""What the sinks write, and that no half file ever bears a final name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from hypothesis import given
from hypothesis import strategies as st

from kerneltrack import codec
from kerneltrack.in_memory import run_all
from kerneltrack.snapshots.files import snapshot_name, write_whole
from kerneltrack.trackers import OKFEBSpec
from tests.stream.running import SPEC, make_rows
from transforms.chunks import Chunk, matrix_column
from transforms.failures import Failures
from transforms.snapshots.write import WriteSnapshots
from transforms.write.parquet import WriteChunks, WriteFailures
from transforms.write.schemas import features_schema

SOURCES = ["a.parquet", "b c/é.csv"]


def features(first: int, count: int, label: pa.Array | None = None) -> Chunk:
    at = np.arange(first, first + count)
    columns: dict[str, Any] = {
        "index": pa.array(at),
        "time": pa.array(at * 7),
        "source": pa.array((at % 2).astype(np.int32)),
        "row": pa.array(at + 100),
        "loss": pa.array(at / 8),
        "novelty": pa.array(np.full(count, 0.5)),
        "informative": pa.array(at % 2 == 0),
        "evicted": pa.array(at, mask=at % 3 == 0),
        "initial": pa.array(at < 3),
        "z": matrix_column(at[:, None] * np.ones(SPEC.rank)),
    }
    if label is not None:
        columns["label"] = label
    return Chunk(pa.RecordBatch.from_pydict(columns))


def write(elements: list[Any], kind: Any, transform: Any) -> None:
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = pipeline | beam.Create(elements).with_output_types(kind) | transform


def read(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(path) for path in sorted(folder.glob("*.parquet")))


@pytest.mark.parametrize("emit", ["z", "q"])
def test_the_columns_of_the_features(emit: str) -> None:
    spec = OKFEBSpec(rank=3, budget=5, emit=emit)
    schema = features_schema(spec, pa.string(), True, ("q", "s"), budget=5)
    wide = {name: pa.list_(pa.float64(), width) for name, width in (("q", 3), ("s", 5))}
    assert schema == pa.schema(
        [
            ("model_id", pa.string()),
            ("index", pa.int64()),
            ("time", pa.timestamp("ns", tz="UTC")),
            ("source", pa.dictionary(pa.int32(), pa.string())),
            ("row", pa.int64()),
            ("loss", pa.float64()),
            ("novelty", pa.float64()),
            ("informative", pa.bool_()),
            ("evicted", pa.int64()),
            ("initial", pa.bool_()),
            *([("z", pa.list_(pa.float64(), 3))] if emit == "z" else []),
            *wide.items(),
            ("label", pa.string()),
        ]
    )
    plain = features_schema(spec, None, False)
    assert {"time", "label", "s"} & set(plain.names) == set()
    assert emit in plain.names


def test_features_come_back_from_the_files(tmp_path: Path) -> None:
    label = pa.array(["é", None, ""], pa.string())
    elements = [("m/1", features(0, 3, label)), ("n", features(5, 3, label))]
    schema = features_schema(SPEC, pa.string(), True)
    write(elements, tuple[str, Chunk], WriteChunks(str(tmp_path / "part"), schema, SOURCES))
    table = read(tmp_path)
    assert table.schema.equals(schema)
    expected = []
    for model_id, start in (("m/1", 0), ("n", 5)):
        for place, at in enumerate(range(start, start + 3)):
            expected.append(
                {
                    "model_id": model_id,
                    "index": at,
                    "time": at * 7,
                    "source": SOURCES[at % 2],
                    "row": at + 100,
                    "loss": at / 8,
                    "novelty": 0.5,
                    "informative": at % 2 == 0,
                    "evicted": None if at % 3 == 0 else at,
                    "initial": at < 3,
                    "z": [float(at)] * 3,
                    "label": label[place].as_py(),
                }
            )
    position = table.schema.get_field_index("time")
    table = table.set_column(position, "time", table.column("time").cast(pa.int64()))
    rows = sorted(table.to_pylist(), key=lambda row: (row["model_id"], row["index"]))
    assert rows == expected
    assert [path.name for path in tmp_path.iterdir()] == ["part-00000-of-00001.parquet"]


def test_without_rows_there_is_a_file_without_rows(tmp_path: Path) -> None:
    schema = features_schema(SPEC, pa.int64(), False)
    write([], tuple[str, Chunk], WriteChunks(str(tmp_path / "f" / "part"), schema, SOURCES))
    write([], Failures, WriteFailures(str(tmp_path / "e" / "part"), SOURCES))
    assert read(tmp_path / "f").schema.equals(schema)
    assert read(tmp_path / "e").num_rows == read(tmp_path / "f").num_rows == 0


def test_failures_name_the_file(tmp_path: Path) -> None:
    failures = [
        Failures.of("m", [1], [7], ["bad é"]),
        Failures.of(None, [0, 0], [1, 2], ["x", "y"]),
    ]
    write(failures, Failures, WriteFailures(str(tmp_path / "part"), SOURCES))
    table = read(tmp_path)
    assert table.schema.names == ["model_id", "source", "row", "reason"]
    assert sorted(map(tuple, (row.values() for row in table.to_pylist())), key=str) == [
        ("m", SOURCES[1], 7, "bad é"),
        (None, SOURCES[0], 1, "x"),
        (None, SOURCES[0], 2, "y"),
    ]


def test_a_row_that_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    label = pa.array(["a", "b", "c"], pa.string())
    elements = [("m", features(0, 3, label)), ("m", features(3, 3))]
    schema = features_schema(SPEC, pa.string(), True)
    with pytest.raises(Exception, match="label"):
        write(elements, tuple[str, Chunk], WriteChunks(str(tmp_path / "part"), schema, SOURCES))
    assert list(tmp_path.glob("*.parquet")) == []


def states(keys: list[str]) -> list[tuple[str, bytes]]:
    found = []
    for seed, key in enumerate(keys):
        state, _ = run_all(SPEC, make_rows(40 + seed, seed=seed).x)
        about = {"model_id": key, "rows": 40 + seed, "time": seed, "until": seed, "final": True}
        found.append((key, codec.encode(SPEC, state, about)))
    return found


def test_snapshots_are_the_states_as_they_are(tmp_path: Path) -> None:
    elements = states(["robot/7", "é", "..", "plain"])
    write(elements, tuple[str, bytes], WriteSnapshots(str(tmp_path), SPEC))
    index = json.loads((tmp_path / "index.json").read_text(encoding="utf-8"))
    assert (index["version"], index["tracker"], index["learner"]) == (2, SPEC.to_dict(), None)
    assert list(index["models"]) == sorted(["robot/7", "é", "..", "plain"])
    for number, (key, data) in enumerate(elements):
        (entry,) = index["models"][key]
        name = snapshot_name(key)
        about = {"rows": 40 + number, "time": number}
        assert entry == {**about, "tracker": name, "tracker_bytes": len(data)}
        assert (tmp_path / name).read_bytes() == data
    assert len(list(tmp_path.iterdir())) == 5


def test_single_precision_halves_the_snapshots(tmp_path: Path) -> None:
    ((key, data),) = states(["m"])
    write([(key, data)], tuple[str, bytes], WriteSnapshots(str(tmp_path), SPEC, float32=True))
    small = (tmp_path / "m.safetensors").read_bytes()
    whole, half = codec.decode(data), codec.decode(small)
    assert (half.spec, half.header["about"]) == (whole.spec, whole.header["about"])
    for name, array in whole.state._asdict().items():
        kept = getattr(half.state, name)
        narrow = array.astype(np.float32).astype(np.float64) if array.dtype == float else array
        np.testing.assert_array_equal(kept, narrow)
    reals = sum(a.nbytes for a in whole.state if a.dtype == np.float64)
    # The header's own length is padded to a multiple of 8.
    assert abs(len(data) - len(small) - reals // 2) <= 8 + 2 * len(whole.state)


def test_no_models_leave_an_empty_index(tmp_path: Path) -> None:
    write([], tuple[str, bytes], WriteSnapshots(str(tmp_path), SPEC))
    index = json.loads((tmp_path / "index.json").read_text())
    assert index == {"version": 2, "tracker": SPEC.to_dict(), "learner": None, "models": {}}


@given(st.lists(st.text(max_size=300), max_size=20, unique=True))
def test_file_names_of_models_are_distinct_and_harmless(ids: list[str]) -> None:
    names = [snapshot_name(model_id) for model_id in ids]
    assert len(set(names)) == len(ids)
    for name in names:
        assert len(name.encode()) <= 255
        assert not set(name) & set('/\\\0:*?"<>|\n')
        assert not name.startswith((".", ".safetensors"))
        assert name.endswith(".safetensors")


@pytest.mark.parametrize(
    ("model_id", "name"),
    [
        ("subject-01", "subject-01.safetensors"),
        ("two words", "two words.safetensors"),
        ("a/b", "a%2Fb.safetensors"),
        ("a%2Fb", "a%252Fb.safetensors"),
        ("..", "%2E..safetensors"),
        ("é", "%C3%A9.safetensors"),
        ("", "%.safetensors"),
    ],
)
def test_names_of_snapshot_files(model_id: str, name: str) -> None:
    assert snapshot_name(model_id) == name


def test_a_shortened_name_is_no_other_models_name() -> None:
    """Long ids end in a hash; an id that is spelt like that is another model."""
    long = "a" * 300
    assert len(snapshot_name(long)) < 255
    spelt = snapshot_name(long).removesuffix(".safetensors")
    assert snapshot_name(spelt) != snapshot_name(long)


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "index.json"
    write_whole(str(path), b"first")
    write_whole(str(path), b"second, longer")
    assert path.read_bytes() == b"second, longer"

    def no_space(*names: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", no_space)
    with pytest.raises(OSError, match="No space"):
        write_whole(str(path), b"third")
    assert path.read_bytes() == b"second, longer"
    assert [found.name for found in tmp_path.iterdir()] == ["index.json"]
