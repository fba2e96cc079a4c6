"""What has to be sent to whom, and how far a topic was read: a small SQLite file.

An episode waits for each receiver until it was sent, then until it is over, and is then forgotten.
Before it is sent that is noted: where a process is killed while it sends, the receiver may know the
episode, and hears of its end.
What is read and how far are written in one transaction, and that something was sent as soon as it
was: a process that is killed goes on where it was, and sends again at most what it was sending.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kerneltrack.errors import ConfigError, DataError
from pipelines.notify.notices import INCIDENT, Event, Notice
from pipelines.transactions import transaction

VERSION = 1
WAITS, TRIED, SENT, ENDS = "waits", "tried", "sent", "ends"
"""Its beginning is yet to be sent; may have been sent; was; its end is yet to be sent."""

_TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS offsets (partition INTEGER PRIMARY KEY, next INTEGER);
CREATE TABLE IF NOT EXISTS episodes (
    number INTEGER PRIMARY KEY AUTOINCREMENT, receiver TEXT, key TEXT, state TEXT, opened BLOB,
    closed BLOB, UNIQUE (receiver, key));
"""


class Outbox:
    """The file; a context manager. One process alone holds it.

    Args:
        path: The file; made if it is not there.
        source: What is read: a file belongs to one folder or topic.
        receivers: Names of the receivers.

    Raises:
        DataError: for a file of something else, of another version, or that another process holds.
        ConfigError: for one of another source.
    """

    def __init__(self, path: str, source: str, receivers: Sequence[str]) -> None:
        self._path, self._receivers = path, receivers
        if not Path(path).parent.is_dir():
            raise ConfigError("--state", path, "a file in a folder that exists")
        with self._checked():
            self._file = sqlite3.connect(path, isolation_level=None, timeout=0)
            self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._file.execute("PRAGMA synchronous = FULL")
            self._file.execute("BEGIN IMMEDIATE")
            known = self._about("version") if self._is_made() else None
            if known not in (None, str(VERSION)):
                reason = f"format version {known}: this code reads version {VERSION}"
                raise DataError(path, reason)
            for table in _TABLES.split(";"):
                self._file.execute(table)
            before = self._about("source")
            if before not in (None, source):
                raise ConfigError("--state", path, f"another file: this one is of {before}")
            for name, value in (("version", str(VERSION)), ("source", source)):
                self._file.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))
            self._file.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _is_made(self) -> bool:
        found = self._file.execute("SELECT name FROM sqlite_master WHERE name = 'about'")
        return found.fetchone() is not None

    def _about(self, name: str) -> str | None:
        row = self._file.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    # ---- what is read ----

    def offsets(self) -> dict[int, int]:
        """Return the offset of the next message of each partition that was read."""
        with self._checked():
            return dict(self._file.execute("SELECT partition, next FROM offsets"))

    def read(self, notices: Iterable[Notice], offsets: Mapping[int, int]) -> None:
        """Take in lines in the order in which they hold, and how far the topic was read."""
        with self._transaction():
            for notice in notices:
                self._take(notice)
            self._file.executemany("INSERT OR REPLACE INTO offsets VALUES (?, ?)", offsets.items())

    def replace(self, notices: Iterable[Notice], covered: Collection[str] = ()) -> None:
        """Take in all that holds now: what is not open any more is over.

        Args:
            notices: What it holds.
            covered: Keys of episodes of which an incident is sent in their place: their beginning
                is not sent, their end is if the beginning was.
        """
        last = {notice.key: notice for notice in notices}
        with self._transaction():
            known = {key for (key,) in self._file.execute("SELECT key FROM episodes")}
            for notice in last.values():
                if notice.key not in covered if notice.is_open else notice.key in known:
                    self._take(notice)
            for key in sorted(known - last.keys()):
                self._end(key, None)

    def incidents(self) -> list[Notice]:
        """Return the incidents that are sent, or yet to be, and are not over."""
        asked = "SELECT DISTINCT opened FROM episodes WHERE state <> ? ORDER BY number"
        with self._checked():
            rows = self._file.execute(asked, (ENDS,)).fetchall()
            found = [msgspec.json.decode(opened, type=Notice) for (opened,) in rows]
        return [each for each in found if each.kind == INCIDENT]

    def _take(self, notice: Notice) -> None:
        if not notice.is_open:
            self._end(notice.key, msgspec.json.encode(notice))
            return
        for receiver in self._receivers:
            self._file.execute(
                "INSERT OR IGNORE INTO episodes (receiver, key, state, opened) VALUES (?, ?, ?, ?)",
                (receiver, notice.key, WAITS, msgspec.json.encode(notice)),
            )

    def _end(self, key: str, closed: bytes | None) -> None:
        """Let an episode be over: nobody hears of one whose beginning was not sent."""
        self._file.execute("DELETE FROM episodes WHERE key = ? AND state = ?", (key, WAITS))
        self._file.execute(
            "UPDATE episodes SET state = ?, closed = ? WHERE key = ? AND state IN (?, ?)",
            (ENDS, closed, key, TRIED, SENT),
        )

    # ---- what is sent ----

    def due(self, receiver: str, most: int) -> dict[int, Event]:
        """Return what is yet to be sent to a receiver, the oldest first, by number."""
        return self._events(
            "receiver = ? AND state IN (?, ?, ?)",
            (receiver, WAITS, TRIED, ENDS),
            f"LIMIT {most}",
        )

    def going_on(self, receiver: str) -> list[Event]:
        """Return what was sent to a receiver and is not over."""
        return list(self._events("receiver = ? AND state = ?", (receiver, SENT)).values())

    def _events(self, where: str, values: tuple[str, ...], limit: str = "") -> dict[int, Event]:
        asked = f"SELECT number, state, opened, closed FROM episodes WHERE {where} ORDER BY number"
        found = {}
        with self._checked():
            for number, state, opened, closed in self._file.execute(f"{asked} {limit}", values):
                last = None if closed is None else msgspec.json.decode(closed, type=Notice)
                first = msgspec.json.decode(opened, type=Notice)
                found[number] = Event(first, last, state == ENDS)
        return found

    def trying(self, numbers: Iterable[int]) -> None:
        """Note that these are about to be sent."""
        with self._transaction():
            self._change(numbers, TRIED)

    def failed(self, numbers: Iterable[int]) -> None:
        """Note that these were not sent."""
        with self._transaction():
            self._change(numbers, WAITS)

    def sent(self, numbers: Collection[int]) -> None:
        """Note that these were sent: an end is forgotten."""
        with self._transaction():
            ended = [(number, ENDS) for number in numbers]
            self._file.executemany("DELETE FROM episodes WHERE number = ? AND state = ?", ended)
            self._change(numbers, SENT)

    def _change(self, numbers: Iterable[int], state: str) -> None:
        """Put beginnings that were not sent for certain into a state."""
        self._file.executemany(
            "UPDATE episodes SET state = ? WHERE number = ? AND state IN (?, ?)",
            [(state, number, WAITS, TRIED) for number in numbers],
        )

    # ---- the file ----

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._checked(), transaction(self._file):
            yield

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if str(error) != "database is locked":
                raise DataError(self._path, f"cannot be used: {error}") from error
            allowed = "a file that no other process uses: another notify does"
            raise ConfigError("--state", self._path, allowed) from error
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            raise DataError(self._path, f"cannot be used: {error}") from error
