"""NOLANA against its paper's equations, one row at a time, and what it promises beyond others."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import learn_all
from kerneltrack.kernels import median_bandwidth
from kerneltrack.learners import NOLANA, Hinge, HingeSpec, NOLANASpec
from kerneltrack.learners.kernel.nolana import DIRECTIONS, MOVED, NOLANAState
from kerneltrack.learners.kernel.spec import STAGE_ORDERS
from kerneltrack.learners.linear.common import LinearState
from tests.oracles.learner_cases import arrays_of
from tests.oracles.nolana import Oracle, start
from tests.parts import examples

LEARNER = NOLANA()
CLOSE = 1e-6
"""Features to 1e-8 (see `test_oana`), times √(m/θ) of the fit on them; per unit of |f|."""
LOSSES = ("hinge", "logistic", "squared")
NAMES = ("a", "b", "c")


def spec_of(loss: str, **fields: Any) -> NOLANASpec:
    kind: dict[str, Any] = (
        {"task": "regression", "scale_targets": False} if loss == "squared" else {"loss": loss}
    )
    sizes: dict[str, Any] = {"rank": 4, "budget": 7, "gamma": 8.0, "refit_ridge": 1e-3}
    return NOLANASpec(**kind | sizes | fields)


def stream(loss: str, seed: int, count: int = 50) -> tuple[FloatArray, Any]:
    """Rows and labels of three classes, all among the first three rows, or targets."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, 3))
    if loss == "squared":
        return rows, rows @ [1.0, -1.0, 0.5]
    codes = (np.abs(rows[:, 0]) * 2).astype(int) % 3
    codes[:3] = range(3)
    return rows, [NAMES[code] for code in codes]


def number_of(label: Any) -> float:
    return float(NAMES.index(label)) if isinstance(label, str) else float(label)


def undecided(values: FloatArray, label: Any) -> bool:
    """Whether rounding may choose what the hinge loss does."""
    if not isinstance(label, str):
        return False
    place = NAMES.index(label)
    rivals = np.sort(np.delete(values, place))
    tight = abs(1.0 + rivals[-1] - values[place]) < CLOSE
    return bool(tight or (len(rivals) > 1 and rivals[-1] - rivals[-2] < CLOSE))


@pytest.mark.parametrize("loss", LOSSES)
@given(
    seed=st.integers(0, 2**32 - 1),
    threshold=st.sampled_from([0.0, 0.5, 4.0, None]),
    kernel=st.sampled_from(["gaussian", "laplacian"]),
    theta=st.sampled_from([1e-6, 1e-3, 0.1]),
    decay=st.sampled_from([0, 7]),
    order=st.sampled_from(STAGE_ORDERS),
)
@settings(max_examples=examples(40))
def test_each_row_does_what_the_paper_says(
    loss: str, seed: int, threshold: float | None, kernel: str, theta: float, decay: int, order: str
) -> None:
    fields: dict[str, Any] = {"kernel": kernel, "refit_ridge": theta, "decay_rows": decay}
    spec = spec_of(loss, threshold=threshold, ridge=0.01, stage_order=order, **fields)
    rows, labels = stream(loss, seed)
    state, _ = learn_all(spec, rows[:20], labels[:20])
    probe = rows[:1] + 0.1
    for x, label in zip(rows[20:], labels[20:], strict=True):
        oracle = Oracle.of(spec, state)
        if order == "move_first":
            ahead = copy.deepcopy(oracle)
            ahead.move(x, number_of(label))
            assume(loss != "hinge" or not undecided(ahead.values(x), label))
        else:
            assume(loss != "hinge" or not undecided(oracle.values(x), label))
        before = int(state.counts[MOVED])
        state = LEARNER.learn(spec, state, x[None], [label])
        moved = oracle.learn(x, number_of(label))
        assert int(state.counts[MOVED]) - before == moved
        assert np.allclose(state.support[:7], oracle.map.landmarks, rtol=0, atol=1e-13)
        expected = oracle.values(probe[0])
        found = LEARNER.values(spec, state, probe)[0]
        assert np.allclose(found, expected, rtol=0, atol=CLOSE * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("loss", LOSSES)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=examples(20))
def test_the_first_rows_are_learned_while_they_become_landmarks(loss: str, seed: int) -> None:
    spec = spec_of(loss, gamma=3.0)
    rows, labels = stream(loss, seed, 8)
    gaps = np.linalg.norm(rows[:7, None] - rows[None, :7], axis=2) + np.eye(7)
    assume(gaps.min() > 0.3)
    state, _ = learn_all(spec, rows[:7], labels[:7])
    assert state.support[:7].tolist() == rows[:7].tolist()
    assert (state.size, int(state.counts[MOVED])) == (7, 0)
    expected = start(spec, rows, [number_of(label) for label in labels[:7]], rows[7])
    found = LEARNER.values(spec, state, rows[7:])[0]
    assert np.allclose(found, expected, rtol=0, atol=CLOSE * max(1.0, np.abs(expected).max()))


