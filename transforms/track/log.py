"""What the tracker's step keeps of a model in Beam's state: a short log, read and written as one.

Beam's Python waits for the runner, and measures what its cache holds, once for each cell of state
that a bundle wrote for a key: for the models of a fleet, a row or a few each, that is what a row
costs. So the clock, the model's bytes and the rows that wait are entries of one bag. Rows that
come are appended; once some of them have run, the log is written anew. A log that grows long
first moves its rows into a bag of their own, which is not read until they run: however many wait,
a chunk costs the same.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from apache_beam import coders
from apache_beam.transforms.userstate import BagStateSpec

from kerneltrack.errors import DataError
from transforms.chunks import Chunk, chunk_from
from transforms.keyed.expiry import Kept
from transforms.track.clock import Clock
from transforms.track.packed import Packed

LOG_VERSION = 5
MOST_ENTRIES = 64

CLOCK, MODEL, PACKED, ROWS, SPILLED, EXPIRED, WATCH = b"c", b"m", b"p", b"r", b"s", b"e", b"w"

_WATCH = struct.Struct("<ddd")


class Waiting(NamedTuple):
    """Rows that wait, as the bytes of their chunk: they hold nothing else in memory."""

    data: bytes

    def chunk(self) -> Chunk:
        """Return the rows."""
        return chunk_from(self.data)


class Spilled(NamedTuple):
    """That more rows wait in the buffer, and how many."""

    rows: int


class Expired(NamedTuple):
    """That a model has expired, and the name of its file (see `expiry`)."""

    name: bytes


class Watch(NamedTuple):
    """When a model last showed itself, and what its timers are set to.

    All in seconds of the worker's own clock. A timer costs the runner more than a row does: it is
    not set anew with each visit, but is there until it fires, and is then set to what is left of
    the silence.

    Attributes:
        seen: When rows came last.
        idle: What the timer of `idle_flush` was last set to; that of `expire_after` is `silent`.
        silent: See `idle`.
    """

    seen: float = 0.0
    idle: float = 0.0
    silent: float = 0.0

    def encode(self) -> bytes:
        """Write it as bytes."""
        return _WATCH.pack(*self)

    @classmethod
    def decode(cls, data: bytes) -> Watch:
        """Read it back.

        Raises:
            DataError: for bytes that are none.
        """
        if len(data) != _WATCH.size:
            raise DataError("log", f"damaged: a watch of {len(data)} bytes")
        return cls(*_WATCH.unpack(data))


Entry: TypeAlias = Clock | bytes | Packed | Chunk | Waiting | Spilled | Expired | Watch
"""What a log holds; bytes are the model's. Of clocks, models and watches the last one counts."""


_WRITTEN: dict[type, tuple[bytes, Callable[[Any], bytes]]] = {
    bytes: (MODEL, lambda data: data),
    Packed: (PACKED, Packed.encode),
    Chunk: (ROWS, Chunk.encode),
    Waiting: (ROWS, lambda waiting: waiting.data),
    Clock: (CLOCK, Clock.encode),
    Spilled: (SPILLED, lambda spilled: str(spilled.rows).encode()),
    Expired: (EXPIRED, lambda expired: expired.name),
    Watch: (WATCH, Watch.encode),
}
"""How an entry of each type begins, and the rest of its bytes."""


_READ: dict[bytes, Callable[[bytes], Entry]] = {
    MODEL: lambda data: data,
    PACKED: Packed.decode,
    ROWS: chunk_from,
    CLOCK: Clock.decode,
    SPILLED: lambda data: Spilled(int(data)),
    EXPIRED: Expired,
    WATCH: Watch.decode,
}


class EntryCoder(coders.Coder):
    """Coder of `Entry`: a letter that says which, and its bytes."""

    def is_deterministic(self) -> bool:
        """Return whether equal entries have equal bytes."""
        return True

    def encode(self, value: Entry) -> bytes:
        """Write an entry."""
        kind, write = _WRITTEN[type(value)]
        return kind + write(value)

    def decode(self, encoded: bytes) -> Entry:
        """Read an entry back.

        Raises:
            DataError: for one of an unknown kind.
        """
        kind, data = encoded[:1], encoded[1:]
        read = _READ.get(kind)
        if read is None:
            raise DataError("log", f"an entry of kind {kind!r}: written by newer code")
        return read(data)


LOG = BagStateSpec("log", EntryCoder())
BUFFER = BagStateSpec("buffer", coders.registry.get_coder(Chunk))
KEPT = BagStateSpec("kept", coders.BytesCoder())


class Cells(NamedTuple):
    """The cells of Beam's state of one model, as a step is given them.

    Attributes:
        log: That of `LOG`.
        buffer: That of `BUFFER`: rows that wait and are not in the log, older than those.
        kept: That of `KEPT`: the part of a packed model that few rows change.
    """

    log: Any
    buffer: Any
    kept: Any


