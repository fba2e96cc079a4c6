"""What the row loop (native/oana.c) works on: a spec as numbers, the state."""

from __future__ import annotations

from typing import NamedTuple

from kerneltrack.native.layouts import FloatMatrix, FloatVector, IntVector
from kerneltrack.trackers.common.state import SIZE, N


class OanaSettings(NamedTuple):
    """A spec as numbers; `threshold` is infinite where landmarks stay where they are."""

    learn: bool
    aligned: bool
    threshold: float
    clip: float
    scale_window: int


class OANAState(NamedTuple):
    """State of a model; every array keeps its shape for the model's whole life.

    With C = m + 1 slots (the last one always free), the bytes of its arrays are
    8(C(D + 2r + C + 2) + r² + 2D + window + 14), with a moving scale 8(4D + 2) more.

    Attributes:
        support: (C, D) landmarks, scaled; slots from `size` on are unused.
        factor: (r, C) Eᵀ, coefficients of the orthonormal basis of the subspace; rows from
            `directions` on are zero.
        gram: (C, C) kernel matrix of the landmarks.
        image: (r, C) (KE)ᵀ.
        frame: (r, r) rotation T with z = Tq.
        members: (C,) rows N_j whose mean each landmark is.
        born: (C,) index of the row that each landmark began with.
        shift: (D,) centre over scale.
        scale: (D,) standard deviation.
        bandwidth: (1,) γ.
        recent: (window,) ring of the last losses.
        reals: (4,) three that are not used, mean loss; with a moving scale (4D + 6,), its moments
            at the end.
        counts: (9,) valid rows, landmarks, losses in all, informative, four that stay 0,
            directions.
    """

    support: FloatMatrix
    factor: FloatMatrix
    gram: FloatMatrix
    image: FloatMatrix
    frame: FloatMatrix
    members: IntVector
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
        """Landmarks."""
        return int(self.counts[SIZE])
