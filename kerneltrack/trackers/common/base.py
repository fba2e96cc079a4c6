"""The protocol that all trackers share.

A tracker is a frozen spec and an explicit state. `init` makes the state from a model's first
rows (it looks at them, it does not learn them), `update` runs rows through it in order and
returns a new state, `project` gives the features of rows without learning.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kerneltrack.trackers.common.spec import SubspaceSpec

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class Features:
    """What a tracker says of n rows, in their order.

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


class Tracker(Protocol):
    """A tracker's functions, bound to nothing: the state goes in and comes out."""

    name: str
    spec_type: type[SubspaceSpec]
    state_type: Any

    def init(self, spec: Any, first_rows: npt.ArrayLike, key: str = "") -> Any:
        """Make the state from the first rows: scaling and bandwidth only.

        Args:
            spec: The spec.
            first_rows: Shape (m, D), normally m = spec.rows_to_start; fewer where a model has no
                more.
            key: The model's ID. With the seed it decides what a tracker draws at random while it
                runs, so that models do not share their draws; the start is the seed's alone.
        """
        ...

    def update(
        self,
        spec: Any,
        state: Any,
        rows: npt.ArrayLike,
        extras: tuple[str, ...] = (),
        times: IntArray | None = None,
    ) -> tuple[Any, Features]:
        """Run rows, shape (n, D), through the state in order.

        Args:
            spec: The spec that the state was made with.
            state: Not written to.
            rows: Shape (n, D).
            extras: "q" and "s" ask for those features too.
            times: (n,) event time of each row, ns. Only specs with `needs_times` read them.

        Returns:
            The new state and the rows' features. The same however rows are cut into calls.

        Raises:
            ConfigError: for rows of another width, or if times are needed and not there.
        """
        ...

    def project(
        self, spec: Any, state: Any, rows: npt.ArrayLike, extras: tuple[str, ...] = ()
    ) -> Features:
        """Return the rows' features under the state as it is, without learning."""
        ...

    def why_refused(self, spec: Any, state: Any, row: npt.ArrayLike) -> str:
        """Return in one clause why a row was not valid."""
        ...

    def counters(self, state: Any) -> dict[str, int]:
        """Return running totals: informative, evicted, dropped_at_once, mended, unseen.

        Where the rank is chosen from the stream also directions, its sum over informative rows.
        """
        ...

    def arrays(self, state: Any) -> dict[str, npt.NDArray[Any]]:
        """Return the state's arrays by name, for the codec."""
        ...

    def from_arrays(self, spec: Any, arrays: dict[str, npt.NDArray[Any]]) -> Any:
        """Make a state of arrays that `arrays` gave, checking their shapes."""
        ...
