"""The kernel mismatch of windows as the report shows it: totals of every model, and curves.

Two passes over `mismatch/*.parquet`: the first adds up, the second gathers what is drawn of the
chosen models. A model's windows are kept one by one up to 4,096 of a kind, else in as many blocks
of equally many rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.report.data.choice import Choice, codes_of, slots_of
from pipelines.report.data.files import parquet_files, read_batches
from pipelines.report.data.sums import BlockSums, Part, bins_of
from pipelines.report.data.totals import Floats, Ints, array_of, grown, model_codes
from pipelines.report.text import counted, figure, span

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


class WindowTotals:
    """What the first pass tells; arrays have a row for each model and a column for each kind.

    Attributes:
        models: Numbers of the models.
        timed: Whether all windows have a start and an end.
        windows: How many there are.
        unmeasured: Those without a row that was kept; they count in no mean.
        incomplete: Those cut short by the end of the input.
        sampled: Those measured on fewer rows than they held, but on some.
        mismatch, certificate: Sums over the measured windows.
        ratio: Largest ratio of mismatch to certificate, -inf without any.
        length: Greatest row index + 1.
        longest: Extent of the longest window of each kind, ns; -1 without times.
        most: Most rows of a window of each kind.
    """

    def __init__(self, models: dict[str, int]) -> None:
        """Start without windows."""
        counts = np.zeros((0, len(KINDS)), dtype=np.int64)
        self.models = models
        self.timed = True
        self.windows = self.unmeasured = self.incomplete = self.sampled = self.length = counts
        self.mismatch = self.certificate = self.ratio = np.zeros((0, len(KINDS)))
        self.longest = np.full(len(KINDS), -1, dtype=np.int64)
        self.most = np.zeros(len(KINDS), dtype=np.int64)

    def add(self, windows: _Windows) -> None:
        """Add a batch."""
        self._grow(len(self.models))
        at = windows.model, windows.kind
        measured = np.isfinite(windows.mismatch)
        np.add.at(self.windows, at, 1)
        np.add.at(self.unmeasured, at, ~measured)
        np.add.at(self.incomplete, at, ~windows.complete)
        np.add.at(self.sampled, at, (windows.n > 0) & (windows.n < windows.rows))
        np.maximum.at(self.length, at, windows.index + 1)
        np.add.at(self.mismatch, at, np.where(measured, windows.mismatch, 0.0))
        np.add.at(self.certificate, at, np.where(measured, windows.certificate, 0.0))
        held = measured & (windows.certificate > 0)
        ratio = windows.mismatch[held] / windows.certificate[held]
        np.maximum.at(self.ratio, (windows.model[held], windows.kind[held]), ratio)
        np.maximum.at(self.most, windows.kind, windows.rows)
        if windows.start is None or windows.end is None:
            self.timed = False
        else:
            np.maximum.at(self.longest, windows.kind, windows.end - windows.start)

    def _grow(self, size: int) -> None:
        for name in ("windows", "unmeasured", "incomplete", "sampled", "length"):
            setattr(self, name, grown(getattr(self, name), size))
        for name in ("mismatch", "certificate"):
            setattr(self, name, grown(getattr(self, name), size))
        unseen = np.full((size - len(self.ratio), len(KINDS)), -np.inf)
        self.ratio = np.concatenate([self.ratio, unseen])

    def kinds(self) -> list[int]:
        """Return which kinds there are windows of."""
        return np.flatnonzero(self.windows.sum(axis=0)).tolist()

    def title(self, kind: int) -> str:
        """Say what windows these are."""
        if KINDS[kind] == "moving":
            return f"The last {self.most[kind]:,} rows"
        extent = f" of {span(int(self.longest[kind]))}" if self.longest[kind] > 0 else ""
        return f"{KINDS[kind].capitalize()} windows{extent}"

    def mean(self, sums: Floats) -> Floats:
        """Return the means of a sum over the measured windows, NaN without any."""
        measured = self.windows - self.unmeasured
        return np.where(measured > 0, sums / np.maximum(measured, 1), np.nan)


@dataclass(frozen=True)
class _Windows:
    """A batch's windows of the known kinds, n of them; measures are NaN where there are none."""

    model: Ints
    kind: Ints
    index: Ints
    start: Ints | None
    end: Ints | None
    rows: Ints
    n: Ints
    mismatch: Floats
    certificate: Floats
    bound: Floats
    complete: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class MismatchCurve:
    """What is drawn of a model's windows of one kind, NaN where a line must break.

    `values` maps names to arrays of one length: `row`, `time` (s since the start of the model's
    axis), `mismatch`, `certificate`, `bound` (28b); `low` and `high` where points stand for
    several windows; `incomplete`, the mismatch where a window was cut short, if any was.
    """

    values: dict[str, Floats]
    note: str


