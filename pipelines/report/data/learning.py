"""How well the learner predicts, and two references that need no features, on the same rows.

The references guess without looking: the label of the row before, and for each model the one
class that is most frequent (in regression: the mean label) in all of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.learners.common.board import losses_of_chances
from pipelines.report.data.choice import Choice, codes_of, slots_of
from pipelines.report.data.columns import mean_of
from pipelines.report.data.groups import Arrays, Bins, Blocks, Groups, Part
from pipelines.report.data.mixture import MixtureCourse, mixture_of
from pipelines.report.data.predictions import (
    FIRST_CLASS,
    PredictionRows,
    PredictionSums,
    last_labelled,
)

PREDICTORS = ("learner", "before", "constant")
"""The learner, and the references: the label of the row before, and each model's constant."""

MOST_BLOCKS = 4_096
RELIABILITY_BINS = 20
RATE_BINS = 160
"""Points of a curve; about 50 rows or more in each."""

_ROWS_OF_A_RATE = 50
_KEYS = ("model", "label", "predicted")


class LearnerTally:
    """Counts of (model, label, prediction), as many as occur."""

    def __init__(self) -> None:
        self._table = pa.table(dict.fromkeys((*_KEYS, "count"), pa.array([], pa.int64())))

    def add(self, model: IntArray, label: IntArray, predicted: IntArray) -> None:
        """Count rows; labels and predictions by their places."""
        counts = (model, label, predicted, np.ones_like(model))
        rows = pa.table(dict(zip((*_KEYS, "count"), counts, strict=True)))
        table = pa.concat_tables([self._table, rows])
        counted = table.group_by(list(_KEYS)).aggregate([("count", "sum")])
        self._table = counted.rename_columns([*_KEYS, "count"])

    def columns(self) -> list[IntArray]:
        """Return models, labels, predictions and counts, sorted by the first three."""
        table = self._table.sort_by([(name, "ascending") for name in _KEYS])
        return [column.to_numpy() for column in table.columns]

    def labels(self) -> list[IntArray]:
        """Return models, labels with a code, their rows and those that were predicted right.

        They are sorted by model, the most frequent label first; of several that met first.
        """
        hit = pc.equal(self._table["label"], self._table["predicted"])
        table = self._table.append_column(
            "right", pc.multiply(hit.cast(pa.int64()), self._table["count"])
        )
        table = table.filter(pc.field("label") >= FIRST_CLASS).group_by(["model", "label"])
        table = table.aggregate([("count", "sum"), ("right", "sum")])
        order = [("model", "ascending"), ("count_sum", "descending"), ("label", "ascending")]
        return [column.to_numpy() for column in table.sort_by(order).columns]


@dataclass
class Reliability:
    """How sure predictions were of themselves, and how often they were right, over scored rows.

    Attributes:
        rows: (20,) rows by their probability, in equal steps from 0 to 1.
        chance: (20,) sums of the probabilities.
        right: (20,) rows that were predicted right.
        log_loss: Sum of the log losses; see `losses_of_chances`.
        brier: Sum of the squared gaps.
    """

    rows: FloatArray = field(default_factory=lambda: np.zeros(RELIABILITY_BINS))
    chance: FloatArray = field(default_factory=lambda: np.zeros(RELIABILITY_BINS))
    right: FloatArray = field(default_factory=lambda: np.zeros(RELIABILITY_BINS))
    log_loss: float = 0.0
    brier: float = 0.0

    def add(self, chance: FloatArray, right: npt.NDArray[np.bool_]) -> None:
        """Count scored rows; those without a probability, or with one that is none, are left."""
        kept = (chance >= 0.0) & (chance <= 1.0)
        chance, right = chance[kept], right[kept]
        place = np.minimum((chance * RELIABILITY_BINS).astype(np.int64), RELIABILITY_BINS - 1)
        self.rows += np.bincount(place, minlength=RELIABILITY_BINS)
        self.chance += np.bincount(place, chance, RELIABILITY_BINS)
        self.right += np.bincount(place, right, RELIABILITY_BINS)
        log_loss, brier = losses_of_chances(chance, right).sum(axis=0).tolist()
        self.log_loss += log_loss
        self.brier += brier


