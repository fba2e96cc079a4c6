"""What the compiled row loop works on: a spec as numbers, the state, outputs, scratch space."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.compiled import inlined

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# Places in the state's `counts` and `reals`.
N, SIZE, LOSSES, INFORMATIVE, EVICTED, DROPPED, MENDED, UNSEEN, STARTED = range(9)
COUNTS = 9
RANK, DIRECTIONS = 11, 12
"""Directions in use, and their sum over informative rows, where a state has the places."""
RIDGE, EPSILON, STEP_SUM, MEAN_LOSS = range(4)
REALS = 4

# The order of the names in `specs.RULES`, `specs.STEPS`, `okfeb.POLICIES` and `okfeb.CENSORS`.
NONPARAMETRIC = 1
NORMALISED, INVERSE_NORM, INVERSE_N, INVERSE_N2, MAJORISED = range(5)
NORM, FIFO, DISTORTION, COMPENSATED = range(4)
NO_CENSOR, FIXED, MOVING, RATE = range(4)


class Settings(NamedTuple):
    """A spec as numbers."""

    learn: bool
    aligned: bool
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


class SubspaceState(NamedTuple):
    """State of a model; every array keeps its shape for the model's whole life.

    With C = B + 1 slots (one for the row that is being added), the bytes of its arrays are
    8(C(D + 2r + C + 2) + 5r² + 2D + window + 14).

    Attributes:
        support: (C, D) stored rows, scaled; slots from `size` on are unused.
        factor: (r, C) Aᵀ.
        gram: (C, C) K_S.
        image: (r, C) (K_S A)ᵀ.
        solver: (r, r) inverse of the lower Cholesky factor of M + λI.
        solver_t: (r, r) its transpose.
        frame: (r, r) T with TᵀT = M and z = Tq.
        mapping: (r, r) T(M + λI)⁻¹, so that z = mapping · Aᵀk.
        seeds: (r, r) random rows that A starts from.
        recency: (C,) η.
        born: (C,) index of each stored row.
        shift: (D,) centre over scale.
        scale: (D,) standard deviation.
        bandwidth: (1,) γ.
        recent: (window,) ring of the last losses.
        reals: (4,) ridge in force, ε, sum of the majorised steps, mean loss.
        counts: (9,) valid rows, SVs, losses in all, informative, evicted, dropped at once,
            mended, unseen (q = 0), SVs of the start.
    """

    support: FloatArray
    factor: FloatArray
    gram: FloatArray
    image: FloatArray
    solver: FloatArray
    solver_t: FloatArray
    frame: FloatArray
    mapping: FloatArray
    seeds: FloatArray
    recency: FloatArray
    born: IntArray
    shift: FloatArray
    scale: FloatArray
    bandwidth: FloatArray
    recent: FloatArray
    reals: FloatArray
    counts: IntArray

    @property
    def n(self) -> int:
        """Valid rows seen."""
        return int(self.counts[N])

    @property
    def size(self) -> int:
        """Stored rows |S|."""
        return int(self.counts[SIZE])


def directions_used(counts: IntArray, factor: FloatArray) -> int:
    """Return how many of the subspace's directions are in use: all, where they do not change."""
    return int(counts[RANK]) if counts.shape[0] > RANK else factor.shape[0]


directions = inlined(directions_used)
"""The same within compiled loops; called from Python it would be compiled anew by each process."""


class Outputs(NamedTuple):
    """Arrays that a call fills, one row each, as `Features` documents them; `number` is `index`.

    Those that are not wanted have no rows.
    """

    valid: BoolArray
    number: IntArray
    z: FloatArray
    loss: FloatArray
    novelty: FloatArray
    informative: BoolArray
    evicted: IntArray
    initial: BoolArray
    q: FloatArray
    s: FloatArray


class Work(NamedTuple):
    """Scratch space of one call."""

    x: FloatArray
    k: FloatArray
    b: FloatArray
    v: FloatArray
    q: FloatArray
    along: FloatArray
    factor: FloatArray
    image: FloatArray
    inner: FloatArray
    root: FloatArray
    rest: FloatArray
    left: FloatArray
    right: FloatArray
    turn: FloatArray
    pivots: IntArray


@inlined
def make_work(slots: int, width: int, rank: int) -> Work:
    """Make scratch space for `slots` stored rows of `width` channels."""
    return Work(
        np.empty(width),
        np.empty(slots),
        np.empty(rank),
        np.empty(rank),
        np.empty(rank),
        np.empty(slots),
        np.empty((rank, slots)),
        np.empty((rank, slots)),
        np.empty((rank, rank)),
        np.empty((rank, rank)),
        np.empty(rank),
        np.empty((rank, rank)),
        np.empty((rank, rank)),
        np.empty((rank, rank)),
        np.empty(rank, dtype=np.int64),
    )
