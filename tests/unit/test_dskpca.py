"""Doubly stochastic KPCA: step by step against the paper's sums, and what is left of its bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import run_all
from kerneltrack.trackers import DSKPCA, DSKPCASpec
from kerneltrack.trackers.doubly.kpca import feature_map_of, functions
from kerneltrack.trackers.doubly.random_features import feature_rows
from kerneltrack.trackers.doubly.spec import POSITIVE, SCALED
from tests.oracles import doubly as oracle
from tests.oracles.streams import walk
from tests.parts import examples

Array = npt.NDArray[np.float64]
KERNELS = ("gaussian", "laplacian", "cauchy", "matern52", "arccosine1", "linear", "recsemigroup")


def spec_of(kernel: str, **more: Any) -> DSKPCASpec:
    free = {"gamma": 2.0, "standardise": False} if kernel in POSITIVE else {}
    shared = {"rank": 2, "budget": 15, "feature_batch": 3, "row_batch": 4, "warmup": 10}
    return DSKPCASpec(kernel=kernel, **{**shared, **free, **more})


@settings(max_examples=examples(60))
@given(
    kernel=st.sampled_from(KERNELS),
    form=st.sampled_from(["subspace", "gha"]),
    batches=st.tuples(st.integers(1, 6), st.sampled_from([3, 5, 15])),
    theta=st.tuples(st.floats(0.01, 2.0), st.floats(0.0, 1.0)),
    seed=st.integers(0, 1000),
    ridge=st.floats(1e-3, 1.0),
)
def test_a_run_is_the_papers(
    kernel: str,
    form: str,
    batches: tuple[int, int],
    theta: tuple[float, float],
    seed: int,
    ridge: float,
) -> None:
    spec = spec_of(
        kernel,
        form=form,
        row_batch=batches[0],
        feature_batch=batches[1],
        step_size=theta[0],
        step_decay=theta[1],
        seed=seed,
        ridge=ridge,
    )
    rows = walk(seed=seed, count=40, width=2)
    rows = np.abs(rows) if kernel in POSITIVE else rows
    tracker = DSKPCA()
    state = tracker.init(spec, rows[:10])
    scaled = rows / state.scale - state.shift
    phi = feature_rows(feature_map_of(spec, float(state.bandwidth[0])), scaled, 0, spec.budget)
    model = oracle.Model(state.factor.T.copy(), batches[1], 0)
    for start in range(0, 40, batches[0]):
        piece = slice(start, min(start + batches[0], 40))
        state, output_text = tracker.update(spec, state, rows[piece], ("q", "s"))
        reported = [oracle.projection(model, phi[n], ridge) for n in range(40)[piece]]
        # M + λI has a condition of at most 1 + tr M/λ.
        inner = model.used * model.alpha.T @ model.alpha
        slack = 1e-13 * (1 + np.trace(inner) / ridge) ** 2 * (1 + np.abs(phi).max() ** 2)
        assert output_text.q is not None and output_text.z is not None and output_text.s is not None
        np.testing.assert_allclose(output_text.q, [t["q"] for t in reported], rtol=1e-9, atol=slack)
        np.testing.assert_allclose(output_text.z, [t["z"] for t in reported], rtol=1e-9, atol=slack)
        np.testing.assert_allclose(
            output_text.loss, [t["loss"] for t in reported], rtol=1e-9, atol=slack
        )
        np.testing.assert_allclose(
            output_text.s @ output_text.s.T, output_text.z @ output_text.z.T, rtol=1e-9, atol=slack
        )
        if piece.stop - start == batches[0]:
            model = oracle.step(model, phi[piece], batches[1], form, theta)
        np.testing.assert_allclose(
            state.factor.T, model.alpha, rtol=1e-9, atol=1e-12 * np.abs(model.alpha).max()
        )


def test_the_functions_are_algorithm_2() -> None:
    spec = spec_of("gaussian", form="gha")
    rows = walk(seed=3, count=200, width=3)
    state, _ = run_all(spec, rows)
    scaled = rows / state.scale - state.shift
    phi = feature_rows(feature_map_of(spec, float(state.bandwidth[0])), scaled, 0, spec.budget)
    np.testing.assert_allclose(functions(spec, state, rows), phi @ state.factor.T, atol=1e-10)


def test_the_start_is_orthonormal() -> None:
    spec = spec_of("gaussian", rank=5, feature_batch=15)
    state = DSKPCA().init(spec, walk(seed=3, count=10, width=3))
    np.testing.assert_allclose(15 * state.factor @ state.factor.T, np.eye(5), atol=1e-14)


@pytest.mark.parametrize(("width", "rows"), [(2, 100), (40, 1000)])
def test_the_state_has_the_bytes_that_it_says(width: int, rows: int) -> None:
    spec = DSKPCASpec(rank=3, budget=96, feature_batch=8, row_batch=16, warmup=50)
    state, _ = run_all(spec, walk(seed=0, count=rows, width=width))
    size = sum(array.nbytes for array in state)
    assert size == 8 * (3 * (96 + 8) + 4 * 9 + 2 * width + 1 + 256 + 1 + 5)


def test_a_long_run_stays_in_bounds_at_any_step() -> None:
    for theta in (0.1, 10.0, 1e6):
        spec = DSKPCASpec(
            rank=3, budget=64, feature_batch=8, row_batch=4, step_size=theta, step_decay=0.0
        )
        state, output_text = run_all(spec, walk(seed=1, count=6000, width=3))
        assert output_text.valid.all() and all(np.isfinite(array).all() for array in state)
        assert DSKPCA().counters(state)["mended"] == 0
        assert output_text.z is not None and np.abs(output_text.z).max() <= math.sqrt(2) * 1.001


def test_it_learns_the_subspace_of_kernel_pca() -> None:
    """On rows of one distribution the residual comes near the best that rank 4 can have."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(30_000, 2)) * [1.0, 0.5]
    spec = DSKPCASpec(rank=4, budget=512, feature_batch=32, row_batch=32, gamma=4.0)
    state, output_text = run_all(spec, rows)
    scaled = rows[-3000:] / state.scale - state.shift
    phi = feature_rows(feature_map_of(spec, float(state.bandwidth[0])), scaled, 0, 512) / math.sqrt(
        512
    )
    values = np.linalg.eigvalsh(phi.T @ phi / 3000)
    best, first = values[:-4].sum(), float(output_text.loss[:100].mean())
    last = float(output_text.loss[-3000:].mean())
    assert best < last < best + 0.1 * (first - best)


