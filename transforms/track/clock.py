"""A model's own clock: which of its rows are ready, late or too far ahead.

Progress is the greatest time that the model has shown, less `max_disorder`. No watermark takes
part, so that nothing depends on idle partitions, on timestamp policies or on how a runner fires
timers.
"""

from __future__ import annotations

import json
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import DataError
from transforms.chunks import Chunk
from transforms.metrics import count
from transforms.track.merge import merge_times
from transforms.track.order import KEEP, MERGE, Order

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

SECOND = 1_000_000_000
CLOCK_VERSION = 4
NEVER = int(np.iinfo(np.int64).max)


class Clock(NamedTuple):
    """What a model's rows have shown so far.

    Attributes:
        newest: Greatest time taken in, ns; None before the first row.
        oldest: Least time that waits in the buffer, ns.
        waiting: Rows in the buffer.
        started: Whether the model has a state.
        due: Earliest end of an open window, ns: something is to be done then, rows or not.
        learned: Rows before this time, ns, were learned from before this job; None if none were.
        flushed: Rows before this time, ns, were taken because no newer ones came; None if none
            were.
        before: Index of the next row, as long as there is no state.
    """

    newest: int | None = None
    oldest: int = NEVER
    waiting: int = 0
    started: bool = False
    due: int = NEVER
    learned: int | None = None
    flushed: int | None = None
    before: int = 0

    def encode(self) -> bytes:
        """Write the clock as bytes, for Beam's state."""
        return json.dumps({"version": CLOCK_VERSION, **self._asdict()}).encode()

    @classmethod
    def decode(cls, data: bytes | None) -> Clock:
        """Read a clock back; None is that of a model without rows.

        Raises:
            DataError: for one of another version, or a damaged one.
        """
        if data is None:
            return cls()
        values = json.loads(data)
        version = values.pop("version")
        if type(version) is not int or version != CLOCK_VERSION:
            reason = f"format version {version!r}: this code reads version {CLOCK_VERSION}"
            raise DataError("clock", reason)
        if values.keys() != set(cls._fields):
            raise DataError("clock", f"damaged: its fields are {', '.join(sorted(values))}")
        clock = cls(**values)
        for name, value in clock._asdict().items():
            like = cls._field_defaults[name]
            least = 0 if name in ("waiting", "before") else -NEVER
            whole = type(value) is int and least <= value <= NEVER
            if not (type(value) is bool if name == "started" else whole or value is like is None):
                raise DataError("clock", f"damaged: {name} = {value!r}")
        return clock


class Admission(NamedTuple):
    """What became of a chunk's rows at the door.

    Attributes:
        clock: The clock after the rows that came in.
        late: (n,) rows behind the model's progress.
        wild: (n,) rows further ahead than `max_jump`.
        ahead: Seconds that each wild row is ahead.
    """

    clock: Clock
    late: BoolArray
    wild: BoolArray
    ahead: list[float]


def admit(order: Order, clock: Clock, chunk: Chunk) -> Admission:
    """Compare a chunk's rows with the model's clock, in the order of their places in the source.

    A row is late if it is older than the model's progress when it comes, and wild if it is more
    than `max_jump` ahead of the newest row before it. Neither moves the clock. Rows of one source
    come in its order, so that which of them are late is the same however they were cut into
    chunks; between sources there is no order but that of the chunks.
    """
    late = np.zeros(len(chunk), dtype=np.bool_)
    if not chunk.has("time"):
        waiting = clock._replace(waiting=clock.waiting + len(chunk), oldest=0)
        return Admission(waiting, late, late, [])
    times = chunk.column("time")
    wild, ahead = _too_far(order, clock, chunk, times)
    late = ~wild & (times < progress(order, clock))
    # A wild row makes none late.
    late |= ~wild & _behind(order, chunk, np.where(wild, times.min(initial=NEVER), times))
    kept = times[~(late | wild)]
    if len(kept):
        newest = int(kept.max())
        clock = clock._replace(
            newest=newest if clock.newest is None else max(clock.newest, newest),
            oldest=min(clock.oldest, int(kept.min())),
            waiting=clock.waiting + len(kept),
        )
    return Admission(clock, late, wild, ahead)


