"""The classifier: a learner on rows and tracked features that tells classes apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.kept_classes import MAX_NAME
from kerneltrack.learners.common.label_sets import flags_of
from kerneltrack.learners.common.spec import CLASSIFICATION
from kerneltrack.registry import get_learner
from kerneltrack.sklearn.predictor import SubspacePredictor

NEVER = np.finfo(np.float64).min
"""Decision value of a class that no row has had, as scikit-learn's cross-validation fills it."""


def _classes_of(labels: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return the labels that there are, sorted, in the type they came in."""
    check_classification_targets(labels)
    classes: npt.NDArray[Any] = np.unique(column_or_1d(labels))
    return classes


def _names_of(classes: npt.NDArray[Any]) -> dict[Any, str]:
    """Return by which name the learner knows each class."""
    return {label: str(label) for label in classes.tolist()}


class SubspaceClassifier(ClassifierMixin, SubspacePredictor):  # type: ignore[misc]
    """An online classifier on rows and their tracked features.

    One pass over the rows, in their order: each is tracked (see `SubspaceTracker`), predicted,
    scored, then learned from, under the subspace as it was at that row, in a frame that is kept
    still while the subspace moves. `fit(X, y)` is `partial_fit` over X and y however they are
    cut, bit for bit. `predict` projects on the subspace as the last row left it and learns
    nothing.

    Args:
        tracker: "okfeb", "okfe" or "covariance". It and all that are not named here are those of
            `SubspaceTracker`.
        learner: "ridge" (recursive ridge), "auto", "logistic", "hinge", "pegasos", "lms", "pa",
            "polk", "bsgd", "nolana" or "fogd".
        learner_params: Settings of the learner by the names of its spec's fields
            (`kerneltrack.learners.RidgeSpec` and so on), {"forgetting": 1.0} say; None for its
            defaults. "inputs" says what the learner sees: "rows", "features" or "both"; by default
            as in a job, which is both for linear learners and the rows for "auto".

    Attributes:
        classes_: (C,) the classes, sorted.
        learner_spec_: The learner's spec.
        learner_state_: The learner's state; it knows a class by its label as a string.
        prequential_accuracy_: Fraction of the rows that were predicted before they were learned
            from, and correctly.
        spec_: And others of `SubspaceTracker`.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(600, 2))
        >>> labels = np.where((rows**2).sum(axis=1) < 1, "inside", "outside")
        >>> model = SubspaceClassifier(rank=10, forgetting=1.0, warmup=100).fit(rows, labels)
        >>> model.predict([[0.1, 0.2], [2.0, -1.0]]).tolist()
        ['inside', 'outside']
    """

    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> SubspaceClassifier:
        """Forget what came before and learn the rows of X in order.

        Args:
            X: Shape (n, D), n >= 1.
            y: n labels: strings, integers or booleans, or floats without a fraction.
            sample_weight: n numbers from 0 on, how much each row's label counts to the learner; the
                tracker takes all rows alike. For the learners ridge, logistic, hinge, pegasos and
                lms. None: all count 1.

        Returns:
            The estimator.

        Raises:
            ValueError: for a parameter out of range (`ConfigError`), rows that are not finite or
                too large to compute with, or labels that are no classes.
        """
        rows, labels = self._rows(X, y, True)
        return self._fit(rows, labels, sample_weight, _classes_of(labels), True)

    def partial_fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        classes: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> SubspaceClassifier:
        """Learn the rows of X after those that came before.

        Parameters are read at the first call; until the next `fit` they keep the values they had.

        Args:
            X: Shape (n, D), n >= 1.
            y: n labels.
            classes: All labels that will ever come; needed at the first call, and at later ones
                None or the same.
            sample_weight: As in `fit`.

        Returns:
            The estimator.

        Raises:
            ValueError: as in `fit`, for a label that is not among the classes, and where these
                are missing or others than before. Nothing of X is learned then.
        """
        fresh = not self.__sklearn_is_fitted__()
        if fresh and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit")
        known = self.classes_ if classes is None else _classes_of(classes)
        if not fresh and not np.array_equal(known, self.classes_):
            raise ValueError(f"classes = {known}: not those of the first call, {self.classes_}")
        rows, labels = self._rows(X, y, fresh)
        return self._fit(rows, labels, sample_weight, known, fresh)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the class of each row.

        Args:
            X: Shape (n, D).

        Returns:
            Shape (n,), labels of the type they came in.

        Raises:
            ValueError: for rows that are not finite or too large to compute with.
        """
        predictions = self._predictions(X)
        labels: npt.NDArray[Any] = self.classes_[self._places()[predictions.code]]
        return labels

    def predict_set(self, X: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return the classes of each row that hold its label by the share asked for.

        Args:
            X: Shape (n, D).

        Returns:
            Shape (n, C), True for the classes in the row's set, which may be empty.

        Raises:
            ValueError: as in `predict`, and without `learner_params={"intervals": .9}`, say.
        """
        predictions = self._predictions(X)
        if predictions.members is None:
            allowed = (
                "given with the share of labels that sets are to hold: "
                "learner_params={'intervals': 0.9}, set before fit"
            )
            raise ConfigError("learner_params", self.learner_params, allowed)
        found = np.zeros((len(predictions.members), len(self.classes_)), np.bool_)
        found[:, self._places()] = flags_of(predictions.members, len(predictions.classes))
        return found

    def decision_function(self, X: npt.ArrayLike) -> FloatArray:
        """Return the decision value of each row and class; the class of the largest is predicted.

        Args:
            X: Shape (n, D).

        Returns:
            Shape (n, C); the lowest float for a class that no row has had. With two classes the
            difference, of shape (n,): above 0 where `classes_[1]` is predicted.

        Raises:
            ValueError: for rows that are not finite or too large to compute with.
        """
        values = self._decision_values(X)
        return values[:, 1] - values[:, 0] if values.shape[1] == 2 else values

    def predict_proba(self, X: npt.ArrayLike) -> FloatArray:
        """Return the probability of each row and class, of every learner.

        Decision values become probabilities by a temperature that the learner follows by its own
        log loss on the rows it learns; see `kerneltrack.learners.common.prequential`.

        Args:
            X: Shape (n, D).

        Returns:
            Shape (n, C); 0 for a class that no row has had.

        Raises:
            ValueError: for rows that are not finite or too large to compute with.
        """
        inputs, spec = self._inputs_now(X), self.learner_spec_
        known = get_learner(spec.learner).probabilities(spec, self.learner_state_, inputs)
        probable = np.zeros((len(inputs), len(self.classes_)))
        probable[:, self._places()] = known
        return probable

    @property
    def prequential_accuracy_(self) -> float:
        """Fraction of the rows predicted correctly before they were learned from."""
        counted = self._counted()
        return counted["correct"] / counted["scored"] if counted["scored"] else float("nan")

    def _fit(
        self,
        rows: FloatArray,
        labels: Any,
        sample_weight: npt.ArrayLike | None,
        classes: npt.NDArray[Any],
        fresh: bool,
    ) -> SubspaceClassifier:
        names = _names_of(classes)
        longest = max(names.values(), key=len)
        if len(longest) > MAX_NAME:
            raise ConfigError("classes", longest, f"labels of at most {MAX_NAME} characters")
        unknown = set(labels.tolist()) - set(names)
        if unknown:
            raise ValueError(f"y has labels that are not among the classes: {sorted(unknown)}")
        if fresh:
            spec = self._make_learner_spec(CLASSIFICATION, len(names))
        else:
            spec = self.learner_spec_
        weights = self._weights(sample_weight, rows, spec)
        self._learn(rows, [names[label] for label in labels.tolist()], weights, spec, fresh)
        self.classes_ = classes
        return self

    def _places(self) -> npt.NDArray[np.int64]:
        """Return where each of the learner's classes stands in `classes_`."""
        places = {name: place for place, name in enumerate(_names_of(self.classes_).values())}
        return np.array([places[name] for name in self.learner_state_.classes])

    def _decision_values(self, X: npt.ArrayLike) -> FloatArray:
        inputs, spec = self._inputs_now(X), self.learner_spec_
        known = get_learner(spec.learner).values(spec, self.learner_state_, inputs)
        values = np.full((len(inputs), len(self.classes_)), NEVER)
        values[:, self._places()] = known
        return values
