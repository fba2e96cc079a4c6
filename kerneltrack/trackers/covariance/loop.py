"""The compiled row loop of the covariance tracker.

Per row: scale, check, project, score, decide whether it is admitted, and if so add it to the
covariance (`update`) and move the subspace (`span`). Symbols are those of `tracker`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kerneltrack.compiled import compiled, inlined
from kerneltrack.kernels import Kernel, kernel_row, kernel_value
from kerneltrack.sums import dot
from kerneltrack.trackers.common.row_steps import (
    MAX_KERNEL,
    bounded_loss,
    gram_root,
    least_loss,
    paper_features,
    rank_among,
    remember,
    scale_row,
    steer,
)
from kerneltrack.trackers.covariance import update as covupdate
from kerneltrack.trackers.covariance.rank import choose
from kerneltrack.trackers.covariance.span import follow
from kerneltrack.trackers.covariance.state import (
    COIN,
    CONTROL,
    LAST,
    LEVERAGE,
    SINCE,
    STAMP,
    CovarianceState,
    Settings,
    Work,
    make_work,
)
from kerneltrack.trackers.okfeb.state import (
    DROPPED,
    EVICTED,
    INFORMATIVE,
    LOSSES,
    MEAN_LOSS,
    NO_CENSOR,
    RATE,
    SIZE,
    STARTED,
    UNSEEN,
    N,
    Outputs,
    directions,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MIN_KERNEL = 1e-60
"""Rows of a smaller κ(x,x) are served but not learned from: Γ and K⁻¹ are of its inverse's size."""
LEAST_FADING = 1e-30
"""What is left of Γ after any number of rows, so that it never becomes zero."""
COIN_GAIN = 0.02
"""How fast ln c follows the target rate, a row."""
MOST_MEAN = 10.0
"""c times the mean loss stays below it: a calm stream must not wind the controller up."""

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@inlined
def coin(key: int, number: int) -> float:
    """Return the number in [0, 1) that row `number` of a model draws: a hash, not a sequence.

    SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014),
    which counts through 64-bit words in steps and mixes each by itself.
    """
    word = np.uint64(key) + (np.uint64(number) + np.uint64(1)) * _STEP
    word = (word ^ (word >> np.uint64(30))) * _FIRST
    word = (word ^ (word >> np.uint64(27))) * _SECOND
    word ^= word >> np.uint64(31)
    return float(word >> np.uint64(11)) * 2.0**-53


@inlined
def _project(state: CovarianceState, work: Work, own: float) -> float:
    """Fill q = Eᵀk of the row whose k is in `work` and return ℓ = κ(x,x) - ‖q‖².

    Directions that are not in use have q = 0.
    """
    size, rank = state.counts[SIZE], directions(state.counts, state.factor)
    for c in range(rank):
        work.q[c] = dot(work.k, state.factor[c], size)
    for c in range(rank, state.factor.shape[0]):
        work.q[c] = 0.0
    return float(own - dot(work.q, work.q, rank))


@inlined
def _chance(settings: Settings, reals: FloatArray, loss: float) -> float:
    """Return the probability p = min(1, cℓ) at which leverage admits a row, and steer c.

    p is at least half the target rate, which bounds the weights 1/p. ln c moves by the relative
    excess of p over the target, so that the mean of p is the target whatever the losses' scale;
    c stays where it can make a difference: with c times the mean loss below a quarter of the
    target only the floor would be at work.
    """
    chance = min(1.0, max(reals[CONTROL] * loss, 0.5 * settings.admitted))
    unit = 1.0 / max(reals[MEAN_LOSS], 1e-300)
    moved = reals[CONTROL] * np.exp(COIN_GAIN * (1.0 - chance / settings.admitted))
    reals[CONTROL] = min(max(moved, 0.25 * settings.admitted * unit), MOST_MEAN * unit)
    return float(chance)


@inlined
def _fade(settings: Settings, state: CovarianceState, time: int) -> None:
    """Let Γ fade by what has passed since the last admitted row, in rows or in event time."""
    counts, key = state.counts, state.key
    passed = counts[N] - counts[LAST]
    counts[LAST] = counts[N]
    if settings.timed:
        first = counts[INFORMATIVE] == 0
        passed = 0 if first else max(time - key[STAMP], 0)
        key[STAMP] = time if first else max(time, key[STAMP])
    if settings.fading > 0.0:
        covupdate.fade(state, max(np.exp(-settings.fading * float(passed)), LEAST_FADING))


