"""A start from landmarks: they are stored, nothing else tells of them, and cuts do not matter."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from kerneltrack import codec
from kerneltrack.batch.landmark_spec import LandmarkSpec
from kerneltrack.batch.landmarks import choose_landmarks
from kerneltrack.errors import ConfigError
from kerneltrack.kernels import gram, make_kernel
from kerneltrack.registry import get_tracker
from kerneltrack.trackers import CovarianceSpec, OANASpec, OKFEBSpec, OKFESpec, RowsSpec
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.start import StartSet, start_from
from tests.oracles.streams import state_bytes, walk

ROWS = walk(8, 300, 3)
CHOSEN = choose_landmarks(LandmarkSpec(method="kmeans", count=12), ROWS)
START = StartSet(CHOSEN.rows, CHOSEN.shift, CHOSEN.scale, CHOSEN.gamma, "gaussian", True)
SIZES: dict[str, Any] = {"rank": 5, "budget": 12, "novelty_window": 100}
SPECS = (
    OKFEBSpec(**SIZES),
    OKFEBSpec(**SIZES, policy="fifo", censor="rate"),
    CovarianceSpec(**SIZES, halflife=50.0),
    CovarianceSpec(**SIZES, halflife_seconds=5.0, admission="leverage", rank_factor=1.5),
    OANASpec(**SIZES),
    OANASpec(**SIZES, threshold=None),
)
every_spec = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.tracker)


@every_spec
def test_the_landmarks_are_what_is_stored(spec: Any) -> None:
    state = start_from(spec, START)
    scaled = CHOSEN.rows / CHOSEN.scale - CHOSEN.shift
    assert (state.n, state.size) == (0, 12)
    # OANA's are means of one row each, the others' are the rows.
    np.testing.assert_array_equal(state.support[:12], scaled)
    kernel = make_kernel("gaussian", CHOSEN.gamma)
    np.testing.assert_allclose(state.gram[:12, :12], gram(kernel, scaled, scaled), rtol=1e-13)
    counters = get_tracker(spec.tracker).counters(state)
    assert not any(counters.values())
    # The subspace serves rows of the batch from the first on.
    loss = get_tracker(spec.tracker).project(spec, state, ROWS).loss
    fresh = get_tracker(spec.tracker).init(spec, ROWS)
    assert loss.mean() < 0.6 * get_tracker(spec.tracker).project(spec, fresh, ROWS).loss.mean()


@every_spec
def test_it_goes_on_from_there_however_rows_are_cut(spec: Any) -> None:
    tracker, state = get_tracker(spec.tracker), start_from(spec, START, "a")
    times = np.arange(len(ROWS)) * 10**8
    whole, features = tracker.update(spec, state, ROWS, times=times)
    assert features.index.tolist() == list(range(len(ROWS)))
    assert ((features.evicted == -1) | (features.evicted >= 0)).all()
    half, _ = tracker.update(spec, state, ROWS[:41], times=times[:41])
    back: Any = codec.decode(codec.encode(spec, half)).state
    rest, after = tracker.update(spec, back, ROWS[41:], times=times[41:])
    assert state_bytes(rest) == state_bytes(whole)
    np.testing.assert_array_equal(after.loss, features.loss[41:])
    assert np.isfinite(features.loss).all()


def test_bandwidth_and_room() -> None:
    own = start_from(OKFEBSpec(**SIZES, gamma=3.0), START)
    assert own.bandwidth[0] == 3.0
    assert start_from(OKFEBSpec(**{**SIZES, "budget": 20}), START).size == 12


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (OKFESpec(), "tracker = 'okfe': must be okfeb or covariance or oana"),
        (RowsSpec(rank=3), "tracker = 'rows'"),
        (OKFEBSpec(rank=5, budget=11), "budget = 11: must be at least 12"),
        (OKFEBSpec(kernel="laplacian"), "kernel = 'laplacian': must be 'gaussian'"),
        (OANASpec(standardise=False), "standardise = False: must be True"),
    ],
)
def test_what_does_not_fit_is_refused(spec: SubspaceSpec, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        start_from(spec, START)
    wild = dataclasses.replace(START, rows=np.full((1, 3), 1e200))
    with pytest.raises(ConfigError, match="landmark = 0: must be a row that okfeb takes: channel"):
        start_from(OKFEBSpec(), wild)
