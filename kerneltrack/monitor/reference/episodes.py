"""Episodes: stretches of rows that do not look like the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import FloatArray
from kerneltrack.monitor.reference.spec import ACCEPTED, RECOVERED, STEADY, ReferenceSpec
from kerneltrack.monitor.reference.state import OPENED, SIDES, ReferenceState
from kerneltrack.native.binding import call
from kerneltrack.native.layouts import BoolVector, FloatMatrix, FloatVector, IntMatrix, IntVector

SPIKE_ROWS = 5
"""An episode of so many odd rows is a spike; each row is seen for as long as its lags."""
EARLY_ROWS = 20
"""Rows of an episode that say how it began (native/reference.h)."""
_LEAST_PLAIN, _MOST_PLAIN = 1e-4, 1e15
"""Numbers that are shown without an exponent."""
RAMP = 1.5
"""A ramp's mean surprise is so many times that of its first rows."""

STUCK = "stuck"
"""Kind of an episode in which a channel repeats its value."""


def worst_first(kind: str | None, severity: float | None) -> tuple[bool, float]:
    """Return what a list of devices or episodes is sorted by: changed machines, then stuck sensors.

    Within each the most severe comes first. The severity of a stuck channel counts how often its
    value repeats, so it grows faster than that of other kinds.
    """
    return kind == STUCK, -(severity or 0.0)


class Episode(NamedTuple):
    """A stretch of rows that do not look like the reference.

    Attributes:
        number: Of the model's episodes, from 1: with the model's ID it is the episode's own.
        kind: "spike", "ramp", "stuck" or "shift"; "recovered" where most of its rows are usual for
            what was normal before the last change that lasted.
        start: Index of the row since when.
        opened: Index of the row at which it was noticed.
        row: Index of the row after which this holds.
        closed: Whether it is over.
        accepted: Whether that is because its rows are taken as the new normal.
        last: Index of the last row that was surprising by itself (p < .01), `start` if none was.
        severity: Sum of -log₁₀ p of its rows.
        peak: Smallest p.
        times: Event times, ns, of the rows `start`, `opened`, `row` and `last`; 0 without times.
        shares: (D,) what each channel contributes, adding up to 1.
        deviations: (D,) how far each is above what is usual, on average over the rows that it is
            blamed for, in its own unit; less than 0 where it is below, NaN where it is not known.
        steady: Whether it is over because the change has lasted (a reference that moves): its last
            rows were as odd as before, and are normal from now on.
        changed: Index of the row since when the device has changed to stay, after this line; None
            if it has not, or has recovered.
        changed_time: That row's time, ns.
        muted: The rule (`kerneltrack.monitor.rules`) by which it does not count as it is now, in
            words; None: it counts.
    """

    number: int
    kind: str
    start: int
    opened: int
    row: int
    closed: bool
    last: int
    severity: float
    peak: float
    times: tuple[int, int, int, int]
    shares: FloatArray
    deviations: FloatArray
    accepted: bool = False
    steady: bool = False
    changed: int | None = None
    changed_time: int = 0
    muted: str | None = None

    @property
    def state(self) -> str:
        """One of "open", "closed", "steady" and "accepted"."""
        if self.accepted:
            return ACCEPTED
        if self.steady:
            return STEADY
        return "closed" if self.closed else "open"

    def moved(self, rows: int) -> Episode:
        """Return the episode with so many rows added to every index."""
        return self.numbered(lambda row: row + rows)

    def numbered(self, number: Callable[[int], int]) -> Episode:
        """Return the episode with other indexes; `number` says which one a row has."""
        return self._replace(
            start=number(self.start),
            opened=number(self.opened),
            row=number(self.row),
            last=number(self.last),
            changed=None if self.changed is None else number(self.changed),
        )


class EpisodeRoom(NamedTuple):
    """Arrays that a call fills, one entry an episode that was opened, changed or closed.

    There is at most one a row.
    """

    number: IntVector
    start: IntVector
    opened: IntVector
    row: IntVector
    closed: BoolVector
    peak: FloatVector
    surprise: FloatVector
    early: FloatVector
    last: IntVector
    surprises: IntVector
    stuck_rows: IntVector
    times: IntMatrix
    blame: FloatMatrix
    sides: FloatMatrix
    stuck: FloatMatrix
    change: IntMatrix


