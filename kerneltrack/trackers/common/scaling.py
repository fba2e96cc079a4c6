"""What a model learns from its first rows before it tracks: centre, scale and bandwidth."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import FloatArray

MAD_TO_DEVIATION = 1.4826
"""Median absolute deviation to standard deviation, for normal data."""

ROUNDED = 4 * float(np.finfo(np.float32).eps)
"""Spread over centre of a channel that only rounds a constant: four steps of single precision, in
which most recordings are kept. Made one deviation wide, such noise would lead the kernel."""


class Scaling(NamedTuple):
    """A row x is tracked as x/scale - shift, clipped to ±clip standard deviations.

    Attributes:
        shift: Centre over scale, shape (D,).
        scale: Standard deviation, shape (D,), > 0.
    """

    shift: FloatArray
    scale: FloatArray


def no_scaling(width: int) -> Scaling:
    """Return the scaling that leaves rows as they are."""
    return Scaling(np.zeros(width), np.ones(width))


def standard_scaling(rows: FloatArray, clip: float) -> Scaling:
    """Return mean and standard deviation of the rows, safe for any finite values.

    With a finite `clip` the statistics are those of the rows clipped to
    median ± clip · (1.4826 median absolute deviations), so that an outlier among the first rows
    does not flatten all later ones.

    Args:
        rows: Shape (n, D), finite, n >= 1; of several models (m, n, D), D >= 2: the same bits,
            since NumPy adds rows up in their order either way.
        clip: In standard deviations; infinity keeps outliers.

    Returns:
        The scaling. A channel without spread, or with no more than `ROUNDED`, keeps scale 1.

    Example:
        >>> standard_scaling(np.array([[1.0], [3.0]]), np.inf).scale.tolist()
        [1.0]
    """
    largest = np.abs(rows).max(axis=-2, keepdims=True)
    # Divided by the largest value first: squares of values around 1e200 would overflow.
    unit = np.where(largest > 0, largest, 1.0)
    units = rows / unit
    if np.isfinite(clip):
        middle = np.median(units, axis=-2, keepdims=True)
        spread = MAD_TO_DEVIATION * np.median(np.abs(units - middle), axis=-2, keepdims=True)
        reach = np.where(spread > 0, clip * spread, np.inf)
        units = np.clip(units, middle - reach, middle + reach)
    # As `mean` and `std` work it out, without what they ask first: models may have few rows.
    centre = np.add.reduce(units, axis=-2, keepdims=True) / rows.shape[-2]
    apart = units - centre
    deviation = np.sqrt(np.add.reduce(apart * apart, axis=-2, keepdims=True) / rows.shape[-2])
    flat = deviation <= ROUNDED * np.maximum(np.abs(centre), np.finfo(np.float64).tiny)
    scale = np.where(flat, 1.0, deviation * unit)
    scale = np.where(scale > 0, scale, 1.0)
    return Scaling((centre * unit / scale)[..., 0, :], scale[..., 0, :])


def apply_scaling(scaling: Scaling, rows: FloatArray, clip: float) -> FloatArray:
    """Return x/scale - shift of each row, clipped, as the row loop does it."""
    scaled: FloatArray = rows / scaling.scale - scaling.shift
    return scaled if clip == math.inf else np.clip(scaled, -clip, clip)
