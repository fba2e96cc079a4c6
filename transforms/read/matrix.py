"""Feature columns of a record batch as one matrix, and its rows that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from transforms.read.kinds import flat, is_text, value_type
from transforms.read.numbers import Numbers, values_of

MAX_MAGNITUDE = 1e100
"""Greatest absolute value of a feature: its square still leaves room for sums."""


@dataclass(frozen=True)
class Feature:
    """A column of the input that gives one channel, or several.

    Attributes:
        name: Name of the column.
        width: None for a column of numbers, else the length of its fixed-size lists.
        keep: Which numbers of each list are channels; None: all.
        numbers: How its numbers are written where they are texts; None: they are no texts.
    """

    name: str
    width: int | None = None
    keep: tuple[int, ...] | None = None
    numbers: Numbers | None = None

    @property
    def channels(self) -> tuple[str, ...]:
        """Return the channels' names: `x`, or `x[0]`, `x[1]` ... of a list."""
        if self.width is None:
            return (self.name,)
        return tuple(f"{self.name}[{i}]" for i in self.keep or range(self.width))


class Unread(NamedTuple):
    """The texts of a column that are no numbers.

    Attributes:
        name: The column.
        values: All of its values.
        rows: (n,) which of them.
        why: What they are not.
    """

    name: str
    values: pa.Array
    rows: npt.NDArray[np.bool_]
    why: str


def read_texts(
    batch: pa.RecordBatch, features: Sequence[Feature]
) -> tuple[pa.RecordBatch, list[Unread]]:
    """Read the features that are written as texts, and return which texts are no numbers.

    Returns:
        The batch with float64 in their place, NaN where a text is missing or no number.
    """
    unread = []
    for feature in features:
        at = batch.schema.get_field_index(feature.name)
        if feature.numbers is None or not is_text(value_type(batch.schema.field(at).type)):
            continue
        values = batch.column(at)
        found, wrong = values_of(values, feature.numbers)
        batch = batch.set_column(at, feature.name, pa.array(found))
        if wrong.any():
            unread.append(Unread(feature.name, values, wrong, feature.numbers.meaning))
    return batch, unread


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
        return flat(array)[:, None]
    size = feature.width
    # flatten() would leave out the lists that are null.
    first = array.offset * size
    values = flat(array.values.slice(first, len(array) * size)).reshape(len(array), size)
    if array.null_count:
        values = np.where(array.is_null().to_numpy(zero_copy_only=False)[:, None], np.nan, values)
    return values