class ModelLog:
    """One model's log, from the beginning of a call of the step to its end.

    Attributes:
        clock: The model's clock; None of one that is new, or has expired.
        watch: When the model showed itself, in a live job.
        expired: The name of its file, if it has expired.
    """

    def __init__(self, cells: Cells, unpack: Callable[[Packed], bytes]) -> None:
        """Read it; `unpack` makes of a block the bytes that a model is otherwise."""
        self._cells = cells
        self._unpack = unpack
        self.clock: Clock | None = None
        self._packed: Packed | None = None
        self.watch = Watch()
        self._model: bytes | None = None
        self.expired: bytes | None = None
        self._waiting: list[Chunk | Waiting] = []
        self._spilled = 0
        self._added: list[Entry] = []
        self._anew = False
        entries: list[Entry] = list(cells.log.read())
        self._length = len(entries)
        for entry in entries:
            if isinstance(entry, Chunk | Waiting):
                self._waiting.append(entry)
            elif isinstance(entry, Clock):
                self.clock = entry
            elif isinstance(entry, Watch):
                self.watch = entry
            elif isinstance(entry, Spilled):
                self._spilled = entry.rows
            elif isinstance(entry, Expired):
                self.expired = entry.name
            elif isinstance(entry, Packed):
                self._model, self._packed = None, entry
            else:
                self._model, self._packed = entry, None
        # Whether the cell of its own holds a part of the model, and whether it is written.
        self._keeps = self._packed is not None and bool(self._packed.moving)
        self._writes_kept = False

    @property
    def model(self) -> bytes | None:
        """The model as bytes; None before its first rows."""
        if self._model is None and self.packed is not None:
            self._model = self._unpack(self.packed)
        return self._model

    @property
    def packed(self) -> Packed | None:
        """The model as blocks of bytes, if it is one."""
        packed = self._packed
        if packed is not None and packed.moving and not packed.kept:
            packed = self._packed = packed._replace(kept=b"".join(self._cells.kept.read()))
        return packed

    @property
    def spilled(self) -> bool:
        """Whether rows wait in the buffer, too."""
        return self._spilled > 0

    @property
    def has_model(self) -> bool:
        """Whether it has learned from rows."""
        return self._model is not None or self._packed is not None

    def add(self, chunk: Chunk | Waiting) -> None:
        """Let rows wait."""
        self._waiting.append(chunk)
        self._added.append(chunk)

    def drain(self) -> list[Chunk]:
        """Take all rows that wait, in the order in which they came."""
        chunks, self._waiting = self.waiting(), []
        self._anew = True
        if self._spilled:
            # All of them before any is added: that would never end.
            chunks = [*self._cells.buffer.read(), *chunks]
            self._cells.buffer.clear()
            self._spilled = 0
        return chunks

    def put_model(self, data: bytes | None) -> None:
        """Let the model be these bytes; None: it begins anew."""
        self._model, self._packed = data, None
        self._anew = True

    def waiting(self) -> list[Chunk]:
        """Return the rows that wait in the log, in the order in which they came."""
        return [part.chunk() if isinstance(part, Waiting) else part for part in self._waiting]

    def release(self, packed: Packed, rest: Waiting | None, kept_changed: bool) -> None:
        """Let the model be these blocks, and no rows wait but the rest."""
        self._model, self._packed = None, packed
        self._writes_kept |= kept_changed or not self._keeps
        self._waiting = [] if rest is None else [rest]
        self._anew = True

    def expire(self, name: bytes) -> None:
        """Keep the name of a file instead of all else."""
        self.drain()
        self.clock, self.expired = None, name
        self._model, self._packed = None, None
        self.watch = Watch()

    def wake(self, kept: Kept) -> None:
        """Take up again what was kept of a model that had expired."""
        self._anew = True
        self.clock, self.expired = Clock.decode(kept.clock), None
        self._model, self._packed = kept.state, None
        self._waiting = list(kept.waiting)

    def put_clock(self, clock: Clock) -> None:
        """Let the clock be this one."""
        if clock != self.clock:
            self.clock = clock
            self._added.append(clock)

    def put_watch(self, watch: Watch) -> None:
        """Note when the model showed itself."""
        self.watch = watch
        self._added.append(watch)

    def commit(self) -> None:
        """Write down what is new: once, when a call has done its work."""
        if self._length + len(self._added) > MOST_ENTRIES or len(self._waiting) > MOST_ENTRIES:
            for part in self._waiting:
                chunk = part.chunk() if isinstance(part, Waiting) else part
                self._cells.buffer.add(chunk)
                self._spilled += len(chunk)
            self._waiting = []
            self._anew = True
        packed = self._packed
        if packed is not None and packed.moving:
            if self._writes_kept:
                self._cells.kept.clear()
                self._cells.kept.add(packed.kept)
        elif self._keeps:
            self._cells.kept.clear()
        if self._anew:
            self._cells.log.clear()
            self._added = self._entries()
        for entry in self._added:
            self._cells.log.add(entry)

    def _entries(self) -> list[Entry]:
        """Return what the log holds if it is written anew."""
        if self.expired is not None:
            return [Expired(self.expired)]
        entries: list[Entry] = []
        if self._packed is not None:
            entries.append(self._packed._replace(kept=b""))
        elif self._model is not None:
            entries.append(self._model)
        if self._spilled:
            entries.append(Spilled(self._spilled))
        entries.extend(self._waiting)
        if self.clock is not None:
            entries.append(self.clock)
        if self.watch.seen:
            entries.append(self.watch)
        return entries
