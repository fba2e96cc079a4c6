"""State of a reference: what the row loops work on, and its kernel subspace."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.limits import (
    MOST,
    ArrayForm,
    Limit,
    check_counts,
    check_positive,
    check_whole,
    copies_like,
    real,
    whole,
)
from kerneltrack.monitor.reference.joint import (
    Joint,
    begun_again,
    check_joint,
    layout_of_joint,
    no_episode,
)
from kerneltrack.monitor.reference.spec import (
    BLOCK,
    LEAST_WINDOW,
    MOST_COLUMNS,
    MOST_MEMORY,
    ReferenceSpec,
)
from kerneltrack.native.layouts import BoolVector, FloatMatrix, FloatVector, IntMatrix, IntVector
from kerneltrack.trackers.common import scaling
from kerneltrack.trackers.common.calls import copied, first_matrix
from kerneltrack.trackers.covariance.state import CovarianceState
from kerneltrack.trackers.covariance.tracker import CovarianceTracker

_Array: TypeAlias = npt.NDArray[Any]

MOST_KEPT = 512
"""Scores that a calibration is made of, at most."""
MOST_SPARED = MOST_COLUMNS
"""Rows that are spared after a gap, at most: 150, or the lags (native/reference_evidence.c)."""
SIDES = 4
"""Rows of `sides` (native/reference.h)."""
SETTLED = 41
"""Rows whose scores one that is settled is the mean of: it is of the middle one of them."""
MOST_THINNED = 40
"""Powers of two of which one score is kept, at most."""
SCORE_BINS, HEIGHT_BINS, LASTING_BINS = 192, 112, 48
"""Bins of scores, and of heights of evidence (native/reference_tallies.c)."""
MOST_PEAKS = 64
"""Excursions that the threshold is made of."""
KERNEL = CovarianceTracker()

# Places in the state's `reals` and `counts`, as in native/reference.h.
THRESHOLD, EVIDENCE = 13, 14
EVIDENCES = slice(EVIDENCE, EVIDENCE + 7)
"""S and what goes along with it, none of it below 0."""
LEVEL = 20
REALS = 21
WINDOW_REALS = 4
"""More of them where windows are asked for."""
SEEN, LEARNED, KEPT, CALIBRATED, DUE, ZERO, OPENED, LAST_SURPRISE = range(8)
SURPRISES, EPISODES, EXCURSIONS, WATCHED = range(8, 12)
STRETCHED, STUCK_ROWS, RECENT_ROW, BEGAN, PAD = range(12, 17)
SORTED, OFFERED, THINNED = range(19, 22)
COUNTS = 22
WINDOW_LENGTH, FOLLOWED, SHAPE_ROWS, SHAPES_WAITING = range(COUNTS, COUNTS + 4)
WINDOW_COUNTS = 3
"""More of them where windows are asked for, and one more of a reference that moves."""
NEWEST_TIME, FIRST_TIME, STRETCH_TIME = range(3, 6)
MOVING_SUM, MOVING_TOP, MOVING_LEVEL, MOVING_LIMIT, MOVING_PEAK, MOVING_TOTAL, MOVING_BEST = range(
    7
)
MUTED, WHICH, ARMED, REMEMBERED, WAITING, AFTER_GAP = range(6)
"""Places in the last row of `lows`."""
LOW_ROW, LOW_ROW_OF_LASTING = 0, 3
"""Places in a stream's row of `lows`: of its evidence, and of what lasts in it."""
MOST_THRESHOLD = 1e9
"""A threshold that is not known yet (native/reference_streams.h)."""
NOT_YET = -1
"""At that place of the first stream: the next row begins with others; see `restarted`."""
MODE_ROWS, MODE_FIRST, MODE_LEARNED, MODE_WAITING, MODE_SORTED, MODE_MADE, MODE_RUNS = range(7)
"""Places in a mode's row of `modes`."""
MODE_NOW, MODE_UNPLACED = range(2)
"""Places in the last row of `modes`."""
NO_MODE_YET = -2
PASSED_BY = math.inf
"""What `previous` is after rows that were not compared, such as those of a quiet time."""
CHANGED = 4
"""Place in `compared`; the time is behind it."""
KEPT_NUMBER, KEPT_SINCE, KEPT_UNTIL, KEPT_FALSE, KEPT_ROWS, KEPT_MODE = range(6)
"""Places in an episode's row of `episodes`."""
EPISODES_LEARNED = 0
"""Place in the last row of `episodes`."""
KEPT_EPISODES = 4
"""Episodes whose rows' sums are kept, the open one among them."""
MEASURES = ("d²", "d² without means over time", "d² of the newest row alone", "α")
"""What is measured of a row."""


