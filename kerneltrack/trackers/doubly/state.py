"""What the compiled loops of the doubly stochastic trackers take: a spec as numbers, the state."""

from __future__ import annotations

from typing import NamedTuple

from kerneltrack.native.layouts import FloatMatrix, FloatVector, IntVector

# Places in the state's `counts` and `reals`.
N, LOSSES, STEPS, WAITING, MENDED = range(5)
COUNTS = 5
RIDGE = 0
REALS = 1


class DoublySettings(NamedTuple):
    """A spec as numbers, as the compiled loops take it."""

    learn: bool
    aligned: bool
    ridge: float
    form: int
    step_size: float
    step_decay: float
    row_batch: int
    clip: float


class DoublyState(NamedTuple):
    """State of a model; every array keeps its shape for the model's whole life.

    The bytes of its arrays are 8(r(F + B) + 4r² + 2D + window + 7), F features in the pool, B of
    them in a mini-batch: neither the rows nor the features themselves are in it.

    Attributes:
        factor: (r, F) αᵀ, the coefficients of the pool's features.
        solver: (r, r) inverse of the lower Cholesky factor of M + λI, M = F'ααᵀ over the F'
            features in use.
        solver_t: (r, r) its transpose.
        mapping: (r, r) M^{1/2}(M + λI)⁻¹, so that z = mapping · h.
        moment: (r, r) Σ h hᵀ over the rows of the open mini-batch.
        cross: (r, B) Σ h φᵀ over them, φ the features that its step moves.
        shift: (D,) centre over scale.
        scale: (D,) standard deviation.
        bandwidth: (1,) γ.
        recent: (window,) ring of the last losses.
        reals: (1,) ridge in force.
        counts: (5,) valid rows, losses in all, steps, rows in the open mini-batch,
            steps that were not taken.
    """

    factor: FloatMatrix
    solver: FloatMatrix
    solver_t: FloatMatrix
    mapping: FloatMatrix
    moment: FloatMatrix
    cross: FloatMatrix
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
        """Rows that were learned from."""
        return int(self.counts[N])
