"""The rows themselves as features: for learners that have a kernel of their own.

z = x/scale - shift, clipped, with centre and scale of the first rows as every tracker takes them.
Nothing else is learned, no row is stored, the fitting error is 0: on a learner of rows (POLK, BSGD)
it is as if there were no tracker. Cost O(D) a row, 8(2D + 9) bytes of state.
Flops a row: 4D.

Reference: none, there is nothing to it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.limits import Like, real, whole
from kerneltrack.native.binding import call
from kerneltrack.trackers.common import calls
from kerneltrack.trackers.common.base import Features, IntArray
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.okfeb import state as rowstate
from kerneltrack.trackers.rows.spec import RowsSpec

FloatArray = npt.NDArray[np.float64]


class RowsState(NamedTuple):
    """State of a model: 8(2D + 9) bytes.

    Attributes:
        shift: (D,) centre over scale.
        scale: (D,) standard deviation.
        counts: (9,) as in `SubspaceState`; all but the first, the valid rows, stay 0.
    """

    shift: FloatArray
    scale: FloatArray
    counts: IntArray

    @property
    def n(self) -> int:
        """Valid rows seen."""
        return int(self.counts[rowstate.N])

    @property
    def size(self) -> int:
        """Stored rows: none."""
        return 0


class Settings(NamedTuple):
    """What the compiled loop takes; `before` is the index of the first row."""

    clip: float
    shift: FloatArray
    scale: FloatArray
    before: int


class Rows:
    """The tracker that passes rows on (see the module).

    Example:
        >>> spec = RowsSpec(rank=2, standardise=False)
        >>> rows = [[1.0, 2.0], [3.0, 4.0]]
        >>> _, features = Rows().update(spec, Rows().init(spec, rows), rows)
        >>> features.z.tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """

    name = "rows"
    spec_type: type[SubspaceSpec] = RowsSpec
    state_type = RowsState

    def init(self, spec: RowsSpec, first_rows: npt.ArrayLike, key: str = "") -> RowsState:
        """Make the state from the first rows (m, D); see `Tracker.init`.

        Raises:
            ConfigError: if `rank` is not D.
        """
        seen = calls.look_at(spec, first_rows)
        if spec.rank != len(seen.scale):
            raise ConfigError("rank", spec.rank, f"{len(seen.scale)}, the number of channels")
        counts = np.zeros(rowstate.COUNTS, dtype=np.int64)
        return RowsState(seen.shift, seen.scale, counts)

    def update(
        self,
        spec: RowsSpec,
        state: RowsState,
        rows: npt.ArrayLike,
        extras: tuple[str, ...] = (),
        times: IntArray | None = None,
    ) -> tuple[RowsState, Features]:
        """Pass rows (n, D) on in order; see `Tracker.update`."""
        features = self.project(spec, state, rows, extras)
        after = calls.copied(state)
        after.counts[rowstate.N] += np.count_nonzero(features.valid)
        return after, features

    def project(
        self, spec: RowsSpec, state: RowsState, rows: npt.ArrayLike, extras: tuple[str, ...] = ()
    ) -> Features:
        """Return the scaled rows; see `Tracker.project`."""
        matrix = calls.matrix_of(rows, spec.rank)
        out = calls.outputs_for(spec, len(matrix), 0, extras)
        clip = math.inf if spec.clip is None else spec.clip
        call("rows_run", Settings(float(clip), state.shift, state.scale, state.n), matrix, out)
        return calls.features_of(out)

    def why_refused(self, spec: RowsSpec, state: RowsState, row: npt.ArrayLike) -> str:
        """Return why a row was refused."""
        return calls.refusal(state, row)

    def counters(self, state: RowsState) -> dict[str, int]:
        """Return running totals by name, all 0: no row enters a subspace."""
        return calls.totals(state)

    def arrays(self, state: RowsState) -> dict[str, npt.NDArray[Any]]:
        """Return the state's arrays by name."""
        return state._asdict()

    def from_arrays(self, spec: RowsSpec, arrays: dict[str, npt.NDArray[Any]]) -> RowsState:
        """Make a state of arrays that `arrays` gave."""
        state: RowsState = calls.restored(RowsState, arrays, _layout)
        if len(state.scale) != spec.rank:
            raise ConfigError("state.scale", state.scale.shape, f"of shape ({spec.rank},)")
        return state


def _layout(width: int) -> dict[str, Like]:
    """Return what the arrays of a state for rows of D channels are like."""
    return {"shift": real(width), "scale": real(width), "counts": whole(rowstate.COUNTS)}
