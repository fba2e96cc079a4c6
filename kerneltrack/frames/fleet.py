"""A fleet in memory: a model for each device, on data frames."""

from __future__ import annotations

import dataclasses
import html
import math
import threading
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import tzinfo
from numbers import Integral
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.fleet.conditions import without_unseen
from kerneltrack.fleet.model import Work
from kerneltrack.frames import folder as saved
from kerneltrack.frames import model as steps
from kerneltrack.frames.arrivals import Arrivals, Arriving
from kerneltrack.frames.doubts import doubts
from kerneltrack.frames.episodes import FleetEpisode, channel_names, columns_of, id_name, latest
from kerneltrack.frames.kept import MAX_JUMP, KeptFleet, read_columns
from kerneltrack.frames.model import DeviceModel, RowResults, Specs
from kerneltrack.frames.output import (
    EARLIER,
    UNKNOWN,
    Output,
    by_model,
    warn_of_refused,
)
from kerneltrack.frames.people import People
from kerneltrack.frames.plot import Clock, Plot, ShadedSpan, draw, draw_device, when
from kerneltrack.frames.reading import Asked, FrameReading, KnownModels, ReadFrame
from kerneltrack.frames.table import (
    Frame,
    FrameColumns,
    FrameForm,
    TableRows,
    form_of,
    index_name,
    library_and_zone,
    like_of,
    make_frame,
)
from kerneltrack.frames.taken_rows import TakenRows, of_frame, ordered, side_by_side
from kerneltrack.jump_limits import JUMP_ROWS, MOST_JUMP_ROWS
from kerneltrack.learners import LearnerSpec
from kerneltrack.learners.common.usual import with_inputs
from kerneltrack.monitor.clocks import is_zone
from kerneltrack.monitor.reference import LEARNINGS, Episode, ReferenceSpec
from kerneltrack.registry import TRACKERS, get_tracker, parse_learner_spec, parse_spec
from kerneltrack.settings import Range, check_int, check_number
from kerneltrack.snapshots.folder import SnapshotFolder, snapshots_in
from kerneltrack.specs import check_names, spec_from_dict
from kerneltrack.trackers.common.spec import SubspaceSpec

MOST_SHOWN = 10
"""Episodes that a summary shows."""


