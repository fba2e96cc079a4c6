"""TrackByPartition: bounded input by partition through tracker and learner, on any Beam runner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.settings import check_int
from kerneltrack.snapshots.index import MOST_SLOTS
from kerneltrack.snapshots.packed import slot_of
from transforms.chunks import Chunk
from transforms.learn.inputs import are_labels
from transforms.outputs import (
    FEATURES,
    LATE,
    LEARNER,
    LOST_LABELS,
    TRACKER,
    names_of,
)
from transforms.partition.blocks import items_of, run_blocks
from transforms.partition.shuffle import MODEL, sort_rows
from transforms.partition.steps import IN_ARRIVAL, Steps, named_alone
from transforms.step import run_step
from transforms.track.emit import Output
from transforms.track.sorted_rows import SortedRows
from transforms.track.transform import TrackSubspace, rows_and_labels

PARTITIONS = 256

Element = tuple[str, Chunk]


class TrackByPartition(beam.PTransform[Any, dict[str, pvalue.PCollection[Any]]]):
    """Track and learn with what comes of the input grouped by a hash of the model ID.

    The results are those of `TrackSubspace`, bit for bit, without state or timers: one GroupByKey,
    after which whole models go through, many at a time. That is the way of bounded input on a
    cluster; streams need the stateful step.

    Input: `tuple[str, Chunk]`, rows keyed by model ID, bounded, in any order, in the global window
    (other windowing is replaced by it); with delayed labels the pair (rows, labels). Key: the model
    ID's CRC-32 modulo `partitions`. Order: rows are learned from in order of (time, sequence,
    source, row); with a finite `max_disorder` they arrive in the order of source and row. Results
    depend on each model's rows and the specs alone.

    Output, a dict of PCollections: features, mismatch, alerts, episodes, snapshots and failures,
    with a learner predictions and metrics, as of `TrackSubspace`. Late rows and labels that no row
    takes are failures; duplicates are rows like others unless the order drops them.

    State: none. A worker holds the rows of one partition in memory, so that with P partitions it
    needs about 1/P of the input's rows, and at least those of the largest model.

    Args:
        track: What is done with the rows.
        partitions: How many partitions there are, 1 to 65,536: many more than workers, so that
            all have about as much to do, and each small enough for a worker's memory.

    Raises:
        ConfigError: for a number that is out of range, or a learner of unbounded input; when
            applied, for unbounded input.
    """

    def __init__(
        self,
        track: TrackSubspace,
        *,
        partitions: int = PARTITIONS,
    ) -> None:
        super().__init__()
        check_int("partitions", partitions, 1, MOST_SLOTS)
        if track.plan is not None and not track.plan.bounded:
            raise ConfigError("bounded", False, "True: labels of unbounded input have no end")
        self._partitions = partitions
        self._plan = track.plan
        self._steps = Steps(track.step(), track.order)

    def expand(self, inputs: Any) -> dict[str, pvalue.PCollection[Any]]:
        """Apply the transform."""
        plan = self._plan
        rows = rows_and_labels(inputs, "rows", plan)
        if not rows.is_bounded:
            raise ConfigError("rows", "unbounded", "bounded; TrackSubspace takes streams")
        grouped = (
            rows
            | "ByPartition"
            >> beam.Map(_with_partition, self._partitions).with_output_types(tuple[int, Element])
            | "Group" >> beam.GroupByKey()
        )
        learned = () if plan is None else names_of(LEARNER)
        names = dict.fromkeys((*names_of(TRACKER), *learned))
        # They are failures here.
        for name in (LATE, LOST_LABELS):
            names.pop(name, None)
        return run_step(grouped, "Run", _PartitionFn(self._steps), FEATURES, names)


def _with_partition(element: tuple[str, Chunk], partitions: int) -> tuple[int, Element]:
    return slot_of(element[0], partitions), element


class _PartitionFn(beam.DoFn):
    """Run the models of a partition, in order of their names."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def process(self, element: tuple[int, Iterable[Element]]) -> Iterator[Any]:
        rows: list[Element] = []
        named: list[Element] = []
        for part in element[1]:
            (named if are_labels(part[1]) else rows).append(part)
        yield from run_partition(self._steps, _sorted(rows, self._steps.keys), _each(named))


def _sorted(parts: list[Element], keys: tuple[str, ...]) -> SortedRows | None:
    if not parts:
        return None
    batches = [
        chunk.batch.append_column(MODEL, pa.array([key], pa.string()).take(_zeros(len(chunk))))
        for key, chunk in parts
    ]
    return sort_rows(pa.Table.from_batches(batches), keys)


def _zeros(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(0, pa.int32()), count)


def _each(labels: list[Element]) -> dict[str, Chunk]:
    known = _sorted(labels, IN_ARRIVAL)
    return {} if known is None else dict(known.each())


def run_partition(
    steps: Steps, rows: SortedRows | None, labels: dict[str, Chunk]
) -> Iterator[Output]:
    """Run all models of a partition.

    Args:
        steps: What is done with each model's rows.
        rows: The models' rows, sorted by the steps' keys; None if there are none.
        labels: Delayed labels by model.

    Yields:
        What came of them, as the step has it.
    """
    known: set[str] = set()
    if rows is not None:
        known = {*rows.names}
        for block in run_blocks(steps, rows, labels):
            yield from items_of(block)
    for key in sorted(labels.keys() - known):
        try:
            yield from steps.run_without_rows(key, labels[key])
        except DataError as error:
            yield named_alone(key, error)
