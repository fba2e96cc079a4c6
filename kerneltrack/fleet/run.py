"""Ordered rows of m models, run through them in rounds: files, streams, `score` and `kt.Fleet`.

A model's rows are cut at its events, where a window of event time ends or a snapshot is due, so
that what is measured or written then has seen the rows before it and no others. The k-th piece of
every model runs in round k: each thing that works on rows is one call for all of them. What is rare
(a reference that ends at a time, a new normal that is accepted) goes model by model within the
round. One model is m = 1; without events there is one round.

What comes of a model depends on its own rows alone: on no other model, and on no cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from kerneltrack.fleet.clock import NO_TIME, clock_of_each, clock_of_whole_rows
from kerneltrack.fleet.events import Event, Passed, boundaries, opened_by, window_ends
from kerneltrack.fleet.forward_fill import LastValues, hold_each
from kerneltrack.fleet.judging import Judging
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.models import Models, time_of
from kerneltrack.fleet.open_windows import OwnRows, WindowsOnTheWay, windows_of
from kerneltrack.fleet.results import Alert, Results
from kerneltrack.fleet.states import states_of
from kerneltrack.fleet.valid_rows import ValidRows, all_of
from kerneltrack.fleet.windows import Measured, lines_of_moving
from kerneltrack.monitor.drift import block as detectors
from kerneltrack.monitor.mismatch import window_mismatches
from kerneltrack.monitor.moving import no_mismatch
from kerneltrack.registry import get_tracker
from kerneltrack.trackers.common.calls import copied, features_of, stamps_of
from kerneltrack.trackers.common.loop import FIRST, NO_TIMES, Pieces, matrix_of


def run_rows(
    work: Work,
    key: str,
    model: Model,
    rows: npt.NDArray[Any],
    times: IntArray | None,
    until: float,
) -> tuple[Model, Results]:
    """Run ordered rows through one model, which is not written to: `run_models` of one.

    Returns:
        The state after the rows and what came out.
    """
    models = Models.of(work, [key], [model])
    found = run_models(models, rows, times, FIRST, np.array((len(rows),)), [until])
    return models.model(0), found


def run_models(
    models: Models,
    rows: npt.NDArray[Any],
    times: IntArray | None,
    starts: IntArray,
    stops: IntArray,
    until: Sequence[float],
) -> Results:
    """Run ordered rows through m models.

    Args:
        models: The models; they become what they are after the rows.
        rows: (n, D), missing values not yet filled; a model's follow one another, and models do
            without a gap. A model may have none.
        times: (n,) ns, None without times. Rows that came in order of arrival count as of the
            newest time of their model so far.
        starts: (m,) place of each model's first row; the first one's is 0.
        stops: (m,) place after its last: the next one's first.
        until: (m,) all rows of a model before this time have come: windows up to it close, and a
            snapshot is due at a boundary up to it. Infinity at the end of the input, which
            measures all windows; those that end later stay open for rows of another job.

    Returns:
        What came out. The same, whatever calls the rows came in.
    """
    run = _Rounds(models, rows, times, starts, stops, until)
    for part in run.rounds():
        run.take(part)
    return run.end()


class _Due(NamedTuple):
    """An event of a model.

    Attributes:
        model: Its place.
        stop: Place after the model's last row before it.
        event: What happens.
    """

    model: int
    stop: int
    event: Event


class _Round(NamedTuple):
    """Pieces of models, no two of one model.

    Attributes:
        which: (k,) places of the models that have rows in it.
        starts: (k,) place of each one's first row.
        stops: (k,) place after its last.
        due: What happens then.
    """

    which: IntArray
    starts: IntArray
    stops: IntArray
    due: list[_Due]


class _Rounds:
    """Rows on their way through their models; see `run_models`."""

    def __init__(
        self,
        models: Models,
        rows: npt.NDArray[Any],
        times: IntArray | None,
        starts: IntArray,
        stops: IntArray,
        until: Sequence[float],
    ) -> None:
        self._models, self._work = models, models.work
        self._starts, self._stops, self._until = starts, stops, until
        self._raw = matrix_of(rows, models.width)
        self._times = times
        self._last_values = None if models.last_values is None else copied(models.last_values)
        self._rows, self._values_after = self._filled(slice(None), starts, stops)
        self._judging = Judging(models, self._rows)
        self._rows = self._judging.rows
        finite: BoolArray = np.isfinite(self._rows)
        self._unbroken = all_of(finite)
        self._whole: BoolArray = (
            np.ones(len(rows), np.bool_) if self._unbroken else np.asarray(finite.all(axis=1))
        )
        self._shown, self._clock = self._clocks()
        self._tracker: Any = get_tracker(self._work.spec.tracker)
        many, width = self._rows.shape
        self._out = self._tracker.room(self._work.spec, many, self._work.asked, width=width)
        self._windows: list[WindowsOnTheWay] = []
        self._sliding = None if models.moving is None else no_mismatch(len(self._rows))
        self._found = Results(features_of(self._out), self._rows, None)

    # ---- before the rounds ----

    def _filled(
        self, own: slice, starts: IntArray, stops: IntArray, model: int | None = None
    ) -> tuple[FloatArray, LastValues | None]:
        """Return rows, missing values held if that is asked for, and what is held after them."""
        rows, last_values = self._raw[own], self._last_values
        if self._work.hold is None or last_values is None:
            return rows, None
        if model is not None:
            last_values = LastValues(
                last_values.values[model : model + 1], last_values.times[model : model + 1]
            )
        times = np.zeros(len(rows), np.int64) if self._times is None else self._times[own]
        return hold_each(rows, times, starts, stops, last_values, self._work.hold)

    def _clocks(self) -> tuple[IntArray | None, IntArray | None]:
        """Return the greatest time up to each row, and that of rows that tell the time."""
        if self._times is None:
            return None, None
        places = self._models.time, self._starts, self._stops
        shown = clock_of_each(self._times, *places)
        if self._unbroken:
            return shown, shown
        return shown, clock_of_whole_rows(self._times, self._whole, *places)

    def rounds(self) -> Iterator[_Round]:
        """Return the rounds."""
        work, models = self._work, self._models
        if models.open is None and work.every is None:
            which = np.flatnonzero(self._stops > self._starts)
            if len(which):
                yield _Round(which, self._starts[which], self._stops[which], [])
            return
        self._seen = models.seen.tolist()
        pieces: list[list[tuple[int, int, int]]] = []
        due: list[list[_Due]] = []
        opened = self._opened()
        spans = zip(self._starts.tolist(), self._stops.tolist(), opened, strict=True)
        for model, (first, stop, begins) in enumerate(spans):
            at, turn = first, 0
            for event in [*self._events(model, slice(first, stop), begins), None]:
                end = stop if event is None else first + event.place
                if turn == len(pieces):
                    pieces.append([])
                    due.append([])
                if end > at:
                    pieces[turn].append((model, at, end))
                if event is not None:
                    due[turn].append(_Due(model, end, event))
                at, turn = end, turn + 1
        for ran, events in zip(pieces, due, strict=True):
            which, starts, stops = np.array(ran, np.int64).reshape(len(ran), 3).T.copy()
            yield _Round(which, starts, stops, events)

    def _opened(self) -> list[list[tuple[int, int]]]:
        """Return the windows that hold rows of each model; see `opened_by`."""
        measure = self._work.measure
        if self._models.open is None or measure is None or self._clock is None:
            return [[] for _ in self._starts]
        return opened_by(measure, self._clock, self._whole, self._starts, self._stops)

    def _events(self, model: int, own: slice, opened: list[tuple[int, int]]) -> list[Event]:
        """Return a model's events, in order; its windows are made ready for them."""
        work, passed = self._work, self._passed(model, own)
        events: list[Event] = []
        if self._models.open is not None and work.measure is not None:
            known = self._models.open[model]
            before = known.windows[:, 0].tolist()
            if before:
                opened = [line for line in opened if line[0] not in before]
            begins = sorted([*before, *(start for start, _ in opened)])
            events, ends = window_ends(work.measure, begins, passed)
            rows = OwnRows(self._rows[own], self._out.valid[own], self._seen[model])
            places = dict(zip(begins, ends, strict=True))
            self._windows.append(windows_of(work.measure, known, opened, places, rows))
        if work.every is not None:
            time = time_of(self._models.time[model]), time_of(self._models.until[model])
            events += boundaries(work.every, *time, passed)
            # A snapshot comes after the windows that end at its boundary.
            events.sort(key=lambda event: (event.at, event.start is None))
        return events

    def _passed(self, model: int, own: slice) -> Passed:
        """Return what a model's rows say of the time that has passed."""
        none, until = np.zeros(0, np.int64), self._until[model]
        if self._shown is None or self._clock is None:
            return Passed(none, none, until)
        shown = self._shown[own]
        # A row at or after an end says that no row before it is to come.
        until = max(until, int(shown[-1])) if len(shown) else until
        clocks = none if self._work.every is None else self._clock[own][self._whole[own]]
        return Passed(clocks, shown, until)

    # ---- a round ----

    def take(self, part: _Round) -> None:
        """Run a round."""
        if len(part.which):
            self._run(part.which, part.starts, part.stops)
        if part.due:
            self._measure([each for each in part.due if each.event.start is not None])
            self._write([each for each in part.due if each.event.start is None])

    def _run(self, which: IntArray, starts: IntArray, stops: IntArray) -> None:
        """Run pieces of models through all that works on rows."""
        models, spec = self._models, self._work.spec
        self._found.calls += 1
        self._found.models_called += len(which)
        # Each tracker's index of the first row, where anything goes by it.
        before = which
        if self._work.frozen or models.reference is not None:
            before = models.seen[which]
        clock, learn = NO_TIMES, not self._work.frozen
        if learn or models.moving is not None:
            clock = stamps_of(spec, len(self._rows), self._clock)
        known = Pieces(self._rows, starts, stops, clock, which), self._out
        if self._work.window is None or models.moving is None or self._sliding is None:
            self._tracker.run_checked(spec, models.block, *known, learn)
        else:
            states = models.block, models.moving
            self._work.window.run_checked(spec, *states, *known, self._sliding)
        valid = ValidRows.among(self._rows, self._clock, self._out.valid, which, starts, stops)
        if self._work.frozen:
            self._number(valid, before)
        self._tell_time(which, starts, stops)
        if self._models.moving is not None:
            self._note_moving(valid)
        if self._windows:
            whole = len(valid.rows) == int((stops - starts).sum())
            first = self._starts[which]
            spans = which.tolist(), (starts - first).tolist(), (stops - first).tolist()
            for model, start, stop in zip(*spans, strict=True):
                self._windows[model].take(start, stop, whole)
        self._watch(valid)
        self._judging.take(valid, before, self._found)

    def _number(self, valid: ValidRows, before: IntArray) -> None:
        """Number the rows of models that learn nothing, and count them."""
        many = valid.stops - valid.starts
        numbers = np.arange(len(valid.rows)) + np.repeat(before - valid.starts, many)
        places = slice(None) if valid.places is None else valid.places
        self._out.number[places] = numbers
        self._models.projected[valid.which] += many

    def _tell_time(self, which: IntArray, starts: IntArray, stops: IntArray) -> None:
        """Let models know the time of the rows that have run."""
        if self._clock is None:
            return
        models = self._models
        knows = models.time[which] != NO_TIME
        if not all_of(knows):
            edges = np.concatenate([[0], np.cumsum(self._whole)])
            knows |= edges[stops] > edges[starts]
            which, stops = which[knows], stops[knows]
        models.time[which] = newest = self._clock[stops - 1]
        # A row that no model can take may come after a boundary that is later than the clock.
        models.until[which] = np.maximum(models.until[which], newest)

    def _note_moving(self, valid: ValidRows) -> None:
        """Record the moving window's value after each row at which the window was full."""
        length = self._work.window.length if self._work.window else 0
        values = [valid.of(column) for column in self._sliding or ()]
        index = valid.of(self._out.number)
        for model, own in valid.each():
            known = self._models.moving_times[model]
            lines, after = lines_of_moving(
                length, [column[own] for column in values], index[own], known, valid.times_of(own)
            )
            self._models.moving_times[model] = after
            if lines:
                self._found.measured[model] += lines

    def _watch(self, valid: ValidRows) -> None:
        """Compare losses with those before; note what has changed."""
        spec, blocks = self._work.drift, self._models.drift
        if spec is None or blocks is None:
            return
        losses, index = valid.of(self._out.loss), valid.of(self._out.number)
        spans = valid.starts, valid.stops
        alerts = detectors.watch_each(spec, blocks, losses, *spans, models=valid.which)
        for at, found in alerts.items():
            model, rows = int(valid.which[at]), valid.starts[at] + found.position
            stamps = [None] * len(rows) if valid.stamps is None else valid.stamps[rows].tolist()
            levels = found.before.tolist(), found.after.tolist()
            for line in zip(index[rows].tolist(), stamps, *levels, strict=True):
                self._found.alerts[model].append(Alert(*line))

    # ---- events ----

    def _measure(self, due: list[_Due]) -> None:
        """Measure windows at their ends, or at that of the input, under the subspaces then."""
        measure, models = self._work.measure, self._models
        if measure is None or not due:
            return
        owners, parts, lines = [], [], []
        seen = models.seen[[each.model for each in due]].tolist()
        for (model, _, event), following in zip(due, seen, strict=True):
            if event.start is None:
                continue
            windows = self._windows[model]
            count = following - windows.first_of(event.start)
            complete = self._until[model] < math.inf or event.at <= self._newest[model]
            if count:
                owners.append(model)
                parts.append(windows.rows_of(event.start))
                lines.append((event, following - 1, count, complete))
            if complete:
                windows.close(event.start)
        found = window_mismatches(self._work.spec, models.block, np.array(owners, np.int64), parts)
        for model, (event, last, count, complete), mismatch in zip(
            owners, lines, found, strict=True
        ):
            line = Measured(measure.kind, event.start, event.at, last, count, mismatch, complete)
            self._found.measured[model].append(line)

    @cached_property
    def _newest(self) -> list[int]:
        """The greatest time that each model has shown; `NO_TIME` if none."""
        ran = self._stops > self._starts
        if self._shown is None or not ran.any():
            newest = self._models.time
        else:
            newest = np.where(ran, self._shown[self._stops - 1], self._models.time)
        times: list[int] = newest.tolist()
        return times

    def _write(self, due: list[_Due]) -> None:
        """Write models as they are at a boundary."""
        models = self._models
        for model, stop, event in due:
            models.until[model] = event.at
            start = int(self._starts[model])
            if self._windows and models.open is not None:
                models.open[model] = self._windows[model].state()
            if models.last_values is not None and stop > start:
                span = np.zeros(1, np.int64), np.full(1, stop - start)
                _, last_values = self._filled(slice(start, stop), *span, model)
                if last_values is not None:
                    self._hold(slice(model, model + 1), last_values)
        if due:
            keys = [models.keys[each.model] for each in due]
            now = Models.of(self._work, keys, [models.model(each.model) for each in due])
            states = states_of(now, final=False)
            for place, each in enumerate(due):
                self._found.snapshots[each.model].append(states.encoded(place))

    def _hold(self, models: slice | BoolArray, last_values: LastValues) -> None:
        """Let models hold what their rows have shown last."""
        if self._models.last_values is not None:
            for column, part in zip(self._models.last_values, last_values, strict=True):
                column[models] = part
            self._models.filled[models] = True

    # ---- the end ----

    def end(self) -> Results:
        """Return what came out, once all rounds have run."""
        models, found = self._models, self._found
        if self._values_after is not None:
            ran = self._stops > self._starts
            values, times = self._values_after
            self._hold(ran, LastValues(values[ran], times[ran]))
        if models.open is not None:
            models.open = [windows.state() for windows in self._windows]
        self._judging.end(self._until, found)
        if np.count_nonzero(models.before):
            _move_on(found, models.before, self._stops - self._starts)
        return found


def _move_on(found: Results, before: IntArray, lengths: IntArray) -> None:
    """Add to every index the rows before the tracker's first."""
    found.features.index[...] += np.repeat(before, lengths)
    for name, moved in _MOVED.items():
        lines = getattr(found, name)
        for model in lines:
            lines[model] = [moved(line, int(before[model])) for line in lines[model]]


_MOVED: Mapping[str, Callable[[Any, int], Any]] = {
    "measured": lambda line, rows: line._replace(last=line.last + rows),
    "alerts": lambda line, rows: line._replace(row=line.row + rows),
    "episodes": lambda line, rows: line.moved(rows),
    "devices": lambda line, rows: line.moved(rows),
}
"""How a line of results goes on from rows before the tracker's first."""