class Fleet:
    """A model for each device of a fleet: features, surprises, episodes and predictions.

    It does on data frames in memory what `kerneltrack track` does on files, with the same results,
    bit for bit; `save` and `load` exchange snapshots with it.

    A call of `update` is like a job: the rows of each model are taken in the order of their times,
    a new model takes its scale and bandwidth from its first rows (the tracker's `warmup`, 500, or
    as many as the call has), and rows before the newest that a model has learned from are refused.
    With `wait=True` a new model begins only when as many rows are there: then results are the same
    however the rows are cut into calls. Columns, units and waiting that are set in the first call
    hold for all later calls, also after `save` and `load`, as does whether times have a zone. A row
    that comes again is refused.

    Threads may share a fleet: calls run one after the other, in any order.

    Args:
        tracker: Name of a tracker, or its spec.
        learner: Name of a learner, whose settings are then those of a job, or its spec; None: no
            labels are learned.
        reference: What rows are compared with to find episodes: "first" (the model's first rows),
            "gated" (and those that came after and were not odd), "auto" (its last weeks, by the
            hour of the day), a spec, or None.
        only_while: Rows are judged while this condition on columns holds, such as
            `"state == 'run' and rpm > 200"`; others, and those that lack one of its columns, are
            tracked, but not compared with the reference, nor learned by it.
        rules: Which episodes count, by the channels that explain them: a list of dicts with
            "channel", "direction" ("up" or "down": it counts only on that side of what is usual),
            "least_deviation" (only from this distance on, in its own unit), and "device" (all
            without it). They are not saved.
        feedback: Answers of people to episodes: later ones like those marked as false are muted,
            and a reference "auto" takes their rows as normal. The lines of a file of `kerneltrack
            feedback`, as `csv.DictReader` gives them. It needs times, and is not saved.
        max_jump: Seconds that a row may be ahead of the newest one of its model. Rows further ahead
            wait until `jump_rows` of them agree; the model goes on there then. Rows that a later
            one shows to come from a wrong clock are left out. By default about three years, so
            that a row of 2099 blocks no model; `math.inf`: each row is believed.
        jump_rows: Rows, each within `max_jump` of the next, that confirm such a jump.
        settings: Settings of the tracker, where that is a name: `rank=10, budget=20`.

    Raises:
        ConfigError: naming the setting that is unknown or out of range.

    Example:
        >>> import pyarrow as pa
        >>> values = np.random.default_rng(0).normal(size=(2, 1000, 3))
        >>> values[1, 700:, 2] += 4
        >>> a, b, c = values.reshape(-1, 3).T
        >>> rows = pa.table({"pump": ["a"] * 1000 + ["b"] * 1000, "flow": a, "heat": b, "oil": c})
        >>> fleet = Fleet(rank=5)
        >>> features = fleet.update(rows, model_id="pump")
        >>> features.num_rows, features.column_names[:4]
        (2000, ['pump', 'index', 'loss', 'novelty'])
        >>> off = fleet.episodes.to_pylist()
        >>> [(line["pump"], line["state"], line["channels"][:3]) for line in off]
        [('b', 'open', 'oil')]
        >>> abs(off[0]["start_index"] - 700) < 10
        True
    """

    def __init__(
        self,
        tracker: str | SubspaceSpec = "okfeb",
        *,
        learner: str | LearnerSpec | None = None,
        reference: str | ReferenceSpec | None = "first",
        only_while: str | None = None,
        rules: Sequence[Mapping[str, Any]] | None = None,
        feedback: Sequence[Mapping[str, Any]] | None = None,
        max_jump: float = MAX_JUMP,
        jump_rows: int = JUMP_ROWS,
        **settings: Any,
    ) -> None:
        _check_settings(settings)
        if isinstance(tracker, str):
            if tracker in TRACKERS:
                check_names(get_tracker(tracker).spec_type, settings)
            tracker = parse_spec({"tracker": tracker, **settings})
        elif settings:
            allowed = "left out where `tracker` is a spec"
            raise ConfigError("settings", ", ".join(settings), allowed)
        if isinstance(learner, str):
            learner = parse_learner_spec({"learner": learner})
        if isinstance(reference, str) and reference not in LEARNINGS:
            allowed = f"one of {', '.join(LEARNINGS)}, a ReferenceSpec, or None"
            raise ConfigError("reference", reference, allowed)
        if isinstance(reference, str):
            reference = spec_from_dict(ReferenceSpec, {"learning": reference})
        _check_spec("tracker", tracker, SubspaceSpec)
        _check_spec("learner", learner, LearnerSpec)
        _check_spec("reference", reference, ReferenceSpec)
        if only_while is not None:
            if reference is None:
                raise ConfigError("only_while", only_while, "left out without a reference")
            reference = dataclasses.replace(reference, only_while=only_while)
        for name, known in (("rules", rules), ("feedback", feedback)):
            if known is not None and reference is None:
                raise ConfigError(name, known, "left out without a reference")
        if learner is not None:
            learner = with_inputs(learner, tracker)
        self._specs = Specs(tracker, learner, reference)
        check_int("jump_rows", jump_rows, 1, MOST_JUMP_ROWS)
        max_jump = check_number("max_jump", max_jump, Range(0, math.inf))
        self._arrivals = Arrivals(max_jump, jump_rows)
        self._people = People(rules, feedback)
        self._reading = FrameReading()
        self._refused = 0
        self._only = ""
        self._lock = threading.RLock()
        self._models: dict[str, DeviceModel] = {}
        self._episodes: dict[tuple[str, int], Episode] = {}
        self._spans: dict[str, ShadedSpan] = {}
        self._like: FrameForm | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the lock."""
        with self._lock:
            return {**self.__dict__, "_lock": None}

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Make a new lock."""
        self.__dict__.update(values)
        self._lock = threading.RLock()

    # What is asked for.

    @property
    def columns(self) -> FrameColumns | None:
        """What the columns of the frames are; None before the first frame."""
        return self._reading.columns

    @property
    def tracker(self) -> SubspaceSpec:
        """Settings of the trackers."""
        return self._specs.tracker

    @property
    def learner(self) -> LearnerSpec | None:
        """Settings of the learners."""
        return self._specs.learner

    @property
    def reference(self) -> ReferenceSpec | None:
        """Settings of the reference that rows are compared with."""
        return self._specs.reference

    def __len__(self) -> int:
        """Return how many models there are."""
        return len(self._models)

    def __iter__(self) -> Iterator[str]:
        """Return the models' ids, in the order of their first rows."""
        return iter(self._models)

    def __contains__(self, model_id: object) -> bool:
        """Check whether there is a model of this id."""
        return str(model_id) in self._models

    def __repr__(self) -> str:
        """Return what there is in a line."""
        return f"<Fleet: {self._summary()}>"

    def _summary(self) -> str:
        rows = sum(model.rows for model in self._models.values())
        off = len({key for key, each in self._latest() if not (each.closed or each.muted)})
        devices = len(self._models)
        parts = [f"{devices:,} device{'s' * (devices != 1)}", f"{rows:,} rows"]
        if self._refused:
            parts.append(f"{self._refused:,} refused")
        if waiting := len(self._arrivals.waiting):
            parts.append(f"{waiting:,} waiting to begin")
        if self._specs.reference is not None:
            parts.append(f"{off:,} off")
        if self._specs.learner is not None and self.accuracy is not None:
            classifies = self._specs.learner.classifies
            shown = f"{self.accuracy:.1%} correct" if classifies else f"RMSE {self.accuracy:.4g}"
            parts.append(shown)
        return ", ".join([*parts, f"tracker {self._specs.tracker.tracker}"])

    def _repr_html_(self) -> str:
        """Return the summary and the worst episodes, for notebooks."""
        lines = self._lines()
        head = f"<p><b>Fleet</b>: {html.escape(self._summary())}</p>"
        if not len(lines["state"]):
            return head
        names = [name for name in ("kind", "channels", "state", "severity") if name in lines]
        since = np.asarray(lines["start" if self._timed else "start_index"]).astype(np.int64)
        cells = []
        for place in range(min(MOST_SHOWN, len(lines["state"]))):
            values = [lines[name][place] for name in (id_name(self.columns), *names)]
            shown = [f"{v:.1f}" if isinstance(v, float) else str(v) for v in values]
            shown.insert(1, when(int(since[place]), self._clock))
            cells.append("".join(f"<td>{html.escape(value)}</td>" for value in shown))
        titles = "".join(f"<th>{html.escape(name)}</th>" for name in ("device", "since", *names))
        rows = "".join(f"<tr>{line}</tr>" for line in cells)
        return f"{head}<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>"

    # Rows in.

    def update(  # noqa: PLR0913 - a column each
        self,
        df: Any,
        *,
        model_id: Any = None,
        time: Any = None,
        label: Any = None,
        features: Sequence[Any] | None = None,
        time_unit: str | None = None,
        metric: Any = None,
        value: Any = None,
        words: Mapping[str, Sequence[str]] | None = None,
        units: Mapping[str, str] | None = None,
        thousands: str | None = None,
        decimal: str | None = None,
        wait: bool | None = None,
    ) -> Any:
        """Take rows: say what each is like, then learn it.

        What is named holds for the calls that follow; to name something else then is an error. Of a
        first frame that may hold several devices without `model_id`, or numbers that are left out,
        a warning says so.

        Args:
            df: A data frame: pandas', polars' or Arrow's.
            model_id: Column of the device that a row is of; without, all rows are of one model.
            time: Column of event times: datetimes (UTC, if they have no zone; all calls have one,
                or none has) or numbers; without, rows come in their order. It may be a level of
                pandas' index; True: the index.
            label: Column of the class or target to learn, missing where it is not known. True and
                False are the classes 1 and 0.
            features: The channels; without, all other columns of numbers. Texts that are numbers
                are channels only where they are named.
            time_unit: Unit of times that are numbers: "s", "ms", "us" or "ns". Without, seconds,
                and numbers that look like another unit are refused.
            metric: Column of the names of channels, of a long table: a row for each value. Rows
                of one model and time become one, at the place of the first. `features` are
                metrics then; without, all whose values are numbers, in the order of their names.
            value: Column of the values, of a long table.
            words: Of columns, or metrics, of two words, which is 0 and which 1:
                `{"valve": ("off", "on")}`. They are channels then; so are those of `units`.
            units: Of columns, or metrics, of texts what stands after each number:
                `{"temp": "°C"}`. A row with another text is refused.
            thousands: Mark between the thousands of numbers in texts; a space stands for no-break
                ones, too.
            decimal: Decimal mark of numbers in texts.
            wait: Let the rows of a new model wait until the warm-up is full; without, False.

        Returns:
            A frame of the same kind with a line for each of its rows, in their order: the model,
            the time, `index` (number among the model's rows), `loss`, `novelty`, `ref_loss`,
            `ref_distance`, `ref_score`, `ref_settled` and `p` (under the reference), `informative`,
            the features `z0`, `z1`, ..., with a learner `prediction` and what goes with it, and
            `reason`, why a row was not taken. Values of rows that were not taken are missing; a
            warning counts the refused ones by their reasons. Of a long table a line for each model
            and time, in the order in which they first come.

        Raises:
            ConfigError: naming the column or argument that is wrong; nothing is learned then.
        """
        with self._lock:
            is_first = self.columns is None
            texts = (words, units, thousands, decimal)
            named = (model_id, time, label, features, time_unit, metric, value)
            asked = Asked(*named, *texts, wait)
            read = self._read(df, asked)
            out = Output(self._specs, len(read.rows.x))
            frame = Arriving(read.rows, self._specs, self._reading.wait, out)
            taken = [
                self._arrivals.take(frame, key, self._models.get(key), places)
                for key, places in by_model(read.rows, out, self._only)
            ]
            self._run([each for each in taken if each is not None], out)
            self._like = like_of(read.frame, read.columns.time)
            if is_first:
                for line in _doubts_of(df, read):
                    warnings.warn(line, stacklevel=2)
            self._refused += warn_of_refused(out)
            return self._frame(read.frame, out)

    def score(self, df: Any) -> Any:
        """Say of rows what `update` would, without learning them: the models stay as they are.

        Args:
            df: A data frame with the columns of `update`.

        Returns:
            A frame as `update` returns it; rows of unknown models have a `reason`.
        """
        with self._lock:
            read = self._read(df, Asked(), labelled=False)
            out = Output(self._specs, len(read.rows.x))
            self._look(self._specs, read.rows, out)
            warn_of_refused(out)
            return self._frame(read.frame, out)

    def predict(self, df: Any) -> Any:
        """Return the predictions of rows, without learning them.

        Returns:
            A list of classes, None where there is none, or an array of targets, NaN there.

        Raises:
            ConfigError: for a fleet without a learner.
        """
        if self._specs.learner is None:
            raise ConfigError("learner", None, "one: Fleet(learner='ridge')")
        with self._lock:
            rows = self._read(df, Asked(), labelled=False).rows
            out = Output(self._specs, len(rows.x))
            plain = dataclasses.replace(self._specs, reference=None)
            self._look(plain, rows._replace(time=None, label=None), out)
            warn_of_refused(out)
            return out.columns["prediction"]

    def _look(self, specs: Specs, rows: TableRows, out: Output) -> None:
        """Say of rows what their models, as they are, make of them."""
        asked = []
        for key, places in by_model(rows, out, self._only):
            if key not in self._models:
                out.refuse(places, UNKNOWN)
                continue
            order = ordered(rows, places)
            asked.append(TakenRows(key, of_frame(rows, order), order, None))
        if asked:
            keys = [each.key for each in asked]
            models = [self._models[key] for key in keys]
            together = side_by_side(asked)
            results = steps.look(specs, keys, models, together)
            self._put(models, together, results, asked, out)

    def _read(self, df: Any, asked: Asked, labelled: bool = True) -> ReadFrame:
        """Read a frame; nothing of the fleet changes if that fails."""
        if self.columns is None and not labelled and not self._models:
            raise ConfigError("fleet", "without models", "one that rows came to: call update")
        first = next(iter(self._models.values()), None)
        models = KnownModels(None if first is None else len(first.state.shift), self._timed)
        read = self._reading.read(df, asked, self._specs, models, labelled)
        specs = self._specs
        _, feedback = self._people.of(read.columns)
        if feedback != specs.feedback:
            specs = dataclasses.replace(specs, feedback=feedback)
        if specs.reference is not None and specs.reference.names_channels:
            words = read.reading.texts.words
            placed = specs.reference.placed(read.columns.features, words, read.unseen)
            specs = dataclasses.replace(specs, reference=placed)
            _check_modes(placed, read.columns, read.rows.x)
        if labelled:
            self._reading, self._specs = read.reading, specs
        return read

    def _run(self, taken: Sequence[TakenRows], out: Output) -> None:
        """Run rows through their models, those that are there and those that begin."""
        begin = [each for each in taken if each.first is not None]
        known = [each for each in taken if each.first is None]
        if known:
            self._run_together(known, [self._models[each.key] for each in known], out)
        if begin:
            first = [each.first for each in begin if each.first is not None]
            models = steps.begin(self._specs, [each.key for each in begin], first)
            self._run_together(begin, models, out)

    def _run_together(
        self, taken: Sequence[TakenRows], models: Sequence[DeviceModel], out: Output
    ) -> None:
        rows = side_by_side(taken)
        keys = [each.key for each in taken]
        after, results = steps.run(self._specs, keys, models, rows)
        for place, (each, model) in enumerate(zip(taken, after, strict=True)):
            self._models[each.key] = model
            self._note(each.key, model, results.episodes.get(place, ()))
            self._arrivals.note(each.key, model.until, each.rows)
            first, last = int(rows.starts[place]), int(rows.stops[place]) - 1
            times = results.features.index if rows.times is None else rows.times
            span = self._spans.get(each.key)
            begin = int(times[first]) if span is None else span.first
            end = int(times[last]) if model.time is None else model.time
            self._spans[each.key] = ShadedSpan(begin, end)
        self._put(after, rows, results, taken, out)

    def _note(self, key: str, model: DeviceModel, episodes: Sequence[Episode]) -> None:
        for episode in episodes:
            self._episodes[key, episode.number] = episode
        still = steps.open_episode(self._specs, model)
        if still is not None:
            self._episodes[key, still.number] = still

    def _put(
        self,
        models: Sequence[DeviceModel],
        rows: steps.ModelRows,
        results: RowResults,
        taken: Sequence[TakenRows],
        out: Output,
    ) -> None:
        """Put out what came of rows, and why some were refused, channels by their names."""
        out.put(np.concatenate([each.places for each in taken]), results)
        bad = np.flatnonzero(~results.features.valid)
        owners = np.searchsorted(rows.stops, bad, side="right")
        tracker = get_tracker(self._specs.tracker.tracker)
        names = self.columns.features if self.columns is not None else ()
        for at, owner in zip(bad.tolist(), owners.tolist(), strict=True):
            place, row = taken[owner].places[at - int(rows.starts[owner])], rows.x[at]
            seen = without_unseen(self._specs.reference, row[np.newaxis])[0]
            wrong = np.flatnonzero(~np.isfinite(seen))
            if len(wrong) and names:
                value = "missing" if np.isnan(row[wrong[0]]) else "infinite"
                reason = f"column {names[wrong[0]]!r} is {value}"
            else:
                state = models[owner].state
                reason = tracker.why_refused(self._specs.tracker, state, row)
            if place != EARLIER:
                out.columns["reason"][place] = reason

    # Results out.

    @property
    def _timed(self) -> bool:
        return any(model.time is not None for model in self._models.values())

    @property
    def _clock(self) -> Clock | None:
        """What shows times in pictures: the frames' own zone; None without times."""
        if not self._timed:
            return None
        zone = None if self._like is None else self._like.zone
        if isinstance(zone, tzinfo):
            return Clock(zone, str(zone))
        if zone is not None and is_zone(zone):
            return Clock(ZoneInfo(zone), zone)
        return Clock(name="") if self._reading.zoned is False else Clock()

    def _frame(self, frame: Frame, out: Output) -> Any:
        columns: dict[str, Any] = {}
        known = self.columns
        if known is not None:
            for name in (known.model_id, known.time):
                if name is not None and name not in frame.from_index:
                    columns[name] = frame.frame.get_column(name)
        columns |= {name: out.shown(name) for name in out.columns}
        time = None if known is None else known.time
        return make_frame(like_of(frame, time, same_rows=True), columns)

    def _judging(self) -> Work:
        """Return what is done with rows, as far as it says which episodes count."""
        rules, feedback = self._people.of(self.columns)
        return Work(spec=self._specs.tracker, rules=rules, feedback=feedback)

    def _latest(self) -> list[FleetEpisode]:
        """Return all episodes as they stand."""
        return latest(self._episodes, self._judging())

    def _lines(self) -> dict[str, Any]:
        mutes = self._judging().mutes
        return columns_of(self._latest(), self.columns, timed=self._timed, mutes=mutes)

    @property
    def episodes(self) -> Any:
        """Which devices are off, since when (`start`), which kind, and in which channels.

        A frame of the kind of the last input, open episodes first, the worst first. After `load`:
        the episodes open at that time, and all later ones. With rules or feedback `muted` is
        why an episode does not count as it stands, null if it does; these are last.
        """
        with self._lock:
            lines, like = self._lines(), self._like or form_of("", None)
            return lines if like is None else make_frame(like, lines)

    @property
    def accuracy(self) -> float | None:
        """Share of labelled rows that were predicted right before they were learned.

        Of targets: the root of the mean squared error. None before the first.
        """
        learner = self._specs.learner
        boards = [m.learned.board.total for m in self._models.values() if m.learned is not None]
        scored = sum(int(tally.counts[1]) for tally in boards)
        if learner is None or not scored:
            return None
        if learner.classifies:
            return sum(int(tally.counts[2]) for tally in boards) / scored
        return float(np.sqrt(sum(float(tally.sums[0]) for tally in boards) / scored))

    @property
    def stored_rows(self) -> int:
        """Rows of the data that the trackers hold, of all models together."""
        return sum(int(model.state.size) for model in self._models.values())

    def plot(self, model_id: object = None, *, most: int = 40) -> Plot:
        """Draw the devices that have episodes over time, the worst first, or one device.

        Args:
            model_id: A device: its channels over time, each episode the darker the larger the
                channel's share in it. None: all devices with episodes.
            most: Most devices to draw.

        Returns:
            A picture that notebooks show; `save` writes it as SVG.

        Raises:
            ConfigError: for an unknown device, or a number of devices below 1.
        """
        if not isinstance(most, Integral) or most < 1:
            raise ConfigError("most", most, "a whole number of devices, at least 1")
        with self._lock:
            found = self._latest()
            if model_id is None:
                found = [(key, episode) for key, episode in found if episode.muted is None]
                return draw(found, self._spans, self._clock, len(self._models), most)
            key = str(model_id)
            if key not in self._spans:
                raise ConfigError("model_id", model_id, f"one of the fleet's {len(self)} devices")
            own = [episode for name, episode in found if name == key]
            names = channel_names(self.columns, max((len(each.shares) for each in own), default=0))
            return draw_device(key, own, names, self._spans[key], self._clock)

    # Snapshots.

    def save(self, folder: str | Path) -> None:
        """Write the models into a folder of snapshots, from which jobs and `load` go on.

        Models that wait to begin do so with the rows that they have. Rows that wait ahead
        (`max_jump`) are written, too, for `load`; jobs do not take them. Snapshots hold rows of the
        data: treat them as you treat the data.

        Raises:
            ConfigError: for a folder that holds other snapshots.
            OSError: if a file cannot be written.
        """
        place = saved.new_folder(folder)
        with self._lock:
            self._run(self._arrivals.begin_all(self._specs), Output(self._specs, 0))
            own, kept = self._arrivals, None
            if self.columns is not None:
                jumps = (own.max_jump, own.jump_rows, own.ahead)
                kept = KeptFleet(self._reading, *jumps, *library_and_zone(self._like))
            saved.write(place, self._specs, self._models, kept)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        models: Collection[str] | None = None,
        *,
        rules: Sequence[Mapping[str, Any]] | None = None,
        feedback: Sequence[Mapping[str, Any]] | None = None,
        max_jump: float | None = None,
        jump_rows: int | None = None,
    ) -> Fleet:
        """Return the fleet of a folder: of `save`, or the output of `kerneltrack track`.

        The names of columns come from the folder, too, where they are known; those of a job's files
        may be named anew in the first call.

        Args:
            folder: Where the snapshots are.
            models: Ids of those that are wanted; None: all.
            rules: As of the class; so is `feedback`.
            feedback: See `rules`.
            max_jump: As of the class; so is `jump_rows`. None: as it was saved; of a job's
                snapshots as the class has it.
            jump_rows: See `max_jump`.

        Raises:
            ConfigError: for a model that is not there.
            DataError: if there are no snapshots, or they are damaged.
        """
        place = snapshots_in(str(saved.path_of(folder)))
        found = SnapshotFolder(place)
        if found.learner_spec is not None:
            found = found.with_learner()
        known = read_columns(Path(place))
        before = (MAX_JUMP, JUMP_ROWS) if known is None else (known.max_jump, known.jump_rows)
        fleet = cls(
            found.spec,
            learner=found.learner_spec,
            reference=found.reference_spec,
            rules=rules,
            feedback=feedback,
            max_jump=before[0] if max_jump is None else max_jump,
            jump_rows=before[1] if jump_rows is None else jump_rows,
        )
        if known is not None:
            fleet._reading = known.reading
            fleet._like = form_of(known.library, known.frame_zone)
            targets = fleet.learner is not None and not fleet.learner.classifies
            fleet._arrivals.ahead = {
                key: rows.of_targets() if targets else rows
                for key, rows in known.ahead.items()
                if models is None or key in models
            }
        if fleet.columns is not None and fleet.columns.model_id is None and len(found.models) == 1:
            (fleet._only,) = found.models
        for key, model in saved.read_models(found, fleet._specs, models):
            fleet._models[key] = model
            fleet._note(key, model, [])
            last = model.rows - 1 if model.time is None else model.time
            fleet._spans[key] = ShadedSpan(last, last)
        return fleet


