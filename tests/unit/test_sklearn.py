"""The scikit-learn estimators: scikit-learn's own checks, and the same bytes as the core."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import pickle
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from kerneltrack import LandmarkSpec, choose_landmarks, codec
from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import learn_all, run_all
from kerneltrack.learners import LearnerSpec, RidgeSpec
from kerneltrack.learners.common.inputs import own_inputs
from kerneltrack.learners.common.usual import with_inputs
from kerneltrack.registry import LEARNERS, TRACKERS, get_learner, get_tracker, parse_spec
from kerneltrack.sklearn import SubspaceClassifier, SubspaceRegressor, SubspaceTracker
from kerneltrack.trackers import Features, OKFEBSpec, OKFESpec
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.start import StartSet, start_from
from tests.oracles.learner_cases import same_state
from tests.oracles.streams import IMU, raw, state_bytes, walk
from tests.parts import examples

Array = npt.NDArray[np.float64]

ROOT = Path(__file__).resolve().parents[2]
SHUFFLED: dict[str, Any] = {"rule": "nonparametric", "forgetting": 1.0}
SMALL: dict[str, Any] = {"rank": 3, "budget": 5, "warmup": 20, "novelty_window": 100}
TRACKER_SETTINGS: dict[str, dict[str, Any]] = {
    "okfeb": SMALL,
    "okfeb-paper": {**SMALL, **SHUFFLED, "step": "inverse_norm", "start": "rank_one"},
    "okfeb-censored": {**SMALL, "kernel": "laplacian", "censor": "moving", "clip": 3.0},
    "okfeb-raw": {**SMALL, "kernel": "polynomial", "standardise": False, "emit": "q"},
    "okfe": {**SMALL, "tracker": "okfe"},
    "covariance": {**SMALL, "tracker": "covariance", "admission": "leverage", "halflife": 30.0},
}
CLASSIFIERS = tuple(LEARNERS)
REGRESSORS = tuple(name for name in LEARNERS if "regression" in LEARNERS[name].spec_type.tasks)


def told_by_default(learner: str, **options: Any) -> LearnerSpec:
    """What an estimator tells a learner: nothing comes before a row that is to be predicted."""
    settled: dict[str, Any] = {"last_label": False} if learner == "auto" else {}
    spec: LearnerSpec = LEARNERS[learner].spec_type(**settled, **options)
    return with_inputs(spec, OKFEBSpec())


def seen(
    spec: LearnerSpec, tracker: SubspaceSpec, state: Any, features: Features, rows: Any
) -> dict[str, Any]:
    """What a learner sees of rows, as `learn_all` takes it."""
    emitted = features.q if features.z is None else features.z
    own = own_inputs(tracker, state, rows, features.x)
    if spec.inputs == "both":
        return {"features": emitted, "own": own}
    return {"features": own if spec.inputs == "rows" else emitted}


def joined(given: dict[str, Any]) -> Any:
    return np.hstack([given["own"], given["features"]]) if "own" in given else given["features"]


ESTIMATORS = (SubspaceTracker, SubspaceClassifier, SubspaceRegressor)
ROWS = walk(seed=3, count=90, width=3)
LABELS = np.array(["still", "walk", "run"])[(np.abs(ROWS).sum(axis=1) // 3).astype(int) % 3]
TARGETS = ROWS @ [1.0, -2.0, 0.5]

CHECKED = [
    SubspaceTracker(),
    SubspaceClassifier(),
    SubspaceRegressor(learner="auto"),
    SubspaceClassifier(tracker="okfe", learner="logistic", warmup=30),
    SubspaceRegressor(tracker="okfe", warmup=30, learner_params={"forgetting": 1.0}),
]
"""A tracker, the usual learner for classes and targets, and both on a tracker that grows."""

ALL_CHECKED = [
    SubspaceTracker(tracker="okfe", emit="q"),
    SubspaceTracker(tracker="covariance", admission="leverage"),
    SubspaceTracker(rank=4, warmup=20, kernel="laplacian", censor="rate", policy="compensated"),
    *(SubspaceClassifier(learner=name) for name in CLASSIFIERS),
    *(SubspaceRegressor(learner=name) for name in REGRESSORS),
]


WEIGHTS = "check_sample_weights_"

# An estimator's name is the same for each of its checks, and takes a millisecond.
estimator_checks._get_check_estimator_ids = cache(estimator_checks._get_check_estimator_ids)


def expected_failures(estimator: Any) -> dict[str, str]:
    """Checks that cannot hold, and why."""
    if isinstance(estimator, SubspaceTracker):
        return {}
    order = "rows are learned in their order, and the tracker takes each once"
    found = {"check_sample_weight_equivalence_on_dense_data": order}
    if not get_learner(estimator.learner).weighs:
        about = f"rows of {estimator.learner} all count 1: it says so"
        names = ("list", "not_an_array", "pandas_series", "shape", "not_overwritten")
        found |= dict.fromkeys((WEIGHTS + name for name in names), about)
        found["check_classifiers_one_label_sample_weights"] = about
    return found


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    CHECKED, expected_failed_checks=expected_failures
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.nightly
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    ALL_CHECKED, expected_failed_checks=expected_failures
)
def test_scikit_learns_own_checks_of_every_learner(estimator: Any, check: Any) -> None:
    check(estimator)


def test_a_regressor_with_room_fits_what_scikit_learn_asks_for() -> None:
    # The one check that the tag "poor_score" of the regressor's defaults takes out.
    rows, targets = make_regression(
        n_samples=200, n_features=10, n_informative=1, bias=5.0, noise=20, random_state=42
    )
    rows, targets = StandardScaler().fit_transform(rows), scale(targets)
    model = SubspaceRegressor(rank=20, budget=40, **SHUFFLED).fit(rows, targets)
    assert model.score(rows, targets) > 0.7


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_are_the_specs_fields(estimator: Any) -> None:
    taken = {
        name: parameter.default
        for name, parameter in inspect.signature(estimator).parameters.items()
    }
    fields: dict[str, Any] = {"random_state": 0, "tracker": "okfeb", "landmarks": None}
    for name in ("okfeb", "okfe", "covariance"):
        for field in dataclasses.fields(TRACKERS[name].spec_type):
            if field.name != "seed":
                fields[field.name] = field.default
    if estimator is not SubspaceTracker:
        fields |= {"learner": "ridge", "learner_params": None}
    assert taken == fields


def test_a_tracker_without_support_vectors_is_refused() -> None:
    rows = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(ConfigError, match="tracker = 'dskpca': must be one of okfeb, okfe, cov"):
        SubspaceTracker(tracker="dskpca").fit(rows)


def spec_of(settings: dict[str, Any]) -> SubspaceSpec:
    if settings.get("tracker") == "okfe":
        return OKFESpec(rank=3, warmup=20, novelty_window=100)
    if "tracker" in settings:
        return parse_spec(settings)
    return OKFEBSpec(**settings)


every_setting = pytest.mark.parametrize(
    "options", list(TRACKER_SETTINGS.values()), ids=list(TRACKER_SETTINGS)
)


@every_setting
def test_fit_is_run_all(options: dict[str, Any]) -> None:
    spec = spec_of(options)
    model = SubspaceTracker(**options).fit(ROWS)
    state, _ = run_all(spec, ROWS)
    assert model.spec_ == spec
    assert state_bytes(model.state_) == state_bytes(state)
    features = get_tracker(spec.tracker).project(spec, state, ROWS[:7])
    assert raw(model.transform(ROWS[:7])) == raw(features.q if spec.emit == "q" else features.z)
    assert raw(model.residual(ROWS[:7])) == raw(features.loss)
    assert raw(model.novelty(ROWS[:7])) == raw(features.novelty)
    assert raw(model.score_samples(ROWS[:7])) == raw(-features.loss)


@every_setting
@pytest.mark.parametrize("learner", CLASSIFIERS)
def test_the_classifier_is_learn_all(options: dict[str, Any], learner: str) -> None:
    spec = spec_of(options)
    model = SubspaceClassifier(**options, learner=learner).fit(ROWS, LABELS)
    state, features = run_all(spec, ROWS)
    told = told_by_default(learner)
    given = seen(told, spec, state, features, ROWS)
    learned, output_text = learn_all(told, labels=LABELS.tolist(), **given)
    assert state_bytes(model.state_) == state_bytes(state)
    learned = get_learner(learner).settled(model.learner_spec_, learned)
    same_state(model.learner_state_, learned)
    assert output_text.correct is not None
    assert model.prequential_accuracy_ == output_text.correct.sum() / output_text.scored.sum()
    after = get_tracker(spec.tracker).project(spec, state, ROWS)
    given = seen(told, spec, state, after, ROWS)
    predicted = get_learner(learner).predict(model.learner_spec_, learned, joined(given))
    assert model.predict(ROWS).tolist() == predicted.names


@pytest.mark.parametrize("learner", REGRESSORS)
def test_the_regressor_is_learn_all(learner: str) -> None:
    spec = OKFEBSpec(**SMALL)
    model = SubspaceRegressor(**SMALL, learner=learner).fit(ROWS, TARGETS)
    state, features = run_all(spec, ROWS)
    reported = told_by_default(learner, task="regression")
    given = seen(reported, spec, state, features, ROWS)
    learned, output_text = learn_all(reported, labels=TARGETS, **given)
    learned = get_learner(learner).settled(reported, learned)
    same_state(model.learner_state_, learned)
    assert output_text.error is not None
    # A learner with a kernel waits for its bandwidth, and there are too few rows for that.
    assert output_text.scored.any() == (learner not in {"polk", "nolana", "fogd"})
    rmse = (
        np.sqrt(np.mean(output_text.error[output_text.scored] ** 2))
        if output_text.scored.any()
        else np.nan
    )
    assert model.prequential_rmse_ == pytest.approx(rmse, rel=1e-12, nan_ok=True)
    given = seen(reported, spec, state, get_tracker("okfeb").project(spec, state, ROWS), ROWS)
    predicted = get_learner(learner).predict(model.learner_spec_, learned, joined(given))
    assert raw(model.predict(ROWS)) == raw(predicted.value)


@pytest.mark.parametrize("standardise", [True, "moving"])
@pytest.mark.parametrize("inputs", ["rows", "features", "both"])
@pytest.mark.parametrize("learner", ["ridge", "auto"])
def test_the_learner_sees_what_inputs_says(learner: str, inputs: str, standardise: Any) -> None:
    options = {**SMALL, "standardise": standardise, "scale_window": 20}
    spec = spec_of(options)
    params = {"inputs": inputs}
    model = SubspaceRegressor(**options, learner=learner, learner_params=params)
    told = told_by_default(learner, task="regression", inputs=inputs)
    state, features = run_all(spec, ROWS, ("x",) if standardise == "moving" else ())
    given = seen(told, spec, state, features, ROWS)
    learned, _ = learn_all(told, labels=TARGETS, **given)
    same_state(model.fit(ROWS, TARGETS).learner_state_, learned)
    parts: Any = in_parts(clone(model), [1, 7, 45], TARGETS)
    same_state(parts.learner_state_, learned)
    assert raw(parts.predict(ROWS)) == raw(model.fit(ROWS, TARGETS).predict(ROWS))
    width = {"rows": 3, "features": spec.rank, "both": 3 + spec.rank}[inputs]
    assert get_learner(learner).width(told, model.learner_state_) == width


def test_a_linear_target_is_learned_by_the_defaults() -> None:
    # By the features alone, of rank 10, the score is below 0.
    rows = np.random.default_rng(4).normal(size=(1500, 6)) + 3
    targets = rows @ np.arange(6.0) + 7
    for learner in ("ridge", "auto"):
        model = SubspaceRegressor(learner=learner).fit(rows[:1000], targets[:1000])
        assert model.score(rows[1000:], targets[1000:]) > 0.99


def in_parts(estimator: Any, cuts: list[int], labels: Any = None, **first: Any) -> Any:
    """The estimator after `partial_fit` over ROWS cut at these places."""
    edges = [0, *sorted(set(cuts) - {0, len(ROWS)}), len(ROWS)]
    for start, stop in itertools.pairwise(edges):
        given = () if labels is None else (labels[start:stop],)
        estimator.partial_fit(ROWS[start:stop], *given, **first)
    return estimator


@settings(max_examples=examples(20))
@given(st.lists(st.integers(0, len(ROWS)), max_size=12), st.sampled_from(list(TRACKER_SETTINGS)))
def test_cuts_do_not_matter(cuts: list[int], name: str) -> None:
    options = TRACKER_SETTINGS[name]
    tracker = in_parts(SubspaceTracker(**options), cuts)
    whole = SubspaceTracker(**options).fit(ROWS)
    assert state_bytes(tracker.state_) == state_bytes(whole.state_)
    classes = np.unique(LABELS)
    classifier = in_parts(SubspaceClassifier(**options), cuts, LABELS, classes=classes)
    same_state(
        classifier.learner_state_, SubspaceClassifier(**options).fit(ROWS, LABELS).learner_state_
    )
    regressor = in_parts(SubspaceRegressor(**options), cuts, TARGETS)
    same_state(
        regressor.learner_state_, SubspaceRegressor(**options).fit(ROWS, TARGETS).learner_state_
    )


def test_it_is_fitted_to_the_rows_that_came_at_every_row() -> None:
    # Through the warm-up of 20 rows and past it.
    model = SubspaceClassifier(**SMALL)
    for n in range(1, 31):
        model.partial_fit(ROWS[n - 1 : n], LABELS[n - 1 : n], classes=np.unique(LABELS))
        whole = SubspaceClassifier(**SMALL).fit(ROWS[:n], LABELS[:n])
        assert model.n_samples_seen_ == n
        assert state_bytes(model.state_) == state_bytes(whole.state_)
        same_state(model.learner_state_, whole.learner_state_)
        assert model.predict(ROWS).tolist() == whole.predict(ROWS).tolist()


@pytest.mark.parametrize("learner", ["polk", "bsgd", "nolana", "fogd"])
def test_a_bandwidth_comes_from_the_rows_that_there_are(learner: str) -> None:
    # Fewer than the 100 that the learner would wait for; then as many, then more.
    rows = walk(seed=5, count=130, width=3)
    labels = np.where(rows[:, 0] > 0, "up", "down")
    begun: Any = SubspaceClassifier(**SMALL, learner=learner)
    for start, stop in ((0, 1), (1, 30), (30, 99), (99, 100), (100, 130)):
        begun.partial_fit(rows[start:stop], labels[start:stop], classes=["up", "down"])
        whole = SubspaceClassifier(**SMALL, learner=learner).fit(rows[:stop], labels[:stop])
        same_state(begun.learner_state_, whole.learner_state_)
        assert begun.prequential_accuracy_ == whole.prequential_accuracy_ or stop == 1
        assert begun.learner_state_.bandwidth[0] > 0
        if stop >= 30:
            assert (begun.predict(rows[:stop]) == labels[:stop]).mean() > 0.7
    spec = OKFEBSpec(**SMALL)
    given = seen(begun.learner_spec_, spec, *run_all(spec, rows), rows)
    learned, _ = learn_all(begun.learner_spec_, labels=labels.tolist(), **given)
    same_state(begun.learner_state_, learned)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_pickled_estimator_goes_on_as_if_it_had_not_been(estimator: Any, tmp_path: Path) -> None:
    labels = {SubspaceClassifier: LABELS, SubspaceRegressor: TARGETS}.get(estimator, TARGETS)
    reported = {"classes": np.unique(LABELS)} if estimator is SubspaceClassifier else {}
    whole = estimator(**SMALL).fit(ROWS, labels)
    for cut in (7, 50):  # in the warm-up and after it
        begun = estimator(**SMALL).partial_fit(ROWS[:cut], labels[:cut], **reported)
        path = tmp_path / f"{cut}.joblib"
        joblib.dump(begun, path)
        for copy in (pickle.loads(pickle.dumps(begun)), joblib.load(path, mmap_mode="r")):
            copy.partial_fit(ROWS[cut:], labels[cut:])
            assert state_bytes(copy.state_) == state_bytes(whole.state_)
            if estimator is not SubspaceTracker:
                same_state(copy.learner_state_, whole.learner_state_)


def test_a_memory_mapped_estimator_predicts(tmp_path: Path) -> None:
    # joblib hands its workers large arrays like this: they cannot be written to.
    model = SubspaceClassifier(**SMALL, learner="pegasos").fit(ROWS, LABELS)
    joblib.dump(model, tmp_path / "model.joblib")
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    assert not mapped.learner_state_.weights.flags.writeable
    assert mapped.predict(ROWS).tolist() == model.predict(ROWS).tolist()
    assert raw(mapped.decision_function(ROWS)) == raw(model.decision_function(ROWS))


def test_a_state_goes_into_a_snapshot() -> None:
    model = SubspaceTracker(**SMALL).fit(ROWS)
    snapshot = codec.decode(codec.encode(model.spec_, model.state_))
    assert snapshot.spec == model.spec_
    assert state_bytes(snapshot.state) == state_bytes(model.state_)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["b", "a", "c"]),
        np.array(["b", "a", "c"], dtype=object),
        np.array([7, -1, 30]),
        np.array([7, -1, 30], dtype=np.int8),
        np.array([2.0, 0.0, 1.0]),
        np.array([True, False, True]),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_come_back_in_their_type(labels: npt.NDArray[Any]) -> None:
    given = labels[np.arange(len(ROWS)) % 3]
    model = SubspaceClassifier(**SMALL).fit(ROWS, given)
    assert model.classes_.dtype == labels.dtype
    assert model.classes_.tolist() == sorted(set(labels.tolist()))
    predicted = model.predict(ROWS)
    assert predicted.dtype == labels.dtype
    codes = SubspaceClassifier(**SMALL).fit(ROWS, given.astype(str)).predict(ROWS)
    assert predicted.astype(str).tolist() == codes.tolist()


@pytest.mark.parametrize("learner", CLASSIFIERS)
def test_decision_values_are_the_learners(learner: str) -> None:
    model = SubspaceClassifier(**SMALL, learner=learner).fit(ROWS, LABELS)
    values = model.decision_function(ROWS)
    assert values.shape == (len(ROWS), 3)
    assert model.classes_[values.argmax(axis=1)].tolist() == model.predict(ROWS).tolist()
    features = get_tracker("okfeb").project(model.spec_, model.state_, ROWS)
    given = joined(seen(model.learner_spec_, model.spec_, model.state_, features, ROWS))
    output_text = get_learner(learner).predict(model.learner_spec_, model.learner_state_, given)
    assert output_text.score is not None
    assert output_text.margin is not None
    chances = model.predict_proba(ROWS)
    assert ((chances >= 0) & (chances <= 1)).all()
    np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-12)
    assert model.classes_[chances.argmax(axis=1)].tolist() == model.predict(ROWS).tolist()
    ordered = np.sort(chances, axis=1)
    np.testing.assert_allclose(ordered[:, -1], output_text.score, rtol=1e-10)
    np.testing.assert_allclose(
        ordered[:, -1] - ordered[:, -2], output_text.margin, rtol=1e-6, atol=1e-12
    )


@pytest.mark.parametrize("learner", CLASSIFIERS)
def test_two_classes_have_one_decision_value(learner: str) -> None:
    model = SubspaceClassifier(**SMALL, kernel="linear", learner=learner)
    rows = np.random.default_rng(4).normal(size=(300, 3))
    values = model.fit(rows, rows[:, 0] > 0).decision_function(rows)
    assert values.shape == (len(rows),)
    assert (values > 0).tolist() == model.predict(rows).tolist()
    assert 0 < (values > 0).sum() < len(rows)


def test_a_class_that_no_row_has_had_is_not_predicted() -> None:
    model = SubspaceClassifier(**SMALL, learner="logistic")
    model.partial_fit(ROWS, LABELS, classes=["hop", *np.unique(LABELS)])
    assert model.classes_.tolist() == ["hop", "run", "still", "walk"]
    assert (model.decision_function(ROWS)[:, 0] == np.finfo(np.float64).min).all()
    assert (model.predict_proba(ROWS)[:, 0] == 0).all()
    np.testing.assert_allclose(model.predict_proba(ROWS).sum(axis=1), 1, rtol=1e-12)
    assert set(model.predict(ROWS)) <= set(LABELS)
    # And is learned like the others when it comes.
    model.partial_fit(ROWS[:5] + 9, ["hop"] * 5)
    assert model.predict(ROWS[:1] + 9).tolist() == ["hop"]


def test_one_class_is_enough_to_predict_it() -> None:
    model = SubspaceClassifier(**SMALL).fit(ROWS, ["walk"] * len(ROWS))
    assert set(model.predict(ROWS)) == {"walk"}
    assert model.prequential_accuracy_ == 1.0


def test_classes_are_told_once() -> None:
    model = SubspaceClassifier(**SMALL)
    with pytest.raises(ValueError, match="classes must be passed"):
        model.partial_fit(ROWS, LABELS)
    model.partial_fit(ROWS, LABELS, classes=["walk", "still", "run"])
    with pytest.raises(ValueError, match="not those of the first call"):
        model.partial_fit(ROWS, LABELS, classes=["walk", "run"])
    before = state_bytes(model.state_)
    with pytest.raises(ValueError, match=r"not among the classes: \['fly'\]"):
        model.partial_fit(ROWS, np.where(LABELS == "run", "fly", LABELS))
    assert state_bytes(model.state_) == before
    with pytest.raises(ConfigError, match="labels of at most 200 characters"):
        model.fit(ROWS, np.where(LABELS == "run", "r" * 201, LABELS))


def test_a_label_is_not_taken_for_one_like_it() -> None:
    # NumPy would cut "runs" to the width of the classes' strings, and compare "1" with 1 as text.
    for classes, other in ((["run", "sit"], "runs"), ([0, 1], "1")):
        model = SubspaceClassifier(**SMALL).partial_fit(ROWS[:2], classes, classes=classes)
        with pytest.raises(ValueError, match="not among the classes"):
            model.partial_fit(ROWS[2:4], [other, other])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_errors(bad: float) -> None:
    broken = ROWS.copy()
    broken[40, 1] = bad
    model = SubspaceRegressor(**SMALL).fit(ROWS, TARGETS)
    before = state_bytes(model.state_)
    for call in (
        lambda: model.partial_fit(broken, TARGETS),
        lambda: model.predict(broken),
        lambda: model.residual(broken),
        lambda: clone(model).fit(broken, TARGETS),
        lambda: model.partial_fit(ROWS, np.where(TARGETS > 1, bad, TARGETS)),
    ):
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            call()
    assert state_bytes(model.state_) == before


def test_rows_that_are_too_large_are_errors_with_their_number() -> None:
    far = ROWS.copy()
    far[40, 1] = 1e200
    model = SubspaceTracker(**SMALL).partial_fit(ROWS[:30]).partial_fit(ROWS[30:60])
    before = state_bytes(model.state_)
    with pytest.raises(ValueError, match=r"^row 100: channel 1 = 1e\+200: too large"):
        model.partial_fit(far)
    assert state_bytes(model.state_) == before
    with pytest.raises(ValueError, match=r"^row 40: channel 1 = 1e\+200: too large"):
        model.transform(far)
    with pytest.raises(ValueError, match=r"^row 40: channel 1 = 1e\+200: too large"):
        SubspaceTracker(**SMALL).fit(far)
    with pytest.raises(ConfigError, match=r"y = 1e\+200: must be at most 1e\+100"):
        SubspaceRegressor(**SMALL).fit(ROWS, np.where(TARGETS > 1, 1e200, 0))


def test_without_a_budget_there_is_an_end() -> None:
    model = SubspaceTracker(**SMALL, tracker="okfe", max_rows=50)
    assert model.fit(ROWS[:50]).support_.tolist() == list(range(50))
    with pytest.raises(ValueError, match="row 50: the model holds max_rows = 50 rows"):
        model.partial_fit(ROWS[50:])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_before_any_row_there_is_nothing(estimator: Any) -> None:
    model = estimator()
    for name in ("support_vectors_", "support_", "gamma_", "n_samples_seen_"):
        with pytest.raises(NotFittedError):
            getattr(model, name)
        assert not hasattr(model, name)
    with pytest.raises(NotFittedError):
        model.residual(ROWS)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"rank": 0}, "rank"),
        ({"rank": 30}, "budget"),
        ({"tracker": "pca"}, "tracker"),
        ({"tracker": ["okfeb"]}, "tracker"),
        ({"gamma": "scale"}, "gamma"),
        ({"random_state": -1}, "random_state"),
        ({"learner": "svm"}, "learner"),
        ({"learner": ["ridge"]}, "learner"),
        ({"learner": "hinge"}, "task"),
        ({"learner_params": {"forgeting": 1.0}}, "learner_params"),
        ({"learner_params": {"ridge": -1.0}}, "ridge"),
        ({"learner_params": {"task": "regression"}}, "learner_params"),
        ({"learner_params": "forgetting"}, "learner_params"),
    ],
)
def test_parameters_out_of_range(options: dict[str, Any], field: str) -> None:
    model = SubspaceRegressor(**options)  # checked when the rows come, as scikit-learn asks
    with pytest.raises(ConfigError) as caught:
        model.fit(ROWS, TARGETS)
    assert caught.value.field == field
    assert not hasattr(model, "state_")


def test_parameters_may_be_numpys() -> None:
    options: dict[str, Any] = {
        "rank": np.int64(3),
        "budget": np.int32(5),
        "gamma": np.float32(2.0),
        "standardise": np.bool_(True),
        "random_state": np.int64(4),
        "learner_params": {"bias": np.bool_(False)},
    }
    model = SubspaceClassifier(**options).fit(ROWS, LABELS)
    assert model.spec_ == OKFEBSpec(rank=3, budget=5, gamma=2.0, seed=4)
    expected = RidgeSpec(bias=False, max_classes=len(set(LABELS)), inputs="both")
    assert model.learner_spec_ == expected


def test_random_state_is_the_seed() -> None:
    def seed(random_state: Any) -> int:
        return SubspaceTracker(random_state=random_state).fit(ROWS).spec_.seed

    assert seed(2**40) == 2**40
    drawn = [seed(np.random.RandomState(1)) for _ in range(2)]
    assert drawn[0] == drawn[1] != seed(np.random.RandomState(2))
    with pytest.raises(ValueError, match="cannot be used to seed"):
        seed("one")


def test_parameters_hold_from_the_first_call_on() -> None:
    model = SubspaceTracker(**SMALL).partial_fit(ROWS[:30])
    model.set_params(budget=9).partial_fit(ROWS[30:])
    assert state_bytes(model.state_) == state_bytes(SubspaceTracker(**SMALL).fit(ROWS).state_)
    assert len(model.fit(ROWS).support_) == 9


def test_stored_rows_are_rows_of_x() -> None:
    model = SubspaceTracker(**SMALL).fit(ROWS)
    assert model.support_.shape == (5,)
    np.testing.assert_allclose(model.support_vectors_, ROWS[model.support_], rtol=0, atol=1e-14)
    as_they_are = SubspaceTracker(**SMALL, standardise=False).fit(ROWS)
    assert raw(as_they_are.support_vectors_) == raw(ROWS[as_they_are.support_])
    assert as_they_are.gamma_ == float(as_they_are.state_.bandwidth[0])
    # Long before they are stored there is room for more of them than there are rows.
    assert SubspaceTracker(**SMALL).fit(ROWS[:2]).support_.tolist() == [0, 1]


def test_features_have_names() -> None:
    model = SubspaceTracker(**SMALL).fit(ROWS)
    names = ["subspacetracker0", "subspacetracker1", "subspacetracker2"]
    assert model.get_feature_names_out().tolist() == names
    assert model.n_components_ == 3


def test_a_grid_search_scores_each_fold_as_the_core_does() -> None:
    splits = TimeSeriesSplit(3)
    grid = {"rank": [2, 3], "learner_params": [{"forgetting": 0.95}, {"forgetting": 1.0}]}
    search = GridSearchCV(SubspaceClassifier(**SMALL), grid, cv=splits).fit(ROWS, LABELS)
    for place, chosen in enumerate(search.cv_results_["params"]):
        spec = OKFEBSpec(**{**SMALL, "rank": chosen["rank"]})
        learner = get_learner("ridge")
        learner_spec = told_by_default("ridge", **chosen["learner_params"])
        for fold, (train, test) in enumerate(splits.split(ROWS)):
            state, features = run_all(spec, ROWS[train])
            given = seen(learner_spec, spec, state, features, ROWS[train])
            learned, _ = learn_all(learner_spec, labels=LABELS[train].tolist(), **given)
            after = get_tracker("okfeb").project(spec, state, ROWS[test])
            z = joined(seen(learner_spec, spec, state, after, ROWS[test]))
            hits = np.array(learner.predict(learner_spec, learned, z).names) == LABELS[test]
            assert search.cv_results_[f"split{fold}_test_score"][place] == hits.mean()
    best = SubspaceClassifier(**SMALL).set_params(**search.best_params_).fit(ROWS, LABELS)
    assert search.predict(ROWS).tolist() == best.predict(ROWS).tolist()


def test_a_pipeline_learns_on_the_last_subspace() -> None:
    pipeline = make_pipeline(SubspaceTracker(**SMALL), RidgeClassifier()).fit(ROWS, LABELS)
    spec = OKFEBSpec(**SMALL)
    z = get_tracker("okfeb").project(spec, run_all(spec, ROWS)[0], ROWS).z
    expected = RidgeClassifier().fit(z, LABELS).predict(z)
    assert pipeline.predict(ROWS).tolist() == expected.tolist()


def test_on_a_watch_it_beats_a_linear_model(sample: Path) -> None:
    table = pq.read_table(sample)
    table = table.take(np.random.default_rng(0).permutation(table.num_rows)[:8000])
    rows = np.column_stack([table[name].to_numpy().astype(np.float64) for name in IMU])
    labels = np.array(table["label"].to_pylist())
    train, test = slice(0, 6000), slice(6000, 8000)
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    ours = SubspaceClassifier(rank=40, budget=40, **SHUFFLED)
    # .407 and .613; the largest of the seven classes has .161 of the rows.
    assert linear.fit(rows[train], labels[train]).score(rows[test], labels[test]) < 0.45
    assert ours.fit(rows[train], labels[train]).score(rows[test], labels[test]) > 0.57
    assert ours.prequential_accuracy_ > 0.57


WITHOUT = """
import sys
sys.modules["sklearn"] = None
try:
    import kerneltrack.sklearn
