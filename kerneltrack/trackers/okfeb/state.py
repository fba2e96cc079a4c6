"""What the row loop (native/okfeb.c) works on: a spec as numbers, the state, outputs."""

from __future__ import annotations

from typing import NamedTuple

from kerneltrack.arrays import FloatArray
from kerneltrack.native.layouts import FloatMatrix, FloatVector, IntVector
from kerneltrack.trackers.common.state import COUNTS, REALS, SIZE, N

# Places that OK-FEB and OK-FE have besides those of all trackers.
SINCE = COUNTS
FADED, SHRINK = REALS, REALS + 1


class OkfebSettings(NamedTuple):
    """A spec as numbers; rule, step, policy and censor are places in the spec's choices."""

    learn: bool
    ridge: float
    rule: int
    step: int
    step_size: float
    policy: int
    forgetting: float
    censor: int
    threshold: float
    admitted: float
    start_rows: int
    clip: float
    scale_window: int


class SubspaceState(NamedTuple):
    """State of a model; every array keeps its shape for the model's whole life.

    With C = B + 1 slots (one for the row that is being added), W = C and P = r rounded up to
    multiples of 4, the bytes of its arrays are
    8(W(D + 2r + W) + rP + r² + 2C + 2D + window + 17), with a moving scale 8(4D + 2) more.
    Entries past the stored rows and past r are zero.

    Attributes:
        stored: (D, W) stored rows, scaled, as columns.
        factor: (r, W) Aᵀ.
        image: (r, W) (K_S A)ᵀ.
        gram: (W, W) K_S.
        frame: (r, P) Q with QᵀQ = (M + ρI)⁻¹ and z = QAᵀk.
        seeds: (r, r) random rows that A starts from.
        recency: (C,) η.
        born: (C,) index of each stored row.
        shift: (D,) centre over scale.
        scale: (D,) standard deviation.
        bandwidth: (1,) γ.
        recent: (window,) ring of the last losses.
        reals: (6,) ridge in force ρ, ε, sum of the majorised steps, mean loss, what is left of ρ
            since the renewal, what A is to be shrunk by at the next one (nonparametric rule);
            with a moving scale (4D + 8,), its moments at the end.
        counts: (10,) valid rows, SVs, losses in all, informative, evicted, dropped at once,
            mended, unseen (q = 0), SVs of the start, informative rows since the renewal.
    """

    stored: FloatMatrix
    factor: FloatMatrix
    image: FloatMatrix
    gram: FloatMatrix
    frame: FloatMatrix
    seeds: FloatMatrix
    recency: FloatVector
    born: IntVector
    shift: FloatVector
    scale: FloatVector
    bandwidth: FloatVector
    recent: FloatVector
    reals: FloatVector
    counts: IntVector

    @property
    def n(self) -> int:
        """Valid rows seen."""
        return int(self.counts[N])

    @property
    def size(self) -> int:
        """Stored rows |S|."""
        return int(self.counts[SIZE])

    @property
    def support(self) -> FloatArray:
        """Stored rows as rows, (C, D); those from `size` on are unused."""
        return self.stored[:, : len(self.born)].T
