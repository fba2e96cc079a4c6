"""Settings of the choice of landmark rows."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from typing import Any

from kerneltrack.errors import ConfigError
from kerneltrack.kernels import KERNELS
from kerneltrack.specs import check_bool, check_choice, check_int, check_number

METHODS = ("bcd-pg", "bcd-ex", "kmeans", "uniform")
STARTS = ("uniform", "kmeans")
DESCENT = frozenset({"bcd-pg", "bcd-ex"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class LandmarkSpec:
    """What the choice of landmark rows is told.

    Attributes:
        method: "bcd-pg" (block coordinate descent, proximal update of a row), "bcd-ex" (exact
            update), "kmeans" (the rows next to scikit-learn's k-means centres) or "uniform".
        count: Most landmarks, 1 to 10,000. The descents may keep fewer.
        rank: Columns r of the factor of the descents, 1 to `count`.
        start: What rows the descents start from: "uniform" or "kmeans".
        penalty: η > 0, the price of a row of the factor that is not zero; or "auto", a fifth of
            that at which no row would enter.
        ridge: λ > 0 of the descents.
        sweeps: Most sweeps of a descent at one penalty, 1 to 10,000.
        tolerance: Relative change of Q at which a descent stops, >= 0.
        kernel: "gaussian", "laplacian", "polynomial" or "linear".
        gamma: Bandwidth of the Gaussian (exp(-‖x-y‖²/γ)) and the Laplacian kernel, or "median".
        degree: Degree of the polynomial kernel.
        offset: Offset of the polynomial kernel, >= 0.
        standardise: Subtract the mean and divide by the standard deviation of the rows.
        seed: Seed of the start, 0 to 2**32 - 1.

    Example:
        >>> LandmarkSpec(method="bcd-ex", count=20).rank
        10
    """

    method: str = "bcd-pg"
    count: int = 20
    rank: int = 10
    start: str = "uniform"
    penalty: float | str = "auto"
    ridge: float = 1e-3
    sweeps: int = 50
    tolerance: float = 1e-4
    kernel: str = "gaussian"
    gamma: float | str = "median"
    degree: int = 2
    offset: float = 1.0
    standardise: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            ConfigError: naming the field, the value and what is allowed.
        """
        check_choice("method", self.method, METHODS)
        check_int("count", self.count, 1, 10_000)
        if self.method in DESCENT:
            check_int("rank", self.rank, 1, self.count)
        check_choice("start", self.start, STARTS)
        _number_or("penalty", self.penalty, "auto")
        check_number("ridge", self.ridge, 1e-12, 1e6, closed=("low", "high"))
        check_int("sweeps", self.sweeps, 1, 10_000)
        check_number("tolerance", self.tolerance, 0, 1, closed=("low",))
        check_choice("kernel", self.kernel, KERNELS)
        _number_or("gamma", self.gamma, "median")
        check_int("degree", self.degree, 1, 20)
        check_number("offset", self.offset, 0, 1e100, closed=("low",))
        check_bool("standardise", self.standardise)
        check_int("seed", self.seed, 0, 2**32 - 1)

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as plain values."""
        return dataclasses.asdict(self)

    def digest(self) -> str:
        """Return a short hash that tells specs apart."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _number_or(field: str, value: float | str, word: str) -> None:
    if isinstance(value, str):
        if value != word:
            raise ConfigError(field, value, f"a finite number > 0, or {word!r}")
    else:
        check_number(field, value, 0, math.inf)
