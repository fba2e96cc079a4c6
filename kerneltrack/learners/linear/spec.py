"""Settings of the linear learners."""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar

from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.spec import CLASSIFICATION, GradientSpec, LearnerSpec
from kerneltrack.settings import OneOf, Range

MAX_NLMS_STEP = 2.0
MIN_FORGETTING = 0.9
VARIANTS = ("pa", "pa1", "pa2")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinearSpec(LearnerSpec):
    """Further settings of learners with one weight vector per class."""

    inputs: str | None = None
    bias: Annotated[
        bool,
        """Append a constant 1 to the features. Its weight is regularised like the others, but
        not in regression with `scale_targets`.""",
    ] = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class RidgeSpec(LinearSpec):
    """Settings of recursive ridge; see `LearnerSpec` for those that all learners share.

    Example:
        >>> RidgeSpec(forgetting=1.0).learner
        'ridge'
    """

    learner: ClassVar[str] = "ridge"

    ridge: Annotated[float, Range(1e-12, 1e6), "Ridge λ, relative to a sum over rows."] = 0.1
    forgetting: Annotated[
        float,
        Range(MIN_FORGETTING, 1),
        """Forgetting ρ: a memory of about 1/(1 - ρ) rows. 1 never forgets, best for features
        that stay still; a moving subspace needs less.""",
    ] = 0.999


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogisticSpec(GradientSpec, LinearSpec):
    """Settings of the multinomial logistic learner; see `GradientSpec`.

    Example:
        >>> LogisticSpec(step_size=1.0).learner
        'logistic'
    """

    learner: ClassVar[str] = "logistic"
    tasks: ClassVar[tuple[str, ...]] = (CLASSIFICATION,)

    step_size: Annotated[float, Range(0, 1e6, "()"), "First step size η."] = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class HingeSpec(GradientSpec, LinearSpec):
    """Settings of the multi-class hinge learner; see `GradientSpec`.

    Example:
        >>> HingeSpec(step_size=0.5).learner
        'hinge'
    """

    learner: ClassVar[str] = "hinge"
    tasks: ClassVar[tuple[str, ...]] = (CLASSIFICATION,)

    step_size: Annotated[float, Range(0, 1e6, "()"), "First step size η."] = 0.3


@dataclasses.dataclass(frozen=True, kw_only=True)
class PegasosSpec(LinearSpec):
    """Settings of Pegasos; see `LearnerSpec` for those that all learners share.

    Example:
        >>> PegasosSpec(ridge=1e-4).learner
        'pegasos'
    """

    learner: ClassVar[str] = "pegasos"
    tasks: ClassVar[tuple[str, ...]] = (CLASSIFICATION,)

    ridge: Annotated[
        float,
        Range(1e-12, 1e6),
        "Ridge λ. The step after t rows is 1/(λt), so a larger λ means smaller steps.",
    ] = 3e-4
    project: Annotated[bool, "Keep ‖w‖ <= 1/√λ, an optional step of the paper."] = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class LMSSpec(GradientSpec, LinearSpec):
    """Settings of the LMS learner; see `GradientSpec`, λ here scaled as in the module.

    Example:
        >>> LMSSpec(task="regression", step_size=0.1).learner
        'lms'
    """

    learner: ClassVar[str] = "lms"

    step_size: Annotated[
        float, Range(0, 1e6, "()"), "First step size η, below 2 if normalised."
    ] = 0.2
    normalised: Annotated[
        bool, "Normalise the step (NLMS), so that it does not depend on the scale of the features."
    ] = True

    def check_together(self) -> None:
        """Refuse steps that diverge."""
        super().check_together()
        if self.normalised and self.step_size >= MAX_NLMS_STEP:
            raise ConfigError("step_size", self.step_size, "below 2 if normalised")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PASpec(LinearSpec):
    """Settings of the passive-aggressive learner; see `LinearSpec` for the shared ones.

    Example:
        >>> PASpec(variant="pa2").learner
        'pa'
    """

    learner: ClassVar[str] = "pa"

    variant: Annotated[
        str, OneOf(VARIANTS), """Variant: "pa", "pa1" (capped step) or "pa2" (softened step)."""
    ] = "pa1"
    aggressiveness: Annotated[
        float,
        Range(0, 1e6, "()"),
        "Aggressiveness C of PA-I and PA-II: the smaller, the less a wrong label changes.",
    ] = 1.0
    insensitivity: Annotated[
        float,
        Range(0, 1e100, "[)"),
        "Insensitivity ε of regression, in standard deviations of the targets.",
    ] = 0.1
