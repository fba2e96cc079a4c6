"""What a device's results must be: its entries one by one, in lists, and the core without Beam.

Written from what the docs say of order, late rows, jumps, silence, commands and labels, not from
the step: nothing is kept as bytes, nothing runs together with other devices, rows are looked at one
at a time, and those that have had their turn run through the core in one call.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kerneltrack.arrays import FloatArray
from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.conditions import whole_rows
from kerneltrack.fleet.devices import GONE, OFF, Device, known_of, new_device
from kerneltrack.fleet.forward_fill import LastValues, hold_last
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.restore import decode, take_over
from kerneltrack.fleet.run import run_models
from kerneltrack.fleet.states import encode
from kerneltrack.jumps import JumpRule, Standing, judge
from kerneltrack.monitor import quiet as quiet_times
from kerneltrack.monitor.feedback import Feedback, Said
from kerneltrack.monitor.periods.device import beginning, numbers_at
from kerneltrack.monitor.periods.spec import PeriodsSpec
from kerneltrack.monitor.periods.sums import LARGEST, SECOND, DeviceSums
from kerneltrack.monitor.quiet import QuietTime, QuietTimes, Told
from kerneltrack.time_units import day_of, nanoseconds
from tests.simulation.beam import Output, named
from tests.simulation.history import PERIOD
from tests.unit.test_rounds import WIDTH
from transforms.chunks import Chunk, matrix_column
from transforms.failures import Failures
from transforms.keyed.commands import QUIET, Command
from transforms.learn.inputs import narrow
from transforms.learn.learner import begin as no_learning
from transforms.learn.learner import decode as learning_of
from transforms.learn.learner import encode_snapshot
from transforms.learn.learners import Learners, outputs_of
from transforms.learn.plan import Plan
from transforms.outputs import DEVICES, EPISODES, FAILURES, FEATURES, LATE, PERIODS, SNAPSHOTS
from transforms.track.devices import device_chunk
from transforms.track.emit import emit
from transforms.track.merge import merge_times
from transforms.track.order import DROP, MERGE, Order
from transforms.track.periods import lines_of
from transforms.track.refusals import Refusals
from transforms.track.slices import Ran
from transforms.track.step import NO_PLACE

EARLY = 0.001
"""Seconds by which a timer may be early."""


class Asked(NamedTuple):
    """What a job is asked for.

    Attributes:
        work: What is done with rows.
        order: How they are put in order; its `idle_flush` is the job's.
        plan: What learners do; None: there are none.
        expire: Seconds of silence after which a model expires.
        silent: Seconds without rows after which a device is silent.
    """

    work: Work
    order: Order
    plan: Plan | None
    expire: float | None
    silent: float | None = None


@dataclasses.dataclass(frozen=True)
class One:
    """A row, where it lies in a chunk, and how many came before it."""

    chunk: Chunk
    place: int
    came: int

    def of(self, name: str) -> int:
        """Return a value of it."""
        return int(self.chunk.column(name)[self.place])

    @property
    def time(self) -> int:
        """Its time, ns."""
        return self.of("time")

    @property
    def rows(self) -> Chunk:
        """The row as a chunk."""
        return self.chunk.slice(self.place, self.place + 1)


def _joined(rows: Iterable[One]) -> Chunk:
    return Chunk.concat([row.rows for row in rows])


class Alone:
    """One device.

    Args:
        asked: What the job is asked for.
        key: Its ID.
        states: Bytes of its tracker's and its learner's snapshot, if it goes on from some.
    """

    def __init__(
        self, asked: Asked, key: str, states: tuple[bytes | None, bytes | None] = (None, None)
    ) -> None:
        self.key = key
        self._told: tuple[Said, ...] = ()
        self._quiet: list[Told] = []
        self.asked = asked = self.with_told(asked)
        self.out: list[Output] = []
        self.expired = False
        self.seen = 0.0
        self.heard: float | None = None
        self.missing: tuple[int, int | None] | None = None
        self._refusals = Refusals(asked.work, asked.order)
        self._came = itertools.count()
        self._standing, self._flushed = Standing(), -math.inf
        self._learned: int | None = None
        self._waiting: list[One] = []
        self._ahead: list[One] = []
        self._turn: list[One] = []
        self._model: Model | None = None
        self._before = 0
        self._begun = False
        tracker, learner = states
        if tracker is not None:
            self._model = decode(asked.work, tracker, key)
            self._resume(self._model)
        self._counted = _Counted(self)
        self._learners: Learners | None = None
        if asked.plan is not None:
            rows = 0 if self._model is None else self._model.rows
            learning = no_learning(asked.plan.spec, rows)
            if learner is not None:
                learning = learning_of(asked.plan.spec, learner, key)
            self._learners = Learners(asked.plan, [key], [learning])

    def _resume(self, model: Model) -> None:
        self._standing, self._learned = Standing(model.time), model.until
        if self.asked.work.drop_overlap and model.time is not None and model.until is not None:
            self._learned = max(model.until, model.time + 1)

    def with_told(self, asked: Asked) -> Asked:
        """Return what is asked for, with what somebody said of this device behind the file's."""
        known, quiet = asked.work.feedback, asked.work.quiet
        if known is not None:
            said = (*known.said, *self._told)
            known = Feedback(said, known.channels, groups=known.groups)
        if quiet is not None:
            times = [*quiet.times]
            for entry, cancels in self._quiet:
                times = [each for each in times if each != entry] if cancels else [*times, entry]
            quiet = QuietTimes(tuple(times), quiet.groups)
        work = dataclasses.replace(asked.work, feedback=known, quiet=quiet)
        return asked._replace(work=work)

    # ---- what comes ----

    def hear(self, said: bytes) -> None:
        """Take what somebody says of its episodes."""
        self._advance()
        if self.asked.work.feedback is not None:
            self._told += self.asked.work.feedback.read_new(said)
        self.asked = self.with_told(self.asked)

    def hear_quiet(self, command: Command) -> None:
        """Take a quiet time, or that one is cancelled; those that are over make place for it."""
        self._advance()
        work = self.asked.work
        told = [*self._quiet, *QuietTimes(()).read(command.said or b"")]
        over = [
            each
            for each in told
            if isinstance(each.entry, QuietTime)
            and each.entry.end <= self._progress
            and self._begun
        ]
        for each in over[: max(len(told) - quiet_times.MOST_TOLD, 0)]:
            told.remove(each)
        if work.quiet is not None and len(told) > quiet_times.MOST_TOLD:
            refused = Failures.of(self.key, [command.source], [command.row], [NO_PLACE])
            self._keep(FAILURES, refused)
        elif work.quiet is not None:
            self._quiet = told
        self.asked = self.with_told(self.asked)

    def take(self, chunk: Chunk, now: float) -> None:
        """Take rows of one source."""
        self._visit(now)
        if self.asked.silent is not None:
            self.heard = now
        if self.missing is not None:
            self._note_silence("closed", self.missing[0], int(chunk.column("time")[0]))
            self.missing = None
            if self._model is not None:
                self._tell([known_of(self.asked.work, self.key, self._model)])
        if not self._begun and self._model is not None:
            self._tell([known_of(self.asked.work, self.key, self._model)])
        self._begun = True
        for place in range(len(chunk)):
            self._take(One(chunk, place, next(self._came)))
        self._release()

    def name(self, labels: Chunk, now: float) -> None:
        """Take delayed labels."""
        self._visit(now)
        self._advance()
        if self._learners is not None:
            self._learners.arrive(0, labels)
            self._said()

    def obey(self, command: Command, now: float) -> None:
        """Begin anew, or hear what somebody says."""
        if command.said is not None and command.action == QUIET:
            self.hear_quiet(command)
            return
        if command.said is not None:
            self.hear(command.said)
            return
        self._visit(now)
        if not self._begun and self._model is not None:
            self._tell([known_of(self.asked.work, self.key, self._model)])
        self._begun = True
        self._advance()
        known, work = self._model, self.asked.work
        rows = self._before if known is None else known.rows
        self._standing, self._flushed, self._learned = Standing(), -math.inf, None
        self._waiting = sorted([*self._waiting, *self._ahead], key=lambda row: row.came)
        self._ahead = []
        if command.tracker is None:
            self._model, self._before = None, rows
            if known is not None:
                self._tell([Device(GONE, rows, known.time)], known)
        else:
            self._model = take_over(work, self.key, command.tracker, self.key, known, rows)
            if self.missing is None:
                self._tell([known_of(work, self.key, self._model)])
        if self._learners is not None:
            self._learners.begin_anew(0, command.learner)
            self._said()

    def idle(self, now: float, due: float) -> None:
        """Take rows that wait for newer ones, if the device has been silent for long."""
        span = self.asked.order.idle_flush
        if span is None or self.expired or not self._waiting or self._standing.newest is None:
            return
        if now - self.seen < span - EARLY or now - due > span:
            return
        before = self._flushed
        self._flushed = self._standing.newest + 1
        self._release()
        if self._model is None and not self._turn:
            self._flushed = before

    def silent(self, now: float, due: float) -> None:
        """Expire, if the device has been silent for long."""
        span = self.asked.expire
        if span is None or self.expired or not self.visited:
            return
        if now - self.seen < span - EARLY or now - due > span:
            return
        self._advance()
        self.expired = True
        if self._model is not None and self._begun:
            self._keep(SNAPSHOTS, (self.key, encode(self.asked.work, self.key, self._model)))
            rows, time = self._model.rows, self._model.time
            if self.missing is None:
                self._tell([Device(GONE, rows, time)])
        if self._learners is not None and self._touched:
            now_learned = self._learners.now[0]
            if now_learned.state is not None:
                data = encode_snapshot(self._plan.spec, self.key, now_learned)
                self._keep(SNAPSHOTS, (self.key, data))

    def unheard(self, now: float, due: float) -> None:
        """Be silent, if no row has come for long."""
        span = self.asked.silent
        if span is None or self.heard is None or not self.speaks:
            return
        if now - self.heard < span - EARLY or now - due > span or self._model is None:
            return
        self._advance()
        rows, time = self._model.rows, self._model.time
        self.missing = rows, time
        noticed = None if time is None else time + nanoseconds(span)
        self._note_silence("open", rows - 1, noticed)
        known = known_of(self.asked.work, self.key, self._model)
        if known.state != OFF:
            known = Device(OFF, rows, time, rows - 1, time, known.episodes, silent=True)
        self._tell([known])

    @property
    def speaks(self) -> bool:
        """Whether its model has new_device, rows have come, and it is not silent."""
        shown = self._model is not None and self._begun and self.heard is not None
        return shown and self.missing is None

    def _note_silence(self, state: str, index: int, time: int | None) -> None:
        if self.missing is None:
            raise ValueError("it is not silent")
        rows, since = self.missing
        line = {
            "index": index,
            "time": time,
            "episode": None,
            "state": state,
            "kind": "silent",
            "severity": None,
            "p": None,
            "muted": None,
            "start_index": rows - 1,
            "start": since,
            "detected_index": rows - 1,
            "detected": since,
            "last_index": rows - 1,
            "last": since,
            "shares": [0.0] * WIDTH,
            "deviations": [None] * WIDTH,
        }
        self._keep(EPISODES, (self.key, Chunk(pa.RecordBatch.from_pylist([line]))))

    visited = False
    _touched = False

    def _visit(self, now: float) -> None:
        """Note that something has come; a model that had expired is back."""
        self.visited = True
        if self.expired:
            self.expired = False
            if self._model is not None and self._begun and self.missing is None:
                self._tell([known_of(self.asked.work, self.key, self._model)])
        if self.asked.order.idle_flush is not None or self.asked.expire is not None:
            self.seen = now

    @property
    def idles(self) -> bool:
        """Whether rows wait for newer ones though they could run.

        Those from before a reset wait for the first row after it, which shows the time.
        """
        shown = not self.expired and self._standing.newest is not None
        return shown and self._model is not None and bool(self._waiting)

    def end(self) -> None:
        """Take what waits: no more comes."""
        if self.expired or not self.visited:
            return
        rows = self._at_end()
        self._turn += rows
        if self._model is None and self._turn and not self._start(few=True):
            refused = self._in_turn()
            self._refuse(refused, self._refusals.unusable(refused.column("x")))
            self._turn = []
        if self._turn or self._begun:
            # Of a device that went on and of which labels alone came there is nothing to say.
            self._run(math.inf)
        if self._model is not None:
            self._counted.end()
        if self._model is not None and self._begun:
            data = encode(self.asked.work, self.key, self._model, final=True)
            self._keep(SNAPSHOTS, (self.key, data))
        if self._learners is not None and self._touched:
            for last in self._learners.end():
                if last is not None:
                    self._keep(SNAPSHOTS, (self.key, last.parts.to_bytes()))
            self._said()

    # ---- order ----

    @property
    def _rule(self) -> JumpRule:
        order = self.asked.order
        reach = nanoseconds(max(order.max_jump, order.max_disorder))
        disorder = nanoseconds(order.max_disorder)
        return JumpRule(reach, order.jump_rows, disorder, times=order.duplicates == MERGE)

    @property
    def _progress(self) -> float:
        newest = self._standing.newest
        if newest is None:
            return self._flushed
        return max(newest - nanoseconds(self.asked.order.max_disorder), self._flushed)

    def _take(self, row: One) -> None:
        """Let a row wait, or refuse it."""
        if self._learned is not None and row.time < self._learned:
            if not self.asked.work.drop_overlap:
                day = day_of(self._learned)
                self._refuse(
                    row.rows,
                    "of a time that the model had learned from before it was taken up again, "
                    f"until {day}",
                )
            return
        progress, anew = self._progress, self._standing.newest is None
        if not self.asked.order.confirms:
            if row.time < progress:
                self._keep(LATE, (self.key, row.rows))
                return
            newest = self._standing.newest
            newest = row.time if newest is None else max(newest, row.time)
            self._standing = self._standing._replace(newest=newest)
            self._waiting.append(row)
        else:
            usable = self._refusals.usable(row.rows)
            judged = judge(self._rule, self._standing, np.array([row.time]), usable)
            self._standing = judged.standing
            # Rows of one time stand or fall together, also one that waits since before a reset.
            both = [*self._waiting, *self._ahead]
            self._forget([each for each in both if each.time in judged.refused])
            if judged.waits[0]:
                self._ahead.append(row)
            elif not judged.counts[0]:
                self._refuse(row.rows, self._refusals.unconfirmed(row.rows))
            elif not judged.was_ahead[0] and row.time < progress:
                self._keep(LATE, (self.key, row.rows))
            else:
                self._waiting.append(row)
            for other in [each for each in self._ahead if each.time not in self._standing.ahead]:
                self._ahead.remove(other)
                self._waiting.append(other)
        if anew and self._standing.newest is not None:
            self._forget_beyond(self._standing.newest)

    def _forget_beyond(self, newest: int) -> None:
        """Refuse rows from before a reset that are too far beyond the time that is shown now."""
        order = self.asked.order
        reach = self._rule.reach if order.confirms else self._rule.disorder
        self._forget([each for each in self._waiting if each.time > newest + reach])
        newest = max(row.time for row in self._waiting)
        self._standing = self._standing._replace(newest=newest)

    def _forget(self, rows: list[One]) -> None:
        """Refuse rows that wait."""
        self._waiting = [row for row in self._waiting if row not in rows]
        self._ahead = [row for row in self._ahead if row not in rows]
        for row in self._once(self._sorted(rows)):
            self._refuse(row.rows, self._refusals.unconfirmed(row.rows))

    def _sorted(self, rows: list[One]) -> list[One]:
        """Return rows in the order in which they run."""
        if self.asked.order.max_disorder == 0:
            confirms = self.asked.order.confirms
            return sorted(rows, key=lambda row: (row.time * confirms, row.came))
        names = [n for n in ("time", "sequence", "source", "row") if rows and rows[0].chunk.has(n)]
        return sorted(rows, key=lambda row: tuple(row.of(name) for name in names))

    def _release(self) -> None:
        """Let rows run that are ready, if the model has begun or can begin."""
        order, newest = self.asked.order, self._standing.newest
        until = self._progress
        if order.max_disorder == 0 and not order.confirms:
            until = math.inf
        elif order.max_disorder == 0:
            until = -math.inf if newest is None else newest + 1
        ready = [row for row in self._waiting if row.time < until]
        rest = [row for row in self._waiting if row.time >= until]
        self._turn += self._sorted(ready)
        if self._model is None and not self._start():
            self._turn = []
            return
        self._waiting = rest

    def _at_end(self) -> list[One]:
        """Return the rows that run last; those that are ahead may count now."""
        counted = self._sorted(self._waiting)
        ahead = sorted(self._ahead, key=lambda row: row.came)
        self._waiting, self._ahead = [], []
        if not self.asked.order.confirms:
            return counted
        rows = [*counted, *self._sorted(ahead)]
        if self.asked.order.max_disorder > 0:
            rows = self._sorted(rows)
        rows = self._once(rows)
        standing = self._standing._replace(ahead=())
        times = sorted(rows, key=lambda row: row.time)
        if standing.newest is not None and times and times[-1].time <= standing.newest:
            return rows
        usable = np.array([bool(self._refusals.usable(row.rows)[0]) for row in times])
        stamps = np.array([row.time for row in times], np.int64)
        judged = judge(self._rule, standing, stamps, usable, last=True)
        gone = [row for row, counts in zip(times, judged.counts, strict=True) if not counts]
        for row in gone:
            self._refuse(row.rows, self._refusals.unconfirmed(row.rows))
        return [row for row in rows if row not in gone]

    def _once(self, rows: list[One]) -> list[One]:
        """Return sorted rows without those that are dropped as duplicates, or with them in one."""
        if self.asked.order.duplicates == MERGE:
            times = [list(own) for _, own in itertools.groupby(rows, key=lambda row: row.time)]
            return [One(merge_times(_joined(own)), 0, own[0].came) for own in times]
        if self.asked.order.duplicates != DROP:
            return rows
        names = [n for n in ("time", "sequence") if rows and rows[0].chunk.has(n)]
        groups = itertools.groupby(rows, key=lambda row: tuple(row.of(name) for name in names))
        return [next(own) for _, own in groups]

    # ---- the core ----

    def _in_turn(self) -> Chunk:
        """Return the rows whose turn it is, those of one time as they are asked for."""
        return _joined(self._once(self._turn))

    def _start(self, few: bool = False) -> bool:
        """Begin with the rows whose turn it is, if there are enough of them."""
        work = self.asked.work
        if not self._turn:
            return False
        rows = self._in_turn()
        x = rows.column("x")
        if work.hold is not None:
            x, _ = hold_last(x, rows.column("time"), None, work.hold)
        usable = x[whole_rows(work.reference, x)]
        if len(usable) < (1 if few else work.rows_to_start):
            return False
        self._model = begin(work, self.key, usable[: work.rows_to_start], self._before)
        self._tell([new_device(work, self.key, self._model, int(rows.column("time")[0]))])
        return True

    def _advance(self) -> None:
        self._run(self._progress)

    def _run(self, until: float) -> None:
        """Run the rows whose turn it is through the model, and features through the learner."""
        model = self._model
        if model is None:
            return
        rows = self._in_turn() if self._turn else None
        self._turn = []
        models = Models.of(self.asked.work, [self.key], [model])
        width = len(model.state.shift)
        x = np.zeros((0, width)) if rows is None else rows.column("x")
        times = np.zeros(0, np.int64) if rows is None else rows.column("time")
        starts, stops = np.array([0]), np.array([len(x)])
        found = run_models(models, x, times, starts, stops, [until])
        self._model = models.model(0)
        if rows is None:
            rows = _no_rows(width)
        self._counted.take(rows)
        features = []
        for output in emit(self._refusals, Ran(models, rows, starts, stops, found)):
            name, value = named(output)
            self._keep(name, value)
            if name == FEATURES:
                features.append(value[1])
        if features and self._learners is not None:
            self._touched = True
            narrowed = narrow(self._plan, Chunk.concat(features))
            self._learners.take(narrowed, np.array([0]), starts, np.array([len(narrowed)]))
            self._said()

    @property
    def _plan(self) -> Plan:
        if self.asked.plan is None:
            raise ValueError("no learner")
        return self.asked.plan

    # ---- what comes out ----

    def _keep(self, name: str, value: Any) -> None:
        self.out.append((name, value))

    def _said(self) -> None:
        if self._learners is not None:
            self._touched = True
            for output in outputs_of([self.key], self._learners.came()):
                self._keep(*named(output))

    def _refuse(self, rows: Chunk, why: str | list[str]) -> None:
        reasons = [why] * len(rows) if isinstance(why, str) else why
        refused = Failures.of(self.key, rows.column("source"), rows.column("row"), reasons)
        self._keep(FAILURES, refused)

    def _tell(self, devices: list[Device], model: Model | None = None) -> None:
        model = model or self._model
        if self.asked.work.devices and model is not None:
            self._keep(DEVICES, (self.key, device_chunk(devices, len(model.state.shift))))


