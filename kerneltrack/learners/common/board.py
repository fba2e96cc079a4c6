"""Running metrics of a model's predictions, per event-time window and in total.

Rows are counted in their order, sums of errors row by row: the figures do not depend on how the
rows were cut. A window, [k·size, (k+1)·size), closes when a row at or after its end has come and
all of its own rows are settled.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.learners.common import guesses
from kerneltrack.learners.common.base import Predictions
from kerneltrack.learners.common.guesses import GUESSES, Guesses
from kerneltrack.learners.common.kept_classes import most_names
from kerneltrack.learners.common.label_sets import of_sets
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.limits import MOST
from kerneltrack.native.elementary import elementary

_CODES = 1 << 31
SUMS = 2 + len(GUESSES)
_GUESSES = "guesses."
MIN_CHANCE = 1e-6
"""A probability counts as at least this much where its logarithm is taken."""


def losses_of_chances(score: FloatArray, correct: npt.NDArray[np.bool_]) -> FloatArray:
    """Return log loss and Brier score of each row's probability that its prediction is right.

    With p the probability of the predicted class, and r 1 where that is the row's, else 0:
    -log(rp + (1 - r)(1 - p)), at most 13.8, and (p - r)². With two classes these are the usual ones
    of the label; with more they speak of the predicted class alone, which is known before labels
    that come late. The smaller the better; a prediction of p = r has 0.

    Args:
        score: (n,) p.
        correct: (n,) r.

    Returns:
        Shape (n, 2).

    Reference: G. W. Brier, "Verification of forecasts expressed in terms of probability", Monthly
    Weather Review 78, 1950; C. Gupta, A. Ramdas, "Top-label calibration and multiclass-to-binary
    reductions", ICLR 2022.
    """
    given = np.where(correct, score, 1.0 - score)
    logs = -elementary("log", np.clip(given, MIN_CHANCE, 1.0))
    return np.column_stack([np.abs(logs), (1.0 - given) ** 2])


class Tally(NamedTuple):
    """Counts over some rows.

    Attributes:
        counts: (3,) rows predicted, scored, predicted correctly.
        sums: (5,) over the rows scored: of targets squared and absolute errors, of classes the log
            loss and the Brier score of `score` (see `losses_of_chances`); then for each of
            `GUESSES` the rows that it had right, or its squared errors. NaN where it is left out.
            Where rows have intervals or sets, `LearnerSpec.interval_metrics` behind them: (8,) how
            many intervals held their target, their widths and interval scores; (7,) how many sets
            held their label, and their classes.
        pairs: (m, 3) label, prediction, count of the rows scored, by the classes' codes; a label
            without one has code `kept_classes.most_names`. Sorted, at most (C + 1)·C with C
            classes that have or had a place.
    """

    counts: IntArray
    sums: FloatArray
    pairs: IntArray

    @staticmethod
    def empty() -> Tally:
        """Return the tally of no rows."""
        return Tally(np.zeros(3, np.int64), np.zeros(SUMS), np.zeros((0, 3), np.int64))


class Board(NamedTuple):
    """What a model's metrics have come to.

    Attributes:
        total: All rows.
        window: Rows of the window that is open.
        span: (2,) its size in ns and its number; (0,) if none is open.
        guesses: What the guesses beside know; None before the first row.
    """

    total: Tally
    window: Tally
    span: IntArray
    guesses: Guesses | None = None

    @staticmethod
    def empty() -> Board:
        """Return the board of a model without rows."""
        return Board(Tally.empty(), Tally.empty(), np.zeros(0, np.int64))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the board's arrays by name."""
        parts = {"total": self.total, "window": self.window}
        named = {
            f"{part}.{name}": array
            for part, tally in parts.items()
            for name, array in tally._asdict().items()
        }
        if self.guesses is not None:
            known = guesses.arrays_of(self.guesses)
            named |= {_GUESSES + name: array for name, array in known.items()}
        return {**named, "span": self.span}

    @staticmethod
    def from_arrays(
        arrays: Mapping[str, npt.NDArray[Any]], spec: LearnerSpec, classes: int, most: int = MOST
    ) -> Board:
        """Make a board of what `arrays` gave.

        Args:
            arrays: By name.
            spec: The learner's.
            classes: Those that have or had a place.
            most: Largest count.

        Raises:
            KeyError: if one is missing.
            ValueError: if one does not fit.
        """
        tallies = []
        for part in ("total", "window"):
            tally = Tally(*(arrays[f"{part}.{name}"] for name in Tally._fields))
            widths = [SUMS, SUMS + len(spec.interval_metrics)]
            if tally.counts.shape != (3,) or tally.sums.shape not in [(width,) for width in widths]:
                raise ValueError(f"{part} has other counts")
            for whole in (tally.counts, tally.pairs):
                if whole.dtype != np.int64 or (whole < 0).any() or (whole > most).any():
                    raise ValueError(f"{part} has counts that are not from 0 to {most}")
            pairs = tally.pairs.reshape(-1, 3)
            codes = pairs[:, :2]
            if (codes < 0).any() or (codes > [most_names(spec), classes - 1]).any():
                raise ValueError(f"{part} counts classes that are not known")
            tallies.append(tally._replace(pairs=pairs))
        span = arrays["span"].tolist()
        if arrays["span"].dtype != np.int64 or arrays["span"].shape not in ((0,), (2,)):
            raise ValueError("span is no pair of whole numbers")
        if span and not (
            span[0] > 0 and all(abs(span[0] * (span[1] + at)) < 2**63 for at in (0, 1))
        ):
            raise ValueError(f"span = {span} is no window")
        known = {
            name.removeprefix(_GUESSES): array
            for name, array in arrays.items()
            if name.startswith(_GUESSES)
        }
        all_pairs = guesses.from_arrays(spec, known, most) if known else None
        return Board(tallies[0], tallies[1], arrays["span"], all_pairs)