@compiled
def _learn(
    settings: Settings, state: CovarianceState, work: Work, own: float, weight: float, time: int
) -> int:
    """Add the row in `work` to the covariance; return the index that left, or -1."""
    counts = state.counts
    rank = state.factor.shape[0]
    _fade(settings, state, time)
    for c in range(directions(counts, state.factor), rank):
        work.q[c] = dot(work.k, state.factor[c], counts[SIZE])
    rest = covupdate.solve(state, work, own)
    if settings.rank_factor > 0.0:
        choose(settings, state, work.q, own, rest, weight)
    counts[SINCE] += 1
    number, place = counts[N] - 1, counts[SIZE]
    gone = -1
    if not rest > covupdate.FOLD * own:
        covupdate.fold(state, work, own, rest, weight)
        gone = number
    else:
        covupdate.add(state, work, own, rest, weight)
        leaves = covupdate.leaving(state, work)
        if leaves >= 0:
            place = leaves
            gone = state.born[place]
            covupdate.evict(state, work, place)
    # The new row on S: itself, or where it is not stored what its projection is made of.
    size = counts[SIZE]
    coefficients, values = work.left[rank], work.right[rank]
    for i in range(size):
        coefficients[i] = work.share[i] if gone == number else 0.0
        values[i] = work.k[i] if gone == number else state.gram[place, i]
    if gone != number:
        coefficients[place] = 1.0
    follow(settings, state, work, own)
    return int(gone)


@inlined
def _admits(
    settings: Settings, state: CovarianceState, number: int, own: float, loss: float
) -> float:
    """Return the weight at which a row enters the covariance, 0 if it does not."""
    if own < MIN_KERNEL:
        return 0.0
    if state.counts[INFORMATIVE] + 1 < state.support.shape[0] or settings.admission == NO_CENSOR:
        return 1.0
    if settings.admission == LEVERAGE:
        chance = _chance(settings, state.reals, loss)
        return 1.0 / chance if coin(state.key[COIN], number) < chance else 0.0
    least = least_loss(
        settings.admission, settings.threshold, state.recent, state.counts, state.reals
    )
    if settings.admission == RATE:
        steer(state.reals, loss >= least, settings.admitted)
    return 1.0 if loss >= least else 0.0


@compiled
def run_rows(  # noqa: PLR0915 - one loop, in steps
    settings: Settings,
    kernel: Kernel,
    state: CovarianceState,
    rows: FloatArray,
    out: Outputs,
    times: IntArray,
) -> None:
    """Run rows (n, D) of event times (n,) through the state and fill the features' arrays.

    The times are read only if `settings.timed`, the state is written to only if
    `settings.learn`. Cost a row: see `covariance`.
    """
    rank = state.factor.shape[0]
    work = make_work(state.support.shape[0], rows.shape[1], rank)
    root = np.empty((0, 0))
    stale = True
    counts = state.counts
    for n in range(rows.shape[0]):
        if not scale_row(state.shift, state.scale, settings.clip, rows[n], work.x):
            continue
        own = kernel_value(kernel, work.x, work.x)
        if not abs(own) <= MAX_KERNEL:
            continue
        number = counts[N]
        out.valid[n] = True
        out.number[n] = number
        kernel_row(kernel, state.support, counts[SIZE], work.x, work.k)
        loss = bounded_loss(_project(state, work, own), own)
        weight = 0.0
        started = False
        gone = -1
        if settings.learn:
            weight = _admits(settings, state, number, own, loss)
            counts[N] += 1
            # Without a direction for each row the features of a new one would say nothing.
            started = weight > 0.0 and counts[STARTED] < rank and loss > 1e-6 * own
            if started:
                gone = _learn(settings, state, work, own, weight, times[n])
                counts[STARTED] += 1
                kernel_row(kernel, state.support, counts[SIZE], work.x, work.k)
                loss = bounded_loss(_project(state, work, own), own)
        if settings.aligned:
            for c in range(rank):
                out.z[n, c] = dot(state.frame[c], work.q, rank)
        out.loss[n] = loss
        out.initial[n] = started
        recent = min(counts[LOSSES], state.recent.shape[0])
        out.novelty[n] = 0.5 if started else rank_among(state.recent, recent, loss)
        if out.q.shape[0] > 0:
            out.q[n] = work.q
        if out.s.shape[0] > 0 and counts[SIZE] > 0:
            if stale or started:
                root = gram_root(state.gram, counts[SIZE])
                stale = False
            paper_features(state.factor, counts[SIZE], work.q, out.s[n], root)
        if not settings.learn:
            continue
        if not started:
            if weight > 0.0:
                counts[UNSEEN] += not loss < own
                gone = _learn(settings, state, work, own, weight, times[n])
            remember(state.recent, counts, state.reals, loss)
        if weight > 0.0:
            stale = True
            out.informative[n] = True
            out.evicted[n] = gone
            counts[INFORMATIVE] += 1
            counts[EVICTED] += gone >= 0
            counts[DROPPED] += gone == number
