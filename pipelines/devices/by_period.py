"""Which devices of a live job differ by period, by its periods topic: as the end of a file job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import DataError
from kerneltrack.fleet.devices import CHANGED, GONE, OFF, QUIET
from kerneltrack.monitor.periods.device import NUMBERS, DeviceNumbers
from kerneltrack.monitor.periods.fleet import OPEN, verdict
from kerneltrack.monitor.periods.spec import DAY, PeriodsSpec
from kerneltrack.monitor.periods.sums import SECOND
from kerneltrack.specs import spec_from_dict
from pipelines.cluster.interruption import Interruption
from pipelines.devices.of_run import Line, differs_by
from pipelines.report.clock import ns_of
from pipelines.report.data.differences import causes_now, lines_of_spells
from pipelines.topics.read_output import OutputReader

_FIELDS = {"model_id", "start", "rows", *NUMBERS, "channels", "settings"}
Period = tuple[int, npt.NDArray[np.float64]]
"""Rows of a period, and what it comes to, (3, D)."""


class PeriodsTopic:
    """The periods of all devices, by a topic that is read from its beginning.

    Memory: 24 bytes a channel, device and period.

    Args:
        client: Settings of librdkafka's clients.
        topic: The topic.
        groups: The group of each device, or of some; None: all are one fleet.

    Attributes:
        causes: A line for each common cause of the last period, as far as it has been read.
    """

    def __init__(
        self, client: dict[str, Any], topic: str, groups: Mapping[str, str] | None
    ) -> None:
        self._topic, self._groups = topic, groups
        self._reader = OutputReader(client, topic, "json")
        self._periods: dict[str, dict[int, Period]] = {}
        self._same: tuple[Any, Any] | None = None
        self._differ: dict[str, Line] = {}
        self.causes: list[str] = []

    def close(self) -> None:
        """Close the consumer."""
        self._reader.close()

    def with_differing(self, lines: list[Line], interruption: Interruption | None) -> list[Line]:
        """Read on to the topic's end; return devices' lines with those that differ as changed.

        Args:
            lines: What is known of each device.
            interruption: A signal that it takes ends the reading.

        Raises:
            DataError: for a message that is no period, or of another job.
            KerneltrackError: if the brokers report an error.

        Cost: as of `verdict`, where anything has come.
        """
        came = False
        for row in self._reader.to_end(interruption=interruption):
            self._take(row)
            came = True
        if came:
            self._compare()
        return [self._marked(line) for line in lines]

    def _take(self, row: Line) -> None:
        """Take a message's line: it is what counts of its period from now on.

        Raises:
            DataError: if it is no period, or of other settings or channels than those before.
        """
        if row.get("state") == GONE:
            return
        if not row.keys() >= _FIELDS:
            reason = "has a message that is no period: not the periods topic of a job"
            raise DataError(self._topic, reason)
        same = row["settings"], row["channels"]
        if self._same not in (None, same):
            reason = "has periods of jobs with other settings or channels: each needs its own topic"
            raise DataError(self._topic, reason)
        self._same = same
        try:
            values = np.array([row[name] for name in NUMBERS], dtype=np.float64)
            values = values.reshape(len(NUMBERS), len(row["channels"]))
            period = ns_of(row["start"].removesuffix("Z")) // SECOND // DAY
            self._periods.setdefault(row["model_id"], {})[period] = int(row["rows"]), values
        except (AttributeError, TypeError, ValueError) as error:
            raise DataError(self._topic, f"has a message that is no period: {error}") from error

    def _compare(self) -> None:
        """Find the devices that differ to the end, and what many share; of runs: `differing_of`."""
        if self._same is None:
            return
        settings, channels = self._same
        devices = [
            (name, None if self._groups is None else self._groups.get(name, ""), _numbers(own))
            for name, own in self._periods.items()
        ]
        spells = verdict(spec_from_dict(PeriodsSpec, settings), devices)
        lines = lines_of_spells(spells, channels)
        still = (line for line in lines if line["state"] == OPEN)
        self._differ = {line["model_id"]: line for line in still if line["model_id"] is not None}
        self.causes = causes_now(lines)

    def _marked(self, line: Line) -> Line:
        differs = self._differ.get(line["model_id"])
        if differs is None or self._same is None or line["state"] in (OFF, CHANGED, QUIET):
            return line
        return differs_by(line, differs, self._same[0]["length"])


def _numbers(periods: Mapping[int, Period]) -> DeviceNumbers:
    days = sorted(periods)
    rows, values = zip(*(periods[day] for day in days), strict=True)
    return DeviceNumbers(np.array(days), np.array(rows), np.stack(values))
