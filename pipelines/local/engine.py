"""The loop of a local job: bundles of messages, each committed with its outputs or not at all.

Kafka keeps what a job has sent, and how far it has read, in one transaction; a reader that asks for
committed messages sees each result once. The store keeps the models (see `store`).
"""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from operator import itemgetter
from typing import Any, NamedTuple

import confluent_kafka

from kerneltrack.errors import DataError, KerneltrackError
from pipelines.job import say
from pipelines.live.input import gone_before, lost
from pipelines.live.pipeline import LiveEnds
from pipelines.local.models import Models
from pipelines.local.steps import LocalSteps, Sent
from pipelines.local.store import Bundle, Offsets, Saved, Store
from pipelines.local.turns import Turns
from pipelines.topics.admin import KafkaError
from transforms.kafka.messages import Message
from transforms.kafka.secrets import resolve
from transforms.kafka.send import SETTINGS, produce

MOST_OF_TIME = 0.1
"""Share of the time that goes into writing models, at most."""
IDLE_WRITE = 1.0
"""Seconds between two writings of models while no messages come."""
ASK = 30.0
"""Seconds for which Kafka is waited for."""
PATIENCE = 120.0
"""Seconds for which a commit is tried again."""
PAUSE = 0.1
"""Seconds between two tries."""
MOST_ENDING = 3
"""Bundles that have run and whose transactions have not ended, at most."""
LOOK_FOR_PARTITIONS = 10.0
TRANSACTION_TIMEOUT = 60
"""Seconds after which Kafka ends a transaction of a process that is gone."""

_LOST = (
    confluent_kafka.KafkaError._AUTO_OFFSET_RESET,
    confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE,
)

_ENDING = (
    confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED,
    confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART,
    confluent_kafka.KafkaError._BAD_COMPRESSION,
    confluent_kafka.KafkaError._BAD_MSG,
    confluent_kafka.KafkaError._UNKNOWN_PARTITION,
    confluent_kafka.KafkaError._UNKNOWN_TOPIC,
)
"""Errors after which a partition is read no further, or messages would be left out."""

_PASSING = (
    confluent_kafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    confluent_kafka.KafkaError.COORDINATOR_NOT_AVAILABLE,
    confluent_kafka.KafkaError.LEADER_NOT_AVAILABLE,
    confluent_kafka.KafkaError.NOT_COORDINATOR,
    confluent_kafka.KafkaError.NOT_LEADER_FOR_PARTITION,
    confluent_kafka.KafkaError.REQUEST_TIMED_OUT,
    confluent_kafka.KafkaError.UNSTABLE_OFFSET_COMMIT,
    confluent_kafka.KafkaError._ALL_BROKERS_DOWN,
    confluent_kafka.KafkaError._TIMED_OUT,
    confluent_kafka.KafkaError._TRANSPORT,
    confluent_kafka.KafkaError._WAIT_COORD,
)
"""Errors of brokers that begin, end or hand over; clients call only those of transactions such."""


class FencedError(KerneltrackError):
    """Another process runs the job."""


class Pace(NamedTuple):
    """When bundles run, and models are written.

    Attributes:
        most: Messages of a bundle at most.
        gap: As of `Turns`. What came while others ran does not wait for more.
        interval: Seconds between two writings of a model that changes all the time; more where
            these take long.
    """

    most: int
    gap: float
    interval: float


