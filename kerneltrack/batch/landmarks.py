"""Landmarks: the few rows of a batch whose span in feature space holds the others best.

| method | what it does |
|---|---|
| bcd-pg, bcd-ex | block coordinate descent on the row-sparse cost (`row_sparse`): rows that stay |
| kmeans | the rows next to the centres of k-means (improved Nyström) |
| uniform | distinct rows, drawn uniformly (Nyström) |

The descents start from `count` rows, drawn uniformly or next to k-means centres, each with a random
row of A, N(0, 1)/√r. Of the rows that stay the `count` heaviest are the landmarks.

References: F. Sheikholeslami, G. B. Giannakis, "Scalable kernel-based learning via low-rank
approximation of lifted data", Allerton Conf., 2017; K. Zhang, I. Tsang, J. Kwok, "Improved Nyström
low-rank approximation and error analysis", ICML 2008; C. Williams, M. Seeger, "Using the Nyström
method to speed up kernel machines", NIPS 2001.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.batch.landmark_spec import DESCENT, MAX_ROWS, LandmarkSpec
from kerneltrack.batch.row_sparse import EXACT, PROXIMAL, Descent, solve_q, start_descent, sweep
from kerneltrack.errors import ConfigError
from kerneltrack.kernels import gram, make_kernel, median_bandwidth
from kerneltrack.specs import NEEDS_BANDWIDTH
from kerneltrack.trackers.common import scaling

__all__ = ["LandmarkSpec", "Landmarks", "choose_landmarks", "span_error"]


"""Rows that a choice can take: K of so many has 3.2 GB."""
AUTO_PENALTY = 0.2
"""The penalty "auto", in the largest (2/N)‖Qk_i‖ of the start. From .1 to .3 a few times as many
rows stay as the start has; near 1 rows that stand for whole clusters go, and with them the part
of Q that could bring them back."""
FLAT = 1e-12
"""Directions of the landmarks' span below this part of the largest are rounding noise."""


class Landmarks(NamedTuple):
    """The chosen rows.

    Attributes:
        indices: (m,) places of the landmarks among the rows, ascending, m <= count.
        rows: (m, D) the landmarks as they were given.
        weights: (m,) ‖a_i‖√κ_ii of a descent, ones for the other methods.
        shift: (D,) centre over scale, as the trackers use it.
        scale: (D,) standard deviation.
        gamma: The bandwidth in force.
        penalty: η in force, 0 for the other methods.
        objective: (sweeps,) the cost after each sweep at that penalty.
        residual: Mean squared distance of φ(x) from the landmarks' span, over all rows.
        mismatch: (1/N)‖K - K̂‖_F with K̂ of the projections on the landmarks' span.
    """

    indices: IntArray
    rows: FloatArray
    weights: FloatArray
    shift: FloatArray
    scale: FloatArray
    gamma: float
    penalty: float
    objective: FloatArray
    residual: float
    mismatch: float


def choose_landmarks(spec: LandmarkSpec, rows: npt.ArrayLike) -> Landmarks:
    """Choose landmarks among the rows.

    Args:
        spec: The settings.
        rows: Shape (N, D), finite, 1 <= N <= 20,000.

    Returns:
        The landmarks; the same for the same arguments. Cost O(N²D) for K, O(N²r) a sweep, 8N²
        bytes.

    Raises:
        ConfigError: for rows of another shape, or that are not finite.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(60, 2))
        >>> chosen = choose_landmarks(LandmarkSpec(method="bcd-ex", count=8, rank=4), rows)
        >>> len(chosen.indices) <= 8, bool((np.diff(chosen.objective) <= 1e-12).all())
        (True, True)
    """
    data = np.ascontiguousarray(rows, dtype=np.float64)
    if data.ndim != 2 or not 1 <= len(data) <= MAX_ROWS or data.shape[1] < 1:
        raise ConfigError("rows", data.shape, f"of shape (1 <= N <= {MAX_ROWS}, D >= 1)")
    if not np.isfinite(data).all():
        raise ConfigError("rows", "NaN or infinite values", "finite")
    scale = (
        scaling.standard_scaling(data, math.inf)
        if spec.standardise
        else scaling.no_scaling(data.shape[1])
    )
    scaled = scaling.apply_scaling(scale, data, math.inf)
    gamma = 1.0
    if spec.kernel in NEEDS_BANDWIDTH:
        named = isinstance(spec.gamma, str)
        gamma = median_bandwidth(spec.kernel, scaled) if named else float(spec.gamma)
    kernel = make_kernel(spec.kernel, gamma, spec.degree, spec.offset)
    full = gram(kernel, scaled, scaled)
    if not np.isfinite(full).all():
        raise ConfigError("rows", "values too large for the kernel", "smaller, or standardised")
    penalty, objective = 0.0, np.zeros(0)
    if spec.method in DESCENT:
        indices, weights, penalty, objective = _descend(spec, full, scaled)
    else:
        chosen = _by_kmeans(spec, scaled) if spec.method == "kmeans" else _uniform(spec, scaled)
        indices, weights = chosen, np.ones(len(chosen))
    residual, mismatch = span_error(full, indices)
    return Landmarks(
        indices,
        data[indices],
        weights,
        scale.shift,
        scale.scale,
        gamma,
        penalty,
        objective,
        residual,
        mismatch,
    )


