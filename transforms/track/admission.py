"""Rows of models at the end of their input: those that count, in order, and those refused.

All rows of a file are there at once; of a stream those that wait when it ends. One model is m = 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import BoolArray, IntArray
from kerneltrack.fleet.clock import NO_TIME, clock_of_each
from kerneltrack.jumps import judge
from transforms.chunks import IN_ORDER, Chunk
from transforms.metrics import count
from transforms.read.files import is_sorted
from transforms.track.clock import (
    Clock,
    already_learned,
    comes_again,
    given_up,
    jump_rule,
    why_learned,
    without_duplicates,
)
from transforms.track.merge import merge_across
from transforms.track.order import DROP, MERGE, Order
from transforms.track.refusals import LATE, Refusals
from transforms.track.sifted_rows import SiftedRows
from transforms.track.sorted_rows import SortedRows

FAILED = "rows_failed"
"""Counter of rows that are refused, other than late ones."""


class Refused(NamedTuple):
    """Rows of a model that are refused.

    Attributes:
        model: Its place.
        rows: The rows.
        reasons: Why, of each.
        counted_as: Name of the counter that they are added to.
    """

    model: int
    rows: Chunk
    reasons: list[str]
    counted_as: str = FAILED


class Admitted(NamedTuple):
    """Rows of a block of models that count.

    Attributes:
        block: These rows, in the order in which they run; its models are those of the block, if
            only without any.
        refused: The others.
        last: Whether no more rows of these models come.
    """

    block: SortedRows
    refused: list[Refused]
    last: bool = True


def admit_all(
    refusals: Refusals, block: SortedRows, clocks: Sequence[Clock], merged: bool = False
) -> Admitted:
    """Return the rows that count of models all of whose rows are there.

    Args:
        refusals: Says which rows a model can take.
        block: The models' rows: sorted by time if all wait for the end of the input, else in order
            of arrival, by source and row.
        clocks: What each model has shown before these rows; empty if nothing.
        merged: Whether rows of one time have been merged already, if the order asks for that.
    """
    refused: list[Refused] = []
    clocks = clocks or [Clock()] * len(block.names)
    if any(clock.learned is not None for clock in clocks):
        block = _unlearned(refusals, block, clocks, refused)
    if not refusals.order.waits_for_end:
        block, clocks = _arrived(refusals, block, clocks, refused)
    return _at_end(refusals, block, clocks, merged, refused)


def admit_some(
    refusals: Refusals, key: str, chunks: Iterable[Chunk], clock: Clock, begun: bool, size: int
) -> Iterator[Admitted]:
    """Return what `admit_all` does of one model, of whose rows only some are in memory at a time.

    Args:
        refusals: Says which rows the model can take; all wait for the end of the input.
        key: The model's ID.
        chunks: Its rows, one at least, sorted by time.
        clock: What it has shown before.
        begun: Whether it need not wait for rows to begin with.
        size: Rows that are returned at a time, at least.
    """
    sifted = SiftedRows(refusals.order, clock.standing, refusals.usable)
    gathered: list[Chunk] = []
    refused: list[Refused] = []
    for chunk in itertools.chain(_wanted(refusals.order, chunks), [None]):
        ready = chunk
        if chunk is not None:
            block = SortedRows([key], np.array([0, len(chunk)]), chunk)
            ready = _unlearned(refusals, block, [clock], refused).rows
            none = chunk.slice(0, 0)
        ready, gone = sifted.take(ready, last=chunk is None)
        if gone is not None:
            refused.append(Refused(0, gone, refusals.unconfirmed(gone)))
        if ready is not None and len(ready):
            gathered.append(ready)
        if chunk is not None and sum(map(len, gathered)) < size:
            continue
        rows = Chunk.concat(gathered or [none])
        begun = begun or len(refusals.first_of(rows)) >= refusals.work.rows_to_start
        if chunk is None or begun:
            yield Admitted(
                SortedRows([key], np.array([0, len(rows)]), rows), refused, last=chunk is None
            )
            gathered, refused = [], []
        else:
            gathered = [rows]


def _wanted(order: Order, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Return rows without duplicates, if the order drops them: one before may end a chunk."""
    if order.duplicates == MERGE:
        yield from merge_across(chunks)
        return
    before: list[Chunk] = []
    for chunk in chunks:
        if not len(chunk):
            continue
        both = Chunk.concat([*before, chunk])
        rows, _ = without_duplicates(order, both, np.zeros(len(both), np.int64))
        yield rows.slice(len(before), len(rows))
        before = [chunk.slice(len(chunk) - 1, len(chunk))]


def admit_waiting(refusals: Refusals, key: str, rows: Chunk, clock: Clock) -> Admitted:
    """Return the rows that count of those of one model that wait when its input ends.

    `rows`: in order of time; those that are ahead of the clock last, where rows are taken in order
    of arrival.
    """
    block = SortedRows([key], np.array([0, len(rows)]), rows)
    return _at_end(refusals, block, [clock], False, [])


def _at_end(
    refusals: Refusals,
    block: SortedRows,
    clocks: Sequence[Clock],
    merged: bool,
    refused: list[Refused],
) -> Admitted:
    """Return the rows that count once no more come: one of each time, none of a wild clock."""
    order = refusals.order
    if order.duplicates == MERGE and not merged and block.rows.has("time"):
        block = block.merged(len(refusals.work.channels))
    if order.duplicates == DROP:
        block = block.without(_again(block))
    if order.confirms and block.rows.has("time"):
        gone = _unconfirmed(refusals, block, clocks)
        refused += _refuse(block, gone, FAILED, lambda _, rows: refusals.unconfirmed(rows))
        block = block.without(gone)
    return Admitted(block, refused)


