"""A detector of odd rows with the methods that users of PyOD and scikit-learn know."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import Episode, ReferenceSpec, ReferenceState, Scores

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

SMOOTHING = 0.1
"""Weight of the newest row in the decision scores: faults last."""
WELL_ABOVE = 2.0
"""A decision score well above those of normal rows, which are about 1."""
MOST_CONTAMINATION = 0.5


class ReferenceDetector:
    """Rows that do not look like those that it was fitted to; see `kerneltrack.monitor.reference`.

    Rows are a device's, in the order of time: those of `decision_function`, `predict` and
    `partial_fit` follow the last that the detector went on to. `fit` takes all of its rows as
    normal, whatever the spec's `rows` say.

    The conventions are PyOD's: larger scores are odder, labels are 1 for odd rows, which are those
    with a score above `threshold_`, and `contamination` is the share of the fitted rows that are
    above it. What it has beyond them are the episodes, at the spec's rate of false alarms.

    Args:
        spec: Settings, by default `ReferenceSpec()`.
        contamination: Share of the fitted rows that are odd, above 0, at most .5. None: none of
            them is.

    Attributes:
        decision_scores_: (n,) scores of the rows that it was fitted to.
        threshold_: Score above which a row is called odd: their 1 - `contamination` quantile;
            without, the largest of them, and 2 at the least.
        labels_: (n,) 1 for the fitted rows above it, else 0.
        n_features_in_: Channels D.
        spec_: The spec in force, with `rows` of the fit.
        state_: The reference's state after the rows seen by `fit` and `partial_fit`.
        scores_: What the last of these calls said of its rows.
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
        """Keep the arguments as they are; `fit` looks at them."""
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

    def fit(self, X: npt.ArrayLike, y: object = None) -> ReferenceDetector:
        """Make the reference from rows (n, D), n >= 256, taken as normal.

        Raises:
            ConfigError: for other rows, or a contamination out of range.
        """
        least = 2 * reference.BLOCK
        rows = _matrix(X, f"a finite array of shape (n >= {least}, D >= 1)", least)
        share = self.contamination
        if share is not None and not 0 < share <= MOST_CONTAMINATION:
            raise ConfigError("contamination", share, f"above 0, at most {MOST_CONTAMINATION}")
        self.spec_ = dataclasses.replace(self.spec or ReferenceSpec(), rows=len(rows))
        self.n_features_in_ = rows.shape[1]
        state = reference.init(self.spec_, rows)
        self.state_, self.scores_, self.episodes_ = reference.update(self.spec_, state, rows)
        # By the finished reference, from the first row on: it learns nothing any more.
        again = reference.restarted(self.state_)
        score = reference.update(self.spec_, again, rows, learn=False)[1].score
        self.decision_scores_ = _smooth(score)
        if share is None:
            self.threshold_ = max(float(self.decision_scores_.max()), WELL_ABOVE)
        else:
            self.threshold_ = float(np.quantile(self.decision_scores_, 1.0 - share))
        self.labels_ = (self.decision_scores_ > self.threshold_).astype(np.int64)
        return self

    def fit_predict(self, X: npt.ArrayLike, y: object = None) -> IntArray:
        """Fit, and return `labels_`."""
        return self.fit(X).labels_

    def partial_fit(self, X: npt.ArrayLike, y: object = None) -> ReferenceDetector:
        """Go on with further rows (n, D): score them, and learn those that the spec lets in.

        Before `fit` it is that. `threshold_` stays as it is.
        """
        if not hasattr(self, "state_"):
            return self.fit(X)
        self.state_, self.scores_, told = self._update(X)
        self.episodes_ = [*self.episodes_, *told]
        return self

    def score_rows(self, X: npt.ArrayLike) -> Scores:
        """Return what `partial_fit` would say of further rows, without going on."""
        return self._update(X)[1]

    def decision_function(self, X: npt.ArrayLike) -> FloatArray:
        """Return how odd further rows are, (n,): their scores, smoothed over some ten rows.

        About 1 while all is well.
        """
        return _smooth(self.score_rows(X).score)

    def predict(self, X: npt.ArrayLike) -> IntArray:
        """Return 1 for further rows whose decision score is above `threshold_`, else 0, (n,)."""
        return (self.decision_function(X) > self.threshold_).astype(np.int64)

    def in_episode(self, X: npt.ArrayLike) -> IntArray:
        """Return 1 for further rows at which an episode is open, else 0, (n,).

        Unlike `predict` it keeps to the spec's rate of false alarms.
        """
        told = self._update(X)[2]
        odd = np.zeros(len(np.asarray(X)), dtype=np.int64)
        before = int(self.state_.tables.counts[reference.SEEN])
        if self.state_.tables.counts[reference.OPENED] >= 0:
            odd[:] = 1
        for episode in told:
            odd[max(episode.opened - before, 0) :] = 1
            if episode.closed:
                odd[episode.row - before :] = 0
        return odd

    def _update(self, X: npt.ArrayLike) -> tuple[ReferenceState, Scores, list[Episode]]:
        if not hasattr(self, "state_"):
            raise ConfigError("detector", "not fitted", "fitted first: call fit")
        width = self.n_features_in_
        rows = _matrix(X, f"a finite array of shape (n, {width}), as in fit", 0, width)
        return reference.update(self.spec_, self.state_, rows)


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


def _smooth(score: FloatArray) -> FloatArray:
    """Return moving averages of scores whose rows before are as usual."""
    if not len(score):
        return np.zeros(0)
    # It takes longer to import than all of kerneltrack.
    from scipy.signal import lfilter  # noqa: PLC0415

    smooth, _ = lfilter([SMOOTHING], [1.0, SMOOTHING - 1.0], score, zi=[1.0 - SMOOTHING])
    return np.asarray(smooth)