def test_without_a_threshold_it_is_gradient_steps_on_the_first_rows_features() -> None:
    """NOGD: the linear learner on features that stay."""
    rows, labels = stream("hinge", 3, 200)
    spec = spec_of("hinge", threshold=None, ridge=1e-3, decay_rows=20)
    begun, _ = learn_all(spec, rows[:30], labels[:30])
    state, output_text = LEARNER.update(spec, begun, rows[30:], labels[30:])
    for name in ("support", "factor", "gram", "image", "members"):
        assert arrays_of(state)[name].tobytes() == arrays_of(begun)[name].tobytes()
    assert state.counts[MOVED] == 0
    features = features_of(begun, rows[30:])
    plain = HingeSpec(ridge=1e-3, step_size=spec.step_size, decay_rows=20, bias=False)
    linear = LinearState(
        begun.weights, np.zeros((0, 4)), begun.sums, begun.counts[:4], begun.classes
    )
    _, expected = Hinge().update(plain, linear, features, labels[30:])
    assert output_text.names == expected.names
    assert output_text.score is not None and expected.score is not None
    assert np.allclose(output_text.score, expected.score, rtol=0, atol=1e-9)


def features_of(state: NOLANAState, rows: FloatArray) -> FloatArray:
    """q of Gaussian features with γ = 8."""
    gaps = ((rows[:, None] - state.support[None, : state.size]) ** 2).sum(axis=2)
    found: FloatArray = np.exp(-gaps / 8.0) @ state.factor[:, : state.size].T
    return found


@pytest.mark.parametrize("loss", LOSSES)
def test_the_second_stage_keeps_what_the_functions_say(loss: str) -> None:
    """A map that spans all landmarks says the same of them before and after a move, but for θ."""
    rows, labels = stream(loss, 5, 60)
    spec = spec_of(loss, rank=7, gamma=3.0, refit_ridge=1e-9, step_size=1e-9, ridge=0.0)
    taught, _ = learn_all(dataclasses.replace(spec, step_size=1.0), rows[:40], labels[:40])
    after = LEARNER.learn(spec, taught, rows[40:41], labels[40:41])
    assert int(after.counts[MOVED] - taught.counts[MOVED]) == 1
    landmarks = after.support[:7]
    old, new = (LEARNER.values(spec, state, landmarks) for state in (taught, after))
    assert np.abs(old).max() > 0.1
    assert np.allclose(new, old, rtol=0, atol=1e-5)
    # The weights left as they are would say something else.
    stale = after._replace(weights=taught.weights)
    assert not np.allclose(LEARNER.values(spec, stale, landmarks), old, rtol=0, atol=1e-2)


def test_the_bandwidth_is_the_median_of_the_first_labelled_rows() -> None:
    rows, labels = stream("hinge", 0, 120)
    partly: list[Any] = [None if n % 3 == 0 else label for n, label in enumerate(labels)]
    spec = spec_of("hinge", gamma="median", warmup=30)
    state, _ = learn_all(spec, rows, partly)
    gamma = median_bandwidth("gaussian", rows[np.arange(120) % 3 != 0][:30])
    assert state.bandwidth.tolist() == [gamma] and state.early.shape == (0, 4)
    reported, _ = learn_all(dataclasses.replace(spec, gamma=gamma), rows, partly)
    for name, array in arrays_of(reported).items():
        if name not in ("counts", "sums"):
            assert arrays_of(state)[name].tobytes() == array.tobytes(), name


def test_rows_that_are_all_alike_give_one_direction() -> None:
    alike = np.vstack([np.zeros((5, 2)), 1e-9 * np.arange(20.0).reshape(10, 2)])
    spec = spec_of("squared", gamma=1.0)
    state, output_text = learn_all(spec, alike, np.ones(15))
    assert int(state.counts[DIRECTIONS]) == 1
    assert output_text.value is not None and output_text.value[-1] == pytest.approx(1.0, abs=0.01)
    # A landmark that goes elsewhere begins the second.
    state = LEARNER.learn(spec, state, [[3.0, 3.0]] * 5, np.ones(5))
    assert int(state.counts[DIRECTIONS]) == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("loss", "squared"),
        ("rank", 0),
        ("budget", 60),
        ("threshold", -1.0),
        ("refit_ridge", 0.0),
        ("stage_order", "move"),
        ("kernel", "linear"),
        ("gamma", 0.0),
    ],
)
def test_wrong_settings_are_named(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=field):
        dataclasses.replace(NOLANASpec(), **{field: value})
