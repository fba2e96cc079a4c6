"""Every learner against an oracle written from the papers' equations, and what each promises."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltrack.arrays import FloatArray
from kerneltrack.in_memory import learn_all
from kerneltrack.learners import (
    BSGDSpec,
    FOGDSpec,
    Hinge,
    HingeSpec,
    LearnerSpec,
    LMSSpec,
    LogisticSpec,
    NOLANASpec,
    PASpec,
    Pegasos,
    PegasosSpec,
    POLKSpec,
    Predictions,
    Ridge,
    RidgeSpec,
)
from kerneltrack.learners.common.base import LEARNED
from kerneltrack.learners.linear.common import LinearState
from tests.oracles import learners as oracle


def class_weights(spec: PegasosSpec, state: LinearState) -> FloatArray:
    """w of every class of Pegasos, (C, p): the state keeps λt·w."""
    return state.weights / (spec.ridge * max(int(state.counts[LEARNED]), 1))


TOLERANCE = 1e-9
"""Of a run of 60 rows against the oracle, relative to the largest value that it meets."""


class Stream(NamedTuple):
    rows: FloatArray
    labels: list[int]
    targets: FloatArray

    @property
    def with_bias(self) -> FloatArray:
        return np.column_stack([self.rows, np.ones(len(self.rows))])

    @property
    def names(self) -> list[str | None]:
        return [None if label < 0 else f"class {label}" for label in self.labels]


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Rows whose classes appear one after the other, some labels missing."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, width, classes = (draw(st.integers(1, top)) for top in (60, 6, 5))
    rows = rng.normal(size=(count, width)) * draw(st.sampled_from([0.1, 1.0, 3.0]))
    labels: list[int] = []
    missing = draw(st.sampled_from([0.0, 0.3]))
    for _ in range(count):
        label = int(rng.integers(0, min(classes, max(labels, default=-1) + 2)))
        labels.append(-1 if rng.random() < missing else label)
    targets = rows @ rng.normal(size=width) + rng.normal(size=count)
    targets[np.array(labels) < 0] = np.nan
    return Stream(rows, labels, targets)


def close(actual: npt.ArrayLike, expected: npt.ArrayLike, size: float = 0.0) -> None:
    actual, expected = np.asarray(actual), np.asarray(expected)
    scale = max(1.0, size, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * scale)


def tempered(
    expected: oracle.Said, labels: list[int], beta: float
) -> list[tuple[FloatArray, float]]:
    """Probabilities of decision values, row by row, and β at each, by the module's equations."""
    curvature, found = 1.0, []
    for values, label in zip(expected, labels, strict=True):
        chances = np.zeros(0)
        if len(values):
            chances = np.exp(beta * (values - values.max()))
            chances = 0.999 * chances / chances.sum() + 0.001 / len(values)
        found.append((chances, beta))
        if 0 <= label < len(values):
            mean = float(chances @ values)
            curvature = 0.998 * curvature + max(float(chances @ (values - mean) ** 2), 0.0)
            step = (float(values[label]) - mean) / curvature
            beta = float(np.clip(np.clip(beta + step, 0.5 * beta, 1.5 * beta), 0.1, 50.0))
    return found


def check_classes(
    output_text: Predictions,
    expected: oracle.Said,
    labels: list[int],
    ties: bool = True,
    logistic: bool = False,
) -> None:
    """Hold predictions against decision values; of equal ones the first, where `ties` are exact.

    Where the loss is `logistic`, against probabilities: their logarithms are decision values but
    for a constant, which makes no difference.
    """
    assert output_text.code is not None and output_text.score is not None
    assert output_text.margin is not None and output_text.correct is not None
    largest = max((float(np.abs(values).max(initial=0)) for values in expected), default=0.0)
    decisions = [np.log(values) for values in expected] if logistic else expected
    known = tempered(decisions, labels, 1.0 if logistic else 4.0)
    for n, (values, (chances, beta)) in enumerate(zip(expected, known, strict=True)):
        if len(values) == 0:
            assert (output_text.code[n], output_text.score[n], output_text.margin[n]) == (
                -1,
                0.0,
                0.0,
            )
            assert not output_text.scored[n]
            continue
        ordered = np.sort(values)[::-1]
        margin = ordered[0] - ordered[1] if len(values) > 1 else 0.0
        sure = np.sort(chances)[::-1]
        # β and its history multiply what rounding does to the decision values.
        spread = 1e4 * beta * max(1.0, largest)
        close(output_text.score[n], sure[0], spread)
        close(output_text.margin[n], sure[0] - sure[1] if len(values) > 1 else 0.0, spread)
        if (ties and margin == 0.0) or margin > 10 * TOLERANCE * max(1.0, largest):
            assert output_text.code[n] == np.argmax(values)
        assert output_text.scored[n] == (labels[n] >= 0)
        assert output_text.correct[n] == (labels[n] >= 0 and output_text.code[n] == labels[n])


