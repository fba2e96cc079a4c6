"""Settings of OK-FE and OK-FEB, and which SV goes when one too many is stored.

| policy | the SV that goes |
|---|---|
| norm | of the least η‖a‖, where the η of all older ones shrink by β (Alg. 5, eq. 25 and 26) |
| fifo | the oldest |
| distortion | of the least κ(x,x)‖a‖², which moves the subspace least (eq. 24) |
| compensated | of the least ‖a‖²/[K⁻¹]_ii, its φ first projected on the others |

Reference: F. Sheikholeslami, D. Berberidis, G. B. Giannakis, "Large-scale kernel-based feature
extraction via low-rank subspace tracking on a budget", IEEE Trans. Signal Process., 2018, Alg. 5.

Differs from the paper: "compensated" is this project's. Every SV that was stored when a budget
first overflows ages with it, the rows that filled the budget too.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, ClassVar

from kerneltrack.errors import ConfigError
from kerneltrack.settings import OneOf, Range
from kerneltrack.trackers.common.spec import SubspaceSpec

RULES = ("parametric", "nonparametric")
STEPS = ("normalised", "inverse_norm", "inverse_n", "inverse_n2", "majorised")
STARTS = ("rows", "rank_one")
POLICIES = ("norm", "fifo", "distortion", "compensated")
CENSORS = ("none", "fixed", "moving", "rate")
MOST_ROWS = 20_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class GradientSpec(SubspaceSpec):
    """What the trackers that move their subspace along a gradient (OK-FE, OK-FEB) are also told."""

    ridge: Annotated[float, Range(1e-12, 1e6), "Ridge λ of the cost."] = 1e-3
    rule: Annotated[
        str,
        OneOf(RULES),
        """Update rule: "nonparametric" (gradient with respect to A) or "parametric" (gradient
        with respect to L).""",
    ] = "parametric"
    step: Annotated[
        str, OneOf(STEPS), """Step size rule. "inverse_norm" is 1/‖q‖, as in the paper."""
    ] = "normalised"
    step_size: Annotated[
        float, Range(0, 1e6, "(]"), """Factor of the steps "inverse_n" and "inverse_n2"."""
    ] = 1.0
    start: Annotated[
        str,
        OneOf(STARTS),
        """Start of the subspace: "rows", the first r distinct rows, or "rank_one", as in the
        papers.""",
    ] = "rows"


@dataclasses.dataclass(frozen=True, kw_only=True)
class OKFEBSpec(GradientSpec):
    """Settings of OK-FEB; see `GradientSpec` and `SubspaceSpec`.

    Example:
        >>> OKFEBSpec(rank=10, budget=15).budget
        15
    """

    tracker: ClassVar[str] = "okfeb"

    budget: Annotated[
        int,
        Range(1, 10_000),
        "Store at most this many rows per model. The budget B of support vectors is at "
        "least the rank.",
    ] = 20
    policy: Annotated[
        str,
        OneOf(POLICIES),
        """Choose which support vector leaves when the budget is exceeded. "norm": smallest η‖a‖
        (Alg. 5). "fifo": the oldest. "distortion": exact minimum distortion (eq. 24).
        "compensated": its φ is first projected on the others (minimum of ‖a‖²/[K⁻¹]_ii).""",
    ] = "norm"
    forgetting: Annotated[
        float,
        Range(0, 1, "(]"),
        """Forgetting β of the policy "norm": at each overflow, η of every older support vector
        is multiplied by it.""",
    ] = 0.9
    censor: Annotated[
        str,
        OneOf(CENSORS),
        """Choose which rows to skip once the budget is full. "none": all are learned. "fixed": ℓ
        < `threshold` is skipped. "moving": ℓ < mean of the last 100 losses. "rate": skips the
        fraction `censor_rate`.""",
    ] = "none"
    threshold: Annotated[
        float, Range(0, math.inf, "[)"), """Threshold ε of the censor "fixed"."""
    ] = 0.0
    censor_rate: Annotated[
        float, Range(0, 1, "()"), """Fraction of rows that the censor "rate" skips."""
    ] = 0.9

    def check_together(self) -> None:
        """Refuse a budget below the rank."""
        if self.budget < self.rank:
            raise ConfigError("budget", self.budget, f"at least the rank ({self.rank})")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OKFESpec(GradientSpec):
    """Settings of OK-FE; see `GradientSpec` for those that all subspace trackers share.

    Example:
        >>> OKFESpec(rank=3, max_rows=100).tracker
        'okfe'
    """

    tracker: ClassVar[str] = "okfe"

    max_rows: Annotated[
        int,
        Range(1, MOST_ROWS),
        "Most rows that a model may store, at least the rank. Later rows are refused.",
    ] = 2000

    def check_together(self) -> None:
        """Refuse room for fewer rows than the rank."""
        if self.max_rows < self.rank:
            raise ConfigError("max_rows", self.max_rows, f"at least the rank ({self.rank})")
