"""Last value held: a channel's last value stands in for a missing one, for a stated time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.limits import Like, real, whole


class Held(NamedTuple):
    """What each channel showed last.

    Attributes:
        values: (D,) last value, NaN if none yet.
        times: (D,) its time, ns.
    """

    values: npt.NDArray[np.float64]
    times: npt.NDArray[np.int64]

    @staticmethod
    def layout(width: int) -> dict[str, Like]:
        """Return what the arrays of D channels are like."""
        return {"values": real(width), "times": whole(width)}


def hold_last(
    rows: npt.NDArray[Any], times: npt.NDArray[np.int64], held: Held | None, longest: int
) -> tuple[npt.NDArray[Any], Held]:
    """Fill NaN with the channel's last value, if that is at most `longest` ns old.

    Args:
        rows: Shape (n, D), in order.
        times: Shape (n,), ns.
        held: What the rows before showed last.
        longest: Greatest age of a value that stands in, ns.

    Returns:
        The filled rows (NaN where no recent value was known) and what they showed last. The
        same however the rows are cut. Cost O(nD).

    Example:
        >>> rows = np.array([[1.0], [np.nan], [np.nan]])
        >>> hold_last(rows, np.array([0, 5, 20]), None, 10)[0].ravel().tolist()
        [1.0, 1.0, nan]
    """
    count, width = rows.shape
    if held is None:
        held = Held(np.full(width, np.nan), np.zeros(width, dtype=np.int64))
    values = np.vstack([held.values[None, :], rows])
    known = ~np.isnan(values)
    # Position of the last known value at or before each place; 0 is what was held before.
    places = np.where(known, np.arange(count + 1)[:, None], 0)
    places = np.maximum.accumulate(places, axis=0)
    columns = np.arange(width)
    clock = np.concatenate([[0], times])[places]
    clock = np.where(places == 0, held.times, clock)
    last = values[places, columns]
    age = np.concatenate([[0], times])[:, None] - clock
    filled = np.where(known | (age <= longest), np.where(known, values, last), np.nan)
    return filled[1:].astype(rows.dtype), Held(last[-1].astype(np.float64), clock[-1])
