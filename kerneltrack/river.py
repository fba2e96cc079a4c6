"""River's interfaces: features, a detector, a classifier and a regressor that learn row by row.

In the first `warmup` rows nothing is known yet: features and scores are 0. Channels are the names
that these rows have; one that is missing later counts as 0, as absent features do in River, and
names that come up later are ignored.
"""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from river import base

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.learners.common.inputs import own_inputs
from kerneltrack.learners.common.spec import CLASSIFICATION, REGRESSION, ROWS, LearnerSpec
from kerneltrack.registry import get_learner, parse_learner_spec, parse_spec
from kerneltrack.tracker import Tracker

# Before River 0.24 it was somewhere else.
_Detector: Any = (
    base.AnomalyDetector
    if hasattr(base, "AnomalyDetector")
    else importlib.import_module("river.anomaly.base").AnomalyDetector
)


class _Subspace(base.Estimator):
    """What both share: rows in, a tracker that learns them."""

    def __init__(
        self,
        tracker: str = "okfeb",
        rank: int = 10,
        budget: int = 20,
        warmup: int = 500,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.tracker = tracker
        self.rank = rank
        self.budget = budget
        self.warmup = warmup
        self.settings = settings
        values = {"tracker": tracker, "rank": rank, "budget": budget, "warmup": warmup}
        self._model = Tracker(parse_spec({**values, **(settings or {})}))
        self._first: list[dict[Any, float]] = []
        self._names: tuple[Any, ...] = ()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"rank": 4, "budget": 8, "warmup": 20}
        yield {"tracker": "covariance", "rank": 4, "budget": 8, "warmup": 20}

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Learn a row.

        Args:
            x: Numbers by name.

        Raises:
            ConfigError: for a value that is no number.
            DataError: for one that is not finite; nothing is learned of the row then.
        """
        self._learn(x)

    def _learn(self, x: Mapping[Any, Any]) -> list[list[float]]:
        """Learn a row; return those that were learned by now: none, all first ones, or this one."""
        if self._model.started:
            rows = [self._row(x)]
        else:
            self._first.append({name: _number(name, value) for name, value in x.items()})
            if len(self._first) < self._model.spec.rows_to_start:
                return []
            self._names = tuple(sorted({name for row in self._first for name in row}, key=str))
            rows = [self._row(row) for row in self._first]
            self._first = []
        for row in rows:
            self._model.learn(row)
        return rows

    def _row(self, x: Mapping[Any, Any]) -> list[float]:
        return [_number(name, x[name]) if name in x else 0.0 for name in self._names]


def _number(name: Any, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"feature {name!r}", value, "a number") from error
    if not np.isfinite(number):
        raise DataError("row", f"feature {name!r} is {number}")
    return number


class SubspaceFeatures(_Subspace, base.Transformer):
    """Nonlinear features of rows: their coordinates in a kernel subspace that follows them.

    What `kerneltrack.Tracker` learns; `transform_one` projects on the subspace as it is. So
    `SubspaceFeatures() | linear_model.LogisticRegression()` is a nonlinear learner whose memory
    does not grow.

    Args:
        tracker: Name of the tracker.
        rank: Features.
        budget: Rows that it stores at most.
        warmup: First rows, which scale and bandwidth are taken from.
        settings: Further settings of the tracker by name.

    Example:
        >>> from river import linear_model
        >>> model = SubspaceFeatures(rank=5, warmup=100) | linear_model.LogisticRegression()
        >>> right = 0
        >>> for a, b in np.random.default_rng(0).normal(size=(2000, 2)).tolist():
        ...     x, y = {"a": a, "b": b}, a * a + b * b > 1.4
        ...     right += model.predict_one(x) == y
        ...     model.learn_one(x, y)
        >>> right > 1300
        True
    """

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Hashable, Any]:
        """Return the features of a row, z0, z1, ..., without learning it."""
        spec = self._model.spec
        answer = self._model.look(self._row(x)) if self._model.started else None
        values = [0.0] * spec.rank if answer is None else answer.z.tolist()
        return {f"{spec.emit}{place}": value for place, value in enumerate(values)}


class SubspaceDetector(_Subspace, _Detector):  # type: ignore[misc]
    """How badly the subspace of the rows so far explains a row.

    The score is the rank of its fitting error among the last ones, from 0 to 1. It follows the
    stream, so that what lasts becomes usual; `kerneltrack.monitor.ReferenceDetector` holds rows
    against a fixed stretch.

    Args:
        tracker: Name of the tracker.
        rank: Dimension of the subspace.
        budget: Rows that it stores at most.
        warmup: First rows, which scale and bandwidth are taken from.
        settings: Further settings of the tracker by name.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> detector = SubspaceDetector(rank=4, warmup=100)
        >>> for a, b in rng.normal(size=(400, 2)):
        ...     detector.learn_one({"a": a, "b": b})
        >>> detector.score_one({"a": 9.0, "b": -9.0}) > 0.9
        True
    """

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return how odd a row is, from 0 to 1, without learning it; 0 in the warm-up."""
        answer = self._model.look(self._row(x)) if self._model.started else None
        return 0.0 if answer is None else answer.novelty


