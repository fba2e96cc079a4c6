"""What happens between two rows of a model: a window of event time ends, a snapshot is due."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.fleet.model import NEVER, Model, Work
from kerneltrack.fleet.windows import MeasuredWindows

IntArray = npt.NDArray[np.int64]


class Event(NamedTuple):
    """Something that happens between two rows.

    Attributes:
        place: Before the row at this place.
        at: Event time, ns.
        start: Start of the window that ends here; None: a snapshot is due.
    """

    place: int
    at: int
    start: int | None


class Passed(NamedTuple):
    """What a model's rows say of the time that has passed.

    Attributes:
        told: Clock at the rows that have all values.
        places: Their places among the model's rows.
        shown: (n,) greatest time up to each row, whether it has all values or not: a row that no
            model can take says, as any other, that all rows before it have come.
        until: All rows before this time have come, that of the newest row at the least; infinity
            at the end of the input.
    """

    told: IntArray
    places: IntArray
    shown: IntArray
    until: float


def opened_by(measure: MeasuredWindows, known: IntArray, passed: Passed) -> IntArray:
    """Return start and first row's place, (w, 2), of the windows that begin to hold rows.

    Args:
        measure: What is asked for.
        known: Starts of the windows that are open before the rows.
        passed: What the rows say.
    """
    if not len(passed.told):
        return np.zeros((0, 2), np.int64)
    starts = measure.starts(passed.told)
    if len(known):
        starts = starts[~np.isin(starts, known)]
    return np.column_stack([starts, passed.places[np.searchsorted(passed.told, starts)]])


def window_ends(measure: MeasuredWindows, starts: IntArray, passed: Passed) -> list[Event]:
    """Return the ends of windows up to `until`, in order; `starts`: theirs, sorted."""
    ends = starts + measure.length
    places = np.searchsorted(passed.shown, ends)
    lines = zip(places.tolist(), ends.tolist(), starts.tolist(), strict=True)
    return [Event(*line) for line in lines if line[1] <= passed.until]


def boundaries(every: int, time: int | None, learned: int | None, passed: Passed) -> list[Event]:
    """Return the boundaries that are passed: after each row that tells the time the first, if any.

    A row that waits passes one too, if all rows before it have come: a window that ends between
    the two must not close first. So does a row that no model can take.

    Args:
        every: Their distance, ns.
        time: That of the model's newest row before these, None without.
        learned: All rows before this time, ns, have been learned from (`Model.until`).
        passed: What the rows say.
    """
    told, shown, until = passed.told, passed.shown, passed.until
    known = told if time is None else np.concatenate([[time], told])
    if not len(known):
        return []
    if until == math.inf:
        until = int(shown[-1]) if len(shown) else -math.inf
    spans = known // every
    # The one after the last row may still be to come.
    after = np.append(np.diff(spans) > 0, (int(spans[-1]) + 1) * every <= until)
    ends = (spans[after] + 1) * every
    if learned is not None:
        ends = ends[ends > learned]
    places = np.searchsorted(shown, ends)
    return [Event(p, end, None) for p, end in zip(places.tolist(), ends.tolist(), strict=True)]


def next_event(work: Work, model: Model) -> int:
    """Return the time, ns, at which a window ends or a snapshot is due, whether rows come or not.

    `NEVER` if there is none.
    """
    times = [NEVER]
    if model.open is not None and work.measure is not None and len(model.open.windows):
        times.append(model.open.next_end(work.measure))
    if work.every is not None and model.time is not None and model.until is not None:
        boundary = (model.time // work.every + 1) * work.every
        if boundary > model.until:
            times.append(boundary)
    return min(times)
