"""Where episodes come from: the folder of a run, or the episodes topic of a live job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from kerneltrack.errors import DataError
from kerneltrack.paths import exists, join, whole
from pipelines.devices.of_run import Line, newest_episodes
from pipelines.notify.notices import FLEET, INCIDENT, Notice, counts, notice_of
from pipelines.notify.outbox import Outbox
from pipelines.report.data.files import plain_table, read_run
from pipelines.report.data.incidents import Incident, incidents_of_run
from pipelines.report.data.silent import silent_of
from pipelines.run_folder import RUN
from transforms.kafka.messages import BadMessageError, batch_of
from transforms.outputs import SILENT

POLL = 0.2
"""Seconds that a topic is waited for."""


class Source(Protocol):
    """Where episodes come from."""

    def read(self, outbox: Outbox, again: bool) -> None:
        """Take in what there is to read; `again`: not for the first time."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class FolderSource:
    """The folder of a run, which another run may write anew.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: str) -> None:
        """Keep it."""
        self._folder = folder
        self.name = f"folder {whole(folder)}"

    def read(self, outbox: Outbox, again: bool) -> None:
        """Take in what the folder holds, if it is complete."""
        # A job that writes the folder anew writes the record last.
        if again and not exists(join(self._folder, RUN)):
            return
        outbox.replace(*notices_of_run(self._folder))

    def close(self) -> None:
        """Do nothing."""


def notices_of_run(folder: str) -> tuple[list[Notice], set[str]]:
    """Return the newest episode of each device of a run, its silence, and the incidents.

    Returns:
        What they say, and the keys of the episodes that belong to incidents which go on.

    Raises:
        DataError: if a file cannot be read.
    """
    run = read_run(folder)
    channels = (run.get("columns") or {}).get("features") or []
    lines = newest_episodes(folder)[0].values()
    silent = silent_of(folder, run)
    found = [notice_of(line, channels, folder) for line in lines if counts(line)]
    for each in [] if silent is None else silent.devices:
        if each.until is None:
            # Runs know the rows of a silence by their times alone.
            times = each.since, each.since
            found.append(Notice(each.model, None, SILENT, "open", 0, *times, None, []))
    incidents = incidents_of_run(folder, run)
    found += [_of_incident(each) for each in incidents]
    members = {member for each in incidents if each.open for member in each.members}
    return found, {each.key for each in found if (each.device, each.episode) in members}


def _of_incident(incident: Incident) -> Notice:
    where, state = incident.group or FLEET, "open" if incident.open else "closed"
    names = list(incident.devices)
    return Notice(where, None, INCIDENT, state, 0, incident.start, None, None, [], names)


class TopicSource:
    """The episodes topic of a live job, from where it was read before.

    Args:
        client: Settings of librdkafka's clients.
        topic: The topic.
        form: How its messages are written.
        outbox: Says how far it was read.
    """

    def __init__(self, client: dict[str, Any], topic: str, form: str, outbox: Outbox) -> None:
        """Assign its partitions."""
        # Kafka's client is not needed for a folder.
        from pipelines.topics.read_output import OutputReader  # noqa: PLC0415

        self._topic, self._form = topic, form
        self._reader = OutputReader(client, topic, form, outbox.offsets())

    def read(self, outbox: Outbox, again: bool) -> None:
        """Read on to the topic's end.

        Raises:
            DataError: for a message that is no line of episodes.
            KerneltrackError: if the brokers report an error.
        """
        while True:
            messages = self._reader.messages(POLL)
            notices = [notice for message in messages for notice in self._notices(message)]
            outbox.read(notices, {each.partition(): each.offset() + 1 for each in messages})
            if self._reader.at_end and not messages:
                return

    def _notices(self, message: Any) -> Iterator[Notice]:
        where = f"{self._topic}, partition {message.partition()}, offset {message.offset()}"
        rows = self._reader.rows_of(message) if self._form == "json" else _rows(message, where)
        for row in rows:
            if counts(row):
                yield notice_of(row, (), where)

    def close(self) -> None:
        """Close the consumer."""
        self._reader.close()


def _rows(message: Any, where: str) -> Sequence[Line]:
    """Return the lines of a message that is an Arrow stream."""
    try:
        lines: list[Line] = plain_table(batch_of(message.value())).to_pylist()
    except (BadMessageError, KeyError) as error:
        raise DataError(where, f"has a message that is no line of episodes: {error}") from error
    return lines
