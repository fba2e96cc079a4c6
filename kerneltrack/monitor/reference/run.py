"""Rows held against a reference, each before it is learned; what is learned of them."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.limits import check_finite
from kerneltrack.monitor.clocks import local_times
from kerneltrack.monitor.reference.episodes import (
    Episode,
    make_room,
    open_episode,
    read_episode,
)
from kerneltrack.monitor.reference.joining import join, takes_over
from kerneltrack.monitor.reference.left_out import Told, leave_out
from kerneltrack.monitor.reference.spec import GATED, NO_SEASON, ReferenceSpec
from kerneltrack.monitor.reference.state import (
    BEGAN,
    PASSED_BY,
    SEEN,
    ReferenceState,
    Tables,
    count_passed,
    made_anew,
    ready,
)
from kerneltrack.monitor.spans import parse_moment
from kerneltrack.native.binding import call
from kerneltrack.trackers.common.calls import copied
from kerneltrack.trackers.common.loop import matrix_of
from kerneltrack.trackers.covariance.tracker import settings_of as tracking_of

WRITTEN = {
    "ref_loss": "residual",
    "ref_distance": "distance",
    "ref_score": "score",
    "ref_settled": "settled",
    "p": "p",
}
"""Columns of outputs, and which of a row's `Scores` they have; null before there is one."""
MOVING_RIDGE = 0.1
"""Part of the ridge that a reference takes which moves: it has more rows to go by."""
NOTHING_SAID: IntArray = np.zeros((0, 5), np.int64)
"""What people said of episodes, where they said nothing; see `update`."""
OF_ALL = 4
"""Place in what was said of one: whether all between its times are meant."""
MOST_TOLD = 1024
"""Episodes that one call of the loop tells of; it is called again for more."""


class ReferenceSettings(NamedTuple):
    """A spec as numbers.

    Attributes:
        lags: Rows that are looked at together.
        ridge: Part of the spread that is added to it.
        drift: What the evidence falls by with each row.
        false_alarms: How many are accepted in `per_rows` rows, or in `per_time` ns where those
            are 0.
        per_rows: See there.
        per_time: See there.
        memory: Rows of a reference that moves; 0: `memory_time` says so.
        rows: Those of the stretch.
        fit_rows: How many of these are learned before any is scored.
        until: Whether an event time ends the first stretch instead.
        gated: Whether rows that are not odd are learned on.
        moves: Whether it moves.
        memory_time: Its memory in ns.
        season: Whether it knows the hours of the day.
        days_off: Weekdays whose hours are known by themselves, a bit each from Monday on.
        accept_after: Rows after which an episode becomes the new normal; 0: none does.
        gap: Time without rows after which lags, means and evidence begin anew, ns; 0: never.
        window: Rows of a window; 0: there is no view of windows, -1: their period is found.
        mode: The channel that says which mode a row is of; -1: none does.
        learn: Whether rows are learned at all.
    """

    lags: int
    ridge: float
    drift: float
    false_alarms: float
    per_rows: int
    per_time: int
    memory: int
    rows: int
    fit_rows: int
    until: bool
    gated: bool
    moves: bool
    memory_time: int
    season: bool
    days_off: int
    accept_after: int
    gap: int
    window: int
    mode: int
    learn: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Scores:
    """Scores of n rows under a reference, each before it is learned.

    Attributes:
        distance: (n,) d = ‖W(e - m)‖; NaN before the reference has learned half its stretch.
        residual: (n,) ℓ under the reference's kernel subspace; NaN likewise.
        score: (n,) d and half of α, each over its mean; about 1 while all is well; NaN before the
            calibration.
        p: (n,) share of normal rows that are at least as odd, small where a row is surprising; NaN
            before the calibration.
        evidence: (n,) S/h: an episode is open from where it is above 1 until it fell by enough;
            NaN likewise.
        settled: (n,) mean score of the row and the 40 before it: the score of the row 20
            rows ago, now that as many have come after it; NaN until all of them have a score.
    """

    distance: FloatArray
    residual: FloatArray
    score: FloatArray
    p: FloatArray
    evidence: FloatArray
    settled: FloatArray

    @classmethod
    def none(cls, rows: int) -> Scores:
        """Return room for what is said of so many rows: nothing yet."""
        return cls(*np.full((len(dataclasses.fields(cls)), rows), np.nan))

    def at(self, rows: IntArray) -> Scores:
        """Return those of some rows."""
        return Scores(*(column[rows] for column in self.columns))

    def after(self, row: int) -> Scores:
        """Return the part from a row on."""
        return Scores(*(column[row:] for column in self.columns))

    @property
    def written(self) -> dict[str, FloatArray]:
        """The scores that outputs have, by the name of the column."""
        return {name: getattr(self, field) for name, field in WRITTEN.items()}

    @property
    def columns(self) -> tuple[FloatArray, ...]:
        """The scores, one array after the other."""
        return (self.distance, self.residual, self.score, self.p, self.evidence, self.settled)


