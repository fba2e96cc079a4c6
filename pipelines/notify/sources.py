"""Where episodes come from: the folder of a run, or a topic of a live job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from kerneltrack.errors import DataError
from kerneltrack.monitor.feedback import faults_of_run
from kerneltrack.monitor.likeness import KnownFault
from kerneltrack.monitor.reference.spec import RECOVERED
from kerneltrack.paths import exists, join, whole
from pipelines.devices.incidents import incidents_now
from pipelines.devices.of_run import Line, newest_episodes
from pipelines.notify.notices import (
    BY,
    FLEET,
    INCIDENT,
    Notice,
    counts,
    difference_of,
    notice_of,
    notice_of_device,
)
from pipelines.notify.outbox import Outbox
from pipelines.report.data.differences import differing_channel, differing_of
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
        faults: Known faults, after which episodes are named; None: those of the run's feedback.
    """

    def __init__(self, folder: str, faults: Sequence[KnownFault] | None) -> None:
        self._folder, self._faults = folder, faults
        self.name = f"folder {whole(folder)}"

    def read(self, outbox: Outbox, again: bool) -> None:
        """Take in what the folder holds, if it is complete."""
        # A job that writes the folder anew writes the record last.
        if again and not exists(join(self._folder, RUN)):
            return
        outbox.replace(*notices_of_run(self._folder, outbox.incidents(), self._faults))

    def close(self) -> None:
        """Do nothing."""


def notices_of_run(
    folder: str, known: Sequence[Notice] = (), faults: Sequence[KnownFault] | None = None
) -> tuple[list[Notice], set[str]]:
    """Return the newest episode of each device of a run, its silence, differences and incidents.

    Args:
        folder: The run's folder.
        known: Incidents that were told of before and are not over.
        faults: As of `FolderSource`.

    Returns:
        What they say, and the keys of the episodes that belong to incidents which go on.

    Raises:
        DataError: if a file cannot be read.
    """
    run = read_run(folder)
    channels = (run.get("columns") or {}).get("features") or []
    newest, changed = newest_episodes(folder)
    silent = silent_of(folder, run)
    named = faults_of_run(run) if faults is None else faults
    found = [notice_of(line, channels, folder, named) for line in newest.values() if counts(line)]
    known_of = {each.device for each in found if each.is_open and each.kind != RECOVERED}
    for name, line in differing_of(folder, run).items():
        if name not in known_of and name not in changed:
            kind = f"{BY}{run['periods']['length']}"
            found.append(difference_of(name, kind, line["start"], differing_channel(line)))
    for each in [] if silent is None else silent.devices:
        if each.until is None:
            # Runs know the rows of a silence by their times alone.
            times = each.since, each.since
            found.append(Notice(each.model, None, SILENT, "open", 0, *times, None, []))
    return with_incidents(found, incidents_of_run(folder, run), known)


def with_incidents(
    found: Sequence[Notice], incidents: Sequence[Incident], known: Sequence[Notice]
) -> tuple[list[Notice], set[str]]:
    """Add incidents to what is known of devices.

    One that was told of before keeps its beginning, whoever else belongs to it by now, and goes on
    as long as an episode of it does, also where chance would explain it by now.

    Args:
        found: The newest episodes of devices, and their silences.
        incidents: Those of today.
        known: Those that were told of before and are not over.

    Returns:
        All of them, and the keys of the episodes that belong to incidents which go on.
    """
    keys = {(each.device, each.episode): each.key for each in found}
    still = {each.key for each in found if each.is_open}
    told: dict[str, Notice] = {}
    for incident in incidents:
        members = [keys[each] for each in incident.members if each in keys]
        where = incident.group or FLEET
        alike = (each for each in known if each.device == where and {*each.members} & {*members})
        before = next(alike, None)
        start = incident.start if before is None else before.start
        state, names = "open" if incident.open else "closed", list(incident.devices)
        notice = Notice(where, None, INCIDENT, state, 0, start, None, None, [], names, members)
        told[notice.key] = notice
    for each in known:
        if each.key not in told and still & {*each.members}:
            told[each.key] = each
    covered = {key for each in told.values() if each.is_open for key in each.members}
    return [*found, *told.values()], covered & still


class DevicesSource:
    """The devices topic of a live job: what each device is now.

    Args:
        client: Settings of librdkafka's clients.
        topic: The topic.
        faults: Known faults, after which episodes are named.
        groups: The group of each device, or of some; None: all are one fleet.
        periods: The job's periods topic; None: it is not read.
    """

    def __init__(
        self,
        client: dict[str, Any],
        topic: str,
        faults: Sequence[KnownFault] = (),
        groups: Mapping[str, str] | None = None,
        periods: str | None = None,
    ) -> None:
        # Kafka's client is not needed for a folder.
        from pipelines.devices.of_topic import devices_topic  # noqa: PLC0415

        self._name, self._faults, self._groups = topic, faults, groups
        self._topic = devices_topic(client, topic, periods, groups)

    def read(self, outbox: Outbox, again: bool) -> None:
        """Read on to the topic's end.

        Raises:
            DataError: for a message that is no line of a devices topic.
            KerneltrackError: if the brokers report an error.
        """
        lines = self._topic.read()
        notices = (notice_of_device(line, self._name, self._faults) for line in lines)
        found = [each for each in notices if each is not None]
        incidents = incidents_now(lines, self._groups)
        outbox.replace(*with_incidents(found, incidents, outbox.incidents()))

    def close(self) -> None:
        """Close the consumer."""
        self._topic.close()


class TopicSource:
    """The episodes topic of a live job, from where it was read before.

    Args:
        client: Settings of librdkafka's clients.
        topic: The topic.
        form: How its messages are written.
        outbox: Says how far it was read.
        faults: Known faults, after which episodes are named.
    """

    def __init__(
        self,
        client: dict[str, Any],
        topic: str,
        form: str,
        outbox: Outbox,
        faults: Sequence[KnownFault],
    ) -> None:
        # Kafka's client is not needed for a folder.
        from pipelines.topics.read_output import OutputReader  # noqa: PLC0415

        self._topic, self._form, self._faults = topic, form, faults
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
                yield notice_of(row, (), where, self._faults)

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