class _Counted:
    """The rows that have run, as far as periods go: all that is said is made anew of all of them.

    Args:
        device: Whose.
    """

    def __init__(self, device: Alone) -> None:
        self._device, self._rows = device, list[tuple[int, FloatArray]]()
        self._held: LastValues | None = None

    def take(self, rows: Chunk) -> None:
        """Take rows, in order."""
        work = self._device.asked.work
        if work.periods is None or not len(rows):
            return
        x, times = rows.column("x"), rows.column("time")
        if work.hold is not None:
            x, self._held = hold_last(x, times, self._held, work.hold)
        for time, row in zip(times.tolist(), x, strict=True):
            if np.isfinite(row).all() and (np.abs(row) < LARGEST).all():
                self._one(time, row)

    def _one(self, time: int, row: FloatArray) -> None:
        day, before = time // (PERIOD * SECOND), [at // (PERIOD * SECOND) for at, _ in self._rows]
        if before and day < before[-1]:
            # The device was reset, and its clock was wrong.
            self._rows = []
        elif before and day > before[-1]:
            self._say()
        self._rows.append((time, row))

    def end(self) -> None:
        """Say what there is to say when no more rows come."""
        if self._device.asked.work.periods is not None and self._rows:
            self._say()

    def _say(self) -> None:
        """Say what the newest day comes to, which is over, and those that change with it."""
        spec = self._device.asked.work.periods or PeriodsSpec()
        times = np.array([time for time, _ in self._rows])
        sums = DeviceSums(WIDTH, PERIOD)
        sums.add(times, np.array([row for _, row in self._rows]))
        days, known = sums.result()
        begin = beginning(days, spec.first)
        said = np.flatnonzero(days >= begin)
        if days[-1] - begin >= spec.first or not len(said):
            said = np.array([len(days) - 1])
        lines = lines_of(numbers_at(spec, days, known, begin, said))
        version = len(days) - said
        lines = lines.append_column("version", pa.array(version, pa.int64()))
        self._device.out.append((PERIODS, (self._device.key, Chunk(lines))))


def _no_rows(width: int) -> Chunk:
    return Chunk(pa.RecordBatch.from_pydict({"x": matrix_column(np.zeros((0, width)))}))
