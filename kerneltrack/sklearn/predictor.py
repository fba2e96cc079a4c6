"""What classifier and regressor share: a learner on the features of a tracker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import _check_sample_weight, validate_data

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.learners import AutoSpec, LearnerSpec, LearnerState, Predictions
from kerneltrack.learners.common.inputs import extras_for, inputs_of
from kerneltrack.learners.common.prequential import MAX_FEATURE, MOST_WEIGHT
from kerneltrack.learners.common.usual import with_inputs
from kerneltrack.registry import LEARNERS, get_learner, parse_learner_spec
from kerneltrack.settings import check_choice
from kerneltrack.sklearn.base import TrackingEstimator, emitted, plain
from kerneltrack.specs import check_names
from kerneltrack.trackers import Features

SET_BY_THE_ESTIMATOR = ("learner", "task", "max_classes")


class SubspacePredictor(TrackingEstimator):
    """An estimator that learns from labels too; a subclass says what they are."""

    learner_spec_: LearnerSpec
    learner_state_: LearnerState
    _kept_labels: list[Any]
    """Labels of the rows that wait for the warm-up to be full."""
    _kept_weights: FloatArray
    """How much they count."""
    _goes_on: LearnerState
    """The state that the next rows go to: in it rows may still wait for the learner's bandwidth."""

    def __init__(  # noqa: PLR0913 - scikit-learn reads the parameters here
        self,
        *,
        tracker: str = "okfeb",
        rank: int | str = 10,
        budget: int = 20,
        kernel: str = "gaussian",
        gamma: float | str = "median",
        degree: int = 2,
        offset: float = 1.0,
        ridge: float = 1e-3,
        rule: str = "parametric",
        step: str = "normalised",
        step_size: float = 1.0,
        start: str = "rows",
        emit: str = "z",
        policy: str = "norm",
        forgetting: float = 0.9,
        censor: str = "none",
        threshold: float = 0.0,
        censor_rate: float = 0.9,
        halflife: float | str | None = None,
        halflife_seconds: float | None = None,
        rank_factor: float | None = None,
        admission: str = "every",
        admission_rate: float = 0.1,
        standardise: bool | str = True,
        scale_window: int = 2000,
        clip: float | None = None,
        warmup: int = 500,
        novelty_window: int = 256,
        max_rows: int = 2000,
        landmarks: Any = None,
        learner: str = "ridge",
        learner_params: Mapping[str, Any] | None = None,
        random_state: Any = 0,
    ) -> None:
        """Keep the parameters as they are; they are checked when the rows come."""
        super().__init__(
            tracker=tracker,
            rank=rank,
            budget=budget,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            offset=offset,
            ridge=ridge,
            rule=rule,
            step=step,
            step_size=step_size,
            start=start,
            emit=emit,
            policy=policy,
            forgetting=forgetting,
            censor=censor,
            threshold=threshold,
            censor_rate=censor_rate,
            halflife=halflife,
            halflife_seconds=halflife_seconds,
            rank_factor=rank_factor,
            admission=admission,
            admission_rate=admission_rate,
            standardise=standardise,
            scale_window=scale_window,
            clip=clip,
            warmup=warmup,
            novelty_window=novelty_window,
            max_rows=max_rows,
            landmarks=landmarks,
            random_state=random_state,
        )
        self.learner = learner
        self.learner_params = learner_params

    def _make_learner_spec(self, task: str, classes: int) -> LearnerSpec:
        """Return the learner's spec, with room for as many classes as there are."""
        name = check_choice("learner", self.learner, LEARNERS)
        given = {} if self.learner_params is None else self.learner_params
        if not isinstance(given, Mapping):
            raise ConfigError("learner_params", given, "a mapping of the learner's settings")
        for field in SET_BY_THE_ESTIMATOR:
            if field in given:
                raise ConfigError("learner_params", field, "left out: the estimator sets it")
        check_names(get_learner(name).spec_type, given, "learner_params")
        values = {field: plain(value) for field, value in given.items()}
        if name == AutoSpec.learner:
            # Rows to be predicted are of no place in the stream: nothing comes before them.
            values = {"last_label": False, **values}
        spec = parse_learner_spec(
            {**values, "learner": name, "task": task, "max_classes": max(classes, 1)}
        )
        return with_inputs(spec, self._make_spec())

    def _learn(
        self,
        rows: FloatArray,
        labels: list[Any],
        weights: FloatArray | None,
        spec: LearnerSpec,
        fresh: bool,
    ) -> None:
        """Track rows, then learn their labels from what the learner is to see of them.

        A bandwidth that the learner takes from its first rows is until then that of the rows that
        came: so the state is always that of one `fit` over these.

        Args:
            rows: Shape (n, D).
            labels: n class names or targets.
            weights: (n,) how much each counts; None: all count 1.
            spec: The learner's.
            fresh: Forget what came before.
        """
        kept = [] if fresh else self._kept_labels
        learner = get_learner(spec.learner)
        counts = np.ones(len(rows)) if weights is None else weights
        counts = counts if fresh else np.concatenate([self._kept_weights, counts])
        if kept:
            rows = np.concatenate([self._kept, rows])
        tracker = self._make_spec() if fresh else self.spec_
        features = self._track(rows[len(kept) :], fresh, extras_for(spec, tracker))
        inputs, own = self._inputs(spec, features, rows)
        state = learner.begin(spec, inputs.shape[1], own) if fresh or kept else self._goes_on
        labels = kept + labels
        row_counts = counts if learner.weighs else None
        self._goes_on, _ = learner.update(spec, state, inputs, labels, row_counts)
        self.learner_state_ = learner.settled(spec, self._goes_on)
        self.learner_spec_ = spec
        waiting = len(labels) if len(self._kept) else 0
        self._kept_labels, self._kept_weights = labels[:waiting], counts[:waiting]

    def _weights(self, given: Any, rows: FloatArray, spec: LearnerSpec) -> FloatArray | None:
        """Return how much rows count, checked as scikit-learn does.

        Raises:
            ValueError: for weights that are no numbers from 0 on, all 0, or more or fewer than
                rows.
            ConfigError: for a learner whose rows all count 1.
        """
        if given is None:
            return None
        weights: FloatArray = _check_sample_weight(
            given, rows, dtype=np.float64, ensure_non_negative=True
        )
        if not weights.any():
            raise ConfigError("sample_weight", "all of them zero", "a weight above 0")
        if not get_learner(spec.learner).weighs:
            able = [name for name in LEARNERS if get_learner(name).weighs]
            raise ConfigError("sample_weight", "weights", f"for the learners {', '.join(able)}")
        largest = float(weights.max())
        if largest > MOST_WEIGHT:
            raise ConfigError("sample_weight", largest, f"at most {MOST_WEIGHT:g}")
        return weights

    def _rows(self, X: npt.ArrayLike, y: Any, fresh: bool, **checks: Any) -> tuple[FloatArray, Any]:
        """Return rows and labels, checked as scikit-learn does."""
        rows, labels = validate_data(self, X, y, reset=fresh, dtype=np.float64, order="C", **checks)
        return rows, labels

    def _predictions(self, X: npt.ArrayLike) -> Predictions:
        inputs, spec = self._inputs_now(X), self.learner_spec_
        return get_learner(spec.learner).predict(spec, self.learner_state_, inputs)

    def _inputs_now(self, X: npt.ArrayLike) -> FloatArray:
        """Return what the learner sees of rows under the subspace and the scale as they are."""
        features = self._project(X)
        return self._inputs(self.learner_spec_, features, self._checked(X))[0]

    def _inputs(
        self, spec: LearnerSpec, features: Features, rows: FloatArray
    ) -> tuple[FloatArray, int]:
        """Return what a learner sees of rows, (n, w), and how many of its inputs are channels.

        Raises:
            ValueError: for a row that is too large for learners.
        """
        inputs, own = inputs_of(spec, emitted(features), self.spec_, self.state_, rows, features.x)
        large = np.flatnonzero(np.any(np.abs(inputs) > MAX_FEATURE, axis=1))
        if len(large):
            raise ValueError(f"row {large[0]}: too large for the learner: use standardise=True")
        return inputs, own

    def _counted(self) -> dict[str, int | float]:
        """Return the learner's running totals."""
        self._fitted()
        return get_learner(self.learner_spec_.learner).counters(self.learner_state_)
