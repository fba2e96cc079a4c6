"""What a local job keeps on disk: its models, and the bundles that ran since these were written.

A bundle is a range of offsets of each partition. Its outputs and its number go to Kafka in one
transaction; before that it is written down here, with what its results depend on beside the
messages: the time at which it ran. So a job that was killed reads its last models, runs the bundles
since then again without output, up to the one that Kafka has, and is where it was, bit for bit.

Models are written a few at a time, or all others would wait. Each bears the number of the last
bundle that it has seen, so that it takes no part in those before. What the job has come to is the
last bundle that all models here have seen, or did not change in.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kerneltrack.errors import DataError
from pipelines.transactions import transaction

FILE = "state.sqlite3"
VERSION = 3

Offsets = dict[str, dict[int, int]]
"""The next offset to read, by topic and partition."""


class Bundle(NamedTuple):
    """Messages that ran together.

    Attributes:
        number: 1 for a job's first.
        now: When it ran, in seconds of this machine's clock.
        start: Where its messages begin, for each partition that it has some of.
        stop: The offset after its last one, of the same partitions.
    """

    number: int
    now: float
    start: Offsets
    stop: Offsets


class Checkpoint(NamedTuple):
    """What a job has come to by what is written of its models.

    Attributes:
        number: The last bundle that all of them have seen.
        offsets: The next messages.
    """

    number: int
    offsets: Offsets


class Saved(NamedTuple):
    """A model as it is written.

    Attributes:
        key: Its ID.
        number: The last bundle that it has seen.
        data: Its state; None if nothing is left of the model.
    """

    key: str
    number: int
    data: bytes | None


class Store:
    """A job's state in a folder.

    Args:
        folder: The folder; one process alone may hold it.

    Raises:
        DataError: if the file there is no store, or one of another version.
    """

    def __init__(self, folder: str) -> None:
        """Open it, and make it if it is not there."""
        self.path = str(Path(folder) / FILE)
        self.folder = folder
        with self._writing():
            # Only one thread at a time uses it.
            self._file = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._file.execute("PRAGMA journal_mode = WAL")
            # A bundle is on the disk before Kafka is told that it ran.
            self._file.execute("PRAGMA synchronous = FULL")
            self._file.execute("CREATE TABLE IF NOT EXISTS job (name TEXT PRIMARY KEY, value TEXT)")
        version = self._value("version")
        if version not in (None, VERSION):
            reason = f"format version {version}: this code reads version {VERSION}"
            raise DataError(self.path, reason)
        with self._writing():
            for table in (
                "TABLE IF NOT EXISTS models (id BLOB PRIMARY KEY, number INTEGER, data BLOB)",
                "TABLE IF NOT EXISTS bundles (number INTEGER PRIMARY KEY, data BLOB)",
                "INDEX IF NOT EXISTS by_number ON models (number)",
                "INDEX IF NOT EXISTS gone ON models (number) WHERE data IS NULL",
            ):
                self._file.execute(f"CREATE {table}")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def holds_job(self) -> bool:
        """Whether a job was begun here."""
        return self._value("checkpoint") is not None

    def begin(self, offsets: Offsets) -> None:
        """Begin a job at these offsets."""
        with self._transaction():
            self._put("version", VERSION)
            self._put("checkpoint", [0, _as_text(offsets)])

    def checkpoint(self) -> Checkpoint:
        """Return what the models here have seen."""
        number, offsets = self._value("checkpoint")
        return Checkpoint(number, _as_numbers(offsets))

    def models(self, after: int, number: int) -> Iterator[Saved]:
        """Yield the models whose last bundle comes after one, and is another or before that."""
        asked = "SELECT * FROM models WHERE number > ? AND number <= ?"
        with self._writing():
            for key, *rest in self._file.execute(asked, (after, number)):
                yield Saved(key.decode(), *rest)

    def ahead(self, number: int) -> set[str]:
        """Return the IDs of the models that have seen more than a bundle."""
        with self._writing():
            found = self._file.execute("SELECT id FROM models WHERE number > ?", (number,))
            return {key.decode() for (key,) in found}

    def bundles(self) -> list[Bundle]:
        """Return the bundles since the checkpoint, in order.

        Raises:
            DataError: if one of them cannot be read.
        """
        with self._writing():
            return self._bundles_up_to(None)

    def _bundles_up_to(self, number: int | None) -> list[Bundle]:
        found = self._file.execute(
            "SELECT data FROM bundles WHERE ?1 IS NULL OR number <= ?1 ORDER BY number", (number,)
        )
        try:
            return [msgspec.msgpack.decode(data, type=Bundle) for (data,) in found.fetchall()]
        except msgspec.MsgspecError as error:
            raise DataError(self.path, f"damaged: a bundle: {error}") from error

    def forget_after(self, number: int) -> None:
        """Forget bundles whose outputs never came to be committed."""
        with self._writing():
            self._file.execute("DELETE FROM bundles WHERE number > ?", (number,))

    def write(self, models: Iterable[Saved], seen: int, bundle: Bundle | None = None) -> None:
        """Write models that have changed, and a bundle before its outputs are committed.

        Args:
            models: The models. The outputs of all bundles that they have seen are committed.
            seen: The last bundle that all models have seen, these included.
            bundle: The bundle.
        """
        with self._transaction():
            rows = [(key.encode(), number, data) for key, number, data in models]
            self._file.executemany("INSERT OR REPLACE INTO models VALUES (?, ?, ?)", rows)
            self._move_checkpoint(seen)
            if bundle is not None:
                data = msgspec.msgpack.encode(bundle)
                self._file.execute("INSERT INTO bundles VALUES (?, ?)", (bundle.number, data))

    def _move_checkpoint(self, number: int) -> None:
        """Let the job have come to a bundle, and forget those up to it."""
        done = self._bundles_up_to(number)
        if not done:
            return
        offsets = self.checkpoint().offsets
        for bundle in done:
            for topic, own in bundle.stop.items():
                offsets.setdefault(topic, {}).update(own)
        self._put("checkpoint", [number, _as_text(offsets)])
        self._file.execute("DELETE FROM bundles WHERE number <= ?", (number,))
        self._file.execute("DELETE FROM models WHERE data IS NULL AND number <= ?", (number,))

    def _value(self, name: str) -> Any:
        with self._writing():
            row = self._file.execute("SELECT value FROM job WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def _put(self, name: str, value: Any) -> None:
        row = (name, json.dumps(value))
        self._file.execute("INSERT OR REPLACE INTO job VALUES (?, ?)", row)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._writing(), transaction(self._file):
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise DataError(self.path, f"cannot be read or written: {error}") from error


def _as_text(offsets: Offsets) -> dict[str, dict[str, int]]:
    return {topic: {str(p): at for p, at in own.items()} for topic, own in offsets.items()}


def _as_numbers(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {topic: {int(p): at for p, at in own.items()} for topic, own in offsets.items()}
