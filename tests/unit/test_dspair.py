"""Doubly stochastic kernel CCA and SVD: steps against the paper's sums, and what they find."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import run_all
from kerneltrack.trackers import DSPair, DSPairSpec
from kerneltrack.trackers.doubly.kpca import feature_map_of
from kerneltrack.trackers.doubly.random_features import feature_rows
from tests.oracles import doubly as oracle
from tests.oracles.streams import walk
from tests.parts import examples

Array = npt.NDArray[np.float64]
KERNELS = ("gaussian", "laplacian", "arccosine1", "linear")


def spec_of(**more: Any) -> DSPairSpec:
    shared = {"rank": 2, "budget": 15, "feature_batch": 3, "row_batch": 4, "warmup": 10}
    return DSPairSpec(**{**shared, "first_view": 2, **more})


@settings(max_examples=examples(40))
@given(
    kernel=st.sampled_from(KERNELS),
    form=st.sampled_from(["ksvd", "kcca", "kcca-newton"]),
    batches=st.tuples(st.integers(1, 6), st.sampled_from([3, 5, 15])),
    theta=st.tuples(st.floats(0.01, 1.0), st.floats(0.0, 1.0)),
    seed=st.integers(0, 1000),
)
def test_a_run_is_the_papers(
    kernel: str, form: str, batches: tuple[int, int], theta: tuple[float, float], seed: int
) -> None:
    spec = spec_of(
        kernel=kernel,
        form=form,
        row_batch=batches[0],
        feature_batch=batches[1],
        step_size=theta[0],
        step_decay=theta[1],
        seed=seed,
        ridge=0.1,
    )
    rows = walk(seed=seed, count=30, width=5)
    tracker = DSPair()
    state = tracker.init(spec, rows[:10])
    scaled = rows / state.scale - state.shift
    gammas = enumerate(state.bandwidth.tolist())
    maps = [feature_map_of(spec, gamma, which) for which, gamma in gammas]
    phi = [
        feature_rows(features, group, 0, spec.budget)
        for features, group in zip(maps, (scaled[:, :2], scaled[:, 2:]), strict=True)
    ]
    model = oracle.PairModel(state.factor[0].T.copy(), state.factor[1].T.copy(), batches[1], 0)
    for start in range(0, 30, batches[0]):
        piece = slice(start, min(start + batches[0], 30))
        # Steps that are too long let coefficients grow, and the ridges in force with them.
        ridges = state.reals.copy()
        state, output_text = tracker.update(spec, state, rows[piece], ("q",))
        size = 1 + np.abs(model.alpha).max() + np.abs(model.beta).max()
        slack = 1e-12 * size * (1 + np.abs(phi[0]).max() + np.abs(phi[1]).max())
        halves = [oracle.Model(a, model.used, 0) for a in (model.alpha, model.beta)]
        for name, half, features in zip(("z", "q"), halves, phi, strict=True):
            expected = [oracle.evaluate(half, row) for row in features[piece]]
            np.testing.assert_allclose(getattr(output_text, name), expected, rtol=1e-9, atol=slack)
        losses = [
            [oracle.projection(half, row, ridge)["loss"] for row in features[piece]]
            for half, features, ridge in zip(halves, phi, ridges, strict=True)
        ]
        np.testing.assert_allclose(
            output_text.loss, np.mean(losses, axis=0), rtol=1e-7, atol=1e4 * slack
        )
        if piece.stop - start == batches[0]:
            model = oracle.pair_step(model, (phi[0][piece], phi[1][piece]), batches[1], form, theta)
        np.testing.assert_allclose(state.factor[0].T, model.alpha, rtol=1e-8, atol=1e-11 * size)
        np.testing.assert_allclose(state.factor[1].T, model.beta, rtol=1e-8, atol=1e-11 * size)


@pytest.mark.parametrize(("form", "more"), [("kcca", 0), ("kcca-newton", 16 * 8**2)])
def test_the_state_has_the_bytes_that_it_says(form: str, more: int) -> None:
    spec = DSPairSpec(
        rank=3, budget=96, feature_batch=8, row_batch=16, warmup=50, first_view=7, form=form
    )
    state, _ = run_all(spec, walk(seed=0, count=300, width=12))
    size = sum(array.nbytes for array in state)
    assert size == 8 * (2 * 3 * 96 + 4 * 3 * 8 + 7 * 9 + 2 * 12 + 256 + 9) + more


def linked(seed: int, count: int) -> Array:
    """Two views of two numbers each that share one hidden number, curved differently."""
    rng = np.random.default_rng(seed)
    hidden, noise = rng.uniform(-1, 1, count), rng.normal(size=(count, 4))
    x = np.column_stack([hidden + 0.1 * noise[:, 0], noise[:, 1]])
    y = np.column_stack([np.cos(3 * hidden) + 0.1 * noise[:, 2], noise[:, 3]])
    return np.hstack([x, y])


# SVD maximises the covariance, which favours functions of large variance over matching ones.
@pytest.mark.parametrize(("form", "least"), [("ksvd", 0.85), ("kcca", 0.9), ("kcca-newton", 0.94)])
def test_it_finds_what_two_views_share(form: str, least: float) -> None:
    rows = linked(0, 40_000)
    spec = DSPairSpec(
        rank=3, budget=512, feature_batch=64, row_batch=64, first_view=2, form=form, seed=1
    )
    state, _ = run_all(spec, rows)
    fresh = linked(1, 4000)
    output_text = DSPair().project(spec, state, fresh, ("q",))
    assert output_text.z is not None and output_text.q is not None
    # No linear function of x goes with any of y; the best correlation of cos(3·) is .97.
    raw = correlation(fresh[:, :2], fresh[:, 2:])
    assert raw < 0.2
    assert correlation(output_text.z, output_text.q) > least


def correlation(left: Array, right: Array) -> float:
    """The largest canonical correlation of two groups of columns."""
    bases = [np.linalg.qr(group - group.mean(axis=0))[0] for group in (left, right)]
    return float(np.linalg.svd(bases[0].T @ bases[1])[1][0])


@pytest.mark.parametrize("form", DSPairSpec.forms)
def test_a_long_run_stays_in_bounds_at_any_step(form: str) -> None:
    for theta in (0.1, 1e6):
        spec = spec_of(form=form, step_size=theta, step_decay=0.0)
        state, output_text = run_all(spec, walk(seed=1, count=6000, width=4), ("q",))
        assert output_text.valid.all() and all(np.isfinite(array).all() for array in state)
        assert (
            (output_text.loss >= 0).all()
            and output_text.z is not None
            and np.isfinite(output_text.z).all()
        )


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("form", {"form": "gha"}),
        ("first_view", {"first_view": 0}),
        ("step_size", {"step_size": 0.0}),
    ],
)
def test_bad_settings(field: str, values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{field} = "):
        DSPairSpec(**values)


def test_both_views_must_have_columns() -> None:
    with pytest.raises(ConfigError, match="first_view = 2: must be less than the 2 columns"):
        DSPair().init(spec_of(), walk(seed=0, count=20, width=2))