def test_rows_below_zero_are_refused_where_the_kernel_takes_none() -> None:
    spec = spec_of("expsemigroup")
    rows = np.array([[1.0, 2.0], [-1.0, 2.0], [0.0, 0.0]])
    state = DSKPCA().init(spec, rows[:1])
    _, output_text = DSKPCA().update(spec, state, rows)
    assert output_text.valid.tolist() == [True, False, True]
    assert DSKPCA().why_refused(spec, state, rows[1]) == (
        "channel 0 is below 0, expsemigroup takes none"
    )


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("kernel", {"kernel": "rbf"}),
        ("budget", {"budget": 100, "feature_batch": 64}),
        ("budget", {"budget": 2**21}),
        ("feature_batch", {"rank": 10, "feature_batch": 8}),
        ("feature_batch", {"budget": 64, "feature_batch": 128}),
        ("row_batch", {"row_batch": 0}),
        ("form", {"form": "oja"}),
        ("step_decay", {"step_decay": -1.0}),
        ("step_size", {"step_size": 0.0}),
        ("ridge", {"ridge": 0.0}),
        ("gamma", {"kernel": "recsemigroup", "standardise": False}),
        ("standardise", {"kernel": "recsemigroup", "gamma": 1.0}),
    ],
)
def test_bad_settings(field: str, values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{field} = "):
        DSKPCASpec(**values)


def test_the_median_trick_serves_every_kernel_of_differences() -> None:
    rows = walk(seed=3, count=60, width=3)
    for kernel in sorted(SCALED - POSITIVE):
        state = DSKPCA().init(spec_of(kernel), rows)
        assert state.bandwidth[0] != 1.0


def test_damaged_arrays() -> None:
    tracker, spec = DSKPCA(), spec_of("gaussian")
    state = tracker.init(spec, walk(seed=3, count=10, width=3))
    for name, array in state._asdict().items():
        for wrong in (np.zeros((2, 2, 2)), np.zeros(0)):
            with pytest.raises(ConfigError, match="state"):
                tracker.from_arrays(spec, {**state._asdict(), name: wrong})
        with pytest.raises(ConfigError, match="exactly"):
            tracker.from_arrays(
                spec, {key: value for key, value in state._asdict().items() if key != name}
            )
        assert array.size
    counts = state.counts.copy()
    for place, value in ((0, -1), (3, 4)):
        counts[:] = 0
        counts[place] = value
        with pytest.raises(ConfigError, match="counts"):
            tracker.from_arrays(spec, {**state._asdict(), "counts": counts})
