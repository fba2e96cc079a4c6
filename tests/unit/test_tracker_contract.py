"""What every tracker promises, whatever its algorithm."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack import codec
from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import run_all
from kerneltrack.registry import TRACKERS, get_tracker
from kerneltrack.trackers import (
    CovarianceSpec,
    DSKPCASpec,
    DSPairSpec,
    OANASpec,
    OKFEBSpec,
    OKFESpec,
    RowsSpec,
)
from kerneltrack.trackers.common.spec import SubspaceSpec
from tests.oracles.streams import feature_bytes, joined_bytes, state_bytes, walk
from tests.parts import examples

pytestmark = pytest.mark.sanitized

Array = npt.NDArray[np.float64]

SMALL: dict[str, Any] = {"rank": 3, "warmup": 20, "novelty_window": 100}
FOLLOWING: dict[str, Any] = {"standardise": "moving", "scale_window": 25}
SPECS: dict[str, SubspaceSpec] = {
    "okfeb": OKFEBSpec(**SMALL, budget=5),
    "okfeb-paper": OKFEBSpec(
        **SMALL, budget=6, rule="nonparametric", step="inverse_norm", start="rank_one"
    ),
    "okfeb-rate": OKFEBSpec(
        **SMALL, budget=4, kernel="laplacian", censor="rate", censor_rate=0.6, policy="compensated"
    ),
    "okfeb-moving": OKFEBSpec(
        **SMALL,
        budget=3,
        kernel="polynomial",
        censor="moving",
        policy="distortion",
        step="majorised",
        rule="nonparametric",
        clip=3.0,
    ),
    "okfeb-raw": OKFEBSpec(
        **SMALL, budget=5, kernel="linear", standardise=False, emit="q", policy="fifo"
    ),
    "okfe": OKFESpec(**SMALL, max_rows=200),
    "okfe-paper": OKFESpec(
        **SMALL, max_rows=200, rule="nonparametric", step="inverse_n2", start="rank_one"
    ),
    "okfe-full": OKFESpec(**SMALL, max_rows=40),
    "covariance": CovarianceSpec(**SMALL, budget=5),
    "covariance-leverage": CovarianceSpec(
        **SMALL, budget=3, kernel="laplacian", admission="leverage", halflife=20.0
    ),
    "covariance-rate": CovarianceSpec(
        **SMALL, budget=4, kernel="polynomial", admission="rate", admission_rate=0.4, clip=3.0
    ),
    "covariance-raw": CovarianceSpec(
        **SMALL, budget=6, kernel="linear", admission="leverage", standardise=False, emit="q"
    ),
    "covariance-chosen": CovarianceSpec(**SMALL, budget=6, halflife=10.0, rank_factor=1.2),
    "covariance-memories": CovarianceSpec(**SMALL, budget=4, halflife="auto"),
    "covariance-wide": CovarianceSpec(**SMALL, budget=60, gamma=1e3, admission="moving"),
    "oana": OANASpec(**SMALL, budget=5),
    "oana-still": OANASpec(**SMALL, budget=9, threshold=None, clip=3.0),
    "oana-raw": OANASpec(
        **SMALL, budget=6, kernel="polynomial", standardise=False, emit="q", threshold=0.5
    ),
    "oana-filling": OANASpec(**SMALL, budget=100, kernel="laplacian"),
    "dskpca": DSKPCASpec(**SMALL, budget=24, feature_batch=4, row_batch=7),
    "dskpca-gha": DSKPCASpec(
        **SMALL,
        budget=9,
        feature_batch=9,
        row_batch=1,
        form="gha",
        kernel="matern32",
        step_decay=0.0,
        clip=3.0,
    ),
    "dskpca-raw": DSKPCASpec(
        **SMALL, budget=12, feature_batch=3, kernel="polynomial", standardise=False, emit="q"
    ),
    "okfeb-following": OKFEBSpec(**SMALL, **FOLLOWING, budget=5),
    "okfe-following": OKFESpec(**SMALL, **FOLLOWING, max_rows=200),
    "covariance-following": CovarianceSpec(**SMALL, **FOLLOWING, budget=4, halflife="auto"),
    "covariance-following-chosen": CovarianceSpec(
        **SMALL, **FOLLOWING, budget=6, halflife=10.0, rank_factor=1.2, clip=3.0
    ),
    "oana-following": OANASpec(**SMALL, **FOLLOWING, budget=5),
    "rows-following": RowsSpec(**SMALL, **FOLLOWING, clip=3.0),
    "rows": RowsSpec(**SMALL, clip=3.0),
    "rows-raw": RowsSpec(**SMALL, standardise=False, emit="q"),
}
PAIRS: dict[str, SubspaceSpec] = {
    "dspair": DSPairSpec(**SMALL, budget=24, feature_batch=4, row_batch=7),
    "dspair-ksvd": DSPairSpec(
        **SMALL, budget=9, feature_batch=9, row_batch=1, form="ksvd", first_view=2, clip=3.0
    ),
    "dspair-newton": DSPairSpec(
        **SMALL, budget=24, feature_batch=8, row_batch=10, form="kcca-newton"
    ),
}
"""They take rows of two columns at least."""
SPECS |= PAIRS
SPECS |= {name: TRACKERS.spec_type(name)(**SMALL) for name in TRACKERS if name not in SPECS}
VARIED = {
    *("okfeb-rate", "okfeb-moving", "okfeb-raw", "okfe-paper", "okfe-full", "okfe-following"),
    *("covariance-leverage", "covariance-rate", "covariance-raw", "covariance-wide"),
    *("covariance-following-chosen", "oana-still", "oana-raw", "oana-filling", "oana-following"),
    *("dskpca-raw", "rows-raw", "rows-following"),
}
"""Further settings of what others show with each change: for the nightly lane."""


def lanes(names: Iterable[str]) -> list[Any]:
    """Return names of settings as parameters, with their lanes."""
    night = (pytest.mark.nightly,)
    return [pytest.param(name, marks=night if name in VARIED else (), id=name) for name in names]


ROWS = walk(seed=7, count=120, width=3)
EXTRAS = ("q", "s", "x")
LARGE = ("okfe", "okfe-paper", "oana-filling")
"""They store a hundred rows: s, of their kernel matrix's root, takes most of their time."""