def update(
    spec: ReferenceSpec,
    state: ReferenceState,
    rows: npt.ArrayLike,
    times: IntArray | None = None,
    *,
    learn: bool = True,
    said: IntArray = NOTHING_SAID,
) -> tuple[ReferenceState, Scores, list[Episode]]:
    """Score rows, each before it is learned, and learn those that the spec lets in.

    Args:
        spec: The spec that the state was made with.
        state: Not written to.
        rows: Shape (n, D), finite, in the order of their times.
        times: (n,) event times, ns, none before the one before it, for the episodes to name; a
            spec with `needs_times` depends on them.
        learn: False keeps a reference that is `ready` as it is, whatever the spec says: evidence
            and episodes go on, nothing is learned.
        said: (k, 5) what people said of episodes, the last of two things counts: since and until
            when they were, and from when on it counts, ns; whether they were false; whether all
            that were between these times are meant, or the one that began then. A reference that
            moves learns rows of those that were false; others pass it over.

    Returns:
        The new state, the rows' scores, and the episodes that were opened or closed, in the order
        of the rows: the same, bit for bit, however rows are cut into calls.

    Raises:
        ConfigError: for rows of another width, or that are not finite, or without the times that
            the spec needs.

    Example:
        >>> from kerneltrack.monitor.reference import init
        >>> rows = np.random.default_rng(0).normal(size=(2000, 3))
        >>> rows[1500:1600, 1] += 6
        >>> spec = ReferenceSpec()
        >>> _, scores, told = update(spec, init(spec, rows[:512]), rows)
        >>> [(e.kind, abs(e.start - 1500) < 10, int(e.shares.argmax())) for e in told if e.closed]
        [('shift', True, 1)]
    """
    if spec.second is not None:
        return _update_both(spec, spec.second, state, rows, times, learn, said)
    tables = copied(state.tables)
    matrix = matrix_of(rows, len(tables.scale))
    check_finite("rows", matrix)
    stamps = np.zeros(len(matrix), np.int64) if times is None else np.ascontiguousarray(times)
    if stamps.shape != (len(matrix),) or stamps.dtype != np.int64:
        raise ConfigError("times", stamps.shape, f"whole numbers of shape ({len(matrix)},)")
    if times is None and spec.needs_times:
        raise ConfigError("times", None, "event times of the rows: the spec goes by them")
    before = _rows_before_end(spec, state, stamps)
    if before < len(matrix):
        return _through_end(spec, state, matrix, stamps, before, learn)
    told = np.ascontiguousarray(said)
    kernel, found = copied(state.kernel), Scores.none(len(matrix))
    settings, tracking = settings_of(spec, matrix.shape[1], learn), tracking_of(spec.kernel, True)
    room = make_room(min(len(matrix), MOST_TOLD), matrix.shape[1])
    clocks = local_times(stamps, spec.zone_of_hours)
    episodes: list[Episode] = []
    reached, start = np.zeros(3, np.int64), 0
    while start < len(matrix):
        given = matrix[start:], stamps[start:], clocks[start:]
        parts = *given, told, found.after(start).columns, room, reached
        call("reference_run", settings, tables, tracking, kernel, *parts)
        done, many, accepted = reached.tolist()
        scale = tables.scale
        episodes += [read_episode(room, at, settings.lags, scale) for at in range(many)]
        start += done
        if accepted:
            episodes.append(_accepted(spec, ReferenceState(tables, kernel)))
            tables, kernel = made_anew(spec, tables)
    return state._replace(tables=tables, kernel=kernel), found, episodes


