"""The compiled row loop of the OK-FE family.

Per row: scale, check, project (eq. 11b, 6b), score, and if the row is informative update the
subspace (`update`). Symbols are those of the papers: S the stored rows, A the factor,
K = κ(S, S), M = AᵀKA, k and q of a row, λ the ridge.
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
from kerneltrack.trackers.okfeb.state import (
    DROPPED,
    EVICTED,
    INFORMATIVE,
    LOSSES,
    MENDED,
    NO_CENSOR,
    RATE,
    RIDGE,
    SIZE,
    STARTED,
    N,
    Outputs,
    Settings,
    SubspaceState,
    Work,
    make_work,
)
from kerneltrack.trackers.okfeb.update import begin, learn

FloatArray = npt.NDArray[np.float64]


@inlined
def _project(state: SubspaceState, work: Work, own: float) -> float:
    """Fill b = Aᵀk, q (eq. 11b) and return ℓ (eq. 6b) of the row whose k is in `work`."""
    size, rank = state.counts[SIZE], state.factor.shape[0]
    b, v, q = work.b, work.v, work.q
    for c in range(rank):
        b[c] = dot(work.k, state.factor[c], size)
    for c in range(rank):
        v[c] = dot(state.solver[c], b, c + 1)
    for c in range(rank):
        q[c] = dot(state.solver_t[c, c:], v[c:], rank - c)
    # With v = C⁻¹Aᵀk, CCᵀ = M + λI: ‖v‖² = qᵀAᵀk.
    return float(own - dot(v, v, rank) - state.reals[RIDGE] * dot(q, q, rank))


@compiled
def _is_stored(state: SubspaceState, x: FloatArray) -> bool:
    for i in range(state.counts[SIZE]):
        same = True
        for d in range(x.shape[0]):
            if state.support[i, d] != x[d]:
                same = False
                break
        if same:
            return True
    return False


@compiled
def run_rows(  # noqa: PLR0915 - one loop, in steps
    settings: Settings,
    kernel: Kernel,
    state: SubspaceState,
    rows: FloatArray,
    out: Outputs,
) -> None:
    """Run rows (n, D) through the state in order and fill the features' arrays.

    The state is written to only if `settings.learn`. Cost a row: see `okfeb`.
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
        loss = _project(state, work, own)
        started = False
        if settings.learn:
            counts[N] += 1
            started = (
                counts[STARTED] < settings.start_rows
                and own > 0.0
                and not _is_stored(state, work.x)
            )
        if started:
            begin(settings, state, work, own)
            loss = _project(state, work, own)
            out.initial[n] = True
            out.informative[n] = True
            counts[INFORMATIVE] += 1
            stale = True
        tolerance = 1e-6 * own
        if settings.learn and not -tolerance <= loss <= own + tolerance:
            counts[MENDED] += 1
        loss = bounded_loss(loss, own)
        if settings.aligned:
            for c in range(rank):
                out.z[n, c] = dot(state.mapping[c], work.b, rank)
        out.loss[n] = loss
        recent = min(counts[LOSSES], state.recent.shape[0])
        out.novelty[n] = 0.5 if started else rank_among(state.recent, recent, loss)
        if out.q.shape[0] > 0:
            out.q[n] = work.q
        if out.s.shape[0] > 0 and counts[SIZE] > 0:
            if stale:
                root = gram_root(state.gram, counts[SIZE])
                stale = False
            paper_features(state.factor, counts[SIZE], work.q, out.s[n], root)
        if settings.learn and not started:
            # The paper censors only once the budget is full.
            full = counts[SIZE] + 1 == state.support.shape[0]
            takes = counts[STARTED] >= settings.start_rows and own > 0.0
            if takes and full and settings.censor != NO_CENSOR:
                takes = loss >= least_loss(
                    settings.censor, settings.threshold, state.recent, counts, state.reals
                )
            if takes:
                gone = learn(settings, state, work, own)
                out.informative[n] = True
                out.evicted[n] = gone
                counts[INFORMATIVE] += 1
                counts[EVICTED] += gone >= 0
                counts[DROPPED] += gone == out.number[n]
                stale = True
            remember(state.recent, counts, state.reals, loss)
            if settings.censor == RATE and counts[SIZE] + 1 == state.support.shape[0]:
                steer(state.reals, takes, settings.admitted)
