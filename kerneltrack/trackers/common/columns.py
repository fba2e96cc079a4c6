"""Many states of a tracker at once, read as columns: what `calls.restored` checks, of all together.

What a check costs in Python and NumPy is then paid once a column, not once a state. Nothing is told
of what is wrong with a state: it is left out, and whoever reads it by itself learns why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.limits import MOST, Like, Limit

Columns = dict[str, npt.NDArray[Any]]
BoolArray = npt.NDArray[np.bool_]


def restored_columns(
    fields: Sequence[str],
    columns: Mapping[str, npt.NDArray[Any]],
    layout: Callable[[int], Mapping[str, Like]],
    *limits: Limit,
) -> tuple[Columns, BoolArray] | None:
    """Copy columns of states, and hold each state against what leads the row loops.

    Args:
        fields: Names of a state's arrays.
        columns: The arrays of m states by name, (m, ...), m > 0.
        layout: What those of one state are like for rows of D channels.
        limits: Ranges of single counts.

    Returns:
        Copies of the types of a state, and which of the states are sound, (m,): those that
        `calls.restored` would take. None where names, shapes or types are not a state's.
    """
    if {*columns} != {*fields}:
        return None
    scale = columns["scale"]
    if scale.ndim != 2 or not scale.shape[1]:
        return None
    copies: Columns = {}
    for name, (shape, dtype) in layout(scale.shape[1]).items():
        column = columns[name]
        if column.shape[1:] != shape or (dtype is np.int64 and column.dtype != np.int64):
            return None
        copies[name] = np.array(column, dtype=dtype)
    counts = copies["counts"]
    tests = [within(counts, 0, MOST), np.isfinite(copies["shift"]).all(axis=1)]
    tests += [within(counts[:, limit.place], limit.least, limit.most) for limit in limits]
    for name in ("scale", "bandwidth"):
        if name in copies:
            tests.append(((copies[name] > 0.0) & (copies[name] < math.inf)).all(axis=1))
    sound: BoolArray = np.asarray(np.stack(tests).all(axis=0))
    return copies, sound


def within(numbers: npt.NDArray[np.int64], least: int, most: int) -> BoolArray:
    """Return which states' numbers, (m, ...), are all in a range.

    Example:
        >>> within(np.array([[0, 5], [0, 6]]), 0, 5).tolist()
        [True, False]
    """
    flat = numbers.reshape(len(numbers), -1)
    inside: BoolArray = np.asarray(((flat >= least) & (flat <= most)).all(axis=1))
    return inside
