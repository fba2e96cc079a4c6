"""Kernel recursive least squares with approximate linear dependency (ALD-KRLS): a peer.

Least squares on the rows that are stored, the others by what these say of them. With K, k =
k(stored, x), a = K⁻¹k, δ = k(x,x) - kᵀa and e = y - kᵀα, a row with δ > ν is stored,

    K⁻¹ grows by x,  α ← [α - a e/δ; e/δ],  P ← [[P, 0], [0, 1]],

and each other one moves the weights,

    q = Pa/(1 + aᵀPa),  P ← P - q aᵀP,  α ← α + K⁻¹q e.

Nothing is forgotten. It has no budget of its own; where M rows are stored, further ones count as
dependent, whatever their δ. O(M²) a row.

Reference: Y. Engel, S. Mannor, R. Meir, "The kernel recursive least-squares algorithm", IEEE Trans.
Signal Processing 52(8), 2004, Fig. 1.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from benchmarks.krls_tracker import JITTER, least_error, median_distance
from kerneltrack.arrays import FloatArray


class Setting(NamedTuple):
    """What ALD-KRLS is told.

    Attributes:
        width: σ of exp(-‖x - x'‖²/2σ²), in medians of the first rows' distances.
        level: ν, in (0, 1): the least part of a row off the others with which it is stored.
    """

    width: float
    level: float


SETTINGS = tuple(
    Setting(*values) for values in itertools.product((0.5, 1.0, 2.0, 4.0), (0.001, 0.01, 0.1, 0.3))
)


def recursive_squares(
    rows: FloatArray, targets: FloatArray, budget: int, sigma: float, level: float
) -> FloatArray:
    """Return what ALD-KRLS predicts of each row before it learns it.

    Args:
        rows: Shape (n, D).
        targets: (n,), of mean 0 and variance 1 or so.
        budget: M.
        sigma: Width of the kernel.
        level: ν.
    """
    stored = np.zeros((budget, rows.shape[1]))
    inverse, cover, weights = np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0)
    predicted = np.zeros(len(rows))
    for n, (x, y) in enumerate(zip(rows, targets.tolist(), strict=True)):
        count = len(weights)
        near = np.exp(-((stored[:count] - x) ** 2).sum(axis=1) / (2.0 * sigma**2))
        along = inverse @ near
        left = 1.0 + JITTER - float(near @ along)
        predicted[n] = float(near @ weights)
        error = y - predicted[n]
        if left > level and count < budget:
            column = np.append(-along, 1.0)
            inverse = np.pad(inverse, (0, 1)) + np.outer(column, column) / left
            weights = np.append(weights, 0.0) + column * error / left
            cover = np.pad(cover, (0, 1))
            cover[-1, -1] = 1.0
            stored[count] = x
            continue
        spread = cover @ along
        gain = spread / (1.0 + float(along @ spread))
        cover = cover - np.outer(gain, spread)
        weights = weights + (inverse @ gain) * error
    return predicted


def tuned_squares(rows: FloatArray, targets: FloatArray, budget: int) -> tuple[FloatArray, Setting]:
    """Return what ALD-KRLS predicts with the setting that has least error on the first rows.

    Args:
        rows: Shape (n, D), scaled.
        targets: (n,), scaled.
        budget: M.
    """
    median = median_distance(rows[:500])

    def run(setting: Setting, count: int) -> FloatArray:
        return recursive_squares(
            rows[:count], targets[:count], budget, setting.width * median, setting.level
        )

    best = least_error(SETTINGS, run, targets)
    return run(best, len(rows)), best
