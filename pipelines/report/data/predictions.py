"""The learner's predictions, read a batch at a time in order of model and row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from pipelines.report.data.columns import array_of, model_numbers, times_of
from pipelines.report.data.files import column_names, parquet_files, read_batches
from pipelines.report.data.labels import LabelCodes
from transforms.outputs import PREDICTIONS

NO_CLASS, CUT_CLASS, FIRST_CLASS = 0, 1, 2
"""Places of no prediction, of classes that have no code, and of the classes that have one."""


@dataclass(frozen=True)
class PredictionRows:
    """A batch of predictions in order of model and row, n of them.

    Right and wrong are counted as losses: they add up, and what two predictors lose on the same
    rows can be compared.

    Attributes:
        model: Numbers of the models.
        index: Row indexes.
        time: Times (ns), None without times.
        label: Code of the class, -1 where it has none, or the value; NaN without a label.
        predicted: Place of the predicted class; empty in regression.
        scored: Whether the prediction was held against the label.
        loss: 1 where it was wrong, or the squared error; 0 where it was not scored.
        chance: Probability of the predicted class, NaN where that is not known; empty in
            regression.
        runs: First places of the runs of consecutive rows of one model, shape (runs,).
    """

    model: IntArray
    index: IntArray
    time: IntArray | None
    label: FloatArray
    predicted: IntArray
    scored: BoolArray
    loss: FloatArray
    chance: FloatArray
    runs: IntArray

    def ranges(self, kept: IntArray) -> dict[str, IntArray]:
        """Return index and, with times, time of some of the rows."""
        times = {} if self.time is None else {"time": self.time[kept]}
        return {"index": self.index[kept], **times}

    def before(self, known: FloatArray) -> FloatArray:
        """Return for each row the last label of its model before it, NaN without one.

        Args:
            known: For each run the last label before its first row, shape (runs,).
        """
        last = np.append(-1, last_labelled(self.label)[:-1])
        run = np.repeat(np.arange(len(self.runs)), np.diff([*self.runs, len(self.label)]))
        return np.where(last >= self.runs[run], self.label[last], known[run])

    def last_of_runs(self) -> FloatArray:
        """Return the last label of each run, NaN without one, shape (runs,)."""
        last = last_labelled(self.label)[np.append(self.runs[1:], len(self.label)) - 1]
        return np.where(last >= self.runs, self.label[last], np.nan)


def last_labelled(label: FloatArray) -> IntArray:
    """Return the place of the last label up to each, -1 before the first."""
    found: IntArray = np.maximum.accumulate(np.where(np.isnan(label), -1, np.arange(len(label))))
    return found


class PredictionSums:
    """The predictions of a run, to be gone over more than once, always in the same order.

    Args:
        output: The run's folder.
        models: Numbers of the models; further models are added as they are met.
    """

    def __init__(self, output: str, models: dict[str, int]) -> None:
        self.models = models
        self.classes = LabelCodes()
        self._paths = parquet_files(output, PREDICTIONS)
        names = column_names(self._paths)
        self.classifies = "correct" in names
        self.timed = "time" in names
        score = "correct" if self.classifies else "error"
        sure = self.classifies and "score" in names
        optional = {"time": self.timed, "prediction": self.classifies, "score": sure}
        self._columns = ["model_id", "index", "label", score]
        self._columns += [name for name, there in optional.items() if there]

    def __iter__(self) -> Iterator[PredictionRows]:
        """Yield the rows a batch at a time."""
        for batch in read_batches(self._paths, self._columns):
            yield self._rows(batch)

    def _rows(self, batch: pa.RecordBatch) -> PredictionRows:
        model, index = model_numbers(batch, self.models), array_of(batch, "index")
        runs = _runs(model, index)
        if len(runs) > np.count_nonzero(np.bincount(model)):
            order = np.lexsort((index, model))
            batch, model, index = batch.take(pa.array(order)), model[order], index[order]
            runs = _runs(model, index)
        time = times_of(batch.column("time")) if self.timed else None
        values = self._classes(batch) if self.classifies else _values(batch)
        chance = np.zeros(0)
        if "score" in self._columns:
            chance = _floats(batch.column("score"))
        elif self.classifies:
            chance = np.full(len(model), np.nan)
        return PredictionRows(model, index, time, *values, chance, runs)

    def _classes(self, batch: pa.RecordBatch) -> tuple[FloatArray, IntArray, BoolArray, FloatArray]:
        labels, answers = batch.column("label"), batch.column("prediction")
        missing = _nulls(labels)
        label = np.where(missing, np.nan, self.classes.encode(labels))
        codes = self.classes.encode(answers)
        predicted = np.where(_nulls(answers), NO_CLASS, codes + FIRST_CLASS)
        correct = batch.column("correct")
        scored = ~_nulls(correct) & ~missing
        right = correct.fill_null(False).to_numpy(zero_copy_only=False)
        return label, predicted, scored, (scored & ~right).astype(float)


def _runs(model: IntArray, index: IntArray) -> IntArray:
    parted = (model[1:] != model[:-1]) | (index[1:] != index[:-1] + 1)
    return np.flatnonzero(np.append(True, parted))


def _values(batch: pa.RecordBatch) -> tuple[FloatArray, IntArray, BoolArray, FloatArray]:
    label, error = (_floats(batch.column(name)) for name in ("label", "error"))
    scored = np.isfinite(label) & np.isfinite(error)
    # A prediction that ran away may be too far off for its square: the loss is then infinite.
    with np.errstate(over="ignore"):
        loss = np.where(scored, error, 0.0) ** 2
    return label, np.zeros(0, dtype=np.int64), scored, loss


def _floats(column: pa.Array) -> FloatArray:
    values: FloatArray = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(values), values, np.nan)


def _nulls(column: pa.Array) -> BoolArray:
    nulls: BoolArray = column.is_null().to_numpy(zero_copy_only=False)
    return nulls
