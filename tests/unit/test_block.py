"""Models in blocks: the bits of one model at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kerneltrack.trackers.common.first_rows import MOST_TOGETHER
from kerneltrack.trackers.common.scaling import standard_scaling
from transforms.chunks import Chunk
from transforms.partition.blocks import BLOCK_BYTES, BLOCK_ROWS, blocks_of
from transforms.track.sorted_rows import SortedRows


@pytest.mark.parametrize("width", [2, 3, 8, 39])
@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 17, MOST_TOGETHER])
def test_scaling_together_is_scaling_alone(count: int, width: int) -> None:
    rng = np.random.default_rng(count * 100 + width)
    rows = rng.normal(size=(5, count, width)) * np.exp(3 * rng.normal(size=(5, 1, width)))
    rows[2, :, 0] = 0.0
    rows[3, :, 1] = 1e200
    together = standard_scaling(rows, np.inf)
    for place in range(5):
        alone = standard_scaling(rows[place], np.inf)
        assert together.shift[place].tobytes() == alone.shift.tobytes()
        assert together.scale[place].tobytes() == alone.scale.tobytes()


def test_blocks_are_cut_by_rows_and_by_the_bytes_of_their_states() -> None:
    names = [f"m{i}" for i in range(6)]
    lengths = [10, BLOCK_ROWS, 10, 10, 10, 10]
    edges = np.cumsum([0, *lengths])
    rows = SortedRows(names, edges, Chunk(pa.record_batch({"x": pa.nulls(edges[-1])})))
    by_rows = [range(1), range(1, 2), range(2, 6)]
    assert list(blocks_of(rows, 8)) == by_rows
    assert list(blocks_of(rows, BLOCK_BYTES // 4)) == by_rows
    assert list(blocks_of(rows, BLOCK_BYTES // 3)) == [*by_rows[:2], range(2, 5), range(5, 6)]
    assert list(blocks_of(rows, 2 * BLOCK_BYTES)) == [range(i, i + 1) for i in range(6)]
