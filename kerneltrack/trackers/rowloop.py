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
from kerneltrack.specs import MOVING_WINDOW
from kerneltrack.sums import dot
from kerneltrack.trackers.rowstate import (
    DROPPED,
    EPSILON,
    EVICTED,
    FIXED,
    INFORMATIVE,
    LOSSES,
    MEAN_LOSS,
    MENDED,
    MOVING,
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
from kerneltrack.trackers.update import begin, learn

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

MAX_SCALED = 1e150
"""Largest |x| after scaling: its square is still finite."""
MAX_KERNEL = 1e100
"""Largest κ(x,x) that the products of an update can take."""
CONTROL_GAIN = 0.02
"""How fast ε follows the target rate, in mean losses a row."""
LOSS_MEMORY = 0.01
"""Weight of a new loss in the mean that the controller is scaled by."""


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


@inlined
def _rank_among(recent: FloatArray, count: int, loss: float) -> float:
    """Return the mid-rank in (0, 1) of a loss among itself and the last `count` ones."""
    below = 0
    equal = 0
    for i in range(count):
        below += recent[i] < loss
        equal += recent[i] == loss
    return (below + 0.5 * (equal + 1)) / (count + 1)


@compiled
def _moving_mean(recent: FloatArray, losses: int) -> float:
    """Return the mean of the last 100 losses (section VII-D), 0 before the first."""
    count = min(losses, MOVING_WINDOW)
    if count == 0:
        return 0.0
    window = recent.shape[0]
    total = 0.0
    place = losses % window
    for _ in range(count):
        place = window - 1 if place == 0 else place - 1
        total += recent[place]
    return total / count


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


@inlined
def _threshold(settings: Settings, state: SubspaceState) -> float:
    if settings.censor == FIXED:
        return settings.threshold
    if settings.censor == MOVING:
        return _moving_mean(state.recent, state.counts[LOSSES])
    return float(state.reals[EPSILON])


@inlined
def _scale_row(settings: Settings, state: SubspaceState, row: FloatArray, x: FloatArray) -> bool:
    """Write the scaled row to x; False if it is not finite or too large."""
    good = True
    for d in range(x.shape[0]):
        value = row[d] / state.scale[d] - state.shift[d]
        if value > settings.clip:
            value = settings.clip
        elif value < -settings.clip:
            value = -settings.clip
        x[d] = value
        good = good and abs(value) <= MAX_SCALED and np.isfinite(row[d])
    return good


@inlined
def _remember(settings: Settings, state: SubspaceState, loss: float, informative: bool) -> None:
    """Add a loss to the ring and steer ε towards the target rate."""
    state.recent[state.counts[LOSSES] % state.recent.shape[0]] = loss
    state.counts[LOSSES] += 1
    mean = state.reals[MEAN_LOSS]
    mean += max(LOSS_MEMORY, 1.0 / state.counts[LOSSES]) * (loss - mean)
    state.reals[MEAN_LOSS] = mean
    full = state.counts[SIZE] + 1 == state.support.shape[0]
    if settings.censor == RATE and full:
        error = (1.0 if informative else 0.0) - settings.admitted
        state.reals[EPSILON] = max(0.0, state.reals[EPSILON] + CONTROL_GAIN * mean * error)


@compiled
def _paper_features(state: SubspaceState, q: FloatArray, out: FloatArray, root: FloatArray) -> None:
    """Write K_S^{1/2}Aq (Remark 4) to out; `root` holds K_S^{1/2}."""
    size, rank = state.counts[SIZE], state.factor.shape[0]
    for j in range(size):
        along = 0.0
        for c in range(rank):
            along += state.factor[c, j] * q[c]
        for i in range(size):
            out[i] += root[i, j] * along


@compiled
def _gram_root(state: SubspaceState) -> FloatArray:
    size = state.counts[SIZE]
    values, vectors = np.linalg.eigh(state.gram[:size, :size].copy())
    root = np.zeros((size, size))
    for c in range(size):
        weight = np.sqrt(max(values[c], 0.0))
        for i in range(size):
            for j in range(size):
                root[i, j] += weight * vectors[i, c] * vectors[j, c]
    return root


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
        if not _scale_row(settings, state, rows[n], work.x):
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
        loss = min(max(loss, 0.0), own)
        if settings.aligned:
            for c in range(rank):
                out.z[n, c] = dot(state.mapping[c], work.b, rank)
        out.loss[n] = loss
        recent = min(counts[LOSSES], state.recent.shape[0])
        out.novelty[n] = 0.5 if started else _rank_among(state.recent, recent, loss)
        if out.q.shape[0] > 0:
            out.q[n] = work.q
        if out.s.shape[0] > 0 and counts[SIZE] > 0:
            if stale:
                root = _gram_root(state)
                stale = False
            _paper_features(state, work.q, out.s[n], root)
        if settings.learn and not started:
            # The paper censors only once the budget is full.
            full = counts[SIZE] + 1 == state.support.shape[0]
            takes = counts[STARTED] >= settings.start_rows and own > 0.0
            if takes and full and settings.censor != NO_CENSOR:
                takes = loss >= _threshold(settings, state)
            if takes:
                gone = learn(settings, state, work, own)
                out.informative[n] = True
                out.evicted[n] = gone
                counts[INFORMATIVE] += 1
                counts[EVICTED] += gone >= 0
                counts[DROPPED] += gone == out.number[n]
                stale = True
            _remember(settings, state, loss, takes)
