"""FOGD against its equations, one row at a time, on features that are drawn beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kerneltrack.in_memory import learn_all
from kerneltrack.kernels import gram, make_kernel, median_bandwidth
from kerneltrack.learners import FOGD, FOGDSpec
from kerneltrack.trackers.doubly.random_features import feature_rows, make_feature_map

COUNT = 120
RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(COUNT, 3))
CLASSES = ["a", "b", "c"]
CODES = np.argmax(np.column_stack([ROWS[:, 0], ROWS[:, 1] ** 2, 0.5 - ROWS[:, 2]]), axis=1)


def features_of(spec: FOGDSpec, gamma: float) -> Any:
    features = make_feature_map(spec.kernel, spec.seed, gamma=gamma)
    return feature_rows(features, ROWS, 0, spec.budget) / np.sqrt(spec.budget)


def stepped(spec: FOGDSpec, phi: Any, codes: Any) -> Any:
    """The weights after each row, by the equations."""
    order: list[int] = list(dict.fromkeys(codes.tolist()))
    weights, known = np.zeros((len(order), spec.budget)), 0
    for t, (row, code) in enumerate(zip(phi, codes, strict=True)):
        place = order.index(code)
        known = max(known, place + 1)
        values, aim = weights[:known] @ row, np.zeros(known)
        if spec.loss == "logistic":
            chances = np.exp(values - values.max())
            aim = -chances / chances.sum()
            aim[place] += 1.0
        elif known > 1:
            rivals = np.where(np.arange(known) == place, -np.inf, values)
            if 1.0 + rivals.max() - values[place] > 0.0:
                aim[place], aim[np.argmax(rivals)] = 1.0, -1.0
        step = spec.step_size / np.sqrt(1.0 + t / spec.decay_rows) if spec.decay_rows else 1.0
        weights[:known] *= 1.0 - step * spec.ridge
        weights[:known] += step * np.outer(aim, row)
    return weights


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_weights_are_those_of_the_equations(loss: str, kernel: str) -> None:
    spec = FOGDSpec(loss=loss, kernel=kernel, gamma=3.0, budget=50, ridge=0.01, decay_rows=20)
    state, _ = learn_all(spec, ROWS, [CLASSES[code] for code in CODES])
    np.testing.assert_allclose(state.weights, stepped(spec, features_of(spec, 3.0), CODES))


def test_the_bandwidth_is_that_of_the_rows_that_wait() -> None:
    spec = FOGDSpec(warmup=40, budget=50)
    state, output_text = learn_all(spec, ROWS, [CLASSES[code] for code in CODES])
    gamma = median_bandwidth("gaussian", ROWS[:40])
    assert state.bandwidth[0] == gamma and output_text.scored is not None
    expected = stepped(spec, features_of(spec, gamma), CODES)
    np.testing.assert_allclose(state.weights, expected)


def test_values_approach_those_of_the_kernel() -> None:
    """Steps on the squared loss are a kernel expansion; many features say about the same."""
    targets = np.sin(2.0 * ROWS[:, 0])
    spec = FOGDSpec(
        task="regression", gamma=2.0, budget=10_000, ridge=0.0, scale_targets=False, step_size=0.5
    )
    state, _ = learn_all(spec, ROWS, targets)
    kernel = gram(make_kernel("gaussian", 2.0), ROWS, ROWS)
    weights = np.zeros(COUNT)
    for n in range(COUNT):
        weights[n] = 0.5 * (targets[n] - weights @ kernel[:, n])
    output_text = FOGD().values(spec, state, ROWS)[:, 0]
    # A mean of 10,000 products of variance 1/2 and less, 120 of them added with weights below .5.
    np.testing.assert_allclose(output_text, kernel @ weights, atol=0.15)


def test_seeds_are_other_features() -> None:
    states = [
        learn_all(FOGDSpec(gamma=3.0, budget=20, seed=seed), ROWS, [CLASSES[c] for c in CODES])[0]
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(states[0].weights, states[1].weights)
    assert (states[0].weights != states[2].weights).all()