@pytest.fixture(params=lanes(SPECS))
def spec(request: pytest.FixtureRequest) -> SubspaceSpec:
    return SPECS[request.param]


def begin(spec: SubspaceSpec, rows: Array = ROWS) -> tuple[Any, Any]:
    tracker = get_tracker(spec.tracker)
    return tracker, tracker.init(spec, rows[: spec.rows_to_start])


def finite(features: Any) -> bool:
    arrays = (features.z, features.q, features.s, features.loss, features.novelty)
    return all(np.isfinite(array).all() for array in arrays if array is not None)


def test_shapes_and_types(spec: SubspaceSpec) -> None:
    _, features = run_all(spec, ROWS, EXTRAS)
    count = len(ROWS)
    kinds = {
        name: (array.dtype.kind, array.shape)
        for name in ("valid", "index", "loss", "novelty", "informative", "evicted", "initial")
        for array in [getattr(features, name)]
    }
    assert kinds == {
        "valid": ("b", (count,)),
        "index": ("i", (count,)),
        "loss": ("f", (count,)),
        "novelty": ("f", (count,)),
        "informative": ("b", (count,)),
        "evicted": ("i", (count,)),
        "initial": ("b", (count,)),
    }
    assert (features.z is None) == (spec.emit == "q")
    assert features.q is not None and features.q.shape == (count, 3)
    most = getattr(spec, "budget", getattr(spec, "max_rows", 0))
    assert isinstance(spec, RowsSpec) == (features.s is None)
    assert features.s is None or features.s.shape == (count, most)
    doubly = isinstance(spec, DSKPCASpec)
    assert doubly or (features.x is not None and features.x.shape == ROWS.shape)


def test_q_and_s_come_only_when_asked_for(spec: SubspaceSpec) -> None:
    _, features = run_all(spec, ROWS)
    assert features.s is None
    assert (features.q is None) == (spec.emit == "z")


def test_asking_for_more_changes_nothing_else(spec: SubspaceSpec) -> None:
    lean_state, lean = run_all(spec, ROWS)
    rich_state, rich = run_all(spec, ROWS, EXTRAS)
    assert state_bytes(lean_state) == state_bytes(rich_state)
    wanted = {k: v for k, v in feature_bytes(lean).items() if v is not None}
    assert {name: feature_bytes(rich)[name] for name in wanted} == wanted


def test_update_writes_neither_state_nor_rows(spec: SubspaceSpec) -> None:
    tracker, state = begin(spec)
    state, _ = tracker.update(spec, state, ROWS[:60])
    rows = ROWS[60:].copy()
    for array in (rows, *state._asdict().values()):
        array.flags.writeable = False
    before = state_bytes(state)
    after, _ = tracker.update(spec, state, rows, EXTRAS)
    tracker.project(spec, state, rows, EXTRAS)
    assert state_bytes(state) == before
    assert np.array_equal(rows, ROWS[60:])
    for name, array in after._asdict().items():
        assert not np.shares_memory(array, getattr(state, name))


@settings(max_examples=examples(15))
@given(cuts=st.lists(st.integers(0, len(ROWS)), max_size=12))
@pytest.mark.parametrize("name", lanes(SPECS))
def test_the_same_bytes_however_rows_are_cut(name: str, cuts: list[int]) -> None:
    assert_same_bytes(name, cuts, extras_of(name))


