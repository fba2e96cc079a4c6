"""How well the learner predicts, beside two that need no features, in the same rows.

The references guess without looking: the label of the row before, and for each model the one
class that is most frequent (in regression: the mean label) in all of its rows, known beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.report.data.choice import Choice, codes_of, slots_of
from pipelines.report.data.scores import Predictions, Rows, Scores, count_scores
from pipelines.report.data.sums import BlockSums, Part, bins_of
from pipelines.report.data.totals import Floats, Ints

PREDICTORS = ("learner", "before", "constant")
"""The learner, and the references: the label of the row before, and each model's constant."""

MOST_BLOCKS = 4_096
RATE_BINS = 160
"""Points of a curve; about 50 rows or more in each."""

_ROWS_OF_A_RATE = 50


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
    values: dict[str, Floats]


@dataclass(frozen=True)
class Learning:
    """All that the report says of predictions.

    Attributes:
        scores: Totals of the models.
        classes: Names of the classes.
        is_cut: Whether there are classes beyond those told apart.
        losses: Sums of the losses of the predictors on the scored rows, shape (models, 3).
        curves: For each model drawn its curve, None without scored rows.
        by_time, by_row: Curves of all models together, by time and by rows; None with one model.
    """

    scores: Scores
    classes: list[str]
    is_cut: bool
    losses: Floats
    curves: list[ScoreCurve | None]
    by_time: ScoreCurve | None
    by_row: ScoreCurve | None

    def measure(self, loss: Floats, rows: Ints) -> Floats:
        """Return accuracy (or RMSE) of losses over numbers of rows, NaN without rows."""
        return measured(loss, rows, classifies=self.scores.classifies)


def measured(loss: Floats, rows: Ints | Floats, *, classifies: bool) -> Floats:
    """Return 1 - loss/rows of classes, √(loss/rows) of values, NaN without rows."""
    mean = np.where(rows > 0, loss / np.maximum(rows, 1), np.nan)
    return 1.0 - mean if classifies else np.sqrt(mean)


