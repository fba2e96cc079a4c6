"""A detector of odd rows with the methods that users of PyOD and scikit-learn know."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

from kerneltrack.errors import ConfigError
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import Episode, ReferenceSpec, ReferenceState, Scores

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

SMOOTHING = 0.1
"""Weight of the newest row in the decision scores: faults last."""


class ReferenceDetector:
    """Rows that do not look like those that it was fitted to; see `kerneltrack.monitor.reference`.

    Rows are a device's, in the order of time. `fit` takes all of its rows as normal, whatever the
    spec's `rows` say.

    Attributes:
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
        >>> detector.partial_fit(odd).episodes_[0].shares.argmax()
        np.int64(1)
    """

    def __init__(self, spec: ReferenceSpec | None = None) -> None:
        """Keep the spec, by default `ReferenceSpec()`."""
        self.spec = spec or ReferenceSpec()
        self.scores_: Scores | None = None
        self.episodes_: list[Episode] = []
        self._state: ReferenceState | None = None

    @property
    def state_(self) -> ReferenceState:
        """The reference's state.

        Raises:
            ConfigError: before `fit`.
        """
        if self._state is None:
            raise ConfigError("detector", "not fitted", "fitted first: call fit")
        return self._state

    @property
    def threshold_(self) -> float:
        """A decision score well above those of normal rows, which are about 1."""
        return 2.0

    def fit(self, X: npt.ArrayLike, y: object = None) -> ReferenceDetector:
        """Make the reference from rows (n, D), n >= 256, taken as normal."""
        rows = np.ascontiguousarray(X, dtype=np.float64)
        if rows.ndim != 2 or len(rows) < 2 * reference.BLOCK:
            allowed = f"an array of shape (n >= {2 * reference.BLOCK}, D >= 1)"
            raise ConfigError("X", rows.shape, allowed)
        self.spec = dataclasses.replace(self.spec, rows=len(rows))
        self._state, self.episodes_ = reference.init(self.spec, rows), []
        return self.partial_fit(rows)

    def partial_fit(self, X: npt.ArrayLike, y: object = None) -> ReferenceDetector:
        """Go on with further rows (n, D): score them, and learn those that the spec lets in."""
        self._state, self.scores_, told = reference.update(self.spec, self.state_, X)
        self.episodes_ += told
        return self

    def score_rows(self, X: npt.ArrayLike) -> Scores:
        """Return what `partial_fit` would say of further rows, without going on."""
        return reference.update(self.spec, self.state_, X)[1]

    def decision_function(self, X: npt.ArrayLike) -> FloatArray:
        """Return how odd further rows are, (n,): their scores, smoothed over some ten rows."""
        score = self.score_rows(X).score
        smooth, _ = lfilter([SMOOTHING], [1.0, SMOOTHING - 1.0], score, zi=[1.0 - SMOOTHING])
        return np.asarray(smooth)

    def predict(self, X: npt.ArrayLike) -> IntArray:
        """Return 1 for further rows at which an episode is open, else 0, shape (n,)."""
        told = reference.update(self.spec, self.state_, X)[2]
        odd = np.zeros(len(np.asarray(X)), dtype=np.int64)
        before = int(self.state_.tables.counts[reference.SEEN])
        if self.state_.tables.counts[reference.OPENED] >= 0:
            odd[:] = 1
        for episode in told:
            odd[max(episode.opened - before, 0) :] = 1
            if episode.closed:
                odd[episode.row - before :] = 0
        return odd
