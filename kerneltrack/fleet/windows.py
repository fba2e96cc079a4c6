"""Event-time windows of one model: which are open, and which rows they still need.

Windows are half-open, [start, end). They are closed by the model's own progress, in the step that
holds its rows and its subspace: the last row before an end has then been learned from, and none
at or after it. So a window's value depends on the model's rows alone, however they came.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.limits import TIME_LIMIT, check_whole, copies_like, likes
from kerneltrack.monitor.mismatch import Mismatch
from kerneltrack.monitor.window_settings import WindowSettings

FIXED, SLIDING, MOVING = "fixed", "sliding", "moving"
THIN_AGAIN = 4
"""Rows are kept more densely again once a quarter of the room would do."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeasuredWindows(WindowSettings):
    """Windows of rows whose kernel mismatch is measured, in ns of event time.

    Attributes:
        size: Length of a window; None: only the moving window, of rows, is measured.
        period: Distance between starts; windows overlap where it is less than `size`.
        offset: Start of one of the windows.
        kind: "fixed" or "sliding".
    """

    size: int | None = None
    period: int = 0
    offset: int = 0
    kind: str = FIXED

    @property
    def length(self) -> int:
        """Length of a window of event time, ns.

        Raises:
            ValueError: if there are none.
        """
        if self.size is None:
            raise ValueError("no windows of event time are measured")
        return self.size

    @property
    def overlapping(self) -> int:
        """Most windows that a row lies in."""
        return -(-self.length // self.period)

    def newest(self, times: IntArray) -> IntArray:
        """Return the latest start of a window that is not after each of the times."""
        return (times - self.offset) // self.period * self.period + self.offset

    def to_dict(self) -> dict[str, Any]:
        """Return what a model's open windows depend on, as plain values."""
        values: dict[str, Any] = {"moving": self.moving, "most_rows": self.most_rows}
        if self.size is not None:
            values |= {"size": self.size, "period": self.period, "offset": self.offset}
        return values


class OpenWindows(NamedTuple):
    """A model's windows that hold rows and have not closed, and the rows they need.

    Of the rows, those are kept whose index is a multiple of a stride, a power of two: it doubles
    when there would be more than `most_rows`. Bytes: 8·most_rows·(D + 1) and 24 a window.

    Attributes:
        windows: (w, 3) start (ns), index of the window's first row, largest stride since then;
            sorted by start.
        rows: (k, D) rows as the tracker took them.
        numbers: (k,) their indexes among the model's valid rows.
        stride: (1,) that of the rows to come.
    """

    windows: IntArray
    rows: FloatArray
    numbers: IntArray
    stride: IntArray

    @classmethod
    def none(cls, width: int) -> OpenWindows:
        """Return those of a model without rows of `width` channels."""
        return cls(
            np.zeros((0, 3), np.int64),
            np.zeros((0, width)),
            np.zeros(0, np.int64),
            np.ones(1, np.int64),
        )

    def take_in(
        self, measure: MeasuredWindows, opened: IntArray, rows: FloatArray, index: IntArray
    ) -> OpenWindows:
        """Return the windows after rows that no window's end divides.

        Args:
            measure: What was asked for.
            opened: (w, 2) start of each window that begins to hold rows, and its first index.
            rows: (n, D) valid rows.
            index: (n,) their numbers.
        """
        stride = int(self.stride[0])
        fresh = np.column_stack([opened, np.full(len(opened), stride, np.int64)])
        windows = np.concatenate([self.windows, fresh])
        on = index % stride == 0
        every = np.concatenate([self.rows, rows[on]])
        number = np.concatenate([self.numbers, index[on]])
        needed = number >= (windows[:, 1].min() if len(windows) else np.inf)
        every, number = every[needed], number[needed]
        while len(number) > measure.most_rows:
            stride *= 2
            on = number % stride == 0
            every, number = every[on], number[on]
        windows[:, 2] = np.maximum(windows[:, 2], stride)
        return OpenWindows(windows, every, number, np.array([stride]))

    def rows_of(self, window: IntArray) -> FloatArray:
        """Return the rows of a window (a line of `windows`) that are measured."""
        _, first, stride = window
        measured: FloatArray = self.rows[(self.numbers >= first) & (self.numbers % stride == 0)]
        return measured

    def without(self, starts: IntArray, measure: MeasuredWindows) -> OpenWindows:
        """Return the windows that are left once those that begin at `starts` have closed."""
        windows = self.windows[~np.isin(self.windows[:, 0], starts)]
        needed = self.numbers >= (windows[:, 1].min() if len(windows) else np.inf)
        stride = int(self.stride[0])
        while stride > 1 and THIN_AGAIN * needed.sum() <= measure.most_rows:
            stride //= 2
        return OpenWindows(windows, self.rows[needed], self.numbers[needed], np.array([stride]))

    def next_end(self, measure: MeasuredWindows) -> int:
        """Return the earliest end of the windows, of which there is one at least, ns."""
        return int(self.windows[:, 0].min()) + measure.length

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, npt.NDArray[Any]], measure: MeasuredWindows, width: int, rows: int
    ) -> OpenWindows:
        """Make windows of arrays by name.

        Args:
            arrays: The arrays.
            measure: What was asked for.
            width: Number of channels D.
            rows: Valid rows that the model has seen.

        Raises:
            ConfigError: naming the array or number that no windows have.
        """
        none = likes(cls.none(width)._asdict())
        found = cls(**copies_like("open", arrays, none, ("windows", "rows", "numbers")))
        kept, (starts, first, strides) = len(found.numbers), found.windows.T
        if len(found.rows) != kept or kept > measure.most_rows:
            allowed = f"{kept} rows, at most {measure.most_rows}"
            raise ConfigError("open.rows", len(found.rows), allowed)
        check_whole("open.numbers", found.numbers, 0, rows - 1)
        if kept and (np.diff(found.numbers) <= 0).any():
            raise ConfigError("open.numbers", found.numbers.tolist(), "rising")
        check_whole("open.windows, start", starts, -TIME_LIMIT - measure.length, TIME_LIMIT)
        check_whole("open.windows, first row", first, 0, rows)
        for field, steps in (("open.windows, stride", strides), ("open.stride", found.stride)):
            check_whole(field, steps, 1)
            if (steps & (steps - 1)).any():
                raise ConfigError(field, steps.tolist(), "powers of two")
        return found


class Measured(NamedTuple):
    """One window's line of the output.

    Attributes:
        kind: "fixed", "sliding" or "moving".
        start: Time, ns; None without times.
        end: Likewise.
        last: Index of the window's last row.
        rows: Its valid rows.
        found: What it says.
        complete: False if the input ended before the window did.
    """

    kind: str
    start: int | None
    end: int | None
    last: int
    rows: int
    found: Mismatch
    complete: bool


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
