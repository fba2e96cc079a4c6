"""All that is done with one model's rows, in memory: tracked, and learned from in the same pass.

The steps are those of `TrackSubspace` and `TrainLinear`; what Beam keeps for them between calls
lies in lists here. So whatever drives them, a model's results are the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from transforms.chunks import Chunk
from transforms.learn.step import LearnFn
from transforms.learn.turns import NarrowFn
from transforms.outputs import FAILURES, FEATURES, LATE, METRICS, PREDICTIONS, SNAPSHOTS
from transforms.partition.learners import Learned, Learners
from transforms.read.files import CHUNK_ROWS
from transforms.track.late_data import late_as_failures
from transforms.track.log import Cells
from transforms.track.order import Order
from transforms.track.step import TrackFn

IN_ORDER = ("row", "source", "sequence", "time")
IN_ARRIVAL = ("row", "source")


class Rows(NamedTuple):
    """Rows of an output.

    Attributes:
        part: Name of the output.
        batch: The rows; failures say themselves of which model they are.
    """

    part: str
    batch: pa.RecordBatch


class State(NamedTuple):
    """A snapshot: the bytes that `codec` writes."""

    data: bytes


class _Cell:
    """State of one model, as Beam gives a bag and a single value."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = entries

    def read(self) -> list[Any]:
        return list(self._entries)

    def add(self, entry: Any) -> None:
        self._entries.append(entry)

    def clear(self) -> None:
        self._entries = []


@dataclass(frozen=True)
class Steps:
    """What is done with every model's rows.

    Attributes:
        track: The tracker's step.
        order: How rows are put in order.
        learn: The learner's steps, if there is one.
    """

    track: TrackFn
    order: Order
    learn: tuple[NarrowFn, LearnFn] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that a model's rows must be sorted by, the last one first.

        Those that are not put in order at the end are taken as they arrived: by source and row.
        """
        return IN_ORDER if self.order.waits_for_end else IN_ARRIVAL

    def run(
        self, key: str, rows: Chunk | Iterator[Chunk] | None, labels: Chunk | None
    ) -> Iterator[Rows | State]:
        """Run all of a model's rows, sorted by `keys`, and its delayed labels.

        Args:
            key: The model's ID.
            rows: Its rows, or some at a time; None if only labels name it.
            labels: Labels by `index` or `time`; None without.
        """
        tracked: Iterator[Any] = iter(()) if rows is None else self._tracked(key, rows)
        learners = self.learners([key], {} if labels is None else {key: labels})
        waiting: list[pa.RecordBatch] = []
        for item in _sorted_out(tracked):
            yield item
            if learners is not None and isinstance(item, Rows) and item.part == FEATURES:
                waiting.append(item.batch)
                if sum(map(len, waiting)) >= learners.rows_at_once:
                    yield from _learned(learners, waiting)
                    waiting = []
        if learners is not None:
            yield from _learned(learners, waiting)
            (last,) = learners.end()
            if last is not None:
                yield State(last.parts.to_bytes())
            yield from _items(learners.came())

    def learners(self, keys: Sequence[str], labels: Mapping[str, Chunk]) -> Learners | None:
        """Return the learners of models before their first rows, if there are any."""
        return None if self.learn is None else Learners(self.learn, keys, labels)

    def _tracked(self, key: str, rows: Chunk | Iterator[Chunk]) -> Iterator[Any]:
        if isinstance(rows, Chunk):
            yield from self.track.finish_rows(key, rows)
            return
        if self.order.waits_for_end:
            yield from self.track.finish_sorted(key, rows)
            return
        # More than there is memory for: as rows of a stream, of which only some wait.
        cells = Cells(_Cell([]), _Cell([]), _Cell([]))
        for chunk in _as_they_came(rows):
            kept = self.track.log_of(key, cells)
            yield from self.track.take((key, chunk), kept)
            kept.commit()
        yield from self.track.finish(key, cells)


def _as_they_came(parts: Iterator[Chunk]) -> Iterator[Chunk]:
    """Return rows in the order of source and row, chunk by chunk, none of two sources."""
    left: Chunk | None = None
    for part in parts:
        rows = part if left is None else Chunk.concat([left, part])
        source = rows.column("source")
        edges = [0, *(np.flatnonzero(np.diff(source)) + 1).tolist(), len(rows)]
        left = None
        for start, stop in itertools.pairwise(edges):
            for at in range(start, stop, CHUNK_ROWS):
                chunk = rows.slice(at, min(at + CHUNK_ROWS, stop))
                # More of the last one's may follow.
                if chunk.batch.num_rows < CHUNK_ROWS and stop == len(rows):
                    left = chunk
                else:
                    yield chunk.in_order()
    if left is not None:
        yield left.in_order()


def _learned(learners: Learners, features: Sequence[pa.RecordBatch]) -> Iterator[Rows | State]:
    """Let the learner of one model take features; return what comes of it."""
    if features:
        rows = pa.concat_batches(features)
        learners.take(rows, np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([len(rows)]))
        yield from _items(learners.came())


def _items(learned: Learned) -> Iterator[Rows | State]:
    """Return what came of one model."""
    parts = (PREDICTIONS, learned.predictions), (METRICS, learned.metrics)
    yield from (Rows(part, batch) for part, batch in parts if batch is not None)
    yield from map(State, learned.snapshots.get(0, ()))
    for batch in learned.failures.get(0, ()):
        yield Rows(FAILURES, batch)


def _sorted_out(items: Iterator[Any]) -> Iterator[Rows | State]:
    """Return what the tracker's step yields as rows of outputs and snapshots."""
    for item in items:
        if not isinstance(item, TaggedOutput):
            yield Rows(FEATURES, item[1].batch)
        elif item.tag == SNAPSHOTS:
            yield State(item.value[1])
        elif item.tag == FAILURES:
            yield Rows(FAILURES, item.value.batch)
        elif item.tag == LATE:
            yield Rows(FAILURES, late_as_failures(item.value).batch)
        else:
            yield Rows(item.tag, item.value[1].batch)
