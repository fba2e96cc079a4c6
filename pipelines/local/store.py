"""What a local job keeps on disk: its models, and the bundles that ran since these were written.

A bundle is a range of offsets of each partition. Its outputs and its number go to Kafka in one
transaction; before that it is written down here, with what its results depend on beside the
messages: the time at which it ran. So a job that was killed reads its last models, runs the bundles
since then again without output, up to the one that Kafka has, and is where it was, bit for bit.
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
VERSION = 1

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
    """What a job had come to when its models were written last.

    Attributes:
        number: The last bundle that they have seen.
        offsets: The next messages.
    """

    number: int
    offsets: Offsets


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
            self._file = sqlite3.connect(self.path, isolation_level=None)
            self._file.execute("PRAGMA journal_mode = WAL")
            # A bundle is on the disk before Kafka is told that it ran.
            self._file.execute("PRAGMA synchronous = FULL")
            self._file.execute("CREATE TABLE IF NOT EXISTS job (name TEXT PRIMARY KEY, value TEXT)")
            for table, key in (("models", "id BLOB"), ("bundles", "number INTEGER")):
                self._file.execute(
                    f"CREATE TABLE IF NOT EXISTS {table} ({key} PRIMARY KEY, data BLOB)"
                )
        version = self._value("version")
        if version not in (None, VERSION):
            reason = f"format version {version}: this code reads version {VERSION}"
            raise DataError(self.path, reason)

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

    def models(self) -> Iterator[tuple[str, bytes]]:
        """Yield each model's ID and state."""
        with self._writing():
            for key, data in self._file.execute("SELECT id, data FROM models ORDER BY id"):
                yield key.decode(), data

    def bundles(self) -> list[Bundle]:
        """Return the bundles since the checkpoint, in order.

        Raises:
            DataError: if one of them cannot be read.
        """
        with self._writing():
            rows = self._file.execute("SELECT data FROM bundles ORDER BY number").fetchall()
        try:
            return [msgspec.msgpack.decode(data, type=Bundle) for (data,) in rows]
        except msgspec.MsgspecError as error:
            raise DataError(self.path, f"damaged: a bundle: {error}") from error

    def add(self, bundle: Bundle) -> None:
        """Write a bundle down, before its outputs are committed."""
        data = msgspec.msgpack.encode(bundle)
        with self._writing():
            self._file.execute("INSERT INTO bundles VALUES (?, ?)", (bundle.number, data))

    def forget_after(self, number: int) -> None:
        """Forget bundles whose outputs never came to be committed."""
        with self._writing():
            self._file.execute("DELETE FROM bundles WHERE number > ?", (number,))

    def write(self, models: Iterable[tuple[str, bytes | None]], checkpoint: Checkpoint) -> None:
        """Write models that have changed, and what all of them have seen.

        Args:
            models: Their IDs and states; None: nothing is left of the model.
            checkpoint: What they have seen.
        """
        with self._transaction():
            for key, data in models:
                if data is None:
                    self._file.execute("DELETE FROM models WHERE id = ?", (key.encode(),))
                else:
                    row = (key.encode(), data)
                    self._file.execute("INSERT OR REPLACE INTO models VALUES (?, ?)", row)
            self._put("checkpoint", [checkpoint.number, _as_text(checkpoint.offsets)])
            self._file.execute("DELETE FROM bundles WHERE number <= ?", (checkpoint.number,))

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
