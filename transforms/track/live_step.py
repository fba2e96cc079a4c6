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
from apache_beam.typehints import with_input_types, with_output_types

from kerneltrack.fleet.model import Work
from kerneltrack.snapshots.folder import SnapshotFolder
from transforms.chunks import Chunk
from transforms.keyed.expiry import Expiry, Kept
from transforms.keyed.timers import in_time, set_within
from transforms.outputs import SNAPSHOTS
from transforms.track.clock import may_flush
from transforms.track.log import BUFFER, KEPT, LOG, Cells, ModelLog, Watch
from transforms.track.order import Order
from transforms.track.step import Held, Timers, TrackFn, track_fn


class LiveTrackFn(TrackFn):
    """Takes rows that no newer ones follow, and lets silent models expire.

    What stays of an expired model is the name of its file, its log's one entry.
    """

    def __init__(
        self, work: Work, order: Order, warm: SnapshotFolder | None, expiry: Expiry | None
    ) -> None:
        """Keep the arguments, as of `TrackSubspace`."""
        super().__init__(work, order, warm, expiry)
        self._idle_flush = order.idle_flush
        self._expire_after = None if expiry is None else expiry.after

    def watch(self, log: ModelLog, timers: Timers) -> None:
        """Note that the model has shown itself, and set the timers that are not set already."""
        now = time.time()
        _, idle, silent = log.watch
        if self._idle_flush is not None and may_flush(log.clock):
            idle = set_within(timers.idle, idle, now, self._idle_flush)
        if self._expire_after is not None:
            silent = set_within(timers.silent, silent, now, self._expire_after)
        log.put_watch(Watch(now, idle, silent))

    def fall_silent(self, key: str, cells: Cells, timers: Timers, due: Any) -> Iterator[Any]:
        """Take the rows that wait for newer ones, with the bundle."""
        if key in self.held:
            yield from self.run_held()
        log = self.log_of(key, cells)
        if self._idle_flush is None or not may_flush(log.clock):
            return
        if not in_time(timers.idle, due, self._idle_flush, log.watch.seen):
            return
        yield from self.hold(key, Held(cells, timers, [], flush=True), due, None)

    def expire(self, key: str, log: ModelLog, timers: Timers, due: Any) -> Iterator[Any]:
        """Write all that is kept of a model into a file, and keep the file's name instead."""
        if self._expiry is None or self._expire_after is None or log.clock is None:
            return
        if not in_time(timers.silent, due, self._expire_after, log.watch.seen):
            return
        kept = Kept(log.model, log.clock.encode(), tuple(log.drain()))
        log.expire(self._expiry.write(key, kept))
        log.commit()
        timers.end.clear()
        if kept.state is not None:
            yield pvalue.TaggedOutput(SNAPSHOTS, (key, kept.state))
            yield from self._tell_known(key, kept.state, gone=True)


def live_track_fn(timer: str) -> type[LiveTrackFn]:
    """Return the step with its timers under this name (see `timers`)."""
    bounded: Any = track_fn(timer)
    idleness = TimerSpec(f"{timer}_idle", TimeDomain.REAL_TIME)
    silence = TimerSpec(f"{timer}_silent", TimeDomain.REAL_TIME)

    class _LiveTrackFn(LiveTrackFn, bounded):  # type: ignore[misc]
        """The stateful step of one transform, with timers of the worker's own time."""

        @with_input_types(tuple[str, Chunk])
        @with_output_types(tuple[str, Chunk])
        def process(  # noqa: PLR0917 - Beam gives each cell and timer by a parameter
            self,
            element: tuple[str, Chunk],
            log: Any = beam.DoFn.StateParam(LOG),
            buffer: Any = beam.DoFn.StateParam(BUFFER),
            kept: Any = beam.DoFn.StateParam(KEPT),
            end: Any = beam.DoFn.TimerParam(bounded.END),
            idle: Any = beam.DoFn.TimerParam(idleness),
            silent: Any = beam.DoFn.TimerParam(silence),
            timestamp: Any = beam.DoFn.TimestampParam,
        ) -> Iterator[Any]:
            timers = Timers(end, idle, silent)
            yield from self.bring(element, Cells(log, buffer, kept), timers, timestamp)

        @on_timer(idleness)
        def at_idle(
            self,
            key: Any = beam.DoFn.KeyParam,
            log: Any = beam.DoFn.StateParam(LOG),
            buffer: Any = beam.DoFn.StateParam(BUFFER),
            kept: Any = beam.DoFn.StateParam(KEPT),
            idle: Any = beam.DoFn.TimerParam(idleness),
            due: Any = beam.DoFn.TimestampParam,
        ) -> Iterator[Any]:
            yield from self.fall_silent(key, Cells(log, buffer, kept), Timers(None, idle), due)

        @on_timer(silence)
        def at_silence(
            self,
            key: Any = beam.DoFn.KeyParam,
            log: Any = beam.DoFn.StateParam(LOG),
            buffer: Any = beam.DoFn.StateParam(BUFFER),
            kept: Any = beam.DoFn.StateParam(KEPT),
            end: Any = beam.DoFn.TimerParam(bounded.END),
            silent: Any = beam.DoFn.TimerParam(silence),
            due: Any = beam.DoFn.TimestampParam,
        ) -> Iterator[Any]:
            yield from self.run_held()
            timers = Timers(end, None, silent)
            yield from self.expire(key, self.log_of(key, Cells(log, buffer, kept)), timers, due)

    return _LiveTrackFn
