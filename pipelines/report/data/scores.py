"""The learner's predictions as the report counts them, model by model.

Right and wrong are counted as losses: 1 for a wrong class, the squared error of a value. Losses add
up, and what two predictors lose on the same rows can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.report.data.files import column_names, parquet_files, read_batches
from pipelines.report.data.labels import LabelCodes
from pipelines.report.data.totals import Floats, Ints, array_of, grown, model_codes

Bools = npt.NDArray[np.bool_]

CLASS_BITS = 13
"""Bits that tell classes apart: `LabelCodes` holds 5,000 at the most."""

NO_CLASS, CUT_CLASS, FIRST_CLASS = 0, 1, 2
"""Where a tally has no prediction, classes beyond those told apart, and the others."""


@dataclass(frozen=True)
class Rows:
    """A batch of predictions in order of model and row, n of them.

    Attributes:
        model: Numbers of the models.
        index: Row indexes.
        time: Times (ns), None without times.
        label: Number of the class, -1 where classes are too many to be told apart, or the value;
            NaN without a label.
        said: The prediction's place in a tally; empty in regression.
        scored: Whether the prediction was held against the label.
        loss: 1 where it was wrong, or the squared error; 0 where it was not scored.
        runs: First places of the runs of consecutive rows of one model, shape (runs,).
    """

    model: Ints
    index: Ints
    time: Ints | None
    label: Floats
    said: Ints
    scored: Bools
    loss: Floats
    runs: Ints

    def before(self, known: Floats) -> Floats:
        """Return for each row the last label of its model before it, NaN without one.

        Args:
            known: For each run the last label before its first row, shape (runs,).
        """
        last = _last_labelled(self.label)
        last = np.concatenate([[-1], last[:-1]])
        run = np.repeat(np.arange(len(self.runs)), np.diff([*self.runs, len(self.label)]))
        inside = last >= self.runs[run]
        return np.where(inside, self.label[last], known[run])

    def last_of_runs(self) -> Floats:
        """Return the last label of each run, NaN without one, shape (runs,)."""
        ends = np.append(self.runs[1:], len(self.label)) - 1
        last = _last_labelled(self.label)[ends]
        return np.where(last >= self.runs, self.label[last], np.nan)


class Tally:
    """Counts of (model, label, prediction), as many as occur."""

    def __init__(self) -> None:
        """Start with none."""
        self._keys = np.zeros(0, dtype=np.int64)
        self._counts = np.zeros(0, dtype=np.int64)

    def add(self, model: Ints, label: Ints, said: Ints) -> None:
        """Count rows; labels and predictions by their places."""
        keys, counts = np.unique(
            (((model << CLASS_BITS) | label) << CLASS_BITS) | said, return_counts=True
        )
        merged, place = np.unique(np.concatenate([self._keys, keys]), return_inverse=True)
        weights = np.concatenate([self._counts, counts])
        self._counts = np.zeros(len(merged), dtype=np.int64)
        np.add.at(self._counts, place, weights)
        self._keys = merged

    def columns(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Return models, labels, predictions and counts, sorted by the first three."""
        mask = (1 << CLASS_BITS) - 1
        return (
            self._keys >> (2 * CLASS_BITS),
            (self._keys >> CLASS_BITS) & mask,
            self._keys & mask,
            self._counts,
        )


@dataclass
class Scores:
    """What one pass over the predictions tells; arrays are indexed by a model's number.

    Attributes:
        models: Numbers of the models.
        classifies: Whether labels are classes.
        rows, scored: Rows predicted, and those held against a label.
        loss: Sum of the losses of the scored rows.
        absolute, label: In regression, sums of the absolute errors and of the labels.
        length: Greatest index of a scored row + 1.
        tally: In classification, how often each class was taken for which.
        ends: First and last time (ns) of a scored row, None without times.
        known: For each run of rows met, the last label before it, NaN without one.
    """

    models: dict[str, int]
    classifies: bool
    rows: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    scored: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    length: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    loss: Floats = field(default_factory=lambda: np.zeros(0))
    absolute: Floats = field(default_factory=lambda: np.zeros(0))
    label: Floats = field(default_factory=lambda: np.zeros(0))
    tally: Tally = field(default_factory=Tally)
    ends: tuple[int, int] | None = None
    known: Floats = field(default_factory=lambda: np.zeros(0))

    def constants(self) -> Floats:
        """Return each model's most frequent class or mean label in the scored rows, else NaN."""
        if not self.classifies:
            return np.where(self.scored > 0, self.label / np.maximum(self.scored, 1), np.nan)
        model, label, _, count = self.tally.columns()
        pair, place = np.unique((model << CLASS_BITS) | label, return_inverse=True)
        total = np.zeros(len(pair), dtype=np.int64)
        np.add.at(total, place, count)
        told = (pair & ((1 << CLASS_BITS) - 1)) >= FIRST_CLASS
        pair, total = pair[told], total[told]
        order = np.lexsort((-pair, total))
        constants = np.full(len(self.rows), np.nan)
        # The most frequent come last and overwrite the others.
        constants[pair[order] >> CLASS_BITS] = (pair[order] & ((1 << CLASS_BITS) - 1)) - FIRST_CLASS
        return constants


