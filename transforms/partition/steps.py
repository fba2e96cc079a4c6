"""All that is done with one model's rows, in memory: tracked, and learned from in the same pass.

The step is that of `TrackSubspace`; what Beam keeps for it between calls lies in memory here. So
whatever drives it, a model's results are the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from apache_beam.pvalue import TaggedOutput

from kerneltrack.errors import DataError
from kerneltrack.fleet.model import Model
from transforms.chunks import IN_ORDER, Chunk
from transforms.failures import Failures, unreadable
from transforms.learn.inputs import narrow_labels
from transforms.learn.learner import begin
from transforms.learn.learners import Learners
from transforms.metrics import UNREADABLE, count
from transforms.outputs import FAILURES, LATE, LOST_LABELS
from transforms.read.files import CHUNK_ROWS
from transforms.track.clock import Clock
from transforms.track.emit import Output, failures
from transforms.track.order import Order
from transforms.track.refusals import late_as_failures
from transforms.track.step import TrackFn

IN_ARRIVAL = ("row", "source")


class Started(NamedTuple):
    """Models of a block before their first rows.

    Attributes:
        known: Clock of each, and the model if a snapshot has it; empty if nothing is known of any.
        learners: Their learners, if there are any.
        broken: Why a snapshot cannot be read, by the model's place: it costs that model its rows.
    """

    known: list[tuple[Clock, Model | None]]
    learners: Learners | None
    broken: Mapping[int, str]


@dataclass(frozen=True)
class Steps:
    """What is done with every model's rows.

    Attributes:
        track: The step.
        order: How rows are put in order.
    """

    track: TrackFn
    order: Order

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that a model's rows must be sorted by, the last one first.

        Those that are not put in order at the end are taken as they arrived: by source and row.
        """
        return IN_ORDER if self.order.waits_for_end else IN_ARRIVAL

    def run_stream(self, key: str, rows: Iterator[Chunk], labels: Chunk | None) -> Iterator[Output]:
        """Run rows in order of arrival, more than there is memory for, as a stream's are run.

        Args:
            key: The model's ID.
            rows: All of its rows, sorted by `keys`, some at a time.
            labels: Its delayed labels, by `index` or `time`; None without.
        """
        items = self._ended(key, self.track.finish_arrived(key, _as_they_came(rows)), labels)
        try:
            yield from itertools.islice(items, 1)
        except DataError as error:
            # Its snapshots are read before its first row is.
            for chunk in rows:
                yield failures(key, chunk, [unreadable(error)] * len(chunk))
            return
        yield from items

    def run_without_rows(self, key: str, labels: Chunk | None) -> Iterator[Output]:
        """Return what comes of a model of which there are only delayed labels, if these.

        Raises:
            DataError: if a snapshot of the model cannot be read; see `named_alone`.
        """
        return self._ended(key, (), labels)

    def _ended(self, key: str, tracked: Iterable[Output], labels: Chunk | None) -> Iterator[Output]:
        """Return what comes of a model, and of its learner."""
        named = [] if labels is None else [self._named(key, labels)]
        return _as_failures(self.track.ended(key, tracked, named))

    def _named(self, key: str, labels: Chunk) -> Chunk:
        """Return delayed labels as learners take them."""
        plan = self.track.plan
        return labels if plan is None else narrow_labels((key, labels), plan.spec)[1]

    def start(self, keys: Sequence[str], labels: Mapping[str, Chunk]) -> Started:
        """Return what models are before their first rows; `labels`: delayed ones, by model."""
        track, plan = self.track, self.track.plan
        known = [] if track.begins_anew else track.resumed_each(keys)
        broken = {
            at: unreadable(each) for at, each in enumerate(known) if isinstance(each, DataError)
        }
        now = [] if plan is None else [begin(plan.spec)] * len(keys)
        for at, key in enumerate(keys if plan is not None and known else ()):
            try:
                now[at] = track.learner(key)
            except DataError as error:
                broken.setdefault(at, unreadable(error))
        nothing = Clock(), None
        sound: list[tuple[Clock, Model | None]] = [
            nothing if at in broken or isinstance(each, DataError) else each
            for at, each in enumerate(known)
        ]
        learners = None if plan is None else Learners(plan, keys, now)
        for place, key in enumerate(keys):
            if learners is not None and key in labels:
                learners.arrive(place, self._named(key, labels[key]))
        return Started(sound, learners, broken)


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


def named_alone(key: str, error: DataError) -> Output:
    """Return the failure of a model without rows whose snapshot cannot be read, counted."""
    count(UNREADABLE, 1)
    return TaggedOutput(FAILURES, Failures.of_model(key, unreadable(error)))


def _as_failures(items: Iterator[Output]) -> Iterator[Output]:
    """Return what the step yields; rows and labels that came too late are failures."""
    for item in items:
        if isinstance(item, TaggedOutput) and item.tag in {LATE, LOST_LABELS}:
            lost = late_as_failures(item.value) if item.tag == LATE else item.value
            yield TaggedOutput(FAILURES, lost)
        else:
            yield item
