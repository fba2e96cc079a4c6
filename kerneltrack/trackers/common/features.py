"""What a tracker says of rows."""

from __future__ import annotations

import dataclasses

from kerneltrack.arrays import BoolArray, FloatArray
from kerneltrack.arrays import IntArray as IntArray  # noqa: PLC0414 - a name of `kerneltrack.trackers`


@dataclasses.dataclass(frozen=True, slots=True)
class Features:
    """Results of a tracker for n rows, in their order.

    Attributes:
        valid: (n,) False where the row was refused: NaN, infinite or too large to compute with.
            A refused row leaves no trace in the state; its other values here are 0.
        index: (n,) number of the row among the model's valid rows, from 0.
        z: (n, r) features, K̂ = ZᵀZ, in a frame that is kept still while the subspace moves;
            None if the spec emits "q".
        loss: (n,) LS-fitting error ℓ in [0, κ(x,x)].
        novelty: (n,) mid-rank of ℓ among the model's recent losses, in [0, 1].
        informative: (n,) True where the row entered the subspace.
        evicted: (n,) index of the stored row that this row pushed out, -1 if none; the row's own
            index where it was dropped at once.
        initial: (n,) True for the rows that formed the start.
        q: (n, r) projection coefficients, if asked for or if the spec emits "q".
        s: (n, B) the paper's features K_S^{1/2}Aq, padded with zeros, if asked for.
        x: (n, D) the rows as they were scaled, not clipped, if asked for.
    """

    valid: BoolArray
    index: IntArray
    z: FloatArray | None
    loss: FloatArray
    novelty: FloatArray
    informative: BoolArray
    evicted: IntArray
    initial: BoolArray
    q: FloatArray | None
    s: FloatArray | None
    x: FloatArray | None
