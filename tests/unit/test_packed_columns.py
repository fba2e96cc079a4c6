"""Trackers' states decoded from packed columns: what `codec.decode` gives or says of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.snapshots.header import PackedState
from kerneltrack.snapshots.packed import PackedFile, PackedWriter
from tests.crafted_states import TRACKERS, cases, crafted
from tests.parts import examples, lanes
from tests.unit.test_packed import MODELS, SPEC, tracker, write_folder

TRIALS = examples(60, least=15)


def write(path: Path, given: list[bytes], kind: str = codec.TRACKER) -> PackedFile:
    """Write states as those of models that are numbered."""
    with path.open("wb") as handle:
        writer = PackedWriter(handle)
        for number, data in enumerate(given):
            writer.add(PackedState(f"{number:05d}", kind, number, None, True, data))
        writer.close()
    return PackedFile(str(path))


def output_text(decode: Any) -> tuple[str | None, codec.Snapshot | None]:
    """Return what an error says, or what was decoded."""
    try:
        return None, decode()
    except DataError as error:
        return str(error), None


def assert_same(one: codec.Snapshot, other: codec.Snapshot) -> None:
    assert (one.spec, one.header) == (other.spec, other.header)
    assert list(one.header) == list(other.header)
    assert type(one.state) is type(other.state)
    assert {*one.extras} == {*other.extras}
    pairs = [*zip(one.state, other.state, strict=True)]
    pairs += [(one.extras[name], other.extras[name]) for name in one.extras]
    for a, b in pairs:
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes()
        assert b.flags.c_contiguous
        assert b.flags.aligned


@pytest.mark.parametrize("own", lanes(False, True))
@pytest.mark.parametrize("name", TRACKERS)
def test_crafted_states_are_taken_or_refused_as_one_by_one(
    name: str, own: bool, tmp_path: Path
) -> None:
    data = cases()[f"tracker {name}"]().data
    rng = np.random.default_rng(3)
    taken = refused = 0
    for _ in range(TRIALS):
        # Columns of several states are looked at together: one that is refused is among others.
        given = [data, crafted(data, rng), data]
        file = write(tmp_path / "p.parquet", given)
        group, decoded = file.group(0), file.group(0).snapshots(own)
        fine = True
        for place in range(len(group)):
            each = f"{file.path}, row group 0, state {place}"
            state = group.state(place)
            assert state.data == given[place]
            says, expected = output_text(lambda: codec.decode(state.data, each, own))  # noqa: B023
            reported, found = output_text(lambda: group.snapshot(place, 0, own))  # noqa: B023
            assert reported == says
            if expected is None or found is None:
                refused += 1
                fine = False
                continue
            taken += 1
            assert_same(expected, found)
            fine &= not group._table.column("whole")[place].as_py()
        # How large a state of okfe is, it says itself: each goes by itself.
        together = [snapshot is not None for snapshot in decoded]
        assert together[1] == (fine and name != "okfe")
    assert min(taken, refused) > TRIALS / 6


def test_numbers_past_the_stored_rows_are_cleared(tmp_path: Path) -> None:
    """The row loop adds them to its sums."""
    states = []
    for size in (0, 2, 4):
        text, arrays = codec.parts_of(tracker("a", 40, True).data)
        arrays = {name: array.copy() for name, array in arrays.items() if "." not in name}
        for name in ("stored", "factor", "image", "gram", "frame"):
            arrays[name][arrays[name] == 0.0] = np.nan
        arrays["counts"][1] = size
        arrays["counts"][8] = min(size, SPEC.rank)
        states.append(codec.to_bytes(arrays, text))
    file = write(tmp_path / "p.parquet", states)
    for data, (_, found) in zip(states, file.snapshots(), strict=True):
        assert_same(codec.decode(data), found)
    assert None not in file.group(0).snapshots()


def test_a_folder_decodes_what_single_files_hold(tmp_path: Path) -> None:
    """States with something beside them, of other widths, of other settings, and learners'."""
    (tmp_path / "packed").mkdir()
    packed = SnapshotFolder(str(write_folder(tmp_path / "packed")))
    for model_id in MODELS:
        path, data = packed.found(model_id, codec.TRACKER) or ("", b"")
        place, snapshot = packed.tracker(model_id) or ("", None)
        assert place == path
        assert snapshot is not None
        assert_same(codec.decode(data, path), snapshot)
    assert packed.tracker("nobody") is None
    other = SPEC.__class__(rank=2, budget=4, warmup=10, forgetting=0.5)
    mixed = [tracker("a", 40, True).data, tracker("a", 40, True, width=5).data]
    decoded = codec.decode(mixed[0])
    mixed.append(codec.encode(other, decoded.state, decoded.header["about"]))
    file = write(tmp_path / "mixed.parquet", mixed)
    for data, (_, found) in zip(mixed, file.snapshots(), strict=True):
        assert_same(codec.decode(data), found)


