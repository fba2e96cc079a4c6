"""Ordered rows of one model, run through it in segments.

Segments are divided where an event-time window ends and where a snapshot is due, so that what is
measured or written then has seen the rows before it and no others.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.fleet.devices import Device, changes
from kerneltrack.fleet.forward_fill import hold_last
from kerneltrack.fleet.model import NEVER, Model, Work, encode
from kerneltrack.fleet.windows import MOVING, Measured
from kerneltrack.monitor import drift, reference
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.mismatch import Mismatch, window_mismatch
from kerneltrack.monitor.moving import MovingMismatch
from kerneltrack.monitor.reference import Episode, Scores
from kerneltrack.registry import get_tracker
from kerneltrack.trackers.common.features import Features

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


class Event(NamedTuple):
    """Something that happens between two rows.

    Attributes:
        place: Before the row at this place.
        at: Event time, ns.
        start: Start of the window that ends here; None: a snapshot is due.
    """

    place: int
    at: int
    start: int | None


class Alert(NamedTuple):
    """A change of the loss's regime; see `kerneltrack.monitor.drift`."""

    row: int
    time: int | None
    before: float
    after: float


@dataclasses.dataclass
class Outcome:
    """What rows gave.

    Attributes:
        features: Features by segment.
        filled: The segments' rows, missing values filled.
        measured: Windows that were measured.
        alerts: Changes of the loss.
        scores: What the reference says of each segment's valid rows, if there is one.
        episodes: Episodes that were opened or closed.
        devices: What is known of the device, a line for each change.
        snapshots: The model's bytes at the boundaries that were passed.
    """

    features: list[Features] = dataclasses.field(default_factory=list)
    filled: list[npt.NDArray[Any]] = dataclasses.field(default_factory=list)
    measured: list[Measured] = dataclasses.field(default_factory=list)
    alerts: list[Alert] = dataclasses.field(default_factory=list)
    scores: list[Scores] = dataclasses.field(default_factory=list)
    episodes: list[Episode] = dataclasses.field(default_factory=list)
    devices: list[Device] = dataclasses.field(default_factory=list)
    snapshots: list[bytes] = dataclasses.field(default_factory=list)

    def move_on(self, rows: int) -> None:
        """Add so many rows to every index: those before the tracker's first."""
        for features in self.features:
            features.index[...] += rows
        self.measured = [line._replace(last=line.last + rows) for line in self.measured]
        self.alerts = [alert._replace(row=alert.row + rows) for alert in self.alerts]
        self.episodes = [episode.moved(rows) for episode in self.episodes]
        self.devices = [device.moved(rows) for device in self.devices]


class _Segment(NamedTuple):
    """Rows that no event divides.

    Attributes:
        rows: (n, D).
        times: (n,) ns, None without times.
        clock: (n,) greatest time up to each row that tells the time.
        opened: (w, 2) start of each window that begins to hold rows here, place of its first row.
    """

    rows: npt.NDArray[Any]
    times: IntArray | None
    clock: IntArray | None
    opened: IntArray


