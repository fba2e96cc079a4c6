"""What a keyed step keeps of a model in Beam's state: a short log, read and written as one.

Beam's Python waits for the runner, and measures what its cache holds, once for each cell of state
that a bundle wrote for a key: for the models of a fleet, a row or a few each, that is what a row
costs. So the clock, the model's bytes, its learner's and the rows that wait are entries of one bag.
Rows that come are appended; once some of them have run, the log is written anew, unless so many
others wait that the model is better appended, too: with the time before which rows that lie before
it have run. A log that grows long first moves its rows into a bag of their own, which is not read
until they run: however many wait, a chunk costs the same.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from apache_beam import coders
from apache_beam.transforms.userstate import BagStateSpec

from kerneltrack.errors import DataError
from kerneltrack.fleet.model import NEVER
from transforms.chunks import Chunk, chunk_from
from transforms.keyed.expiry import KeptModel
from transforms.keyed.silence import Heard
from transforms.track.clock import Clock
from transforms.track.packed import Packed

LOG_VERSION = 18
MOST_ENTRIES = 64
BESIDE_ROWS = 3
"""Entries that a log has beside rows that wait: model, clock and watch, seldom more."""
MOST_APPENDED = MOST_ENTRIES // 2
"""Entries of a log that another model is appended to, at most."""
LEAST_LEFT = 1 << 15
"""Bytes of rows that wait from which on they are left where they are, not written anew."""

CLOCK, PACKED, ROWS, SPILLED, EXPIRED, WATCH = b"c", b"p", b"r", b"s", b"e", b"w"
WAITING, LEARNER, HEARD, TOLD, PERIODS, QUIET = b"l", b"n", b"h", b"f", b"d", b"q"

_WATCH = struct.Struct("<ddd")
_SPAN = struct.Struct("<qq")


class Waiting(NamedTuple):
    """Rows that wait, as the bytes of their chunk: they hold nothing else in memory.

    Attributes:
        data: The bytes.
        first: Least time of the rows, ns.
        last: Their greatest.
    """

    data: bytes
    first: int
    last: int

    @classmethod
    def of(cls, chunk: Chunk) -> Waiting:
        """Return a chunk's rows, which have times."""
        return cls(chunk.encode(), *chunk.span())

    def chunk(self) -> Chunk:
        """Return the rows."""
        return chunk_from(self.data)

    def encode(self) -> bytes:
        """Write it as bytes."""
        return _SPAN.pack(self.first, self.last) + self.data

    @classmethod
    def decode(cls, data: bytes) -> Waiting:
        """Read it back.

        Raises:
            DataError: for bytes that are none.
        """
        if len(data) <= _SPAN.size:
            raise DataError("log", f"damaged: rows of {len(data)} bytes")
        return cls(data[_SPAN.size :], *_SPAN.unpack_from(data))


class Spilled(NamedTuple):
    """That more rows wait in the buffer, and how many."""

    rows: int


class Expired(NamedTuple):
    """That a model has expired, and the name of its file (see `expiry`)."""

    name: bytes


class LearnerBytes(NamedTuple):
    """What the model's learner has come to, as `encode_working` writes it."""

    data: bytes


class Told(NamedTuple):
    """What people said of the device's episodes while the job ran, as `told_with` gives it."""

    data: bytes


class QuietBytes(NamedTuple):
    """Quiet times that a job was told of while it ran, as `QuietTimes.told_with` gives them."""

    data: bytes


class PeriodBytes(NamedTuple):
    """What the device's periods have come to, as `tell_periods` writes it."""

    data: bytes


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


Entry: TypeAlias = (
    Clock
    | Packed
    | LearnerBytes
    | Chunk
    | Waiting
    | Spilled
    | Expired
    | Watch
    | Heard
    | Told
    | QuietBytes
    | PeriodBytes
)
"""What a log holds. Of clocks, models, learners, watches, periods, what was heard and told the last
counts.

Of rows that lie before a packed model only those from `Packed.ran` on still wait.
"""


