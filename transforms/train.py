"""TrainLinear: one linear learner per model, predicting and learning from its features in order."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import pvalue

from kerneltrack.learners import LearnerSpec
from kerneltrack.snapshots.folder import SnapshotFolder
from transforms.beam_worker.timer_names import timer_name
from transforms.chunks import Chunk
from transforms.keyed.expiry import Expiry
from transforms.learn.inputs import are_labels, narrow
from transforms.learn.late_labels import LateLabels
from transforms.learn.learners import Learners
from transforms.learn.plan import LearnLabels, Plan
from transforms.metrics import count
from transforms.outputs import (
    FAILURES,
    FEATURES,
    LEARNER,
    LOST_LABELS,
    METRICS,
    PREDICTIONS,
    SCORED,
    SNAPSHOTS,
    names_of,
)
from transforms.step import run_step
from transforms.track.keyed_fn import BundleRows, KeyedFn, with_timers
from transforms.track.log import ModelLog
from transforms.track.transform import rows_and_labels

__all__ = ["FAILURES", "METRICS", "PREDICTIONS", "SCORED", "SNAPSHOTS", "TrainLinear"]


class TrainLinear(beam.PTransform[Any, dict[str, pvalue.PCollection[Any]]]):
    """Train one linear learner per model on features that are there already, prequentially.

    `TrackSubspace(..., learner=LearnLabels(...))` tracks and learns in one step; this is for
    features of somebody else's, or those that a pipeline has changed.

    Input: features, `tuple[str, Chunk]` with index, z (or q), x where the learner's `inputs` are
    not "features", time and label as far as there are any; with `late` the pair (features,
    labels), or a dict of the two, labels as `TrackSubspace` takes them. Keyed by model ID, in the
    global window (other windowing is replaced).

    Order: rows are taken strictly in order of their index, which has no gaps. Chunks that come
    before their turn wait, rows that come twice are left out and counted; a gap at the end of
    the input is an error. So results depend on the rows, their labels and the spec alone.

    Output, a dict of PCollections: predictions, scored, metrics and snapshots as of
    `TrackSubspace`; failures, `Failures`: labels that no row takes.

    State per model: the learner's, the rows and labels that wait; chunks that came before their
    turn.

    Args:
        spec: The learner's spec.
        late: How long rows wait for labels; None: labels come with the rows.
        window: Length of the metrics' windows, seconds of event time; None: only the total.
        snapshot_every: Seconds of event time between boundaries: multiples of it since 1970,
            where a row passes one.
        warm: Snapshots of an earlier job to begin from. Without a learner's state in them a model
            starts over, at the row where the tracker goes on.
        bounded: Whether the input ends. Only `late` makes a difference of it.
        expiry: When learners of models that are silent leave the runner's state (see `expiry`);
            None: never. The results do not show it.

    Raises:
        ConfigError: for an argument that is out of range or another than in the snapshots; in the
            job itself, for labels of a type that cannot be learned, or rows without times where
            times are needed.
    """

    def __init__(
        self,
        spec: LearnerSpec,
        *,
        late: LateLabels | None = None,
        window: float | None = None,
        snapshot_every: float | None = None,
        warm: SnapshotFolder | None = None,
        bounded: bool = True,
        expiry: Expiry | None = None,
    ) -> None:
        super().__init__()
        self._plan = LearnLabels(spec, late, window, bounded).plan(snapshot_every)
        if warm is not None:
            warm.check(spec)
        self._warm = warm
        self._expiry = expiry

    def expand(self, inputs: Any) -> dict[str, pvalue.PCollection[Any]]:
        """Apply the transform."""
        plan = self._plan
        rows = rows_and_labels(inputs, "features", plan) | "Narrow" >> beam.FlatMap(
            narrowed, plan
        ).with_output_types(tuple[str, Chunk])
        live = self._expiry is not None
        step: Any = with_timers(TrainFn, timer_name(rows.pipeline), live)
        fn = step(plan, self._warm, self._expiry)
        names = names_of(LEARNER, (SCORED,) if plan.at_once else ())
        found = run_step(rows, "Learn", fn, FEATURES, names)
        # The step shows nobody the features.
        del found[FEATURES]
        found[FAILURES] = found.pop(LOST_LABELS)
        return found


class TrainFn(KeyedFn):
    """The keyed step without a tracker: features wait for their turn, then go to the learner."""

    def run_visits(
        self, pending: dict[str, BundleRows], logs: Mapping[str, ModelLog]
    ) -> Iterator[Any]:
        """Yield all features, those that waited too."""
        for key, each in pending.items():
            for chunk in (*logs[key].drain(), *each.chunks):
                yield key, chunk

    def shown(self, item: Any) -> Iterator[Any]:
        """Return an item if it is more than features."""
        if isinstance(item, pvalue.TaggedOutput):
            yield item

    def take(
        self, learners: Learners, chunks: Sequence[Sequence[Chunk]]
    ) -> Generator[Any, None, list[list[Chunk]]]:
        """Let learners take the features whose turn it is; return the others."""
        turns = [_in_turn(now.rows, own) for now, own in zip(learners.now, chunks, strict=True)]
        yield from super().take(learners, [ready for ready, _ in turns])
        return [early for _, early in turns]

    def finish_chunks(self, key: str, chunks: list[Chunk]) -> Iterator[Any]:
        """Yield all features, in order."""
        return ((key, chunk) for chunk in sorted(chunks, key=_first))

    def finish_log(self, key: str, log: ModelLog) -> Iterator[Any]:
        """Yield the features that still wait: some before them never came."""
        return ((key, chunk) for chunk in log.waiting())


def _in_turn(next_row: int, chunks: Sequence[Chunk]) -> tuple[list[Chunk], list[Chunk]]:
    """Return the features that follow one another from a row on, and those that come later."""
    ready: list[Chunk] = []
    early: list[Chunk] = []
    for chunk in sorted(chunks, key=_first):
        if _first(chunk) > next_row:
            early.append(chunk)
            continue
        again = min(next_row - _first(chunk), len(chunk))
        count("rows_again", again)
        if again < len(chunk):
            ready.append(chunk.slice(again, len(chunk)))
            next_row += len(chunk) - again
    return ready, early


def _first(chunk: Chunk) -> int:
    """Return the index of the chunk's first row."""
    index: int = chunk.batch.column("index")[0].as_py()
    return index


def narrowed(element: tuple[str, Chunk], plan: Plan) -> Iterator[tuple[str, Chunk]]:
    """Yield what a learner needs of features, a chunk for each run of indexes; labels as they are.

    Raises:
        ConfigError: as of `narrow`.
    """
    key, chunk = element
    if are_labels(chunk):
        yield element
        return
    rows = narrow(plan, chunk)
    breaks = np.flatnonzero(np.diff(chunk.column("index")) != 1) + 1
    for start, stop in itertools.pairwise([0, *breaks.tolist(), len(chunk)]):
        if stop > start:
            yield key, rows.slice(start, stop)