def gain(losses: Floats) -> Floats:
    """Return how much of the better reference's loss the learner saves, NaN if it has none.

    For classes this is kappa, (accuracy - reference)/(1 - reference); for values the share of
    the reference's squared error, 1 - MSE/reference.

    Args:
        losses: In the order of `PREDICTORS`, shape (..., 3).
    """
    better = np.min(losses[..., 1:], axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        saved: Floats = np.where(better > 0, 1.0 - losses[..., 0] / better, np.nan)
    return saved


def learning_of(output: str, choice: Choice) -> Learning | None:
    """Read the predictions of a run; None if there are none.

    Two passes: the first counts and finds the constants and the last label before each run of
    rows, the second holds the references against the labels.

    Cost: as `count_scores`, and at most 4,096 blocks (80 bytes each) for each model drawn.
    """
    predictions = Predictions(output, choice.numbers())
    scores = count_scores(predictions)
    if not scores.rows.sum():
        return None
    constants = scores.constants()
    losses = np.zeros((len(scores.models), len(PREDICTORS)))
    losses[:, 0] = scores.loss
    blocks = _Blocks(scores, choice)
    met = 0
    for rows in predictions:
        before = rows.before(scores.known[met : met + len(rows.runs)])
        met += len(rows.runs)
        references = _references(scores, rows, before, constants[rows.model])
        for k, loss in enumerate(references, start=1):
            losses[:, k] += np.bincount(rows.model, loss, len(losses))
        blocks.add(rows, references)
    by_time, by_row = blocks.overall()
    return Learning(
        scores,
        predictions.classes.names(),
        predictions.classes.is_cut,
        losses,
        blocks.drawn(),
        by_time,
        by_row,
    )


def _references(scores: Scores, rows: Rows, before: Floats, constant: Floats) -> list[Floats]:
    """Return the losses of both references, shape (n,) each; 0 where the row is not scored."""
    label = np.where(rows.scored, rows.label, 0.0)
    if scores.classifies:
        # Classes beyond those told apart have the number -1: no guess is right about them.
        return [
            (rows.scored & ~((guess == label) & (label >= 0))).astype(float)
            for guess in (before, constant)
        ]
    guesses = [np.where(np.isnan(before), constant, before), constant]
    with np.errstate(over="ignore"):
        return [np.where(rows.scored, guess - label, 0.0) ** 2 for guess in guesses]


class _Blocks:
    """Blocks of the drawn models and, with more than one model, of all by time and by rows."""

    def __init__(self, scores: Scores, choice: Choice) -> None:
        codes = codes_of(scores.models, choice.drawn)
        self._scores = scores
        self._starts = choice.starts
        self._slots = slots_of(codes, len(scores.models))
        self._size = np.maximum(1, -(-scores.length[codes] // MOST_BLOCKS))
        self._longest = int(scores.length.max(initial=0))
        self._all = len(codes)
        counts = [*(-(-scores.length[codes] // self._size)), MOST_BLOCKS, MOST_BLOCKS]
        self._sums = BlockSums(np.array(counts), PREDICTORS, timed=scores.ends is not None)

    def add(self, rows: Rows, references: list[Floats]) -> None:
        losses = dict(zip(PREDICTORS, [rows.loss, *references], strict=True))
        slot = self._slots[rows.model]
        kept = np.flatnonzero(rows.scored & (slot >= 0))
        self._put(rows, kept, slot[kept], rows.index[kept] // self._size[slot[kept]], losses)
        if len(self._scores.models) == 1:
            return
        kept = np.flatnonzero(rows.scored)
        place = rows.index[kept] * MOST_BLOCKS // max(1, self._longest)
        self._put(rows, kept, np.full(len(kept), self._all), place, losses)
        if rows.time is not None and self._scores.ends is not None:
            first, last = self._scores.ends
            place = (rows.time[kept] - first) // ((last - first) // MOST_BLOCKS + 1)
            self._put(rows, kept, np.full(len(kept), self._all + 1), place, losses)

    def _put(
        self, rows: Rows, kept: Ints, group: Ints, place: Ints, losses: dict[str, Floats]
    ) -> None:
        time = None if rows.time is None else rows.time[kept]
        values = {name: loss[kept] for name, loss in losses.items()}
        self._sums.add(group, place, rows.index[kept], time, values)

    def drawn(self) -> list[ScoreCurve | None]:
        return [self._curve(slot, start) for slot, start in enumerate(self._starts)]

    def overall(self) -> tuple[ScoreCurve | None, ScoreCurve | None]:
        by_time = None
        if self._scores.ends is not None and self._scores.ends[1] > self._scores.ends[0]:
            by_time = self._curve(self._all + 1, self._scores.ends[0])
        return by_time, self._curve(self._all, None)

    def _curve(self, group: int, start: int | None) -> ScoreCurve | None:
        part = self._sums.part(group)
        return score_curve(part, start, classifies=self._scores.classifies)


def score_curve(part: Part, start: int | None, *, classifies: bool) -> ScoreCurve | None:
    """Put blocks of scored rows into at most about 160 points; None without any.

    Args:
        part: Blocks with the sums `PREDICTORS`, in the order of rows.
        start: The time (ns) that the axis counts from, None for an axis of rows alone.
        classifies: Whether labels are classes.
    """
    if not len(part.rows):
        return None
    cut = bins_of(part, min(RATE_BINS, max(1, int(part.rows.sum()) // _ROWS_OF_A_RATE)), start)
    rows = cut.total(part.rows)
    values = {"block": measured(cut.total(part.sums["learner"]), rows, classifies=classifies)}
    for name in PREDICTORS:
        so_far = np.cumsum(cut.total(part.sums[name]))
        values[name] = measured(so_far, np.cumsum(rows), classifies=classifies)
    covered = 1.0
    if part.time is not None and len(cut.gaps):
        silent = part.time[cut.gaps, 0] - part.time[cut.gaps - 1, 1]
        covered -= float(silent.sum()) / float(part.time[-1, 1] - part.time[0, 0])
    return ScoreCurve(start if "time" in cut.axes else None, covered, cut.broken(values))
