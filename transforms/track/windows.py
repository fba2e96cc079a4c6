"""The kernel mismatch of windows: how it is asked for in Beam, and its lines as a chunk."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pyarrow as pa
from apache_beam.transforms.window import FixedWindows, SlidingWindows, WindowFn

from kerneltrack.errors import ConfigError
from kerneltrack.fleet.windows import FIXED, SLIDING, Measured, MeasuredWindows
from kerneltrack.monitor.bounds import future_residual
from kerneltrack.monitor.mismatch import Mismatch
from kerneltrack.monitor.window_settings import WindowSettings
from kerneltrack.settings import Range, check_number
from kerneltrack.specs import NEEDS_BANDWIDTH
from kerneltrack.trackers.common.spec import SubspaceSpec
from transforms.chunks import Chunk

MICROSECOND = 1_000
MOST_WINDOWS = 1_000
"""Windows that one row may be in: size over period."""
LONGEST = 1e8
"""Longest window and period, s: the end of a window stays within 64 bits of ns at any time."""


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
        >>> asked.in_ns().kind, asked.in_ns().size // 10**9
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
            known = self.in_ns()
            for field, length in (("size", known.length), ("period", known.period)):
                check_number(field, length / 1e9, Range(1e-6, LONGEST))
            if known.length > MOST_WINDOWS * known.period:
                raise ConfigError(
                    "period", known.period / 1e9, f"at least size / {MOST_WINDOWS}, in seconds"
                )

    def in_ns(self) -> MeasuredWindows:
        """Return the windows as plain numbers."""
        windows: Any = self.windows
        settings = {field: getattr(self, field) for field in ("moving", "most_rows", "confidence")}
        if windows is None:
            return MeasuredWindows(**settings)
        period = getattr(windows, "period", windows.size)
        size, period, offset = (
            int(length.micros) * MICROSECOND for length in (windows.size, period, windows.offset)
        )
        kind = FIXED if isinstance(windows, FixedWindows) else SLIDING
        return MeasuredWindows(size=size, period=period, offset=offset, kind=kind, **settings)


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