@given(streams(), st.sampled_from([1e-4, 1e-2, 1.0]), st.booleans())
def test_pegasos_is_a_binary_run_a_class(stream: Stream, ridge: float, project: bool) -> None:
    spec = PegasosSpec(ridge=ridge, project=project)
    state, output_text = learn_all(spec, stream.rows, stream.names)
    expected, weights = oracle.pegasos(stream.with_bias, stream.labels, ridge, project)
    check_classes(output_text, expected, stream.labels)
    close(class_weights(spec, state), weights)


@given(streams(), st.sampled_from([0.0, 0.1]), st.sampled_from([0.1, 1.0]), st.sampled_from([0, 7]))
def test_hinge_follows_crammer_and_singer(
    stream: Stream, ridge: float, step: float, decay: int
) -> None:
    spec = HingeSpec(ridge=ridge, step_size=step, decay_rows=decay)
    state, output_text = learn_all(spec, stream.rows, stream.names)
    expected, weights = oracle.hinge(stream.with_bias, stream.labels, ridge, step, decay)
    check_classes(output_text, expected, stream.labels)
    close(state.weights, weights)


@given(streams(), st.sampled_from([0.0, 0.1]), st.sampled_from([0.1, 1.0]), st.sampled_from([0, 7]))
def test_logistic_descends_the_log_loss(
    stream: Stream, ridge: float, step: float, decay: int
) -> None:
    spec = LogisticSpec(ridge=ridge, step_size=step, decay_rows=decay)
    state, output_text = learn_all(spec, stream.rows, stream.names)
    expected, weights = oracle.logistic(stream.with_bias, stream.labels, ridge, step, decay)
    check_classes(output_text, expected, stream.labels, logistic=True)
    close(state.weights, weights)


@given(streams(), st.sampled_from([0.0, 0.1]), st.sampled_from([0, 7]), st.booleans())
def test_lms_classifies_by_least_squares(
    stream: Stream, ridge: float, decay: int, normalised: bool
) -> None:
    spec = LMSSpec(ridge=ridge, step_size=0.3, decay_rows=decay, normalised=normalised)
    state, output_text = learn_all(spec, stream.rows, stream.names)
    targets = oracle.one_hot(stream.labels)
    expected, weights = oracle.lms(stream.with_bias, targets, ridge, 0.3, decay, normalised)
    check_classes(output_text, only_known(expected, stream.labels), stream.labels)
    close(state.weights, weights)


def only_known(values: oracle.Said, labels: list[int]) -> oracle.Said:
    """Leave the classes that had appeared before each row; the others' values are 0."""
    kept, known = [], 0
    for row, label in zip(values, labels, strict=True):
        assert not row[known:].any()
        kept.append(row[:known])
        known = max(known, label + 1)
    return kept


def check_targets(output_text: Predictions, expected: oracle.Said, targets: FloatArray) -> None:
    assert output_text.value is not None and output_text.error is not None
    values = np.array([row[0] for row in expected])
    begun = np.cumsum(~np.isnan(targets)) - ~np.isnan(targets) > 0
    size = float(np.nanmax(np.abs(targets), initial=0.0))
    assert np.isnan(output_text.value[~begun]).all()
    close(output_text.value[begun], values[begun], size)
    assert (output_text.scored == (begun & ~np.isnan(targets))).all()
    close(output_text.error[output_text.scored], np.abs(targets - values)[output_text.scored], size)
    assert np.isnan(output_text.error[~output_text.scored]).all()


