"""ScoreRows: features and predictions of rows under snapshots, without learning."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.typehints import with_input_types, with_output_types

from kerneltrack import codec
from kerneltrack.learners import LearnerSpec, LearnerState
from kerneltrack.registry import get_learner, get_tracker
from kerneltrack.trackers.common.spec import SubspaceSpec
from transforms.chunks import Chunk, Failures, matrix_column
from transforms.learn.predictions import prediction_arrays
from transforms.metrics import count
from transforms.read.label_values import label_column, label_values
from transforms.snapshots.folder import SnapshotFolder
from transforms.write.schemas import TIME, predictions_schema

SCORES, FAILURES = "scores", "failures"
_NUMBERED = ("model_id", "index", "time")
MODELS_AT_HAND = 256
"""Decoded models that a worker keeps."""


def scores_schema(
    spec: SubspaceSpec, learner: LearnerSpec | None, label: pa.DataType | None, has_time: bool
) -> pa.Schema:
    """Return the schema of scored rows.

    Args:
        spec: The trackers' spec.
        learner: The learners' spec, if there are learners.
        label: Type of the label, None without one.
        has_time: Whether the input has a time column.
    """
    fields = [pa.field("model_id", pa.string())]
    if has_time:
        fields.append(pa.field("time", TIME))
    fields += [
        pa.field("source", pa.dictionary(pa.int32(), pa.string())),
        pa.field("row", pa.int64()),
        pa.field("loss", pa.float64()),
        pa.field("novelty", pa.float64()),
        pa.field(spec.emit, pa.list_(pa.float64(), spec.rank)),
    ]
    if learner is None:
        return pa.schema([*fields, *([] if label is None else [pa.field("label", label)])])
    said = predictions_schema(learner, has_time)
    return pa.schema([*fields, *(field for field in said if field.name not in _NUMBERED)])


class ScoreRows(
    beam.PTransform[pvalue.PCollection[tuple[str, Chunk]], dict[str, pvalue.PCollection[Any]]]
):
    """Project rows on their models' subspaces and predict their labels; nothing is learned.

    Input: `tuple[str, Chunk]`, rows keyed by model ID, in any order and windowing: each row is
    taken by itself. No state is kept.

    Output, a dict of PCollections:
      scores: `tuple[str, Chunk]`, one row for each row that the tracker takes, columns as in
        `scores_schema`: the residual of the row as `loss`, its rank among the model's recent
        losses as `novelty`, and, if the snapshots hold learners, prediction, score and margin, and
        whether the label agrees.
      failures: `Failures`, rows refused with the reason, those of unknown models among them.

    Args:
        snapshots: Where the models are; the newest of each is taken.
    """

    def __init__(self, snapshots: SnapshotFolder) -> None:
        """Keep the folder; see the class."""
        super().__init__()
        self._snapshots = snapshots

    def expand(
        self, rows: pvalue.PCollection[tuple[str, Chunk]]
    ) -> dict[str, pvalue.PCollection[Any]]:
        """Apply the transform."""
        outputs = rows | "Score" >> beam.ParDo(_ScoreFn(self._snapshots)).with_outputs(
            FAILURES, main=SCORES
        )
        outputs[FAILURES].element_type = Failures
        return {SCORES: outputs[SCORES], FAILURES: outputs[FAILURES]}


class _Known(NamedTuple):
    """A model as its snapshots have it."""

    spec: SubspaceSpec
    state: Any
    learner: tuple[LearnerSpec, LearnerState] | None


class _ScoreFn(beam.DoFn):
    """Yield features and predictions under the model's snapshot."""

    def __init__(self, snapshots: SnapshotFolder) -> None:
        self._snapshots = snapshots
        self._at_hand: OrderedDict[str, _Known | None] = OrderedDict()

    @with_input_types(tuple[str, Chunk])
    @with_output_types(tuple[str, Chunk])
    def process(self, element: tuple[str, Chunk]) -> Iterator[Any]:
        key, chunk = element
        known = self._model(key)
        if known is None:
            reason = f"no snapshot of this model in {self._snapshots.folder}"
            yield _failures(key, chunk, [reason] * len(chunk))
            return
        tracker = get_tracker(known.spec.tracker)
        rows = chunk.column("x")
        features = tracker.project(known.spec, known.state, rows)
        good = np.flatnonzero(features.valid)
        if len(good) < len(chunk):
            bad = np.flatnonzero(~features.valid)
            reasons = [tracker.why_refused(known.spec, known.state, row) for row in rows[bad]]
            yield _failures(key, chunk.take(bad), reasons)
            chunk = chunk.take(good)
        if not len(good):
            return
        values = getattr(features, known.spec.emit)[good]
        columns: dict[str, Any] = {
            name: chunk.batch.column(name)
            for name in ("time", "source", "row", "label")
            if chunk.has(name)
        }
        columns["loss"] = pa.array(features.loss[good])
        columns["novelty"] = pa.array(features.novelty[good])
        columns[known.spec.emit] = matrix_column(values)
        if known.learner is not None:
            columns |= _predicted(*known.learner, values, columns.get("label"))
        count("rows_tracked", len(good))
        yield key, Chunk(pa.RecordBatch.from_pydict(columns))

    def _model(self, key: str) -> _Known | None:
        """Return a model, from the folder if it is not at hand."""
        if key not in self._at_hand:
            self._at_hand[key] = self._read(key)
            if len(self._at_hand) > MODELS_AT_HAND:
                self._at_hand.popitem(last=False)
        self._at_hand.move_to_end(key)
        return self._at_hand[key]

    def _read(self, key: str) -> _Known | None:
        data = self._snapshots.state(key, codec.TRACKER)
        if data is None:
            return None
        found = codec.decode(data, f"snapshot of model {key!r}")
        if self._snapshots.learner_spec is None:
            return _Known(found.spec, found.state, None)
        return _Known(found.spec, found.state, self._learner(key, self._snapshots.learner_spec))

    def _learner(self, key: str, spec: LearnerSpec) -> tuple[LearnerSpec, LearnerState]:
        """Return a model's learner: one that knows nothing where there is no snapshot of it."""
        data = self._snapshots.state(key, codec.LEARNER)
        if data is None:
            return spec, get_learner(spec.learner).init(spec, self._snapshots.spec.rank)
        found = codec.decode_learner(data, f"learner of model {key!r}")
        return found.spec, found.state


def _predicted(
    spec: LearnerSpec, state: LearnerState, values: Any, label: pa.Array | None
) -> dict[str, pa.Array]:
    """Return the columns of predictions, scored if there are labels."""
    learner = get_learner(spec.learner)
    said = learner.predict(spec, state, values)
    labels = None if label is None else label_column(spec, label)
    if labels is not None:
        _, said = learner.score(spec, state, said, label_values(labels))
    return prediction_arrays(said, labels)


def _failures(key: str, rows: Chunk, reasons: list[str]) -> pvalue.TaggedOutput[str, Failures]:
    count("rows_failed", len(reasons))
    failures = Failures.of(key, rows.column("source"), rows.column("row"), reasons)
    return pvalue.TaggedOutput(FAILURES, failures)
