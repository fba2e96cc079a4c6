"""POLK against an oracle written from the paper, and what it promises beyond every learner."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import learn_all
from kerneltrack.kernels import gram, make_kernel, median_bandwidth
from kerneltrack.learners import POLK, POLKSpec
from kerneltrack.learners.kernel.dictionary import DictionaryState
from tests.oracles.learner_cases import arrays_of, columns
from tests.oracles.polk import IN_SPAN, Settings, polk
from tests.unit.test_learners import Stream, check_classes, check_targets, close, streams

GAMMA = 0.5
MAX_CONDITION = 1e4
"""Every solution with K multiplies rounding by its condition; 60 of them leave 1e-9."""
KERNEL = make_kernel("gaussian", GAMMA)


@st.composite
def choices(draw: st.DrawFn, loss: str) -> Settings:
    return Settings(
        loss=loss,
        ridge=draw(st.sampled_from([1e-3, 0.1])),
        eta=draw(st.sampled_from([0.3, 2.0])),
        decay_rows=draw(st.sampled_from([0, 7])),
        parsimony=draw(st.sampled_from([1e-3, 0.1, 0.5])),
        batch=draw(st.sampled_from([1, 1, 5])),
        budget=draw(st.sampled_from([3, 12])),
        gamma=GAMMA,
    )


def spec_of(chosen: Settings) -> POLKSpec:
    return POLKSpec(
        task="regression" if chosen.loss == "squared" else "classification",
        scale_targets=False,
        loss="logistic" if chosen.loss == "logistic" else "hinge",
        ridge=chosen.ridge,
        step_size=chosen.eta,
        decay_rows=chosen.decay_rows,
        parsimony=chosen.parsimony,
        batch=chosen.batch,
        budget=chosen.budget,
        gamma=chosen.gamma,
    )


def check_functions(state: DictionaryState, rows: FloatArray, weights: FloatArray) -> None:
    """The same rows are kept, in whatever order, with the same weights."""
    mine, other = np.lexsort(state.rows[: state.size].T), np.lexsort(rows.T)
    np.testing.assert_array_equal(state.rows[mine], rows[other])
    close(state.weights[:, mine], weights[:, other])


@given(streams(), choices("hinge") | choices("logistic"))
def test_classifying_polk_is_algorithm_2(stream: Stream, chosen: Settings) -> None:
    labels = [float("nan") if label < 0 else float(label) for label in stream.labels]
    expected = polk(stream.rows, labels, chosen)
    assume(not expected.tied and expected.condition < MAX_CONDITION)
    state, output_text = learn_all(spec_of(chosen), stream.rows, stream.names)
    check_functions(state, expected.rows, expected.weights)
    check_classes(
        output_text,
        expected.output_text,
        stream.labels,
        ties=False,
        logistic=chosen.loss == "logistic",
    )


@given(streams(), choices("squared"))
def test_regressing_polk_is_algorithm_2(stream: Stream, chosen: Settings) -> None:
    expected = polk(stream.rows, stream.targets.tolist(), chosen)
    assume(not expected.tied and expected.condition < MAX_CONDITION)
    state, output_text = learn_all(spec_of(chosen), stream.rows, stream.targets)
    check_functions(state, expected.rows, expected.weights)
    check_targets(output_text, expected.output_text, stream.targets)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_bandwidth_is_the_median_of_the_first_labelled_rows(task: str) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, 2))
    labels: Any = [None if n % 3 == 0 else "ab"[int(row[0] > 0)] for n, row in enumerate(rows)]
    if task == "regression":
        labels = np.where(np.arange(120) % 3 == 0, np.nan, rows[:, 0])
    spec = POLKSpec(task=task, warmup=30)
    state, output_text = learn_all(spec, rows, labels)
    first = rows[np.arange(120) % 3 != 0][:30]
    gamma = median_bandwidth("gaussian", first)
    assert state.bandwidth.tolist() == [gamma] and state.early.shape == (0, 3)
    reported, known = learn_all(dataclasses.replace(spec, gamma=gamma), rows, labels)
    for name, array in arrays_of(reported).items():
        if name not in ("counts", "sums"):
            assert arrays_of(state)[name].tobytes() == array.tobytes(), name
    # The 30th labelled row is row 44. The temperature of probabilities began with the bandwidth.
    for name, column in columns(known).items():
        if name in ("score", "margin"):
            continue
        assert columns(output_text)[name][45:].tobytes() == column[45:].tobytes(), name
    early = columns(output_text)["margin" if task == "classification" else "value"][:45]
    assert (np.isnan(early) | (early == 0.0)).all()


@pytest.mark.parametrize("spread", [1e-3, 0.05, 1.0])
def test_the_inverse_stays_one_over_many_rows(spread: float) -> None:
    """Rows close together, far apart and repeated, a full dictionary: W keeps its digits."""
    rng = np.random.default_rng(1)
    rows = spread * rng.normal(size=(20_000, 2))
    rows[::7] = rows[0]
    targets = np.sin(rows[:, 0] / spread) + rng.normal(size=len(rows))
    spec = POLKSpec(task="regression", gamma=1.0, budget=60, parsimony=1e-4, step_size=1.0)
    state, _ = learn_all(spec, rows, targets)
    matrix = gram(make_kernel("gaussian", 1.0), state.rows, state.rows)
    identity = state.root @ matrix @ state.root.T
    np.testing.assert_allclose(identity, np.eye(state.size), atol=1e-6)
    np.testing.assert_allclose(state.diagonal, (state.root**2).sum(axis=0), rtol=1e-9)
    assert np.linalg.eigvalsh(matrix)[0] > 0.0
    assert state.size <= 60 and (state.diagonal <= 1.0 / IN_SPAN * 1.001).all()


def test_a_row_that_goes_at_once_leaves_the_inverse_as_it_was() -> None:
    spec = POLKSpec(task="regression", gamma=1.0, parsimony=0.5)
    learner = POLK()
    state, _ = learn_all(spec, [[0.0], [1.0], [2.0]], [1.0, -1.0, 1.0])
    after = learner.learn(spec, state, [[0.5]], [0.1])
    assert (after.size, after.counts[2]) == (state.size, 4)
    assert after.root.tobytes() == state.root.tobytes()
    assert after.diagonal.tobytes() == state.diagonal.tobytes()
    assert (after.weights != state.weights).any()


def test_the_hard_cap_drops_what_costs_least() -> None:
    rng = np.random.default_rng(2)
    rows, labels = rng.normal(size=(400, 2)), []
    labels = ["in" if row @ row < 1 else "out" for row in rows]
    for budget in (1, 5, 20):
        spec = POLKSpec(gamma=2.0, budget=budget, parsimony=0.0)
        state, output_text = learn_all(spec, rows, labels)
        assert state.size == budget and output_text.correct is not None
        assert budget == 1 or output_text.correct[100:].mean() > 0.7


def test_a_mini_batch_is_counted_in_labelled_rows() -> None:
    spec = POLKSpec(gamma=1.0, batch=3, step_size=1.0)
    learner = POLK()
    state = learner.init(spec, 1)
    names: list[str | None] = ["a", None, "b", None, "b"]
    rows = np.arange(5.0)[:, None]
    sizes = []
    for row, name in zip(rows, names, strict=True):
        state = learner.learn(spec, state, [row], [name])
        sizes.append((state.size, len(state.rows)))
    # The first row has no rival.
    assert sizes == [(0, 0), (0, 0), (0, 1), (0, 1), (2, 2)]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("loss", "squared"),
        ("parsimony", -1.0),
        ("batch", 0),
        ("budget", 0),
        ("kernel", "linear"),
        ("gamma", "mean"),
        ("gamma", 0.0),
        ("warmup", 1),
        ("step_size", 0.0),
    ],
)
def test_wrong_settings_are_named(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=field):
        dataclasses.replace(POLKSpec(), **{field: value})