def span_error(full: FloatArray, indices: IntArray) -> tuple[float, float]:
    """Return mean residual and kernel mismatch of the projection on some rows' span.

    K̂ = K_NS K_SS⁺ K_SN. Since K - K̂ is positive semidefinite, the mismatch (1/N)‖K - K̂‖_F is at
    most the residual tr(K - K̂)/N.
    """
    if not len(indices):
        return float(np.trace(full)) / len(full), float(np.linalg.norm(full)) / len(full)
    values, vectors = eigh(full[np.ix_(indices, indices)])
    kept = values > FLAT * values[-1]
    basis = full[:, indices] @ (vectors[:, kept] / np.sqrt(values[kept]))
    rest = full - basis @ basis.T
    return max(float(np.trace(rest)) / len(full), 0.0), float(np.linalg.norm(rest)) / len(full)


def _uniform(spec: LandmarkSpec, scaled: FloatArray) -> IntArray:
    """Draw distinct rows, as many as there are up to `count`."""
    _, places = np.unique(scaled, axis=0, return_index=True)
    count = min(spec.count, len(places))
    drawn = np.random.default_rng(spec.seed).choice(np.sort(places), count, replace=False)
    return np.sort(drawn).astype(np.int64)


def _by_kmeans(spec: LandmarkSpec, scaled: FloatArray) -> IntArray:
    """Return the row next to each centre of k-means, each row once."""
    try:
        from sklearn.cluster import KMeans  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError("method", "kmeans", "another: it needs scikit-learn") from error
    distinct = len(np.unique(scaled, axis=0))
    fitted = KMeans(min(spec.count, distinct), n_init=1, random_state=spec.seed).fit(scaled)
    squares = np.einsum("nd,nd->n", scaled, scaled)
    taken: set[int] = set()
    for centre in fitted.cluster_centers_:
        taken.add(int(np.argmin(squares - 2.0 * (scaled @ centre))))
    return np.array(sorted(taken), dtype=np.int64)


def _descend(
    spec: LandmarkSpec, full: FloatArray, scaled: FloatArray
) -> tuple[IntArray, FloatArray, float, FloatArray]:
    """Run a descent; return the rows that stay, their weights, the penalty and the objectives."""
    start = _by_kmeans(spec, scaled) if spec.start == "kmeans" else _uniform(spec, scaled)
    rank = min(spec.rank, len(start))
    factor = np.zeros((len(full), rank))
    drawn = np.random.default_rng(spec.seed).standard_normal((len(start), rank))
    factor[start] = drawn / math.sqrt(rank)
    descent = start_descent(full, factor)
    automatic = isinstance(spec.penalty, str)
    penalty = _penalty(spec, descent) if automatic else float(spec.penalty)
    method = EXACT if spec.method == "bcd-ex" else PROXIMAL
    objectives = []
    for _ in range(spec.sweeps):
        objective, change = sweep(descent, method, penalty, spec.ridge)
        objectives.append(objective)
        if change <= spec.tolerance or not descent.factor.any():
            break
    norms = np.linalg.norm(descent.factor, axis=1) * np.sqrt(np.maximum(np.diag(full), 0.0))
    kept = _heaviest(norms, scaled, spec.count)
    return kept, norms[kept], penalty, np.array(objectives)


def _penalty(spec: LandmarkSpec, descent: Descent) -> float:
    """Return the penalty "auto": a part of that above which no row would enter a zero factor."""
    first = descent._replace(q=np.empty_like(descent.q))
    solve_q(first, spec.ridge)
    slopes = np.linalg.norm(first.q @ descent.gram, axis=0)
    steepest = 2.0 / len(descent.gram) * float(slopes.max())
    return AUTO_PENALTY * steepest if steepest > 0 else 1.0


def _heaviest(norms: FloatArray, scaled: FloatArray, count: int) -> IntArray:
    """Return the places of the heaviest rows that are not zero; of equal rows only the first."""
    order = np.argsort(-norms, kind="stable")[: np.count_nonzero(norms)]
    _, first = np.unique(scaled[order], axis=0, return_index=True)
    return np.sort(order[np.sort(first)[:count]]).astype(np.int64)
