"""Models block by block: the common case of `Steps`, without what Python costs for each of them.

A block is the rows of consecutive models. Their states are columns, their rows go through the
compiled loop into arrays of the whole block and become one chunk of features. What is rare falls
back to the way of one model: a row that is refused, a model too large for a block. The bits are the
same: the loop is, and so is what it gets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack import codec
from kerneltrack.learners.common.inputs import own_inputs
from kerneltrack.registry import get_tracker
from kerneltrack.state_size import state_bytes
from kerneltrack.trackers.okfeb import block
from transforms.chunks import Chunk
from transforms.metrics import count, count_losses
from transforms.partition.shuffle import SortedRows
from transforms.partition.steps import Steps
from transforms.track.features import feature_chunk
from transforms.track.order import KEEP
from transforms.track.packed import TRACKERS

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
    """

    names: list[str]
    rows: list[int]
    times: list[int | None]
    headers: list[str]
    columns: dict[str, npt.NDArray[Any]]

    def arrays(self, place: int) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of one state."""
        return {name: column[place] for name, column in self.columns.items()}


class Block(NamedTuple):
    """What came of a block.

    Attributes:
        places: Place of each of the block's models in the sorted rows.
        fell_back: Those of the places whose models must go one by one.
        states: States of the others, in order.
        features: Their features; None if there are none.
    """

    places: range
    fell_back: list[int]
    states: BlockStates
    features: pa.RecordBatch | None

    def models(self) -> Iterator[tuple[int, int | None, pa.RecordBatch | None]]:
        """Return of each model its place in the sorted rows, in `states`, and its features.

        The place in `states` is None of one that must go by itself.
        """
        fell_back, place, at = set(self.fell_back), 0, 0
        for each in self.places:
            if each in fell_back:
                yield each, None, None
                continue
            rows = self.states.rows[place]
            yield each, place, None if self.features is None else self.features.slice(at, rows)
            at += rows
            place += 1


def takes_blocks(steps: Steps) -> bool:
    """Check whether a job's models can go by blocks: nothing works along with the tracker."""
    work, order = steps.track.work, steps.order
    return (
        work.spec.tracker in TRACKERS
        and not (work.frozen or work.extras)
        and order.waits_for_end
        and order.duplicates == KEEP
        and steps.track.begins_anew
        and all(
            part is None
            for part in (work.hold, work.measure, work.drift, work.reference, work.every)
        )
        and work.start is None
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


def run_blocks(steps: Steps, rows: SortedRows) -> Iterator[Block]:
    """Run the models of a partition block by block."""
    size = state_bytes(steps.track.work.spec, rows.slice(0, 1).column("x").shape[1])
    for places in blocks_of(rows, size):
        yield run_block(steps, rows, places)


def run_block(steps: Steps, rows: SortedRows, places: range) -> Block:
    """Run a block of models."""
    work = steps.track.work
    spec: Any = work.spec
    begin, end = rows.starts[places[0]], rows.stops[places[-1]]
    none = Block(places, list(places), BlockStates([], [], [], [], {}), None)
    if end - begin > BLOCK_ROWS:
        return none
    chunk = rows.slice(begin, end)
    starts = np.array(rows.starts[places[0] : places[-1] + 1]) - begin
    stops = np.array(rows.stops[places[0] : places[-1] + 1]) - begin
    matrix = np.ascontiguousarray(chunk.column("x"), dtype=np.float64)
    good = np.logical_and.reduceat(np.isfinite(matrix).all(axis=1), starts)
    if not good.any():
        return none
    done = block.run_block(spec, matrix, starts[good], stops[good], work.rows_to_start)
    # Rows between those of good models keep what room was made with: not valid.
    fine = good & np.logical_and.reduceat(done.features.valid, starts)
    of_good = fine[good]
    fell_back = [place for place, well in zip(places, fine.tolist(), strict=True) if not well]
    if not of_good.any():
        return none
    columns = done.columns
    if not of_good.all():
        columns = {name: column[of_good] for name, column in columns.items()}
    states = _states(spec, rows, places, fine, chunk, columns)
    where = np.flatnonzero(np.repeat(fine, stops - starts))
    _count(spec, columns["counts"], done.features.loss[where])
    own = None
    if work.own:
        owner = np.repeat(np.arange(int(of_good.sum())), (stops - starts)[fine])
        own = own_inputs(
            spec, _Scales(columns["shift"][owner], columns["scale"][owner]), matrix[where]
        )
    features = feature_chunk(chunk, done.features, where, own=own)
    return Block(places, fell_back, states, features.batch)


def _states(
    spec: Any,
    rows: SortedRows,
    places: range,
    fine: npt.NDArray[np.bool_],
    chunk: Chunk,
    columns: dict[str, npt.NDArray[Any]],
) -> BlockStates:
    """Return states with what their headers say, as `transforms.track.model.encode` writes it."""
    chosen = [places[place] for place in np.flatnonzero(fine).tolist()]
    begin = rows.starts[places[0]]
    names = [rows.names[place] for place in chosen]
    counts = [rows.stops[place] - rows.starts[place] for place in chosen]
    times: list[int | None] = [None] * len(chosen)
    if chunk.has("time"):
        last = [rows.stops[place] - 1 - begin for place in chosen]
        times = chunk.column("time")[last].tolist()
    headers = []
    for name, count_, time in zip(names, counts, times, strict=True):
        at = "null" if time is None else time
        about = f'"model_id": {json.dumps(name)}, "rows": {count_}, "time": {at}, "until": {at}'
        headers.append(codec.tracker_header(spec, f'{{"final": true, {about}}}'))
    return BlockStates(names, counts, times, headers, columns)


def _count(spec: Any, counts: npt.NDArray[np.int64], losses: npt.NDArray[np.float64]) -> None:
    """Count what models of these counts, (m, ...), came to: they began from nothing."""
    tracker = get_tracker(spec.tracker)
    for name, value in tracker.counters(_Counts(counts.sum(axis=0))).items():
        count(name, value)
    count("rows_tracked", len(losses))
    count_losses(losses)


class _Scales(NamedTuple):
    """What `own_inputs` looks at in a state: that of each row's model, (n, D)."""

    shift: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]


class _Counts(NamedTuple):
    """What `KernelTracker.counters` looks at in a state."""

    counts: npt.NDArray[np.int64]
