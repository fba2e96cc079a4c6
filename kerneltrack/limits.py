"""What may stand in a state that comes as bytes: the limits of all that leads a loop.

The row loops are C and check no index: they reach where a state's counts send them. So a count is
held against its limits here, where bytes become a state, whoever wrote them. What a loop only
computes with may be anything: the worst that it does is to make features that say nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError

MOST = 2**62
"""Largest count of a state that goes on: rows of a lifetime do not carry it past an int64."""
MOST_GIVEN = 2**53
"""Largest count of a state that is given from outside: whatever comes of it stays below `MOST`."""
TIME_LIMIT = 9_000_000_000_000_000_000
"""Greatest distance of a row's time from 1970 in ns (years 1684 to 2255): what is left of an int64
is room for sums with intervals."""

Arrays = Mapping[str, npt.NDArray[Any]]


class Limit(NamedTuple):
    """The range of one count.

    Attributes:
        name: What is counted, for the error.
        place: Its place among the counts.
        most: The largest that may be, inclusive.
        least: The smallest.
    """

    name: str
    place: int
    most: int
    least: int = 0


def check_counts(field: str, counts: npt.NDArray[np.int64], *limits: Limit) -> None:
    """Check that all counts are from 0 to `MOST`, and some of them in a range of their own.

    Args:
        field: Name of the array, for the error.
        counts: (..., k) the counts of a state, or of several.
        limits: The narrower ranges.

    Raises:
        ConfigError: naming the count, its value and its range.
    """
    check_whole(field, counts)
    for limit in limits:
        own = counts[..., limit.place]
        check_whole(f"{field}, {limit.name}", own, limit.least, limit.most)


def check_whole(
    field: str,
    numbers: npt.NDArray[np.int64],
    least: int = 0,
    most: int | npt.NDArray[np.int64] = MOST,
) -> None:
    """Check that all numbers are from `least` to `most`, which may be an array like them.

    Raises:
        ConfigError: naming the first that is not, and the range.
    """
    wrong = (numbers < least) | (numbers > most)
    if np.count_nonzero(wrong):
        largest = np.broadcast_to(most, wrong.shape)[wrong].flat[0]
        raise ConfigError(field, int(numbers[wrong].flat[0]), f"{least} to {largest}")


def check_given(field: str, counts: npt.NDArray[np.int64]) -> None:
    """Check that counts from outside leave room for the rows that are to come."""
    check_whole(field, counts, most=MOST_GIVEN)


def check_positive(field: str, reals: npt.NDArray[np.float64]) -> None:
    """Check that all numbers are finite and above 0: rows are divided by them.

    Raises:
        ConfigError: naming the first that is not.
    """
    _refuse(field, reals, ~((reals > 0.0) & (reals < math.inf)), "finite and > 0")


def check_not_negative(field: str, reals: npt.NDArray[np.float64]) -> None:
    """Check that all numbers are finite and at least 0.

    Raises:
        ConfigError: naming the first that is not.
    """
    _refuse(field, reals, ~((reals >= 0.0) & (reals < math.inf)), "finite and >= 0")


def check_finite(field: str, reals: npt.NDArray[np.float64]) -> None:
    """Check that all numbers are finite.

    Raises:
        ConfigError: naming the first that is not.
    """
    _refuse(field, reals, ~np.isfinite(reals), "finite")


def _refuse(
    field: str, reals: npt.NDArray[np.float64], wrong: npt.NDArray[np.bool_], allowed: str
) -> None:
    if np.count_nonzero(wrong):
        raise ConfigError(field, float(reals[wrong].flat[0]), allowed)


class ArrayForm(NamedTuple):
    """Shape and type of an array, without its room: a damaged state may claim any size."""

    shape: tuple[int, ...]
    dtype: type[np.generic] = np.float64

    def zeros(self) -> npt.NDArray[Any]:
        """Return such an array."""
        return np.zeros(self.shape, dtype=self.dtype)


def real(*shape: int) -> ArrayForm:
    """Return what an array of reals is like."""
    return ArrayForm(shape)


def whole(*shape: int) -> ArrayForm:
    """Return what an array of whole numbers is like."""
    return ArrayForm(shape, np.int64)


def likes(arrays: Arrays) -> dict[str, ArrayForm]:
    """Return what the arrays are like."""
    return {name: ArrayForm(array.shape, array.dtype.type) for name, array in arrays.items()}


def copies_like(
    part: str,
    arrays: Arrays,
    layout: Mapping[str, ArrayForm],
    growing: tuple[str, ...] = (),
    of: tuple[int, ...] = (),
) -> dict[str, npt.NDArray[Any]]:
    """Return copies of arrays by name, each of the type and shape that the layout gives it.

    Args:
        part: What they are of, for the errors.
        arrays: The arrays. Reals may be of single precision.
        layout: What they must be like.
        growing: Names of those whose first length is free.
        of: Lengths before those of the layout: (m,) for columns of m states.

    Raises:
        ConfigError: for other names, other shapes, or whole numbers of another type.
    """
    if set(arrays) != set(layout):
        odd = sorted(set(arrays) ^ set(layout))
        raise ConfigError(part, odd, f"exactly {', '.join(layout)}")
    for name, (shape, dtype) in layout.items():
        array, free, lengths = arrays[name], int(name in growing), (*of, *shape)
        if array.ndim != len(lengths) or array.shape[free:] != lengths[free:]:
            raise ConfigError(f"{part}.{name}", array.shape, f"of shape {shape}")
        if dtype is np.int64 and array.dtype != np.int64:
            raise ConfigError(f"{part}.{name}", str(array.dtype), "int64")
    return {name: np.array(arrays[name], dtype=dtype) for name, (_, dtype) in layout.items()}
