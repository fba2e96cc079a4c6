"""Models block by block: the common case of `Steps`, without what Python costs for each of them.

A block is the rows of consecutive models. Their states are columns, their rows go through the
compiled loop into arrays of the whole block and become one chunk of features. What is rare falls
back to the way of one model: a row that is refused, a model too large for a block. The bits are the
same: the loop is, and so is what it gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack import codec
from kerneltrack.fleet.model import Work
from kerneltrack.learners.common.inputs import own_inputs
from kerneltrack.monitor.drift import Alerts
from kerneltrack.monitor.drift import init as begin_drift
from kerneltrack.monitor.drift.block import begin_each, columns_of, watch_each
from kerneltrack.monitor.reference import block as references
from kerneltrack.snapshots.header import About
from kerneltrack.state_size import state_bytes
from kerneltrack.trackers.common.features import Features
from kerneltrack.trackers.common.scaling import Scaling
from kerneltrack.trackers.okfeb import block
from transforms.chunks import Chunk
from transforms.metrics import count, count_losses, count_unreferenced
from transforms.outputs import ALERTS, EPISODES, MISMATCH
from transforms.partition import learn_block as learners
from transforms.partition.held_block import HeldBlock, hold_block
from transforms.partition.learn_block import LearnedModels
from transforms.partition.shuffle import SortedRows
from transforms.partition.steps import Rows, Steps
from transforms.partition.window_block import MeasuredBlock, measure_block, windows_of
from transforms.track.features import alerts_of, feature_chunk, tell_alerts, tell_episodes
from transforms.track.order import KEEP, MERGE
from transforms.track.packed import TRACKERS
from transforms.track.totals import count_totals
from transforms.track.windows import mismatch_chunk

IntArray = npt.NDArray[np.int64]
Columns: TypeAlias = dict[str, npt.NDArray[Any]]

BLOCK_ROWS = 65_536
"""Rows of a block at most."""
BLOCK_BYTES = 1 << 27
"""Bytes of a block's states at most (128 MiB), unless it has only one."""


class BlockStates(NamedTuple):
    """States of models at the end of their rows.

    Attributes:
        names: The models, in order.
        rows: Index of each one's next row.
        times: Time of each one's newest row, ns; None without times.
        headers: What the snapshots' headers hold.
        columns: Arrays of the states by name, (m, ...).
        beside: Those of what works along with them, named as `codec` has them.
        own: Of each those that are of other lengths than others'; none if empty.
    """

    names: list[str]
    rows: list[int]
    times: list[int | None]
    headers: list[str]
    columns: Columns
    beside: Columns
    own: Sequence[Columns] = ()

    def arrays(self, place: int) -> Columns:
        """Return the arrays of one state."""
        return {name: column[place] for name, column in self.columns.items()}

    def arrays_beside(self, place: int) -> Columns:
        """Return the arrays of what works along with one."""
        shared = {name: column[place] for name, column in self.beside.items()}
        return {**shared, **self.own[place]} if self.own else shared

    def encoded(self, place: int) -> bytes:
        """Return one as the bytes that `codec` writes."""
        arrays = {**self.arrays(place), **self.arrays_beside(place)}
        return codec.to_bytes(arrays, self.headers[place])


class ModelOfBlock(NamedTuple):
    """Where in a block what came of a model lies.

    Attributes:
        each: Its place in the sorted rows.
        place: Its place in `states`; None of one that must go by itself.
        features: Its features.
        learner: Its learner's place in `learned`; None of one that must go by itself.
    """

    each: int
    place: int | None
    features: pa.RecordBatch | None
    learner: int | None


