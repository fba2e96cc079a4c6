"""Models in blocks: the bits of one model at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from apache_beam.transforms.window import FixedWindows, SlidingWindows

from kerneltrack.fleet.model import Work, begin
from kerneltrack.fleet.run import run_rows
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.trackers import OKFEBSpec
from kerneltrack.trackers.common.first_rows import MOST_TOGETHER
from kerneltrack.trackers.common.scaling import standard_scaling, standard_scaling_of_each
from kerneltrack.trackers.okfeb.block import Begun
from kerneltrack.trackers.okfeb.okfeb import OKFEB
from tests.oracles.streams import walk
from transforms.partition import window_block
from transforms.partition.blocks import BLOCK_BYTES, BLOCK_ROWS, blocks_of
from transforms.partition.held_block import hold_block
from transforms.partition.shuffle import SortedRows
from transforms.track.windows import MeasureMismatch

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
    done = Begun(spec, rows, starts, stops, spec.rows_to_start)
    done.run(np.arange(len(SIZES)), starts, stops)
    tracker = OKFEB()
    for place, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        own = rows[start:stop]
        state, features = tracker.update(spec, tracker.init(spec, own[: spec.rows_to_start]), own)
        for field, array in state._asdict().items():
            assert done.columns[field][place].tobytes() == array.tobytes(), (place, field)
        for field in ("valid", "index", "z", "loss", "novelty", "informative", "evicted", "q"):
            wanted, found = getattr(features, field), getattr(done.features, field)
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


@pytest.mark.parametrize("width", [1, 6])
@pytest.mark.parametrize("first", [5, MOST_TOGETHER + 1])
@pytest.mark.parametrize("rows_learned", [256, 500])
def test_references_of_a_block_are_those_of_each_model(
    rows_learned: int, first: int, width: int
) -> None:
    spec = ReferenceSpec(rows=rows_learned, lags=2, rank=3, budget=6, false_alarms=1e-2)
    sizes = np.array([1, 4, 900, 70, 900])
    stops = np.cumsum(sizes)
    starts: npt.NDArray[np.int64] = stops - sizes
    rows = np.random.default_rng(width).normal(size=(int(stops[-1]), width))
    rows[starts[2] + 700 : starts[2] + 720] += 9.0
    rows[-9:] += 20.0
    times = np.arange(len(rows)) * 1_000
    held = hold_block(spec, rows, starts, stops, times, first)
    assert held.watched.done.all()
    for model, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        begun = reference.init(spec, rows[start : min(stop, start + first)])
        state, scores, told = reference.update(spec, begun, rows[start:stop], times[start:stop])
        wanted = reference.arrays(state)
        assert held.columns.keys() == {f"beside.reference.{name}" for name in wanted}
        for name, array in wanted.items():
            found = held.columns[f"beside.reference.{name}"][model]
            assert (found.dtype, found.tobytes()) == (array.dtype, array.tobytes()), name
        for mine, theirs in zip(held.watched.scores.columns, scores.columns, strict=True):
            assert mine[start:stop].tobytes() == theirs.tobytes()
        last = reference.open_episode(spec, state)
        assert repr(held.told(model)) == repr(told if last is None else [*told, last])
        assert held.ready[model] == reference.ready(state)
    assert [len(held.told(model)) > 0 for model in range(5)] == [False, False, True, False, True]
    assert held.told(4)[-1].closed is False


def test_a_model_whose_new_normal_is_accepted_goes_by_itself() -> None:
    spec = ReferenceSpec(rows=256, rank=3, budget=6, accept_after=128)
    rows = np.random.default_rng(0).normal(size=(1800, 3))
    rows[1500:] += 9.0
    starts, stops = np.array([0, 900]), np.array([900, 1800])
    held = hold_block(spec, rows, starts, stops, np.arange(1800), 5)
    assert held.watched.done.tolist() == [True, False]


@pytest.mark.parametrize("at_once", [1, 100, 1 << 16])
@pytest.mark.parametrize("windows", [FixedWindows(10), SlidingWindows(50, 1), SlidingWindows(3, 7)])
def test_windows_of_a_block_are_those_of_each_model(
    windows: Any, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_block, "MOST_ROWS", at_once)
    spec = OKFEBSpec(rank=3, budget=5, warmup=50, clip=3.0)
    measure = MeasureMismatch(windows).in_ns()
    rows = walk(5, sum(SIZES), 4)
    # Rows of one time, and times without rows.
    times = np.concatenate([np.sort(np.arange(n) * n % 70) for n in SIZES]) * 10**9
    stops = np.cumsum(np.array(SIZES, np.int64))
    starts: npt.NDArray[np.int64] = stops - np.array(SIZES, np.int64)
    begun = Begun(spec, rows, starts, stops, spec.rows_to_start)
    known = window_block.windows_of(measure, times, starts, stops)
    done = window_block.measure_block(measure, spec, begun, rows, known, starts, stops)
    work = Work(spec=spec, measure=measure)
    for place, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        own = rows[start:stop]
        model = begin(work, "m", own[: spec.rows_to_start])
        after, outcome = run_rows(work, "m", model, own, times[start:stop], np.inf)
        assert done.lines[place] == outcome.measured, place
        assert after.open is not None
        for name, array in after.open._asdict().items():
            found = getattr(done.open[place], name)
            assert (found.dtype, found.shape) == (array.dtype, array.shape), (place, name)
            assert found.tobytes() == array.tobytes(), (place, name)
        assert begun.columns["counts"][place].tobytes() == after.state.counts.tobytes()
