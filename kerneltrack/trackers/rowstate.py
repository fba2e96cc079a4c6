"""What the compiled row loop works on: a spec as numbers, the state's arrays, scratch space."""

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


class Arrays(NamedTuple):
    """The state's arrays, as `SubspaceState` documents them."""

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