class Block(NamedTuple):
    """What came of a block.

    Attributes:
        places: Place of each of the block's models in the sorted rows.
        fell_back: Those of the places whose models must go one by one.
        states: States of the others, in order.
        features: Their features; None if there are none.
        told: What some tell of besides, by output (episodes, alerts, windows) and place in
            `states`.
        learned: What their learners came to; None without, or if these must go one by one.
    """

    places: range
    fell_back: list[int]
    states: BlockStates
    features: pa.RecordBatch | None
    told: Mapping[str, Mapping[int, pa.RecordBatch]] = {}
    learned: LearnedModels | None = None

    def models(self) -> Iterator[ModelOfBlock]:
        """Return the block's models, in order."""
        fell_back, place, at, learner = set(self.fell_back), 0, 0, 0
        done = [] if self.learned is None else self.learned.done.tolist()
        for each in self.places:
            if each in fell_back:
                yield ModelOfBlock(each, None, None, None)
                continue
            rows = self.states.rows[place]
            own = None if self.features is None else self.features.slice(at, rows)
            well = bool(done) and done[place]
            yield ModelOfBlock(each, place, own, learner if well else None)
            at += rows
            place += 1
            learner += well

    def told_of(self, place: int) -> Iterator[Rows]:
        """Return what one of `states` tells of besides its features."""
        for part, batches in self.told.items():
            if place in batches:
                yield Rows(part, batches[place])


def takes_blocks(steps: Steps) -> bool:
    """Check whether a job's models can go by blocks.

    They can where nothing works along with the tracker but windows of event time, a drift detector,
    and references that models make of a number of their rows.
    """
    work, order = steps.track.work, steps.order
    return (
        work.spec.tracker in TRACKERS
        and not (work.frozen or work.extras)
        and order.waits_for_end
        and order.duplicates in (KEEP, MERGE)
        and not order.confirms
        and steps.track.begins_anew
        and (work.hold, work.every, work.window) == (None, None, None)
        and (work.reference is None or work.reference.until is None)
        and (work.start, work.given) == (None, None)
    )


def blocks_of(rows: SortedRows, size: int) -> Iterator[range]:
    """Cut models into blocks, as ranges of their places; a large one is a block of its own.

    Args:
        rows: The models' rows.
        size: Bytes of a model's state.
    """
    most, first = BLOCK_BYTES // size, 0
    for place in range(len(rows.names)):
        if place > first and (
            place - first >= most or rows.stops[place] - rows.starts[first] > BLOCK_ROWS
        ):
            yield range(first, place)
            first = place
    if first < len(rows.names):
        yield range(first, len(rows.names))


def rows_of_blocks(steps: Steps, rows: SortedRows) -> SortedRows:
    """Return a partition's rows as its blocks take them: merged, if the order says so."""
    width = len(steps.track.work.channels)
    return rows.merged(width) if steps.order.duplicates == MERGE else rows


def run_blocks(steps: Steps, rows: SortedRows) -> Iterator[Block]:
    """Run the models of a partition, its rows as of `rows_of_blocks`, block by block."""
    work, width = steps.track.work, rows.slice(0, 1).column("x").shape[1]
    size = state_bytes(work.spec, width)
    if work.reference is not None:
        size += references.bytes_of(work.reference, width)
    if work.drift is not None:
        size += sum(array.nbytes for array in begin_drift(work.drift))
    if steps.learn is not None:
        size += learners.bytes_of(steps.learn[1].plan.spec, width, work.spec.rank)
    for places in blocks_of(rows, size):
        yield run_block(steps, rows, places)


class _Ran(NamedTuple):
    """Models of a block that went through the tracker, windows and references.

    Attributes:
        chunk: All of the block's rows.
        fine: Which of the block's models these are.
        where: Places of their rows.
        starts: (m,) place of each one's first row in `where`.
        stops: (m,) place after its last.
        columns: The trackers' states.
        features: Of all rows.
        held: What references came to, of these models and others.
        measured: What their windows came to, likewise.
        of_all: Places of these models among them.
    """

    chunk: Chunk
    fine: npt.NDArray[np.bool_]
    where: IntArray
    starts: IntArray
    stops: IntArray
    columns: Columns
    features: Features
    held: HeldBlock | None
    measured: MeasuredBlock | None
    of_all: IntArray

    @property
    def last(self) -> list[int] | None:
        """Times of the models' newest rows; None without times."""
        if not self.chunk.has("time"):
            return None
        times: list[int] = self.chunk.column("time")[self.where[self.stops - 1]].tolist()
        return times