def _refuse(
    block: SortedRows, gone: BoolArray, counted_as: str, why: Callable[[int, Chunk], list[str]]
) -> list[Refused]:
    """Return the rows that are gone as refused, model by model."""
    refused = []
    for model, own in block.spans():
        if gone[own].any():
            these = block.rows.slice(own.start, own.stop).take(np.flatnonzero(gone[own]))
            refused.append(Refused(model, these, why(model, these), counted_as))
    return refused


def _refuse_given_up(refusals: Refusals, block: SortedRows, gave_up: IntArray) -> list[Refused]:
    """Return the rows that waited for others in vain as refused, model by model.

    `gave_up`: (n,) as of `Judged`.
    """
    refused = []
    for model, own in block.spans():
        places = own.start + np.flatnonzero(gave_up[own] >= 0)
        if len(places):
            rows = given_up(refusals.order, block.rows.take(places), gave_up[places])
            refused.append(Refused(model, rows, refusals.unconfirmed(rows)))
    return refused


def _newest(clocks: Sequence[Clock]) -> IntArray:
    """Return the greatest time that each model has shown, ns; `NO_TIME` before its first row."""
    return np.array([NO_TIME if c.newest is None else c.newest for c in clocks], np.int64)


def _unlearned(
    refusals: Refusals, block: SortedRows, clocks: Sequence[Clock], refused: list[Refused]
) -> SortedRows:
    """Return the rows that were not learned from before this job.

    The others are refused, or left out and counted.
    """
    again = np.zeros(len(block.rows), np.bool_)
    for model, own in block.spans():
        again[own] = already_learned(clocks[model], block.rows.slice(own.start, own.stop))
    if refusals.work.drop_overlap:
        count("rows_learned_before", int(again.sum()))
    elif again.any():
        refused += _refuse(
            block, again, FAILED, lambda model, rows: [why_learned(clocks[model])] * len(rows)
        )
    return block.without(again)


def _arrived(
    refusals: Refusals, block: SortedRows, clocks: Sequence[Clock], refused: list[Refused]
) -> tuple[SortedRows, Sequence[Clock]]:
    """Return rows that came in this order in the order in which they run, none of them late.

    What becomes of a row as it comes is what `clock.admit` says of it. The rows that wait to be
    confirmed are among those that are returned, and the clocks know them.
    """
    if not len(block.rows) or not block.rows.has("time"):
        return _in_turn(refusals.order, block), clocks
    times, before = block.rows.column("time"), _newest(clocks)
    shown, ahead, gone = times, np.zeros(len(times), np.bool_), np.zeros(len(times), np.bool_)
    gave_up = np.full(len(times), -1)
    if refusals.order.confirms:
        shown, clocks = times.copy(), [*clocks]
        usable, rule = refusals.usable(block.rows), jump_rule(refusals.order)
        for model, own in block.spans():
            judged = judge(rule, clocks[model].standing, times[own], usable[own])
            clocks[model] = clocks[model].with_standing(judged.standing)
            ahead[own], gone[own] = judged.was_ahead, ~(judged.counts | judged.waits)
            gave_up[own] = judged.gave_up
            # Rows that are ahead make none late before they count, and are not late themselves.
            shown[own][judged.was_ahead] = NO_TIME
            np.maximum(shown[own], judged.floor, out=shown[own])
        count("rows_unconfirmed", sum(len(clock.ahead) for clock in clocks))
    span = refusals.order.wait
    newest = clock_of_each(shown, before, block.edges[:-1], block.edges[1:])
    # The span may be as long as all time.
    late = ~ahead & (times < np.maximum(newest, NO_TIME + span) - span)
    if gone.any():
        at_once = gone & (gave_up < 0)
        refused += _refuse(block, at_once, FAILED, lambda _, rows: refusals.unconfirmed(rows))
        refused += _refuse_given_up(refusals, block, gave_up)
    if late.any():
        refused += _refuse(block, late, "rows_late", lambda _, rows: [LATE] * len(rows))
    return _in_turn(refusals.order, block.without(gone | late)), clocks


def _in_turn(order: Order, block: SortedRows) -> SortedRows:
    """Return rows in the order in which they run."""
    rows = block.rows
    owner = np.repeat(np.arange(len(block.names), dtype=np.int32), np.diff(block.edges))
    names = IN_ORDER
    if order.max_disorder == 0 or not rows.has("time"):
        names = ("row", "sequence", "time", "source")
    keys = [rows.column(name) for name in names if rows.has(name)]
    if order.max_disorder == 0 and rows.has("time"):
        keys.append(rows.column("time"))
    if not is_sorted(owner, keys, None):
        block = block._replace(rows=rows.take(np.lexsort((*keys, owner))))
    return block


def _again(block: SortedRows) -> BoolArray:
    """Return which rows come again; the first of a model never does."""
    if not block.rows.has("time"):
        return np.zeros(len(block.rows), np.bool_)
    again = comes_again(block.rows)
    again[block.edges[block.edges < len(again)]] = False
    count("rows_duplicate", int(again.sum()))
    return again


def _unconfirmed(refusals: Refusals, block: SortedRows, clocks: Sequence[Clock]) -> BoolArray:
    """Return which rows are too far ahead and confirmed by no others."""
    rows = block.rows
    times, gone = rows.column("time"), np.zeros(len(rows), np.bool_)
    usable, rule = refusals.usable(rows), jump_rule(refusals.order)
    for model, own in block.spans():
        standing = clocks[model].standing._replace(ahead=())
        sort = np.argsort(times[own], kind="stable")
        if standing.newest is not None and int(times[own][sort[-1]]) <= standing.newest:
            continue
        judged = judge(rule, standing, times[own][sort], usable[own][sort], last=True)
        gone[own.start + sort] = ~judged.counts
    return gone
