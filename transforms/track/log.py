"""What the tracker's step keeps of a model in Beam's state: a short log, read and written as one.

Beam's Python waits for the runner, and measures what its cache holds, once for each cell of state
that a bundle wrote for a key: for the models of a fleet, a row or a few each, that is what a row
costs. So the clock, the model's bytes and the rows that wait are entries of one bag. Rows that
come are appended; once some of them have run, the log is written anew. A log that grows long
first moves its rows into a bag of their own, which is not read until they run: however many wait,
a chunk costs the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from apache_beam import coders
from apache_beam.transforms.userstate import BagStateSpec

from kerneltrack.errors import DataError
from transforms.chunks import Chunk, decode_batch, encode_batch
from transforms.keyed.expiry import Kept
from transforms.track.clock import Clock

LOG_VERSION = 1
MOST_ENTRIES = 64

CLOCK, MODEL, ROWS, SPILLED, EXPIRED = b"c", b"m", b"r", b"s", b"e"


class Spilled(NamedTuple):
    """That more rows wait in the buffer, and how many."""

    rows: int


class Expired(NamedTuple):
    """That a model has expired, and the name of its file (see `expiry`)."""

    name: bytes


Entry: TypeAlias = Clock | bytes | Chunk | Spilled | Expired
"""What a log holds; bytes are the model's. Of clocks and models the last one counts."""


class EntryCoder(coders.Coder):
    """Coder of `Entry`: a letter that says which, and its bytes."""

    def is_deterministic(self) -> bool:
        """Return whether equal entries have equal bytes."""
        return True

    def encode(self, value: Entry) -> bytes:
        """Write an entry."""
        if isinstance(value, Chunk):
            return ROWS + encode_batch(value.batch)
        if isinstance(value, Clock):
            return CLOCK + value.encode()
        if isinstance(value, Expired):
            return EXPIRED + value.name
        if isinstance(value, Spilled):
            return SPILLED + str(value.rows).encode()
        return MODEL + value

    def decode(self, encoded: bytes) -> Entry:
        """Read an entry back.

        Raises:
            DataError: for one of an unknown kind.
        """
        kind, data = encoded[:1], encoded[1:]
        if kind == ROWS:
            return Chunk(decode_batch(data))
        if kind == CLOCK:
            return Clock.decode(data)
        if kind == EXPIRED:
            return Expired(data)
        if kind == SPILLED:
            return Spilled(int(data))
        if kind == MODEL:
            return data
        raise DataError("log", f"an entry of kind {kind!r}: written by newer code")


LOG = BagStateSpec("log", EntryCoder())
BUFFER = BagStateSpec("buffer", coders.registry.get_coder(Chunk))


class Cells(NamedTuple):
    """The cells of Beam's state of one model, as a step is given them.

    Attributes:
        log: That of `LOG`.
        buffer: That of `BUFFER`: rows that wait and are not in the log, older than those.
    """

    log: Any
    buffer: Any


class ModelLog:
    """One model's log, from the beginning of a call of the step to its end.

    Attributes:
        clock: The model's clock; None of one that is new, or has expired.
        model: The model as bytes; None before its first rows.
        expired: The name of its file, if it has expired.
    """

    def __init__(self, cells: Cells) -> None:
        """Read it."""
        self._cells = cells
        self.clock: Clock | None = None
        self.model: bytes | None = None
        self.expired: bytes | None = None
        self._waiting: list[Chunk] = []
        self._spilled = 0
        self._added: list[Entry] = []
        self._anew = False
        entries: list[Entry] = list(cells.log.read())
        self._length = len(entries)
        for entry in entries:
            if isinstance(entry, Chunk):
                self._waiting.append(entry)
            elif isinstance(entry, Clock):
                self.clock = entry
            elif isinstance(entry, Spilled):
                self._spilled = entry.rows
            elif isinstance(entry, Expired):
                self.expired = entry.name
            else:
                self.model = entry

    def add(self, chunk: Chunk) -> None:
        """Let rows wait."""
        self._waiting.append(chunk)
        self._added.append(chunk)

    def drain(self) -> list[Chunk]:
        """Take all rows that wait, in the order in which they came."""
        chunks, self._waiting = self._waiting, []
        self._anew = True
        if self._spilled:
            # All of them before any is added: that would never end.
            chunks = [*self._cells.buffer.read(), *chunks]
            self._cells.buffer.clear()
            self._spilled = 0
        return chunks

    def put_model(self, data: bytes | None) -> None:
        """Let the model be these bytes; None: it begins anew."""
        self.model = data
        self._anew = True

    def expire(self, name: bytes) -> None:
        """Keep the name of a file instead of all else."""
        self.drain()
        self.clock, self.model, self.expired = None, None, name

    def wake(self, kept: Kept) -> None:
        """Take up again what was kept of a model that had expired."""
        self._anew = True
        self.clock, self.model, self.expired = Clock.decode(kept.clock), kept.state, None
        self._waiting = list(kept.waiting)

    def put_clock(self, clock: Clock) -> None:
        """Let the clock be this one."""
        if clock != self.clock:
            self.clock = clock
            self._added.append(clock)

    def commit(self) -> None:
        """Write down what is new: once, when a call has done its work."""
        if self._length + len(self._added) > MOST_ENTRIES or len(self._waiting) > MOST_ENTRIES:
            for chunk in self._waiting:
                self._cells.buffer.add(chunk)
                self._spilled += len(chunk)
            self._waiting = []
            self._anew = True
        if self._anew:
            self._cells.log.clear()
            self._added = self._entries()
        for entry in self._added:
            self._cells.log.add(entry)

    def _entries(self) -> list[Entry]:
        """Return what the log holds if it is written anew."""
        if self.expired is not None:
            return [Expired(self.expired)]
        entries: list[Entry] = [] if self.model is None else [self.model]
        if self._spilled:
            entries.append(Spilled(self._spilled))
        entries.extend(self._waiting)
        if self.clock is not None:
            entries.append(self.clock)
        return entries