def run_block(steps: Steps, rows: SortedRows, places: range) -> Block:
    """Run a block of models."""
    work, ran = steps.track.work, _run(steps.track.work, rows, places)
    if ran is None:
        return Block(places, list(places), BlockStates([], [], [], [], {}, {}), None)
    chunk, where, held = ran.chunk, ran.where, ran.held
    losses = ran.features.loss[where]
    beside = {} if held is None else _of(held.columns, ran.of_all)
    alerts: dict[int, Alerts] = {}
    if work.drift is not None:
        watched = begin_each(work.drift, len(ran.starts))
        alerts = watch_each(work.drift, watched, losses, ran.starts, ran.stops)
        columns = columns_of(work.drift, watched)._asdict()
        beside |= {f"{codec.BESIDE}drift.{name}": part for name, part in columns.items()}
    well = [places[place] for place in np.flatnonzero(ran.fine).tolist()]
    states = _states(work, rows, well, ran.last, ran.columns, beside)
    states = states._replace(own=_open_windows(ran))
    counts = states.columns["counts"]
    count_totals(work.spec, np.zeros_like(counts), counts)
    count("rows_tracked", len(where))
    count_losses(losses)
    own = None
    if work.own:
        own = _own_inputs(work.spec, states, chunk.column("x")[where])
    scores = None if held is None else held.watched.scores.at(where)
    features = feature_chunk(chunk, ran.features, where, held is not None, scores, own)
    told = {
        EPISODES: {} if held is None else _episodes(held, states, ran.of_all),
        ALERTS: _alerts(alerts, states, ran),
        MISMATCH: _windows(work, ran),
    }
    learned = None
    if steps.learn is not None and learners.takes_blocks(steps.learn[1]):
        learned = learners.learn_models(
            steps.learn, states.names, features.batch, ran.starts, ran.stops
        )
    fell_back = [place for place, fine in zip(places, ran.fine.tolist(), strict=True) if not fine]
    return Block(places, fell_back, states, features.batch, told, learned)


def _run(work: Work, rows: SortedRows, places: range) -> _Ran | None:
    """Run a block of models through tracker, windows and references; None if none goes well."""
    spec: Any = work.spec
    begin, end = rows.starts[places[0]], rows.stops[places[-1]]
    chunk = rows.slice(begin, end)
    if end - begin > BLOCK_ROWS or (work.measure is not None and not chunk.has("time")):
        return None
    starts = np.array(rows.starts[places[0] : places[-1] + 1]) - begin
    stops = np.array(rows.stops[places[0] : places[-1] + 1]) - begin
    matrix = np.ascontiguousarray(chunk.column("x"), dtype=np.float64)
    times = chunk.column("time") if chunk.has("time") else np.zeros(len(chunk), np.int64)
    good = np.logical_and.reduceat(np.isfinite(matrix).all(axis=1), starts)
    windows = None
    if work.measure is not None:
        windows = windows_of(work.measure, times, starts, stops)
        # Of a window of more rows some are left out, as it goes.
        good[windows.model[windows.stop - windows.first > work.measure.most_rows]] = False
    if not good.any():
        return None
    spans = starts[good], stops[good]
    models = block.Begun(spec, matrix, *spans, work.rows_to_start)
    measured = None
    if windows is None or work.measure is None:
        models.run(np.arange(len(spans[0])), *spans)
    else:
        measured = measure_block(work.measure, spec, models, matrix, windows.of(good), *spans)
    # Rows between those of good models keep what room was made with: not valid.
    fine = good & np.logical_and.reduceat(models.features.valid, starts)
    held = None
    if work.reference is not None:
        held = hold_block(work.reference, matrix, *spans, times, work.rows_to_start)
        fine[good] &= held.watched.done
    of_good = fine[good]
    if not of_good.any():
        return None
    ends = np.cumsum((stops - starts)[fine])
    return _Ran(
        chunk,
        fine,
        np.flatnonzero(np.repeat(fine, stops - starts)),
        np.concatenate([[0], ends[:-1]]),
        ends,
        _of(models.columns, np.flatnonzero(of_good)),
        models.features,
        held,
        measured,
        np.flatnonzero(of_good),
    )