@pytest.mark.parametrize("name", lanes(LARGE))
def test_the_same_bytes_of_s_of_many_stored_rows(name: str) -> None:
    assert_same_bytes(name, [1, 40, 40, 100], EXTRAS)


def extras_of(name: str) -> tuple[str, ...]:
    """What is asked for again and again: s only where it takes little."""
    return ("q", "x") if name in LARGE else EXTRAS


def assert_same_bytes(name: str, cuts: list[int], extras: tuple[str, ...]) -> None:
    spec = SPECS[name]
    tracker, state = begin(spec)
    whole_state, whole = tracker.update(spec, state, ROWS, extras)
    parts = []
    edges = [0, *sorted(cuts), len(ROWS)]
    for low, high in itertools.pairwise(edges):
        state, features = tracker.update(spec, state, ROWS[low:high], extras)
        parts.append(features)
    assert joined_bytes(parts) == feature_bytes(whole)
    assert state_bytes(state) == state_bytes(whole_state)


@settings(max_examples=examples(10))
@given(cut=st.integers(0, len(ROWS)))
@pytest.mark.parametrize("name", lanes(SPECS))
def test_the_codec_mid_stream_changes_nothing(name: str, cut: int) -> None:
    spec = SPECS[name]
    tracker, state = begin(spec)
    state, _ = tracker.update(spec, state, ROWS[:cut])
    encoded = codec.encode(spec, state, {"model": "m"})
    snapshot = codec.decode(encoded)
    assert snapshot.spec == spec
    assert snapshot.header["about"] == {"model": "m"}
    assert state_bytes(snapshot.state) == state_bytes(state)
    assert codec.encode(snapshot.spec, snapshot.state, {"model": "m"}) == encoded
    extras = extras_of(name)
    kept, expected = tracker.update(spec, state, ROWS[cut:], extras)
    back, features = tracker.update(snapshot.spec, snapshot.state, ROWS[cut:], extras)
    assert feature_bytes(features) == feature_bytes(expected)
    assert state_bytes(back) == state_bytes(kept)


DEGENERATE: dict[str, Array] = {
    "one row": np.ones((1, 2)),
    "zeros": np.zeros((40, 3)),
    "constant": np.full((40, 3), 7.25),
    "one column": walk(seed=1, count=40, width=1),
    "two values": np.tile([[0.0, 1.0], [1.0, 0.0]], (30, 1)),
    "flat channel": np.column_stack([walk(seed=2, count=40, width=1), np.full(40, -3.0)]),
    "zeros, then rows": np.vstack([np.zeros((20, 2)), walk(seed=3, count=30, width=2)]),
    "fewer than the rank": np.eye(2),
    "wide": np.random.default_rng(4).normal(size=(12, 300)),
    "denormal": np.random.default_rng(5).normal(size=(30, 2)) * 1e-310,
}


@pytest.mark.parametrize("kind", DEGENERATE)
def test_degenerate_rows_give_finite_features(spec: SubspaceSpec, kind: str) -> None:
    # Each of two views gets the rows.
    rows = np.hstack([DEGENERATE[kind]] * 3) if spec in PAIRS.values() else DEGENERATE[kind]
    if isinstance(spec, RowsSpec):
        spec = dataclasses.replace(spec, rank=rows.shape[1])
    state, features = run_all(spec, rows, EXTRAS)
    assert features.valid.all() or isinstance(spec, OKFESpec)
    assert finite(features)
    assert all(np.isfinite(array).all() for array in state._asdict().values())
    assert (features.loss >= 0).all()
    assert ((features.novelty >= 0) & (features.novelty <= 1)).all()
    # The next ordinary row is served as well.
    assert finite(get_tracker(spec.tracker).update(spec, state, np.ones((1, rows.shape[1])))[1])


def test_an_empty_call_changes_nothing(spec: SubspaceSpec) -> None:
    tracker, state = begin(spec)
    state, _ = tracker.update(spec, state, ROWS[:50])
    after, features = tracker.update(spec, state, np.empty((0, 3)), EXTRAS)
    assert state_bytes(after) == state_bytes(state)
    assert len(features.loss) == 0


