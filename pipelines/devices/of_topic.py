"""What a live job's devices topic says of each device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kerneltrack.errors import DataError
from kerneltrack.fleet.devices import GONE
from pipelines.cluster.interruption import Interruption
from pipelines.devices.by_period import PeriodsTopic
from pipelines.devices.of_run import Line
from pipelines.topics.read_output import OutputReader

_FIELDS = ("state", "rows", "since_index", "episodes", "channels")


class DevicesTopic:
    """The newest line of each device of a topic that is read from its beginning.

    Memory: a line for each device, about 2 kB.

    Args:
        client: Settings of librdkafka's clients.
        topic: The topic.
        periods: The job's periods, by which devices differ, too; None: they are not read.
    """

    def __init__(
        self, client: dict[str, Any], topic: str, periods: PeriodsTopic | None = None
    ) -> None:
        self._topic, self._reader = topic, OutputReader(client, topic, "json")
        self._of_periods = periods
        self._newest: dict[str, Line] = {}
        self.run = None

    def close(self) -> None:
        """Close the consumers."""
        self._reader.close()
        if self._of_periods is not None:
            self._of_periods.close()

    def causes(self) -> list[str]:
        """Return a line for each common cause of the last period; none without periods."""
        return [] if self._of_periods is None else self._of_periods.causes

    def read(self, seconds: float = 0.0, interruption: Interruption | None = None) -> list[Line]:
        """Read on to the topic's end, and for so many seconds; return the newest lines.

        Args:
            seconds: How long at least.
            interruption: A signal that it takes ends the reading.

        Raises:
            DataError: for a message that is no line of a devices topic.
            KerneltrackError: if the brokers report an error.
        """
        for row in self._reader.to_end(seconds, interruption):
            take(self._newest, row, self._topic)
        lines = list(self._newest.values())
        if self._of_periods is None:
            return lines
        return self._of_periods.with_differing(lines, interruption)


def take(newest: dict[str, Line], row: Line, topic: str) -> None:
    """Take a message's line: it is what counts of its device from now on.

    Args:
        newest: The newest lines by device; changed.
        row: The line; one of a device that is gone takes it out.
        topic: Where it comes from.

    Raises:
        DataError: if it is no line of a devices topic.
    """
    name = row.get("model_id")
    if not isinstance(name, str) or (row.get("state") != GONE and not row.keys() >= {*_FIELDS}):
        raise DataError(topic, "has a message that is no state of a device: not a --devices-topic")
    if row["state"] == GONE:
        newest.pop(name, None)
    else:
        newest[name] = row


def devices_topic(
    client: dict[str, Any], topic: str, periods: str | None, groups: Mapping[str, str] | None
) -> DevicesTopic:
    """Return a job's devices topic, and its periods topic with it if there is one.

    Args:
        client: As of `DevicesTopic`.
        topic: The devices topic.
        periods: The periods topic; None: without.
        groups: As of `PeriodsTopic`.
    """
    of_periods = None if periods is None else PeriodsTopic(client, periods, groups)
    return DevicesTopic(client, topic, of_periods)