def _of(columns: Columns, chosen: IntArray) -> Columns:
    """Return the states at some places of m models."""
    return {
        name: column if len(chosen) == len(column) else column[chosen]
        for name, column in columns.items()
    }


def _own_inputs(
    spec: Any, states: BlockStates, rows: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the rows of the states' models as learners take them."""
    owner = np.repeat(np.arange(len(states.names)), states.rows)
    scales = (states.columns[name][owner] for name in ("shift", "scale"))
    return own_inputs(spec, Scaling(*scales), rows)


def _episodes(held: HeldBlock, states: BlockStates, models: IntArray) -> dict[int, pa.RecordBatch]:
    """Return what is told of episodes, by the place in `states`; as `TrackFn.finish` does.

    Args:
        held: What all references of the block came to.
        states: The states of those models that went well.
        models: Places of these among all.
    """
    found = {}
    for place, model in enumerate(models.tolist()):
        key, told = states.names[place], held.told(model)
        if told:
            episodes = tell_episodes(key, told, states.times[place] is not None)
            found[place] = episodes.value[1].batch
        if not held.ready[model]:
            count_unreferenced(key)
    return found


def _windows(work: Work, ran: _Ran) -> dict[int, pa.RecordBatch]:
    """Return the windows that were measured, by the place in `states`."""
    if ran.measured is None or work.measure is None:
        return {}
    lines = [ran.measured.lines[model] for model in ran.of_all.tolist()]
    told = [line for own in lines for line in own]
    count("windows", len(told))
    batch = mismatch_chunk(told, work.spec, work.measure.confidence).batch
    found, at = {}, 0
    for place, own in enumerate(lines):
        found[place] = batch.slice(at, len(own))
        at += len(own)
    return found


def _open_windows(ran: _Ran) -> list[Columns]:
    """Return the arrays of each model's windows that are still open; none without windows."""
    if ran.measured is None:
        return []
    return [
        {
            f"{codec.BESIDE}open.{name}": array
            for name, array in ran.measured.open[model]._asdict().items()
        }
        for model in ran.of_all.tolist()
    ]


def _alerts(
    alerts: Mapping[int, Alerts], states: BlockStates, ran: _Ran
) -> dict[int, pa.RecordBatch]:
    """Return what drift detectors tell, by the place in `states`."""
    found = {}
    for place, told in alerts.items():
        times: list[int | None] = [None] * len(told.index)
        if ran.chunk.has("time"):
            rows = ran.where[ran.starts[place] + told.position]
            times = ran.chunk.column("time")[rows].tolist()
        output = tell_alerts(states.names[place], alerts_of(told, 0, times))
        found[place] = output.value[1].batch
    return found


def _states(
    work: Work,
    rows: SortedRows,
    places: list[int],
    last: list[int] | None,
    columns: Columns,
    beside: Columns,
) -> BlockStates:
    """Return states with what their headers say.

    Args:
        work: What is done with the rows.
        rows: All models' rows.
        places: Place of each state's model among them.
        last: Time of each one's newest row, ns; None without times.
        columns: Arrays of the states.
        beside: Of what works along with them.
    """
    names = [rows.names[place] for place in places]
    counts = [rows.stops[place] - rows.starts[place] for place in places]
    times: list[int | None] = [None] * len(places) if last is None else [*last]
    headers = []
    for name, count_, time in zip(names, counts, times, strict=True):
        about = work.writer.tracker(About(name, count_, time, time), final=True)
        headers.append(codec.tracker_header(work.spec, about))
    return BlockStates(names, counts, times, headers, columns, beside)
