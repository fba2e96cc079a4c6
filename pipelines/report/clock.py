"""Times as people on the site read them: by the clocks of the zone that the run's times are in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from kerneltrack.monitor.clocks import UTC, is_zone, local_times
from pipelines.report.text import SECOND, moment

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class SiteClock:
    """What clocks of a zone show.

    Attributes:
        zone: Its name in the time-zone data base, or UTC.
    """

    zone: str = UTC

    def moment(self, time: int, to: int = SECOND) -> str:
        """Return a time, ns since 1970 UTC, as `2026-07-01 14:00:00`, in whole units of `to` ns."""
        shown = local_times(np.array([time], np.int64), self.zone)
        return moment(int(shown[0]), to)

    def named(self, time: int) -> str:
        """Return a time and the clock's name then, which tells summer from winter.

        Example:
            >>> SiteClock("Europe/Berlin").named(1_782_864_000 * 10**9)
            '2026-07-01 02:00:00 CEST'
        """
        return f"{self.moment(time)} {self._name(time)}"

    def _name(self, time: int) -> str:
        if self.zone == UTC:
            return UTC
        at = _EPOCH + timedelta(seconds=time // SECOND)
        return at.astimezone(ZoneInfo(self.zone)).tzname() or self.zone


UTC_CLOCK = SiteClock()


def clock_of(run: Mapping[str, Any]) -> SiteClock:
    """Return the clock by which a run's times are shown, from its `run.json`.

    It is that of `--time-zone`; UTC without one, or where this machine does not know the zone.
    """
    zone = str((run.get("times") or {}).get("zone") or UTC)
    return SiteClock(zone if is_zone(zone) else UTC)


def ns_of(text: str) -> int:
    """Return a time in UTC as `run.json` has it, `2026-07-01 14:00:00`, in ns since 1970."""
    return int(np.datetime64(text, "ns").astype(np.int64))


def iso(time: int) -> str:
    """Return a time in ns since 1970 as live jobs write it.

    Example:
        >>> iso(1_500_000_000_000_000_000)
        '2017-07-14T02:40:00.000000000Z'
    """
    return f"{np.datetime64(time, 'ns')}Z"
