"""How far a row lies from the mean of those before it, in random features: a peer of the loss.

With D random Fourier features φ of the Gaussian kernel, the row's squared distance from the running
mean embedding,

    s = ‖φ(x) - μ‖²,  μ ← μ + (φ(x) - μ)/h,

is the maximum mean discrepancy of one row against the last h. Rows are scaled by the mean and the
deviation of those before them, as a tracker scales them; the bandwidth is the median trick's on the
first `FIRST`.

References: A. Gretton, K. Borgwardt, M. Rasch, B. Schölkopf, A. Smola, "A kernel two-sample test",
JMLR 13, 2012; F. Kalinke, S. Gavioli-Akilagun, "Optimal online change detection via random Fourier
features", arXiv 2505.17789, 2025 (theirs compares windows of growing length; this one forgets).
"""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter

from kerneltrack.arrays import FloatArray
from kerneltrack.kernels import median_bandwidth

FEATURES, FIRST, SETTLE, FAR = 100, 2_000, 500, 50.0
"""Features D; rows of the bandwidth; rows of the first scale; the most that a channel counts."""


def discrepancies(rows: FloatArray, memory: int, seed: int = 0) -> FloatArray:
    """Return s of each row.

    Args:
        rows: Shape (n, channels).
        memory: h.
        seed: Draws the features.
    """
    scaled = _scaled(rows)
    gamma = median_bandwidth("gaussian", np.ascontiguousarray(scaled[:FIRST:4]))
    rng = np.random.default_rng(seed)
    omega = rng.normal(scale=np.sqrt(2.0 / gamma), size=(FEATURES // 2, rows.shape[1]))
    angles = scaled @ omega.T
    features = np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(FEATURES // 2)
    keep = 1.0 - 1.0 / memory
    sums = lfilter([1.0 / memory], [1.0, -keep], features, axis=0)
    means = sums / (1.0 - keep ** np.arange(1, len(rows) + 1))[:, None]
    before = np.vstack([features[:1], means[:-1]])
    return np.asarray(((features - before) ** 2).sum(axis=1))


def _scaled(rows: FloatArray) -> FloatArray:
    """Scale each row by those before it, the first ones by one another."""
    count = np.arange(1, len(rows) + 1)[:, None]
    mean = np.cumsum(rows, axis=0) / count
    variance = np.cumsum(rows**2, axis=0) / count - mean**2
    place = np.maximum(np.arange(len(rows)) - 1, min(SETTLE, len(rows) - 1))
    spread = np.sqrt(np.maximum(variance[place], 1e-12))
    return np.asarray(np.clip((rows - mean[place]) / spread, -FAR, FAR))