class Engine:
    """Runs a job's bundles.

    Args:
        steps: The job's steps.
        models: Its models.
        store: Where they are kept.
        ends: Where messages come from, and results go to.
        name: The job's name: its consumer group, and its transactions'.
        pace: When bundles run, and models are written.
    """

    def __init__(
        self,
        steps: LocalSteps,
        models: Models,
        store: Store,
        ends: LiveEnds,
        name: str,
        pace: Pace,
    ) -> None:
        """Reach Kafka; whoever ran the job before is shut out.

        Raises:
            KafkaError: if Kafka does not answer.
        """
        self._steps, self._models, self._store = steps, models, store
        self._topics = [ends.topic, *([] if ends.labels is None else [ends.labels.topic])]
        reached = resolve(ends.client)
        self._consumer = confluent_kafka.Consumer(
            {
                **reached,
                "group.id": name,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.queue.backoff.ms": 1,
            }
        )
        self._producer = confluent_kafka.Producer(
            {
                **SETTINGS,
                "linger.ms": 0,
                "transactional.id": name,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT * 1000,
                **reached,
            }
        )
        again(lambda: self._producer.init_transactions(ASK), "the transactions' coordinator")
        self._next: Offsets = {}
        self._pace, self._turns = pace, Turns(pace.most, pace.gap)
        self._commits = ThreadPoolExecutor(1, "commit")
        self._ending: deque[Future[None]] = deque()
        self._failed: BaseException | None = None
        self._written = self._looked = time.monotonic()
        self.newest: float | None = None
        """Kafka's time of the newest message, in seconds since 1970."""

    def close(self) -> None:
        """Close Kafka's clients."""
        self._commits.shutdown()
        self._consumer.close()
        self._steps.close()

    # ---- taking up ----

    def take_up(self) -> None:
        """Become what the job was after its last committed bundle.

        Raises:
            DataError: if the store does not fit what Kafka has, or messages are gone.
        """
        seen, self._next = self._store.checkpoint()
        self._take(-1, seen)
        committed, written = self._committed(), self._store.bundles()
        if written:
            # Each was written down after those before it were committed.
            known = written[-1].number - 1
            if committed is None and known > seen:
                say("Kafka has forgotten what was committed: the last bundle may come again")
            seen = max(seen, known)
        committed = max(seen, committed or 0)
        bundles = [each for each in written if each.number <= committed]
        self._store.forget_after(committed)
        if committed - self._models.bundle != len(bundles):
            reason = f"it lacks bundles up to {committed}, which Kafka has: it is an older copy"
            raise DataError(self._store.path, reason)
        if bundles:
            self._run_again(bundles)
        self._look_for_partitions()
        self._say_what_is_gone()
        self._assign()
        if self._steps.stand_again(time.time()):
            # Bundles that run again find the timers as they are now.
            self.checkpoint()

    def _committed(self) -> int | None:
        """Return the number of the last bundle that Kafka has the outputs of; None without any."""
        asked = _places(self._next)

        def ask() -> list[confluent_kafka.TopicPartition]:
            found = self._consumer.committed(asked, ASK)
            for place in found:
                if place.error is not None:
                    raise confluent_kafka.KafkaException(place.error)
            return found

        found = again(ask, "the group's offsets")
        return max((int(place.metadata) for place in found if place.offset >= 0), default=None)

    def _take(self, after: int, number: int) -> set[str]:
        """Let a bundle be the last one, and take the models that have seen no later one.

        Args:
            after: Those that have seen no later one than this are there already.
            number: The bundle.

        Returns:
            Their IDs.
        """
        self._models.bundle = number
        keys: set[str] = set()
        for saved in self._store.models(after, number):
            self._models.take(saved, self._store.path)
            keys.add(saved.key)
        return keys

    def _run_again(self, bundles: Sequence[Bundle]) -> None:
        """Run bundles again since the checkpoint, without output."""
        begin: Offsets = {}
        for bundle in reversed(bundles):
            for topic, own in bundle.start.items():
                begin.setdefault(topic, {}).update(own)
        places = _places(begin)
        if places:
            self._consumer.assign(places)
        came: dict[tuple[str, int], deque[Message]] = {
            (place.topic, place.partition): deque() for place in places
        }
        ahead = self._store.ahead(self._models.bundle)
        for bundle in bundles:
            messages: list[Message] = []
            for topic, own in bundle.stop.items():
                for part, stop in own.items():
                    messages += self._up_to(came, (topic, part), stop)
                    self._next.setdefault(topic, {})[part] = stop
            before, self._models.bundle = self._models.bundle, bundle.number
            self._steps.run_again(messages, bundle.now, ahead)
            ahead -= self._take(before, bundle.number)
        # What is asked next would wait, each time, for messages that do not come.
        self._consumer.unassign()

    def _up_to(
        self, came: dict[tuple[str, int], deque[Message]], place: tuple[str, int], stop: int
    ) -> list[Message]:
        """Return a partition's messages before an offset, of which the last one is there."""
        deadline = time.monotonic() + PATIENCE
        while not came[place] or came[place][-1].offset < stop - 1:
            found = self._consume(10_000, PAUSE)
            for message in found:
                came[message.topic, message.partition].append(message)
            if not found and time.monotonic() > deadline:
                topic, part = place
                reason = f"{topic}, partition {part}: no message before offset {stop} comes again"
                raise DataError(self._store.path, reason)
        taken = []
        while came[place] and came[place][0].offset < stop:
            taken.append(came[place].popleft())
        return taken

    def _say_what_is_gone(self) -> None:
        """Say which messages Kafka has deleted before they were read, and go on after them."""
        for topic, own in self._next.items():
            first = {part: self._first(topic, part) for part in own}
            gone = gone_before(own, first)
            if gone:
                say(f"LOST: {lost(topic, gone)} before they were read")
                own.update({part: first[part] for part in gone})

    def _first(self, topic: str, part: int) -> int:
        place = confluent_kafka.TopicPartition(topic, part)
        what = f"offsets of {topic}"
        low, _ = again(lambda: self._consumer.get_watermark_offsets(place, ASK), what)
        return int(low)

    def _look_for_partitions(self) -> bool:
        """Take in partitions that topics have got; return whether there were some."""
        self._looked, new = time.monotonic(), False
        for topic in self._topics:
            for part in self._partitions(topic):
                if part not in self._next.setdefault(topic, {}):
                    self._next[topic][part] = self._first(topic, part)
                    new = True
        return new

    def _partitions(self, topic: str) -> list[int]:
        """Return a topic's partitions.

        Raises:
            KafkaError: if there is no such topic any more: no error comes of reading it.
        """

        def ask() -> list[int]:
            found = self._consumer.list_topics(topic, ASK).topics[topic]
            if found.error is not None:
                raise confluent_kafka.KafkaException(found.error)
            return sorted(found.partitions)

        parts: list[int] = again(ask, topic)
        return parts

    def _assign(self) -> None:
        self._turns = Turns(self._pace.most, self._pace.gap)
        self._consumer.assign(_places(self._next))

    # ---- running ----

    def bundle(self) -> int:
        """Run what has come and whose turn it is; return how many messages that were."""
        turns = self._turns
        # Kafka's client waits for whole milliseconds, or not at all.
        patience = max(math.ceil(1e3 * (turns.due() - time.monotonic())), 0) / 1e3
        turns.add(self._consume(max(turns.room, 1), patience))
        messages = turns.take(time.monotonic())
        self._await_commits(MOST_ENDING)
        now, due = time.time(), self._models.next_due()
        if messages or (due is not None and due <= now):
            self._run(messages, now)
        return len(messages)

    def look_around(self) -> None:
        """Do between bundles what is due: write models, look for new partitions."""
        idle = not self._ending and self._models.changed
        if idle and time.monotonic() - self._written >= IDLE_WRITE:
            models = self._some_models()
            if models:
                self._store.write(models, self._models.seen)
        if time.monotonic() - self._looked >= LOOK_FOR_PARTITIONS and self._look_for_partitions():
            self._assign()

    def _run(self, messages: Sequence[Message], now: float) -> None:
        start: Offsets = {}
        stop: Offsets = {}
        # Those of a partition follow one another.
        for (topic, part), group in itertools.groupby(messages, itemgetter(0, 1)):
            first, *rest = group
            last = rest[-1] if rest else first
            start.setdefault(topic, {})[part] = first.offset
            stop.setdefault(topic, {})[part] = last.offset + 1
            if last.timestamp > 0:
                self.newest = max(self.newest or 0.0, last.timestamp / 1e3)
        # They are written once the last bundle, which they have seen, is committed.
        models, seen = self._some_models(), self._models.seen
        self._models.bundle += 1
        sent = self._steps.run(messages, now)
        for topic, own in stop.items():
            self._next[topic].update(own)
        self._await_commits(MOST_ENDING - 1)
        bundle = Bundle(self._models.bundle, now, start, stop)
        self._commit(sent, lambda: self._store.write(models, seen, bundle))

    def _some_models(self) -> list[Saved]:
        """Return models to be written: those that changed first, all of them in an interval."""
        begun = time.monotonic()
        span, self._written = begun - self._written, begun
        return self._models.save_some(span / self._pace.interval, begun + MOST_OF_TIME * span)

    def _commit(self, sent: Sequence[Sent], write: Callable[[], None]) -> None:
        """Send a bundle's messages, and how far the job has read, in one transaction.

        It begins once that of the bundle before has ended, and ends while others run: they do not
        wait when the disk or Kafka is slow for once.

        Args:
            sent: The messages.
            write: Writes the bundle down, which must be before it is committed.
        """
        places = _places(self._next, str(self._models.bundle))
        group, what = self._consumer.consumer_group_metadata(), f"{len(sent):,} messages"

        def end() -> None:
            self._producer.begin_transaction()
            for topic, message in sent:
                produce(self._producer, topic, message)
            write()
            send = self._producer.send_offsets_to_transaction
            again(lambda: send(places, group, ASK), "the offsets")
            again(lambda: self._producer.commit_transaction(ASK), what)

        self._ending.append(self._commits.submit(self._unless_failed, end))

    def _unless_failed(self, end: Callable[[], None]) -> None:
        """End a bundle's transaction, unless that of one before it has failed."""
        if self._failed is not None:
            raise self._failed
        try:
            end()
        except BaseException as error:
            self._failed = error
            raise

    def _await_commits(self, left: int) -> None:
        """Wait until so many bundles' transactions at most have not ended.

        Raises:
            FencedError: as of `again`.
            KafkaError: as of `again`.
        """
        while self._ending and (len(self._ending) > left or self._ending[0].done()):
            self._ending.popleft().result()

    def checkpoint(self) -> None:
        """Write all models that have changed."""
        self._await_commits(0)
        models = [self._models.save(key) for key in list(self._models.changed)]
        self._store.write(models, self._models.seen)

    def _consume(self, most: int, patience: float) -> list[Message]:
        """Return the messages that come within a time.

        Raises:
            KafkaError: if Kafka has deleted some before they were read, or gives no more.
        """
        found = []
        for message in self._consumer.consume(most, patience):
            error = message.error()
            if error is None:
                found.append(_incoming(message))
                continue
            if error.fatal():
                raise KafkaError(error.str())
            where = f"{message.topic()}, partition {message.partition()}"
            if error.code() in _LOST:
                reason = "Kafka has deleted messages before they were read: go on with --resume"
                raise KafkaError(f"{where}: {reason} latest, which says which")
            if error.code() in _ENDING:
                raise KafkaError(f"{where}: {error.str()}")
        return found


def _places(offsets: Offsets, metadata: str = "") -> list[confluent_kafka.TopicPartition]:
    return [
        confluent_kafka.TopicPartition(topic, part, at, metadata)
        for topic, own in offsets.items()
        for part, at in own.items()
    ]


def _incoming(message: Any) -> Message:
    headers = message.headers()
    return Message(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        [(name, value or b"") for name, value in headers] if headers else (),
    )


_FENCED = (
    confluent_kafka.KafkaError._FENCED,
    confluent_kafka.KafkaError.PRODUCER_FENCED,
    confluent_kafka.KafkaError.INVALID_PRODUCER_EPOCH,
)


def again(ask: Callable[[], Any], what: str) -> Any:
    """Ask Kafka until it answers, or for as long as it is waited for.

    Raises:
        FencedError: if another process runs the job.
        KafkaError: if Kafka does not answer, or refuses.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except confluent_kafka.KafkaException as exception:
            error = exception.args[0]
            if error.code() in _FENCED:
                raise FencedError("another process runs this job now") from exception
            passes = error.retriable() or error.code() in _PASSING
            if not passes or time.monotonic() > deadline:
                raise KafkaError(f"{what}: {error.str()}") from exception
            time.sleep(PAUSE)
