"""What many models take from their first rows, looked at together.

The bits are those of `look_at` and `standard_scaling`: NumPy adds rows up in their order either
way. Models with many first rows, with one channel or with a clip are worth calls of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.kernels import make_kernel, median_bandwidth
from kerneltrack.native.binding import function, packed
from kerneltrack.trackers.common.calls import FirstRows, look_at
from kerneltrack.trackers.common.places import words_of_each
from kerneltrack.trackers.common.scaling import (
    Scaling,
    apply_scaling,
    no_scaling,
    standard_scaling,
)
from kerneltrack.trackers.common.spec import SubspaceSpec

MOST_TOGETHER = 64
"""First rows of models that are looked at together; more are worth calls of their own."""


def look_at_each(
    spec: SubspaceSpec, rows: FloatArray, starts: IntArray, stops: IntArray
) -> FirstRows:
    """Return `look_at` of the first rows of m models: shift and scale (m, D), bandwidth (m, 1).

    Args:
        spec: The spec.
        rows: (n, D), finite.
        starts: (m,) place of each model's first row.
        stops: (m,) place after the last of its first rows, at least one.
    """
    models, width = len(starts), rows.shape[1]
    found = FirstRows(np.empty((models, width)), np.empty((models, width)), np.ones((models, 1)))
    for of_length, length in _by_length(starts, stops):
        # NumPy adds up a single column in another order.
        if length > MOST_TOGETHER or spec.clip is not None or width < 2:
            for model in of_length.tolist():
                seen = look_at(spec, rows[starts[model] : stops[model]])
                for column, array in zip(found, seen, strict=True):
                    column[model] = array
            continue
        first = rows[starts[of_length, np.newaxis] + np.arange(length)]
        scaling = standard_scaling(first, math.inf) if spec.standardise else no_scaling(width)
        found.shift[of_length], found.scale[of_length] = scaling
        if spec.kernel not in spec.bandwidths:
            continue
        if not isinstance(spec.gamma, str):
            found.bandwidth[of_length] = spec.gamma
        elif length > 1:
            shift, scale = (part[of_length][:, np.newaxis] for part in found[:2])
            scaled = np.ascontiguousarray(apply_scaling(Scaling(shift, scale), first, math.inf))
            found.bandwidth[of_length, 0] = _median_bandwidths(spec.kernel, scaled)
    return found


def scaling_of_each(rows: FloatArray, starts: IntArray, stops: IntArray) -> Scaling:
    """Return `standard_scaling` of the first rows of m models, outliers kept; see `look_at_each`.

    Returns:
        The scaling, shift and scale of shape (m, D).
    """
    found = Scaling(*np.empty((2, len(starts), rows.shape[1])))
    for of_length, length in _by_length(starts, stops):
        if length > MOST_TOGETHER or rows.shape[1] < 2:
            for model in of_length.tolist():
                one = standard_scaling(rows[starts[model] : stops[model]], math.inf)
                found.shift[model], found.scale[model] = one
            continue
        first = rows[starts[of_length, np.newaxis] + np.arange(length)]
        found.shift[of_length], found.scale[of_length] = standard_scaling(first, math.inf)
    return found


def _by_length(starts: IntArray, stops: IntArray) -> Iterator[tuple[IntArray, int]]:
    """Return the models that have so many first rows, for each such number."""
    lengths = stops - starts
    for length in np.unique(lengths).tolist():
        yield np.flatnonzero(lengths == length), length


def _median_bandwidths(name: str, rows: FloatArray) -> FloatArray:
    """Return `median_bandwidth` of each of (m, n, D) rows, n > 1."""
    models, count, _ = rows.shape
    distances = np.empty((models, count * (count - 1) // 2))
    of = packed(make_kernel("laplacian" if name == "laplacian" else "gaussian"))
    measure = function("pair_distances")
    for of_rows, of_distances in zip(words_of_each(rows), words_of_each(distances), strict=True):
        measure(of, of_rows.tobytes(), of_distances.tobytes())
    half = distances.shape[1] // 2
    if distances.shape[1] % 2:
        middle = np.partition(distances, half, axis=1)[:, half]
    else:
        both = np.partition(distances, (half - 1, half), axis=1)
        middle = (both[:, half - 1] + both[:, half]) / 2.0
    odd = ~((middle > 0) & np.isfinite(distances).all(axis=1))
    for model in np.flatnonzero(odd).tolist():
        middle[model] = median_bandwidth(name, rows[model])
    found: FloatArray = middle
    return found
