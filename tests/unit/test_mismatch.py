"""Kernel mismatch of whole and of moving windows, against brute force and its certificates."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import run_all
from kerneltrack.monitor.mismatch import Mismatch, window_mismatch
from kerneltrack.monitor.moving import MovingMismatch, MovingWindow, WindowState
from kerneltrack.monitor.window_settings import MOST_MOVING
from kerneltrack.registry import get_tracker
from kerneltrack.specs import KERNELS
from kerneltrack.trackers import (
    OKFE,
    OKFEB,
    CovarianceSpec,
    CovarianceTracker,
    OANASpec,
    OKFEBSpec,
    OKFESpec,
)
from kerneltrack.trackers.common.features import Features
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.state import directions_used
from kerneltrack.trackers.okfeb.spec import CENSORS, POLICIES, RULES, STEPS
from kerneltrack.trackers.okfeb.state import SubspaceState
from tests.oracles.streams import feature_bytes, state_bytes, walk
from tests.parts import examples, module

Exact = npt.NDArray[np.longdouble]

AGREEMENT = 1e-10
"""Largest difference from the oracle, as a fraction of the mean κ(x,x)."""
POSITIVE, FOLLOWED = 1e-12, 1e-4
"""Largest part of tr(K) by which an eigenvalue of K - K̂ may be below 0: by rounding of the basis,
and where steps without a bound have carried off the frame that follows the factor."""


class Truth(NamedTuple):
    """What the oracle finds, and how large the terms of a feature are, in units of √κ(x,x)."""

    value: float
    residual: float
    kappa: float
    spread: float


def kernel_matrix(spec: SubspaceSpec, gamma: float, left: Exact, right: Exact) -> Exact:
    gaps = left[:, None, :] - right[None, :, :]
    values: Exact
    if spec.kernel == "gaussian":
        values = np.exp(-np.sum(gaps**2, axis=2) / np.longdouble(gamma))
    elif spec.kernel == "laplacian":
        values = np.exp(-np.sum(np.abs(gaps), axis=2) / np.longdouble(gamma))
    elif spec.kernel == "polynomial":
        values = (left @ right.T + np.longdouble(spec.offset)) ** spec.degree
    else:
        values = left @ right.T
    return values


def oracle(spec: SubspaceSpec, state: Any, rows: FloatArray) -> Truth:
    """Compute all kernel values and, from the state's coefficients, z = Pᵀκ(S, x) of every row.

    In extended precision. That K - K̂ is positive semidefinite is checked, too: the certificate
    rests on it.
    """
    clip = np.inf if spec.clip is None else spec.clip
    window = np.clip(rows / state.scale - state.shift, -clip, clip).astype(np.longdouble)
    stored = state.support[: state.size].astype(np.longdouble)
    factor = state.factor[:, : state.size].astype(np.longdouble)
    frame = np.eye(spec.rank, dtype=np.longdouble)[: directions_used(state.counts, factor)]
    if isinstance(spec, OKFEBSpec | OKFESpec):
        frame = state.frame[:, : spec.rank].astype(np.longdouble)
    gamma = float(state.bandwidth[0])
    own = kernel_matrix(spec, gamma, window, window)
    z = frame @ factor @ kernel_matrix(spec, gamma, stored, window)
    left = own - z.T @ z
    count, kappa = len(rows), float(np.trace(own)) / len(rows)
    lengths = np.sqrt(np.diag(kernel_matrix(spec, gamma, stored, stored)))
    spread = float((np.abs(frame) @ np.abs(factor) @ lengths).max(initial=1.0))
    least = np.linalg.eigvalsh(left.astype(np.float64)).min()
    regularised = isinstance(spec, OKFEBSpec | OKFESpec)
    assert least >= -(FOLLOWED if regularised else POSITIVE * spread) * count * kappa
    value, residual = float(np.sqrt(np.sum(left**2))) / count, float(np.trace(left)) / count
    return Truth(value, max(residual, value), kappa, spread)


class Case(NamedTuple):
    spec: OKFEBSpec
    rows: FloatArray
    length: int
    cuts: list[int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A spec with its stream: drifting clusters, some rows repeated or refused."""
    rank = draw(st.integers(1, 6))
    gammas: tuple[float | Literal["median"], ...] = ("median", 0.5, 20.0)
    spec = OKFEBSpec(
        rank=rank,
        budget=rank + draw(st.integers(0, 6)),
        kernel=draw(st.sampled_from(sorted(KERNELS))),
        gamma=draw(st.sampled_from(gammas)),
        degree=draw(st.integers(1, 3)),
        offset=draw(st.sampled_from([0.0, 1.0])),
        ridge=draw(st.sampled_from([1e-6, 1e-3, 0.1])),
        rule=draw(st.sampled_from(RULES)),
        step=draw(st.sampled_from(STEPS)),
        policy=draw(st.sampled_from(POLICIES)),
        forgetting=draw(st.sampled_from([0.9, 1.0])),
        censor=draw(st.sampled_from(CENSORS)),
        threshold=0.1,
        censor_rate=0.7,
        start=draw(st.sampled_from(["rows", "rank_one"])),
        emit=draw(st.sampled_from(["z", "q"])),
        standardise=draw(st.booleans()),
        clip=draw(st.sampled_from([None, 2.0])),
        warmup=10,
        novelty_window=100,
    )
    count, width = draw(st.integers(10, 60)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = rng.normal(size=(count, width)) + np.linspace(0, 2, count)[:, None]
    repeated = rng.random(count) < draw(st.sampled_from([0.0, 0.2]))
    rows[repeated] = rows[rng.integers(0, count, repeated.sum())]
    rows[repeated] += draw(st.sampled_from([0.0, 1e-6, 1e-3])) * rng.normal(size=width)
    refused = rng.random(count) < draw(st.sampled_from([0.0, 0.1]))
    refused[: spec.warmup] = False
    rows[refused, rng.integers(0, width, refused.sum())] = np.nan
    cuts = draw(st.lists(st.integers(0, count), max_size=4).map(sorted))
    return Case(spec, rows, draw(st.integers(1, 25)), cuts)


class Run(NamedTuple):
    state: SubspaceState
    window: WindowState
    features: Features
    measured: MovingMismatch


def run_moving(case: Case, cuts: list[int]) -> Run:
    """Run a case's rows in pieces through tracker and window."""
    moving = MovingWindow(case.length)
    state = OKFEB().init(case.spec, case.rows[: case.spec.rows_to_start])
    window = moving.init(case.spec, state)
    features, measured = [], []
    for piece in np.split(case.rows, cuts):
        state, window, found, values = moving.update(case.spec, state, window, piece)
        features.append(found)
        measured.append(values)
    joined: dict[str, Any] = {}
    for field in dataclasses.fields(Features):
        parts = [getattr(part, field.name) for part in features]
        joined[field.name] = None if parts[0] is None else np.concatenate(parts)
    values = MovingMismatch(*(np.concatenate(parts) for parts in zip(*measured, strict=True)))
    return Run(state, window, Features(**joined), values)


def assert_same_features(left: Features, right: Features) -> None:
    for field in dataclasses.fields(Features):
        np.testing.assert_array_equal(
            getattr(left, field.name), getattr(right, field.name), err_msg=field.name
        )


def assert_agrees(found: Mismatch, truth: Truth) -> None:
    """Agree to 1e-10; more only where features cancel so much that their rounding is more."""
    assert found.kappa == pytest.approx(truth.kappa, rel=1e-13)
    allowed = max(AGREEMENT, 1e-15 * truth.spread) * truth.kappa
    assert abs(found.value - truth.value) <= allowed
    assert abs(found.residual - truth.residual) <= allowed


def assert_certified(found: Mismatch) -> None:
    assert 0 <= found.value <= found.trace_bound <= found.fitting_bound


def moving_at(case: Case, run: Run, n: int) -> Mismatch:
    return Mismatch(case.length, *(float(values[n]) for values in run.measured))


@settings(max_examples=examples(80))
@given(cases())
def test_the_moving_window_equals_brute_force_after_every_row(case: Case) -> None:
    run = run_moving(case, case.cuts)
    state = OKFEB().init(case.spec, case.rows[: case.spec.rows_to_start])
    kept: list[FloatArray] = []
    for n, row in enumerate(case.rows):
        state, features = OKFEB().update(case.spec, state, row[None])
        kept.extend(row[None][features.valid])
        if not features.valid[0] or len(kept) < case.length:
            assert all(np.isnan(values[n]) for values in run.measured)
            continue
        found = moving_at(case, run, n)
        assert_certified(found)
        assert_agrees(found, oracle(case.spec, state, np.array(kept[-case.length :])))


@settings(max_examples=examples(60))
@given(cases())
def test_the_moving_window_ignores_cuts_and_leaves_the_tracker_alone(case: Case) -> None:
    whole, cut = run_moving(case, []), run_moving(case, case.cuts)
    for name in WindowState._fields:
        np.testing.assert_array_equal(getattr(whole.window, name), getattr(cut.window, name))
    for name in MovingMismatch._fields:
        np.testing.assert_array_equal(getattr(whole.measured, name), getattr(cut.measured, name))
    tracker = OKFEB()
    first = tracker.init(case.spec, case.rows[: case.spec.rows_to_start])
    state, features = tracker.update(case.spec, first, case.rows)
    for run in (whole, cut):
        assert_same_features(run.features, features)
        for name in SubspaceState._fields:
            np.testing.assert_array_equal(getattr(run.state, name), getattr(state, name))


@settings(max_examples=examples(80))
@given(cases(), st.booleans())
def test_a_window_equals_brute_force(case: Case, unbudgeted: bool) -> None:
    spec: OKFEBSpec | OKFESpec = case.spec
    tracker: OKFEB | OKFE = OKFEB()
    if unbudgeted:
        shared = {field.name for field in dataclasses.fields(OKFESpec)} - {"max_rows"}
        spec = OKFESpec(**{name: getattr(case.spec, name) for name in shared}, max_rows=500)
        tracker = OKFE()
    first: Any = tracker.init(spec, case.rows[: spec.rows_to_start])  # type: ignore[arg-type]
    state, _ = tracker.update(spec, first, case.rows)  # type: ignore[arg-type]
    window = case.rows[-case.length :]
    valid = np.isfinite(window).all(axis=1)
    found = window_mismatch(spec, state, window)
    assert found.n == valid.sum()
    if found.n:
        assert_certified(found)
        assert_agrees(found, oracle(spec, state, window[valid]))


def tracked(kernel: str, rows: FloatArray, **fields: Any) -> tuple[OKFEBSpec, SubspaceState]:
    spec = OKFEBSpec(rank=4, budget=8, kernel=kernel, gamma=4.0, standardise=False, **fields)
    return spec, OKFEB().update(spec, OKFEB().init(spec, rows[:1]), rows)[0]


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_a_window_of_several_tiles(kernel: str) -> None:
    rows = np.random.default_rng(3).normal(size=(600, 5))
    spec, state = tracked(kernel, rows)
    found, truth = window_mismatch(spec, state, rows), oracle(spec, state, rows)
    assert truth.spread < 1e5
    assert_certified(found)
    assert_agrees(found, truth)


def test_a_window_does_not_depend_on_the_order_of_its_rows() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(300, 3))
    spec, state = tracked("gaussian", rows)
    found = window_mismatch(spec, state, rows)
    again = window_mismatch(spec, state, rng.permutation(rows))
    assert again == pytest.approx(found, rel=1e-12)
    assert window_mismatch(spec, state, rows.copy()) == found


