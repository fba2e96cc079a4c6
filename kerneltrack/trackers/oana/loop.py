"""The compiled row loop of the adaptive Nyström tracker.

Per row: scale, check, project, score; then it becomes a landmark, moves the nearest one (`oanaspan`
moves the subspace along) or does neither. Symbols are those of `oana`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kerneltrack.compiled import compiled, inlined
from kerneltrack.kernels import Kernel, kernel_row, kernel_value
from kerneltrack.sums import dot, squared_distance
from kerneltrack.trackers.common.row_steps import (
    MAX_KERNEL,
    bounded_loss,
    gram_root,
    paper_features,
    rank_among,
    remember,
    scale_row,
)
from kerneltrack.trackers.oana.span import NEW, begin, move
from kerneltrack.trackers.oana.state import OANAState, Settings, Work, make_work
from kerneltrack.trackers.okfeb.state import INFORMATIVE, LOSSES, SIZE, STARTED, N, Outputs

FloatArray = npt.NDArray[np.float64]

NOTHING, MOVES, BEGINS = range(3)


@inlined
def project(state: OANAState, work: Work, own: float) -> float:
    """Fill q = Eᵀk of the row whose k is in `work` and return ℓ = κ(x,x) - ‖q‖² in [0, κ(x,x)]."""
    size, rank = state.counts[SIZE], state.factor.shape[0]
    for c in range(rank):
        work.q[c] = dot(work.k, state.factor[c], size)
    return float(bounded_loss(own - dot(work.q, work.q, rank), own))


@inlined
def nearest(state: OANAState, x: FloatArray) -> tuple[int, float]:
    """Return the landmark nearest to a row, the first of equals, and its squared distance."""
    place, least = -1, np.inf
    for i in range(state.counts[SIZE]):
        distance = squared_distance(state.support[i], x, x.shape[0])
        if distance < least:
            place, least = i, distance
    return place, least


@inlined
def what_for(settings: Settings, state: OANAState, least: float) -> int:
    """Return what a row at this squared distance from its landmark does."""
    if state.counts[SIZE] + 1 < state.support.shape[0]:
        # A row that is there already says nothing new, but counts in the landmark's mean.
        return BEGINS if least > 0.0 else MOVES
    return MOVES if least >= settings.threshold else NOTHING


@compiled
def run_rows(  # noqa: PLR0915 - one loop, in steps
    settings: Settings, kernel: Kernel, state: OANAState, rows: FloatArray, out: Outputs
) -> None:
    """Run rows (n, D) through the state in order and fill the features' arrays.

    The state is written to only if `settings.learn`. Cost a row: see `oana`.
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
        out.valid[n] = True
        out.number[n] = counts[N]
        kernel_row(kernel, state.support, counts[SIZE], work.x, work.k)
        loss = project(state, work, own)
        place = -1
        action = NOTHING
        started = False
        if settings.learn:
            counts[N] += 1
            place, least = nearest(state, work.x)
            action = what_for(settings, state, least)
            # Without a direction for each row the features of a new one would say nothing.
            started = action == BEGINS and counts[STARTED] < rank and loss > NEW * own
            if started:
                begin(settings, state, work, own)
                kernel_row(kernel, state.support, counts[SIZE], work.x, work.k)
                loss = project(state, work, own)
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
        if action == MOVES:
            move(settings, kernel, state, work, place)
        elif action == BEGINS and not started:
            begin(settings, state, work, own)
        stale = stale or action != NOTHING
        if not started:
            remember(state.recent, counts, state.reals, loss)
        out.informative[n] = action != NOTHING
        counts[INFORMATIVE] += action != NOTHING
