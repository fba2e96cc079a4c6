"""All that is done with one model's rows, in memory: tracked, and learned from in the same pass.

The steps are those of `TrackSubspace` and `TrainLinear`; what Beam keeps for them between calls
lies in lists here. So whatever drives them, a model's results are the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from transforms.chunks import Chunk
from transforms.learn.step import LearnFn
from transforms.learn.turns import NarrowFn, narrow_labels
from transforms.outputs import FAILURES, FEATURES, LATE, PREDICTIONS, SNAPSHOTS
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
        late: Whether labels come by themselves.
    """

    track: TrackFn
    order: Order
    learn: tuple[NarrowFn, LearnFn] | None = None
    late: bool = False

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
        if self.learn is None:
            yield from _sorted_out(tracked, FEATURES)
            return
        narrow, fn = self.learn
        if self.late:
            early: list[Chunk] = []
            for item in _sorted_out(tracked, FEATURES):
                yield item
                if isinstance(item, Rows) and item.part == FEATURES:
                    early += [chunk for _, chunk in narrow.process((key, Chunk(item.batch)))]
            if labels is not None:
                early.append(narrow_labels((key, labels), narrow.spec)[1])
            yield from _sorted_out(fn.finish(key, None, _Cell(early)), PREDICTIONS)
            return
        told: list[Rows | State] = []
        features = self._narrow(key, _sorted_out(tracked, FEATURES), told)
        first = next(features, None)
        if first is not None:
            for item in _sorted_out(fn.take_all(key, _chained(first, features)), PREDICTIONS):
                yield from told
                told.clear()
                yield item
        yield from told

    def learn_from(
        self, key: str, features: pa.RecordBatch | None, labels: Chunk | None
    ) -> Iterator[Rows | State]:
        """Let the learner, if there is one, take all of a model's features and delayed labels."""
        if self.learn is None or (features is None and labels is None):
            return
        narrow, fn = self.learn
        chunks: Iterator[Chunk] = iter(())
        if features is not None:
            chunks = (chunk for _, chunk in narrow.process((key, Chunk(features))))
        if not self.late:
            yield from _sorted_out(fn.take_all(key, chunks), PREDICTIONS)
            return
        early = [*chunks]
        if labels is not None:
            early.append(narrow_labels((key, labels), narrow.spec)[1])
        yield from _sorted_out(fn.finish(key, None, _Cell(early)), PREDICTIONS)

    def _narrow(
        self, key: str, items: Iterator[Rows | State], told: list[Rows | State]
    ) -> Iterator[Chunk]:
        """Return what the learner takes of the features; all that comes by goes to `told`."""
        if self.learn is None:
            return
        for item in items:
            told.append(item)
            if isinstance(item, Rows) and item.part == FEATURES:
                for _, chunk in self.learn[0].process((key, Chunk(item.batch))):
                    yield chunk

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


def _chained(first: Chunk, rest: Iterator[Chunk]) -> Iterator[Chunk]:
    yield first
    yield from rest


def _sorted_out(items: Iterator[Any], main: str) -> Iterator[Rows | State]:
    """Return what a step yields as rows of outputs and snapshots; `main` is its main output."""
    for item in items:
        if not isinstance(item, TaggedOutput):
            yield Rows(main, item[1].batch)
        elif item.tag == SNAPSHOTS:
            yield State(item.value[1])
        elif item.tag == FAILURES:
            yield Rows(FAILURES, item.value.batch)
        elif item.tag == LATE:
            yield Rows(FAILURES, late_as_failures(item.value).batch)
        else:
            yield Rows(item.tag, item.value[1].batch)
