"""The report's part on predictions: HTML around the charts, confusion tables, and the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from pipelines.report.data.choice import Choice
from pipelines.report.data.learning import Learning, ScoreCurve, gain
from pipelines.report.data.scores import CLASS_BITS, FIRST_CLASS
from pipelines.report.data.totals import Floats, Ints
from pipelines.report.page.confusion import MOST_CLASSES, Confusion, confusion_of, confusion_table
from pipelines.report.page.pack import number, numbers, packed_curve
from pipelines.report.page.tables import table_frame
from pipelines.report.page.text import counted, figure, percent

_REFERENCES = {
    True: ("the same label as the row before", "the most frequent label"),
    False: ("the value of the row before", "the mean value"),
}
# Of long spells of one label the row before gives almost all away: not "100.0 %".
_ALMOST_ALL = 0.999
_TITLES = {True: "Accuracy as the rows came", False: "Error as the rows came"}


def learning_figures(learning: Learning | None, choice: Choice) -> str:
    """Return the chosen model's part: the frame of its chart, and tables of confusion.

    Of several models each drawn has its table here; a script shows the chosen one's.
    """
    if learning is None:
        return ""
    classifies = learning.scores.classifies
    what = "the share that is right" if classifies else "the root mean squared error"
    before, constant = _REFERENCES[classifies]
    about = (
        f"Each row is predicted before its label is learned from. The thin line is {what} of the "
        f"rows of a bin, the thick one of all rows so far. Dashed, of the same rows so far: "
        f"{before}, and {constant} of all, known beforehand."
    )
    tables = "".join(_tables(learning, choice)) if len(learning.scores.models) > 1 else ""
    return (
        '<section aria-labelledby="score-title">\n'
        f'<h2 id="score-title">{_TITLES[classifies]}</h2>\n<p class="note">{escape(about)}</p>\n'
        '<figure><figcaption class="readout" id="score-readout"></figcaption>'
        '<div class="chart" id="score"></div></figure>\n'
        f'<p class="note" id="score-note"></p>\n{tables}</section>\n'
    )


def _tables(learning: Learning, choice: Choice) -> Iterator[str]:
    for slot, name in enumerate(choice.drawn):
        confusion = _confusion(learning, learning.scores.models[name])
        if confusion is not None:
            yield (
                f'<details class="confusion-of" data-curve="{slot}"><summary>Confusion of '
                f"<b>{escape(name)}</b></summary>\n"
                f"{confusion_table(confusion, f'Confusion of {name}')}</details>\n"
            )


def learning_section(learning: Learning | None) -> str:
    """Return the part on all models: totals, a curve, confusion, and the table's frame."""
    if learning is None:
        return ""
    models = len(learning.scores.models)
    over_all = ""
    if models > 1 and learning.by_row is not None:
        over_all = (
            '<figure><figcaption class="readout" id="score-all-readout"></figcaption>'
            '<div class="chart" id="score-all"></div></figure>\n'
        )
    return (
        '<section aria-labelledby="learning-title">\n'
        f'<h2 id="learning-title">Predictions{" over all models" if models > 1 else ""}</h2>\n'
        f'<p>{escape(_sentence(learning))}</p>\n<dl class="tiles">\n{_tiles(learning)}</dl>\n'
        f"{over_all}</section>\n{_confusion_section(learning)}"
        '<section aria-labelledby="scores-title">\n'
        f'<h2 id="scores-title">Predictions by model</h2>\n{table_frame("scores")}</section>\n'
    )


def _tiles(learning: Learning) -> str:
    scores = learning.scores
    rows, scored = int(scores.rows.sum()), int(scores.scored.sum())
    losses = learning.losses.sum(axis=0)
    value = float(learning.measure(losses[:1], np.array([scored]))[0])
    tiles = [
        ("Rows predicted", f"{rows:,}", ""),
        ("Scored", f"{scored:,}", f"{percent(scored, rows)} of the rows"),
    ]
    if scores.classifies:
        right = scored - int(losses[0])
        tiles += [
            ("Correct", f"{right:,}", ""),
            ("Accuracy", percent(right, scored), ""),
            ("Balanced accuracy", _percent(_balanced(learning)[0]), "mean over the classes"),
        ]
    else:
        mean = float(scores.absolute.sum()) / scored if scored else float("nan")
        tiles += [
            ("RMSE", figure(value), "root mean squared error"),
            ("MAE", figure(mean), "mean absolute error"),
        ]
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}<small>{escape(hint)}</small></dd></div>\n"
        for name, text, hint in tiles
    )


def _percent(share: float) -> str:
    if _ALMOST_ALL < share < 1:
        return f"{np.floor(10_000 * share) / 100:.2f} %"
    return percent(share, 1) if np.isfinite(share) else "–"


