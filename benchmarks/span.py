"""What the subspace of a state can represent, without the ridge of the tracker's own features."""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneltrack.arrays import FloatArray

RANK_TOLERANCE = 1e-10
"""A direction of which less than this is new counts as rounding."""


def span_features(state: Any, k: FloatArray) -> FloatArray:
    """Return coordinates of rows' projections on the span of L = Φ_S A, a column each.

    Columns of A are scaled to a length of 1 first; directions that are only rounding are left out.

    Args:
        state: Of OK-FEB or OK-FE.
        k: Shape (SVs, n), κ(S, X).
    """
    factor = state.factor[:, : state.size]
    inner = factor @ state.gram[: state.size, : state.size] @ factor.T
    lengths = np.sqrt(np.maximum(np.diag(inner), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(inner / np.outer(lengths, lengths))
    known = values > RANK_TOLERANCE
    along = vectors[:, known].T @ (factor @ k / lengths[:, None])
    return np.asarray(along / np.sqrt(values[known])[:, None])