def _update_both(
    spec: ReferenceSpec,
    of_second: ReferenceSpec,
    state: ReferenceState,
    rows: npt.ArrayLike,
    times: IntArray | None,
    learn: bool,
    said: IntArray,
) -> tuple[ReferenceState, Scores, list[Episode]]:
    """Run rows through a reference of all rows and a second one; see `update`."""
    if state.second is None or state.joint is None:
        raise AssertionError("a spec of two references, a state of one")
    if times is None:
        raise ConfigError("times", None, "event times of the rows: the spec goes by them")
    said = of_either(said)
    first, scores, episodes = update(spec.first, state, rows, times, learn=learn, said=said)
    matrix, stamps = matrix_of(rows, len(state.tables.scale)), np.ascontiguousarray(times)
    none, many = np.zeros(len(matrix), np.bool_), np.array([len(matrix)])
    before = Told.of_one(state.second)
    kept, left = leave_out(before, of_second.every_time, stamps, many, none)
    given = matrix[kept], stamps[kept]
    second, more, own = update(of_second, state.second, *given, learn=learn, said=said)
    second.tables.left_out[...] = left.kept(Told.of_one(second))[0]
    joint = copied(state.joint)
    number = left.numbering(0, int(state.tables.counts[SEEN]))
    told = join(spec, joint, episodes, own, takes_over(spec, more), number)
    return first._replace(second=second, joint=joint), scores, told


def of_either(said: IntArray) -> IntArray:
    """Return what people said of a device's episodes as what counts for two references.

    Each has episodes of its own, which began at other times: those within what was told are meant.
    """
    every = said.copy()
    every[:, OF_ALL] = 1
    return every


def pass_by(state: ReferenceState, rows: int) -> ReferenceState:
    """Return a reference that so many rows passed by; see `block.pass_by`."""
    tables = copied(state.tables)
    count_passed(tables.counts, rows)
    tables.previous[...] = PASSED_BY
    second = None if state.second is None else pass_by(state.second, rows)
    return state._replace(tables=tables, second=second)


def settings_of(spec: ReferenceSpec, width: int, learn: bool) -> ReferenceSettings:
    """Return the spec as the compiled loop takes it, for rows of D channels."""
    span, memory = spec.span, spec.memory_span
    return ReferenceSettings(
        lags=spec.lags_for(width),
        ridge=spec.ridge * (MOVING_RIDGE if spec.moves else 1.0),
        drift=spec.drift,
        false_alarms=spec.false_alarms,
        per_rows=span.rows or 0,
        per_time=span.time or 0,
        memory=memory.rows or 0,
        rows=spec.rows,
        fit_rows=spec.fit_rows,
        until=spec.until is not None,
        gated=spec.learning == GATED,
        moves=spec.moves,
        memory_time=memory.time or 0,
        season=spec.season != NO_SEASON,
        days_off=spec.off_bits,
        accept_after=spec.accept_after or 0,
        gap=spec.gap_time,
        window=spec.window_rows,
        mode=spec.mode if isinstance(spec.mode, int) else -1,
        learn=learn,
    )


def _rows_before_end(spec: ReferenceSpec, state: ReferenceState, times: IntArray) -> int:
    """Return how many rows come before the time that ends the stretch; all, if it has ended."""
    if spec.until is None or _goes_by_rows(spec, state.tables) or ready(state):
        return len(times)
    late = times >= parse_moment("until", spec.until)
    return int(late.argmax()) if late.any() else len(times)


def _through_end(
    spec: ReferenceSpec,
    state: ReferenceState,
    rows: FloatArray,
    times: IntArray,
    before: int,
    learn: bool,
) -> tuple[ReferenceState, Scores, list[Episode]]:
    """Run rows that the end of the stretch divides; see `update`."""
    state, scores, episodes = update(spec, state, rows[:before], times[:before], learn=learn)
    state = end_stretch(spec, state)
    rest, more = Scores.none(len(rows) - before), episodes[:0]
    if ready(state):
        state, rest, more = update(spec, state, rows[before:], times[before:], learn=learn)
    both = zip(scores.columns, rest.columns, strict=True)
    return state, Scores(*map(np.concatenate, both)), episodes + more


def end_stretch(spec: ReferenceSpec, state: ReferenceState) -> ReferenceState:
    """Return the reference made of the whole blocks so far; not `ready` if they are too few."""
    if state.tables.counts[SEEN] < spec.rows:
        return state
    tables = copied(state.tables)
    call("reference_calibrate", settings_of(spec, len(tables.scale), True), tables)
    return ReferenceState(tables, state.kernel)


def _goes_by_rows(spec: ReferenceSpec, tables: Tables) -> bool:
    """Check whether the stretch ends after a number of rows: a new normal's always does."""
    return spec.until is None or bool(tables.counts[BEGAN] > 0)


def _accepted(spec: ReferenceSpec, state: ReferenceState) -> Episode:
    """Return the open episode as one that is accepted."""
    episode = open_episode(spec, state)
    if episode is None:
        raise AssertionError("an episode is accepted that is not open")
    return episode._replace(closed=True, accepted=True)
