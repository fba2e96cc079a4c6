"""How many rows and devices the trackers were given at a time, which says why a job is slow.

Each call costs some time, however few its rows: see docs/stream.md, "Latency or speed".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from transforms.metrics import CALLS, MODELS_CALLED


class Calls(NamedTuple):
    """Calls of the trackers.

    Attributes:
        many: How many there were.
        rows: Rows of a call on average: those that were tracked.
        devices: Devices of a call on average.
    """

    many: int
    rows: float
    devices: float

    @classmethod
    def of(cls, totals: Mapping[str, int]) -> Calls | None:
        """Return what a job's counters say; None before the first call."""
        many = totals.get(CALLS, 0)
        if not many:
            return None
        rows, devices = totals.get("rows_tracked", 0), totals.get(MODELS_CALLED, 0)
        return cls(many, round(rows / many, 1), round(devices / many, 1))

    def __str__(self) -> str:
        """Write it in words.

        Example:
            >>> print(Calls.of({"calls": 2000, "rows_tracked": 9000, "models_called": 3000}))
            2,000 calls of 4.5 rows and 1.5 devices on average
            >>> print(Calls(1, 300.0, 1.0))
            1 call of 300 rows and 1 device
        """
        average = " on average" if self.many > 1 else ""
        parts = [(self.many, "call"), (self.rows, "row"), (self.devices, "device")]
        calls, rows, devices = (
            f"{number:,.{0 if number % 1 == 0 else 1}f} {what}{'' if number == 1 else 's'}"
            for number, what in parts
        )
        return f"{calls} of {rows} and {devices}{average}"
