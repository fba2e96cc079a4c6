"""Settings of the learner that chooses for itself."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, ClassVar, NamedTuple

from kerneltrack.learners.common.spec import INPUTS, ROWS, LearnerSpec
from kerneltrack.learners.linear.spec import MIN_FORGETTING
from kerneltrack.settings import OneOf, Range


class Effort(NamedTuple):
    """Landmarks, rows of the window, ferns."""

    landmarks: int
    rows: int
    ferns: int


EFFORTS = {
    "low": Effort(60, 512, 24),
    "default": Effort(120, 2048, 64),
    "high": Effort(300, 8192, 256),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AutoSpec(LearnerSpec):
    """Settings of the learner `auto`, none of which has to be chosen; see `LearnerSpec`.

    Example:
        >>> AutoSpec(budget=50).learner
        'auto'
    """

    learner: ClassVar[str] = "auto"

    inputs: Annotated[
        str,
        OneOf(INPUTS),
        """Inputs of the learner: the row itself (standardised, clipped at 4 deviations, over
        √D), the tracker's features, or both. The default is the row: next to the map,
        features add nothing (benchmarks/results/auto.md).""",
    ] = ROWS
    effort: Annotated[
        str,
        OneOf(tuple(EFFORTS)),
        """Time and state to spend on a row: `low`, `default` or `high` stand for 60, 120 or 300
        landmarks, a window of 512, 2,048 or 8,192 rows, and 24, 64 or 256 ferns.""",
    ] = "default"
    budget: Annotated[
        int | None,
        Range(1, 1000),
        "Number of landmarks m of the fixed map. None: as `effort` says.",
    ] = None
    window: Annotated[
        int | None,
        Range(1, 100_000),
        """Number of recent labelled rows W to keep, for nearest neighbours and for building the
        map. None: as `effort` says, down to half of it for wide rows.""",
    ] = None
    ridge: Annotated[
        float, Range(1e-12, 1e6), "Ridge λ of every ridge regression, relative to a sum over rows."
    ] = 0.01
    forgetting: Annotated[
        float | None,
        Range(MIN_FORGETTING, 1),
        """Forgetting ρ of the shorter memory, about 1/(1 - ρ) rows. The longer one keeps all rows.
        None: .998 for classes, .99 for targets.""",
    ] = None
    gamma: Annotated[
        float | None,
        Range(0, math.inf, "()"),
        """Bandwidth γ of the map, exp(-‖x-y‖²/γ), after rows are scaled so that their mean
        squared distance is 2. None: .5 for classes, 2 for targets.""",
    ] = None
    share: Annotated[
        float,
        Range(0, 0.5),
        "Share α of all sub-models' weights that each row redistributes equally.",
    ] = 0.002
    last_label: Annotated[
        bool,
        """Use the last label as a sub-model. This helps if neighbouring rows share a label that
        comes at once; jobs with delayed labels leave it out.""",
    ] = True

    @property
    def landmarks(self) -> int:
        """Most landmarks of the map."""
        return EFFORTS[self.effort].landmarks if self.budget is None else self.budget

    @property
    def shorter(self) -> float:
        """ρ of the shorter memory."""
        return (0.998 if self.classifies else 0.99) if self.forgetting is None else self.forgetting

    @property
    def bandwidth(self) -> float:
        """γ of the map."""
        return (0.5 if self.classifies else 2.0) if self.gamma is None else self.gamma

    @property
    def ferns(self) -> int:
        """Random ferns."""
        return EFFORTS[self.effort].ferns

    def rows_kept(self, width: int) -> int:
        """Return most rows of the window, for rows of `width` inputs.

        Where the effort says it, those of wide rows are fewer, down to half, so that to look at
        them takes no more time than the ridges do.

        Example:
            >>> AutoSpec().rows_kept(12), AutoSpec().rows_kept(123)
            (2048, 1024)
        """
        if self.window is not None:
            return self.window
        most, size = EFFORTS[self.effort].rows, 1 + width + self.landmarks
        return max(most // 2, min(most, 2 * size * size // width))
