"""The frame Q of OK-FEB over many rows: rounding errors end with what they came from."""

from __future__ import annotations

import numpy as np
import pytest

from kerneltrack.registry import get_tracker
from kerneltrack.trackers import OKFEBSpec
from kerneltrack.trackers.okfeb.state import SubspaceState

EPS = np.finfo(np.float64).eps
RIDGE = 0


def gap_and_condition(state: SubspaceState) -> tuple[float, float]:
    """The largest entry of QNQᵀ - I, and the condition of N = AᵀKA + ρI."""
    factor = state.factor[:, : state.size]
    inner = factor @ state.gram[: state.size, : state.size] @ factor.T
    inner += state.reals[RIDGE] * np.eye(len(inner))
    frame = state.frame[:, : len(inner)]
    gap = frame @ inner @ frame.T - np.eye(len(inner))
    return float(np.abs(gap).max()), float(np.linalg.cond(inner))


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_the_frame_is_as_exact_as_the_rows_let_it_be(seed: int) -> None:
    # Rows whose size goes up and down by orders of magnitude, to the third power by the kernel: N's
    # condition comes to 1e11 and back, and Q's error must come back with it.
    rng = np.random.default_rng(seed)
    rows = np.sin(np.cumsum(rng.normal(scale=0.3, size=(40_000, 12)), axis=0))
    rows *= np.exp(np.cumsum(rng.normal(scale=0.02, size=(40_000, 1)), axis=0)).clip(0.1, 30)
    spec = OKFEBSpec(rank=10, budget=15, kernel="polynomial", policy="distortion")
    tracker = get_tracker(spec.tracker)
    state = tracker.init(spec, rows[:500])
    seen = []
    for start in range(0, len(rows), 20):
        state, _ = tracker.update(spec, state, rows[start : start + 20])
        seen.append(gap_and_condition(state))
    gaps, conditions = np.array(seen).T
    assert conditions.max() > 1e10
    assert (gaps <= np.maximum(1e-8, EPS * conditions)).all()
