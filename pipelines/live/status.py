"""The status line of a live job, until the job ends."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TextIO

import confluent_kafka

from kerneltrack.errors import fit, printable
from pipelines.cli.command_line import INTERRUPTED_EXIT
from pipelines.cluster.interruption import Interruption
from pipelines.flink.client import ENDED, FlinkError
from pipelines.flink.counters import counted, counters, extras, waiting
from pipelines.flink.health import look
from pipelines.job import say
from pipelines.live.input import InputWatch
from pipelines.live.jobs import NotSubmittedError, Place, Record, how_to_go_on, stop
from pipelines.live.pipeline import LiveEnds
from pipelines.topics.dead_letters import letter_of
from transforms.kafka.messages import BadMessageError, batch_of, records_of
from transforms.kafka.secrets import resolve
from transforms.outputs import DEAD_LETTERS, FEATURES, OUTPUTS

INTERVAL = 1.0
SAVEPOINT_PATIENCE = 120.0
SILENCE = 300.0
"""Seconds without an answer from Flink after which a job is not followed any more."""

ASK = 2.0
MOST_PARTITIONS = 8
"""Partitions of the features whose last message is looked at for the lag."""

SPAN = 20.0
"""Seconds over which rows are counted for their rate: Flink's counters come every ten or so."""

QUIET = 20.0
"""Seconds without a row after which that is told in place of the lag, which then only grows."""


class _Reader:
    """Looks at the last messages of an output's topic.

    Args:
        ends: Where it goes.
        output: Its name.
        group: What the consumer calls itself.
    """

    def __init__(self, ends: LiveEnds, output: str, group: str) -> None:
        self._topic = ends.topics[output]
        self._settings = {
            **resolve(ends.client),
            "group.id": group,
            "enable.auto.commit": False,
        }
        self._consumer = confluent_kafka.Consumer(self._settings)
        found = self._consumer.list_topics(self._topic, timeout=ASK).topics[self._topic]
        self._partitions = sorted(found.partitions)[:MOST_PARTITIONS]

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


class NewestTime(_Reader):
    """Looks for the newest event time among the features that came out.

    Args:
        ends: Where they go.
    """

    def __init__(self, ends: LiveEnds) -> None:
        super().__init__(ends, FEATURES, "kerneltrack-status")
        self._form = ends.output_form
        self._seen: dict[int, int] = {}
        self._newest: float | None = None
        self.silent: str | None = None
        """What Kafka said when it was asked last, if it did not answer."""

    def look(self) -> float | None:
        """Return the newest time, in seconds since 1970, None before the first."""
        for partition in self._partitions:
            place = confluent_kafka.TopicPartition(self._topic, partition)
            try:
                _, high = self._consumer.get_watermark_offsets(place, ASK)
            except confluent_kafka.KafkaException as error:
                self.silent = f"{self._topic}: {error.args[0].str()}"
                # What it knows of the brokers may be of before the trouble.
                self._consumer.close()
                self._consumer = confluent_kafka.Consumer(self._settings)
                break
            self.silent = None
            if high and self._seen.get(partition) != high:
                self._take(confluent_kafka.TopicPartition(self._topic, partition, high - 1))
        return self._newest

    def _take(self, place: confluent_kafka.TopicPartition) -> None:
        self._consumer.assign([place])
        message = self._consumer.poll(ASK)
        if message is None or message.error() is not None:
            # It did not come in time: the next look asks for it again.
            return
        self._seen[place.partition] = place.offset + 1
        try:
            if self._form == "arrow":
                time_of: Any = batch_of(message.value()).column("time").to_pylist()[-1]
                seconds = time_of.timestamp()
            else:
                text = records_of(message.value(), "json")[-1]["time"]
                # Nine digits are more than datetime takes.
                seconds = datetime.fromisoformat(text[:26] + "+00:00").timestamp()
        except (BadMessageError, KeyError, ValueError, TypeError):
            return
        self._newest = max(seconds, self._newest or seconds)


NUMBER_NO_TIME = re.compile(r" = -?[\d.e+]+: no time in the years ")
TIME_UNIT = "; --time-unit says what such numbers count: s, ms, us or ns"


def refusal(reason: str) -> str:
    """Return why a message was refused, for a line of text, and what may help."""
    hint = TIME_UNIT if NUMBER_NO_TIME.search(reason) else ""
    return f"{fit(printable(reason))}{hint}"


def letters_command(kafka: Sequence[str], topic: str) -> str:
    """Return the command that reads the messages that were refused.

    Args:
        kafka: Flags by which it reaches the brokers, as typed.
        topic: The topic of the dead letters.
    """
    return shlex.join(["kerneltrack", "read-output", *kafka, "--topic", topic])


