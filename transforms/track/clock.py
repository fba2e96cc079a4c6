"""A model's own clock: which of its rows are ready, late or too far ahead.

Progress is the greatest time that the model has shown, less `max_disorder`. No watermark takes
part, so that nothing depends on idle partitions, on timestamp policies or on how a runner fires
timers. Rows that jump ahead wait until enough of them agree (see `kerneltrack.jumps`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, IntArray
from kerneltrack.errors import DataError
from kerneltrack.fleet.model import NEVER
from kerneltrack.jumps import JumpRule, Standing, judge
from kerneltrack.time_units import day_of
from transforms.chunks import Chunk
from transforms.metrics import count
from transforms.track.merge import merge_where
from transforms.track.order import KEEP, MERGE, Order

CLOCK_VERSION = 5
LEARNED_BEFORE = "of a time that the model had learned from before it was taken up again"


class Clock(NamedTuple):
    """What a model's rows have shown so far.

    Attributes:
        newest: Greatest time that counts, ns; None before the first.
        oldest: Least time that waits in the buffer, ns.
        waiting: Rows in the buffer.
        started: Whether the model has a state.
        due: Earliest end of an open window, ns: something is to be done then, rows or not.
        learned: Rows before this time, ns, were learned from before this job; None if none were.
        flushed: Rows before this time, ns, were taken because no newer ones came; None if none
            were.
        before: Index of the next row, as long as there is no state.
        reach: Longest step of the model's own time, ns, that is no jump, if more than `max_jump`.
        ahead: Times of the rows that wait to be confirmed, ns, ascending.
    """

    newest: int | None = None
    oldest: int = NEVER
    waiting: int = 0
    started: bool = False
    due: int = NEVER
    learned: int | None = None
    flushed: int | None = None
    before: int = 0
    reach: int = 0
    ahead: tuple[int, ...] = ()

    @property
    def standing(self) -> Standing:
        """What the model's rows have shown of its time."""
        return Standing(self.newest, self.reach, self.ahead)

    def with_standing(self, standing: Standing) -> Clock:
        """Return the clock by which the model's rows have shown this."""
        return self._replace(**standing._asdict())

    def with_waiting(self, newest: int | None, oldest: int, waiting: int) -> Clock:
        """Return the clock of which other rows wait."""
        # `_replace` costs several times as much, and each visit of a model does it.
        return Clock(newest, oldest, waiting, *self[3:])

    def after_run(self, oldest: int, waiting: int, due: int) -> Clock:
        """Return the clock once rows have run: the model has a state."""
        return Clock(self.newest, oldest, waiting, True, due, *self[5:])

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
        for name, value in values.items():
            if not _is_sound(name, value, cls._field_defaults[name]):
                raise DataError("clock", f"damaged: {name} = {value!r}")
        return cls(**{**values, "ahead": tuple(values["ahead"])})


def _is_sound(name: str, value: Any, default: Any) -> bool:
    if name == "started":
        return type(value) is bool
    if name == "ahead":
        return isinstance(value, list) and all(_is_whole(time, -NEVER) for time in value)
    least = 0 if name in ("waiting", "before", "reach") else -NEVER
    return _is_whole(value, least) or value is default is None


def _is_whole(value: Any, least: int) -> bool:
    return type(value) is int and least <= value <= NEVER


class Admission(NamedTuple):
    """What became of a chunk's rows at the door.

    Attributes:
        clock: The clock after the rows that came in.
        late: (n,) rows behind the model's progress.
        refused: (n,) rows ahead that no others confirm, or that the model cannot take.
        gave_up: (n,) of rows of these that are refused after they have waited for others, the row
            that showed it, as a number; -1 of all others.
        unwanted: Times, ns, of rows that waited before, to be confirmed, and are refused now; of
            each the row that showed it.
    """

    clock: Clock
    late: BoolArray
    refused: BoolArray
    gave_up: IntArray
    unwanted: Mapping[int, int] = MappingProxyType({})


