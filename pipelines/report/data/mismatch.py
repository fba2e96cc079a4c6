"""The kernel mismatch of windows as the report shows it: totals of every model, and curves.

Two passes over `mismatch/*.parquet`: the first adds up, the second gathers what is drawn of the
chosen models. A model's windows are kept one by one up to 4,096 of a kind, else in as many blocks
of equally many rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.arrays import FloatArray, IntArray
from pipelines.report.data.choice import Choice, codes_of
from pipelines.report.data.columns import array_of, mean_of, model_numbers, numbered, times_of
from pipelines.report.data.files import parquet_files, read_batches
from pipelines.report.data.groups import Arrays, Bins, Blocks, Groups, Part
from pipelines.report.text import counted, figure, span
from transforms.outputs import MISMATCH
from transforms.read.kinds import rank_of

KINDS = ("fixed", "sliding", "moving")
"""Windows of event time, and the moving window of the last N rows; other kinds are passed over."""

COLUMNS = (
    *("model_id", "kind", "start", "end", "index", "rows", "n"),
    *("mismatch", "trace_bound", "fitting_bound", "complete"),
)
"""The columns of `mismatch/*.parquet` that the report reads."""

MOST_BLOCKS = 4_096
_ALL_BINS = 12_000
_FEWEST_BINS = 240
_MOST_BINS = 600

_SUMS = {"mismatch": np.float64, "certificate": np.float64, "bound": np.float64}
_COUNTS = dict.fromkeys(["measured", "incomplete", "sampled"], np.int64)
_RANGES = {**dict.fromkeys(["index", "rows", "extent"], np.int64), "ratio": np.float64}


@dataclass(frozen=True)
class MismatchCurve:
    """What is drawn of a model's windows of one kind, NaN where a line must break.

    `values` maps names to arrays of one length: `row`, `time` (s since the start of the model's
    axis), `mismatch`, `certificate`, `bound` (28b); `low` and `high` where points stand for
    several windows; `incomplete`, the mismatch where a window was cut short, if any was.
    """

    values: dict[str, FloatArray]
    note: str


@dataclass
class MismatchWindows:
    """All that the report shows of windows.

    Attributes:
        models: Numbers of the models.
        totals: Windows of each model and kind, at `3 model + kind`. Sums of `mismatch`,
            `certificate` and `bound` are over the windows `measured`: a window without a row that
            was kept is not, and counts in no mean. `incomplete` are those cut short by the end of
            the input, `sampled` those measured on fewer rows than they held, but on some. Ranges
            of `index` (of rows), `rows`, `extent` (ns, -1 without times) and `ratio` (of mismatch
            to certificate, -inf without one).
        timed: Whether all windows have a start and an end.
        curves: Of each model drawn the curves by kind.
    """

    models: dict[str, int]
    totals: Groups
    timed: bool = True
    curves: list[dict[int, MismatchCurve]] = field(default_factory=list)

    def kinds(self) -> list[int]:
        """Return which kinds there are windows of."""
        return np.flatnonzero(self.totals.rows.reshape(-1, len(KINDS)).sum(axis=0)).tolist()

    def titles(self) -> list[tuple[str, str]]:
        """Return name and title of each kind of window."""
        return [(KINDS[kind], self.title(kind)) for kind in self.kinds()]

    def title(self, kind: int) -> str:
        """Return what windows these are."""
        rows, longest = (self.totals.high[name][kind :: len(KINDS)] for name in ("rows", "extent"))
        if KINDS[kind] == "moving":
            return f"The last {rows.max():,} rows"
        extent = f" of {span(int(longest.max()))}" if longest.max() > 0 else ""
        return f"{KINDS[kind].capitalize()} windows{extent}"

    def table(self, models: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the table of these models, a line for each kind of window."""
        places = codes_of(self.models, models)[:, None] * len(KINDS) + self.kinds()
        at = places[self.totals.rows[places] > 0]
        sums = {name: total[at] for name, total in self.totals.sums.items()}
        return {
            "id": np.array(list(self.models), dtype=object)[at // len(KINDS)],
            "kind": np.array(KINDS, dtype=object)[at % len(KINDS)],
            "windows": self.totals.rows[at],
            "mismatch": mean_of(sums["mismatch"], sums["measured"]),
            "certificate": mean_of(sums["certificate"], sums["measured"]),
            "ratio": self.totals.high["ratio"][at],
            "incomplete": sums["incomplete"],
            "sampled": sums["sampled"],
        }

    def lines(self) -> list[str]:
        """Return a line on all windows of each kind."""
        return [self._line(kind) for kind in self.kinds()]

    def _line(self, kind: int) -> str:
        at = slice(kind, None, len(KINDS))
        text = f"{self.title(kind)}: {counted(int(self.totals.rows[at].sum()), 'window')}"
        if self.totals.sums["measured"][at].any():
            text += f", {self._means(at)}"
        return f"{text}. {self._odd(at)}".strip()

    def note(self, place: int) -> str:
        """Return what the curve does not show of the windows of a model and kind."""
        at, ratio = slice(place, place + 1), self.totals.high["ratio"][place]
        text = self._means(at).capitalize()
        if np.isfinite(ratio):
            text += f"; at most {100 * ratio:.0f} % of the certificate"
        return f"{text}. {self._odd(at)}".strip()

    def _means(self, at: slice) -> str:
        mismatch, certificate, measured = (
            self.totals.sums[name][at].sum() for name in ("mismatch", "certificate", "measured")
        )
        mean, bound = figure(mismatch / measured), figure(certificate / measured)
        return f"mean mismatch {mean}, mean certificate {bound}"

    def _odd(self, at: slice) -> str:
        """Return how many windows are not what they should be; nothing if all are."""
        sums = {name: int(self.totals.sums[name][at].sum()) for name in _COUNTS}
        unmeasured = int(self.totals.rows[at].sum()) - sums["measured"]
        lines = []
        if sums["incomplete"]:
            short = _windows(sums["incomplete"])
            lines.append(f"{short} cut short by the end of the input (rings).")
        if sums["sampled"]:
            few, they = _windows(sums["sampled"]), "it" if sums["sampled"] == 1 else "they"
            lines.append(f"{few} measured on fewer rows than {they} held, equally spaced.")
        if unmeasured:
            lines.append(f"{_windows(unmeasured)} left out, for want of a row that was kept.")
        return " ".join(lines)


def _windows(count: int) -> str:
    return "1 window is" if count == 1 else f"{count:,} windows are"


def mismatch_of(output: str, choice: Choice) -> MismatchWindows | None:
    """Read the windows of a run; None if there are none.

    Cost: O(windows) time; memory O(models) and at most 4,096 blocks (about 100 bytes each) for
    each model drawn and each kind.
    """
    paths = parquet_files(output, MISMATCH)
    found = MismatchWindows(choice.numbers(), Groups({**_SUMS, **_COUNTS}, _RANGES))
    for group, values in _read(paths, found.models):
        found.totals.add(group, values)
        found.timed = found.timed and "time" in values
    found.totals.grow(len(found.models) * len(KINDS))
    if not found.totals.rows.sum():
        return None
    kinds = np.arange(len(KINDS))
    drawn = (codes_of(found.models, choice.drawn)[:, None] * len(KINDS) + kinds).ravel()
    blocks = _blocks(paths, found, drawn)
    most = min(_MOST_BINS, max(_FEWEST_BINS, _ALL_BINS // max(1, len(choice.drawn))))
    for model, start in enumerate(choice.starts):
        by_kind = {}
        for kind in found.kinds():
            slot = model * len(KINDS) + kind
            part = blocks.part(slot)
            if len(part.rows):
                curve = window_curve(part, most, start)
                by_kind[kind] = MismatchCurve(curve, found.note(int(drawn[slot])))
        found.curves.append(by_kind)
    return found


def _read(paths: Sequence[str], models: dict[str, int]) -> Iterator[tuple[IntArray, Arrays]]:
    """Yield the windows of known kinds: their places in the totals, and what is added up."""
    known = {name: number for number, name in enumerate(KINDS)}
    for read in read_batches(paths, COLUMNS):
        kind = numbered(read.column("kind"), lambda name: known.get(name, -1))
        batch, kind = read.filter(pa.array(kind >= 0)), kind[kind >= 0]
        rows, n = array_of(batch, "rows"), array_of(batch, "n")
        mismatch, certificate = array_of(batch, "mismatch"), array_of(batch, "trace_bound")
        measured = np.isfinite(mismatch)
        ratio = np.full(len(rows), -np.inf)
        np.divide(mismatch, certificate, out=ratio, where=measured & (certificate > 0))
        values = {
            "index": array_of(batch, "index"),
            "rows": rows,
            "extent": np.full(len(rows), -1),
            "ratio": ratio,
            "measured": measured,
            "incomplete": ~array_of(batch, "complete"),
            "sampled": (n > 0) & (n < rows),
            "mismatch": np.where(measured, mismatch, 0.0),
            "certificate": np.where(measured, certificate, 0.0),
            "bound": np.where(measured, array_of(batch, "fitting_bound"), 0.0),
        }
        start, end = batch.column("start"), batch.column("end")
        # Where one is missing the run has no time column.
        if pa.types.is_timestamp(end.type) and not start.null_count + end.null_count:
            values["time"] = times_of(end)
            values["extent"] = values["time"] - times_of(start)
        yield model_numbers(batch, models) * len(KINDS) + kind, values


def _blocks(paths: Sequence[str], found: MismatchWindows, drawn: IntArray) -> Blocks:
    """Gather the measured windows of the models and kinds whose places in the totals these are."""
    totals = found.totals
    counts = totals.rows[drawn]
    one_by_one = counts <= MOST_BLOCKS
    per_block = np.maximum(1, -(-(totals.high["index"][drawn] + 1) // MOST_BLOCKS))
    ranges: dict[str, type] = {"index": np.int64, "mismatch": np.float64}
    if found.timed:
        ranges["time"] = np.int64
    blocks = Blocks(np.minimum(counts, MOST_BLOCKS), {**_SUMS, "incomplete": np.int64}, ranges)
    slots = np.full(len(totals.rows), -1, dtype=np.int64)
    slots[drawn] = np.arange(len(drawn))
    filled = np.zeros(len(drawn), dtype=np.int64)
    for group, windows in _read(paths, found.models):
        kept = np.flatnonzero((slots[group] >= 0) & windows["measured"])
        slot, values = slots[group[kept]], {name: part[kept] for name, part in windows.items()}
        place = np.where(
            one_by_one[slot], filled[slot] + rank_of(slot), values["index"] // per_block[slot]
        )
        filled += np.bincount(slot, minlength=len(drawn))
        blocks.put(slot, place, values)
    return blocks


def window_curve(part: Part, most: int, start: int | None) -> dict[str, FloatArray]:
    """Put a model's windows into about `most` points; see `MismatchCurve`.

    Args:
        part: Blocks with the sums `mismatch`, `certificate`, `bound` and `incomplete`.
        most: About how many points.
        start: The time (ns) that the axis counts from, None for an axis of rows alone.
    """
    last = part.high.get("time", part.high["index"])
    part = part.take(np.lexsort((part.high["index"], last)))
    bins = Bins(part, most, start)
    windows = bins.total(part.rows)
    values = {name: bins.total(part.sums[name]) / windows for name in _SUMS}
    if np.any(windows > 1):
        values["low"] = np.minimum.reduceat(part.low["mismatch"], bins.starts)
        values["high"] = np.maximum.reduceat(part.high["mismatch"], bins.starts)
    short = bins.total(part.sums["incomplete"]) > 0
    if np.any(short):
        values["incomplete"] = np.where(short, values["mismatch"], np.nan)
    return bins.broken(values)
