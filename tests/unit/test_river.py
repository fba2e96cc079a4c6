"""River's own checks, and what the adapters promise beyond them."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from river import checks, datasets, linear_model

import kerneltrack as kt
from kerneltrack.in_memory import learn_all
from kerneltrack.learners import AutoSpec
from kerneltrack.registry import get_learner
from kerneltrack.river import (
    OnlineClassifier,
    OnlineRegressor,
    SubspaceDetector,
    SubspaceFeatures,
)
from tests.oracles.streams import walk

ESTIMATORS = (SubspaceFeatures, SubspaceDetector, OnlineClassifier, OnlineRegressor)


class _Cards:
    """In place of River's data set of credit cards, which has to be fetched."""

    def take(self, count: int) -> Iterator[tuple[dict[str, float], bool]]:
        rows = np.random.default_rng(5).normal(size=(count, 6))
        odd = np.arange(count) % 50 == 49
        rows[odd] *= 4
        for row, label in zip(rows.tolist(), odd.tolist(), strict=True):
            yield {f"V{place}": value for place, value in enumerate(row)}, label


def cases() -> Iterator[Any]:
    """Yield River's checks; with each change each of them once for a class, not on all rows."""
    seen: set[tuple[Any, str]] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "CreditCard", _Cards)
        for estimator in ESTIMATORS:
            for params in estimator._unit_test_params():
                model = estimator(**params)
                for number, check in enumerate(checks.yield_checks(model)):
                    of = params.get("tracker", params.get("learner", "default"))
                    name = f"{estimator.__name__}-{of}-{number}"
                    once = (estimator, check.__name__)
                    marks = (pytest.mark.nightly,) if once in seen else ()
                    seen.add(once)
                    yield pytest.param(model, check, marks=marks, id=f"{name}-{check.__name__}")


@pytest.mark.parametrize(("model", "check"), list(cases()))
def test_rivers_own_checks(model: Any, check: Callable[[Any], None]) -> None:
    check(copy.deepcopy(model))


def test_the_classifier_says_what_its_learner_does() -> None:
    """Classes of any type; rows standardised by the first ones, clipped, over √D."""
    rows = walk(4, 200, 4)
    labels = [("low", "high")[int(row[0] > row[1])] for row in rows]
    model = OnlineClassifier(warmup=50, settings={"budget": 10})
    assert model.predict_proba_one({"a": 1.0}) == {}
    for number, (row, label) in enumerate(zip(rows, labels, strict=True)):
        named = dict(zip("abcd", row.tolist(), strict=True))
        if 0 < number < 50:
            share = labels[:number].count(label) / number
            assert model.predict_proba_one(named).get(label, 0.0) == share
        model.learn_one(named, label)
    first = rows[:50]
    own = np.clip((rows - first.mean(axis=0)) / first.std(axis=0), -4, 4) / 2
    spec = AutoSpec(budget=10)
    state, _ = learn_all(spec, own, labels)
    for row, inputs in zip(rows[:20], own[:20], strict=True):
        found = model.predict_proba_one(dict(zip("abcd", row.tolist(), strict=True)))
        (expected,) = get_learner("auto").probabilities(spec, state, inputs[None])
        assert list(found) == list(state.classes)
        np.testing.assert_allclose(list(found.values()), expected, atol=1e-6)
        assert sum(found.values()) == pytest.approx(1.0, rel=1e-12)


def test_both_give_what_the_tracker_says() -> None:
    rows = walk(3, 120, 4)
    params: dict[str, Any] = {"rank": 4, "budget": 8, "warmup": 50}
    features, detector = SubspaceFeatures(**params), SubspaceDetector(**params)
    tracker = kt.Tracker(**params)
    for row in rows:
        named = dict(zip("abcd", row.tolist(), strict=True))
        output_text = tracker.look(row)
        if output_text is None:
            assert features.transform_one(named) == {f"z{place}": 0.0 for place in range(4)}
            assert detector.score_one(named) == 0.0
        else:
            assert list(features.transform_one(named).values()) == output_text.z.tolist()
            assert detector.score_one(named) == output_text.novelty
        features.learn_one(named)
        detector.learn_one(dict(reversed(named.items())))
        tracker.learn(row)
    assert tracker.rows == 120