def test_nothing_given_is_written_to() -> None:
    rows = np.random.default_rng(6).normal(size=(40, 3))
    spec, state = tracked("gaussian", rows)
    moving = MovingWindow(10)
    window = moving.update(spec, state, moving.init(spec, state), rows)[1]
    arrays = [*state, *window, rows]
    before = [array.copy() for array in arrays]
    moving.update(spec, state, window, rows)
    window_mismatch(spec, state, rows)
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_before_the_first_row_the_mismatch_is_all_of_the_kernel_matrix() -> None:
    rows = np.array([[0.0], [1.0], [3.0]])
    spec = OKFEBSpec(rank=2, budget=3, gamma=4.0, standardise=False)
    found = window_mismatch(spec, OKFEB().init(spec, rows), rows)
    squares = 3 + 2 * (np.exp(-0.5) + np.exp(-2.0) + np.exp(-4.5))
    assert found == pytest.approx((3, np.sqrt(squares) / 3, 1.0, 1.0), rel=1e-14)
    assert found.fitting_bound == 3.0


def test_a_window_within_the_subspace_has_no_mismatch() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 3))
    spec = CovarianceSpec(rank=3, budget=8, kernel="linear", standardise=False)
    found = window_mismatch(spec, run_all(spec, rows)[0], rows)
    assert found.value == pytest.approx(0, abs=1e-13)
    assert found.residual == pytest.approx(0, abs=1e-13)