class RefusedCounts(_Reader):
    """Looks for why messages are refused, in the topic of the dead letters.

    Args:
        ends: Where they go.
        kafka: Flags by which other commands reach the brokers, as typed.
    """

    def __init__(self, ends: LiveEnds, kafka: Sequence[str]) -> None:
        """Take what is there now for known."""
        super().__init__(ends, DEAD_LETTERS, "kerneltrack-refusals")
        self._command = letters_command(kafka, self._topic)
        self._known = self._highs()
        self._reported = 0

    def look(self) -> str | None:
        """Return why a message was refused: of the first, and whenever there are ten times more."""
        highs = self._highs()
        new = {part: high - self._known.get(part, 0) for part, high in highs.items()}
        count = sum(new.values())
        if count < max(10 * self._reported, 1):
            return None
        part = max(new, key=lambda part: new[part])
        place = confluent_kafka.TopicPartition(self._topic, part, highs[part] - 1)
        self._consumer.assign([place])
        message = self._consumer.poll(ASK)
        letter = None if message is None or message.error() else letter_of(message)
        if letter is None:
            return None
        self._reported = count
        return f"refused: {refusal(letter.reason)} (all of them: {self._command})"

    def _highs(self) -> dict[int, int]:
        """Return where each partition ends, of those that answer."""
        highs = {}
        for part in self._partitions:
            place = confluent_kafka.TopicPartition(self._topic, part)
            with contextlib.suppress(confluent_kafka.KafkaException):
                highs[part] = self._consumer.get_watermark_offsets(place, ASK)[1]
        return highs


ALARMS = {output.counter: output.setting for output in OUTPUTS if output.alarm}
"""Counters that are shown of jobs with this setting, even if they are 0."""

MORE = 2
"""Rows of a warm-up that is worth a word."""


class JobSettings(NamedTuple):
    """What the status line depends on of a job's settings.

    Attributes:
        warmup: Rows that a model waits for before its first comes out.
        outputs: Counters that are shown even if they are 0.
    """

    warmup: int
    outputs: tuple[str, ...]


NOTHING = JobSettings(1, ())


def said_of(settings: Mapping[str, Any]) -> JobSettings:
    """Return what the status line depends on, of `Job.settings`."""
    outputs = tuple(name for name, setting in ALARMS.items() if settings.get(setting))
    return JobSettings(int(settings["tracker"].get("warmup", 1)), outputs)


class _ReadCount(NamedTuple):
    """When was looked, and how many rows had been read."""

    at: float
    read: int


class LiveStatusLine:
    """Shows how a live job gets on.

    Args:
        stream: Where to; a line a time unless it is a terminal.
        show: None: only on a terminal.
        job_settings: What of the job's settings it depends on.
    """

    def __init__(
        self, stream: TextIO, show: bool | None, job_settings: JobSettings = NOTHING
    ) -> None:
        self._stream = stream
        self._job_settings = job_settings
        self._came = 0.0
        self._terminal = stream.isatty()
        self.shown = self._terminal if show is None else show
        self._looks: deque[_ReadCount] = deque()
        self._reported: set[str] = set()

    def tell(self, troubles: Sequence[str]) -> None:
        """Write down, on lines of their own, what is wrong, each once; and that nothing is."""
        # Whether it is being started again or was is one trouble, told once.
        found = {re.sub(r"\d+ s\b( ago and \w+)?", "", text): text for text in troubles}
        new = [text for kind, text in found.items() if kind not in self._reported]
        if self._reported and not found:
            new = ["the job runs well again"]
        self.write(new)
        self._reported = set(found)

    def write(self, lines: Sequence[str]) -> None:
        """Write lines of their own."""
        if lines and self._terminal:
            self._stream.write("\r\x1b[K")
        self._stream.writelines(f"{text}\n" for text in lines)
        self._stream.flush()

    def show(self, totals: Mapping[str, int], newest: float | None) -> None:
        """Write the line."""
        line = self.text(totals, newest, time.time())
        self._stream.write(f"\r\x1b[K{line}" if self._terminal else f"{line}\n")
        self._stream.flush()

    def end(self) -> None:
        """End the line."""
        if self.shown and self._terminal:
            self._stream.write("\n")
            self._stream.flush()

    def text(self, totals: Mapping[str, int], newest: float | None, now: float) -> str:
        """Return the line at a time, in seconds since 1970."""
        read, tracked = totals.get("rows_read", 0), totals.get("rows_tracked", 0)
        lag = "-" if newest is None else f"{now - newest:,.1f} s"
        if not self._looks or read != self._looks[-1].read:
            self._came = now
        if self._looks and read < self._looks[-1].read:
            # It was started again: counters are.
            self._looks.clear()
        self._looks.append(_ReadCount(now, read))
        while len(self._looks) > 1 and now - self._looks[1].at >= SPAN:
            self._looks.popleft()
        first = self._looks[0]
        rate = (read - first.read) / (now - first.at) if now > first.at else 0.0
        quiet = now - self._came
        parts = [f"{read:,} rows read", f"{rate:,.0f} rows/s", f"{tracked:,} tracked"]
        wait = waiting(totals)
        if wait:
            why = f" for the warm-up ({self._job_settings.warmup:,} rows of a model)"
            parts.append(
                f"{wait:,} wait{'' if tracked or self._job_settings.warmup < MORE else why}"
            )
        parts.append(f"no row read for {quiet:,.0f} s" if quiet > QUIET else f"lag {lag}")
        parts += [f"{totals.get(f'rows_{name}', 0):,} {name}" for name in ("late", "failed")]
        parts += [counted(totals, name) for name in self._job_settings.outputs]
        return ", ".join([*parts, *extras(totals, *ALARMS)])


