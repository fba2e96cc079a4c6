"""Specs: frozen, validated settings, and their way from and to plain values.

A spec says everything that a model's results depend on beside its rows. Two jobs with equal
specs and equal rows give equal bytes.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import hashlib
import json
import math
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, TypeVar, cast

from kerneltrack.errors import ConfigError
from kerneltrack.kernels import KERNELS, NEEDS_BANDWIDTH

_S = TypeVar("_S")

RULES = ("parametric", "nonparametric")
STEPS = ("normalised", "inverse_norm", "inverse_n", "inverse_n2", "majorised")
EMITS = ("z", "q")
STARTS = ("rows", "rank_one")
AUTO = "auto"
"""What may stand for a setting that a spec resolves by itself."""
MAX_RANK = 1000
MOVING_WINDOW = 100
"""Losses in the moving average of the censoring threshold (OK-FEB, section VII-D)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubspaceSpec:
    """What every kernel subspace tracker is told.

    Attributes:
        rank: Dimension r of the subspace and of the features, 1 to 1000.
        kernel: "gaussian", "laplacian", "polynomial" or "linear".
        gamma: Bandwidth of the Gaussian (exp(-‖x-y‖²/γ), γ = 2σ²) and the Laplacian kernel
            (exp(-‖x-y‖₁/γ)), or "median" for the median trick on the first `warmup` rows.
        degree: Degree of the polynomial kernel.
        offset: Offset of the polynomial kernel, >= 0.
        emit: "z" (isometric r-vector in an aligned frame) or "q" (projection coefficients;
            no frame is kept, about a quarter of the time a row).
        seed: Seed of all that is drawn, 0 to 2**63 - 1.
        standardise: Subtract the mean and divide by the standard deviation of the first rows.
        clip: Clip standardised values to ± this many deviations; None keeps them.
        warmup: Rows W that the standardiser and the median trick look at, 2 to 100,000. They
            wait until W have come (or the input ends), then run like all others.
        novelty_window: Losses that the novelty score compares with, 100 to 100,000.
    """

    tracker: ClassVar[str] = ""
    kernels: ClassVar[Collection[str]] = KERNELS
    measured: ClassVar[Collection[str]] = NEEDS_BANDWIDTH

    rank: int = 10
    kernel: str = "gaussian"
    gamma: float | str = "median"
    degree: int = 2
    offset: float = 1.0
    emit: str = "z"
    seed: int = 0
    standardise: bool = True
    clip: float | None = None
    warmup: int = 500
    novelty_window: int = 256

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            ConfigError: naming the field, the value and what is allowed.
        """
        for field in dataclasses.fields(self):
            # 1 and 1.0 are one setting: one digest, and one type in the compiled loops.
            value = getattr(self, field.name)
            if type(value) is int:
                object.__setattr__(self, field.name, _as_declared(str(field.type), value))
        check_int("rank", self.rank, 1, MAX_RANK)
        check_choice("kernel", self.kernel, self.kernels)
        if isinstance(self.gamma, str):
            if self.gamma != "median":
                raise ConfigError("gamma", self.gamma, "a finite number > 0, or 'median'")
        else:
            check_number("gamma", self.gamma, 0, math.inf)
        check_int("degree", self.degree, 1, 20)
        check_number("offset", self.offset, 0, 1e100, closed=("low",))
        check_choice("emit", self.emit, EMITS)
        check_int("seed", self.seed, 0, 2**63 - 1)
        check_bool("standardise", self.standardise)
        if self.clip is not None:
            check_number("clip", self.clip, 0, math.inf)
        check_int("warmup", self.warmup, 2, 100_000)
        check_int("novelty_window", self.novelty_window, MOVING_WINDOW, 100_000)

    @property
    def rows_to_start(self) -> int:
        """Rows that `init` must see: `warmup` if anything is measured from them, else 1."""
        measured = self.standardise or (self.kernel in self.measured and self.gamma == "median")
        return self.warmup if measured else 1

    @property
    def needs_times(self) -> bool:
        """Whether the tracker must be told the rows' event times."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as plain values, the tracker's name first."""
        return dict(self._plain)

    @functools.cached_property
    def _plain(self) -> dict[str, Any]:
        """What `to_dict` returns: it is part of every state that is written."""
        return {"tracker": self.tracker, **dataclasses.asdict(self)}

    def digest(self) -> str:
        """Return a short hash that tells specs apart."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GradientSpec(SubspaceSpec):
    """What the trackers that move their subspace along a gradient (OK-FE, OK-FEB) are also told.

    Attributes:
        ridge: λ of the cost, 1e-12 to 1e6.
        rule: "nonparametric" (gradient with respect to A) or "parametric" (with respect to L).
        step: "normalised", "inverse_norm" (the paper's 1/‖q‖), "inverse_n", "inverse_n2" or
            "majorised".
        step_size: Factor of the steps inverse_n and inverse_n2, > 0.
        start: "rows" (the first r distinct rows) or "rank_one" (the papers').
    """

    ridge: float = 1e-3
    rule: str = "parametric"
    step: str = "normalised"
    step_size: float = 1.0
    start: str = "rows"

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            ConfigError: naming the field, the value and what is allowed.
        """
        super().__post_init__()
        check_number("ridge", self.ridge, 1e-12, 1e6, closed=("low", "high"))
        check_choice("rule", self.rule, RULES)
        check_choice("step", self.step, STEPS)
        check_number("step_size", self.step_size, 0, 1e6, closed=("high",))
        check_choice("start", self.start, STARTS)


def spec_from_dict(kind: type[_S], values: Mapping[str, Any], role: str = "tracker") -> _S:
    """Build a spec of this kind from plain values (a YAML file, a snapshot's header).

    Args:
        kind: The spec's class.
        values: Field names to values; the role may be among them.
        role: What the spec is of, "tracker" or "learner" or "drift": the attribute of the class
            that holds its name.

    Returns:
        The spec, fields that are not named at their defaults.

    Raises:
        ConfigError: for an unknown field (with the nearest known one) or a bad value.
    """
    fields = {field.name: field for field in dataclasses.fields(cast(Any, kind))}
    given: dict[str, Any] = {}
    for name, value in values.items():
        if name == role:
            continue
        if name not in fields:
            near = difflib.get_close_matches(str(name), fields, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ConfigError("spec", name, f"a field of {getattr(kind, role)}{hint}")
        # YAML reads 1e-3 (no point) as a string and 5 as an int where a float is meant.
        given[name] = _as_declared(str(fields[name].type), value)
    return kind(**given)


def _as_declared(declared: str, value: Any) -> Any:
    if not declared.startswith("float") or isinstance(value, bool):
        return value
    if isinstance(value, int | str):
        try:
            return float(value)
        except (ValueError, OverflowError):
            return value
    return value


def check_int(field: str, value: Any, low: int, high: int) -> int:
    """Return `value` if it is an integer from low to high, else raise ConfigError."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(field, value, f"an integer from {low} to {high}")
    return value


def check_number(
    field: str, value: Any, low: float, high: float, *, closed: tuple[str, ...] = ()
) -> float:
    """Return `value` if it is a number between the limits, else raise ConfigError.

    The limits belong to the range where `closed` names them, "low" or "high".
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        real = float(value) if number else math.nan
    except OverflowError:
        real = math.nan
    above = real >= low if "low" in closed else real > low
    below = real <= high if "high" in closed else real < high
    if not (above and below):
        allowed = f"a number {'>=' if 'low' in closed else '>'} {low:g}"
        if math.isfinite(high):
            allowed += f" and {'<=' if 'high' in closed else '<'} {high:g}"
        raise ConfigError(field, value, allowed)
    return real


def check_choice(field: str, value: Any, choices: Any) -> str:
    """Return `value` if it is one of the choices, else raise ConfigError."""
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(field, value, f"one of {', '.join(choices)}")
    return value


def check_bool(field: str, value: Any) -> bool:
    """Return `value` if it is a boolean, else raise ConfigError."""
    if not isinstance(value, bool):
        raise ConfigError(field, value, "true or false")
    return value
