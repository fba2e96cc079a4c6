"""What the row loop (native/covariance.c) works on: a spec as numbers, the state."""

from __future__ import annotations

from typing import NamedTuple

from kerneltrack.native.layouts import FloatMatrix, FloatVector, IntVector
from kerneltrack.trackers.common import state as places
from kerneltrack.trackers.common.state import SIZE, N

# Places in `counts` and `reals` after those that `rowstate` names, or in place of OK-FEB's own.
LAST, SINCE = places.COUNTS, places.COUNTS + 1
COUNTS = places.COUNTS + 2
LOST, CONTROL = 0, 2
REALS = places.REALS
# Behind them where the rank is chosen: fading sums over admitted rows, and in `key`.
FULL, WHOLE, SCORES = REALS, REALS + 1, REALS + 2
COIN, STAMP = 0, 1

# The order of the names in `covariance.ADMISSIONS`, the first four as in `okfeb.CENSORS`.
LEVERAGE = 4

EVERY_THIRD, EVERY_SECOND = 3, 2


class CovarianceSettings(NamedTuple):
    """A spec as numbers.

    `fading` is ln 2 over the half-life, in rows or, if `timed`, in ns, 0 without one; `rank_factor`
    is 0 where the rank is fixed; a step of the orthogonal iteration is made every `period` admitted
    rows: `EVERY_THIRD` where every row is admitted, else `EVERY_SECOND`.
    """

    learn: bool
    aligned: bool
    admission: int
    threshold: float
    admitted: float
    fading: float
    timed: bool
    rank_factor: float
    period: int
    clip: float
    scale_window: int


class CovarianceState(NamedTuple):
    """State of a model; every array keeps its shape for the model's whole life.

    With C = B + 1 slots (one for the row that is being added), the bytes of its arrays are
    8(C(D + 3r + 4C + 1) + 2r² + 2D + window + 17); 8 more with a half-life in event time, 8(r + 4)
    with a rank that is chosen. Where the half-life is chosen, all but shift, scale and bandwidth
    three times, and 48 more. A moving scale has 8(4D + 2) more, of each memory, too.

    Attributes:
        support: (C, D) stored rows, scaled; slots from `size` on are unused.
        factor: (r, C) Eᵀ, coefficients of the orthonormal basis of the subspace.
        gram: (C, C) K_S.
        image: (r, C) G = (K_S E)ᵀ.
        through: (r, C) F = (ΓK_S E)ᵀ.
        energy: (r, r) M = EᵀK_SΓK_S E, the covariance of the basis.
        weights: (C, C) Γ as of the last admitted row.
        square: (C, C) ΓK_SΓ.
        whitener: (C, C) W with WᵀW = K_S⁻¹.
        frame: (r, r) rotation T with z = Tq.
        born: (C,) index of each stored row.
        shift: (D,) centre over scale.
        scale: (D,) standard deviation.
        bandwidth: (1,) γ.
        recent: (window,) ring of the last losses.
        key: (1,) of the coins; with a half-life in event time (2,), the other one the time of the
            last admitted row, ns.
        reals: (4,) bound on what evictions took from the covariance, ε, c, mean loss; with a
            rank that is chosen (6 + r,), fading sums of δ, κ(x,x) and q² of admitted rows; with a
            moving scale its moments, 4D + 2 more, at the end.
        counts: (11,) valid rows, stored rows, losses in all, informative, evicted, dropped at
            once, times W was renewed out of turn, unseen (q = 0), rows of the start, valid rows
            at the last admitted one, admitted rows since W was renewed; with a rank that is
            chosen (13,), the rank in use and its sum over admitted rows.
        rivals: (2, P) where the half-life is chosen, else (0, 0): of the memories that are not in
            use the reals, `support` to `frame`, `recent`, `reals`, one behind the other.
        rival_counts: (2Q,), else (0,): `born`, `key`, `counts` of the same.
        choice: (6,), else (0,): fading mean losses of the memory in use and of the others, then
            their half-lives in rows.
    """

    support: FloatMatrix
    factor: FloatMatrix
    gram: FloatMatrix
    image: FloatMatrix
    through: FloatMatrix
    energy: FloatMatrix
    weights: FloatMatrix
    square: FloatMatrix
    whitener: FloatMatrix
    frame: FloatMatrix
    born: IntVector
    shift: FloatVector
    scale: FloatVector
    bandwidth: FloatVector
    recent: FloatVector
    key: IntVector
    reals: FloatVector
    counts: IntVector
    rivals: FloatMatrix
    rival_counts: IntVector
    choice: FloatVector

    @property
    def n(self) -> int:
        """Valid rows seen."""
        return int(self.counts[N])

    @property
    def size(self) -> int:
        """Stored rows |S|."""
        return int(self.counts[SIZE])
