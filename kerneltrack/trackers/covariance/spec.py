"""Settings of the covariance tracker."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, ClassVar

from kerneltrack.errors import ConfigError
from kerneltrack.settings import OneOf, Range, Words
from kerneltrack.specs import AUTO
from kerneltrack.trackers.common.spec import MAX_RANK, SubspaceSpec

ADMISSIONS = ("every", "fixed", "moving", "rate", "leverage")
AUTO_FACTOR = 1.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class CovarianceSpec(SubspaceSpec):
    """Settings of the covariance tracker; see `SubspaceSpec` for those that all trackers share.

    Example:
        >>> CovarianceSpec(rank=10, budget=15, halflife=500).budget
        15
    """

    tracker: ClassVar[str] = "covariance"

    rank: Annotated[
        int,
        Range(1, MAX_RANK),
        Words((AUTO,)),
        """Dimension r of the subspace and of the features; "auto": the budget, 1000 at most, and a
        `rank_factor` of 1.5 if none is given.""",
    ] = 10
    budget: Annotated[int, Range(1, 10_000), "Most stored rows B, at least the rank."] = 20
    halflife: Annotated[
        float | str | None,
        Range(0, math.inf, "()"),
        Words((AUTO,)),
        """Rows after which a row counts half; None forgets nothing. "auto": three memories side by
        side, of half a budget, two and eight budgets, the best on recent rows in use: three times
        the cost and the state, and nothing to know of the rows' order.""",
    ] = None
    halflife_seconds: Annotated[
        float | None,
        Range(0, math.inf, "()"),
        """The same in event time, instead of rows: for irregular sampling. Needs rows with
        times.""",
    ] = None
    rank_factor: Annotated[
        float | None,
        Range(1, math.inf, "()"),
        """Chooses the rank from the stream, `rank` at most: the smallest whose fitting error is at
        most this factor of that of all stored rows. None: the rank is `rank`.""",
    ] = None
    admission: Annotated[
        str,
        OneOf(ADMISSIONS),
        """Which rows enter the covariance once as many as the budget have: "every", by novelty
        "fixed" (ℓ >= threshold), "moving" (ℓ >= mean of the last 100 losses) or "rate" (ε is
        steered so that the fraction `admission_rate` enters), or "leverage" (at random, the
        likelier the larger ℓ, and with the weight of those that were left out).""",
    ] = "every"
    threshold: Annotated[float, Range(0, math.inf, "[)"), """ε of the admission "fixed"."""] = 0.0
    admission_rate: Annotated[
        float, Range(0, 1, "()"), """Fraction admitted under "rate" and "leverage"."""
    ] = 0.1

    def resolve(self) -> None:
        """Put numbers in the place of the rank "auto"."""
        rank: Any = self.rank
        if rank == AUTO and isinstance(self.budget, int):
            self.replace("rank", min(self.budget, MAX_RANK))
            if self.rank_factor is None:
                self.replace("rank_factor", AUTO_FACTOR)

    def check_together(self) -> None:
        """Refuse a budget below the rank, and two half-lives."""
        if self.budget < self.rank:
            raise ConfigError("budget", self.budget, f"at least the rank ({self.rank})")
        if self.halflife is not None and self.halflife_seconds is not None:
            raise ConfigError("halflife_seconds", self.halflife_seconds, "none with a halflife")

    @property
    def chooses_halflife(self) -> bool:
        """Whether memories run side by side."""
        return self.halflife == AUTO

    @property
    def needs_times(self) -> bool:
        """Whether the half-life is one of event time."""
        return self.halflife_seconds is not None