@pytest.mark.parametrize("emit", ["z", "q"])
@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (CovarianceSpec, {"halflife": 40.0}),
        (CovarianceSpec, {"rank_factor": 1.5}),
        (OANASpec, {"threshold": 0.1}),
        # Before the last landmark: a direction each, and some are zero yet.
        (OANASpec, {"budget": 200}),
    ],
)
def test_windows_of_trackers_with_an_orthonormal_basis(
    kind: type[SubspaceSpec], fields: dict[str, Any], emit: str
) -> None:
    """K̂ is that of the features: for directions in use, whatever the spec emits."""
    spec = kind(**{"rank": 4, "budget": 9, "gamma": 5.0, "emit": emit, **fields})
    rows = walk(4, 150, 3)
    state, _ = run_all(spec, rows)
    found = window_mismatch(spec, state, rows[-40:])
    assert_certified(found)
    assert_agrees(found, oracle(spec, state, rows[-40:]))
    q = get_tracker(spec.tracker).project(spec, state, rows[-40:], ("q",)).q
    assert q is not None
    assert found.residual == pytest.approx(1.0 - np.square(q).sum() / 40, abs=AGREEMENT)


@pytest.mark.parametrize("rows", [np.empty((0, 2)), np.full((3, 2), np.nan)])
def test_a_window_without_valid_rows_has_no_value(rows: FloatArray) -> None:
    spec, state = tracked("gaussian", np.eye(2))
    found = window_mismatch(spec, state, rows)
    assert found.n == 0
    assert np.isnan([*found[1:], found.trace_bound, found.fitting_bound]).all()


