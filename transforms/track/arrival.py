"""What comes for a model, taken in by its clock: rows that wait for their turn, and the others.

A row may be late, too far ahead, or of the time that was learned from before this job. Nearly
always none is, which is seen without a look at each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator

import numpy as np
from apache_beam import pvalue

from transforms.chunks import Chunk
from transforms.metrics import count
from transforms.outputs import LATE
from transforms.track.clock import (
    Clock,
    admit,
    already_learned,
    given_up,
    progress_at,
    reach_of,
    taken_up,
    was_reset,
    why_learned,
)
from transforms.track.emit import Output, failures
from transforms.track.log import ModelLog
from transforms.track.order import Order
from transforms.track.refusals import Refusals


@dataclasses.dataclass
class Visit:
    """What a bundle brings a model.

    Attributes:
        key: The model's ID.
        log: Its log.
        clock: Its clock before.
        chunks: Rows that have come, in the order in which they came.
        flush: Whether rows that wait are taken although no newer ones have come.
    """

    key: str
    log: ModelLog
    clock: Clock
    chunks: list[Chunk] = dataclasses.field(default_factory=list)
    flush: bool = False


def take_in(refusals: Refusals, visit: Visit) -> Generator[Output, None, Clock]:
    """Take in what came after a look at each row; the rows lie in the log then.

    Yields:
        Rows that are late, and those that are refused.

    Returns:
        The clock after the rows that came in.
    """
    clock, chunks, visit.chunks = visit.clock, visit.chunks, []
    for chunk in chunks:
        clock = yield from _look(refusals, visit, clock, chunk)
    return clock


def clock_after(order: Order, visit: Visit) -> Clock | None:
    """Return the clock after a visit's rows, None if they must be looked at one by one."""
    clock = visit.clock
    if not visit.chunks:
        return clock
    if clock.newest is None or clock.ahead:
        return None
    newest, oldest, waiting = clock.newest, clock.oldest, clock.waiting
    reach = reach_of(order, clock)
    for chunk in visit.chunks:
        span = _span(order, chunk)
        if span is None:
            return None
        first, last = span
        if last - newest > reach or first < progress_at(order, newest, clock.flushed):
            return None
        if clock.learned is not None and first < clock.learned:
            return None
        newest, oldest, waiting = max(newest, last), min(oldest, first), waiting + len(chunk)
    return clock.with_waiting(newest, oldest, waiting)


def _span(order: Order, chunk: Chunk) -> tuple[int, int] | None:
    """Return the least and greatest time of a chunk's rows, None if one may be late among them."""
    if not chunk.has("time") or not len(chunk):
        return None
    first, last = chunk.span()
    if last - first > order.wait:
        times, source, row = (chunk.column(name) for name in ("time", "source", "row"))
        if (times[1:] < times[:-1]).any() or (row[1:] <= row[:-1]).any():
            return None
        if (source != source[0]).any():
            return None
    return first, last


def _look(
    refusals: Refusals, visit: Visit, now: Clock, chunk: Chunk
) -> Generator[Output, None, Clock]:
    """Take a chunk in after a look at each row; return the clock."""
    chunk = yield from unlearned(refusals, visit.key, now, chunk)
    while was_reset(now) and chunk.has("time") and len(chunk) > 1:
        now = yield from _admit(refusals, visit, now, chunk.slice(0, 1))
        chunk = chunk.slice(1, len(chunk))
    return (yield from _admit(refusals, visit, now, chunk))


def _admit(
    refusals: Refusals, visit: Visit, before: Clock, chunk: Chunk
) -> Generator[Output, None, Clock]:
    """Take in rows that were not learned from before; return the clock."""
    key, log, order = visit.key, visit.log, refusals.order
    now, late, refused, gave_up, unwanted = admit(order, before, chunk, refusals.usable)
    waited = gave_up >= 0
    at_once = refused & ~waited
    if at_once.any():
        yield unconfirmed(refusals, key, chunk.take(np.flatnonzero(at_once)))
    gone = [chunk.take(np.flatnonzero(waited))] if waited.any() else []
    shown_by = gave_up[waited].tolist()
    if late.any():
        count("rows_late", int(late.sum()))
        yield pvalue.TaggedOutput(LATE, (key, chunk.take(np.flatnonzero(late))))
    anew = was_reset(before) and now.newest is not None
    if unwanted or anew:
        waiting = Chunk.concat(log.drain())
        now, again = taken_up(order, now, waiting, unwanted, anew)
        if again.any():
            gone.append(waiting.take(np.flatnonzero(again)))
            # The first row after a reset comes by itself: it is row 0.
            shown_by += [unwanted.get(time, 0) for time in gone[-1].column("time").tolist()]
        if not again.all():
            log.add(waiting.take(np.flatnonzero(~again)))
    if gone:
        rows = given_up(order, Chunk.concat(gone), np.array(shown_by))
        yield unconfirmed(refusals, key, rows)
    stays = ~(late | refused)
    if not stays.all():
        chunk = chunk.take(np.flatnonzero(stays))
    if len(chunk):
        log.add(chunk)
    count("rows_unconfirmed", len(now.ahead) - len(before.ahead))
    return now


def unlearned(
    refusals: Refusals, key: str, now: Clock, chunk: Chunk
) -> Generator[Output, None, Chunk]:
    """Return the rows that were not learned from before this job.

    The others are failures, or left out and counted.
    """
    again = already_learned(now, chunk)
    if not again.any():
        return chunk
    rows = np.flatnonzero(again)
    if refusals.work.drop_overlap:
        count("rows_learned_before", len(rows))
    else:
        yield failures(key, chunk.take(rows), [why_learned(now)] * len(rows))
    return chunk.take(np.flatnonzero(~again))


def unconfirmed(refusals: Refusals, key: str, rows: Chunk) -> Output:
    """Return failures: rows too far ahead, that no others confirm or the model cannot take."""
    return failures(key, rows, refusals.unconfirmed(rows))
