"""Which class was taken for which: tables of row percentages, shaded by CSS alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from pipelines.report.data.scores import CUT_CLASS, FIRST_CLASS, NO_CLASS
from pipelines.report.data.totals import Ints
from pipelines.report.page.text import counted, natural

MOST_CLASSES = 20
"""Classes with a row and a column of their own; the rest are put together as "other"."""

_DENSE_FROM = 12


@dataclass(frozen=True)
class Confusion:
    """How often each class was taken for which.

    Attributes:
        names: The classes that stand by themselves, in natural order.
        folded: How many further classes there are, put together in one row and one column behind
            the others; None if there are more than were told apart.
        counts: Rows by label (down) and prediction (across), shape (k, k); with a further column
            at the end for rows without a prediction, if there are any.
    """

    names: list[str]
    folded: int | None
    counts: Ints

    @property
    def unanswered(self) -> bool:
        """Whether there are rows without a prediction."""
        return bool(self.counts.shape[1] > self.counts.shape[0])


def confusion_of(label: Ints, said: Ints, count: Ints, classes: Sequence[str]) -> Confusion:
    """Arrange a tally.

    Args:
        label: Places of the labels, shape (n,); see `report_scores.Tally`.
        said: Places of the predictions, shape (n,).
        count: Rows, shape (n,).
        classes: Names of the classes.
    """
    places = len(classes) + FIRST_CLASS
    support = np.bincount(label, count, places)
    met = np.union1d(label, said)
    met = met[met >= FIRST_CLASS]
    ranked = met[np.argsort(-support[met], kind="stable")]
    own = sorted(ranked[:MOST_CLASSES].tolist(), key=lambda place: natural(_name(classes, place)))
    cut = bool(np.any(label == CUT_CLASS) or np.any(said == CUT_CLASS))
    folded: int | None = len(met) - len(own)
    size = len(own) + (1 if folded or cut else 0)
    column = np.full(places, len(own))
    column[own] = np.arange(len(own))
    column[NO_CLASS] = size
    counts = np.zeros((size, size + int(np.any(said == NO_CLASS))), dtype=np.int64)
    np.add.at(counts, (column[label], column[said]), count)
    return Confusion([_name(classes, place) for place in own], None if cut else folded, counts)


def _name(classes: Sequence[str], place: int) -> str:
    return classes[place - FIRST_CLASS]


def confusion_table(confusion: Confusion, name: str) -> str:
    """Return the table: a label's row says for what share of its rows each class was predicted.

    Args:
        confusion: What to show.
        name: What is shown, for those who hear the page.
    """
    names = list(confusion.names)
    if len(confusion.counts) > len(names):
        folded = confusion.folded
        names.append("other (more)" if folded is None else f"other ({_classes(folded)})")
    columns = [*names, *(["none"] if confusion.unanswered else [])]
    head = "".join(f'<th scope="col" title="{escape(c)}">{escape(c)}</th>' for c in columns)
    dense = " dense" if len(columns) >= _DENSE_FROM else ""
    lines = zip(names, confusion.counts.tolist(), strict=True)
    own = len(confusion.names)
    body = "".join(_line(name, row, k if k < own else None) for k, (name, row) in enumerate(lines))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">\n'
        f'<table class="confusion{dense}">\n<thead><tr><th scope="col">label ↓ · predicted →</th>'
        f'<th scope="col" class="n">Rows</th>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody>\n</table>\n</div>\n"
    )


def _classes(count: int) -> str:
    return "1 class" if count == 1 else f"{count:,} classes"


def _line(name: str, counts: Sequence[int], own: int | None) -> str:
    total = sum(counts)
    cells = "".join(_cell(count, total, k == own) for k, count in enumerate(counts))
    name = escape(name)
    head = f'<th scope="row" title="{name}">{name}</th><td class="n">{total:,}</td>'
    return f"<tr>{head}{cells}</tr>\n"


def _cell(count: int, total: int, hit: bool) -> str:
    if not count:
        return "<td></td>"
    share = count / total
    shown = f"{100 * share:.1f}" if count < total else "100"
    kind = ' class="hit"' if hit else ""
    return f'<td{kind} style="--s:{share:.2f}" title="{counted(count, "row")}">{shown}</td>'
