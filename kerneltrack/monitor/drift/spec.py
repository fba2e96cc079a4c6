"""The spec of the drift detector."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from kerneltrack.errors import ConfigError
from kerneltrack.settings import OneOf, Range, check_choice
from kerneltrack.specs import Spec, spec_from_dict

PAGE_HINKLEY = "page_hinkley"
DIRECTIONS = ("both", "up", "down")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DriftSpec(Spec):
    """Settings of the drift detector.

    Deviations are those of the root mean loss of a block, see the package.

    Example:
        >>> DriftSpec(threshold=8).to_dict()["threshold"]
        8.0
    """

    role: ClassVar[str] = "drift"
    drift: ClassVar[str] = PAGE_HINKLEY

    block: Annotated[
        int, Range(1, 1000), "Rows in a block. An alert comes with the last row of a block."
    ] = 10
    threshold: Annotated[
        float,
        Range(0, 1e6, "()"),
        "Sum of deviations above `delta` that raises an alert.",
    ] = 6.0
    delta: Annotated[float, Range(0, 1e6, "[)"), "Change of level to ignore, in deviations."] = 0.75
    clip: Annotated[
        float, Range(0, 1e6, "()"), "Count at most this many deviations above `delta` in a block."
    ] = 3.0
    floor: Annotated[
        float,
        Range(0, 1e6, "[)"),
        "Smallest deviation to assume, as a fraction of the device's usual root mean loss.",
    ] = 0.15
    memory: Annotated[
        int,
        Range(1, 10_000_000),
        "Number of rows over which level and spread are estimated, at least `settle`.",
    ] = 2000
    settle: Annotated[
        int,
        Range(2, 1_000_000),
        """Number of rows, at the start and after an alert, from which level and spread are
        estimated; no alert is raised in them. At least two blocks.""",
    ] = 200
    direction: Annotated[
        str,
        OneOf(DIRECTIONS),
        """Alert when the loss rises ("up"), falls ("down"), or either ("both").""",
    ] = "both"

    def check_together(self) -> None:
        """Refuse memories that are too short."""
        if self.clip <= self.delta:
            raise ConfigError("clip", self.clip, f"a number > {self.delta:g} and < 1e+06")
        if self.settle < 2 * self.block:
            raise ConfigError("settle", self.settle, f"an integer from {2 * self.block} to 1000000")
        if self.memory < self.settle:
            raise ConfigError("memory", self.memory, f"an integer from {self.settle} to 10000000")


def parse_drift_spec(values: Mapping[str, Any]) -> DriftSpec:
    """Build a spec from plain values; "drift" may name the detector.

    Raises:
        ConfigError: for an unknown detector or field, or a value out of range.

    Example:
        >>> parse_drift_spec({"drift": "page_hinkley", "delta": "1e0"}).delta
        1.0
    """
    check_choice("drift", values.get("drift", PAGE_HINKLEY), (PAGE_HINKLEY,))
    return spec_from_dict(DriftSpec, values)
