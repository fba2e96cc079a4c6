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
        """Write this many features for each row. It is the rank r of the subspace. "auto" takes the
        budget, at most 1000, and a `rank_factor` of 1.5 unless one is set.""",
    ] = 10
    budget: Annotated[
        int,
        Range(1, 10_000),
        "Store at most this many rows per model. The budget B is at least the rank.",
    ] = 20
    halflife: Annotated[
        float | str | None,
        Range(0, math.inf, "()"),
        Words((AUTO,)),
        """Half-life: number of rows after which a row counts half. None forgets nothing. "auto"
        keeps three memories (half a budget, two and eight budgets) and uses the one that is
        best on recent rows, at three times the cost and state.""",
    ] = None
    halflife_seconds: Annotated[
        float | None,
        Range(0, math.inf, "()"),
        """Half-life in seconds of event time instead of rows, for irregular sampling. Needs rows
        with times.""",
    ] = None
    rank_factor: Annotated[
        float | None,
        Range(1, math.inf, "()"),
        """Choose the rank from the stream, at most `rank`: the smallest whose fitting error is
        at most this factor times the error with all stored rows. None keeps `rank`.""",
    ] = None
    admission: Annotated[
        str,
        OneOf(ADMISSIONS),
        """Choose which rows enter the covariance once the budget is full. "every": all. "fixed":
        ℓ >= `threshold`. "moving": ℓ >= mean of the last 100 losses. "rate": the most novel
        fraction `admission_rate`. "leverage": at random, more likely with larger ℓ, weighted
        for the rows left out.""",
    ] = "every"
    threshold: Annotated[
        float, Range(0, math.inf, "[)"), """Threshold ε of the admission "fixed"."""
    ] = 0.0
    admission_rate: Annotated[
        float, Range(0, 1, "()"), """Fraction of rows that "rate" and "leverage" admit."""
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