class Predictions:
    """The predictions of a run, to be gone over more than once, always in the same order.

    Args:
        output: The run's folder.
        models: Numbers of the models; further models are added as they are met.
    """

    def __init__(self, output: str, models: dict[str, int]) -> None:
        """List the files; see the class."""
        self.models = models
        self.classes = LabelCodes()
        self._paths = parquet_files(output, "predictions")
        names = column_names(self._paths)
        self.classifies = "correct" in names
        self._timed = "time" in names
        score = "correct" if self.classifies else "error"
        self._columns = ["model_id", "index", "label", score]
        self._columns += [*(["time"] if self._timed else [])]
        self._columns += [*(["prediction"] if self.classifies else [])]

    def __iter__(self) -> Iterator[Rows]:
        """Yield the rows a batch at a time."""
        for batch in read_batches(self._paths, self._columns):
            if batch.num_rows:
                yield self._rows(batch)

    def _rows(self, batch: pa.RecordBatch) -> Rows:
        codes, local = model_codes(batch, self.models)
        index: Ints = array_of(batch, "index")
        key = local * (int(index.max()) + 1) + index
        if np.any(key[1:] < key[:-1]):
            order = np.argsort(key, kind="stable")
            batch, local, index = batch.take(pa.array(order)), local[order], index[order]
        model = codes[local]
        parted = (model[1:] != model[:-1]) | (index[1:] != index[:-1] + 1)
        label, said, scored, loss = self._classes(batch) if self.classifies else _values(batch)
        return Rows(
            model,
            index,
            _times(batch) if self._timed else None,
            label,
            said,
            scored,
            loss,
            np.flatnonzero(np.concatenate([[True], parted])),
        )

    def _classes(self, batch: pa.RecordBatch) -> tuple[Floats, Ints, Bools, Floats]:
        labels, answers = batch.column("label"), batch.column("prediction")
        missing = _nulls(labels)
        label = np.where(missing, np.nan, self.classes.encode(labels))
        said = np.where(_nulls(answers), NO_CLASS, self.classes.encode(answers) + FIRST_CLASS)
        correct = batch.column("correct")
        scored = ~_nulls(correct) & ~missing
        right = correct.fill_null(False).to_numpy(zero_copy_only=False)
        return label, said, scored, (scored & ~right).astype(float)


def count_scores(predictions: Predictions) -> Scores:
    """Go once over the predictions.

    Cost: O(rows log rows of a batch) time; memory of a batch, of the models' totals, of the
    confusions that occur, and of 32 bytes for every run of rows that a batch holds of a model.
    """
    scores = Scores(predictions.models, predictions.classifies)
    runs: list[tuple[Ints, Ints, Floats]] = []
    for rows in predictions:
        runs.append((rows.model[rows.runs], rows.index[rows.runs], rows.last_of_runs()))
        _add_up(scores, rows)
    for name in ("rows", "scored", "length", "loss", "absolute", "label"):
        setattr(scores, name, grown(getattr(scores, name), len(scores.models)))
    if runs:
        model, index, last = (np.concatenate(part) for part in zip(*runs, strict=True))
        scores.known = _carried(model, index, last)
    return scores


def _add_up(scores: Scores, rows: Rows) -> None:
    size = len(scores.models)
    scored = rows.scored
    model, label = rows.model[scored], rows.label[scored]
    scores.rows = grown(scores.rows, size) + np.bincount(rows.model, minlength=size)
    scores.scored = grown(scores.scored, size) + np.bincount(model, minlength=size)
    scores.loss = grown(scores.loss, size) + np.bincount(model, rows.loss[scored], size)
    scores.length = grown(scores.length, size)
    np.maximum.at(scores.length, model, rows.index[scored] + 1)
    if scores.classifies:
        places = label.astype(np.int64) + FIRST_CLASS
        scores.tally.add(model, places, rows.said[scored])
    else:
        error = np.sqrt(rows.loss[scored])
        scores.absolute = grown(scores.absolute, size) + np.bincount(model, error, size)
        scores.label = grown(scores.label, size) + np.bincount(model, label, size)
    if rows.time is not None and np.any(scored):
        time = rows.time[scored]
        first, last = scores.ends or (int(time[0]), int(time[0]))
        scores.ends = min(first, int(time.min())), max(last, int(time.max()))


def _carried(model: Ints, index: Ints, last: Floats) -> Floats:
    """Return for each run the last label of the runs of its model before it."""
    order = np.lexsort((index, model))
    place = _last_labelled(last[order])
    place = np.concatenate([[-1], place[:-1]])
    own = model[order]
    found = (place >= 0) & (own[place] == own)
    known = np.empty(len(order))
    known[order] = np.where(found, last[order][place], np.nan)
    return known


def _last_labelled(label: Floats) -> Ints:
    """Return the place of the last label up to each, -1 before the first."""
    place = np.where(np.isnan(label), -1, np.arange(len(label)))
    found: Ints = np.maximum.accumulate(place)
    return found


def _values(batch: pa.RecordBatch) -> tuple[Floats, Ints, Bools, Floats]:
    label, error = (_floats(batch.column(name)) for name in ("label", "error"))
    scored = np.isfinite(label) & np.isfinite(error)
    # A prediction that ran away may be too far off for its square: the loss is then infinite.
    with np.errstate(over="ignore"):
        loss = np.where(scored, error, 0.0) ** 2
    return label, np.zeros(0, dtype=np.int64), scored, loss


def _floats(column: pa.Array) -> Floats:
    values: Floats = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(values), values, np.nan)


def _nulls(column: pa.Array) -> Bools:
    nulls: Bools = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _times(batch: pa.RecordBatch) -> Ints:
    column: Any = batch.column("time")
    column = column.cast(pa.timestamp("ns", tz=column.type.tz)).cast(pa.int64())
    times: Ints = column.to_numpy(zero_copy_only=False)
    return times
