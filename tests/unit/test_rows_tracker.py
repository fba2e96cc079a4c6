"""The tracker that passes rows on."""

from __future__ import annotations

import pytest

from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import run_all
from kerneltrack.trackers import Rows, RowsSpec
from kerneltrack.trackers.common.scaling import apply_scaling, standard_scaling
from tests.oracles.streams import walk

ROWS = walk(seed=3, count=200, width=4)


def test_features_are_the_scaled_rows() -> None:
    spec = RowsSpec(rank=4, warmup=50, clip=2.0)
    state, features = run_all(spec, ROWS, ("q",))
    scaled = apply_scaling(standard_scaling(ROWS[:50], 2.0), ROWS, 2.0)
    assert features.z is not None and features.q is not None
    assert features.z.tobytes() == scaled.tobytes() == features.q.tobytes()
    assert not features.loss.any() and not features.informative.any()
    assert (features.novelty == 0.5).all() and features.index.tolist() == list(range(200))
    assert sum(array.nbytes for array in state) == 8 * (2 * 4 + 9)


@pytest.mark.parametrize("rank", [3, 5])
def test_the_rank_must_be_the_number_of_channels(rank: int) -> None:
    spec = RowsSpec(rank=rank)
    with pytest.raises(ConfigError, match=rf"rank = {rank}: must be 4, the number of channels"):
        Rows().init(spec, ROWS)


@pytest.mark.parametrize(("standardise", "rows"), [(True, 70), (False, 1)])
def test_only_scaling_needs_first_rows(standardise: bool, rows: int) -> None:
    assert RowsSpec(warmup=70, standardise=standardise).rows_to_start == rows
