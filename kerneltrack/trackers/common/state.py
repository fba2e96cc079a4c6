"""What the states of the trackers have in common, and what their row loops fill in.

The same places and orders stand in native/tracking.h.
"""

from __future__ import annotations

from typing import NamedTuple

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.native.layouts import BoolVector, FloatMatrix, FloatVector, IntVector

# Places in a state's `counts` and `reals`.
N, SIZE, LOSSES, INFORMATIVE, EVICTED, DROPPED, MENDED, UNSEEN, STARTED = range(9)
COUNTS = 9
RANK, DIRECTIONS = 11, 12
"""Directions in use, and their sum over informative rows, where a state has the places."""
RIDGE, EPSILON, STEP_SUM, MEAN_LOSS = range(4)
REALS = 4


class Outputs(NamedTuple):
    """Arrays that a call fills, one row each, as `Features` documents them; `number` is `index`.

    Those that are not wanted have no rows.
    """

    valid: BoolVector
    number: IntVector
    z: FloatMatrix
    loss: FloatVector
    novelty: FloatVector
    informative: BoolVector
    evicted: IntVector
    initial: BoolVector
    q: FloatMatrix
    s: FloatMatrix
    x: FloatMatrix


def directions_used(counts: IntArray, factor: FloatArray) -> int:
    """Return how many of the subspace's directions are in use: all, where they do not change."""
    return int(counts[RANK]) if counts.shape[0] > RANK else factor.shape[0]