def admit(
    order: Order, clock: Clock, chunk: Chunk, usable: Callable[[Chunk], BoolArray]
) -> Admission:
    """Compare a chunk's rows with the model's clock, in the order of their places in the source.

    A row is late if it is older than the model's progress when it comes. One that is ahead of it
    by more than `max_jump` waits, and does not move the clock before others agree. Rows of one
    source come in its order, so that what becomes of them is the same however they were cut into
    chunks; between sources there is no order but that of the chunks.

    Args:
        order: How rows are put in order.
        clock: The model's.
        chunk: The rows.
        usable: Says which rows the model can take; asked where some are ahead.
    """
    none = np.zeros(len(chunk), dtype=np.bool_)
    if not chunk.has("time"):
        waiting = clock._replace(waiting=clock.waiting + len(chunk), oldest=0)
        return Admission(waiting, none, none, _none_gave_up(chunk))
    times = chunk.column("time")
    if clock.ahead and not order.confirms:
        # The job was resumed without a limit.
        clock = clock._replace(newest=max(clock.newest or -NEVER, clock.ahead[-1]), ahead=())
    if _jumps(order, clock, times):
        return _confirmed(order, clock, chunk, times, usable(chunk))
    late = (times < progress(order, clock)) | _behind(order, chunk, times, None)
    kept = times[~late]
    if len(kept):
        newest = int(kept.max())
        clock = clock._replace(newest=newest if clock.newest is None else max(clock.newest, newest))
    return Admission(_with_rows(clock, kept), late, none, _none_gave_up(chunk))


def _none_gave_up(chunk: Chunk) -> IntArray:
    return np.full(len(chunk), -1)


def _jumps(order: Order, clock: Clock, times: IntArray) -> bool:
    """Check whether rows may be ahead, or others wait to be confirmed."""
    if not order.confirms or not len(times):
        return False
    if clock.newest is None or clock.ahead:
        return True
    return int(times.max()) - clock.newest > reach_of(order, clock)


def _confirmed(
    order: Order, clock: Clock, chunk: Chunk, times: IntArray, usable: BoolArray
) -> Admission:
    """Admit rows some of which may be ahead."""
    places = _in_source(chunk)
    judged = judge(jump_rule(order), clock.standing, times[places], usable[places])
    source = chunk.column("source")[places]
    floor = _of_own_source(judged.floor, source, times[places], clock.ahead)
    counts, waits, ahead, gave_up, floor = (
        _put_back(part, places)
        for part in (judged.counts, judged.waits, judged.was_ahead, judged.gave_up, floor)
    )
    # Rows that are ahead make none late before they count, and are not late themselves.
    behind = _behind(order, chunk, np.where(ahead, times.min(), times), floor)
    late = ~ahead & (behind | (times < progress(order, clock)))
    clock = clock.with_standing(judged.standing)
    clock = _with_rows(clock, times[(counts & ~late) | waits])
    unwanted = dict(zip(judged.refused, judged.refused_by, strict=True))
    return Admission(clock, late, ~(counts | waits), gave_up, unwanted)


def _of_own_source(
    floor: IntArray, source: npt.NDArray[np.int32], times: IntArray, waited: tuple[int, ...]
) -> IntArray:
    """Return the floor of each row, in order of its source, as far as its own source has raised it.

    Between sources there is no order: rows of one make none of another late. Rows that `waited`
    came before all of these.
    """
    least = np.iinfo(np.int64).min
    own = np.full(len(floor), max(waited, default=least))
    starts = np.flatnonzero(np.r_[True, source[1:] != source[:-1]])
    for start, stop in zip(starts, [*starts[1:], len(source)], strict=True):
        newest = np.maximum.accumulate(times[start:stop])[:-1]
        own[start + 1 : stop] = np.maximum(own[start + 1 : stop], newest)
    raised: IntArray = np.minimum(floor, own)
    return raised


def _put_back(part: npt.NDArray[Any], places: IntArray) -> npt.NDArray[Any]:
    found = np.empty_like(part)
    found[places] = part
    return found


