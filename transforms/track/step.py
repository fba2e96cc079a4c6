"""The stateful step of `TrackSubspace`: rows wait for their turn, then go through their model."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from apache_beam import pvalue
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp

from kerneltrack.errors import DataError
from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.devices import GONE, Device, known_of, silent_of
from kerneltrack.fleet.events import next_event
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.restore import decode, go_on_each, take_over
from kerneltrack.fleet.states import encode, states_of
from kerneltrack.monitor.feedback import told_with
from kerneltrack.monitor.quiet import MOST_TOLD
from kerneltrack.snapshots.folder import SnapshotFolder
from transforms.chunks import Chunk, no_rows
from transforms.failures import unreadable
from transforms.keyed.commands import QUIET, Command, command_of
from transforms.keyed.expiry import Expiry, KeptModel
from transforms.keyed.silence import NO_TIME, SilentAfter
from transforms.keyed.timers import in_time, set_within, wall_clock
from transforms.learn.inputs import narrow
from transforms.learn.learners import Learners, outputs_of
from transforms.learn.plan import Plan
from transforms.metrics import count
from transforms.outputs import (
    SNAPSHOTS,
)
from transforms.track.admission import Admitted, admit_all, admit_waiting
from transforms.track.arrival import Visit
from transforms.track.clock import Clock, in_turn, progress
from transforms.track.devices import tell, tell_new
from transforms.track.emit import emit, failures, tell_unreferenced
from transforms.track.keyed_fn import BundleRows, Came, KeyedFn, Timers
from transforms.track.log import Cells, ModelLog, in_memory, log_of
from transforms.track.order import Order
from transforms.track.packed import pack, unpack
from transforms.track.periods import tell_periods
from transforms.track.refusals import Refusals
from transforms.track.silences import silence_begins, silence_ends
from transforms.track.slices import run_slices
from transforms.track.sorted_rows import SortedRows
from transforms.track.visits import run_visits

NO_PLACE = (
    f"command {QUIET}: {MOST_TOLD} quiet times of this device are kept that are not over yet: "
    "there is no place for one more"
)
"""Why a quiet time is refused."""


class TrackFn(KeyedFn):
    """The stateful step: buffer by the model's clock, run tracker and learner, emit."""

    def __init__(
        self,
        work: Work,
        order: Order,
        warm: SnapshotFolder | None,
        expiry: Expiry | None = None,
        plan: Plan | None = None,
        silent_after: SilentAfter | None = None,
    ) -> None:
        super().__init__(plan, warm, expiry, order.idle_flush)
        self._silent_after = silent_after
        self._since = -math.inf
        self._work = work
        self._order = order
        self.refusals = Refusals(work, order)

    @property
    def work(self) -> Work:
        """What is done with every model's rows."""
        return self._work

    @property
    def order(self) -> Order:
        """How rows are put in order."""
        return self._order

    @property
    def waits_for_end(self) -> bool:
        """Whether all that comes waits for the end of the input."""
        return self._order.waits_for_end or super().waits_for_end

    def setup(self) -> None:
        """Prepare the worker that this runs in: what came while there was none is read first."""
        super().setup()
        self._since = wall_clock()

    def bring(
        self, element: tuple[str, Chunk], cells: Cells, timers: Timers, timestamp: Any
    ) -> Iterable[Any]:
        """Take an element in: until the bundle ends it is held, unless it is a command.

        A command, and whatever comes for a model after one, finds all that came before it done.
        """
        command = command_of(element[1])
        if command is None:
            return super().bring(element, cells, timers, timestamp)
        return self._command(element, command, cells, timers)

    def _command(
        self, element: tuple[str, Chunk], command: Command, cells: Cells, timers: Timers
    ) -> Iterator[Any]:
        """Do what a command says once all that came before it is done."""
        yield from self.run_pending()
        key = element[0]
        log = ModelLog(cells)
        if command.said is not None:
            if command.action == QUIET:
                yield from self._note_quiet(key, command.said, element[1], log)
            else:
                log.put_told(told_with(log.told, command.said))
                count("feedback_messages", 1)
            log.commit()
            return
        if log.begins:
            timers.end.set(GlobalWindow().max_timestamp())
        self.hear(key, log)
        yield from self._wake(key, log)
        yield from self._obey(key, command, log)
        self._watch(log, timers)
        log.commit()

    def _note_quiet(self, key: str, said: bytes, command: Chunk, log: ModelLog) -> Iterator[Any]:
        """Keep a quiet time that the job is told of; one for which there is no place is refused."""
        quiet = self._work.quiet
        if quiet is None:
            return

        def ran() -> float:
            now = log.clock
            if now is None and log.expired is not None and self._expiry is not None:
                clock = self._expiry.read(key, log.expired).clock
                now = None if clock is None else Clock.decode(clock)
            return -math.inf if now is None else progress(self._order, now)

        told = quiet.told_with(log.quiet, said, ran)
        if told is None:
            yield failures(key, command, [NO_PLACE], "quiet_messages_failed")
        else:
            log.put_quiet(told)
            count("quiet_messages", 1)

    def hear(self, key: str, log: ModelLog) -> None:
        """Let what people said of a device's episodes count, and its quiet times."""
        if self._work.feedback is not None:
            self._work.feedback.tell(key, log.told)
        if self._work.quiet is not None:
            self._work.quiet.tell(key, log.quiet)

    def run_visits(
        self, pending: dict[str, BundleRows], logs: Mapping[str, ModelLog]
    ) -> Iterator[Any]:
        """Run what is held."""
        came: dict[str, npt.NDArray[np.int64]] = {}
        if self._silent_after is not None:
            came = {key: _times_of(each.chunks) for key, each in pending.items() if each.chunks}
        for key, times in came.items():
            yield from self._speaks(key, times, pending[key], logs[key])
        visits: list[Visit] = []
        for key, each in pending.items():
            if each.chunks or each.flush:
                visits += yield from self._visit(key, logs[key], each)
        yield from run_visits(self.refusals, visits)
        for key, times in came.items():
            self._listen(times, logs[key], pending[key].timers)

    # ---- devices that send nothing ----

    def _speaks(
        self, key: str, times: npt.NDArray[np.int64], pending: BundleRows, log: ModelLog
    ) -> Iterator[Any]:
        """Return what is known of a device that was silent, before its rows run."""
        if not log.heard.silent:
            return
        first, width = int(times[0]) if len(times) else None, pending.chunks[0].column("x").shape[1]
        yield silence_ends(key, log.heard, first, width)
        log.put_heard(log.heard._replace(rows=-1, since=NO_TIME))
        yield from self._tell_known(key, self._model(key, log))

    def _listen(self, times: npt.NDArray[np.int64], log: ModelLog, timers: Timers) -> None:
        """Note that rows of these times have come and run, and set the timer if it is not set."""
        if self._silent_after is None:
            return
        now = wall_clock()
        heard = log.heard
        if self._silent_after.after is None and log.clock is not None:
            heard = heard.after(times, log.clock.newest)
        due, span = heard.due, self._silent_after.seconds(heard, self._idle_flush)
        if span < math.inf:
            due = set_within(timers.unheard, due, now, span)
        log.put_heard(heard._replace(seen=now, due=due))

    def miss(self, key: str, cells: Cells, timers: Timers, due: Any) -> Iterator[Any]:
        """Return that a device is silent, if it has sent nothing for too long."""
        if key in self.pending:
            yield from self.run_pending()
        log = ModelLog(cells)
        heard = log.heard
        if self._silent_after is None or not heard.seen or heard.silent:
            return
        span = self._silent_after.seconds(heard, self._idle_flush)
        if span == math.inf or not in_time(timers.unheard, due, span, max(heard.seen, self._since)):
            return
        model = self._last_known(key, log)
        if model is None:
            return
        known = known_of(self._work, key, model)
        since = NO_TIME if known.time is None else known.time
        log.put_heard(heard._replace(rows=known.rows, since=since))
        log.commit()
        yield silence_begins(key, log.heard, span, len(model.state.shift))
        yield from tell(self._work, key, model, [silent_of(known)])

    def wait_anew(self, cells: Cells, timers: Timers) -> None:
        """Measure a device's silence from now on, after the job stood still."""
        heard = ModelLog(cells).heard
        if self._silent_after is not None and heard.seen and not heard.silent:
            span = self._silent_after.seconds(heard, self._idle_flush)
            if span < math.inf:
                timers.unheard.set(Timestamp.of(wall_clock() + span))

    def _last_known(self, key: str, log: ModelLog) -> Model | None:
        """Return a model as it is, or was when it expired; None before its first rows."""
        self.hear(key, log)
        if log.expired is None:
            return self._model(key, log)
        kept = None if self._expiry is None else self._expiry.read(key, log.expired)
        return None if kept is None or kept.state is None else self._own(key, kept.state)

    def _visit(
        self, key: str, log: ModelLog, pending: BundleRows
    ) -> Generator[Any, None, list[Visit]]:
        """Return what has come for a model; nothing if it cannot begin, its rows are failures."""
        try:
            now = log.clock or (yield from self._clock_of(key, log))
        except DataError as error:
            for chunk in pending.chunks:
                yield failures(key, chunk, [unreadable(error)] * len(chunk))
            return []
        return [Visit(key, log, now, pending.chunks, pending.flush)]

    def _model(self, key: str, log: ModelLog) -> Model | None:
        """Return a model; None before its first rows.

        Raises:
            DataError: if it is damaged.
        """
        packed = log.packed
        return None if packed is None else unpack(self._work, packed, f"state of model {key!r}")

    def state(self, key: str, log: ModelLog) -> bytes | None:
        """Return a model as a snapshot."""
        model = self._model(key, log)
        return None if model is None else encode(self._work, key, model)

    def _clock_of(self, key: str, log: ModelLog) -> Generator[Any, None, Clock]:
        """Return a model's clock; one that is new is taken up from the snapshots."""
        if log.clock is not None:
            return log.clock
        now, model = self.resumed(key)
        # All that it begins with is read before any row is taken.
        if self.plan is not None and log.learner is None:
            self.learner(key)
        if model is None and self._work.given is not None:
            self._work.given.of(key)
        if model is not None:
            log.put_model(pack(self._work, model))
            yield from self._tell_known(key, model)
        return now

    def _obey(self, key: str, command: Command, log: ModelLog) -> Iterator[Any]:
        """Let the model begin anew; the rows that wait are the first that it will have."""
        now = yield from self._clock_of(key, log)
        known, name = self._model(key, log), f"state of model {key!r}"
        count("rows_unconfirmed", -len(now.ahead))
        rows = now.before if known is None else known.rows
        # A clock that went wrong is forgotten: the next rows show the time anew.
        now = Clock(oldest=now.oldest, waiting=now.waiting)
        if command.tracker is None:
            log.put_model(None)
            now = now._replace(before=rows)
            count("models_reset", 1)
            if known is not None:
                yield from tell(self._work, key, known, [Device(GONE, rows, known.time)])
        else:
            after = take_over(self._work, key, command.tracker, name, known, rows)
            log.put_model(pack(self._work, after))
            now = now._replace(started=True, due=next_event(self._work, after))
            count("models_replaced", 1)
            if not log.heard.silent:
                yield from tell(self._work, key, after, [known_of(self._work, key, after)])
        log.put_clock(now)

        def anew(learners: Learners, _: Any) -> Came:
            learners.begin_anew(0, command.learner)
            yield from outputs_of(learners.keys, learners.came())
            return []

        yield from self._learn({key: []}, {key: log}, anew)

    def narrow(self, rows: Chunk) -> Chunk:
        """Return what learners need of features."""
        return rows if self.plan is None else narrow(self.plan, rows)

    def finish_chunks(self, key: str, chunks: list[Chunk]) -> Iterator[Any]:
        """Run all of a model's rows, in the order in which they came."""
        if self._order.waits_for_end:
            return self.finish_rows(key, Chunk.concat(chunks).in_order())
        return self.finish_arrived(key, chunks)

    def finish_arrived(self, key: str, chunks: Iterable[Chunk]) -> Iterator[Any]:
        """Run all of a model's rows as those of a stream, of which only some wait."""
        cells = in_memory()
        for chunk in chunks:
            log, came = log_of(cells), BundleRows(cells, Timers(None), [chunk])
            yield from run_visits(self.refusals, (yield from self._visit(key, log, came)))
            log.commit()
        yield from self.finish_log(key, log_of(cells))

    def finish_log(self, key: str, log: ModelLog) -> Iterator[Any]:
        """Run what still waits when the input has ended."""
        self.hear(key, log)
        now, waiting = log.clock or Clock(), log.drain()
        admitted = None
        if waiting:
            rows = Chunk.concat(waiting)
            if self._order.max_disorder > 0:
                rows = rows.in_order()
            elif self._order.confirms and rows.has("time"):
                rows = in_turn(rows)
            admitted = admit_waiting(self.refusals, key, rows, now)
        yield from self._finish(key, now, self._model(key, log), admitted)
        width = log.width if admitted is None else admitted.block.rows.column("x").shape[1]
        if self._work.periods is not None and width:
            rows = no_rows(width) if admitted is None else admitted.block.rows
            yield from tell_periods(self._work.periods, self._order, key, log, rows, last=True)

    def gone(self, key: str, kept: KeptModel, log: ModelLog) -> Iterator[Any]:
        """Return the last that is known of a model that expires; one that is silent stays so."""
        self.hear(key, log)
        if kept.state is not None:
            yield pvalue.TaggedOutput(SNAPSHOTS, (key, kept.state))
            if not log.heard.silent:
                yield from self._tell_known(key, self._own(key, kept.state), gone=True)

    def returned(self, key: str, kept: KeptModel, log: ModelLog) -> Iterator[Any]:
        """Take up a model that comes back; return what is known of it."""
        if kept.state is not None:
            model = self._own(key, kept.state)
            log.put_model(pack(self._work, model))
            # One that is silent is told of with its next row.
            if not log.heard.silent:
                yield from self._tell_known(key, model)

    def _own(self, key: str, data: bytes) -> Model:
        """Read back what this job has written of a model."""
        return decode(self._work, data, f"state of model {key!r}", own=True)

    def finish_rows(self, key: str, rows: Chunk | None) -> Iterator[Any]:
        """Run all of a model's rows, which are there at once, ordered as of `admit_all`."""
        try:
            now, model = self.resumed(key)
        except DataError as error:
            if rows is not None:
                yield failures(key, rows, [unreadable(error)] * len(rows))
            return
        yield from self._tell_known(key, model)
        admitted = None
        if rows is not None:
            block = SortedRows([key], np.array([0, len(rows)]), rows)
            admitted = admit_all(self.refusals, block, [now])
        yield from self._finish(key, now, model, admitted)

    def _finish(
        self, key: str, now: Clock, model: Model | None, admitted: Admitted | None
    ) -> Iterator[Any]:
        """Run the last rows that a model has, and write down what it has come to.

        A new model's first row has the index `before` of the clock.
        """
        ready: Chunk | None = None
        if admitted is not None:
            ready = admitted.block.rows
            for refused in admitted.refused:
                yield failures(key, refused.rows, refused.reasons, refused.counted_as)
        if model is None:
            if ready is None or not len(ready):
                return
            first = self.refusals.first_of(ready)
            if not len(first):
                yield failures(key, ready, self.refusals.unusable(ready.column("x")))
                return
            model = begin(self._work, key, first, now.before)
            yield from tell_new(self._work, key, model, ready)
        rows = no_rows(len(model.state.shift)) if ready is None else ready
        models, edges = Models.of(self._work, [key], [model]), np.array([0, len(rows)])
        for ran in run_slices(models, rows, edges, [math.inf]):
            yield from emit(self.refusals, ran)
        tell_unreferenced(models)
        yield pvalue.TaggedOutput(SNAPSHOTS, (key, states_of(models).encoded(0)))

    def resumed(self, key: str) -> tuple[Clock, Model | None]:
        """Return the clock and the model that a model begins with."""
        (found,) = self.resumed_each([key])
        if isinstance(found, DataError):
            raise found
        return found

    def resumed_each(self, keys: Sequence[str]) -> list[tuple[Clock, Model | None] | DataError]:
        """Return what `resumed` does of models, and of one whose snapshot is damaged why."""
        there = [None] * len(keys) if self._warm is None else self._warm.trackers(keys)
        known = [each for each in there if each is not None]
        models = iter(
            go_on_each(self._work, [own for _, own in known], [name for name, _ in known])
        )
        return [(Clock(), None) if each is None else self._goes_on(next(models)) for each in there]

    def _goes_on(self, model: Model | DataError) -> tuple[Clock, Model] | DataError:
        """Return the clock of a model that goes on from its snapshot, and the model."""
        if isinstance(model, DataError):
            return model
        count("models_resumed", 1)
        due = next_event(self._work, model)
        learned = model.until
        if self._work.drop_overlap and model.time is not None and learned is not None:
            # All rows of one time come to the one job or to the other.
            learned = max(learned, model.time + 1)
        return Clock(newest=model.time, started=True, due=due, learned=learned), model

    def _tell_known(self, key: str, model: Model | None, gone: bool = False) -> Iterator[Any]:
        """Say what is known of a device that comes back, after its last row; or that it is gone."""
        if self._work.devices and model is not None:
            known = known_of(self._work, key, model)
            last = Device(GONE, known.rows, known.time) if gone else known
            yield from tell(self._work, key, model, [last])


def _times_of(chunks: Sequence[Chunk]) -> npt.NDArray[np.int64]:
    """Return the times of rows, ns, as they came; none without times."""
    return np.concatenate(
        [np.zeros(0, np.int64), *(each.column("time") for each in chunks if each.has("time"))]
    )
