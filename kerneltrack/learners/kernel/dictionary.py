"""What POLK and BSGD share: their state, a dictionary of rows.

f_c(x) = Σ_j w_cj κ(d_j, x): C functions (a class each, one in regression) share the rows d_j. The
dictionary never grows past `budget` rows, its arrays have as many places as there are rows.

A row goes in or out with the others re-fitted. Symbols: D the M stored rows, K = κ(D, D) with unit
diagonal, W with WᵀW = K⁻¹ (`root`), k = κ(D, x) of a row, w_c the weights of f_c.

**In.** t = K⁻¹k is the row's projection on the others, δ = 1 - kᵀt its squared distance from them;
W gets the row (-t, 1)/√δ and [K⁻¹]_jj grows by t_j²/δ. A row as good as in their span, δ <= 1e-6,
is not stored: w_c takes its projection. 4M² + O(M) flops.

**Out.** Without row j, the best w in the norm of the RKHS is w_ci - w_cj [K⁻¹]_ij/[K⁻¹]_jj, and the
functions move by Σ_c w_cj²/[K⁻¹]_jj in squares: all M such errors come at once, for 2CM + 2M flops.
Removals one after the other are projections one inside the other, so that their squared errors add
up. A reflection sends W's column j to the last axis; what is above it is a root of the inverse
without j. 6M² + O(CM) flops. The row that came in last, while its row of W is the only one to reach
it, just goes again: exactly as if it had never been stored, in O(CM).

After so many rows in and out as there are rows, 64 at least, W is computed anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kerneltrack.learners.common.base import COUNTS, LEARNED
from kerneltrack.learners.common.kept_classes import KeptClasses
from kerneltrack.learners.common.prequential import MAX_WIDTH, many_sums
from kerneltrack.learners.kernel.common import (
    EARLY,
    KernelLearner,
    counts_of,
    early_room,
    first_bandwidth,
    kernel_sums,
    resized,
    width_of,
)
from kerneltrack.learners.kernel.spec import DictionarySpec
from kerneltrack.limits import ArrayForm, Limit, check_counts, real, whole
from kerneltrack.native.layouts import FloatMatrix, FloatVector, IntVector
from kerneltrack.settings import check_int

# Places in `counts` behind those of all learners; the third is `EARLY`.
STORED, PENDING, _, SINCE = range(COUNTS, COUNTS + 4)
DICTIONARY_COUNTS = COUNTS + 4

_S = TypeVar("_S", bound=DictionarySpec)


class DictionaryState(NamedTuple):
    """State of a learner that keeps rows; see `LearnerState` for what all states hold.

    With M stored rows of D features, p rows of the mini-batch under way, C classes (1 in
    regression), e rows that wait for the bandwidth, and m = M where the learner projects, else 0,
    the bytes of its arrays are 8((M + p)(D + C) + m² + m + e(D + 1) + C + 13), 8 more in
    regression; M <= budget, p < rows a step, e < warmup, C <= max_classes.

    Attributes:
        rows: (M + p, D) stored rows, then those of the mini-batch under way.
        weights: (C, M + p) w; of the mini-batch what its rows will add.
        root: (m, m) W with WᵀW = K⁻¹, K = κ(rows, rows) of the stored rows.
        diagonal: (m,) that of K⁻¹.
        early: (e, D + 1) rows that wait for the bandwidth, each with its target or class's place.
        bandwidth: (1,) γ; 0 until it is known.
        sums: (4 + C,), in regression (6,), as in `LearnerState`.
        counts: (8,) as in `LearnerState`, then M, p, e and the steps since W was computed anew.
        classes, kept: As in `LearnerState`.
    """

    rows: FloatMatrix
    weights: FloatMatrix
    root: FloatMatrix
    diagonal: FloatVector
    early: FloatMatrix
    bandwidth: FloatVector
    sums: FloatVector
    counts: IntVector
    classes: tuple[str, ...]
    kept: KeptClasses | None = None

    @property
    def size(self) -> int:
        """Stored rows M, the model order."""
        return int(self.counts[STORED])


class DictionaryLearner(KernelLearner[_S, DictionaryState]):
    """A learner that keeps rows; a subclass brings what its loop is told."""

    state_type = DictionaryState
    evaluation = "dictionary_values"

    def projects(self, spec: _S) -> bool:
        """Check whether the learner needs K⁻¹."""
        return True

    def init(self, spec: _S, width: int) -> DictionaryState:
        """Make the state of a learner that has seen no label; see `Learner.init`."""
        check_int("width", width, 1, MAX_WIDTH)
        return DictionaryState(
            rows=np.zeros((0, width)),
            weights=np.zeros((0 if spec.classifies else 1, 0)),
            root=np.zeros((0, 0)),
            diagonal=np.zeros(0),
            early=np.zeros((0, width + 1)),
            bandwidth=first_bandwidth(spec),
            sums=kernel_sums(spec),
            counts=np.zeros(DICTIONARY_COUNTS, dtype=np.int64),
            classes=(),
        )

    def width(self, spec: _S, state: DictionaryState) -> int:
        """Return the number of features that a state was made for."""
        width: int = state.rows.shape[1]
        return width

    def roomy(
        self, spec: _S, state: DictionaryState, classes: tuple[str, ...], rows: int
    ) -> DictionaryState:
        """Return a copy of a state with room for a call's classes and rows."""
        used, width = state.rows.shape
        room = min(used + len(state.early) + rows, spec.budget + spec.rows_a_step)
        inverse = room if self.projects(spec) else 0
        count = len(classes) if spec.classifies else 1
        return DictionaryState(
            rows=resized(state.rows, (room, width)),
            weights=resized(state.weights, (count, room)),
            root=resized(state.root, (inverse, inverse)),
            diagonal=resized(state.diagonal, (inverse,)),
            early=resized(state.early, (early_room(spec, state, rows), width + 1)),
            bandwidth=state.bandwidth.copy(),
            sums=state.sums.copy(),
            counts=state.counts.copy(),
            classes=classes,
        )

    def stored(self, state: DictionaryState) -> int:
        """Return how many rows a state holds, without those that wait."""
        return len(state.rows)

    def trimmed(self, spec: _S, state: DictionaryState) -> DictionaryState:
        """Return a state without the room that is not in use."""
        stored, pending, early = (int(state.counts[place]) for place in (STORED, PENDING, EARLY))
        used, side = stored + pending, stored if self.projects(spec) else 0
        return state._replace(
            rows=state.rows[:used].copy(),
            weights=state.weights[:, :used].copy(),
            root=state.root[:side, :side].copy(),
            diagonal=state.diagonal[:side].copy(),
            early=state.early[:early].copy(),
        )

    def layout(
        self, spec: _S, arrays: dict[str, npt.NDArray[Any]], classes: int
    ) -> dict[str, ArrayForm]:
        """Return what a state's arrays should be like; see `PrequentialLearner`."""
        counts, width = counts_of(arrays, DICTIONARY_COUNTS), width_of(arrays["rows"])
        check_counts(
            "state.counts",
            counts,
            Limit("stored rows", STORED, spec.budget),
            Limit("rows of the mini-batch", PENDING, int(counts[LEARNED]) % spec.rows_a_step),
            Limit("rows that wait", EARLY, spec.warmup - 1),
        )
        stored, pending, early = (int(counts[place]) for place in (STORED, PENDING, EARLY))
        size, inverse = stored + pending, stored if self.projects(spec) else 0
        return {
            "rows": real(size, width),
            "weights": real(classes, size),
            "root": real(inverse, inverse),
            "diagonal": real(inverse),
            "early": real(early, width + 1),
            "bandwidth": real(1),
            "sums": real(many_sums(spec, classes)),
            "counts": whole(DICTIONARY_COUNTS),
        }
