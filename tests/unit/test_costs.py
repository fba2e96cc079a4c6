"""Costs of errors and weights of classes: the class of least expected cost is predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.export.frozen import freeze_head
from kerneltrack.in_memory import learn_all
from kerneltrack.learners import AutoSpec, FOGDSpec, HingeSpec, LearnerSpec, POLKSpec, RidgeSpec
from kerneltrack.learners.common.base import SUMS
from kerneltrack.learners.common.costs import checked_costs, table_of
from kerneltrack.registry import get_learner, parse_learner_spec
from kerneltrack.trackers import OKFEBSpec
from pipelines.cli.costs_file import read_costs
from tests.oracles.learner_cases import CLASSES, WIDTH, stream

COSTS = (("run", "walk", 30.0), ("walk", "run", 0.1), ("still", "still", 0.5))
SPECS = (
    RidgeSpec(costs=COSTS),
    RidgeSpec(class_weight="balanced"),
    HingeSpec(class_weight="root", costs=COSTS, intervals=0.9),
    POLKSpec(warmup=20, budget=12, class_weight="balanced", costs=COSTS),
    FOGDSpec(warmup=20, budget=30, class_weight="root"),
    AutoSpec(budget=8, inputs="features", class_weight="balanced"),
    AutoSpec(budget=8, inputs="features", class_weight="root", costs=COSTS),
)


def cheapest(
    spec: LearnerSpec, classes: tuple[str, ...], chances: Any, seen: dict[str, int]
) -> tuple[int, list[float]]:
    """The class of least expected cost and what each costs, by the equation of `costs`."""
    given = {(label, prediction): cost for label, prediction, cost in spec.costs}
    power = {None: 0.0, "root": 0.5, "balanced": 1.0}[spec.class_weight]
    weights = [max(seen.get(name, 0), 1) ** -power for name in classes]
    expected = [
        sum(
            weight * chance * given.get((label, prediction), float(label != prediction))
            for label, weight, chance in zip(classes, weights, chances, strict=True)
        )
        for prediction in classes
    ]
    return int(np.argmin(expected)), expected


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.learner}-{spec.class_weight}")
def test_the_class_of_least_expected_cost_is_predicted(spec: LearnerSpec) -> None:
    learner = get_learner(spec.learner)
    rows, labels = stream(spec, seed=5)
    state, seen, moved = learner.init(spec, WIDTH), dict[str, int](), 0
    for row, label in zip(rows, labels, strict=True):
        state_before = state
        state, output_text = learner.update(spec, state, row[None], [label])
        assert output_text.code is not None and output_text.margin is not None
        if state_before.classes and output_text.valid[0]:
            (chances,) = learner.probabilities(spec, state_before, row[None])
            best, expected = cheapest(spec, state_before.classes, chances, seen)
            least, second = sorted(expected)[:2] if len(expected) > 1 else (expected[0], np.inf)
            if second - least > 1e-9 * abs(second):
                assert output_text.code[0] == best
            moved += output_text.margin[0] < 0.0
        if label is not None and output_text.valid[0]:
            seen[label] = seen.get(label, 0) + 1
    assert moved > 5
    if spec.class_weight:
        counted = state.sums[SUMS : SUMS + len(state.classes)].tolist()
        assert counted == [seen[name] for name in state.classes]


@pytest.mark.parametrize("learner", ["ridge", "auto", "polk"])
def test_what_is_learned_stays_as_it_is(learner: str) -> None:
    plain = parse_learner_spec({"learner": learner})
    weighed = parse_learner_spec({"learner": learner, "class_weight": "root", "costs": COSTS})
    rows, labels = stream(plain, seed=6)
    state, _ = learn_all(plain, rows, labels)
    other, _ = learn_all(weighed, rows, labels)
    found = get_learner(learner).probabilities(weighed, other, rows)
    assert found.tobytes() == get_learner(learner).probabilities(plain, state, rows).tobytes()


def test_late_labels_are_counted_once() -> None:
    spec = RidgeSpec(class_weight="balanced")
    learner = get_learner(spec.learner)
    rows, labels = stream(spec, seed=7)
    state, output_text = learner.update(spec, learner.init(spec, WIDTH), rows, None)
    state, _ = learner.score(spec, state, output_text, labels)
    assert not state.sums[SUMS:].any()
    state = learner.learn(spec, state, rows, labels)
    fit = [label for label, good in zip(labels, output_text.valid, strict=True) if good]
    counted = state.sums[SUMS : SUMS + len(state.classes)].tolist()
    assert counted == [fit.count(name) for name in state.classes]


@pytest.mark.parametrize("wrong", [-1.0, 0.5, np.nan, np.inf])
def test_damaged_counts_are_refused(wrong: float) -> None:
    spec = RidgeSpec(class_weight="balanced")
    learner = get_learner(spec.learner)
    rows, labels = stream(spec, seed=8)
    state, _ = learn_all(spec, rows, labels)
    arrays = {name: array.copy() for name, array in learner.arrays(state).items()}
    arrays["sums"][SUMS + 1] = wrong
    with pytest.raises(ConfigError, match=r"state\.sums"):
        learner.from_arrays(spec, arrays, learner.header(state))


@given(st.permutations(range(4)), st.integers(0, 4))
def test_the_table_goes_by_names(order: list[int], count: int) -> None:
    classes = tuple(CLASSES[place] for place in order[:count])
    table = table_of(COSTS, classes)
    expected = {(label, prediction): cost for label, prediction, cost in COSTS}
    for at, label in enumerate(classes):
        for to, prediction in enumerate(classes):
            assert table[at, to] == expected.get((label, prediction), float(at != to))
    assert table.shape == (count, count)


@pytest.mark.parametrize(
    ("entries", "about"),
    [
        ("run", "a list of true class"),
        ([["run", "walk"]], "a list of true class"),
        ([{"true": "run", "cost": 3}], "with true, predicted, cost"),
        ([["run", "walk", -1]], "a cost from 0 to 1e"),
        ([["run", "walk", "much"]], "a cost from 0 to 1e"),
        ([["run", "walk", True]], "a cost from 0 to 1e"),
        ([["run", "walk", float("nan")]], "a cost from 0 to 1e"),
        ([[None, "walk", 1]], "the name of a class"),
        ([[False, "walk", 1]], "in quotes"),
        ([["run", "walk", 1], ["run", "walk", 2]], "each pair of classes once"),
        ([["run", "walk", 1]] * 10_001, "at most 10000"),
    ],
)
def test_bad_costs_are_refused(entries: Any, about: str) -> None:
    with pytest.raises(ConfigError, match="costs") as caught:
        RidgeSpec(costs=entries)
    assert about in str(caught.value)


def test_targets_have_no_classes() -> None:
    for values in ({"class_weight": "balanced"}, {"costs": COSTS}):
        with pytest.raises(ConfigError, match="left out in regression"):
            parse_learner_spec({"learner": "ridge", "task": "regression", **values})
    with pytest.raises(ConfigError, match="one of balanced, root"):
        RidgeSpec(class_weight="equal")


def test_specs_with_costs_go_through_plain_values() -> None:
    spec = RidgeSpec(costs=COSTS)
    assert spec.to_dict()["costs"] == [list(entry) for entry in COSTS]
    assert parse_learner_spec(spec.to_dict()) == spec


def test_files_of_costs_are_read(tmp_path: Path) -> None:
    table, listed = tmp_path / "costs.csv", tmp_path / "costs.yaml"
    table.write_text("predicted,true,cost\nok,fault,50\n7,ok,0.5\n", encoding="utf-8")
    listed.write_text(
        "- {true: fault, predicted: ok, cost: 50}\n- [ok, 7, 0.5]\n", encoding="utf-8"
    )
    expected = (("fault", "ok", 50.0), ("ok", "7", 0.5))
    assert read_costs(str(table)) == read_costs(str(listed)) == expected
    assert checked_costs(expected) == expected


@pytest.mark.parametrize(
    ("name", "text", "about"),
    [
        ("a.csv", "label,predicted,cost\na,b,1\n", "must have the columns true, predicted, cost"),
        ("a.csv", "true,predicted,cost\na,b\n", "line 2 has 2 values"),
        ("a.csv", "true,predicted,cost\n", "holds no costs"),
        ("a.csv", "true,predicted,cost\na,b,x\n", "'x'"),
        ("a.yaml", "a: 1\n", "must hold a list"),
        ("a.yaml", "- {true: off, predicted: b, cost: 1}\n", "in quotes"),
        ("a.yaml", "- [\n", "not YAML"),
    ],
)
def test_bad_files_of_costs_are_refused(tmp_path: Path, name: str, text: str, about: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=name) as caught:
        read_costs(str(path))
    assert about in str(caught.value)


def test_a_model_that_predicts_by_cost_is_not_exported_as_another() -> None:
    for values in ({"class_weight": "balanced"}, {"costs": COSTS}):
        spec = parse_learner_spec({"learner": "ridge", "inputs": "features", **values})
        rows, labels = stream(spec, seed=9)
        state, _ = learn_all(spec, rows, labels)
        with pytest.raises(ConfigError, match="the likeliest is predicted"):
            freeze_head(spec, state, OKFEBSpec(rank=WIDTH), WIDTH)