def _check_modes(reference: ReferenceSpec, columns: FrameColumns, x: FloatArray) -> None:
    """Check that a mode's column holds names or whole numbers.

    Raises:
        ConfigError: for a number that is none: each would be a mode of its own.
    """
    if not isinstance(reference.mode, int):
        return
    modes = x[:, reference.mode]
    odd = np.flatnonzero(np.isfinite(modes) & (modes % 1 != 0))
    if len(odd):
        name = columns.features[reference.mode]
        allowed = f"a column of texts or whole numbers; it holds {modes[odd[0]]:g}"
        raise ConfigError("mode", name, allowed)


def _check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings of learner and reference among those of the tracker."""
    for name, value in settings.items():
        for role, spec in (("learner", "AutoSpec"), ("reference", "ReferenceSpec")):
            if name.startswith(f"{role}_"):
                field = name.removeprefix(f"{role}_")
                allowed = f"a field of the {role}'s spec: {role}=kt.{spec}({field}=...)"
                raise ConfigError(name, value, allowed)


def _check_spec(field: str, spec: Any, kind: type) -> None:
    if not isinstance(spec, kind) and (spec is not None or field == "tracker"):
        none = "" if field == "tracker" else ", or None"
        raise ConfigError(field, spec, f"a name, or a spec of that kind{none}")


def _doubts_of(df: Any, read: ReadFrame) -> Iterator[str]:
    """Return what a person should look at in the first frame."""
    if read.columns.time is None and index_name(df) is not None:
        yield "rows are taken in their order, not by the index of times: time=True takes that"
    yield from doubts(read.frame.frame, read.columns, read.rows)