def test_a_pipeline_beats_a_linear_model_where_classes_are_no_halves() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(2500, 2))

    def right(model: Any) -> float:
        found = 0
        for place, row in enumerate(rows.tolist()):
            x, y = {"a": row[0], "b": row[1]}, bool(row[0] * row[0] + row[1] * row[1] > 1.4)
            found += place >= 1000 and model.predict_one(x) == y
            model.learn_one(x, y)
        return found / 1500

    ours = right(SubspaceFeatures(rank=8, warmup=100) | linear_model.LogisticRegression())
    assert ours > 0.75
    assert right(linear_model.LogisticRegression()) < 0.65


def test_names_that_come_and_go() -> None:
    model = SubspaceFeatures(rank=2, budget=4, warmup=20)
    for number in range(20):
        model.learn_one({"a": number % 3, "b": number % 5} if number else {"a": 0.5})
    known = model.transform_one({"a": 1.0, "b": 0.0})
    assert known == model.transform_one({"a": 1.0}) == model.transform_one({"a": 1.0, "c": 9.0})
    with pytest.raises(kt.ConfigError, match="feature 'b' = 'red'"):
        model.learn_one({"a": 1.0, "b": "red"})
    with pytest.raises(kt.DataError, match="feature 'a' is nan"):
        model.learn_one({"a": float("nan")})


def test_a_copy_goes_on_by_itself() -> None:
    model = SubspaceDetector(rank=4, budget=8, warmup=50)
    rows = [dict(zip("abcd", row.tolist(), strict=True)) for row in walk(3, 120, 4)]
    for row in rows[:80]:
        model.learn_one(row)
    other, again = pickle.loads(pickle.dumps(model)), copy.deepcopy(model)
    for row in itertools.islice(rows, 80, None):
        assert model.score_one(row) == other.score_one(row) == again.score_one(row)
        for each in (model, other, again):
            each.learn_one(row)


@pytest.mark.parametrize("cuts", [(0, 300), (0, 10, 60, 61, 300)])
def test_many_rows_are_learned_as_one_after_the_other(cuts: tuple[int, ...]) -> None:
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    targets = pd.Series(50.0 + frame["a"] ** 2 + frame["b"])
    classes = pd.Series(np.where(targets > 51, "high", "low"))
    for kind, labels in ((OnlineClassifier, classes), (OnlineRegressor, targets)):
        one, many = (kind(warmup=50, settings={"budget": 10}) for _ in range(2))
        for row, label in zip(frame.to_dict("records"), labels.tolist(), strict=True):
            one.learn_one(row, label)
        for start, stop in itertools.pairwise(cuts):
            many.learn_many(frame.iloc[start:stop], labels.iloc[start:stop])
        # Columns in another order, and one that is missing: it counts as 0.
        fresh = frame[["c", "a"]].iloc[:5]
        alone = [one.predict_one(row) for row in fresh.to_dict("records")]
        found = many.predict_many(fresh)
        assert (found.tolist(), found.index.tolist()) == (alone, fresh.index.tolist())
        if isinstance(one, OnlineClassifier) and isinstance(many, OnlineClassifier):
            chances = [one.predict_proba_one(row) for row in fresh.to_dict("records")]
            assert many.predict_proba_many(fresh).to_dict("records") == chances
        with pytest.raises(kt.ConfigError, match="y = '1 labels'"):
            many.learn_many(frame.iloc[:2], labels.iloc[:1])


def test_the_regressor_predicts_targets_of_any_unit() -> None:
    rng = np.random.default_rng(7)
    model, errors = OnlineRegressor(warmup=50, settings={"intervals": 0.9}), []
    assert model.predict_one({"a": 1.0}) == 0.0
    for number, (a, b) in enumerate(rng.normal(size=(1_000, 2)).tolist()):
        row, target = {"a": a, "b": b}, 101_325.0 + 20.0 * (a * a + b)
        if number == 3:
            assert 101_000 < model.predict_one(row) < 102_000
        errors.append(target - model.predict_one(row))
        model.learn_one(row, target)
    assert np.std(errors[300:]) < 0.2 * 20.0 * np.sqrt(3.0)
