"""River's interfaces: features, a detector and a classifier that learn one row, a dict, at a time.

In the first `warmup` rows nothing is known yet: features and scores are 0. Channels are the names
that these rows have; one that is missing later counts as 0, as absent features do in River, and
names that come up later are ignored.
"""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from river import base

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.learners.common.inputs import own_inputs
from kerneltrack.learners.common.spec import CLASSIFICATION, ROWS, LearnerSpec
from kerneltrack.registry import get_learner, parse_learner_spec, parse_spec
from kerneltrack.tracker import Tracker

FloatArray = npt.NDArray[np.float64]

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
        said = self._model.look(self._row(x)) if self._model.started else None
        values = [0.0] * spec.rank if said is None else said.z.tolist()
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
        said = self._model.look(self._row(x)) if self._model.started else None
        return 0.0 if said is None else said.novelty


class OnlineClassifier(_Subspace, base.Classifier):
    """A classifier without settings that gives probabilities.

    The learner is `auto` of `kerneltrack.learners`, or another one; it is told of the row as jobs
    tell it, standardised by the first `warmup` rows. Until these are there the classes' shares are
    what it says; then the rows are learned, in their order.

    Args:
        learner: Name of the learner; told of the row alone.
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
        """Keep the arguments; see the class."""
        # Of the tracker only the scale is used: the cheapest there is.
        super().__init__(rank=1, budget=1, warmup=warmup)
        self.learner = learner
        self.settings = settings
        told = {"learner": learner, **(settings or {}), "task": CLASSIFICATION, "inputs": ROWS}
        self._spec: LearnerSpec = parse_learner_spec(told)
        self._state: Any = None
        self._labels: list[Any] = []
        self._scale: Any = None
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
        rows = [self._row(x)] if self._scale is not None else self._learn(x)
        self._labels.append(self._classes.setdefault(y, str(len(self._classes))))
        if not rows:
            return
        learner = get_learner(self._spec.learner)
        if self._state is None:
            # The scale never moves: the tracker is done.
            self._scale = self._model.state
            self._state = learner.begin(self._spec, len(self._names), len(self._names))
        inputs = own_inputs(self._model.spec, self._scale, rows)
        self._state = learner.learn(self._spec, self._state, inputs, self._labels)
        self._labels = []

    def predict_proba_one(self, x: Mapping[Any, Any], **_: Any) -> dict[Any, float]:
        """Return the probabilities of the classes known; in the warm-up their shares so far."""
        named = {name: label for label, name in self._classes.items()}
        if self._state is None:
            many = len(self._labels)
            return {label: self._labels.count(name) / many for name, label in named.items()}
        learner = get_learner(self._spec.learner)
        inputs = own_inputs(self._model.spec, self._scale, [self._row(x)])
        (chances,) = learner.probabilities(self._spec, self._state, inputs).tolist()
        known = [named[name] for name in self._state.classes]
        return dict(zip(known, chances, strict=True))
