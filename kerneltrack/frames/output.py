"""What is said of a frame's rows: features, predictions, and why some were not taken."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from kerneltrack.arrays import IntArray
from kerneltrack.fleet.learn import predictions_at
from kerneltrack.frames.model import RowResults, Specs
from kerneltrack.frames.table import TableRows
from kerneltrack.learners import Predictions
from kerneltrack.monitor.reference import WRITTEN

NO_MODEL = "the model id is missing"
NO_TIME = "the time is missing, or too far from 1970"
LEARNED_BEFORE = "of a time that the model had learned from before"
LEARNED_ALREADY = "the model has learned this row of its newest time already"
LEARNED_BY_SNAPSHOT = "of the newest time of the snapshot, whose rows the model has learned already"
WAITS_TO_BEGIN = "waits for the warm-up"
WAITS_ALREADY = "waits for the warm-up already"
NOT_BEGUN = "no row that a model can begin with"
UNKNOWN = "no such model"
WAITS_AHEAD = "its time is more than max_jump ahead: it waits until jump_rows rows agree"
UNCONFIRMED = (
    "its time is more than max_jump from the device's other rows, and fewer than jump_rows rows "
    "agree on it"
)

_MOST_REASONS = 3

EARLIER = -1
"""Place of a row that came in an earlier frame than the one that is answered."""


class Output:
    """What is said of a frame's rows, by their places in it."""

    def __init__(self, specs: Specs, count: int) -> None:
        """Begin with nothing said of so many rows."""
        self._specs = specs
        self.columns: dict[str, Any] = {"index": np.full(count, -1, np.int64)}
        reals = ["loss", "novelty", *(WRITTEN if specs.reference is not None else ())]
        self.columns |= {name: np.full(count, np.nan) for name in reals}
        self.columns["informative"] = np.zeros(count, np.bool_)
        names = [f"{specs.tracker.emit}{place}" for place in range(specs.tracker.rank)]
        self._x = np.full((count, len(names)), np.nan)
        self.columns |= {name: self._x[:, place] for place, name in enumerate(names)}
        if specs.learner is not None and specs.learner.classifies:
            self.columns["prediction"] = [None] * count
            self.columns |= {name: np.full(count, np.nan) for name in ("score", "margin")}
            if specs.learner.intervals is not None:
                self.columns["set"] = [None] * count
            self.columns["correct"] = [None] * count
        elif specs.learner is not None:
            bounds = () if specs.learner.intervals is None else ("lower", "upper")
            names = ["prediction", *bounds, "error"]
            self.columns |= {name: np.full(count, np.nan) for name in names}
        self.columns["reason"] = [None] * count

    def shown(self, name: str) -> Any:
        """Return a column for a frame: rows without an index have none."""
        column = self.columns[name]
        if name == "index" and (column < 0).any():
            return [None if value < 0 else value for value in column.tolist()]
        return column

    def refuse(self, places: IntArray, reason: str) -> None:
        """Note why rows were not taken."""
        for place in places.tolist():
            self.columns["reason"][place] = reason

    def put(self, places: IntArray, results: RowResults) -> None:
        """Note what is said of the rows at these places; `EARLIER` are of another frame."""
        good = np.flatnonzero(results.features.valid & (places != EARLIER))
        where, features = places[good], results.features
        self.columns["index"][where] = features.index[good]
        for name in ("loss", "novelty", "informative"):
            self.columns[name][where] = getattr(features, name)[good]
        self._x[where] = getattr(features, self._specs.tracker.emit)[good]
        if results.scores is not None:
            for name, values in results.scores.written.items():
                self.columns[name][where] = values[good]
        if results.predictions is not None:
            among = np.flatnonzero(places[results.features.valid] != EARLIER)
            predictions = results.predictions
            if len(among) < len(predictions.valid):
                predictions = predictions_at(predictions, among)
            self._put_predictions(where.tolist(), predictions)

    def _put_predictions(self, where: list[int], predictions: Predictions) -> None:
        if predictions.code is None:
            self.columns["prediction"][where] = predictions.value
            self.columns["error"][where] = predictions.error
            if predictions.lower is not None:
                self.columns["lower"][where] = predictions.lower
                self.columns["upper"][where] = predictions.upper
            return
        names, known = predictions.names, predictions.code >= 0
        scored = predictions.scored.tolist()
        decisions: dict[str, Any] = {"score": predictions.score, "margin": predictions.margin}
        for name, values in decisions.items():
            self.columns[name][where] = np.where(known, values, np.nan)
        sets = predictions.sets
        right = predictions.correct.tolist() if predictions.correct is not None else []
        for at, place in enumerate(where):
            self.columns["prediction"][place] = names[at]
            if sets and known[at]:
                self.columns["set"][place] = sets[at]
            if scored[at]:
                self.columns["correct"][place] = right[at]


def warn_of_refused(out: Output) -> int:
    """Warn of rows that were refused, with the commonest reasons; how many there are.

    To be called by a method of the fleet: the warning is shown where that was called.
    """
    given = Counter(reason for reason in out.columns["reason"] if reason is not None)
    waits = (WAITS_TO_BEGIN, WAITS_AHEAD)
    reasons = Counter(
        {why: n for why, n in given.items() if why == WAITS_ALREADY or not why.startswith(waits)}
    )
    refused = reasons.total()
    if refused:
        common = reasons.most_common(_MOST_REASONS)
        shown = [f"{count:,}: {why}" for why, count in common]
        others = refused - sum(count for _, count in common)
        shown += [f"{others:,}: other reasons"] if others else []
        count = f"{refused:,} of {len(out.columns['reason']):,} rows are refused"
        warnings.warn(f"{count} (column 'reason'): {'; '.join(shown)}", stacklevel=3)
    return refused


def by_model(rows: TableRows, out: Output, only: str) -> Iterator[tuple[str, IntArray]]:
    """Return the places of each model's usable rows, models in the order of their first rows.

    Args:
        rows: The rows.
        out: Is told why others are not taken.
        only: The model of rows that do not name theirs.
    """
    usable = np.array([key is not None for key in rows.model_id], np.bool_)
    out.refuse(np.flatnonzero(~usable), NO_MODEL)
    if rows.late is not None:
        out.refuse(np.flatnonzero(usable & rows.late), NO_TIME)
        usable &= ~rows.late
    for place, reason in rows.wrong.items():
        if usable[place]:
            out.refuse(np.array([place]), reason)
            usable[place] = False
    groups: dict[str, list[int]] = {}
    for place in np.flatnonzero(usable).tolist():
        groups.setdefault(rows.model_id[place] or only, []).append(place)
    for key, places in groups.items():
        yield key, np.array(places, np.int64)
