"""Settings of the learner that chooses for itself."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, ClassVar

from kerneltrack.learners.common.spec import INPUTS, ROWS, LearnerSpec
from kerneltrack.learners.linear.spec import MIN_FORGETTING
from kerneltrack.settings import OneOf, Range


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
    budget: Annotated[int, Range(1, 1000), "Landmarks m of the still map."] = 150
    ridge: Annotated[float, Range(1e-12, 1e6), "λ of every ridge, against a sum over rows."] = 0.01
    forgetting: Annotated[
        float,
        Range(MIN_FORGETTING, 1),
        "ρ of the shorter memory: rows count for about 1/(1 - ρ) rows. The other keeps all.",
    ] = 0.998
    gamma: Annotated[
        float,
        Range(0, math.inf, "()"),
        """Bandwidth of the map, exp(-‖x-y‖²/γ). Rows come scaled so that such squares are about 2
        on the average.""",
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
