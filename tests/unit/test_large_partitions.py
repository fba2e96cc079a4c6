"""Partitions larger than memory: the rows of each model, in the order of those sorted at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.snapshots.packed import slot_of
from tests.parts import examples, lanes
from transforms.chunks import IN_ORDER, Chunk, matrix_column
from transforms.partition import large
from transforms.partition.shuffle import MODEL, Spread, read_slots, sort_rows
from transforms.partition.steps import IN_ARRIVAL
from transforms.track.sorted_rows import SortedRows

SLOTS = 4


def spread(path: Path, seed: int, sizes: dict[str, int], times: int, parts: int) -> Spread:
    """Write rows as `spread_piece` does: by slot, in it by model, in several batches a slot."""
    rng = np.random.default_rng(seed)
    slots, rows = [], []
    with pa.OSFile(str(path), "wb") as handle:
        writer: Any = None
        for part in range(parts):
            for slot in range(SLOTS):
                names = [n for n in sorted(sizes) if slot_of(n, SLOTS) == slot and sizes[n]]
                model = [name for name in names for _ in range(sizes[name])]
                if not model:
                    continue
                count = len(model)
                batch = pa.RecordBatch.from_pydict(
                    {
                        "time": pa.array(rng.integers(0, times, count)),
                        "sequence": pa.array(rng.integers(0, 3, count)),
                        "source": pa.array(np.full(count, seed, np.int32)),
                        "row": pa.array(np.arange(count) + 100_000 * part + 10_000 * slot),
                        "x": matrix_column(rng.normal(size=(count, 3))),
                        MODEL: pa.array(model, pa.string()),
                    }
                )
                writer = writer or pa.ipc.new_file(handle, batch.schema)
                writer.write_batch(batch)
                slots.append(slot)
                rows.append(count)
        writer.close()
    return Spread(str(path), slots, rows, path.stat().st_size)


def whole(name: str, rows: Chunk | Iterator[Chunk]) -> tuple[str, Chunk]:
    return name, rows if isinstance(rows, Chunk) else Chunk.concat(list(rows))


def each_of(part: SortedRows | large.OneLarge) -> list[tuple[str, Any]]:
    """The models of a part, each with its rows."""
    return list(part.each()) if isinstance(part, SortedRows) else [part]


@settings(max_examples=examples(15))
@given(
    seed=st.integers(0, 1000),
    most=st.sampled_from([1, 300, 5_000, 1 << 30]),
    block=st.sampled_from([1, 3, 50]),
    times=st.sampled_from([1, 4, 1_000]),
    keys=st.sampled_from([IN_ORDER, IN_ARRIVAL]),
)
def test_models_come_as_if_sorted_at_once(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    most: int,
    block: int,
    times: int,
    keys: tuple[str, ...],
) -> None:
    folder, rng = tmp_path_factory.mktemp("large"), np.random.default_rng(seed)
    names = ["a", "é", "", "model 4", "m/5", "z"]
    spreads = []
    for number in range(3):
        sizes = dict(zip(names, rng.integers(0, 40, len(names)).tolist(), strict=True))
        sizes["a"] += 1
        spreads.append(spread(folder / f"s{number}", number, sizes, times, 1 + number))
    before, large.LEAST_BLOCK = large.LEAST_BLOCK, block
    try:
        for slots in ({0, 2}, {1}, {0, 1, 2, 3}):
            table = read_slots(spreads, slots)
            expected = [] if table is None else list(sort_rows(table, keys).each())
            scratch = str(folder / "track")
            parts = large.parts_of(spreads, slots, keys, most, scratch)
            found = [whole(name, rows) for part in parts for name, rows in each_of(part)]
            assert [name for name, _ in found] == [name for name, _ in expected]
            for (_, one), (_, other) in zip(found, expected, strict=True):
                assert one.batch.equals(other.batch)
            assert sorted(path.name for path in folder.iterdir()) == ["s0", "s1", "s2"]
    finally:
        large.LEAST_BLOCK = before


def test_the_size_of_slots_is_about_that_of_their_rows(tmp_path: Path) -> None:
    one = spread(tmp_path / "s", 0, {"a": 3_000, "é": 1_000}, 9, 1)
    sizes = [large.size_of([one], {slot_of(name, SLOTS)}) for name in ("a", "é")]
    assert abs(sizes[0] - 3 * sizes[1]) <= 3
    assert large.size_of([one], {0, 1, 2, 3}) <= one.size
    assert large.size_of([], {0}) == 0


@pytest.mark.parametrize("ordered", lanes(False, True))
def test_memory_is_bounded(ordered: bool, tmp_path: Path) -> None:
    """A model of 18 MB with a limit of 1 MB: in memory at a time are blocks of its runs."""
    count, most = 50_000, 1 << 20
    parts = []
    for number in range(6):
        rng = np.random.default_rng(number)
        times = np.arange(count) * 6 + number
        batch = pa.RecordBatch.from_pydict(
            {
                "time": pa.array(times if ordered else rng.permutation(times)),
                "source": pa.array(np.full(count, number, np.int32)),
                "row": pa.array(np.arange(count)),
                "x": matrix_column(rng.normal(size=(count, 5))),
                MODEL: pa.array(["one"] * count),
            }
        )
        path = tmp_path / f"s{number}"
        with pa.OSFile(str(path), "wb") as handle, pa.ipc.new_file(handle, batch.schema) as writer:
            writer.write_batch(batch)
        parts.append(Spread(str(path), [0], [count], path.stat().st_size))
        del batch
    assert sum(part.size for part in parts) > 18 * most
    before = pa.total_allocated_bytes()
    (part,) = large.parts_of(parts, {0}, IN_ORDER, most, str(tmp_path / "track"))
    ((name, rows),) = each_of(part)
    taken, peak, newest = 0, 0, -1
    assert not isinstance(rows, Chunk)
    for chunk in rows:
        now = chunk.column("time")
        assert now[0] > newest
        assert (np.diff(now) > 0).all()
        newest, taken = int(now[-1]), taken + len(chunk)
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert (name, taken) == ("one", 6 * count)
    assert peak <= 4 * most
