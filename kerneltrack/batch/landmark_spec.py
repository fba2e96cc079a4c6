"""Settings of the choice of landmark rows."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Literal

from kerneltrack.errors import ConfigError
from kerneltrack.settings import OneOf, Range
from kerneltrack.specs import KERNELS, Spec

METHODS = ("bcd-pg", "bcd-ex", "kmeans", "uniform")
STARTS = ("uniform", "kmeans")
MAX_ROWS = 20_000
"""Rows that landmarks are chosen among, at most."""
DESCENT = frozenset({"bcd-pg", "bcd-ex"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class LandmarkSpec(Spec):
    """Settings for choosing landmarks.

    Example:
        >>> LandmarkSpec(method="bcd-ex", count=20).rank
        10
    """

    method: Annotated[
        str,
        OneOf(METHODS),
        """How to choose: "bcd-pg" (block coordinate descent, proximal update of a row), "bcd-ex"
        (exact update), "kmeans" (the rows nearest to the centres of scikit-learn's k-means)
        or "uniform".""",
    ] = "bcd-pg"
    count: Annotated[int, Range(1, 10_000), "Most landmarks. The descents may keep fewer."] = 20
    rank: Annotated[
        int, Range(1, 10_000), "Number of columns r of the descents' factor, at most `count`."
    ] = 10
    start: Annotated[str, OneOf(STARTS), "Rows from which the descents start."] = "uniform"
    penalty: Annotated[
        float | Literal["auto"],
        Range(0, math.inf, "()"),
        """Penalty η on each nonzero row of the factor. "auto" is a fifth of the penalty at which
        no row would enter.""",
    ] = "auto"
    ridge: Annotated[float, Range(1e-12, 1e6), "Ridge λ of the descents."] = 1e-3
    sweeps: Annotated[int, Range(1, 10_000), "Most sweeps of a descent at one penalty."] = 50
    tolerance: Annotated[
        float, Range(0, 1, "[)"), "Relative change of Q at which a descent stops."
    ] = 1e-4
    kernel: Annotated[str, OneOf(KERNELS), "Kernel κ(x, y)."] = "gaussian"
    gamma: Annotated[
        float | Literal["median"],
        Range(0, math.inf, "()"),
        """Bandwidth γ of the Gaussian kernel (exp(-‖x-y‖²/γ)) and the Laplacian kernel, or
        "median".""",
    ] = "median"
    degree: Annotated[int, Range(1, 20), "Degree of the polynomial kernel."] = 2
    offset: Annotated[float, Range(0, 1e100, "[)"), "Offset of the polynomial kernel."] = 1.0
    standardise: Annotated[
        bool, "Standardise channels by the mean and standard deviation of the rows."
    ] = True
    seed: Annotated[int, Range(0, 2**32 - 1), "Seed of the start."] = 0

    def check_together(self) -> None:
        """Refuse a factor wider than there are landmarks."""
        if self.method in DESCENT and self.rank > self.count:
            raise ConfigError("rank", self.rank, f"an integer from 1 to {self.count}")
