"""Packed snapshots: the bytes of single files, one by one the same, and never a crash."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.in_memory import run_all
from kerneltrack.learners import RidgeSpec
from kerneltrack.registry import LEARNERS, get_learner
from kerneltrack.snapshots.files import ENDING, snapshot_name
from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.snapshots.header import PackedState
from kerneltrack.snapshots.index import INDEX, count_models, read_index
from kerneltrack.snapshots.packed import (
    GROUP_ROWS,
    PackedFile,
    PackedWriter,
    slot_of,
)
from kerneltrack.trackers import OKFEBSpec
from tests.oracles.streams import walk

SPEC = OKFEBSpec(rank=2, budget=4, warmup=10)
LEARNER = RidgeSpec()
SLOTS = 16
MODELS = sorted([*(f"m/{number}" for number in range(2 * GROUP_ROWS + 3)), "", "é", "z" * 900])
PARTS = ("part-00000-of-00002.parquet", "part-00001-of-00002.parquet")


def tracker(model_id: str, rows: int, final: bool, width: int = 3) -> PackedState:
    seed = slot_of(model_id, 1 << 16)
    state, _ = run_all(SPEC, walk(seed % 7, 40, width))
    about = {"model_id": model_id, "rows": rows, "time": 7, "until": 7, "final": final}
    extras = {"open.stride": np.ones(1, np.int64)} if seed % 3 == 0 else None
    data = codec.encode(SPEC, state, about, extras=extras)
    return PackedState(model_id, codec.TRACKER, rows, 7, final, data)


def learner(model_id: str, rows: int, classes: int = 2) -> PackedState:
    kind = get_learner(LEARNER.learner)
    labels = [f"class {number % classes}" for number in range(8)]
    z = walk(1, 8, SPEC.rank)
    state, _ = kind.update(LEARNER, kind.init(LEARNER, SPEC.rank), z, labels)
    about = {"model_id": model_id, "rows": rows, "time": None, "final": True}
    data = codec.encode_learner(LEARNER, state, about)
    return PackedState(model_id, codec.LEARNER, rows, None, True, data)


def states() -> list[PackedState]:
    found = []
    for number, model_id in enumerate(MODELS):
        found += [tracker(model_id, 20, False), tracker(model_id, 40, True)]
        if number % 2:
            found.append(learner(model_id, 40, 2 + number % 3))
    return found


STATES = states()


def write_folder(folder: Path, given: list[PackedState] = STATES) -> Path:
    """A folder of two packed files."""
    files = []
    for part, name in enumerate(PARTS):
        slots = list(range(part, SLOTS, 2))
        with (folder / name).open("wb") as handle:
            writer = PackedWriter(handle)
            for state in given:
                if slot_of(state.model_id, SLOTS) in slots:
                    writer.add(state)
            writer.close()
        files.append(
            {"name": name, "slots": slots, "models": writer.models, "states": writer.states}
        )
    index = {"version": 3, "tracker": SPEC.to_dict(), "learner": LEARNER.to_dict()}
    (folder / INDEX).write_text(json.dumps({**index, "slots": SLOTS, "files": files}))
    return folder


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("packed"))


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as single files, without an index."""
    folder = tmp_path_factory.mktemp("single")
    for state in STATES:
        rows = None if state.final else state.rows
        (folder / snapshot_name(state.model_id, rows, state.kind)).write_bytes(state.data)
    return folder


def test_the_bytes_are_those_of_single_files(packed: Path) -> None:
    found = [state for name in PARTS for state in PackedFile(str(packed / name)).states()]
    assert sorted(found, key=lambda s: (s.model_id, s.rows, s.kind)) == sorted(
        STATES, key=lambda s: (s.model_id, s.rows, s.kind)
    )


def test_a_folder_says_the_same_as_single_files(packed: Path, single: Path) -> None:
    a, b = SnapshotFolder(str(packed), learner=True), SnapshotFolder(str(single), learner=True)
    assert count_models(str(packed)) == len(a.models) == len(MODELS) == len(b.models)
    assert sorted(a.models) == sorted(b.models) == MODELS
    for model_id in MODELS:
        of_a, of_b = a.models[model_id], b.models[model_id]
        assert [(e["rows"], e["time"]) for e in of_a] == [(e["rows"], e["time"]) for e in of_b]
        assert a.rows(model_id) == b.rows(model_id) == 40
        for kind in (codec.TRACKER, codec.LEARNER):
            data = a.checked(model_id, kind)
            assert data == b.checked(model_id, kind)
            assert (data is None) == (kind == codec.LEARNER and MODELS.index(model_id) % 2 == 0)
    assert a.state("nobody", codec.TRACKER) is None
    assert a.place("nobody", codec.TRACKER) is None
    again = pickle.loads(pickle.dumps(a))
    assert again.state("é", codec.TRACKER) == a.state("é", codec.TRACKER)
    place = str(a.place("é", codec.TRACKER))
    assert place.startswith(str(packed)) and ", row group " in place
    assert a.digest() == SnapshotFolder(str(packed)).digest()