RANGE_DAYS = 16
"""Days of which a cause's lowest and highest value are kept (native/reference_ranges.c)."""
OPTIONAL = (
    *("shapes", "before", "left_out", "ranges", "rest", "unseen", "scores", "calibration"),
    "lasting",
)
"""Tables that states have only with windows, one row of a span, or causes; or not if they move, or
only then."""
SPELL_LENGTH, ROWS_HELD, RESTED = 5, 0, 2
"""Places in a bound's row of `rest`, and in the last one."""
OF_KERNEL = "kernel."
"""What the names of the kernel subspace's arrays begin with."""
LEFT_OUT = 7
"""More numbers than twice the streams in `left_out`."""
ALL_LEFT_OUT, LAST_SPAN = -2, -1
"""Places in `left_out`, from its end."""
NO_SPAN = -(2**62)
"""Span of the row that was judged last, where none was."""
MOST_LEFT_OUT = 2**53
"""Rows that are left out, at most."""
FLAGS = ("good", "fresh", "turned")
"""Tables that say yes or no of each of the open block's rows."""
_RUNS = ("runs", "longest", "repeated")
"""Counts of each channel: none is larger than that of the rows."""
_FIXED = (
    Limit("rows of the calibration", CALIBRATED, MOST_KEPT),
    Limit("scores of the calibration", SORTED, MOST_KEPT),
    Limit("thinning of the scores", THINNED, MOST_THINNED),
    Limit("excursions", EXCURSIONS, MOST_PEAKS),
    Limit("place of row 0", PAD, BLOCK - 1),
)
_UP_TO_SEEN = {
    "row that opened an episode": OPENED,
    "row at which the evidence was low": ZERO,
    "last surprising row": LAST_SURPRISE,
    "surprising rows": SURPRISES,
    "rows of stuck channels": STUCK_ROWS,
    "row of the largest surprise of late": RECENT_ROW,
    "episodes": EPISODES,
    "rows before the calibration": STRETCHED,
    "row that the reference began with": BEGAN,
}
_UP_TO_BLOCK = {"rows learned": LEARNED, "scores kept": KEPT, "scores offered": OFFERED}