def _with_rows(clock: Clock, times: IntArray) -> Clock:
    """Return the clock once rows of these times wait, too."""
    if not len(times):
        return clock
    return clock._replace(
        oldest=min(clock.oldest, int(times.min())),
        waiting=clock.waiting + len(times),
    )


def reach_of(order: Order, clock: Clock) -> int:
    """Return how far ahead, ns, a row of this model is no jump."""
    return max(order.longest_step, clock.reach)


def jump_rule(order: Order) -> JumpRule:
    """Return what is a jump, and what confirms it."""
    return JumpRule(
        order.longest_step,
        order.jump_rows,
        order.wait,
        times=order.duplicates == MERGE,
    )


def _behind(order: Order, chunk: Chunk, times: IntArray, floor: IntArray | None) -> BoolArray:
    """Return which rows are late by what their own chunk holds before them.

    `floor`: least that the newest time is before each, ns.
    """
    behind = np.zeros(len(times), dtype=np.bool_)
    span = order.wait
    if not len(times) or (floor is None and int(times.max()) - int(times.min()) <= span):
        return behind
    source, places = chunk.column("source"), _in_source(chunk)
    least = np.iinfo(np.int64).min
    for number in np.unique(source):
        own = places[source[places] == number]
        newest = np.maximum.accumulate(times[own])
        if floor is not None:
            newest = np.maximum(newest, floor[own])
        # The span may be as long as all time.
        behind[own] = times[own] < np.where(newest < least + span, least, newest - span)
    return behind


def _in_source(chunk: Chunk) -> IntArray:
    """Return the places of a chunk's rows in order of (source, row)."""
    places: IntArray = np.lexsort((chunk.column("row"), chunk.column("source")))
    return places


def progress(order: Order, clock: Clock) -> float:
    """Return the time, ns, before which all of the model's rows have come."""
    return progress_at(order, clock.newest, clock.flushed)


def progress_at(order: Order, newest: int | None, flushed: int | None) -> float:
    """Return what `progress` does, of a clock that has shown these times."""
    taken = -math.inf if flushed is None else flushed
    if newest is None or order.max_disorder == math.inf:
        return taken
    return max(newest - order.wait, taken)


def flush(clock: Clock) -> Clock:
    """Return the clock by which all rows that wait are ready."""
    if clock.newest is None:
        return clock
    return clock._replace(flushed=clock.newest + 1)


def may_flush(clock: Clock | None) -> bool:
    """Check whether rows wait for newer ones; those ahead wait for others that agree."""
    return clock is not None and clock.waiting > len(clock.ahead)


def may_release(order: Order, clock: Clock, past: float, rows_to_start: int) -> bool:
    """Check, without a look at the rows that wait, whether there may be something to do.

    Args:
        order: How rows are put in order.
        clock: The model's.
        past: Its `progress`.
        rows_to_start: How many rows a model needs to begin.
    """
    if clock.due <= past:
        return True
    if not clock.waiting or not (clock.started or clock.waiting >= rows_to_start):
        return False
    if order.max_disorder == 0:
        return clock.waiting > len(clock.ahead)
    return clock.oldest < past


def in_turn(arrived: Chunk) -> Chunk:
    """Return rows in the order of their times, those of one time as they came.

    None that waits for no other is out of that order, but one may be that was ahead at first.
    """
    times = arrived.column("time")
    if (times[1:] >= times[:-1]).all():
        return arrived
    return arrived.take(np.argsort(times, kind="stable"))


def without_duplicates(order: Order, rows: Chunk, owner: IntArray) -> tuple[Chunk, IntArray]:
    """Return the rows, in order, as the order has those of one model and time: all, one, or merged.

    Args:
        order: How rows are put in order.
        rows: n rows, each model's one after the other.
        owner: (n,) place of each one's model.

    Returns:
        The rows, and of each the place of its model.
    """
    if order.duplicates == KEEP or not len(rows) or not rows.has("time"):
        return rows, owner
    first = np.r_[True, owner[1:] != owner[:-1]]
    if order.duplicates == MERGE:
        times = rows.column("time")
        new = first | np.r_[True, times[1:] != times[:-1]]
        merged = merge_where(rows, new)
        merged.add_to_counters()
        return merged.rows, owner[new]
    again = comes_again(rows) & ~first
    if again.any():
        count("rows_duplicate", int(again.sum()))
        rows, owner = rows.take(np.flatnonzero(~again)), owner[~again]
    return rows, owner


