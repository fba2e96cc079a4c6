"""Rows of models as a fleet takes them: put in order, joined with those that waited."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.frames.kept import WaitingRows
from kerneltrack.frames.model import ModelRows
from kerneltrack.frames.output import WAITS_ALREADY, Output
from kerneltrack.frames.table import TableRows


class TakenRows(NamedTuple):
    """Rows that a model takes.

    Attributes:
        key: The model.
        rows: They, in order.
        places: Of each in the frame, `EARLIER` of those that waited.
        first: The rows that the model begins with; None if it is there.
    """

    key: str
    rows: WaitingRows
    places: IntArray
    first: FloatArray | None


def of_frame(rows: TableRows, places: IntArray) -> WaitingRows:
    """Return the rows at these places of a frame."""
    return WaitingRows(rows.x, rows.time, rows.label).take(places)


def digest(row: FloatArray) -> bytes:
    """Return what two rows of the same values share."""
    return hashlib.blake2b(row.tobytes(), digest_size=16).digest()


def unless_waiting(
    waiting: WaitingRows, places: IntArray, rows: TableRows, out: Output
) -> IntArray:
    """Return the places of rows that do not wait already."""
    if rows.time is None or waiting.time is None:
        return places
    left = Counter(zip(waiting.time.tolist(), map(digest, waiting.x), strict=True))
    again = np.zeros(len(places), np.bool_)
    for at, place in enumerate(places.tolist()):
        row = int(rows.time[place]), digest(rows.x[place])
        again[at] = left[row] > 0
        left[row] -= 1
    out.refuse(places[again], WAITS_ALREADY)
    kept: IntArray = places[~again]
    return kept


def ordered(rows: TableRows, places: IntArray) -> IntArray:
    """Return places in the order of their times, equal ones as they came."""
    if rows.time is None:
        return places
    ordered: IntArray = places[np.argsort(rows.time[places], kind="stable")]
    return ordered


def joined(before: WaitingRows, new: WaitingRows) -> tuple[WaitingRows, IntArray]:
    """Put rows that waited and new ones in order; where the new ones are then."""
    x = np.concatenate([before.x, new.x])
    labels = None
    if before.label is not None or new.label is not None:
        labels = [*(before.label or [None] * len(before.x)), *(new.label or [None] * len(new.x))]
    if before.time is None or new.time is None:
        return WaitingRows(x, None, labels), np.arange(len(before.x), len(x))
    time = np.concatenate([before.time, new.time])
    order = np.argsort(time, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    labels = None if labels is None else [labels[at] for at in order.tolist()]
    return WaitingRows(x[order], time[order], labels), place[len(before.x) :]


def side_by_side(taken: Sequence[TakenRows]) -> ModelRows:
    """Return rows of models, one model's after the other's."""
    rows = [each.rows for each in taken]
    stops = np.cumsum([len(each.x) for each in rows])
    starts = np.concatenate([[0], stops[:-1]])
    times = [each.time for each in rows if each.time is not None]
    labels = None
    if any(each.label is not None for each in rows):
        labels = [label for each in rows for label in each.label or [None] * len(each.x)]
    x = rows[0].x if len(rows) == 1 else np.concatenate([each.x for each in rows])
    return ModelRows(x, np.concatenate(times) if times else None, labels, starts, stops)
