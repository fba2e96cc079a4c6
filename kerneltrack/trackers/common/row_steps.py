"""What every tracker's row loop does with a row beside learning from it: scale, score, threshold.

The steps take a state's arrays, not the state: trackers keep states of their own, in which `counts`
and `reals` begin with the places that `rowstate` names.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kerneltrack.compiled import compiled, inlined
from kerneltrack.trackers.common.spec import MOVING_WINDOW
from kerneltrack.trackers.okfeb.state import EPSILON, FIXED, LOSSES, MEAN_LOSS, MOVING

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_SCALED = 1e150
"""Largest |x| after scaling: its square is still finite."""
MAX_KERNEL = 1e100
"""Largest κ(x,x) that the products of an update can take."""
CONTROL_GAIN = 0.02
"""How fast ε follows the target rate, in mean losses a row."""
LOSS_MEMORY = 0.01
"""Weight of a new loss in the mean that the controller is scaled by."""


@inlined
def scale_row(
    shift: FloatArray, scale: FloatArray, clip: float, row: FloatArray, x: FloatArray
) -> bool:
    """Write the scaled row to x; False if it is not finite or too large."""
    good = True
    for d in range(x.shape[0]):
        value = row[d] / scale[d] - shift[d]
        if value > clip:
            value = clip
        elif value < -clip:
            value = -clip
        x[d] = value
        good = good and abs(value) <= MAX_SCALED and np.isfinite(row[d])
    return good


@inlined
def bounded_loss(loss: float, own: float) -> float:
    """Return ℓ within [0, κ(x,x)]; what the state cannot tell (NaN) is not explained at all."""
    return own if np.isnan(loss) else min(max(loss, 0.0), own)


@inlined
def rank_among(recent: FloatArray, count: int, loss: float) -> float:
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


@inlined
def least_loss(
    censor: int, threshold: float, recent: FloatArray, counts: IntArray, reals: FloatArray
) -> float:
    """Return ε, the loss below which a row is uninformative."""
    if censor == FIXED:
        return threshold
    if censor == MOVING:
        return _moving_mean(recent, counts[LOSSES])
    return float(reals[EPSILON])


@inlined
def remember(recent: FloatArray, counts: IntArray, reals: FloatArray, loss: float) -> None:
    """Add a loss to the ring and to the mean."""
    recent[counts[LOSSES] % recent.shape[0]] = loss
    counts[LOSSES] += 1
    mean = reals[MEAN_LOSS]
    mean += max(LOSS_MEMORY, 1.0 / counts[LOSSES]) * (loss - mean)
    reals[MEAN_LOSS] = mean


@inlined
def steer(reals: FloatArray, informative: bool, admitted: float) -> None:
    """Steer ε towards the target rate."""
    error = (1.0 if informative else 0.0) - admitted
    reals[EPSILON] = max(0.0, reals[EPSILON] + CONTROL_GAIN * reals[MEAN_LOSS] * error)


@compiled
def paper_features(
    factor: FloatArray, size: int, q: FloatArray, out: FloatArray, root: FloatArray
) -> None:
    """Write K_S^{1/2}Aq (Remark 4) to out, given Aᵀ; `root` holds K_S^{1/2}."""
    for j in range(size):
        along = 0.0
        for c in range(factor.shape[0]):
            along += factor[c, j] * q[c]
        for i in range(size):
            out[i] += root[i, j] * along


@compiled
def gram_root(gram: FloatArray, size: int) -> FloatArray:
    """Return K_S^{1/2} of the first `size` stored rows, zeros if K_S is not finite."""
    root = np.zeros((size, size))
    matrix = gram[:size, :size].copy()
    # Only a state that no rows have made is not: the library would raise an error.
    if not np.isfinite(matrix).all():
        return root
    values, vectors = np.linalg.eigh(matrix)
    for c in range(size):
        weight = np.sqrt(max(values[c], 0.0))
        for i in range(size):
            for j in range(size):
                root[i, j] += weight * vectors[i, c] * vectors[j, c]
    return root
