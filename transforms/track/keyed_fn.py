"""What keyed steps share: bundles, silence, expiry, and the learner that goes along with models.

A bundle's elements are held until it ends, so that its models run together: Beam writes state after
`finish_bundle`, and lets cells and timers be used in it. Silence is measured by the worker's own
clock, since that of a silent model stands still.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import apache_beam as beam
import numpy as np
from apache_beam import pvalue
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindow
from apache_beam.typehints import with_input_types, with_output_types
from apache_beam.utils.timestamp import MAX_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from kerneltrack import codec
from kerneltrack.errors import DataError
from kerneltrack.snapshots.folder import SnapshotFolder
from transforms.beam_worker.install import install
from transforms.chunks import Chunk
from transforms.global_window import IN_GLOBAL
from transforms.keyed.expiry import Expiry, KeptModel, recall
from transforms.keyed.timers import in_time, set_within, wall_clock
from transforms.learn.inputs import are_labels
from transforms.learn.learner import Learning, begin, decode, encode_snapshot, last_written
from transforms.learn.learners import Learners, gap, outputs_of
from transforms.learn.plan import Plan
from transforms.outputs import SNAPSHOTS
from transforms.track.clock import may_flush
from transforms.track.log import BUFFER, KEPT, LOG, PAST, Cells, ModelLog, Watch, log_of

MOST_HELD = 131_072
"""Rows of a bundle that are held at most."""
MOST_BYTES = 64 << 20
"""Bytes of the states of models that run together at most, unless it is only one."""


Came: TypeAlias = Generator[Any, None, list[list[Chunk]]]
"""What comes of learners, and the features of each that must wait."""


class Timers(NamedTuple):
    """A model's timers: at the end of the input; in live jobs also of its silence.

    Those of `idle_flush` (idle), of expiry (silent), and of devices that send nothing (unheard).
    """

    end: Any
    idle: Any = None
    silent: Any = None
    unheard: Any = None


@dataclasses.dataclass
class BundleRows:
    """What a bundle has brought a model so far.

    Attributes:
        cells: The model's state.
        timers: Its timers.
        chunks: Rows, in the order in which they came.
        labels: Delayed labels, which came before these rows.
        flush: Whether it has fallen silent, instead.
    """

    cells: Cells
    timers: Timers
    chunks: list[Chunk] = dataclasses.field(default_factory=list)
    labels: list[Chunk] = dataclasses.field(default_factory=list)
    flush: bool = False

    def ends_with(self, chunk: Chunk, named: bool) -> bool:
        """Check whether the rows must run before this comes: labels, or rows of other columns."""
        return bool(self.chunks) and (named or self.chunks[0].schema != chunk.schema)


class KeyedFn(beam.DoFn, abc.ABC):
    """A stateful step: holds what comes for models, runs it, and lets learners take what comes out.

    What stays of an expired model is the name of its file, its log's one entry.

    Args:
        plan: What learners do with the models' features; None: there are none.
        warm: Snapshots to begin from.
        expiry: When models that are silent leave the state; None: never.
        idle_flush: As of `Order`.
    """

    def __init__(
        self,
        plan: Plan | None,
        warm: SnapshotFolder | None,
        expiry: Expiry | None,
        idle_flush: float | None = None,
    ) -> None:
        self.plan = plan
        self._warm = warm
        self._expiry = expiry
        self._expire_after = None if expiry is None else expiry.after
        self._idle_flush = idle_flush
        self._learners = None if plan is None else last_written(plan.spec)
        self.start_bundle()

    @property
    def begins_anew(self) -> bool:
        """Whether no model goes on from a snapshot."""
        return self._warm is None

    @property
    def waits_for_end(self) -> bool:
        """Whether all that comes waits for the end of the input."""
        return self.plan is not None and self.plan.waits_for_end

    def setup(self) -> None:
        """Prepare the worker that this runs in."""
        install()

    # ---- a bundle ----

    def start_bundle(self) -> None:
        """Begin without rows."""
        self.pending: dict[str, BundleRows] = {}
        self._rows = 0
        self._earliest: Any = MAX_TIMESTAMP

    def finish_bundle(self) -> Iterator[Any]:
        """Run what is held of the bundle."""
        earliest = self._earliest
        for out in self.run_pending():
            if isinstance(out, pvalue.TaggedOutput):
                yield pvalue.TaggedOutput(out.tag, _placed(out.value, earliest))
            else:
                yield _placed(out, earliest)

    def bring(
        self, element: tuple[str, Chunk], cells: Cells, timers: Timers, timestamp: Any
    ) -> Iterable[Any]:
        """Take rows or labels in: they are held until the bundle ends.

        What comes after a silence, labels that come after rows, and rows of other columns than
        those before, find these done.
        """
        key, chunk = element
        if self.waits_for_end:
            timers.end.set(GlobalWindow().max_timestamp())
            cells.buffer.add(chunk)
            return ()
        pending, named, done = self.pending.get(key), self._names_rows(chunk), list[Any]()
        if pending is not None and (pending.flush or pending.ends_with(chunk, named)):
            done, pending = list(self.run_pending()), None
        pending = pending or BundleRows(cells, timers)
        (pending.labels if named else pending.chunks).append(chunk)
        held = self.hold(key, pending, timestamp, len(chunk))
        return itertools.chain(done, held) if done else held

    def _names_rows(self, chunk: Chunk) -> bool:
        return self.plan is not None and self.plan.late is not None and are_labels(chunk)

    def hold(self, key: str, pending: BundleRows, timestamp: Any, rows: int) -> Iterable[Any]:
        """Hold what has come for a model, so many rows more; return what runs, nearly always none.

        All that is held runs once it is much.
        """
        self.pending[key] = pending
        if timestamp is not self._earliest:
            self._earliest = min(self._earliest, timestamp)
        self._rows += rows
        return self.run_pending() if self._rows >= MOST_HELD else ()

    def run_pending(self) -> Iterator[Any]:
        """Run what is held."""
        pending = self.pending
        self.start_bundle()
        if not pending:
            return
        logs = {key: log_of(each.cells) for key, each in pending.items()}
        for key, each in pending.items():
            if logs[key].begins and not each.flush:
                each.timers.end.set(GlobalWindow().max_timestamp())
            self.hear(key, logs[key])
            yield from self._wake(key, logs[key])
        named = {key: each.labels for key, each in pending.items() if each.labels}
        yield from self._learn(named, logs, _arrive)
        yield from self._learned(self.run_visits(pending, logs), logs)
        for key, each in pending.items():
            if not each.flush:
                self._watch(logs[key], each.timers)
            logs[key].commit()

    @abc.abstractmethod
    def run_visits(
        self, pending: dict[str, BundleRows], logs: Mapping[str, ModelLog]
    ) -> Iterator[Any]:
        """Run what has come for models; yield features, and other outputs with their names."""

    # ---- learners ----

    def narrow(self, rows: Chunk) -> Chunk:
        """Return what learners need of features."""
        return rows

    def learner(self, key: str, data: bytes | None = None) -> Learning:
        """Return a learner of these bytes; without, as it is before the job's first row.

        Raises:
            DataError: for a snapshot that is damaged, or of another row than the index says.
        """
        if self.plan is None or self._learners is None:
            raise ValueError("the step has no learners")
        if data is not None:
            return self._learners.take(key, data)
        spec = self.plan.spec
        if self._warm is None:
            return begin(spec)
        data, rows = self._warm.state(key, codec.LEARNER), self._warm.rows(key)
        if data is None:
            return begin(spec, rows)
        name = f"{self._warm.folder}, learner of model {key!r}"
        now = decode(spec, data, name)
        if now.rows != rows:
            raise DataError(name, f"it has seen {now.rows} rows, the index says {rows}")
        return now

    def _learned(self, items: Iterator[Any], logs: Mapping[str, ModelLog]) -> Iterator[Any]:
        """Return what comes of models, and let their learners take the features."""
        features: dict[str, list[Chunk]] = {}
        for item in items:
            yield from self.shown(item)
            if self.plan is not None and not isinstance(item, pvalue.TaggedOutput):
                features.setdefault(item[0], []).append(item[1])
        yield from self._learn(features, logs, self.take)

    def shown(self, item: Any) -> Iterator[Any]:
        """Return an item if it is an output of the step, not only of use to learners."""
        yield item

    def _learn(
        self,
        brought: Mapping[str, Sequence[Chunk]],
        logs: Mapping[str, ModelLog],
        take: Callable[[Learners, Sequence[Sequence[Chunk]]], Came],
    ) -> Iterator[Any]:
        """Let learners take what has come, as many together as there is memory for."""
        if self.plan is None or self._learners is None:
            return
        for keys in _parts_of(brought, logs):
            now = [self.learner(key, logs[key].learner) for key in keys]
            learners = Learners(self.plan, keys, now)
            early = yield from take(learners, [brought[key] for key in keys])
            for key, chunks in zip(keys, early, strict=False):
                for chunk in chunks:
                    logs[key].add(chunk)
            for key, after in zip(keys, learners.now, strict=True):
                logs[key].put_learner(self._learners.put(key, after.without_rows()))

    def take(self, learners: Learners, chunks: Sequence[Sequence[Chunk]]) -> Came:
        """Let learners take features, those of one form together.

        Args:
            learners: The learners.
            chunks: Those of each.

        Yields:
            What comes of them.

        Returns:
            Those of each that must wait; empty if none must.
        """
        left = {place: list(own) for place, own in enumerate(chunks) if own}
        while left:
            schema = next(iter(left.values()))[0].schema
            part: dict[int, list[Chunk]] = {}
            for place, own in left.items():
                while own and own[0].schema == schema:
                    part.setdefault(place, []).append(own.pop(0))
            left = {place: own for place, own in left.items() if own}
            rows = Chunk.concat([chunk for own in part.values() for chunk in own])
            stops = np.cumsum([sum(map(len, own)) for own in part.values()])
            starts = np.concatenate([[0], stops[:-1]])
            learners.take(self.narrow(rows), np.array([*part]), starts, stops)
            yield from outputs_of(learners.keys, learners.came())
        return []

    # ---- the end of the input ----

    def finish(self, key: str, cells: Cells) -> Iterator[Any]:
        """Run what still waits when the input has ended."""
        yield from self.run_pending()
        # State expires with the window; each access to it costs a millisecond on some runners.
        if self.waits_for_end:
            come = list(cells.buffer.read())
            labels = [chunk for chunk in come if self._names_rows(chunk)]
            rows = [chunk for chunk in come if not self._names_rows(chunk)]
            yield from self.ended(key, self.finish_chunks(key, rows) if rows else iter(()), labels)
            return
        log = ModelLog(cells)
        yield from self.ended(key, self.finish_log(key, log), (), log.learner)

    @abc.abstractmethod
    def finish_chunks(self, key: str, chunks: list[Chunk]) -> Iterator[Any]:
        """Run all of a model's rows, at least one chunk, in the order in which they came."""

    @abc.abstractmethod
    def finish_log(self, key: str, log: ModelLog) -> Iterator[Any]:
        """Run what still waits in a model's log."""

    def ended(
        self,
        key: str,
        items: Iterable[Any],
        labels: Sequence[Chunk] = (),
        learner: bytes | None = None,
    ) -> Iterator[Any]:
        """Return the last that comes of a model, and of its learner.

        Args:
            key: The model's ID.
            items: What comes of the model.
            labels: Delayed labels, all that there are.
            learner: What its learner has come to; None if nothing has come to it.
        """
        plan = self.plan
        if plan is None:
            yield from items
            return
        learners = Learners(plan, [key], [self.learner(key, learner)], learner is not None)
        for chunk in labels:
            learners.arrive(0, chunk)
        features: list[Chunk] = []
        for item in itertools.chain(items, [None]):
            if item is not None:
                yield from self.shown(item)
            if item is not None and not isinstance(item, pvalue.TaggedOutput):
                features.append(item[1])
            if features and (item is None or sum(map(len, features)) >= plan.rows_at_once):
                early = yield from self.take(learners, [features])
                for chunk in itertools.chain(*early):
                    raise gap(key, learners.now[0].rows, int(chunk.column("index")[0]))
                features = []
        for last in learners.end():
            if last is not None:
                yield pvalue.TaggedOutput(SNAPSHOTS, (key, last.parts.to_bytes()))
        yield from outputs_of(learners.keys, learners.came())

    # ---- silence ----

    def miss(self, key: str, cells: Cells, timers: Timers, due: Any) -> Iterator[Any]:
        """Return that a device is silent, if it has sent nothing for too long."""
        return iter(())

    def _watch(self, log: ModelLog, timers: Timers) -> None:
        """Note that the model has shown itself, and set the timers that are not set already."""
        if self._idle_flush is None and self._expire_after is None:
            return
        now = wall_clock()
        _, idle, silent = log.watch
        if self._idle_flush is not None and may_flush(log.clock):
            idle = set_within(timers.idle, idle, now, self._idle_flush)
        if self._expire_after is not None:
            silent = set_within(timers.silent, silent, now, self._expire_after)
        log.put_watch(Watch(now, idle, silent))

    def fall_silent(self, key: str, cells: Cells, timers: Timers, due: Any) -> Iterator[Any]:
        """Take the rows that wait for newer ones, with the bundle."""
        if key in self.pending:
            yield from self.run_pending()
        log = ModelLog(cells)
        if self._idle_flush is None or not may_flush(log.clock):
            return
        if not in_time(timers.idle, due, self._idle_flush, log.watch.seen):
            return
        yield from self.hold(key, BundleRows(cells, timers, flush=True), due, 0)

    def expire(self, key: str, cells: Cells, timers: Timers, due: Any) -> Iterator[Any]:
        """Write all that is kept of a model into a file, and keep the file's name instead."""
        yield from self.run_pending()
        log = ModelLog(cells)
        if self._expiry is None or self._expire_after is None or log.begins:
            return
        if not in_time(timers.silent, due, self._expire_after, log.watch.seen):
            return
        clock = None if log.clock is None else log.clock.encode()
        parts = self.state(key, log), clock, tuple(log.drain()), log.learner
        kept = KeptModel(*parts, log.periods, tuple(log.days()))
        log.expire(self._expiry.write(key, kept))
        log.commit()
        timers.end.clear()
        yield from self.gone(key, kept, log)
        if self.plan is not None and kept.learner is not None:
            now = self.learner(key, kept.learner)
            if now.state is not None:
                data = encode_snapshot(self.plan.spec, key, now)
                yield pvalue.TaggedOutput(SNAPSHOTS, (key, data))

    def state(self, key: str, log: ModelLog) -> bytes | None:
        """Return a model as a snapshot; None without a tracker, or before its first rows."""
        return None

    def gone(self, key: str, kept: KeptModel, log: ModelLog) -> Iterator[Any]:
        """Return what a model that expires leaves, its learner apart."""
        return iter(())

    def hear(self, key: str, log: ModelLog) -> None:
        """Let what people said of a device count, before its rows run."""

    def _wake(self, key: str, log: ModelLog) -> Iterable[Any]:
        """Take up again a model that has expired; return what is known of it.

        Raises:
            DataError: if its file is not there, or the job does not know where it is.
        """
        if log.expired is None:
            return ()
        kept = recall(self._expiry, key, log.expired)
        log.wake(kept)
        return self.returned(key, kept, log)

    def returned(self, key: str, kept: KeptModel, log: ModelLog) -> Iterator[Any]:
        """Take up a model that comes back; return what is known of it."""
        return iter(())


