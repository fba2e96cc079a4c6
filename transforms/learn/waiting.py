"""Rows that are predicted and wait for their labels."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.fleet.learn import prediction_columns, predictions_at
from kerneltrack.learners import LearnerSpec, LearnerState, Predictions
from kerneltrack.learners.common.label_sets import joined
from kerneltrack.registry import get_learner
from kerneltrack.time_units import nanoseconds
from transforms.chunks import Chunk
from transforms.learn.late_labels import LateLabels
from transforms.learn.predictions import prediction_arrays
from transforms.read.label_values import LabelArray, no_labels


@dataclasses.dataclass(frozen=True, slots=True)
class FeatureRows:
    """Rows of a model that follow one another.

    Attributes:
        first: Index of the first.
        time: (n,) ns; None without times.
        clock: (n,) greatest time of the model up to each row; zeros without times.
        z: (n, r) features.
        label: (n,) labels that came with them.
    """

    first: int
    time: IntArray | None
    clock: IntArray
    z: FloatArray
    label: LabelArray

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.clock)

    def part(self, start: int, stop: int) -> FeatureRows:
        """Return rows start..stop."""
        return FeatureRows(
            self.first + start,
            None if self.time is None else self.time[start:stop],
            self.clock[start:stop],
            self.z[start:stop],
            self.label[start:stop],
        )

    def followed_by(self, more: FeatureRows) -> FeatureRows:
        """Return these rows and those after them."""
        if not len(self):
            return more
        times = None
        if self.time is not None and more.time is not None:
            times = np.concatenate([self.time, more.time])
        return FeatureRows(
            self.first,
            times,
            np.concatenate([self.clock, more.clock]),
            np.concatenate([self.z, more.z]),
            np.concatenate([self.label, more.label]),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class PredictedRows:
    """Rows and what was said of them.

    Attributes:
        rows: The rows.
        predictions: Their predictions, each made before its row or a later one was learned from.
    """

    rows: FeatureRows
    predictions: Predictions

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def part(self, start: int, stop: int) -> PredictedRows:
        """Return rows start..stop."""
        predictions = predictions_at(self.predictions, slice(start, stop))
        return PredictedRows(self.rows.part(start, stop), predictions)

    def moved(self, first: int, classes: tuple[str, ...]) -> PredictedRows:
        """Return no rows, as these are, before the one of this index."""
        rows = dataclasses.replace(self.rows, first=first)
        return PredictedRows(rows, dataclasses.replace(self.predictions, classes=classes))

    def copied(self) -> PredictedRows:
        """Return the same with arrays that are no parts of larger ones."""
        return PredictedRows(
            FeatureRows(
                self.rows.first,
                None if self.rows.time is None else self.rows.time.copy(),
                self.rows.clock.copy(),
                self.rows.z.copy(),
                self.rows.label.copy(),
            ),
            predictions_at(self.predictions, np.arange(len(self))),
        )


def join_predictions(first: Predictions, then: Predictions) -> Predictions:
    """Join predictions of one model, the later ones knowing all classes of the earlier."""
    more = prediction_columns(then)
    columns: dict[str, Any] = {
        name: joined([column, more[name]])
        if name == "members"
        else np.concatenate([column, more[name]])
        for name, column in prediction_columns(first).items()
    }
    return dataclasses.replace(then, **columns)


def none_waiting(spec: LearnerSpec, state: LearnerState, first: int) -> PredictedRows:
    """Return no rows, before the one of this index."""
    learner = get_learner(spec.learner)
    empty, none = np.zeros(0, np.int64), np.zeros((0, learner.width(spec, state)))
    rows = FeatureRows(first, None, empty, none, no_labels(spec, 0))
    return PredictedRows(rows, learner.predict(spec, state, rows.z))


def due_before(late: LateLabels, clock: IntArray, waiting: int) -> IntArray:
    """Count the rows that are to be settled before each new row is predicted.

    Args:
        late: The longest wait.
        clock: (w + n,) greatest times up to the rows that wait and the new ones.
        waiting: w.

    Returns:
        (n,) how many of the w + n rows, from the first on; never the row itself.
    """
    places = np.arange(waiting, len(clock))
    due = places - late.most_rows + 1
    if late.wait is not None:
        wait = nanoseconds(late.wait)
        # Times are far enough from the ends of an int64 that only this sum could leave it.
        least = np.iinfo(np.int64).min
        reach = np.where(clock < least + wait, least, clock - wait)[waiting:]
        due = np.maximum(due, np.searchsorted(clock, reach, side="right"))
    counts: IntArray = np.clip(due, 0, places)
    return counts


def prediction_chunk(predicted: PredictedRows, label: pa.Array | None) -> Chunk:
    """Put predictions into a chunk, columns as in `transforms.write.schemas.predictions_schema`.

    Args:
        predicted: The rows.
        label: Their labels, as `label_column` gives them; None: not known yet.
    """
    rows = predicted.rows
    columns: dict[str, Any] = {"index": pa.array(rows.first + np.arange(len(rows)))}
    if rows.time is not None:
        columns["time"] = pa.array(rows.time)
    columns |= prediction_arrays(predicted.predictions, label)
    return Chunk(pa.RecordBatch.from_pydict(columns))
