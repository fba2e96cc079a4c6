"""Devices that send nothing, in live jobs: how long each may, and what is kept of it for that.

How long a device has sent nothing is measured by the worker's own clock, since that of a silent
device stands still. How long it may can be its own, by the event times of its rows.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from typing import Annotated, NamedTuple

import numpy as np

from kerneltrack.arrays import IntArray
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.monitor.silences import LONGEST, NEVER, allowed_time, own_time_of
from kerneltrack.settings import Range, Settings
from kerneltrack.time_units import NANOSECONDS

LEAST_AFTER, MOST_AFTER = 0.1, 1e9
TIMES_IDLE = 2
"""A device's own time is at least so many times `idle_flush`: its rows have run then."""
NO_TIME = int(np.iinfo(np.int64).min)

_HEARD = struct.Struct(f"<ddqqqqq{LONGEST}q")


class Heard(NamedTuple):
    """When rows of a device came, and how long it may send none.

    Attributes:
        seen: When rows came last, in seconds of the worker's own clock.
        due: What its timer was last set to, likewise.
        rows: Rows that its model had shown when it was found silent; -1: it is not.
        since: Time of the last of them, ns; `NO_TIME` without times, or if it is not silent.
        newest: Greatest time of its rows, ns; `NO_TIME` if there is none.
        gaps: How many times between rows were longer than 0.
        total: Their sum, ns.
        longest: The longest of them, falling, ns.
    """

    seen: float = 0.0
    due: float = 0.0
    rows: int = -1
    since: int = NO_TIME
    newest: int = NO_TIME
    gaps: int = 0
    total: int = 0
    longest: tuple[int, ...] = (0,) * LONGEST

    @property
    def silent(self) -> bool:
        """Whether the device was found silent, and nothing has come since."""
        return self.rows >= 0

    def after(self, times: IntArray, until: int | None) -> Heard:
        """Return what is kept once rows of these times, ns, have come, in any order.

        Args:
            times: (n,). Those up to the newest so far say nothing.
            until: Nor do those after this one, which are too far ahead; None: all are.
        """
        if until is None:
            return self
        times = np.unique(times[(times > self.newest) & (times <= until)])
        if not len(times):
            return self
        newest = int(times[-1])
        if self.newest != NO_TIME:
            times = np.concatenate([[self.newest], times])
        steps = np.diff(times).tolist()
        longest = tuple(sorted([*self.longest, *steps], reverse=True)[:LONGEST])
        total = min(self.total + sum(steps), NEVER)
        return self._replace(
            newest=newest, gaps=self.gaps + len(steps), total=total, longest=longest
        )

    def encode(self) -> bytes:
        """Write it as bytes."""
        return _HEARD.pack(*self[:-1], *self.longest)

    @classmethod
    def decode(cls, data: bytes) -> Heard:
        """Read it back.

        Raises:
            DataError: for bytes that are none.
        """
        if len(data) != _HEARD.size:
            raise DataError("log", f"damaged: a silence of {len(data)} bytes")
        seen, due, rows, since, newest, gaps, total, *longest = _HEARD.unpack(data)
        heard = cls(seen, due, rows, since, newest, gaps, total, tuple(longest))
        whole = (heard.gaps, heard.total, *heard.longest)
        sound = heard.rows >= -1 and min(whole) >= 0 and sum(heard.longest) <= heard.total
        if not sound or not all(map(math.isfinite, heard[:2])):
            raise DataError("log", "damaged: a silence with impossible numbers")
        return heard


@dataclasses.dataclass(frozen=True)
class SilentAfter(Settings):
    """When a device that sends nothing is silent."""

    after: Annotated[
        float | None,
        Range(LEAST_AFTER, MOST_AFTER),
        """Seconds without rows of a device, on the worker's own clock, after which it is silent.
        None: each device's own time, by the times between its rows.""",
    ] = None

    @classmethod
    def of(cls, text: str) -> SilentAfter:
        """Return what a flag says: a time (15m, 12 hours), or auto.

        Raises:
            ConfigError: for anything else.
        """
        allowed = allowed_time("silent_after", text)
        return cls(None if allowed is None else allowed / NANOSECONDS["s"])

    def check_longer(self, idle_flush: float | None) -> None:
        """Refuse to find devices silent before their rows that wait are taken.

        Raises:
            ConfigError: naming both.
        """
        if self.after is not None and idle_flush is not None and self.after <= idle_flush:
            raise ConfigError("silent_after", self.after, f"more than idle_flush = {idle_flush:g}")

    def seconds(self, heard: Heard, idle_flush: float | None) -> float:
        """Return how long a device may send nothing, in seconds; infinity: for ever."""
        if self.after is not None:
            return self.after
        own = own_time_of(heard.gaps, heard.total, heard.longest)
        if own >= NEVER:
            return math.inf
        least = max(LEAST_AFTER, TIMES_IDLE * (idle_flush or 0.0))
        return min(max(own / NANOSECONDS["s"], least), MOST_AFTER)
