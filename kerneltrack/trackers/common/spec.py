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
    """What every kernel subspace tracker is told."""

    role: ClassVar[str] = "tracker"
    tracker: ClassVar[str] = ""
    bandwidths: ClassVar[Collection[str]] = NEEDS_BANDWIDTH

    rank: Annotated[int, Range(1, MAX_RANK), "Dimension r of the subspace and of the features."] = (
        10
    )
    kernel: Annotated[str, OneOf(KERNELS), "κ(x, y)."] = "gaussian"
    gamma: Annotated[
        float | Literal["median"],
        Range(0, math.inf, "()"),
        """Bandwidth of the Gaussian (exp(-‖x-y‖²/γ), γ = 2σ²) and the Laplacian kernel
        (exp(-‖x-y‖₁/γ)), or "median" for the median trick on the first `warmup` rows.""",
    ] = "median"
    degree: Annotated[int, Range(1, 20), "Degree of the polynomial kernel."] = 2
    offset: Annotated[float, Range(0, 1e100, "[)"), "Offset of the polynomial kernel."] = 1.0
    emit: Annotated[
        str,
        OneOf(EMITS),
        """"z" (r-vector in a frame that is kept still) or "q" (projection coefficients).""",
    ] = "z"
    seed: Annotated[int, Range(0, 2**63 - 1), "Seed of all that is drawn."] = 0
    standardise: Annotated[
        bool | Literal["moving"],
        """Subtract the mean and divide by the standard deviation of the first rows; "moving": of
        the last `scale_window` to twice as many rows.""",
    ] = True
    scale_window: Annotated[
        int,
        Range(10, 10_000_000),
        """Rows W of `standardise` "moving": the scale is that of the new units within 2W rows,
        exactly so within 3W.""",
    ] = 2000
    clip: Annotated[
        float | None,
        Range(0, math.inf, "()"),
        "Clip standardised values to ± this many deviations; None keeps them.",
    ] = None
    warmup: Annotated[
        int,
        Range(2, 100_000),
        """Rows W that the standardiser and the median trick look at. They wait until W have come
        (or the input ends), then run like all others.""",
    ] = 500
    novelty_window: Annotated[
        int, Range(MOVING_WINDOW, 100_000), "Losses that the novelty score compares with."
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
        """Whether the tracker must be told the rows' event times."""
        return False
