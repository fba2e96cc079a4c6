"""Settings that learners share."""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar

from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.costs import Costs, checked_costs
from kerneltrack.settings import OneOf, Range
from kerneltrack.specs import Spec

CLASSIFICATION = "classification"
REGRESSION = "regression"
TASKS = (CLASSIFICATION, REGRESSION)
MAX_CLASSES = 10_000
BOTH, FEATURES, ROWS = "both", "features", "rows"
INPUTS = (BOTH, FEATURES, ROWS)
BALANCED, ROOT = "balanced", "root"
WEIGHTS = (None, BALANCED, ROOT)
"""Weights of classes, by what native/learning.h calls them."""
OF_INTERVALS = ("coverage", "width", "interval_score")
"""What metrics say of intervals; see `board.of_intervals`."""
OF_SETS = ("coverage", "set_size")
"""What metrics say of sets: the share that holds the label, and classes in a set."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnerSpec(Spec):
    """What every learner is told."""

    role: ClassVar[str] = "learner"
    learner: ClassVar[str] = ""
    tasks: ClassVar[tuple[str, ...]] = TASKS

    task: Annotated[str, OneOf(TASKS), "What is learned: classes or targets."] = CLASSIFICATION
    max_classes: Annotated[int, Range(1, MAX_CLASSES), "Most classes that a model may have."] = 100
    inputs: Annotated[
        str | None,
        OneOf(INPUTS),
        """What a job or a fleet gives the learner of a row: the tracker's features, the row itself
        (standardised, clipped at 4 deviations, over √D), or both. None, the default of linear
        learners: both, or the features where the tracker's are the rows.""",
    ] = FEATURES

    scale_targets: Annotated[
        bool,
        """Whether targets are learned as deviations from the mean of those seen so far, in standard
        deviations, with a bias that no ridge holds back: other units or another zero give the same
        predictions in them. False: as they are, as in the papers. Classes have no scale.""",
    ] = True

    intervals: Annotated[
        float | None,
        Range(0.5, 0.999),
        """Share of labels that is to lie in the interval around its prediction, or of classes in
        the set that is predicted; both follow past errors. None: neither.""",
    ] = None

    class_weight: Annotated[
        str | None,
        OneOf((BALANCED, ROOT)),
        """How much a class counts where one is predicted: the inverse of how often it came so far
        (balanced), or of that one's square root (root), so that rare classes are found at the cost
        of frequent ones. None: all rows alike. What is learned and probabilities stay as they
        are.""",
    ] = None

    costs: Annotated[
        Costs,
        """What errors cost: true class, predicted class and cost (in a CSV file the columns true,
        predicted and cost, in YAML a list). A pair that is left out costs 1, and 0 where the
        prediction is right. The class of least expected cost is predicted.""",
    ] = ()

    def resolve(self) -> None:
        """Take costs as files and JSON have them."""
        self.replace("costs", checked_costs(self.costs))

    def check_together(self) -> None:
        """Refuse a task that the learner cannot do, and what is said of classes of targets."""
        if self.task not in self.tasks:
            raise ConfigError("task", self.task, f"{' or '.join(self.tasks)} for {self.learner}")
        for field in ("class_weight", "costs"):
            if getattr(self, field) and not self.classifies:
                raise ConfigError(field, getattr(self, field), "left out in regression")

    @property
    def input_kind(self) -> str:
        """What the learner is given of a row; features where neither spec nor job chose."""
        return self.inputs or FEATURES

    @property
    def interval_metrics(self) -> tuple[str, ...]:
        """What metrics say of intervals or sets, none without."""
        if self.intervals is None:
            return ()
        return OF_SETS if self.classifies else OF_INTERVALS

    @property
    def classifies(self) -> bool:
        """Whether labels are classes."""
        return self.task == CLASSIFICATION


@dataclasses.dataclass(frozen=True, kw_only=True)
class GradientSpec(LearnerSpec):
    """What the learners of stochastic gradient steps on a loss are told."""

    ridge: Annotated[float, Range(0, 1, "[)"), "λ of the cost, loss + λ/2·Σ‖w_c‖²."] = 0.0
    step_size: Annotated[float, Range(0, 1e6, "()"), "η of the first step."] = 1.0
    decay_rows: Annotated[
        int,
        Range(0, 10**12),
        """d of the step η/√(1 + t/d) at the t-th labelled row (from 0): about as many rows as the
        learner looks back at the start; 0 keeps η as it is.""",
    ] = 0