def _sentence(learning: Learning, model: int | None = None) -> str:
    """Say how the learner stands against the references, over one model or all."""
    scores, classifies = learning.scores, learning.scores.classifies
    at = slice(None) if model is None else slice(model, model + 1)
    scored = int(scores.scored[at].sum())
    if not scored:
        return "No row was scored: none has a label."
    losses = learning.losses[at].sum(axis=0)
    values = learning.measure(losses, np.full(len(losses), scored)).tolist()
    before, constant = _REFERENCES[classifies]
    if model is None and len(scores.models) > 1:
        constant += " of each model"
    rows = counted(scored, "scored row")
    if classifies:
        learner, first, second = (_percent(value) for value in values)
        were = "was" if scored == 1 else "were"
        text = f"{learner} of {rows} {were} predicted right. In the same rows {before} is right in "
        text += f"{first}, {constant} in {second}."
    else:
        learner, first, second = (figure(value) for value in values)
        text = f"The root mean squared error over {rows} is {learner}. In the same rows that of "
        text += f"{before} is {first}, that of {constant} {second}."
    if not np.all(np.isfinite(losses)):
        return text
    better = (before, constant)[int(np.argmin(losses[1:]))]
    return f"{text} {_verdict(float(gain(losses)), better, classifies)}"


def _verdict(saved: float, better: str, classifies: bool) -> str:
    if not np.isfinite(saved):
        return f"Nothing can be gained on {better}: it makes no mistake."
    if classifies:
        return (
            f"Against the better of the two, {better}, kappa is {figure(saved)} (1: no mistakes, "
            "0: as many as it, below 0: more)."
        )
    if saved >= 0:
        share = f"saves {_percent(saved)} of its squared error"
    else:
        share = f"has {figure(1 - saved)} times its squared error"
    return f"The better of the two is {better}: the learner {share}."


def _confusion_section(learning: Learning) -> str:
    confusion = _confusion(learning, None)
    if confusion is None:
        return ""
    note = "Of the rows with a label (down), the percentage predicted as each class (across)."
    if len(confusion.counts) > len(confusion.names):
        note += (
            f" The {MOST_CLASSES} most frequent classes stand by themselves. Among the others a "
            "class taken for another of them is in their common cell."
        )
    return (
        '<section aria-labelledby="confusion-title">\n<h2 id="confusion-title">Confusion</h2>\n'
        f'<p class="note">{escape(note)}</p>\n{confusion_table(confusion, "Confusion")}'
        "</section>\n"
    )


def _confusion(learning: Learning, model: int | None) -> Confusion | None:
    """Return the confusion of one model or all; None in regression or without scored rows."""
    scores = learning.scores
    if not scores.classifies:
        return None
    models, label, said, count = scores.tally.columns()
    if model is not None:
        first, stop = np.searchsorted(models, [model, model + 1])
        label, said, count = label[first:stop], said[first:stop], count[first:stop]
    if not len(count):
        return None
    return confusion_of(label, said, count, learning.classes)


def _balanced(learning: Learning, by_model: bool = False) -> Floats:
    """Return the mean of the classes' accuracies, of all models together or of each."""
    model, label, said, count = learning.scores.tally.columns()
    size = len(learning.scores.models) if by_model else 1
    if not by_model:
        model = np.zeros_like(model)
    told = label >= FIRST_CLASS
    pair, place = np.unique((model << CLASS_BITS | label)[told], return_inverse=True)
    rows, right = np.zeros(len(pair)), np.zeros(len(pair))
    np.add.at(rows, place, count[told])
    np.add.at(right, place, np.where(label == said, count, 0)[told])
    own = pair >> CLASS_BITS
    classes = np.bincount(own, minlength=size)
    total = np.bincount(own, right / rows, size)
    return np.where(classes > 0, total / np.maximum(classes, 1), np.nan)


def learning_data(learning: Learning | None, choice: Choice) -> dict[str, Any] | None:
    """Return what the scripts draw: curves of models drawn and of all, and the table."""
    if learning is None:
        return None
    curves: list[dict[str, Any] | None] = []
    for name, curve in zip(choice.drawn, learning.curves, strict=True):
        data = _curve(curve)
        if data is not None:
            data["note"] = _sentence(learning, learning.scores.models[name])
        curves.append(data)
    return {
        "classifies": learning.scores.classifies,
        "references": list(_REFERENCES[learning.scores.classifies]),
        "curves": curves,
        "byTime": _curve(learning.by_time),
        "byRow": _curve(learning.by_row),
        "table": _table(learning, choice.shown),
    }


def _curve(curve: ScoreCurve | None) -> dict[str, Any] | None:
    if curve is None:
        return None
    return {
        "start": None if curve.start is None else curve.start / 1e6,
        "covered": number(curve.covered),
        "values": packed_curve(curve.values),
    }


def _table(learning: Learning, shown: Sequence[str]) -> dict[str, Any]:
    scores = learning.scores
    names = [name for name in shown if scores.rows[scores.models[name]]]
    at: Ints = np.array([scores.models[name] for name in names], dtype=np.int64)
    scored, losses = scores.scored[at], learning.losses[at]
    values = learning.measure(losses, scored[:, None])
    table: dict[str, Any] = {
        "id": names,
        "rows": scores.rows[at].tolist(),
        "scored": scored.tolist(),
        "learner": numbers(values[:, 0]),
        "before": numbers(values[:, 1]),
        "constant": numbers(values[:, 2]),
        "gain": numbers(np.where(scored > 0, gain(losses), np.nan)),
    }
    if scores.classifies:
        table["correct"] = (scored - losses[:, 0].astype(np.int64)).tolist()
        table["balanced"] = numbers(_balanced(learning, by_model=True)[at])
    else:
        mean = np.where(scored > 0, scores.absolute[at] / np.maximum(scored, 1), np.nan)
        table["mae"] = numbers(mean)
    return table