class Tables(NamedTuple):
    """The part of a reference's state that its own row loops work on (native/reference.c).

    Attributes:
        shift: (D,) centre over scale.
        scale: (D,) standard deviation.
        rows: (BLOCK + L - 1, D) the open block's rows, scaled, behind the L - 1 before it.
        memory: (1, DM) means over time of the scaled rows before the open block, the faster one
            first; the loops find those within it by its rows.
        good: (BLOCK,) which of them may be learned.
        fresh: (BLOCK,) which of them come after a gap.
        mean: (E,) m.
        scatter: (1, T) lower triangle of Σ(e - m)(e - m)ᵀ, its rows one after the other (`square`);
            T is E(E + 1)/2.
        whitener: (1, T) W, likewise.
        unseen: (E,) variance of each entry of y over rows that were not learned yet. (0,), as the
            rows of the next two, in a reference that moves, which has counts in their place.
        scores: (4, 512) the `MEASURES` that the next calibration is made of: those of the second
            half so far, evenly, then a ring.
        calibration: (3, 512) the scores of the last one, sorted: one of each measure but α.
        measured: (4, BLOCK) the `MEASURES` of the open block's rows.
        peaks: (64,) heights of the highest excursions of S that were no episodes, falling.
        blame: (D,) the channels' shares in the excursion of S, summed up.
        sides: (4, D) of the rows that each channel was blamed for in which it was above what the
            others make of it, by x deviations: the sums of (x/u)² and of x((x/u)² - 2), u being how
            far it usually is; the same of the rows in which it was below.
        stuck: (D,) the surprises that they were stuck, summed up likewise.
        previous: (D,) the newest row, scaled; NaN if the next one follows none, `PASSED_BY` if it
            follows rows that passed the reference by.
        recent: (41,) scores of the last rows, each at its index modulo 41; NaN where there is none.
        runs: (D,) rows that repeat the one before, up to the newest.
        longest: (D,) the longest of these runs before the first calibration.
        repeated: (D,) rows that repeated the one before, until then.
        reals: (21,) means of the `MEASURES`, d in place of d²; begin, shape and width of the three
            scores' tails; h; S, and its largest value since it was 0; since it was low the largest
            surprise and their sum; their sum over an episode's first rows; the largest surprise of
            a newest row alone of late; the level of surprise.
        counts: (22,) rows seen, learned, kept for calibrations; rows of the last calibration, rows
            kept when the next is due; the row at which S left h/50, the one that opened an episode
            (-1: none), the last one of p < .01 and how many; episodes; excursions kept, and the
            rows that they came in; rows before the first calibration; rows since S was low whose
            surprise was that of a channel that is stuck; the row of the largest surprise of late;
            the row that the reference began with; the place of row 0 in its block; rows of the
            unseen variances; excursions so far; scores that p goes by, also before the reference is
            made; rows offered to calibrations; n, where one of 2ⁿ of these is kept.
        times: (6,) event times, ns, of the row at which S left h/50, that opened an episode, that
            was the last one of p < .01, and of the newest; of the first row, and of the last one
            that the reference was made from; 0 without times.
        tally: (Q, 192) of a reference that moves, of Q streams: scores by size, eight bins to a
            power of two; Q is 0, as in the next ones, where it does not move.
        heights: (Q, 112) the highest excursion of each stream's evidence in a block likewise; of
            the first one, which has none, of the largest S/h of the others, in 64ths.
        lasting: (D + 1, 48) likewise of what lasts in each slow mean, four bins to a power of two.
        evidences: (Q + D + 1, 7) of each stream, and of what lasts in each slow mean, S, its
            highest since it was 0, the level that surprise has come to, h, since S was low the
            largest surprise and their sum, and the highest excursion in the open block; the h of
            the first one is the part of their own h that the others' are.
        hours: (H, 3D) of each of the 24 hours of the day, then of those of days off if these are
            known by themselves, by channel: rows, their sum and sum of squares.
        watched: (1,) rows that the excursions came in.
        waiting: (1, E + T) Σ(e - m) of the rows that wait to be learned, and behind it the lower
            triangle of Σ(e - m)(e - m)ᵀ.
        lows: (Q + 1, 6) row and time at which each S was low (row -1 of the first: none was held
            against the reference since `restarted`), and rows that were odd since; the same of what
            lasts in a slow mean; in the last one
            rows yet to be spared after a gap, the stream that the episode was opened by, after
            how many rows episodes may open (0: not yet), how many rows the memory has, how many
            wait (-1: an episode began among them), and which row the last gap was before.
        causes: (D,) 1 where a channel is conditioned on and never blamed, or says the mode.
        codes: (M + 1,) values of the mode's channel that have a place, in the order in which they
            came; then the last one that has none. M is 0, as in the next ones, without modes; with
            them mean, scatter, whitener, tally, waiting, runs, longest and repeated hold those of
            one mode after the other, M times as many rows, and `measured` has the mode of each row,
            too.
        modes: (M + 1, 7) of each mode: its rows, which one was the first, rows learned, rows that
            wait, scores that p goes by, whether rows have a p, rows that `longest` is of; in the
            last one the mode of the newest row (-1: without a place, -2: there was none), and rows
            without a place.
        units: (M,) of each mode the mean of d.
        turned: (BLOCK,) which of the open block's rows begin another mode; (0,) without modes.
        former: (E + T + 1,) of a reference that moves: mean and whitener of before the last change
            that lasted; the distance that one row in ten was beyond. (0,) where it does not move.
        compared: (6,) of which mode, from 1, `former` is (0: there is none); of which mode it is to
            be kept; rows of the last episode that were held against it, and how many of them were
            usual; the row since when the device has changed to stay, from 1 (0: it has not), and
            its time. (0,) where it does not move.
        episodes: (5, 6) of a reference that moves, of the last four episodes: its number (0: there
            is none, or its rows were learned), since and until when it was, ns (0: it is open),
            whether people said that it was false, its rows in `episode_sums`, and their mode. In
            the last one how many episodes' rows were learned. (0, 6) where it does not move.
        episode_sums: (4, H + 3D + E(E/D + 1)/2) of each of these: its rows by hour; of each
            channel the rows that it was blamed for, its values in all of them and their squares;
            then of each the lower triangle of Σδδᵀ, row by row, δ being how far its entries were
            above what the others make of them.
        left_out: (2Q + 7,) of a reference that judges one row of each span: how many rows were left
            out before the one at which each S was low, the one at which what lasts in each was,
            that at which it was as the episode opened, the last one of p < .01, that which opened
            the episode, the one since when the device has changed, and the newest; all that were;
            the span, from 1970 on, of the row that was judged last. (0,) where all rows are judged.
        ranges: (C, 38) of each of C causes its channel; how many rows wait to be learned, and its
            lowest and highest value in them; the lowest and the highest that is known; its lowest
            of each of the last 16 days that were learned, and its highest.
        rest: (2D + 1, 6) of each channel its lowest value that was repeated, downwards, and its
            highest: that value, rows that had it, and that came near it, spells of them, the row
            that the last one began with, and rows of the one that goes on; in the last row how many
            rows are yet to be held, which row another mode began with, and how many rows the device
            has been at rest. Rows are counted since the reference began.
    """

    shift: FloatVector
    scale: FloatVector
    rows: FloatMatrix
    memory: FloatMatrix
    good: BoolVector
    fresh: BoolVector
    mean: FloatVector
    scatter: FloatMatrix
    whitener: FloatMatrix
    unseen: FloatVector
    scores: FloatMatrix
    calibration: FloatMatrix
    measured: FloatMatrix
    peaks: FloatVector
    blame: FloatVector
    sides: FloatMatrix
    stuck: FloatVector
    previous: FloatVector
    recent: FloatVector
    runs: IntVector
    longest: IntVector
    repeated: IntVector
    reals: FloatVector
    counts: IntVector
    times: IntVector
    tally: FloatMatrix
    heights: FloatMatrix
    lasting: FloatMatrix
    evidences: FloatMatrix
    hours: FloatMatrix
    watched: FloatVector
    waiting: FloatMatrix
    lows: IntMatrix
    causes: IntVector
    codes: FloatVector
    modes: IntMatrix
    units: FloatVector
    turned: BoolVector
    former: FloatVector
    compared: IntVector
    episodes: IntMatrix
    episode_sums: FloatMatrix
    shapes: FloatMatrix
    before: FloatMatrix
    left_out: IntVector
    ranges: FloatMatrix
    rest: FloatMatrix