def make_room(count: int, width: int) -> EpisodeRoom:
    """Make room for what a call says of so many episodes of rows with D channels."""
    wholes = [np.zeros(count, np.int64) for _ in range(7)]
    reals = [np.zeros(count) for _ in range(3)]
    number, start, opened, row, last, surprises, stuck_rows = wholes
    peak, surprise, early = reals
    closed, blame = np.zeros(count, np.bool_), np.zeros((count, width))
    sides = np.zeros((count, SIDES * width))
    times = np.zeros((count, 4), np.int64)
    stuck, change = np.zeros((count, width)), np.zeros((count, 4), np.int64)
    rest = (peak, surprise, early, last, surprises, stuck_rows, times, blame, sides, stuck, change)
    return EpisodeRoom(number, start, opened, row, closed, *rest)


def read_episode(room: EpisodeRoom, at: int, lags: int, scale: FloatArray) -> Episode:
    """Return the episode at a place of what a call filled; `scale`: (D,) as of `Tables`."""
    start, row = int(room.start[at]), int(room.row[at])
    last = int(room.last[at])
    rows = last - int(room.opened[at]) + 1
    kind = "shift"
    if room.surprises[at] < SPIKE_ROWS + lags:
        kind = "spike"
    elif rows > 2 * EARLY_ROWS:
        late = (room.surprise[at] - room.early[at]) / (rows - EARLY_ROWS)
        if late > RAMP * room.early[at] / EARLY_ROWS:
            kind = "ramp"
    blame = room.blame[at].copy()
    deviations = scale * _deviations(room.sides[at].reshape(SIDES, -1))
    if 2 * room.stuck_rows[at] > last - start + 1:
        kind, blame = STUCK, room.stuck[at].copy()
        deviations = np.full(len(scale), np.nan)
    recovered, steady, changed, changed_time = room.change[at].tolist()
    if recovered:
        kind = RECOVERED
    total = float(blame.sum())
    return Episode(
        number=int(room.number[at]),
        kind=kind,
        start=start,
        opened=int(room.opened[at]),
        row=row,
        closed=bool(room.closed[at]),
        last=last,
        severity=float(room.surprise[at]) / math.log(10.0),
        peak=math.exp(-float(room.peak[at])),
        times=tuple(room.times[at].tolist()),
        shares=blame / total if total > 0.0 else blame,
        deviations=deviations,
        steady=bool(steady),
        changed=changed - 1 if changed else None,
        changed_time=changed_time,
    )


def _deviations(sides: FloatArray) -> FloatArray:
    """Return each channel's mean distance on the side that it is on by most, (D,)."""
    above, far_above, below, far_below = sides
    is_above = far_above >= far_below
    weight, far = np.where(is_above, above, below), np.maximum(far_above, far_below)
    by = np.divide(far, weight, out=np.full(len(far), np.nan), where=far > 0.0)
    signed_by: FloatArray = np.where(is_above, by, -by)
    return signed_by


def signed(deviation: float) -> str:
    """Return a deviation with its sign, of two digits or all before the point.

    Example:
        >>> signed(6.08), signed(-1234.5), signed(0.00123)
        ('+6.1', '-1,234', '+0.0012')
    """
    if not _LEAST_PLAIN <= abs(deviation) < _MOST_PLAIN:
        return f"{deviation:+.2g}"
    return f"{deviation:+,.{max(1 - math.floor(math.log10(abs(deviation))), 0)}f}"


def open_episode(spec: ReferenceSpec, state: ReferenceState) -> Episode | None:
    """Return the episode of one reference that is open after the rows so far, None without one."""
    tables = state.tables
    if tables.counts[OPENED] < 0:
        return None
    room = make_room(1, len(tables.scale))
    call("reference_note", tables, room)
    return read_episode(room, 0, spec.lags_for(len(tables.scale)), tables.scale)