@dataclass(frozen=True)
class Mismatch:
    """All that the report says of windows: totals, and by model drawn the curves by kind."""

    totals: WindowTotals
    curves: list[dict[int, MismatchCurve]]

    def titles(self) -> list[tuple[str, str]]:
        """Return name and title of each kind of window."""
        return [(KINDS[kind], self.totals.title(kind)) for kind in self.totals.kinds()]

    def lines(self) -> list[str]:
        """Return a line on all windows of each kind."""
        return [_line(self.totals, kind) for kind in self.totals.kinds()]


def mismatch_of(output: str, choice: Choice) -> Mismatch | None:
    """Read the windows of a run; None if there are none.

    Cost: O(windows) time; memory O(models) and at most 4,096 blocks (about 120 bytes each) for
    each model drawn and each kind.
    """
    paths = parquet_files(output, "mismatch")
    totals = WindowTotals(choice.numbers())
    for windows in _read(paths, totals.models):
        totals.add(windows)
    if not totals.windows.sum():
        return None
    drawn = codes_of(totals.models, choice.drawn)
    counts = totals.windows[drawn].ravel()
    one_by_one = counts <= MOST_BLOCKS
    blocks = BlockSums(
        np.minimum(counts, MOST_BLOCKS),
        ("mismatch", "certificate", "bound", "incomplete"),
        ("mismatch",),
        timed=totals.timed,
    )
    slots = slots_of(drawn, len(totals.models))
    filled = np.zeros(len(counts), dtype=np.int64)
    per_block = np.maximum(1, -(-totals.length[drawn].ravel() // MOST_BLOCKS))
    for windows in _read(paths, totals.models):
        kept = np.flatnonzero((slots[windows.model] >= 0) & np.isfinite(windows.mismatch))
        group = slots[windows.model[kept]] * len(KINDS) + windows.kind[kept]
        place = windows.index[kept] // per_block[group]
        place = np.where(one_by_one[group], filled[group] + _rank(group), place)
        filled += np.bincount(group, minlength=len(counts))
        blocks.add(
            group,
            place,
            windows.index[kept],
            None if windows.end is None else windows.end[kept],
            {
                "mismatch": windows.mismatch[kept],
                "certificate": windows.certificate[kept],
                "bound": windows.bound[kept],
                "incomplete": (~windows.complete[kept]).astype(float),
            },
        )
    return Mismatch(totals, _curves(totals, blocks, choice))


def _read(paths: Sequence[str], models: dict[str, int]) -> Iterator[_Windows]:
    for read in read_batches(paths, COLUMNS):
        kind = _kinds(read.column("kind"))
        batch = read.filter(pa.array(kind >= 0))
        if not batch.num_rows:
            continue
        codes, local = model_codes(batch, models)
        start, end = (_times(batch.column(name)) for name in ("start", "end"))
        yield _Windows(
            model=codes[local],
            kind=kind[kind >= 0],
            index=array_of(batch, "index"),
            start=start,
            end=end,
            rows=array_of(batch, "rows"),
            n=array_of(batch, "n"),
            mismatch=array_of(batch, "mismatch"),
            certificate=array_of(batch, "trace_bound"),
            bound=array_of(batch, "fitting_bound"),
            complete=array_of(batch, "complete"),
        )


def _kinds(column: pa.Array) -> Ints:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    known = {name: code for code, name in enumerate(KINDS)}
    codes = np.array([known.get(name, -1) for name in column.dictionary.to_pylist()] + [-1])
    indices = pc.fill_null(column.indices.cast(pa.int64()), len(codes) - 1)
    found: Ints = codes[indices.to_numpy(zero_copy_only=False)]
    return found


def _times(column: pa.Array) -> Ints | None:
    """Return times in ns, None where one is missing: then the run has no time column."""
    if column.null_count or not pa.types.is_timestamp(column.type):
        return None
    times: Ints = column.cast(pa.timestamp("ns", tz=column.type.tz)).cast(pa.int64()).to_numpy()
    return times


def _rank(group: Ints) -> Ints:
    """Return how many of the same group stand before each."""
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group)
    first = np.cumsum(counts) - counts
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - first[group[order]]
    return rank


def _curves(
    totals: WindowTotals, blocks: BlockSums, choice: Choice
) -> list[dict[int, MismatchCurve]]:
    bins = min(_MOST_BINS, max(_FEWEST_BINS, _ALL_BINS // max(1, len(choice.drawn))))
    curves = []
    for slot, name in enumerate(choice.drawn):
        by_kind = {}
        for kind in totals.kinds():
            part = blocks.part(slot * len(KINDS) + kind)
            if len(part.rows):
                values = window_curve(part, bins, choice.starts[slot])
                by_kind[kind] = MismatchCurve(values, _note(totals, totals.models[name], kind))
        curves.append(by_kind)
    return curves


def window_curve(part: Part, bins: int, start: int | None) -> dict[str, Floats]:
    """Put a model's windows into about `bins` points; see `MismatchCurve`.

    Args:
        part: Blocks with the sums `mismatch`, `certificate`, `bound` and `incomplete`.
        bins: About how many points.
        start: The time (ns) that the axis counts from, None for an axis of rows alone.
    """
    last = part.index[:, 1] if part.time is None else part.time[:, 1]
    part = part.take(np.lexsort((part.index[:, 1], last)))
    cut = bins_of(part, bins, start)
    windows = cut.total(part.rows)
    names = ("mismatch", "certificate", "bound")
    values = {name: cut.total(part.sums[name]) / windows for name in names}
    if np.any(windows > 1):
        values["low"] = np.minimum.reduceat(part.low["mismatch"], cut.starts)
        values["high"] = np.maximum.reduceat(part.high["mismatch"], cut.starts)
    short = cut.total(part.sums["incomplete"]) > 0
    if np.any(short):
        values["incomplete"] = np.where(short, values["mismatch"], np.nan)
    return cut.broken(values)


def _note(totals: WindowTotals, model: int, kind: int) -> str:
    """Say of a model's windows what the curve does not."""
    at = model, kind
    mean, certificate = (
        figure(float(totals.mean(sums)[at])) for sums in (totals.mismatch, totals.certificate)
    )
    text = f"Mean mismatch {mean}, mean certificate {certificate}"
    if np.isfinite(totals.ratio[at]):
        text += f"; at most {100 * totals.ratio[at]:.0f} % of the certificate"
    return f"{text}. {odd_windows(*(int(part[at]) for part in _odd(totals)))}".strip()


def _line(totals: WindowTotals, kind: int) -> str:
    windows, unmeasured = (int(a[:, kind].sum()) for a in (totals.windows, totals.unmeasured))
    text = f"{totals.title(kind)}: {counted(windows, 'window')}"
    if windows > unmeasured:
        mean, certificate = (
            figure(float(sums[:, kind].sum()) / (windows - unmeasured))
            for sums in (totals.mismatch, totals.certificate)
        )
        text += f", mean mismatch {mean}, mean certificate {certificate}"
    odd = odd_windows(*(int(part[:, kind].sum()) for part in _odd(totals)))
    return f"{text}. {odd}".strip()


def _odd(totals: WindowTotals) -> tuple[Ints, Ints, Ints]:
    return totals.incomplete, totals.sampled, totals.unmeasured


def odd_windows(incomplete: int, sampled: int, unmeasured: int) -> str:
    """Say how many windows are not what they should be; nothing if all are."""
    said = []
    if incomplete:
        said.append(f"{_windows(incomplete)} cut short by the end of the input (rings).")
    if sampled:
        they = "it" if sampled == 1 else "they"
        said.append(f"{_windows(sampled)} measured on fewer rows than {they} held, equally spaced.")
    if unmeasured:
        said.append(f"{_windows(unmeasured)} left out, for want of a row that was kept.")
    return " ".join(said)


def _windows(count: int) -> str:
    return "1 window is" if count == 1 else f"{count:,} windows are"