class ReferenceState(NamedTuple):
    """A model's reference; every array keeps its shape for the model's whole life.

    The bytes of its arrays are 8(E(E + 3) + D(L + M + 140) + 4250) + 256 and those of the kernel
    subspace's `CovarianceState`; L lags, M means over time, E = D(L + M). Those of one that moves,
    which has no subspace, are 8(E(2E + 2L + 2M + 7) + D(L + M + 291) + 317Q + 128(Q - 2) + 867) +
    256, Q = 2D + 4; that there are modes takes 8(128 + 17) + 128 more, and each but the first
    8(3E(E + 1)/2 + 2E + 192Q + 3D + 9). Windows take 8(D(C + W) + 1159) more, 8(D(C + W) + 453) of
    one that moves; one row a span 8(2Q + 7); C causes 304C.

    A second reference (`ReferenceSpec.second`) takes as much once more without windows, with one
    row a span, and 8(17 + 2D).

    Attributes:
        tables: What the row loops work on.
        kernel: State of the kernel subspace of the scaled rows; empty arrays where it moves.
        second: The second reference, of the first row of each span; None without one.
        joint: What is known of the episodes of both; None without a second one.
    """

    tables: Tables
    kernel: CovarianceState
    second: ReferenceState | None = None
    joint: Joint | None = None


