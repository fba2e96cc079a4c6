"""What all trackers are: a frozen spec, an explicit state, and the functions between them.

`init` makes the state from a model's first rows (it looks at them, it does not learn them),
`update` runs rows through it in order and returns a new state, `project` gives the features of rows
without learning.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.limits import Like, Limit
from kerneltrack.trackers.common import state as places
from kerneltrack.trackers.common.calls import RowCall, copied, refusal, restored
from kerneltrack.trackers.common.columns import restored_columns
from kerneltrack.trackers.common.features import Features
from kerneltrack.trackers.common.spec import SubspaceSpec

IntArray = npt.NDArray[np.int64]

Spec = TypeVar("Spec", bound=SubspaceSpec)
State = TypeVar("State", bound=Any)


class KernelTracker(abc.ABC, Generic[Spec, State]):
    """A tracker's functions, bound to nothing: the state goes in and comes out.

    A tracker names its spec and its state (a named tuple of arrays that keep their shapes, among
    them `shift`, `scale` and `counts`), makes one, and runs rows through its loop. The rest is
    here.
    """

    name: str
    spec_type: type[Any]
    state_type: type[State]

    @abc.abstractmethod
    def init(self, spec: Spec, first_rows: npt.ArrayLike, key: str = "") -> State:
        """Make the state from the first rows: scaling and bandwidth only.

        Args:
            spec: The spec.
            first_rows: Shape (m, D), normally m = spec.rows_to_start; fewer where a model has no
                more.
            key: The model's ID. With the seed it decides what a tracker draws at random while it
                runs, so that models do not share their draws; the start is the seed's alone.
        """

    @abc.abstractmethod
    def run(
        self,
        spec: Spec,
        state: State,
        rows: npt.ArrayLike,
        extras: tuple[str, ...],
        times: IntArray | None,
        learn: bool,
    ) -> Features:
        """Run rows through the row loop, which writes to the state if it is to learn."""

    @abc.abstractmethod
    def layout(self, spec: Spec, width: int) -> dict[str, Like]:
        """Return what the arrays of a state for rows of D = `width` channels are like."""

    def limits(self, spec: Spec) -> tuple[Limit, ...]:
        """Return the ranges of those counts that lead the row loop."""
        return ()

    def sound(self, spec: Spec, state: State) -> State:
        """Return a state that was read, after a look at its values."""
        return state

    def update(
        self,
        spec: Spec,
        state: State,
        rows: npt.ArrayLike,
        extras: tuple[str, ...] = (),
        times: IntArray | None = None,
    ) -> tuple[State, Features]:
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
        after = copied(state)
        return after, self.run(spec, after, rows, extras, times, learn=True)

    def project(
        self, spec: Spec, state: State, rows: npt.ArrayLike, extras: tuple[str, ...] = ()
    ) -> Features:
        """Return the rows' features under the state as it is, without learning."""
        return self.run(spec, state, rows, extras, None, learn=False)

    def row_call(self, spec: Spec, state: State) -> RowCall | None:
        """Return a call that lets the state learn row by row, where there is a fast one.

        Args:
            spec: The spec that the state was made with.
            state: Written to by each call.
        """
        return None

    def why_refused(self, spec: Spec, state: State, row: npt.ArrayLike) -> str:
        """Return in one clause why a row was not valid."""
        return refusal(state, row)

    def counters(self, state: State) -> dict[str, int]:
        """Return running totals: informative, evicted, dropped_at_once, mended, unseen.

        Where the rank is chosen from the stream also directions, its sum over informative rows.
        """
        counts = state.counts
        chosen = len(counts) > places.RANK
        return {
            "informative": int(counts[places.INFORMATIVE]),
            "evicted": int(counts[places.EVICTED]),
            "dropped_at_once": int(counts[places.DROPPED]),
            "mended": int(counts[places.MENDED]),
            "unseen": int(counts[places.UNSEEN]),
            **({"directions": int(counts[places.DIRECTIONS])} if chosen else {}),
        }

    def arrays(self, state: State) -> dict[str, npt.NDArray[Any]]:
        """Return the state's arrays by name, for the codec."""
        named: dict[str, npt.NDArray[Any]] = state._asdict()
        return named

    def from_arrays(self, spec: Spec, arrays: dict[str, npt.NDArray[Any]]) -> State:
        """Make a state of arrays that `arrays` gave.

        Raises:
            ConfigError: naming the array or count that no state has.
        """
        state: State = restored(
            self.state_type, arrays, lambda width: self.layout(spec, width), *self.limits(spec)
        )
        return self.sound(spec, state)

    def from_columns(
        self, spec: Spec, columns: Mapping[str, npt.NDArray[Any]]
    ) -> list[State | None]:
        """Make states of columns of what `arrays` gave, (m, ...), m > 0.

        Returns:
            The states, parts of copies of the columns; None where `from_arrays` would raise.
        """
        count = len(next(iter(columns.values()), ()))
        found = restored_columns(
            self.state_type._fields,
            columns,
            lambda width: self.layout(spec, width),
            *self.limits(spec),
        )
        if found is None:
            return [None] * count
        copies, good = found
        parts = zip(*(copies[name] for name in self.state_type._fields), strict=True)
        # Of states that are not sound, nothing is looked at any further.
        states = [
            self.state_type(*arrays) if well else None
            for arrays, well in zip(parts, good.tolist(), strict=True)
        ]
        sound = self.sound_columns(spec, copies)
        if sound is None:
            return [None if state is None else self._if_sound(spec, state) for state in states]
        return [state if well else None for state, well in zip(states, sound, strict=True)]

    def sound_columns(
        self, spec: Spec, columns: dict[str, npt.NDArray[Any]]
    ) -> Sequence[bool] | None:
        """Return which states, read as columns (m, ...), are those that `sound` takes.

        None where a tracker knows no faster way than `sound` of each. The columns may be written
        to, as `sound` may write to a state.
        """
        return None

    def _if_sound(self, spec: Spec, state: State) -> State | None:
        try:
            return self.sound(spec, state)
        except (ConfigError, ValueError, IndexError, OverflowError, TypeError):
            return None
