"""What a live job's devices topic says of each device."""

from __future__ import annotations

import time
from typing import Any

from kerneltrack.errors import DataError
from kerneltrack.fleet.devices import GONE
from pipelines.cluster.interruption import Interruption
from pipelines.devices.of_run import Line
from pipelines.topics.read_output import OutputReader
from pipelines.topics.reader import POLL

_FIELDS = ("state", "rows", "since_index", "episodes", "channels")


class DevicesTopic:
    """The newest line of each device of a topic that is read from its beginning.

    Memory: a line for each device, about 2 kB.

    Args:
        client: Settings of librdkafka's clients.
        topic: The topic.
    """

    def __init__(self, client: dict[str, Any], topic: str) -> None:
        """Assign all partitions."""
        self._topic, self._reader = topic, OutputReader(client, topic, "json")
        self._newest: dict[str, Line] = {}

    def close(self) -> None:
        """Close the consumer."""
        self._reader.close()

    def read(self, seconds: float = 0.0, interruption: Interruption | None = None) -> list[Line]:
        """Read on to the topic's end, and for so many seconds; return the newest lines.

        Args:
            seconds: How long at least.
            interruption: A signal that it takes ends the reading.

        Raises:
            DataError: for a message that is no line of a devices topic.
            KerneltrackError: if the brokers report an error.
        """
        until = time.monotonic() + seconds
        while interruption is None or not interruption.came:
            left = until - time.monotonic()
            if self._reader.at_end and left <= 0:
                break
            wait = min(left, POLL) if self._reader.at_end else POLL
            for row in self._reader.rows(wait):
                take(self._newest, row, self._topic)
        return list(self._newest.values())


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
