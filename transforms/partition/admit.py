"""Rows of a block of models that count, and those that are refused before they run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.jumps import judge
from transforms.chunks import Chunk
from transforms.metrics import count
from transforms.partition.shuffle import SortedRows
from transforms.track.clock import Clock, already_learned, comes_again, jump_rule, why_learned
from transforms.track.order import DROP, MERGE
from transforms.track.step import TrackFn

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class Refused(NamedTuple):
    """Rows of a model that are refused.

    Attributes:
        model: Its place.
        rows: The rows.
        reasons: Why, of each.
    """

    model: int
    rows: Chunk
    reasons: list[str]


class Admitted(NamedTuple):
    """Rows of a block that count.

    Attributes:
        rows: A model's follow one another.
        starts: (m,) place of each model's first row.
        stops: (m,) place after its last.
        refused: The others, in order.
    """

    rows: Chunk
    starts: IntArray
    stops: IntArray
    refused: list[Refused]


def admit(fn: TrackFn, block: SortedRows, clocks: Sequence[Clock], merged: bool) -> Admitted:
    """Return the rows that count of models all of whose rows are there.

    Args:
        fn: The tracker's step.
        block: The models' rows, sorted by time.
        clocks: What each model has shown before these rows; empty if nothing.
        merged: Whether rows of one time have been merged already, if the order asks for that.
    """
    refused: list[Refused] = []
    if any(clock.learned is not None for clock in clocks):
        block = _without(block, _unlearned(fn, block, clocks, refused))
    order = fn.order
    if order.duplicates == MERGE and not merged:
        block = block.merged(len(fn.work.channels))
    if order.duplicates == DROP:
        block = _without(block, _again(block))
    if order.confirms and "time" in block.body.schema.names:
        block = _without(block, _unconfirmed(fn, block, clocks, refused))
    return Admitted(
        Chunk(block.body),
        np.array(block.starts, np.int64),
        np.array(block.stops, np.int64),
        refused,
    )


def _each(block: SortedRows) -> Iterator[tuple[int, slice, Chunk]]:
    for model, (start, stop) in enumerate(zip(block.starts, block.stops, strict=True)):
        yield model, slice(start, stop), block.slice(start, stop)


def _without(block: SortedRows, gone: BoolArray) -> SortedRows:
    """Return the block without some rows; its models stay, if only without any."""
    if not gone.any():
        return block
    kept = np.concatenate([[0], np.cumsum(~gone)])
    body = Chunk(block.body).take(np.flatnonzero(~gone)).batch
    return block._replace(
        starts=kept[block.starts].tolist(), stops=kept[block.stops].tolist(), body=body
    )


def _unlearned(
    fn: TrackFn, block: SortedRows, clocks: Sequence[Clock], refused: list[Refused]
) -> BoolArray:
    """Return which rows were learned from before; they are refused, or left out and counted."""
    gone = np.zeros(len(block.body), np.bool_)
    for model, own, rows in _each(block):
        again = already_learned(clocks[model], rows)
        if not again.any():
            continue
        gone[own] = again
        if fn.work.drop_overlap:
            count("rows_learned_before", int(again.sum()))
        else:
            these = rows.take(np.flatnonzero(again))
            refused.append(Refused(model, these, [why_learned(clocks[model])] * len(these)))
    return gone


def _again(block: SortedRows) -> BoolArray:
    """Return which rows come again; the first of a model never does."""
    rows = Chunk(block.body)
    if not rows.has("time"):
        return np.zeros(len(rows), np.bool_)
    again = comes_again(rows)
    starts = np.array(block.starts, np.int64)
    again[starts[starts < len(again)]] = False
    count("rows_duplicate", int(again.sum()))
    return again


def _unconfirmed(
    fn: TrackFn, block: SortedRows, clocks: Sequence[Clock], refused: list[Refused]
) -> BoolArray:
    """Return which rows are too far ahead and confirmed by no others; they are refused."""
    gone = np.zeros(len(block.body), np.bool_)
    usable, rule = fn.usable_rows(Chunk(block.body)), jump_rule(fn.order)
    for model, own, rows in _each(block):
        if not len(rows):
            continue
        standing = (clocks[model] if clocks else Clock()).standing._replace(ahead=())
        judged = judge(rule, standing, rows.column("time"), usable[own], last=True)
        if judged.counts.all():
            continue
        gone[own] = ~judged.counts
        these = rows.take(np.flatnonzero(gone[own]))
        refused.append(Refused(model, these, fn.unconfirmed_reasons(these)))
    return gone
