"""A detector of odd rows with the methods that users of PyOD and scikit-learn know."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import Episode, ReferenceSpec, ReferenceState, Scores

SMOOTHING = 0.1
"""Weight of the newest row in the decision scores: faults last."""
WELL_ABOVE = 2.0
"""A decision score well above those of normal rows, which are about 1."""
MOST_CONTAMINATION = 0.5
LEAST_ROWS = 2 * reference.BLOCK
PARTS = 8
"""Parts that fitted rows are cut into, each scored by a reference of the others."""


class ReferenceDetector:
    """Rows that do not look like those that it was fitted to; see `kerneltrack.monitor.reference`.

    Rows are a device's, in the order of time. `fit` takes all of its rows as normal, whatever the
    spec's `rows` say. `decision_function`, `predict` and `in_episode` look at rows that follow the
    last one of `fit` and `partial_fit`, and change nothing: asked twice, they say the same.

    **In a stream** give each batch to `predict`, then to `partial_fit`, or to `update`, which does
    both in one pass. Scores, labels and episodes are then the same, bit for bit, however the rows
    are cut into batches: the smoothing goes on from one to the next. Without `partial_fit` each
    call of `predict` is about rows that follow the fitted ones at once: a fault that lasts is not
    found row by row that way.

    The conventions are PyOD's: larger scores are odder, labels are 1 for odd rows, which are those
    with a score above `threshold_`, and `contamination` is the share of normal rows that are above
    it, of those fitted and of new ones like them. What it has beyond them are the episodes, at the
    spec's rate of false alarms. scikit-learn sees an outlier detector.

    Args:
        spec: Settings, by default `ReferenceSpec()`.
        contamination: Share of the fitted rows that are odd, above 0, at most .5. None: none of
            them is.

    Attributes:
        decision_scores_: (n,) scores of the rows that it was fitted to, each by a reference made
            without that eighth of them which the row is in: as those of new rows are.
        threshold_: Score above which a row is called odd: their 1 - `contamination` quantile;
            without, the largest of them, at least 2.
        labels_: (n,) 1 for the fitted rows above it, else 0.
        n_features_in_: Channels D.
        feature_names_in_: (D,) their names, where the fitted rows were a data frame.
        spec_: The spec in force, with `rows` of the fit.
        state_: The reference's state after the rows seen by `fit` and `partial_fit`.
        level_: The decision score of the last of them.
        scores_: The scores of the rows of the last of these calls.
        episodes_: Episodes that were opened or closed so far, in the order of the rows.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(2000, 3))
        >>> detector = ReferenceDetector().fit(rows[:1000])
        >>> odd = rows[1000:].copy()
        >>> odd[500:, 1] += 4
        >>> bool(detector.decision_function(odd)[520:].min() > detector.threshold_)
        True
        >>> detector.predict(odd)[[0, -1]].tolist()
        [0, 1]
        >>> int(detector.partial_fit(odd).episodes_[0].shares.argmax())
        1
    """

    def __init__(
        self, spec: ReferenceSpec | None = None, *, contamination: float | None = None
    ) -> None:
        self.spec = spec
        self.contamination = contamination

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments by name, as scikit-learn's `clone` asks for them."""
        return {"spec": self.spec, "contamination": self.contamination}

    def set_params(self, **params: Any) -> ReferenceDetector:
        """Set arguments by name.

        Raises:
            ConfigError: for another name.
        """
        for name, value in params.items():
            if name not in self.get_params():
                raise ConfigError("parameter", name, f"one of {', '.join(self.get_params())}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Return how it was made."""
        given = [f"{name}={value!r}" for name, value in self.get_params().items() if value]
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks: an outlier detector that needs no targets."""
        # Only scikit-learn calls this.
        from sklearn.utils import InputTags, Tags, TargetTags  # noqa: PLC0415

        return Tags(
            estimator_type="outlier_detector",
            target_tags=TargetTags(required=False),
            transformer_tags=None,
            classifier_tags=None,
            regressor_tags=None,
            input_tags=InputTags(),
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Check whether rows were seen."""
        return hasattr(self, "state_")

    def fit(self, X: npt.ArrayLike, y: object = None) -> ReferenceDetector:
        """Make the reference from rows (n, D), n >= 256, taken as normal.

        It is made nine times, once of all rows and eight times of seven eighths of them.

        Raises:
            ConfigError: for other rows, or a contamination out of range.
        """
        least = LEAST_ROWS
        rows = _matrix(X, f"a finite array of shape (n >= {least}, D >= 1)", least)
        share = self.contamination
        if share is not None and not 0 < share <= MOST_CONTAMINATION:
            raise ConfigError("contamination", share, f"above 0, at most {MOST_CONTAMINATION}")
        self.spec_, self.state_, self.scores_, self.episodes_ = _made_of(self.spec, rows)
        self.n_features_in_ = rows.shape[1]
        self._keep_names(X)
        self.decision_scores_ = _scores_of_others(self.spec, rows)
        self.level_ = float(self.decision_scores_[-1])
        if share is None:
            self.threshold_ = max(float(self.decision_scores_.max()), WELL_ABOVE)
        else:
            self.threshold_ = float(np.quantile(self.decision_scores_, 1.0 - share))
        self.labels_ = (self.decision_scores_ > self.threshold_).astype(np.int64)
        return self

    def _keep_names(self, X: npt.ArrayLike) -> None:
        names = _names_of(X)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def fit_predict(self, X: npt.ArrayLike, y: object = None) -> IntArray:
        """Fit, and return `labels_`."""
        return self.fit(X).labels_

    def partial_fit(self, X: npt.ArrayLike, y: object = None) -> ReferenceDetector:
        """Go on with further rows (n, D): score them, and learn those that the spec lets in.

        Before `fit` it is that. `threshold_` stays as it is.
        """
        if hasattr(self, "state_"):
            self.update(X)
            return self
        return self.fit(X)

    def update(self, X: npt.ArrayLike) -> FloatArray:
        """Return the decision scores of further rows, (n,), and go on with them.

        It is `decision_function` and `partial_fit` in one pass.

        Raises:
            ConfigError: for other rows, or before `fit`.
        """
        self.state_, self.scores_, episodes = self._looked_at(X)
        self.episodes_ = [*self.episodes_, *episodes]
        smooth, self.level_ = _smooth(self.scores_.score, self.level_)
        return smooth

    def score_rows(self, X: npt.ArrayLike) -> Scores:
        """Return what `partial_fit` would say of further rows, without going on."""
        return self._looked_at(X)[1]

    def decision_function(self, X: npt.ArrayLike) -> FloatArray:
        """Return how odd further rows are, (n,): their scores, smoothed over some ten rows.

        About 1 while all is well. The smoothing goes on from the last row of `partial_fit`.
        """
        return _smooth(self.score_rows(X).score, self.level_)[0]

    def predict(self, X: npt.ArrayLike) -> IntArray:
        """Return 1 for further rows whose decision score is above `threshold_`, else 0, (n,)."""
        return (self.decision_function(X) > self.threshold_).astype(np.int64)

    def in_episode(self, X: npt.ArrayLike) -> IntArray:
        """Return 1 for further rows at which an episode is open, else 0, (n,).

        Unlike `predict` it keeps to the spec's rate of false alarms.
        """
        episodes = self._looked_at(X)[2]
        odd = np.zeros(len(np.asarray(X)), dtype=np.int64)
        before = int(self.state_.tables.counts[reference.SEEN])
        if self.state_.tables.counts[reference.OPENED] >= 0:
            odd[:] = 1
        for episode in episodes:
            odd[max(episode.opened - before, 0) :] = 1
            if episode.closed:
                odd[episode.row - before :] = 0
        return odd

    def _looked_at(self, X: npt.ArrayLike) -> tuple[ReferenceState, Scores, list[Episode]]:
        if not hasattr(self, "state_"):
            raise ConfigError("detector", "not fitted", "fitted first: call fit")
        width = self.n_features_in_
        rows = _matrix(X, f"a finite array of shape (n, {width}), as in fit", 0, width)
        self._check_names(X)
        return reference.update(self.spec_, self.state_, rows)

    def _check_names(self, X: npt.ArrayLike) -> None:
        """Check that the columns are those of `fit`, in their order; warn where one has none."""
        names, known = _names_of(X), getattr(self, "feature_names_in_", None)
        if names is not None and known is not None and names != known.tolist():
            allowed = f"the columns of fit, in their order: {', '.join(known)}"
            raise ConfigError("columns of X", ", ".join(names), allowed)
        if (names is None) != (known is None):
            one, other = ("X", "fit") if names is None else ("fit", "X")
            text = f"{one} had no names of columns, {other} has: their order cannot be checked"
            warnings.warn(text, stacklevel=4)


def _made_of(
    spec: ReferenceSpec | None, rows: FloatArray
) -> tuple[ReferenceSpec, ReferenceState, Scores, list[Episode]]:
    """Return the reference of rows, all taken as normal, and what it said of them."""
    spec = dataclasses.replace(spec or ReferenceSpec(), rows=len(rows))
    spec.refuse_choice()
    return spec, *reference.update(spec, reference.init(spec, rows), rows)


def _scores_of_others(spec: ReferenceSpec | None, rows: FloatArray) -> FloatArray:
    """Return the decision scores of rows, each part's by a reference made of the others."""
    found = []
    for part in np.array_split(np.arange(len(rows)), PARTS):
        others = np.delete(rows, part, axis=0)
        if len(others) < LEAST_ROWS:
            # Few rows: some of them count twice.
            others = np.concatenate([others, others[: LEAST_ROWS - len(others)]])
        made, state, _, _ = _made_of(spec, others)
        again = reference.restarted(state)
        score = reference.update(made, again, rows[part], learn=False)[1].score
        found.append(_smooth(score, float(score.mean()))[0])
    return np.concatenate(found)


def _names_of(X: Any) -> list[str] | None:
    """Return the names of a data frame's columns, None where there are none or they are no texts.

    As in scikit-learn: pandas', polars' and Arrow's frames have some.
    """
    columns = getattr(X, "column_names", None)
    columns = getattr(X, "columns", None) if columns is None else columns
    try:
        names = [] if columns is None else list(columns)
    except TypeError:
        return None
    return [str(name) for name in names] if names and _all_texts(names) else None


def _all_texts(names: list[Any]) -> bool:
    return all(isinstance(name, str) for name in names)


def _matrix(X: npt.ArrayLike, allowed: str, least: int, width: int | None = None) -> FloatArray:
    """Return rows as a matrix.

    Raises:
        ConfigError: for what is none, has fewer rows or another width, or is not finite.
    """
    try:
        rows = np.ascontiguousarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError("X", type(X).__name__, allowed) from error
    shape = np.shape(X)
    if len(shape) != 2 or shape[0] < least or not shape[1] or (width or shape[1]) != shape[1]:
        raise ConfigError("X", shape, allowed)
    finite = np.isfinite(rows)
    if not finite.all():
        row, column = (int(place) for place in np.argwhere(~finite)[0])
        raise ConfigError(f"X[{row}, {column}]", float(rows[row, column]), allowed)
    return rows


def _smooth(score: FloatArray, before: float) -> tuple[FloatArray, float]:
    """Return moving averages of scores, and the last: what the next ones go on from.

    Args:
        score: (n,) scores.
        before: The average before the first.
    """
    if not len(score):
        return np.zeros(0), before
    # It takes longer to import than all of kerneltrack.
    from scipy.signal import lfilter  # noqa: PLC0415

    start = [(1.0 - SMOOTHING) * before]
    smooth, _ = lfilter([SMOOTHING], [1.0, SMOOTHING - 1.0], score, zi=start)
    return np.asarray(smooth), float(smooth[-1])