_WRITTEN: dict[type, tuple[bytes, Callable[[Any], bytes]]] = {
    Packed: (PACKED, Packed.encode),
    LearnerBytes: (LEARNER, lambda learner: learner.data),
    Chunk: (ROWS, Chunk.encode),
    Waiting: (WAITING, Waiting.encode),
    Clock: (CLOCK, Clock.encode),
    Spilled: (SPILLED, lambda spilled: str(spilled.rows).encode()),
    Expired: (EXPIRED, lambda expired: expired.name),
    Watch: (WATCH, Watch.encode),
    Heard: (HEARD, Heard.encode),
    Told: (TOLD, lambda told: told.data),
    QuietBytes: (QUIET, lambda quiet: quiet.data),
    PeriodBytes: (PERIODS, lambda periods: periods.data),
}
"""How an entry of each type begins, and the rest of its bytes."""


_READ: dict[bytes, Callable[[bytes], Entry]] = {
    PACKED: Packed.decode,
    LEARNER: LearnerBytes,
    ROWS: chunk_from,
    WAITING: Waiting.decode,
    CLOCK: Clock.decode,
    SPILLED: lambda data: Spilled(int(data)),
    EXPIRED: Expired,
    WATCH: Watch.decode,
    HEARD: Heard.decode,
    TOLD: Told,
    QUIET: QuietBytes,
    PERIODS: PeriodBytes,
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
PAST = BagStateSpec("past", coders.BytesCoder())
BAGS = (LOG, BUFFER, KEPT, PAST)
"""The cells of `Cells`, in their order."""


class Cells(NamedTuple):
    """The cells of Beam's state of one model, as a step is given them.

    Attributes:
        log: That of `LOG`.
        buffer: That of `BUFFER`: rows that wait and are not in the log, older than those.
        kept: That of `KEPT`: the part of a packed model that few rows change.
        past: That of `PAST`: the periods that are over, an entry each.
    """

    log: Any
    buffer: Any
    kept: Any
    past: Any


class MemoryCell:
    """A bag of Beam's state that lies in memory."""

    def __init__(self) -> None:
        self._entries: list[Any] = []

    def read(self) -> list[Any]:
        """Return the entries."""
        return list(self._entries)

    def add(self, entry: Any) -> None:
        """Add one."""
        self._entries.append(entry)

    def clear(self) -> None:
        """Forget all."""
        self._entries = []


class MemoryLog(MemoryCell):
    """The log of a model in memory: it stays as it was read from one call to the next.

    Its entries are written only for whoever reads them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._log: ModelLog | None = None
        self._taken = False

    def read(self) -> list[Any]:
        """Return the entries.

        Raises:
            RuntimeError: if the log is taken, and has not been committed.
        """
        if self._taken:
            raise RuntimeError("the log is taken")
        return super().read() if self._log is None else self._log.entries()

    def add(self, entry: Any) -> None:
        """Add one."""
        self._entries, self._log = self.read(), None
        super().add(entry)

    def keep(self, log: ModelLog) -> None:
        """Let the entries be those of a log that has been committed."""
        self._entries, self._log, self._taken = [], log, False

    def take(self) -> ModelLog | None:
        """Return the log that was committed last, to be changed and committed again."""
        self._taken = self._log is not None
        return self._log


def in_memory() -> Cells:
    """Return the cells of a model without anything, in memory."""
    return Cells(MemoryLog(), *(MemoryCell() for _ in BAGS[1:]))


def log_of(cells: Cells) -> ModelLog:
    """Return a model's log, which is going to be committed."""
    kept = cells.log.take() if isinstance(cells.log, MemoryLog) else None
    return ModelLog(cells) if kept is None else kept


def _rows_of(part: Chunk | Waiting) -> Chunk:
    return part.chunk() if isinstance(part, Waiting) else part


def _later(part: Chunk | Waiting, time: float) -> Chunk | Waiting | None:
    """Return those of some rows that are later than a time, ns; None if none is."""
    if isinstance(part, Waiting):
        if part.first > time:
            return part
        if part.last <= time:
            return None
    later = _rows_of(part).later_than(time)
    return later if len(later) else None


def _without_kept(packed: Packed) -> Packed:
    return packed._replace(kept=b"") if packed.kept else packed


class ModelLog:
    """One model's log, from the beginning of a call of the step to its end.

    Attributes:
        clock: The model's clock; None of one that is new, or has expired.
        learner: What its learner has come to, as bytes; None before anything came to it.
        watch: When the model showed itself, in a live job.
        heard: When its rows came, in a job that finds silent devices. An expired one keeps it.
        told: What people said of its episodes while the job ran. An expired one keeps it, too.
        quiet: Quiet times that the job was told of, likewise.
        periods: What its periods have come to, as bytes; none before its first rows.
        expired: The name of its file, if it has expired.
    """

    __slots__ = (
        "_added",
        "_anew",
        "_cells",
        "_days",
        "_keeps",
        "_length",
        "_packed",
        "_past",
        "_past_time",
        "_spilled",
        "_stale",
        "_waiting",
        "_writes_kept",
        "clock",
        "expired",
        "heard",
        "learner",
        "periods",
        "quiet",
        "told",
        "watch",
    )

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self.clock: Clock | None = None
        self.learner: bytes | None = None
        self._packed: Packed | None = None
        self.watch = Watch()
        self.heard, self.told, self.quiet, self.periods = Heard(), b"", b"", b""
        self._days: Sequence[bytes] | None = None
        self.expired: bytes | None = None
        self._waiting: list[Chunk | Waiting] = []
        # How many of them lie before the model, and its time: rows up to that have run.
        self._past, self._past_time = 0, -math.inf
        self._spilled = 0
        self._added: list[Entry] = []
        self._anew = False
        entries: list[Any] = list(cells.log.read())
        self._length = len(entries)
        # Bytes of models and learners that are no more.
        self._stale = 0
        for entry in entries:
            # Those that most logs have come first.
            kind = type(entry)
            if kind is Packed:
                self._stale += self.model_bytes
                self._put_past(entry)
            elif kind is Clock:
                self.clock = entry
            elif kind is Watch:
                self.watch = entry
            elif kind is Waiting or kind is Chunk:
                self._waiting.append(entry)
            elif kind is Heard:
                self.heard = entry
            elif kind is Told:
                self.told = entry.data
            elif kind is QuietBytes:
                self.quiet = entry.data
            elif kind is PeriodBytes:
                self._stale += len(self.periods)
                self.periods = entry.data
            elif kind is Spilled:
                self._spilled = entry.rows
            elif kind is Expired:
                self.expired = entry.name
            else:
                self._stale += len(self.learner or b"")
                self.learner = entry.data
        # Whether the cell of its own holds a part of the model, and whether it is written.
        self._keeps = self._packed is not None and bool(self._packed.moving)
        self._writes_kept = False

    @property
    def packed(self) -> Packed | None:
        """The model; None before its first rows."""
        packed = self._packed
        if packed is not None and packed.moving and not packed.kept:
            packed = self._packed = packed._replace(kept=b"".join(self._cells.kept.read()))
        return packed

    @property
    def model_bytes(self) -> int:
        """How many bytes the model takes here, what is kept left out."""
        return 0 if self._packed is None else self._packed.size

    @property
    def width(self) -> int:
        """Channels of the model's rows; 0 before its first."""
        return 0 if self._packed is None else self._packed.width

    @property
    def begins(self) -> bool:
        """Whether nothing has come to the model, or it has expired."""
        return self.clock is None and self.learner is None

    @property
    def spilled(self) -> bool:
        """Whether rows wait in the buffer, too."""
        return self._spilled > 0

    @property
    def has_model(self) -> bool:
        """Whether it has learned from rows."""
        return self._packed is not None

    @property
    def leaves(self) -> bool:
        """Whether rows that wait are best left where they are when others run.

        Then so many wait that a model appended costs less, and of what lies there no more than half
        is done with.
        """
        if self._length > MOST_APPENDED:
            return False
        whole = left = 0
        for part in self._waiting:
            if isinstance(part, Waiting):
                whole += len(part.data)
                if part.last > self._past_time:
                    left += len(part.data)
        return left >= LEAST_LEFT and self._stale + whole - left <= left

    def _left(self) -> list[Chunk | Waiting]:
        """Return what has not run of the rows that wait."""
        if not self._past:
            return list(self._waiting)
        past = [_later(part, self._past_time) for part in self._waiting[: self._past]]
        return [*(part for part in past if part is not None), *self._waiting[self._past :]]

    def _put_past(self, packed: Packed) -> None:
        """Let the model be these blocks, behind all rows that wait."""
        self._packed, self._past = packed, len(self._waiting)
        self._past_time = packed.ran - 1

    def add(self, chunk: Chunk | Waiting) -> None:
        """Let rows wait."""
        self._waiting.append(chunk)
        self._added.append(chunk)

    def drain(self) -> list[Chunk]:
        """Take all rows that wait, in the order in which they came."""
        chunks, self._waiting, self._past = self.waiting(), [], 0
        self._anew = True
        if self._spilled:
            # All of them before any is added: that would never end.
            chunks = [*self._cells.buffer.read(), *chunks]
            self._cells.buffer.clear()
            self._spilled = 0
        return chunks

    def put_model(self, packed: Packed | None) -> None:
        """Let the model be these blocks; None: it begins anew."""
        self._packed = packed
        self._writes_kept = self._anew = True

    def put_learner(self, data: bytes) -> None:
        """Let the learner be these bytes."""
        self.learner = data
        self._added.append(LearnerBytes(data))
        self._anew |= not self.leaves

    def waiting(self) -> list[Chunk]:
        """Return the rows that wait in the log, in the order in which they came."""
        return [_rows_of(part) for part in self._left()]

    def before(self, time: int, brought: Sequence[Chunk]) -> tuple[list[Chunk], int]:
        """Return the rows before a time, ns, of those that wait and others that come.

        Returns:
            The rows, and the least time of those that are not among them; `NEVER` if all are.
        """
        found, oldest = [], NEVER
        for part in (*self._left(), *brought):
            if isinstance(part, Waiting) and part.first >= time:
                oldest = min(oldest, part.first)
                continue
            chunk = _rows_of(part)
            early = chunk.earlier_than(time)
            if len(early) < len(chunk):
                times = chunk.column("time")
                oldest = min(oldest, int(times[times >= time].min()))
            if len(early):
                found.append(early)
        return found, oldest

    def append(self, packed: Packed, brought: Sequence[Waiting], kept_changed: bool) -> None:
        """Let the model be these blocks; all rows before `packed.ran` have run.

        Args:
            packed: The model.
            brought: Rows that have come, and were not in the log.
            kept_changed: As of `release`.
        """
        self._writes_kept |= kept_changed or not self._keeps
        self._waiting += brought
        self._put_past(packed)
        self._added += [*brought, _without_kept(packed)]

    def release(self, packed: Packed, rest: Waiting | None, kept_changed: bool) -> None:
        """Let the model be these blocks, and no rows wait but the rest."""
        self._packed = packed
        self._writes_kept |= kept_changed or not self._keeps
        self._waiting = [] if rest is None else [rest]
        self._past = 0
        self._anew = True

    def expire(self, name: bytes) -> None:
        """Keep the name of a file instead of all else."""
        self.drain()
        self.clock, self.expired = None, name
        self._packed, self.learner = None, None
        self.periods, self._days = b"", ()
        self.watch = Watch()

    def wake(self, kept: KeptModel) -> None:
        """Take up again what was kept of a model that had expired, but for its tracker."""
        self._anew = True
        self.clock = None if kept.clock is None else Clock.decode(kept.clock)
        self.learner, self.expired = kept.learner, None
        self.periods, self._days = kept.periods, kept.days
        self._waiting, self._past = list(kept.waiting), 0

    def put_clock(self, clock: Clock) -> None:
        """Let the clock be this one."""
        if clock != self.clock:
            self.clock = clock
            self._added.append(clock)

    def put_watch(self, watch: Watch) -> None:
        """Note when the model showed itself."""
        self.watch = watch
        self._added.append(watch)

    def put_heard(self, heard: Heard) -> None:
        """Note when rows of the device came."""
        if heard != self.heard:
            self.heard = heard
            self._added.append(heard)

    def put_told(self, told: bytes) -> None:
        """Let this be what people said."""
        self.told = told
        self._added.append(Told(told))

    def put_quiet(self, quiet: bytes) -> None:
        """Let these be the quiet times that the job was told of."""
        self.quiet = quiet
        self._added.append(QuietBytes(quiet))

    def days(self) -> Sequence[bytes]:
        """Return the periods that are over."""
        return self._cells.past.read() if self._days is None else self._days

    def put_periods(self, data: bytes, days: Sequence[bytes] | None) -> None:
        """Let the periods have come to this; `days`: those that are over, None: as before."""
        self.periods = data
        self._days = self._days if days is None else days
        self._added.append(PeriodBytes(data))

    def commit(self) -> None:
        """Write down what is new: once, when a call has done its work."""
        if self._length + len(self._added) > MOST_ENTRIES or len(self._waiting) > MOST_ENTRIES:
            for chunk in self.waiting():
                self._cells.buffer.add(chunk)
                self._spilled += len(chunk)
            self._waiting, self._past = [], 0
            self._anew = True
        packed = self._packed
        if packed is not None and packed.moving:
            if self._writes_kept:
                self._cells.kept.clear()
                self._cells.kept.add(packed.kept)
        elif self._keeps:
            self._cells.kept.clear()
        if self._days is not None:
            self._cells.past.clear()
            for day in self._days:
                self._cells.past.add(day)
        log = self._cells.log
        if isinstance(log, MemoryLog):
            self._stay()
            log.keep(self)
            return
        if self._anew:
            log.clear()
            self._added = self.entries()
        for entry in self._added:
            log.add(entry)

    def _stay(self) -> None:
        """Be what a log is that has been read from what this one was committed with."""
        packed = self._packed
        if self._anew:
            self._waiting, self._past = self._left(), 0
            self._past_time = -math.inf if packed is None else packed.ran - 1
        self._keeps = packed is not None and bool(packed.moving)
        self._writes_kept = self._anew = False
        self._days, self._stale, self._added = None, 0, []
        self._length = len(self._waiting) + BESIDE_ROWS

    def entries(self) -> list[Entry]:
        """Return what the log holds if it is written anew."""
        always: list[Entry] = [self.heard] if self.heard.seen else []
        always += [Told(self.told)] if self.told else []
        always += [QuietBytes(self.quiet)] if self.quiet else []
        if self.expired is not None:
            return [Expired(self.expired), *always]
        entries: list[Entry] = []
        if self._packed is not None:
            entries.append(_without_kept(self._packed))
        if self.learner is not None:
            entries.append(LearnerBytes(self.learner))
        if self.periods:
            entries.append(PeriodBytes(self.periods))
        if self._spilled:
            entries.append(Spilled(self._spilled))
        entries.extend(self._left())
        if self.clock is not None:
            entries.append(self.clock)
        if self.watch.seen:
            entries.append(self.watch)
        return entries + always
