"""Rows held against a reference, each before it is learned; what is learned of them."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.limits import check_finite
from kerneltrack.monitor.reference.episodes import (
    Episode,
    make_room,
    open_episode,
    read_episode,
)
from kerneltrack.monitor.reference.spec import BLOCK, GATED, MOST_RATE, ReferenceSpec
from kerneltrack.monitor.reference.state import (
    BEGAN,
    CALIBRATED,
    DUE,
    FIRST_TIME,
    KEPT,
    KERNEL,
    MOST_KEPT,
    NEWEST_TIME,
    SEEN,
    STRETCH_TIME,
    STRETCHED,
    ReferenceState,
    Tables,
    made_anew,
    next_place,
    ready,
)
from kerneltrack.monitor.spans import parse_moment
from kerneltrack.native.binding import call, packed
from kerneltrack.trackers.common.calls import copied, matrix_of
from kerneltrack.trackers.covariance.state import CovarianceState

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MOST_DEVIATION = 1e3
"""Largest |x| after scaling, in deviations (native/reference.c)."""


class Settings(NamedTuple):
    """A spec as numbers."""

    lags: int
    ridge: float
    drift: float
    rate: float
    memory: int


@dataclasses.dataclass(frozen=True, slots=True)
class Scores:
    """What a reference says of n rows, each before it is learned.

    Attributes:
        distance: (n,) d = ‖W(e - m)‖; NaN before the reference has learned half its stretch.
        residual: (n,) ℓ under the reference's kernel subspace; NaN likewise.
        score: (n,) d and half of α, each over its mean; about 1 while all is well; NaN before the
            calibration.
        p: (n,) share of normal rows that are at least as odd, small where a row is surprising; NaN
            before the calibration.
        evidence: (n,) S/h: an episode is open from where it is above 1 until it is 0; NaN likewise.
    """

    distance: FloatArray
    residual: FloatArray
    score: FloatArray
    p: FloatArray
    evidence: FloatArray


class Followed(NamedTuple):
    """What the loop over blocks fills: d, the rest, how many rows and episodes that was."""

    distance: FloatArray
    watched: Watched
    reached: IntArray


class Stored(NamedTuple):
    """The kernel subspace's stored rows, and its γ."""

    support: FloatArray
    bandwidth: float


class Watched(NamedTuple):
    """Rows of `Scores` that the row loop fills."""

    score: FloatArray
    p: FloatArray
    evidence: FloatArray


