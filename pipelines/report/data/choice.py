"""Which models the report draws, and which its tables show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kerneltrack.arrays import FloatArray, IntArray
from pipelines.report.data.time_axis import TimeAxis
from pipelines.report.data.totals import Totals
from pipelines.report.text import natural

MOST_CURVES = 50
"""Models that are drawn in full: with fine curves, channels, predictions and windows."""

MOST_OPENED = 2_000
"""Up to so many models each can be opened; of more, those that the page names."""

MOST_SHOWN = 1_000
"""Up to so many models the tables have all of them."""

_EXTREMES_SHOWN = 200
_ODD_DRAWN = 40


@dataclass(frozen=True)
class Choice:
    """The models of a report, numbered, and those that are drawn and shown.

    Attributes:
        models: Number of every model that the features name.
        drawn: Names of the models that are drawn in full, in natural order.
        shown: Names of the models in tables, in natural order.
        starts: For each model drawn the time (ns) that its axis counts from, None if times do not
            order its rows.
        axis: The times of all models that are shown together; None without times.
    """

    models: Mapping[str, int]
    drawn: list[str]
    shown: list[str]
    starts: list[int | None]
    axis: TimeAxis | None = None

    def numbers(self) -> dict[str, int]:
        """Return a copy of `models`, to number further models in."""
        return dict(self.models)


def models_with_curves(totals: Totals, odd: Sequence[str] = ()) -> list[str]:
    """Choose the models that the page draws, in the natural order of their names.

    All, up to 50. Beyond, the first 40 of those that are off or unlike the others; then the 20 with
    the most rows, the 20 that fit worst and the 10 that fit best; what is left is filled up with
    more of those with the most rows.

    Args:
        totals: What the first pass found.
        odd: Models that are off or unlike the others, the worst first.
    """
    names = list(totals.models)
    if len(names) > MOST_CURVES:
        by_rows = np.argsort(-totals.counts.rows, kind="stable")
        best = _by_mean(totals.means())
        first = [totals.models[name] for name in odd if name in totals.models][:_ODD_DRAWN]
        order = [*first, *by_rows[:20], *best[::-1][:20], *best[:10], *by_rows[: MOST_CURVES * 2]]
        names = [names[code] for code in dict.fromkeys(int(code) for code in order)][:MOST_CURVES]
    return sorted(names, key=natural)


def models_opened(totals: Totals, drawn: Sequence[str], named: Sequence[str]) -> list[str]:
    """Choose the models that can be opened besides those drawn in full, in natural order.

    Args:
        totals: What the first pass found.
        drawn: Models that are drawn in full.
        named: Models that the page names, of which some may have no features.
    """
    models = totals.models
    names = list(models) if len(models) <= MOST_OPENED else [n for n in named if n in models]
    return sorted(set(names) - set(drawn), key=natural)


def models_shown(totals: Totals, curves: list[str]) -> list[str]:
    """Choose the models of the table: all up to 1,000, else the best, the worst and the drawn."""
    names = list(totals.models)
    if len(names) > MOST_SHOWN:
        best = _by_mean(totals.means())
        ends = [*best[:_EXTREMES_SHOWN], *best[::-1][:_EXTREMES_SHOWN]]
        names = list(dict.fromkeys([*(names[int(code)] for code in ends), *curves]))
    return sorted(names, key=natural)


def codes_of(models: Mapping[str, int], names: Sequence[str]) -> IntArray:
    """Return the numbers of the models of these names."""
    return np.array([models[name] for name in names], dtype=np.int64)


def slots_of(models: Mapping[str, int], names: Sequence[str]) -> IntArray:
    """Return for the number of each model its place among these names, -1 where it has none."""
    slots = np.full(len(models), -1, dtype=np.int64)
    slots[codes_of(models, names)] = np.arange(len(names))
    return slots


def _by_mean(means: FloatArray) -> IntArray:
    """Return the models that have a mean, the best fitted first."""
    order = np.argsort(means, kind="stable")
    return order[: np.count_nonzero(np.isfinite(means))]
