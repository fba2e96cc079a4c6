"""The regressor: a learner on rows and tracked features that predicts a number."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.labels import MAX_TARGET
from kerneltrack.learners.common.spec import REGRESSION
from kerneltrack.sklearn.predictor import SubspacePredictor


class SubspaceRegressor(RegressorMixin, SubspacePredictor):  # type: ignore[misc]
    """An online regressor on rows and their tracked features.

    One pass over the rows, in their order: each is tracked (see `SubspaceTracker`), predicted,
    scored, then learned from, under the subspace as it was at that row, in a frame that is kept
    still while the subspace moves. `fit(X, y)` is `partial_fit` over X and y however they are
    cut, bit for bit. `predict` projects on the subspace as the last row left it and learns
    nothing.

    Args:
        tracker: "okfeb", "okfe" or "covariance". It and all that are not named here are those of
            `SubspaceTracker`.
        learner: "ridge" (recursive ridge), "auto", "lms", "pa", "polk", "nolana" or "fogd".
        learner_params: Settings of the learner by the names of its spec's fields
            (`kerneltrack.learners.RidgeSpec` and so on), {"forgetting": 1.0} say; None for its
            defaults. "inputs" says what the learner sees: "rows", "features" or "both"; by default
            as in a job, which is both for linear learners and the rows for "auto".

    Attributes:
        learner_spec_: The learner's spec.
        learner_state_: The learner's state.
        prequential_rmse_: Root mean squared error of the predictions made before each row was
            learned from.
        spec_: And others of `SubspaceTracker`.

    Example:
        >>> rows = np.random.default_rng(0).uniform(-2, 2, size=(600, 1))
        >>> model = SubspaceRegressor(rank=10, warmup=100).fit(rows, np.sin(rows[:, 0]))
        >>> bool(abs(model.predict([[1.0]]) - np.sin(1.0)) < 0.05)
        True
    """

    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> SubspaceRegressor:
        """Forget what came before and learn the rows of X in order.

        Args:
            X: Shape (n, D), n >= 1.
            y: n targets, finite and at most 1e100 in magnitude.
            sample_weight: n numbers from 0 on, how much each row's target counts to the learner;
                the tracker takes all rows alike. For the learners ridge and lms. None: all
                count 1.

        Returns:
            The estimator.

        Raises:
            ValueError: for a parameter out of range (`ConfigError`), or for rows or targets that
                are not finite or too large to compute with.
        """
        return self._fit(X, y, sample_weight, True)

    def partial_fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> SubspaceRegressor:
        """Learn the rows of X after those that came before.

        Parameters are read at the first call; until the next `fit` they keep the values they had.

        Args:
            X: Shape (n, D), n >= 1.
            y: n targets.
            sample_weight: As in `fit`.

        Returns:
            The estimator.

        Raises:
            ValueError: as in `fit`; nothing of X is learned then.
        """
        return self._fit(X, y, sample_weight, not self.__sklearn_is_fitted__())

    def predict(self, X: npt.ArrayLike) -> FloatArray:
        """Return the target of each row.

        Args:
            X: Shape (n, D).

        Returns:
            Shape (n,).

        Raises:
            ValueError: for rows that are not finite or too large to compute with.
        """
        return cast("FloatArray", self._predictions(X).value)

    def predict_interval(self, X: npt.ArrayLike) -> FloatArray:
        """Return the interval of each row in which its target lies by the share asked for.

        Args:
            X: Shape (n, D).

        Returns:
            Shape (n, 2), lower and upper ends.

        Raises:
            ValueError: as in `predict`, and without `learner_params={"intervals": .9}`, say.
        """
        predictions = self._predictions(X)
        if predictions.lower is None or predictions.upper is None:
            allowed = (
                "given with the share of targets that intervals are to hold: "
                "learner_params={'intervals': 0.9}, set before fit"
            )
            raise ConfigError("learner_params", self.learner_params, allowed)
        return np.column_stack([predictions.lower, predictions.upper])

    @property
    def prequential_rmse_(self) -> float:
        """Root mean squared error of the predictions made before each row was learned from."""
        counted = self._counted()
        scored = counted["scored"]
        return math.sqrt(counted["squared"] / scored) if scored else math.nan

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags.

        `check_estimator` asks for an R² of .5 after one pass over 200 rows of 10 independent
        channels, more directions than rank 10 can follow: on the features alone it is .20 (a batch
        Nyström map of 10 rows: .4 to .7), with rank=20, budget=40 and the settings for rows in
        random order (rule="nonparametric", forgetting=1) .78. With the row, the default, it is .80.
        """
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def _fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None, fresh: bool
    ) -> SubspaceRegressor:
        rows, targets = self._rows(X, y, fresh, y_numeric=True)
        targets = targets.astype(np.float64)
        largest = float(np.abs(targets).max())
        if largest > MAX_TARGET:
            raise ConfigError("y", largest, f"at most {MAX_TARGET:g} in magnitude")
        spec = self._make_learner_spec(REGRESSION, 1) if fresh else self.learner_spec_
        weights = self._weights(sample_weight, rows, spec)
        self._learn(rows, targets.tolist(), weights, spec, fresh)
        return self
