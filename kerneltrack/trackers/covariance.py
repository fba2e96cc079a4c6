"""The budgeted kernel covariance tracker."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.specs import SubspaceSpec, check_choice, check_int, check_number
from kerneltrack.trackers import covstate
from kerneltrack.trackers.base import Features
from kerneltrack.trackers.calls import (
    checked,
    copied,
    look_at,
    refusal,
    run,
    totals,
    width_of,
)
from kerneltrack.trackers.covloop import run_rows
from kerneltrack.trackers.covstate import CovarianceState

ADMISSIONS = ("every", "fixed", "moving", "rate", "leverage")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CovarianceSpec(SubspaceSpec):
    """Settings of the covariance tracker; see `SubspaceSpec` for those that all trackers share.

    Attributes:
        budget: Most stored rows B, rank to 10,000.
        halflife: Rows after which a row counts half, > 0; None forgets nothing.
        admission: Which rows enter the covariance once as many as the budget have: "every",
            by novelty "fixed" (ℓ >= threshold), "moving" (ℓ >= mean of the last 100 losses) or
            "rate" (ε is steered so that the fraction `admission_rate` enters), or "leverage" (at
            random, the likelier the larger ℓ, and with the weight of those that were left out).
        threshold: ε of the admission "fixed", >= 0.
        admission_rate: Fraction admitted under "rate" and "leverage", 0 to 1.

    Example:
        >>> CovarianceSpec(rank=10, budget=15, halflife=500).budget
        15
    """

    tracker: ClassVar[str] = "covariance"

    budget: int = 20
    halflife: float | None = None
    admission: str = "every"
    threshold: float = 0.0
    admission_rate: float = 0.1

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            ConfigError: naming the field, the value and what is allowed.
        """
        super().__post_init__()
        check_int("budget", self.budget, 1, 10_000)
        if self.budget < self.rank:
            raise ConfigError("budget", self.budget, f"at least the rank ({self.rank})")
        if self.halflife is not None:
            check_number("halflife", self.halflife, 0, math.inf)
        check_choice("admission", self.admission, ADMISSIONS)
        check_number("threshold", self.threshold, 0, math.inf, closed=("low",))
        check_number("admission_rate", self.admission_rate, 0, 1)


def make_state(spec: CovarianceSpec, first_rows: npt.ArrayLike, key: str = "") -> CovarianceState:
    """Make the state of a model of this key, scaled and tuned to its first rows (m, D)."""
    seen, rank, slots = look_at(spec, first_rows), spec.rank, spec.budget + 1
    return CovarianceState(
        support=np.zeros((slots, len(seen.scale))),
        factor=np.zeros((rank, slots)),
        gram=np.zeros((slots, slots)),
        image=np.zeros((rank, slots)),
        weights=np.zeros((slots, slots)),
        square=np.zeros((slots, slots)),
        whitener=np.zeros((slots, slots)),
        frame=np.eye(rank),
        born=np.zeros(slots, dtype=np.int64),
        shift=seen.shift,
        scale=seen.scale,
        bandwidth=seen.bandwidth,
        recent=np.zeros(spec.novelty_window),
        key=np.array([key_of(spec.seed, key)]),
        reals=np.zeros(covstate.REALS),
        counts=np.zeros(covstate.COUNTS, dtype=np.int64),
    )


def key_of(seed: int, key: str) -> int:
    """Return what a model's coins are drawn from, 64 bits of a hash of seed and model ID."""
    digest = hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def settings_of(spec: CovarianceSpec, learn: bool) -> covstate.Settings:
    """Return the spec as the compiled loop takes it."""
    return covstate.Settings(
        learn=learn,
        aligned=spec.emit == "z",
        admission=ADMISSIONS.index(spec.admission),
        threshold=spec.threshold,
        admitted=spec.admission_rate,
        fading=0.0 if spec.halflife is None else math.log(2.0) / spec.halflife,
        steps=covstate.ONE_IN_A_ROW if spec.admission == "every" else covstate.TWO_APART,
        clip=math.inf if spec.clip is None else spec.clip,
    )


class CovarianceTracker:
    """The covariance tracker (see the module).

    Example:
        >>> spec = CovarianceSpec(rank=2, budget=4, standardise=False, gamma=2.0)
        >>> tracker = CovarianceTracker()
        >>> rows = np.random.default_rng(0).normal(size=(50, 3))
        >>> state, features = tracker.update(spec, tracker.init(spec, rows[:1]), rows)
        >>> features.z.shape, state.size
        ((50, 2), 4)
    """

    name = "covariance"
    spec_type: type[SubspaceSpec] = CovarianceSpec
    state_type = CovarianceState

    def init(
        self, spec: CovarianceSpec, first_rows: npt.ArrayLike, key: str = ""
    ) -> CovarianceState:
        """Make the state from the first rows (m, D); see `Tracker.init`."""
        return make_state(spec, first_rows, key)

    def update(
        self,
        spec: CovarianceSpec,
        state: CovarianceState,
        rows: npt.ArrayLike,
        extras: tuple[str, ...] = (),
    ) -> tuple[CovarianceState, Features]:
        """Run rows (n, D) through the state in order; see `Tracker.update`."""
        after = copied(state)
        return after, run(run_rows, settings_of(spec, True), after, spec, rows, extras)

    def project(
        self,
        spec: CovarianceSpec,
        state: CovarianceState,
        rows: npt.ArrayLike,
        extras: tuple[str, ...] = (),
    ) -> Features:
        """Return the rows' features without learning; see `Tracker.project`."""
        return run(run_rows, settings_of(spec, False), state, spec, rows, extras)

    def why_refused(self, spec: CovarianceSpec, state: CovarianceState, row: npt.ArrayLike) -> str:
        """Say why a row was refused."""
        return refusal(state, row)

    def counters(self, state: CovarianceState) -> dict[str, int]:
        """Return running totals by name."""
        return totals(state)

    def arrays(self, state: CovarianceState) -> dict[str, npt.NDArray[Any]]:
        """Return the state's arrays by name."""
        return state._asdict()

    def from_arrays(
        self, spec: CovarianceSpec, arrays: dict[str, npt.NDArray[Any]]
    ) -> CovarianceState:
        """Make a state of arrays that `arrays` gave."""
        expected = make_state(spec, np.zeros((1, width_of(CovarianceState, arrays))))
        state: CovarianceState = checked(CovarianceState, expected, arrays, spec.rank)
        return state