def test_a_seed_decides_all(spec: SubspaceSpec) -> None:
    again = type(spec)(**{k: v for k, v in spec.to_dict().items() if k != "tracker"})
    other = type(spec)(**{k: v for k, v in spec.to_dict().items() if k != "tracker"} | {"seed": 1})
    first, repeated, changed = (run_all(s, ROWS, ("q",)) for s in (spec, again, other))
    assert state_bytes(first[0]) == state_bytes(repeated[0])
    assert feature_bytes(first[1]) == feature_bytes(repeated[1])
    # Algorithms 2 and 3 print a start that is not random; only leverage draws from a covariance;
    # nothing is drawn by OANA.
    still = isinstance(spec, OKFESpec) and spec.start == "rank_one"
    still = still or (isinstance(spec, CovarianceSpec) and spec.admission != "leverage")
    still = still or isinstance(spec, (OANASpec, RowsSpec))
    assert (feature_bytes(first[1])["q"] == feature_bytes(changed[1])["q"]) == still


def test_the_models_id_decides_the_draws_and_nothing_else(spec: SubspaceSpec) -> None:
    tracker = get_tracker(spec.tracker)
    states = [tracker.init(spec, ROWS[: spec.rows_to_start], key) for key in ("a", "b", "a")]
    (_, first), (_, other), (_, again) = (tracker.update(spec, s, ROWS) for s in states)
    draws = isinstance(spec, CovarianceSpec) and spec.admission == "leverage"
    assert feature_bytes(first) == feature_bytes(again)
    assert (feature_bytes(first) == feature_bytes(other)) == (not draws)


def test_project_says_what_update_will_and_learns_nothing(spec: SubspaceSpec) -> None:
    tracker, state = begin(spec)
    state, _ = tracker.update(spec, state, ROWS[:30])
    before = state_bytes(state)
    for n in range(30, 40):
        seen = tracker.project(spec, state, ROWS[n : n + 1], EXTRAS)
        assert state_bytes(state) == before
        state, output_text = tracker.update(spec, state, ROWS[n : n + 1], EXTRAS)
        before = state_bytes(state)
        same = ("valid", "index", "z", "loss", "novelty", "q", "s")
        seen_bytes, said_bytes = feature_bytes(seen), feature_bytes(output_text)
        assert {k: seen_bytes[k] for k in same} == {k: said_bytes[k] for k in same}
        assert not (seen.informative.any() or seen.initial.any() or (seen.evicted != -1).any())


def test_refused_rows_leave_no_trace(spec: SubspaceSpec) -> None:
    tracker, state = begin(spec)
    bad = np.array([[np.nan, 0, 0], [0, -1e308, 0], [1e300, 1e300, 1e300], [0, 0, np.nan]])
    places = np.array([0, 1, 2, 17, 17, 30, 60, 119, 120])
    mixed = np.insert(ROWS, places, bad[np.arange(len(places)) % len(bad)], axis=0)
    refused = np.insert(np.zeros(len(ROWS), dtype=bool), places, True)
    if spec.clip is not None:
        # Finite outliers are clipped, not refused.
        keep = ~refused | np.isnan(mixed).any(axis=1)
        mixed, refused = mixed[keep], refused[keep]
    expected_state, expected = tracker.update(spec, state, ROWS, EXTRAS)
    after, features = tracker.update(spec, state, mixed, EXTRAS)
    assert feature_bytes(features, ~refused) == feature_bytes(expected)
    assert state_bytes(after) == state_bytes(expected_state)
    assert not features.valid[refused].any()
    assert not np.any([features.loss[refused], features.novelty[refused]])
    for row in mixed[refused]:
        assert tracker.why_refused(spec, expected_state, row)


@pytest.mark.parametrize("shape", [(3,), (2, 4), (2, 2), (1, 2, 3)])
def test_rows_of_another_width_are_an_error(spec: SubspaceSpec, shape: tuple[int, ...]) -> None:
    tracker, state = begin(spec)
    for call in (tracker.update, tracker.project):
        with pytest.raises(ConfigError, match=r"rows = .*must be of shape \(n, 3\)"):
            call(spec, state, np.zeros(shape))


@pytest.mark.parametrize("rows", [np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(3), [[np.nan]]])
def test_first_rows_must_be_a_finite_matrix(spec: SubspaceSpec, rows: Any) -> None:
    with pytest.raises(ConfigError, match="first_rows"):
        get_tracker(spec.tracker).init(spec, rows)


def test_counters_add_up(spec: SubspaceSpec) -> None:
    tracker, state = begin(spec)
    state, features = tracker.update(spec, state, ROWS)
    totals = tracker.counters(state)
    assert totals["informative"] == features.informative.sum()
    assert totals["evicted"] == (features.evicted >= 0).sum()
    own = features.evicted == features.index
    assert totals["dropped_at_once"] == (own & features.valid).sum()
    assert totals["mended"] == 0
    # Landmarks are means: rows that moved one are not stored.
    merged = int(np.maximum(state.members - 1, 0).sum()) if isinstance(spec, OANASpec) else 0
    assert state.size == totals["informative"] - totals["evicted"] - merged
    assert state.n == features.valid.sum()
