"""From a model's blocks of rows to the curves that the report draws."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pipelines.report.data.blocks import WINDOW, ModelBlocks
from pipelines.report.data.labels import NO_LABEL
from pipelines.report.data.totals import Floats, Ints

RATE_BINS = 160
"""Rates need rows to be rates: at most this many bins, and about 20 rows or more in each."""

_ROWS_OF_A_RATE = 20
_SHORTEST_REGIME = 5
_GAP_STEPS = 10
_GAP_SHARE = 1 / 200


@dataclass(frozen=True)
class Regime:
    """Consecutive rows of one label: rows first..stop - 1, times start..end (s, from the first)."""

    label: int
    first: int
    stop: int
    start: float
    end: float


@dataclass(frozen=True)
class Curve:
    """What is drawn for one model, NaN where a line must break.

    `loss` maps names to arrays of one length, down-sampled to bins: `row` and `time` (s since
    `start`; absent where time does not order the rows), `mean`, `low`, `high`, `average` and, for
    a numeric label, `target`. `rates` does so in coarser bins: `row`, `time`, `novelty`, `novel`,
    `censored`, `replaced`, `dropped` (shares of the bin's rows). `start` is in ns.
    """

    start: int | None
    gaps: int
    covered: float
    label_changes: int
    regimes: list[Regime] | None
    loss: dict[str, Floats]
    rates: dict[str, Floats]


def curve_of(blocks: ModelBlocks, bins: int) -> Curve:
    """Bin a model's blocks.

    Bins hold equally many rows, never rows from both sides of a gap in time nor, where labels form
    runs, rows of two labels.

    Args:
        blocks: At least one block.
        bins: About how many bins; a run of labels or a gap can add one each.
    """
    times = _ordered_times(blocks)
    gaps = gaps_of(times)
    changes = np.zeros(0, dtype=np.int64)
    if blocks.label is not None:
        changes = np.flatnonzero(blocks.label[1:] != blocks.label[:-1]) + 1
    rows = int(blocks.rows.sum())
    labelled = blocks.label is not None and bool(np.any(blocks.label != NO_LABEL))
    runs = labelled and len(changes) <= min(bins // 2, rows // _SHORTEST_REGIME)
    cuts = np.union1d(gaps, changes) if runs else gaps
    covered = 1.0
    if times is not None:
        silent = times[gaps, 0] - times[gaps - 1, 1]
        covered = 1.0 - float(silent.sum()) / float(times[-1, 1] - times[0, 0])
    return Curve(
        start=None if times is None else int(times[0, 0]),
        gaps=len(gaps),
        covered=covered,
        label_changes=len(changes),
        regimes=_regimes(blocks, times, changes, gaps) if runs else None,
        loss=_loss_curve(blocks, times, bin_starts(cuts, len(blocks.rows), bins), gaps),
        rates=_rate_curve(blocks, times, gaps),
    )


def bin_starts(cuts: Ints, length: int, bins: int) -> Ints:
    """Cut 0..length at every place in `cuts`, and each part into its share of the bins.

    Returns:
        The first position of every bin, increasing, shape (about `bins`,).
    """
    edges = np.concatenate([[0], cuts, [length]]).astype(np.int64)
    starts = []
    for first, stop in pairwise(edges):
        size = int(stop - first)
        count = min(size, max(1, round(size * bins / length)))
        starts.append(first + np.arange(count) * size // count)
    return np.concatenate(starts).astype(np.int64)


def moving_average(blocks: ModelBlocks) -> Floats:
    """Return the mean loss of the last `WINDOW` rows at the end of every block.

    The first rows average over as many as there are. Blocks of more than `WINDOW` rows average
    over themselves.
    """
    width = max(1, WINDOW // blocks.size)
    return _trailing_sum(blocks.loss, width) / _trailing_sum(blocks.rows.astype(float), width)


def _trailing_sum(values: Floats, width: int) -> Floats:
    total = np.concatenate([[0.0], np.cumsum(values)])
    stop = np.arange(1, len(values) + 1)
    return cast(Floats, total[stop] - total[np.maximum(stop - width, 0)])


def _ordered_times(blocks: ModelBlocks) -> Ints | None:
    """Return the blocks' times if they can serve as an axis: in order, and not all the same."""
    time = blocks.time
    if time is None or time[-1, 1] <= time[0, 0] or np.any(time[1:, 0] < time[:-1, 1]):
        return None
    return time


def gaps_of(times: Ints | None) -> Ints:
    """Return the blocks before which nothing was recorded for long.

    Long is over ten times the usual step and wide enough to be seen, a 200th of the whole.
    """
    if times is None:
        return np.zeros(0, dtype=np.int64)
    step = np.diff(times[:, 0])
    usual = float(np.median(step[step > 0])) if np.any(step > 0) else 0.0
    long = max(_GAP_STEPS * usual, float(times[-1, 1] - times[0, 0]) * _GAP_SHARE)
    return np.flatnonzero(step > long) + 1


def _regimes(blocks: ModelBlocks, times: Ints | None, changes: Ints, gaps: Ints) -> list[Regime]:
    label = cast(Ints, blocks.label)
    edges = np.concatenate([[0], np.union1d(changes, gaps), [len(label)]]).astype(np.int64)
    breaks = set(gaps.tolist()) | {len(label)}
    regimes = []
    for first, stop in pairwise(edges.tolist()):
        if label[first] == NO_LABEL:
            continue
        start = end = 0.0
        if times is not None:
            last = times[stop - 1, 1] if stop in breaks else times[stop, 0]
            start = float(times[first, 0] - times[0, 0]) / 1e9
            end = float(last - times[0, 0]) / 1e9
        stop_row = int(blocks.index[stop - 1] + blocks.rows[stop - 1])
        regimes.append(Regime(int(label[first]), int(blocks.index[first]), stop_row, start, end))
    return regimes


def _loss_curve(
    blocks: ModelBlocks, times: Ints | None, starts: Ints, gaps: Ints
) -> dict[str, Floats]:
    rows = np.add.reduceat(blocks.rows, starts)
    sizes = np.diff(np.append(starts, len(blocks.rows)))
    curve = _axes(blocks, times, starts)
    curve["mean"] = np.add.reduceat(blocks.loss, starts) / rows
    curve["low"] = np.minimum.reduceat(blocks.low, starts)
    curve["high"] = np.maximum.reduceat(blocks.high, starts)
    curve["average"] = np.add.reduceat(moving_average(blocks), starts) / sizes
    if blocks.target is not None:
        known = np.isfinite(blocks.target)
        counts = np.add.reduceat(known.astype(float), starts)
        sums = np.add.reduceat(np.where(known, blocks.target, 0.0), starts)
        curve["target"] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return broken_at(curve, starts, gaps)


def _rate_curve(blocks: ModelBlocks, times: Ints | None, gaps: Ints) -> dict[str, Floats]:
    bins = min(RATE_BINS, max(1, int(blocks.rows.sum()) // _ROWS_OF_A_RATE))
    starts = bin_starts(gaps, len(blocks.rows), bins)
    rows = np.add.reduceat(blocks.rows, starts)
    censored, evicted, dropped = np.add.reduceat(blocks.fates, starts, axis=0).T
    curve = _axes(blocks, times, starts)
    curve["novelty"] = np.add.reduceat(blocks.novelty, starts) / rows
    curve["novel"] = np.add.reduceat(blocks.novel, starts) / rows
    curve["censored"] = censored / rows
    curve["replaced"] = (evicted - dropped) / rows
    curve["dropped"] = dropped / rows
    return broken_at(curve, starts, gaps)


def _axes(blocks: ModelBlocks, times: Ints | None, starts: Ints) -> dict[str, Floats]:
    """Return where bins stand: the middle between their first and last row or time."""
    last = np.append(starts[1:], len(blocks.rows)) - 1
    axes = {"row": (blocks.index[starts] + blocks.index[last] + blocks.rows[last] - 1) / 2}
    if times is not None:
        first = times[starts, 0] - times[0, 0]
        axes["time"] = (first + (times[last, 1] - times[starts, 0]) / 2) / 1e9
    return axes


def broken_at(curve: dict[str, Floats], starts: Ints, gaps: Ints) -> dict[str, Floats]:
    """Insert a place without values before each bin that follows a gap."""
    places = np.searchsorted(starts, gaps)
    broken: dict[str, Floats] = {}
    for name, values in curve.items():
        filler: npt.NDArray[Any] | float = np.nan
        if name in ("row", "time"):
            filler = (values[places - 1] + values[places]) / 2
        broken[name] = np.insert(values.astype(np.float64), places, filler)
    return broken