def test_a_long_window_takes_no_square_memory() -> None:
    resource = module("resource", "Python on a Unix")
    rows = np.random.default_rng(0).normal(size=(12_000, 1))
    spec, state = tracked("linear", rows[:20])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = window_mismatch(spec, state, rows)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert found.n == len(rows)
    # In kB; a matrix of N² numbers would take 1.15e6.
    assert grown < 2e5


def test_a_moving_window_may_begin_later_than_its_tracker() -> None:
    rows = np.random.default_rng(8).normal(size=(90, 3))
    spec, state = tracked("laplacian", rows[:50])
    moving = MovingWindow(30)
    _, _, _, late = moving.update(spec, state, moving.init(spec, state), rows[50:])
    assert np.isnan(late.value).tolist() == [True] * 29 + [False] * 11
    state = OKFEB().update(spec, state, rows[50:])[0]
    truth = oracle(spec, state, rows[60:])
    assert late.value[-1] == pytest.approx(truth.value, abs=AGREEMENT)
    assert late.residual[-1] == pytest.approx(truth.residual, abs=AGREEMENT)


@pytest.mark.parametrize("rule", RULES)
def test_both_windows_on_a_real_recording(rule: str, sample: Path) -> None:
    table = pq.read_table(sample)
    names = [name for name in table.column_names if name not in ("model_id", "time", "label")]
    rows = np.column_stack([table[name].to_numpy() for name in names])[:1500].astype(np.float64)
    case = Case(OKFEBSpec(rank=10, budget=15, rule=rule), rows, 100, [700])
    run = run_moving(case, case.cuts)
    found = moving_at(case, run, len(rows) - 1)
    truth = oracle(case.spec, run.state, rows[-100:])
    for either in (found, window_mismatch(case.spec, run.state, rows[-100:])):
        assert_certified(either)
        assert_agrees(either, truth)
    assert (run.measured.value[99:] <= run.measured.trace_bound[99:]).all()
    assert (run.measured.trace_bound[99:] <= run.measured.fitting_bound[99:]).all()


