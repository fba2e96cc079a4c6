"""One model, row by row: the bits of a whole array's pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneltrack as kt
from kerneltrack import codec
from kerneltrack.trackers.common.calls import RowCall
from tests.oracles.streams import walk

SPECS: dict[str, Any] = {
    "okfeb": kt.OKFEBSpec(rank=4, budget=7, warmup=60),
    "okfeb, censored": kt.OKFEBSpec(rank=4, budget=7, warmup=60, censor="moving"),
    "okfeb, q": kt.OKFEBSpec(rank=4, budget=7, warmup=60, emit="q"),
    "okfe": kt.OKFESpec(rank=4, max_rows=80, warmup=60),
    "covariance": kt.CovarianceSpec(rank=4, budget=7, warmup=60, admission="leverage"),
    "oana": kt.OANASpec(rank=4, budget=7, warmup=60),
    "dskpca": kt.DSKPCASpec(rank=4, warmup=60),
    "rows": kt.RowsSpec(rank=5, warmup=60),
}
FAST = {*SPECS} - {"okfe"}


def rows() -> Any:
    return walk(3, 400, 5)


@pytest.mark.parametrize("name", SPECS)
def test_states_and_features_are_those_of_a_whole_pass(name: str) -> None:
    spec, taken = SPECS[name], 78 if name == "okfe" else 400
    state, features = kt.run_all(spec, rows()[:taken])
    tracker = kt.Tracker(spec)
    least = spec.rows_to_start
    assert [tracker.learn(row) for row in rows()[:least]] == [None] * least
    output_text: list[Any] = [tracker.learn(row) for row in rows()[least:taken]]
    assert isinstance(tracker._call, RowCall) == (name in FAST)
    assert codec.encode(spec, tracker.state) == codec.encode(spec, state)
    expected = features.q if features.z is None else features.z
    assert expected is not None
    np.testing.assert_array_equal(np.stack([row.z for row in output_text]), expected[least:])
    for field in ("index", "loss", "novelty", "informative"):
        np.testing.assert_array_equal(
            [getattr(row, field) for row in output_text], getattr(features, field)[least:]
        )
    assert tracker.rows == taken


@pytest.mark.parametrize("name", sorted(FAST))
def test_refused_rows_leave_no_trace(name: str) -> None:
    tracker = kt.Tracker(SPECS[name])
    for row in rows()[:100]:
        tracker.learn(row)
    before = codec.encode(tracker.spec, tracker.state)
    for bad, reason in (
        ([0.0, np.nan, 0.0, 0.0, 0.0], "channel 1 is NaN"),
        ([0.0, 0.0, np.inf, 0.0, 0.0], "channel 2 is infinite"),
        ([0.0, 0.0, 0.0, 1e200, 0.0], "channel 3"),
    ):
        with pytest.raises(kt.DataError, match=reason):
            tracker.learn(bad)
        with pytest.raises(kt.DataError, match=reason):
            tracker.look(bad)
    for short in ([], [1.0], [[1.0] * 5], [1.0] * 6):
        with pytest.raises((kt.ConfigError, ValueError)):
            tracker.learn(short)
    assert codec.encode(tracker.spec, tracker.state) == before
    output_text = tracker.learn(rows()[100])
    assert output_text is not None
    assert output_text.index == 100


def test_a_look_learns_nothing_and_results_are_the_callers() -> None:
    tracker = kt.Tracker(rank=4, budget=7, warmup=60)
    assert tracker.look([0.0] * 5) is None
    for row in rows()[:100]:
        tracker.learn(row)
    looked, learned, later = (
        tracker.look(rows()[100]),
        tracker.learn(rows()[100].tolist()),
        tracker.learn(tuple(rows()[101])),
    )
    assert looked is not None
    assert learned is not None
    assert later is not None
    assert (looked.loss, looked.novelty) == (learned.loss, learned.novelty)
    assert (learned.index, later.index) == (100, 101)
    assert not np.array_equal(learned.z, later.z)


def test_a_short_warm_up_is_ended_by_hand() -> None:
    tracker = kt.Tracker(rank=4, budget=7)
    with pytest.raises(kt.ConfigError, match="rows that wait"):
        tracker.begin()
    for row in rows()[:20]:
        assert tracker.learn(row) is None
    assert repr(tracker) == "<Tracker okfeb: 0 rows, rank 4, 20 of 500 rows to begin with>"
    features = tracker.begin()
    np.testing.assert_array_equal(
        features.loss, kt.run_all(kt.OKFEBSpec(rank=4, budget=7), rows()[:20])[1].loss
    )
    with pytest.raises(kt.ConfigError, match="begun"):
        tracker.begin()


def test_a_saved_tracker_goes_on(tmp_path: Path) -> None:
    tracker = kt.Tracker(rank=4, budget=7, warmup=60)
    with pytest.raises(kt.ConfigError, match="warm-up"):
        tracker.save(tmp_path / "early")
    for row in rows()[:100]:
        tracker.learn(row)
    tracker.save(tmp_path / "kept.safetensors")
    other = kt.Tracker.load(tmp_path / "kept.safetensors")
    assert repr(other) == "<Tracker okfeb: 100 rows, rank 4>"
    for row in rows()[100:]:
        ours, theirs = tracker.learn(row), other.learn(row)
        assert ours is not None
        assert theirs is not None
        np.testing.assert_array_equal(ours.z, theirs.z)


def test_settings_are_checked() -> None:
    with pytest.raises(kt.ConfigError, match="budget"):
        kt.Tracker(rank=5, budget=2)
    with pytest.raises(kt.ConfigError, match="left out"):
        kt.Tracker(kt.OKFEBSpec(), rank=5)
    with pytest.raises(kt.ConfigError, match="rows, not time"):
        kt.Tracker("covariance", halflife_seconds=3.0)
    with pytest.raises(kt.ConfigError, match="row"):
        kt.Tracker().learn(3.0)