class _OnlineLearner(_Subspace):
    """What classifier and regressor share: a learner on rows that the first ones standardise."""

    _task = CLASSIFICATION

    def __init__(
        self,
        learner: str = "auto",
        warmup: int = 100,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        # Of the tracker only the scale is used: the cheapest there is.
        super().__init__(rank=1, budget=1, warmup=warmup)
        self.learner = learner
        self.settings = settings
        fields = {"learner": learner, **(settings or {}), "task": self._task, "inputs": ROWS}
        self._spec: LearnerSpec = parse_learner_spec(fields)
        self._state: Any = None
        self._labels: list[Any] = []
        self._scale: Any = None

    def _learn_labelled(self, x: Mapping[Any, Any], label: Any) -> None:
        """Learn a row and its label; until the warm-up is full both wait."""
        rows = [self._row(x)] if self._scale is not None else self._learn(x)
        self._labels.append(label)
        if not rows:
            return
        if self._state is None:
            # The scale never moves: the tracker is done.
            self._scale = self._model.state
            learner = get_learner(self._spec.learner)
            self._state = learner.begin(self._spec, len(self._names), len(self._names))
        self._take(rows, self._labels)
        self._labels = []

    def _learn_frame(self, rows: pd.DataFrame, labels: list[Any]) -> None:
        """Learn rows and labels in their order, those behind the warm-up in one call."""
        if len(labels) != len(rows):
            raise ConfigError("y", f"{len(labels)} labels", f"one for each of {len(rows)} rows")
        first = 0
        while self._scale is None and first < len(rows):
            self._learn_labelled(rows.iloc[first].to_dict(), labels[first])
            first += 1
        if first < len(rows):
            self._take(self._matrix(rows.iloc[first:]), labels[first:])

    def _take(self, rows: Any, labels: list[Any]) -> None:
        inputs = own_inputs(self._model.spec, self._scale, rows)
        self._state = get_learner(self._spec.learner).learn(self._spec, self._state, inputs, labels)

    def _matrix(self, frame: pd.DataFrame) -> FloatArray:
        """Return rows of a frame, (n, D): columns that it lacks are 0."""
        rows = np.zeros((len(frame), len(self._names)))
        for place, name in enumerate(self._names):
            if name in frame:
                rows[:, place] = [_number(name, value) for value in frame[name].tolist()]
        return rows


class OnlineClassifier(_OnlineLearner, base.MiniBatchClassifier):
    """A classifier without settings that gives probabilities.

    The learner is `auto` of `kerneltrack.learners`, or another one; it is given the row as jobs
    give it, standardised by the first `warmup` rows. Until these are there the classes' shares are
    what it says; then the rows are learned, in their order. `learn_many` learns rows of a frame as
    `learn_one` would one after the other, bit for bit.

    Args:
        learner: Name of the learner, which is given the row alone.
        warmup: First rows, which the scale is taken from.
        settings: Further settings of the learner by name.

    Example:
        >>> model, right = OnlineClassifier(warmup=100), 0
        >>> for a, b in np.random.default_rng(0).normal(size=(1000, 2)).tolist():
        ...     x, y = {"a": a, "b": b}, a * a + b * b > 1.4
        ...     right += model.predict_one(x) == y
        ...     model.learn_one(x, y)
        >>> right > 750, sorted(model.predict_proba_one({"a": 0.1, "b": 0.0}))
        (True, [False, True])
    """

    def __init__(
        self,
        learner: str = "auto",
        warmup: int = 100,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(learner=learner, warmup=warmup, settings=settings)
        if self._spec.costs:
            # They are by names of classes, and labels in River are of any type.
            raise ConfigError("settings", "costs", "left out: weigh predict_proba_one by them")
        self._classes: dict[Any, str] = {}

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"warmup": 5, "settings": {"budget": 20}}
        yield {"learner": "hinge", "warmup": 5}

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Mapping[Any, Any], y: Hashable) -> None:  # type: ignore[override]
        """Learn a row and its class.

        Raises:
            ConfigError: for a value that is no number.
            DataError: for one that is not finite; nothing is learned of the row then.
        """
        self._learn_labelled(x, self._name(y))

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn the rows of a frame and their classes, in their order; errors as of `learn_one`."""
        self._learn_frame(X, [self._name(label) for label in y.tolist()])

    def _name(self, label: Hashable) -> str:
        return self._classes.setdefault(label, str(len(self._classes)))

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Return the class of a row: the likeliest, or that of least expected cost."""
        if self._state is None:
            return super().predict_one(dict(x), **kwargs)
        return self._classes_of([self._row(x)])[0]

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the classes of the rows of a frame."""
        if self._state is None:
            return super().predict_many(X)
        return pd.Series(self._classes_of(self._matrix(X)), X.index)

    def predict_proba_one(self, x: Mapping[Any, Any], **_: Any) -> dict[Any, float]:
        """Return the probabilities of the classes known; in the warm-up their shares so far."""
        if self._state is None:
            return self._shares()
        (chances,) = self._chances([self._row(x)]).tolist()
        return dict(zip(self._known(), chances, strict=True))

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the probabilities of each row of a frame, a column a class."""
        if self._state is None:
            return pd.DataFrame([self._shares()] * len(X), index=X.index)
        return pd.DataFrame(self._chances(self._matrix(X)), X.index, self._known())

    def _shares(self) -> dict[Any, float]:
        many = len(self._labels)
        return {label: self._labels.count(name) / many for label, name in self._classes.items()}

    def _known(self) -> list[Any]:
        return self._labels_of(self._state.classes)

    def _labels_of(self, names: Sequence[str]) -> list[Any]:
        named = {name: label for label, name in self._classes.items()}
        return [named[name] for name in names]

    def _classes_of(self, rows: Any) -> list[Any]:
        inputs = own_inputs(self._model.spec, self._scale, rows)
        answer = get_learner(self._spec.learner).predict(self._spec, self._state, inputs)
        known = [*self._labels_of(answer.classes), None]
        return [] if answer.code is None else [known[code] for code in answer.code.tolist()]

    def _chances(self, rows: Any) -> FloatArray:
        inputs = own_inputs(self._model.spec, self._scale, rows)
        return get_learner(self._spec.learner).probabilities(self._spec, self._state, inputs)