except ImportError as error:
    print(error)
"""
OLD = """
import sys
import sklearn.utils.validation
del sklearn.utils.validation.validate_data
try:
    import kerneltrack.sklearn
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("script", [WITHOUT, OLD], ids=["missing", "older than 1.6"])
def test_without_scikit_learn_one_line_says_what_to_install(script: str) -> None:
    done = run(script)
    assert done.stdout.splitlines() == [
        "kerneltrack.sklearn needs scikit-learn 1.6 or newer: "
        "pip install '.[sklearn]' in a clone of kerneltrack"
    ], done.stderr


def test_nothing_else_imports_scikit_learn() -> None:
    names = sorted(
        path.relative_to(ROOT).as_posix().removesuffix(".py").removesuffix("/__init__")
        for path in (ROOT / "kerneltrack").rglob("*.py")
        if "kerneltrack/sklearn" not in path.as_posix()
    )
    imports = "\n".join(f"import {name.replace('/', '.')}" for name in names)
    assert "import kerneltrack.trackers.okfeb.okfeb" in imports
    done = run(f"import sys\nsys.modules['sklearn'] = None\n{imports}\nprint('imported')")
    assert done.stdout == "imported\n", done.stderr


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("tracker", ["okfeb", "covariance"])
def test_landmarks_are_what_the_subspace_begins_with(tracker: str) -> None:
    landmarks = ROWS[[3, 17, 44, 60]]
    options = {**SMALL, "tracker": tracker}
    model = SubspaceTracker(**options, landmarks=landmarks).fit(ROWS[:1])
    # Under the scale of the rows that came: one row, which says nothing of it.
    assert model.support_[: len(landmarks)].tolist() == [-1] * len(landmarks)
    whole = SubspaceTracker(**options, landmarks=landmarks).fit(ROWS)
    parts = in_parts(SubspaceTracker(**options, landmarks=landmarks), [1, 7, 30])
    assert state_bytes(whole.state_) == state_bytes(parts.state_)
    assert state_bytes(whole.state_) != state_bytes(SubspaceTracker(**options).fit(ROWS).state_)
    assert whole.n_samples_seen_ == len(ROWS)


