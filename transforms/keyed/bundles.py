"""Steps that hold a bundle's elements until it ends, so as to run models together."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from transforms.chunks import Chunk

MOST_HELD = 131_072
"""Rows of a bundle that are held at most."""
MOST_BYTES = 64 << 20
"""Bytes of the states of models that run together at most, unless it is only one."""


class Visited(Protocol):
    """What a bundle has brought a model so far."""

    @property
    def chunks(self) -> list[Chunk]:
        """Rows, in the order in which they came."""
        ...


_V = TypeVar("_V", bound=Visited)


class HoldingFn(beam.DoFn, abc.ABC, Generic[_V]):
    """A stateful step that holds what comes for models, and runs it as the bundle ends.

    Beam writes state after `finish_bundle`, and lets cells and timers be used in it.
    """

    def __init__(self) -> None:
        """Begin without rows."""
        self.start_bundle()

    def start_bundle(self) -> None:
        """Begin without rows."""
        self.held: dict[str, _V] = {}
        self._rows = 0
        self._earliest: Any = MAX_TIMESTAMP

    def finish_bundle(self) -> Iterator[Any]:
        """Run what is held of the bundle."""
        earliest = self._earliest
        for out in self.run_held():
            if isinstance(out, pvalue.TaggedOutput):
                yield pvalue.TaggedOutput(out.tag, _placed(out.value, earliest))
            else:
                yield _placed(out, earliest)

    def hold(self, key: str, visited: _V, timestamp: Any, chunk: Chunk | None) -> Iterator[Any]:
        """Hold what has come for a model, and run all once there is much.

        Args:
            key: The model's ID.
            visited: What the bundle has brought it so far.
            timestamp: Of what has come.
            chunk: Rows; None if it is something else.
        """
        self.held[key] = visited
        self._earliest = min(self._earliest, timestamp)
        if chunk is not None:
            visited.chunks.append(chunk)
            self._rows += len(chunk)
        if self._rows >= MOST_HELD:
            yield from self.run_held()

    def run_held(self) -> Iterator[Any]:
        """Run what is held."""
        held = self.held
        self.start_bundle()
        if held:
            yield from self.run_visits(held)

    @abc.abstractmethod
    def run_visits(self, held: dict[str, _V]) -> Iterator[Any]:
        """Run what has come for models."""


def _placed(value: Any, timestamp: Any) -> WindowedValue:
    """Return an output as `finish_bundle` must give it."""
    return WindowedValue(value, timestamp, (GlobalWindow(),))