def test_a_model_is_found_among_many_row_groups(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its states may lie in two groups; names that are not there are in none."""
    monkeypatch.setattr("kerneltrack.snapshots.packed.GROUP_ROWS", 2)
    few = write_folder(tmp_path)
    folder = SnapshotFolder(str(few), learner=True)
    assert {name: folder.models[name] for name in ("zzz", "no") if name in folder.models} == {}
    whole = SnapshotFolder(str(packed), learner=True)
    for model_id in MODELS:
        for kind in (codec.TRACKER, codec.LEARNER):
            assert folder.checked(model_id, kind) == whole.checked(model_id, kind)
    for name in PARTS:
        file = PackedFile(str(few / name))
        every = [file.group(number).names for number in range(len(file._ranges))]
        assert len(every) > 2
        for model_id in dict.fromkeys(file.names()):
            holding = [number for number, names in enumerate(every) if model_id in names]
            assert file.groups_of(model_id) == holding
        assert [name for names in every for name in names] == list(file.names())


def test_models_are_read_in_the_order_in_which_they_lie(packed: Path, single: Path) -> None:
    folder = SnapshotFolder(str(packed))
    assert folder.in_order(reversed(MODELS)) == list(folder.models)
    assert SnapshotFolder(str(single)).in_order(MODELS[::-1]) == MODELS[::-1]


def test_the_digest_tells_other_snapshots_apart(packed: Path, tmp_path: Path) -> None:
    other = [s._replace(time=8) if s.model_id == "é" else s for s in STATES]
    assert SnapshotFolder(str(write_folder(tmp_path, other))).digest() != (
        SnapshotFolder(str(packed)).digest()
    )


def test_single_precision_halves_the_trackers(tmp_path: Path) -> None:
    with (tmp_path / PARTS[0]).open("wb") as handle:
        writer = PackedWriter(handle, float32=True)
        writer.add(STATES[0])
        writer.close()
    (found,) = PackedFile(str(tmp_path / PARTS[0])).states()
    whole, half = codec.decode(STATES[0].data), codec.decode(found.data)
    assert half.header["about"] == whole.header["about"]
    for array, kept in zip(whole.state, half.state, strict=True):
        narrow = array.astype(np.float32).astype(array.dtype) if array.dtype == float else array
        np.testing.assert_array_equal(kept, narrow)


def test_models_must_come_in_order(tmp_path: Path) -> None:
    with (tmp_path / PARTS[0]).open("wb") as handle:
        writer = PackedWriter(handle)
        writer.add(tracker("b", 40, True))
        with pytest.raises(ValueError, match="'a' comes after 'b'"):
            writer.add(tracker("a", 40, True))


def test_a_file_without_states(tmp_path: Path) -> None:
    with (tmp_path / PARTS[0]).open("wb") as handle:
        PackedWriter(handle).close()
    assert list(PackedFile(str(tmp_path / PARTS[0])).states()) == []


def test_half_of_the_bytes_of_single_files(packed: Path, single: Path) -> None:
    packed_size = sum((packed / name).stat().st_size for name in PARTS)
    single_size = sum(path.stat().st_size for path in single.glob(f"*{ENDING}"))
    assert packed_size < single_size / 2


@pytest.mark.parametrize("name", list(LEARNERS))
def test_states_of_every_learner(name: str, tmp_path: Path) -> None:
    """Some have arrays without numbers, which Arrow has no lists for."""
    spec: Any = LEARNERS.spec_type(name)()
    kind = get_learner(name)
    states = []
    for number, model_id in enumerate("abc"):
        state = kind.init(spec, 2)
        if number:
            state, _ = kind.update(spec, state, walk(1, 8, 2), ["x", "y"] * 4)
        about = {"model_id": model_id, "rows": 8 * number, "time": 3, "final": True}
        data = codec.encode_learner(spec, state, about)
        states.append(PackedState(model_id, codec.LEARNER, 8 * number, 3, True, data))
    for given in (states, states[1:]):
        with (tmp_path / PARTS[0]).open("wb") as handle:
            writer = PackedWriter(handle)
            for state in given:
                writer.add(state)
            writer.close()
        assert list(PackedFile(str(tmp_path / PARTS[0])).states()) == given


GOOD: dict[str, Any] = {"name": PARTS[0], "slots": [0], "models": 1, "states": 1}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no slots": ({"slots": None}, "slots = None: a number from 1 to 65536"),
    "too many slots": ({"slots": 1 << 17}, "slots = 131072: a number from 1 to 65536"),
    "no files": ({"files": {}}, "no files"),
    "another folder": (
        {"files": [{**GOOD, "name": f"../{PARTS[0]}"}]},
        "file 0: another name than a job gives",
    ),
    "a single file": (
        {"files": [{**GOOD, "name": "m.safetensors"}]},
        "file 0: another name than a job gives",
    ),
    "a slot too far": (
        {"files": [{**GOOD, "slots": [16]}]},
        "file 0: slots that are not numbers from 0 to 15",
    ),
    "a slot twice": ({"files": [{**GOOD, "slots": [1, 1]}]}, "file 0: a slot twice"),
    "a slot of another": (
        {"files": [GOOD, {**GOOD, "name": PARTS[1]}]},
        "file 1: its name or one of its slots is another's too",
    ),
    "a name twice": (
        {"files": [GOOD, {**GOOD, "slots": [1]}]},
        "file 1: its name or one of its slots is another's too",
    ),
    "models a text": ({"files": [{**GOOD, "models": "1"}]}, "file 0: no number of models"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_index_that_no_job_wrote_is_refused(name: str, tmp_path: Path) -> None:
    change, says = BAD[name]
    index = {"version": 3, "tracker": SPEC.to_dict(), "learner": None, "slots": SLOTS}
    (tmp_path / INDEX).write_text(json.dumps({**index, "files": [GOOD], **change}))
    with pytest.raises(DataError) as caught:
        read_index(str(tmp_path))
    assert str(caught.value) == f"{tmp_path}/index.json: not an index of snapshots: {says}"


def changed(path: Path, **columns: Any) -> None:
    """Write a packed file anew with other columns."""
    table = pq.read_table(path)
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        if values is None:
            table = table.remove_column(place)
        else:
            array = pa.array(values, table.schema.field(name).type)
            table = table.set_column(place, table.schema.field(name), array)
    pq.write_table(table, path, row_group_size=GROUP_ROWS)


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A packed file of one state."""
    path = tmp_path / PARTS[0]
    with path.open("wb") as handle:
        writer = PackedWriter(handle)
        writer.add(tracker("a", 40, True))
        writer.close()
    return path


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"kind": ["thing"]}, "damaged: state 0 is of no kind, or not complete"),
        ({"header": [None]}, "damaged: state 0 is of no kind, or not complete"),
        ({"rows": [None]}, "damaged: rows is missing"),
        ({"beside": [b"abc"]}, "damaged state: "),
        (
            {"beside": [codec.to_bytes({"x": np.ones(2)}, "{}")]},
            "damaged: state 0 has arrays twice",
        ),
        ({"tracker.counts": None}, "damaged: columns that are not described"),
        ({"kind": None}, "not a file of packed snapshots"),
        ({"tracker.counts": [None]}, "cannot be read: "),
    ],
)
def test_a_damaged_file_is_refused(one: Path, columns: dict[str, Any], says: str) -> None:
    changed(one, **columns)
    with pytest.raises(DataError) as caught:
        list(PackedFile(str(one)).states())
    assert str(caught.value).startswith(f"{one}: {says}")


def test_what_a_state_says_is_checked_like_that_of_a_single_file(one: Path) -> None:
    counts = pq.read_table(one).column("tracker.counts").to_pylist()[0]
    changed(one, **{"tracker.counts": [[counts[0], 10**6, *counts[2:]]]})
    (state,) = PackedFile(str(one)).states()
    with pytest.raises(DataError, match=r"state\.counts, stored rows = 1000000: must be 0 to 4"):
        codec.decode(state.data, "it")


def test_cut_off_files_are_refused(one: Path) -> None:
    data = one.read_bytes()
    for length in range(0, len(data), 97):
        one.write_bytes(data[:length])
        with pytest.raises(DataError):
            list(PackedFile(str(one)).states())


def test_flipped_bits_are_refused_or_give_bytes(one: Path) -> None:
    data = one.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(data), 150):
        flipped = bytearray(data)
        flipped[place] ^= 1 << int(rng.integers(8))
        one.write_bytes(flipped)
        try:
            found = list(PackedFile(str(one)).states())
        except DataError:
            continue
        for state in found:
            try:
                codec.decode(state.data, "it")
            except DataError:
                continue
