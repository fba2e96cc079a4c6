"""Second pass of the report, for the few models that are drawn: their curves of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from kerneltrack.arrays import FloatArray, IntArray
from pipelines.report.data.choice import codes_of, slots_of
from pipelines.report.data.columns import array_of, mean_of, surprise_of, times_of
from pipelines.report.data.groups import Bins, Blocks, Part
from pipelines.report.data.labels import NO_LABEL, label_values
from pipelines.report.data.time_axis import TimeAxis
from pipelines.report.data.totals import FATES, Totals, fates_of

WINDOW = 200
"""Rows of the moving average, as in the figures of the tracker's paper."""

HIGH_NOVELTY = 0.95
"""Novelty is a quantile, so one row in twenty is expected at or above this."""

RATE_BINS = 160
"""Rates need rows to be rates: at most this many bins, and about 20 rows or more in each."""

_ROWS_OF_A_RATE = 20
_SHORTEST_REGIME = 5
_ALL_BINS = 24_000
_FEWEST_BINS = 480
_MOST_BINS = 1_200
_MOST_BLOCKS = 20 * _ALL_BINS
_COARSE_BINS, _COARSE_BLOCKS = 120, 240_000
_BLOCK_SIZES = (1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100, WINDOW)


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
    `start`; absent where time does not order the rows), `mean`, `low`, `high`, `average`, for a
    numeric label `target`, and where rows were held against a reference `surprise` and `odd`, the
    mean and the most of -log₁₀ p over the rows that have one. `rates` does so in coarser bins:
    `row`, `time`, `novelty`, `novel`, `censored`, `replaced`, `dropped` (shares of the bin's rows).
    `start` is in ns; `outside` says which times lie outside of the axis of time.
    """

    start: int | None
    outside: str
    gaps: int
    covered: float
    label_changes: int
    regimes: list[Regime] | None
    loss: dict[str, FloatArray]
    rates: dict[str, FloatArray]


def block_size(length: int, most_blocks: int) -> int:
    """Return how many rows go into a block, so that `length` rows fit into `most_blocks`.

    Up to the window of the moving average it divides the window, which makes the average exact.
    """
    for size in _BLOCK_SIZES:
        if -(-length // size) <= most_blocks:
            return size
    size = WINDOW
    while -(-length // size) > most_blocks:
        size *= 2
    return size


class Curves:
    """The curves of some models, filled batch by batch.

    Args:
        totals: What the first pass found.
        names: The models.
        columns: The columns of the features; `time` and `label` may be absent.
        most_blocks: Bound on the blocks of all models together (about 100 bytes each).
        coarse: Whether curves have few points, as they do of many models.

    Attributes:
        size: Rows of each model's blocks.
        blocks: What was added.
    """

    def __init__(
        self,
        totals: Totals,
        names: Sequence[str],
        columns: Sequence[str],
        most_blocks: int = _MOST_BLOCKS,
        *,
        coarse: bool = False,
    ) -> None:
        self._names, self._coarse = names, coarse
        most_blocks = min(most_blocks, _COARSE_BLOCKS) if coarse else most_blocks
        self._slots = slots_of(totals.models, names)
        self._labels = totals.labels if "label" in columns else None
        self._timed = "time" in columns
        self._compared = "p" in columns
        lengths = totals.length[codes_of(totals.models, names)]
        share = max(1, most_blocks // max(1, len(names)))
        self.size = np.array([block_size(n, share) for n in lengths.tolist()], dtype=np.int64)
        sums: dict[str, type] = {"loss": np.float64, "novelty": np.float64}
        sums |= dict.fromkeys(["novel", *FATES], np.int32)
        ranges: dict[str, type] = {"index": np.int64, "loss": np.float64}
        if self._timed:
            ranges["time"] = np.int64
        if self._compared:
            sums |= {"surprise": np.float64, "held": np.int32}
            ranges["surprise"] = np.float64
        if self._labels is not None:
            if self._labels.is_target:
                sums |= {"target": np.float64, "targets": np.int32}
            else:
                ranges["label"] = np.int32
        self.blocks = Blocks(-(-lengths // self.size), sums, ranges)

    def add(self, batch: pa.RecordBatch, model: IntArray) -> None:
        """Add a batch of features; `model` has the number of each row's model."""
        slot = self._slots[model]
        keep = np.flatnonzero(slot >= 0)
        if len(keep) < len(slot):
            batch, slot = batch.take(pa.array(keep)), slot[keep]
        index, novelty = array_of(batch, "index"), array_of(batch, "novelty")
        values = {
            "index": index,
            "loss": array_of(batch, "loss"),
            "novelty": novelty,
            "novel": novelty >= HIGH_NOVELTY,
            **fates_of(batch),
        }
        if self._timed:
            values["time"] = times_of(batch.column("time"))
        if self._compared:
            values["held"], values["surprise"] = surprise_of(batch)
        if self._labels is not None and self._labels.is_target:
            target = label_values(batch.column("label"))
            values["targets"] = np.isfinite(target)
            values["target"] = np.where(values["targets"], target, 0.0)
        elif self._labels is not None:
            values["label"] = self._labels.encode(batch.column("label"))
        self.blocks.put(slot, index // self.size[slot], values)

    def curves(self) -> dict[str, Curve]:
        """Return the curves by model."""
        bins = min(_MOST_BINS, max(_FEWEST_BINS, _ALL_BINS // max(1, len(self._names))))
        bins = _COARSE_BINS if self._coarse else bins
        return {
            name: curve_of(self.blocks.part(slot), int(self.size[slot]), bins)
            for slot, name in enumerate(self._names)
        }


def curve_of(part: Part, size: int, most: int) -> Curve:
    """Bin a model's blocks.

    Bins hold equally many rows, never rows from both sides of a gap in time nor, where labels form
    runs, rows of two labels.

    Args:
        part: At least one block.
        size: Rows of a block.
        most: About how many bins; a run of labels or a gap can add one each.
    """
    axis, rows = _axis_of(part), int(part.rows.sum())
    start = None if axis is None else axis.first
    rates = Bins(part, min(RATE_BINS, max(1, rows // _ROWS_OF_A_RATE)), start)
    label = part.high.get("label", np.full(len(part.rows), NO_LABEL))
    changes = np.flatnonzero(label[1:] != label[:-1]) + 1
    has_runs = len(changes) <= min(most // 2, rows // _SHORTEST_REGIME)
    has_runs = has_runs and bool(np.any(label != NO_LABEL))
    loss = Bins(part, most, start, changes.tolist() if has_runs else ())
    return Curve(
        start=start,
        outside="" if axis is None else axis.words(),
        gaps=len(loss.gaps),
        covered=loss.covered,
        label_changes=len(changes),
        regimes=_regimes(part, label, start, changes, loss.gaps) if has_runs else None,
        loss=_loss_curve(part, size, loss),
        rates=_rate_curve(part, rates),
    )


def _axis_of(part: Part) -> TimeAxis | None:
    """Return the axis if times can serve as one: in order, and not all the same."""
    if "time" not in part.low:
        return None
    first, last = part.low["time"], part.high["time"]
    if last[-1] <= first[0] or np.any(first[1:] < last[:-1]):
        return None
    return part.axis


def moving_average(part: Part, size: int) -> FloatArray:
    """Return the mean loss of the last `WINDOW` rows at the end of every block.

    The first rows average over as many as there are. Blocks of more than `WINDOW` rows average
    over themselves.
    """
    stop = np.arange(1, len(part.rows) + 1)
    begin = np.maximum(stop - max(1, WINDOW // size), 0)
    loss, rows = (np.append(0.0, np.cumsum(values)) for values in (part.sums["loss"], part.rows))
    average: FloatArray = (loss[stop] - loss[begin]) / (rows[stop] - rows[begin])
    return average


def _regimes(
    part: Part, label: IntArray, start: int | None, changes: IntArray, gaps: IntArray
) -> list[Regime]:
    edges = [0, *np.union1d(changes, gaps).tolist(), len(label)]
    breaks = {*gaps.tolist(), len(label)}
    regimes = []
    for first, stop in pairwise(edges):
        if label[first] == NO_LABEL:
            continue
        begin = end = 0.0
        if start is not None:
            last = part.high["time"][stop - 1] if stop in breaks else part.low["time"][stop]
            begin = float(part.low["time"][first] - start) / 1e9
            end = float(last - start) / 1e9
        rows = int(part.low["index"][first]), int(part.high["index"][stop - 1]) + 1
        regimes.append(Regime(int(label[first]), *rows, begin, end))
    return regimes


def _loss_curve(part: Part, size: int, bins: Bins) -> dict[str, FloatArray]:
    curve = {
        "mean": bins.total(part.sums["loss"]) / bins.total(part.rows),
        "low": np.minimum.reduceat(part.low["loss"], bins.starts),
        "high": np.maximum.reduceat(part.high["loss"], bins.starts),
        "average": bins.total(moving_average(part, size)) / bins.total(np.ones(len(part.rows))),
    }
    if "held" in part.sums:
        compared = bins.total(part.sums["held"])
        curve["surprise"] = mean_of(bins.total(part.sums["surprise"]), compared)
        most = np.maximum.reduceat(part.high["surprise"], bins.starts)
        curve["odd"] = np.where(compared > 0, most, np.nan)
    if "target" in part.sums:
        curve["target"] = mean_of(bins.total(part.sums["target"]), bins.total(part.sums["targets"]))
    return bins.broken(curve)


def _rate_curve(part: Part, bins: Bins) -> dict[str, FloatArray]:
    rows = bins.total(part.rows)
    counts = {**part.sums, "replaced": part.sums["evicted"] - part.sums["dropped"]}
    names = ("novelty", "novel", "censored", "replaced", "dropped")
    return bins.broken({name: bins.total(counts[name]) / rows for name in names})
