"""Models of a local job in memory: the cells and timers that the keyed step is given."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from kerneltrack.errors import DataError
from transforms.track.keyed_fn import Timers
from transforms.track.log import BUFFER, KEPT, LOG, Cells, MemoryCell

IDLE, SILENT, UNHEARD = "idle", "silent", "unheard"
"""Timers of this machine's clock, as `Timers` calls them."""


class Due(NamedTuple):
    """A timer that fires.

    Attributes:
        at: What it was set to, in seconds since 1970.
        key: The model's ID.
        name: Which timer it is.
    """

    at: float
    key: str
    name: str


class _State(NamedTuple):
    """A model's state as it is written."""

    log: list[bytes]
    buffer: list[bytes]
    kept: list[bytes]
    timers: dict[str, float]


class Models:
    """All models of a job.

    Attributes:
        changed: Those whose state may differ from what was written last.
    """

    def __init__(self) -> None:
        """Begin without models."""
        self._cells: dict[str, Cells] = {}
        self._due: dict[tuple[str, str], float] = {}
        self._queue: list[Due] = []
        self.changed: set[str] = set()

    def __len__(self) -> int:
        """Return the number of models."""
        return len(self._cells)

    def cells(self, key: str) -> Cells:
        """Return a model's cells, which are going to be written to."""
        self.changed.add(key)
        found = self._cells.get(key)
        if found is None:
            found = self._cells[key] = Cells(MemoryCell(), MemoryCell(), MemoryCell())
        return found

    def timers(self, key: str) -> Timers:
        """Return a model's timers. The input does not end: nothing waits for that."""
        return Timers(_Never(), *(_Timer(self, key, name) for name in (IDLE, SILENT, UNHEARD)))

    def set_timer(self, key: str, name: str, at: float | None) -> None:
        """Set a timer, or clear it."""
        self.changed.add(key)
        if at is None:
            self._due.pop((key, name), None)
            return
        self._due[key, name] = at
        heapq.heappush(self._queue, Due(at, key, name))

    def waiting_for(self, name: str) -> list[str]:
        """Return the models that have set a timer, in order of their IDs."""
        return sorted(key for key, of in self._due if of == name)

    def next_due(self) -> float | None:
        """Return when the next timer fires."""
        self._drop_stale()
        return self._queue[0].at if self._queue else None

    def fire(self, now: float) -> Iterator[Due]:
        """Yield the timers that are due, in order; they are not set any more."""
        while (at := self.next_due()) is not None and at <= now:
            due = heapq.heappop(self._queue)
            del self._due[due.key, due.name]
            self.changed.add(due.key)
            yield due

    def _drop_stale(self) -> None:
        """Forget what a timer was set to before it was set anew."""
        while self._queue and self._due.get(self._queue[0][1:]) != self._queue[0].at:
            heapq.heappop(self._queue)

    def encode(self, key: str) -> bytes | None:
        """Write a model's state; None if there is none."""
        cells = self._cells[key]
        log, buffer, kept = (
            [spec.coder.encode(entry) for entry in cell.read()]
            for spec, cell in zip((LOG, BUFFER, KEPT), cells, strict=True)
        )
        if not (log or buffer or kept):
            del self._cells[key]
            return None
        own = ((name, self._due.get((key, name))) for name in (IDLE, SILENT, UNHEARD))
        timers = {name: at for name, at in own if at is not None}
        return msgspec.msgpack.encode(_State(log, buffer, kept, timers))

    def decode(self, key: str, data: bytes, place: str) -> None:
        """Take a model's state.

        Raises:
            DataError: if it cannot be read.
        """
        try:
            state = msgspec.msgpack.decode(data, type=_State)
        except msgspec.MsgspecError as error:
            raise DataError(place, f"damaged: the state of model {key!r}: {error}") from error
        for spec, cell, entries in zip((LOG, BUFFER, KEPT), self.cells(key), state, strict=False):
            for entry in entries:
                cell.add(spec.coder.decode(entry))
        for name, at in state.timers.items():
            self.set_timer(key, name, at)
        self.changed.discard(key)


class _Timer:
    """One of a model's timers, as Beam has them."""

    def __init__(self, models: Models, key: str, name: str) -> None:
        self._models, self._key, self._name = models, key, name

    def set(self, at: Any) -> None:
        self._models.set_timer(self._key, self._name, float(at))

    def clear(self) -> None:
        self._models.set_timer(self._key, self._name, None)


class _Never:
    """The timer of the end of an input that does not end."""

    def set(self, at: Any) -> None:
        pass

    def clear(self) -> None:
        pass
