"""Models in blocks: the bits of one model at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from kerneltrack.trackers import OKFEBSpec
from kerneltrack.trackers.common.first_rows import MOST_TOGETHER
from kerneltrack.trackers.common.loop import Pieces
from kerneltrack.trackers.common.scaling import standard_scaling, standard_scaling_of_each
from kerneltrack.trackers.okfeb.okfeb import OKFEB
from tests.oracles.streams import walk
from transforms.partition.blocks import BLOCK_BYTES, BLOCK_ROWS, blocks_of
from transforms.track.sorted_rows import SortedRows

SIZES = [10, 1, 2, 300, 10, 65, 10, 3, 40]
SPECS: dict[str, dict[str, Any]] = {
    "default": {},
    "nonparametric": {"rule": "nonparametric", "policy": "compensated"},
    "laplacian": {"kernel": "laplacian", "censor": "moving"},
    "a bandwidth": {"gamma": 3.0, "emit": "q"},
    "polynomial": {"kernel": "polynomial", "standardise": False},
    "as they are": {"standardise": False},
    "clip": {"clip": 2.0},
}


@pytest.mark.parametrize("width", [1, 2, 6, 13])
@pytest.mark.parametrize("name", SPECS)
def test_a_block_gives_the_bits_of_each_model(name: str, width: int) -> None:
    spec = OKFEBSpec(rank=3, budget=5, warmup=50, **SPECS[name])
    rows = walk(3, sum(SIZES), width)
    # All rows of one model alike, and one without spread in a channel.
    rows[1:3] = rows[1]
    rows[-40:, 0] = 7.0
    stops = np.cumsum(np.array(SIZES, np.int64))
    starts: npt.NDArray[np.int64] = stops - np.array(SIZES, np.int64)
    tracker = OKFEB()
    block = tracker.init_each(spec, rows, starts, np.minimum(stops, starts + spec.rows_to_start))
    done = tracker.run(spec, block, Pieces(rows, starts, stops))
    for place, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        own = rows[start:stop]
        state, features = tracker.update(spec, tracker.init(spec, own[: spec.rows_to_start]), own)
        for field, array in state._asdict().items():
            assert block.column(field)[place].tobytes() == array.tobytes(), (place, field)
        for field in ("valid", "index", "z", "loss", "novelty", "informative", "evicted", "q"):
            wanted, found = getattr(features, field), getattr(done, field)
            assert (wanted is None) == (found is None)
            if wanted is not None:
                assert found[start:stop].tobytes() == wanted.tobytes(), (place, field)


@pytest.mark.parametrize("width", [2, 3, 8, 39])
@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 17, MOST_TOGETHER])
def test_scaling_together_is_scaling_alone(count: int, width: int) -> None:
    rng = np.random.default_rng(count * 100 + width)
    rows = rng.normal(size=(5, count, width)) * np.exp(3 * rng.normal(size=(5, 1, width)))
    rows[2, :, 0] = 0.0
    rows[3, :, 1] = 1e200
    together = standard_scaling_of_each(rows)
    for place in range(5):
        alone = standard_scaling(rows[place], np.inf)
        assert together.shift[place].tobytes() == alone.shift.tobytes()
        assert together.scale[place].tobytes() == alone.scale.tobytes()


def test_blocks_are_cut_by_rows_and_by_the_bytes_of_their_states() -> None:
    names = [f"m{i}" for i in range(6)]
    lengths = [10, BLOCK_ROWS, 10, 10, 10, 10]
    stops = np.cumsum(lengths).tolist()
    starts = [stop - length for stop, length in zip(stops, lengths, strict=True)]
    rows = SortedRows(names, starts, stops, pa.record_batch({"x": pa.nulls(stops[-1])}))
    by_rows = [range(1), range(1, 2), range(2, 6)]
    assert list(blocks_of(rows, 8)) == by_rows
    assert list(blocks_of(rows, BLOCK_BYTES // 4)) == by_rows
    assert list(blocks_of(rows, BLOCK_BYTES // 3)) == [*by_rows[:2], range(2, 5), range(5, 6)]
    assert list(blocks_of(rows, 2 * BLOCK_BYTES)) == [range(i, i + 1) for i in range(6)]
