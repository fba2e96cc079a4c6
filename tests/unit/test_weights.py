"""Rows that count more or less than once (`weights` of `Learner.update`)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.learners import (
    HingeSpec,
    LearnerSpec,
    LMSSpec,
    LogisticSpec,
    PegasosSpec,
    RidgeSpec,
)
from kerneltrack.registry import LEARNERS, get_learner, parse_learner_spec
from kerneltrack.sklearn import SubspaceClassifier, SubspaceRegressor
from tests.oracles.learner_cases import WIDTH, same_state, stream

WEIGHED: tuple[LearnerSpec, ...] = (
    RidgeSpec(),
    RidgeSpec(task="regression"),
    RidgeSpec(task="regression", bias=False, forgetting=1.0),
    LogisticSpec(ridge=1e-3),
    HingeSpec(class_weight="root", intervals=0.9),
    PegasosSpec(project=True),
    LMSSpec(task="regression"),
    LMSSpec(normalised=False),
)


def updated(spec: LearnerSpec, rows: FloatArray, labels: Any, weights: Any) -> Any:
    learner = get_learner(spec.learner)
    return learner.update(spec, learner.init(spec, WIDTH), rows, labels, weights)[0]


@pytest.mark.parametrize("spec", WEIGHED, ids=lambda spec: f"{spec.learner}-{spec.task}")
def test_a_weight_of_1_is_none_and_of_0_a_missing_label(spec: LearnerSpec) -> None:
    rows, labels = stream(spec, seed=1)
    plain = updated(spec, rows, labels, None)
    same_state(updated(spec, rows, labels, np.ones(len(rows))), plain)
    out = np.random.default_rng(2).random(len(rows)) < 0.3
    missing = None if spec.classifies else np.nan
    left = [missing if gone else label for gone, label in zip(out, labels, strict=True)]
    same_state(updated(spec, rows, labels, 1.0 - out), updated(spec, rows, left, None))


@pytest.mark.parametrize("spec", WEIGHED, ids=lambda spec: f"{spec.learner}-{spec.task}")
@pytest.mark.parametrize("cut", [1, 7])
def test_weighed_rows_are_learned_alike_however_they_are_cut(spec: LearnerSpec, cut: int) -> None:
    rows, labels = stream(spec, seed=3)
    weights = np.random.default_rng(4).choice([0.0, 0.3, 1.0, 2.0, 50.0], len(rows))
    learner = get_learner(spec.learner)
    state = learner.init(spec, WIDTH)
    for at in range(0, len(rows), cut):
        part = slice(at, at + cut)
        state, _ = learner.update(spec, state, rows[part], labels[part], weights[part])
    same_state(state, updated(spec, rows, labels, weights))
    assert all(np.isfinite(array).all() for array in learner.arrays(state).values())


@pytest.mark.parametrize("spec", [spec for spec in WEIGHED if spec.learner == "ridge"])
def test_a_ridge_takes_a_row_as_often_as_it_counts(spec: RidgeSpec) -> None:
    """Against the same rows repeated, where nothing is forgotten."""
    spec = dataclasses.replace(spec, forgetting=1.0)
    rows, labels = stream(spec, seed=5)
    counts = np.random.default_rng(6).integers(0, 5, len(rows))
    weighed = updated(spec, rows, labels, counts.astype(float))
    again = [label for label, count in zip(labels, counts, strict=True) for _ in range(count)]
    repeated = updated(spec, rows.repeat(counts, axis=0), again, None)
    learner, asked = get_learner("ridge"), np.random.default_rng(7).normal(size=(20, WIDTH))
    # Classes come in the same order: a repeated label is no other one.
    found = learner.values(spec, weighed, asked)
    np.testing.assert_allclose(found, learner.values(spec, repeated, asked), atol=1e-9)


@pytest.mark.parametrize("learner", ["logistic", "hinge", "pegasos"])
def test_a_steps_length_is_the_rows_weight(learner: str) -> None:
    spec = parse_learner_spec({"learner": learner})
    rows, labels = np.eye(WIDTH)[[0, 1]], ["a", "b"]
    once = updated(spec, rows, labels, np.array([1.0, 1.0]))
    more = updated(spec, rows, labels, np.array([1.0, 2.5]))
    first = updated(spec, rows[:1], labels[:1], None)
    begun = np.vstack([first.weights, first.memory if learner == "pegasos" else 0 * first.weights])
    np.testing.assert_allclose(more.weights - begun, 2.5 * (once.weights - begun), atol=1e-12)


def test_a_row_that_counts_often_is_not_overshot() -> None:
    """NLMS goes as far as the row's own error is gone, and no farther."""
    spec = LMSSpec(task="regression", scale_targets=False)
    rows, targets = np.ones((1, WIDTH)), np.array([7.0])
    state = updated(spec, rows, targets, np.array([1e6]))
    assert get_learner("lms").values(spec, state, rows)[0, 0] == pytest.approx(7.0)


@pytest.mark.parametrize("name", [name for name in LEARNERS if not get_learner(name).weighs])
def test_learners_that_cannot_weigh_rows_say_so(name: str) -> None:
    rows, labels = np.ones((4, WIDTH)), ["a", "b"] * 2
    with pytest.raises(ConfigError, match=f"left out for {name}"):
        updated(parse_learner_spec({"learner": name}), rows, labels, np.ones(4))
    with pytest.raises(ConfigError, match=r"sample_weight.*ridge"):
        SubspaceClassifier(learner=name).fit(rows, labels, sample_weight=np.ones(4))


@pytest.mark.parametrize("wrong", [[1.0, -1.0], [np.nan, 1.0], [1.0], [1e10, 1.0]])
def test_bad_weights_are_refused(wrong: list[float]) -> None:
    rows = np.ones((2, WIDTH))
    with pytest.raises(ConfigError, match=r"weights.*from 0 to 1e"):
        updated(RidgeSpec(), rows, ["a", "b"], np.array(wrong))
    for model, labels in ((SubspaceClassifier(), ["a", "b"]), (SubspaceRegressor(), [1.0, 2.0])):
        with pytest.raises(ValueError, match=r"weight|NaN"):
            model.fit(rows, labels, sample_weight=wrong)
        assert not model.__sklearn_is_fitted__()


def test_an_estimator_learns_weighed_rows_alike_however_they_are_cut() -> None:
    rng = np.random.default_rng(8)
    rows, weights = rng.normal(size=(90, 3)), rng.choice([0.0, 0.5, 3.0], 90)
    labels = np.where(rows[:, 0] > 0.0, "in", "out")
    whole = SubspaceClassifier(rank=2, warmup=40).fit(rows, labels, sample_weight=weights)
    parts = SubspaceClassifier(rank=2, warmup=40)
    for at in range(0, 90, 13):
        cut = slice(at, at + 13)
        parts.partial_fit(rows[cut], labels[cut], ["in", "out"], sample_weight=weights[cut])
    same_state(parts.learner_state_, whole.learner_state_)
    plain: Any = SubspaceClassifier(rank=2, warmup=40).fit(rows, labels).learner_state_
    weighed: Any = whole.learner_state_
    assert plain.weights.tobytes() != weighed.weights.tobytes()
