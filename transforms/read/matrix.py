"""Feature columns of a record batch as one matrix, and its rows that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MAX_MAGNITUDE = 1e100
"""Greatest absolute value of a feature: its square still leaves room for sums."""


@dataclass(frozen=True)
class Feature:
    """A column of the input that gives one channel, or several.

    Attributes:
        name: Name of the column.
        width: None for a column of numbers, else the length of its fixed-size lists.
        keep: Which numbers of each list are channels; None: all.
    """

    name: str
    width: int | None = None
    keep: tuple[int, ...] | None = None

    @property
    def channels(self) -> tuple[str, ...]:
        """Return the channels' names: `x`, or `x[0]`, `x[1]` ... of a list."""
        if self.width is None:
            return (self.name,)
        return tuple(f"{self.name}[{i}]" for i in self.keep or range(self.width))


def to_matrix(
    batch: pa.RecordBatch, features: Sequence[Feature], dtype: npt.DTypeLike
) -> npt.NDArray[np.floating]:
    """Fill a matrix with the features; null becomes NaN.

    Args:
        batch: Rows, n of them.
        features: Columns to take, D channels in all.
        dtype: float32 or float64.

    Returns:
        Shape (n, D), row-major.
    """
    if len(features) == 1 and features[0].width is not None and features[0].keep is None:
        only = _numbers(batch.column(features[0].name), features[0])
        return np.ascontiguousarray(only, dtype=dtype)
    width = sum(len(feature.channels) for feature in features)
    matrix = np.empty((batch.num_rows, width), dtype=dtype)
    start = 0
    for feature in features:
        values = _numbers(batch.column(feature.name), feature)
        if feature.keep is not None:
            values = values[:, list(feature.keep)]
        matrix[:, start : start + values.shape[1]] = values
        start += values.shape[1]
    return matrix


def refused_rows(matrix: npt.NDArray[np.floating], hold: bool) -> npt.NDArray[np.int64]:
    """Return the rows with a value that is missing, infinite or over `MAX_MAGNITUDE`.

    Args:
        matrix: Shape (n, D).
        hold: Whether NaN is let through, to be replaced later.
    """
    if not matrix.size:
        return np.empty(0, dtype=np.int64)
    limit = matrix.dtype.type(min(MAX_MAGNITUDE, float(np.finfo(matrix.dtype).max)))
    # NaN passes through both reductions, so that clean input costs two vectorised passes.
    if matrix.max() <= limit and matrix.min() >= -limit:
        return np.empty(0, dtype=np.int64)
    usable = np.abs(matrix) <= limit
    if hold:
        usable |= np.isnan(matrix)
    return np.flatnonzero(~usable.all(axis=1))


def refusal(values: npt.NDArray[np.floating], channels: Sequence[str], hold: bool) -> str:
    """Return which value of a refused row is the first that cannot be used, and why."""
    for channel, value in zip(channels, values.tolist(), strict=True):
        if np.isnan(value):
            if not hold:
                return f"{channel} = nan: missing value"
        elif np.isinf(value):
            return f"{channel} = {value}: not finite"
        elif abs(value) > MAX_MAGNITUDE:
            return f"{channel} = {value:.17g}: magnitude over {MAX_MAGNITUDE:g}"
    raise ValueError("every value of the row can be used")


def _numbers(array: pa.Array, feature: Feature) -> npt.NDArray[np.floating]:
    """Return a column as shape (n, 1), or (n, width) for fixed-size lists."""
    if feature.width is None:
        return _flat(array)[:, None]
    size = feature.width
    # flatten() would leave out the lists that are null.
    first = array.offset * size
    values = _flat(array.values.slice(first, len(array) * size)).reshape(len(array), size)
    if array.null_count:
        values = np.where(array.is_null().to_numpy(zero_copy_only=False)[:, None], np.nan, values)
    return values


def _flat(array: pa.Array) -> npt.NDArray[np.floating]:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if (
        pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
        or (array.null_count and not pa.types.is_floating(kind))
    ):
        array = array.cast(pa.float64())
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    result: npt.NDArray[np.floating] = array.to_numpy(zero_copy_only=False)
    return result
