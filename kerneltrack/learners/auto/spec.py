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
        """What a job tells the learner of a row: the row itself (standardised, clipped at 4
        deviations, over √D), the tracker's features, or both. Beside the map the features add
        nothing (benchmarks/RESULTS.md), and a subspace that moves turns last digits into other
        features: so the row alone.""",
    ] = ROWS
    effort: Annotated[
        str,
        OneOf(tuple(EFFORTS)),
        """How much time and state a row may cost: `low`, `default` or `high` stand for 60, 120 or
        300 landmarks, a window of 512, 2,048 or 8,192 rows and 24, 64 or 256 ferns.""",
    ] = "default"
    budget: Annotated[
        int | None,
        Range(1, 1000),
        "Landmarks m of the still map; none: as many as the effort says.",
    ] = None
    window: Annotated[
        int | None,
        Range(1, 100_000),
        """W, the last labelled rows that are kept, for the nearest of them and to make the map
        from; none: as many as the effort says, of rows that are wide down to half of it.""",
    ] = None
    ridge: Annotated[float, Range(1e-12, 1e6), "λ of every ridge, against a sum over rows."] = 0.01
    forgetting: Annotated[
        float,
        Range(MIN_FORGETTING, 1),
        "ρ of the shorter memory: rows count for about 1/(1 - ρ) rows. The other keeps all.",
    ] = 0.998
    gamma: Annotated[
        float,
        Range(0, math.inf, "()"),
        """Bandwidth of the map, exp(-‖x-y‖²/γ), where such squares are 2 on the average: the map
        scales rows so by what it saw.""",
    ] = 0.5
    share: Annotated[
        float,
        Range(0, 0.5),
        "α: what each row takes of all experts' weights and gives to all alike.",
    ] = 0.002
    last_label: Annotated[
        bool,
        """Whether the last label is an expert. It is good where neighbours share a label that comes
        at once; a job whose labels are delayed leaves it out.""",
    ] = True

    @property
    def landmarks(self) -> int:
        """Most landmarks of the map."""
        return EFFORTS[self.effort].landmarks if self.budget is None else self.budget

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
