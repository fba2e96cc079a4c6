"""Settings of the adaptive Nyström tracker."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, ClassVar

from kerneltrack.errors import ConfigError
from kerneltrack.settings import Range
from kerneltrack.trackers.common.spec import SubspaceSpec


@dataclasses.dataclass(frozen=True, kw_only=True)
class OANASpec(SubspaceSpec):
    """Settings of the adaptive Nyström tracker; see `SubspaceSpec` for those that all share.

    Example:
        >>> OANASpec(rank=16, budget=20, threshold=4.0).budget
        20
    """

    tracker: ClassVar[str] = "oana"

    budget: Annotated[int, Range(1, 10_000), "Number of landmarks m, at least the rank."] = 20
    threshold: Annotated[
        float | None,
        Range(0, math.inf, "[)"),
        """Threshold ε: a row closer than this to its landmark (squared distance, in scaled
        channels) moves nothing. None: landmarks never move.""",
    ] = 0.0

    def check_together(self) -> None:
        """Refuse a budget below the rank."""
        if self.budget < self.rank:
            raise ConfigError("budget", self.budget, f"at least the rank ({self.rank})")