def run_rows(
    work: Work,
    key: str,
    model: Model,
    rows: npt.NDArray[Any],
    times: IntArray | None,
    until: float,
) -> tuple[Model, Outcome]:
    """Run ordered rows through a model.

    Args:
        work: What to do.
        key: The model's ID.
        model: Its state; not written to.
        rows: (n, D), missing values not yet filled; n may be 0.
        times: (n,) ns, None without times. Rows that came in order of arrival count as of the
            newest time so far.
        until: All rows before this time have come: windows up to it close, and a snapshot is due
            at a boundary up to it. Infinity at the end of the input, which measures all windows;
            those that end later stay open for rows of another job.

    Returns:
        The state after the rows and what came out. The same, whatever calls the rows came in.
    """
    outcome = Outcome()
    tells = _tells_time(work, model, rows, times)
    clock = None if times is None else _clock_of(model, tells, times)
    # A row that no model can take says, as any other, that all rows before it have come.
    shown = np.zeros(0, np.int64) if times is None else _never_back(times, model.time)
    told = shown[:0] if clock is None else clock[tells]
    newest = int(shown[-1]) if len(shown) else model.time
    opened = _opened(work, model, told, np.flatnonzero(tells))
    start = 0
    for event in _events(work, model, opened[:, 0], told, shown, until):
        if event.place > start:
            segment = _cut(rows, times, clock, opened, start, event.place)
            model = _run_segment(work, model, segment, outcome)
            start = event.place
        if event.start is None:
            model = model._replace(until=event.at)
            outcome.snapshots.append(encode(work, key, model))
        else:
            complete = until < math.inf or (newest is not None and event.at <= newest)
            model = _close(work, model, event, complete, outcome)
    if start < len(rows):
        segment = _cut(rows, times, clock, opened, start, len(rows))
        model = _run_segment(work, model, segment, outcome)
    if until == math.inf and work.reference is not None and model.reference is not None:
        last = reference.open_episode(work.reference, model.reference)
        if last is not None:
            seen = int(model.reference.tables.counts[reference.SEEN])
            outcome.episodes.append(last.moved(model.seen - seen))
    if model.before:
        outcome.move_on(model.before)
    return model, outcome


def _cut(
    rows: npt.NDArray[Any],
    times: IntArray | None,
    clock: IntArray | None,
    opened: IntArray,
    start: int,
    stop: int,
) -> _Segment:
    here = opened[(opened[:, 1] >= start) & (opened[:, 1] < stop)]
    here[:, 1] -= start
    return _Segment(
        rows[start:stop],
        None if times is None else times[start:stop],
        None if clock is None else clock[start:stop],
        here,
    )


def _clock_of(model: Model, tells: npt.NDArray[np.bool_], times: IntArray) -> IntArray:
    """Return the greatest time up to each row; rows that no model can take move it nowhere."""
    if not tells.all() and (model.time is not None or tells.any()):
        known = times[np.argmax(tells)] if model.time is None else model.time
        times = np.where(tells, times, known)
    return _never_back(times, model.time)


def _tells_time(
    work: Work, model: Model, rows: npt.NDArray[Any], times: IntArray | None
) -> npt.NDArray[np.bool_]:
    """Return which rows are whole, missing values held if that is asked for."""
    if work.hold is not None:
        times = np.zeros(len(rows), np.int64) if times is None else times
        rows, _ = hold_last(rows, times, model.held, work.hold)
    tells: npt.NDArray[np.bool_] = np.isfinite(rows).all(axis=1)
    return tells


def _never_back(times: IntArray, before: int | None) -> IntArray:
    clock: IntArray = np.maximum.accumulate(times)
    if before is not None:
        np.maximum(clock, before, out=clock)
    return clock


def _opened(work: Work, model: Model, told: IntArray, places: IntArray) -> IntArray:
    """Return start and first row's place, (w, 2), of the windows that begin to hold rows.

    `told`: clock at the rows that tell the time, which are at `places`.
    """
    if model.open is None or work.measure is None or not len(told):
        return np.zeros((0, 2), np.int64)
    starts = work.measure.starts(told)
    starts = starts[~np.isin(starts, model.open.windows[:, 0])]
    return np.column_stack([starts, places[np.searchsorted(told, starts)]])