def one_of_each_time(order: Order, rows: Chunk) -> Chunk:
    """Return rows of a model that waited, in order, as `without_duplicates` has them.

    Some may have been put together already, as their turn came before the model could begin.
    """
    if order.duplicates == KEEP or not rows.has("time"):
        return rows
    return without_duplicates(order, rows.in_order(), np.zeros(len(rows), np.int64))[0]


def given_up(order: Order, rows: Chunk, shown_by: IntArray) -> Chunk:
    """Return rows of a model that are refused after they waited, as the order has those of a time.

    `shown_by`: (n,) the row that showed it, as a number: what comes later is another row, though
    it is of the same time, so that it does not matter what comes in one chunk.
    """
    if order.duplicates == KEEP:
        return rows
    parts = (rows.take(np.flatnonzero(shown_by == row)) for row in np.unique(shown_by))
    return Chunk.concat([one_of_each_time(order, part) for part in parts])


def comes_again(rows: Chunk) -> BoolArray:
    """Return which rows have the time, and the sequence if there is one, of the row before."""
    keys = [rows.column(name) for name in ("time", "sequence") if rows.has(name)]
    again = np.zeros(len(rows), dtype=np.bool_)
    again[1:] = np.all([key[1:] == key[:-1] for key in keys], axis=0)
    return again


def was_reset(clock: Clock) -> bool:
    """Check whether rows wait from before the model was reset, and none has shown its time since.

    The next rows are looked at one by one: which of them shows the time first must not depend on
    how they were cut.
    """
    return clock.newest is None and clock.waiting > len(clock.ahead)


def taken_up(
    order: Order, clock: Clock, waiting: Chunk, unwanted: Collection[int], anew: bool
) -> tuple[Clock, BoolArray]:
    """Look again at the rows that waited before.

    Args:
        order: How rows are put in order.
        clock: The model's, after rows that came.
        waiting: Rows that waited before these.
        unwanted: Times, ns, that were found unwanted (`Admission`).
        anew: Whether these rows are the first since a reset to show the time. Rows from before it
            count if they are not too far beyond, and move the clock.

    Returns:
        The clock once some are refused, and (n,) which of them are.
    """
    times = waiting.column("time")
    refused: BoolArray = np.isin(times, np.array([*unwanted], np.int64))
    if anew and clock.newest is not None:
        own = ~np.isin(times, np.array(clock.ahead, np.int64))
        step = order.longest_step if order.confirms else order.wait
        counts = own & (times <= clock.newest + step)
        refused |= own & ~counts
        clock = clock._replace(newest=int(times[counts].max(initial=clock.newest)))
    return clock._replace(waiting=clock.waiting - int(refused.sum())), refused


def already_learned(clock: Clock, chunk: Chunk) -> BoolArray:
    """Return which of a chunk's rows are of the time that was learned from before this job."""
    if clock.learned is None or not chunk.has("time"):
        return np.zeros(len(chunk), dtype=np.bool_)
    learned: BoolArray = chunk.column("time") < clock.learned
    return learned


def why_learned(clock: Clock) -> str:
    """Return why rows are refused that `already_learned` finds, with the day it goes back to."""
    return f"{LEARNED_BEFORE}, until {day_of(cast(int, clock.learned))}"


def still_waiting(clock: Clock, rest: Chunk | None) -> Clock:
    """Return the clock once only these rows wait."""
    oldest = NEVER
    if rest is None:
        return clock._replace(waiting=0, oldest=oldest)
    if len(rest):
        oldest = int(rest.column("time").min()) if rest.has("time") else 0
    return clock._replace(waiting=len(rest), oldest=oldest)