class OnlineRegressor(_OnlineLearner, base.MiniBatchRegressor):
    """A regressor without settings.

    As `OnlineClassifier`, for targets: of any unit and zero. In the warm-up their mean so far is
    what it says, 0 before the first.

    Args:
        learner: Name of the learner, which is given the row alone.
        warmup: First rows, which the scale is taken from.
        settings: Further settings of the learner by name.

    Example:
        >>> model, error = OnlineRegressor(warmup=100), 0.0
        >>> for n, (a, b) in enumerate(np.random.default_rng(0).normal(size=(1000, 2)).tolist()):
        ...     x, y = {"a": a, "b": b}, 50 + a * a + b
        ...     error += n >= 200 and abs(model.predict_one(x) - y) / 800
        ...     model.learn_one(x, y)
        >>> error < 0.2
        True
    """

    _task = REGRESSION

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"warmup": 5, "settings": {"budget": 20}}
        yield {"learner": "ridge", "warmup": 5}

    def learn_one(self, x: Mapping[Any, Any], y: float) -> None:  # type: ignore[override]
        """Learn a row and its target; errors as of `OnlineClassifier.learn_one`."""
        self._learn_labelled(x, _number("y", y))

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn the rows of a frame and their targets, in their order."""
        self._learn_frame(X, [_number("y", target) for target in y.tolist()])

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Return the target of a row."""
        if self._state is None:
            return self._mean()
        return float(self._values([self._row(x)])[0])

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the targets of the rows of a frame."""
        if self._state is None:
            return pd.Series(self._mean(), index=X.index)
        return pd.Series(self._values(self._matrix(X)), index=X.index)

    def _mean(self) -> float:
        return sum(self._labels) / len(self._labels) if self._labels else 0.0

    def _values(self, rows: Any) -> FloatArray:
        inputs = own_inputs(self._model.spec, self._scale, rows)
        learner = get_learner(self._spec.learner)
        # What waits for a learner's bandwidth is learned for predictions, as scikit-learn's does.
        state = learner.settled(self._spec, self._state)
        return learner.values(self._spec, state, inputs)[:, 0]
