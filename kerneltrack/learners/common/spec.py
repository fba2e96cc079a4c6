"""Settings that learners share."""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar

from kerneltrack.errors import ConfigError
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
    """Settings of every learner."""

    role: ClassVar[str] = "learner"
    learner: ClassVar[str] = ""
    tasks: ClassVar[tuple[str, ...]] = TASKS

    task: Annotated[str, OneOf(TASKS), "Learn classes or numeric targets."] = CLASSIFICATION
    max_classes: Annotated[
        int, Range(1, MAX_CLASSES), "Keep at most this many classes per model, the most frequent."
    ] = 100
    inputs: Annotated[
        str | None,
        OneOf(INPUTS),
        """Inputs of the learner in a job or fleet: the tracker's features, the row itself
        (standardised, clipped at 4 deviations, over √D), or both. None means both for linear
        learners, or the features if they are the rows.""",
    ] = FEATURES

    scale_targets: Annotated[
        bool,
        """Learn targets as deviations from their running mean, in standard deviations, with a
        bias that no ridge reduces, so that units and zero make no difference. False: as they
        are, as in the papers. No effect on classes.""",
    ] = True

    intervals: Annotated[
        float | None,
        Range(0.5, 0.999),
        """Share of labels that the predicted interval, or the predicted set of classes, should
        contain; it follows past errors. None: no intervals or sets.""",
    ] = None

    class_weight: Annotated[
        str | None,
        OneOf((BALANCED, ROOT)),
        """Weight classes when predicting, so that rare classes are found at the cost of frequent
        ones. "balanced" uses the inverse of a class's frequency so far, "root" its square
        root. None: no weights. Learning and probabilities do not change.""",
    ] = None

    costs: Annotated[
        tuple[tuple[str, str, float], ...],
        """Costs of errors by true and predicted class: the class with the least expected cost is
        predicted. In a CSV file: columns true, predicted and cost; in YAML: a list. A missing
        pair costs 1, or 0 if the prediction is right.""",
    ] = ()

    def resolve(self) -> None:
        """Take costs as files and JSON have them."""
        if self.costs != ():
            # Specs are made before NumPy is needed: for help, and for errors in flags.
            from kerneltrack.learners.common.costs import checked_costs  # noqa: PLC0415

            self.replace("costs", checked_costs(self.costs))

    def check_together(self) -> None:
        """Refuse a task that the learner cannot do, and settings for classes with targets."""
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

    ridge: Annotated[float, Range(0, 1, "[)"), "Ridge λ of the cost, loss + λ/2·Σ‖w_c‖²."] = 0.0
    step_size: Annotated[float, Range(0, 1e6, "()"), "First step size η."] = 1.0
    decay_rows: Annotated[
        int,
        Range(0, 10**12),
        """Decay d of the steps η/√(1 + t/d), t counting labelled rows from 0: about as many rows
        as the learner looks back at the start. 0 keeps the step at η.""",
    ] = 0