def layout(spec: ReferenceSpec, width: int) -> dict[str, ArrayForm]:
    """Return what the arrays of the tables for rows of D channels are like."""
    lags, shapes = spec.lags_for(width), spec.shapes_for(width)
    windowed = int(shapes > 0)
    memories = spec.memories_for(width) * width
    columns = lags * width + memories
    streams, modes = spec.streams_for(width), spec.modes
    each, triangle = max(modes, 1), columns * (columns + 1) // 2
    slow = width + 1 if streams else 0
    return {
        "shift": real(width),
        "scale": real(width),
        "rows": real(BLOCK + lags - 1, width),
        "memory": real(1, memories),
        "good": ArrayForm((BLOCK,), np.bool_),
        "fresh": ArrayForm((BLOCK,), np.bool_),
        "mean": real(each * columns),
        "scatter": real(each, triangle),
        "whitener": real(each, triangle),
        "unseen": real(0 if streams else columns),
        "scores": real(0 if streams else len(MEASURES) + windowed, MOST_KEPT),
        "calibration": real(0 if streams else len(MEASURES) - 1 + windowed, MOST_KEPT),
        "measured": real(streams + 2 + (modes > 0) if streams else len(MEASURES) + windowed, BLOCK),
        "peaks": real(MOST_PEAKS),
        "blame": real(width),
        "sides": real(SIDES, width),
        "stuck": real(width),
        "previous": real(width),
        "recent": real(SETTLED),
        "runs": whole(each * width),
        "longest": whole(each * width),
        "repeated": whole(each * width),
        "reals": real(REALS + windowed * WINDOW_REALS),
        "counts": whole(COUNTS + windowed * (WINDOW_COUNTS + spec.moves)),
        "times": whole(6),
        "tally": real(each * streams, SCORE_BINS),
        "heights": real(streams, HEIGHT_BINS),
        "lasting": real(slow, LASTING_BINS),
        "evidences": real(streams + slow, 7),
        "hours": real(spec.hours if streams else 0, 3 * width),
        "watched": real(1 if streams else 0),
        "waiting": real(each if streams else 0, columns + triangle),
        "lows": whole(streams + 1 if streams else 0, 6),
        "causes": whole(width),
        "codes": real(modes + 1 if modes else 0),
        "modes": whole(modes + 1 if modes else 0, 7),
        "units": real(modes),
        "turned": ArrayForm((BLOCK if modes else 0,), np.bool_),
        "former": real(columns + triangle + 1 if streams else 0),
        "compared": whole(6 if streams else 0),
        "episodes": whole(KEPT_EPISODES + 1 if streams else 0, 6),
        "episode_sums": real(
            KEPT_EPISODES if streams else 0,
            spec.hours + 3 * width + columns * (columns // width + 1) // 2,
        ),
        "shapes": real(width, shapes),
        "before": real(spec.most_window, width),
        "left_out": whole(2 * streams + LEFT_OUT if spec.every_time else 0),
        "ranges": real(len(spec.causes), 6 + 2 * RANGE_DAYS),
        "rest": real(2 * width + 1 if streams else 0, 6),
    }


def layout_of_kernel(spec: ReferenceSpec, width: int) -> dict[str, ArrayForm]:
    """Return what the arrays of the kernel subspace are like; one that moves has none."""
    like = KERNEL.layout(spec.kernel, width)
    if not spec.moves:
        return like
    return {name: ArrayForm((0, *shape[1:]), dtype) for name, (shape, dtype) in like.items()}


def square(lower: FloatArray, size: int) -> FloatArray:
    """Return a lower triangle whose rows lie one after the other as a matrix, (size, size)."""
    matrix = np.zeros((size, size))
    matrix[np.tril_indices(size)] = lower
    return matrix


def _no_kernel(spec: ReferenceSpec, width: int, of: tuple[int, ...] = ()) -> CovarianceState:
    """Return the kernel subspace of a reference that moves, or those of m, (m, ...) each."""
    like = layout_of_kernel(spec, width)
    empty = {name: np.zeros((*of, *shape), dtype) for name, (shape, dtype) in like.items()}
    return CovarianceState(**empty)


def init(spec: ReferenceSpec, first_rows: npt.ArrayLike) -> ReferenceState:
    """Make the reference of a model from its first rows, (m, D): scale and bandwidth only.

    Raises:
        ConfigError: if they are not a finite matrix of one row and one column at the least.
    """
    rows = first_matrix(first_rows)
    scale = scaling.standard_scaling(rows, math.inf)
    tables = empty(spec, scale.shift, scale.scale, 0)
    if spec.moves:
        kernel = _no_kernel(spec, rows.shape[1])
    else:
        kernel = KERNEL.init(spec.kernel, scaling.apply_scaling(scale, rows, math.inf))
    if spec.second is None:
        return ReferenceState(tables, kernel)
    return ReferenceState(tables, kernel, init(spec.second, rows), no_episode(rows.shape[1]))


def empty(spec: ReferenceSpec, shift: FloatArray, scale: FloatArray, began: int) -> Tables:
    """Make the tables of a reference that begins with a row of this index."""
    arrays = {name: like.zeros() for name, like in layout(spec, len(scale)).items()}
    tables = Tables(**arrays)._replace(shift=shift, scale=scale)
    counts = tables.counts
    counts[SEEN] = counts[BEGAN] = counts[ZERO] = began
    counts[OPENED] = -1
    counts[DUE] = MOST_KEPT
    tables.causes[:] = _causes_of(spec, len(scale))
    tables.modes[-1:, MODE_NOW] = NO_MODE_YET
    tables.units[:] = 1.0
    tables.unseen[:] = 1.0
    tables.recent[:] = np.nan
    tables.evidences[:, MOVING_LEVEL : MOVING_LIMIT + 1] = 1.0
    tables.left_out[LAST_SPAN:] = NO_SPAN
    tables.ranges[:, 0] = spec.causes
    tables.ranges[:, [2, 4, *range(6, 6 + RANGE_DAYS)]] = math.inf
    tables.ranges[:, [3, 5, *range(6 + RANGE_DAYS, 6 + 2 * RANGE_DAYS)]] = -math.inf
    # The stretch ends where a block does.
    counts[PAD] = -(began + spec.rows) % BLOCK
    return tables


def _causes_of(spec: ReferenceSpec, width: int) -> IntArray:
    """Return which of D channels are causes or say the mode, (D,) of 0 and 1."""
    causes = np.zeros(width, np.int64)
    causes[list(spec.given_for(width))] = 1
    return causes


def made_anew(spec: ReferenceSpec, old: Tables) -> tuple[Tables, CovarianceState]:
    """Begin anew after a whole block, by the scale of its rows."""
    lags = spec.lags_for(len(old.scale))
    rows = (old.rows[lags - 1 :] + old.shift) * old.scale
    scale = scaling.standard_scaling(rows, math.inf)
    tables = empty(spec, scale.shift, scale.scale, int(old.counts[SEEN]))
    scaled = scaling.apply_scaling(scale, rows, math.inf)
    first = -spec.rows % BLOCK
    tables.rows[first : first + lags - 1] = scaled[len(scaled) - lags + 1 :]
    tables.previous[:] = scaled[-1]
    tables.counts[EPISODES] = old.counts[EPISODES]
    tables.times[:] = old.times
    return tables, KERNEL.init(spec.kernel, scaled)


def restarted(state: ReferenceState) -> ReferenceState:
    """Return a reference that is `ready` for rows that do not follow those that it has seen.

    What it was made of stays. The evidence is 0, no episode is open or was, a block begins, and
    before the next row all counts as it is in that.
    """
    tables = copied(state.tables)
    tables.counts[PAD] = -tables.counts[SEEN] % BLOCK
    for place in (ZERO, LAST_SURPRISE, SURPRISES, EPISODES, STUCK_ROWS):
        tables.counts[place] = 0
    tables.counts[OPENED] = -1
    tables.reals[EVIDENCES] = 0.0
    tables.reals[LEVEL] = 1.0
    tables.times[: NEWEST_TIME + 1] = 0
    for array in (tables.blame, tables.sides, tables.stuck, tables.runs):
        array[...] = 0
    tables.previous[...] = np.nan
    tables.recent[...] = np.nan
    for place in (MOVING_SUM, MOVING_TOP, MOVING_PEAK, MOVING_TOTAL):
        tables.evidences[:, place] = 0.0
    tables.evidences[:, MOVING_LEVEL] = 1.0
    tables.lows[:-1] = 0
    tables.lows[:1, LOW_ROW] = NOT_YET
    tables.lows[-1:, MUTED] = 0
    # Rows that it counts begin at 0; since when the device has changed stays.
    tables.left_out[: -LEFT_OUT + 3] = 0
    tables.left_out[LAST_SPAN:] = NO_SPAN
    for table in (tables.rows, tables.memory, tables.measured, tables.before):
        table[...] = 0.0
    tables.rest[:-1, SPELL_LENGTH] = 0.0
    tables.rest[-1:, [ROWS_HELD, RESTED]] = 0.0
    tables.counts[FOLLOWED:SHAPE_ROWS] = 0
    tables.good[...] = tables.fresh[...] = tables.turned[...] = False
    tables.modes[-1:, MODE_NOW] = NO_MODE_YET
    tables.episodes[:-1] = 0
    tables.episode_sums[...] = 0.0
    tables.rows[: len(tables.rows) - BLOCK] = np.nan
    # Over time all was as usual.
    memory = tables.memory[0]
    memory[...] = tables.mean[len(tables.mean) - len(memory) :]
    if state.second is None or state.joint is None:
        return ReferenceState(tables, state.kernel)
    both = restarted(state.second), begun_again(state.joint)
    return ReferenceState(tables, state.kernel, *both)


def passed_last(previous: FloatArray) -> BoolArray:
    """Return whether the newest row passed the reference by, (...); `previous`: (..., D)."""
    passed: BoolArray = previous[..., 0] == PASSED_BY
    return passed


def count_passed(counts: IntArray, rows: IntArray | int) -> None:
    """Count rows that pass references by, in place; `counts`: (..., k), `rows`: (...)."""
    counts[..., SEEN] += rows
    counts[..., BEGAN] += rows
    # The next row's place in its block stays.
    counts[..., PAD] = (counts[..., PAD] - rows) % BLOCK


def ready(state: ReferenceState) -> bool:
    """Check whether the reference is made: rows have a p, and episodes are found, only then."""
    return bool(state.tables.counts[CALIBRATED] > 0)


def may_be_off(spec: ReferenceSpec, state: ReferenceState) -> bool:
    """Check whether episodes may open: with the first p, if it moves once it has seen a memory."""
    return ready(state) and (not spec.moves or bool(state.tables.lows[-1, ARMED]))


def next_places(counts: IntArray) -> Any:
    """Return the next rows' places in their blocks, (...,), of counts (..., 22)."""
    return (counts[..., SEEN] + counts[..., PAD]) % BLOCK


def arrays(state: ReferenceState) -> dict[str, npt.NDArray[Any]]:
    """Return the state's arrays by name, for the codec."""
    kernel = {f"{OF_KERNEL}{name}": array for name, array in KERNEL.arrays(state.kernel).items()}
    own = storable({**state.tables._asdict(), **kernel})
    if state.second is None or state.joint is None:
        return own
    return with_second(own, arrays(state.second), state.joint._asdict())


def with_second(
    own: Mapping[str, _Array], second: Mapping[str, _Array], joint: Mapping[str, _Array]
) -> dict[str, _Array]:
    """Return arrays of two references, by their names, in one."""
    parts = {"second": second, "joint": joint}
    more = {f"{part}.{name}": each[name] for part, each in parts.items() for name in each}
    return {**own, **more}


def storable(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return arrays by name as the codec has them: it knows whole numbers and reals."""
    scale = arrays.get(f"{OF_KERNEL}scale")
    no_kernel = scale is not None and not scale.shape[-1]
    stored = {
        name: array
        for name, array in arrays.items()
        if (name not in OPTIONAL or array.size) and not (no_kernel and name.startswith(OF_KERNEL))
    }
    return {**stored, **{name: arrays[name].astype(np.int64) for name in FLAGS}}


def from_arrays(
    spec: ReferenceSpec, arrays: Mapping[str, npt.NDArray[Any]], of: tuple[int, ...] = ()
) -> ReferenceState:
    """Make a state of what `arrays` gave.

    Args:
        spec: The spec.
        arrays: The arrays.
        of: (m,) for those of m states, (m, ...) each, none of which may be refused then.

    Raises:
        ConfigError: for other names or shapes than the spec gives them, or counts that no state
            has.
    """
    if spec.second is not None:
        own, second, joint = _parts_of_two(arrays)
        first, more = from_arrays(spec.first, own, of), from_arrays(spec.second, second, of)
        width = first.tables.scale.shape[-1]
        if more.tables.scale.shape[-1] != width:
            raise ConfigError("reference.second.scale", more.tables.scale.shape, f"of ({width},)")
        known = Joint(**copies_like("reference.joint", joint, layout_of_joint(width), of=of))
        counts, of_second = first.tables.counts, more.tables.counts
        opened = np.stack([counts[..., OPENED], of_second[..., OPENED]], axis=-1)
        check_joint(known.wholes, counts[..., SEEN], opened)
        return first._replace(second=more, joint=known)
    own = {name: array for name, array in arrays.items() if not name.startswith(OF_KERNEL)}
    scale = own.get("scale", np.zeros(0))
    if scale.ndim != len(of) + 1 or not scale.shape[-1]:
        raise ConfigError("reference.scale", scale.shape, "of shape (D,)")
    width = scale.shape[-1]
    laid = layout(spec, width)
    if spec.moves:
        # States of before rest was found: their devices have not been at rest yet.
        own.setdefault("rest", np.zeros((*of, *laid["rest"].shape)))
        _add_what_lasts(own, laid, of)
    like = {**laid, **{name: whole(*laid[name].shape) for name in FLAGS}}
    left_out: dict[str, Any] = {
        name: np.zeros((*of, *laid[name].shape), like.pop(name).dtype)
        for name in OPTIONAL
        if not math.prod(laid[name].shape)
    }
    tables = Tables(**copies_like("reference", own, like, of=of), **left_out)
    tables = tables._replace(**{name: getattr(tables, name) != 0 for name in FLAGS})
    check_positive("reference.scale", tables.scale)
    check_positive("reference.unseen", tables.unseen)
    counts = tables.counts.copy()
    counts[..., OPENED] += counts[..., OPENED] == -1  # None is open.
    seen = counts[..., SEEN]
    check_counts("reference.counts", counts, *_FIXED)
    # A block's rows are learned at its end: up to all of them, whatever part of it was seen here.
    whole_blocks = seen - next_places(counts) + BLOCK
    for named, most in ((_UP_TO_SEEN, seen), (_UP_TO_BLOCK, whole_blocks)):
        for name, place in named.items():
            check_whole(f"reference.counts, {name}", counts[..., place], 0, most)
    for name in _RUNS:
        check_whole(f"reference.{name}", getattr(tables, name), 0, seen[..., np.newaxis])
    _check_moving(tables, seen)
    _check_modes(tables, seen)
    _check_windows(tables)
    _check_left_out(tables.left_out)
    places = tables.ranges[..., 0]
    if (places != np.array(spec.causes, np.float64)).any():
        raise ConfigError("reference.ranges", places.tolist(), "the places of the spec's causes")
    if (tables.causes != _causes_of(spec, width)).any():
        raise ConfigError("reference.causes", tables.causes.tolist(), "those of the spec")
    of_kernel = {
        name.removeprefix(OF_KERNEL): array
        for name, array in arrays.items()
        if name.startswith(OF_KERNEL)
    }
    if spec.moves:
        copies_like("reference.kernel", of_kernel, {}, of=of)
        return ReferenceState(tables, _no_kernel(spec, width, of))
    kernel = KERNEL.from_arrays(spec.kernel, of_kernel, of)
    if kernel.scale.shape != scale.shape:
        raise ConfigError("reference.kernel.scale", kernel.scale.shape, f"of shape ({width},)")
    return ReferenceState(tables, kernel)


def _parts_of_two(arrays: Mapping[str, _Array]) -> tuple[dict[str, _Array], ...]:
    """Return arrays of the first reference, of the second one, and of their episodes."""
    parts: dict[str, dict[str, _Array]] = {"": {}, "second": {}, "joint": {}}
    for name, array in arrays.items():
        part, _, field = name.partition(".")
        if field and part in parts:
            parts[part][field] = array
        else:
            parts[""][name] = array
    return tuple(parts.values())


def _add_what_lasts(
    own: dict[str, Any], laid: Mapping[str, ArrayForm], of: tuple[int, ...]
) -> None:
    """Add the evidence of what lasts to states of before there was any: it begins with none."""
    if "lasting" in own or "evidences" not in own:
        return
    own["lasting"] = np.zeros((*of, *laid["lasting"].shape))
    more = np.zeros((*of, *laid["evidences"].shape))
    more[..., MOVING_LEVEL : MOVING_LIMIT + 1] = 1.0, MOST_THRESHOLD
    known = own["evidences"]
    if known.shape == (*of, len(more[(0,) * len(of)]) - laid["lasting"].shape[0], more.shape[-1]):
        more[..., : known.shape[-2], :] = known
        own["evidences"] = more
    if "left_out" in own and own["left_out"].size:
        left = own["left_out"]
        streams = left.shape[-1] - LEFT_OUT
        parts = left[..., :streams], np.zeros_like(left[..., :streams]), left[..., streams:]
        own["left_out"] = np.concatenate(parts, axis=-1)


def _most_lows(evidences: int) -> IntArray:
    """Return the largest numbers of the last row of `lows` but for the row after a gap, (5,)."""
    return np.array([MOST_SPARED, max(evidences - 1, 0), MOST, MOST_MEMORY, MOST_MEMORY], np.int64)


def _check_moving(tables: Tables, seen: IntArray) -> None:
    """Check what leads the loops of a reference that moves; `seen`: rows of each reference.

    Raises:
        ConfigError: for a number that no state has.
    """
    evidences = tables.evidences.shape[-2]
    if not evidences:
        return
    lows = tables.lows
    modes = max(tables.units.shape[-1], 1)
    check_whole("reference.compared", tables.compared[..., :2], 0, modes)
    check_whole("reference.compared", tables.compared[..., 2:5], 0, seen[..., np.newaxis])
    check_whole("reference.lows", lows[..., 0, LOW_ROW], NOT_YET, seen)
    for numbers in (lows[..., 1:-1, LOW_ROW], *(lows[..., :-1, place] for place in (2, 3, 5))):
        check_whole("reference.lows", numbers, 0, seen[..., np.newaxis])
    for place, most in enumerate(_most_lows(evidences).tolist()):
        least = -1 if place == WAITING else 0
        check_whole("reference.lows", lows[..., -1, place], least, most)
    for place in (ARMED, AFTER_GAP):
        check_whole("reference.lows", lows[..., -1, place], 0, seen)
    check_positive("reference.evidences", tables.evidences[..., MOVING_LIMIT])
    episodes, each = tables.episodes, seen[..., np.newaxis]
    limits = {KEPT_NUMBER: each, KEPT_FALSE: 1, KEPT_ROWS: each, KEPT_MODE: modes - 1}
    for place, most in limits.items():
        check_whole("reference.episodes", episodes[..., :-1, place], 0, most)
    check_whole("reference.episodes", episodes[..., -1, EPISODES_LEARNED], 0, seen)


def _check_left_out(left_out: IntArray) -> None:
    """Check how many rows were left out, as of `Tables`.

    Raises:
        ConfigError: for a number that no state has.
    """
    if left_out.shape[-1]:
        most = left_out[..., ALL_LEFT_OUT, np.newaxis]
        check_whole("reference.left_out", most, 0, MOST_LEFT_OUT)
        check_whole("reference.left_out", left_out[..., :ALL_LEFT_OUT], 0, most)


def _check_windows(tables: Tables) -> None:
    """Check what leads the loops of a reference with windows.

    Raises:
        ConfigError: for a number that no state has.
    """
    rows, most = tables.shapes.shape[-1], tables.before.shape[-2]
    if not rows:
        return
    length, kept = tables.counts[..., WINDOW_LENGTH], tables.counts[..., SHAPE_ROWS]
    check_whole("reference.counts, rows with shapes", kept, 0, rows)
    if tables.evidences.shape[-2]:
        waiting = tables.counts[..., SHAPES_WAITING]
        check_whole("reference.counts, shapes that wait", waiting, 0, kept)
    check_whole("reference.counts, rows since a gap", tables.counts[..., FOLLOWED], 0, most)
    check_whole("reference.counts, rows of a window", length, 0, np.minimum(kept, most))
    short = length[(length > 0) & (length < LEAST_WINDOW)]
    if len(short):
        allowed = f"0, or {LEAST_WINDOW} and more"
        raise ConfigError("reference.counts, rows of a window", int(short[0]), allowed)


def _check_modes(tables: Tables, seen: IntArray) -> None:
    """Check what leads the loops of a reference with modes; `seen`: rows of each reference.

    Raises:
        ConfigError: for a number that no state has.
    """
    many = tables.units.shape[-1]
    if not many:
        return
    modes, rows = tables.modes, seen[..., np.newaxis]
    for place in (MODE_ROWS, MODE_FIRST, MODE_RUNS):
        check_whole("reference.modes", modes[..., :-1, place], 0, rows)
    for place in (MODE_LEARNED, MODE_WAITING):
        check_whole("reference.modes", modes[..., :-1, place], 0, rows + BLOCK)
    check_whole("reference.modes", modes[..., :-1, MODE_SORTED], 0, MOST_KEPT)
    check_whole("reference.modes", modes[..., :-1, MODE_MADE], 0, 1)
    check_whole("reference.modes", modes[..., -1, MODE_NOW], NO_MODE_YET, many - 1)
    check_whole("reference.modes", modes[..., -1, MODE_UNPLACED], 0, seen)
    check_positive("reference.units", tables.units)
