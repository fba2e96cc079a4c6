"""The paper's moving window: the kernel mismatch of the last N rows after every row.

The subspace moves with every informative row, and with it K̂ of *all* rows in the window, but
what it is made of moves little. Kept from row to row are K of the window (a new row adds N kernel
values), κ(S, X) of the stored rows S and the window X (a new row adds a column; a row that becomes
a stored row adds the kernel values it has just been given), the projections Z, and what every row
adds to ‖K - ZᵀZ‖_F².

- The subspace is as it was: N new entries of K - ZᵀZ. Each entry of K - ZᵀZ is booked on the
  *older* of its two rows, so that the row that leaves takes its book along: nothing is ever
  subtracted from a sum, and no error grows with the stream.
- The subspace moved: Z and all entries anew, from the kernel values that are kept. They are
  differences entry by entry, not ‖K‖² - 2tr(KK̂) + ‖K̂‖², which loses all digits where the
  mismatch is small.

Cost a row beside the tracker's: O(N(D + B + r)), and O(N²r + NBr + Br²) more if the subspace
moved; never O(N²D), and no kernel value is computed twice.

Reference: F. Sheikholeslami, D. Berberidis, G. B. Giannakis, "Large-scale kernel-based feature
extraction via low-rank subspace tracking on a budget", IEEE Trans. Signal Process., 2018,
section VII (N_wind = 100, stride 1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.kernels import Kernel
from kerneltrack.limits import Limit, check_counts, check_not_negative, copies_like, likes
from kerneltrack.monitor.mismatch import scaled_rows
from kerneltrack.monitor.moving_loop import (
    DIRECTIONS,
    SEEN,
    STALE,
    MovingMismatch,
    WindowState,
    run_window,
)
from kerneltrack.settings import check_int
from kerneltrack.trackers.common.base import Features, IntArray
from kerneltrack.trackers.common.calls import copied, run, stamps_of
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.covariance import tracker as covariance
from kerneltrack.trackers.covariance.spec import CovarianceSpec
from kerneltrack.trackers.okfeb import okfeb
from kerneltrack.trackers.okfeb.spec import OKFEBSpec
from kerneltrack.trackers.okfeb.state import Outputs

FloatArray = npt.NDArray[np.float64]

__all__ = ["MovingMismatch", "MovingWindow", "WindowState"]

ON_A_BUDGET = (OKFEBSpec, CovarianceSpec)
"""Specs of the trackers that a moving window can go along with."""
MAX_ROWS = 2000
"""Longest window: its state is 8N² bytes and more."""


@dataclasses.dataclass(frozen=True, slots=True)
class MovingWindow:
    """Runs rows through a tracker on a budget and measures the last `length` after each.

    Attributes:
        length: N, rows of the window, 1 to 2,000.

    Example:
        >>> from kerneltrack.trackers import OKFEB
        >>> spec = OKFEBSpec(rank=2, budget=4, standardise=False, gamma=2.0)
        >>> rows = np.random.default_rng(0).normal(size=(50, 3))
        >>> state, moving = OKFEB().init(spec, rows[:1]), MovingWindow(20)
        >>> window = moving.init(spec, state)
        >>> state, window, features, measured = moving.update(spec, state, window, rows)
        >>> int(np.isnan(measured.value).sum())
        19
        >>> bool((measured.value[19:] <= measured.trace_bound[19:]).all())
        True
    """

    length: int = 100

    def __post_init__(self) -> None:
        """Check the length.

        Raises:
            ConfigError: if it is out of range.
        """
        check_int("length", self.length, 1, MAX_ROWS)

    def init(self, spec: SubspaceSpec, state: Any) -> WindowState:
        """Make an empty window beside a tracker's state, a new one or one that has seen rows."""
        _check_tracker(spec)
        (slots, width), rank, length = state.support.shape, spec.rank, self.length
        return WindowState(
            rows=np.zeros((length, width)),
            gram=np.zeros((length, length)),
            cross=np.zeros((slots, length)),
            basis=np.zeros((rank, slots)),
            features=np.zeros((rank, length)),
            shares=np.zeros(length),
            residuals=np.zeros(length),
            own=np.zeros(length),
            counts=np.array([0, 0, 1]),
        )

    def from_arrays(
        self, spec: SubspaceSpec, state: Any, arrays: Mapping[str, npt.NDArray[Any]]
    ) -> WindowState:
        """Make a window of arrays by name, as it was beside this state of the tracker.

        Raises:
            ConfigError: naming the array or count that no such window has.
        """
        like = likes(self.init(spec, state)._asdict())
        window = WindowState(**copies_like("moving", arrays, like))
        check_counts(
            "moving.counts",
            window.counts,
            Limit("valid rows seen", SEEN, state.n),
            Limit("directions", DIRECTIONS, spec.rank),
            Limit("stale", STALE, 1),
        )
        check_not_negative("moving.own", window.own)
        return window

    def update(
        self,
        spec: SubspaceSpec,
        state: Any,
        window: WindowState,
        rows: npt.ArrayLike,
        extras: tuple[str, ...] = (),
        times: IntArray | None = None,
    ) -> tuple[Any, WindowState, Features, MovingMismatch]:
        """Run rows through tracker and window in order.

        Args:
            spec: The spec that both states were made with.
            state: Tracker state before the rows; not written to.
            window: Window state before the rows; not written to.
            rows: Shape (n, D), unscaled, as for the tracker alone.
            extras: "q" and "s" ask for those features too.
            times: (n,) event time of each row, ns, if the spec needs them.

        Returns:
            Both new states, the rows' features and the window's values after each row. State and
            features are those that the tracker gives alone, bit for bit; all is the same however
            the rows are cut into calls.

        Raises:
            ConfigError: for another tracker, rows or a window of another shape, or times that are
                needed and not there.
        """
        _check_tracker(spec)
        matrix = np.ascontiguousarray(rows, dtype=np.float64)
        if len(window.rows) != self.length or len(window.cross) != len(state.support):
            raise ConfigError("window", window.cross.shape, f"(B + 1, {self.length}), from init")
        after, moved, stamps = copied(state), copied(window), stamps_of(spec, matrix, times)
        measured = MovingMismatch(*np.full((3, len(matrix)), np.nan))

        def loop(
            settings: Any,
            kernel: Kernel,
            arrays: Any,
            given: FloatArray,
            out: Outputs,
        ) -> None:
            scaled = scaled_rows(spec, state, given)
            run_window(settings, kernel, arrays, moved, given, scaled, out, measured, stamps)

        settings = covariance.settings_of if isinstance(spec, CovarianceSpec) else okfeb.settings_of
        told: Any = spec
        features = run(loop, settings(told, True), after, spec, matrix, extras)
        return after, moved, features, measured


def _check_tracker(spec: object) -> None:
    if not isinstance(spec, ON_A_BUDGET):
        name = getattr(spec, "tracker", type(spec).__name__)
        allowed = "okfeb or covariance: their states are bounded, as a window's must be"
        raise ConfigError("tracker", name, allowed)