def test_single_precision_is_widened(tmp_path: Path) -> None:
    decoded = codec.decode(tracker("a", 40, True).data)
    data = codec.encode(SPEC, decoded.state, decoded.header["about"], float32=True)
    ((_, found),) = write(tmp_path / "p.parquet", [data]).snapshots()
    assert_same(codec.decode(data), found)


def test_what_lies_beside_many_is_decoded_as_of_each(tmp_path: Path) -> None:
    """Also where an odd number of singles lets the next state begin between two reals' places."""
    decoded = codec.decode(tracker("a", 40, True).data)
    states = []
    for number in range(3):
        extras = {
            "one.reals": np.arange(4.0) + number,
            "one.none": np.zeros((0, 2)),
            "two.singles": np.arange(3, dtype=np.float32) - number,
            "two.whole": np.array([number]),
        }
        states.append(codec.encode(SPEC, decoded.state, decoded.header["about"], extras=extras))
    group = write(tmp_path / "p.parquet", states).group(0)
    for data, found in zip(states, group.snapshots(), strict=True):
        assert found is not None
        assert_same(codec.decode(data), found)


def text_of(header: dict[str, Any], **changed: Any) -> str:
    return json.dumps({**header, **changed})


HEADER = codec.read_header(tracker("a", 40, True).data)
TEXTS = {
    "not JSON": "{",
    "about twice": json.dumps(HEADER)[:-1] + ', "about": {"model_id": "b"}}',
    "about twice, no object": json.dumps(HEADER)[:-1] + ', "about": 3}',
    "about last": json.dumps({**{k: v for k, v in HEADER.items() if k != "about"}, "about": {}}),
    "no object": "[1]",
    "more after it": json.dumps(HEADER) + "}",
    "another version": text_of(HEADER, version=1),
    "a learner's": json.dumps(
        {"about": {}, "version": codec.VERSION, "learner": "ridge", "spec": {}}
    ),
    "nobody's": json.dumps({"about": {}, "version": codec.VERSION, "spec": {}}),
    "no spec": json.dumps({"about": {}, "version": codec.VERSION, "tracker": "okfeb"}),
    "another field": text_of(HEADER, spec={**HEADER["spec"], "thing": 1}),
    "deep": '{"about": ' + '{"a":' * 3000 + "1" + "}" * 3000 + f', "version": {codec.VERSION}}}',
    "spaces": json.dumps(HEADER).replace('{"about": ', '{ "about" :', 1),
}


@pytest.mark.parametrize("name", TEXTS)
def test_odd_headers_are_read_or_refused_as_one_by_one(name: str, tmp_path: Path) -> None:
    arrays = codec.parts_of(tracker("a", 40, True).data)[1]
    arrays = {field: array for field, array in arrays.items() if "." not in field}
    good = codec.to_bytes(arrays, json.dumps(HEADER))
    odd = codec.to_bytes(arrays, TEXTS[name])
    group = write(tmp_path / "p.parquet", [good, odd]).group(0)
    group.snapshots()
    assert_same(codec.decode(good), group.snapshot(0, 0))
    place = f"{tmp_path}/p.parquet, row group 0, state 1"
    says, expected = output_text(lambda: codec.decode(odd, place))
    reported, found = output_text(lambda: group.snapshot(1, 0))
    assert reported == says
    assert (expected is None) == (found is None)
    if expected is not None and found is not None:
        assert_same(expected, found)


@pytest.mark.parametrize(
    ("column", "values", "says"),
    [
        ("kind", ["tracker", "thing"], "damaged: state 1 is of no kind, or not complete"),
        ("header", [None, None], "damaged: state 0 is of no kind, or not complete"),
        ("final", [True, None], "damaged: state 1 is of no kind, or not complete"),
        ("beside", [None, b"abc"], "damaged state: "),
        (
            "beside",
            [codec.to_bytes({"x": np.ones(2)}, "{}"), None],
            "damaged: state 0 has arrays twice",
        ),
    ],
)
def test_damaged_states_are_told_of(
    column: str, values: list[Any], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "p.parquet"
    data = codec.encode(SPEC, codec.decode(tracker("a", 40, True).data).state, {})
    write(path, [data, data])
    table = pq.read_table(path)
    place = table.schema.get_field_index(column)
    field = table.schema.field(column)
    pq.write_table(table.set_column(place, field, pa.array(values, field.type)), path)
    with pytest.raises(DataError) as caught:
        list(PackedFile(str(path)).snapshots())
    assert str(caught.value).startswith(f"{path}: {says}")


def test_learners_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "packed").mkdir()
    folder = write_folder(tmp_path / "packed")
    files = sorted(folder.glob("*.parquet"))
    names = [name for path in files for name, _ in PackedFile(str(path)).snapshots()]
    assert sorted(names) == sorted([*MODELS, *MODELS])
    group = PackedFile(str(files[0])).group(0)
    place = group.kinds.index(codec.LEARNER)
    with pytest.raises(DataError, match=r"the state of a learner \(ridge\), not of a tracker"):
        group.snapshot(place, 0)
