"""Event-time windows of one model: which are open, and which rows they still need.

Windows are half-open, [start, end). They are closed by the model's own progress, in the step that
holds its rows and its subspace: the last row before an end has then been learned from, and none
at or after it. So a window's value depends on the model's rows alone, however they came.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.transforms.window import FixedWindows, SlidingWindows, WindowFn

from kerneltrack.errors import ConfigError
from kerneltrack.limits import TIME_LIMIT, check_whole, copies_like, likes
from kerneltrack.monitor.bounds import future_residual
from kerneltrack.monitor.mismatch import Mismatch
from kerneltrack.monitor.window_settings import WindowSettings
from kerneltrack.settings import Range, check_number
from kerneltrack.specs import NEEDS_BANDWIDTH
from kerneltrack.trackers.common.spec import SubspaceSpec
from transforms.chunks import Chunk

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

MICROSECOND = 1_000
MOST_WINDOWS = 1_000
"""Windows that one row may be in: size over period."""
FIXED, SLIDING, MOVING = "fixed", "sliding", "moving"
LONGEST = 1e8
"""Longest window and period, s: the end of a window stays within 64 bits of ns at any time."""
THIN_AGAIN = 4
"""Rows are kept more densely again once a quarter of the room would do."""


@dataclasses.dataclass(frozen=True)
class MeasureMismatch(WindowSettings):
    """Asks `TrackSubspace` for the kernel mismatch (1/N)‖K - K̂‖_F of windows of rows.

    Every value comes with its window, the rows it was measured on, the mean residual, and its
    bounds: the trace certificate, (28b), and Prop. 4 for as many future rows (kernels with
    κ(x,x) = 1 only; rows assumed i.i.d., see `kerneltrack.monitor.bounds.future_residual`).

    `windows`, Beam's `FixedWindows` or `SlidingWindows` of event time, give one value a window that
    holds rows, under the subspace held when it closes; None: there are no such windows.

    Example:
        >>> from apache_beam.transforms.window import SlidingWindows
        >>> asked = MeasureMismatch(SlidingWindows(size=60, period=15))
        >>> asked.kind, asked.size // 10**9
        ('sliding', 60)
    """

    windows: WindowFn | None = None

    def check_together(self) -> None:
        """Refuse no window at all, windows of another kind, or too many of them on one row."""
        if self.windows is None and self.moving is None:
            raise ConfigError("windows", None, "FixedWindows or SlidingWindows, or moving = N")
        if self.windows is not None:
            if not isinstance(self.windows, FixedWindows | SlidingWindows):
                raise ConfigError("windows", self.windows, "FixedWindows or SlidingWindows")
            for field, length in (("size", self.size), ("period", self.period)):
                check_number(field, length / 1e9, Range(1e-6, LONGEST))
            if self.size > MOST_WINDOWS * self.period:
                raise ConfigError(
                    "period", self.period / 1e9, f"at least size / {MOST_WINDOWS}, in seconds"
                )

    @property
    def kind(self) -> str:
        """Return "fixed" or "sliding"."""
        return FIXED if isinstance(self.windows, FixedWindows) else SLIDING

    @property
    def size(self) -> int:
        """Length of a window, ns."""
        windows: Any = self.windows
        return int(windows.size.micros) * MICROSECOND

    @property
    def period(self) -> int:
        """Distance between starts, ns."""
        windows: Any = self.windows
        return int(getattr(windows, "period", windows.size).micros) * MICROSECOND

    @property
    def offset(self) -> int:
        """Start of one of the windows, ns."""
        windows: Any = self.windows
        return int(windows.offset.micros) * MICROSECOND

    def starts(self, times: IntArray) -> IntArray:
        """Return the starts, sorted, of all windows that hold at least one of the sorted times."""
        last = (times - self.offset) // self.period
        found = last[:0]
        for back in range(-(-self.size // self.period)):
            start = np.unique(last - back) * self.period + self.offset
            inside = np.searchsorted(times, start) < np.searchsorted(times, start + self.size)
            found = np.union1d(found, start[inside])
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return what a model's open windows depend on, as plain values."""
        values: dict[str, Any] = {"moving": self.moving, "most_rows": self.most_rows}
        if self.windows is not None:
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
        self, measure: MeasureMismatch, opened: IntArray, rows: FloatArray, index: IntArray
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

    def without(self, starts: IntArray, measure: MeasureMismatch) -> OpenWindows:
        """Return the windows that are left once those that begin at `starts` have closed."""
        windows = self.windows[~np.isin(self.windows[:, 0], starts)]
        needed = self.numbers >= (windows[:, 1].min() if len(windows) else np.inf)
        stride = int(self.stride[0])
        while stride > 1 and THIN_AGAIN * needed.sum() <= measure.most_rows:
            stride //= 2
        return OpenWindows(windows, self.rows[needed], self.numbers[needed], np.array([stride]))

    def next_end(self, measure: MeasureMismatch) -> int:
        """Return the earliest end of the windows, of which there is one at least, ns."""
        return int(self.windows[:, 0].min()) + measure.size

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, npt.NDArray[Any]], measure: MeasureMismatch, width: int, rows: int
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
        check_whole("open.windows, start", starts, -TIME_LIMIT - measure.size, TIME_LIMIT)
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


def mismatch_chunk(lines: list[Measured], spec: SubspaceSpec, confidence: float) -> Chunk:
    """Put measured windows into a chunk: window, rows, mismatch, residual and bounds.

    Of a window none of whose rows was kept (few rows after a burst) the measures are null.
    """
    found = [line.found for line in lines]

    def reals(name: str) -> pa.Array:
        values = [getattr(part, name) if part.n else None for part in found]
        return pa.array(values, pa.float64())

    columns = {
        "kind": pa.array([line.kind for line in lines], pa.string()),
        "start": pa.array([line.start for line in lines], pa.int64()),
        "end": pa.array([line.end for line in lines], pa.int64()),
        "index": pa.array([line.last for line in lines], pa.int64()),
        "rows": pa.array([line.rows for line in lines], pa.int64()),
        "n": pa.array([part.n for part in found], pa.int64()),
        "mismatch": reals("value"),
        "residual": reals("residual"),
        "trace_bound": reals("trace_bound"),
        "fitting_bound": reals("fitting_bound"),
        "future_bound": pa.array(
            [_future_bound(spec, part, confidence) for part in found], pa.float64()
        ),
        "complete": pa.array([line.complete for line in lines], pa.bool_()),
    }
    return Chunk(pa.RecordBatch.from_pydict(columns))


def _future_bound(spec: SubspaceSpec, found: Mismatch, confidence: float) -> float | None:
    """Return Prop. 4's bound for as many future rows; None where κ(x,x) has no bound."""
    if spec.kernel not in NEEDS_BANDWIDTH or not found.n or math.isnan(found.residual):
        return None
    residual = min(max(found.residual, 0.0), 1.0)
    return future_residual(residual, found.n, confidence, observed=found.n)
