"""The windows of models that begin, measured as they end on the models' way (see `blocks`).

Rows run as far as the next end of a window of their model: in rounds, in each of which all models
that have rows left run theirs, and the windows that end there are measured together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.fleet.windows import Measured, MeasuredWindows, OpenWindows
from kerneltrack.monitor.mismatch import Mismatch, mismatch_of_each
from kerneltrack.trackers.common.scaling import Scaling, apply_scaling
from kerneltrack.trackers.okfeb.block import Begun
from kerneltrack.trackers.okfeb.spec import OKFEBSpec

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


MOST_ROWS = 65_536
"""Rows of windows that are measured together, beside those of one."""


class Windows(NamedTuple):
    """Windows of m models, in order of model and end.

    Attributes:
        model: (w,) place of each one's model.
        begin: (w,) its start, ns.
        first: (w,) place of its first row.
        stop: (w,) place after its last.
        complete: (w,) whether the model has a row at or after its end.
    """

    model: IntArray
    begin: IntArray
    first: IntArray
    stop: IntArray
    complete: npt.NDArray[np.bool_]

    def of(self, chosen: npt.NDArray[np.bool_]) -> Windows:
        """Return those of the models that are chosen, (m,), which are numbered anew."""
        kept = chosen[self.model]
        return Windows(
            (np.cumsum(chosen) - 1)[self.model[kept]],
            self.begin[kept],
            self.first[kept],
            self.stop[kept],
            self.complete[kept],
        )


class MeasuredBlock(NamedTuple):
    """What came of the windows of m models.

    Attributes:
        lines: Those of each model, in the order of their ends.
        open: What of them is open at the end.
    """

    lines: list[list[Measured]]
    open: list[OpenWindows]


def windows_of(
    measure: MeasuredWindows, times: IntArray, starts: IntArray, stops: IntArray
) -> Windows:
    """Return the windows of models, whose rows are in the order of their times.

    Args:
        measure: What is asked for.
        times: (n,) ns.
        starts: (m,) place of each model's first row.
        stops: (m,) place after its last.
    """
    parts = []
    for model, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        own = times[start:stop]
        begin = measure.starts(own)
        end = begin + measure.length
        first, last = start + np.searchsorted(own, begin), start + np.searchsorted(own, end)
        parts.append((np.full(len(begin), model), begin, first, last, end <= own[-1]))
    return Windows(*map(np.concatenate, zip(*parts, strict=True)))


def measure_block(
    measure: MeasuredWindows,
    spec: OKFEBSpec,
    models: Begun,
    rows: FloatArray,
    windows: Windows,
    starts: IntArray,
    stops: IntArray,
) -> MeasuredBlock:
    """Run all rows of models, and measure their windows.

    Args:
        measure: What is asked for.
        spec: The tracker's.
        models: The m models, none of whose rows has run.
        rows: (n, D), finite.
        windows: Their windows, each of `measure.most_rows` rows at most.
        starts: (m,) place of each model's first row.
        stops: (m,) place after its last.
    """
    found: list[Any] = [None] * len(windows.model)
    # A model's rows are cut where windows of it end; its n-th piece runs in round n.
    cuts = np.union1d(windows.stop, stops)
    owner = np.searchsorted(stops, cuts)
    begins = np.maximum(np.concatenate([[0], cuts[:-1]]), starts[owner])
    turn = np.arange(len(cuts)) - np.searchsorted(owner, owner)
    due = turn[np.searchsorted(cuts, windows.stop)]
    rounds = int(turn.max()) + 1
    for pieces, ending in zip(_by_round(turn, rounds), _by_round(due, rounds), strict=True):
        models.run(owner[pieces], begins[pieces], cuts[pieces])
        # Windows that slide hold each row many times: not all at once.
        parts = np.cumsum(windows.stop[ending] - windows.first[ending]) // MOST_ROWS
        for part in _by_round(parts, int(parts.max(initial=0)) + 1):
            for place, mismatch in _measured(spec, models, rows, windows, ending[part]):
                found[place] = mismatch
    return _told(measure, rows, windows, found, starts, stops)


def _by_round(rounds: IntArray, count: int) -> list[IntArray]:
    """Return the places of what is due in each of so many rounds, in order."""
    order = np.argsort(rounds, kind="stable")
    edges = np.searchsorted(rounds[order], np.arange(count + 1))
    return [order[start:stop] for start, stop in itertools.pairwise(edges.tolist())]


def _measured(
    spec: OKFEBSpec, models: Begun, rows: FloatArray, windows: Windows, places: IntArray
) -> Iterator[tuple[int, Mismatch]]:
    """Return the places of windows and what they say of their models as they are."""
    if not len(places):
        return
    of, first, last = windows.model[places], windows.first[places], windows.stop[places]
    ends = np.cumsum(last - first)
    begins = ends - (last - first)
    owner = np.repeat(of, last - first)
    own = rows[np.arange(len(owner)) + np.repeat(first - begins, last - first)]
    scaling = Scaling(models.columns["shift"][owner], models.columns["scale"][owner])
    scaled = apply_scaling(scaling, own, math.inf if spec.clip is None else spec.clip)
    z = models.project(of, first, last)
    told = mismatch_of_each(models.kernels[of], scaled, z, begins, ends)
    yield from zip(places.tolist(), told, strict=True)


def _told(
    measure: MeasuredWindows,
    rows: FloatArray,
    windows: Windows,
    found: list[Any],
    starts: IntArray,
    stops: IntArray,
) -> MeasuredBlock:
    """Return the windows' lines, and those that stay open with the rows that they need."""
    lines: list[list[Measured]] = [[] for _ in starts]
    open_ = [OpenWindows.none(rows.shape[1]) for _ in starts]
    parts = (part.tolist() for part in windows)
    for (model, begin, first, stop, complete), mismatch in zip(
        zip(*parts, strict=True), found, strict=True
    ):
        zero = int(starts[model])
        lines[model].append(
            Measured(
                measure.kind,
                begin,
                begin + measure.length,
                stop - 1 - zero,
                stop - first,
                mismatch,
                complete,
            )
        )
    edges = np.searchsorted(windows.model, np.arange(len(starts) + 1))
    for model, (start, stop) in enumerate(itertools.pairwise(edges.tolist())):
        still = np.flatnonzero(~windows.complete[start:stop]) + start
        if not len(still):
            continue
        zero, oldest = int(starts[model]), int(windows.first[still[0]])
        first = windows.first[still] - zero
        lines_of = np.column_stack([windows.begin[still], first, np.ones(len(still), np.int64)])
        open_[model] = OpenWindows(
            lines_of,
            rows[oldest : stops[model]].copy(),
            np.arange(oldest - zero, int(stops[model]) - zero),
            np.ones(1, np.int64),
        )
    return MeasuredBlock(lines, open_)
