"""The paper's moving window: the kernel mismatch of the last N rows after every row.

The subspace moves with every informative row, and with it K̂ of *all* rows in the window, but
what it is made of moves little. Kept from row to row are K of the window (a new row adds N kernel
values), κ(S, X) of the stored rows S and the window X (a new row adds a column; a row that becomes
a stored row adds the kernel values it has just been given), the features Z of `mismatch`, and what
every row adds to ‖K - ZᵀZ‖_F².

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
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.limits import (
    Limit,
    check_counts,
    check_not_negative,
    copies_like,
    real,
    whole,
)
from kerneltrack.monitor.window_settings import MOST_MOVING
from kerneltrack.native.layouts import FloatMatrix, FloatVector, IntVector
from kerneltrack.registry import get_tracker
from kerneltrack.settings import check_int
from kerneltrack.trackers.common.base import loop_of
from kerneltrack.trackers.common.block import Block, FixedBlock
from kerneltrack.trackers.common.calls import features_of, stamps_of
from kerneltrack.trackers.common.features import Features
from kerneltrack.trackers.common.loop import Pieces, all_rows, call_loop, matrix_of, sound_pieces
from kerneltrack.trackers.common.places import Places
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.state import Outputs
from kerneltrack.trackers.covariance.spec import CovarianceSpec
from kerneltrack.trackers.okfeb.spec import OKFEBSpec

LOOPS: dict[type[SubspaceSpec], str] = {
    OKFEBSpec: "moving_okfeb",
    CovarianceSpec: "moving_covariance",
}
"""The loops of trackers that a moving window can go along with (native/windowed.h), by their specs;
they take what the tracker's own takes, and the window."""
ON_A_BUDGET = tuple(LOOPS)
"""Their specs."""

# Places in the window's `counts`.
SEEN, DIRECTIONS, STALE = range(3)


class WindowState(NamedTuple):
    """State of a moving window; the last of N places is the newest row's.

    Places of rows that have not come yet hold zeros. The bytes of its arrays are
    8(N(N + D + C + r + 3) + rC + 3), with C = B + 1.

    Attributes:
        rows: (N, D) the window's rows, scaled.
        gram: (N, N) ring: row number n, counted from 0, keeps in row n mod N its kernel values
            with the N - 1 rows before it and with itself.
        cross: (C, N) κ(S, X); slots as in the tracker's state.
        basis: (r, C) coefficients of the basis that `features` are taken in.
        features: (r, N) Z.
        shares: (N,) sum over all entries of K - ZᵀZ, squared, of a row with itself and with
            newer rows.
        residuals: (N,) κ(x,x) - ‖z‖².
        own: (N,) κ(x,x).
        counts: (3,) valid rows seen, directions of the basis, 1 if `basis`, `features`, `shares`
            and `residuals` belong to an earlier subspace.
    """

    rows: FloatMatrix
    gram: FloatMatrix
    cross: FloatMatrix
    basis: FloatMatrix
    features: FloatMatrix
    shares: FloatVector
    residuals: FloatVector
    own: FloatVector
    counts: IntVector


class MovingMismatch(NamedTuple):
    """What a moving window says after each of n rows.

    All are NaN before the window is full and for rows that the tracker refused.

    Attributes:
        value: (n,) (1/N)‖K - K̂‖_F of the last N valid rows under the subspace after the row.
        residual: (n,) their mean κ(x,x) - ‖z‖², which is the trace certificate.
        kappa: (n,) their mean κ(x,x).
    """

    value: FloatVector
    residual: FloatVector
    kappa: FloatVector

    @property
    def trace_bound(self) -> FloatArray:
        """The trace certificate (1/N)tr(K - K̂) >= value, shape (n,)."""
        return self.residual

    @property
    def fitting_bound(self) -> FloatArray:
        """The paper's bound 2√(κ̄ē) + ē (eq. 28b), shape (n,)."""
        bound: FloatArray = 2.0 * np.sqrt(self.kappa * self.residual) + self.residual
        return bound


def no_mismatch(count: int) -> MovingMismatch:
    """Return room for what windows say of so many rows: nothing yet."""
    return MovingMismatch(*np.full((3, count), np.nan))


