"""Models of one tracker side by side, as its row loop takes them: a single one is a block of one.

A loop of C is called with the addresses of all states' arrays, with the rows of all models in one
table, and with where each model's rows begin and end. States of fixed shapes lie side by side: all
is copied and addressed at once, and a model costs hardly any Python. States that grow with their
rows are a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.native.binding import packed
from kerneltrack.trackers.common.places import Places

State = TypeVar("State", bound=Any)


class FixedBlock(Generic[State]):
    """States whose arrays keep their shapes: each a row of a table, its arrays in their order.

    Args:
        kind: The states' type.
        places: What the arrays of one of them are like.
        table: (m, bytes), written to in place.
        width: Channels of the rows.

    Raises:
        ConfigError: for a table of another width.
    """

    def __init__(
        self, kind: type[State], places: Places, table: npt.NDArray[np.uint8], width: int
    ) -> None:
        if table.ndim != 2 or table.shape[1] != places.size:
            raise ConfigError("state", f"{table.shape[-1]} bytes", f"{places.size}")
        self.width = width
        self._kind, self._places, self._table = kind, places, table
        self._words = places.structures(table)

    @classmethod
    def of_states(
        cls, kind: type[State], places: Places, states: Sequence[State], width: int
    ) -> FixedBlock[State]:
        """Return copies of states.

        Raises:
            ConfigError: for one of other arrays.
        """
        body = bytearray().join([array for state in states for array in state])
        if len(body) != len(states) * places.size:
            raise ConfigError("states", f"{len(body)} bytes", f"{len(states)} of {places.size}")
        table = np.frombuffer(body, np.uint8).reshape(len(states), places.size)
        return cls(kind, places, table, width)

    @property
    def columns(self) -> Mapping[str, npt.NDArray[Any]]:
        """The states' arrays by name, (m, ...), in place."""
        return self._places.columns(self._table)

    def __len__(self) -> int:
        """Return m."""
        return len(self._words)

    def words(self, models: IntArray | None = None) -> IntArray:
        """Return the states of some models, or all, as the loops take them: structures (k, words).

        A structure has the addresses of arrays of this block: it serves as long as the block
        lives and its states have the shapes that they have.
        """
        return self._words if models is None else self._words[models]

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one array of all states, (m, ...), in place."""
        return self._places.column(self._table, name)

    def states(self) -> list[State]:
        """Return the states. They share the block's memory: what runs on is seen in them."""
        if len(self) == 1:
            return [self.state(0)]
        return [*map(self._kind._make, zip(*self.columns.values(), strict=True))]

    def state(self, model: int) -> State:
        """Return one of the states."""
        state: State = self._kind(*self._places.one(self._table, model))
        return state


class ListBlock(Generic[State]):
    """States one by one: those that grow with their rows, or are only looked at.

    Methods as of `FixedBlock`, but that a column is a copy, and all must be of one shape for it.

    Args:
        states: The states. One that grows is replaced by a larger one.
        width: Channels of the rows.
    """

    def __init__(self, states: list[State], width: int) -> None:
        self.width = width
        self.list = states

    def __len__(self) -> int:
        """Return m."""
        return len(self.list)

    def words(self, models: IntArray | None = None) -> IntArray:
        """Return the states of some models, or all, as the loops take them."""
        chosen = self.list if models is None else [self.list[model] for model in models.tolist()]
        return words_of(chosen)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one array of all states, copied, (m, ...)."""
        return np.stack([getattr(state, name) for state in self.list])

    def states(self) -> list[State]:
        """Return the states."""
        return list(self.list)

    def state(self, model: int) -> State:
        """Return one of the states."""
        return self.list[model]


Block: TypeAlias = FixedBlock[State] | ListBlock[State]
"""States of m models, which a tracker's `run` writes to."""


def words_of(states: Sequence[Any]) -> IntArray:
    """Return states as the loops take them, (m, words), of the states' own arrays."""
    words = np.frombuffer(b"".join(map(packed, states)), np.int64)
    return words.reshape(len(states), -1 if len(states) else 0)
