"""A frame's rows on their way to their models: in order, once, and none ahead of its time."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.fleet.conditions import whole_rows
from kerneltrack.frames.kept import Ahead, WaitingRows
from kerneltrack.frames.model import DeviceModel, Specs
from kerneltrack.frames.output import (
    EARLIER,
    LEARNED_ALREADY,
    LEARNED_BEFORE,
    LEARNED_BY_SNAPSHOT,
    NOT_BEGUN,
    UNCONFIRMED,
    WAITS_AHEAD,
    WAITS_TO_BEGIN,
    Output,
)
from kerneltrack.frames.table import TableRows
from kerneltrack.frames.taken_rows import (
    TakenRows,
    digest,
    joined,
    of_frame,
    ordered,
    unless_waiting,
)
from kerneltrack.jumps import JumpRule, Standing, judge
from kerneltrack.time_units import day_of

_LONGEST_JUMP = 9e9


class _NewestRow(NamedTuple):
    """Which rows of its newest time, ns, a model has learned: how often each, by its digest."""

    time: int
    rows: Counter[bytes]


class Arriving(NamedTuple):
    """A frame that arrives.

    Attributes:
        rows: Its rows.
        specs: What models begin with.
        wait: Whether a new model waits for its warm-up.
        out: Where it is noted what becomes of rows that no model takes.
    """

    rows: TableRows
    specs: Specs
    wait: bool
    out: Output


@dataclass
class Arrivals:
    """Which rows of the frames that arrive are taken by their models, and those that wait.

    Args:
        max_jump: Seconds that a row may be ahead of the newest one of its model.
        jump_rows: Rows, each within `max_jump` of the next, that confirm such a jump.
        ahead: Rows that wait for others to agree, by model.
        waiting: Rows of models that have not begun.
    """

    max_jump: float
    jump_rows: int
    ahead: dict[str, Ahead] = field(default_factory=dict)
    waiting: dict[str, WaitingRows] = field(default_factory=dict)
    _newest: dict[str, _NewestRow] = field(default_factory=dict)

    def take(
        self, frame: Arriving, key: str, model: DeviceModel | None, places: IntArray
    ) -> TakenRows | None:
        """Return the rows, at these places of a frame, that their model takes; None if none.

        Args:
            frame: The frame.
            key: The model.
            model: Its state; None before it has begun.
            places: Places of its rows.
        """
        rows, out = frame.rows, frame.out
        until = None if model is None else model.until
        if until is not None and rows.time is not None:
            again = rows.time[places] < until
            out.refuse(places[again], f"{LEARNED_BEFORE}, until {day_of(until)}")
            places = self._unless_learned(frame, key, until, places[~again])
        elif key in self.waiting:
            places = unless_waiting(self.waiting[key], places, rows, out)
        order, before = self._of_their_time(frame, key, model, ordered(rows, places))
        if not len(order):
            return None
        whole, mine = of_frame(rows, order), order
        begins = self.waiting.pop(key, None)
        if begins is not None:
            before = begins if before is None else joined(begins, before)[0]
        if before is not None:
            whole, own = joined(before, whole)
            mine = np.full(len(whole.x), EARLIER)
            mine[own] = order
        if model is not None:
            return TakenRows(key, whole, mine, None)
        first = _first_rows(frame.specs, whole, frame.wait)
        if first is not None:
            return TakenRows(key, whole, mine, first)
        if frame.wait:
            self.waiting[key] = whole
            out.refuse(order, f"{WAITS_TO_BEGIN} of {frame.specs.tracker.rows_to_start} rows")
        else:
            out.refuse(order, NOT_BEGUN)
        return None

    def begin_all(self, specs: Specs) -> list[TakenRows]:
        """Return the rows of all models that wait to begin and can: they wait no more."""
        begun = []
        for key, rows in self.waiting.items():
            first = _first_rows(specs, rows, wait=False)
            if first is not None:
                begun.append(TakenRows(key, rows, np.full(len(rows.x), EARLIER), first))
        self.waiting = {}
        return begun

    def note(self, key: str, until: int | None, rows: WaitingRows) -> None:
        """Keep which rows of its newest time, ns, a model has learned."""
        if rows.time is None or until is None:
            return
        newest = self._newest.get(key)
        learned = Counter(digest(row) for row in rows.x[rows.time == until])
        if newest is not None and newest.time == until:
            learned += newest.rows
        self._newest[key] = _NewestRow(until, learned)

    def _of_their_time(
        self, frame: Arriving, key: str, model: DeviceModel | None, order: IntArray
    ) -> tuple[IntArray, WaitingRows | None]:
        """Return the places of rows that are not ahead, and earlier rows that are not any more."""
        rows, out = frame.rows, frame.out
        if rows.time is None or self.max_jump == math.inf or not len(order):
            return order, None
        ahead = self.ahead.pop(key, Ahead(0, None))
        times = rows.time[order]
        usable = whole_rows(frame.specs.reference, rows.x[order])
        rule = JumpRule(round(min(self.max_jump, _LONGEST_JUMP) * 1e9), self.jump_rows)
        standing = Standing(self._newest_time(key, model), ahead.reach, ahead.times)
        judged = judge(rule, standing, times, usable)
        if judged.standing.newest is None and not frame.wait:
            judged = judge(rule, standing, times, usable, last=True)
        waits = order[judged.waits]
        out.refuse(waits, WAITS_AHEAD)
        # What no model can take moves no clock: the tracker says why.
        counts = judged.counts | ~usable
        out.refuse(order[~(counts | judged.waits)], UNCONFIRMED)
        before, still = None, None
        if ahead.rows is not None and ahead.rows.time is not None:
            known = ahead.rows.time
            stays = np.isin(known, judged.standing.ahead)
            gone = stays | np.isin(known, judged.refused)
            still = ahead.rows.take(np.flatnonzero(stays)) if stays.any() else None
            before = None if gone.all() else ahead.rows.take(np.flatnonzero(~gone))
        if len(waits):
            new = of_frame(rows, waits)
            still = new if still is None else joined(still, new)[0]
        if still is not None or judged.standing.reach:
            self.ahead[key] = Ahead(judged.standing.reach, still)
        return order[counts], before

    def _newest_time(self, key: str, model: DeviceModel | None) -> int | None:
        """Return the newest time of a model's rows, ns, None before the first."""
        if model is not None:
            return model.time
        begins = self.waiting.get(key)
        return None if begins is None or begins.time is None else int(begins.time[-1])

    def _unless_learned(self, frame: Arriving, key: str, until: int, places: IntArray) -> IntArray:
        """Return the places of rows that are not those that the model learned at its newest time.

        Rows of one time may come in several calls: the same row twice is refused. Which rows a
        snapshot has learned at its newest time is not known: none of these are taken.
        """
        rows, out = frame.rows, frame.out
        if rows.time is None:
            return places
        newest = self._newest.get(key)
        same = rows.time[places] == until
        if newest is None or newest.time != until:
            out.refuse(places[same], LEARNED_BY_SNAPSHOT)
            left_over: IntArray = places[~same]
            return left_over
        left, again = newest.rows.copy(), same.copy()
        for at in np.flatnonzero(same).tolist():
            row = digest(rows.x[places[at]])
            again[at] = left[row] > 0
            left[row] -= 1
        out.refuse(places[again], LEARNED_ALREADY)
        kept: IntArray = places[~again]
        return kept


def _first_rows(specs: Specs, rows: WaitingRows, wait: bool) -> FloatArray | None:
    """Return the rows that a model begins with; None if there are too few."""
    usable, least = rows.x[whole_rows(specs.reference, rows.x)], specs.tracker.rows_to_start
    if not len(usable) or (wait and len(usable) < least):
        return None
    return usable[:least]
