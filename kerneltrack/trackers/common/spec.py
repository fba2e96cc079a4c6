"""Settings that all trackers share."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from typing import Annotated, ClassVar, Literal

from kerneltrack.settings import OneOf, Range
from kerneltrack.specs import KERNELS, NEEDS_BANDWIDTH, Spec

EMITS = ("z", "q")
MAX_RANK = 1000
MOVING_WINDOW = 100
"""Losses in the moving average of the censoring threshold (OK-FEB, section VII-D)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubspaceSpec(Spec):
    """Settings of every kernel subspace tracker."""

    role: ClassVar[str] = "tracker"
    tracker: ClassVar[str] = ""
    bandwidths: ClassVar[Collection[str]] = NEEDS_BANDWIDTH

    rank: Annotated[
        int,
        Range(1, MAX_RANK),
        "Write this many features for each row. It is the rank r of the subspace.",
    ] = 10
    kernel: Annotated[str, OneOf(KERNELS), "Kernel κ(x, y)."] = "gaussian"
    gamma: Annotated[
        float | Literal["median"],
        Range(0, math.inf, "()"),
        """Bandwidth γ of the Gaussian kernel (exp(-‖x-y‖²/γ), γ = 2σ²) and the Laplacian kernel
        (exp(-‖x-y‖₁/γ)). "median" uses the median trick on the first `warmup` rows.""",
    ] = "median"
    degree: Annotated[int, Range(1, 20), "Degree of the polynomial kernel."] = 2
    offset: Annotated[float, Range(0, 1e100, "[)"), "Offset of the polynomial kernel."] = 1.0
    emit: Annotated[
        str,
        OneOf(EMITS),
        """Features to write: "z", r coordinates in a frame that stays still, or "q", the
        projection coefficients.""",
    ] = "z"
    seed: Annotated[int, Range(0, 2**63 - 1), "Seed of the random numbers."] = 0
    standardise: Annotated[
        bool | Literal["moving"],
        """Standardise channels by the mean and standard deviation of the first rows. "moving"
        follows the last `scale_window` rows, up to twice as many.""",
    ] = True
    scale_window: Annotated[
        int,
        Range(10, 10_000_000),
        """Window W of `standardise` "moving". After a change of units, the scale fits the new
        units within 2W rows, and exactly within 3W.""",
    ] = 2000
    clip: Annotated[
        float | None,
        Range(0, math.inf, "()"),
        "Clip standardised values to ± this many standard deviations. None does not clip.",
    ] = None
    warmup: Annotated[
        int,
        Range(2, 100_000),
        """Number of first rows from which scale and bandwidth are computed. They wait until all
        have come, or the input ends, and are then processed like all others.""",
    ] = 500
    novelty_window: Annotated[
        int,
        Range(MOVING_WINDOW, 100_000),
        "Number of recent losses with which novelty compares a row.",
    ] = 256

    @property
    def rows_to_start(self) -> int:
        """Rows that `init` must see: `warmup` if anything is measured from them, else 1."""
        measured = self.standardise or (self.kernel in self.bandwidths and self.gamma == "median")
        return self.warmup if measured else 1

    @property
    def scale_moves(self) -> bool:
        """Whether the scale follows the rows."""
        return self.standardise == "moving"

    @property
    def needs_times(self) -> bool:
        """Whether the tracker needs the rows' event times."""
        return False