def wrong_window(spec: OKFEBSpec, state: SubspaceState) -> None:
    window = MovingWindow(5).init(spec, state)
    MovingWindow(6).update(spec, state, window, np.zeros((1, 2)))


def wrong_width(spec: OKFEBSpec, state: SubspaceState) -> None:
    moving = MovingWindow(5)
    moving.update(spec, state, moving.init(spec, state), np.zeros((1, 3)))


def wrong_tracker(spec: OKFEBSpec, state: SubspaceState) -> None:
    MovingWindow(5).init(OKFESpec(rank=2), state)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (wrong_window, "window"),
        (wrong_width, "rows"),
        (wrong_tracker, "tracker"),
        (lambda spec, state: MovingWindow(0), "length"),
        (lambda spec, state: MovingWindow(MOST_MOVING + 1), "length"),
        (lambda spec, state: window_mismatch(spec, state, np.zeros((1, 3))), "rows"),
    ],
)
def test_a_wrong_setting_is_named(
    call: Callable[[OKFEBSpec, SubspaceState], object], field: str
) -> None:
    spec, state = tracked("gaussian", np.eye(2))
    with pytest.raises(ConfigError, match=f"^{field} = "):
        call(spec, state)


@pytest.mark.parametrize(
    "fields",
    [
        {"halflife": 30.0},
        {"admission": "leverage", "kernel": "polynomial", "standardise": False},
        {"rank": 1, "budget": 40, "gamma": 1e3},
        {"rank": 6, "rank_factor": 1.3, "halflife": 20.0},
    ],
)
def test_the_moving_window_goes_along_with_the_covariance_tracker(fields: dict[str, Any]) -> None:
    """Features as without it, values as of the window at hand, whatever calls the rows came in."""
    spec = CovarianceSpec(**{"rank": 3, "budget": 6, "warmup": 30, **fields})
    tracker, moving, rows = CovarianceTracker(), MovingWindow(25), walk(8, 160, 3)
    first = tracker.init(spec, rows[:30])
    after, window, features, whole = moving.update(spec, first, moving.init(spec, first), rows)
    alone, expected = tracker.update(spec, first, rows)
    assert state_bytes(after) == state_bytes(alone)
    assert feature_bytes(features) == feature_bytes(expected)
    state, window = first, moving.init(spec, first)
    values = []
    for start, stop in itertools.pairwise([0, 1, 40, 41, 100, 160]):
        state, window, _, part = moving.update(spec, state, window, rows[start:stop])
        values.append(part.value)
        if stop > 25:
            found = window_mismatch(spec, state, rows[stop - 25 : stop])
            assert part.value[-1] == pytest.approx(found.value, rel=1e-9, abs=1e-12 * found.kappa)
            assert_agrees(found, oracle(spec, state, rows[stop - 25 : stop]))
    assert np.concatenate(values).tobytes() == whole.value.tobytes()
