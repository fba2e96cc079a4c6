"""Predictions on the page: sentences, tables of confusion, the table of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from pipelines.report.data.choice import Choice, codes_of
from pipelines.report.data.columns import mean_of
from pipelines.report.data.learning import LearningResults
from pipelines.report.data.predictions import CUT_CLASS, FIRST_CLASS, NO_CLASS
from pipelines.report.page.mixture import course_view, reliability_view
from pipelines.report.text import counted, figure, natural, percent

MOST_CLASSES = 20
"""Classes with a row and a column of their own; the rest are put together as "other"."""

REFERENCES = {
    True: ("the same label as the row before", "the most frequent label"),
    False: ("the value of the row before", "the mean value"),
}
"""The references, of classes and of values."""


def references_of(learning: LearningResults) -> tuple[str | None, str]:
    """Return what the learner is held against; None for the row before, where labels come late."""
    before, constant = REFERENCES[learning.scores.classifies]
    return (None if learning.late else before), constant


# In long spells of one label the row before is almost always right: not "100.0 %".
_ALMOST_ALL = 0.999


@dataclass(frozen=True)
class Confusion:
    """How often each class was taken for which.

    Attributes:
        names: The classes that stand by themselves, in natural order.
        columns: The predictions: these, "other" for the further classes if there are any, and
            "none" if rows have no prediction.
        lines: For each label, with "other", its rows by prediction.
    """

    names: list[str]
    columns: list[str]
    lines: list[tuple[str, list[int]]]


def confusion_of(
    label: IntArray, predicted: IntArray, count: IntArray, classes: Sequence[str]
) -> Confusion:
    """Arrange a tally.

    Args:
        label: Places of the labels, shape (n,); see `Tally`.
        predicted: Places of the predictions, shape (n,).
        count: Rows, shape (n,).
        classes: Names of the classes.
    """
    places = len(classes) + FIRST_CLASS
    support = np.bincount(label, count, places)
    met = np.union1d(label, predicted)
    is_cut, has_none = CUT_CLASS in met, NO_CLASS in predicted
    met = met[met >= FIRST_CLASS]
    ranked = met[np.argsort(-support[met], kind="stable")]
    name = {place: classes[place - FIRST_CLASS] for place in ranked.tolist()}
    own = sorted(ranked[:MOST_CLASSES].tolist(), key=lambda place: natural(name[place]))
    names = [name[place] for place in own]
    rest = len(met) - len(own)
    labels = list(names)
    if rest or is_cut:
        folded = "1 class" if rest == 1 else f"{rest:,} classes"
        labels.append("other (more)" if is_cut else f"other ({folded})")
    column = np.full(places, len(own))
    column[own] = np.arange(len(own))
    column[NO_CLASS] = len(labels)
    counts = np.zeros((len(labels), len(labels) + has_none), dtype=np.int64)
    np.add.at(counts, (column[label], column[predicted]), count)
    columns = [*labels, *(["none"] if has_none else [])]
    return Confusion(names, columns, list(zip(labels, counts.tolist(), strict=True)))


def learning_texts(
    learning: LearningResults | None, choice: Choice, weights: Mapping[str, float]
) -> dict[str, Any] | None:
    """Return what the templates show of predictions; None if there are none.

    Of several models each drawn has its confusion; a script shows the chosen one's. `weights` are
    those of the experts in the run's record.
    """
    if learning is None:
        return None
    scores = learning.scores
    rows, scored = int(scores.predicted.rows.sum()), int(scores.scored.rows.sum())
    loss = learning.losses.sum(axis=0)[:1]
    several = len(scores.models) > 1
    drawn = [
        (slot, name, _confusion(learning, scores.models[name]))
        for slot, name in enumerate(choice.drawn if several else [])
    ]
    return {
        "classifies": scores.classifies,
        "references": references_of(learning),
        "models": len(scores.models),
        "sentence": sentence(learning),
        "rows": rows,
        "scored": scored,
        "right": scored - int(loss[0]) if scores.classifies else None,
        "balanced": _percent(_balanced(learning)[0]),
        "rmse": float(learning.measure(loss, np.array([scored]))[0]),
        "mae": float(scores.scored.sums["absolute"].sum()) / max(scored, 1),
        "reliability": reliability_view(scores.reliability if scores.classifies else None),
        "course": course_view(learning.mixture.course, None, weights),
        "courses": [
            (slot, name, course_view(course, int(course.ends[-1])))
            for slot, (name, course) in enumerate(
                zip(choice.drawn, learning.mixture.drawn, strict=True)
            )
            if several and course is not None
        ],
        "has_overall": several and learning.by_row is not None,
        "confusion": _confusion(learning, None),
        "confusions": [line for line in drawn if line[2] is not None],
        "most_classes": MOST_CLASSES,
    }


def sentence(learning: LearningResults, model: int | None = None) -> str:
    """Return how the learner stands against the references, over one model or all."""
    scores, classifies = learning.scores, learning.scores.classifies
    at = slice(None) if model is None else slice(model, model + 1)
    scored = int(scores.scored.rows[at].sum())
    if not scored:
        return "No row was scored: none has a label."
    losses = learning.losses[at].sum(axis=0)
    values = learning.measure(losses, np.full(len(losses), scored)).tolist()
    before, constant = references_of(learning)
    if model is None and len(scores.models) > 1:
        constant += " of each device"
    rows = f"{counted(scored, 'row')} with a label"
    shown = [_percent(value) if classifies else figure(value) for value in values]
    if classifies:
        were = "was" if scored == 1 else "were"
        text = f"{shown[0]} of {rows} {were} predicted right. In the same rows "
        if before is not None:
            text += f"{before} is right in {shown[1]}, {constant} in {shown[2]}."
        else:
            text += f"{constant} is right in {shown[2]}."
    else:
        text = f"The root mean squared error over {rows} is {shown[0]}. In the same rows that of "
        if before is not None:
            text += f"{before} is {shown[1]}, that of {constant} {shown[2]}."
        else:
            text += f"{constant} is {shown[2]}."
    plain = _plain(learning, model)
    if plain is not None:
        shown_plain = _percent(plain) if classifies else figure(plain)
        text = (
            text.removesuffix(".") + "; a ridge regression on the plain rows, learned row by row, "
        )
        text += f"{'is right in' if classifies else 'has'} {shown_plain}."
    text += _covered(learning, model)
    if not np.all(np.isfinite(losses)):
        return text
    if before is None:
        text += (
            " Labels came later than their rows, so the label of the row before was not yet known."
        )
    better = constant if before is None else (before, constant)[int(np.argmin(losses[1:]))]
    return f"{text} {_verdict(float(learning.gain(losses)), better, classifies, before is None)}"


def _covered(learning: LearningResults, model: int | None) -> str:
    """Say how many labels lie in their sets, or intervals; nothing where there are none."""
    known, models = learning.mixture.covered, learning.scores.models
    found = [
        known[name]
        for name, number in models.items()
        if model in (None, number) and known.get(name, (0.0, 0.0, 0))[2]
    ]
    if not found:
        return ""
    shares, sizes, rows = np.array(found).T
    share, size = np.average(shares, weights=rows), np.average(sizes, weights=rows)
    if learning.scores.classifies:
        where = f"sets, of {size:.2f} classes on average"
        return f" {_percent(share)} of the labels lie in their {where}."
    where = f"intervals, {figure(size)} wide on average"
    return f" {_percent(share)} of the targets lie in their {where}."


def _plain(learning: LearningResults, model: int | None) -> float | None:
    """Return the accuracy or error of the ridge on the plain rows; None where that is not known."""
    known, models = learning.mixture.plain, learning.scores.models
    names = [name for name, number in models.items() if model in (None, number)]
    names = [name for name in names if learning.scores.scored.rows[models[name]]]
    if not names or any(name not in known for name in names):
        return None
    values, rows = np.array([known[name] for name in names]).T
    if learning.scores.classifies:
        return float(np.average(values, weights=rows))
    return float(np.sqrt(np.average(values**2, weights=rows)))


def _verdict(saved: float, better: str, classifies: bool, only_one: bool) -> str:
    if not np.isfinite(saved):
        return f"Nothing can be gained on {better}: it makes no mistake."
    if classifies:
        better_of = better if only_one else f"the better of the two, {better}"
        if saved >= 0:
            return f"Of the mistakes of {better_of}, {_percent(saved)} are avoided."
        return f"The learner makes {figure(1 - saved)} times as many mistakes as {better_of}."
    if saved >= 0:
        share = f"saves {_percent(saved)} of its squared error"
    else:
        share = f"has {figure(1 - saved)} times its squared error"
    if only_one:
        return f"Against {better} the learner {share}."
    return f"The better of the two is {better}: the learner {share}."


def _percent(share: float) -> str:
    if _ALMOST_ALL < share < 1:
        return f"{np.floor(10_000 * share) / 100:.2f} %"
    return percent(share, 1) if np.isfinite(share) else "–"


def _confusion(learning: LearningResults, model: int | None) -> Confusion | None:
    """Return the confusion of one model or all; None in regression or without scored rows."""
    models, label, predicted, count = learning.scores.tally.columns()
    if model is not None:
        first, stop = np.searchsorted(models, [model, model + 1])
        label, predicted, count = label[first:stop], predicted[first:stop], count[first:stop]
    return confusion_of(label, predicted, count, learning.classes) if len(count) else None


def _balanced(learning: LearningResults, by_model: bool = False) -> FloatArray:
    """Return the mean of the classes' accuracies, of all models together or of each."""
    model, label, rows, right = learning.scores.tally.labels()
    if by_model:
        size, accuracy = len(learning.scores.models), right / rows
    else:
        size, accuracy = 1, mean_of(np.bincount(label, right), np.bincount(label, rows))
        accuracy = accuracy[np.isfinite(accuracy)]
        model = np.zeros(len(accuracy), dtype=np.int64)
    return mean_of(np.bincount(model, accuracy, size), np.bincount(model, minlength=size))


def score_table(learning: LearningResults, shown: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of the table of models: those of `shown` that have predictions."""
    scores = learning.scores
    names = [name for name in shown if scores.predicted.rows[scores.models[name]]]
    at = codes_of(scores.models, names)
    scored, losses = scores.scored.rows[at], learning.losses[at]
    values = learning.measure(losses, scored[:, None])
    table = {
        "id": np.array(names, dtype=object),
        "rows": scores.predicted.rows[at],
        "scored": scored,
        "learner": values[:, 0],
        "before": values[:, 1],
        "constant": values[:, 2],
        "gain": np.where(scored > 0, learning.gain(losses), np.nan),
    }
    if scores.classifies:
        table["correct"] = scored - losses[:, 0].astype(np.int64)
        table["balanced"] = _balanced(learning, by_model=True)[at]
    else:
        table["mae"] = mean_of(scores.scored.sums["absolute"][at], scored)
    return table
