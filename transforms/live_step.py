"""The stateful step of `TrackSubspace` in a live job: it also acts when a model is silent.

Silence is measured by the worker's own clock, since that of a silent model stands still.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindow
from apache_beam.typehints import with_input_types, with_output_types
from apache_beam.utils.timestamp import Timestamp

from transforms.chunks import Chunk
from transforms.clock import Clock, Order, flush, may_release
from transforms.expiry import Expiry, Kept, is_name, recall
from transforms.model import Work
from transforms.snapshots import SnapshotFolder
from transforms.timers import in_time
from transforms.track_step import SNAPSHOTS, TrackFn, drain


class LiveTrackFn(TrackFn):
    """Takes rows that no newer ones follow, and lets silent models expire.

    What stays of an expired model is the name of its file, where its clock was.
    """

    def __init__(
        self, work: Work, order: Order, warm: SnapshotFolder | None, expiry: Expiry | None
    ) -> None:
        """Keep the arguments, as of `TrackSubspace`."""
        super().__init__(work, order, warm)
        self._expiry = expiry
        self._idle_flush = order.idle_flush
        self._expire_after = None if expiry is None else expiry.after

    def wake(self, key: str, model: Any, clock: Any, buffer: Any) -> None:
        """Take a model up again that has expired.

        Raises:
            DataError: if its file is not there, or the job does not know where it is.
        """
        name = clock.read()
        if not is_name(name):
            return
        kept = recall(self._expiry, key, name)
        clock.write(kept.clock)
        if kept.state is not None:
            model.write(kept.state)
        for chunk in kept.waiting:
            buffer.add(chunk)

    def watch(self, clock: Any, idle: Any, silent: Any) -> None:
        """Set the timers anew: the model has shown itself."""
        now = time.time()
        if self._idle_flush is not None:
            if Clock.decode(clock.read()).waiting:
                idle.set(Timestamp.of(now + self._idle_flush))
            else:
                idle.clear()
        if self._expire_after is not None:
            silent.set(Timestamp.of(now + self._expire_after))

    def flush(self, key: str, model: Any, clock: Any, buffer: Any) -> Iterator[Any]:
        """Run the rows that wait for newer ones, which have not come."""
        now = Clock.decode(clock.read())
        flushed = flush(now)
        if may_release(self._order, flushed, self._work.rows_to_start):
            flushed = yield from self._release(key, flushed, model, buffer)
            # A model that cannot begin yet goes on waiting.
            clock.write((flushed if flushed.started else now).encode())

    def expire(self, key: str, model: Any, clock: Any, buffer: Any) -> Iterator[Any]:
        """Write all that is kept of a model into a file, and keep the file's name instead."""
        known = clock.read()
        if self._expiry is None or known is None or is_name(known):
            return
        kept = Kept(model.read(), known, tuple(drain(buffer)))
        clock.write(self._expiry.write(key, kept))
        model.clear()
        if kept.state is not None:
            yield pvalue.TaggedOutput(SNAPSHOTS, (key, kept.state))


def live_track_fn(timer: str) -> type[LiveTrackFn]:
    """Return the step with its timers under this name (see `timers`)."""
    end_of_input = TimerSpec(timer, TimeDomain.WATERMARK)
    idleness = TimerSpec(f"{timer}_idle", TimeDomain.REAL_TIME)
    silence = TimerSpec(f"{timer}_silent", TimeDomain.REAL_TIME)

    class _LiveTrackFn(LiveTrackFn):
        """The stateful step of one transform, with timers of the worker's own time."""

        @with_input_types(tuple[str, Chunk])
        @with_output_types(tuple[str, Chunk])
        def process(
            self,
            element: tuple[str, Chunk],
            model: Any = beam.DoFn.StateParam(TrackFn.MODEL),
            clock: Any = beam.DoFn.StateParam(TrackFn.CLOCK),
            buffer: Any = beam.DoFn.StateParam(TrackFn.BUFFER),
            end: Any = beam.DoFn.TimerParam(end_of_input),
            idle: Any = beam.DoFn.TimerParam(idleness),
            silent: Any = beam.DoFn.TimerParam(silence),
        ) -> Iterator[Any]:
            end.set(GlobalWindow().max_timestamp())
            self.wake(element[0], model, clock, buffer)
            yield from self.take(element, model, clock, buffer)
            self.watch(clock, idle, silent)

        @on_timer(end_of_input)
        def at_end(
            self,
            key: Any = beam.DoFn.KeyParam,
            model: Any = beam.DoFn.StateParam(TrackFn.MODEL),
            clock: Any = beam.DoFn.StateParam(TrackFn.CLOCK),
            buffer: Any = beam.DoFn.StateParam(TrackFn.BUFFER),
        ) -> Iterator[Any]:
            return self.finish(key, model, clock, buffer)

        @on_timer(idleness)
        def at_idle(
            self,
            key: Any = beam.DoFn.KeyParam,
            model: Any = beam.DoFn.StateParam(TrackFn.MODEL),
            clock: Any = beam.DoFn.StateParam(TrackFn.CLOCK),
            buffer: Any = beam.DoFn.StateParam(TrackFn.BUFFER),
            idle: Any = beam.DoFn.TimerParam(idleness),
            due: Any = beam.DoFn.TimestampParam,
        ) -> Iterator[Any]:
            if self._idle_flush is not None and in_time(idle, due, self._idle_flush):
                yield from self.flush(key, model, clock, buffer)

        @on_timer(silence)
        def at_silence(
            self,
            key: Any = beam.DoFn.KeyParam,
            model: Any = beam.DoFn.StateParam(TrackFn.MODEL),
            clock: Any = beam.DoFn.StateParam(TrackFn.CLOCK),
            buffer: Any = beam.DoFn.StateParam(TrackFn.BUFFER),
            end: Any = beam.DoFn.TimerParam(end_of_input),
            silent: Any = beam.DoFn.TimerParam(silence),
            due: Any = beam.DoFn.TimestampParam,
        ) -> Iterator[Any]:
            if self._expire_after is not None and in_time(silent, due, self._expire_after):
                yield from self.expire(key, model, clock, buffer)
                end.clear()

    return _LiveTrackFn