class Line(NamedTuple):
    """Metrics of a window, or of all rows.

    Attributes:
        start: The window's, ns; None for all rows.
        end: The window's end, not of it.
        tally: Its rows.
        counts: (3,) of all rows up to its last one.
        sums: (5,) of these rows.
    """

    start: int | None
    end: int | None
    tally: Tally
    counts: IntArray
    sums: FloatArray


class ScoredRows(NamedTuple):
    """Rows that are settled, as far as metrics go.

    Attributes:
        clock: (n,) time, ns, never going back.
        scored: (n,) whether the prediction met a label.
        correct: (n,) whether they agree; None in regression.
        error: (n,) |label - prediction|; None in classification.
        score: (n,) probability of the predicted class; None in regression.
        codes: (n, 2) codes of label and prediction, where scored; None in regression.
        guessed: (n, 3) of each of `GUESSES` whether it was right, or its squared error.
        intervals: (n, k) `LearnerSpec.interval_metrics` of each row; None without.
    """

    clock: IntArray
    scored: npt.NDArray[np.bool_]
    correct: npt.NDArray[np.bool_] | None
    error: FloatArray | None
    score: FloatArray | None
    codes: IntArray | None
    guessed: FloatArray
    intervals: FloatArray | None = None


def scored_rows(
    spec: LearnerSpec,
    clock: IntArray,
    predictions: Predictions,
    labels: npt.NDArray[Any],
    guessed: FloatArray,
) -> ScoredRows:
    """Put side by side what the metrics need.

    Args:
        spec: The learner's.
        clock: (n,) times.
        predictions: Scored predictions.
        labels: Theirs: codes of classes, below 0 without one; targets, NaN without one.
        guessed: (n, 3) what the guesses made of the rows.
    """
    if predictions.code is None:
        within = None
        if (
            spec.intervals is not None
            and predictions.lower is not None
            and predictions.upper is not None
        ):
            within = of_intervals(spec.intervals, predictions.lower, predictions.upper, labels)
        return ScoredRows(
            clock, predictions.scored, None, predictions.error, None, None, guessed, within
        )
    codes = np.column_stack([np.where(labels < 0, most_names(spec), labels), predictions.code])
    within = None if predictions.members is None else of_sets(predictions.members, labels)
    return ScoredRows(
        clock,
        predictions.scored,
        predictions.correct,
        None,
        predictions.score,
        codes,
        guessed,
        within,
    )


