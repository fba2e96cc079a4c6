"""Classes that appear, are too many or misspelt; settings that are out of range."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import learn_all
from kerneltrack.learners import AutoSpec, LearnerSpec, LMSSpec, POLKSpec, RidgeSpec
from kerneltrack.learners.kernel.spec import KernelSpec
from kerneltrack.registry import LEARNERS, get_learner, parse_learner_spec
from tests.oracles.learner_cases import WIDTH, begun, every_classifier, every_spec, same_state


def at_once(spec: LearnerSpec) -> LearnerSpec:
    """The spec of a learner that does not wait for more rows before it learns."""
    if isinstance(spec, POLKSpec):
        return dataclasses.replace(spec, gamma=1.0, batch=1)
    return dataclasses.replace(spec, gamma=1.0) if isinstance(spec, KernelSpec) else spec


@every_classifier
def test_classes_appear_on_the_fly(spec: LearnerSpec) -> None:
    spec = dataclasses.replace(at_once(spec), max_classes=100)
    learner = get_learner(spec.learner)
    rows = np.eye(3)[[0, 1, 0, 2, 2]] + 0.01
    state, output_text = learner.update(
        spec, learner.init(spec, 3), rows, ["b", "a", "b", "c", "c"]
    )
    assert output_text.classes == state.classes == ("b", "a", "c")
    assert output_text.names[0] is None and output_text.names[1] == "b"
    assert output_text.scored.tolist() == [False, True, True, True, True]
    assert output_text.correct is not None and not output_text.correct[[0, 1, 3]].any()
    assert learner.predict(spec, state, rows[3:]).names == ["c", "c"]
    state = learner.learn(spec, state, rows[:1], ["z"])
    assert state.classes == (*output_text.classes, "z")


@every_classifier
def test_rows_of_a_class_too_many_are_scored_and_not_learned(spec: LearnerSpec) -> None:
    spec = dataclasses.replace(at_once(spec), max_classes=2)
    learner = get_learner(spec.learner)
    rows = np.random.default_rng(7).normal(size=(6, 3))
    state, output_text = learner.update(
        spec, learner.init(spec, 3), rows, ["a", "b", "c", "a", "d", None]
    )
    assert state.classes == ("a", "b")
    assert output_text.scored.tolist() == [False, True, True, True, True, False]
    assert output_text.correct is not None and not output_text.correct[[2, 4]].any()
    counters = learner.counters(state)
    assert (counters["learned"], counters["unusable"], counters["scored"]) == (3, 2, 4)
    kept = learn_all(spec, rows[[0, 1, 3]], ["a", "b", "a"])[0]
    held, alone = learner.arrays(state), learner.arrays(kept)
    for name in held.keys() - {"counts", "sums"}:
        assert held[name].tobytes() == alone[name].tobytes(), name


@every_classifier
def test_names_too_long_are_not_learned(spec: LearnerSpec) -> None:
    state, _ = learn_all(spec, np.eye(3), ["a", "x" * 201, "x" * 200])
    assert state.classes == ("a", "x" * 200)
    assert get_learner(spec.learner).counters(state)["unusable"] == 1


@every_classifier
def test_labels_may_be_an_array_of_names(spec: LearnerSpec) -> None:
    rows, names = np.eye(3), ["a", "b", "a"]
    expected = learn_all(spec, rows, names)[0]
    for labels in (np.array(names), np.array(names, dtype=object)):
        state = learn_all(spec, rows, labels)[0]
        same_state(state, expected)
        assert all(type(name) is str for name in state.classes)


@every_classifier
@pytest.mark.parametrize(
    "labels", [["a", 1, "b"], ["a", float("nan"), "b"], ["a", [], "b"], ["a"], np.zeros(3)]
)
def test_wrong_classes_are_refused(spec: LearnerSpec, labels: Any) -> None:
    with pytest.raises(ConfigError, match="labels"):
        learn_all(spec, np.eye(3), labels)


@pytest.mark.parametrize("labels", [["a", "b", "c"], np.zeros((3, 1)), np.zeros(2), [{}, 1, 2]])
def test_wrong_targets_are_refused(labels: Any) -> None:
    with pytest.raises(ConfigError, match="labels"):
        learn_all(RidgeSpec(task="regression"), np.eye(3), labels)


@every_spec
@pytest.mark.parametrize("shape", [(3,), (2, WIDTH + 1), (1, 2, WIDTH)])
def test_wrong_features_are_refused(spec: LearnerSpec, shape: tuple[int, ...]) -> None:
    learner, state = begun(spec)
    with pytest.raises(ConfigError, match="features"):
        learner.predict(spec, state, np.zeros(shape))


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"learner": "svm"}, "learner"),
        ({"learner": "ridge", "forgeting": 1}, "forgetting"),
        ({"learner": "ridge", "forgetting": 0.5}, "forgetting"),
        ({"learner": "ridge", "ridge": 0}, "ridge"),
        ({"learner": "pegasos", "task": "regression"}, "task"),
        ({"learner": "hinge", "ridge": -0.5}, "ridge"),
        ({"learner": "logistic", "step_size": "fast"}, "step_size"),
        ({"learner": "lms", "step_size": 2}, "step_size"),
        ({"learner": "lms", "normalised": 1}, "normalised"),
        ({"max_classes": 0}, "max_classes"),
        ({"bias": "yes"}, "bias"),
        ({"task": "ranking"}, "task"),
    ],
    ids=str,
)
def test_wrong_settings_are_named(values: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        parse_learner_spec(values)


def test_specs_are_plain_values() -> None:
    for name, learner in LEARNERS.items():
        spec = learner.spec_type()
        assert spec.learner == name == learner.name
        assert parse_learner_spec(spec.to_dict()) == spec
        assert len(spec.digest()) == 16
        assert spec.digest() != dataclasses.replace(spec, max_classes=7).digest()
    assert parse_learner_spec({}) == AutoSpec()
    assert parse_learner_spec({"learner": "lms", "step_size": "1e-1"}) == LMSSpec(step_size=0.1)


@pytest.mark.parametrize("width", [0, 20_001, 1.5])
def test_wrong_widths_are_refused(width: Any) -> None:
    with pytest.raises(ConfigError, match="width"):
        get_learner("ridge").init(RidgeSpec(), width)
