"""Columns of a batch as NumPy arrays, with numbers in place of texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from transforms.read.kinds import codes_of, encode

_LEAST_P = 1e-300


def array_of(batch: pa.RecordBatch, name: str) -> npt.NDArray[Any]:
    """Return a column as a NumPy array; null is NaN."""
    return cast("npt.NDArray[Any]", batch.column(name).to_numpy(zero_copy_only=False))


def times_of(column: pa.Array) -> IntArray:
    """Return times without nulls in ns since 1970."""
    nanoseconds = column.cast(pa.timestamp("ns", tz=column.type.tz)).cast(pa.int64())
    return cast(IntArray, nanoseconds.to_numpy(zero_copy_only=False))


def surprise_of(batch: pa.RecordBatch) -> tuple[BoolArray, FloatArray]:
    """Return which rows have a p, and -log₁₀ p of all, 0 where there is none."""
    p = array_of(batch, "p")
    compared = np.isfinite(p)
    return compared, -np.log10(np.maximum(np.where(compared, p, 1.0), _LEAST_P))


def numbered(column: pa.Array, number: Callable[[Any], int]) -> IntArray:
    """Return a number for each row, -1 for null.

    Args:
        column: Values, dictionary-encoded or not.
        number: Gives the number of a value; it is asked once for each that the rows have.
    """
    encoded = encode(column)
    places = codes_of(encoded)
    size = len(encoded.dictionary)
    used = np.flatnonzero(np.bincount(places, minlength=size)[:size])
    numbers = np.full(size + 1, -1)
    numbers[used] = [number(value) for value in encoded.dictionary.take(pa.array(used)).to_pylist()]
    return numbers[places]


def model_numbers(batch: pa.RecordBatch, known: dict[str, int]) -> IntArray:
    """Return each row's model as a number; new models are numbered after the known."""
    return numbered(batch.column("model_id"), lambda name: known.setdefault(name, len(known)))


def mean_of(total: npt.NDArray[Any], count: npt.NDArray[Any]) -> FloatArray:
    """Return the mean of each sum, NaN where nothing was counted."""
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