def _events(
    work: Work, model: Model, opened: IntArray, told: IntArray, shown: IntArray, until: float
) -> list[Event]:
    """Return the windows' ends up to `until` and the boundaries that are passed, in order.

    Args:
        work: What to do.
        model: Before the rows.
        opened: Starts of the windows that begin to hold rows.
        told: Clock at the rows that tell the time.
        shown: (n,) greatest time up to each row, whether it tells the time or not.
        until: See `run_rows`.
    """
    events: list[Event] = []
    # A row at or after an end says that no row before it is to come.
    until = max(until, shown[-1]) if len(shown) else until
    if model.open is not None and work.measure is not None:
        starts = np.union1d(model.open.windows[:, 0], opened)
        ends = starts + work.measure.length
        places = np.searchsorted(shown, ends)
        for start, end, place in zip(starts, ends, places, strict=True):
            if end <= until:
                events.append(Event(int(place), int(end), int(start)))
    if work.every is not None:
        events += _boundaries(work.every, model, told, shown, until)
    # A snapshot comes after the windows that end at its boundary.
    return sorted(events, key=lambda event: (event.at, event.start is None))


def _boundaries(
    every: int, model: Model, told: IntArray, shown: IntArray, until: float
) -> list[Event]:
    """Return the boundaries that are passed: after each row that tells the time the first, if any.

    A row that waits passes one too, if all rows before it have come: a window that ends between
    the two must not close first. So does a row that no model can take.
    """
    known = told if model.time is None else np.concatenate([[model.time], told])
    if not len(known):
        return []
    if until == math.inf:
        until = shown[-1] if len(shown) else -math.inf
    spans = known // every
    # The one after the last row may still be to come.
    passed = np.append(np.diff(spans) > 0, (spans[-1] + 1) * every <= until)
    ends = (spans[passed] + 1) * every
    if model.until is not None:
        ends = ends[ends > model.until]
    places = np.searchsorted(shown, ends)
    return [Event(int(p), int(end), None) for p, end in zip(places, ends, strict=True)]


