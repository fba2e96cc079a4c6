"""A transaction of an SQLite file that is open in autocommit mode."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def transaction(file: sqlite3.Connection) -> Iterator[None]:
    """Run what is within as one transaction: all of it is kept, or on an error nothing.

    Raises:
        sqlite3.Error: if the file cannot be read or written.
    """
    file.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        file.execute("ROLLBACK")
        raise
    file.execute("COMMIT")