def update(
    spec: ReferenceSpec,
    state: ReferenceState,
    rows: npt.ArrayLike,
    times: IntArray | None = None,
    *,
    learn: bool = True,
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
    run, found = _Run(spec, tables, state.kernel, learn), np.full((5, len(matrix)), np.nan)
    told: list[Episode] = []
    _begin_lags(tables, matrix)
    start = 0
    while start < len(matrix):
        if run.only_watches:
            start = run.follow(matrix, stamps, start, found, told)
            continue
        stop = min(len(matrix), start + BLOCK - next_place(run.tables))
        found[:, start:stop] = run.watch(matrix, stamps, start, stop, told)
        if next_place(run.tables) == 0:
            run.end_block(told)
        start = stop
    return ReferenceState(run.tables, run.kernel), Scores(*found), told


def _settings(spec: ReferenceSpec, tables: Tables) -> Settings:
    """Return the spec as numbers, the rate by the model's own pace once that is known."""
    lags, rate = spec.lags_for(len(tables.scale)), spec.rate
    if rate is None:
        first, last = tables.times[[FIRST_TIME, STRETCH_TIME]].tolist()
        intervals = max(int(tables.counts[STRETCHED]) - 1, 1)
        # Rows of one time come as fast as can be: no rate is too low for them.
        pace = max(last - first, 1) / intervals
        rate = min(spec.false_alarms * pace / (spec.span.time or 1), MOST_RATE)
    return Settings(lags, spec.ridge, spec.drift, rate, spec.memory)


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
    state, scores, told = update(spec, state, rows[:before], times[:before], learn=learn)
    state = end_stretch(spec, state)
    nothing = np.full((5, len(rows) - before), np.nan)
    rest, more = Scores(*nothing), told[:0]
    if ready(state):
        state, rest, more = update(spec, state, rows[before:], times[before:], learn=learn)
    names = [field.name for field in dataclasses.fields(Scores)]
    joined = [np.concatenate([getattr(scores, name), getattr(rest, name)]) for name in names]
    return state, Scores(*joined), told + more


def end_stretch(spec: ReferenceSpec, state: ReferenceState) -> ReferenceState:
    """Return the reference made of the whole blocks so far; not `ready` if they are too few."""
    if state.tables.counts[SEEN] < spec.rows:
        return state
    tables = copied(state.tables)
    _calibrate(spec, tables)
    return ReferenceState(tables, state.kernel)


def _calibrate(spec: ReferenceSpec, tables: Tables) -> None:
    """Make the calibration, and say when the next one is due."""
    if tables.counts[CALIBRATED] == 0:
        tables.times[STRETCH_TIME] = tables.times[NEWEST_TIME]
    call("reference_calibrate", _settings(spec, tables), tables)
    tables.counts[DUE] = tables.counts[KEPT] + min(tables.counts[CALIBRATED], MOST_KEPT)


def _goes_by_rows(spec: ReferenceSpec, tables: Tables) -> bool:
    """Check whether the stretch ends after a number of rows: a new normal's always does."""
    return spec.until is None or bool(tables.counts[BEGAN] > 0)


def _begin_lags(tables: Tables, rows: FloatArray) -> None:
    """Let all before the first of rows be as it is in that, if they follow none (`restarted`)."""
    first = next_place(tables)
    before = tables.rows[first : first + len(tables.rows) - BLOCK]
    if len(rows) and np.isnan(before).any():
        scaled = rows[0] / tables.scale - tables.shift
        before[...] = np.clip(scaled, -MOST_DEVIATION, MOST_DEVIATION)


class _Run:
    """One call's way through the rows, block by block."""

    def __init__(
        self, spec: ReferenceSpec, tables: Tables, kernel: CovarianceState, learn: bool
    ) -> None:
        self.spec, self.learn = spec, learn
        self._take(tables, kernel)

    def _take(self, tables: Tables, kernel: CovarianceState) -> None:
        """Go on with these; what the loops are told in every call is laid out once."""
        self.tables, self.kernel = tables, kernel
        self.settings = _settings(self.spec, tables)
        self.room = make_room(2 * BLOCK, len(tables.scale))
        self._fixed = packed(self.settings), packed(tables)
        self._packed_room = packed(self.room)
        self._ahead: FloatArray | None = None

    def watch(
        self, rows: FloatArray, times: IntArray, start: int, stop: int, told: list[Episode]
    ) -> FloatArray:
        """Score rows of one block; distance, residual, score, p and evidence of each, (5, n)."""
        tables, there = self.tables, slice(start, stop)
        out, residual = np.full((5, stop - start), np.nan), np.zeros(stop - start)
        since, first = int(tables.counts[SEEN] - tables.counts[BEGAN]), next_place(tables)
        if since == 0:
            tables.times[FIRST_TIME] = times[start]
        call("reference_embed", *self._fixed, rows[there])
        if since >= self.spec.fit_rows:
            residual = self._residual(rows, start, stop)
            out[0], out[1] = np.sqrt(tables.measured[0, first:][: len(residual)]), residual
        watched = Watched(*out[2:])
        parts = self._stored, residual, times[there], watched, self._packed_room
        many = call("reference_watch", *self._fixed, *parts)
        told += [read_episode(self.room, at, self.settings.lags) for at in range(many)]
        tables.counts[SEEN] += stop - start
        return out

    @property
    def only_watches(self) -> bool:
        """Whether nothing changes the reference any more, nor makes it anew."""
        stays = self.tables.counts[CALIBRATED] > 0 and not self._learns
        return bool(stays and not (self.learn and self.spec.accept_after is not None))

    def follow(
        self, rows: FloatArray, times: IntArray, start: int, out: FloatArray, told: list[Episode]
    ) -> int:
        """Score rows from a place on, many blocks at once; the place of the first one left."""
        residual, reached = self._residual(rows, start, len(rows)), np.zeros(2, np.int64)
        out[1, start:] = residual
        distance, _, *watched = out[:, start:]
        told_of = Followed(distance, Watched(*watched), reached)
        parts = self._stored, rows[start:], residual, times[start:], told_of, self._packed_room
        call("reference_follow", *self._fixed, *parts)
        done, many = reached.tolist()
        told += [read_episode(self.room, at, self.settings.lags) for at in range(many)]
        return start + int(done)

    @property
    def _stored(self) -> Stored:
        kernel = self.kernel
        return Stored(kernel.support[: kernel.size], float(kernel.bandwidth[0]))

    @property
    def _learns(self) -> bool:
        """Whether further rows may change the reference."""
        made = self.tables.counts[CALIBRATED] > 0
        return self.learn and (not made or self.spec.learning == GATED)

    def _residual(self, rows: FloatArray, start: int, stop: int) -> FloatArray:
        """Return ℓ of rows; of all that are left, at once, if the kernel subspace stays."""
        if self._ahead is None or self._learns:
            tables, end = self.tables, stop if self._learns else len(rows)
            scaled = rows[start:end] / tables.scale - tables.shift
            scaled = np.clip(scaled, -MOST_DEVIATION, MOST_DEVIATION)
            self._ahead = KERNEL.project(self.spec.kernel, self.kernel, scaled).loss
            self._ahead_from = start
        return np.ascontiguousarray(self._ahead[start - self._ahead_from : stop - self._ahead_from])

    def end_block(self, told: list[Episode]) -> None:
        """Learn a whole block's good rows, and calibrate if that is due, or begin anew."""
        spec, tables = self.spec, self.tables
        counts, lags = tables.counts, self.settings.lags
        seen, made = int(counts[SEEN] - counts[BEGAN]), bool(counts[CALIBRATED] > 0)
        learning = self._learns
        if learning:
            if seen > spec.fit_rows:
                call("reference_keep", tables)
            call("reference_learn", *self._fixed)
            good = np.ascontiguousarray(tables.rows[lags - 1 :][tables.good])
            self.kernel, _ = KERNEL.update(spec.kernel, self.kernel, good)
        ends = _goes_by_rows(spec, tables) and seen == spec.rows
        if ends or (made and learning and counts[KEPT] >= counts[DUE]):
            _calibrate(spec, tables)
            self._take(tables, self.kernel)
        call("reference_roll", *self._fixed)
        if not self.learn:
            return
        if (accepted := _accepted(spec, ReferenceState(tables, self.kernel))) is not None:
            told.append(accepted)
            self._take(*made_anew(spec, tables))


def _accepted(spec: ReferenceSpec, state: ReferenceState) -> Episode | None:
    """Return the open episode as one that is accepted, if it is old enough for that."""
    after = spec.accept_after
    if after is None or (episode := open_episode(spec, state)) is None:
        return None
    if state.tables.counts[SEEN] - episode.opened < after:
        return None
    return episode._replace(closed=True, accepted=True)