def next_event(work: Work, model: Model) -> int:
    """Return the time, ns, at which a window ends or a snapshot is due, whether rows come or not.

    `NEVER` if there is none.
    """
    times = [NEVER]
    if model.open is not None and work.measure is not None and len(model.open.windows):
        times.append(model.open.next_end(work.measure))
    if work.every is not None and model.time is not None and model.until is not None:
        boundary = (model.time // work.every + 1) * work.every
        if boundary > model.until:
            times.append(boundary)
    return min(times)


def _run_segment(work: Work, model: Model, segment: _Segment, outcome: Outcome) -> Model:
    """Run rows that no event divides through the tracker and what works along with it."""
    rows, held, before = segment.rows, model.held, model.seen
    if work.hold is not None:
        times = np.zeros(len(rows), np.int64) if segment.times is None else segment.times
        rows, held = hold_last(rows, times, held, work.hold)
    model, features, sliding = _track(work, model, rows, segment.clock)
    outcome.features.append(features)
    outcome.filled.append(rows)
    good = np.flatnonzero(features.valid)
    index = features.index[good]
    clock = segment.clock
    stamps = None if clock is None else clock[good]
    model = model._replace(held=held)
    if clock is not None and (model.time is not None or np.isfinite(rows).all(axis=1).any()):
        time = int(clock[-1])
        # A row that no model can take may come after a boundary that is later than the clock.
        model = model._replace(
            time=time, until=time if model.until is None else max(time, model.until)
        )
    if sliding is not None:
        model = _note_moving(work, model, sliding, features, stamps, outcome)
    if model.open is not None and work.measure is not None:
        valid = np.concatenate([[0], np.cumsum(features.valid)])
        opened = segment.opened.copy()
        opened[:, 1] = before + valid[opened[:, 1]]
        taken = model.open.take_in(work.measure, opened, rows[good], index)
        model = model._replace(open=taken)
    if work.drift is not None:
        model = _watch(work.drift, model, features.loss[good], index, stamps, outcome)
    if work.reference is not None:
        model = _refer(work, model, rows[good], before, stamps, outcome)
    return model


def _track(
    work: Work, model: Model, rows: npt.NDArray[Any], clock: IntArray | None
) -> tuple[Model, Features, MovingMismatch | None]:
    """Run rows through the tracker, and the moving window if there is one."""
    window, tracker = work.window, get_tracker(work.spec.tracker)
    if work.frozen:
        features = tracker.project(work.spec, model.state, rows, work.extras)
        valid = np.cumsum(features.valid)
        features = dataclasses.replace(features, index=model.seen + valid - features.valid)
        return model._replace(projected=model.projected + int(features.valid.sum())), features, None
    if window is None or model.moving is None:
        state, features = tracker.update(work.spec, model.state, rows, work.extras, clock)
        return model._replace(state=state), features, None
    spec: Any = work.spec
    state, moving, features, sliding = window.update(
        spec, model.state, model.moving, rows, work.extras, clock
    )
    return model._replace(state=state, moving=moving), features, sliding


def _refer(
    work: Work,
    model: Model,
    rows: FloatArray,
    before: int,
    stamps: IntArray | None,
    outcome: Outcome,
) -> Model:
    """Hold rows against the reference; `before`: the tracker's index of the first."""
    if work.reference is None or model.reference is None:
        return model
    # It may have begun later than the tracker, with a snapshot of that.
    later = before - int(model.reference.tables.counts[reference.SEEN])
    after, scores, episodes = reference.update(
        work.reference, model.reference, rows, stamps, learn=not work.frozen
    )
    outcome.scores.append(scores)
    outcome.episodes += [episode.moved(later) for episode in episodes]
    if work.devices:
        told = changes(
            *(work.reference, model.reference, rows, scores.p, episodes, stamps),
            learn=not work.frozen,
        )
        outcome.devices += [device.moved(later) for device in told]
    return model._replace(reference=after)


def _watch(
    spec: DriftSpec,
    model: Model,
    losses: FloatArray,
    index: IntArray,
    stamps: IntArray | None,
    outcome: Outcome,
) -> Model:
    """Compare the losses with those before; note what has changed."""
    after, found = drift.update(spec, model.drift, losses, index)
    for place, row, low, high in zip(
        found.position, found.index, found.before, found.after, strict=True
    ):
        stamp = None if stamps is None else int(stamps[place])
        outcome.alerts.append(Alert(int(row), stamp, float(low), float(high)))
    return model._replace(drift=after)


def _note_moving(
    work: Work,
    model: Model,
    sliding: MovingMismatch,
    features: Features,
    stamps: IntArray | None,
    outcome: Outcome,
) -> Model:
    """Record the moving window's value after each row at which the window was full."""
    length = work.window.length if work.window else 0
    full = np.flatnonzero(features.valid & ~np.isnan(sliding.value))
    times: list[int | None] = [None] * (len(full) + length - 1)
    if stamps is not None:
        known = np.concatenate([model.moving_times, stamps])
        model = model._replace(moving_times=known[max(len(known) - length + 1, 0) :])
        # The window may hold rows of an earlier job, which had no times.
        times = [*times, *known.tolist()][len(known) :]
    for place, at in enumerate(full.tolist()):
        found = Mismatch(
            length,
            float(sliding.value[at]),
            float(sliding.residual[at]),
            float(sliding.kappa[at]),
        )
        row = int(features.index[at])
        oldest, newest = times[place], times[place + length - 1]
        outcome.measured.append(Measured(MOVING, oldest, newest, row, length, found, True))
    return model


def _close(work: Work, model: Model, event: Event, complete: bool, outcome: Outcome) -> Model:
    """Measure a window at its end, or at that of the input, under the subspace as it is then."""
    if model.open is None or work.measure is None:
        return model
    line = model.open.windows[model.open.windows[:, 0] == event.start][0]
    next_row = model.seen
    count = next_row - int(line[1])
    if count:
        found = window_mismatch(work.spec, model.state, model.open.rows_of(line))
        kind = work.measure.kind
        outcome.measured.append(
            Measured(kind, event.start, event.at, next_row - 1, count, found, complete)
        )
    if not complete:
        return model
    return model._replace(open=model.open.without(line[:1], work.measure))
