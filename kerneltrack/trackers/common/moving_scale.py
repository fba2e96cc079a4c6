"""A scale that follows the rows: `standardise` "moving".

Centre and deviation of a channel are those of the rows before, in two blocks: the last full one of
W = `scale_window` rows and the one that is filling up. With n₀, n₁ rows, means m₀, m₁ and sums of
squares about them S₀, S₁,

    n = n₀ + n₁,  δ = m₁ - m₀,  centre = m₀ + δn₁/n,  deviation² = (S₀ + S₁ + δ²n₀n₁/n)/n.

A row is scaled by what came before it, then enters its block (Welford's update); a full block takes
the place of the one before. So the scale is that of the last W to 2W rows, and no row from before a
change of units counts after 2W more. At first n₀ = 500, m₀ and S₀ are those of the first rows'
scale.

One wild row moves little: a value counts as no further than √n deviations from the centre, so that
it adds no more to the variance than there is. After a change of units by a factor of a thousand the
scale has caught up in some twenty rows; the block with these is gone after 3W rows at the latest. A
channel without spread keeps the scale that it had.

Cost O(D) a row, 8(4D + 2) bytes of state: the last of `reals`. The loop is native/tracking.c.

Reference: Chan, Golub, LeVeque, Algorithms for computing the sample variance, The American
Statistician 37 (1983), eq. 2.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneltrack.trackers.common.spec import SubspaceSpec


def window_of(spec: SubspaceSpec) -> int:
    """Return W as the row loops take it, 0 for a scale that stays."""
    return spec.scale_window if spec.scale_moves else 0


def moments(spec: SubspaceSpec, width: int) -> int:
    """Return how many numbers a state has for the scale: n₀, n₁, then m₀, S₀, m₁, S₁ a channel."""
    return 2 + 4 * width if spec.scale_moves else 0


def with_moments(spec: SubspaceSpec, state: Any) -> Any:
    """Return a state that was made with a scale that stays, with room for that of the spec."""
    more = moments(spec, len(state.scale))
    longer = {"reals": np.pad(state.reals, (0, more))}
    if len(getattr(state, "rivals", ())):
        # Of each memory of the covariance tracker `reals` are the last.
        longer["rivals"] = np.pad(state.rivals, ((0, 0), (0, more)))
    return state._replace(**longer)
