"""Settings of the doubly stochastic trackers."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Annotated, ClassVar

from kerneltrack.errors import ConfigError
from kerneltrack.settings import OneOf, Range
from kerneltrack.trackers.common.spec import SubspaceSpec

FEATURE_KERNELS = (
    "gaussian",
    "laplacian",
    "cauchy",
    "matern12",
    "matern32",
    "matern52",
    "arccosine0",
    "arccosine1",
    "arccosine2",
    "polynomial",
    "linear",
    "expsemigroup",
    "recsemigroup",
)
POSITIVE = frozenset({"expsemigroup", "recsemigroup"})
"""Kernels of rows without negative entries; the median trick says nothing of their bandwidth."""
SCALED = frozenset(FEATURE_KERNELS[:6]) | POSITIVE
"""Kernels that have a bandwidth, first those of differences."""
PCA_FORMS = ("subspace", "gha")
PAIR_FORMS = ("ksvd", "kcca", "kcca-newton")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DSKPCASpec(SubspaceSpec):
    """Settings of doubly stochastic kernel PCA; see `SubspaceSpec` for the shared ones.

    Example:
        >>> DSKPCASpec(rank=3, budget=512).tracker
        'dskpca'
    """

    tracker: ClassVar[str] = "dskpca"
    bandwidths: ClassVar[Collection[str]] = SCALED
    forms: ClassVar[tuple[str, ...]] = PCA_FORMS

    kernel: Annotated[
        str, OneOf(FEATURE_KERNELS), "Kernel κ(x, y); formulas are in `random_features`."
    ] = "gaussian"
    budget: Annotated[
        int,
        Range(1, 2**20),
        "Number of random features F in the pool, a multiple of `feature_batch`.",
    ] = 1024
    form: Annotated[
        str,
        OneOf(PCA_FORMS),
        """Form: "subspace" (Oja's rule, eq. 10) or "gha" (single eigenfunctions, eq. 16).""",
    ] = "subspace"
    row_batch: Annotated[int, Range(1, 100_000), "Number of rows T in a mini-batch."] = 64
    feature_batch: Annotated[
        int, Range(1, 2**20), "Number of features B in a mini-batch, from the rank to the budget."
    ] = 64
    ridge: Annotated[
        float, Range(1e-12, 1e6), "Ridge λ added to the features' moments before they are inverted."
    ] = 1e-3
    step_size: Annotated[float, Range(0, 1e6, "(]"), "First step θ₀ of the steps θ₀/(1 + θ₁t)."] = (
        1.0
    )
    step_decay: Annotated[
        float, Range(0, 1e6), "Decay θ₁ of the steps; 0 keeps tracking for ever."
    ] = 0.01

    def check_together(self) -> None:
        """Refuse sizes that do not fit together, and settings that the kernel cannot have."""
        if self.scale_moves:
            allowed = f"true or false with {self.tracker}, whose rows wait for a batch"
            raise ConfigError("standardise", self.standardise, allowed)
        if self.kernel in POSITIVE:
            if isinstance(self.gamma, str):
                raise ConfigError("gamma", self.gamma, f"a number > 0 with {self.kernel}")
            if self.standardise:
                raise ConfigError("standardise", True, f"false with {self.kernel} (rows >= 0)")
        if not self.rank <= self.feature_batch <= max(self.budget, self.rank):
            allowed = f"an integer from {self.rank} to {max(self.budget, self.rank)}"
            raise ConfigError("feature_batch", self.feature_batch, allowed)
        if self.budget % self.feature_batch:
            allowed = f"a multiple of feature_batch ({self.feature_batch})"
            raise ConfigError("budget", self.budget, allowed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DSPairSpec(DSKPCASpec):
    """Settings of doubly stochastic kernel CCA and SVD; see `DSKPCASpec` for the others.

    Example:
        >>> DSPairSpec(rank=3, first_view=2).form
        'kcca'
    """

    tracker: ClassVar[str] = "dspair"
    forms: ClassVar[tuple[str, ...]] = PAIR_FORMS

    form: Annotated[
        str,
        OneOf(PAIR_FORMS),
        """Form: "kcca" (Algorithm 4; with the target as second view, sliced inverse regression),
        "kcca-newton" (the same functions in far fewer steps; use a `row_batch` of about twice
        `feature_batch`; 16B² more bytes of state) or "ksvd" (Algorithm 3).""",
    ] = "kcca"
    first_view: Annotated[
        int,
        Range(1, 1_000_000),
        "Number of columns in the first view, from the left; the others are the second view.",
    ] = 1
