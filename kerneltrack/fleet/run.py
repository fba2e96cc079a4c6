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
from kerneltrack.fleet.conditions import idle_rows, without_unseen
from kerneltrack.fleet.devices import PassedBy, changes, judged, may_begin, may_last, reopened
from kerneltrack.fleet.events import Event, Passed, boundaries, opened_by, window_ends
from kerneltrack.fleet.forward_fill import LastValues, hold_each
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.models import Models, time_of
from kerneltrack.fleet.modes import modes_of, with_modes, without_modes
from kerneltrack.fleet.moving_times import lines_of_moving
from kerneltrack.fleet.open_windows import OwnRows, WindowsOnTheWay, windows_of
from kerneltrack.fleet.references import Referred, refer_each
from kerneltrack.fleet.results import Alert, Results
from kerneltrack.fleet.states import states_of
from kerneltrack.fleet.windows import Measured
from kerneltrack.monitor.drift import block as detectors
from kerneltrack.monitor.mismatch import window_mismatches
from kerneltrack.monitor.moving import no_mismatch
from kerneltrack.monitor.reference import SEEN, Episode, ReferenceState, Scores
from kerneltrack.monitor.reference import block as references
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


class _Valid(NamedTuple):
    """The rows of a round that the trackers took.

    Attributes:
        which: (k,) places of the models that have rows in it.
        rows: (n, D).
        starts: (k,) place of each one's first row among them.
        stops: (k,) place after its last.
        places: (n,) of each row among all; None if these are all rows there are.
        stamps: (n,) ns; None without times.
    """

    which: IntArray
    rows: FloatArray
    starts: IntArray
    stops: IntArray
    places: IntArray | None
    stamps: IntArray | None

    def of(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return these rows' part of a column of all rows."""
        return column if self.places is None else column[self.places]

    def each(self) -> Iterator[tuple[int, slice]]:
        """Return the models, and where their rows lie among these."""
        for model, start, stop in zip(
            self.which.tolist(), self.starts.tolist(), self.stops.tolist(), strict=True
        ):
            yield model, slice(start, stop)


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
        # Nothing but references knows of conditions and modes.
        self._idle = idle_rows(self._work.reference, self._rows)
        self._rows = without_unseen(self._work.reference, self._rows)
        self._modes = modes_of(self._work.reference, self._rows)
        self._rows = without_modes(self._work.reference, self._rows)
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
        valid = self._valid(which, starts, stops)
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
        self._refer(valid, before)

    def _valid(self, which: IntArray, starts: IntArray, stops: IntArray) -> _Valid:
        """Return the rows of pieces that the trackers took."""
        lengths = stops - starts
        if np.add.reduce(lengths) == len(self._rows) and all_of(self._out.valid):
            return _Valid(which, self._rows, starts, stops, None, self._clock)
        ends = np.cumsum(lengths)
        places = np.arange(int(ends[-1])) + np.repeat(starts - ends + lengths, lengths)
        good = self._out.valid[places]
        many = np.add.reduceat(good.astype(np.int64), ends - lengths)
        places, ends = places[good], np.cumsum(many)
        stamps = None if self._clock is None else self._clock[places]
        return _Valid(which, self._rows[places], ends - many, ends, places, stamps)

    def _number(self, valid: _Valid, before: IntArray) -> None:
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

    def _note_moving(self, valid: _Valid) -> None:
        """Record the moving window's value after each row at which the window was full."""
        length = self._work.window.length if self._work.window else 0
        values = [valid.of(column) for column in self._sliding or ()]
        index = valid.of(self._out.number)
        for model, own in valid.each():
            stamps = None if valid.stamps is None else valid.stamps[own]
            known = self._models.moving_times[model]
            lines, after = lines_of_moving(
                length, [column[own] for column in values], index[own], known, stamps
            )
            self._models.moving_times[model] = after
            if lines:
                self._found.measured[model] += lines

    def _watch(self, valid: _Valid) -> None:
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

    def _refer(self, valid: _Valid, before: IntArray) -> None:
        """Hold rows against references; `before`: each tracker's index of the first."""
        spec, models = self._work.reference, self._models
        if spec is None or models.reference is None:
            return
        counts = references.counts_of(spec, models.width, models.reference)[valid.which]
        heads: dict[int, ReferenceState] = {}
        last = np.zeros(0, np.bool_)
        rows = valid.rows
        if self._modes is not None:
            rows = with_modes(spec, rows, valid.of(self._modes))
        unplaced = references.unplaced_rows(spec, models.width, models.reference)
        learned = references.learned_episodes(spec, models.width, models.reference)
        if self._work.devices or self._work.mutes:
            lasts = valid.which[may_last(counts, valid.stops - valid.starts)]
            known = ((model, models.reference_of(model)) for model in lasts.tolist())
            last = references.passed_last_each(spec, models.width, models.reference)
            heads = {model: _copied(state) for model, state in known if state is not None}
        # It may have begun later than the tracker, with a snapshot of that.
        later = before - counts[:, SEEN]
        idle = None if self._idle is None else valid.of(self._idle)
        if idle is not None:
            self._found.idle += int(np.count_nonzero(idle))
        found = refer_each(models, valid.which, rows, valid.starts, valid.stops, valid.stamps, idle)
        more = references.unplaced_rows(spec, models.width, models.reference)
        self._found.without_mode += more - unplaced
        more = references.learned_episodes(spec, models.width, models.reference)
        self._found.false_learned += more - learned
        if valid.places is None:
            self._found.scores = found.scores
        else:
            for column, part in zip(self._scores.columns, found.scores.columns, strict=True):
                column[valid.places] = part
        shift = dict(zip(valid.which.tolist(), later.tolist(), strict=True))
        again = self._reopened(valid, rows, heads, counts, found)
        told = found.episodes
        if self._work.mutes:
            # What is muted may count later on.
            told = _in_order(found.episodes, again)
        self._tell_episodes(told, shift)
        if not self._work.devices:
            return
        begins = may_begin(spec, counts, found.scores.p, valid.starts, valid.stops)
        passed = self._passed_by(valid, last[valid.which], found.quiet)
        for place, (model, own) in enumerate(valid.each()):
            changed = begins[place] or model in heads or model in found.episodes
            if not (changed or place in passed):
                continue
            head = heads.get(model) or models.reference_of(model)
            if head is None:
                continue
            lines = changes(
                *(spec, _with_counts(head, counts[place]), found.scores.p[own]),
                *(found.episodes.get(model, []), again.get(model, [])),
                None if valid.stamps is None else valid.stamps[own],
                passed=passed.get(place),
            )
            key = models.keys[model]
            lines = [judged(self._work, key, device.moved(shift[model])) for device in lines]
            self._found.devices[model] += lines

    def _tell_episodes(
        self, episodes: Mapping[int, Sequence[Episode]], shift: Mapping[int, int]
    ) -> None:
        """Note episodes as they are to be told; `shift`: rows before each reference's first."""
        work, keys = self._work, self._models.keys
        for model, own in episodes.items():
            moved = [each.moved(shift[model]) for each in own]
            if work.mutes:
                moved = [work.judged(keys[model], each) for each in moved]
            self._found.episodes[model] += moved

    def _reopened(
        self,
        valid: _Valid,
        rows: FloatArray,
        heads: Mapping[int, ReferenceState],
        counts: IntArray,
        found: Referred,
    ) -> dict[int, list[Episode]]:
        """Return episodes as they are once they have been open for a while, by the models' places.

        Args:
            valid: The rows.
            rows: (n, D) the rows as references take them.
            heads: References before the rows, of the models that may have such episodes.
            counts: (k, c) the references' counts before the rows.
            found: What references say of the rows.
        """
        spec = self._work.reference
        if spec is None or not heads:
            return {}
        again = {}
        for place, (model, own) in enumerate(valid.each()):
            if model in heads:
                quiet = np.zeros(own.stop - own.start, np.bool_)
                episodes = reopened(
                    *(spec, _with_counts(heads[model], counts[place]), rows[own]),
                    found.episodes.get(model, []),
                    None if valid.stamps is None else valid.stamps[own],
                    learn=not self._work.frozen,
                    quiet=quiet if found.quiet is None else found.quiet[own],
                    said=self._work.said_of(self._models.keys[model]),
                )
                if episodes:
                    again[model] = episodes
        return again

    def _passed_by(
        self, valid: _Valid, last: BoolArray, quiet: BoolArray | None
    ) -> dict[int, PassedBy]:
        """Return which rows passed references by, of the places that have some, or came from some.

        Args:
            valid: The rows.
            last: (k,) whether each model's row before them did.
            quiet: (n,) which are of quiet times; None: none is.
        """
        if quiet is None and not last.any():
            return {}
        passed = np.zeros(len(valid.rows), np.bool_) if quiet is None else quiet
        return {
            place: PassedBy(passed[own], bool(last[place]))
            for place, (_, own) in enumerate(valid.each())
            if last[place] or passed[own].any()
        }

    @property
    def _scores(self) -> Scores:
        """What references say of all rows, NaN where nothing is said yet."""
        if self._found.scores is None:
            self._found.scores = Scores.none(len(self._rows))
        return self._found.scores

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
        if self._work.reference is not None:
            found.scores = self._scores
        if self._values_after is not None:
            ran = self._stops > self._starts
            values, times = self._values_after
            self._hold(ran, LastValues(values[ran], times[ran]))
        if models.open is not None:
            models.open = [windows.state() for windows in self._windows]
        self._tell_open_episodes()
        if np.count_nonzero(models.before):
            _move_on(found, models.before, self._stops - self._starts)
        return found

    def _tell_open_episodes(self) -> None:
        """Tell of episodes that are open at the end of the input."""
        spec, models = self._work.reference, self._models
        if spec is None or models.reference is None or math.inf not in self._until:
            return
        seen = references.counts_of(spec, models.width, models.reference)[:, SEEN]
        later = models.seen - seen
        still = references.open_episodes(spec, models.width, models.reference)
        ends = {
            model: [episode]
            for model, episode in still.items()
            if self._until[model] == math.inf and models.referred[model]
        }
        self._tell_episodes(ends, dict(enumerate(later.tolist())))


def all_of(flags: BoolArray) -> bool:
    """Return whether all flags are set: `flags.all()`, which costs more where they are few."""
    return int(np.count_nonzero(flags)) == flags.size


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


def _copied(state: ReferenceState) -> ReferenceState:
    return ReferenceState(copied(state.tables), copied(state.kernel))


def _in_order(
    episodes: Mapping[int, list[Episode]], again: Mapping[int, list[Episode]]
) -> dict[int, list[Episode]]:
    """Return the lines of episodes, and those of open ones, each model's in order."""
    both = {model: [*own, *again.get(model, ())] for model, own in episodes.items()}
    both |= {model: own for model, own in again.items() if model not in both}
    return {model: sorted(own, key=lambda each: each.row) for model, own in both.items()}


def _with_counts(state: ReferenceState, counts: IntArray) -> ReferenceState:
    return state._replace(tables=state.tables._replace(counts=counts))
