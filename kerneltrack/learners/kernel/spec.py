"""Settings of the learners with a kernel of their own."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, ClassVar, Literal

from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.spec import CLASSIFICATION, GradientSpec, LearnerSpec
from kerneltrack.settings import OneOf, Range
from kerneltrack.specs import NEEDS_BANDWIDTH

LOSSES = ("hinge", "logistic")
STAGE_ORDERS = ("step_first", "move_first")
MAINTENANCE = ("removal", "projection", "merging")


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelSpec(LearnerSpec):
    """What the learners with a kernel of their own are also told."""

    budget: Annotated[int, Range(1, 10_000), "Most rows that the learner stores."] = 500
    kernel: Annotated[str, OneOf(sorted(NEEDS_BANDWIDTH)), "Kernel κ(x, y), with κ(x, x) = 1."] = (
        "gaussian"
    )
    gamma: Annotated[
        float | Literal["median"],
        Range(0, math.inf, "()"),
        """Bandwidth γ of the kernel, exp(-‖x-y‖²/γ) or exp(-‖x-y‖₁/γ) (γ = 2σ²). "median" takes
        the median distance between the first `warmup` labelled rows.""",
    ] = "median"
    warmup: Annotated[
        int,
        Range(2, 10_000),
        """Number of labelled rows that wait for the median bandwidth. Until then nothing is
        learned and every decision value is 0.""",
    ] = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class DictionarySpec(KernelSpec):
    """What the learners that keep rows of a dictionary are also told."""

    @property
    def rows_a_step(self) -> int:
        """Labelled rows of a mini-batch."""
        return 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class POLKSpec(DictionarySpec, GradientSpec):
    """Settings of POLK; see `KernelSpec` and `GradientSpec` for the shared ones.

    Example:
        >>> POLKSpec(loss="logistic", parsimony=0.03).learner
        'polk'
    """

    learner: ClassVar[str] = "polk"

    ridge: Annotated[float, Range(0, 1, "[)"), "Ridge λ of the cost, loss + λ/2·Σ‖w_c‖²."] = 1e-6
    step_size: Annotated[float, Range(0, 1e6, "()"), "First step size η."] = 0.5
    loss: Annotated[
        str, OneOf(LOSSES), "Loss for classification; regression uses the squared loss."
    ] = "hinge"
    parsimony: Annotated[
        float,
        Range(0, 1e6),
        "Parsimony K of the error ε = Kη^{3/2}, up to which stored rows are dropped. 0 "
        "drops rows above `budget` only.",
    ] = 0.1
    batch: Annotated[
        int,
        Range(1, 1000),
        "Number of labelled rows in a mini-batch; a step waits for all of them.",
    ] = 1

    @property
    def rows_a_step(self) -> int:
        """Labelled rows of a mini-batch."""
        return self.batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class BSGDSpec(DictionarySpec, GradientSpec):
    """Settings of BSGD; see `KernelSpec` and `GradientSpec` for the shared ones.

    Example:
        >>> BSGDSpec(budget=50, maintenance="projection").learner
        'bsgd'
    """

    learner: ClassVar[str] = "bsgd"
    tasks: ClassVar[tuple[str, ...]] = (CLASSIFICATION,)

    ridge: Annotated[float, Range(0, 1, "[)"), "Ridge λ of the cost, loss + λ/2·Σ‖w_c‖²."] = 1e-6
    step_size: Annotated[float, Range(0, 1e6, "()"), "First step size η."] = 0.5
    maintenance: Annotated[
        str,
        OneOf(MAINTENANCE),
        "How a row above the budget leaves; merging needs the Gaussian kernel.",
    ] = "merging"

    def check_together(self) -> None:
        """Refuse merging where rows cannot be merged."""
        super().check_together()
        if self.maintenance == "merging" and self.kernel != "gaussian":
            raise ConfigError("maintenance", "merging", f"another with the {self.kernel} kernel")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NOLANASpec(KernelSpec, GradientSpec):
    """Settings of NOLANA; see `KernelSpec` and `GradientSpec` for the shared ones.

    Example:
        >>> NOLANASpec(budget=20, rank=16, threshold=4.0).learner
        'nolana'
    """

    learner: ClassVar[str] = "nolana"

    budget: Annotated[int, Range(1, 10_000), "Number of landmarks m, at least the rank."] = 100
    rank: Annotated[int, Range(1, 1000), "Number of features r."] = 80
    ridge: Annotated[float, Range(0, 1, "[)"), "Ridge λ of the cost, loss + λ/2·Σ‖w_c‖²."] = 1e-6
    step_size: Annotated[float, Range(0, 1e6, "()"), "First step size η."] = 0.5
    loss: Annotated[
        str, OneOf(LOSSES), "Loss for classification; regression uses the squared loss."
    ] = "hinge"
    threshold: Annotated[
        float | None,
        Range(0, math.inf, "[)"),
        """Threshold ε: a row closer than this to its landmark (squared distance) moves nothing.
        None: landmarks never move.""",
    ] = 0.0
    refit_ridge: Annotated[
        float,
        Range(1e-9, 1e6),
        "Ridge θ for refitting weights when the map changes; it affects small eigenvalues most.",
    ] = 1e-6
    stage_order: Annotated[
        str,
        OneOf(STAGE_ORDERS),
        """What a row does first: step_first (the paper) fits the weights to the row, then moves its
        landmark; move_first moves the landmark, then fits on the new map.""",
    ] = "step_first"

    def check_together(self) -> None:
        """Refuse a budget below the rank."""
        super().check_together()
        if self.budget < self.rank:
            raise ConfigError("budget", self.budget, f"at least the rank ({self.rank})")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FOGDSpec(KernelSpec, GradientSpec):
    """Settings of FOGD; see `KernelSpec` and `GradientSpec` for the shared ones.

    Example:
        >>> FOGDSpec(budget=400, seed=1).learner
        'fogd'
    """

    learner: ClassVar[str] = "fogd"

    budget: Annotated[int, Range(1, 10_000), "Number of random features m."] = 400
    ridge: Annotated[float, Range(0, 1, "[)"), "Ridge λ of the cost, loss + λ/2·Σ‖w_c‖²."] = 1e-6
    loss: Annotated[
        str, OneOf(LOSSES), "Loss for classification; regression uses the squared loss."
    ] = "hinge"
    seed: Annotated[int, Range(0, 2**53), "Seed of the random features."] = 0