@given(streams(), st.sampled_from([0.0, 0.1]), st.booleans(), st.booleans())
def test_lms_regresses(stream: Stream, ridge: float, normalised: bool, bias: bool) -> None:
    reported: dict[str, Any] = {"task": "regression", "scale_targets": False, "step_size": 0.3}
    spec = LMSSpec(**reported, ridge=ridge, normalised=normalised, bias=bias)
    state, output_text = learn_all(spec, stream.rows, stream.targets)
    rows = stream.with_bias if bias else stream.rows
    expected, weights = oracle.lms(rows, stream.targets[:, None], ridge, 0.3, 0, normalised)
    check_targets(output_text, expected, stream.targets)
    close(state.weights, weights)


@given(streams(), st.sampled_from([1e-3, 0.1, 10.0]), st.sampled_from([1.0, 0.999, 0.95]))
def test_recursive_ridge_is_ridge_on_all_rows_so_far(
    stream: Stream, ridge: float, forgetting: float
) -> None:
    spec = RidgeSpec(task="regression", ridge=ridge, forgetting=forgetting, scale_targets=False)
    state, output_text = learn_all(spec, stream.rows, stream.targets)
    targets = stream.targets[:, None]
    expected, weights = oracle.recursive_ridge(stream.with_bias, targets, ridge, forgetting)
    check_targets(output_text, expected, stream.targets)
    close(state.weights, weights)


@given(streams(), st.sampled_from([1e-3, 0.1, 10.0]), st.sampled_from([1.0, 0.999, 0.95]))
def test_recursive_ridge_leaves_the_bias_of_scaled_targets_alone(
    stream: Stream, ridge: float, forgetting: float
) -> None:
    spec = RidgeSpec(task="regression", ridge=ridge, forgetting=forgetting)
    _, output_text = learn_all(spec, stream.rows, stream.targets)
    targets = stream.targets[:, None]
    expected, _ = oracle.recursive_ridge(stream.with_bias, targets, ridge, forgetting, free=1)
    check_targets(output_text, expected, stream.targets)


@given(streams(), st.sampled_from([1e-3, 0.1]), st.sampled_from([1.0, 0.97]))
def test_recursive_ridge_classifies_by_ridge_on_all_rows_so_far(
    stream: Stream, ridge: float, forgetting: float
) -> None:
    spec = RidgeSpec(ridge=ridge, forgetting=forgetting)
    state, output_text = learn_all(spec, stream.rows, stream.names)
    targets = oracle.one_hot(stream.labels)
    expected, weights = oracle.recursive_ridge(stream.with_bias, targets, ridge, forgetting)
    check_classes(output_text, only_ridge_known(expected, stream.labels), stream.labels)
    close(state.weights, weights)


@given(streams(), st.sampled_from(["pa", "pa1", "pa2"]), st.sampled_from([0.1, 1.0]))
def test_pa_follows_crammer_et_al(stream: Stream, variant: str, cost: float) -> None:
    spec = PASpec(variant=variant, aggressiveness=cost)
    state, output_text = learn_all(spec, stream.rows, stream.names)
    expected, weights = oracle.pa_classes(stream.with_bias, stream.labels, variant, cost)
    check_classes(output_text, expected, stream.labels, ties=False)
    close(state.weights, weights)


@given(streams(), st.sampled_from(["pa", "pa1", "pa2"]), st.sampled_from([0.0, 0.5]))
def test_pa_regresses(stream: Stream, variant: str, insensitivity: float) -> None:
    spec = PASpec(
        task="regression", variant=variant, insensitivity=insensitivity, scale_targets=False
    )
    state, output_text = learn_all(spec, stream.rows, stream.targets)
    rows, targets = stream.with_bias, stream.targets
    expected, weights = oracle.pa_targets(rows, targets, variant, 1.0, insensitivity)
    check_targets(output_text, expected, targets)
    close(state.weights, weights)


def only_ridge_known(values: oracle.Said, labels: list[int]) -> oracle.Said:
    rounded = [np.where(np.abs(row) < 1e-15, 0.0, row) for row in values]
    return only_known(rounded, labels)


