"""ScoreRows: features, predictions and episodes of rows under snapshots, without learning."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.transforms.window import GlobalWindows
from apache_beam.typehints import with_input_types, with_output_types

from kerneltrack import codec
from kerneltrack.errors import ConfigError
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.restore import frozen
from kerneltrack.fleet.run import run_rows
from kerneltrack.learners import LearnerSpec, LearnerState
from kerneltrack.learners.common.inputs import inputs_of, width_of_inputs
from kerneltrack.monitor.feedback import Feedback
from kerneltrack.monitor.mismatch import stores_rows
from kerneltrack.monitor.reference import restarted
from kerneltrack.monitor.rules import Rules
from kerneltrack.registry import get_learner, get_tracker
from kerneltrack.snapshots.folder import SnapshotFolder
from transforms.chunks import Chunk, matrix_column
from transforms.failures import Failures
from transforms.learn.predictions import prediction_arrays
from transforms.metrics import count, count_scored_again, count_unreferenced
from transforms.outputs import MISMATCH, SCORER, SCORES, names_of
from transforms.read.label_values import label_column, label_values
from transforms.step import run_step
from transforms.track.emit import failures
from transforms.track.features import (
    reference_columns,
    tell_episodes,
)
from transforms.track.merge import merge_times
from transforms.track.slices import SLICE_ROWS
from transforms.track.windows import MeasureMismatch, mismatch_chunk

MODELS_AT_HAND = 256
"""Decoded models that a worker keeps."""


class ScoreRows(
    beam.PTransform[pvalue.PCollection[tuple[str, Chunk]], dict[str, pvalue.PCollection[Any]]]
):
    """Project rows on their models' subspaces and predict their labels; nothing is learned.

    Input: `tuple[str, Chunk]`, rows keyed by model ID, in any order. Without references and windows
    each row is taken by itself, in any windowing, and no state is kept. Otherwise the input must
    end: a model's rows are put in order of (time, sequence, source, row), all in memory at once,
    and compared with the reference of its snapshot, which goes on from there and learns nothing.
    Where they begin with rows that the model has learned from, the evidence begins at 0. A model
    whose snapshot has no reference, or one that was not made to its end, has null columns.

    Output, a dict of PCollections:
      scores: `tuple[str, Chunk]`, one row for each row that the tracker takes, columns as in
        `transforms.write.schemas.scores_schema`: the residual of the row as `loss`, its rank among
        the model's recent losses as `novelty`, and, if the snapshots hold learners, prediction,
        score and margin, and whether the label agrees. In order, `index` goes on from the
        snapshot's rows.
      mismatch: `tuple[str, Chunk]`, as of `TrackSubspace`, under the subspace of the snapshot. The
        windows start over.
      episodes: `tuple[str, Chunk]`, as of `TrackSubspace`.
      failures: `Failures`, rows refused with the reason, those of unknown models among them.

    Args:
        snapshots: Where the models are; the newest of each is taken.
        measure: Windows whose kernel mismatch is measured; event-time windows only.
        merge: Whether rows of one time are parts of one row (see `Order.duplicates`).
        rules: Which episodes count, as of `TrackSubspace`; so is `feedback`.
        feedback: See `rules`.

    Raises:
        ConfigError: for a moving window, or a tracker that stores no rows to measure with.
    """

    def __init__(
        self,
        snapshots: SnapshotFolder,
        measure: MeasureMismatch | None = None,
        *,
        merge: bool = False,
        rules: Rules | None = None,
        feedback: Feedback | None = None,
    ) -> None:
        super().__init__()
        if measure is not None and measure.moving is not None:
            raise ConfigError("moving", measure.moving, "None: nothing moves where nothing learns")
        if measure is not None and not stores_rows(get_tracker(snapshots.spec.tracker)):
            raise ConfigError("measure", measure, f"None for the tracker {snapshots.spec.tracker}")
        self.snapshots = snapshots
        self.measure = measure
        self.merge = merge
        self.rules = rules
        self.feedback = feedback

    @property
    def in_order(self) -> bool:
        """Whether rows are taken in the order of their times."""
        reference = self.snapshots.reference_spec is not None
        return self.measure is not None or reference or self.merge

    def expand(
        self, rows: pvalue.PCollection[tuple[str, Chunk]]
    ) -> dict[str, pvalue.PCollection[Any]]:
        """Apply the transform."""
        if self.in_order:
            rows = (
                rows
                | "GlobalWindow" >> beam.WindowInto(GlobalWindows())
                | "ByModel" >> beam.GroupByKey()
            )
        return run_step(rows, "Score", self.step(), SCORES, names_of(SCORER))

    def step(self) -> beam.DoFn:
        """Return the step itself: of chunks, or of all chunks of a model."""
        if self.in_order:
            return _ScoreInOrderFn(
                self.snapshots, self.measure, self.merge, self.rules, self.feedback
            )
        return _ScoreFn(self.snapshots)


class _Known(NamedTuple):
    """A model as its snapshots have it."""

    work: Work
    model: Model
    learner: tuple[LearnerSpec, LearnerState] | None
    newest: int | None
    """Time of the newest row that it has learned from, ns; None without times."""

    def learned(self, rows: Chunk) -> int:
        """Return how many of some rows it has learned from, by their times."""
        if self.newest is None or not rows.has("time"):
            return 0
        return int(np.count_nonzero(rows.column("time") <= self.newest))

    def restarted_reference(self) -> _Known:
        """Return the model with a reference whose evidence is 0, for rows that follow none."""
        known_reference = self.model.reference
        if known_reference is None:
            return self
        return self._replace(model=self.model._replace(reference=restarted(known_reference)))


class _Scorer(beam.DoFn):
    """What both steps share: models from the folder, rows to columns."""

    in_order: bool

    def __init__(
        self,
        snapshots: SnapshotFolder,
        measure: MeasureMismatch | None = None,
        rules: Rules | None = None,
        feedback: Feedback | None = None,
    ) -> None:
        self._snapshots = snapshots
        self._rules, self._feedback = rules, feedback
        self._measure = None if measure is None else measure.in_ns()

    def read(self, key: str) -> _Known | None:
        """Return a model from the folder; None if there is none."""
        data = self._snapshots.state(key, codec.TRACKER)
        if data is None:
            return None
        work, model, newest = frozen(data, f"snapshot of model {key!r}", self._measure)
        work = dataclasses.replace(work, rules=self._rules, feedback=self._feedback)
        learner = self._snapshots.learner_spec
        if learner is None:
            return _Known(work, model, None, newest)
        own = self._learner(key, learner, len(model.state.scale))
        return _Known(work, model, own, newest)

    def _learner(
        self, key: str, spec: LearnerSpec, channels: int
    ) -> tuple[LearnerSpec, LearnerState]:
        """Return a model's learner: one that knows nothing where there is no snapshot of it."""
        data = self._snapshots.state(key, codec.LEARNER)
        if data is None:
            width = width_of_inputs(spec, self._snapshots.spec.rank, channels)
            return spec, get_learner(spec.learner).begin(spec, *width)
        found = codec.decode_learner(data, f"learner of model {key!r}")
        return found.spec, found.state

    def unknown(self, key: str, chunk: Chunk) -> pvalue.TaggedOutput[str, Failures]:
        """Return rows of a model that has no snapshot as failures."""
        reason = f"no snapshot of this model in {self._snapshots.folder}"
        return failures(key, chunk, [reason] * len(chunk))

    def scored(
        self, key: str, known: _Known, chunk: Chunk, until: float
    ) -> Generator[Any, None, _Known]:
        """Run rows through a frozen model, yield what is said of them; the model after them."""
        work, state = known.work, known.model.state
        times = chunk.column("time") if self.in_order and chunk.has("time") else None
        model, found = run_rows(work, key, known.model, chunk.column("x"), times, until)
        features, good = found.features, np.flatnonzero(found.features.valid)
        if len(good) < len(chunk):
            bad = np.flatnonzero(~features.valid)
            refused, tracker = chunk.take(bad), get_tracker(work.spec.tracker)
            reasons = [tracker.why_refused(work.spec, state, row) for row in refused.column("x")]
            yield failures(key, refused, reasons)
            chunk = chunk.take(good)
        if len(good):
            columns: dict[str, Any] = {
                name: chunk.batch.column(name)
                for name in ("time", "source", "row", "label")
                if chunk.has(name)
            }
            if self.in_order:
                columns["index"] = pa.array(features.index[good])
                columns |= reference_columns(found.scores_at(good), len(good))
            columns["loss"] = pa.array(features.loss[good])
            columns["novelty"] = pa.array(features.novelty[good])
            values = getattr(features, work.spec.emit)[good]
            columns[work.spec.emit] = matrix_column(values)
            if known.learner is not None:
                inputs, _ = inputs_of(known.learner[0], values, work.spec, state, chunk.column("x"))
                columns |= _predicted(*known.learner, inputs, columns.get("label"))
            count("rows_tracked", len(good))
            yield key, Chunk(pa.RecordBatch.from_pydict(columns))
        if found.measured and work.measure is not None:
            count("windows", len(found.measured[0]))
            mismatch = mismatch_chunk(found.measured[0], work.spec, work.measure.confidence)
            yield pvalue.TaggedOutput(MISMATCH, (key, mismatch))
        if found.episodes:
            yield tell_episodes(key, found.episodes[0], times is not None)
        return known._replace(model=model)


