"""The steps of a live job for one process: messages in, messages out.

They are the steps of the job on Flink (`pipelines.live.pipeline`), called one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from pipelines.job_spec import Job, transform_of
from pipelines.live.pipeline import LiveEnds, encoder_of
from pipelines.local.models import IDLE, SILENT, UNHEARD, Models
from transforms.kafka.commands import Commands
from transforms.kafka.encode import EncodeFn
from transforms.kafka.fetch import FetchFn
from transforms.kafka.gather import Outgoing
from transforms.kafka.messages import Message
from transforms.kafka.read import DEAD_LETTERS as REFUSED
from transforms.kafka.read import GatherFn
from transforms.keyed.timers import standing_at
from transforms.learn.inputs import narrow_labels
from transforms.metrics import counting
from transforms.outputs import (
    DEAD_LETTERS,
    FAILURES,
    FEATURES,
    LATE,
    LEARNER,
    LOST_LABELS,
    PERIOD,
    SNAPSHOTS,
    TRACKER,
    schemas,
)
from transforms.read.columns import Columns
from transforms.read.label_files import indexed
from transforms.snapshots.write import WriteStateFn
from transforms.track.refusals import late_as_failures

Sent = tuple[str, Outgoing]
"""A topic, and a message for it."""


_PLACE = itemgetter(0, 1, 2)
"""Of a message: the messages of a bundle are sorted by it."""


class LocalSteps:
    """What a job does with the messages of a bundle.

    Args:
        job: What is done with rows.
        ends: Where messages come from, and results go to.
        models: The models.
    """

    def __init__(self, job: Job, ends: LiveEnds, models: Models) -> None:
        self._models, self._ends, self._learner = models, ends, job.learner
        self._step = transform_of(job, bounded=False, expiry=ends.expiry).step()
        commands = Commands(job.spec, job.learner, job.columns.width, job.feedback, job.live_quiet)
        self._rows = _gather(ends, job.columns, commands, "rows")
        self._labels: GatherFn | None = None
        if ends.labels is not None:
            self._labels = _gather(ends, ends.labels.columns, None, "labels")
            self._indexed = ends.labels.columns.sequence is not None
        written = schemas(job.asked(bounded=False), TRACKER, LEARNER, PERIOD)
        self._encode = {name: encoder_of(name, written[name], job, ends) for name in written}
        self._fetch = {FAILURES: FetchFn(ends.topic, ends.client)}
        if ends.labels is not None:
            self._fetch[LOST_LABELS] = FetchFn(ends.labels.topic, ends.client)
        self._write: WriteStateFn | None = None
        if ends.snapshots is not None:
            self._write = WriteStateFn(ends.snapshots, job.float32)
        self.counts: Counter[str] = Counter()
        self.refused, self.last_reason = 0, ""
        """How many messages were refused, and why the last one was."""

    def close(self) -> None:
        """Close what fetches messages."""
        for fetch in self._fetch.values():
            fetch.teardown()

    def stand_again(self, now: float) -> bool:
        """Measure silences of devices from now on: what came while the job stood is read first.

        Returns:
            Whether timers of models have changed.
        """
        waiting = self._models.waiting_for(UNHEARD)
        with standing_at(now):
            for key in waiting:
                self._step.wait_anew(*self._models.visit(key))
        return bool(waiting)

    def run(self, messages: Iterable[Message], now: float) -> list[Sent]:
        """Run a bundle, and return what it sends.

        Args:
            messages: In any order; the same ones always give the same results.
            now: The time of this machine's clock.
        """
        sent = _Sent(self._encode, self._fetch)
        with counting() as counts, standing_at(now):
            for item in self._ran(messages, now):
                self._take(item, sent)
            found = [(self._ends.topics[name], message) for name, message in sent.messages()]
        self.counts += counts.totals
        for _, _, headers in sent.refused():
            self.refused += 1
            self.last_reason = dict(headers)["reason"].decode()
        return found

    def run_again(
        self, messages: Iterable[Message], now: float, without: Container[str] = ()
    ) -> None:
        """Run a bundle whose outputs have been sent: only the models are what they were.

        Args:
            messages: As of `run`.
            now: The time at which it ran.
            without: Models that are not there yet, since they have seen the bundle.
        """
        with counting(), standing_at(now):
            for _ in self._ran(messages, now, without):
                pass

    def _ran(
        self, messages: Iterable[Message], now: float, without: Container[str] = ()
    ) -> Iterator[Any]:
        """Yield what comes of a bundle: the outputs of the keyed step, and dead letters."""
        step, models = self._step, self._models
        fires = {IDLE: step.fall_silent, SILENT: step.expire, UNHEARD: step.miss}
        step.start_bundle()
        for due in list(models.fire(now)):
            yield from fires[due.name](due.key, *models.visit(due.key), Timestamp.of(due.at))
        for item in self._elements(sorted(messages, key=_PLACE)):
            if isinstance(item, pvalue.TaggedOutput):
                yield item
                continue
            if item[0] not in without:
                yield from step.bring(item, *models.visit(item[0]), MIN_TIMESTAMP)
        yield from step.run_pending()

    def _elements(self, messages: Sequence[Message]) -> Iterator[Any]:
        """Yield rows, commands and labels as elements of the keyed step, and dead letters."""
        rows = [message for message in messages if message.topic == self._ends.topic]
        yield from _bundle(self._rows, rows)
        if self._labels is None or self._learner is None:
            return
        labels = [message for message in messages if message.topic != self._ends.topic]
        for item in _bundle(self._labels, labels):
            if isinstance(item, pvalue.TaggedOutput):
                yield item
            else:
                named = indexed(item) if self._indexed else item
                yield narrow_labels(named, self._learner)

    def _take(self, item: Any, sent: _Sent) -> None:
        """Take what comes of a bundle to where it goes."""
        if not isinstance(item, pvalue.TaggedOutput):
            sent.add(FEATURES, item)
            return
        name, value = str(item.tag), item.value
        if name == REFUSED:
            sent.letters.append(value)
        elif name == SNAPSHOTS:
            if self._write is not None:
                for _ in self._write.process(value):
                    pass
        elif name == LATE:
            sent.add(FAILURES, late_as_failures(value))
        else:
            sent.add(name, value)


class _Sent:
    """What a bundle sends, collected."""

    def __init__(self, encode: dict[str, beam.DoFn], fetch: dict[str, FetchFn]) -> None:
        self._steps: dict[str, beam.DoFn] = {**encode, **fetch}
        # Without windows no timestamp is of use.
        self._process = {name: _process(step) for name, step in self._steps.items()}
        self._to = {**{name: name for name in encode}, **dict.fromkeys(fetch, DEAD_LETTERS)}
        self._found: dict[str, list[Outgoing]] = {name: [] for name in self._steps}
        self.letters: list[Outgoing] = []
        for step in self._steps.values():
            step.start_bundle()

    def add(self, name: str, value: Any) -> None:
        """Take an output in."""
        process = self._process.get(name)
        if process is not None:  # Else the job does not write it.
            self._found[name] += process(value)

    def messages(self) -> Iterator[tuple[str, Outgoing]]:
        """Yield all messages, with the names of their outputs."""
        for name, step in self._steps.items():
            self._found[name] += _finish(step)
            for message in self._found[name]:
                yield self._to[name], message
        for letter in self.letters:
            yield DEAD_LETTERS, letter

    def refused(self) -> Iterator[Outgoing]:
        """Yield the dead letters; to be called after `messages`."""
        for name, to in self._to.items():
            if to == DEAD_LETTERS:
                yield from self._found[name]
        yield from self.letters


def _gather(
    ends: LiveEnds, columns: Columns, commands: Commands | None, counted_as: str
) -> GatherFn:
    fn = GatherFn(columns, ends.form, commands, counted_as, ends.registry)
    fn.setup()
    return fn


def _bundle(fn: GatherFn, messages: Sequence[Message]) -> Iterator[Any]:
    fn.start_bundle()
    for message in messages:
        yield from fn.take(message)
    yield from fn.gathered()


def _process(step: beam.DoFn) -> Callable[[Any], Iterable[Outgoing]]:
    """Return what takes an output in, and gives messages that do not wait for the bundle's end."""
    if isinstance(step, EncodeFn):
        return step.take
    if isinstance(step, FetchFn):
        return lambda value: [each.value for each in step.process(value, MIN_TIMESTAMP)]
    process: Callable[[Any], Iterable[Outgoing]] = step.process
    return process


def _finish(step: beam.DoFn) -> Iterable[Outgoing]:
    """Return the messages that are left at the end of a bundle."""
    if isinstance(step, EncodeFn):
        return step.written()
    return [each.value for each in step.finish_bundle() or ()]
