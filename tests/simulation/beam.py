"""A runner in memory that treats a stateful step as Beam's do, and can die at any write.

Elements and timers come in bundles. A bundle sees its own writes; they and its outputs are there
for others once it is committed, or never. Bags hold bytes, or, as Beam's cache does, the objects
that were written as long as the worker lives. Timers fire once, in order, when the worker's own
clock has reached them, a moment late, or long after if the job stood still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias
from unittest.mock import patch

from apache_beam import pvalue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from kerneltrack.snapshots.files import write_whole
from transforms.chunks import Chunk
from transforms.keyed import expiry
from transforms.outputs import FEATURES
from transforms.track.log import BAGS

IDLE, SILENT, UNHEARD, END = "idle", "silent", "unheard", "end"
Cell: TypeAlias = tuple[tuple[bytes, Any], ...]
"""What a bag holds: bytes, and the object that they were made of."""
CODERS = {spec.name: spec.coder for spec in BAGS}
Output: TypeAlias = tuple[str, Any]
"""Name of the output, and the element."""


class Died(Exception):
    """The worker is gone."""


class Writes:
    """Counts what a bundle writes, and lets the worker die at one of the writes."""

    def __init__(self, dies_at: int | None) -> None:
        self._left = dies_at

    def one(self) -> None:
        """Count one more."""
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                raise Died


class State(NamedTuple):
    """What is committed.

    Attributes:
        cells: By device and name.
        timers: When they are due, by device and name.
    """

    cells: dict[tuple[str, str], Cell]
    timers: dict[tuple[str, str], float]

    def copied(self) -> State:
        """Return a copy that others do not write to."""
        return State(dict(self.cells), dict(self.timers))


class Bag:
    """A bag of one device, as a bundle sees it."""

    def __init__(self, held: Cell, name: str, writes: Writes, cached: bool) -> None:
        self.entries: list[tuple[bytes | None, Any]] = list(held)
        self._coder, self._writes, self._cached = CODERS[name], writes, cached

    def read(self) -> list[Any]:
        """Return what it holds, with what this bundle has added."""
        return [
            value if data is None or self._cached else self._coder.decode(data)
            for data, value in self.entries
        ]

    def add(self, value: Any) -> None:
        """Add a value."""
        self._writes.one()
        self.entries.append((None, value))

    def clear(self) -> None:
        """Forget all."""
        self._writes.one()
        self.entries = []

    def written(self) -> Cell:
        """Return what is committed."""
        found = []
        for data, value in self.entries:
            encoded: bytes = self._coder.encode(value)
            if data is not None and encoded != data:
                raise AssertionError("an entry of state was changed after it was written")
            found.append((encoded, value))
        return tuple(found)


class Timer:
    """A timer of one device, as a bundle sees it."""

    def __init__(self, timers: dict[tuple[str, str], float], at: tuple[str, str], writes: Writes):
        self._timers, self._at, self._writes = timers, at, writes

    def set(self, when: Any) -> None:
        """Set it anew."""
        self._writes.one()
        self._timers[self._at] = float(when)

    def clear(self) -> None:
        """Let it fire no more."""
        self._writes.one()
        self._timers.pop(self._at, None)


class Fired(NamedTuple):
    """That a timer has fired."""

    key: str
    name: str
    due: float


Item: TypeAlias = tuple[str, Chunk] | Fired


class Clock:
    """The worker's own clock, in place of the module `time` where the step reads it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def time(self) -> float:
        """Return seconds."""
        return self.now


class Worker:
    """A worker with a step: runs bundles on committed state.

    Args:
        step: The step.
        cached: Whether values come back as they were written.
    """

    def __init__(self, step: Any, cached: bool) -> None:
        self._step, self._cached = step, cached
        self._listens = hasattr(step, "at_absence")

    def run(
        self, state: State, items: Iterable[Item], dies_at: int | None
    ) -> tuple[State, list[Output]]:
        """Run a bundle; return what is to be committed.

        Raises:
            Died: at that write.
        """
        writes = Writes(dies_at)
        now = state.copied()
        bags: dict[tuple[str, str], Bag] = {}
        found: list[Output] = []

        def cells_of(key: str) -> dict[str, Bag]:
            for name in CODERS:
                if (key, name) not in bags:
                    held = now.cells.get((key, name), ())
                    bags[key, name] = Bag(held, name, writes, self._cached)
            return {name: bags[key, name] for name in CODERS}

        def timers_of(key: str, *names: str) -> dict[str, Timer]:
            return {name: Timer(now.timers, (key, name), writes) for name in names}

        def keep(outputs: Iterable[Any]) -> None:
            for output in outputs:
                writes.one()
                found.append(named(output))

        with _files_written(writes):
            self._step.start_bundle()
            for item in items:
                cells = cells_of(item[0])
                if isinstance(item, Fired):
                    keep(self._fire(item, cells, timers_of))
                else:
                    timers = timers_of(item[0], END, IDLE, SILENT)
                    if self._listens:
                        timers |= timers_of(item[0], UNHEARD)
                    keep(self._step.process(item, **cells, **timers, timestamp=MIN_TIMESTAMP))
            keep(self._step.finish_bundle())
        for at, bag in bags.items():
            now.cells[at] = bag.written()
        return now, found

    def _fire(
        self, fired: Fired, cells: dict[str, Bag], timers_of: Callable[..., dict[str, Timer]]
    ) -> Iterator[Any]:
        key, name, due = fired
        stamp = Timestamp.of(due)
        if name == END:
            return iter(self._step.at_end(key, **cells))
        if name == IDLE:
            return iter(self._step.at_idle(key, **cells, **timers_of(key, IDLE), due=stamp))
        if name == UNHEARD:
            return iter(self._step.at_absence(key, **cells, **timers_of(key, UNHEARD), due=stamp))
        timers = timers_of(key, END, SILENT)
        return iter(self._step.at_silence(key, **cells, **timers, due=stamp))


def named(output: Any) -> Output:
    """Return an output without the time that `finish_bundle` puts to it."""
    name, value = FEATURES, output
    if isinstance(output, pvalue.TaggedOutput):
        name, value = str(output.tag), output.value
    return name, getattr(value, "value", value) if hasattr(value, "windows") else value


@contextmanager
def _files_written(writes: Writes) -> Iterator[None]:
    """Let files of expired models be writes, too: a worker may die before or after one."""

    def counted(path: str, data: bytes) -> None:
        writes.one()
        write_whole(path, data)
        writes.one()

    with patch.object(expiry, "write_whole", counted):
        yield