class _ScoreFn(_Scorer):
    """Yield what rows are under their model's snapshot, each by itself."""

    in_order = False

    def setup(self) -> None:
        """Keep models at hand, in the worker that this runs in."""
        self._at_hand = lru_cache(MODELS_AT_HAND)(self.read)

    @with_input_types(tuple[str, Chunk])
    @with_output_types(tuple[str, Chunk])
    def process(self, element: tuple[str, Chunk]) -> Iterator[Any]:
        key, chunk = element
        known = self._at_hand(key)
        if known is None:
            yield self.unknown(key, chunk)
            return
        count_scored_again(key, known.learned(chunk))
        yield from self.scored(key, known, chunk, -math.inf)


class _ScoreInOrderFn(_Scorer):
    """Yield the same of a model's rows in order, with windows, reference and episodes."""

    in_order = True

    def __init__(
        self,
        snapshots: SnapshotFolder,
        measure: MeasureMismatch | None,
        merge: bool,
        rules: Rules | None,
        feedback: Feedback | None,
    ) -> None:
        super().__init__(snapshots, measure, rules, feedback)
        self._merge = merge

    @with_input_types(tuple[str, Iterable[Chunk]])
    @with_output_types(tuple[str, Chunk])
    def process(self, element: tuple[str, Iterable[Chunk]]) -> Iterator[Any]:
        key, chunks = element
        rows, known = Chunk.concat(list(chunks)).in_order(), self.read(key)
        rows = merge_times(rows) if self._merge else rows
        if known is None:
            yield self.unknown(key, rows)
            return
        count("models_scored", 1)
        if known.model.reference is None:
            count_unreferenced(key)
        if learned := known.learned(rows):
            count_scored_again(key, learned)
            # Evidence of the rows before would be of later times than these.
            known = known.restarted_reference()
        for start in range(0, len(rows), SLICE_ROWS):
            piece = rows.slice(start, start + SLICE_ROWS)
            last = start + SLICE_ROWS >= len(rows)
            known = yield from self.scored(key, known, piece, math.inf if last else -math.inf)


def _predicted(
    spec: LearnerSpec, state: LearnerState, values: Any, label: pa.Array | None
) -> dict[str, pa.Array]:
    """Return the columns of predictions, scored if there are labels."""
    learner = get_learner(spec.learner)
    predictions = learner.predict(spec, state, values)
    labels = None if label is None else label_column(spec, label)
    if labels is not None:
        _, predictions = learner.score(spec, state, predictions, label_values(labels))
    return prediction_arrays(predictions, labels)