@dataclass
class LearnerScores:
    """What one pass over the predictions finds; arrays are indexed by a model's number.

    Attributes:
        models: Numbers of the models.
        classifies: Whether labels are classes.
        predicted: Rows predicted.
        scored: Rows held against a label, and sums of their losses and, in regression, of absolute
            errors and labels; ranges of their `index` and, with times, `time` (ns).
        tally: In classification, how often each class was taken for which.
        reliability: In classification, how sure the predictions were.
        known: For each run of rows met, the last label before it, NaN without one.
    """

    models: dict[str, int]
    classifies: bool
    predicted: Groups
    scored: Groups
    tally: LearnerTally = field(default_factory=LearnerTally)
    reliability: Reliability = field(default_factory=Reliability)
    known: FloatArray = field(default_factory=lambda: np.zeros(0))

    @property
    def length(self) -> IntArray:
        """Each model's greatest index of a scored row + 1."""
        length: IntArray = np.maximum(self.scored.high["index"] + 1, 0)
        return length

    def constants(self) -> FloatArray:
        """Return each model's most frequent class or mean label in the scored rows, else NaN."""
        if not self.classifies:
            return mean_of(self.scored.sums["label"], self.scored.rows)
        models, labels, _, _ = self.tally.labels()
        found, first = np.unique(models, return_index=True)
        constants = np.full(len(self.models), np.nan)
        constants[found] = labels[first] - FIRST_CLASS
        return constants


@dataclass(frozen=True)
class ScoreCurve:
    """What is drawn, NaN where a line must break.

    `values` maps names to arrays of one length: `row`, `time` (s since `start`; absent where
    there is no such axis), `block` (accuracy or RMSE of the bin's rows) and, over all rows up to
    the bin's end, `learner`, `before`, `constant`. `start` is in ns, `covered` the share of the
    time in which rows came.
    """

    start: int | None
    covered: float
    values: dict[str, FloatArray]


@dataclass(frozen=True)
class LearningResults:
    """All that the report shows of predictions.

    Attributes:
        scores: Totals of the models.
        classes: Names of the classes.
        losses: Sums of the losses of the predictors on the scored rows, shape (models, 3).
        curves: For each model drawn its curve, None without scored rows.
        by_time, by_row: Curves of all models together, by time and by rows; None with one model.
        mixture: The ridge on the plain rows, and the experts of a mixture.
        late: Whether labels came later than the rows. The label of the row before was not known
            then, and is no reference.
    """

    scores: LearnerScores
    classes: list[str]
    losses: FloatArray
    curves: list[ScoreCurve | None]
    by_time: ScoreCurve | None
    by_row: ScoreCurve | None
    mixture: MixtureCourse
    late: bool = False

    def gain(self, losses: FloatArray) -> FloatArray:
        """Return `gain` of losses, shape (..., 3), against the references that there are."""
        return gain(losses[..., [0, 2, 2]] if self.late else losses)

    def measure(self, loss: FloatArray, rows: npt.NDArray[Any]) -> FloatArray:
        """Return accuracy (or RMSE) of losses over numbers of rows, NaN without rows."""
        return measured(loss, rows, classifies=self.scores.classifies)


def measured(loss: FloatArray, rows: npt.NDArray[Any], *, classifies: bool) -> FloatArray:
    """Return 1 - loss/rows of classes, √(loss/rows) of values, NaN without rows."""
    mean = mean_of(loss, rows)
    return 1.0 - mean if classifies else np.sqrt(mean)