def of_intervals(
    coverage: float, lower: FloatArray, upper: FloatArray, targets: FloatArray
) -> FloatArray:
    """Return of each row whether its interval holds the target, its width, its interval score.

    The score is the width, and 2/α times how far the target is outside, α = 1 - coverage: the
    smaller the better, and the two quantiles of the target have the least on the average. A row
    that came before the first error has no interval: it counts as one that holds nothing and has
    no width.

    Reference: T. Gneiting, A. Raftery, "Strictly proper scoring rules, prediction, and estimation",
    JASA 102, 2007, section 6.2.
    """
    known = ~np.isnan(lower)
    width = np.where(known, upper - lower, 0.0)
    outside = np.maximum(np.maximum(lower - targets, targets - upper), 0.0)
    inside = known & (outside == 0.0)
    score = width + 2.0 / (1.0 - coverage) * np.where(known, outside, 0.0)
    return np.column_stack([inside.astype(np.float64), width, score])


def wide_sums(spec: LearnerSpec, sums: FloatArray) -> FloatArray:
    """Return sums with places for all that is counted of the learner's rows."""
    return _padded(sums, SUMS + len(spec.interval_metrics))


def _padded(sums: FloatArray, width: int) -> FloatArray:
    return np.pad(sums, (0, width - len(sums))) if len(sums) < width else sums


def close_window(board: Board, oldest: int | None = None) -> tuple[Board, list[Line]]:
    """Close the open window, if no row from `oldest` on (None: no further row) belongs to it."""
    if not len(board.span):
        return board, []
    size, number = board.span.tolist()
    end = (number + 1) * size
    if oldest is not None and oldest < end:
        return board, []
    line = Line(end - size, end, board.window, board.total.counts, board.total.sums)
    return board._replace(window=Tally.empty(), span=np.zeros(0, np.int64)), [line]


def _values_of(rows: ScoredRows) -> FloatArray:
    """Return what each scored row adds to `sums`."""
    if rows.correct is None or rows.score is None:
        errors = np.zeros(0) if rows.error is None else rows.error[rows.scored]
        own = np.column_stack([errors * errors, errors])
    else:
        own = losses_of_chances(rows.score[rows.scored], rows.correct[rows.scored])
    found = [own, rows.guessed[rows.scored]]
    if rows.intervals is not None:
        found.append(rows.intervals[rows.scored])
    return np.hstack(found)


def total_line(board: Board) -> Line:
    """Return the line of all rows."""
    return Line(None, None, board.total, board.total.counts, board.total.sums)


def count_each(
    boards: Sequence[Board], rows: ScoredRows, starts: IntArray, stops: IntArray, size: int | None
) -> list[tuple[Board, list[Line]]]:
    """Count the settled rows of m models, each on its own board.

    Args:
        boards: The models', not written to.
        rows: A model's rows, at least one, follow one another.
        starts: (m,) place of each model's first row; the first one's is 0.
        stops: (m,) place after its last: the next one's first.
        size: Length of the windows, ns; None: only the totals are kept.

    Returns:
        Of each model its new board, and a line for each window that a row after it has closed.
    """
    values, counted = _values_of(rows), _counted(rows)
    before = [board.total for board in boards]
    totals = _tally_each(before, rows, values, counted, starts, stops)
    if size is None:
        return [
            (board._replace(total=total), []) for board, total in zip(boards, totals, strict=True)
        ]
    owner, numbers = np.repeat(np.arange(len(starts)), stops - starts), rows.clock // size
    cuts = np.flatnonzero((np.diff(owner) != 0) | (np.diff(numbers) != 0)) + 1
    begins, ends = np.concatenate([[0], cuts]), np.concatenate([cuts, [len(owner)]])
    of, number = owner[begins], numbers[begins]
    first = np.searchsorted(of, np.arange(len(starts)))
    opened, closed = [Tally.empty()] * len(of), []
    for board, place in zip(boards, first.tolist(), strict=True):
        span = board.span.tolist()
        # A window of another length is left out.
        ended = bool(span) and span[0] == size and span[1] != number[place]
        if span == [size, number[place]]:
            opened[place] = board.window
        closed.append(close_window(board)[1] if ended else [])
    windows = _tally_each(opened, rows, values, counted, begins, ends)
    # Of each window the counts and sums of its model's rows up to its end.
    counts = counted[ends] - counted[starts[of]] + np.array([part.counts for part in before])[of]
    scored = counted[:, 1]
    sums = _sums_after(before, values, scored[starts], scored[stops], scored[ends], of)
    found = []
    edges = [*first.tolist(), len(windows)]
    each = zip(boards, totals, closed, itertools.pairwise(edges), strict=True)
    for board, total, lines, (start, stop) in each:
        for place in range(start, stop - 1):
            span = int(number[place]) * size, (int(number[place]) + 1) * size
            lines.append(Line(*span, windows[place], counts[place], sums[place]))
        last = np.array([size, number[stop - 1]], np.int64)
        found.append((Board(total, windows[stop - 1], last, board.guesses), lines))
    return found


