"""The kernel recursive least-squares tracker (KRLS-T): a peer of our regressors.

A Gaussian process on at most M stored rows whose posterior is forgotten back to the prior ("B2P"):
with K, b = k(stored, x), Q = K⁻¹, q = Qb, the row x with target y does

    Σ ← λΣ + (1 - λ)K,  μ ← √λ·μ
    ŷ = qᵀμ,  γ² = k(x, x) - bᵀq,  h = Σq,  s_f = γ² + qᵀh,  s_y = s + s_f
    μ ← [μ; ŷ] + (y - ŷ)/s_y·[h; s_f],  Σ ← [[Σ, h], [hᵀ, s_f]] - [h; s_f][h; s_f]ᵀ/s_y

and adds x to the stored rows, Q growing by one; behind M rows, the one goes that changes the
posterior mean least, min |(Qμ)_i|/Q_ii, or x itself where γ² is nothing. O(M²) a row.

Reference: S. Van Vaerenbergh, M. Lázaro-Gredilla, I. Santamaría, "Kernel recursive least-squares
tracker for time-varying regression", IEEE Trans. Neural Networks and Learning Systems 23(8), 2012,
Algorithm 1 and section V; as in the authors' toolbox (kafbox).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import numpy as np

from kerneltrack.arrays import FloatArray

S = TypeVar("S")

JITTER = 1e-6
"""Added to the diagonal of K; a smaller γ² counts as nothing."""
CHOSEN_BY = 1_000
"""First rows by which the setting is chosen."""


class Setting(NamedTuple):
    """What KRLS-T is told.

    Attributes:
        width: σ of exp(-‖x - x'‖²/2σ²), in medians of the first rows' distances.
        noise: s, variance of the noise, in that of the targets.
        memory: λ.
    """

    width: float
    noise: float
    memory: float


SETTINGS = tuple(
    Setting(*values)
    for values in itertools.product((0.5, 1.0, 2.0), (0.003, 0.03, 0.3), (1.0, 0.999, 0.99))
)


def median_distance(rows: FloatArray) -> float:
    """Return the median distance of rows."""
    squares = (rows**2).sum(axis=1)
    gaps = squares[:, None] + squares - 2.0 * rows @ rows.T
    return float(np.sqrt(np.median(np.maximum(gaps[np.triu_indices(len(rows), 1)], 0.0))))


def krls_tracker(
    rows: FloatArray, targets: FloatArray, budget: int, sigma: float, noise: float, memory: float
) -> FloatArray:
    """Return what KRLS-T predicts of each row before it learns it.

    Args:
        rows: Shape (n, D).
        targets: (n,), of mean 0 and variance 1 or so.
        budget: M.
        sigma: Width of the kernel.
        noise: s.
        memory: λ.
    """
    stored = np.zeros((budget + 1, rows.shape[1]))
    stored[0], count = rows[0], 1
    within = 1.0 + JITTER
    inverse = np.array([[1.0 / within]])
    mean = np.array([targets[0] * within / (within + noise)])
    cover = np.array([[within - within**2 / (within + noise)]])
    kernel = np.array([[within]])
    predictions = np.zeros(len(rows))
    for n in range(1, len(rows)):
        x, y = rows[n], targets[n]
        cover = memory * cover + (1.0 - memory) * kernel
        mean = np.sqrt(memory) * mean
        near = np.exp(-((stored[:count] - x) ** 2).sum(axis=1) / (2.0 * sigma**2))
        q = inverse @ near
        predictions[n] = q @ mean
        rest = max(within - float(near @ q), 0.0)
        h = cover @ q
        spread = rest + float(q @ h)
        # Of a row that the stored ones explain only the posterior at them moves.
        if rest < JITTER * 10:
            mean = mean + (y - predictions[n]) / (noise + spread) * h
            cover = cover - np.outer(h, h) / (noise + spread)
            continue
        column = np.append(h, spread)
        before, p = inverse, np.append(q, -1.0)
        inverse = np.pad(before, (0, 1)) + np.outer(p, p) / rest
        mean = np.append(mean, predictions[n]) + (y - predictions[n]) / (noise + spread) * column
        cover = np.pad(cover, (0, 1))
        cover[-1], cover[:, -1] = column, column
        cover -= np.outer(column, column) / (noise + spread)
        kernel = np.pad(kernel, (0, 1))
        kernel[-1, :-1], kernel[:-1, -1], kernel[-1, -1] = near, near, within
        stored[count] = x
        count += 1
        if count <= budget:
            continue
        out = int(np.argmin(np.abs(inverse @ mean) / np.diag(inverse)))
        keep = np.delete(np.arange(count), out)
        if out == count - 1:
            inverse = before
        else:
            line = inverse[keep, out]
            inverse = inverse[np.ix_(keep, keep)] - np.outer(line, line) / inverse[out, out]
        mean, cover, kernel = mean[keep], cover[np.ix_(keep, keep)], kernel[np.ix_(keep, keep)]
        count -= 1
        stored[:count] = stored[keep]
    return predictions


def least_error(
    settings: Iterable[S], run: Callable[[S, int], FloatArray], targets: FloatArray
) -> S:
    """Return the setting with which so many first rows are predicted with least error."""

    def error(setting: S) -> float:
        found = float(np.mean((run(setting, CHOSEN_BY) - targets[:CHOSEN_BY]) ** 2))
        return found if np.isfinite(found) else np.inf

    return min(settings, key=error)


def tuned_tracker(rows: FloatArray, targets: FloatArray, budget: int) -> tuple[FloatArray, Setting]:
    """Return what KRLS-T predicts with the setting that has least error on the first rows.

    Args:
        rows: Shape (n, D), scaled.
        targets: (n,), scaled.
        budget: M.
    """
    median = median_distance(rows[:500])

    def run(setting: Setting, count: int) -> FloatArray:
        sigma = setting.width * median
        reported = rows[:count], targets[:count]
        return krls_tracker(*reported, budget, sigma, setting.noise, setting.memory)

    best = least_error(SETTINGS, run, targets)
    return run(best, len(rows)), best