def follow(
    place: Place, record: Record, ends: LiveEnds, show: bool | None, kafka: Sequence[str]
) -> int:
    """Show how a job gets on until it ends; Ctrl-C stops it with a savepoint.

    Args:
        place: Where it runs.
        record: The job.
        ends: Where its messages go.
        kafka: Flags by which other commands reach the brokers, as typed.
        show: Whether to show a status line; None: on a terminal.

    Returns:
        0, or 130 after Ctrl-C.

    Raises:
        KerneltrackError: if the job failed, or Flink has not answered for `SILENCE`.
    """
    line = LiveStatusLine(sys.stderr, show, said_of(record.settings))
    newest, refusals = NewestTime(ends), RefusedCounts(ends, kafka)
    inputs = InputWatch(ends.client, record, place.flink)
    try:
        with Interruption() as interruption:
            if watch(
                lambda: _look(place, record, newest, refusals, inputs, line), line, interruption
            ):
                return 0
            line.end()
            say("stopping with a savepoint ...")
            location = stop(place, record, None, SAVEPOINT_PATIENCE)
            say(f"stopped; go on with --resume {location}")
    finally:
        newest.close()
        refusals.close()
    return INTERRUPTED_EXIT


def watch(
    look: Callable[[], bool],
    line: LiveStatusLine,
    interruption: Interruption,
    silence: float = SILENCE,
) -> bool:
    """Look at a job again and again, and tell if Flink does not answer.

    Args:
        look: Looks, and says whether the job has ended.
        line: Where to tell.
        interruption: What ends it before.
        silence: Seconds without an answer after which it gives up.

    Returns:
        Whether the job has ended; False if a signal came before.

    Raises:
        FlinkError: if it gives up.
    """
    answered = time.monotonic()
    while not interruption.came:
        try:
            if look():
                return True
            answered = time.monotonic()
        except FlinkError as error:
            # The JobManager may come back.
            if time.monotonic() - answered > silence:
                raise
            line.tell([str(error)])
        interruption.pause(INTERVAL)
    return False


def _look(
    place: Place,
    record: Record,
    newest: NewestTime,
    refusals: RefusedCounts,
    inputs: InputWatch,
    line: LiveStatusLine,
) -> bool:
    """Look once, and tell; say whether the job has ended."""
    if _has_ended(place, record):
        return True
    checkpoints = None if place.cluster is None else place.cluster.folder / "checkpoints"
    troubles = look(place.flink, record.job).troubles(time.time(), checkpoints)
    time_of_newest = newest.look()
    if newest.silent is not None:
        troubles.append(newest.silent)
    else:
        troubles += inputs.troubles()
    line.tell(troubles)
    if newest.silent is None and (refused := refusals.look()) is not None:
        line.write([refused])
    if line.shown:
        line.show(counters(place.flink, record.job), time_of_newest)
    return False


def _has_ended(place: Place, record: Record) -> bool:
    state = place.flink.state(record.job)
    if state not in ENDED:
        return False
    if state == "FAILED":
        why = place.flink.why_failed(record.job)
        raise NotSubmittedError(f"job {record.name} failed: {why}")
    left = f", {how_to_go_on(place, record)}" if state == "CANCELED" else ""
    say(f"job {record.name} ended: {state}{left}")
    return True
