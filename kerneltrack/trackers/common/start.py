"""A model's start from rows that were chosen beforehand: landmarks of a batch.

The model begins as if the landmarks had come, in their order, before its first row, under scale and
bandwidth of the batch that they were chosen from; nothing waits for a warm-up then. They are not
rows of the model: its numbers and losses begin with its own first row. A landmark that leaves is
told as -1, as no row of the model.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import Any

import numpy as np

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.registry import get_tracker
from kerneltrack.settings import Range, check_bool, check_choice, check_number
from kerneltrack.specs import KERNELS
from kerneltrack.trackers.common import state as places
from kerneltrack.trackers.common.moving_scale import with_moments
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.covariance import state as covstate
from kerneltrack.trackers.covariance.spec import CovarianceSpec
from kerneltrack.trackers.oana.spec import OANASpec
from kerneltrack.trackers.okfeb.spec import OKFEBSpec

STARTS = (OKFEBSpec, CovarianceSpec, OANASpec)
"""Specs of the trackers that store rows on a budget."""


@dataclasses.dataclass(frozen=True, eq=False)
class StartSet:
    """Landmarks, and what they were chosen by.

    Attributes:
        rows: (m, D) as they were in the batch, not scaled.
        shift: (D,) centre over scale.
        scale: (D,) standard deviation.
        gamma: Bandwidth of the kernel.
        kernel: Its name.
        standardise: Whether the batch was standardised.
    """

    rows: FloatArray
    shift: FloatArray
    scale: FloatArray
    gamma: float
    kernel: str
    standardise: bool

    def digest(self) -> str:
        """Return a short hash that tells landmarks apart."""
        hashed = hashlib.sha256(repr((self.gamma, self.kernel, self.standardise)).encode())
        for array in (self.rows, self.shift, self.scale):
            hashed.update(array.tobytes())
        return hashed.hexdigest()[:16]

    def check_values(self) -> None:
        """Refuse values that no choice of landmarks gives.

        Raises:
            ConfigError: naming the first such value.
        """
        check_choice("kernel", self.kernel, KERNELS)
        check_bool("standardise", self.standardise)
        check_number("gamma", self.gamma, Range(0, math.inf, "()"))
        if self.rows.ndim != 2 or min(self.rows.shape) < 1:
            raise ConfigError("shape of rows", self.rows.shape, "one row and channel at least")
        for name, array in (("shift", self.shift), ("scale", self.scale)):
            if array.shape != self.rows.shape[1:]:
                raise ConfigError(f"shape of {name}", array.shape, f"{self.rows.shape[1:]}")
        for name, array in (("rows", self.rows), ("shift", self.shift), ("scale", self.scale)):
            wrong = array[~np.isfinite(array) | ((array <= 0) & (name == "scale"))]
            if len(wrong):
                allowed = "finite numbers > 0" if name == "scale" else "finite numbers"
                raise ConfigError(name, float(wrong[0]), allowed)

    def check(self, spec: SubspaceSpec) -> None:
        """Refuse a tracker that cannot start from these landmarks; tries one.

        Raises:
            ConfigError: for one that stores no rows on a budget, or has room for fewer, another
                kernel or other scaling, or that refuses a landmark.
        """
        self._check_settings(spec)
        _begin(spec, self, "")

    def _check_settings(self, spec: SubspaceSpec) -> None:
        if not isinstance(spec, STARTS):
            names = " or ".join(kind.tracker for kind in STARTS)
            raise ConfigError("tracker", spec.tracker, f"{names} to start from landmarks")
        if len(self.rows) > spec.budget:
            allowed = f"at least {len(self.rows)}, the number of landmarks"
            raise ConfigError("budget", spec.budget, allowed)
        for name in ("kernel", "standardise"):
            value, chosen_by = getattr(spec, name), getattr(self, name)
            # A scale that moves begins with that of the batch.
            if value != chosen_by and not (value == "moving" and chosen_by):
                raise ConfigError(name, value, f"{chosen_by!r}, as the landmarks were chosen")


def start_from(spec: Any, start: StartSet, key: str = "") -> Any:
    """Make the state of a model that begins with landmarks.

    Args:
        spec: The tracker's.
        start: The landmarks. Their bandwidth holds where the spec's is "median".
        key: The model's ID, as of `KernelTracker.init`.

    Returns:
        The state, with n = 0.

    Raises:
        ConfigError: as `StartSet.check`, and for landmarks that the tracker refuses.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(20, 2))
        >>> start = StartSet(rows, np.zeros(2), np.ones(2), 4.0, "gaussian", True)
        >>> state = start_from(OKFEBSpec(rank=5, budget=20), start)
        >>> state.n, state.size, float(state.bandwidth[0])
        (0, 20, 4.0)
    """
    start._check_settings(spec)
    return _begin(spec, start, key)


def _begin(spec: Any, start: StartSet, key: str) -> Any:
    tracker = get_tracker(spec.tracker)
    # The scale does not follow the landmarks.
    still = dataclasses.replace(spec, standardise=bool(spec.standardise))
    state = tracker.init(still, start.rows, key)
    state = state._replace(shift=start.shift.copy(), scale=start.scale.copy())
    if spec.gamma == "median":
        state = state._replace(bandwidth=np.array([start.gamma]))
    times = np.zeros(len(start.rows), dtype=np.int64)
    state, features = tracker.update(still, state, start.rows, times=times)
    if not features.valid.all():
        place = int(np.argmin(features.valid))
        reason = tracker.why_refused(spec, state, start.rows[place])
        raise ConfigError("landmark", place, f"a row that {spec.tracker} takes: {reason}")
    # What was counted of the landmarks is not the model's: only what the arrays are led by stays.
    counts, reals = state.counts.copy(), state.reals.copy()
    kept = [places.SIZE, places.STARTED]
    if isinstance(spec, CovarianceSpec):
        kept.append(covstate.SINCE)
        if spec.rank_factor is not None:
            kept.append(places.RANK)
    counts[np.setdiff1d(np.arange(len(counts)), kept)] = 0
    reals[places.MEAN_LOSS] = 0.0
    born, recent = np.full_like(state.born, -1), np.zeros_like(state.recent)
    state = state._replace(counts=counts, reals=reals, born=born, recent=recent)
    return with_moments(spec, state)