@lru_cache(maxsize=64)
def places_of(spec: Any, width: int, length: int) -> Places:
    """Return what the arrays of a window of N rows of D channels are like, and where they lie."""
    rank, slots = spec.rank, int(spec.budget) + 1
    return Places.of(
        {
            "rows": real(length, width),
            "gram": real(length, length),
            "cross": real(slots, length),
            "basis": real(rank, slots),
            "features": real(rank, length),
            "shares": real(length),
            "residuals": real(length),
            "own": real(length),
            "counts": whole(3),
        }
    )


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
        check_int("length", self.length, 1, MOST_MOVING)

    def init(self, spec: SubspaceSpec, state: Any) -> WindowState:
        """Make an empty window for a tracker's state, new or after rows."""
        _check_tracker(spec)
        known = places_of(spec, len(state.scale), self.length).likes
        window = WindowState(**{name: like.zeros() for name, like in known.items()})
        window.counts[STALE] = 1
        return window

    def from_arrays(
        self, spec: SubspaceSpec, state: Any, arrays: Mapping[str, npt.NDArray[Any]]
    ) -> WindowState:
        """Make a window of arrays by name, as it belongs to this state of the tracker.

        Raises:
            ConfigError: naming the array or count that no such window has.
        """
        like = places_of(spec, len(state.scale), self.length).likes
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
        tracker: Any = get_tracker(spec.tracker)
        block, windows = tracker.pack(spec, [state]), self.pack(spec, [window])
        pieces = all_rows(matrix_of(rows, block.width))._replace(times=times)
        features, measured = self.run(spec, block, windows, pieces, extras)
        return block.state(0), windows.state(0), features, measured

    def pack(self, spec: SubspaceSpec, windows: Sequence[WindowState]) -> FixedBlock[WindowState]:
        """Copy windows of models into a block; `Block.states` is the way back.

        Args:
            spec: The spec.
            windows: One at least.

        Raises:
            ConfigError: for windows of another length, or of models of another spec.
        """
        _check_tracker(spec)
        if not len(windows):
            raise ConfigError("windows", 0, "one at least")
        width = windows[0].rows.shape[-1]
        places = places_of(spec, width, self.length)
        self._check(places, windows)
        return FixedBlock.of_states(WindowState, places, windows, width)

    def _check(self, places: Places, windows: Sequence[WindowState]) -> None:
        wanted = [(like.shape, like.dtype) for like in places.likes.values()]
        for window in windows:
            if [(array.shape, array.dtype.type) for array in window] != wanted:
                allowed = f"(B + 1, {self.length}), from init"
                raise ConfigError("window", window.cross.shape, allowed)

    def run(
        self,
        spec: SubspaceSpec,
        block: Block[Any],
        windows: Block[WindowState],
        pieces: Pieces,
        extras: tuple[str, ...] = (),
        *,
        out: Outputs | None = None,
        measured: MovingMismatch | None = None,
    ) -> tuple[Features, MovingMismatch]:
        """Run rows of many models through their states and windows, which are written to.

        Args:
            spec: The spec.
            block: The tracker's states.
            windows: The windows, as of `pack`: one for each state.
            pieces: The rows and whose they are.
            extras: "q" and "s" ask for those features too.
            out: Where the tracker's results of n rows go, or none, as of `KernelTracker.run`.
            measured: Where the windows' values go, as of `no_mismatch`, or none.

        Returns:
            Features of all n rows and the windows' values after each.

        Raises:
            ConfigError: as `KernelTracker.run`.
        """
        _check_tracker(spec)
        if (len(windows), windows.width) != (len(block), block.width):
            found = f"{len(windows)} of {windows.width} channels"
            raise ConfigError("windows", found, f"{len(block)} of {block.width}, as the states are")
        given = sound_pieces(pieces, block.width, len(block))
        count = len(given.rows)
        tracker = get_tracker(spec.tracker)
        room = tracker.room(spec, count, extras, out, block.width)
        values = no_mismatch(count) if measured is None else measured
        if {value.shape for value in values} != {(count,)}:
            raise ConfigError("measured", values.value.shape, f"of shape ({count},)")
        given = given._replace(times=stamps_of(spec, count, given.times))
        self.run_checked(spec, block, windows, given, room, values)
        return features_of(room), values

    def run_checked(
        self,
        spec: SubspaceSpec,
        block: Block[Any],
        windows: Block[WindowState],
        pieces: Pieces,
        out: Outputs,
        measured: MovingMismatch,
    ) -> None:
        """Do what `run` says, for arguments that were checked."""
        loop = loop_of(get_tracker(spec.tracker), spec, True)._replace(name=LOOPS[type(spec)])
        call_loop(loop, block, pieces, out, windows.words(pieces.models), measured)


def _check_tracker(spec: object) -> None:
    if type(spec) not in LOOPS:
        name = getattr(spec, "tracker", type(spec).__name__)
        allowed = "okfeb or covariance: their states are bounded, as a window's must be"
        raise ConfigError("tracker", name, allowed)
    if isinstance(spec, CovarianceSpec) and spec.chooses_halflife:
        raise ConfigError("halflife", spec.halflife, "a number or None with a moving window")
