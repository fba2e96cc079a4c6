"""The spec of the verdict by period."""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar

from kerneltrack.errors import ConfigError
from kerneltrack.settings import OneOf, Range
from kerneltrack.specs import Spec

DAY = 86_400
"""Seconds of a period."""
LENGTHS = ("day",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PeriodsSpec(Spec):
    """How devices are compared with their own past and with the fleet, period by period.

    Example:
        >>> PeriodsSpec(limit=8).to_dict()["limit"]
        8.0
    """

    role: ClassVar[str] = "periods"
    periods: ClassVar[str] = "periods"

    length: Annotated[str, OneOf(LENGTHS), "Length of a period: days in UTC."] = "day"
    limit: Annotated[
        float,
        Range(1, 1e6),
        """How far a device must be from its own past and from the fleet, in usual deviations, in
        two consecutive periods.""",
    ] = 6.0
    past: Annotated[int, Range(3, 3650), "Number of past days with which a day is compared."] = 28
    delay: Annotated[
        int,
        Range(0, 365),
        "Days until a day joins the past, so that a fault is noticed before it becomes usual.",
    ] = 3
    first: Annotated[
        int,
        Range(5, 3650),
        "First days of a device. They are compared with each other, and there is no "
        "verdict before they end.",
    ] = 14

    def check_together(self) -> None:
        """Refuse a past that begins before any."""
        if self.past < self.first:
            raise ConfigError("past", self.past, f"an integer from {self.first} to 3650")