def _too_far(
    order: Order, clock: Clock, chunk: Chunk, times: IntArray
) -> tuple[BoolArray, list[float]]:
    """Return which rows are wild, and by how many seconds."""
    wild = np.zeros(len(times), dtype=np.bool_)
    if order.max_jump == math.inf or not len(times):
        return wild, []
    places = _in_source(chunk)
    newest = int(times[places[0]]) if clock.newest is None else clock.newest
    reach = nanoseconds(order.max_jump)
    lead = np.zeros(len(times))
    # The newest only grows: most often one look is enough.
    if int(times.max()) - newest > reach:
        for place in places.tolist():
            time = int(times[place])
            if time - newest > reach:
                wild[place] = True
                lead[place] = (time - newest) / SECOND
            else:
                newest = max(newest, time)
    return wild, lead[wild].tolist()


def _behind(order: Order, chunk: Chunk, times: IntArray) -> BoolArray:
    """Return which rows are late by what their own chunk holds before them."""
    behind = np.zeros(len(times), dtype=np.bool_)
    span = nanoseconds(order.max_disorder)
    if not len(times) or int(times.max()) - int(times.min()) <= span:
        return behind
    source, places = chunk.column("source"), _in_source(chunk)
    least = np.iinfo(np.int64).min
    for number in np.unique(source):
        own = places[source[places] == number]
        newest = np.maximum.accumulate(times[own])
        # The span may be as long as all time.
        behind[own] = times[own] < np.where(newest < least + span, least, newest - span)
    return behind


def _in_source(chunk: Chunk) -> IntArray:
    """Return the places of a chunk's rows in order of (source, row)."""
    places: IntArray = np.lexsort((chunk.column("row"), chunk.column("source")))
    return places


def progress(order: Order, clock: Clock) -> float:
    """Return the time, ns, before which all of the model's rows have come."""
    flushed = -math.inf if clock.flushed is None else clock.flushed
    if clock.newest is None or order.max_disorder == math.inf:
        return flushed
    return max(clock.newest - nanoseconds(order.max_disorder), flushed)


def flush(clock: Clock) -> Clock:
    """Return the clock by which all rows that wait are ready."""
    if clock.newest is None:
        return clock
    return clock._replace(flushed=clock.newest + 1)


def may_release(order: Order, clock: Clock, rows_to_start: int) -> bool:
    """Check, without a look at the rows that wait, whether there may be something to do."""
    if clock.due <= progress(order, clock):
        return True
    if not clock.waiting or not (clock.started or clock.waiting >= rows_to_start):
        return False
    return order.max_disorder == 0 or clock.oldest < progress(order, clock)


def split_ready(order: Order, clock: Clock, waiting: Chunk) -> tuple[Chunk, Chunk]:
    """Split the rows that wait into those that are ready, in order, and the rest."""
    if order.max_disorder == 0 or not waiting.has("time"):
        return waiting, waiting.slice(0, 0)
    waiting = waiting.in_order()
    ready = int(np.searchsorted(waiting.column("time"), progress(order, clock), side="left"))
    return waiting.slice(0, ready), waiting.slice(ready, len(waiting))


def without_duplicates(order: Order, ready: Chunk) -> Chunk:
    """Return the rows, in order, as the order has those of one time: all, one, or merged."""
    if order.duplicates == MERGE:
        return merge_times(ready)
    if order.duplicates == KEEP or not len(ready) or not ready.has("time"):
        return ready
    keys = [ready.column(name) for name in ("time", "sequence") if ready.has(name)]
    again = np.all([key[1:] == key[:-1] for key in keys], axis=0)
    if not again.any():
        return ready
    count("rows_duplicate", int(again.sum()))
    return ready.take(np.flatnonzero(np.r_[True, ~again]))


def already_learned(clock: Clock, chunk: Chunk) -> BoolArray:
    """Return which of a chunk's rows are of the time that was learned from before this job."""
    if clock.learned is None or not chunk.has("time"):
        return np.zeros(len(chunk), dtype=np.bool_)
    learned: BoolArray = chunk.column("time") < clock.learned
    return learned


def still_waiting(clock: Clock, rest: Chunk | None) -> Clock:
    """Return the clock once only these rows wait."""
    oldest = NEVER
    if rest is None:
        return clock._replace(waiting=0, oldest=oldest)
    if len(rest):
        oldest = int(rest.column("time").min()) if rest.has("time") else 0
    return clock._replace(waiting=len(rest), oldest=oldest)


def nanoseconds(seconds: float) -> int:
    """Turn seconds into whole nanoseconds, as far as they fit."""
    return round(seconds * SECOND) if seconds < NEVER / SECOND else NEVER