def gain(losses: FloatArray) -> FloatArray:
    """Return how much of the better reference's loss the learner saves, NaN if it has none.

    For classes this is kappa, (accuracy - reference)/(1 - reference); for values the share of
    the reference's squared error, 1 - MSE/reference.

    Args:
        losses: In the order of `PREDICTORS`, shape (..., 3).
    """
    better = np.min(losses[..., 1:], axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        saved: FloatArray = np.where(better > 0, 1.0 - losses[..., 0] / better, np.nan)
    return saved


def learning_of(output: str, choice: Choice, late: bool = False) -> LearningResults | None:
    """Read the predictions of a run; None if there are none; `late` as of `LearningResults`.

    Two passes: the first counts and finds the constants and the last label before each run of
    rows, the second holds the references against the labels.

    Cost: O(rows log rows of a batch) time; memory of a batch, of the models' totals, of the
    confusions that occur, of 32 bytes for every run of rows that a batch holds of a model, and of
    at most 4,096 blocks (80 bytes each) for each model drawn.
    """
    predictions = PredictionSums(output, choice.numbers())
    scores = count_scores(predictions)
    if not scores.predicted.rows.sum():
        return None
    constants = scores.constants()
    losses = Groups(dict.fromkeys(PREDICTORS, np.float64), size=len(scores.models))
    blocks = _Blocks(scores, choice)
    met = 0
    for rows in predictions:
        before = rows.before(scores.known[met : met + len(rows.runs)])
        met += len(rows.runs)
        values = _losses(rows, before, constants[rows.model], classifies=scores.classifies)
        losses.add(rows.model, values)
        blocks.add_rows(rows, values)
    by_time, by_row = blocks.overall()
    sums = np.stack([losses.sums[name] for name in PREDICTORS], axis=1)
    names, drawn = predictions.classes.names(), blocks.drawn()
    mixture = mixture_of(output, choice)
    return LearningResults(scores, names, sums, drawn, by_time, by_row, mixture, late)


def count_scores(predictions: PredictionSums) -> LearnerScores:
    """Go once over the predictions."""
    ranges = dict.fromkeys(["index", "time"] if predictions.timed else ["index"], np.int64)
    scored = Groups(dict.fromkeys(["loss", "absolute", "label"], np.float64), ranges)
    scores = LearnerScores(predictions.models, predictions.classifies, Groups({}), scored)
    runs: list[tuple[IntArray, IntArray, FloatArray]] = []
    for rows in predictions:
        runs.append((rows.model[rows.runs], rows.index[rows.runs], rows.last_of_runs()))
        scores.predicted.add(rows.model, {})
        kept = np.flatnonzero(rows.scored)
        model, label, loss = rows.model[kept], rows.label[kept], rows.loss[kept]
        values = {"loss": loss, "absolute": np.sqrt(loss), "label": label}
        scored.add(model, {**values, **rows.ranges(kept)})
        if scores.classifies:
            places = label.astype(np.int64) + FIRST_CLASS
            scores.tally.add(model, places, rows.predicted[kept])
            scores.reliability.add(rows.chance[kept], loss == 0)
    for groups in (scores.predicted, scored):
        groups.grow(len(scores.models))
    if runs:
        model, index, last = (np.concatenate(part) for part in zip(*runs, strict=True))
        scores.known = _carried(model, index, last)
    return scores


def _carried(model: IntArray, index: IntArray, last: FloatArray) -> FloatArray:
    """Return for each run the last label of the runs of its model before it."""
    order = np.lexsort((index, model))
    place = np.append(-1, last_labelled(last[order])[:-1])
    own = model[order]
    found = (place >= 0) & (own[place] == own)
    known = np.empty(len(order))
    known[order] = np.where(found, last[order][place], np.nan)
    return known


def _losses(
    rows: PredictionRows, before: FloatArray, constant: FloatArray, *, classifies: bool
) -> dict[str, FloatArray]:
    """Return the losses of the `PREDICTORS`, shape (n,) each; 0 where the row is not scored."""
    label = np.where(rows.scored, rows.label, 0.0)
    if classifies:
        # Classes without a code have the number -1: no guess is right about them.
        first, second = (
            (rows.scored & ~((guess == label) & (label >= 0))).astype(float)
            for guess in (before, constant)
        )
    else:
        guesses = np.where(np.isnan(before), constant, before), constant
        with np.errstate(over="ignore"):
            first, second = (np.where(rows.scored, guess - label, 0.0) ** 2 for guess in guesses)
    return dict(zip(PREDICTORS, (rows.loss, first, second), strict=True))


class _Blocks(Blocks):
    """Blocks of the drawn models and, with more than one model, of all by row and by time."""

    def __init__(self, scores: LearnerScores, choice: Choice) -> None:
        self._classifies, self._starts = scores.classifies, choice.starts
        self._several = len(scores.models) > 1
        self._slots = slots_of(scores.models, choice.drawn)
        lengths = scores.length[codes_of(scores.models, choice.drawn)]
        self._size = np.maximum(1, -(-lengths // MOST_BLOCKS))
        self._longest = max(1, int(scores.length.max()))
        self._ends = 0, 0
        low, high = scores.scored.low, scores.scored.high
        if "time" in low:
            self._ends = int(low["time"].min()), int(high["time"].max())
        if choice.axis is not None:
            # Rows with times far from all others count at the ends.
            first = max(self._ends[0], choice.axis.first)
            self._ends = first, max(first, min(self._ends[1], choice.axis.last))
        super().__init__(
            np.append(-(-lengths // self._size), [MOST_BLOCKS, MOST_BLOCKS]),
            dict.fromkeys(PREDICTORS, np.float64),
            dict.fromkeys(low, np.int64),
        )

    def add_rows(self, rows: PredictionRows, losses: dict[str, FloatArray]) -> None:
        kept = np.flatnonzero(rows.scored)
        values: Arrays = {name: loss[kept] for name, loss in losses.items()}
        values |= rows.ranges(kept)
        index, slot = values["index"], self._slots[rows.model[kept]]
        own = np.flatnonzero(slot >= 0)
        place = index[own] // self._size[slot[own]]
        self.put(slot[own], place, {name: part[own] for name, part in values.items()})
        if self._several:
            every = np.full(len(kept), len(self._starts))
            self.put(every, index * MOST_BLOCKS // self._longest, values)
            if "time" in values:
                first, last = self._ends
                values["time"] = np.clip(values["time"], first, last)
                place = (values["time"] - first) // ((last - first) // MOST_BLOCKS + 1)
                self.put(every + 1, place, values)

    def drawn(self) -> list[ScoreCurve | None]:
        return [self._curve(slot, start) for slot, start in enumerate(self._starts)]

    def overall(self) -> tuple[ScoreCurve | None, ScoreCurve | None]:
        first, last = self._ends
        by_time = self._curve(len(self._starts) + 1, first) if last > first else None
        return by_time, self._curve(len(self._starts), None)

    def _curve(self, group: int, start: int | None) -> ScoreCurve | None:
        return score_curve(self.part(group), start, classifies=self._classifies)


def score_curve(part: Part, start: int | None, *, classifies: bool) -> ScoreCurve | None:
    """Put blocks of scored rows into at most about 160 points; None without any.

    Args:
        part: Blocks with the sums `PREDICTORS`, in the order of rows.
        start: The time (ns) that the axis counts from, None for an axis of rows alone.
        classifies: Whether labels are classes.
    """
    if not len(part.rows):
        return None
    bins = Bins(part, min(RATE_BINS, max(1, int(part.rows.sum()) // _ROWS_OF_A_RATE)), start)
    rows = bins.total(part.rows)
    values = {"block": measured(bins.total(part.sums["learner"]), rows, classifies=classifies)}
    for name in PREDICTORS:
        so_far = np.cumsum(bins.total(part.sums[name]))
        values[name] = measured(so_far, np.cumsum(rows), classifies=classifies)
    return ScoreCurve(start if "time" in bins.axes else None, bins.covered, bins.broken(values))