def _arrive(learners: Learners, chunks: Sequence[Sequence[Chunk]]) -> Came:
    """Let delayed labels come to learners."""
    for place, labels in enumerate(chunks):
        for chunk in labels:
            learners.arrive(place, chunk)
    yield from outputs_of(learners.keys, learners.came())
    return []


def _parts_of(
    brought: Mapping[str, Sequence[Chunk]], logs: Mapping[str, ModelLog]
) -> Iterator[list[str]]:
    """Cut models into parts whose learners there is memory for together."""
    part: list[str] = []
    size = 0
    for key in brought:
        own = len(logs[key].learner or b"")
        if part and size + own > MOST_BYTES:
            yield part
            part, size = [], 0
        part.append(key)
        size += own
    if part:
        yield part


def _placed(value: Any, timestamp: Any) -> WindowedValue:
    """Return an output as `finish_bundle` must give it."""
    return WindowedValue(value, timestamp, IN_GLOBAL)


def with_timers(step: type[KeyedFn], timer: str, live: bool, listens: bool = False) -> Any:
    """Return a step with its timers under this name (see `timers`).

    A `live` one also has timers of the worker's own time; one that `listens` has one more, of
    devices that send nothing.
    """
    own: Any = step
    end_of_input = TimerSpec(timer, TimeDomain.WATERMARK)
    idleness = TimerSpec(f"{timer}_idle", TimeDomain.REAL_TIME)
    silence = TimerSpec(f"{timer}_silent", TimeDomain.REAL_TIME)
    absence = TimerSpec(f"{timer}_unheard", TimeDomain.REAL_TIME)

    class _Fn(own):  # type: ignore[misc]
        """The stateful step of one transform."""

        @with_input_types(tuple[str, Chunk])
        @with_output_types(tuple[str, Chunk])
        def process(
            self,
            element: tuple[str, Chunk],
            log: Any = beam.DoFn.StateParam(LOG),
            buffer: Any = beam.DoFn.StateParam(BUFFER),
            kept: Any = beam.DoFn.StateParam(KEPT),
            past: Any = beam.DoFn.StateParam(PAST),
            end: Any = beam.DoFn.TimerParam(end_of_input),
            timestamp: Any = beam.DoFn.TimestampParam,
        ) -> Any:
            return self.bring(element, Cells(log, buffer, kept, past), Timers(end), timestamp)

        @on_timer(end_of_input)
        def at_end(
            self,
            key: Any = beam.DoFn.KeyParam,
            log: Any = beam.DoFn.StateParam(LOG),
            buffer: Any = beam.DoFn.StateParam(BUFFER),
            kept: Any = beam.DoFn.StateParam(KEPT),
            past: Any = beam.DoFn.StateParam(PAST),
        ) -> Any:
            return self.finish(key, Cells(log, buffer, kept, past))

    class _LiveFn(_Fn):
        """The same with timers of the worker's own time."""

        @with_input_types(tuple[str, Chunk])
        @with_output_types(tuple[str, Chunk])
        def process(  # type: ignore[override]  # noqa: PLR0913, PLR0917 - one for each cell
            self,
            element: tuple[str, Chunk],
            log: Any = beam.DoFn.StateParam(LOG),
            buffer: Any = beam.DoFn.StateParam(BUFFER),
            kept: Any = beam.DoFn.StateParam(KEPT),
            past: Any = beam.DoFn.StateParam(PAST),
            end: Any = beam.DoFn.TimerParam(end_of_input),
            idle: Any = beam.DoFn.TimerParam(idleness),
            silent: Any = beam.DoFn.TimerParam(silence),
            timestamp: Any = beam.DoFn.TimestampParam,
        ) -> Any:
            timers = Timers(end, idle, silent)
            return self.bring(element, Cells(log, buffer, kept, past), timers, timestamp)

        @on_timer(idleness)
        def at_idle(
            self,
            key: Any = beam.DoFn.KeyParam,
            log: Any = beam.DoFn.StateParam(LOG),
            buffer: Any = beam.DoFn.StateParam(BUFFER),
            kept: Any = beam.DoFn.StateParam(KEPT),
            past: Any = beam.DoFn.StateParam(PAST),
            idle: Any = beam.DoFn.TimerParam(idleness),
            due: Any = beam.DoFn.TimestampParam,
        ) -> Any:
            return self.fall_silent(key, Cells(log, buffer, kept, past), Timers(None, idle), due)

        @on_timer(silence)
        def at_silence(  # noqa: PLR0917 - one for each cell
            self,
            key: Any = beam.DoFn.KeyParam,
            log: Any = beam.DoFn.StateParam(LOG),
            buffer: Any = beam.DoFn.StateParam(BUFFER),
            kept: Any = beam.DoFn.StateParam(KEPT),
            past: Any = beam.DoFn.StateParam(PAST),
            end: Any = beam.DoFn.TimerParam(end_of_input),
            silent: Any = beam.DoFn.TimerParam(silence),
            due: Any = beam.DoFn.TimestampParam,
        ) -> Any:
            timers = Timers(end, None, silent)
            return self.expire(key, Cells(log, buffer, kept, past), timers, due)

    class _ListeningFn(_LiveFn):
        """The same with a timer of devices that send nothing."""

        @with_input_types(tuple[str, Chunk])
        @with_output_types(tuple[str, Chunk])
        def process(  # type: ignore[override]  # noqa: PLR0913, PLR0917 - one for each cell
            self,
            element: tuple[str, Chunk],
            log: Any = beam.DoFn.StateParam(LOG),
            buffer: Any = beam.DoFn.StateParam(BUFFER),
            kept: Any = beam.DoFn.StateParam(KEPT),
            past: Any = beam.DoFn.StateParam(PAST),
            end: Any = beam.DoFn.TimerParam(end_of_input),
            idle: Any = beam.DoFn.TimerParam(idleness),
            silent: Any = beam.DoFn.TimerParam(silence),
            unheard: Any = beam.DoFn.TimerParam(absence),
            timestamp: Any = beam.DoFn.TimestampParam,
        ) -> Any:
            timers = Timers(end, idle, silent, unheard)
            return self.bring(element, Cells(log, buffer, kept, past), timers, timestamp)

        @on_timer(absence)
        def at_absence(
            self,
            key: Any = beam.DoFn.KeyParam,
            log: Any = beam.DoFn.StateParam(LOG),
            buffer: Any = beam.DoFn.StateParam(BUFFER),
            kept: Any = beam.DoFn.StateParam(KEPT),
            past: Any = beam.DoFn.StateParam(PAST),
            unheard: Any = beam.DoFn.TimerParam(absence),
            due: Any = beam.DoFn.TimestampParam,
        ) -> Any:
            timers = Timers(None, unheard=unheard)
            return self.miss(key, Cells(log, buffer, kept, past), timers, due)

    if listens:
        return _ListeningFn
    return _LiveFn if live else _Fn
