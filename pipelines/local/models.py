"""Models of a local job in memory: the cells and timers that the keyed step is given."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from kerneltrack.errors import DataError
from pipelines.local.store import Saved
from transforms.track.keyed_fn import Timers
from transforms.track.log import BAGS, Cells, in_memory

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
    """A model's state as it is written: the entries of `BAGS`, and what its timers are set to."""

    cells: list[list[bytes]]
    timers: dict[str, float]


class Models:
    """All models of a job.

    Attributes:
        bundle: The number of the bundle that runs, or ran last.
        changed: Those whose state may differ from what was written last, and the first bundle since
            then that they have seen; in order of these.
    """

    def __init__(self) -> None:
        self._models: dict[str, tuple[Cells, Timers]] = {}
        self._due: dict[tuple[str, str], float] = {}
        self._queue: list[Due] = []
        self._owed = 0.0
        self.bundle = 0
        self.changed: dict[str, int] = {}

    def __len__(self) -> int:
        """Return the number of models."""
        return len(self._models)

    def _touch(self, key: str) -> None:
        self.changed.setdefault(key, self.bundle)

    def visit(self, key: str) -> tuple[Cells, Timers]:
        """Return a model's cells, which are going to be written to, and its timers.

        The input does not end: nothing waits for that.
        """
        self._touch(key)
        return self._model(key)

    def _model(self, key: str) -> tuple[Cells, Timers]:
        found = self._models.get(key)
        if found is None:
            timers = Timers(
                _Never(), *(_Timer(self, key, name) for name in (IDLE, SILENT, UNHEARD))
            )
            found = in_memory(), timers
            self._models[key] = found
        return found

    def set_timer(self, key: str, name: str, at: float | None) -> None:
        """Set a timer, or clear it."""
        self._touch(key)
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
            self._touch(due.key)
            yield due

    def _drop_stale(self) -> None:
        """Forget what a timer was set to before it was set anew."""
        while self._queue and self._due.get(self._queue[0][1:]) != self._queue[0].at:
            heapq.heappop(self._queue)

    @property
    def seen(self) -> int:
        """The last bundle that all models have seen as they are written."""
        return next(iter(self.changed.values()), self.bundle + 1) - 1

    def save(self, key: str) -> Saved:
        """Return a model that has changed, to be written."""
        del self.changed[key]
        return Saved(key, self.bundle, self._encode(key))

    def save_some(self, share: float, until: float) -> list[Saved]:
        """Return some of the models that have changed, those first that changed first.

        Args:
            share: How much of an interval has gone by, in which all of them are due. What is less
                than a model counts the next time: a few models are not written with each bundle.
            until: When no more are begun, as of `time.monotonic`.
        """
        self._owed = min(self._owed + share * len(self.changed), len(self.changed))
        found: list[Saved] = []
        for key in list(itertools.islice(self.changed, int(self._owed))):
            found.append(self.save(key))
            if time.monotonic() > until:
                break
        self._owed -= len(found)
        return found

    def _encode(self, key: str) -> bytes | None:
        cells, _ = self._model(key)
        written = [
            [spec.coder.encode(entry) for entry in cell.read()]
            for spec, cell in zip(BAGS, cells, strict=True)
        ]
        if not any(written):
            del self._models[key]
            return None
        own = ((name, self._due.get((key, name))) for name in (IDLE, SILENT, UNHEARD))
        timers = {name: at for name, at in own if at is not None}
        return msgspec.msgpack.encode(_State(written, timers))

    def take(self, saved: Saved, place: str) -> None:
        """Take a model as it was written.

        Raises:
            DataError: if it cannot be read.
        """
        key, _, data = saved
        if data is None:
            return
        try:
            state = msgspec.msgpack.decode(data, type=_State)
        except msgspec.MsgspecError as error:
            raise DataError(place, f"damaged: the state of model {key!r}: {error}") from error
        cells, _ = self.visit(key)
        for spec, cell, entries in zip(BAGS, cells, state.cells, strict=True):
            for entry in entries:
                cell.add(spec.coder.decode(entry))
        for name, at in state.timers.items():
            self.set_timer(key, name, at)
        del self.changed[key]


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
