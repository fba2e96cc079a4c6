"""The transformer: a subspace that follows the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import validate_data

from kerneltrack.arrays import FloatArray
from kerneltrack.sklearn.base import TrackingEstimator, emitted


class SubspaceTracker(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    TrackingEstimator,
):
    """Nonlinear features of rows: their coordinates in a kernel subspace that follows them.

    One pass over the rows, in their order, in memory that does not grow: `fit(X)` is
    `partial_fit` over X however it is cut, bit for bit. `transform` projects on the subspace as
    the last row left it and learns nothing, so `fit_transform(X)` is `fit(X).transform(X)`. Inner
    products of the features approximate the kernel.

    Cost a row: O(BD + Br + r²), and with "covariance" O(B² + Br + r³) more where it enters the
    subspace, O(B²r + Br² + r³) in every third of these.

    Args:
        tracker: "okfeb" (on a budget), "okfe" (without one, for small data) or "covariance" (on a
            budget, without a step size).
        rank: Dimension r of the subspace and of the features, 1 to 1000; "auto" for the budget,
            with a `rank_factor` of 1.5 unless one is given (covariance).
        budget: Most stored rows B, rank to 10,000 (okfeb, covariance).
        kernel: "gaussian", "laplacian", "polynomial" or "linear".
        gamma: Bandwidth of the Gaussian (exp(-‖x-y‖²/γ): scikit-learn's gamma is 1/γ) and the
            Laplacian kernel (exp(-‖x-y‖₁/γ)), or "median": the median of these distances among
            the first `warmup` rows.
        degree: Degree of the polynomial kernel.
        offset: Offset of the polynomial kernel, >= 0.
        ridge: λ, the regularisation of the projection, 1e-12 to 1e6 (okfeb, okfe; so are the next
            four).
        rule: "parametric" or "nonparametric", how a row moves the subspace; with forgetting=1 the
            second suits rows in random order, the first those of a stream.
        step: "normalised", "inverse_norm", "inverse_n", "inverse_n2" or "majorised".
        step_size: Factor of the steps inverse_n and inverse_n2, > 0.
        start: "rows" (the first r distinct rows) or "rank_one".
        emit: "z" (in a frame that is kept still while the subspace moves) or "q" (projection
            coefficients).
        policy: Which stored row goes on overflow: "norm", "fifo", "distortion" or "compensated"
            (okfeb).
        forgetting: Factor of the older rows' weight at each overflow under the policy "norm",
            0 to 1 (okfeb).
        censor: Which rows do not enter the subspace once the budget is full: "none", "fixed",
            "moving" or "rate" (okfeb).
        threshold: Fitting error below which the censor or the admission "fixed" leaves rows out,
            >= 0 (okfeb, covariance).
        censor_rate: Fraction left out by the censor "rate", 0 to 1 (okfeb).
        halflife: Rows after which a row counts half, > 0; None forgets nothing, "auto" runs three
            memories side by side (covariance).
        halflife_seconds: Refused: rows have no event times here; for jobs (covariance).
        rank_factor: Chooses the rank from the rows, `rank` at most: the smallest whose fitting
            error is at most this factor of that of all stored rows, > 1 (covariance).
        admission: Which rows enter once as many as the budget have: "every", by their fitting
            error "fixed", "moving" or "rate", or "leverage": at random, more often with a larger
            the error, and with the weight of those that were left out (covariance).
        admission_rate: Fraction admitted under "rate" and "leverage", 0 to 1 (covariance).
        standardise: Subtract the mean and divide by the standard deviation of the first rows;
            "moving": of the last rows.
        scale_window: Rows W of which "moving" takes the last W to 2W, 10 to 10,000,000.
        clip: Clip standardised values to ± this many deviations; None keeps them.
        warmup: First rows that the scale and the median bandwidth are taken from, 2 to 100,000.
            Until they have come `partial_fit` runs over all rows again.
        novelty_window: Fitting errors that `novelty` compares with, 100 to 100,000.
        max_rows: Rows that may be stored without a budget, rank to 20,000 (okfe).
        landmarks: Rows that the subspace begins with: shape (m, D), m at most the budget, or what
            `kerneltrack.choose_landmarks` returned, whose scale and bandwidth then hold; None
            begins with the rows of X (okfeb, covariance).
        random_state: Seed of the start and of "leverage", an integer; None or a `RandomState`
            draw one.

    Attributes:
        spec_: The tracker's spec.
        state_: The tracker's state, for `kerneltrack.codec.encode(spec_, state_)`.
        n_components_: Number of features, the rank.
        n_samples_seen_: Rows tracked so far.
        support_: (|S|,) indices of the stored rows among all rows that came, from 0; -1 for a
            landmark.
        support_vectors_: (|S|, D) the stored rows, in the units of X.
        gamma_: The bandwidth in force.
        n_features_in_: Width D of the rows.
        feature_names_in_: (D,) names of X's columns, where they all have strings for names.

    Reference: F. Sheikholeslami, D. Berberidis, G. B. Giannakis, "Large-scale kernel-based
    feature extraction via low-rank subspace tracking on a budget", IEEE Trans. Signal Process.,
    2018. `kerneltrack.trackers.okfeb.okfeb` says what differs.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(300, 4))
        >>> tracker = SubspaceTracker(rank=5, warmup=100).fit(rows[:200])
        >>> tracker.partial_fit(rows[200:]).transform(rows[:3]).shape
        (3, 5)
        >>> tracker.n_samples_seen_, tracker.support_vectors_.shape
        (300, (20, 4))
    """

    def fit(self, X: npt.ArrayLike, y: Any = None) -> SubspaceTracker:
        """Forget what came before and track the rows of X in order.

        Args:
            X: Shape (n, D), n >= 1.
            y: Ignored.

        Returns:
            The estimator.

        Raises:
            ValueError: for a parameter out of range (`ConfigError`), or for rows that are not
                finite or too large to compute with.
        """
        return self._fit(X, True)

    def partial_fit(self, X: npt.ArrayLike, y: Any = None) -> SubspaceTracker:
        """Track the rows of X after those that came before.

        Parameters are read at the first call; until the next `fit` they keep the values they had.

        Args:
            X: Shape (n, D), n >= 1.
            y: Ignored.

        Returns:
            The estimator.

        Raises:
            ValueError: as in `fit`; nothing of X is learned then.
        """
        return self._fit(X, not self.__sklearn_is_fitted__())

    def transform(self, X: npt.ArrayLike) -> FloatArray:
        """Return the features of rows under the subspace as it is, without learning.

        Args:
            X: Shape (n, D).

        Returns:
            Shape (n, r).

        Raises:
            ValueError: for rows that are not finite or too large to compute with.
        """
        return emitted(self._project(X))

    def score_samples(self, X: npt.ArrayLike) -> FloatArray:
        """Return minus the fitting error of rows: the higher, the more like what was seen.

        Args:
            X: Shape (n, D).

        Returns:
            Shape (n,).

        Raises:
            ValueError: for rows that are not finite or too large to compute with.
        """
        return -self.residual(X)

    @property
    def _n_features_out(self) -> int:
        """Number of features, for their names."""
        return self.n_components_

    def _fit(self, X: npt.ArrayLike, fresh: bool) -> SubspaceTracker:
        rows = validate_data(self, X, reset=fresh, dtype=np.float64, order="C")
        self._track(rows, fresh)
        return self
