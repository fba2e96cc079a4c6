"""What the estimators share: the tracker's parameters, the pass over the rows, the attributes."""

from __future__ import annotations

import dataclasses
import numbers
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.batch.landmarks import Landmarks
from kerneltrack.errors import ConfigError
from kerneltrack.monitor.mismatch import stores_rows
from kerneltrack.registry import TRACKERS, get_tracker, parse_spec
from kerneltrack.settings import check_choice, check_int
from kerneltrack.trackers import Features, KernelTracker
from kerneltrack.trackers.common.calls import look_at
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.start import StartSet, start_from


def plain(value: Any) -> Any:
    """Return a NumPy scalar (of a grid made with `np.arange`, say) as Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def seed_of(random_state: Any) -> int:
    """Return the spec's seed: an integer as it is, else drawn as scikit-learn would."""
    if isinstance(random_state, numbers.Integral):
        return check_int("random_state", int(random_state), 0, 2**63 - 1)
    return int(check_random_state(random_state).randint(2**31 - 1))


def emitted(features: Features) -> FloatArray:
    """Return the features that the spec emits, shape (n, r)."""
    return cast("FloatArray", features.q if features.z is None else features.z)


CHOICES = tuple(name for name, tracker in TRACKERS.items() if stores_rows(tracker))
"""The trackers that keep rows of the data, the estimators' support vectors."""


class TrackingEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """An estimator that keeps a subspace; its parameters are `SubspaceTracker`'s."""

    spec_: SubspaceSpec
    state_: Any
    n_components_: int
    _kept: FloatArray
    """Rows that wait for the warm-up to be full, shape (m, D); m = 0 from then on."""

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
        random_state: Any = 0,
    ) -> None:
        """Keep the parameters as they are; they are checked when the rows come."""
        self.tracker = tracker
        self.rank = rank
        self.budget = budget
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.offset = offset
        self.ridge = ridge
        self.rule = rule
        self.step = step
        self.step_size = step_size
        self.start = start
        self.emit = emit
        self.policy = policy
        self.forgetting = forgetting
        self.censor = censor
        self.threshold = threshold
        self.censor_rate = censor_rate
        self.halflife = halflife
        self.halflife_seconds = halflife_seconds
        self.rank_factor = rank_factor
        self.admission = admission
        self.admission_rate = admission_rate
        self.standardise = standardise
        self.scale_window = scale_window
        self.clip = clip
        self.warmup = warmup
        self.novelty_window = novelty_window
        self.max_rows = max_rows
        self.landmarks = landmarks
        self.random_state = random_state

    def __sklearn_is_fitted__(self) -> bool:
        """Check whether any rows have come."""
        return hasattr(self, "state_")

    @property
    def n_samples_seen_(self) -> int:
        """Rows tracked so far."""
        return int(self._fitted().n)

    @property
    def support_(self) -> IntArray:
        """Indices of the stored rows among all rows that came, from 0."""
        state = self._fitted()
        stored: IntArray = state.born[: state.size].copy()
        return stored

    @property
    def support_vectors_(self) -> FloatArray:
        """The stored rows, in the units of X; scaling and back rounds them."""
        state = self._fitted()
        rows: FloatArray = (state.support[: state.size] + state.shift) * state.scale
        return rows

    @property
    def gamma_(self) -> float:
        """The kernel's bandwidth in force; 1 for kernels without one."""
        return float(self._fitted().bandwidth[0])

    def residual(self, X: npt.ArrayLike) -> FloatArray:
        """Return the fitting error of rows: what the subspace cannot explain of them.

        Args:
            X: Shape (n, D).

        Returns:
            Shape (n,), from 0 to κ(x,x), which is 1 for the Gaussian and the Laplacian kernel.

        Raises:
            ValueError: for rows that are not finite or too large to compute with.
        """
        return self._project(X).loss

    def novelty(self, X: npt.ArrayLike) -> FloatArray:
        """Return where the rows' fitting errors rank among the last `novelty_window` ones.

        Args:
            X: Shape (n, D).

        Returns:
            Shape (n,), in [0, 1]: .99: explained as badly as the worst 1 % before it.

        Raises:
            ValueError: for rows that are not finite or too large to compute with.
        """
        return self._project(X).novelty

    def _fitted(self) -> Any:
        """Return the tracker's state, or raise NotFittedError."""
        check_is_fitted(self)
        return self.state_

    def _make_spec(self) -> SubspaceSpec:
        name = check_choice("tracker", self.tracker, CHOICES)
        fields = dataclasses.fields(get_tracker(name).spec_type)
        values = {
            field.name: plain(getattr(self, field.name)) for field in fields if field.name != "seed"
        }
        return parse_spec({**values, "tracker": name, "seed": seed_of(self.random_state)})

    def _track(self, rows: FloatArray, fresh: bool, extras: tuple[str, ...] = ()) -> Features:
        """Run rows through the tracker and keep its state.

        Scale and bandwidth come from the first `warmup` rows. Until these are there the rows are
        kept, and each call runs over all of them anew: so the state is always that of one `fit`
        over the rows that came.

        Args:
            rows: Shape (n, D).
            fresh: Forget what came before.
            extras: What is asked for in addition, as of the tracker's `update`.

        Returns:
            The features of the rows, those kept from earlier calls first.
        """
        spec = self._make_spec() if fresh else self.spec_
        tracker = get_tracker(spec.tracker)
        kept = 0 if fresh else len(self._kept)
        before = 0 if fresh or kept else self.n_samples_seen_
        if kept:
            rows = np.concatenate([self._kept, rows])
        if fresh or kept:
            state = self._first_state(spec, rows[: spec.rows_to_start])
        else:
            state = self.state_
        after, features = tracker.update(spec, state, rows, extras)
        _check_taken(tracker, spec, after, rows, features, before)
        waits = before + len(rows) < spec.rows_to_start
        self._kept = rows.copy() if waits else np.empty((0, rows.shape[1]))
        self.spec_ = spec
        self.state_ = after
        self.n_components_ = spec.rank
        return features

    def _first_state(self, spec: SubspaceSpec, first_rows: FloatArray) -> Any:
        """Return a state that has learned no row, which may hold landmarks."""
        given = self.landmarks
        if given is None:
            return get_tracker(spec.tracker).init(spec, first_rows)
        if isinstance(given, Landmarks):
            scale, bandwidth = (given.shift, given.scale), given.gamma
            landmarks = given.rows
        else:
            landmarks = check_array(given, dtype=np.float64, order="C", input_name="landmarks")
            first = look_at(spec, first_rows)
            scale, bandwidth = (first.shift, first.scale), float(first.bandwidth[0])
        if landmarks.shape[1] != first_rows.shape[1]:
            allowed = f"of shape (m, {first_rows.shape[1]}), as wide as X"
            raise ConfigError("landmarks", landmarks.shape, allowed)
        start = StartSet(landmarks, *scale, bandwidth, spec.kernel, bool(spec.standardise))
        start.check(spec)
        return start_from(spec, start)

    def _checked(self, X: npt.ArrayLike) -> FloatArray:
        """Return rows of the width and names of those before, checked as scikit-learn does."""
        rows: FloatArray = validate_data(self, X, reset=False, dtype=np.float64, order="C")
        return rows

    def _project(self, X: npt.ArrayLike) -> Features:
        """Return the features of rows under the subspace as it is."""
        state = self._fitted()
        rows = self._checked(X)
        tracker = get_tracker(self.spec_.tracker)
        features = tracker.project(self.spec_, state, rows)
        _check_taken(tracker, self.spec_, state, rows, features, 0)
        return features


def _check_taken(
    tracker: KernelTracker[Any, Any],
    spec: SubspaceSpec,
    state: Any,
    rows: FloatArray,
    features: Features,
    before: int,
) -> None:
    """Raise ValueError if the tracker refused a row."""
    if not features.valid.all():
        place = int(np.argmin(features.valid))
        reason = tracker.why_refused(spec, state, rows[place])
        raise ValueError(f"row {before + place}: {reason}")
