"""What a moving window of rows says, with the times of its first and last row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.fleet.windows import MOVING, Measured
from kerneltrack.monitor.mismatch import Mismatch


def lines_of_moving(
    length: int,
    values: Sequence[FloatArray],
    index: IntArray,
    known: IntArray,
    stamps: IntArray | None,
) -> tuple[list[Measured], IntArray]:
    """Return a line for each row after which the window was full.

    Args:
        length: Rows of the window.
        values: Its mismatch, mean residual and mean κ(x,x) after each of n valid rows, NaN before
            the window is full.
        index: (n,) numbers of the rows.
        known: Times of the newest rows before, ns, `length` - 1 or fewer.
        stamps: (n,) ns; None without times.

    Returns:
        The lines, and the times of the newest rows now.
    """
    full = np.flatnonzero(~np.isnan(values[0]))
    times: list[int | None] = [None] * (len(full) + length - 1)
    if stamps is not None:
        known = np.concatenate([known, stamps])
        # The window may hold rows of an earlier job, which had no times.
        times = [*times, *known.tolist()][len(known) :]
        after = known[max(len(known) - length + 1, 0) :]
    else:
        after = known
    lines = []
    for place, at in enumerate(full.tolist()):
        found = Mismatch(length, *(float(column[at]) for column in values))
        oldest, newest = times[place], times[place + length - 1]
        lines.append(Measured(MOVING, oldest, newest, int(index[at]), length, found, True))
    return lines, after
