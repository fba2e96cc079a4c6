"""The rows themselves as features: for learners that have a kernel of their own.

z = x/scale - shift, clipped, with centre and scale of the first rows as every tracker takes them.
Nothing else is learned, no row is stored, the fitting error is 0: on a learner of rows (POLK, BSGD)
it is as if there were no tracker. Cost O(D) a row, 8(2D + 9) bytes of state.
Flops a row: 4D.

Reference: no paper.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.limits import ArrayForm, real, whole
from kerneltrack.native.layouts import FloatVector, IntVector
from kerneltrack.trackers.common import state as places
from kerneltrack.trackers.common.base import KernelTracker
from kerneltrack.trackers.common.calls import look_at
from kerneltrack.trackers.common.loop import Loop
from kerneltrack.trackers.common.moving_scale import moments, window_of
from kerneltrack.trackers.rows.spec import RowsSpec


class RowsState(NamedTuple):
    """State of a model: 8(2D + 9) bytes, with a moving scale 8(4D + 2) more.

    Attributes:
        shift: (D,) centre over scale.
        scale: (D,) standard deviation.
        reals: (0,), with a moving scale (4D + 2,), its moments.
        counts: (9,) as in `SubspaceState`; all but the first, the valid rows, stay 0.
    """

    shift: FloatVector
    scale: FloatVector
    reals: FloatVector
    counts: IntVector

    @property
    def n(self) -> int:
        """Valid rows seen."""
        return int(self.counts[places.N])

    @property
    def size(self) -> int:
        """Stored rows: none."""
        return 0


class RowsSettings(NamedTuple):
    """A spec as numbers, as the compiled loop takes it."""

    learn: bool
    clip: float
    scale_window: int


class Rows(KernelTracker[RowsSpec, RowsState]):
    """The tracker that passes rows on (see the module).

    Example:
        >>> spec = RowsSpec(rank=2, standardise=False)
        >>> rows = [[1.0, 2.0], [3.0, 4.0]]
        >>> _, features = Rows().update(spec, Rows().init(spec, rows), rows)
        >>> features.z.tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """

    name = "rows"
    spec_type = RowsSpec
    state_type = RowsState

    def init(self, spec: RowsSpec, first_rows: npt.ArrayLike, key: str = "") -> RowsState:
        """Make the state from the first rows (m, D); see `KernelTracker.init`.

        Raises:
            ConfigError: if `rank` is not D.
        """
        seen = look_at(spec, first_rows)
        if spec.rank != len(seen.scale):
            raise ConfigError("rank", spec.rank, f"{len(seen.scale)}, the number of channels")
        counts = np.zeros(places.COUNTS, dtype=np.int64)
        reals = np.zeros(moments(spec, len(seen.scale)))
        return RowsState(seen.shift, seen.scale, reals, counts)

    def loop(self, spec: RowsSpec, learn: bool) -> Loop:
        """Return the row loop (native/rows.c)."""
        clip = math.inf if spec.clip is None else float(spec.clip)
        return Loop("rows_run", RowsSettings(learn, clip, window_of(spec)))

    def stored(self, spec: RowsSpec) -> int:
        """Return how many numbers the features s of a row are: none."""
        return 0

    def layout(self, spec: RowsSpec, width: int) -> dict[str, ArrayForm]:
        """Return what the arrays of a state are like."""
        return {
            "shift": real(width),
            "scale": real(width),
            "reals": real(moments(spec, width)),
            "counts": whole(places.COUNTS),
        }

    def sound(self, spec: RowsSpec, state: RowsState) -> RowsState:
        """Return a state that was read, after a look at its width."""
        if state.scale.shape[-1] != spec.rank:
            raise ConfigError("state.scale", state.scale.shape, f"of shape ({spec.rank},)")
        return state
