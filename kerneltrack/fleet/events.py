"""What happens between two rows of a model: a window of event time ends, a snapshot is due."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import IntArray
from kerneltrack.fleet.model import NEVER, Model, Work
from kerneltrack.fleet.windows import MeasuredWindows, OpenWindows


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
        clocks: Clock at the rows that have all values.
        shown: (n,) greatest time up to each row, whether it has all values or not: a row that no
            model can take says, as any other, that all rows before it have come.
        until: All rows before this time have come, that of the newest row at the least; infinity
            at the end of the input.
    """

    clocks: IntArray
    shown: IntArray
    until: float


def opened_by(
    measure: MeasuredWindows,
    clock: IntArray,
    whole: npt.NDArray[np.bool_],
    starts: IntArray,
    stops: IntArray,
) -> list[list[tuple[int, int]]]:
    """Return the windows that hold rows of m models: start and place of the first row, in order.

    Args:
        measure: What is asked for.
        clock: (n,) of each row, ns; a model's do not go back.
        whole: (n,) which rows have all values: others open no window.
        starts: (m,) place of each model's first row.
        stops: (m,) place after its last.

    Returns:
        Of each model its windows, places among the model's rows.
    """
    found: list[list[tuple[int, int]]] = [[] for _ in starts]
    owners = np.repeat(np.arange(len(starts)), stops - starts)
    places = np.arange(len(clock))
    if np.count_nonzero(whole) < len(whole):
        owners, places, clock = owners[whole], places[whole], clock[whole]
    newest = measure.newest(clock)
    # The first row of a window is the first after a start: a later window's, or the model's first.
    first = np.ones(len(places), np.bool_)
    first[1:] = (newest[1:] != newest[:-1]) | (owners[1:] != owners[:-1])
    owners, places, clock, newest = owners[first], places[first], clock[first], newest[first]
    begins = newest[:, np.newaxis] - np.arange(measure.overlapping) * measure.period
    at, back = np.nonzero(clock[:, np.newaxis] - begins < measure.length)
    parts = owners[at], begins[at, back], places[at]
    if measure.overlapping > 1:
        # Of several rows after a start the first one counts.
        order = np.lexsort((parts[2], parts[1], parts[0]))
        parts = parts[0][order], parts[1][order], parts[2][order]
    lines = zip(*(part.tolist() for part in parts), strict=True)
    firsts = starts.tolist()
    for owner, begin, place in lines:
        known = found[owner]
        if not known or known[-1][0] != begin:
            known.append((begin, place - firsts[owner]))
    return found


def window_ends(
    measure: MeasuredWindows, starts: list[int], passed: Passed
) -> tuple[list[Event], list[int]]:
    """Return the ends of windows up to `until`, in order, and the place before which each lies.

    Args:
        measure: What is asked for.
        starts: Those of windows, sorted.
        passed: What the rows say.
    """
    ends = np.array(starts, np.int64) + measure.length
    places = passed.shown.searchsorted(ends).tolist()
    lines = zip(places, ends.tolist(), starts, strict=True)
    return [Event(*line) for line in lines if line[1] <= passed.until], places


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
    clocks, shown, until = passed
    known = clocks if time is None else np.concatenate([[time], clocks])
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
    return next_of(work, model.open, model.time, model.until)


def next_of(work: Work, known: OpenWindows | None, time: int | None, until: int | None) -> int:
    """Do what `next_event` says, of a model's open windows and times."""
    if known is None and work.every is None:
        return NEVER
    times = [NEVER]
    if known is not None and work.measure is not None and len(known.windows):
        times.append(known.next_end(work.measure))
    if work.every is not None and time is not None and until is not None:
        boundary = (time // work.every + 1) * work.every
        if boundary > until:
            times.append(boundary)
    return min(times)