def _counted(rows: ScoredRows) -> IntArray:
    """Return what the first k of n rows add to `counts`, (n + 1, 3)."""
    correct = np.zeros(len(rows.scored), np.bool_) if rows.correct is None else rows.correct
    counted = np.zeros((len(rows.scored) + 1, 3), np.int64)
    counted[:, 0] = np.arange(len(counted))
    np.cumsum(rows.scored, out=counted[1:, 1])
    np.cumsum(correct, out=counted[1:, 2])
    return counted


def _sums_after(
    before: Sequence[Tally],
    values: FloatArray,
    starts: IntArray,
    stops: IntArray,
    ends: IntArray,
    owner: IntArray,
) -> FloatArray:
    """Return the sums of stretches after some of their rows, added one after the other.

    Args:
        before: Of each of the m stretches the tally before its rows.
        values: What the rows add.
        starts: (m,) place of each stretch's first row.
        stops: (m,) place after its last: the next one's first.
        ends: (k,) places after the rows that are asked for.
        owner: (k,) the stretch of each.
    """
    first = starts + np.arange(len(starts))
    many = values.shape[1]
    added = np.empty((len(values) + len(first), many))
    own = np.ones(len(added), np.bool_)
    own[first] = False
    added[first], added[own] = [_padded(tally.sums, many) for tally in before], values
    for start, stop in zip(first.tolist(), (first + stops - starts + 1).tolist(), strict=True):
        part = added[start:stop]
        np.add.accumulate(part, axis=0, out=part)
    sums: FloatArray = added[ends + owner]
    return sums


def _tally_each(
    before: Sequence[Tally],
    rows: ScoredRows,
    values: FloatArray,
    counted: IntArray,
    starts: IntArray,
    stops: IntArray,
) -> list[Tally]:
    """Count the rows of m stretches, which follow one another.

    Args:
        before: Of each stretch the tally before its rows.
        rows: The rows.
        values: What each scored one adds to `sums`.
        counted: What they add to `counts`, see `_counted`.
        starts: (m,) place of each stretch's first row.
        stops: (m,) place after its last.
    """
    many = len(before)
    counts = counted[stops] - counted[starts]
    first, last = counted[starts, 1], counted[stops, 1]
    sums = _sums_after(before, values, first, last, last, np.arange(many))
    known = [tally.pairs for tally in before]
    pairs, edges = np.zeros((0, 3), np.int64), np.zeros(many + 1, np.int64)
    if rows.codes is not None:
        met = np.column_stack([rows.codes[rows.scored], np.ones(int(last[-1]), np.int64)])
        all_pairs = np.concatenate([*known, met])
        lengths = [len(part) for part in known]
        owner = np.concatenate(
            [np.repeat(np.arange(many), lengths), np.repeat(np.arange(many), counts[:, 1])]
        )
        width = int(all_pairs[:, :2].max(initial=0)) + 1
        cells, where = np.unique(
            (owner * width + all_pairs[:, 0]) * width + all_pairs[:, 1], return_inverse=True
        )
        times = np.zeros(len(cells), np.int64)
        np.add.at(times, where, all_pairs[:, 2])
        pairs = np.column_stack([cells // width % width, cells % width, times])
        edges = np.searchsorted(cells // (width * width), np.arange(many + 1))
    counts += np.array([tally.counts for tally in before])
    return [
        # Copies: a model's board outlives what was counted of others with it.
        Tally(
            counts[place].copy(),
            sums[place].copy(),
            pairs[edges[place] : edges[place + 1]].copy(),
        )
        for place in range(many)
    ]