@pytest.mark.parametrize("forgetting", [1.0, 0.999])
def test_recursive_ridge_stays_exact_over_a_million_rows(forgetting: float) -> None:
    count, width = 1_000_000, 4
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(count, width)) * [1.0, 1e-2, 1.0, 1.0]
    rows[:, 3] = rows[:, 0] + 1e-3 * rows[:, 3]
    rows /= 1.0 + np.linalg.norm(rows, axis=1)[:, None]
    targets = rows @ [1.0, 2.0, 3.0, 4.0] + 0.1 * rng.normal(size=count)
    spec = RidgeSpec(task="regression", ridge=1e-3, forgetting=forgetting, scale_targets=False)
    state, _ = learn_all(spec, rows, targets)
    with_bias = np.column_stack([rows, np.ones(count)])
    age = forgetting ** np.arange(count - 1, -1, -1.0)
    # After the first turns the penalty repeats every p = 5 rows.
    penalty = np.diag(oracle.ridge_penalty(10 + count % 5, 5, 1e-3, forgetting))
    normal = with_bias.T @ (age[:, None] * with_bias) + penalty
    expected = np.linalg.solve(normal, with_bias.T @ (age * targets))
    np.testing.assert_allclose(state.weights[0], expected, rtol=1e-8)
    inverse = state.memory.T @ state.memory
    np.testing.assert_allclose(inverse @ normal, np.eye(5), atol=1e-6)


def test_forgetting_does_not_wind_up_where_nothing_is_seen() -> None:
    spec = RidgeSpec(task="regression", ridge=0.1, forgetting=0.99, bias=False)
    learner = Ridge()
    rows = np.tile([1.0, 0.0, 0.0], (20_000, 1))
    state, _ = learner.update(spec, learner.init(spec, 3), rows, np.ones(20_000))
    inverse = state.memory.T @ state.memory
    assert np.linalg.eigvalsh(inverse).max() <= 1.0 / (0.99**3 * 0.1) * (1 + 1e-9)
    # A first look at another direction is damped by λ as if it came first of all.
    state = learner.learn(spec, state, [[0.0, 0.1, 0.0]], [5.0])
    assert 0.0 < state.weights[0, 1] < 5.0


def test_two_classes_are_one_binary_pegasos() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(300, 4))
    labels = ["up" if value > 0 else "down" for value in rows @ [1.0, -1.0, 0.5, 0.0]]
    spec = PegasosSpec(ridge=1e-2)
    state, output_text = learn_all(spec, rows, labels)
    assert (state.weights[0] == -state.weights[1]).all()
    assert output_text.correct is not None and output_text.correct[100:].mean() > 0.9


def test_pegasos_projects_on_its_ball() -> None:
    rng = np.random.default_rng(2)
    rows, labels = rng.normal(size=(50, 3)), rng.choice(["a", "b", "c"], 50)
    learner, spec = Pegasos(), PegasosSpec(ridge=1.0, project=True)
    state = learner.init(spec, 3)
    for row, label in zip(rows, labels, strict=True):
        state = learner.learn(spec, state, [row], [label])
        assert (np.linalg.norm(class_weights(spec, state), axis=1) <= 1.0 + 1e-12).all()


def test_hinge_waits_for_a_second_class() -> None:
    spec = HingeSpec()
    state, output_text = learn_all(spec, [[1.0], [2.0], [3.0]], ["only"] * 3)
    assert not state.weights.any()
    assert output_text.names == [None, "only", "only"]
    state = Hinge().learn(spec, state, [[1.0]], ["other"])
    assert state.weights.tolist() == [[-0.3, -0.3], [0.3, 0.3]]


@pytest.mark.parametrize(
    ("spec", "least"),
    [
        (RidgeSpec(), 0.95),
        (LogisticSpec(), 0.93),
        (HingeSpec(), 0.93),
        (PegasosSpec(), 0.93),
        (LMSSpec(), 0.93),
        (PASpec(), 0.9),
        (POLKSpec(), 0.93),
        (BSGDSpec(), 0.9),
        (NOLANASpec(), 0.93),
        (FOGDSpec(), 0.93),
    ],
    ids=lambda value: getattr(value, "learner", ""),
)
def test_defaults_learn_three_separate_classes(spec: LearnerSpec, least: float) -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 1000)
    rows = np.eye(3)[labels] * 0.8 + 0.2 * rng.normal(size=(1000, 3))
    _, output_text = learn_all(spec, rows, [f"class {label}" for label in labels])
    assert output_text.correct is not None
    assert output_text.correct[200:].mean() >= least