def test_chosen_landmarks_bring_their_scale() -> None:
    chosen = choose_landmarks(LandmarkSpec(method="kmeans", count=5), ROWS)
    model = SubspaceTracker(**SMALL, landmarks=chosen).fit(ROWS)
    start = StartSet(
        chosen.rows, chosen.shift, chosen.scale, chosen.gamma, "gaussian", standardise=True
    )
    spec = model.spec_
    state, _ = get_tracker("okfeb").update(spec, start_from(spec, start), ROWS)
    assert state_bytes(model.state_) == state_bytes(state)
    np.testing.assert_allclose(model.gamma_, chosen.gamma)
    classifier = SubspaceClassifier(**SMALL, landmarks=chosen).fit(ROWS, LABELS)
    assert clone(classifier).fit(ROWS, LABELS).score(ROWS, LABELS) == classifier.score(ROWS, LABELS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"landmarks": [[1.0, 2.0]]}, "landmarks.*as wide as X"),
        ({"landmarks": [1.0, 2.0]}, "Expected 2D array"),
        ({"landmarks": ROWS[:9]}, "budget = 5: must be at least 9"),
        ({"landmarks": ROWS[:3] * np.nan}, "landmarks contains NaN"),
        ({"landmarks": ROWS[:3], "tracker": "okfe"}, "to start from landmarks"),
    ],
)
def test_landmarks_that_no_subspace_can_begin_with(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SubspaceTracker(**{**SMALL, **options}).fit(ROWS)


def test_sets_hold_the_share_of_labels_that_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4_000, 2))
    labels = np.where(rows[:, 0] + rng.normal(size=4_000) > 0, 7, np.where(rows[:, 1] > 0, 3, 5))
    model = SubspaceClassifier(
        rank=20, budget=40, rule="nonparametric", forgetting=1.0, learner_params={"intervals": 0.9}
    ).fit(rows[:2_500], labels[:2_500])
    sets = model.predict_set(rows[2_500:])
    assert sets.shape == (1_500, 3) and sets.dtype == np.bool_
    place = np.searchsorted(model.classes_, labels[2_500:])
    # One bound for all rows, as for intervals.
    assert abs(sets[np.arange(1_500), place].mean() - 0.9) < 0.08
    assert 1.0 < sets.sum(axis=1).mean() < 3.0
    with pytest.raises(ValueError, match=r"intervals.: 0\.9"):
        SubspaceClassifier().fit(rows, labels).predict_set(rows)


def test_intervals_hold_the_share_of_targets_that_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3_000, 2))
    targets = np.sin(rows[:, 0]) + 0.2 * rng.normal(size=3_000) + 1e4
    model = SubspaceRegressor(
        rank=20, budget=40, rule="nonparametric", forgetting=1.0, learner_params={"intervals": 0.9}
    ).fit(rows[:2_000], targets[:2_000])
    lower, upper = model.predict_interval(rows[2_000:]).T
    inside = (lower <= targets[2_000:]) & (targets[2_000:] <= upper)
    # One bound for all of 1,000 rows: four deviations of what 100 of the last errors know.
    assert abs(inside.mean() - 0.9) < 0.08
    assert model.score(rows[2_000:], targets[2_000:]) > 0.9
    with pytest.raises(ValueError, match=r"intervals.: 0\.9"):
        SubspaceRegressor().fit(rows, targets).predict_interval(rows)
